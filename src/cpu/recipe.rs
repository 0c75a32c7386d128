//! How pieces of rows are read and written, remembered: pieces that differ only in where they begin (the channels of a
//! convolution under one window offset, the images of a batch) share one list of offsets.

use super::access::{Access, numbers};
use super::offsets::Offsets;
use super::position::Row;

/// Sets of lists that each thread keeps; with [`WAYS`], several times as many lists as a window has offsets.
const SETS: usize = 128;
/// Lists of a set, overwritten in turn.
const WAYS: usize = 4;

/// Numbers that most keys have at most.
const MAX_KEY: usize = 32;

/// The offsets of one kind of piece, and what tells the kind.
#[derive(Default)]
struct Entry {
    key: Vec<i64>,
    offsets: Offsets,
}

/// The recipes of one thread.
#[derive(Default)]
pub(super) struct Recipes {
    entries: Vec<Entry>,
    key: Vec<i64>,
    turn: usize,
}

impl Recipes {
    /// The base and the offsets for `count` points of `row`; `None` if they cannot be had. The slices are scratch.
    pub(super) fn of(
        &mut self,
        access: &Access,
        row: &Row<'_>,
        count: usize,
        (indices, tested): (&mut [i64], &mut [i64]),
    ) -> Option<(i64, &Offsets)> {
        let base = access.base(row, count, &mut self.key)?;
        if self.entries.is_empty() {
            self.entries.resize_with(SETS * WAYS, Entry::default);
        }
        let hash = self.key.iter().fold(0, |hash: u64, &part| {
            (hash.rotate_left(5) ^ part.cast_unsigned()).wrapping_mul(0x9E37_79B9_7F4A_7C15)
        });
        let set = (hash >> 48) as usize % SETS * WAYS;
        let known = self.entries[set..set + WAYS].iter().position(|entry| entry.key == self.key);
        if known.is_none() {
            self.turn += 1;
        }
        let entry = &mut self.entries[set + known.unwrap_or(self.turn % WAYS)];
        if known.is_none() {
            let indices = &mut indices[..count];
            numbers(access, row, indices, tested);
            if !entry.offsets.set(indices, base) {
                entry.key.clear();
                return None;
            }
            entry.key.reserve(MAX_KEY);
            entry.key.clone_from(&self.key);
        }
        Some((base, &entry.offsets))
    }
}
