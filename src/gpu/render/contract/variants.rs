//! How a contraction may be shared among invocations: what the rule takes, and what else gives the same bits.
//!
//! Each variant adds up a result's products one by one in the order of k, so that which of them runs is a matter of
//! time alone. What sums in another order is none: sums that were cut, and units for small matrices.

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher as _};

use serde::{Deserialize, Serialize};

use crate::gpu::render::Capabilities;
use crate::matmul_precision::MatmulPrecision;
use crate::plan::{BufferId, ContractKernel, Instr, InstrOp, Ix, Tape, shares_of_sum};

use super::workgroup_tiles::Tile;
use super::{cooperative, has_large_tiles, register_tiles, software, turned};

/// A way to compute a contraction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Variant {
    /// A tile of results in the registers of each invocation.
    Registers {
        /// Rows of the tile.
        rows: usize,
        /// Columns of the tile, a multiple of four.
        columns: usize,
        /// Invocations in a workgroup.
        threads: usize,
    },
    /// The same, where lanes of a subgroup read the left operand together.
    Subgroups {
        /// Rows of the tile.
        rows: usize,
        /// Columns of the tile, a multiple of four.
        columns: usize,
        /// Lanes that do so, a power of two.
        sharing: usize,
    },
    /// A tile of results for each workgroup, operands in its memory.
    Workgroup(Tile),
}

impl Variant {
    /// Lanes that read a value of the left operand together.
    pub(crate) fn sharing(self) -> usize {
        if let Self::Subgroups { sharing, .. } = self { sharing } else { 1 }
    }

    /// Values that come from memory for each product, but for those that a tile reaches beyond the results.
    pub(crate) fn reads_per_product(self) -> f64 {
        let (Self::Registers { rows, columns, .. }
        | Self::Subgroups { rows, columns, .. }
        | Self::Workgroup(Tile { size: [rows, columns], .. })) = self;
        1.0 / rows as f64 + 1.0 / (columns * self.sharing()) as f64
    }
}

/// The variants that were measured to be the fastest, by the [`identity`] of the contraction.
pub(crate) type Tuned = HashMap<u64, Variant>;

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Registers { rows, columns, threads } => write!(f, "{rows}x{columns} in registers, {threads} threads"),
            Self::Subgroups { rows, columns, sharing } => {
                write!(f, "{rows}x{columns} in registers, {sharing} lanes read together")
            }
            Self::Workgroup(Tile { size: [rows, columns], own }) => {
                write!(f, "{rows}x{columns} in workgroups, {}x{} of a thread", own[0], own[1])
            }
        }
    }
}

/// From this many operations on a CPU-type adapter's larger tiles are worth a trial.
const TRIED_FLOPS: usize = 1 << 27;
/// Elements that are read and written together where they lie at a multiple of their number.
const ALIGNMENT: i64 = 4;
/// From so many values of k, rows or columns, and of both of those together, on, operands are worth bringing into
/// workgroup memory. On an H100 the forward pass of 16 filters over 3 channels (27 values) is faster in registers, and
/// that over 16 (144) is not. Where sums are long and operands read as they lie, fewer rows are enough: 8 and 4 rows of
/// 25,088 values times 4096 columns take an H100 0.22 ms so, and 0.68 and 0.34 in registers.
const MIN_INNER: usize = 64;
const MIN_SIDE: usize = 9;
const LONG_INNER: usize = 256;
const MIN_LONG_SIDE: usize = 4;
const MIN_RESULTS: usize = 256;
/// So many values of k are enough where there are more rows and columns, or where that is tried: a step of tiles.
pub(super) const MIN_TILED_INNER: usize = 16;
/// Tiles of workgroups, whose threads are 64 at the least.
const WORKGROUP_TILES: [Tile; 9] = [
    Tile { size: [64, 128], own: [8, 8] },
    Tile { size: [128, 64], own: [8, 8] },
    Tile { size: [64, 64], own: [8, 8] },
    Tile { size: [64, 64], own: [4, 4] },
    Tile { size: [32, 64], own: [4, 4] },
    Tile { size: [64, 32], own: [4, 4] },
    Tile { size: [32, 32], own: [4, 4] },
    Tile { size: [16, 64], own: [4, 4] },
    Tile { size: [64, 16], own: [4, 4] },
];
/// Others that are worth a trial: an H200 takes longer in them, and with 128 results a thread's sums fill the registers
/// of other cards.
const TRIED_TILES: [Tile; 4] = [
    Tile { size: [128, 128], own: [8, 8] },
    Tile { size: [128, 128], own: [8, 16] },
    Tile { size: [64, 128], own: [4, 8] },
    Tile { size: [128, 64], own: [8, 4] },
];
/// Threads that a core's schedulers want at the least, NVIDIA's four warps.
const CORE_THREADS: usize = 128;
/// Invocations from which on a GPU is busy, and tiles in registers may be larger.
const BUSY_INVOCATIONS: usize = 1 << 14;
/// Invocations in a workgroup, unless there is little work for a CPU-type adapter.
const THREADS: usize = 64;

/// What a contraction is known by from one process to the next: all of it but where in memory its values lie, which
/// only have to be aligned alike. Two that go by one number would take one variant, which is right for both.
pub(crate) fn identity(kernel: &ContractKernel) -> u64 {
    // no variant depends on it
    let mut kernel = ContractKernel { precision: MatmulPrecision::Highest, ..kernel.clone() };
    let mut buffers = Vec::new();
    let mut renumber = |buffer: &mut BufferId, index: &mut Ix| {
        let known = buffers.iter().position(|known| known == buffer);
        let number = known.unwrap_or(buffers.len());
        if known.is_none() {
            buffers.push(*buffer);
        }
        *buffer = number;
        index.offset = index.offset.rem_euclid(ALIGNMENT);
    };
    for tape in [&mut kernel.lhs.0, &mut kernel.rhs.0, &mut kernel.epilogue] {
        for instr in &mut tape.instrs {
            match &mut instr.op {
                InstrOp::Load { buffer, index, .. } | InstrOp::Gather { buffer, base: index, .. } => {
                    renumber(buffer, index);
                }
                // numbered as a process comes to them
                InstrOp::CheckIndex { site, .. } => *site = 0,
                _ => {}
            }
        }
    }
    for store in &mut kernel.stores {
        renumber(&mut store.buffer, &mut store.index);
    }
    let mut hasher = DefaultHasher::new();
    kernel.hash(&mut hasher);
    hasher.finish()
}

/// What is taken without measuring, where as many invocations as `shares` share each sum.
pub(super) fn rule(caps: &Capabilities, kernel: &ContractKernel, shares: usize) -> Variant {
    let [_, rows, columns, inner] = kernel.sizes();
    let is_long = inner >= LONG_INNER && has_plain_operands(kernel);
    let least_side = if is_long { MIN_LONG_SIDE } else { MIN_SIDE };
    let is_wide = inner >= MIN_INNER && rows.min(columns) >= least_side && rows * columns >= MIN_RESULTS;
    if shares == 1 && has_workgroup_tiles(caps) && (is_wide || has_large_tiles(kernel)) {
        let possible = WORKGROUP_TILES.into_iter().filter(|&tile| fits(caps, tile));
        let costs = possible.map(|tile| (tile, workgroup_cost(caps, kernel, tile)));
        if let Some((tile, _)) = costs.min_by(|(_, one), (_, other)| one.total_cmp(other)) {
            return Variant::Workgroup(tile);
        }
    }
    if caps.software && shares == 1 {
        return software::rule(caps, kernel);
    }
    // large where there is work for many invocations
    let largest = if shares > 1 { 1 } else { 4 };
    let fit = |size: usize| size.next_power_of_two().clamp(1, largest);
    let mut tile = [fit(rows), fit(columns).max(4)];
    while tile[0] > 1 && work(kernel, tile) < BUSY_INVOCATIONS {
        tile[0] /= 2;
    }
    in_registers(caps, kernel, tile)
}

/// All that give the same bits and may be the fastest, what the rule takes first; that alone where nothing else does.
pub(crate) fn variants(caps: &Capabilities, kernel: &ContractKernel) -> Vec<Variant> {
    let exchanged = turned(kernel);
    let kernel = exchanged.as_ref().unwrap_or(kernel);
    let [batch, rows, columns, inner] = kernel.sizes();
    let shares = shares(caps, kernel);
    let has_units = shares == 1 && has_large_tiles(kernel) && cooperative::tile(caps, kernel).is_some();
    if batch * rows * columns == 0 || has_units {
        return Vec::new();
    }
    let rule = rule(caps, kernel, shares);
    let mut all = vec![rule];
    if let Variant::Registers { rows, columns, .. } = rule {
        let threads: &[usize] = if caps.software { &[8, 16, 64] } else { &[32, 128, 256] };
        all.extend(threads.iter().map(|&threads| Variant::Registers { rows, columns, threads }));
    }
    let largest = match caps.software {
        true if 2 * batch * rows * columns * inner >= TRIED_FLOPS => 16,
        _ => 8,
    };
    let sides = |size: usize, least: usize| {
        let most = size.next_power_of_two().clamp(least, largest);
        [1, 2, 4, 8, 16].into_iter().filter(move |&side| (least..=most).contains(&side))
    };
    for tile_rows in sides(rows, 1) {
        all.extend(sides(columns, 4).map(|tile_columns| in_registers(caps, kernel, [tile_rows, tile_columns])));
    }
    if software::lanes(caps).is_some() {
        for tile_rows in sides(rows, 1).chain((rows > 16).then_some(32)) {
            all.extend(
                sides(columns, 4).map(|tile_columns| software::with_tile(caps, kernel, [tile_rows, tile_columns])),
            );
        }
    }
    if shares == 1 && has_workgroup_tiles(caps) && inner >= MIN_TILED_INNER {
        // a tile that is mostly outside of the results cannot win
        let good = |tile: &Tile| fits(caps, *tile) && 4 * rows >= tile.size[0] && 4 * columns >= tile.size[1];
        all.extend(WORKGROUP_TILES.into_iter().chain(TRIED_TILES).filter(good).map(Variant::Workgroup));
    }
    let mut seen = Vec::with_capacity(all.len());
    for variant in all {
        let possible = match variant {
            Variant::Registers { rows, columns, threads } => {
                let bytes = if shares == 1 { 0 } else { register_tiles::shared_bytes([rows, columns], threads) };
                let most = caps.max_workgroup_invocations as usize;
                let least = if shares == 1 { 1 } else { shares.max(caps.least_threads as usize) };
                (least..=most).contains(&threads) && bytes <= caps.max_workgroup_bytes as usize
            }
            Variant::Subgroups { .. } | Variant::Workgroup(_) => true,
        };
        if possible && !seen.contains(&variant) {
            seen.push(variant);
        }
    }
    seen
}

/// What a tile takes of the busiest core's time: how many such tiles it computes, each by the results in it and by what
/// comes with a product, from workgroup memory and from outside, if their threads keep it busy. Fitted to what an H100
/// took for the contractions of a ResNet-20 and an H200 for square matrices (`benches/NOTES.md`).
fn workgroup_cost(caps: &Capabilities, kernel: &ContractKernel, tile @ Tile { size, own }: Tile) -> f64 {
    let [batch, rows, columns, _] = kernel.sizes();
    let tiles = batch * rows.div_ceil(size[0]) * columns.div_ceil(size[1]);
    let of_busiest = tiles.div_ceil(caps.busy_groups);
    let for_each = |sides: [usize; 2]| sides.into_iter().map(|side| 1.0 / side as f64).sum::<f64>();
    let idle = (CORE_THREADS as f64 / (of_busiest * tile.threads()) as f64).max(1.0);
    let of_product = idle * (1.0 + 0.6 * for_each(own)) + 8.0 * for_each(size);
    of_busiest as f64 * (size[0] * size[1]) as f64 * of_product
}

/// Invocations that share each sum of the contraction: 1 where those of software would have to.
pub(super) fn shares(caps: &Capabilities, kernel: &ContractKernel) -> usize {
    let [batch, rows, columns, inner] = kernel.sizes();
    if caps.shares_sums { shares_of_sum(batch * rows * columns, inner) } else { 1 }
}

/// Whether operands are read as they are.
pub(super) fn has_plain_operands(kernel: &ContractKernel) -> bool {
    let read = |tape: &Tape| match tape.instrs.as_slice() {
        [Instr { op: InstrOp::Load { valid, .. }, .. }] => valid.is_empty(),
        _ => false,
    };
    read(&kernel.lhs.0) && read(&kernel.rhs.0)
}

/// Workgroup memory is slow where the processor computes.
fn has_workgroup_tiles(caps: &Capabilities) -> bool {
    caps.max_workgroup_invocations >= 256 && caps.max_workgroup_bytes >= 8192 && !caps.software
}

/// Whether a workgroup has memory for such a tile.
fn fits(caps: &Capabilities, tile: Tile) -> bool {
    tile.bytes() <= caps.max_workgroup_bytes as usize
}

/// Invocations that tiles of this size take.
pub(super) fn work(kernel: &ContractKernel, [tile_rows, tile_columns]: [usize; 2]) -> usize {
    let [batch, rows, columns, _] = kernel.sizes();
    batch * rows.div_ceil(tile_rows) * columns.div_ceil(tile_columns)
}

pub(super) fn in_registers(caps: &Capabilities, kernel: &ContractKernel, [rows, columns]: [usize; 2]) -> Variant {
    let few = caps.software && work(kernel, [rows, columns]) <= 1024;
    Variant::Registers { rows, columns, threads: if few { software::LANES } else { THREADS } }
}
