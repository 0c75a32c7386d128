//! Rows short enough for the threads of a workgroup to keep in registers what several sweeps read: a softmax reads its
//! input once instead of three times.

use std::fmt::Write as _;

use crate::gpu::render::scalar::Register;
use crate::plan::{Instr, InstrOp, Level, LoopKernel, Phase, ValueId};

use super::Shape;

/// Steps of a sweep that are written out at the most, and values that are kept for each row and thread.
const MOST_STEPS: usize = 8;
const MOST_VALUES: usize = 16;

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
    /// or rows are too long.
    pub(super) fn of(shape: &Shape<'k>, count: usize, threads: usize) -> Option<Self> {
        let kernel = shape.kernel;
        let (steps, mut loads) = (count.div_ceil(threads), Vec::new());
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
        ((1..=MOST_STEPS).contains(&steps) && !loads.is_empty()).then_some(Self { kernel, loads, steps })
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
        for (id, number) in self.of_phase(phase).filter(|&(_, number)| !self.is_read(number, phase)) {
            let ty = Register::of(self.loads[number].dtype).wide(width);
            for step in 0..self.steps {
                let _ = writeln!(declared, "    var kept{number}_{step}: {ty};");
            }
            let _ = writeln!(kept, "    kept{number}_STEP = v{id};");
        }
        [declared, kept]
    }
}
