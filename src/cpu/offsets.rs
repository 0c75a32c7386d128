//! Elements of a buffer by their distances from a base, checked against the buffer as a whole.
#![expect(unsafe_code, reason = "the reach of all offsets is checked once, not each of them")]

use half::f16;
use pulp::{Arch, Simd, WithSimd};

use super::execute::{NOWHERE, STRIP};
use super::view::{Stored, View};
use crate::dtype::DType;

/// The offset of a point without an element.
const HOLE: i32 = i32::MIN;
/// Points that a run must have on average to be copied as one.
const WORTH_A_RUN: usize = 6;

/// Where the elements for a few points lie, counted from a base.
///
/// Invariant: every offset that is not a [`HOLE`], and every element of a run, lies within `reach`.
#[derive(Default)]
pub(super) struct Offsets {
    /// For each point.
    list: Vec<i32>,
    /// The same as runs; empty if these are short.
    runs: Vec<Run>,
    /// The least and the largest offset; `None` if all points are holes.
    reach: Option<(i32, i32)>,
    holes: bool,
}

/// Points `at..at + count` whose elements follow each other, or (`same`) are all one.
#[derive(Clone, Copy)]
struct Run {
    at: usize,
    offset: i32,
    count: usize,
    same: bool,
}

/// Calls `$self.$method::<T>` with the type that `$dtype` has in memory.
macro_rules! typed {
    ($self:expr, $dtype:expr, $method:ident ( $($arg:expr),* )) => {
        match $dtype {
            DType::F32 | DType::I32 | DType::U32 => $self.$method::<u32>($($arg),*),
            DType::F16 => $self.$method::<f16>($($arg),*),
            DType::U8 | DType::Bool => $self.$method::<u8>($($arg),*),
        }
    };
}

/// Reads the elements of a list; every offset from `source`, and `inside`, must be that of an element.
struct ReadList<'a, T> {
    source: *const T,
    list: &'a [i32],
    /// What is read, and thrown away, for a hole; `None` if there are no holes.
    inside: Option<i32>,
    words: &'a mut [u32],
}

impl<T: Stored> WithSimd for ReadList<'_, T> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let Self { source, list, inside, words } = self;
        let list = &list[..words.len().min(list.len())];
        let words = &mut words[..list.len()];
        // SAFETY: whoever made this checked the reach, within which all offsets lie.
        let at = |offset: i32| unsafe { source.wrapping_offset(offset as isize).read() };
        match inside {
            None => T::load_each(words, |number| at(list[number])),
            Some(inside) => T::load_each(words, |number| {
                let hole = list[number] == HOLE;
                let element = at(if hole { inside } else { list[number] });
                if hole { T::zeroed() } else { element }
            }),
        }
    }
}

impl Offsets {
    /// Makes them those of the elements `indices` from `base`; false, and then there are none, if they are too far off.
    pub(super) fn set(&mut self, indices: &[i64], base: i64) -> bool {
        // Room for any from the first time on: lists take each other's places, and would grow for long.
        self.list.clear();
        self.list.reserve_exact(STRIP);
        self.runs.clear();
        self.runs.reserve_exact(STRIP / WORTH_A_RUN + 1);
        self.reach = None;
        let (mut low, mut high, mut elements) = (i64::MAX, i64::MIN, 0);
        for &index in indices.iter().filter(|&&index| index != NOWHERE) {
            (low, high) = (low.min(index - base), high.max(index - base));
            elements += 1;
        }
        self.holes = elements < indices.len();
        if elements > 0 {
            if low <= i64::from(HOLE) || high > i64::from(i32::MAX) {
                return false;
            }
            self.reach = Some((low as i32, high as i32));
        }
        self.list.extend(indices.iter().map(|&index| if index == NOWHERE { HOLE } else { (index - base) as i32 }));
        for (at, &offset) in self.list.iter().enumerate().filter(|&(_, &offset)| offset != HOLE) {
            if let Some(run) = self.runs.last_mut()
                && run.at + run.count == at
            {
                let step = offset - self.list[at - 1];
                if run.count == 1 && step == 0 {
                    run.same = true;
                }
                if step == i32::from(!run.same) {
                    run.count += 1;
                    continue;
                }
            }
            // short ones are not worth it, nor the memory of a list of them
            if (self.runs.len() + 1) * WORTH_A_RUN > elements {
                self.runs.clear();
                break;
            }
            self.runs.push(Run { at, offset, count: 1, same: false });
        }
        true
    }

    /// Reads the elements counted from `base`; 0 where there is none.
    pub(super) fn read(&self, arch: Arch, view: &View, dtype: DType, base: i64, words: &mut [u32]) {
        let words = &mut words[..self.list.len()];
        let Some(reach) = self.reach else { return words.fill(0) };
        if self.runs.is_empty() {
            typed!(self, dtype, read_list(arch, view, base, reach, words));
        } else {
            typed!(self, dtype, read_runs(view, base, reach, words));
        }
    }

    fn read_list<T: Stored>(&self, arch: Arch, view: &View, base: i64, reach: (i32, i32), words: &mut [u32]) {
        let source = view.checked_reach::<T>(base, reach).wrapping_offset(base as isize);
        arch.dispatch(ReadList { source, list: &self.list, inside: self.holes.then_some(reach.0), words });
    }

    fn read_runs<T: Stored>(&self, view: &View, base: i64, reach: (i32, i32), words: &mut [u32]) {
        if self.holes {
            words.fill(0);
        }
        let source = view.checked_reach::<T>(base, reach);
        for run in &self.runs {
            // SAFETY: all of the run's elements lie within the reach, all of which was checked.
            let source = unsafe { source.offset((base + i64::from(run.offset)) as isize) };
            let words = &mut words[run.at..run.at + run.count];
            if run.same {
                // SAFETY: as above.
                words.fill(unsafe { source.read() }.load());
                continue;
            }
            if size_of::<T>() != size_of::<u32>() {
                // SAFETY: as above.
                unsafe { T::load_run(source, words) };
                continue;
            }
            // Eight at a time, the last ones perhaps twice: most runs are too short for a call of `memcpy`.
            let eight = |from: usize| {
                // SAFETY: as above; whoever calls leaves eight elements from there on.
                std::array::from_fn::<u32, 8, _>(|i| unsafe { source.add(from + i).read() }.load())
            };
            let len = words.len();
            let (eights, rest) = words.as_chunks_mut::<8>();
            for (number, target) in eights.iter_mut().enumerate() {
                *target = eight(8 * number);
            }
            if len >= 8 {
                words[len - 8..].copy_from_slice(&eight(len - 8));
            } else {
                for (i, word) in rest.iter_mut().enumerate() {
                    // SAFETY: as above.
                    *word = unsafe { source.add(i).read() }.load();
                }
            }
        }
    }

    /// Writes the elements counted from `base`; points without one are left out.
    pub(super) fn write(&self, view: &View, dtype: DType, base: i64, words: &[u32]) {
        let Some(reach) = self.reach else { return };
        debug_assert!(self.runs.iter().all(|run| !run.same), "points write different elements");
        if self.runs.is_empty() {
            typed!(self, dtype, write_list(view, base, reach, words));
        } else {
            typed!(self, dtype, write_runs(view, base, reach, words));
        }
    }

    fn write_runs<T: Stored>(&self, view: &View, base: i64, reach: (i32, i32), words: &[u32]) {
        let target = view.checked_reach::<T>(base, reach);
        for run in &self.runs {
            // SAFETY: all of the run's elements lie within the reach, all of which was checked.
            unsafe {
                let target = target.offset((base + i64::from(run.offset)) as isize);
                T::store_run(target, &words[run.at..run.at + run.count]);
            }
        }
    }

    fn write_list<T: Stored>(&self, view: &View, base: i64, reach: (i32, i32), words: &[u32]) {
        let target = view.checked_reach::<T>(base, reach);
        let count = words.len().min(self.list.len());
        T::store_each(&words[..count], |number, element| {
            let offset = self.list[number];
            if offset != HOLE {
                // SAFETY: the offset lies within the reach, all of which was checked.
                unsafe { target.offset((base + i64::from(offset)) as isize).write(element) };
            }
        });
    }
}
