//! Attention and its gradients: families whose rows in registers are written out vector by vector, since a driver may
//! keep an indexed array in memory.
//!
//! In the words of the papers on it: a *slope* is the gradient of an output (dO), *log* the logarithm of the sum of a
//! query's exponentials (LSE), *top* the running maximum of the online softmax, *delta* the sum of an output times its
//! gradient.

use std::fmt::Write as _;

use crate::dtype::Scalar;
use crate::error::Result;
use crate::gpu::passes::pessimistic_milliseconds;
use crate::graph::{Attention, AttentionPart};
use crate::plan::{Body, Kernel, Plan, Routine, Span};

use super::module::Module;
use super::{Capabilities, Launch, grid, routine, windows};

/// Elements of a vector.
const VECTOR: usize = 4;
/// Vectors that an invocation keeps of its rows at most, 64 floats: with indices and what is being computed they fit
/// into some 100 registers. What has more is kept in memory by some GPUs (128 registers on Apple's, 255 on NVIDIA's),
/// and leaves others a core with few invocations.
const KEPT: usize = 16;

/// How the rows of a part are shared among the invocations of a workgroup.
#[derive(Clone, Copy)]
struct Sharing {
    /// Sums of which the product of two rows is made, sum `c` of their vectors `c, c + chains..`: a function of the
    /// shape alone.
    chains: usize,
    /// Neighbouring invocations that share a row: one for each sum, or one that has them all.
    lanes: usize,
    /// Invocations of a workgroup.
    threads: usize,
    /// Rows of the other side in workgroup memory at a time, at most.
    tile: usize,
}

impl Sharing {
    /// Drivers that run on a CPU have few registers in any case, and workgroup memory is slow there: one invocation to
    /// a row.
    fn new(of: &Attention, software: bool) -> Self {
        let chains = chains(of);
        match software {
            false if chains > 1 => Self { chains, lanes: chains, threads: 128, tile: 8 },
            _ => Self { chains, lanes: 1, threads: 64, tile: 32 },
        }
    }

    /// Vectors of a row of `width` elements, as many for each lane.
    fn vectors(&self, width: usize) -> usize {
        width.div_ceil(VECTOR).next_multiple_of(self.lanes)
    }

    /// Vectors of such a row that an invocation has.
    fn own(&self, width: usize) -> usize {
        self.vectors(width) / self.lanes
    }

    /// The vector of a row that is number `own` of an invocation's.
    fn part(&self, own: usize) -> String {
        match self.lanes {
            1 => format!("{own}u"),
            lanes => format!("lane + {}u", own * lanes),
        }
    }
}

/// The least number of invocations to a row, a power of two, that leaves none with more than it may keep.
fn chains(of: &Attention) -> usize {
    let rows = match of.part {
        AttentionPart::Forward => [1, 1],
        AttentionPart::Queries => [2, 1],
        AttentionPart::KeysAndValues => [2, 2],
    };
    let kept =
        |lanes: usize| rows[0] * of.features.div_ceil(VECTOR * lanes) + rows[1] * of.outputs.div_ceil(VECTOR * lanes);
    [1, 2].into_iter().find(|&lanes| kept(lanes) <= KEPT).unwrap_or(4)
}

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
    let sharing = Sharing::new(of, module.caps.software);
    let (features, outputs) = (sharing.vectors(of.features), sharing.vectors(of.outputs));
    // what is shared of a score, and of the gradient by it
    let products = if of.part == AttentionPart::Forward { 1 } else { 2 };
    let shared = if sharing.lanes > 1 { 4 * products * sharing.threads } else { 0 };
    let fits =
        |tile: usize| tile * ((features + outputs) * 16 + 8 + shared) <= module.caps.max_workgroup_bytes as usize;
    let mut tiles = std::iter::successors(Some(sharing.tile), |tile| Some(tile / 2)).take_while(|&tile| tile > 0);
    let tile = tiles.find(|&tile| fits(tile));
    let tile = tile.ok_or_else(|| module.error("this adapter has too little workgroup memory for attention"))?;
    let sharing = Sharing { tile, ..sharing };
    let mut access = format!(
        "const LANES: u32 = {}u;\nconst FEATURES: u32 = {features}u;\nconst OUTPUTS: u32 = {outputs}u;\n\
         const TILE: u32 = {tile}u;\n\n",
        sharing.lanes
    );
    for (name, value) in [("first_head", first), ("query_count", of.queries), ("key_count", of.keys)] {
        routine::number(&mut module, name, value, &mut access);
    }
    visible(&mut module, of, &mut access);
    let [query, key, value] = [0, 1, 2].map(|input| &routine.inputs[input]);
    let mut load = |name: &str, span: &Span, width: usize, factor: Option<Scalar>| {
        load_row(&mut module, name, span, (width, sharing.vectors(width)), factor, &mut access)
    };
    let scale = Some(of.scale);
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
    let (family, text, blocks) = match of.part {
        AttentionPart::Forward => {
            store_row(&mut module, "store_output", output, (of.outputs, outputs), &mut access)?;
            routine::store(&mut module, "store_log", output, outputs_all, "f32", &mut access)?;
            ("attention.wgsl", forward_rows(sharing, of), of.queries)
        }
        AttentionPart::Queries => {
            store_row(&mut module, "store_query", output, (of.features, features), &mut access)?;
            ("attention_queries.wgsl", query_rows(&mut module, sharing, of), of.queries)
        }
        AttentionPart::KeysAndValues => {
            let [_, keys_all, ..] = of.elements();
            store_row(&mut module, "store_key", output, (of.features, features), &mut access)?;
            let values = Span { offset: output.offset + keys_all, ..*output };
            store_row(&mut module, "store_value", &values, (of.outputs, outputs), &mut access)?;
            ("attention_keys.wgsl", key_rows(sharing, of), of.keys)
        }
    };
    let Sharing { lanes, threads, .. } = sharing;
    let (grid, groups) = grid(&mut module, count * blocks.div_ceil(threads / lanes) * threads, threads)?;
    module.finish(family, &[("grid", &grid), ("access", &access), ("rows", &text)], groups)
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
        let store = |(element, letter)| format!("store_{slot}(at + {element}u, value.{letter});");
        ["x", "y", "z", "w"].iter().enumerate().map(store).collect()
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

/// Text about the vectors that an invocation has. Rows are given with their widths.
impl Sharing {
    /// A register for each vector of each row.
    fn registers(&self, rows: &[(&str, usize)]) -> String {
        let of_row = |&(name, width): &(&str, usize)| {
            (0..self.own(width)).map(move |own| format!("var<private> {name}_{own}: vec4f;\n")).collect::<String>()
        };
        rows.iter().map(of_row).collect::<String>() + "\n"
    }

    /// A function with a line for each vector of each row; in a line `{}` is the vector's number and `{part}` its place
    /// in the row.
    fn each(&self, head: &str, lines: &[(usize, &str)]) -> String {
        let of_line = |&(width, line): &(usize, &str)| {
            let text = move |own: usize| line.replace("{}", &own.to_string()).replace("{part}", &self.part(own));
            (0..self.own(width)).map(move |own| format!("    {}\n", text(own))).collect::<String>()
        };
        format!("fn {head} {{\n{}}}\n\n", lines.iter().map(of_line).collect::<String>())
    }

    /// `fn name(index: u32, lane: u32) -> f32`: a lane's share of the product of a row in registers and row `index` of
    /// a tile.
    fn product(&self, name: &str, row: &str, (tile, stride): (&str, &str), width: usize) -> String {
        let mut text = format!("fn {name}(index: u32, lane: u32) -> f32 {{\n    let at = index * {stride};\n");
        let chains = self.chains / self.lanes;
        for chain in 0..chains {
            let mut own = (chain..self.own(width)).step_by(chains);
            let first =
                own.next().map_or("vec4f(0.0)".into(), |own| format!("{row}_{own} * {tile}[at + {}]", self.part(own)));
            let _ = writeln!(text, "    var sum_{chain} = {first};");
            for own in own {
                let _ =
                    writeln!(text, "    sum_{chain} = fma({row}_{own}, {tile}[at + {}], sum_{chain});", self.part(own));
            }
        }
        let sums = |chain: usize| format!("((sum_{chain}.x + sum_{chain}.y) + (sum_{chain}.z + sum_{chain}.w))");
        let _ = writeln!(text, "    return {};\n}}\n", joined((0..chains).map(sums).collect()));
        text
    }

    /// `fn name(index: u32, thread: u32) -> ty`: the sum over the lanes of what `of` says, the text for row `index` of
    /// a tile and a lane. Lanes tell each other in `share`, for the whole tile at once: one barrier more. It is written
    /// out, since a driver ends loops after so many steps (`plan/options.rs`), and these would double them.
    fn shared(&self, name: &str, ty: &str, of: impl Fn(&str, &str) -> String) -> String {
        let &Self { lanes, threads, tile, .. } = self;
        if lanes == 1 {
            let whole = of("index", "0u");
            return format!(
                "fn share(thread: u32, needed: bool) {{\n}}\n\nfn {name}(index: u32, thread: u32) -> {ty} {{\n    \
                 return {whole};\n}}\n\n"
            );
        }
        let share = |index: usize| {
            format!("        shares[{}u + thread] = {};\n", index * threads, of(&format!("{index}u"), "lane"))
        };
        let whole = joined((0..lanes).map(|lane| format!("shares[at + {lane}u]")).collect());
        format!(
            "var<workgroup> shares: array<{ty}, TILE * THREADS>;\n\nfn share(thread: u32, needed: bool) {{\n    \
             if (needed) {{\n        let lane = thread % LANES;\n{}    }}\n    workgroupBarrier();\n}}\n\n\
             fn {name}(index: u32, thread: u32) -> {ty} {{\n    let at = index * THREADS + thread / LANES * LANES;\n    \
             return {whole};\n}}\n\n",
            (0..tile).map(share).collect::<String>()
        )
    }
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

/// The sum of 1, 2 or 4 terms, in pairs.
fn joined(terms: Vec<String>) -> String {
    match &terms[..] {
        [a, b, c, d] => format!("({a} + {b}) + ({c} + {d})"),
        _ => terms.join(" + "),
    }
}

fn forward_rows(sharing: Sharing, of: &Attention) -> String {
    let (features, outputs) = (of.features, of.outputs);
    [
        sharing.registers(&[("q", features), ("o", outputs)]),
        sharing.each("take(row: u32, lane: u32)", &[(features, "q_{} = load_query(row, {part});")]),
        sharing.product("query_by_key", "q", ("key_tile", "FEATURES"), features),
        sharing.shared("score", "f32", |key, lane| format!("query_by_key({key}, {lane})")),
        sharing.each("shrink(factor: f32)", &[(outputs, "o_{} *= factor;")]),
        sharing.each(
            "add(weight: f32, key: u32, lane: u32)",
            &[(outputs, "o_{} = fma(vec4f(weight), value_tile[key * OUTPUTS + {part}], o_{});")],
        ),
        sharing
            .each("put(row: u32, lane: u32, factor: f32)", &[(outputs, "store_output(row, {part}, o_{} * factor);")]),
    ]
    .concat()
}

fn query_rows(module: &mut Module<'_>, sharing: Sharing, of: &Attention) -> String {
    let (features, outputs, scale) = (of.features, of.outputs, module.constant(of.scale, 1));
    [
        sharing.registers(&[("q", features), ("g", outputs), ("d", features)]),
        sharing.each(
            "take(row: u32, lane: u32)",
            &[(features, "q_{} = load_query(row, {part});"), (outputs, "g_{} = load_slope(row, {part});")],
        ),
        sharing.product("query_by_key", "q", ("key_tile", "FEATURES"), features),
        sharing.product("slope_by_value", "g", ("value_tile", "OUTPUTS"), outputs),
        sharing.shared("products", "vec2f", |key, lane| {
            format!("vec2f(query_by_key({key}, {lane}), slope_by_value({key}, {lane}))")
        }),
        delta(outputs),
        sharing.each(
            "add(factor: f32, key: u32, lane: u32)",
            &[(features, "d_{} = fma(vec4f(factor), key_tile[key * FEATURES + {part}], d_{});")],
        ),
        sharing
            .each("put(row: u32, lane: u32)", &[(features, &format!("store_query(row, {{part}}, d_{{}} * {scale});"))]),
    ]
    .concat()
}

fn key_rows(sharing: Sharing, of: &Attention) -> String {
    let (features, outputs) = (of.features, of.outputs);
    [
        sharing.registers(&[("k", features), ("v", outputs), ("dk", features), ("dv", outputs)]),
        sharing.each(
            "take(row: u32, lane: u32)",
            &[(features, "k_{} = load_key(row, {part});"), (outputs, "v_{} = load_value(row, {part});")],
        ),
        sharing.product("key_by_query", "k", ("query_tile", "FEATURES"), features),
        sharing.product("value_by_slope", "v", ("slope_tile", "OUTPUTS"), outputs),
        sharing.shared("products", "vec2f", |query, lane| {
            format!("vec2f(key_by_query({query}, {lane}), value_by_slope({query}, {lane}))")
        }),
        delta(outputs),
        sharing.each(
            "add(weight: f32, factor: f32, query: u32, lane: u32)",
            &[
                (features, "dk_{} = fma(vec4f(factor), query_tile[query * FEATURES + {part}], dk_{});"),
                (outputs, "dv_{} = fma(vec4f(weight), slope_tile[query * OUTPUTS + {part}], dv_{});"),
            ],
        ),
        sharing.each(
            "put(row: u32, lane: u32)",
            &[(features, "store_key(row, {part}, dk_{});"), (outputs, "store_value(row, {part}, dv_{});")],
        ),
    ]
    .concat()
}
