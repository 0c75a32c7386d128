//! What happens to a result, and what of it is the same for all results of a row or of a column.

use std::fmt::Write as _;

use crate::dtype::DType;
use crate::error::Result;
use crate::gpu::render::module::Module;
use crate::gpu::render::scalar::Register;
use crate::gpu::render::space::{Expr, Lanes, Space, unravel};
use crate::gpu::render::tape::Outside;
use crate::plan::{Cond, ContractKernel, InstrOp, Ix, ValueId};

use super::lanes::{Wide, column_lanes, side_space};
use super::points::point_coordinates;
use super::{ALL_LANES, BATCH, COLUMNS, ROWS};

/// Values of the epilogue that are made of what is read, and are the same for all results of a row or of a column:
/// a tile reads each once.
#[derive(Default)]
pub(super) struct Fixed {
    /// Those of a row.
    pub(super) rows: Vec<ValueId>,
    /// Those of four columns.
    pub(super) columns: Vec<ValueId>,
}

impl Fixed {
    pub(super) fn of(kernel: &ContractKernel) -> Self {
        let rows = independent_of(kernel, COLUMNS);
        let columns: Vec<bool> =
            independent_of(kernel, ROWS).into_iter().zip(&rows).map(|(fixed, of_row)| fixed && !of_row).collect();
        let [rows, columns] = [rows, columns].map(|fixed| outermost(kernel, &fixed));
        Self { rows, columns }
    }
}

/// Which values do not depend on the axes of group `side`, nor on the sum, and are made of what is read.
fn independent_of(kernel: &ContractKernel, side: usize) -> Vec<bool> {
    let axes = kernel.group(side);
    let free = |ix: &Ix| !axes.clone().any(|axis| ix.uses(axis));
    let all = |valid: &[Cond]| valid.iter().all(|cond| free(cond.value()));
    let is_written = |buffer| kernel.stores.iter().any(|store| store.buffer == buffer);
    // for each value: whether it is independent, and whether it reads anything
    let mut known: Vec<(bool, bool)> = Vec::with_capacity(kernel.epilogue.instrs.len());
    for instr in &kernel.epilogue.instrs {
        let (own, reads) = match &instr.op {
            InstrOp::Load { buffer, index, valid } => (!is_written(*buffer) && free(index) && all(valid), true),
            InstrOp::Gather { buffer, base, valid, .. } => (!is_written(*buffer) && free(base) && all(valid), true),
            InstrOp::Coord(ix) | InstrOp::Random { counter: ix, .. } => (free(ix), false),
            InstrOp::Valid(conds) => (all(conds), false),
            InstrOp::Accumulator | InstrOp::Reduced(_) | InstrOp::CheckIndex { .. } => (false, false),
            _ => (true, false),
        };
        let operands: Vec<(bool, bool)> = instr.op.values().map(|value| known[value]).collect();
        known.push((own && operands.iter().all(|of| of.0), reads || operands.iter().any(|of| of.1)));
    }
    known.into_iter().map(|(independent, reads)| independent && reads).collect()
}

/// Of these values those that others need. Bools are computed anew: lanes exchange none.
fn outermost(kernel: &ContractKernel, fixed: &[bool]) -> Vec<ValueId> {
    let instrs = &kernel.epilogue.instrs;
    let by_others = |id: ValueId| {
        let mut users = instrs.iter().enumerate().filter(|(_, instr)| instr.op.values().any(|value| value == id));
        users.any(|(user, instr)| !fixed[user] || instr.dtype == DType::Bool)
            || kernel.stores.iter().any(|store| store.value == id)
    };
    (0..instrs.len()).filter(|&id| fixed[id] && instrs[id].dtype != DType::Bool && by_others(id)).collect()
}

/// What is computed for each result: what is stored and what is checked.
fn roots(kernel: &ContractKernel) -> impl Iterator<Item = ValueId> {
    kernel.stores.iter().map(|store| store.value).chain(kernel.epilogue.checks())
}

/// What comes with four results, beside what comes once with a row or column: reads of one value and writes, and reads
/// of four.
pub(super) fn accesses(kernel: &ContractKernel) -> [usize; 2] {
    let Fixed { rows, columns } = Fixed::of(kernel);
    let given = [rows, columns].concat();
    let space = side_space(kernel, COLUMNS, column_lanes(kernel));
    let of = |ix: &Ix| space.lanes(&space.rewrite(ix));
    let needed = kernel.epilogue.needed(roots(kernel), &given);
    let mut count = [0; 2];
    for (id, instr) in kernel.epilogue.instrs.iter().enumerate() {
        if !needed[id] || given.contains(&id) {
            continue;
        }
        match &instr.op {
            InstrOp::Load { index, .. } => match of(index) {
                Lanes::Aligned(_) => count[1] += 1,
                Lanes::Same => count[0] += 1,
                Lanes::Apart => count[0] += 4,
            },
            InstrOp::Gather { .. } => count[0] += 4,
            _ => {}
        }
    }
    for store in &kernel.stores {
        count[0] += if matches!(of(&store.index), Lanes::Aligned(_)) { 1 } else { 4 };
    }
    count
}

/// `fn finish(batch, row, column, sum)`: the epilogue and the stores of four neighbouring results in one row. Of lines
/// that were made longer, only the first `width` columns are results. It also takes the values that are `fixed`,
/// `of_row_3` or `of_column_3`, which are those of `fn row_3(batch, row)` and `fn column_3(batch, column)`.
pub(super) fn finish(
    module: &mut Module<'_>,
    kernel: &ContractKernel,
    width: Option<usize>,
    fixed: &Fixed,
) -> Result<String> {
    let tape = &kernel.epilogue;
    let register = |id: ValueId, lanes: usize| Register::of(tape.instrs[id].dtype).wide(lanes);
    let only = |root: ValueId| Outside { only: Some(tape.needed(std::iter::once(root), &[])), ..Outside::default() };
    let mut text = String::new();
    for &id in &fixed.rows {
        let mut code = String::new();
        let mut space = side_space(kernel, ROWS, Wide::None);
        coordinates_of(module, kernel, (BATCH, "batch", "b"), &mut space, &mut code);
        coordinates_of(module, kernel, (ROWS, "row", "m"), &mut space, &mut code);
        module.tape(&mut space, tape, only(id), &mut code)?;
        let ty = register(id, 1);
        let _ = write!(text, "fn row_{id}(batch: u32, row: u32) -> {ty} {{\n{code}    return v{id};\n}}\n\n");
    }
    for &id in &fixed.columns {
        let mut code = String::new();
        let mut space = columns(module, kernel, width, &mut code);
        module.tape(&mut space, tape, only(id), &mut code)?;
        let ty = register(id, 4);
        let _ = write!(text, "fn column_{id}(batch: u32, column: u32) -> {ty} {{\n{code}    return v{id};\n}}\n\n");
    }
    let mut code = String::new();
    let mut space = columns(module, kernel, width, &mut code);
    coordinates_of(module, kernel, (ROWS, "row", "m"), &mut space, &mut code);
    let given: Vec<ValueId> = fixed.rows.iter().chain(&fixed.columns).copied().collect();
    let outside = Outside {
        known: (fixed.rows.iter().map(|&id| (id, format!("{}(of_row_{id})", register(id, 4)))))
            .chain(fixed.columns.iter().map(|&id| (id, format!("of_column_{id}"))))
            .collect(),
        only: Some(tape.needed(roots(kernel), &given)),
        ..Outside::default()
    };
    module.tape(&mut space, tape, outside, &mut code)?;
    for store in &kernel.stores {
        module.store(&mut space, store, false, &mut code)?;
    }
    let mut parameters =
        format!("batch: u32, row: u32, column: u32, sum: {}", Register::of(kernel.accumulator).wide(4));
    for (ids, name, lanes) in [(&fixed.rows, "of_row_", 1), (&fixed.columns, "of_column_", 4)] {
        ids.iter().for_each(|&id| parameters += &format!(", {name}{id}: {}", register(id, lanes)));
    }
    let _ = writeln!(text, "fn finish({parameters}) {{\n{code}}}");
    Ok(text)
}

/// The same where it is called for every place in a workgroup's tile, of which some lie outside.
pub(super) fn finish_inside(module: &mut Module<'_>, kernel: &ContractKernel) -> Result<String> {
    let finish = finish(module, kernel, None, &Fixed::default())?;
    let [_, rows, columns, _] = kernel.sizes();
    let (rows, columns) = (module.number(rows as u64), module.number(columns as u64));
    let outside = format!("{{\n    if (row >= {rows} || column >= {columns}) {{\n        return;\n    }}\n");
    Ok(finish.replacen("{\n", &outside, 1))
}

/// Statements for the coordinates in a group whose points are numbered by variable `name`.
fn coordinates_of(
    module: &mut Module<'_>,
    kernel: &ContractKernel,
    (group, name, prefix): (usize, &str, &str),
    space: &mut Space,
    code: &mut String,
) {
    let axes = kernel.group(group);
    let coordinates = unravel(module, &Expr::scalar(name), &kernel.axes[axes.clone()], prefix, code);
    space.coordinates[axes].clone_from_slice(&coordinates);
}

/// Where the four columns from `column` on of matrix `batch` are, and which of them there are.
fn columns(module: &mut Module<'_>, kernel: &ContractKernel, width: Option<usize>, code: &mut String) -> Space {
    let wide = column_lanes(kernel);
    let mut space = side_space(kernel, COLUMNS, wide);
    let [_, _, columns, _] = kernel.sizes();
    coordinates_of(module, kernel, (BATCH, "batch", "b"), &mut space, code);
    if let Some(lane) = space.lane {
        space.coordinates[lane] = Expr::varying(ALL_LANES);
    }
    let coordinates = point_coordinates(module, kernel, COLUMNS, (wide, false), "column", "n", code);
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
    space
}
