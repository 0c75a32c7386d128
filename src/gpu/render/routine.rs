//! Sorting, merging, searches, segments and scans: families whose slots say where the data lies.

use std::fmt::Write as _;

use crate::dtype::DType;
use crate::error::Result;
use crate::graph::{ReduceOp, Runs, Search, Segments};
use crate::ops::scan::Scan;
use crate::plan::{Routine, RoutineKind, Span};

use super::module::Module;
use super::scalar::{self, Register};
use super::{Capabilities, Launch, grid, grid_of_groups};

/// Results of one invocation of a merge: the bisection before them costs as much as a few.
const RESULTS: usize = 8;
/// Of a scan: threads of a workgroup at the most, elements of each in a tile, and rows side by side that are a whole
/// line of memory, of 128 bytes. A processor that stands in for a GPU takes turns between threads at every barrier.
const OF_GPU: [usize; 3] = [256, 8, 32];
const OF_SOFTWARE: [usize; 3] = [64, 32, 64];

/// The launch for a routine, which has work.
pub(crate) fn render(module: Module<'_>, routine: &Routine) -> Result<Launch> {
    match routine.kind {
        RoutineKind::Sort(runs) => sort(module, routine, runs),
        RoutineKind::Merge(runs) => merge(module, routine, runs),
        RoutineKind::Search(of) => search(module, routine, of),
        RoutineKind::Segments(of, dtype) => segments(module, routine, of, dtype),
        RoutineKind::Scan(ref of) => scan(module, routine, of),
        RoutineKind::Attention(_) | RoutineKind::Custom(_) => unreachable!("rendered by itself"),
    }
}

/// `fn name() -> u32` that returns a number.
pub(super) fn number(module: &mut Module<'_>, name: &str, value: usize, text: &mut String) {
    let value = module.number(value as u64);
    let _ = writeln!(text, "fn {name}() -> u32 {{\n    return {value};\n}}\n");
}

/// `fn name(element: u32)` that reads element `first + element` of a span.
pub(super) fn load(
    module: &mut Module<'_>,
    name: &str,
    span: &Span,
    first: usize,
    ty: &str,
    text: &mut String,
) -> Result<()> {
    let slot = module.storage(span.buffer)?;
    let uses = &mut module.storages[slot].uses;
    let kind = if uses.load_4 { &mut uses.load_beside } else { &mut uses.load };
    *kind = true;
    let at = module.number((span.offset + first) as u64);
    let _ = writeln!(text, "fn {name}(element: u32) -> {ty} {{\n    return load_{slot}({at} + element);\n}}\n");
    Ok(())
}

/// `fn store_pair(element: u32, key: u32, place: u32)`
fn store_pair(module: &mut Module<'_>, span: &Span, text: &mut String) -> Result<()> {
    let slot = module.storage(span.buffer)?;
    module.storages[slot].uses.store = true;
    let keys = module.number(span.offset as u64);
    let places = module.number((span.offset + span.elements / 2) as u64);
    let _ = writeln!(
        text,
        "fn store_pair(element: u32, key: u32, place: u32) {{\n    store_{slot}({keys} + element, key);\n    \
         store_{slot}({places} + element, place);\n}}"
    );
    Ok(())
}

/// `fn name(element: u32, value: ty)` that writes element `first + element` of a span.
pub(super) fn store(
    module: &mut Module<'_>,
    name: &str,
    span: &Span,
    first: usize,
    ty: &str,
    text: &mut String,
) -> Result<()> {
    let slot = module.storage(span.buffer)?;
    module.storages[slot].uses.store = true;
    let at = module.number((span.offset + first) as u64);
    let _ = writeln!(text, "fn {name}(element: u32, value: {ty}) {{\n    store_{slot}({at} + element, value);\n}}");
    Ok(())
}

fn sort(mut module: Module<'_>, routine: &Routine, Runs { length, run }: Runs) -> Result<Launch> {
    let keys = &routine.inputs[0];
    // a row of one run may be padded
    let least = if length <= run { 4 * module.caps.least_threads as usize } else { 4 };
    let run = run.next_power_of_two().max(least);
    let threads = run / 4;
    let bytes = 8 * run;
    if threads > module.caps.max_workgroup_invocations as usize || bytes > module.caps.max_workgroup_bytes as usize {
        return Err(module.error(format!("a workgroup of this adapter cannot sort {run} elements")));
    }
    let runs = length.div_ceil(run);
    let mut access = String::new();
    number(&mut module, "row_length", length, &mut access);
    number(&mut module, "runs_per_row", runs, &mut access);
    load(&mut module, "load_key", keys, 0, "u32", &mut access)?;
    store_pair(&mut module, &routine.output, &mut access)?;
    let lengths = std::iter::successors(Some(4), |length| Some(2 * length)).take_while(|&length| length < run);
    let calls: Vec<String> = lengths.map(|length| format!("    merge(thread, {length}u);\n")).collect();
    let rounds = format!("fn rounds(thread: u32) {{\n{}}}\n", calls.concat());
    let (grid, groups) = grid_of_groups(&mut module, keys.elements / length * runs, 1)?;
    let grid = format!("const THREADS: u32 = {threads}u;\n\n{grid}");
    module.finish("sort.wgsl", &[("grid", &grid), ("access", &access), ("rounds", &rounds)], groups)
}

fn merge(mut module: Module<'_>, routine: &Routine, Runs { length, run }: Runs) -> Result<Launch> {
    let pairs = &routine.inputs[0];
    let count = pairs.elements / 2;
    // the results of one invocation come from one pair of runs
    let results = RESULTS.min(2 * run);
    let parts = length.div_ceil(results);
    let mut access = format!("const RESULTS: u32 = {results}u;\n\n");
    number(&mut module, "row_length", length, &mut access);
    number(&mut module, "run_length", run, &mut access);
    number(&mut module, "parts_per_row", parts, &mut access);
    load(&mut module, "load_key", pairs, 0, "u32", &mut access)?;
    load(&mut module, "load_place", pairs, count, "u32", &mut access)?;
    store_pair(&mut module, &routine.output, &mut access)?;
    let (grid, groups) = grid(&mut module, count / length * parts, 64)?;
    module.finish("merge.wgsl", &[("grid", &grid), ("access", &access)], groups)
}

fn search(mut module: Module<'_>, routine: &Routine, Search { length, queries, right }: Search) -> Result<Launch> {
    let before = if right { "<=" } else { "<" };
    let mut access =
        format!("fn is_before(element: u32, query: u32) -> bool {{\n    return element {before} query;\n}}\n\n");
    number(&mut module, "row_length", length, &mut access);
    number(&mut module, "queries_per_row", queries, &mut access);
    load(&mut module, "load_element", &routine.inputs[0], 0, "u32", &mut access)?;
    load(&mut module, "load_query", &routine.inputs[1], 0, "u32", &mut access)?;
    store(&mut module, "store_result", &routine.output, 0, "u32", &mut access)?;
    let (grid, groups) = grid(&mut module, routine.output.elements, 64)?;
    module.finish("search.wgsl", &[("grid", &grid), ("access", &access)], groups)
}

/// A type's name in kernels, and the functions that join its values.
fn joining(module: &mut Module<'_>, op: ReduceOp, dtype: DType) -> Result<(&'static str, String)> {
    let ty = Register::of(dtype).name();
    let join = scalar::binary(op.join(), dtype, 1, "a", "b")
        .ok_or_else(|| module.error(format!("{op:?} does not exist for {dtype}")))?;
    let identity = module.constant(op.identity(dtype), 1);
    let text = format!(
        "alias Value = {ty};\n\nfn identity() -> Value {{\n    return {identity};\n}}\n\n\
         fn join(a: Value, b: Value) -> Value {{\n    return {join};\n}}\n\n"
    );
    Ok((ty, text))
}

fn segments(mut module: Module<'_>, routine: &Routine, of: Segments, dtype: DType) -> Result<Launch> {
    let Segments { op, width, longest, keys } = of;
    let (ty, mut access) = joining(&mut module, op, dtype)?;
    number(&mut module, "width", width, &mut access);
    number(&mut module, "longest", longest, &mut access);
    let rows = routine.inputs[0].elements / width.max(1);
    number(&mut module, "positions", routine.inputs.get(2).map_or(rows, |pairs| pairs.elements / 2), &mut access);
    number(&mut module, "last_row", rows.saturating_sub(1), &mut access);
    load(&mut module, "load_start", &routine.inputs[1], 0, "u32", &mut access)?;
    match routine.inputs.get(2) {
        Some(pairs) if pairs.elements == 2 * keys => load(&mut module, "place", pairs, keys, "u32", &mut access)?,
        Some(pairs) => {
            number(&mut module, "keys_per_row", keys, &mut access);
            load(&mut module, "load_place", pairs, pairs.elements / 2, "u32", &mut access)?;
            access.push_str("fn place(p: u32) -> u32 {\n    return p - p % keys_per_row() + load_place(p);\n}\n\n");
        }
        None => access.push_str("fn place(p: u32) -> u32 {\n    return p;\n}\n\n"),
    }
    load(&mut module, "load_value", &routine.inputs[0], 0, ty, &mut access)?;
    store(&mut module, "store_result", &routine.output, 0, ty, &mut access)?;
    let (grid, groups) = grid(&mut module, routine.output.elements, 64)?;
    module.finish("segment.wgsl", &[("grid", &grid), ("access", &access)], groups)
}

/// How a workgroup is shared in a scan: rows, threads of each, and elements of a thread in a tile.
fn shared(scan: &Scan, rows: usize, caps: &Capabilities) -> [usize; 3] {
    let [most_threads, most_steps, abreast] = if caps.software { OF_SOFTWARE } else { OF_GPU };
    let most_threads = most_threads.min(1 << caps.max_workgroup_invocations.max(1).ilog2());
    let least = if scan.inner == 1 { 1 } else { scan.inner.next_power_of_two().min(abreast) };
    let shares = scan.block.div_ceil(most_steps).next_power_of_two().min((most_threads / least).max(1));
    let rows = (most_threads / shares).min(rows.next_power_of_two());
    let shares = shares.max((caps.least_threads as usize / rows).min(most_threads / rows));
    [rows, shares, scan.block.div_ceil(shares).min(most_steps)]
}

fn scan(mut module: Module<'_>, routine: &Routine, scan: &Scan) -> Result<Launch> {
    let &Scan { op, dtype, length, inner, block, reverse } = scan;
    let rows = routine.output.elements / length;
    let [together, shares, steps] = shared(scan, rows, module.caps);
    let (ty, mut access) = joining(&mut module, op, dtype)?;
    let blocks = scan.blocks();
    let numbers = [
        ("row_count", rows),
        ("row_length", length),
        ("inner", inner),
        ("block_length", block),
        ("blocks_per_row", blocks),
    ];
    for (name, value) in numbers {
        number(&mut module, name, value, &mut access);
    }
    let place = if reverse { "count - 1u - step" } else { "step" };
    let _ = writeln!(access, "fn place(step: u32, count: u32) -> u32 {{\n    return {place};\n}}\n");
    match routine.inputs.get(1) {
        Some(first) => load(&mut module, "load_first", first, 0, ty, &mut access)?,
        None => access.push_str("fn load_first(element: u32) -> Value {\n    return identity();\n}\n\n"),
    }
    load(&mut module, "load_value", &routine.inputs[0], 0, ty, &mut access)?;
    store(&mut module, "store_result", &routine.output, 0, ty, &mut access)?;
    let (grid, groups) = grid_of_groups(&mut module, rows.div_ceil(together) * blocks, 1)?;
    let grid = format!(
        "const ROWS: u32 = {together}u;\nconst SHARES: u32 = {shares}u;\nconst STEPS: u32 = {steps}u;\n\n{grid}"
    );
    module.finish("scan.wgsl", &[("grid", &grid), ("access", &access)], groups)
}
