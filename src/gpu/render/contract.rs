//! Contractions: register tiles without workgroup memory, and workgroup tiles for real GPUs.
//!
//! Operand tapes become functions whose parameters are the parts of their indices: one part for the row (or column),
//! computed once, one for k, computed once per step and shared by all rows. Convolutions are of this form, too: their
//! indices and their conditions are sums of a part over positions and a part over the window.

use std::fmt::Write as _;

use crate::dtype::DType;
use crate::error::Result;
use crate::plan::{Atom, ContractKernel, InstrOp, Ix, Tape};

use super::module::Module;
use super::rewrite::exchange;
use super::scalar::Register;
use super::space::{Expr, Hoist, Lanes, Space, unravel};
use super::tape::Outside;
use super::{Launch, grid};

const LANES: [&str; 4] = ["x", "y", "z", "w"];

/// Which axis of an operand runs in four lanes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wide {
    /// None: one value at a time.
    None,
    /// The last axis of k, whose size is a multiple of four.
    Inner,
    /// The last axis of the operand's rows or columns, whose size is a multiple of four.
    Outer,
    /// Four neighbouring rows or columns, across axes.
    Points,
}

/// The groups of axes in a [`ContractKernel`].
pub(super) const BATCH: usize = 0;
pub(super) const ROWS: usize = 1;
pub(super) const COLUMNS: usize = 2;
pub(super) const INNER: usize = 3;

/// The launch for a contraction; `None` if it has no results.
pub(crate) fn render(module: Module<'_>, kernel: &ContractKernel) -> Result<Option<Launch>> {
    let [batch, rows, columns, _] = kernel.sizes();
    if batch * rows * columns == 0 {
        return Ok(None);
    }
    let exchanged = exchange(kernel);
    let kernel = if prefers_exchange(kernel, &exchanged) { &exchanged } else { kernel };
    let [batch, rows, columns, inner] = kernel.sizes();
    let tiles = batch * rows.div_ceil(64) * columns.div_ceil(64);
    let fits = module.caps.max_workgroup_invocations >= 256 && module.caps.max_workgroup_bytes >= 8192;
    let large = rows >= 32 && columns >= 32 && inner >= 16 && tiles >= 4;
    if large && fits && !module.caps.software {
        super::contract_tiled::render(module, kernel).map(Some)
    } else {
        register_tiles(module, kernel).map(Some)
    }
}

/// Results run in four lanes along columns: they should be many, and next to each other in memory.
fn prefers_exchange(kernel: &ContractKernel, exchanged: &ContractKernel) -> bool {
    let [_, rows, columns, _] = kernel.sizes();
    if rows.min(4) != columns.min(4) {
        return columns < rows.min(4);
    }
    whole_stores(exchanged) > whole_stores(kernel)
}

/// How many stores write neighbouring columns next to each other.
fn whole_stores(kernel: &ContractKernel) -> usize {
    let space = side_space(kernel, COLUMNS, column_lanes(kernel));
    let aligned = |ix: &Ix| matches!(space.lanes(&space.rewrite(ix)), Lanes::Aligned(_));
    kernel.stores.iter().filter(|store| aligned(&store.index) || unit_stride(kernel, &store.index)).count()
}

/// True if neighbouring columns are neighbours in memory.
fn unit_stride(kernel: &ContractKernel, ix: &Ix) -> bool {
    kernel
        .group(COLUMNS)
        .rev()
        .find(|&axis| kernel.axes[axis] > 1)
        .is_some_and(|axis| ix.terms.contains(&(Atom::Axis(axis), 1)))
}

/// How columns are numbered in lanes.
pub(super) fn column_lanes(kernel: &ContractKernel) -> Wide {
    lanes_of_group(kernel, COLUMNS)
}

fn lanes_of_group(kernel: &ContractKernel, group: usize) -> Wide {
    match kernel.group(group).next_back() {
        Some(last) if kernel.axes[last].is_multiple_of(4) => Wide::Outer,
        _ => Wide::Points,
    }
}

/// The space of an operand or of the results, with lanes in group `side` (or in k for [`Wide::Inner`]). Coordinates have
/// no text yet, only whether they differ between lanes.
pub(super) fn side_space(kernel: &ContractKernel, side: usize, wide: Wide) -> Space {
    let mut axes = kernel.axes.clone();
    let mut of_kernel: Vec<Ix> = (0..axes.len()).map(Ix::axis).collect();
    let mut lane = None;
    let split = match wide {
        Wide::Outer => kernel.group(side).next_back(),
        Wide::Inner => kernel.group(INNER).next_back(),
        Wide::None | Wide::Points => None,
    };
    if let Some(axis) = split {
        axes[axis] /= 4;
        of_kernel[axis] = Ix::axis(axis).times(4).plus(&Ix::axis(axes.len()));
        lane = Some(axes.len());
        axes.push(4);
    }
    let varies = |axis: usize| Some(axis) == lane || (wide == Wide::Points && kernel.group(side).contains(&axis));
    let coordinates = (0..axes.len()).map(|axis| Expr { text: String::new(), varying: varies(axis) }).collect();
    let width = if wide == Wide::None { 1 } else { 4 };
    Space { axes, coordinates, of_kernel, lane, width, ..Space::default() }
}

/// How many loads that depend on k have neighbouring lanes, less those that have not.
fn score(kernel: &ContractKernel, tape: &Tape, side: usize, wide: Wide) -> i32 {
    let space = side_space(kernel, side, wide);
    let inner = kernel.group(INNER);
    let value = |ix: &Ix| match space.lanes(&space.rewrite(ix)) {
        Lanes::Aligned(_) => 1,
        Lanes::Same => 0,
        Lanes::Apart => -1,
    };
    let loads = tape.instrs.iter().filter_map(|instr| match &instr.op {
        InstrOp::Load { index, .. } if inner.clone().any(|axis| index.uses(axis)) => Some(value(index)),
        InstrOp::Gather { .. } => Some(-1),
        _ => None,
    });
    loads.sum()
}

/// The lanes in which an operand is read best, if there are some with neighbouring elements.
pub(super) fn operand_lanes(kernel: &ContractKernel, tape: &Tape, side: usize) -> Option<Wide> {
    let inner_fits = kernel.group(INNER).next_back().is_some_and(|last| kernel.axes[last].is_multiple_of(4));
    let outer_fits = lanes_of_group(kernel, side) == Wide::Outer;
    let inner = if inner_fits { score(kernel, tape, side, Wide::Inner) } else { 0 };
    let outer = if outer_fits { score(kernel, tape, side, Wide::Outer) } else { 0 };
    match () {
        () if outer > 0 && outer >= inner => Some(Wide::Outer),
        () if inner > 0 => Some(Wide::Inner),
        () => None,
    }
}

/// A function that evaluates an operand, and the index parts it takes.
pub(super) struct Operand {
    pub name: &'static str,
    pub wide: Wide,
    pub text: String,
    /// Uses the same axes as the hoisted parts; coordinates are filled in where they are computed.
    space: Space,
    hoist: Hoist,
    side: usize,
}

impl Operand {
    pub(super) fn new(
        module: &mut Module<'_>,
        kernel: &ContractKernel,
        name: &'static str,
        side: usize,
        wide: Wide,
    ) -> Result<Self> {
        let (tape, value) = if side == ROWS { &kernel.lhs } else { &kernel.rhs };
        let space = side_space(kernel, side, wide);
        let inner = kernel.group(INNER);
        let moving: Vec<bool> = (0..space.axes.len())
            .map(|axis| inner.contains(&axis) || (Some(axis) == space.lane && wide == Wide::Inner))
            .collect();
        let mut inside = Space { hoist: Some(Hoist { moving, parameters: Vec::new() }), ..space.clone() };
        let mut body = String::new();
        module.tape(&mut inside, tape, Outside::default(), &mut body)?;
        let hoist = inside.hoist.take().expect("it was set above");
        let parameters: Vec<String> =
            hoist.parameters.iter().enumerate().map(|(number, p)| format!("p{number}: {}", p.ty())).collect();
        let register = Register::of(kernel.accumulator).wide(space.width);
        let given = Register::of(tape.instrs[*value].dtype);
        let result = if given == Register::of(kernel.accumulator) {
            format!("v{value}")
        } else {
            format!("{register}(v{value})")
        };
        let text = format!("fn {name}({}) -> {register} {{\n{body}    return {result};\n}}\n\n", parameters.join(", "));
        Ok(Self { name, wide, text, space, hoist, side })
    }

    /// Statements for the parts that do not change with k, at the given batch and row (or column) coordinates; the names
    /// start with `prefix`.
    pub(super) fn still(
        &self,
        module: &mut Module<'_>,
        kernel: &ContractKernel,
        batch: &[Expr],
        points: &[Expr],
        prefix: &str,
        code: &mut String,
    ) {
        let mut space = self.space.clone();
        space.coordinates[kernel.group(BATCH)].clone_from_slice(batch);
        space.coordinates[kernel.group(self.side)].clone_from_slice(points);
        self.parts(module, &mut space, false, prefix, code);
    }

    /// Statements for the parts that change with k, at its given coordinates.
    pub(super) fn moving(
        &self,
        module: &mut Module<'_>,
        kernel: &ContractKernel,
        inner: &[Expr],
        prefix: &str,
        code: &mut String,
    ) {
        let mut space = self.space.clone();
        space.coordinates[kernel.group(INNER)].clone_from_slice(inner);
        self.parts(module, &mut space, true, prefix, code);
    }

    fn parts(&self, module: &mut Module<'_>, space: &mut Space, moving: bool, prefix: &str, code: &mut String) {
        if let Some(lane) = space.lane {
            space.coordinates[lane] = Expr::varying("vec4u(0u, 1u, 2u, 3u)");
        }
        for (number, parameter) in self.hoist.parameters.iter().enumerate() {
            if parameter.moving == moving {
                let value = module.index(space, &parameter.ix, parameter.exact);
                let width = if parameter.varying { 4 } else { 1 };
                let _ = writeln!(code, "    let {prefix}_{number} = {};", value.wide(width));
            }
        }
    }

    /// The call with parts computed under these prefixes.
    pub(super) fn call(&self, still: &str, moving: &str) -> String {
        let part = |(number, p): (usize, &super::space::Parameter)| {
            format!("{}_{number}", if p.moving { moving } else { still })
        };
        let parts: Vec<String> = self.hoist.parameters.iter().enumerate().map(part).collect();
        format!("{}({})", self.name, parts.join(", "))
    }
}

/// `fn finish(batch, row, column, sum)`: the epilogue and the stores of four neighbouring results in one row.
pub(super) fn finish(module: &mut Module<'_>, kernel: &ContractKernel) -> Result<String> {
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
        let _ = writeln!(code, "    let inside = vec4u(column) + vec4u(0u, 1u, 2u, 3u) < vec4u({count});");
        space.active = Some("inside".into());
    }
    module.tape(&mut space, &kernel.epilogue, Outside::default(), &mut code)?;
    for store in &kernel.stores {
        module.store(&mut space, store, false, &mut code)?;
    }
    let sum = Register::of(kernel.accumulator).wide(4);
    Ok(format!("fn finish(batch: u32, row: u32, column: u32, sum: {sum}) {{\n{code}}}\n"))
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
        space.coordinates[lane] = Expr::varying("vec4u(0u, 1u, 2u, 3u)");
    }
    point_coordinates(module, kernel, COLUMNS, column_lanes(kernel), first, prefix, code)
}

/// Coordinates in group `side` of the point (or the four points) from number `first` on; points behind the last one
/// repeat it.
pub(super) fn point_coordinates(
    module: &mut Module<'_>,
    kernel: &ContractKernel,
    side: usize,
    wide: Wide,
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
            Expr::scalar(format!("min(({first}) / 4u, {last})"))
        }
        Wide::Points => {
            let last = last(module, count);
            Expr::varying(format!("min(vec4u({first}) + vec4u(0u, 1u, 2u, 3u), vec4u({last}))"))
        }
        Wide::None | Wide::Inner => {
            let last = last(module, count);
            Expr::scalar(format!("min({first}, {last})"))
        }
    };
    unravel(module, &position, &sizes, prefix, code)
}

/// Statements that find the coordinates of step `q` in k, which has `width` values of k in each step (the last axis is a
/// multiple of it), and of the `offset`-th value in it. `quartered`: the last axis counts fours.
pub(super) fn inner_coordinates(
    module: &mut Module<'_>,
    kernel: &ContractKernel,
    step: &str,
    width: usize,
    prefix: &str,
    code: &mut String,
) -> Vec<Expr> {
    let mut sizes = kernel.axes[kernel.group(INNER)].to_vec();
    if width == 4 {
        *sizes.last_mut().expect("steps of four need an axis") /= 4;
    }
    unravel(module, &Expr::scalar(step), &sizes, prefix, code)
}

/// One tile in the registers of each invocation.
fn register_tiles(mut module: Module<'_>, kernel: &ContractKernel) -> Result<Launch> {
    let [batch, rows, columns, inner] = kernel.sizes();
    let (tile_rows, tile_columns) = tile_size(&module, kernel);
    let column_groups = tile_columns / 4;
    let left_wide = operand_lanes(kernel, &kernel.lhs.0, ROWS).filter(|&wide| wide == Wide::Inner || tile_rows >= 4);
    let left_wide = left_wide.unwrap_or(Wide::None);
    let right_wide = operand_lanes(kernel, &kernel.rhs.0, COLUMNS).unwrap_or_else(|| column_lanes(kernel));
    let step = if left_wide == Wide::Inner || right_wide == Wide::Inner { 4 } else { 1 };
    let left = Operand::new(&mut module, kernel, "left", ROWS, left_wide)?;
    let right = Operand::new(&mut module, kernel, "right", COLUMNS, right_wide)?;
    let finish = finish(&mut module, kernel)?;

    let mut code = String::new();
    let _ = writeln!(code, "    let row = row_tile * {tile_rows}u;\n    let column = column_tile * {tile_columns}u;");
    let batch_axes = kernel.axes[kernel.group(BATCH)].to_vec();
    let batch_coordinates = unravel(&mut module, &Expr::scalar("batch"), &batch_axes, "b", &mut code);
    let left_stride = if left_wide == Wide::Outer { 4 } else { 1 };
    for row in (0..tile_rows).step_by(left_stride) {
        let first = format!("row + {row}u");
        let prefix = format!("m{row}_");
        let points = point_coordinates(&mut module, kernel, ROWS, left_wide, &first, &prefix, &mut code);
        left.still(&mut module, kernel, &batch_coordinates, &points, &format!("l{row}"), &mut code);
    }
    let right_stride = if right_wide == Wide::Inner { 1 } else { 4 };
    for column in (0..tile_columns).step_by(right_stride) {
        let first = format!("column + {column}u");
        let prefix = format!("n{column}_");
        let points = point_coordinates(&mut module, kernel, COLUMNS, right_wide, &first, &prefix, &mut code);
        right.still(&mut module, kernel, &batch_coordinates, &points, &format!("r{column}"), &mut code);
    }
    let sum = Register::of(kernel.accumulator).wide(4);
    for row in 0..tile_rows {
        for group in 0..column_groups {
            let _ = writeln!(code, "    var s{row}_{group} = {sum}();");
        }
    }
    if inner > 0 {
        let body = step_body(&mut module, kernel, (&left, &right), (tile_rows, tile_columns), step);
        let count = module.number((inner / step) as u64);
        let _ = write!(code, "    for (var q = 0u; q < {count}; q++) {{\n{body}    }}\n");
    }
    let (rows_text, columns_text) = (module.number(rows as u64), module.number(columns as u64));
    for row in 0..tile_rows {
        for group in 0..column_groups {
            let (r, c) = (format!("row + {row}u"), format!("column + {}u", group * 4));
            let _ = writeln!(
                code,
                "    if ({r} < {rows_text} && {c} < {columns_text}) {{\n        finish(batch, {r}, {c}, s{row}_{group});\n    }}"
            );
        }
    }
    let (row_tiles, column_tiles) = (rows.div_ceil(tile_rows), columns.div_ceil(tile_columns));
    let work = batch * row_tiles * column_tiles;
    let threads = if module.caps.software && work <= 1024 { 8 } else { 64 };
    let (mut grid, groups) = grid(&mut module, work, threads)?;
    for (name, count) in [("row_tiles", row_tiles), ("column_tiles", column_tiles)] {
        let count = module.number(count as u64);
        let _ = write!(grid, "\nfn {name}() -> u32 {{\n    return {count};\n}}\n");
    }
    let compute = format!(
        "{}{}{finish}\nfn compute(batch: u32, row_tile: u32, column_tile: u32) {{\n{code}}}\n",
        left.text, right.text
    );
    module.finish("contract.wgsl", &[("grid", &grid), ("compute", &compute)], groups)
}

/// Rows and columns of a register tile: large where there is work for many invocations.
fn tile_size(module: &Module<'_>, kernel: &ContractKernel) -> (usize, usize) {
    let [batch, rows, columns, _] = kernel.sizes();
    let fit = |size: usize, most: usize| size.next_power_of_two().clamp(1, most);
    let busy = if module.caps.software { 128 } else { 16_384 };
    let largest = if module.caps.software { 8 } else { 4 };
    let (mut tile_rows, mut tile_columns) = (fit(rows, largest), fit(columns, 8.min(largest)).max(4));
    let work = |r: usize, c: usize| batch * rows.div_ceil(r) * columns.div_ceil(c);
    while tile_rows > 1 && work(tile_rows, tile_columns) < busy {
        tile_rows /= 2;
        if tile_columns > 4 && work(tile_rows, tile_columns) < busy {
            tile_columns /= 2;
        }
    }
    (tile_rows, tile_columns)
}

/// One step of the loop over k: both fragments, then their products.
fn step_body(
    module: &mut Module<'_>,
    kernel: &ContractKernel,
    (left, right): (&Operand, &Operand),
    (tile_rows, tile_columns): (usize, usize),
    step: usize,
) -> String {
    let mut body = String::new();
    let quarter = inner_coordinates(module, kernel, "q", step, "k", &mut body);
    let last = quarter.len().wrapping_sub(1);
    // Coordinates of value j of the step, for operands that take one k at a time.
    let at = |j: usize| {
        let mut coordinates = quarter.clone();
        if step == 4 {
            let text = &quarter[last].text;
            coordinates[last] =
                Expr::scalar(if j == 0 { format!("({text} * 4u)") } else { format!("({text} * 4u + {j}u)") });
        }
        coordinates
    };
    for (operand, count, stride, name) in [
        (left, tile_rows, if left.wide == Wide::Outer { 4 } else { 1 }, "l"),
        (right, tile_columns, if right.wide == Wide::Inner { 1 } else { 4 }, "r"),
    ] {
        let steps = if operand.wide == Wide::Inner { 1 } else { step };
        for j in 0..steps {
            let coordinates = if operand.wide == Wide::Inner { quarter.clone() } else { at(j) };
            operand.moving(module, kernel, &coordinates, &format!("{name}k{j}"), &mut body);
            for first in (0..count).step_by(stride) {
                let call = operand.call(&format!("{name}{first}"), &format!("{name}k{j}"));
                let _ = writeln!(body, "    let {name}{first}v{j} = {call};");
            }
        }
    }
    // Where value (row, j) of the left fragment and value (j, four columns) of the right one are.
    let left_value = |row: usize, j: usize| match left.wide {
        Wide::Inner => format!("l{row}v0.{}", LANES[j]),
        Wide::Outer => format!("l{}v{j}.{}", row / 4 * 4, LANES[row % 4]),
        Wide::None | Wide::Points => format!("l{row}v{j}"),
    };
    let ty = Register::of(kernel.accumulator).wide(4);
    for (j, lane) in LANES.iter().enumerate().take(step) {
        for group in 0..tile_columns / 4 {
            let value = if right.wide == Wide::Inner {
                let lanes: Vec<String> = (0..4).map(|c| format!("r{}v0.{lane}", group * 4 + c)).collect();
                format!("{ty}({})", lanes.join(", "))
            } else {
                format!("r{}v{j}", group * 4)
            };
            let _ = writeln!(body, "    let w{j}_{group} = {value};");
        }
    }
    for row in 0..tile_rows {
        for group in 0..tile_columns / 4 {
            for j in 0..step {
                let _ = writeln!(body, "    s{row}_{group} += {} * w{j}_{group};", left_value(row, j));
            }
        }
    }
    body
}

/// The zero of the accumulator's type, for pieces of tiles outside the operands.
pub(super) fn zero(accumulator: DType, width: usize) -> String {
    format!("{}()", Register::of(accumulator).wide(width))
}
