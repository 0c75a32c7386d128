//! Contractions: blocks of the result, each summed over k in fixed steps and finished by the epilogue while in cache.

use std::ops::Range;

use pulp::Arch;

use crate::graph::ReduceOp;
use crate::plan::{ContractKernel, LoopKernel};

use super::blocking::{Blocking, ENOUGH_PIECES, MAX_COLUMNS};
use super::elementwise::CHUNK;
use super::execute::{Env, Inputs, PLANE, STRIP};
use super::gemm::{self, LINE, Matrix, Part, Placed, TURNED, Target};
use super::memory::{Blocks, Memory};
use super::micro::Block;
use super::operands::{Operands, Sides, fills_lanes, windows};
use super::pack::{Operand, Panels};
use super::prepack::{Buffers, Prepacked, Ready};
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
/// Columns from which on an epilogue walks row by row, of which it takes several at once.
const MIN_ROW: usize = 2 * CHUNK;
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
    /// True if both operands lie along the summed points and are multiplied so.
    pub(super) by_dots: bool,
    /// The second operand turned over.
    turned: Option<Matrix>,
    /// True if it is turned over in each run, because several blocks of rows would do so each.
    turns: bool,
    /// The operands that are packed before the plan's first kernel.
    pub(super) prepacked: [Option<Prepacked>; 2],
    /// Where a plain product's sums are written as they are made.
    direct: Option<Target>,
    epilogue: Program,
    /// True if the epilogue walks rows and columns as one.
    flat: bool,
    /// Batches of a piece. If they are several and the epilogue is `flat`, it walks them as one, too.
    together: usize,
    blocks: Blocking,
    float: bool,
    slots: usize,
    /// Rough time on one core.
    pub(super) nanoseconds: f64,
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

impl CompiledContract {
    /// Makes `kernel` ready.
    pub(super) fn new(kernel: &ContractKernel, buffers: &Buffers, arch: Arch) -> Self {
        Self::with(kernel, buffers, arch, (windows(kernel, &buffers.dtypes), None))
    }

    /// Makes a reduction of overlapping windows ready; `None` if it is none.
    pub(super) fn pool(kernel: &LoopKernel, buffers: &Buffers, arch: Arch) -> Option<Self> {
        let (kernel, op) = pool_as_contract(kernel)?;
        // longer sums are not added up one by one
        if op == ReduceOp::Sum && kernel.sizes()[3] > MAX_POOLED {
            return None;
        }
        let [_, found] = windows(&kernel, &buffers.dtypes);
        let found = found.filter(|windows| !windows.places_are_summed() && fills_lanes(windows, arch))?;
        Some(Self::with(&kernel, buffers, arch, ([None, Some(found)], Some(op))))
    }

    /// A product of operands that are these windows, or what `join` makes of those of the second one.
    fn with(
        kernel: &ContractKernel,
        buffers: &Buffers,
        arch: Arch,
        ([windows_of_lhs, windows_of_rhs], join): ([Option<Windows>; 2], Option<ReduceOp>),
    ) -> Self {
        let dtypes = buffers.dtypes.as_slice();
        let sides = Sides::new(kernel, [windows_of_lhs.is_some(), windows_of_rhs.is_some()], arch);
        let operands = sides.operands(arch, windows_of_rhs.or(windows_of_lhs), join, dtypes);
        let direct = match operands {
            Operands::Plain(..) => Target::new(kernel, &sides.groups(&sides.m), &sides.groups(&sides.n), dtypes),
            _ => None,
        };
        let [batches, rows_all, columns_all, k_all] = sides.sizes();
        let work = batches * rows_all * columns_all * k_all;
        let threads = rayon::current_num_threads();
        let blocks = Blocking::new((arch, threads), &operands, sides.sizes(), direct.is_some());
        let pieces = blocks.pieces([batches, rows_all, columns_all]);
        let Sides { batch, m, n, .. } = &sides;
        let epilogue = |fixed: &[usize], walked: &[usize]| {
            Program::new(&kernel.axes, (fixed, walked), &kernel.epilogue, &kernel.stores, &[], dtypes)
        };
        let is_whole = columns_all <= blocks.columns;
        let by_rows = (!is_whole || columns_all >= MIN_ROW).then(|| epilogue(&[batch.as_slice(), m].concat(), n));
        let flat = by_rows.as_ref().is_none_or(|rows| is_whole && !rows.has_planes && columns_all <= STRIP / 2);
        let together = match &operands {
            Operands::Windows(windows) if is_whole && windows.is_plane(&blocks, k_all) => {
                let most = if flat { STRIP / columns_all.max(1) } else { PLANE / columns_all.next_multiple_of(CHUNK) };
                most.min(batches / ENOUGH_PIECES).max(1)
            }
            _ => 1,
        };
        let epilogue = match by_rows.filter(|_| !flat) {
            Some(rows) => rows,
            None if together > 1 => epilogue(&[], &[batch.as_slice(), m, n].concat()),
            None => epilogue(batch, &[m.as_slice(), n].concat()),
        };
        let turned = match &operands {
            Operands::Plain(_, rhs) if rhs.lies_along_sums() && k_all <= blocks.chunk => {
                (columns_all > 1 && k_all > 0).then(|| rhs.turned(batches, [columns_all, k_all]))
            }
            _ => None,
        };
        let prepacked = sides.prepacked(&operands, &blocks, turned.is_some(), buffers);
        let by_dots = operands.are_dots([rows_all, columns_all, k_all], prepacked[1].is_some());
        let (turned, prepacked) = if by_dots { (None, [None, None]) } else { (turned, prepacked) };
        let turns = turned.is_some() && rows_all.div_ceil(blocks.rows) >= MIN_TURNED;
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
            by_dots,
            turned,
            turns,
            prepacked,
            direct,
            epilogue,
            flat,
            together,
            blocks,
            float: kernel.accumulator.is_float(),
            slots,
            nanoseconds: work as f64 * NANOSECONDS + pieces as f64 * PIECE_NANOSECONDS,
        }
    }

    fn chunks(&self) -> usize {
        self.k.div_ceil(self.blocks.chunk).max(1)
    }

    /// True if an operand is made ready for all blocks in each run.
    fn prepares(&self) -> bool {
        let is_ready = self.prepacked.iter().flatten().any(|operand| operand.number.is_some());
        !is_ready && (self.turns || self.windowed().and_then(Windowed::prepared_len).is_some())
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
            (Some(turned), _) if self.turns => turned.distinct(self.batch) * self.k * self.n,
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
        let mut ready = self.prepacked.each_ref().map(|operand| operand.as_ref()?.ready(env.packed));
        if let Some(partial) = own.filter(|_| self.chunks() > 1) {
            return self.run_in_chunks(env, ready, partial);
        }
        if self.together > 1 {
            return self.run_planes(env);
        }
        if let Some(words) = own {
            let (operand, batches) = if self.turns { (1, self.turned_batches()) } else { (0, self.batch) };
            self.pack(env, (operand, batches), words);
            ready[operand] = Some(Ready { words, batches });
        }
        env.threads.for_each_piece(self.pieces(), |number, scratch| {
            let piece = self.piece(number);
            if !self.sum_in_place(env, ready[1], &piece) {
                let pitch = self.sum(env, scratch, ready, &piece, 0..self.k);
                self.finish(env, scratch, &piece, pitch);
            }
        });
    }

    fn run_in_chunks(&self, env: &Env<'_>, ready: [Option<Ready>; 2], partial: View) {
        let pieces = self.pieces();
        env.threads.for_each_piece(pieces * self.chunks(), |number, scratch| {
            let (piece, chunk) = (self.piece(number % pieces), number / pieces);
            let summed = chunk * self.blocks.chunk..self.k.min((chunk + 1) * self.blocks.chunk);
            let pitch = self.sum(env, scratch, ready, &piece, summed);
            for (row, sums) in piece.rows.clone().zip(scratch.panels.sums.chunks(pitch)) {
                partial.write_run::<u32>(self.partial_at(chunk, &piece, row), &sums[..piece.columns.len()]);
            }
        });
        env.threads.for_each_piece(pieces, |number, scratch| {
            let piece = self.piece(number);
            self.join_chunks(scratch, &piece, partial);
            self.finish(env, scratch, &piece, piece.columns.len());
        });
    }

    /// Several batches at a time, each of which is one row.
    fn run_planes(&self, env: &Env<'_>) {
        let Operands::Windows(windows) = &self.operands else { unreachable!("planes are made of windows") };
        env.threads.for_each_piece(self.batch.div_ceil(self.together), |number, scratch| {
            let Scratch { registers, panels, .. } = scratch;
            registers.reserve(self.slots);
            let batches = number * self.together..self.batch.min((number + 1) * self.together);
            windows.planes(env, (registers, panels), (batches.clone(), 0..self.n, 0..self.k));
            let sums = &panels.sums[..batches.len() * self.n];
            if !self.flat {
                return self.epilogue.run_rows(env, registers, (batches, 0..self.n), (sums, self.n));
            }
            let inputs = Inputs { accumulator: sums, ..Inputs::default() };
            self.epilogue.run(env, registers, (0, batches.start * self.n, sums.len()), &inputs);
        });
    }

    fn partial_at(&self, chunk: usize, piece: &Piece, row: usize) -> i64 {
        ((((chunk * self.batch) + piece.batch) * self.m + row) * self.n + piece.columns.start) as i64
    }

    fn windowed(&self) -> Option<&Windowed> {
        if let Operands::Windows(operands) = &self.operands { Some(operands) } else { None }
    }

    /// How many batches the second operand has once it is turned over.
    fn turned_batches(&self) -> usize {
        if let Operands::Plain(_, rhs) = &self.operands { rhs.distinct(self.batch) } else { self.batch }
    }

    /// Packs operand 0 or 1, so many batches of it, into `target`, as all pieces need it.
    pub(super) fn pack(&self, env: &Env<'_>, (operand, batches): (usize, usize), target: View) {
        match &self.operands {
            Operands::Plain(_, rhs) => {
                let blocks = self.n.div_ceil(TURNED);
                env.threads.for_each_piece(batches * blocks, |number, _| {
                    let (batch, start) = (number / blocks, number % blocks * TURNED);
                    rhs.turn(env.views, (batch, start..self.n.min(start + TURNED)), [self.n, self.k], target);
                });
            }
            Operands::Windows(operands) => operands.pack(env, (batches, self.k), &self.blocks, target),
            Operands::Packed(packed) => {
                let width = if operand == 0 { self.blocks.tile.rows } else { self.blocks.tile.columns };
                packed[operand].pack_all(env, batches, (width, self.blocks.depth), target);
            }
        }
    }

    /// The operands of a plain product, the second one as it was turned over.
    fn plain<'a>(&'a self, env: &Env<'_>, turned: Option<Ready>) -> Option<(Placed<'a>, Placed<'a>)> {
        let Operands::Plain(lhs, rhs) = &self.operands else { return None };
        let rhs = match (&self.turned, turned) {
            (Some(matrix), Some(Ready { words: view, .. })) => Placed { matrix, view },
            _ => rhs.placed(env.views),
        };
        Some((lhs.placed(env.views), rhs))
    }

    /// Leaves the sums of a piece where they belong, if they are what is stored; false if it did not.
    fn sum_in_place(&self, env: &Env<'_>, turned: Option<Ready>, piece: &Piece) -> bool {
        let (Some(operands), Some(target)) = (self.plain(env, turned), &self.direct) else { return false };
        let Piece { batch, rows, columns } = piece.clone();
        let part = Part { by_dots: self.by_dots, batch, rows, columns, summed: 0..self.k };
        gemm::multiply_into((env.arch, env.views), operands, &part, target)
    }

    /// Leaves the sums of a piece over `summed` in `scratch.panels.sums`, row-major; the words from a row to the next are
    /// returned.
    fn sum(
        &self,
        env: &Env<'_>,
        scratch: &mut Scratch,
        ready: [Option<Ready>; 2],
        piece: &Piece,
        summed: Range<usize>,
    ) -> usize {
        let Scratch { registers, panels, .. } = scratch;
        registers.reserve(self.slots);
        let columns = piece.columns.len();
        if let Some(operands) = self.plain(env, ready[1]) {
            // what is read by vectors begins where one does
            let has_gaps = !self.flat && columns >= CHUNK;
            let pitch = if has_gaps { columns.next_multiple_of(LINE) } else { columns };
            let len = piece.rows.len() * pitch;
            panels.sums.reserve(len);
            let Piece { batch, rows, columns } = piece.clone();
            let part = Part { by_dots: self.by_dots, batch, rows, columns, summed };
            gemm::multiply(env.arch, operands, &part, (&mut panels.sums[..len], pitch), &mut panels.lhs);
            return pitch;
        }
        let (lhs, rhs) = match &self.operands {
            Operands::Packed(packed) => (&packed[0], &packed[1]),
            Operands::Windows(operands) => {
                operands.sum(env, (registers, panels), (piece, summed), &self.blocks, ready[0]);
                return columns;
            }
            Operands::Plain(..) => unreachable!("plain operands are not packed"),
        };
        let stride = columns.next_multiple_of(self.blocks.tile.columns);
        let len = piece.rows.len().next_multiple_of(self.blocks.tile.rows) * stride;
        panels.sums.reserve(len);
        panels.sums[..len].fill(0);
        for start in summed.clone().step_by(self.blocks.depth) {
            let depth = self.blocks.depth.min(summed.end - start);
            let Panels { lhs: lhs_panels, rhs: rhs_panels, lines, .. } = panels;
            let summed = start..start + depth;
            let of_rows = (piece.batch, summed.clone(), piece.rows.clone());
            let lhs = lhs.panels(env, registers, of_rows, self.blocks.tile.rows, (lhs_panels, lines), ready[0]);
            let of_columns = (piece.batch, summed, piece.columns.clone());
            let rhs = rhs.panels(env, registers, of_columns, self.blocks.tile.columns, (rhs_panels, lines), ready[1]);
            let block =
                Block { lhs: &lhs, rhs: &rhs, sums: &mut panels.sums[..len], stride, depth, tile: self.blocks.tile };
            if self.float { block.run_floats(env.arch) } else { block.run_words() }
        }
        if !self.flat {
            return stride;
        }
        if stride != columns {
            for row in 1..piece.rows.len() {
                panels.sums.copy_within(row * stride..row * stride + columns, row * columns);
            }
        }
        columns
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

    /// Runs the epilogue over a piece's sums, of which rows are `pitch` words apart.
    fn finish(&self, env: &Env<'_>, scratch: &mut Scratch, piece: &Piece, pitch: usize) {
        let Scratch { registers, panels, .. } = scratch;
        if !self.flat {
            let first = piece.batch * self.m + piece.rows.start;
            let rows = first..first + piece.rows.len();
            return self.epilogue.run_rows(env, registers, (rows, piece.columns.clone()), (&panels.sums, pitch));
        }
        let sums = &panels.sums[..piece.rows.len() * piece.columns.len()];
        let start = piece.rows.start * self.n;
        for (number, accumulator) in sums.chunks(STRIP).enumerate() {
            let at = (piece.batch, start + number * STRIP, accumulator.len());
            self.epilogue.run(env, registers, at, &Inputs { accumulator, ..Inputs::default() });
        }
    }
}
