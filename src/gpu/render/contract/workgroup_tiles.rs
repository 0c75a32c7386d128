//! Contractions on real GPUs: operands in workgroup memory, one to four blocks of 64×64 results for each workgroup.
//!
//! Per summed point a thread reads 8 words for the 16 multiplications of one block, 16 for the 64 of four. Where a core reads
//! 32 words in the time of 128 multiplications, as NVIDIA's do, one block keeps half of them busy at best, four all of them.
//! All sum in the same order.

use std::fmt::Write as _;

use crate::dtype::DType;
use crate::error::Result;
use crate::gpu::render::module::Module;
use crate::gpu::render::scalar::Register;
use crate::gpu::render::space::{Expr, unravel};
use crate::gpu::render::{Launch, grid};
use crate::plan::ContractKernel;

use super::lanes::{Wide, operand_lanes};
use super::operand::Operand;
use super::points::{finish, inner_coordinates, point_coordinates};
use super::{BATCH, COLUMNS, LANES, ROWS};

/// Rows and columns that the threads cover with one block of 4×4 results each.
const BLOCK: usize = 64;
/// Values of k in one step.
const STEP: usize = 16;
/// Words of workgroup memory of a block's piece of one operand.
const BLOCK_WORDS: usize = BLOCK * STEP;

/// Blocks in each direction of a workgroup's results: two where enough workgroups are left and few results are outside.
fn blocks(module: &Module<'_>, kernel: &ContractKernel) -> [usize; 2] {
    let [batch, rows, columns, _] = kernel.sizes();
    let tiles = |[r, c]: [usize; 2]| batch * rows.div_ceil(r * BLOCK) * columns.div_ceil(c * BLOCK);
    let padded = |blocks: [usize; 2]| tiles(blocks) * blocks[0] * blocks[1];
    let fits = |[r, c]: [usize; 2]| 4 * (r + c) * BLOCK_WORDS <= module.caps.max_workgroup_bytes as usize;
    let good = |&blocks: &[usize; 2]| {
        fits(blocks) && tiles(blocks) >= module.caps.busy_groups && 8 * padded(blocks) <= 9 * padded([1, 1])
    };
    [[2, 2], [1, 2], [2, 1]].into_iter().find(good).unwrap_or([1, 1])
}

/// One tile for each workgroup.
pub(super) fn render(mut module: Module<'_>, kernel: &ContractKernel) -> Result<Launch> {
    let [batch, rows, columns, inner] = kernel.sizes();
    let blocks = blocks(&module, kernel);
    let mut compute = fetch(&mut module, kernel, ROWS)?;
    compute.push_str(&fetch(&mut module, kernel, COLUMNS)?);
    let finish = finish(&mut module, kernel)?;
    // The family calls it for every place in the tile; some lie outside.
    let (rows_text, columns_text) = (module.number(rows as u64), module.number(columns as u64));
    compute.push_str(&finish.replacen(
        "{\n",
        &format!("{{\n    if (row >= {rows_text} || column >= {columns_text}) {{\n        return;\n    }}\n"),
        1,
    ));
    let [tile_rows, tile_columns] = blocks.map(|count| count * BLOCK);
    let (row_tiles, column_tiles) = (rows.div_ceil(tile_rows), columns.div_ceil(tile_columns));
    let (mut grid, groups) = grid(&mut module, batch * row_tiles * column_tiles, 1)?;
    grid = grid.replace("const THREADS: u32 = 1u;\n\n", "");
    for (name, count) in
        [("row_tiles", row_tiles), ("column_tiles", column_tiles), ("step_count", inner.div_ceil(STEP))]
    {
        let count = module.number(count as u64);
        let _ = write!(grid, "\nfn {name}() -> u32 {{\n    return {count};\n}}\n");
    }
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
            let _ = writeln!(products, "            let {values}{i} = {side}_tile[{start}u + k + {side}_part];");
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

/// The operand's function, `load_left` or `load_right`, by which each thread gets four elements, and `place_left` or
/// `place_right`.
fn fetch(module: &mut Module<'_>, kernel: &ContractKernel, side: usize) -> Result<String> {
    let [_, rows, columns, inner] = kernel.sizes();
    let (tape, name, points) = match side {
        ROWS => (&kernel.lhs.0, "left", rows),
        _ => (&kernel.rhs.0, "right", columns),
    };
    let wide = operand_lanes(kernel, tape, side).unwrap_or(Wide::Points);
    let operand = Operand::new(module, kernel, name, side, wide)?;
    let inner_text = module.number(inner as u64);
    let points_text = module.number(points as u64);
    let (mut load, mut place) = (String::new(), String::new());
    let batch_axes = kernel.axes[kernel.group(BATCH)].to_vec();
    let batch = unravel(module, &Expr::scalar("batch"), &batch_axes, "b", &mut load);
    let value = operand.call("s", "k");
    let empty = zero(kernel.accumulator, 4);
    if wide == Wide::Inner {
        // One row, four values of k: threads of a row are neighbours.
        load.push_str("    let own = first + thread / 4u;\n    let k = step * 16u + thread % 4u * 4u;\n");
        let coordinates = point_coordinates(module, kernel, side, wide, "own", "m", &mut load);
        operand.still(module, kernel, &batch, &coordinates, "s", &mut load);
        let position = format!("min(k, {inner_text} - 4u) / 4u");
        let coordinates = inner_coordinates(module, kernel, &position, 4, "k", &mut load);
        operand.moving(module, kernel, &coordinates, "k", &mut load);
        let _ = writeln!(load, "    let inside = own < {points_text} && k < {inner_text};");
        let _ = writeln!(load, "    return select({empty}, {value}, inside);");
        place.push_str("    let at = start + thread % 4u * 64u + thread / 16u;\n    let lane = thread / 4u % 4u;\n");
        for (number, lane) in LANES.iter().enumerate() {
            let _ = writeln!(place, "    {name}_tile[at + {}u][lane] = value.{lane};", number * 16);
        }
    } else {
        // One value of k, four rows.
        load.push_str("    let own = first + thread % 16u * 4u;\n    let k = step * 16u + thread / 16u;\n");
        let coordinates = point_coordinates(module, kernel, side, wide, "own", "m", &mut load);
        operand.still(module, kernel, &batch, &coordinates, "s", &mut load);
        let position = format!("min(k, {inner_text} - 1u)");
        let coordinates = inner_coordinates(module, kernel, &position, 1, "k", &mut load);
        operand.moving(module, kernel, &coordinates, "k", &mut load);
        // Rows behind the last one repeat it, and their results are left out.
        let _ = writeln!(load, "    return select({empty}, {value}, k < {inner_text});");
        let _ = writeln!(place, "    {name}_tile[start + thread] = value;");
    }
    Ok(format!(
        "{}fn load_{name}(batch: u32, first: u32, step: u32, thread: u32) -> Sum {{\n{load}}}\n\n\
         fn place_{name}(start: u32, thread: u32, value: Sum) {{\n{place}}}\n\n",
        operand.text
    ))
}

/// The zero of the accumulator's type, for pieces of tiles outside the operands.
fn zero(accumulator: DType, width: usize) -> String {
    format!("{}()", Register::of(accumulator).wide(width))
}
