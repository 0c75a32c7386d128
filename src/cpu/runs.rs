//! Loads of a contraction's operands, remembered: lines that differ only in where they begin (the channels of a
//! convolution under one window offset) are read by the same list of runs.

use half::f16;

use super::execute::NOWHERE;
use super::memory::View;
use super::program::Access;
use crate::dtype::DType;

/// Lists that are kept; more than a window has offsets.
const ENTRIES: usize = 256;

/// Elements read with constant steps.
#[derive(Clone, Copy)]
struct Run {
    /// First place in the strip, and the distance of the next.
    target: usize,
    target_step: usize,
    /// First element, counted from the linear form's value at the strip's beginning, and the distance of the next.
    offset: i64,
    step: i64,
    count: usize,
}

/// How one strip is read.
#[derive(Default)]
pub(super) struct Recorded {
    key: Vec<i64>,
    runs: Vec<Run>,
    /// True if some places get no element.
    holes: bool,
}

/// The strips' recipes of one thread.
#[derive(Default)]
pub(super) struct RunCache {
    entries: Vec<Recorded>,
    key: Vec<i64>,
}

impl RunCache {
    /// The recipe for a strip and whether it is already there. What decides are the access, the strip's place and length
    /// and the values of all forms that conditions and quotients look at.
    pub(super) fn find(
        &mut self,
        access: &Access,
        (start, len): (usize, usize),
        values: &[i64],
    ) -> (&mut Recorded, bool) {
        self.key.clear();
        self.key.extend([access.id as i64, start as i64, len as i64]);
        self.key.extend(access.deciding.iter().map(|&form| values[form]));
        self.entries.resize_with(ENTRIES, Recorded::default);
        let hash = self.key.iter().fold(0, |hash: u64, &part| {
            (hash.rotate_left(5) ^ part.cast_unsigned()).wrapping_mul(0x9E37_79B9_7F4A_7C15)
        });
        let entry = &mut self.entries[(hash >> 56) as usize % ENTRIES];
        let known = entry.key == self.key;
        if !known {
            entry.key.clone_from(&self.key);
            entry.runs.clear();
            entry.holes = false;
        }
        (entry, known)
    }
}

impl Recorded {
    /// Adds the elements `indices` (counted from `origin`) at places from `begin` on.
    pub(super) fn extend(&mut self, begin: usize, indices: &[i64], origin: i64) {
        for (i, &index) in indices.iter().enumerate() {
            if index == NOWHERE {
                self.holes = true;
                continue;
            }
            let (target, offset) = (begin + i, index - origin);
            if let Some(run) = self.runs.last_mut() {
                if run.count == 1 {
                    run.target_step = target - run.target;
                    run.step = offset - run.offset;
                }
                let count = run.count;
                if run.target + count * run.target_step == target && run.offset + count as i64 * run.step == offset {
                    run.count += 1;
                    continue;
                }
            }
            self.runs.push(Run { target, target_step: 1, offset, step: 1, count: 1 });
        }
    }

    /// Reads a strip whose linear form begins with `origin`.
    pub(super) fn read(&self, view: &View, dtype: DType, origin: i64, words: &mut [u32]) {
        if self.holes {
            words.fill(0);
        }
        for run in &self.runs {
            let start = origin + run.offset;
            let words = &mut words[run.target..];
            match dtype {
                DType::F32 | DType::I32 | DType::U32 if run.target_step == 1 && run.step == 1 => {
                    view.read_run::<u32>(start, &mut words[..run.count]);
                }
                DType::F32 | DType::I32 | DType::U32 => {
                    view.read_spread::<u32>((start, run.step), words, run.target_step, run.count);
                }
                DType::F16 => view.read_spread::<f16>((start, run.step), words, run.target_step, run.count),
                DType::U8 | DType::Bool => {
                    view.read_spread::<u8>((start, run.step), words, run.target_step, run.count);
                }
            }
        }
    }
}
