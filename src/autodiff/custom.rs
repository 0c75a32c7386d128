//! Functions with gradient rules of their own.

use crate::tensor::Tensor;

/// `function` of `inputs`, whose gradient is what `rule` says instead of what its ops have.
///
/// The rule gets (output, inputs, gradient of the output) and returns the gradient of each input, of its shape, or `None` where
/// there is none. Written in tensor methods, it can be differentiated again. It finds other values through its
/// arguments and must not capture tensors: it lives as long as the graph, and dropping what it holds recurses.
///
/// ```
/// use brasa::autodiff::{custom_gradient, grad};
/// use brasa::{Device, Result, Tensor};
///
/// /// Rounds, as if it did not: the straight-through estimator of quantised networks.
/// fn round_through(x: &Tensor) -> Tensor {
///     custom_gradient(&[x], |x| x[0].round(), |_, _, gradient| vec![Some(gradient.clone())])
/// }
///
/// # fn main() -> Result<()> {
/// let x = Tensor::from_slice(&[0.4_f32, 1.7], [2], &Device::cpu())?;
/// let y = round_through(&x).square().sum();
/// assert_eq!(y.item::<f32>()?, 4.0);
/// assert_eq!(grad(&y, &[&x])[0].to_vec::<f32>()?, [0.0, 4.0]);
/// # Ok(())
/// # }
/// ```
///
/// # Panics
///
/// When a gradient is asked for: if the rule returns another number of gradients, or one of another shape.
#[track_caller]
pub fn custom_gradient(
    inputs: &[&Tensor],
    function: impl FnOnce(&[&Tensor]) -> Tensor,
    rule: impl Fn(&Tensor, &[Tensor], &Tensor) -> Vec<Option<Tensor>> + Send + Sync + 'static,
) -> Tensor {
    let output = function(inputs);
    output.with_gradient(inputs, move |output, inputs, gradient| {
        let gradients = rule(output, inputs, gradient);
        let (got, expected) = (gradients.len(), inputs.len());
        assert!(got == expected, "custom_gradient: the rule gives {got} gradients for {expected} inputs");
        for (gradient, input) in gradients.iter().zip(inputs) {
            if let Some(gradient) = gradient {
                let (got, expected) = (gradient.shape(), input.shape());
                assert!(got == expected, "custom_gradient: the rule gives a gradient {got} for an input {expected}");
            }
        }
        gradients
    })
}
