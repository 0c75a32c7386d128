//! How a workgroup joins what its invocations have: a tree of fixed shape through workgroup memory, whose last levels
//! are shuffles where the adapter has subgroups. Both forms join the same values in the same order.

use std::fmt::Write as _;

use crate::error::Result;

use super::Capabilities;

/// What is joined.
pub(super) struct Value {
    /// The array with the part of each thread, bools as numbers.
    pub(super) parts: String,
    /// The name of the whole.
    pub(super) whole: String,
    /// Of bools, how many a part has, 1 or 4: no shuffle takes them, and in workgroup memory NVIDIA's threads write over
    /// each other's (seen with driver 580.159).
    pub(super) bools: Option<usize>,
}

/// The number that stands for a bool in workgroup memory, or of four.
pub(super) fn number_of_bool(value: &str, width: usize) -> String {
    if width == 1 { format!("select(0u, 1u, {value})") } else { format!("select(vec4u(), vec4u(1u), {value})") }
}

impl Value {
    /// The part at a place of its array.
    fn part(&self, place: &str) -> String {
        match self.bools {
            None => format!("{}[{place}]", self.parts),
            Some(1) => format!("({}[{place}] != 0u)", self.parts),
            Some(_) => format!("({}[{place}] != vec4u())", self.parts),
        }
    }

    /// The expression for variable `name` of another lane.
    fn shuffled(&self, function: &str, name: &str, lane: usize) -> String {
        match self.bools {
            Some(_) => format!("({function}(select(0u, 1u, {name}), {lane}u) != 0u)"),
            None => format!("{function}({name}, {lane}u)"),
        }
    }
}

/// A tree over the threads of a workgroup, whose number is a power of two.
pub(super) struct Tree {
    pub(super) threads: usize,
    /// How many wholes lie side by side, a power of two: threads that many apart have parts of the same one.
    pub(super) abreast: usize,
    /// The lanes of a subgroup among which the last levels are shuffled, where there is one whole.
    pub(super) lanes: Option<usize>,
    /// Whether its workgroup memory is written again.
    pub(super) again: bool,
}

/// The lanes of the shuffles. A subgroup may have more: they do the same in groups of as many. What has fewer threads
/// than a subgroup may have lanes does without.
pub(super) fn lanes(caps: &Capabilities, threads: usize) -> Option<usize> {
    let [least, most] = caps.subgroups?;
    (most <= threads).then_some(least.min(threads / 2))
}

impl Tree {
    /// Statements that define each value's whole from the parts in its array; `join` is the expression that joins two
    /// parts of value `number`. They are written out: barriers in loops have been miscompiled. Shuffles need the number
    /// `lane`, and every subgroup does them, so that all threads have the wholes without another barrier.
    pub(super) fn text(&self, values: &[Value], join: impl Fn(usize, &str, &str) -> Result<String>) -> Result<String> {
        let mut code = "    workgroupBarrier();\n".to_owned();
        let mut half = self.threads / 2;
        while half >= self.abreast && half > self.lanes.unwrap_or(0) {
            let _ = writeln!(code, "    if (thread < {half}u) {{");
            for (number, value) in values.iter().enumerate() {
                let sum = join(number, &value.part("thread"), &value.part(&format!("thread + {half}u")))?;
                let sum = value.bools.map_or(sum.clone(), |width| number_of_bool(&sum, width));
                let _ = writeln!(code, "        {}[thread] = {sum};", value.parts);
            }
            code.push_str("    }\n    workgroupBarrier();\n");
            half /= 2;
        }
        for (number, value @ Value { whole, .. }) in values.iter().enumerate() {
            let Some(lanes) = self.lanes else {
                let first: String = if self.abreast == 1 { "0".into() } else { format!("thread % {}u", self.abreast) };
                let _ = writeln!(code, "    let {whole} = {};", value.part(&first));
                continue;
            };
            let part = format!("{whole}_part");
            let sum = join(number, &value.part("lane"), &value.part(&format!("lane + {lanes}u")))?;
            let _ = writeln!(code, "    var {part} = {sum};");
            for half in std::iter::successors(Some(lanes / 2), |half| Some(half / 2)).take_while(|&half| half > 0) {
                // which of two lanes is the first operand depends on the lane: lane 0 has them in order
                let sum = join(number, &part, &value.shuffled("subgroupShuffleXor", &part, half))?;
                let _ = writeln!(code, "    {part} = {sum};");
            }
            // no broadcast: Mesa 22.3 aborts when it compiles one of a float
            let _ = writeln!(code, "    let {whole} = {};", value.shuffled("subgroupShuffle", &part, 0));
        }
        if self.again || self.lanes.is_none() {
            code.push_str("    workgroupBarrier();\n");
        }
        Ok(code)
    }
}

/// A kernel that counts the invocations for which shuffles give what workgroup memory gives, and how many there are.
pub(crate) fn probe_text(caps: &Capabilities) -> Option<(String, usize)> {
    let threads = 1 << caps.max_workgroup_invocations.min(256).ilog2();
    let lanes = lanes(caps, threads)?;
    let function = |head: &str, lanes: Option<usize>| {
        let tree = Tree { threads, abreast: 1, lanes, again: true };
        let join = |_, a: &str, b: &str| Ok(format!("joined({a}, {b})"));
        let text =
            tree.text(&[Value { parts: "parts".into(), whole: "whole".into(), bools: None }], join).expect("it joins");
        format!("fn {head} -> u32 {{\n{text}    return whole;\n}}\n\n")
    };
    let trees = format!(
        "const THREADS: u32 = {threads}u;\nconst LANES: u32 = {lanes}u;\n\n{}{}",
        function("in_memory(thread: u32)", None),
        function("shuffled(thread: u32, lane: u32)", Some(lanes))
    );
    Some((super::library::fill("probe_subgroups.wgsl", &[("trees", &trees)]), threads))
}
