//! Contractions: blocks of the result, each summed over k in fixed steps and finished by the epilogue while in cache.

use std::ops::Range;

use pulp::Arch;

use crate::dtype::DType;
use crate::graph::ReduceOp;
use crate::plan::{ContractKernel, LoopKernel, Store, Tape, ValueId};

use super::blocking::{Blocking, MAX_COLUMNS};
use super::execute::{Env, Inputs, STRIP, Spread};
use super::gemm::{self, Matrix, Part, Placed, TURNED, Target};
use super::lanes::Height;
use super::memory::{Blocks, Memory};
use super::micro::{Block, Tile};
use super::pack::{Groups, Operand};
use super::program::Program;
use super::reshape::pool_as_contract;
use super::scratch::Scratch;
use super::view::View;
use super::windowed::Windowed;
use super::windows::Windows;

/// Of a multiplication, on one core.
const NANOSECONDS: f64 = 0.02;
/// What it takes to begin a piece.
const PIECE_NANOSECONDS: f64 = 300.0;
/// Terms of a sum over windows, at most, that are added one after the other.
const MAX_POOLED: usize = 512;
/// The share of lanes that windows without a filter of many channels must fill.
const MIN_FILLED: f64 = 0.4;
/// Blocks of rows from which on it is worth turning an operand over once for all of them.
const MIN_TURNED: usize = 2;

/// A [`ContractKernel`] ready to run.
#[derive(Debug)]
pub(super) struct CompiledContract {
    batch: usize,
    /// Rows, columns and summed points; "rows" are m or, where that stores better, n.
    m: usize,
    n: usize,
    k: usize,
    operands: Operands,
    /// What the second operand becomes before anything is multiplied, if several blocks of rows would turn it over
    /// each.
    turned: Option<Matrix>,
    /// Where a plain product's sums are written as they are made.
    direct: Option<Target>,
    epilogue: Program,
    /// True if the epilogue walks rows and columns as one.
    flat: bool,
    blocks: Blocking,
    float: bool,
    slots: usize,
    /// Rough time on one core.
    pub(super) nanoseconds: f64,
}

/// The operands: lhs and rhs.
#[derive(Debug)]
pub(super) enum Operands {
    /// Multiplied as they lie.
    Plain(Matrix, Matrix),
    /// Packed for the micro-kernel.
    Packed(Box<[Operand; 2]>),
    /// The second one is evaluated into grids, the first one packed.
    Windows(Box<Windowed>),
}

/// Memory of a kernel's own: the pieces of cut sums, `[chunk][batch][m][n]`, or an operand
/// made ready for all blocks: turned over, `[batch][k][n]`, or transformed.
#[derive(Debug)]
pub(super) struct ContractState {
    words: View,
    _memory: Memory,
}

/// Where one piece lies.
#[derive(Clone)]
pub(super) struct Piece {
    pub(super) batch: usize,
    pub(super) rows: Range<usize>,
    pub(super) columns: Range<usize>,
}

/// True if the results lie closer together along `m` than along `n`.
fn stores_along(stores: &[Store], m: &[usize], n: &[usize], axes: &[usize]) -> bool {
    let stride = |store: &Store, group: &[usize]| {
        let axis = *group.iter().rev().find(|&&axis| axes[axis] > 1)?;
        let (strides, _) = store.index.affine(axes.len())?;
        (strides[axis] != 0).then_some(strides[axis].abs())
    };
    stores.first().is_some_and(|store| match (stride(store, m), stride(store, n)) {
        (Some(along_m), Some(along_n)) => along_m < along_n,
        (along_m, along_n) => along_m.is_some() && along_n.is_none(),
    })
}

/// Lhs or rhs as windows: lhs is looked at only if rhs is none.
fn windows(kernel: &ContractKernel, dtypes: &[DType]) -> [Option<Windows>; 2] {
    let axes = &kernel.axes;
    let [batch, m, n, k] = [0, 1, 2, 3].map(|number| kernel.group(number).collect::<Vec<usize>>());
    let size = |group: &[usize]| group.iter().map(|&axis| axes[axis]).product::<usize>();
    let find = |own: &[usize], (tape, value): &(Tape, ValueId), others: &[usize]| {
        let groups = Groups { batch: &batch, own, summed: &k };
        let is_float = kernel.accumulator.is_float();
        is_float.then(|| Windows::new(axes, &groups, (tape, *value), size(others), dtypes)).flatten()
    };
    match find(&n, &kernel.rhs, &m) {
        Some(rhs) => [None, Some(rhs)],
        None => [find(&m, &kernel.lhs, &n), None],
    }
}

/// True if the windows' places can be the lanes of vectors, and are not too few.
fn fills_lanes(windows: &Windows, arch: Arch) -> bool {
    windows.lanes(arch).is_some_and(|lanes| lanes.share(Height::ONE, 1) >= MIN_FILLED)
}

/// True if an operand is windows whose places can be the lanes of vectors.
pub(super) fn slides(kernel: &ContractKernel, dtypes: &[DType], arch: Arch) -> bool {
    windows(kernel, dtypes).iter().flatten().any(|windows| fills_lanes(windows, arch))
}

impl CompiledContract {
    /// Makes `kernel` ready; `dtypes` are the buffers'.
    pub(super) fn new(kernel: &ContractKernel, dtypes: &[DType], arch: Arch) -> Self {
        Self::with(kernel, dtypes, arch, (windows(kernel, dtypes), None))
    }

    /// Makes a reduction of overlapping windows ready; `None` if it is none.
    pub(super) fn pool(kernel: &LoopKernel, dtypes: &[DType], arch: Arch) -> Option<Self> {
        let (kernel, op) = pool_as_contract(kernel)?;
        // longer sums are not added up one by one
        if op == ReduceOp::Sum && kernel.sizes()[3] > MAX_POOLED {
            return None;
        }
        let [_, found] = windows(&kernel, dtypes);
        let found = found.filter(|windows| !windows.places_are_summed() && fills_lanes(windows, arch))?;
        Some(Self::with(&kernel, dtypes, arch, ([None, Some(found)], Some(op))))
    }

    /// A product of operands that are these windows, or what `join` makes of those of the second one.
    fn with(
        kernel: &ContractKernel,
        dtypes: &[DType],
        arch: Arch,
        ([windows_of_lhs, windows_of_rhs], join): ([Option<Windows>; 2], Option<ReduceOp>),
    ) -> Self {
        let axes = &kernel.axes;
        let group = |number| kernel.group(number).collect::<Vec<usize>>();
        let (batch, mut m, mut n, k) = (group(0), group(1), group(2), group(3));
        let (mut lhs, mut rhs) = (&kernel.lhs, &kernel.rhs);
        let size = |group: &[usize]| group.iter().map(|&axis| axes[axis]).product::<usize>();
        let across = stores_along(&kernel.stores, &m, &n, axes);
        // Tiles half empty cost more than results written with gaps.
        let (plain, swapped) = (Tile::padded(arch, size(&m), size(&n)), Tile::padded(arch, size(&n), size(&m)));
        let mut swap = if across { 2 * swapped <= 3 * plain } else { 3 * swapped < 2 * plain };
        match (&windows_of_lhs, &windows_of_rhs) {
            (_, Some(_)) => swap = false,
            (Some(_), None) => swap = true,
            (None, None) => {}
        }
        let found = windows_of_rhs.or(windows_of_lhs);
        if swap {
            std::mem::swap(&mut m, &mut n);
            std::mem::swap(&mut lhs, &mut rhs);
        }
        let groups = |own| Groups { batch: &batch, own, summed: &k };
        let matrix = |own, tape| Matrix::new(axes, &groups(own), tape, dtypes);
        let operand = |own, tape| Operand::new(axes, &groups(own), tape, dtypes);
        let (lhs, rhs) = ((&lhs.0, lhs.1), (&rhs.0, rhs.1));
        let operands = match (matrix(&m, lhs), matrix(&n, rhs), found) {
            (Some(lhs), Some(rhs), _) => Operands::Plain(lhs, rhs),
            (_, _, Some(windows)) => {
                Operands::Windows(Box::new(Windowed::new(arch, windows, operand(&m, lhs), size(&m), join)))
            }
            _ => Operands::Packed(Box::new([operand(&m, lhs), operand(&n, rhs)])),
        };
        let direct = match operands {
            Operands::Plain(..) => Target::new(kernel, &groups(&m), &groups(&n), dtypes),
            _ => None,
        };
        let [batches, rows_all, columns_all, k_all] = [size(&batch), size(&m), size(&n), size(&k)];

        let work = batches * rows_all * columns_all * k_all;
        let blocks = Blocking::new(arch, &operands, [batches, rows_all, columns_all, k_all]);
        let pieces = blocks.pieces([batches, rows_all, columns_all]);
        let flat = columns_all <= blocks.columns;
        let (fixed, walked) = if flat {
            (batch.clone(), [m.as_slice(), &n].concat())
        } else {
            ([batch.as_slice(), &m].concat(), n.clone())
        };
        let turned = match &operands {
            Operands::Plain(_, rhs) if rhs.lies_along_sums() && k_all <= blocks.chunk => {
                let worth = rows_all.div_ceil(blocks.rows) >= MIN_TURNED && columns_all > 1 && k_all > 0;
                worth.then(|| rhs.turned(batches, [columns_all, k_all]))
            }
            _ => None,
        };
        let epilogue = Program::new(axes, (&fixed, &walked), &kernel.epilogue, &kernel.stores, &[], dtypes);
        let slots = match &operands {
            Operands::Plain(..) => epilogue.slots,
            Operands::Packed(packed) => packed.iter().map(Operand::slots).fold(epilogue.slots, usize::max),
            Operands::Windows(operands) => epilogue.slots.max(operands.slots()),
        };
        Self {
            batch: batches,
            m: rows_all,
            n: columns_all,
            k: k_all,
            operands,
            turned,
            direct,
            epilogue,
            flat,
            blocks,
            float: kernel.accumulator.is_float(),
            slots,
            nanoseconds: work as f64 * NANOSECONDS + pieces as f64 * PIECE_NANOSECONDS,
        }
    }

    fn chunks(&self) -> usize {
        self.k.div_ceil(self.blocks.chunk).max(1)
    }

    /// True if an operand is made ready for all blocks.
    fn prepares(&self) -> bool {
        self.turned.is_some() || self.windowed().and_then(Windowed::prepared_len).is_some()
    }

    /// True if it needs memory of its own.
    pub(super) fn has_state(&self) -> bool {
        self.prepares() || self.chunks() > 1
    }

    /// Memory of its own; `Some(None)` if none is needed, `None` if there is none left.
    pub(super) fn state(&self, blocks: &Blocks) -> Option<Option<ContractState>> {
        if !self.has_state() {
            return Some(None);
        }
        let words = match (&self.turned, self.windowed().and_then(Windowed::prepared_len)) {
            (Some(turned), _) => turned.distinct(self.batch) * self.k * self.n,
            (_, Some(len)) => self.batch * len,
            _ => self.chunks() * self.batch * self.m * self.n,
        };
        let memory = blocks.scratch(4 * words as u64)?;
        Some(Some(ContractState { words: memory.view(0, 4 * words as u64), _memory: memory }))
    }

    fn pieces(&self) -> usize {
        self.blocks.pieces([self.batch, self.m, self.n])
    }

    fn piece(&self, number: usize) -> Piece {
        let Blocking { rows, columns, segment, .. } = self.blocks;
        let (parts, down, across) = (segment.div_ceil(columns), self.m.div_ceil(rows), self.blocks.across(self.n));
        let (first, part) = (number % across / parts * segment, number % across % parts * columns);
        let row = number / across % down * rows;
        Piece {
            batch: number / across / down,
            rows: row..self.m.min(row + rows),
            columns: first + part..first + segment.min(part + columns),
        }
    }

    /// Runs the kernel.
    pub(super) fn run(&self, env: &Env<'_>, state: Option<&mut ContractState>) {
        let own = state.map(|state| state.words);
        let partial = match own {
            Some(words) if !self.prepares() => words,
            prepared => {
                if let Some(target) = prepared {
                    self.prepare(env, target);
                }
                env.threads.for_each_piece(self.pieces(), |number, scratch| {
                    let piece = self.piece(number);
                    if !self.sum_in_place(env, prepared, &piece) {
                        self.sum(env, scratch, prepared, &piece, 0..self.k);
                        self.finish(env, scratch, &piece);
                    }
                });
                return;
            }
        };
        let pieces = self.pieces();
        env.threads.for_each_piece(pieces * self.chunks(), |number, scratch| {
            let (piece, chunk) = (self.piece(number % pieces), number / pieces);
            self.sum(
                env,
                scratch,
                None,
                &piece,
                chunk * self.blocks.chunk..self.k.min((chunk + 1) * self.blocks.chunk),
            );
            for (row, sums) in piece.rows.clone().zip(scratch.panels.sums.chunks_exact(piece.columns.len())) {
                partial.write_run::<u32>(self.partial_at(chunk, &piece, row), sums);
            }
        });
        env.threads.for_each_piece(pieces, |number, scratch| {
            let piece = self.piece(number);
            self.join_chunks(scratch, &piece, partial);
            self.finish(env, scratch, &piece);
        });
    }

    fn partial_at(&self, chunk: usize, piece: &Piece, row: usize) -> i64 {
        ((((chunk * self.batch) + piece.batch) * self.m + row) * self.n + piece.columns.start) as i64
    }

    fn windowed(&self) -> Option<&Windowed> {
        if let Operands::Windows(operands) = &self.operands { Some(operands) } else { None }
    }

    /// Turns the second operand over, or transforms the first one, into `target`.
    fn prepare(&self, env: &Env<'_>, target: View) {
        if let Some(operands) = self.windowed() {
            return operands.prepare(env, (self.batch, self.k), target);
        }
        let Operands::Plain(_, rhs) = &self.operands else { unreachable!("only plain operands are turned over") };
        let blocks = self.n.div_ceil(TURNED);
        let batches = rhs.distinct(self.batch);
        env.threads.for_each_piece(batches * blocks, |number, _| {
            let (batch, start) = (number / blocks, number % blocks * TURNED);
            rhs.turn(env.views, (batch, start..self.n.min(start + TURNED)), [self.n, self.k], target);
        });
    }

    /// The operands of a plain product, the second one as it was turned over.
    fn plain<'a>(&'a self, env: &Env<'_>, turned: Option<View>) -> Option<(Placed<'a>, Placed<'a>)> {
        let Operands::Plain(lhs, rhs) = &self.operands else { return None };
        let rhs = match (&self.turned, turned) {
            (Some(matrix), Some(view)) => Placed { matrix, view },
            _ => rhs.placed(env.views),
        };
        Some((lhs.placed(env.views), rhs))
    }

    /// Leaves the sums of a piece where they belong, if they are what is stored; false if it did not.
    fn sum_in_place(&self, env: &Env<'_>, turned: Option<View>, piece: &Piece) -> bool {
        let (Some(operands), Some(target)) = (self.plain(env, turned), &self.direct) else { return false };
        let Piece { batch, rows, columns } = piece.clone();
        gemm::multiply_into((env.arch, env.views), operands, &Part { batch, rows, columns, summed: 0..self.k }, target)
    }

    /// Leaves the sums of a piece over `summed` in `scratch.panels.sums`, row-major without gaps.
    fn sum(&self, env: &Env<'_>, scratch: &mut Scratch, prepared: Option<View>, piece: &Piece, summed: Range<usize>) {
        let Scratch { registers, panels, .. } = scratch;
        registers.reserve(self.slots);
        let columns = piece.columns.len();
        if let Some(operands) = self.plain(env, prepared) {
            let len = piece.rows.len() * columns;
            panels.sums.reserve(len);
            let Piece { batch, rows, columns } = piece.clone();
            let part = Part { batch, rows, columns, summed };
            return gemm::multiply(env.arch, operands, &part, &mut panels.sums[..len], &mut panels.lhs);
        }
        let (lhs, rhs) = match &self.operands {
            Operands::Packed(packed) => (&packed[0], &packed[1]),
            Operands::Windows(operands) => {
                return operands.sum(env, (registers, panels), (piece, summed), &self.blocks, prepared);
            }
            Operands::Plain(..) => unreachable!("plain operands are not packed"),
        };
        let stride = columns.next_multiple_of(self.blocks.tile.columns);
        let len = piece.rows.len().next_multiple_of(self.blocks.tile.rows) * stride;
        panels.sums.reserve(len);
        panels.sums[..len].fill(0);
        for start in summed.clone().step_by(self.blocks.depth) {
            let depth = self.blocks.depth.min(summed.end - start);
            let range = (piece.batch, start..start + depth, piece.rows.clone(), piece.columns.clone());
            panels.pack(env, registers, (lhs, rhs), range, (self.blocks.tile.rows, self.blocks.tile.columns));
            let lhs = &panels.lhs[..piece.rows.len().next_multiple_of(self.blocks.tile.rows) * depth];
            let rhs = &panels.rhs[..stride * depth];
            let block = Block { lhs, rhs, sums: &mut panels.sums[..len], stride, depth, tile: self.blocks.tile };
            if self.float { block.run_floats(env.arch) } else { block.run_words() }
        }
        if stride != columns {
            for row in 1..piece.rows.len() {
                panels.sums.copy_within(row * stride..row * stride + columns, row * columns);
            }
        }
    }

    /// Adds up the chunks' sums of a piece, in order.
    fn join_chunks(&self, scratch: &mut Scratch, piece: &Piece, partial: View) {
        scratch.registers.reserve(self.slots);
        let columns = piece.columns.len();
        scratch.panels.sums.reserve(piece.rows.len() * columns);
        let sums = &mut scratch.panels.sums[..piece.rows.len() * columns];
        sums.fill(0);
        let mut words = [0; MAX_COLUMNS];
        let words = &mut words[..columns];
        for (row, sums) in piece.rows.clone().zip(sums.chunks_exact_mut(columns)) {
            for chunk in 0..self.chunks() {
                partial.read_run::<u32>(self.partial_at(chunk, piece, row), words);
                for (sum, &word) in sums.iter_mut().zip(words.iter()) {
                    *sum = if self.float {
                        (f32::from_bits(*sum) + f32::from_bits(word)).to_bits()
                    } else {
                        sum.wrapping_add(word)
                    };
                }
            }
        }
    }

    /// Runs the epilogue over a piece's sums.
    fn finish(&self, env: &Env<'_>, scratch: &mut Scratch, piece: &Piece) {
        let Scratch { registers, panels, .. } = scratch;
        let spread = Spread::default();
        let mut run = |fixed: usize, start: usize, sums: &[u32]| {
            for (number, sums) in sums.chunks(STRIP).enumerate() {
                let at = (fixed, start + number * STRIP, sums.len());
                self.epilogue.run(env, registers, at, &Inputs { reduced: &[], spread, accumulator: sums });
            }
        };
        let columns = piece.columns.len();
        let sums = &panels.sums[..piece.rows.len() * columns];
        if self.flat {
            run(piece.batch, piece.rows.start * self.n, sums);
        } else {
            for (row, sums) in piece.rows.clone().zip(sums.chunks_exact(columns)) {
                run(piece.batch * self.m + row, piece.columns.start, sums);
            }
        }
    }
}
