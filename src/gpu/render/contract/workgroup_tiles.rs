//! Contractions on real GPUs: operands in workgroup memory, a tile of 16 to 128 rows and columns of results for each
//! workgroup.
//!
//! A thread has one to eight blocks of 4×4 results. Per summed point it reads 8 words for the 16 multiplications of one
//! block, 16 for the 64 of four. Where a core reads 32 words in the time of 128 multiplications, as NVIDIA's do, one
//! block keeps half of them busy at best, four all of them. Tiles of fewer than 64 rows or columns are for results that
//! have no more, such as gradients of small filters, and for those that larger ones would share among too few cores.
//! All sum in the same order.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::gpu::render::Launch;
use crate::gpu::render::module::Module;
use crate::gpu::render::scalar::Register;
use crate::plan::ContractKernel;

use super::epilogue::finish_inside;
use super::fetch::{Fetch, Fours, fetch};
use super::points::tile_grid;
use super::variants::has_plain_operands;
use super::{COLUMNS, LANES, ROWS};

/// Values of k in one step.
const STEP: usize = 16;
/// Of which so many are written out at the least.
const UNROLLED: usize = 4;

/// The results of a workgroup, and those of each of its threads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub(crate) struct Tile {
    /// Rows and columns, powers of two from 16 on.
    pub size: [usize; 2],
    /// Those of a thread, powers of two from 4 on.
    pub own: [usize; 2],
}

impl Tile {
    /// Rows and columns that the threads cover with one block of 4×4 results each.
    fn covered(self) -> [usize; 2] {
        [0, 1].map(|side| 4 * self.size[side] / self.own[side])
    }

    /// Threads of a workgroup.
    pub(super) fn threads(self) -> usize {
        self.covered().map(|size| size / 4).iter().product()
    }

    /// Values of k that are written out: all where a thread has 64 results. On an H200 the product of two 4096x4096
    /// takes 3.03 ms so, in tiles of 64x128, and 3.63 by fours; with 16 results it makes no difference.
    fn unrolled(self) -> usize {
        if self.own.iter().product::<usize>() < 64 { UNROLLED } else { STEP }
    }

    /// Bytes of workgroup memory that it takes.
    pub(super) fn bytes(self) -> usize {
        4 * STEP * (self.size[0] + self.size[1])
    }
}

/// One such tile for each workgroup.
pub(super) fn render(mut module: Module<'_>, kernel: &ContractKernel, tile: Tile) -> Result<Launch> {
    let mut compute = bring(&mut module, kernel, ROWS, tile)?;
    compute.push_str(&bring(&mut module, kernel, COLUMNS, tile)?);
    compute.push_str(&finish_inside(&mut module, kernel)?);
    let (grid, groups) = tile_grid(&mut module, kernel, tile.size, STEP)?;
    let sum = Register::of(kernel.accumulator).wide(4);
    let [rows, columns] = tile.size;
    let unrolled = tile.unrolled();
    let types = format!(
        "alias Sum = {sum};\nconst ROWS: u32 = {rows}u;\nconst COLUMNS: u32 = {columns}u;\nconst THREADS: u32 = {}u;\n\
         const RIGHT_PARTS: u32 = {}u;\nconst UNROLLED: u32 = {unrolled}u;\n",
        tile.threads(),
        tile.covered()[1] / 4
    );
    let [begin, place, ahead, products, results] = body(tile);
    let slots = [
        ("grid", grid.as_str()),
        ("types", &types),
        ("compute", &compute),
        ("begin", &begin),
        ("place", &place),
        ("ahead", &ahead),
        ("products", &products),
        ("results", &results),
    ];
    module.finish("contract_tiled.wgsl", &slots, groups)
}

/// What `main` does for each block and each four that a thread brings, written out so that all of a thread's sums stay
/// in registers.
fn body(tile: Tile) -> [String; 5] {
    let [mut begin, mut place, mut ahead, mut loads, mut sums] = [const { String::new() }; 5];
    let mut results = String::new();
    let [row_side, column_side] = tile.covered();
    let [row_blocks, column_blocks] = tile.own.map(|results| results / 4);
    for (side, first, values, length, count) in
        [("left", "row", "a", row_side, row_blocks), ("right", "column", "b", column_side, column_blocks)]
    {
        let fours = length * STEP / 4;
        for i in 0..count {
            let (start, at) = (i * fours, i * length);
            for n in (0..fours).step_by(tile.threads()) {
                let value = format!("{side}{}", start + n);
                let load = |step: &str| format!("load_{side}(batch, {first} + {at}u, {step}, thread + {n}u);");
                let _ = writeln!(begin, "    var {value} = {}", load("0u"));
                let _ = writeln!(place, "        place_{side}({start}u, thread + {n}u, {value});");
                let _ = writeln!(ahead, "        {value} = {}", load("next"));
            }
            let _ =
                writeln!(loads, "                let {values}{i} = {side}_tile[{start}u + at_{side}(k, {side}_part)];");
        }
    }
    for (i, j) in (0..row_blocks).flat_map(|i| (0..column_blocks).map(move |j| (i, j))) {
        for (row, lane) in LANES.iter().enumerate() {
            let name = format!("sum{i}{j}{lane}");
            let _ = writeln!(begin, "    var {name} = Sum();");
            let _ = writeln!(sums, "                {name} += a{i}.{lane} * b{j};");
            let (row, column) = (i * row_side + row, j * column_side);
            let _ = writeln!(results, "    finish(batch, first_row + {row}u, first_column + {column}u, {name});");
        }
    }
    let unrolled = tile.unrolled();
    let product =
        |k: usize| format!("            {{\n                let k = start + {k}u;\n{loads}{sums}            }}\n");
    let products = (0..unrolled).map(product).collect();
    [begin, place, ahead, products, results]
}

/// `load_left`, `place_left` and `at_left`, or those of the other operand.
///
/// A vector in workgroup memory has one writer. Four threads that each write a component of it would race: a component
/// may be written by reading, changing and writing the whole vector (WGSL, "Memory Access Occurrence"), as Metal's and
/// FXC's compilers do.
fn bring(module: &mut Module<'_>, kernel: &ContractKernel, side: usize, tile: Tile) -> Result<String> {
    let of_side = if side == ROWS { 0 } else { 1 };
    let (size, parts) = (tile.size[of_side], tile.covered()[of_side] / 4);
    let [_, rows, columns, _] = kernel.sizes();
    // On an H100 plain products of 1024x1024 take 0.105 ms so and 0.125 with conditions and single reads (4096x4096:
    // 3.47 and 3.54); convolutions take as long or longer.
    let (inside, of) = match has_plain_operands(kernel) {
        true => ((if side == ROWS { rows } else { columns }).is_multiple_of(size), Fours::OfLyingPoints),
        false => (false, Fours::OfPoints),
    };
    let Fetch { name, mut text, along_k } = fetch(module, kernel, side, [4 * parts, STEP], inside, of)?;
    let (k, part, own) = match along_k {
        true => (format!("number % {STEP}u"), format!("number / {STEP}u"), format!("part ^ (k % {parts}u)")),
        false => (format!("number / {parts}u"), format!("number % {parts}u"), "part".into()),
    };
    let _ = writeln!(
        text,
        "fn place_{name}(start: u32, number: u32, value: Sum) {{
    {name}_tile[start + at_{name}({k}, {part})] = value;
}}

// Parts of one k are neighbours{}.
fn at_{name}(k: u32, part: u32) -> u32 {{
    return k * {parts}u + ({own});
}}
",
        if along_k {
            ", and in another order for each k, so that neighbouring threads write to different banks"
        } else {
            ""
        }
    );
    Ok(text)
}
