//! Places buffers in memory slots: two buffers share a slot if they are never alive together.

/// When a buffer is alive, in kernel numbers (both ends included), and its size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Life {
    pub first: usize,
    pub last: usize,
    pub bytes: u64,
}

impl Life {
    fn overlaps(&self, other: &Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// The sizes of the slots, and the slot of each buffer.
///
/// Best fit, largest buffer first; among equals the longest-lived first, and as a second attempt in order of birth. The
/// attempt that needs less memory wins.
pub(super) fn place(lives: &[Life]) -> (Vec<u64>, Vec<usize>) {
    let mut by_size: Vec<usize> = (0..lives.len()).collect();
    by_size.sort_by_key(|&n| (std::cmp::Reverse(lives[n].bytes), std::cmp::Reverse(lives[n].last - lives[n].first), n));
    let mut by_birth: Vec<usize> = (0..lives.len()).collect();
    by_birth.sort_by_key(|&n| (lives[n].first, std::cmp::Reverse(lives[n].bytes), n));
    let mut by_length = by_size.clone();
    by_length.sort_by_key(|&n| (std::cmp::Reverse(lives[n].bytes), lives[n].first, n));
    [by_size, by_birth, by_length]
        .into_iter()
        .map(|order| best_fit(lives, &order))
        .min_by_key(|(slots, _)| slots.iter().sum::<u64>())
        .expect("three attempts")
}

fn best_fit(lives: &[Life], order: &[usize]) -> (Vec<u64>, Vec<usize>) {
    let mut slots: Vec<u64> = Vec::new();
    let mut tenants: Vec<Vec<usize>> = Vec::new();
    let mut place = vec![0; lives.len()];
    for &number in order {
        let life = &lives[number];
        let free = (0..slots.len()).filter(|&slot| tenants[slot].iter().all(|&other| !lives[other].overlaps(life)));
        // the smallest that is large enough, else the largest, which then grows
        let slot = free.min_by_key(|&slot| {
            let size = slots[slot];
            if size >= life.bytes { (0, size - life.bytes) } else { (1, life.bytes - size) }
        });
        let slot = slot.unwrap_or_else(|| {
            slots.push(0);
            tenants.push(Vec::new());
            slots.len() - 1
        });
        slots[slot] = slots[slot].max(life.bytes);
        tenants[slot].push(number);
        place[number] = slot;
    }
    (slots, place)
}

/// Bytes of the largest set of buffers alive at once.
pub(super) fn live_peak(lives: &[Life]) -> u64 {
    let mut events: Vec<(usize, bool, u64)> = Vec::new();
    for life in lives {
        events.push((life.first, false, life.bytes));
        events.push((life.last + 1, true, life.bytes));
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

    proptest! {
        #[test]
        fn buffers_alive_together_never_share_a_slot(
            raw in prop::collection::vec((0usize..30, 0usize..8, 1u64..1000), 1..60)
        ) {
            let lives: Vec<Life> =
                raw.iter().map(|&(first, length, bytes)| Life { first, last: first + length, bytes }).collect();
            let (slots, places) = place(&lives);
            for (a, first) in lives.iter().enumerate() {
                prop_assert!(slots[places[a]] >= first.bytes);
                for (b, second) in lives.iter().enumerate().skip(a + 1) {
                    prop_assert!(places[a] != places[b] || !first.overlaps(second));
                }
            }
            prop_assert!(slots.iter().sum::<u64>() >= live_peak(&lives));
        }
    }
}
