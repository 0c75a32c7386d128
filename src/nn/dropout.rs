//! Dropout.

use crate::runtime::Var;
use crate::tensor::Tensor;

use super::{Mode, Module};

/// Sets elements to zero at random in [`Mode::Train`] and scales the others up, so that the expected value stays
/// (Srivastava et al. 2014); the identity in [`Mode::Evaluate`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Dropout {
    probability: f64,
}

impl Dropout {
    /// Drops each element with `probability`, at least 0 and below 1.
    pub fn new(probability: f64) -> Self {
        assert!((0.0..1.0).contains(&probability), "dropout: probability {probability} is not in 0..1");
        Self { probability }
    }
}

impl Module for Dropout {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        if Mode::current() == Mode::Evaluate || self.probability == 0.0 {
            return input.clone();
        }
        input.dropout(self.probability)
    }

    fn visit(&self, _: &mut dyn FnMut(&Var)) {}
}
