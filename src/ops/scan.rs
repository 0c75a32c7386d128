//! Cumulative reductions.

use crate::dtype::DType;
use crate::graph::{NodeRef, Op, ReduceOp};
use crate::shape::Shape;
use crate::tensor::Tensor;

use super::elementwise::binary_value;

/// An [`Op::Scan`], and how its elements lie in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Scan {
    /// What elements are joined by.
    pub op: ReduceOp,
    /// Their type: f32, i32 or u32. Kernels write words.
    pub dtype: DType,
    /// Elements of a row.
    pub length: usize,
    /// How far apart they are, and how many rows lie side by side.
    pub inner: usize,
    /// Elements of a block; the last one of a row may have fewer.
    pub block: usize,
    /// True for results of each element and those behind it.
    pub reverse: bool,
}

impl Scan {
    /// The op of a node of this shape; other ops are none.
    pub(crate) fn of(op: &Op, dtype: DType, shape: &Shape) -> Option<Self> {
        let &Op::Scan { op, axis, block, reverse } = op else { return None };
        debug_assert!(matches!(dtype, DType::F32 | DType::I32 | DType::U32), "a scan of {dtype}");
        let (length, inner) = (shape[axis], shape.dims()[axis + 1..].iter().product());
        Some(Self { op, dtype, length, inner, block: block.min(length), reverse })
    }

    /// Blocks of a row.
    pub(crate) fn blocks(&self) -> usize {
        self.length.div_ceil(self.block.max(1))
    }
}

/// What values, and maybe what each block begins with, come to.
pub(crate) fn reference(scan: &Scan, inputs: &[&[f64]]) -> Vec<f64> {
    let &Scan { op, dtype, length, inner, block, reverse } = scan;
    let (blocks, nothing) = (scan.blocks(), op.identity(dtype).to_f64());
    let mut results = inputs[0].to_vec();
    for row in 0..results.len() / length.max(1) {
        let (outer, column) = (row / inner, row % inner);
        for number in 0..blocks {
            let mut so_far = inputs.get(1).map_or(nothing, |first| first[(outer * blocks + number) * inner + column]);
            let (start, end) = (number * block, length.min((number + 1) * block));
            for step in 0..end - start {
                let place = if reverse { end - 1 - step } else { start + step };
                let element = &mut results[(outer * length + place) * inner + column];
                so_far = binary_value(op.join(), dtype, so_far, *element);
                *element = so_far;
            }
        }
    }
    results
}

/// That of a sum: each element is in those of its own place and of all behind it.
pub(crate) fn gradient(node: &NodeRef, gradient: &Tensor) -> Tensor {
    let Op::Scan { op: ReduceOp::Sum, axis, block, reverse } = node.op else {
        unreachable!("extrema are traced without gradient, below a rule of their own")
    };
    let op = Op::Scan { op: ReduceOp::Sum, axis, block, reverse: !reverse };
    Tensor::apply(op, &[gradient], node.shape.clone(), node.dtype)
}
