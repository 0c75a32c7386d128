//! Tiles of scores, for GPUs: each invocation has some rows and four columns of a tile, and as many rows and some vectors
//! of what is summed, written out one by one, since a driver may keep an indexed array in memory.

use std::fmt::Write as _;

use crate::graph::{Attention, AttentionPart};

use super::{Capabilities, Form, LANES, VECTOR, delta};

/// Neighbouring columns of a tile that an invocation has, a vector of them.
const WIDE: usize = 4;

/// How a tile of scores is shared: a row of it is of a query, or of a key for the gradients by keys.
#[derive(Clone, Copy)]
pub(super) struct Tiles {
    /// Rows that a workgroup has.
    rows: usize,
    /// Rows of the other side that are in its memory at a time: columns of the tile.
    tile: usize,
    /// Rows of an invocation.
    own: usize,
}

/// What is taken, the first that fits: of 64 invocations at the least, which Metal wants (`Capabilities::least_threads`).
const ALL: [Tiles; 4] = [
    Tiles { rows: 64, tile: 32, own: 4 },
    Tiles { rows: 32, tile: 32, own: 4 },
    Tiles { rows: 32, tile: 16, own: 2 },
    Tiles { rows: 16, tile: 16, own: 1 },
];

impl Tiles {
    /// The largest tiles that a workgroup has memory for, unless smaller ones keep more of the GPU busy: those add up in
    /// the same order. `None` where a processor stands in for one, or has no memory for the smallest.
    pub(super) fn of(of: &Attention, caps: &Capabilities) -> Option<Self> {
        if caps.software {
            return None;
        }
        let rows = if of.part == AttentionPart::KeysAndValues { of.keys } else { of.queries };
        // smaller ones than of 32 rows read more than they compute
        let is_worth_it = |tiles: &Self| tiles.rows <= 32 || of.heads * rows.div_ceil(tiles.rows) >= caps.busy_groups;
        let fits = |tiles: &Self| {
            tiles.bytes(of) <= caps.max_workgroup_bytes as usize
                && tiles.threads() <= caps.max_workgroup_invocations as usize
        };
        ALL.into_iter().find(|tiles| fits(tiles) && is_worth_it(tiles))
    }

    /// Invocations side by side.
    fn columns(self) -> usize {
        self.tile / WIDE
    }

    /// Invocations below each other.
    fn lines(self) -> usize {
        self.rows / self.own
    }

    fn threads(self) -> usize {
        self.lines() * self.columns()
    }

    /// Vectors of rows of both widths: as many for each invocation of a line.
    fn widths(self, of: &Attention) -> [usize; 2] {
        [of.features, of.outputs].map(|width| width.div_ceil(VECTOR).next_multiple_of(self.columns()))
    }

    /// Vectors of weights, where they may take the place of rows that came for them.
    fn weights(self, of: &Attention) -> usize {
        let [features, outputs] = self.widths(of).map(odd);
        let own = self.rows * odd(self.columns());
        match of.part {
            AttentionPart::Forward => own.max(self.tile * features),
            AttentionPart::Queries => own.max(self.tile * outputs),
            AttentionPart::KeysAndValues => own,
        }
    }

    /// Workgroup memory.
    fn bytes(self, of: &Attention) -> usize {
        let Self { rows, tile, .. } = self;
        let [features, outputs] = self.widths(of).map(odd);
        let weights = self.weights(of);
        let (vectors, numbers) = match of.part {
            AttentionPart::Forward => (rows * features + weights + tile * outputs, rows * self.columns()),
            AttentionPart::Queries => (rows * (features + outputs) + tile * features + weights, 2 * rows),
            AttentionPart::KeysAndValues => ((rows + tile) * (features + outputs) + 2 * weights, 2 * tile),
        };
        16 * vectors + 4 * numbers
    }

    pub(super) fn form(self, of: &Attention, scale: &str) -> Form {
        let (family, text) = match of.part {
            AttentionPart::Forward => ("attention_tiles.wgsl", self.forward(of)),
            AttentionPart::Queries => ("attention_tiles_queries.wgsl", self.by_queries(of, scale)),
            AttentionPart::KeysAndValues => ("attention_tiles_keys.wgsl", self.by_keys(of)),
        };
        let Self { rows, tile, .. } = self;
        let weights = self.weights(of);
        let constants =
            format!("const ROWS: u32 = {rows}u;\nconst TILE: u32 = {tile}u;\nconst WEIGHTS: u32 = {weights}u;\n");
        Form { family, rows, threads: self.threads(), widths: self.widths(of), constants, text }
    }

    /// Row number `own` of an invocation.
    fn row(self, own: usize) -> String {
        match own {
            0 => "line".into(),
            _ => format!("(line + {}u)", own * self.lines()),
        }
    }

    /// A function with a line for each row of an invocation; in it `{i}` is the row's number and `{row}` its place in
    /// the tile.
    fn each(self, head: &str, line: &str) -> String {
        let of_row =
            |own: usize| format!("    {}\n", line.replace("{i}", &own.to_string()).replace("{row}", &self.row(own)));
        format!("fn {head} {{\n{}}}\n\n", (0..self.own).map(of_row).collect::<String>())
    }

    /// A line for each vector of such a row that is summed; `{c}` is its number and `{part}` its place in the row.
    fn each_part(self, vectors: usize, line: &str) -> String {
        let part = |c: usize| format!("column + {}u", c * self.columns());
        let of_part = |c: usize| line.replace("{c}", &c.to_string()).replace("{part}", &part(c));
        (0..vectors / self.columns()).map(of_part).collect::<Vec<_>>().join("\n        ")
    }

    /// A register of this type for each row.
    fn registers(self, name: &str, ty: &str) -> String {
        (0..self.own).map(|own| format!("var<private> {name}_{own}: {ty};\n")).collect()
    }

    /// Text for each vector `c` of each row `i` that is summed.
    fn each_sum(self, vectors: usize, text: impl Fn(usize, usize) -> String) -> String {
        let parts = vectors / self.columns();
        (0..self.own * parts).map(|number| text(number / parts, number % parts)).collect()
    }

    /// A register for each of them.
    fn sums(self, name: &str, vectors: usize) -> String {
        self.each_sum(vectors, |i, c| format!("var<private> {name}_{i}_{c}: vec4f;\n"))
    }

    /// `fn name(line: u32, column: u32)`: the products of an invocation's rows and its columns, into registers.
    fn products(self, name: &str, into: &str, [own, other]: [&str; 2], stride: &str, width: usize) -> String {
        let columns = self.columns();
        let mut text = format!("fn {name}(line: u32, column: u32) {{\n");
        for i in 0..self.own {
            let _ = writeln!(text, "    var sum_{i} = vec4f();");
        }
        let _ = writeln!(text, "    for (var part = 0u; part < {}u; part++) {{", width.div_ceil(VECTOR));
        for j in 0..WIDE {
            let _ = writeln!(text, "        let b_{j} = {other}[({}u + column) * {stride} + part];", j * columns);
        }
        for lane in LANES {
            let _ = writeln!(text, "        let {lane} = vec4f(b_0.{lane}, b_1.{lane}, b_2.{lane}, b_3.{lane});");
        }
        for i in 0..self.own {
            let _ = writeln!(text, "        let a_{i} = {own}[{} * {stride} + part];", self.row(i));
            for lane in LANES {
                let _ = writeln!(text, "        sum_{i} = fma(vec4f(a_{i}.{lane}), {lane}, sum_{i});");
            }
        }
        text.push_str("    }\n");
        for i in 0..self.own {
            let _ = writeln!(text, "    {into}_{i} = sum_{i};");
        }
        text + "}\n\n"
    }

    /// Adds the rows of a tile, by the weights of each row of an invocation, to what it sums: those of a tile first, so
    /// that long sums are of sums.
    fn summed(self, into: &str, weights: &str, (rows, stride): (&str, &str), vectors: usize) -> String {
        let columns = self.columns();
        let mut text = self.each_sum(vectors, |i, c| format!("    var {into}_of_{i}_{c} = vec4f();\n"));
        text.push_str("    for (var k = 0u; k < COLUMNS; k++) {\n");
        for i in 0..self.own {
            let _ = writeln!(text, "        let p_{i} = {weights}[{} * WEIGHT_STRIDE + k];", self.row(i));
        }
        for (j, lane) in LANES.into_iter().enumerate() {
            let _ = writeln!(text, "        let at_{j} = ({}u + k) * {stride} + column;", j * columns);
            for c in 0..vectors / columns {
                let _ = writeln!(text, "        let b_{j}_{c} = {rows}[at_{j} + {}u];", c * columns);
            }
            text.push_str(&self.each_sum(vectors, |i, c| {
                let sum = format!("{into}_of_{i}_{c}");
                format!("        {sum} = fma(vec4f(p_{i}.{lane}), b_{j}_{c}, {sum});\n")
            }));
        }
        text.push_str("    }\n");
        text + &self.each_sum(vectors, |i, c| format!("    {into}_{i}_{c} += {into}_of_{i}_{c};\n"))
    }

    /// `fn put`, with lines for each row that is one of the head's `count()`: `row_{i}` of the whole.
    fn put(self, count: &str, lines: &str) -> String {
        self.each(
            "put(line: u32, column: u32, head: u32, first: u32)",
            &format!(
                "if (first + {{row}} < {count}()) {{\n        let row_{{i}} = head * {count}() + first + {{row}};\n        \
                 {lines}\n    }}"
            ),
        )
    }

    fn forward(self, of: &Attention) -> String {
        let [_, outputs] = self.widths(of);
        let shrink = self.each_part(outputs, "o_{i}_{c} *= factor_{i};");
        let store = self.each_part(outputs, "store_output(row_{i}, {part}, o_{i}_{c} / sum_of_{i});");
        [
            self.registers("s", "vec4f"),
            self.sums("o", outputs),
            self.registers("top", "f32 = LEAST"),
            self.registers("sum", "f32"),
            "\n".into(),
            self.products("score", "s", ["query_rows", "key_rows"], "FEATURE_STRIDE", of.features),
            self.each(
                "tell_tops(line: u32, column: u32, first: u32, keys: vec4u)",
                "s_{i} = select(vec4f(LEAST), s_{i}, keys < vec4u(seen(first + {row})));\n    \
                 tops[{row} * COLUMNS + column] = max(max(s_{i}.x, s_{i}.y), max(s_{i}.z, s_{i}.w));",
            ),
            self.each(
                "weigh(line: u32, column: u32, first: u32, keys: vec4u)",
                &format!(
                    "let now_{{i}} = max(top_{{i}}, highest({{row}}));\n    \
                     let weights_{{i}} = select(vec4f(), exp(s_{{i}} - now_{{i}}), keys < vec4u(seen(first + {{row}})));\n    \
                     let factor_{{i}} = exp(top_{{i}} - now_{{i}});\n    \
                     sum_{{i}} = fma(sum_{{i}}, factor_{{i}}, (weights_{{i}}.x + weights_{{i}}.y) + (weights_{{i}}.z + weights_{{i}}.w));\n    \
                     {shrink}\n    top_{{i}} = now_{{i}};\n    key_rows[{{row}} * WEIGHT_STRIDE + column] = weights_{{i}};"
                ),
            ),
            add(&self.summed("o", "key_rows", ("value_rows", "OUTPUT_STRIDE"), outputs)),
            self.each("tell_sums(line: u32, column: u32)", "tops[{row} * COLUMNS + column] = sum_{i};"),
            self.put(
                "query_count",
                &format!(
                    "let sum_of_{{i}} = total({{row}});\n        {store}\n        if (column == 0u) {{\n            \
                     store_log(row_{{i}}, top_{{i}} + log(sum_of_{{i}}));\n        }}"
                ),
            ),
        ]
        .concat()
    }

    fn by_queries(self, of: &Attention, scale: &str) -> String {
        let [features, _] = self.widths(of);
        let store = self.each_part(features, &format!("store_query(row_{{i}}, {{part}}, d_{{i}}_{{c}} * {scale});"));
        [
            self.registers("s", "vec4f"),
            self.registers("g", "vec4f"),
            self.sums("d", features),
            "\n".into(),
            self.products("score", "s", ["query_rows", "key_rows"], "FEATURE_STRIDE", of.features),
            self.products("slope", "g", ["slope_rows", "value_rows"], "OUTPUT_STRIDE", of.outputs),
            self.each(
                "weigh(line: u32, column: u32, first: u32, keys: vec4u)",
                "let of_{i} = numbers[{row}];\n    \
                 let weights_{i} = select(vec4f(), exp(s_{i} - of_{i}.x), keys < vec4u(seen(first + {row})));\n    \
                 s_{i} = weights_{i} * (g_{i} - of_{i}.y);",
            ),
            self.each("tell(line: u32, column: u32)", "value_rows[{row} * WEIGHT_STRIDE + column] = s_{i};"),
            add(&self.summed("d", "value_rows", ("key_rows", "FEATURE_STRIDE"), features)),
            self.put("query_count", &store),
            delta(of.outputs),
        ]
        .concat()
    }

    fn by_keys(self, of: &Attention) -> String {
        let [features, outputs] = self.widths(of);
        let store = [
            self.each_part(features, "store_key(row_{i}, {part}, dk_{i}_{c});"),
            self.each_part(outputs, "store_value(row_{i}, {part}, dv_{i}_{c});"),
        ]
        .join("\n        ");
        let weigh = self.each(
            "of_row(line: u32, column: u32, first: u32, queries: vec4u, logs: vec4f, deltas: vec4f)",
            "let is_seen_{i} = queries >= vec4u(first_query(first + {row}));\n    \
             let weights_{i} = select(vec4f(), exp(s_{i} - logs), is_seen_{i} & (queries < vec4u(query_count())));\n    \
             weights[{row} * WEIGHT_STRIDE + column] = weights_{i};\n    \
             gradients[{row} * WEIGHT_STRIDE + column] = weights_{i} * (g_{i} - deltas);",
        );
        [
            self.registers("s", "vec4f"),
            self.registers("g", "vec4f"),
            self.sums("dk", features),
            self.sums("dv", outputs),
            "\n".into(),
            self.products("score", "s", ["key_rows", "query_rows"], "FEATURE_STRIDE", of.features),
            self.products("slope", "g", ["value_rows", "slope_rows"], "OUTPUT_STRIDE", of.outputs),
            weigh,
            "fn weigh(line: u32, column: u32, first: u32, queries: vec4u) {\n    let of_0 = numbers[4u * column];\n    \
             let of_1 = numbers[4u * column + 1u];\n    let of_2 = numbers[4u * column + 2u];\n    \
             let of_3 = numbers[4u * column + 3u];\n    let logs = vec4f(of_0.x, of_1.x, of_2.x, of_3.x);\n    \
             of_row(line, column, first, queries, logs, vec4f(of_0.y, of_1.y, of_2.y, of_3.y));\n}\n\n"
                .into(),
            add(&(self.summed("dv", "weights", ("slope_rows", "OUTPUT_STRIDE"), outputs)
                + &self.summed("dk", "gradients", ("query_rows", "FEATURE_STRIDE"), features))),
            self.put("key_count", &store),
            delta(of.outputs),
        ]
        .concat()
    }
}

/// `fn add`, which adds a tile to what is summed.
fn add(sums: &str) -> String {
    format!("fn add(line: u32, column: u32) {{\n{sums}}}\n\n")
}

/// A stride at which rows begin in different banks of memory.
fn odd(vectors: usize) -> usize {
    vectors | 1
}
