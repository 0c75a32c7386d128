//! Products with Jacobians and Hessians, and these matrices themselves for small functions.

use std::collections::HashSet;

use crate::tensor::Tensor;

use super::{assert_float, grad, in_order, numbers, walk};

/// The product of vectors and the Jacobian: the gradients by `inputs` of `Σ output · cotangent` over all outputs, as
/// `torch.autograd.grad(outputs, inputs, grad_outputs)`. Each cotangent has its output's shape and type.
///
/// # Panics
///
/// If an output or input is not a float, or a cotangent does not fit.
#[track_caller]
#[must_use]
pub fn vjp(outputs: &[&Tensor], cotangents: &[&Tensor], inputs: &[&Tensor]) -> Vec<Tensor> {
    assert_pairs("vjp", "output", outputs, "cotangent", cotangents);
    for input in inputs {
        assert_float(input);
    }
    let pairs: Vec<_> =
        outputs.iter().zip(cotangents).map(|(&output, &start)| (output.clone(), start.clone())).collect();
    in_order(inputs, &walk(&pairs, &numbers(inputs), &HashSet::new()))
}

/// The product of the Jacobian and vectors: how each output changes when the inputs move along `tangents`, which have
/// their shapes and types.
///
/// There are no forward rules: the vector-Jacobian product is linear in its cotangent, and its own product with the
/// tangents is the result. That is two walks of the graph; what depends on the cotangent alone is dropped when
/// planning.
///
/// # Panics
///
/// If an output or input is not a float, or a tangent does not fit.
#[track_caller]
#[must_use]
pub fn jvp(outputs: &[&Tensor], inputs: &[&Tensor], tangents: &[&Tensor]) -> Vec<Tensor> {
    assert_pairs("jvp", "input", inputs, "tangent", tangents);
    // any value would do but 0, where `0 ln y` is 0 for an infinite logarithm; detached, so that it is a node of its own
    // and no constant that rules simplify away
    let cotangents: Vec<Tensor> = outputs.iter().map(|output| output.ones_like().detach()).collect();
    let cotangents: Vec<&Tensor> = cotangents.iter().collect();
    let pulled = vjp(outputs, &cotangents, inputs);
    match inner(&pulled, tangents) {
        Some(product) => grad(&product, &cotangents),
        None => outputs.iter().map(|output| output.zeros_like()).collect(),
    }
}

/// The product of the Hessian of `output` (its sum, if it has several elements) and vectors, which have the inputs'
/// shapes: the gradient of the gradient's product with them.
///
/// # Panics
///
/// If the output or an input is not a float, or a vector does not fit.
#[track_caller]
#[must_use]
pub fn hessian_vector_product(output: &Tensor, inputs: &[&Tensor], vectors: &[&Tensor]) -> Vec<Tensor> {
    assert_pairs("hessian_vector_product", "input", inputs, "vector", vectors);
    match inner(&grad(output, inputs), vectors) {
        Some(product) => grad(&product, inputs),
        None => Vec::new(),
    }
}

/// All derivatives of `output`'s elements by `input`'s: `[output..., input...]`. One walk per element of the output:
/// for small functions.
///
/// # Panics
///
/// If the output or input is not a float.
#[track_caller]
#[must_use]
pub fn jacobian(output: &Tensor, input: &Tensor) -> Tensor {
    assert_float(output);
    assert_float(input);
    let shape = [output.shape().dims(), input.shape().dims()].concat();
    let row = |element: usize| {
        let position = Tensor::arange(output.numel(), output.device());
        let chosen = position.eq(element as i64).to_dtype(output.dtype()).reshape(output.shape());
        vjp(&[output], &[&chosen], &[input]).remove(0)
    };
    let rows: Vec<Tensor> = (0..output.numel()).map(row).collect();
    if rows.is_empty() {
        return Tensor::zeros_of(shape, input.dtype(), input.device());
    }
    Tensor::stack(&rows.iter().collect::<Vec<_>>(), 0).reshape(shape)
}

/// All second derivatives of `output` (of its sum, if it has several elements) by `input`: `[input..., input...]`. One
/// walk per element of the input: for small functions.
///
/// # Panics
///
/// If the output or input is not a float.
#[track_caller]
#[must_use]
pub fn hessian(output: &Tensor, input: &Tensor) -> Tensor {
    jacobian(&grad(output, &[input]).remove(0), input)
}

/// The sum of all products; `None` of nothing.
#[track_caller]
fn inner(left: &[Tensor], right: &[&Tensor]) -> Option<Tensor> {
    left.iter().zip(right).map(|(a, &b)| (a * b).sum()).reduce(|a, b| a + b)
}

#[track_caller]
fn assert_pairs(name: &str, one: &str, tensors: &[&Tensor], other: &str, partners: &[&Tensor]) {
    let (count, partner_count) = (tensors.len(), partners.len());
    assert!(count == partner_count, "{name}: {count} {one}s and {partner_count} {other}s");
    for (tensor, partner) in tensors.iter().zip(partners) {
        assert_float(tensor);
        assert!(
            tensor.shape() == partner.shape() && tensor.dtype() == partner.dtype(),
            "{name}: the {other} {} {} is for an {one} {} {}",
            partner.dtype(),
            partner.shape(),
            tensor.dtype(),
            tensor.shape()
        );
    }
}
