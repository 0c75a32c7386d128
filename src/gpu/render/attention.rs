//! Attention and its gradients: families whose rows in registers are written out vector by vector, since a driver may keep an
//! indexed array in memory.

use std::fmt::Write as _;

use crate::error::Result;
use crate::gpu::passes::pessimistic_milliseconds;
use crate::graph::{Attention, AttentionPart};
use crate::plan::{Body, Kernel, Plan, Routine, Span};

use super::module::Module;
use super::{Capabilities, Launch, grid, routine, windows};

/// Invocations of a workgroup, one for each query or key.
const THREADS: usize = 64;
/// Rows of the other side in workgroup memory at a time, at most.
const TILE: usize = 32;
/// Elements of a vector.
const LANES: usize = 4;

/// The launches of a part of attention: all heads at once, unless that may take too long.
pub(super) fn render(
    plan: &Plan,
    kernel: &Kernel,
    routine: &Routine,
    of: &Attention,
    caps: &Capabilities,
) -> Result<Vec<Launch>> {
    let milliseconds = pessimistic_milliseconds(kernel.flops, kernel.bytes);
    let launches = (milliseconds / caps.launch_milliseconds).ceil().clamp(1.0, of.heads as f64) as usize;
    let heads = of.heads.div_ceil(launches);
    let launch = |first: usize| {
        let mut body = Body::Routine(routine.clone());
        let storages = windows::bind(plan, kernel, &mut body, caps);
        let Body::Routine(routine) = &body else { unreachable!("it stays what it is") };
        let module = Module::new(plan, caps, &kernel.label, storages);
        module.check_windows()?;
        part(module, routine, of, (first, heads.min(of.heads - first)))
    };
    (0..of.heads).step_by(heads).map(launch).collect()
}

/// `count` heads from number `first` on.
fn part(mut module: Module<'_>, routine: &Routine, of: &Attention, (first, count): (usize, usize)) -> Result<Launch> {
    let (features, outputs) = (of.features.div_ceil(LANES), of.outputs.div_ceil(LANES));
    let fits = |tile: usize| tile * (features + outputs) * 16 + tile * 8 <= module.caps.max_workgroup_bytes as usize;
    let tile = std::iter::successors(Some(TILE), |tile| Some(tile / 2)).take_while(|&tile| tile > 0).find(|&t| fits(t));
    let tile = tile.ok_or_else(|| module.error("this adapter has too little workgroup memory for attention"))?;
    let mut access =
        format!("const FEATURES: u32 = {features}u;\nconst OUTPUTS: u32 = {outputs}u;\nconst TILE: u32 = {tile}u;\n\n");
    for (name, value) in [("first_head", first), ("query_count", of.queries), ("key_count", of.keys)] {
        routine::number(&mut module, name, value, &mut access);
    }
    visible(&mut module, of, &mut access);
    let [query, key, value] = [0, 1, 2].map(|input| &routine.inputs[input]);
    let mut load = |name: &str, span: &Span, width: usize, factor: Option<f64>| {
        load_row(&mut module, name, span, width, factor, &mut access)
    };
    let scale = Some(of.scale.to_f64());
    // scores are scaled with the queries; what comes out of a gradient by keys then is, too
    load("load_query", query, of.features, scale)?;
    load("load_key", key, of.features, None)?;
    load("load_value", value, of.outputs, None)?;
    let [.., outputs_all] = of.elements();
    if of.part != AttentionPart::Forward {
        let saved = &routine.inputs[3];
        load("load_output", saved, of.outputs, None)?;
        load("load_slope", &routine.inputs[4], of.outputs, None)?;
        routine::load(&mut module, "load_log", saved, outputs_all, "f32", &mut access)?;
    }
    let output = &routine.output;
    let (family, rows, blocks) = match of.part {
        AttentionPart::Forward => {
            store_row(&mut module, "store_output", output, of.outputs, &mut access)?;
            routine::store(&mut module, "store_log", output, outputs_all, "f32", &mut access)?;
            ("attention.wgsl", forward_rows(features, outputs), of.queries)
        }
        AttentionPart::Queries => {
            store_row(&mut module, "store_query", output, of.features, &mut access)?;
            ("attention_queries.wgsl", query_rows(features, outputs, of.scale.to_f64() as f32), of.queries)
        }
        AttentionPart::KeysAndValues => {
            let [_, keys_all, ..] = of.elements();
            store_row(&mut module, "store_key", output, of.features, &mut access)?;
            let values = Span { offset: output.offset + keys_all, ..*output };
            store_row(&mut module, "store_value", &values, of.outputs, &mut access)?;
            ("attention_keys.wgsl", key_rows(features, outputs), of.keys)
        }
    };
    let (grid, groups) = grid(&mut module, count * blocks.div_ceil(THREADS) * THREADS, THREADS)?;
    module.finish(family, &[("grid", &grid), ("access", &access), ("rows", &rows)], groups)
}

/// Which keys a query sees, or which queries see a key.
fn visible(module: &mut Module<'_>, of: &Attention, text: &mut String) {
    let ahead = module.number((of.keys.saturating_sub(of.queries)) as u64);
    let _ = match (of.part, of.causal) {
        (AttentionPart::KeysAndValues, true) => {
            writeln!(text, "fn first_query(key: u32) -> u32 {{\n    return key - min(key, {ahead});\n}}\n")
        }
        (AttentionPart::KeysAndValues, false) => {
            writeln!(text, "fn first_query(key: u32) -> u32 {{\n    return 0u;\n}}\n")
        }
        (_, true) => writeln!(text, "fn seen(query: u32) -> u32 {{\n    return query + 1u + {ahead};\n}}\n"),
        (_, false) => writeln!(text, "fn seen(query: u32) -> u32 {{\n    return key_count();\n}}\n"),
    };
}

/// `fn name(row: u32, part: u32) -> vec4f`: elements `4 part..` of a row of `width`, zeros behind its end.
fn load_row(
    module: &mut Module<'_>,
    name: &str,
    span: &Span,
    width: usize,
    factor: Option<f64>,
    text: &mut String,
) -> Result<()> {
    let slot = module.storage(span.buffer)?;
    module.storages[slot].uses.load = true;
    let start = module.number(span.offset as u64);
    let load = |lane: usize| match lane {
        0 => format!("load_{slot}(at)"),
        _ if width.is_multiple_of(LANES) => format!("load_{slot}(at + {lane}u)"),
        _ => format!("select(0.0, load_{slot}(at + min({lane}u, last)), last >= {lane}u)"),
    };
    let lanes: Vec<String> = (0..LANES).map(load).collect();
    let factor = factor.map_or(String::new(), |factor| format!(" * {:?}f", factor as f32));
    let _ = writeln!(text, "fn {name}(row: u32, part: u32) -> vec4f {{");
    if !width.is_multiple_of(LANES) {
        let _ = writeln!(text, "    let last = {}u - {LANES}u * part;", width - 1);
    }
    let _ = writeln!(
        text,
        "    let at = {start} + row * {width}u + {LANES}u * part;\n    return vec4f({}){factor};\n}}\n",
        lanes.join(", ")
    );
    Ok(())
}

/// `fn name(row: u32, part: u32, value: vec4f)`: the same, written.
fn store_row(module: &mut Module<'_>, name: &str, span: &Span, width: usize, text: &mut String) -> Result<()> {
    let slot = module.storage(span.buffer)?;
    module.storages[slot].uses.store = true;
    let start = module.number(span.offset as u64);
    let _ = writeln!(
        text,
        "fn {name}(row: u32, part: u32, value: vec4f) {{\n    let at = {start} + row * {width}u + {LANES}u * part;"
    );
    for (lane, letter) in ["x", "y", "z", "w"].iter().enumerate() {
        let store = format!("store_{slot}(at + {lane}u, value.{letter});");
        let _ = if width.is_multiple_of(LANES) || lane == 0 {
            writeln!(text, "    {store}")
        } else {
            writeln!(text, "    if ({LANES}u * part + {lane}u < {width}u) {{\n        {store}\n    }}")
        };
    }
    text.push_str("}\n\n");
    Ok(())
}

/// A vector of registers for each name and part.
fn registers(rows: &[(&str, usize)]) -> String {
    let of_row = |&(name, parts): &(&str, usize)| {
        (0..parts).map(move |part| format!("var<private> {name}_{part}: vec4f;\n")).collect::<String>()
    };
    rows.iter().map(of_row).collect::<String>() + "\n"
}

/// A function with one line for each part of each row; `{}` in a line is the part.
fn each(head: &str, lines: &[(usize, &str)]) -> String {
    let of_line = |&(parts, line): &(usize, &str)| {
        (0..parts).map(move |part| format!("    {}\n", line.replace("{}", &part.to_string()))).collect::<String>()
    };
    format!("fn {head} {{\n{}}}\n\n", lines.iter().map(of_line).collect::<String>())
}

/// `fn head -> f32`: the product of a row in registers and row `index` of a tile.
fn product(head: &str, row: &str, tile: &str, (width, parts): (&str, usize), index: &str) -> String {
    let mut text =
        format!("fn {head} -> f32 {{\n    let at = {index} * {width};\n    var sum = {row}_0 * {tile}[at];\n");
    for part in 1..parts {
        let _ = writeln!(text, "    sum = fma({row}_{part}, {tile}[at + {part}u], sum);");
    }
    text + "    return (sum.x + sum.y) + (sum.z + sum.w);\n}\n\n"
}

fn forward_rows(features: usize, outputs: usize) -> String {
    [
        registers(&[("q", features), ("o", outputs)]),
        each("take(row: u32)", &[(features, "q_{} = load_query(row, {}u);")]),
        product("score(key: u32)", "q", "key_tile", ("FEATURES", features), "key"),
        each("shrink(factor: f32)", &[(outputs, "o_{} *= factor;")]),
        each(
            "add(weight: f32, key: u32)",
            &[(outputs, "o_{} = fma(vec4f(weight), value_tile[key * OUTPUTS + {}u], o_{});")],
        ),
        each("put(row: u32, factor: f32)", &[(outputs, "store_output(row, {}u, o_{} * factor);")]),
    ]
    .concat()
}

fn query_rows(features: usize, outputs: usize, scale: f32) -> String {
    [
        registers(&[("q", features), ("g", outputs), ("d", features)]),
        each(
            "take(row: u32)",
            &[(features, "q_{} = load_query(row, {}u);"), (outputs, "g_{} = load_slope(row, {}u);")],
        ),
        product("score(key: u32)", "q", "key_tile", ("FEATURES", features), "key"),
        product("slope(key: u32)", "g", "value_tile", ("OUTPUTS", outputs), "key"),
        each(
            "add(factor: f32, key: u32)",
            &[(features, "d_{} = fma(vec4f(factor), key_tile[key * FEATURES + {}u], d_{});")],
        ),
        each("put(row: u32)", &[(features, &format!("store_query(row, {{}}u, d_{{}} * {scale:?}f);"))]),
    ]
    .concat()
}

fn key_rows(features: usize, outputs: usize) -> String {
    [
        registers(&[("k", features), ("v", outputs), ("dk", features), ("dv", outputs)]),
        each("take(row: u32)", &[(features, "k_{} = load_key(row, {}u);"), (outputs, "v_{} = load_value(row, {}u);")]),
        product("score(query: u32)", "k", "query_tile", ("FEATURES", features), "query"),
        product("slope(query: u32)", "v", "slope_tile", ("OUTPUTS", outputs), "query"),
        each(
            "add(weight: f32, factor: f32, query: u32)",
            &[
                (features, "dk_{} = fma(vec4f(factor), query_tile[query * FEATURES + {}u], dk_{});"),
                (outputs, "dv_{} = fma(vec4f(weight), slope_tile[query * OUTPUTS + {}u], dv_{});"),
            ],
        ),
        each("put(row: u32)", &[(features, "store_key(row, {}u, dk_{});"), (outputs, "store_value(row, {}u, dv_{});")]),
    ]
    .concat()
}
