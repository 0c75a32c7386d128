//! Coordinates of results and of steps.

use std::fmt::Write as _;

use crate::error::Result;
use crate::gpu::render::grid_of_groups;
use crate::gpu::render::module::Module;
use crate::gpu::render::space::{Expr, unravel};
use crate::plan::ContractKernel;

use super::lanes::Wide;
use super::{ALL_LANES, INNER};

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
