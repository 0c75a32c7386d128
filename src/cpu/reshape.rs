//! Kernels rewritten into equal ones that suit the executor better.

use pulp::Arch;

use crate::dtype::{DType, Scalar};
use crate::graph::{Binary, ReduceOp};
use crate::matmul_precision::MatmulPrecision;
use crate::plan::{Body, ContractKernel, Instr, InstrOp, Ix, Level, LoopKernel, Phase, Store, Tape, ValueId};

use super::operands::{is_plain, slides};
use super::program::LoneLoad;

/// Contractions with at most this many rows or columns are computed without packing: each operand is read about once.
const THIN: usize = 2;
/// Multiplications of a product that takes less time than it takes to begin one, if there are so many of them.
const TINY: usize = 128;
const MANY: usize = 16;
/// Multiplications of a product from which on it is worth one of its own.
const MIN_BATCHED: usize = 1 << 14;
/// Columns of products in a batch, at most, that are not worth turning the other operand over for each; and if they lie
/// apart, or the other operand's rows do by whole pages.
const FEW_COLUMNS: usize = 4;
const FEW_SCATTERED: usize = 16;
const PAGE: usize = 4096;
/// Elements of a tile's side, at most.
const MAX_TILE: usize = 32;
/// Elements of a tile's side where none divides the axis.
const USUAL_TILE: usize = 16;
/// Points of a map from which on it is cut in parts: smaller ones stay in caches.
const MIN_PARTED: usize = 1 << 16;
/// Elements of a tile's side, at least; smaller ones are not worth the walk.
const MIN_TILE: usize = 8;

/// `tape` appended to `to`; returns the number that its value 0 got.
fn append(to: &mut Tape, tape: &Tape) -> usize {
    let first = to.instrs.len();
    for instr in &tape.instrs {
        let mut op = instr.op.clone();
        op.map_values(|value| value + first);
        to.instrs.push(Instr { op, dtype: instr.dtype });
    }
    first
}

/// `tape` with the result of a sum read as `to` where it was `from`.
fn reading(tape: &Tape, from: &InstrOp, to: &InstrOp) -> Tape {
    let mut tape = tape.clone();
    tape.instrs.iter_mut().filter(|instr| instr.op == *from).for_each(|instr| instr.op = to.clone());
    tape
}

/// Rows of floats that are summed up, or of which the largest or least element is looked for, as a product with one,
/// and how its terms are joined.
pub(super) fn pool_as_contract(kernel: &LoopKernel) -> Option<(ContractKernel, ReduceOp)> {
    let [sweep, finish] = kernel.phases.as_slice() else { return None };
    let (&[(op, value)], true) = (sweep.reductions.as_slice(), sweep.stores.is_empty()) else { return None };
    let is_last = finish.level == Level::Outer && finish.reductions.is_empty();
    if op == ReduceOp::Prod || !sweep.tape.instrs[value].dtype.is_float() || !is_last {
        return None;
    }
    let one = Instr { op: InstrOp::Const(Scalar::new(DType::F32, 1.0)), dtype: DType::F32 };
    let kernel = ContractKernel {
        axes: kernel.axes.clone(),
        counts: [0, 0, kernel.outer, kernel.axes.len() - kernel.outer],
        lhs: (Tape { instrs: vec![one] }, 0),
        rhs: (sweep.tape.clone(), value),
        epilogue: reading(&finish.tape, &InstrOp::Reduced(0), &InstrOp::Accumulator),
        stores: finish.stores.clone(),
        accumulator: DType::F32,
        precision: MatmulPrecision::Highest,
    };
    Some((kernel, op))
}

/// A matrix-vector product (and its like) as a reduction, unless its operands are plain matrices or windows (of a
/// convolution whose channels have filters of their own); scalar products and many tiny ones always.
pub(super) fn thin_contract(kernel: &ContractKernel, dtypes: &[DType], arch: Arch) -> Option<LoopKernel> {
    let [batch, m, n, k] = kernel.sizes();
    let are_tiny = batch >= MANY && m.saturating_mul(n).saturating_mul(k) <= TINY;
    let has_own_way = || is_plain(kernel, dtypes) || slides(kernel, dtypes, arch);
    if !are_tiny && (m > THIN && n > THIN || m.max(n) > THIN && has_own_way()) {
        return None;
    }
    let mut tape = kernel.lhs.0.clone();
    let first = append(&mut tape, &kernel.rhs.0);
    let product = InstrOp::Binary(Binary::Mul, kernel.lhs.1, kernel.rhs.1 + first);
    tape.instrs.push(Instr { op: product, dtype: kernel.accumulator });
    let reductions = vec![(ReduceOp::Sum, tape.instrs.len() - 1)];
    let sum = Phase { level: Level::Inner, tape, reductions, stores: Vec::new() };
    let epilogue = reading(&kernel.epilogue, &InstrOp::Accumulator, &InstrOp::Reduced(0));
    let finish = Phase { level: Level::Outer, tape: epilogue, reductions: Vec::new(), stores: kernel.stores.clone() };
    Some(LoopKernel { axes: kernel.axes.clone(), outer: kernel.group(3).start, phases: vec![sum, finish] })
}

/// A product of which an operand is several matrices that lie apart (the images of a convolution of 1x1), as a batch of
/// plain ones.
pub(super) fn batched_contract(kernel: &ContractKernel, dtypes: &[DType]) -> Option<ContractKernel> {
    let are_loads = [&kernel.lhs, &kernel.rhs].into_iter().all(|(tape, value)| {
        LoneLoad::new((tape, *value), kernel.axes.len(), dtypes).is_some_and(|load| load.valid.is_empty())
    });
    if !are_loads || is_plain(kernel, dtypes) {
        return None;
    }
    let leading = [2, 1].into_iter().flat_map(|group| (1..kernel.counts[group]).map(move |lead| (group, lead)));
    leading.map(|(group, lead)| with_batches(kernel, group, lead)).find(|batched| {
        let [_, m, n, k] = batched.sizes();
        let is_worth_it = m.saturating_mul(n).saturating_mul(k) >= MIN_BATCHED && m.min(n) > THIN;
        is_worth_it && is_plain(batched, dtypes) && !is_turned_in_vain(batched, dtypes)
    })
}

/// True if an operand of a batch of products has so few rows that the other one, which each product turns over again,
/// takes longer to turn over than to multiply.
fn is_turned_in_vain(kernel: &ContractKernel, dtypes: &[DType]) -> bool {
    let [_, m, n, _] = kernel.sizes();
    let last = |group: usize| kernel.group(group).rev().find(|&axis| kernel.axes[axis] > 1);
    let stride = |(tape, value): &(Tape, ValueId), group: usize| {
        let load = LoneLoad::new((tape, *value), kernel.axes.len(), dtypes)?;
        Some(load.strides[last(group)?].unsigned_abs() as usize)
    };
    let [(few, own), (many, other)] =
        if m < n { [(&kernel.lhs, 1), (&kernel.rhs, 2)] } else { [(&kernel.rhs, 2), (&kernel.lhs, 1)] };
    let rows = stride(many, other);
    let is_turned = stride(many, 3) == Some(1) && rows != Some(1);
    // rows that begin on the same sets of the cache drive each other out of it
    let by_pages = rows.is_some_and(|stride| (stride * size_of::<f32>()).is_multiple_of(PAGE));
    let is_scattered = stride(few, own) != Some(1) || by_pages;
    is_turned && m.min(n) <= if is_scattered { FEW_SCATTERED } else { FEW_COLUMNS }
}

/// The same product where the leading axes of group 1 or 2 are the last ones of the batch.
fn with_batches(kernel: &ContractKernel, group: usize, lead: usize) -> ContractKernel {
    let first = kernel.group(group).start;
    let moved = first..first + lead;
    let batch = kernel.counts[0];
    let rest = (batch..kernel.axes.len()).filter(|axis| !moved.contains(axis));
    let order: Vec<usize> = (0..batch).chain(moved.clone()).chain(rest).collect();
    let axes: Vec<usize> = order.iter().map(|&axis| kernel.axes[axis]).collect();
    let mut coords = vec![Ix::constant(0); order.len()];
    order.iter().enumerate().for_each(|(place, &axis)| coords[axis] = Ix::axis(place));
    let mut body = Body::Contract(kernel.clone());
    body.map_indices(|ix| ix.substitute(&coords, &axes));
    let Body::Contract(mut batched) = body else { unreachable!("a contraction stays one") };
    batched.axes = axes;
    batched.counts[0] += lead;
    batched.counts[group] -= lead;
    batched
}

/// Largest useful tile side that divides `size`.
fn side(size: usize) -> Option<usize> {
    if size <= MAX_TILE {
        return Some(size);
    }
    (MIN_TILE..=MAX_TILE).rev().find(|&side| size.is_multiple_of(side))
}

/// The two axes of a map that reads along one and writes along the other, its last one: a transpose, or its like.
fn transposed(kernel: &LoopKernel) -> Option<[usize; 2]> {
    let rank = kernel.axes.len();
    if kernel.outer != rank || kernel.phases.len() != 1 {
        return None;
    }
    let phase = &kernel.phases[0];
    let last = (0..rank).rev().find(|&axis| kernel.axes[axis] > 1)?;
    let loads = phase.tape.instrs.iter().filter_map(|instr| match &instr.op {
        InstrOp::Load { index, .. } => Some(index),
        _ => None,
    });
    let other = loads.chain(phase.stores.iter().map(|store| &store.index)).find_map(|index| {
        let (strides, _) = index.affine(rank)?;
        let across = strides[last].unsigned_abs() as usize >= MIN_TILE;
        let along = (0..rank).find(|&axis| axis != last && strides[axis] == 1 && kernel.axes[axis] > 1)?;
        across.then_some(along)
    })?;
    Some([other, last])
}

/// A transpose of sides without a divisor that makes a tile, as several: its tiles, and what is left.
pub(super) fn tileable_parts(kernel: &LoopKernel) -> Option<Vec<LoopKernel>> {
    if kernel.axes.iter().product::<usize>() < MIN_PARTED {
        return None;
    }
    let mut uneven = transposed(kernel)?.to_vec();
    uneven.retain(|&axis| side(kernel.axes[axis]).is_none());
    let halves = |parts: Vec<Body>, &axis: &usize| {
        let size = kernel.axes[axis];
        let whole = size / USUAL_TILE * USUAL_TILE;
        parts.iter().flat_map(|part| [0..whole, whole..size].map(|points| part.within(axis, points))).collect()
    };
    let parts = (!uneven.is_empty()).then(|| uneven.iter().fold(vec![Body::Loop(kernel.clone())], halves))?;
    let kernel = |part| if let Body::Loop(kernel) = part { kernel } else { unreachable!("parts are of its kind") };
    Some(parts.into_iter().map(kernel).collect())
}

/// A map that reads along one axis and writes along another, as one over tiles, so that every cache line is used up
/// while it is there.
pub(super) fn tiled_map(kernel: &LoopKernel) -> Option<LoopKernel> {
    let rank = kernel.axes.len();
    let [other, last] = transposed(kernel)?;
    let phase = &kernel.phases[0];
    let (rows, columns) = (side(kernel.axes[other])?, side(kernel.axes[last])?);
    let mut axes = Vec::new();
    let mut coords = vec![Ix::constant(0); rank];
    for (axis, &size) in kernel.axes.iter().enumerate() {
        coords[axis] = match axis {
            _ if axis == other => Ix::axis(axes.len()).times(rows as i64).plus(&Ix::axis(rank)),
            _ if axis == last => Ix::axis(axes.len()).times(columns as i64).plus(&Ix::axis(rank + 1)),
            _ => Ix::axis(axes.len()),
        };
        axes.push(match axis {
            _ if axis == other => size / rows,
            _ if axis == last => size / columns,
            _ => size,
        });
    }
    axes.extend([rows, columns]);
    let f = |ix: &Ix| ix.substitute(&coords, &axes);
    let stores = phase.stores.iter().map(|store| Store { index: f(&store.index), ..store.clone() }).collect();
    let mut phase = Phase { stores, ..phase.clone() };
    phase.tape.map_indices(&mut |ix| f(ix));
    Some(LoopKernel { outer: axes.len(), phases: vec![phase], axes })
}
