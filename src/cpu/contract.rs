//! Contractions: blocks of the result, each summed over k in fixed steps and finished by the epilogue while in cache.

use std::ops::Range;

use pulp::Arch;

use crate::dtype::DType;
use crate::plan::{ContractKernel, Store, Tape, ValueId};

use super::blocking::{Blocking, MOST_COLUMNS};
use super::execute::{Env, Inputs, Registers, STRIP, Spread};
use super::gemm::{self, Matrix, Part, Placed, TURNED, Target};
use super::lanes::{Height, Lanes, PlacesBlock, SumsBlock};
use super::memory::{Blocks, Memory};
use super::micro::{Block, Tile, WindowBlock};
use super::pack::{Groups, Operand, Panels};
use super::program::Program;
use super::scratch::{Scratch, for_each_piece};
use super::view::View;
use super::windows::Windows;
use super::winograd::Winograd;

/// Multiplications below which a kernel runs on the calling thread.
const INLINE: usize = 1_000_000;
/// Of the lanes that the other operand's points would fill, how many places have to fill to be lanes instead: then nothing is
/// turned over.
const LEAST_SHARE: f64 = 0.85;
/// Blocks of rows from which on it is worth turning an operand over once for all of them.
const LEAST_TURNED: usize = 3;

/// A [`ContractKernel`] ready to run.
#[derive(Debug)]
pub(super) struct CompiledContract {
    batch: usize,
    /// Rows, columns and summed points; "rows" are m or, where that stores better, n.
    m: usize,
    n: usize,
    k: usize,
    operands: Operands,
    /// What the second operand becomes before anything is multiplied, if several blocks of rows would turn it over each.
    turned: Option<Matrix>,
    /// Where a plain product's sums are written as they are made.
    direct: Option<Target>,
    epilogue: Program,
    /// True if the epilogue walks rows and columns as one.
    flat: bool,
    blocks: Blocking,
    float: bool,
    pub(super) parallel: bool,
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

/// Operands of which one is windows.
#[derive(Debug)]
pub(super) struct Windowed {
    pub(super) windows: Windows,
    pub(super) other: Operand,
    /// The windows' places as lanes, if that leaves fewer lanes empty than the other operand's points would.
    pub(super) lanes: Option<(Lanes, Height)>,
    pub(super) winograd: Option<Winograd>,
}

impl Windowed {
    fn new(arch: Arch, windows: Windows, other: Operand, rows: usize) -> Self {
        let summed = windows.places_are_summed;
        let others = rows as f64 / rows.next_multiple_of(Tile::wide(arch, rows)) as f64;
        let lanes = windows.lanes(arch).filter(|lanes| {
            (!summed || other.is_along_sums()) && lanes.share(arch, rows, summed) >= LEAST_SHARE * others
        });
        let height = if summed { Height::of_sums(arch, rows) } else { Height::of_places(arch, rows) };
        let winograd = windows.winograd(arch, rows);
        Self { windows, other, lanes: lanes.map(|lanes| (lanes, height)), winograd }
    }

    /// Rows that are multiplied together.
    pub(super) fn unit(&self, tile: Tile) -> usize {
        let transformed = self.winograd.as_ref().map(|winograd| winograd.height);
        let height = transformed.or(self.lanes.as_ref().map(|lanes| lanes.1));
        height.map_or(tile.columns, |height| height.0)
    }

    fn slots(&self) -> usize {
        self.windows.slots().max(self.other.slots())
    }
}

/// Memory of a kernel's own: the pieces of cut sums, `[chunk][batch][m][n]`, or an operand turned over, `[batch][k][n]`.
#[derive(Debug)]
pub(super) struct ContractState {
    words: View,
    _memory: Memory,
}

/// Where one piece lies.
#[derive(Clone)]
struct Piece {
    batch: usize,
    rows: Range<usize>,
    columns: Range<usize>,
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

/// `target[i][j] = source[j][i]`, where a row of `source` has `stride` words, of which the first ones are wanted. Eight lines of
/// `target` at a time: more of them, often a power of two apart, would drive each other out of the first-level cache.
fn turn(source: &[u32], stride: usize, target: &mut [u32]) {
    const TOGETHER: usize = 8;
    let columns = source.len() / stride;
    for (number, target) in target.chunks_mut(TOGETHER * columns).enumerate() {
        let mut lines = target.chunks_exact_mut(columns);
        let mut lines: [&mut [u32]; TOGETHER] = std::array::from_fn(|_| lines.next().unwrap_or_default());
        for (j, words) in source.chunks_exact(stride).enumerate() {
            for (line, &word) in lines.iter_mut().zip(&words[number * TOGETHER..]) {
                if let Some(place) = line.get_mut(j) {
                    *place = word;
                }
            }
        }
    }
}

impl CompiledContract {
    /// Makes `kernel` ready; `dtypes` are the buffers'.
    pub(super) fn new(kernel: &ContractKernel, dtypes: &[DType], arch: Arch) -> Self {
        let axes = &kernel.axes;
        let group = |number| kernel.group(number).collect::<Vec<usize>>();
        let (batch, mut m, mut n, k) = (group(0), group(1), group(2), group(3));
        let (mut lhs, mut rhs) = (&kernel.lhs, &kernel.rhs);
        let size = |group: &[usize]| group.iter().map(|&axis| axes[axis]).product::<usize>();
        let across = stores_along(&kernel.stores, &m, &n, axes);
        let windows = |own: &[usize], (tape, value): &(Tape, ValueId), others: &[usize]| {
            let groups = Groups { batch: &batch, own, summed: &k };
            let is_float = kernel.accumulator.is_float();
            is_float.then(|| Windows::new(axes, &groups, (tape, *value), size(others), dtypes)).flatten()
        };
        let mut found = windows(&n, rhs, &m);
        // Tiles half empty cost more than results written with gaps.
        let (plain, swapped) = (Tile::padded(arch, size(&m), size(&n)), Tile::padded(arch, size(&n), size(&m)));
        let mut swap = if across { 2 * swapped <= 3 * plain } else { 3 * swapped < 2 * plain };
        if found.is_none() {
            found = windows(&m, lhs, &n);
            swap |= found.is_some();
        } else {
            swap = false;
        }
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
                Operands::Windows(Box::new(Windowed::new(arch, windows, operand(&m, lhs), size(&m))))
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
        let flat = columns_all <= blocks.columns;
        let (fixed, walked) = if flat {
            (batch.clone(), [m.as_slice(), &n].concat())
        } else {
            ([batch.as_slice(), &m].concat(), n.clone())
        };
        let turned = match &operands {
            Operands::Plain(_, rhs) if rhs.lies_along_sums() && k_all <= blocks.chunk => {
                let worth = rows_all.div_ceil(blocks.rows) >= LEAST_TURNED && columns_all > 1;
                worth.then(|| Matrix::turned(batches, [columns_all, k_all]))
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
            parallel: work > INLINE,
            slots,
            nanoseconds: work as f64 * 0.01,
        }
    }

    fn chunks(&self) -> usize {
        self.k.div_ceil(self.blocks.chunk).max(1)
    }

    /// Memory of its own; `Some(None)` if none is needed, `None` if there is none left.
    pub(super) fn state(&self, blocks: &Blocks) -> Option<Option<ContractState>> {
        let words = match (&self.turned, self.winograd()) {
            (Some(_), _) => self.batch * self.k * self.n,
            (_, Some((_, winograd))) => self.batch * winograd.weights_len(self.m),
            _ if self.chunks() == 1 => return Some(None),
            _ => self.chunks() * self.batch * self.m * self.n,
        };
        let memory = blocks.scratch(4 * words as u64)?;
        Some(Some(ContractState { words: memory.view(4 * words), _memory: memory }))
    }

    fn pieces(&self) -> usize {
        self.batch * self.m.div_ceil(self.blocks.rows) * self.n.div_ceil(self.blocks.columns)
    }

    fn piece(&self, number: usize) -> Piece {
        let across = self.n.div_ceil(self.blocks.columns);
        let down = self.m.div_ceil(self.blocks.rows);
        let (column, row) = (number % across * self.blocks.columns, number / across % down * self.blocks.rows);
        Piece {
            batch: number / across / down,
            rows: row..self.m.min(row + self.blocks.rows),
            columns: column..self.n.min(column + self.blocks.columns),
        }
    }

    /// Runs the kernel.
    pub(super) fn run(&self, env: &Env<'_>, state: Option<&mut ContractState>) {
        let own = state.map(|state| state.words);
        let prepares = self.turned.is_some() || self.winograd().is_some();
        let partial = match own {
            Some(words) if !prepares => words,
            prepared => {
                if let Some(target) = prepared {
                    self.prepare(env, target);
                }
                for_each_piece(self.pieces(), self.parallel, |number, scratch| {
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
        for_each_piece(pieces * self.chunks(), self.parallel, |number, scratch| {
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
        for_each_piece(pieces, self.parallel, |number, scratch| {
            let piece = self.piece(number);
            self.join_chunks(scratch, &piece, partial);
            self.finish(env, scratch, &piece);
        });
    }

    fn partial_at(&self, chunk: usize, piece: &Piece, row: usize) -> i64 {
        ((((chunk * self.batch) + piece.batch) * self.m + row) * self.n + piece.columns.start) as i64
    }

    fn winograd(&self) -> Option<(&Windowed, &Winograd)> {
        let Operands::Windows(operands) = &self.operands else { return None };
        Some((operands, operands.winograd.as_ref()?))
    }

    /// Turns the second operand over, or transforms the first one, into `target`.
    fn prepare(&self, env: &Env<'_>, target: View) {
        if let Some((Windowed { other, .. }, winograd)) = self.winograd() {
            let height = winograd.height.0;
            let (panels, len) = (self.m.div_ceil(height), winograd.weights_len(height));
            for_each_piece(self.batch * panels, self.parallel, |number, scratch| {
                let Scratch { registers, panels: Panels { rhs, lines, .. }, .. } = scratch;
                registers.reserve(self.slots);
                let start = number % panels * height;
                let rows = start..self.m.min(start + height);
                other.pack(env, registers, (number / panels, 0..self.k, rows), height, (rhs, lines));
                let mut target = target.run_mut((number * len) as i64, len);
                let panel = bytemuck::cast_slice(&rhs[..self.k * height]);
                winograd.weights(panel, bytemuck::cast_slice_mut(target.words_mut()));
            });
            return;
        }
        let Operands::Plain(_, rhs) = &self.operands else { unreachable!("only plain operands are turned over") };
        let blocks = self.n.div_ceil(TURNED);
        for_each_piece(self.batch * blocks, self.parallel, |number, _| {
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
        gemm::multiply_into(env.views, operands, &Part { batch, rows, columns, summed: 0..self.k }, target)
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
            return gemm::multiply(operands, &part, &mut panels.sums[..len], &mut panels.lhs);
        }
        let (lhs, rhs) = match &self.operands {
            Operands::Packed(packed) => (&packed[0], &packed[1]),
            Operands::Windows(operands) => {
                return match (&operands.winograd, &operands.lanes, prepared) {
                    (Some(winograd), _, Some(weights)) => {
                        self.sum_tiles(env, (registers, panels), (operands, winograd, weights), piece);
                    }
                    (_, Some(lanes), _) => self.sum_lanes(env, (registers, panels), (operands, lanes), piece, summed),
                    _ => self.sum_windows(env, (registers, panels), operands, piece, summed),
                };
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

    /// The same for windows. Their points are the micro-kernel's rows, so its sums are turned over at the end.
    fn sum_windows(
        &self,
        env: &Env<'_>,
        (registers, panels): (&mut Registers, &mut Panels),
        Windowed { windows, other, .. }: &Windowed,
        piece: &Piece,
        summed: Range<usize>,
    ) {
        let Blocking { tile, depth, .. } = self.blocks;
        let stride = piece.rows.len().next_multiple_of(tile.columns);
        let len = piece.columns.len().next_multiple_of(tile.rows) * stride;
        panels.sums.reserve(len);
        panels.sums[..len].fill(0);
        if !windows.places_are_summed {
            windows.fill(env, registers, (piece.batch, piece.columns.clone(), summed.clone()), &mut panels.lhs, 0);
        }
        for start in summed.clone().step_by(depth) {
            let summed = start..summed.end.min(start + depth);
            if windows.places_are_summed {
                windows.fill(env, registers, (piece.batch, summed.clone(), piece.columns.clone()), &mut panels.lhs, 0);
            }
            let range = (piece.batch, summed.clone(), piece.rows.clone());
            other.pack(env, registers, range, tile.columns, (&mut panels.rhs, &mut panels.lines));
            let (at, rhs) = (windows.distances(&piece.columns, &summed), &panels.rhs[..stride * summed.len()]);
            WindowBlock { grid: &panels.lhs, at, rhs, sums: &mut panels.sums[..len], stride, tile }.run(env.arch);
        }
        let (rows, columns) = (piece.rows.len(), piece.columns.len());
        panels.lines.reserve(rows * columns);
        turn(&panels.sums[..columns * stride], stride, &mut panels.lines[..rows * columns]);
        std::mem::swap(&mut panels.sums, &mut panels.lines);
    }

    /// The same by transforms of tiles, with transformed weights.
    fn sum_tiles(
        &self,
        env: &Env<'_>,
        (registers, panels): (&mut Registers, &mut Panels),
        (Windowed { windows, .. }, winograd, weights): (&Windowed, &Winograd, View),
        piece: &Piece,
    ) {
        let Panels { lhs: grid, sums, winograd: work, .. } = panels;
        let (rows, columns) = (piece.rows.len(), piece.columns.len());
        sums.reserve(rows * columns);
        windows.fill(env, registers, (piece.batch, piece.columns.clone(), 0..self.k), grid, 0);
        let len = winograd.weights_len(winograd.height.0);
        let count = self.m.div_ceil(winograd.height.0);
        let first = piece.batch * count + piece.rows.start / winograd.height.0;
        let weights = weights.run((first * len) as i64, rows.div_ceil(winograd.height.0) * len);
        let weights = weights.words().chunks_exact(len);
        let lead = columns.div_ceil(winograd.places());
        winograd.sum(env.arch, (grid, lead), weights, (&mut sums[..], rows), work);
    }

    /// The same with places as lanes.
    fn sum_lanes(
        &self,
        env: &Env<'_>,
        (registers, panels): (&mut Registers, &mut Panels),
        (Windowed { windows, other, .. }, (lanes, height)): (&Windowed, &(Lanes, Height)),
        piece: &Piece,
        summed: Range<usize>,
    ) {
        let (rows, columns) = (piece.rows.len(), piece.columns.len());
        let Panels { lhs: grid, rhs, sums, lines, .. } = panels;
        let margin = lanes.margin();
        if windows.places_are_summed {
            let len = rows * columns;
            sums.reserve(len);
            sums[..len].fill(0);
            for start in summed.clone().step_by(self.blocks.depth) {
                let summed = start..summed.end.min(start + self.blocks.depth);
                let places = summed.len();
                windows.fill(env, registers, (piece.batch, summed.clone(), piece.columns.clone()), grid, margin);
                other.lines(env, registers, (piece.batch, summed.clone(), piece.rows.clone()), rhs);
                lanes.spread(rhs, lines, (rows, places));
                let taps = windows.distances(&piece.columns, &summed).own;
                let (lines, at) = (&rhs[..rows * lanes.spread_len(places)], lanes.at(places));
                let sums = &mut sums[..len];
                env.arch.dispatch(SumsBlock { grid, at, taps, lines, sums, height: *height });
            }
            return;
        }
        let len = rows.next_multiple_of(height.0) * lanes.spread_len(columns);
        sums.reserve(len);
        sums[..len].fill(0);
        windows.fill(env, registers, (piece.batch, piece.columns.clone(), summed.clone()), grid, margin);
        for start in summed.clone().step_by(self.blocks.depth) {
            let summed = start..summed.end.min(start + self.blocks.depth);
            let range = (piece.batch, summed.clone(), piece.rows.clone());
            other.pack(env, registers, range, height.0, (rhs, lines));
            let summed = windows.distances(&piece.columns, &summed).summed;
            let rows = &rhs[..rows.next_multiple_of(height.0) * summed.len()];
            let sums = &mut sums[..len];
            env.arch.dispatch(PlacesBlock { grid, at: lanes.at(columns), summed, rows, sums, height: *height });
        }
        lanes.gather(sums, (rows, columns));
    }

    /// Adds up the chunks' sums of a piece, in order.
    fn join_chunks(&self, scratch: &mut Scratch, piece: &Piece, partial: View) {
        scratch.registers.reserve(self.slots);
        let columns = piece.columns.len();
        scratch.panels.sums.reserve(piece.rows.len() * columns);
        let sums = &mut scratch.panels.sums[..piece.rows.len() * columns];
        sums.fill(0);
        let mut words = [0; MOST_COLUMNS];
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
