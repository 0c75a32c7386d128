//! What a tape's steps leave for those behind them, strip by strip.

use super::ahead::Ahead;
use super::elementwise::{Arg, CHUNK};
use super::execute::{PLANE, STRIP};
use super::program::Operand;
use super::recipe::Recipes;
use super::view::Run;
use super::words::Words;

/// Where a register's value is.
#[derive(Clone, Copy)]
pub(super) enum Held {
    /// In its slot: a word for each element, or, if the operand is a splat, a chunk of one for each row, all the same if
    /// there is one row.
    Slot,
    /// In its slot, a chunk that stands for all of this strip's elements.
    Splat,
    /// In a buffer, or among a contraction's sums: not copied, or computed right there.
    Buffer(Run),
}

/// The memory of one strip's values.
#[derive(Default)]
pub(super) struct Registers {
    pub(super) slots: Vec<Words>,
    pub(super) held: Vec<Held>,
    pub(super) indices: Vec<i64>,
    pub(super) tested: Vec<i64>,
    pub(super) values: Vec<i64>,
    pub(super) recipes: Recipes,
    /// What the strips that come will need.
    pub(super) ahead: Ahead,
    /// The program whose constants are in their registers, by its address, and the run that it was in.
    pub(super) ready: (usize, u64),
}

impl Registers {
    /// Makes sure that there are `count` registers.
    pub(super) fn reserve(&mut self, count: usize) {
        if self.slots.len() < count {
            self.slots.resize_with(count, Words::default);
            self.slots.iter_mut().for_each(|slot| slot.reserve(STRIP));
            self.held.resize(count, Held::Slot);
        }
        self.indices.resize(STRIP, 0);
        self.tested.resize(STRIP, 0);
    }

    /// Makes sure that the first `count` registers have room for a plane.
    pub(super) fn reserve_planes(&mut self, count: usize) {
        self.slots[..count].iter_mut().for_each(|slot| slot.reserve(PLANE));
    }

    /// What an operator reads, of which rows are `pitch` words apart in registers.
    pub(super) fn arg(&self, operand: Operand, pitch: usize) -> Arg<'_> {
        let slot = &self.slots[operand.slot];
        match self.held[operand.slot] {
            Held::Slot if operand.splat => Arg::Splat(slot),
            Held::Slot => Arg::Words(slot, pitch),
            Held::Splat => Arg::Splat(slot),
            Held::Buffer(run) => Arg::Run(run),
        }
    }

    /// The first `len` words of a value; a splat is spread first.
    pub(super) fn words(&mut self, operand: Operand, len: usize) -> &[u32] {
        let held = self.held[operand.slot];
        if let Held::Buffer(run) = &self.held[operand.slot] {
            return &run.words()[..len];
        }
        let words = &mut self.slots[operand.slot];
        if (operand.splat || matches!(held, Held::Splat)) && len > CHUNK {
            let bits = words[0];
            words[CHUNK..len].fill(bits);
        }
        &words[..len]
    }
}
