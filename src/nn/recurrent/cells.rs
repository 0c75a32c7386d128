//! Single steps as layers of their own.

use crate::error::Result;
use crate::tensor::Tensor;
use crate::variables;

use super::super::module::Scope;
use super::super::{Init, Module};
use super::step::{Kind, Weights};

/// A public cell with one tensor of state.
macro_rules! cells {
    ($($(#[$doc:meta])* $name:ident = $kind:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name(Weights, Scope);

        impl $name {
            /// From `inputs` features to `hidden` ones; all values uniform within 1/√hidden at first.
            ///
            /// # Errors
            /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the
            /// device fails.
            pub fn new(inputs: usize, hidden: usize, init: &Init) -> Result<Self> {
                Ok(Self(Weights::new($kind, inputs, hidden, init)?, Scope::new(stringify!($name), init.path())))
            }

            /// The next hidden state for `input` `[batch, inputs]` and the one now, `[batch, hidden]`.
            #[track_caller]
            pub fn step(&self, input: &Tensor, hidden: &Tensor) -> Tensor {
                let _scope = self.1.enter();
                self.0.check_step(input, &[hidden]);
                self.0.step(&self.0.project(input), std::slice::from_ref(hidden)).remove(0)
            }
        }

        variables!($name: 0);

        impl Module for $name {
            /// The next hidden state from one of zero.
            #[track_caller]
            fn forward(&self, input: &Tensor) -> Tensor {
                let _scope = self.1.enter();
                self.0.check_step(input, &[]);
                let state = self.0.zero_state(input);
                self.0.step(&self.0.project(input), &state).remove(0)
            }
        }
    )*};
}

cells! {
    /// One step of an [`RNN`](super::RNN).
    RNNCell = Kind::Tanh;
    /// One step of a [`GRU`](super::GRU).
    GRUCell = Kind::Gru;
}

/// One step of an [`LSTM`](super::LSTM).
#[derive(Debug)]
pub struct LSTMCell(Weights, Scope);

impl LSTMCell {
    /// From `inputs` features to `hidden` ones; all values uniform within 1/√hidden at first.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    pub fn new(inputs: usize, hidden: usize, init: &Init) -> Result<Self> {
        Ok(Self(Weights::new(Kind::Lstm, inputs, hidden, init)?, Scope::new("LSTMCell", init.path())))
    }

    /// The next (hidden, cell) state for `input` `[batch, inputs]` and the one now, both `[batch, hidden]`.
    #[track_caller]
    pub fn step(&self, input: &Tensor, (hidden, cell): (&Tensor, &Tensor)) -> (Tensor, Tensor) {
        let _scope = self.1.enter();
        self.0.check_step(input, &[hidden, cell]);
        let mut next = self.0.step(&self.0.project(input), &[hidden.clone(), cell.clone()]);
        let cell = next.remove(1);
        (next.remove(0), cell)
    }
}

variables!(LSTMCell: 0);

impl Module for LSTMCell {
    /// The next hidden state from one of zero.
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        let _scope = self.1.enter();
        self.0.check_step(input, &[]);
        let state = self.0.zero_state(input);
        self.0.step(&self.0.project(input), &state).remove(0)
    }
}
