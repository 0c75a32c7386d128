//! Contractions on real GPUs: operands in workgroup memory, one to four blocks of 64×64 results for each workgroup.
//!
//! Per summed point a thread reads 8 words for the 16 multiplications of one block, 16 for the 64 of four. Where a core reads
//! 32 words in the time of 128 multiplications, as NVIDIA's do, one block keeps half of them busy at best, four all of them.
//! All sum in the same order.

use std::fmt::Write as _;

use crate::error::Result;
use crate::gpu::render::Launch;
use crate::gpu::render::module::Module;
use crate::gpu::render::scalar::Register;
use crate::plan::ContractKernel;

use super::fetch::{Fetch, Fours, fetch};
use super::points::{finish_inside, tile_grid};
use super::{COLUMNS, LANES, ROWS};

/// Rows and columns that the threads cover with one block of 4×4 results each.
pub(super) const BLOCK: usize = 64;
/// Values of k in one step.
const STEP: usize = 16;
/// Words of workgroup memory of a block's piece of one operand.
pub(super) const BLOCK_WORDS: usize = BLOCK * STEP;

/// One tile for each workgroup, of so many blocks in each direction.
pub(super) fn render(mut module: Module<'_>, kernel: &ContractKernel, blocks: [usize; 2]) -> Result<Launch> {
    let mut compute = bring(&mut module, kernel, ROWS)?;
    compute.push_str(&bring(&mut module, kernel, COLUMNS)?);
    compute.push_str(&finish_inside(&mut module, kernel)?);
    let [tile_rows, tile_columns] = blocks.map(|count| count * BLOCK);
    let (grid, groups) = tile_grid(&mut module, kernel, [tile_rows, tile_columns], STEP)?;
    let sum = Register::of(kernel.accumulator).wide(4);
    let types = format!("alias Sum = {sum};\nconst ROWS: u32 = {tile_rows}u;\nconst COLUMNS: u32 = {tile_columns}u;\n");
    let [begin, place, ahead, products, results] = body(blocks);
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

/// What `main` does for each block, written out so that all of a thread's sums stay in registers.
fn body([row_blocks, column_blocks]: [usize; 2]) -> [String; 5] {
    let [mut begin, mut place, mut ahead, mut products, mut results] = [const { String::new() }; 5];
    for (side, first, values, count) in [("left", "row", "a", row_blocks), ("right", "column", "b", column_blocks)] {
        for i in 0..count {
            let (start, at) = (i * BLOCK_WORDS / 4, i * BLOCK);
            let load = |step: &str| format!("load_{side}(batch, {first} + {at}u, {step}, thread);");
            let _ = writeln!(begin, "    var {side}{i} = {}", load("0u"));
            let _ = writeln!(place, "        place_{side}({start}u, thread, {side}{i});");
            let _ = writeln!(ahead, "        {side}{i} = {}", load("step + 1u"));
            let _ =
                writeln!(products, "            let {values}{i} = {side}_tile[{start}u + at_{side}(k, {side}_part)];");
        }
    }
    for (i, j) in (0..row_blocks).flat_map(|i| (0..column_blocks).map(move |j| (i, j))) {
        for (row, lane) in LANES.iter().enumerate() {
            let name = format!("sum{i}{j}{lane}");
            let _ = writeln!(begin, "    var {name} = Sum();");
            let _ = writeln!(products, "            {name} += a{i}.{lane} * b{j};");
            let (row, column) = (i * BLOCK + row, j * BLOCK);
            let _ = writeln!(results, "    finish(batch, first_row + {row}u, first_column + {column}u, {name});");
        }
    }
    [begin, place, ahead, products, results]
}

/// `load_left`, `place_left` and `at_left`, or those of the other operand.
///
/// A vector in workgroup memory has one writer. Four threads that each write a component of it would race: a component may
/// be written by reading, changing and writing the whole vector (WGSL, "Memory Access Occurrence"), as Metal's and FXC's
/// compilers do.
fn bring(module: &mut Module<'_>, kernel: &ContractKernel, side: usize) -> Result<String> {
    let Fetch { name, mut text, along_k } = fetch(module, kernel, side, [BLOCK, STEP], Fours::OfPoints)?;
    let (k, part, own) = match along_k {
        true => ("thread % 16u", "thread / 16u", "part ^ k"),
        false => ("thread / 16u", "thread % 16u", "part"),
    };
    let _ = writeln!(
        text,
        "fn place_{name}(start: u32, thread: u32, value: Sum) {{
    {name}_tile[start + at_{name}({k}, {part})] = value;
}}

// Parts of one k are neighbours{}.
fn at_{name}(k: u32, part: u32) -> u32 {{
    return k * 16u + ({own});
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
