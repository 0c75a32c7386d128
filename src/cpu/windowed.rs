//! Products of which one operand is windows: sums over windows with the other operand's points or with places as lanes,
//! or by transforms of tiles.

use std::ops::Range;

use pulp::Arch;

use crate::graph::ReduceOp;

use super::blocking::Blocking;
use super::contract::Piece;
use super::execute::Env;
use super::lanes::{Height, Join, Lanes, PlacesBlock, PlaneBlock, SumsBlock};
use super::lines::{Lines, LinesBlock};
use super::micro::{Tile, WindowBlock};
use super::pack::{Operand, Panels};
use super::prepack::{Layout, Ready};
use super::registers::Registers;
use super::scratch::Scratch;
use super::view::View;
use super::windows::Windows;
use super::winograd::Winograd;

/// Multiplications that take as long as turning a result over, which lies places by filters where the other operand's
/// points are lanes.
const TURNED: f64 = 32.0;

/// Operands of which one is windows.
#[derive(Debug)]
pub(super) struct Windowed {
    pub(super) windows: Windows,
    other: Operand,
    /// Points of the other operand.
    rows: usize,
    way: Way,
}

/// How they are multiplied.
#[derive(Debug)]
enum Way {
    /// With the other operand's points as lanes.
    Others,
    /// With the windows' places as lanes, where that leaves fewer of them empty; a single filter in several lines, where
    /// it has some.
    Places(Lanes, Height, Option<Lines>),
    /// The same without another operand.
    Pool(Lanes, ReduceOp),
    Tiles(Winograd),
}

impl Windowed {
    /// Windows and the other operand, of so many points; or, if they are only to be joined, windows that have
    /// [`Lanes`].
    pub(super) fn new(arch: Arch, windows: Windows, other: Operand, rows: usize, join: Option<ReduceOp>) -> Self {
        if let Some(op) = join {
            let lanes = windows.lanes(arch).expect("whoever asks for a pool has looked");
            return Self { windows, other, rows, way: Way::Pool(lanes, op) };
        }
        if let Some(winograd) = windows.winograd(arch, rows) {
            return Self { windows, other, rows, way: Way::Tiles(winograd) };
        }
        let summed = windows.places_are_summed();
        let others = rows as f64 / rows.next_multiple_of(Tile::wide(arch, rows)) as f64;
        let height = if summed { Height::of_sums(arch, rows) } else { Height::of_places(arch, rows) };
        // what a result takes, in multiplications; where places are summed there are few results
        let depth = windows.depth() as f64;
        let with_others = if summed { depth } else { depth + TURNED } / others;
        let pays = |lanes: &Lanes| depth / lanes.share(height, rows) <= with_others;
        let lanes = windows.lanes(arch).filter(|lanes| (!summed || other.is_along_sums()) && pays(lanes));
        let way = lanes.map_or(Way::Others, |lanes| {
            let is_single = rows == 1 && !summed;
            let lines = is_single.then(|| Lines::new(&lanes, windows.block_places(), windows.taps())).flatten();
            Way::Places(lanes, height, lines)
        });
        Self { windows, other, rows, way }
    }

    /// Rows that are multiplied together, of tiles that are like `tile` where the other operand's points are lanes.
    pub(super) fn unit(&self, tile: Tile) -> usize {
        match &self.way {
            Way::Others => tile.columns,
            Way::Places(_, height, _) => height.0,
            Way::Pool(..) => 1,
            Way::Tiles(winograd) => winograd.height.0,
        }
    }

    /// Registers needed.
    pub(super) fn slots(&self) -> usize {
        self.windows.slots().max(self.other.slots())
    }

    /// Words of what the other operand becomes for each batch before anything is multiplied, whether it outlasts a run
    /// or not.
    pub(super) fn prepared_len(&self) -> Option<usize> {
        let Way::Tiles(winograd) = &self.way else { return None };
        Some(winograd.weights_len(self.rows))
    }

    /// How the other operand is packed beforehand if it outlasts a run, and its words for each batch; `None` if it is not.
    pub(super) fn layout(&self, blocks: &Blocking, summed: usize) -> Option<(Layout, usize)> {
        if let Way::Tiles(winograd) = &self.way {
            return Some((winograd.layout(), winograd.weights_len(self.rows)));
        }
        // a single filter is read where it lies, and a pool has none
        let packs = !self.windows.places_are_summed() && self.rows > 1;
        let width = self.unit(blocks.tile);
        packs.then(|| (Layout::Panels { width, depth: blocks.depth }, self.rows.next_multiple_of(width) * summed))
    }

    /// Packs the other operand, of so many batches and summed points, into `target`.
    pub(super) fn pack(&self, env: &Env<'_>, (batches, summed): (usize, usize), blocks: &Blocking, target: View) {
        let Way::Tiles(winograd) = &self.way else {
            return self.other.pack_all(env, batches, (self.unit(blocks.tile), blocks.depth), target);
        };
        let height = winograd.height.0;
        let (panels, len) = (self.rows.div_ceil(height), winograd.weights_len(height));
        env.threads.for_each_piece(batches * panels, |number, scratch| {
            let Scratch { registers, panels: Panels { rhs, lines, .. }, .. } = scratch;
            registers.reserve(self.slots());
            let start = number % panels * height;
            let rows = start..self.rows.min(start + height);
            self.other.pack(env, registers, (number / panels, 0..summed, rows), height, (rhs, lines));
            let mut target = target.run_mut((number * len) as i64, len);
            let panel = bytemuck::cast_slice(&rhs[..summed * height]);
            winograd.weights(panel, bytemuck::cast_slice_mut(target.words_mut()));
        });
    }

    /// Leaves the sums of a piece over `summed` in `panels.sums`, row-major without gaps.
    pub(super) fn sum(
        &self,
        env: &Env<'_>,
        scratch: (&mut Registers, &mut Panels),
        (piece, summed): (&Piece, Range<usize>),
        blocks: &Blocking,
        ready: Option<Ready>,
    ) {
        if self.is_plane(blocks, summed.len()) {
            return self.planes(env, scratch, (piece.batch..piece.batch + 1, piece.columns.clone(), summed));
        }
        match (&self.way, ready) {
            (Way::Others, _) => self.sum_others(env, scratch, (piece, summed), blocks, ready),
            (Way::Places(lanes, height, _), _) => {
                self.sum_places(env, scratch, (piece, summed), (blocks, ready), (lanes, *height));
            }
            (Way::Pool(..), _) => unreachable!("a pool is a plane"),
            (Way::Tiles(winograd), Some(weights)) => self.sum_tiles(env, scratch, (piece, summed), (winograd, weights)),
            (Way::Tiles(_), None) => unreachable!("tiles are multiplied with transformed weights"),
        }
    }

    /// The windows' points are the micro-kernel's rows, so its sums are turned over at the end.
    fn sum_others(
        &self,
        env: &Env<'_>,
        (registers, panels): (&mut Registers, &mut Panels),
        (piece, summed): (&Piece, Range<usize>),
        blocks: &Blocking,
        ready: Option<Ready>,
    ) {
        let (Self { windows, other, .. }, Blocking { tile, depth, .. }) = (self, *blocks);
        let stride = piece.rows.len().next_multiple_of(tile.columns);
        let len = piece.columns.len().next_multiple_of(tile.rows) * stride;
        panels.sums.reserve(len);
        panels.sums[..len].fill(0);
        if !windows.places_are_summed() {
            windows.fill(
                env,
                registers,
                (piece.batch, piece.columns.clone(), summed.clone()),
                (&mut panels.lhs, 0),
                false,
            );
        }
        for start in summed.clone().step_by(depth) {
            let summed = start..summed.end.min(start + depth);
            if windows.places_are_summed() {
                windows.fill(
                    env,
                    registers,
                    (piece.batch, summed.clone(), piece.columns.clone()),
                    (&mut panels.lhs, 0),
                    false,
                );
            }
            let range = (piece.batch, summed.clone(), piece.rows.clone());
            let Panels { lhs: grid, rhs, sums, lines, .. } = &mut *panels;
            let rhs = other.panels(env, registers, range, tile.columns, (rhs, lines), ready);
            let at = windows.distances(&piece.columns, &summed);
            WindowBlock { grid, at, rhs: &rhs, sums: &mut sums[..len], stride, tile }.run(env.arch);
        }
        let (rows, columns) = (piece.rows.len(), piece.columns.len());
        panels.lines.reserve(rows * columns);
        turn(&panels.sums[..columns * stride], stride, &mut panels.lines[..rows * columns]);
        std::mem::swap(&mut panels.sums, &mut panels.lines);
    }

    fn sum_tiles(
        &self,
        env: &Env<'_>,
        (registers, panels): (&mut Registers, &mut Panels),
        (piece, summed): (&Piece, Range<usize>),
        (winograd, ready): (&Winograd, Ready),
    ) {
        let Panels { lhs: grid, sums, winograd: work, .. } = panels;
        let (rows, columns) = (piece.rows.len(), piece.columns.len());
        sums.reserve(rows * columns);
        self.windows.fill(env, registers, (piece.batch, piece.columns.clone(), summed), (grid, 0), false);
        let len = winograd.weights_len(winograd.height.0);
        let count = self.rows.div_ceil(winograd.height.0);
        let batch = if ready.batches == 1 { 0 } else { piece.batch };
        let first = batch * count + piece.rows.start / winograd.height.0;
        let weights = ready.words.run((first * len) as i64, rows.div_ceil(winograd.height.0) * len);
        let lead = columns.div_ceil(winograd.places());
        winograd.sum(env.arch, (grid, lead), weights.words(), (&mut sums[..], rows), work);
    }

    /// True if each piece is one plane of results, each of which only needs its own channel: a pool, or a single filter.
    pub(super) fn is_plane(&self, blocks: &Blocking, summed: usize) -> bool {
        match self.way {
            Way::Pool(..) => true,
            Way::Places(..) => self.rows == 1 && summed <= blocks.depth && !self.windows.places_are_summed(),
            Way::Others | Way::Tiles(_) => false,
        }
    }

    /// Leaves planes, each the results of one row of a batch, in `panels.sums`, one after the other.
    pub(super) fn planes(
        &self,
        env: &Env<'_>,
        (registers, panels): (&mut Registers, &mut Panels),
        (batches, columns, summed): (Range<usize>, Range<usize>, Range<usize>),
    ) {
        let Panels { lhs: grid, rhs, sums, lines: spread, .. } = panels;
        let (lanes, lines, op) = match &self.way {
            Way::Places(lanes, _, lines) => (lanes, *lines, None),
            Way::Pool(lanes, op) => (lanes, None, Some(*op)),
            Way::Others | Way::Tiles(_) => unreachable!("only a pool or a single filter is a plane"),
        };
        let (places, margin) = (columns.len(), lanes.margin());
        let taps = self.windows.distances(&columns, &summed).summed;
        let (at, to) = (lanes.at(places), lanes.to(places));
        let lines = lines.filter(|lines| lines.fill_tile(at.len()));
        sums.reserve(batches.len() * places + margin);
        for (number, batch) in batches.enumerate() {
            let from = (batch, columns.clone(), summed.clone());
            self.windows.fill(env, registers, from, (grid, margin), number > 0);
            let how = if let Some(op) = op {
                Join::Reduce(op)
            } else {
                self.other.pack(env, registers, (batch, summed.clone(), 0..1), 1, (rhs, spread));
                Join::Weigh(&rhs[..summed.len()])
            };
            let results = &mut sums[number * places..];
            match (to, lines, how) {
                (Some(to), Some(lines), Join::Weigh(weights)) => {
                    env.arch.dispatch(LinesBlock { lines, grid, at, to, taps, weights, results });
                }
                (Some(_), ..) => env.arch.dispatch(PlaneBlock { grid, at, to, taps, how, results }),
                (None, ..) => {
                    let len = lanes.spread_len(places);
                    spread.reserve(len);
                    env.arch.dispatch(PlaneBlock { grid, at, to, taps, how, results: &mut spread[..len] });
                    lanes.gather_into(&spread[..len], &mut results[..places]);
                }
            }
        }
    }

    fn sum_places(
        &self,
        env: &Env<'_>,
        (registers, panels): (&mut Registers, &mut Panels),
        (piece, summed): (&Piece, Range<usize>),
        (blocks, ready): (&Blocking, Option<Ready>),
        (lanes, height): (&Lanes, Height),
    ) {
        let Self { windows, other, .. } = self;
        let (rows, columns) = (piece.rows.len(), piece.columns.len());
        let Panels { lhs: grid, rhs, sums, lines, .. } = panels;
        let margin = lanes.margin();
        if windows.places_are_summed() {
            let len = rows * columns;
            sums.reserve(len);
            sums[..len].fill(0);
            for start in summed.clone().step_by(blocks.depth) {
                let summed = start..summed.end.min(start + blocks.depth);
                let places = summed.len();
                windows.fill(
                    env,
                    registers,
                    (piece.batch, summed.clone(), piece.columns.clone()),
                    (grid, margin),
                    false,
                );
                other.lines(env, registers, (piece.batch, summed.clone(), piece.rows.clone()), (rhs, places));
                lanes.spread(rhs, lines, (rows, places));
                let taps = windows.distances(&piece.columns, &summed).own;
                let (lines, at) = (&rhs[..rows * lanes.spread_len(places)], lanes.at(places));
                let sums = &mut sums[..len];
                env.arch.dispatch(SumsBlock { grid, at, taps, lines, sums, height });
            }
            return;
        }
        windows.fill(env, registers, (piece.batch, piece.columns.clone(), summed.clone()), (grid, margin), false);
        let len = rows.next_multiple_of(height.0) * lanes.spread_len(columns);
        sums.reserve(len);
        sums[..len].fill(0);
        for start in summed.clone().step_by(blocks.depth) {
            let summed = start..summed.end.min(start + blocks.depth);
            let range = (piece.batch, summed.clone(), piece.rows.clone());
            let rows = other.panels(env, registers, range, height.0, (rhs, lines), ready);
            let summed = windows.distances(&piece.columns, &summed).summed;
            let (sums, panel) = (&mut sums[..len], summed.len() * height.0);
            env.arch.dispatch(PlacesBlock { grid, at: lanes.at(columns), summed, rows: &rows, panel, sums, height });
        }
        lanes.gather(sums, (rows, columns));
    }
}

/// `target[i][j] = source[j][i]`, where a row of `source` has `stride` words, of which the first ones are wanted. Eight
/// lines of `target` at a time: more of them, often a power of two apart, would drive each other out of the first-level
/// cache.
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
