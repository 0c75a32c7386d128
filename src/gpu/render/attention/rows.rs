//! One invocation to a row, mostly for processors that stand in for GPUs, whose workgroup memory is memory like any
//! other. A row in registers is written out vector by vector, since a driver may keep an indexed array in memory.

use crate::error::Result;
use crate::graph::{Attention, AttentionPart};

use super::{Form, Module, VECTOR, delta};

const THREADS: usize = 64;
/// Rows of the other side in workgroup memory at a time, at most.
const TILE: usize = 32;

pub(super) fn form(module: &Module<'_>, of: &Attention, scale: &str) -> Result<Form> {
    let widths = [of.features, of.outputs].map(|width| width.div_ceil(VECTOR));
    let bytes_of_row = (widths[0] + widths[1]) * 16 + 8;
    let mut tiles = std::iter::successors(Some(TILE), |tile| Some(tile / 2)).take_while(|&tile| tile > 0);
    let tile = tiles.find(|&tile| tile * bytes_of_row <= module.caps.max_workgroup_bytes as usize);
    let tile = tile.ok_or_else(|| module.error("this adapter has too little workgroup memory for attention"))?;
    let (family, text) = match of.part {
        AttentionPart::Forward => ("attention.wgsl", forward(widths)),
        AttentionPart::Queries => ("attention_queries.wgsl", by_queries(widths, of, scale)),
        AttentionPart::KeysAndValues => ("attention_keys.wgsl", by_keys(widths, of)),
    };
    Ok(Form {
        family,
        rows: THREADS,
        threads: THREADS,
        widths,
        constants: format!("const TILE: u32 = {tile}u;\n"),
        text,
    })
}

/// A register for each vector of each row, given with its vectors.
fn registers(rows: &[(&str, usize)]) -> String {
    let of_row = |&(name, vectors): &(&str, usize)| {
        (0..vectors).map(move |part| format!("var<private> {name}_{part}: vec4f;\n")).collect::<String>()
    };
    rows.iter().map(of_row).collect::<String>() + "\n"
}

/// A function with a line for each vector of each row; in a line `{}` is the vector's number.
fn each(head: &str, lines: &[(usize, &str)]) -> String {
    let of_line = |&(vectors, line): &(usize, &str)| {
        (0..vectors).map(move |part| format!("    {}\n", line.replace("{}", &part.to_string()))).collect::<String>()
    };
    format!("fn {head} {{\n{}}}\n\n", lines.iter().map(of_line).collect::<String>())
}

/// `fn name(index: u32) -> f32`: the product of a row in registers and row `index` of a tile.
fn product(name: &str, row: &str, (tile, stride): (&str, &str), vectors: usize) -> String {
    let terms: String =
        (1..vectors).map(|part| format!("    sum = fma({row}_{part}, {tile}[at + {part}u], sum);\n")).collect();
    format!(
        "fn {name}(index: u32) -> f32 {{\n    let at = index * {stride};\n    var sum = {row}_0 * {tile}[at];\n{terms}    \
         return (sum.x + sum.y) + (sum.z + sum.w);\n}}\n\n"
    )
}

fn forward([features, outputs]: [usize; 2]) -> String {
    [
        registers(&[("q", features), ("o", outputs)]),
        each("take(row: u32)", &[(features, "q_{} = load_query(row, {}u);")]),
        product("query_by_key", "q", ("key_tile", "FEATURES"), features),
        each("shrink(factor: f32)", &[(outputs, "o_{} *= factor;")]),
        each(
            "add(weight: f32, key: u32)",
            &[(outputs, "o_{} = fma(vec4f(weight), value_tile[key * OUTPUTS + {}u], o_{});")],
        ),
        each("put(row: u32, factor: f32)", &[(outputs, "store_output(row, {}u, o_{} * factor);")]),
    ]
    .concat()
}

fn by_queries([features, outputs]: [usize; 2], of: &Attention, scale: &str) -> String {
    [
        registers(&[("q", features), ("g", outputs), ("d", features)]),
        each(
            "take(row: u32)",
            &[(features, "q_{} = load_query(row, {}u);"), (outputs, "g_{} = load_slope(row, {}u);")],
        ),
        product("query_by_key", "q", ("key_tile", "FEATURES"), features),
        product("slope_by_value", "g", ("value_tile", "OUTPUTS"), outputs),
        delta(of.outputs),
        each(
            "add(factor: f32, key: u32)",
            &[(features, "d_{} = fma(vec4f(factor), key_tile[key * FEATURES + {}u], d_{});")],
        ),
        each("put(row: u32)", &[(features, &format!("store_query(row, {{}}u, d_{{}} * {scale});"))]),
    ]
    .concat()
}

fn by_keys([features, outputs]: [usize; 2], of: &Attention) -> String {
    [
        registers(&[("k", features), ("v", outputs), ("dk", features), ("dv", outputs)]),
        each("take(row: u32)", &[(features, "k_{} = load_key(row, {}u);"), (outputs, "v_{} = load_value(row, {}u);")]),
        product("key_by_query", "k", ("query_tile", "FEATURES"), features),
        product("value_by_slope", "v", ("slope_tile", "OUTPUTS"), outputs),
        delta(of.outputs),
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
