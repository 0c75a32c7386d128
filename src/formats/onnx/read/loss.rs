//! Losses, which files of training have.

use crate::error::Result;
use crate::tensor::{NLLLoss, Reduction, Tensor};

use super::call::{Call, fail, one};
use super::table::{Operator, op};

pub(super) const OPERATORS: &[Operator] = &[
    op("NegativeLogLikelihoodLoss", 12, |call| one(loss(call, &call.float(0)?)?)),
    op("SoftmaxCrossEntropyLoss", 12, |call| {
        let scores = call.float(0)?;
        if scores.rank() < 2 {
            return fail(format!("{} is not [batch, classes, ..]", scores.shape()));
        }
        let logarithms = scores.log_softmax(1);
        Ok(vec![loss(call, &logarithms)?.into(), logarithms.into()])
    }),
];

/// What logarithms of probabilities `[batch, classes, ..]` lose by the labels of input 1 and the weights of input 2.
fn loss(call: &Call<'_>, logarithms: &Tensor) -> Result<Tensor> {
    let (labels, weight) = (call.index(1)?, call.optional_float(2)?);
    let shape = logarithms.shape();
    if shape.rank() < 2
        || labels.rank() + 1 != shape.rank()
        || labels.shape()[0] != shape[0]
        || labels.shape()[1..] != shape[2..]
    {
        return fail(format!("{shape} with labels {}", labels.shape()));
    }
    if let Some(weight) = weight.as_ref().filter(|weight| *weight.shape() != [shape[1]].into()) {
        return fail(format!("weights {} for {} classes", weight.shape(), shape[1]));
    }
    let reduction = match &call.text("reduction", "mean")?[..] {
        "mean" => Reduction::Mean,
        "sum" => Reduction::Sum,
        "none" => Reduction::None,
        other => return fail(format!("reduction `{other}` is not known")),
    };
    let ignore_index = match call.int_or_none("ignore_index")?.map(i32::try_from) {
        Some(Err(_)) => return fail("its ignore_index does not fit into i32, in which devices compute"),
        ignored => ignored.and_then(Result::ok),
    };
    let weight = weight.map(|weight| weight.to_dtype(logarithms.dtype()));
    Ok(logarithms.nll_loss_with(&labels, &NLLLoss { weight, ignore_index, reduction }))
}
