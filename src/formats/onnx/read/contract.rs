//! Products of matrices, and sums of products.

use crate::dtype::DType;
use crate::error::Result;
use crate::linalg;
use crate::ops::contract;
use crate::tensor::Tensor;

use super::call::{Call, Outputs, fail, one};
use super::checks::{alike, float};
use super::elementwise::wrapped;
use super::table::{Operator, microsoft, op};

pub(super) const OPERATORS: &[Operator] = &[
    op("Det", 11, det),
    op("Einsum", 12, einsum),
    op("Gemm", 7, gemm),
    op("MatMul", 1, |call| one(product(call, call.number(0)?, call.number(1)?)?)),
    microsoft("FusedMatMul", fused),
];

fn det(call: &Call<'_>) -> Outputs {
    let matrices = float(call.number(0)?)?;
    let shape = matrices.shape();
    match shape[..] {
        [.., rows, columns] if rows == columns => one(linalg::det(&matrices)),
        _ => fail(format!("{shape} is not square")),
    }
}

/// The matrix product, with leading axes that broadcast.
pub(super) fn product(call: &Call<'_>, a: Tensor, b: Tensor) -> Result<Tensor> {
    let (a, b) = alike(a, b)?;
    let product = contract::matmul("matmul", a.shape(), b.shape())?;
    let shape = contract::shape(&product.contract, &product.lhs, &product.rhs)?;
    call.shape(&shape)?;
    Ok(a.matmul(&b))
}

fn gemm(call: &Call<'_>) -> Outputs {
    let (a, b) = alike(call.number(0)?, call.number(1)?)?;
    if a.rank() != 2 || b.rank() != 2 {
        return fail(format!("{} x {}, not two matrices", a.shape(), b.shape()));
    }
    let (alpha, beta) = (call.number_attribute("alpha", 1.0)?, call.number_attribute("beta", 1.0)?);
    let a = if call.flag("transA")? { a.t() } else { a };
    let turned = call.flag("transB")?;
    let c = match call.optional_tensor(2)? {
        Some(c) => Some(alike(c, a.clone())?.0),
        None => None,
    };
    // what PyTorch's linear layers become
    if let (true, Some(bias)) = (turned && (alpha, beta) == (1.0, 1.0) && a.dtype().is_float(), &c)
        && a.shape()[1] == b.shape()[1]
        && *bias.shape() == [b.shape()[0]].into()
        && bias.dtype() == a.dtype()
    {
        call.shape(&[a.shape()[0], b.shape()[0]])?;
        return one(a.linear(&b, Some(bias)));
    }
    let product = product(call, a, if turned { b.t() } else { b })?;
    let scaled = |x: Tensor, factor: f64| {
        if factor == 1.0 { x } else { (&x * factor).to_dtype(x.dtype()) }
    };
    let product = scaled(product, alpha);
    let Some(c) = c else { return one(product) };
    let (product, c) = call.pair(product, scaled(c, beta))?;
    if call.broadcast(&[product.shape(), c.shape()])? != *product.shape() {
        return fail(format!("C {} does not broadcast to {}", c.shape(), product.shape()));
    }
    one(product + c)
}

fn einsum(call: &Call<'_>) -> Outputs {
    let equation = call.text("equation", "")?;
    let count = call.values()?.len();
    let mut operands = (0..count).map(|number| call.number(number)).collect::<Result<Vec<_>>>()?;
    let dtype = operands[0].dtype();
    if operands.iter().any(|operand| operand.dtype() != dtype) {
        if !operands.iter().all(|operand| operand.dtype().is_float()) {
            return fail("its operands are of several types");
        }
        operands = operands.iter().map(|operand| operand.to_dtype(DType::F32)).collect();
    }
    let operands: Vec<&Tensor> = operands.iter().collect();
    let sum = Tensor::einsum_within(&equation, &operands, |shape| call.shape(shape).map(drop))?;
    one(wrapped(call, sum)?)
}

fn fused(call: &Call<'_>) -> Outputs {
    let turn = |x: Tensor, name: &str| -> Result<Tensor> {
        Ok(if call.flag(name)? && x.rank() >= 2 { x.transpose(-2, -1) } else { x })
    };
    if call.flag("transBatchA")? || call.flag("transBatchB")? {
        return fail("leading axes that are moved are not known here");
    }
    let (a, b) = (turn(call.number(0)?, "transA")?, turn(call.number(1)?, "transB")?);
    one(product(call, a, b)? * call.number_attribute("alpha", 1.0)?)
}
