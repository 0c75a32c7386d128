//! Reading: a file becomes a graph of nodes with functions ([`graph`]), which are called in order and trace tensors
//! ([`call`]).

mod activation;
mod attention;
mod call;
mod checks;
mod contract;
mod conv;
mod detection;
mod elementwise;
mod external;
mod generate;
mod graph;
mod host;
mod index;
mod info;
mod loss;
mod model;
mod movement;
mod norm;
mod order;
mod pool;
mod prepared;
mod quantized;
mod recurrent;
mod reduce;
mod requantized;
mod resample;
mod resize;
mod slice;
mod spectral;
mod stored;
mod table;
#[cfg(test)]
mod tests;
mod types;
mod value;

pub use info::{Dimension, TensorInfo};
pub use model::Model;
pub use table::supported_operators;
