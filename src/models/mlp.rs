//! Linear layers with ReLU between.

use crate::error::Result;
use crate::nn::{Init, Linear, Module};
use crate::tensor::Tensor;
use crate::variables;

/// Linear layers with ReLU between them, from `[batch, ..]`, which it flattens, to `[batch, classes]`.
///
/// Keys as in PyTorch's `Sequential` of linear layers and ReLUs: `0.weight`, `2.weight` and so on.
#[derive(Debug)]
pub struct Mlp {
    layers: Vec<Linear>,
}

impl Mlp {
    /// Layers between neighbours of `widths`, such as `[64, 128, 64, 10]`.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    pub fn new(widths: &[usize], init: &Init) -> Result<Self> {
        assert!(widths.len() >= 2, "mlp: widths {widths:?} are not at least input and output");
        let layer = |(index, pair): (usize, &[usize])| Linear::new(pair[0], pair[1], &init.at(2 * index));
        Ok(Self { layers: widths.windows(2).enumerate().map(layer).collect::<Result<_>>()? })
    }
}

variables!(Mlp: layers);

impl Module for Mlp {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        let mut value = input.flatten(1, -1);
        for (index, layer) in self.layers.iter().enumerate() {
            value = layer.forward(&if index == 0 { value } else { value.relu() });
        }
        value
    }
}
