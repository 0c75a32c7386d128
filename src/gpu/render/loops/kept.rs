//! Rows short enough for the threads of a workgroup to keep in registers what several sweeps read: a softmax reads its
//! input once instead of three times.

use std::fmt::Write as _;

use crate::gpu::render::scalar::Register;
use crate::plan::{Instr, InstrOp, Level, LoopKernel, Phase, ValueId};

use super::Shape;

/// Steps of a sweep that are written out at the most, values that are kept for each row and thread, and instructions in
/// all steps of all sweeps.
const MOST_STEPS: usize = 8;
const MOST_VALUES: usize = 16;
const MOST_INSTRUCTIONS: usize = 512;

/// What threads keep of a row, each of the points that it sweeps over.
pub(super) struct Kept<'k> {
    kernel: &'k LoopKernel,
    /// Loads that several sweeps have.
    loads: Vec<&'k Instr>,
    /// Steps of each sweep.
    pub(super) steps: usize,
}

impl<'k> Kept<'k> {
    /// What is kept where each of `threads` takes every so many of `count` steps; `None` where nothing is read twice,
    /// or rows are too long. Where the text is `for_all` sizes, it has steps for twice as long rows at the most, so that
    /// few texts serve all of them.
    pub(super) fn of(shape: &Shape<'k>, count: usize, threads: usize, for_all: bool) -> Option<Self> {
        let kernel = shape.kernel;
        let (steps, mut loads) = (count.div_ceil(threads), Vec::new());
        let steps = if for_all { steps.next_power_of_two() } else { steps };
        for (number, phase) in kernel.phases.iter().enumerate().filter(|(_, phase)| phase.level == Level::Inner) {
            for instr in &phase.tape.instrs {
                let InstrOp::Load { buffer, .. } = &instr.op else { continue };
                let of_later = |phase: &Phase| phase.level == Level::Inner && phase.tape.instrs.contains(instr);
                // what is written meanwhile is read anew
                let written = kernel.phases.iter().any(|phase| phase.stores.iter().any(|s| s.buffer == *buffer));
                if !written && !loads.contains(&instr) && kernel.phases[number + 1..].iter().any(of_later) {
                    loads.push(instr);
                }
            }
        }
        loads.truncate(MOST_VALUES / steps.max(1));
        let instructions = steps * shape.inner_phases().map(|phase| phase.tape.instrs.len()).sum::<usize>();
        let fits = (1..=MOST_STEPS).contains(&steps) && instructions <= MOST_INSTRUCTIONS;
        (fits && !loads.is_empty()).then_some(Self { kernel, loads, steps })
    }

    /// The loads of a phase that are kept: where each is on its tape, and its number.
    fn of_phase(&self, phase: &'k Phase) -> impl Iterator<Item = (ValueId, usize)> {
        let number = |instr: &Instr| self.loads.iter().position(|&load| load == instr);
        phase.tape.instrs.iter().enumerate().filter_map(move |(id, instr)| Some((id, number(instr)?)))
    }

    /// Whether a sweep before this one has read it.
    fn is_read(&self, number: usize, phase: &Phase) -> bool {
        let before = self.kernel.phases.iter().take_while(|other| !std::ptr::eq(*other, phase));
        before.filter(|phase| phase.level == Level::Inner).any(|phase| phase.tape.instrs.contains(self.loads[number]))
    }

    /// The values of a phase that are there already, and their names in step `STEP`.
    pub(super) fn known(&self, phase: &'k Phase) -> Vec<(ValueId, String)> {
        let known = self.of_phase(phase).filter(|&(_, number)| self.is_read(number, phase));
        known.map(|(id, number)| (id, format!("kept{number}_STEP"))).collect()
    }

    /// Declarations of what a phase reads first, for all steps, and the statements that keep it in step `STEP`.
    pub(super) fn read(&self, phase: &'k Phase, width: usize) -> [String; 2] {
        let [mut declared, mut kept] = [const { String::new() }; 2];
        let mut seen = vec![false; self.loads.len()];
        for (id, number) in self.of_phase(phase).filter(|&(_, number)| !self.is_read(number, phase)) {
            if std::mem::replace(&mut seen[number], true) {
                continue;
            }
            let ty = Register::of(self.loads[number].dtype).wide(width);
            for step in 0..self.steps {
                let _ = writeln!(declared, "    var kept{number}_{step}: {ty};");
            }
            let _ = writeln!(kept, "    kept{number}_STEP = v{id};");
        }
        [declared, kept]
    }
}
