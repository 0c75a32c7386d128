//! Register tiles on adapters that compute on the CPU: what they take there, and which are the fastest.
//!
//! Such a driver does the lanes of a subgroup in one vector, and reads for each lane on its own: a value that all lanes
//! need costs as much as different ones. So neighbouring lanes whose tiles have the same rows read each another row's
//! value, and shuffle them.

use crate::gpu::render::Capabilities;
use crate::gpu::render::library::fill;
use crate::plan::ContractKernel;

use super::lanes::{Wide, operand_lanes};
use super::sliding::Sliding;
use super::variants::{Variant, has_plain_operands, in_registers, work};
use super::{COLUMNS, ROWS, epilogue};

/// From this many operations on a tile is worth the second or two that a large one may take to compile.
const MANY_FLOPS: usize = 1 << 31;
/// The same for plain products, which compile in a third of a second.
const MANY_PLAIN_FLOPS: usize = 1 << 25;
/// Results of the largest tile that is taken without measuring.
const MAX_RESULTS: usize = 256;

/// Invocations of a workgroup where there is little work; lanes of a vector where the adapter does not tell: llvmpipe's
/// 256 bits.
pub(super) const LANES: usize = 8;

/// What a core takes for a vector's value of k, in nanoseconds: for a product, and for what each lane reads and
/// exchanges (llvmpipe of Mesa 22.3 on a Xeon at 2.5 GHz; see `benches/NOTES.md`).
const PRODUCT: f64 = 0.8;
const READ_ONE: f64 = 21.0;
const READ_FOUR: f64 = 46.0;
const SHUFFLE: f64 = 1.0;

/// What the driver takes to compile a kernel, in milliseconds: in any case, for each write or read of one value, which
/// are loops over the lanes, for each read of four, and for four products.
const COMPILE: f64 = 60.0;
const COMPILE_ACCESS: f64 = 3.0;
const COMPILE_READ_FOUR: f64 = 9.0;
const COMPILE_PRODUCTS: f64 = 0.6;
/// Its exponent beside the time of a launch: twice as fast is worth two and a half times as long to compile.
const COMPILE_WEIGHT: f64 = 0.75;

/// How many invocations are in a subgroup, if they can be relied upon to exchange values.
pub(super) fn lanes(caps: &Capabilities) -> Option<usize> {
    let [least, most] = caps.subgroups?;
    (caps.software && least == most && most <= caps.max_workgroup_invocations as usize).then_some(least)
}

/// A kernel that counts the lanes that exchange values as tiles want it, and how many there are.
pub(crate) fn lanes_probe_text(caps: &Capabilities) -> Option<(String, usize)> {
    let lanes = lanes(caps)?;
    Some((fill("probe_lanes.wgsl", &[("lanes", &format!("const LANES: u32 = {lanes}u;\n"))]), lanes))
}

/// Whether operands are read as they are, one step at a time, and results stored as they come.
fn is_plain(kernel: &ContractKernel) -> bool {
    let one_step = operand_lanes(kernel, &kernel.rhs.0, COLUMNS) != Some(Wide::Inner);
    one_step && has_plain_operands(kernel) && kernel.epilogue.instrs.len() <= 1
}

/// The best, by what its reads and products take and, unless there is much to do, what it takes to compile.
pub(super) fn rule(caps: &Capabilities, kernel: &ContractKernel) -> Variant {
    let [batch, rows, columns, inner] = kernel.sizes();
    let many = if is_plain(kernel) { MANY_PLAIN_FLOPS } else { MANY_FLOPS };
    let compile_matters = 2 * batch * rows * columns * inner < many;
    let sides = |size: usize, of: &'static [usize]| {
        of.iter().copied().filter(move |&side| side <= size.next_power_of_two().max(of[0]))
    };
    let times = Times::new(caps, kernel);
    let mut best: Option<(f64, Variant)> = None;
    for tile_rows in sides(rows, &[1, 2, 4, 8, 16, 32]) {
        for tile_columns in sides(columns, &[4, 8, 16]).filter(|&columns| tile_rows * columns <= MAX_RESULTS) {
            let tile = [tile_rows, tile_columns];
            let (time, variant) = times.fastest(tile);
            let compile =
                if compile_matters { times.compile(tile, variant.sharing()).powf(COMPILE_WEIGHT) } else { 1.0 };
            let cost = time * compile;
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, variant));
            }
        }
    }
    best.expect("the smallest tile is always possible").1
}

/// The fastest with a tile of this size.
pub(super) fn with_tile(caps: &Capabilities, kernel: &ContractKernel, tile: [usize; 2]) -> Variant {
    Times::new(caps, kernel).fastest(tile).1
}

/// What a contraction's tiles take.
struct Times<'a> {
    caps: &'a Capabilities,
    kernel: &'a ContractKernel,
    /// How the operands are read by fours.
    left: Wide,
    right: Wide,
    /// Places of a window that slides.
    taps: usize,
    /// Values of k that are written out.
    step: usize,
    /// What comes with four results: reads of one value and writes, and reads of four.
    accesses: [usize; 2],
}

impl<'a> Times<'a> {
    fn new(caps: &'a Capabilities, kernel: &'a ContractKernel) -> Self {
        let right = operand_lanes(kernel, &kernel.rhs.0, COLUMNS).unwrap_or(Wide::None);
        let left = match operand_lanes(kernel, &kernel.lhs.0, ROWS) {
            Some(Wide::Inner) if right != Wide::Inner => Wide::None,
            left => left.unwrap_or(Wide::None),
        };
        let taps = Sliding::of(caps, kernel, [1, 4]).map_or(1, |sliding| sliding.taps);
        let step = if right == Wide::Inner { 4 } else { taps };
        Self { caps, kernel, left, right, taps, step, accesses: epilogue::accesses(kernel) }
    }

    /// The fastest with a tile of this size, and its time.
    fn fastest(&self, tile: [usize; 2]) -> (f64, Variant) {
        let [rows, columns] = tile;
        let together = lanes(self.caps);
        let lanes = together.unwrap_or(LANES);
        let mut best = (self.run(tile, 1, lanes), in_registers(self.caps, self.kernel, tile));
        let numbers = std::iter::successors(Some(2), |sharing| Some(2 * sharing));
        for sharing in numbers.take_while(|&sharing| sharing <= together.unwrap_or(1)) {
            let time = self.run(tile, sharing, lanes);
            if time < best.0 {
                best = (time, Variant::Subgroups { rows, columns, sharing });
            }
        }
        best
    }

    /// Reads of each lane for one step of k where so many share those of the left operand: of one value, and of four.
    fn reads(&self, [rows, columns]: [usize; 2], sharing: usize) -> [usize; 2] {
        let mut reads = [0; 2];
        match self.left {
            Wide::Inner => reads[1] += rows.div_ceil(sharing),
            Wide::Outer => reads[1] += self.step * rows.div_ceil(4).div_ceil(sharing),
            _ => reads[0] += self.step * rows.div_ceil(sharing),
        }
        match self.right {
            Wide::Inner => reads[1] += columns,
            Wide::Outer => reads[1] += self.step * columns / 4,
            _ if self.taps > 1 => reads[0] += (columns + self.taps - 1).next_multiple_of(4),
            _ => reads[0] += self.step * columns,
        }
        reads
    }

    /// The time that the busiest core takes for a value of k, in nanoseconds.
    fn run(&self, tile: [usize; 2], sharing: usize, lanes: usize) -> f64 {
        let [tile_rows, tile_columns] = tile;
        let blocks = work(self.kernel, [tile_rows, tile_columns * sharing]);
        let vectors = (blocks * sharing).div_ceil(lanes);
        let [ones, fours] = self.reads(tile, sharing);
        let reads = (READ_ONE * ones as f64 + READ_FOUR * fours as f64) / self.step as f64;
        let shuffles = if sharing > 1 { SHUFFLE * tile_rows as f64 } else { 0.0 };
        let products = PRODUCT * (tile_rows * tile_columns) as f64;
        vectors.div_ceil(self.caps.busy_groups) as f64 * (products + reads + shuffles)
    }

    /// The time that the driver takes to compile it, in milliseconds.
    fn compile(&self, tile: [usize; 2], sharing: usize) -> f64 {
        let quads = tile[0] * tile[1] / 4;
        let [ones, fours] = self.reads(tile, sharing);
        let [of_ones, of_fours] = self.accesses;
        COMPILE
            + COMPILE_ACCESS * (quads * of_ones + ones) as f64
            + COMPILE_READ_FOUR * (quads * of_fours + fours) as f64
            + COMPILE_PRODUCTS * (quads * self.step) as f64
    }
}
