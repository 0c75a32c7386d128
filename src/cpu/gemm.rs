//! Products of plain matrices, by the `gemm` crate.
//!
//! A plain operand lies in memory as it is multiplied: one load, of f32, without conditions, at one stride along its
//! own axes and one along the summed ones. It needs no packing through an index map, and the crate is faster at the
//! rest, most of all for thin matrices. Blocks stay ours, and the order in which a result is summed depends on shapes
//! alone; the crate multiplies one block on the calling thread.
#![expect(unsafe_code, reason = "the crate takes pointers")]

use std::ops::Range;

use gemm_common::Parallelism;
use gemm_f32::gemm::f32::get_gemm_fn;
use pulp::Arch;

use crate::dtype::DType;
use crate::plan::{BufferId, ContractKernel, InstrOp, Store, Tape, ValueId};

use super::dots::{self, Dots, Lines};
use super::pack::Groups;
use super::program::{LoneLoad, distance};
use super::small::SmallProduct;
use super::view::{Run, View};
use super::words::Words;

/// Summed points of one call, at most. The crate takes up to 512 together for every size of cache, so that a sum's order
/// does not depend on what it finds out about the machine; fewer columns of fewer of them stay in the first-level cache.
const DEPTH: usize = 320;
/// The same of a vector.
const DEPTH_OF_VECTOR: usize = 512;
/// Sums that the crate has of each product of two vectors that lie along k: 8 registers of at least 4 lanes.
const LANES: usize = 32;
/// Rows that are multiplied one by one: the crate reads a matrix for one vector without packing it, but not for two.
pub(super) const FEW: usize = 2;
/// Results of a block for which the crate does not turn its operands over, if both lie along the summed points: it sums
/// them in lanes.
pub(super) const NOT_TURNED: usize = 256;
/// Rows that are turned over together, and so many points of each at a time: where fewer are written next to each other,
/// each cache line of the result is looked up among as many pages as there are points.
pub(super) const TURNED: usize = 64;
/// The same of few elements: a cache line of the result.
pub(super) const LINE: usize = 16;

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
        operand: (&Tape, ValueId),
        dtypes: &[DType],
    ) -> Option<Self> {
        let load = LoneLoad::new(operand, axes.len(), dtypes).filter(|load| load.valid.is_empty())?;
        let LoneLoad { buffer, strides, offset, .. } = load;
        Some(Self {
            buffer,
            offset,
            batch: groups.batch.iter().map(|&axis| (axes[axis], strides[axis])).collect(),
            own: one_stride(axes, &strides, groups.own)?,
            summed: one_stride(axes, &strides, groups.summed)?,
        })
    }

    /// The number of the element at these points.
    fn at(&self, batch: usize, own: usize, summed: usize) -> i64 {
        self.offset + distance(batch, &self.batch) + self.own * own as i64 + self.summed * summed as i64
    }

    /// True if it lies along the summed points, so that the crate turns it over each time it packs it.
    pub(super) fn lies_along_sums(&self) -> bool {
        self.summed == 1 && self.own != 1
    }

    /// True if its own points, or the summed ones, lie next to each other.
    pub(super) fn lies_along(&self, summed: bool) -> bool {
        1 == if summed { self.summed } else { self.own }
    }

    /// So many elements from one on, of a matrix that [`lies along`](Self::lies_along) them.
    pub(super) fn line(&self, views: &[View], (batch, own, summed): (usize, usize, usize), len: usize) -> Run {
        views[self.buffer].run(self.at(batch, own, summed), len)
    }

    /// Where it lies.
    pub(super) fn placed<'a>(&'a self, views: &[View]) -> Placed<'a> {
        Placed { matrix: self, view: views[self.buffer] }
    }

    /// Writes rows `own` of one batch to `target`, of `rows` rows and `summed` summed points, turned over: rows next to
    /// each other.
    pub(super) fn turn(
        &self,
        views: &[View],
        (batch, own): (usize, Range<usize>),
        [rows, summed]: [usize; 2],
        target: View,
    ) {
        debug_assert!(self.lies_along_sums() && own.len() <= TURNED);
        let line = |number: usize| views[self.buffer].run(self.at(batch, number, 0), summed);
        // Where they belong at once: a line of words put together elsewhere would have to wait before it could be copied.
        let turned = |point: usize, first: usize, count: usize| {
            target.run_mut(((batch * summed + point) * rows + first) as i64, count)
        };
        if own.len() * summed <= TURNED * TURNED {
            for first in own.clone().step_by(LINE) {
                // lines behind the last one repeat it
                let lines: [Run; LINE] = std::array::from_fn(|number| line((first + number).min(own.end - 1)));
                for point in 0..summed {
                    let mut turned = turned(point, first, LINE.min(own.end - first));
                    turned.words_mut().iter_mut().zip(&lines).for_each(|(word, line)| *word = line.words()[point]);
                }
            }
            return;
        }
        // Lines that begin a multiple of pages apart drive each other out of the cache before they are read to the end.
        let mut square = [[0; TURNED]; TURNED];
        for start in (0..summed).step_by(TURNED) {
            let points = TURNED.min(summed - start);
            for (words, number) in square.iter_mut().zip(own.clone()) {
                words[..points].copy_from_slice(&line(number).words()[start..start + points]);
            }
            for point in 0..points {
                let mut turned = turned(start + point, own.start, own.len());
                turned.words_mut().iter_mut().zip(&square).for_each(|(word, words)| *word = words[point]);
            }
        }
    }

    /// How many of so many batches are different ones: one if all are the same.
    pub(super) fn distinct(&self, batches: usize) -> usize {
        if self.batch.iter().all(|&(size, stride)| size == 1 || stride == 0) { batches.min(1) } else { batches }
    }

    /// What [`Matrix::turn`] makes of it.
    pub(super) fn turned(&self, batches: usize, [rows, summed]: [usize; 2]) -> Self {
        let stride = if self.distinct(batches) == batches { rows * summed } else { 0 };
        let batch = vec![(batches, stride as i64)];
        // it lies in no buffer of the plan
        Self { buffer: BufferId::MAX, offset: 0, batch, own: 1, summed: rows as i64 }
    }
}

/// A matrix and the memory that it lies in.
#[derive(Clone, Copy)]
pub(super) struct Placed<'a> {
    pub(super) matrix: &'a Matrix,
    pub(super) view: View,
}

/// A result that is stored as it is summed: rows at one stride, each without gaps.
#[derive(Debug)]
pub(super) struct Target {
    matrix: Matrix,
}

impl Target {
    /// Where the only store of `kernel` puts its sums, if it has no other epilogue and the crate can write there.
    ///
    /// A product of more than one row, column and term cannot lie where its operands do: each element of these belongs
    /// to several results.
    pub(super) fn new(kernel: &ContractKernel, m: &Groups<'_>, n: &Groups<'_>, dtypes: &[DType]) -> Option<Self> {
        let axes = &kernel.axes;
        let ([Store { buffer, index, .. }], [instr]) = (kernel.stores.as_slice(), kernel.epilogue.instrs.as_slice())
        else {
            return None;
        };
        let several = |group: &[usize]| group.iter().any(|&axis| axes[axis] > 1);
        let shared = several(m.own) && several(n.own) && several(m.summed);
        if !matches!(instr.op, InstrOp::Accumulator) || dtypes[*buffer] != DType::F32 || !shared {
            return None;
        }
        let (strides, offset) = index.affine(axes.len())?;
        let batch = m.batch.iter().map(|&axis| (axes[axis], strides[axis])).collect();
        let (own, along) = (one_stride(axes, &strides, m.own)?, one_stride(axes, &strides, n.own)?);
        let matrix = Matrix { buffer: *buffer, offset, batch, own, summed: along };
        (along == 1).then_some(Self { matrix })
    }
}

/// Part of a product: one batch, and ranges of rows, columns and summed points.
#[derive(Clone)]
pub(super) struct Part {
    /// True if its results are [`Dots`].
    pub(super) by_dots: bool,
    pub(super) batch: usize,
    pub(super) rows: Range<usize>,
    pub(super) columns: Range<usize>,
    pub(super) summed: Range<usize>,
}

/// Summed points of one call.
fn most_terms(arch: Arch, part: &Part) -> usize {
    if part.by_dots { dots::depth(arch) } else { DEPTH }
}

/// Overwrites `sums`, row-major at this pitch, with the product of a part of `lhs` and `rhs`; `spare` is working memory.
///
/// At most as many terms as [`most_terms`] says are added one after the other. A matrix's terms the crate adds up before
/// it adds them to what is there; those of a vector it adds to what is there, so that each part needs a place of its own.
pub(super) fn multiply(
    arch: Arch,
    operands: (Placed<'_>, Placed<'_>),
    part: &Part,
    (sums, pitch): (&mut [u32], usize),
    spare: &mut Words,
) {
    let (lhs, rhs) = (operands.0.matrix, operands.1.matrix);
    let (rows, columns, k) = (part.rows.len(), part.columns.len(), part.summed.len());
    assert!(columns <= pitch && sums.len() == rows * pitch, "sums of {rows} x {columns}");
    if k == 0 {
        sums.fill(0);
        return;
    }
    let by_vector = !part.by_dots && rows <= FEW && (rhs.own == 1 || (rhs.summed == 1 && lhs.summed == 1));
    let height = if by_vector { 1 } else { rows };
    let is_vector = !part.by_dots && (height == 1 || columns == 1);
    let are_lanes = is_vector && lhs.summed == 1 && rhs.summed == 1;
    let most = match (are_lanes, is_vector) {
        (true, _) => LANES * DEPTH_OF_VECTOR,
        (false, true) => DEPTH_OF_VECTOR,
        (false, false) => most_terms(arch, part),
    };
    let depth = k.div_ceil(k.div_ceil(most));
    for start in part.summed.clone().step_by(depth) {
        let summed = start..part.summed.end.min(start + depth);
        for (row, sums) in part.rows.clone().step_by(height).zip(sums.chunks_exact_mut(height * pitch)) {
            let block =
                Part { rows: row..row + height, columns: part.columns.clone(), summed: summed.clone(), ..*part };
            let into = |sums: &mut [u32], adds: bool| {
                assert_eq!(sums.len(), height * pitch, "sums of {height} x {columns}");
                let target = (sums.as_mut_ptr().cast::<f32>(), pitch as isize);
                // SAFETY: `sums` has as many elements and more in each of its rows, and nobody else has them.
                unsafe { multiply_block(arch, operands, &block, target, adds) };
            };
            if start == part.summed.start {
                into(sums, false);
            } else if is_vector {
                spare.reserve(height * pitch);
                let spare = &mut spare[..height * pitch];
                into(spare, false);
                for (sum, &more) in sums.iter_mut().zip(&*spare) {
                    *sum = (f32::from_bits(*sum) + f32::from_bits(more)).to_bits();
                }
            } else {
                into(sums, true);
            }
        }
    }
}

/// Writes the product of a part of `lhs` and `rhs` where it belongs, the same bits as [`multiply`]'s; false if it did
/// not, because the part is a vector's, or nothing is summed.
pub(super) fn multiply_into(
    (arch, views): (Arch, &[View]),
    operands: (Placed<'_>, Placed<'_>),
    part: &Part,
    target: &Target,
) -> bool {
    let (rows, columns, k) = (part.rows.len(), part.columns.len(), part.summed.len());
    if !part.by_dots && (rows <= FEW || columns <= 1) || k == 0 {
        return false;
    }
    let target = &target.matrix;
    let start = target.at(part.batch, part.rows.start, part.columns.start);
    let start = views[target.buffer].matrix::<f32>(start, [(target.own, rows), (1, columns)]).cast_mut();
    let depth = k.div_ceil(k.div_ceil(most_terms(arch, part)));
    for at in part.summed.clone().step_by(depth) {
        let block = Part { summed: at..part.summed.end.min(at + depth), ..part.clone() };
        // SAFETY: the rows were checked to lie in their buffer; no other piece of this kernel, and no kernel that runs
        // at the same time, reads or writes these elements.
        unsafe { multiply_block(arch, operands, &block, (start, target.own as isize), at > part.summed.start) };
    }
    true
}

/// `result = lhs · rhs` of row-major `side` x `side` matrices by the crate alone, on all threads: what our own products
/// are held against.
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

/// The product of a part of `lhs` and `rhs`, the crate's or one of ours, written to `target`, the first element and the
/// distance between rows; added to what is there if `adds`.
///
/// # Safety
/// All of the part's results lie inside one allocation, and nobody else reads or writes them. If they are added to,
/// they are initialised.
unsafe fn multiply_block(
    arch: Arch,
    (lhs, rhs): (Placed<'_>, Placed<'_>),
    part: &Part,
    (target, stride): (*mut f32, isize),
    adds: bool,
) {
    let (rows, columns, depth) = (part.rows.len(), part.columns.len(), part.summed.len());
    let (Placed { matrix: lhs, view: l_view }, Placed { matrix: rhs, view: r_view }) = (lhs, rhs);
    let l = lhs.at(part.batch, part.rows.start, part.summed.start);
    let r = rhs.at(part.batch, part.columns.start, part.summed.start);
    let l = l_view.matrix::<f32>(l, [(lhs.own, rows), (lhs.summed, depth)]);
    let r = r_view.matrix::<f32>(r, [(rhs.own, columns), (rhs.summed, depth)]);
    if part.by_dots {
        let rows = Lines { start: l, count: rows, stride: lhs.own as isize };
        let columns = Lines { start: r, count: columns, stride: rhs.own as isize };
        // SAFETY: as below.
        return unsafe { Dots::new(rows, columns, depth, (target, stride), adds).run(arch) };
    }
    if !adds && rhs.own == 1 && SmallProduct::pays(arch, [rows, columns, depth]) {
        let product = SmallProduct {
            rows,
            columns,
            depth,
            lhs: (l, lhs.own as isize, lhs.summed as isize),
            rhs: (r, rhs.summed as isize),
            target: (target, stride),
        };
        // SAFETY: as below.
        return unsafe { product.run(arch) };
    }
    // The crate wants results next to each other in a column, so the product is computed transposed. SAFETY: both
    // matrices were checked to lie in their buffers, which no kernel writes at the same time; for the results the
    // caller's promise.
    unsafe {
        get_gemm_fn()(
            columns,
            rows,
            depth,
            target,
            stride,
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
