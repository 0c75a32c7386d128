//! Contractions with a tile of results in the registers of each invocation. Where results are few, several invocations
//! share the sums of a tile, and meet in workgroup memory; where an adapter reads for each invocation on its own, those
//! that need the same values read them together.

use std::fmt::Write as _;

use crate::error::Result;
use crate::gpu::render::module::Module;
use crate::gpu::render::scalar::Register;
use crate::gpu::render::space::{Expr, unravel};
use crate::gpu::render::tree::{Tree, Value};
use crate::gpu::render::{Launch, grid_of_groups};
use crate::plan::ContractKernel;

use super::epilogue::{Fixed, finish};
use super::lanes::{Wide, column_lanes, operand_lanes};
use super::lefts::Lefts;
use super::operand::Operand;
use super::points::inner_coordinates;
use super::sliding::Sliding;
use super::{BATCH, COLUMNS, INNER, LANES, ROWS};

/// Results of a tile from which on it takes one step at a time, if both operands can be read so.
const LARGE_TILE: usize = 256;

/// Values of k that the invocations that share a sum take in turns, where the last axis is of fours.
const UNIT: usize = 4;

/// What neighbouring invocations do together.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Together {
    /// Each has its own tile.
    Nothing,
    /// So many add up the sums of one tile, which are then in an order of their own, the same for every tile.
    Sums(usize),
    /// So many of a subgroup, which is a workgroup, read the rows' values that all of them need.
    Lefts(usize),
}

/// Bytes of workgroup memory for what `threads` invocations that share the sums of tiles have added up.
pub(super) fn shared_bytes([tile_rows, tile_columns]: [usize; 2], threads: usize) -> usize {
    4 * tile_rows * tile_columns * threads
}

/// One tile in the registers of each invocation, of which a workgroup has `threads`.
pub(super) fn render(
    mut module: Module<'_>,
    kernel: &ContractKernel,
    [tile_rows, tile_columns]: [usize; 2],
    threads: usize,
    together: Together,
) -> Result<Launch> {
    let (shares, sharing) = match together {
        Together::Nothing => (1, 1),
        Together::Sums(shares) => (shares, 1),
        Together::Lefts(sharing) => (1, sharing),
    };
    // a line's steps are of as many values as its window has
    let sliding = Sliding::of(module.caps, kernel, [tile_rows, tile_columns]).filter(|_| shares == 1);
    let kernel = sliding.as_ref().map_or(kernel, |sliding| &sliding.kernel);
    let [batch, rows, columns, inner] = kernel.sizes();
    let column_groups = tile_columns / 4;
    let [left_wide, right_wide] = widths(kernel, sliding.is_some(), [tile_rows, tile_columns], sharing);
    let step = match &sliding {
        Some(sliding) => sliding.taps,
        None if left_wide == Wide::Inner || right_wide == Wide::Inner => 4,
        None => 1,
    };
    let left = Operand::new(&mut module, kernel, "left", ROWS, left_wide)?;
    let right_kernel = sliding.as_ref().map_or(kernel, |sliding| &sliding.line);
    let right = Operand::new(&mut module, right_kernel, "right", COLUMNS, right_wide)?;
    let mut fixed = Fixed::of(kernel);
    if column_groups == 1 && sharing == 1 {
        fixed.rows.clear();
    }
    if tile_rows == 1 {
        fixed.columns.clear();
    }
    let finish = finish(&mut module, kernel, sliding.as_ref().and_then(|sliding| sliding.ragged), &fixed)?;

    let mut code = String::new();
    let _ = writeln!(code, "    let row = row_tile * {tile_rows}u;\n    let column = column_tile * {tile_columns}u;");
    let batch_axes = kernel.axes[kernel.group(BATCH)].to_vec();
    let batch_coordinates = unravel(&mut module, &Expr::scalar("batch"), &batch_axes, "b", &mut code);
    let lefts = Lefts { rows: tile_rows, stride: if left_wide == Wide::Outer { 4 } else { 1 }, sharing };
    code.push_str(&lefts.who());
    for row in lefts.read() {
        let first = if sharing > 1 { format!("row + {row}u + own") } else { format!("row + {row}u") };
        let names = [format!("m{row}_"), format!("l{row}")];
        left.still_from(&mut module, kernel, &batch_coordinates, &first, names, &mut code);
    }
    if let Some(sliding) = &sliding {
        sliding.still(&mut module, &right, &batch_coordinates, tile_columns, &mut code);
    } else {
        for column in (0..tile_columns).step_by(if right_wide == Wide::Inner { 1 } else { 4 }) {
            let names = [format!("n{column}_"), format!("r{column}")];
            right.still_from(&mut module, kernel, &batch_coordinates, &format!("column + {column}u"), names, &mut code);
        }
    }
    let sum = Register::of(kernel.accumulator).wide(4);
    for row in 0..tile_rows {
        for group in 0..column_groups {
            let _ = writeln!(code, "    var s{row}_{group} = {sum}();");
        }
    }
    if inner > 0 {
        let operands = (&left, &right, sliding.as_ref());
        let body = step_body(&mut module, kernel, operands, (lefts, tile_columns), step);
        let count = module.number((inner / step) as u64);
        code.push_str(&steps(&body, &count, unit(kernel) / step, shares > 1));
    }
    let quads: Vec<String> =
        (0..tile_rows).flat_map(|row| (0..column_groups).map(move |group| format!("s{row}_{group}"))).collect();
    let shared = if shares > 1 { add_shares(&quads, &sum, threads, shares, &mut code)? } else { String::new() };
    // all lanes are needed to exchange what they read
    lefts.of_rows(&mut module, rows, &fixed, &mut code);
    let (row_tiles, column_tiles) = (rows.div_ceil(tile_rows), columns.div_ceil(tile_columns));
    let column_blocks = column_tiles.div_ceil(sharing);
    let work = batch * row_tiles * column_blocks;
    let each = threads / (shares * sharing);
    let (mut grid, groups) = grid_of_groups(&mut module, work, each)?;
    // a grid that folds may have a workgroup more than there is work for
    let is_exact = groups.iter().map(|&count| count as usize).product::<usize>() * each == work;
    let all_store = column_tiles.is_multiple_of(sharing) && is_exact;
    if shares > 1 || sharing > 1 && !all_store {
        code.push_str("    if (!stores) {\n        return;\n    }\n");
    }
    for id in &fixed.columns {
        for group in 0..column_groups {
            let _ = writeln!(code, "    let of_columns{group}_{id} = column_{id}(batch, column + {}u);", 4 * group);
        }
    }
    let sums = if shares > 1 { "all_s" } else { "s" };
    store_tile(&mut module, [rows, columns], [tile_rows, tile_columns], &fixed, sums, &mut code);
    let blocks = (sharing > 1).then_some(("column_blocks", column_blocks));
    for (name, count) in [("row_tiles", row_tiles), ("column_tiles", column_tiles)].into_iter().chain(blocks) {
        let count = module.number(count as u64);
        let _ = write!(grid, "\nfn {name}() -> u32 {{\n    return {count};\n}}\n");
    }
    let operands = format!("{}{}{finish}", left.text, right.text);
    let (shader, more, arguments) = match together {
        Together::Nothing => ("contract.wgsl", format!("const THREADS: u32 = {threads}u;\n\n"), ""),
        Together::Lefts(_) => {
            let constants = format!("const LANES: u32 = {threads}u;\nconst SHARING: u32 = {sharing}u;\n\n");
            ("contract_subgroups.wgsl", constants, ", lane: u32, stores: bool")
        }
        Together::Sums(_) => ("contract_shared.wgsl", String::new(), ", share: u32, thread: u32, stores: bool"),
    };
    let grid = more + &grid;
    let compute =
        format!("{operands}\nfn compute(batch: u32, row_tile: u32, column_tile: u32{arguments}) {{\n{code}}}\n");
    let mut slots = vec![("grid", grid.as_str()), ("compute", &compute)];
    if shares > 1 {
        slots.insert(1, ("shared", &shared));
    }
    module.finish(shader, &slots, groups)
}

/// Adds up what several invocations have of each of these sums, as `all_` and its name; gives what they share.
fn add_shares(sums: &[String], kind: &str, threads: usize, shares: usize, code: &mut String) -> Result<String> {
    let mut shared = format!("const SHARES: u32 = {shares}u;\nconst TILES: u32 = {}u;\n\n", threads / shares);
    for name in sums {
        let _ = writeln!(shared, "var<workgroup> of_{name}: array<{kind}, {threads}>;");
        let _ = writeln!(code, "    of_{name}[thread] = {name};");
    }
    let values =
        sums.iter().map(|name| Value { parts: format!("of_{name}"), whole: format!("all_{name}"), bools: None });
    let tree = Tree { threads, abreast: threads / shares, lanes: None, again: false };
    code.push_str(&tree.text(&values.collect::<Vec<_>>(), |_, a, b| Ok(format!("{a} + {b}")))?);
    Ok(shared)
}

/// How the left and the right operand are read: several rows, columns or steps at once where they lie so.
fn widths(kernel: &ContractKernel, slides: bool, [rows, columns]: [usize; 2], sharing: usize) -> [Wide; 2] {
    let right = operand_lanes(kernel, &kernel.rhs.0, COLUMNS).unwrap_or_else(|| column_lanes(kernel));
    let left = operand_lanes(kernel, &kernel.lhs.0, ROWS).filter(|&wide| match wide {
        Wide::Inner if slides => false,
        // four steps at once are four times the text to compile; a large tile reads little for its work
        Wide::Inner => right == Wide::Inner || sharing == 1 && rows * columns < LARGE_TILE,
        _ => rows >= 4,
    });
    [left.unwrap_or(Wide::None), right]
}

/// The loop over `count` steps. If they are shared, invocations take them in turns, so many at a time.
fn steps(body: &str, count: &str, together: usize, are_shared: bool) -> String {
    match together {
        _ if !are_shared => format!("    for (var q = 0u; q < {count}; q++) {{\n{body}    }}\n"),
        0 | 1 => format!("    for (var q = share; q < {count}; q += SHARES) {{\n{body}    }}\n"),
        steps => format!(
            "    for (var first = share * {steps}u; first < {count}; first += SHARES * {steps}u) {{\n    \
             for (var q = first; q < first + {steps}u; q++) {{\n{body}    }}\n    }}\n"
        ),
    }
}

/// Hands each four of a tile's sums, which are named after `sums`, to the epilogue.
fn store_tile(
    module: &mut Module<'_>,
    [rows, columns]: [usize; 2],
    [tile_rows, tile_columns]: [usize; 2],
    fixed: &Fixed,
    sums: &str,
    code: &mut String,
) {
    // a tile that fits has no edge to test
    let mut edge = |size: usize, side: usize| (!size.is_multiple_of(side)).then(|| module.number(size as u64));
    let edges = [edge(rows, tile_rows), edge(columns, tile_columns)];
    for row in 0..tile_rows {
        for group in 0..tile_columns / 4 {
            let places = [format!("row + {row}u"), format!("column + {}u", group * 4)];
            let inside = places.iter().zip(&edges).filter_map(|(at, edge)| Some(format!("{at} < {}", edge.as_ref()?)));
            let inside: Vec<String> = inside.collect();
            let mut given = vec!["batch".to_owned()];
            given.extend(places);
            given.push(format!("{sums}{row}_{group}"));
            given.extend(fixed.rows.iter().map(|id| format!("of_row{row}_{id}")));
            given.extend(fixed.columns.iter().map(|id| format!("of_columns{group}_{id}")));
            let finish = format!("finish({});", given.join(", "));
            let _ = match inside.is_empty() {
                true => writeln!(code, "    {finish}"),
                false => writeln!(code, "    if ({}) {{\n        {finish}\n    }}", inside.join(" && ")),
            };
        }
    }
}

/// Values of k that one invocation of several takes together: for all tiles the same, whatever its operands are read by.
fn unit(kernel: &ContractKernel) -> usize {
    let fours = kernel.group(INNER).next_back().is_some_and(|last| kernel.axes[last].is_multiple_of(UNIT));
    if fours { UNIT } else { 1 }
}

/// One step of the loop over k: both fragments, then their products.
fn step_body(
    module: &mut Module<'_>,
    kernel: &ContractKernel,
    (left, right, sliding): (&Operand, &Operand, Option<&Sliding>),
    (lefts, tile_columns): (Lefts, usize),
    step: usize,
) -> String {
    let mut body = String::new();
    let start = inner_coordinates(module, kernel, "q", step, "k", &mut body);
    let last = start.len().wrapping_sub(1);
    // Coordinates of value j of the step, for operands that take one k at a time.
    let at = |j: usize| {
        let mut coordinates = start.clone();
        if step > 1 {
            coordinates[last] = Expr::scalar(match (start[last].text.as_str(), j) {
                ("0u", j) => format!("{j}u"),
                (text, 0) => format!("({text} * {step}u)"),
                (text, j) => format!("({text} * {step}u + {j}u)"),
            });
        }
        coordinates
    };
    if let Some(sliding) = sliding {
        sliding.read(module, right, &start, tile_columns, &mut body);
    }
    let right_stride = if right.wide == Wide::Inner { 1 } else { 4 };
    let rights = (right, (0..tile_columns).step_by(right_stride).collect(), "r");
    let both = std::iter::once((left, lefts.read(), "l")).chain(sliding.is_none().then_some(rights));
    for (operand, firsts, name) in both {
        let steps = if operand.wide == Wide::Inner { 1 } else { step };
        let value = if name == "l" && lefts.sharing > 1 { "own" } else { name };
        for j in 0..steps {
            let coordinates = if operand.wide == Wide::Inner { start.clone() } else { at(j) };
            operand.moving(module, kernel, &coordinates, &format!("{name}k{j}"), &mut body);
            for first in &firsts {
                let call = operand.call(&format!("{name}{first}"), &format!("{name}k{j}"));
                let _ = writeln!(body, "    let {value}{first}v{j} = {call};");
            }
            if name == "l" {
                lefts.exchange([name, value], &format!("v{j}"), &mut body);
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
    let right_values = |group: usize, j: usize| match (sliding, right.wide) {
        (Some(sliding), _) => sliding.values(group * 4, j, &ty),
        (None, Wide::Inner) => {
            let lanes: Vec<String> = (0..4).map(|c| format!("r{}v0.{}", group * 4 + c, LANES[j])).collect();
            format!("{ty}({})", lanes.join(", "))
        }
        (None, _) => format!("r{}v{j}", group * 4),
    };
    for j in 0..step {
        for group in 0..tile_columns / 4 {
            let _ = writeln!(body, "    let w{j}_{group} = {};", right_values(group, j));
        }
    }
    for row in 0..lefts.rows {
        for group in 0..tile_columns / 4 {
            for j in 0..step {
                let _ = writeln!(body, "    s{row}_{group} += {} * w{j}_{group};", left_value(row, j));
            }
        }
    }
    body
}
