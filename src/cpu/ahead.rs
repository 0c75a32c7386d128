//! Memory that the next strip needs, fetched while this one computes.
//!
//! A strip that reads, computes and writes one after the other leaves the processor idle while memory answers, and memory
//! while the processor computes: processors fetch ahead by themselves, but not beyond a page, which is a strip. All at
//! once would be as bad, as there are buffers for a dozen cache lines only. So loops that compute for long ask for a few
//! lines with each chunk.

use smallvec::SmallVec;

/// Bytes of a cache line.
const LINE: usize = 64;
/// Lines asked for with a chunk: as many as it reads and writes itself if it reads one operand.
const WITH_A_CHUNK: usize = 8;

/// What is to be fetched.
#[derive(Default)]
pub(super) struct Ahead {
    /// Where it begins, and bytes.
    ranges: SmallVec<[(*const u8, usize); 8]>,
    /// The first of them that is not fetched yet.
    next: usize,
}

impl Ahead {
    /// Forgets what has not been fetched.
    pub(super) fn clear(&mut self) {
        self.ranges.clear();
        self.next = 0;
    }

    /// Adds so many bytes from an address on, where there may be nothing. What is added first is fetched first.
    pub(super) fn add(&mut self, range: (*const u8, usize)) {
        self.ranges.push(range);
    }

    /// Has the processor fetch some of it.
    #[inline(always)]
    pub(super) fn fetch_some(&mut self) {
        let Some((start, bytes)) = self.ranges.get_mut(self.next) else { return };
        let lines = bytes.div_ceil(LINE).min(WITH_A_CHUNK);
        for line in 0..lines {
            fetch(start.wrapping_add(line * LINE));
        }
        if *bytes <= lines * LINE {
            self.next += 1;
        } else {
            *start = start.wrapping_add(lines * LINE);
            *bytes -= lines * LINE;
        }
    }
}

/// Has the processor fetch the cache line of an address.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[expect(unsafe_code, reason = "an intrinsic")]
fn fetch(address: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a hint, allowed for any address; nothing is read.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
}

/// There is no stable intrinsic for it.
#[cfg(not(target_arch = "x86_64"))]
fn fetch(_: *const u8) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_fetched_in_time() {
        let words = [0u8; 100 * LINE];
        let mut ahead = Ahead::default();
        ahead.add((words.as_ptr(), words.len()));
        ahead.add((words.as_ptr(), 0));
        ahead.add((words.as_ptr(), 1));
        let fetches = std::iter::from_fn(|| (ahead.next < 3).then(|| ahead.fetch_some()));
        assert_eq!(fetches.count(), 100_usize.div_ceil(WITH_A_CHUNK) + 2);
        ahead.fetch_some();
    }
}
