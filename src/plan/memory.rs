//! Places buffers in memory slots: two buffers have the same bytes only if they are never alive together.

use std::cmp::Reverse;
use std::ops::Range;

/// Where a buffer may start in its slot: where a kernel can bind it.
const ALIGNMENT: u64 = crate::custom::ALIGNMENT as u64;

/// When a buffer is alive, how large it is, and what else its place depends on.
#[derive(Clone, Debug, Default)]
pub(super) struct Life {
    /// The kernels that touch it first and last.
    pub first: usize,
    pub last: usize,
    pub bytes: u64,
    /// The buffers that must not lie in its slot.
    pub conflicts: Vec<usize>,
    /// Parts that are alive at times of their own, such as those of a vector that many kernels write; none: all of it
    /// is alive all the time.
    pub parts: Vec<Part>,
}

/// Bytes of a buffer or a slot, and the first and the last kernel in whose time they are in use.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub first: usize,
    pub last: usize,
    pub bytes: Range<u64>,
}

impl Life {
    /// What of a slot it has that it starts at byte `offset` of.
    fn parts(&self, offset: u64) -> Vec<Part> {
        let whole = || vec![Part { first: self.first, last: self.last, bytes: 0..self.bytes }];
        let mut parts = if self.parts.is_empty() { whole() } else { self.parts.clone() };
        for Part { bytes, .. } in &mut parts {
            *bytes = offset + bytes.start..offset + bytes.end;
        }
        parts
    }

    fn meets(&self, part: &Part) -> bool {
        self.first <= part.last && part.first <= self.last
    }
}

/// The slots, and where each buffer lies in them.
#[derive(Debug)]
pub(super) struct Placement {
    /// Bytes of each slot.
    pub slots: Vec<u64>,
    /// For each buffer the number of its slot, and its first byte there.
    pub places: Vec<(usize, u64)>,
}

#[derive(Debug, Default)]
struct Slot {
    bytes: u64,
    /// What is in use, by where it starts.
    parts: Vec<Part>,
}

/// The time of a plan in at most 64 spans of as many kernels each.
#[derive(Clone, Copy)]
struct Spans {
    length: usize,
}

impl Spans {
    fn of(lives: &[Life]) -> Self {
        let ends = lives.iter().flat_map(|life| life.parts.iter().map(|part| part.last).chain([life.last]));
        Self { length: ends.max().unwrap_or(0) / 64 + 1 }
    }

    /// Those that have a kernel of `first..=last`.
    fn touched(self, first: usize, last: usize) -> Range<usize> {
        first / self.length..last / self.length + 1
    }

    /// Those that have no kernel outside of `first..=last`.
    fn within(self, first: usize, last: usize) -> Range<usize> {
        first.div_ceil(self.length)..(last + 1) / self.length
    }
}

/// For each span the slots in which there is room at some time of it, as bits: by these, most slots of a deep network
/// are passed over, 64 at a time.
struct Open([Vec<u64>; 64]);

impl Open {
    fn new() -> Self {
        Self(std::array::from_fn(|_| Vec::new()))
    }

    /// Notes the next slot, which is empty.
    fn push(&mut self, slot: usize) {
        for words in &mut self.0 {
            words.resize(slot / 64 + 1, 0);
            words[slot / 64] |= 1 << (slot % 64);
        }
    }

    /// Notes that one part leaves no room in a slot throughout these spans.
    fn close(&mut self, slot: usize, spans: Range<usize>) {
        for words in self.0.get_mut(spans).unwrap_or_default() {
            words[slot / 64] &= !(1 << (slot % 64));
        }
    }

    /// The slots that none of these spans is closed in, in their order.
    fn through(&self, spans: Range<usize>) -> impl Iterator<Item = usize> {
        // most of what lives long is needed at the same time, half-way between forward and backward
        let (before, after) = self.0[spans.clone()].split_at(spans.len() / 2);
        let words = (0..self.0[0].len()).map(move |word| {
            let each = after.iter().chain(before).map(|slots| slots[word]);
            let mut all = u64::MAX;
            for slots in each {
                all &= slots;
                if all == 0 {
                    break;
                }
            }
            (word, all)
        });
        words.flat_map(|(word, mut slots)| {
            std::iter::from_fn(move || {
                let first = (slots != 0).then(|| slots.trailing_zeros() as usize)?;
                slots &= slots - 1;
                Some(word * 64 + first)
            })
        })
    }
}

/// A place for each buffer.
///
/// Best fit, in several attempts, of which the one that needs the least memory wins: largest buffer first, among equals
/// the longest-lived, the one born first or the one that dies last, in slots that are divided and in slots that are
/// not; and in order of birth, in slots that are not divided but grow. So no slot is larger than the largest buffer
/// that lies in it. What has parts is the first one in a slot.
pub(super) fn place(lives: &[Life]) -> Placement {
    type Key = (Reverse<u64>, Reverse<usize>, usize);
    let sorted = |key: fn(&Life) -> Key| {
        let mut order: Vec<usize> = (0..lives.len()).collect();
        order.sort_by_key(|&n| key(&lives[n]));
        order
    };
    let by_length = sorted(|life| (Reverse(life.bytes), Reverse(life.last - life.first), 0));
    let by_birth = sorted(|life| (Reverse(life.bytes), Reverse(0), life.first));
    let by_death = sorted(|life| (Reverse(life.bytes), Reverse(life.last), 0));
    let mut born: Vec<usize> = (0..lives.len()).collect();
    born.sort_by_key(|&n| (lives[n].first, Reverse(lives[n].bytes)));
    let spans = Spans::of(lives);
    let divided = [&by_length, &by_birth, &by_death].map(|order| (order, true));
    let whole = [&by_length, &by_birth, &born].map(|order| (order, false));
    let attempts = divided.into_iter().chain(whole).map(|(order, divided)| best_fit(lives, order, divided, spans));
    attempts.min_by_key(|attempt| attempt.slots.iter().sum::<u64>()).expect("six attempts")
}

/// Each buffer in turn goes where the least is left over.
fn best_fit(lives: &[Life], order: &[usize], divided: bool, spans: Spans) -> Placement {
    let mut slots: Vec<Slot> = Vec::new();
    let mut open = Open::new();
    let mut places: Vec<Option<(usize, u64)>> = vec![None; lives.len()];
    // for each slot the last buffer that may not lie in it
    let mut refused: Vec<usize> = Vec::new();
    for &number in order {
        let life = &lives[number];
        for (slot, _) in life.conflicts.iter().filter_map(|&other| places[other]) {
            refused[slot] = number;
        }
        let mut best: Option<(Rest, usize, u64)> = None;
        for slot in open.through(spans.touched(life.first, life.last)).filter(|_| life.parts.is_empty()) {
            if refused[slot] == number {
                continue;
            }
            let free = if divided { slots[slot].gap(life) } else { slots[slot].whole(life) };
            if let Some((rest, offset)) = free
                && best.is_none_or(|(least, ..)| rest < least)
            {
                best = Some((rest, slot, offset));
                if rest == (false, 0) {
                    break;
                }
            }
        }
        let (slot, offset) = best.map_or((slots.len(), 0), |(_, slot, offset)| (slot, offset));
        if slot == slots.len() {
            open.push(slot);
            slots.push(Slot::default());
            refused.push(usize::MAX);
        }
        slots[slot].add(life, offset);
        for part in life.parts(offset) {
            // one that is divided does not grow
            if !divided || part.bytes == (0..slots[slot].bytes) {
                open.close(slot, spans.within(part.first, part.last));
            }
        }
        places[number] = Some((slot, offset));
    }
    let places = places.into_iter().map(|place| place.expect("each buffer had its turn")).collect();
    Placement { slots: slots.into_iter().map(|slot| slot.bytes).collect(), places }
}

/// What would be left over or, which is worse than all of that, lacking.
type Rest = (bool, u64);

impl Slot {
    /// The smallest part in which there is room for `life` and nobody else in its time, and where it starts.
    fn gap(&self, life: &Life) -> Option<(Rest, u64)> {
        let mut best: Option<(Rest, u64)> = None;
        let mut start = 0u64;
        let mut consider = |start: u64, end: u64| {
            if let Some(rest) = end.checked_sub(start + life.bytes)
                && best.is_none_or(|((_, least), _)| rest < least)
            {
                best = Some(((false, rest), start));
            }
        };
        for part in self.parts.iter().filter(|part| life.meets(part)) {
            consider(start, part.bytes.start);
            start = start.max(part.bytes.end.next_multiple_of(ALIGNMENT));
        }
        consider(start, self.bytes);
        best
    }

    /// All of it, if nobody else is there in the time of `life`.
    fn whole(&self, life: &Life) -> Option<(Rest, u64)> {
        let free = !self.parts.iter().any(|part| life.meets(part));
        free.then_some(((life.bytes > self.bytes, life.bytes.abs_diff(self.bytes)), 0))
    }

    fn add(&mut self, life: &Life, offset: u64) {
        self.bytes = self.bytes.max(offset + life.bytes);
        for part in life.parts(offset) {
            let position = self.parts.partition_point(|other| other.bytes.start <= part.bytes.start);
            self.parts.insert(position, part);
        }
    }
}

/// Bytes of the largest set of buffers alive at once.
pub(super) fn live_peak(lives: &[Life]) -> u64 {
    let mut events: Vec<(usize, bool, u64)> = Vec::new();
    for Part { first, last, bytes } in lives.iter().flat_map(|life| life.parts(0)) {
        events.push((first, false, bytes.end - bytes.start));
        events.push((last + 1, true, bytes.end - bytes.start));
    }
    // at one moment, deaths come before births
    events.sort_by_key(|&(time, death, _)| (time, !death));
    let (mut alive, mut peak) = (0u64, 0u64);
    for (_, death, bytes) in events {
        if death {
            alive -= bytes;
        } else {
            alive += bytes;
            peak = peak.max(alive);
        }
    }
    peak
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::sample::Index;

    fn life(first: usize, last: usize, bytes: u64) -> Life {
        Life { first, last, bytes, ..Life::default() }
    }

    fn conflict(lives: &mut [Life], a: usize, b: usize) {
        lives[a].conflicts.push(b);
        lives[b].conflicts.push(a);
    }

    /// Buffers of sizes that fill slots and such that leave gaps in them; some conflict, some have a part that is used
    /// later than the first one, and one that is in use forever.
    fn lives() -> impl Strategy<Value = Vec<Life>> {
        let bytes = prop_oneof![(1u64..40).prop_map(|n| n * ALIGNMENT), (1u64..600).prop_map(|n| n * 16)];
        let one = (0usize..30, 0usize..20, bytes).prop_map(|(first, length, bytes)| life(first, first + length, bytes));
        let pairs = prop::collection::vec((any::<Index>(), any::<Index>()), 0..40);
        let parted = prop::collection::vec((any::<Index>(), any::<[Index; 3]>()), 0..4);
        (prop::collection::vec(one, 1..300), pairs, parted).prop_map(|(mut lives, pairs, parted)| {
            for (a, b) in pairs {
                let (a, b) = (a.index(lives.len()), b.index(lives.len()));
                // as in plans: one kernel touches both
                if a != b && lives[a].first <= lives[b].last && lives[b].first <= lives[a].last {
                    conflict(&mut lives, a, b);
                }
            }
            for (number, [one, other, later]) in parted {
                let number = number.index(lives.len());
                let Life { first, last, bytes, .. } = lives[number];
                let [one, other] = [one, other].map(|index| index.index(bytes as usize / 4) as u64 * 4);
                let (low, high, later) = (one.min(other), one.max(other), first + later.index(last - first + 1));
                let part = |first, last, bytes| Part { first, last, bytes };
                lives[number].parts =
                    vec![part(first, last, 0..low), part(later, last, low..high), part(0, 99, high..bytes)];
            }
            lives
        })
    }

    fn meet(a: &Part, b: &Part) -> bool {
        let in_time = a.first <= b.last && b.first <= a.last;
        in_time && a.bytes.start < b.bytes.end && b.bytes.start < a.bytes.end
    }

    proptest! {
        #[test]
        fn no_two_buffers_have_the_same_bytes_at_a_time(lives in lives()) {
            let orders = [(0..lives.len()).collect::<Vec<_>>(), (0..lives.len()).rev().collect()];
            let attempts = orders.iter().flat_map(|order| [true, false].map(|divided| (order, divided)));
            let attempts = attempts.map(|(order, divided)| {
                let fit = |spans| best_fit(&lives, order, divided, spans);
                // none of one span is ever full
                let (placed, unskipped) = (fit(Spans::of(&lives)), fit(Spans { length: usize::MAX }));
                assert_eq!((&placed.slots, &placed.places), (&unskipped.slots, &unskipped.places));
                placed
            });
            for Placement { slots, places } in attempts.chain([place(&lives)]) {
                for (a, life) in lives.iter().enumerate() {
                    let (slot, offset) = places[a];
                    prop_assert!(offset.is_multiple_of(ALIGNMENT));
                    prop_assert!(offset + life.bytes <= slots[slot]);
                    for b in (0..a).filter(|&b| places[b].0 == slot) {
                        let (parts, others) = (life.parts(offset), lives[b].parts(places[b].1));
                        prop_assert!(!parts.iter().any(|part| others.iter().any(|other| meet(part, other))));
                        prop_assert!(!life.conflicts.contains(&b));
                    }
                }
                for (slot, &bytes) in slots.iter().enumerate() {
                    let tenants = lives.iter().zip(&places).filter(|(_, place)| place.0 == slot);
                    prop_assert_eq!(tenants.map(|(life, _)| life.bytes).max(), Some(bytes));
                }
                prop_assert!(slots.iter().sum::<u64>() >= live_peak(&lives));
            }
        }
    }

    #[test]
    fn slots_are_divided_among_those_that_do_not_conflict() {
        let mut lives = vec![life(0, 1, 4096), life(2, 3, 2048), life(3, 4, 1008), life(3, 4, 1024)];
        assert_eq!(place(&lives).slots, [4096]);
        conflict(&mut lives, 1, 2);
        let Placement { slots, places } = place(&lives);
        assert_eq!(slots.iter().sum::<u64>(), 4096 + 1008);
        assert_ne!(places[1].0, places[2].0);
    }

    #[test]
    fn what_a_buffer_does_not_use_yet_is_free() {
        // a vector that is written from kernel 2 on, the first half from kernel 5 on, with a gap at its end
        let mut lives = vec![life(2, 9, 4096), life(0, 4, 2048), life(0, 1, 1024), life(0, 1, 1024)];
        let part = |first, last, bytes| Part { first, last, bytes };
        lives[0].parts = vec![part(5, 9, 0..2048), part(2, 9, 2048..4088), part(0, 9, 4088..4096)];
        let Placement { slots, places } = place(&lives);
        assert_eq!(slots.iter().sum::<u64>(), 4096 + 1024, "one of the small ones would lie in the gap");
        assert_eq!(places[1], places[0]);
        assert_eq!(live_peak(&lives), 2048 + 2 * 1024 + 8);
    }
}
