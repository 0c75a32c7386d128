//! Elementwise work and reductions, made ready: which way to walk, how to cut into pieces.

use crate::dtype::DType;
use crate::graph::Binary;
use crate::ops::elementwise;
use crate::plan::{InstrOp, Ix, Level, LoopKernel, Phase};

use super::execute::STRIP;
use super::fold::Fold;
use super::joined::{Joined, Part};
use super::memory::{Blocks, Memory};
use super::program::{Program, expressions};
use super::reshape::tiled_map;
use super::unroll::unrolled_windows;
use super::view::View;

/// Points of a piece, about: long enough to hide the scheduling, short enough for the second-level cache.
const PIECE: usize = 16 * STRIP;
/// Points of a piece of a cut row, at least.
const MIN_PIECE: usize = 4 * STRIP;
/// Pieces that a kernel should have before rows are cut.
const ENOUGH_PIECES: usize = 8;
/// Most cuts of a row.
const MAX_CHUNKS: usize = 64;
/// Points of rows from which on they are not found in a second-level cache.
const MIN_FETCHED: usize = 1 << 17;
/// Rows shorter than this are walked across: a strip takes one element of each.
const SHORT_ROW: usize = 16;

/// A [`LoopKernel`] ready to run.
#[derive(Debug)]
pub(super) struct CompiledLoop {
    /// Number of outer points.
    pub(super) points: usize,
    /// Inner points of each: the row's length.
    pub(super) row: usize,
    pub(super) walk: Walk,
    pub(super) phases: Vec<CompiledPhase>,
    /// All reductions by number.
    pub(super) folds: Vec<Fold>,
    /// Outer points of a piece.
    pub(super) block: usize,
    /// Outer points that go through all phases together, which then share registers; the piece's unless rows are short.
    pub(super) together: usize,
    /// Inner points of a piece; `row` unless rows are cut.
    pub(super) chunk: usize,
    /// Registers needed.
    pub(super) slots: usize,
    /// Rough time on one core.
    pub(super) nanoseconds: f64,
}

/// How strips lie in the space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Walk {
    /// Along rows.
    Rows,
    /// Across rows: a strip holds the elements of one inner point.
    Columns,
    /// Across rows so short of outer points that a strip holds several inner points.
    FlatColumns,
}

impl Walk {
    /// How so many rows of so many points are reduced; `lie_along` if memory is best read along them.
    fn of_reductions([points, row]: [usize; 2], lie_along: bool) -> Self {
        match () {
            () if lie_along && row >= SHORT_ROW => Self::Rows,
            // few rows that lie across memory are read once only if they are walked together
            () if points < SHORT_ROW && row <= STRIP => Self::Rows,
            () if points <= STRIP / 2 => Self::FlatColumns,
            () => Self::Columns,
        }
    }
}

/// Outer and inner points of a piece. Strips are those of the sweep over rows and of the first phase.
fn pieces([points, row]: [usize; 2], walk: Walk, reduces: bool, [sweep_strip, strip]: [usize; 2]) -> (usize, usize) {
    let row_points = if reduces { row.max(1) } else { 1 };
    let block = match walk {
        Walk::FlatColumns => points,
        Walk::Columns => sweep_strip,
        Walk::Rows => (PIECE / row_points).clamp(1, points.div_ceil(2 * ENOUGH_PIECES).max(1)),
    };
    if !reduces {
        // whole strips
        return (((block + strip / 2) / strip).max(1) * strip, row);
    }
    let blocks = points.div_ceil(block.max(1));
    let piece = (points * row / ENOUGH_PIECES).clamp(MIN_PIECE, PIECE);
    if blocks >= ENOUGH_PIECES || points * row < 2 * piece {
        return (block, row);
    }
    let chunks = (points * row / piece).min(MAX_CHUNKS).div_ceil(blocks.max(1));
    let unit = if walk == Walk::Rows { STRIP } else { 64 };
    (block, row.div_ceil(chunks).next_multiple_of(unit).min(row))
}

/// A [`Phase`] ready to run.
#[derive(Debug)]
pub(super) struct CompiledPhase {
    pub(super) level: Level,
    pub(super) program: Program,
    /// Whether what the next strip needs is fetched from here on.
    pub(super) looks_ahead: bool,
    /// Numbers of its reductions in [`CompiledLoop::folds`].
    pub(super) folds: std::ops::Range<usize>,
}

/// What a kernel keeps between phases when rows are cut.
#[derive(Debug)]
pub(super) struct LoopState {
    /// Results, one vector for each reduction.
    pub(super) reduced: Vec<Vec<u32>>,
    /// Results of pieces: `[reduction][chunk][point]`.
    pub(super) partial: View,
    _memory: Memory,
}

/// How many reads and writes are neither contiguous nor the same along `axis`, over the given phases.
fn scattered<'a>(phases: impl Iterator<Item = &'a Phase>, axis: usize, rank: usize) -> usize {
    let cost = |ix: &Ix| match ix.affine(rank) {
        Some((strides, _)) => usize::from(!matches!(strides[axis], 0 | 1)),
        None => usize::from(ix.uses(axis)) * 2,
    };
    phases
        .map(|phase| {
            let loads = phase.tape.instrs.iter().map(|instr| match &instr.op {
                InstrOp::Load { index, .. } | InstrOp::Gather { base: index, .. } => cost(index),
                _ => 0,
            });
            loads.sum::<usize>() + phase.stores.iter().map(|store| 2 * cost(&store.index)).sum::<usize>()
        })
        .sum()
}

/// `axes` with the one last along which memory is best walked, and its cost.
fn order(kernel: &LoopKernel, axes: std::ops::Range<usize>, level: Option<Level>) -> (Vec<usize>, usize) {
    let cost = |axis: usize| {
        let phases = kernel.phases.iter().filter(|phase| level.is_none_or(|level| phase.level == level));
        scattered(phases, axis, kernel.axes.len())
    };
    let mut order: Vec<usize> = axes.collect();
    let Some(&natural) = order.iter().rev().find(|&&axis| kernel.axes[axis] > 1) else { return (order, 0) };
    let long = |axis: usize| kernel.axes[axis] >= SHORT_ROW;
    let best =
        order.iter().copied().filter(|&axis| long(axis)).min_by_key(|&axis| (cost(axis), std::cmp::Reverse(axis)));
    let last = best.filter(|&axis| cost(axis) < cost(natural)).unwrap_or(natural);
    order.retain(|&axis| axis != last);
    order.push(last);
    (order, cost(last))
}

/// Rough time of a phase for one point.
fn nanoseconds(phase: &Phase) -> f64 {
    let steps = phase.tape.instrs.iter().map(|instr| match &instr.op {
        InstrOp::Const(_) | InstrOp::Uniform(_) => 0.0,
        InstrOp::Load { .. } => 0.15,
        InstrOp::Gather { .. } | InstrOp::Valid(_) | InstrOp::Coord(_) | InstrOp::Random { .. } => 1.0,
        InstrOp::Unary(op, _) if elementwise::unary(*op).cost >= 8 => 0.5,
        InstrOp::Binary(Binary::Atan2, ..) => 0.5,
        InstrOp::Binary(Binary::Pow | Binary::Rem, ..) => 10.0,
        _ => 0.06,
    });
    steps.sum::<f64>() + 0.1 * (phase.stores.len() + phase.reductions.len()) as f64
}

impl CompiledLoop {
    /// Makes `kernel` ready; `dtypes` are the buffers'.
    pub(super) fn new(kernel: &LoopKernel, dtypes: &[DType]) -> Self {
        let unrolled = unrolled_windows(kernel);
        let kernel = unrolled.as_ref().unwrap_or(kernel);
        let tiled = tiled_map(kernel);
        let kernel = tiled.as_ref().unwrap_or(kernel);
        let rank = kernel.axes.len();
        let points: usize = kernel.axes[..kernel.outer].iter().product();
        let row: usize = kernel.axes[kernel.outer..].iter().product();
        let reduces = kernel.phases.iter().any(|phase| phase.level == Level::Inner);
        let (inner, along) = order(kernel, kernel.outer..rank, Some(Level::Inner));
        let natural: Vec<usize> = (0..kernel.outer).collect();
        let (outer, across) = match tiled {
            Some(_) => (natural.clone(), 0),
            None => order(kernel, 0..kernel.outer, reduces.then_some(Level::Inner)),
        };
        let walk = if reduces { Walk::of_reductions([points, row], along <= across) } else { Walk::Rows };
        let outer = if walk == Walk::Rows && reduces { natural } else { outer };
        let mut folds = Vec::new();
        let sweeps = kernel.phases.iter().filter(|phase| phase.level == Level::Inner);
        let is_joined = walk == Walk::Rows && (1..=STRIP).contains(&row) && sweeps.clone().count() > 1;
        let mut parts = Vec::new();
        if is_joined {
            let joined = Joined::new(sweeps);
            let walked = [outer.as_slice(), &inner].concat();
            parts = Program::of_parts(&kernel.axes, (&[], &walked), (&joined.tape, &joined.parts), (0, true), dtypes);
        }
        let shared_slots = parts.last().map_or(0, |program| program.slots);
        let mut parts = parts.into_iter();
        let mut phases: Vec<CompiledPhase> = kernel
            .phases
            .iter()
            .map(|phase| {
                let (fixed, walked) = match (phase.level, walk) {
                    (Level::Outer, _) => (Vec::new(), outer.clone()),
                    (Level::Inner, Walk::Rows) => (Vec::new(), [outer.as_slice(), &inner].concat()),
                    (Level::Inner, Walk::Columns) => (inner.clone(), outer.clone()),
                    (Level::Inner, Walk::FlatColumns) => (Vec::new(), [inner.as_slice(), &outer].concat()),
                };
                debug_assert!(expressions(&phase.tape, &phase.stores).iter().all(|ix| {
                    (0..rank).all(|axis| !ix.uses(axis) || phase.level == Level::Inner || axis < kernel.outer)
                }));
                let of_sweep = if phase.level == Level::Inner { parts.next() } else { None };
                let by_rows = phase.level == Level::Inner && walk == Walk::Rows;
                let program = of_sweep.unwrap_or_else(|| {
                    let (walk, part) = ((fixed.as_slice(), walked.as_slice()), [Part::whole(phase)]);
                    Program::of_parts(&kernel.axes, walk, (&phase.tape, &part), (shared_slots, by_rows), dtypes)
                        .remove(0)
                });
                let first = folds.len();
                folds.extend(phase.reductions.iter().map(|&(op, value)| Fold::new(op, phase.tape.instrs[value].dtype)));
                CompiledPhase { level: phase.level, program, looks_ahead: false, folds: first..folds.len() }
            })
            .collect();
        let time = kernel.phases.iter().map(|phase| {
            let count = if phase.level == Level::Inner { points * row } else { points };
            count as f64 * nanoseconds(phase)
        });
        let nanoseconds: f64 = time.sum();
        let inner_phase = phases.iter().find(|phase| phase.level == Level::Inner);
        let strips = [inner_phase, phases.first()].map(|of| of.map_or(STRIP, |phase| phase.program.space.strip()));
        let (block, chunk) = pieces([points, row], walk, reduces, strips);
        let slots = phases.iter().map(|phase| phase.program.slots).max().unwrap_or(0);
        let together = if is_joined { STRIP / row } else { block };
        // of other processors nothing can be asked
        if cfg!(target_arch = "x86_64") && points * row.max(1) >= MIN_FETCHED {
            let sweeps = phases.iter_mut().filter(|phase| phase.level == Level::Inner || !reduces);
            // the first sweep has only just got what it reads
            let mut sweeps = sweeps.skip(usize::from(is_joined));
            let slow = if is_joined || !reduces { sweeps.find(|phase| phase.program.is_slow()) } else { None };
            slow.into_iter().for_each(|phase| phase.looks_ahead = true);
        }
        Self { points, row, walk, phases, folds, block, together, chunk, slots, nanoseconds }
    }

    /// Pieces that each row is cut into.
    pub(super) fn chunks(&self) -> usize {
        if self.row == 0 { 1 } else { self.row.div_ceil(self.chunk) }
    }

    /// Memory for cut rows; `Some(None)` if none is needed, `None` if there is none left.
    pub(super) fn state(&self, blocks: &Blocks) -> Option<Option<LoopState>> {
        if self.chunks() == 1 {
            return Some(None);
        }
        let words = self.folds.len() * self.chunks() * self.points;
        let memory = blocks.scratch(4 * words as u64)?;
        let reduced = vec![vec![0; self.points]; self.folds.len()];
        Some(Some(LoopState { reduced, partial: memory.view(0, 4 * words as u64), _memory: memory }))
    }
}
