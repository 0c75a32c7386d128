//! Coordinates of results and of steps, and what happens to a result.

use std::fmt::Write as _;

use crate::error::Result;
use crate::gpu::render::grid_of_groups;
use crate::gpu::render::module::Module;
use crate::gpu::render::scalar::Register;
use crate::gpu::render::space::{Expr, Space, unravel};
use crate::gpu::render::tape::Outside;
use crate::plan::ContractKernel;

use super::lanes::{Wide, column_lanes, side_space};
use super::{ALL_LANES, BATCH, COLUMNS, INNER, ROWS};

/// `fn finish(batch, row, column, sum)`: the epilogue and the stores of four neighbouring results in one row. Of lines
/// that were made longer, only the first `width` columns are results.
pub(super) fn finish(module: &mut Module<'_>, kernel: &ContractKernel, width: Option<usize>) -> Result<String> {
    let wide = column_lanes(kernel);
    let mut space = side_space(kernel, COLUMNS, wide);
    let [_, _, columns, _] = kernel.sizes();
    let mut code = String::new();
    for (group, name, prefix) in [(BATCH, "batch", "b"), (ROWS, "row", "m")] {
        let coordinates = unravel(module, &Expr::scalar(name), &kernel.axes[kernel.group(group)], prefix, &mut code);
        space.coordinates[kernel.group(group)].clone_from_slice(&coordinates);
    }
    let coordinates = column_coordinates(module, kernel, "column", "n", &mut space, &mut code);
    space.coordinates[kernel.group(COLUMNS)].clone_from_slice(&coordinates);
    if wide == Wide::Points && !columns.is_multiple_of(4) {
        let count = module.number(columns as u64);
        let _ = writeln!(code, "    let inside = vec4u(column) + {ALL_LANES} < vec4u({count});");
        space.active = Some("inside".into());
    }
    if let (Some(width), Some(axis)) = (width, space.lane) {
        let first = &coordinates.last().expect("a line is an axis").text;
        let (count, last) = (module.number(width as u64), module.number(width as u64 - 1));
        let _ = writeln!(code, "    let inside = {first} * 4u + {ALL_LANES} < vec4u({count});");
        // others repeat the last one: what they read is somewhere
        let _ = writeln!(code, "    let lane = min({ALL_LANES}, vec4u({last} - {first} * 4u));");
        space.coordinates[axis] = Expr::varying("lane");
        space.active = Some("inside".into());
    }
    module.tape(&mut space, &kernel.epilogue, Outside::default(), &mut code)?;
    for store in &kernel.stores {
        module.store(&mut space, store, false, &mut code)?;
    }
    let sum = Register::of(kernel.accumulator).wide(4);
    Ok(format!("fn finish(batch: u32, row: u32, column: u32, sum: {sum}) {{\n{code}}}\n"))
}

/// The same where it is called for every place in a workgroup's tile, of which some lie outside.
pub(super) fn finish_inside(module: &mut Module<'_>, kernel: &ContractKernel) -> Result<String> {
    let finish = finish(module, kernel, None)?;
    let [_, rows, columns, _] = kernel.sizes();
    let (rows, columns) = (module.number(rows as u64), module.number(columns as u64));
    let outside = format!("{{\n    if (row >= {rows} || column >= {columns}) {{\n        return;\n    }}\n");
    Ok(finish.replacen("{\n", &outside, 1))
}

/// The `grid` slot and the workgroups where each has one tile of results and takes steps of `step_size` values of k.
pub(super) fn tile_grid(
    module: &mut Module<'_>,
    kernel: &ContractKernel,
    [tile_rows, tile_columns]: [usize; 2],
    step_size: usize,
) -> Result<(String, [u32; 3])> {
    let [batch, rows, columns, inner] = kernel.sizes();
    let (row_tiles, column_tiles) = (rows.div_ceil(tile_rows), columns.div_ceil(tile_columns));
    let (mut grid, groups) = grid_of_groups(module, batch * row_tiles * column_tiles, 1)?;
    for (name, count) in
        [("row_tiles", row_tiles), ("column_tiles", column_tiles), ("step_count", inner.div_ceil(step_size))]
    {
        let count = module.number(count as u64);
        let _ = write!(grid, "\nfn {name}() -> u32 {{\n    return {count};\n}}\n");
    }
    Ok((grid, groups))
}

/// Coordinates of the four columns from `first` on; also sets the lane's coordinate.
fn column_coordinates(
    module: &mut Module<'_>,
    kernel: &ContractKernel,
    first: &str,
    prefix: &str,
    space: &mut Space,
    code: &mut String,
) -> Vec<Expr> {
    if let Some(lane) = space.lane {
        space.coordinates[lane] = Expr::varying(ALL_LANES);
    }
    point_coordinates(module, kernel, COLUMNS, (column_lanes(kernel), false), first, prefix, code)
}

/// Coordinates in group `side` of the point (or the four points) from number `first` on; points behind the last one
/// repeat it, unless it is known that all are `inside`.
pub(super) fn point_coordinates(
    module: &mut Module<'_>,
    kernel: &ContractKernel,
    side: usize,
    (wide, inside): (Wide, bool),
    first: &str,
    prefix: &str,
    code: &mut String,
) -> Vec<Expr> {
    let mut sizes = kernel.axes[kernel.group(side)].to_vec();
    let count: usize = sizes.iter().product();
    let last = |module: &mut Module<'_>, count: usize| module.number(count as u64 - 1);
    let position = match wide {
        Wide::Outer => {
            *sizes.last_mut().expect("lanes need an axis") /= 4;
            let last = last(module, count / 4);
            Expr::scalar(if inside { format!("({first}) / 4u") } else { format!("min(({first}) / 4u, {last})") })
        }
        Wide::Points => {
            let last = last(module, count);
            let four = format!("vec4u({first}) + {ALL_LANES}");
            Expr::varying(if inside { format!("({four})") } else { format!("min({four}, vec4u({last}))") })
        }
        Wide::None | Wide::Inner if inside => Expr::scalar(first),
        Wide::None | Wide::Inner => {
            let last = last(module, count);
            Expr::scalar(format!("min({first}, {last})"))
        }
    };
    unravel(module, &position, &sizes, prefix, code)
}

/// Statements that find the coordinates of step `q` in k, which has `width` values of k in each step (the last axis is
/// a multiple of it).
pub(super) fn inner_coordinates(
    module: &mut Module<'_>,
    kernel: &ContractKernel,
    step: &str,
    width: usize,
    prefix: &str,
    code: &mut String,
) -> Vec<Expr> {
    let mut sizes = kernel.axes[kernel.group(INNER)].to_vec();
    if width > 1 {
        *sizes.last_mut().expect("steps of several need an axis") /= width;
    }
    unravel(module, &Expr::scalar(step), &sizes, prefix, code)
}
