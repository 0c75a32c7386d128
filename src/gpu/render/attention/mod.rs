//! Attention and its gradients, in two forms: on GPUs tiles of scores that a workgroup shares (`tiles`), and one
//! invocation to a row (`rows`) where a processor stands in for a GPU, or a GPU's workgroups have no memory for tiles.
//!
//! In the words of the papers on it: a *slope* is the gradient of an output (dO), *log* the logarithm of the sum of a
//! query's exponentials (LSE), *top* the running maximum of the online softmax, *delta* the sum of an output times its
//! gradient.

mod rows;
mod tiles;

use std::fmt::Write as _;

use crate::dtype::Scalar;
use crate::error::Result;
use crate::gpu::passes::launches;
use crate::graph::{Attention, AttentionPart};
use crate::plan::{Body, Kernel, Plan, Routine, Span};

use super::module::Module;
use super::scalar::LANES;
use super::{Capabilities, Launch, grid, routine, windows};

/// Elements of a vector.
const VECTOR: usize = 4;

/// The launches of a part of attention: all heads at once, unless that may take too long.
pub(super) fn render(
    plan: &Plan,
    kernel: &Kernel,
    routine: &Routine,
    of: &Attention,
    caps: &Capabilities,
) -> Result<Vec<Launch>> {
    let launches = launches(kernel.flops, kernel.bytes, caps.launch_milliseconds).min(of.heads);
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

/// What a form of a part is made of.
struct Form {
    family: &'static str,
    /// Rows of a workgroup, which are of queries, or of keys for the gradients by those.
    rows: usize,
    threads: usize,
    /// Vectors of a row of queries and keys, and of a row of values and outputs, in workgroup memory.
    widths: [usize; 2],
    constants: String,
    text: String,
}

/// `count` heads from number `first` on.
fn part(mut module: Module<'_>, routine: &Routine, of: &Attention, (first, count): (usize, usize)) -> Result<Launch> {
    // of what that part writes
    let scale = if of.part == AttentionPart::Queries { module.constant(of.scale, 1) } else { String::new() };
    let form = match tiles::Tiles::of(of, module.caps) {
        Some(tiles) => tiles.form(of, &scale),
        None => rows::form(&module, of, &scale)?,
    };
    let [features, outputs] = form.widths;
    let mut access =
        format!("const FEATURES: u32 = {features}u;\nconst OUTPUTS: u32 = {outputs}u;\n{}\n", form.constants);
    for (name, value) in [("first_head", first), ("query_count", of.queries), ("key_count", of.keys)] {
        routine::number(&mut module, name, value, &mut access);
    }
    visible(&mut module, of, &mut access);
    let [query, key, value] = [0, 1, 2].map(|input| &routine.inputs[input]);
    let mut load = |name: &str, span: &Span, widths: (usize, usize), factor: Option<Scalar>| {
        load_row(&mut module, name, span, widths, factor, &mut access)
    };
    let (of_query, of_output) = ((of.features, features), (of.outputs, outputs));
    // scores are scaled with the queries; what comes out of a gradient by keys then is, too
    load("load_query", query, of_query, Some(of.scale))?;
    load("load_key", key, of_query, None)?;
    load("load_value", value, of_output, None)?;
    let [.., outputs_all] = of.elements();
    if of.part != AttentionPart::Forward {
        let saved = &routine.inputs[3];
        load("load_output", saved, of_output, None)?;
        load("load_slope", &routine.inputs[4], of_output, None)?;
        routine::load(&mut module, "load_log", saved, outputs_all, "f32", &mut access)?;
    }
    let output = &routine.output;
    let mut store =
        |name: &str, span: &Span, widths: (usize, usize)| store_row(&mut module, name, span, widths, &mut access);
    let blocks = match of.part {
        AttentionPart::Forward => {
            store("store_output", output, of_output)?;
            routine::store(&mut module, "store_log", output, outputs_all, "f32", &mut access)?;
            of.queries
        }
        AttentionPart::Queries => {
            store("store_query", output, of_query)?;
            of.queries
        }
        AttentionPart::KeysAndValues => {
            let [_, keys_all, ..] = of.elements();
            store("store_key", output, of_query)?;
            let values = Span { offset: output.offset + keys_all, ..*output };
            store("store_value", &values, of_output)?;
            of.keys
        }
    };
    let (grid, groups) = grid(&mut module, count * blocks.div_ceil(form.rows) * form.threads, form.threads)?;
    module.finish(form.family, &[("grid", &grid), ("access", &access), ("rows", &form.text)], groups)
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

/// Whether the rows of a span begin and end with four aligned elements.
fn is_wide(span: &Span, width: usize) -> bool {
    width > 0 && width.is_multiple_of(VECTOR) && span.offset.is_multiple_of(VECTOR)
}

/// `fn name(row: u32, part: u32) -> vec4f`: elements `4 part..` of a row of `width`, zeros behind its end, where parts
/// go up to `parts`.
fn load_row(
    module: &mut Module<'_>,
    name: &str,
    span: &Span,
    (width, parts): (usize, usize),
    factor: Option<Scalar>,
    text: &mut String,
) -> Result<()> {
    let slot = module.storage(span.buffer)?;
    let start = module.number(span.offset as u64);
    let is_there = |element: usize| VECTOR * (parts - 1) + element < width;
    let vector = if is_wide(span, width) {
        module.storages[slot].uses.load_4 = true;
        match is_there(0) {
            true => format!("load4_{slot}(at + column)"),
            false => format!("select(vec4f(), load4_{slot}(at + min(column, {}u)), column < {width}u)", width - VECTOR),
        }
    } else {
        module.storages[slot].uses.load = true;
        let load = |element: usize| match is_there(element) {
            true => format!("load_{slot}(at + column + {element}u)"),
            false => format!(
                "select(0.0, load_{slot}(at + min(column + {element}u, {}u)), column + {element}u < {width}u)",
                width - 1
            ),
        };
        format!("vec4f({})", (0..VECTOR).map(load).collect::<Vec<_>>().join(", "))
    };
    let factor = factor.map_or(String::new(), |factor| format!(" * {}", module.constant(factor, 1)));
    let _ = writeln!(
        text,
        "fn {name}(row: u32, part: u32) -> vec4f {{\n    let at = {start} + row * {width}u;\n    \
         let column = {VECTOR}u * part;\n    return {vector}{factor};\n}}\n",
    );
    Ok(())
}

/// `fn name(row: u32, part: u32, value: vec4f)`: the same, written.
fn store_row(
    module: &mut Module<'_>,
    name: &str,
    span: &Span,
    (width, parts): (usize, usize),
    text: &mut String,
) -> Result<()> {
    let slot = module.storage(span.buffer)?;
    let start = module.number(span.offset as u64);
    let _ = writeln!(
        text,
        "fn {name}(row: u32, part: u32, value: vec4f) {{\n    let column = {VECTOR}u * part;\n    \
         let at = {start} + row * {width}u + column;"
    );
    let uses = &mut module.storages[slot].uses;
    let stores = if is_wide(span, width) {
        uses.store_4 = true;
        vec![format!("store4_{slot}(at, value);")]
    } else {
        uses.store = true;
        let store = |(element, lane)| format!("store_{slot}(at + {element}u, value.{lane});");
        LANES.iter().enumerate().map(store).collect()
    };
    for (element, store) in stores.iter().enumerate() {
        let _ = match VECTOR * (parts - 1) + element < width {
            true => writeln!(text, "    {store}"),
            false => writeln!(text, "    if (column + {element}u < {width}u) {{\n        {store}\n    }}"),
        };
    }
    text.push_str("}\n\n");
    Ok(())
}

/// `fn delta_of(row: u32) -> f32`: what the gradients of all of a query's scores lack, the product of its output and
/// the gradient of that. Every invocation that needs it computes it whole.
fn delta(outputs: usize) -> String {
    let mut text =
        "fn delta_of(row: u32) -> f32 {\n    var sum = load_output(row, 0u) * load_slope(row, 0u);\n".to_owned();
    for part in 1..outputs.div_ceil(VECTOR) {
        let _ = writeln!(text, "    sum = fma(load_output(row, {part}u), load_slope(row, {part}u), sum);");
    }
    text + "    return (sum.x + sum.y) + (sum.z + sum.w);\n}\n\n"
}
