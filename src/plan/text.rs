//! Plans for people: text, Graphviz, and why two nodes are not in one kernel.

use std::collections::BTreeSet;
use std::fmt::{self, Write};

use crate::graph::Program;
use crate::matmul_precision::MatmulPrecision;

use super::kernel::{Body, InstrOp, Kernel, Level, Place, Plan, Tape};

impl Plan {
    /// One line: kernels, waves, memory.
    pub fn summary(&self) -> String {
        let bytes: u64 = self.slots.iter().sum();
        format!(
            "plan {:016x}: {} kernels in {} waves, {} slots of {} KiB (live peak {} KiB)",
            self.key,
            self.kernels.len(),
            self.waves.len(),
            self.slots.len(),
            bytes.div_ceil(1024),
            self.live_peak_bytes.div_ceil(1024),
        )
    }

    /// Bytes of memory the plan needs beyond what is bound from outside.
    pub fn memory_bytes(&self) -> u64 {
        self.slots.iter().sum()
    }

    /// Why the nodes whose descriptions contain `first` and `second` are in different kernels, one line per reason.
    pub fn explain(&self, first: &str, second: &str) -> Vec<String> {
        let about = |a: &str, b: &str| a.contains(first) && b.contains(second);
        let lines: BTreeSet<String> = self
            .apart
            .iter()
            .filter(|(a, b, _)| about(a, b) || about(b, a))
            .map(|(a, b, reason)| format!("`{a}` and `{b}`: {reason}"))
            .collect();
        lines.into_iter().collect()
    }

    /// Why the values whose descriptions contain `value` are written to memory, one line each.
    pub fn why_stored(&self, value: &str) -> Vec<String> {
        let about = self.stored.iter().filter(|(name, _)| name.contains(value));
        about.map(|(name, reason)| format!("`{name}`: {reason}")).collect()
    }

    /// Everything [`Self::why_stored`] and [`Self::explain`] can say.
    pub fn explanation(&self) -> String {
        let mut text = String::from("In memory:\n");
        for line in self.why_stored("") {
            let _ = writeln!(text, "  {line}");
        }
        text.push_str("Not in one kernel:\n");
        for line in self.explain("", "") {
            let _ = writeln!(text, "  {line}");
        }
        text
    }

    /// The kernels and the buffers between them, for Graphviz.
    pub fn to_dot(&self) -> String {
        let mut text = String::from("digraph plan {\n  rankdir=TB; node [shape=box, fontname=\"monospace\"];\n");
        for (wave, range) in self.waves.iter().enumerate() {
            let _ = writeln!(text, "  subgraph cluster_{wave} {{ label=\"wave {wave}\";");
            for number in range.clone() {
                let kernel = &self.kernels[number];
                let _ = writeln!(text, "    k{number} [label=\"{}\\n{}\"];", kernel.label, kernel.stage);
            }
            text.push_str("  }\n");
        }
        let mut writer = vec![None; self.buffers.len()];
        for (number, kernel) in self.kernels.iter().enumerate() {
            for &buffer in &kernel.reads {
                if let Some(source) = writer[buffer] {
                    let label = &self.buffers[buffer].label.replace('"', "'");
                    let _ = writeln!(text, "  k{source} -> k{number} [tooltip=\"{label}\"];");
                }
            }
            for &buffer in &kernel.writes {
                writer[buffer] = Some(number);
            }
        }
        text.push_str("}\n");
        text
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.summary())?;
        for (number, buffer) in self.buffers.iter().enumerate() {
            let place = match buffer.place {
                Place::External(n) => format!("external {n}"),
                Place::Slot(n) if buffer.offset_bytes > 0 => format!("slot {n} + {} B", buffer.offset_bytes),
                Place::Slot(n) => format!("slot {n}"),
            };
            writeln!(f, "  b{number}: {} x {} in {place}: {}", buffer.dtype, buffer.elements, buffer.label)?;
        }
        for (wave, range) in self.waves.iter().enumerate() {
            writeln!(f, "  wave {wave}")?;
            for number in range.clone() {
                writeln!(f, "    {number}: {}", self.kernels[number])?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}] {} flop, {} B, axes ", self.label, self.stage, self.flops, self.bytes)?;
        match &self.body {
            Body::Loop(kernel) => {
                write!(f, "{:?} x {:?}", &kernel.axes[..kernel.outer], &kernel.axes[kernel.outer..])?;
                for phase in &kernel.phases {
                    let level = if phase.level == Level::Outer { "outer" } else { "inner" };
                    write!(f, "\n        {level}:")?;
                    write_tape(f, &phase.tape)?;
                    for (op, value) in &phase.reductions {
                        write!(f, " {op:?}(v{value})")?;
                    }
                    for store in &phase.stores {
                        write!(f, " b{}[{}]=v{}", store.buffer, store.index, store.value)?;
                    }
                }
            }
            Body::Routine(routine) => write!(f, "{routine}")?,
            Body::Contract(kernel) => {
                let mut axes = kernel.axes.iter();
                let groups = kernel.counts.map(|count| axes.by_ref().take(count).copied().collect::<Vec<_>>());
                write!(f, "{groups:?}")?;
                if kernel.precision != MatmulPrecision::Highest {
                    write!(f, " {:?} precision", kernel.precision)?;
                }
                write!(f, "\n        lhs:")?;
                write_tape(f, &kernel.lhs.0)?;
                write!(f, "\n        rhs:")?;
                write_tape(f, &kernel.rhs.0)?;
                write!(f, "\n        out:")?;
                write_tape(f, &kernel.epilogue)?;
                for store in &kernel.stores {
                    write!(f, " b{}[{}]=v{}", store.buffer, store.index, store.value)?;
                }
            }
        }
        Ok(())
    }
}

fn write_tape(f: &mut fmt::Formatter<'_>, tape: &Tape) -> fmt::Result {
    for (number, instr) in tape.instrs.iter().enumerate() {
        match &instr.op {
            InstrOp::Load { buffer, index, valid } => {
                write!(f, " v{number}=b{buffer}[{index}]")?;
                if !valid.is_empty() {
                    write!(f, " if {valid:?}")?;
                }
                f.write_str(";")?;
            }
            InstrOp::Const(value) => write!(f, " v{number}={value:?};")?,
            InstrOp::Unary(op, a) => write!(f, " v{number}={op:?}(v{a});")?,
            InstrOp::Binary(op, a, b) => write!(f, " v{number}={op:?}(v{a},v{b});")?,
            InstrOp::Select(c, a, b) => write!(f, " v{number}=v{c}?v{a}:v{b};")?,
            other => write!(f, " v{number}={other:?};")?,
        }
    }
    Ok(())
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, node) in self.nodes.iter().enumerate() {
            let module = node.module.as_deref().unwrap_or("");
            writeln!(
                f,
                "%{number}: {}{} = {:?} {:?} [{}] {module} {}",
                node.dtype, node.shape, node.op, node.inputs, node.stage, node.location
            )?;
        }
        for output in &self.outputs {
            writeln!(f, "%{} -> external {} at {}", output.node, output.external, output.offset)?;
        }
        Ok(())
    }
}
