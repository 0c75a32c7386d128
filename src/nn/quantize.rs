//! Models whose weights are kept in 8 bits.

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::runtime::{Var, rounded_to_codes};

use super::Variables;

/// What [`quantize`] did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Quantized {
    /// Variables that are kept in 8 bits.
    pub variables: usize,
    /// Bytes of all variables of the model before.
    pub bytes_before: u64,
    /// Bytes of all variables of the model now.
    pub bytes: u64,
}

/// Keeps the weights of a trained model in 8 bits ([`Var::quantize`]): all parameters with two axes or more, as products,
/// convolutions and embeddings have them. Biases, and what norms have, stay as they are. For inference in a quarter of
/// the memory; what the model answers changes a little, which `brasa eval --quantize` judges.
///
/// ```
/// use brasa::models::Mlp;
/// use brasa::nn::{Init, Module, quantize};
/// use brasa::{Device, Tensor};
///
/// let device = Device::cpu();
/// let model = Mlp::new(&[64, 128, 10], &Init::new(&device, 1))?;
/// let input = Tensor::randn([1, 64], &device);
/// let before = model.forward(&input).to_vec::<f32>()?;
/// let done = quantize(&model)?;
/// assert!(done.variables == 2 && done.bytes < done.bytes_before / 3);
/// let after = model.forward(&input).to_vec::<f32>()?;
/// assert!(before.iter().zip(after).all(|(before, after)| (before - after).abs() < 0.05));
/// # Ok::<(), brasa::Error>(())
/// ```
///
/// # Errors
/// If the model belongs to an optimizer, has no such parameters, or the device fails.
pub fn quantize<M: Variables + ?Sized>(module: &M) -> Result<Quantized> {
    let mut done = Quantized::default();
    for variable in module.variables() {
        done.bytes_before += variable.shape().bytes(variable.dtype());
    }
    for weight in weights(module) {
        weight.quantize()?;
        done.variables += 1;
    }
    if done.variables == 0 {
        return Err(Error::Config("quantize: the model has no weights with two axes or more".into()));
    }
    done.bytes = module.variables().iter().map(Var::bytes).sum();
    Ok(done)
}

/// Gives the weights the values that [`quantize`] would, and leaves them as they are kept.
///
/// # Errors
/// If the device fails.
pub(crate) fn round_to_codes<M: Variables + ?Sized>(module: &M) -> Result<()> {
    weights(module).iter().try_for_each(|weight| weight.set(&rounded_to_codes(&weight.tensor())?))
}

/// The parameters that are kept in 8 bits.
fn weights<M: Variables + ?Sized>(module: &M) -> Vec<Var> {
    let is_weight = |parameter: &Var| {
        parameter.dtype() == DType::F32 && parameter.shape().rank() >= 2 && parameter.shape().numel() > 0
    };
    module.parameters().into_iter().filter(is_weight).collect()
}
