//! Into which blocks a contraction is cut.

use pulp::Arch;

use super::execute::STRIP;
use super::gemm::{FEW, NOT_TURNED};
use super::micro::Tile;
use super::operands::Operands;
use super::windows::Windows;

/// Summed points of a step: a panel of them fills two thirds of the first-level cache.
const DEPTH: usize = 256;
/// Most rows of a block: with [`DEPTH`] of them the panels stay in the second-level cache.
const MAX_ROWS: usize = 240;
/// Most rows of a block of a plain product: so many of its sums fit into a second-level cache.
const MAX_PLAIN_ROWS: usize = 480;
/// The same if its sums are written where they belong.
const MAX_DIRECT_ROWS: usize = 1024;
/// Rows below which a plain product is cut along its columns instead: each block packs all of its columns.
const MIN_PLAIN_ROWS: usize = 64;
/// Rows and columns of any block, at least, if there are as many blocks as threads: of fewer results than these the crate
/// sums some in another order, as it does vectors and products of two terms.
const MIN_LAST_ROWS: usize = 8;
const MIN_LAST_COLUMNS: usize = 33;
const MIN_TERMS: usize = 3;
const _: () = assert!(MIN_LAST_ROWS * MIN_LAST_COLUMNS > NOT_TURNED && MIN_LAST_ROWS > FEW);
/// Results of such a block, at most, for which an epilogue waits, and rows that it may have in any case.
const MAX_WAITING: usize = 16 << 10;
const MIN_WAITING_ROWS: usize = 128;
/// Multiplications of a block of a plain product, at least, if there are more of them than threads, so that one that
/// comes late has less to do; and how many more there are at most.
const LARGE_BLOCK: usize = 256 << 20;
const MOST_BLOCKS: usize = 4;
/// Multiplications that are worth a piece, if there are few of them.
const WORTH_A_PIECE: usize = 1 << 20;
/// Multiplications from which on a plain product of a single block is halved, and rows, or columns, of a half.
const MIN_HALVED: usize = 200_000;
const MIN_HALF_ROWS: usize = 32;
const MIN_HALF_COLUMNS: usize = 64;
/// Rows of a block, if a product with windows is cut along them.
const MIN_FILTERS: usize = 16;
/// Most columns of a block, unless it is a plane with a filter of its own, whose sums are not cut.
pub(super) const MAX_COLUMNS: usize = STRIP;
/// Blocks that a large contraction should have.
pub(super) const ENOUGH_PIECES: usize = 8;
/// Multiplications below which a block is not divided further.
const SMALL_BLOCK: usize = 2_000_000;
/// Pieces of a contraction whose sums are cut.
const ENOUGH_CHUNKS: usize = 16;
/// Most words of partial sums, or of what is turned over instead.
const MAX_PARTIAL: usize = 4 << 20;

/// The blocks that a contraction is cut into.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blocking {
    pub(super) tile: Tile,
    /// Rows of a block.
    pub(super) rows: usize,
    /// Columns of a block.
    pub(super) columns: usize,
    /// Columns after which a block begins in any case, a part of all of them.
    pub(super) segment: usize,
    /// Summed points of a piece; all of them unless the sum is cut.
    pub(super) chunk: usize,
    /// Summed points of a step.
    pub(super) depth: usize,
}

/// The size of each of the fewest equal parts of `total` that are no larger than `most`, in whole `unit`s.
pub(super) fn even(total: usize, most: usize, unit: usize) -> usize {
    let parts = total.div_ceil(most).max(1);
    total.div_ceil(parts).next_multiple_of(unit).max(unit)
}

/// Pieces that so many multiplications should have, so that several threads get some.
pub(super) fn worthwhile_pieces(multiplications: usize) -> usize {
    (multiplications / WORTH_A_PIECE).clamp(1, ENOUGH_PIECES)
}

/// As [`even`] has it, or smaller, so that no part is smaller than `least`, the last one included; all of it, if there is
/// no such size.
fn even_of_at_least(least: usize, total: usize, most: usize, unit: usize) -> usize {
    let last = |size: usize| (total - 1) % size + 1;
    let mut sizes = (1..=even(total, most, unit) / unit).rev().map(|units| units * unit);
    let fitting = sizes.find(|&size| size >= total || size >= least && last(size) >= least);
    fitting.unwrap_or(total.next_multiple_of(unit))
}

impl Blocking {
    /// For batches, rows, columns and summed points of so many; `is_direct` if sums are written where they belong.
    ///
    /// The number of threads decides how many blocks a plain product has, but not how a result is summed.
    pub(super) fn new(
        (arch, threads): (Arch, usize),
        operands: &Operands,
        [batches, rows_all, columns_all, k_all]: [usize; 4],
        is_direct: bool,
    ) -> Self {
        if let Operands::Windows(operands) = operands {
            let windows = &operands.windows;
            let tile = Tile::of_windows(arch, rows_all, windows.run());
            return Self::of_windows(windows, (tile, operands.unit(tile)), [batches, rows_all, columns_all, k_all]);
        }
        let tile = Tile::new(arch, rows_all);
        let plain = matches!(operands, Operands::Plain(..));
        let most_rows = if plain { MAX_PLAIN_ROWS } else { MAX_ROWS };
        let (most_rows, most_columns) = (most_rows / tile.rows * tile.rows, MAX_COLUMNS / tile.columns * tile.columns);
        let mut rows = even(rows_all, most_rows, tile.rows);
        let mut columns = even(columns_all, most_columns, tile.columns);
        let pieces = |rows: usize, columns: usize| batches * rows_all.div_ceil(rows) * columns_all.div_ceil(columns);
        let work = batches * rows_all * columns_all * k_all;
        // A small result of long sums is cut along k only, so that each element is packed once.
        let results = batches * rows_all * columns_all;
        let (least_rows, least_columns) = (4 * tile.rows, 4 * tile.columns);
        // What lies along the sums is turned over as a whole, and cut along the columns, if that gives as many pieces.
        let is_turned = matches!(operands, Operands::Plain(_, rhs) if rows_all > FEW && rhs.lies_along_sums());
        let is_wide = is_turned
            && columns_all / least_columns >= ENOUGH_PIECES.min(k_all / (2 * DEPTH))
            && batches * k_all * columns_all <= MAX_PARTIAL;
        let long = k_all >= 8 * DEPTH && results * ENOUGH_CHUNKS <= MAX_PARTIAL && !is_wide;
        let are_matrices = rows_all >= MIN_LAST_ROWS && columns_all >= 2 * MIN_LAST_COLUMNS && k_all >= MIN_TERMS;
        let is_shared = plain && !long && are_matrices && work >= 2 * SMALL_BLOCK;
        if is_shared {
            let sizes = [batches, rows_all, columns_all, k_all];
            [rows, columns] = Self::shared(sizes, [tile.rows, tile.columns], threads, is_direct);
        } else if plain && !long {
            // Whole rows as far as that goes: an epilogue runs along them in long strips.
            let parts = ENOUGH_PIECES.min(work / SMALL_BLOCK).div_ceil(pieces(rows_all.max(1), columns).max(1)).max(1);
            rows = rows.min(even(rows_all, rows_all.div_ceil(parts).max(MIN_PLAIN_ROWS), tile.rows));
            if pieces(rows, columns) == 1 && work >= MIN_HALVED {
                rows = rows.min(even(rows_all, rows_all.div_ceil(2).max(MIN_HALF_ROWS), tile.rows));
            }
            if pieces(rows, columns) == 1 && work >= MIN_HALVED {
                columns = columns.min(even(columns_all, columns_all.div_ceil(2).max(MIN_HALF_COLUMNS), tile.columns));
            }
        }
        let may_be_cut = !long && !is_shared;
        while may_be_cut && pieces(rows, columns) < ENOUGH_PIECES && rows * columns * k_all > SMALL_BLOCK {
            if columns / 2 >= least_columns && (columns > rows || rows / 2 < least_rows) {
                columns = even(columns_all, columns / 2, tile.columns);
            } else if rows / 2 >= least_rows {
                rows = even(rows_all, rows / 2, tile.rows);
            } else {
                break;
            }
        }
        let mut depth = DEPTH;
        if let Operands::Packed(packed) = operands {
            let [lhs, rhs] = &**packed;
            // Blocks of whole rows, if that leaves few columns of the last tile empty.
            if let Some(unit) = rhs.unit(false)
                && (columns / 2..=columns).contains(&unit)
            {
                columns = unit;
            }
            if let Some(unit) = rhs.unit(true).or(lhs.unit(true)) {
                let steps = unit.div_ceil(DEPTH);
                depth = if unit.is_multiple_of(steps) { unit / steps } else { DEPTH };
            }
        }
        let mut chunk = k_all.max(1);
        let count = pieces(rows, columns);
        if long && count > 0 && count < ENOUGH_PIECES && work > 2 * SMALL_BLOCK {
            let chunks = ENOUGH_CHUNKS.div_ceil(count).min(k_all / (2 * DEPTH));
            chunk = k_all.div_ceil(chunks).next_multiple_of(depth);
        }
        Self { tile, rows, columns, segment: columns_all, chunk, depth }
    }

    /// Rows and columns of the blocks of a plain product, in these units. The crate packs the columns anew for each block,
    /// so there are few more blocks than threads, if these have something to do.
    fn shared(
        [batches, rows_all, columns_all, k_all]: [usize; 4],
        units: [usize; 2],
        threads: usize,
        is_direct: bool,
    ) -> [usize; 2] {
        let work = batches * rows_all * columns_all * k_all;
        let wanted = (threads * (work / threads / LARGE_BLOCK).clamp(1, MOST_BLOCKS)).min(work / SMALL_BLOCK);
        let mut columns = even_of_at_least(MIN_LAST_COLUMNS, columns_all, MAX_COLUMNS, units[1]);
        loop {
            let most = (MAX_WAITING / columns).clamp(MIN_WAITING_ROWS, MAX_PLAIN_ROWS);
            let most = if is_direct { MAX_DIRECT_ROWS } else { most };
            let others = batches * columns_all.div_ceil(columns);
            let count = |rows: usize| others * rows_all.div_ceil(rows);
            let parts = wanted.div_ceil(others).max(rows_all.div_ceil(most));
            let heights = (parts..=parts + threads).map(|parts| {
                let rows = rows_all.div_ceil(parts).max(MIN_PLAIN_ROWS);
                even_of_at_least(MIN_LAST_ROWS, rows_all, rows, units[0])
            });
            // the fewest blocks among those that leave the fewest threads without one in the end
            let idle = |rows: usize| (count(rows).next_multiple_of(threads) - count(rows)) as f64 / count(rows) as f64;
            let rows = heights.min_by(|&a, &b| idle(a).total_cmp(&idle(b))).expect("a range that is not empty");
            let narrower = even_of_at_least(MIN_LAST_COLUMNS, columns_all, columns / 2, units[1]);
            if count(rows) >= threads.min(wanted) || narrower >= columns || narrower < 4 * units[1] {
                return [rows, columns];
            }
            columns = narrower;
        }
    }

    /// Blocks of so many batches, rows and columns.
    pub(super) fn pieces(&self, [batches, rows, columns]: [usize; 3]) -> usize {
        batches * rows.div_ceil(self.rows) * self.across(columns)
    }

    /// Results of the smallest block of so many rows and columns.
    pub(super) fn least(&self, [rows, columns]: [usize; 2]) -> usize {
        let last = |all: usize, block: usize| if all.is_multiple_of(block) { all.min(block) } else { all % block };
        last(rows, self.rows) * last(columns, self.columns)
    }

    /// Blocks of so many columns, beside each other.
    pub(super) fn across(&self, columns: usize) -> usize {
        columns / self.segment.max(1) * self.segment.div_ceil(self.columns)
    }

    /// For a product whose columns are windows: their blocks are those of the grid. Rows are multiplied in whole
    /// `unit`s.
    fn of_windows(
        windows: &Windows,
        (tile, unit): (Tile, usize),
        [batches, rows_all, columns_all, k_all]: [usize; 4],
    ) -> Self {
        let rows = even(rows_all, MAX_ROWS.next_multiple_of(unit), unit);
        if !windows.places_are_summed() {
            let (columns, segment) = (windows.block_places(), windows.segment());
            let blocks = Self { tile, rows, columns, segment, chunk: k_all.max(1), depth: even(k_all, DEPTH, 1) };
            let pieces = blocks.pieces([batches, rows_all, columns_all]);
            let parts = worthwhile_pieces(batches * rows_all * columns_all * k_all).div_ceil(pieces.max(1));
            let rows = rows.min(even(rows_all, rows_all.div_ceil(parts.max(1)).max(MIN_FILTERS), unit));
            return Self { rows, ..blocks };
        }
        let (columns, depth) = (windows.block_taps(), windows.block_places());
        let count = batches * rows_all.div_ceil(rows) * columns_all.div_ceil(columns);
        let wanted = ENOUGH_CHUNKS.div_ceil(count);
        let room = MAX_PARTIAL / (batches * rows_all * columns_all).max(1);
        let chunks = if count < ENOUGH_PIECES { wanted.min(room).max(1) } else { 1 };
        let chunk = k_all.div_ceil(chunks).next_multiple_of(depth);
        Self { tile, rows, columns, segment: columns_all, chunk, depth }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_block_is_tiny_for_any_number_of_threads() {
        let sizes = [8, 17, 33, 64, 65, 66, 100, 145, 146, 161, 255, 904, 1027, 2000, 3361, 13441, 31745];
        for (rows_all, columns_all) in sizes.iter().flat_map(|&rows| sizes.map(|columns| (rows, columns))) {
            for (threads, lanes) in [1, 2, 3, 6, 8, 12, 64, 200].iter().flat_map(|&t| [4, 8, 16].map(|l| (t, l))) {
                let all = [1, rows_all, columns_all.max(2 * MIN_LAST_COLUMNS), 1500];
                let units = [if lanes == 16 { 12 } else { 6 }, 2 * lanes];
                for is_direct in [false, true] {
                    let blocks = Blocking::shared(all, units, threads, is_direct);
                    for ((total, block), least) in all[1..3].iter().zip(blocks).zip([MIN_LAST_ROWS, MIN_LAST_COLUMNS]) {
                        let last = (total - 1) % block + 1;
                        assert!(last >= least, "{all:?} on {threads} threads in blocks of {blocks:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn threads_get_as_many_blocks_each() {
        for threads in [1, 2, 3, 4, 8] {
            for all in
                [[1, 512, 512, 512], [1, 128, 3072, 768], [1, 64, 2304, 768], [3, 512, 512, 512], [1, 1024, 4608, 768]]
            {
                let [rows, columns] = Blocking::shared(all, [12, 32], threads, true);
                let pieces = all[0] * all[1].div_ceil(rows) * all[2].div_ceil(columns);
                let busy = pieces as f64 / pieces.next_multiple_of(threads) as f64;
                assert!(busy >= 0.75 && pieces >= threads, "{all:?}: {pieces} pieces for {threads} threads");
            }
        }
        assert_eq!(Blocking::shared([1, 512, 512, 512], [12, 32], 2, true), [264, 512]);
    }
}
