//! Recurrent layers: steps composed over time in the graph, after one product that projects all inputs.

mod cells;
mod layers;
mod step;

pub use cells::{GRUCell, LSTMCell, RNNCell};
pub use layers::{GRU, LSTM, RNN, RNNReLU, RecurrentOptions};
