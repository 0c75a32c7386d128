//! Strips of several rows, so that what is to be done once for a strip is not to be done for each row.

use half::f16;

use super::access::Access;
use super::elementwise::CHUNK;
use super::execute::{Env, Inputs, Strip, typed};
use super::program::{Action, Operand, Program, Step};
use super::registers::{Held, Registers};
use super::space::Space;
use super::view::Run;
use crate::dtype::DType;

/// True if `access` reads or writes consecutive elements along a row, or, of a `splat`, the same one.
fn is_straight(access: &Access, splat: bool) -> bool {
    let position = &access.position;
    let is_linear = position.straight && position.quotients.is_empty() && !access.is_conditional();
    is_linear && position.stride == if splat { 0 } else { 1 }
}

/// True if a program of these steps and stores over `space` can take several of its fixed points at once.
pub(super) fn has_planes<'a>(
    space: &Space,
    mut steps: impl Iterator<Item = &'a Step>,
    stores: &[(Access, Operand)],
) -> bool {
    let is_taken = |step: &Step| match &step.action {
        Action::Const(_) | Action::Uniform(_) => true,
        Action::Load(access) => is_straight(access, step.target.splat),
        Action::Accumulator => !step.target.splat,
        action => action.is_loop() && !step.per_row,
    };
    let is_left = |(access, operand): &(Access, Operand)| is_straight(access, false) && !operand.splat;
    space.is_of_rows() && steps.all(is_taken) && stores.iter().all(is_left)
}

impl Program {
    /// Elements from a row of `access` to that of the next fixed point.
    pub(super) fn pitch(&self, access: &Access) -> i64 {
        self.space.pitch(&access.forms.0[access.position.form()])
    }

    /// Leaves what no loop computes in `words`, a word for each row of what is the same along rows, or says where it lies.
    pub(super) fn take_rows(
        &self,
        step: &Step,
        env: &Env<'_>,
        registers: &mut Registers,
        strip: Strip<'_>,
        inputs: &Inputs<'_>,
        words: &mut [u32],
    ) -> Held {
        let Strip { len, rows, .. } = strip;
        match &step.action {
            Action::Accumulator if step.may_stay => {
                return Held::Buffer(Run::of(inputs.accumulator, len, (rows, inputs.pitch)));
            }
            Action::Accumulator => {
                let sums = inputs.accumulator.chunks(inputs.pitch);
                for (words, sums) in words.chunks_mut(strip.pitch()).zip(sums).take(rows) {
                    words[..len].copy_from_slice(&sums[..len]);
                }
            }
            Action::Load(access) => {
                let (view, start, pitch) =
                    (&env.views[access.buffer], self.row_start(access, registers, strip), self.pitch(access));
                if step.target.splat {
                    typed!(view, access.dtype, read_strided(start, pitch, &mut words[..rows]));
                    // what is the same for all rows is read for others, too
                    let last = words[rows - 1];
                    words[rows..CHUNK].fill(last);
                } else if step.may_stay && access.dtype.size_bytes() == size_of::<u32>() {
                    return Held::Buffer(view.rows(start, len, (rows, pitch)));
                } else {
                    for (row, words) in words.chunks_mut(strip.pitch()).take(rows).enumerate() {
                        typed!(view, access.dtype, read_run(start + row as i64 * pitch, &mut words[..len]));
                    }
                }
            }
            // what is the same everywhere
            _ => return self.take(step, env, registers, (strip.from, 1), inputs, &mut words[..CHUNK]),
        }
        Held::Slot
    }

    /// Writes a register's rows where they belong.
    pub(super) fn store_rows(
        &self,
        access: &Access,
        env: &Env<'_>,
        registers: &mut Registers,
        strip: Strip<'_>,
        slot: usize,
    ) {
        let start = self.row_start(access, registers, strip);
        let (view, pitch) = (&env.views[access.buffer], self.pitch(access));
        for row in 0..strip.rows {
            let words = match &registers.held[slot] {
                Held::Buffer(run) => run.row(row),
                Held::Slot | Held::Splat => &registers.slots[slot][row * strip.pitch()..][..strip.len],
            };
            typed!(view, access.dtype, write_run(start + row as i64 * pitch, words));
        }
    }

    /// The element at the strip's first point.
    fn row_start(&self, access: &Access, registers: &mut Registers, strip: Strip<'_>) -> i64 {
        let mut start = 0;
        self.space.walk(&access.forms, (strip.from, 1), &mut registers.values, |row, _, _| {
            start = access.position.start(row);
        });
        start
    }
}
