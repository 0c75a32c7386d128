//! Gradients against differences.

use std::collections::HashMap;

use crate::error::Error;
use crate::graph::{NodeRef, reference};
use crate::tensor::Tensor;

use super::vjp;

/// How [`gradcheck`] compares; defaults are those of PyTorch's `gradcheck`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Gradcheck {
    /// How far an input's element is moved to either side.
    pub step: f64,
    /// Difference allowed in any case.
    pub absolute: f64,
    /// Difference allowed as a part of the numerical derivative.
    pub relative: f64,
}

impl Default for Gradcheck {
    fn default() -> Self {
        Self { step: 1e-6, absolute: 1e-5, relative: 1e-3 }
    }
}

/// Why a [`gradcheck`] failed.
#[derive(Debug, thiserror::Error)]
pub enum GradcheckError {
    /// A derivative is not that of the function.
    #[error(
        "the derivative of output element {output} by element {element} of input {input} is {analytical}, \
         but differences say {numerical}"
    )]
    Differs {
        /// Element of the output.
        output: usize,
        /// Number of the input.
        input: usize,
        /// Element of that input.
        element: usize,
        /// What the gradient rules give.
        analytical: f64,
        /// What central differences give.
        numerical: f64,
    },
    /// An input's value could not be read.
    #[error(transparent)]
    Device(#[from] Error),
}

/// Compares all first derivatives of `function` at `inputs` with central differences, both in f64 on the host, whatever
/// the inputs' types: graphs are evaluated by [`graph::reference`](crate::graph::reference). Inputs that are not floats
/// are kept as they are.
///
/// It takes two evaluations for each element of the inputs and one for each of the output. Gradients of gradients are
/// checked by a function that returns a gradient:
///
/// ```
/// use brasa::autodiff::{Gradcheck, grad, gradcheck};
/// use brasa::{Device, Tensor};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let x = Tensor::from_slice(&[0.5_f32, -1.0, 2.0], [3], &Device::cpu())?;
/// let function = |x: &[Tensor]| x[0].tanh() * x[0].exp();
/// gradcheck(function, &[x.clone()], &Gradcheck::default())?;
/// gradcheck(|x| grad(&function(x), &[&x[0]]).remove(0), &[x], &Gradcheck::default())?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// At the first derivative that differs, or if an input cannot be read.
#[track_caller]
pub fn gradcheck(
    function: impl Fn(&[Tensor]) -> Tensor,
    inputs: &[Tensor],
    options: &Gradcheck,
) -> Result<(), GradcheckError> {
    let output = function(inputs);
    let cotangent = output.zeros_like().detach();
    let floats: Vec<usize> = (0..inputs.len()).filter(|&number| inputs[number].dtype().is_float()).collect();
    let wrt: Vec<&Tensor> = floats.iter().map(|&number| &inputs[number]).collect();
    let gradients: Vec<NodeRef> =
        vjp(&[&output], &[&cotangent], &wrt).iter().map(|gradient| gradient.node().clone()).collect();
    let mut values = HashMap::new();
    for input in inputs {
        values.insert(input.node().id, input.to_f64_vec()?);
    }

    // rows of the Jacobian from the graph, columns from differences
    let mut rows = Vec::with_capacity(output.numel());
    for element in 0..output.numel() {
        let mut leaves = values.clone();
        let mut chosen = vec![0.0; output.numel()];
        chosen[element] = 1.0;
        leaves.insert(cotangent.node().id, chosen);
        rows.push(reference::evaluate(&gradients, &leaves));
    }
    for (place, &input) in floats.iter().enumerate() {
        for element in 0..inputs[input].numel() {
            let column = difference(&output, &values, inputs[input].node().id, element, options.step);
            for (output, (row, numerical)) in rows.iter().zip(column).enumerate() {
                let analytical = row[place][element];
                let same = (analytical - numerical).abs() <= options.absolute + options.relative * numerical.abs();
                if !same {
                    return Err(GradcheckError::Differs { output, input, element, analytical, numerical });
                }
            }
        }
    }
    Ok(())
}

/// The central difference of all elements of `output` by one element of an input.
fn difference(output: &Tensor, values: &HashMap<u64, Vec<f64>>, input: u64, element: usize, step: f64) -> Vec<f64> {
    let moved = |by: f64| {
        let mut leaves = values.clone();
        leaves.get_mut(&input).expect("every input has a value")[element] += by;
        reference::evaluate(std::slice::from_ref(output.node()), &leaves).remove(0)
    };
    moved(step).into_iter().zip(moved(-step)).map(|(above, below)| (above - below) / (2.0 * step)).collect()
}
