//! Functions with gradient rules of their own.

use crate::tensor::Tensor;

/// `function` of `inputs`, whose gradient is what `rule` says instead of what its ops have.
///
/// The rule gets (output, inputs, gradient of the output) and returns the gradient of each input, of its type and
/// shape, or `None` where there is none. Written in tensor methods, it can be differentiated again. It finds other
/// values through its arguments and must not capture tensors: it lives as long as the graph, and dropping what it holds
/// recurses.
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
/// When a gradient is asked for: if the rule returns another number of gradients, or one of another type or shape.
#[track_caller]
#[must_use]
pub fn custom_gradient(
    inputs: &[&Tensor],
    function: impl FnOnce(&[&Tensor]) -> Tensor,
    rule: impl Fn(&Tensor, &[Tensor], &Tensor) -> Vec<Option<Tensor>> + Send + Sync + 'static,
) -> Tensor {
    let output = function(inputs);
    output.with_gradient(inputs, move |output, inputs, gradient| {
        let gradients = rule(output, inputs, gradient);
        check_gradients("custom_gradient", inputs, &gradients);
        gradients
    })
}

/// Panics unless the rule of `what` gave each input nothing, or a gradient of its type and shape.
pub(crate) fn check_gradients(what: &str, inputs: &[Tensor], gradients: &[Option<Tensor>]) {
    let (got, expected) = (gradients.len(), inputs.len());
    assert!(got == expected, "{what}: the rule gives {got} gradients for {expected} inputs");
    for (number, (input, gradient)) in inputs.iter().zip(gradients).enumerate() {
        let Some(gradient) = gradient else { continue };
        let fits = (gradient.dtype(), gradient.shape()) == (input.dtype(), input.shape());
        let of = |tensor: &Tensor| format!("{} {}", tensor.dtype(), tensor.shape());
        assert!(fits, "{what}: the rule gives a gradient {} for input {number}, {}", of(gradient), of(input));
    }
}
