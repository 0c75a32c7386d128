//! Contractions on real GPUs: 64x64 results for each workgroup, operands in workgroup memory.

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

/// Rows and columns of a workgroup's results, and values of k in one step.
const TILE: usize = 64;
const STEP: usize = 16;

/// One tile for each workgroup.
pub(super) fn render(mut module: Module<'_>, kernel: &ContractKernel) -> Result<Launch> {
    let [batch, rows, columns, inner] = kernel.sizes();
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
    let (row_tiles, column_tiles) = (rows.div_ceil(TILE), columns.div_ceil(TILE));
    let (mut text, groups) = grid(&mut module, batch * row_tiles * column_tiles, 1)?;
    text = text.replace("const THREADS: u32 = 1u;\n\n", "");
    for (name, count) in
        [("row_tiles", row_tiles), ("column_tiles", column_tiles), ("step_count", inner.div_ceil(STEP))]
    {
        let count = module.number(count as u64);
        let _ = write!(text, "\nfn {name}() -> u32 {{\n    return {count};\n}}\n");
    }
    let types = format!("alias Sum = {};\n", Register::of(kernel.accumulator).wide(4));
    module.finish("contract_tiled.wgsl", &[("grid", &text), ("types", &types), ("compute", &compute)], groups)
}

/// The operand's function and `fetch_left` or `fetch_right`, by which each thread brings four elements.
fn fetch(module: &mut Module<'_>, kernel: &ContractKernel, side: usize) -> Result<String> {
    let [_, rows, columns, inner] = kernel.sizes();
    let (tape, name, tile, points) = match side {
        ROWS => (&kernel.lhs.0, "left", "left_tile", rows),
        _ => (&kernel.rhs.0, "right", "right_tile", columns),
    };
    let wide = operand_lanes(kernel, tape, side).unwrap_or(Wide::Points);
    let operand = Operand::new(module, kernel, name, side, wide)?;
    let inner_text = module.number(inner as u64);
    let points_text = module.number(points as u64);
    let mut code = String::new();
    let batch_axes = kernel.axes[kernel.group(BATCH)].to_vec();
    let batch = unravel(module, &Expr::scalar("batch"), &batch_axes, "b", &mut code);
    let value = operand.call("s", "k");
    let empty = zero(kernel.accumulator, 4);
    if wide == Wide::Inner {
        // One row, four values of k: threads of a row are neighbours.
        code.push_str("    let own = first + thread / 4u;\n    let k = step * 16u + thread % 4u * 4u;\n");
        let coordinates = point_coordinates(module, kernel, side, wide, "own", "m", &mut code);
        operand.still(module, kernel, &batch, &coordinates, "s", &mut code);
        let position = format!("min(k, {inner_text} - 4u) / 4u");
        let coordinates = inner_coordinates(module, kernel, &position, 4, "k", &mut code);
        operand.moving(module, kernel, &coordinates, "k", &mut code);
        let _ = writeln!(code, "    let inside = own < {points_text} && k < {inner_text};");
        let _ = writeln!(code, "    let value = select({empty}, {value}, inside);");
        code.push_str("    let at = thread % 4u * 64u + thread / 16u;\n    let lane = thread / 4u % 4u;\n");
        for (number, lane) in LANES.iter().enumerate() {
            let _ = writeln!(code, "    {tile}[at + {}u][lane] = value.{lane};", number * 16);
        }
    } else {
        // One value of k, four rows.
        code.push_str("    let own = first + thread % 16u * 4u;\n    let k = step * 16u + thread / 16u;\n");
        let coordinates = point_coordinates(module, kernel, side, wide, "own", "m", &mut code);
        operand.still(module, kernel, &batch, &coordinates, "s", &mut code);
        let position = format!("min(k, {inner_text} - 1u)");
        let coordinates = inner_coordinates(module, kernel, &position, 1, "k", &mut code);
        operand.moving(module, kernel, &coordinates, "k", &mut code);
        // Rows behind the last one repeat it, and their results are left out.
        let _ = writeln!(code, "    {tile}[thread] = select({empty}, {value}, k < {inner_text});");
    }
    Ok(format!("{}fn fetch_{name}(batch: u32, first: u32, step: u32, thread: u32) {{\n{code}}}\n\n", operand.text))
}

/// The zero of the accumulator's type, for pieces of tiles outside the operands.
fn zero(accumulator: DType, width: usize) -> String {
    format!("{}()", Register::of(accumulator).wide(width))
}
