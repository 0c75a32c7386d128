//! Rows short enough for the threads of a workgroup to keep in registers what several sweeps read: a softmax reads its
//! input once instead of three times.

use std::fmt::Write as _;

use crate::gpu::render::scalar::Register;
use crate::plan::{Instr, InstrOp, Phase, ValueId};

use super::Shape;

/// Steps of a sweep that are written out at the most, values that are kept for each row and thread, and instructions in
/// all steps of all sweeps.
const MAX_STEPS: usize = 8;
const MAX_VALUES: usize = 16;
const MAX_INSTRUCTIONS: usize = 512;

/// What threads keep of a row, each of the points that it sweeps over.
pub(super) struct Kept<'k> {
    /// Loads that several sweeps have, each with the first of these.
    loads: Vec<(&'k Instr, &'k Phase)>,
    /// Steps of each sweep.
    pub(super) steps: usize,
}

impl<'k> Kept<'k> {
    /// What is kept where each of `threads` takes every so many of `count` steps; `None` where nothing is read twice,
    /// or rows are too long. Where the text is `for_all` sizes, it has steps for twice as long rows at the most, so that
    /// few texts serve all of them.
    pub(super) fn of(shape: &Shape<'k>, count: usize, threads: usize, for_all: bool) -> Option<Self> {
        let steps = count.div_ceil(threads);
        let steps = if for_all { steps.next_power_of_two() } else { steps };
        let sweeps: Vec<&Phase> = shape.inner_phases().collect();
        let mut loads: Vec<(&Instr, &Phase)> = Vec::new();
        for (number, &phase) in sweeps.iter().enumerate() {
            for instr in &phase.tape.instrs {
                let InstrOp::Load { buffer, .. } = &instr.op else { continue };
                // what is written meanwhile is read anew
                let is_written = |phase: &Phase| phase.stores.iter().any(|store| store.buffer == *buffer);
                let is_kept = !shape.kernel.phases.iter().any(is_written)
                    && sweeps[number + 1..].iter().any(|later| later.tape.instrs.contains(instr));
                if is_kept && !loads.iter().any(|(known, _)| *known == instr) {
                    loads.push((instr, phase));
                }
            }
        }
        loads.truncate(MAX_VALUES / steps.max(1));
        let instructions = steps * sweeps.iter().map(|phase| phase.tape.instrs.len()).sum::<usize>();
        let fits = (1..=MAX_STEPS).contains(&steps) && instructions <= MAX_INSTRUCTIONS;
        (fits && !loads.is_empty()).then_some(Self { loads, steps })
    }

    /// The values of a phase that a sweep before it has read, and their names in step `STEP`.
    pub(super) fn known(&self, phase: &Phase) -> Vec<(ValueId, String)> {
        let name = |instr: &Instr| {
            let is_it = |(load, first): &(&Instr, &Phase)| *load == instr && !std::ptr::eq(*first, phase);
            Some(format!("kept{}_STEP", self.loads.iter().position(is_it)?))
        };
        phase.tape.instrs.iter().enumerate().filter_map(|(id, instr)| Some((id, name(instr)?))).collect()
    }

    /// Declarations of what a phase reads first, for all steps, and the statements that keep it in step `STEP`.
    pub(super) fn read(&self, phase: &Phase, width: usize) -> [String; 2] {
        let [mut declared, mut kept] = [const { String::new() }; 2];
        for (number, (load, _)) in self.loads.iter().enumerate().filter(|(_, (_, first))| std::ptr::eq(*first, phase)) {
            let id = phase.tape.instrs.iter().position(|instr| instr == *load).expect("it is read there");
            let ty = Register::of(load.dtype).wide(width);
            for step in 0..self.steps {
                let _ = writeln!(declared, "    var kept{number}_{step}: {ty};");
            }
            let _ = writeln!(kept, "    kept{number}_STEP = v{id};");
        }
        [declared, kept]
    }
}
