//! Products of plain matrices, by the `gemm` crate.
//!
//! A plain operand lies in memory as it is multiplied: one load, of f32, without conditions, at one stride along its own
//! axes and one along the summed ones. It needs no packing through an index map, and the crate is faster at the rest,
//! most of all for thin matrices. Blocks and their order stay ours and depend on shapes alone; the crate multiplies one
//! block on the calling thread.
#![expect(unsafe_code, reason = "the crate takes pointers")]

use std::ops::Range;

use gemm_common::Parallelism;
use gemm_f32::gemm::f32::get_gemm_fn;

use crate::dtype::DType;
use crate::plan::{BufferId, ContractKernel, InstrOp, Tape, ValueId};

use super::pack::Groups;
use super::view::View;
use super::words::Words;

/// Summed points of one call. The crate takes this many together for every size of cache, so that a sum's order does not
/// depend on what it finds out about the machine.
const DEPTH: usize = 512;
/// Sums that the crate has of each product of two vectors that lie along k: 8 registers of at least 4 lanes.
const LANES: usize = 32;
/// Rows that are multiplied one by one: the crate reads a matrix for one vector without packing it, but not for two.
const FEW: usize = 2;

/// An operand that lies in memory as it is multiplied.
#[derive(Debug)]
pub(super) struct Matrix {
    buffer: BufferId,
    /// The element at the first point.
    offset: i64,
    /// Size and stride of each batch axis.
    batch: Vec<(usize, i64)>,
    /// Elements between neighbours of its own group (m or n).
    own: i64,
    /// Elements between neighbours of k.
    summed: i64,
}

/// The stride of the axes `group` taken as one, of any number for a single point; `None` if they have none.
fn one_stride(axes: &[usize], strides: &[i64], group: &[usize]) -> Option<i64> {
    let mut walked = group.iter().rev().filter(|&&axis| axes[axis] != 1);
    let Some(&last) = walked.next() else { return Some(1) };
    let mut next = strides[last] * axes[last] as i64;
    for &axis in walked {
        if strides[axis] != next {
            return None;
        }
        next *= axes[axis] as i64;
    }
    Some(strides[last])
}

impl Matrix {
    /// `operand` as a matrix; `None` if it is not plain.
    pub(super) fn new(
        axes: &[usize],
        groups: &Groups<'_>,
        (tape, value): (&Tape, ValueId),
        dtypes: &[DType],
    ) -> Option<Self> {
        let [instr] = tape.instrs.as_slice() else { return None };
        let InstrOp::Load { buffer, ref index, ref valid } = instr.op else { return None };
        debug_assert_eq!(value, 0, "the tape's only value");
        if dtypes[buffer] != DType::F32 || !valid.is_empty() {
            return None;
        }
        let (strides, offset) = index.affine(axes.len())?;
        Some(Self {
            buffer,
            offset,
            batch: groups.batch.iter().map(|&axis| (axes[axis], strides[axis])).collect(),
            own: one_stride(axes, &strides, groups.own)?,
            summed: one_stride(axes, &strides, groups.summed)?,
        })
    }

    /// The number of the element at these points.
    fn at(&self, mut batch: usize, own: usize, summed: usize) -> i64 {
        let mut at = self.offset + self.own * own as i64 + self.summed * summed as i64;
        for &(size, stride) in self.batch.iter().rev() {
            at += stride * (batch % size) as i64;
            batch /= size;
        }
        at
    }
}

/// True if both operands of `kernel` are plain.
pub(super) fn is_plain(kernel: &ContractKernel, dtypes: &[DType]) -> bool {
    let [batch, m, n, k] = [0, 1, 2, 3].map(|number| kernel.group(number).collect::<Vec<usize>>());
    let plain = |own: &[usize], (tape, value): &(Tape, ValueId)| {
        Matrix::new(&kernel.axes, &Groups { batch: &batch, own, summed: &k }, (tape, *value), dtypes).is_some()
    };
    plain(&m, &kernel.lhs) && plain(&n, &kernel.rhs)
}

/// Part of a product: one batch, and ranges of rows, columns and summed points.
pub(super) struct Part {
    pub(super) batch: usize,
    pub(super) rows: Range<usize>,
    pub(super) columns: Range<usize>,
    pub(super) summed: Range<usize>,
}

/// Overwrites `sums`, row-major without gaps, with the product of a part of `lhs` and `rhs`; `spare` is working memory.
///
/// At most [`DEPTH`] terms are added one after the other. A matrix's terms the crate adds up before it adds them to what is
/// there; those of a vector it adds to what is there, so that each part needs a place of its own.
pub(super) fn multiply(views: &[View], operands: (&Matrix, &Matrix), part: &Part, sums: &mut [u32], spare: &mut Words) {
    let (lhs, rhs) = operands;
    let (rows, columns, k) = (part.rows.len(), part.columns.len(), part.summed.len());
    assert_eq!(sums.len(), rows * columns, "sums of {rows} x {columns}");
    if k == 0 {
        sums.fill(0);
        return;
    }
    let by_vector = rows <= FEW && (rhs.own == 1 || (rhs.summed == 1 && lhs.summed == 1));
    let height = if by_vector { 1 } else { rows };
    let is_vector = height == 1 || columns == 1;
    let most = if is_vector && lhs.summed == 1 && rhs.summed == 1 { LANES * DEPTH } else { DEPTH };
    let depth = k.div_ceil(k.div_ceil(most));
    for start in part.summed.clone().step_by(depth) {
        let summed = start..part.summed.end.min(start + depth);
        for (row, sums) in part.rows.clone().step_by(height).zip(sums.chunks_exact_mut(height * columns)) {
            let block =
                Part { rows: row..row + height, columns: part.columns.clone(), summed: summed.clone(), ..*part };
            if start == part.summed.start {
                multiply_block(views, operands, &block, sums, false);
            } else if is_vector {
                spare.reserve(height * columns);
                let spare = &mut spare[..height * columns];
                multiply_block(views, operands, &block, spare, false);
                for (sum, &more) in sums.iter_mut().zip(&*spare) {
                    *sum = (f32::from_bits(*sum) + f32::from_bits(more)).to_bits();
                }
            } else {
                multiply_block(views, operands, &block, sums, true);
            }
        }
    }
}

/// `result = lhs · rhs` of row-major `side` x `side` matrices by the crate alone, on all threads: what our own products are held
/// against.
pub(crate) fn by_the_crate_alone(side: usize, lhs: &[f32], rhs: &[f32], result: &mut [f32]) {
    for matrix in [lhs, rhs, &*result] {
        assert_eq!(matrix.len(), side * side, "a matrix of {side} x {side}");
    }
    let stride = side as isize;
    // Transposed, as below.
    // SAFETY: all three have side x side elements; without `read_dst` the result is only written.
    unsafe {
        get_gemm_fn()(
            side,
            side,
            side,
            result.as_mut_ptr(),
            stride,
            1,
            false,
            rhs.as_ptr(),
            stride,
            1,
            lhs.as_ptr(),
            stride,
            1,
            0.0,
            1.0,
            false,
            false,
            false,
            Parallelism::Rayon(0),
        );
    }
}

/// The crate's product of a part of `lhs` and `rhs`, added to `sums` if `adds`, else overwriting them.
fn multiply_block(views: &[View], (lhs, rhs): (&Matrix, &Matrix), part: &Part, sums: &mut [u32], adds: bool) {
    let (rows, columns, depth) = (part.rows.len(), part.columns.len(), part.summed.len());
    assert_eq!(sums.len(), rows * columns, "sums of {rows} x {columns}");
    let l = lhs.at(part.batch, part.rows.start, part.summed.start);
    let r = rhs.at(part.batch, part.columns.start, part.summed.start);
    let l = views[lhs.buffer].matrix::<f32>(l, [(lhs.own, rows), (lhs.summed, depth)]);
    let r = views[rhs.buffer].matrix::<f32>(r, [(rhs.own, columns), (rhs.summed, depth)]);
    // The crate wants results next to each other in a column, so the product is computed transposed.
    // SAFETY: both matrices were checked to lie in their buffers, which no kernel writes at the same time, and `sums` has
    // columns x rows elements; without `read_dst` they are only written.
    unsafe {
        get_gemm_fn()(
            columns,
            rows,
            depth,
            sums.as_mut_ptr().cast::<f32>(),
            columns as isize,
            1,
            adds,
            r,
            rhs.summed as isize,
            rhs.own as isize,
            l,
            lhs.own as isize,
            lhs.summed as isize,
            if adds { 1.0 } else { 0.0 },
            1.0,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}
