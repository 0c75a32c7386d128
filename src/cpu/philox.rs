//! Philox 4x32-10 (Salmon et al., 2011): counter-based random bits, the same on every device.

use pulp::{Arch, Simd, WithSimd};

/// Blocks computed side by side, one per vector lane.
const LANES: usize = 16;

/// The four words of `LANES` consecutive blocks, the first of them number `block`: `[word][lane]`.
#[inline(always)]
fn blocks(block: u32, stream: u32, position: u32, seed: u32) -> [[u32; LANES]; 4] {
    // In the low halves of words of 64 bits, as vector units multiply those.
    let mut c = [[0; LANES], [u64::from(stream); LANES], [u64::from(position); LANES], [0; LANES]];
    for (lane, word) in c[0].iter_mut().enumerate() {
        *word = u64::from(block.wrapping_add(lane as u32));
    }
    let mut key = [seed, 0];
    for _ in 0..10 {
        let (k0, k1) = (u64::from(key[0]), u64::from(key[1]));
        let mut next = [[0; LANES]; 4];
        for lane in 0..LANES {
            let a = u64::from(c[0][lane] as u32) * 0xD251_1F53;
            let b = u64::from(c[2][lane] as u32) * 0xCD9E_8D57;
            next[0][lane] = (b >> 32) ^ c[1][lane] ^ k0;
            next[1][lane] = b;
            next[2][lane] = (a >> 32) ^ c[3][lane] ^ k1;
            next[3][lane] = a;
        }
        c = next;
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    let mut words = [[0; LANES]; 4];
    for (words, bits) in words.iter_mut().zip(c) {
        for (word, bits) in words.iter_mut().zip(bits) {
            *word = bits as u32;
        }
    }
    words
}

/// 32 bits for each of consecutive counters from `counter` on. Counters below 0 belong to elements outside of a padded
/// view, whose bits nobody looks at.
pub(super) fn fill_run(arch: Arch, counter: i64, stream: u32, position: u32, seed: u32, target: &mut [u32]) {
    arch.dispatch(Run { counter, stream, position, seed, target });
}

struct Run<'a> {
    counter: i64,
    stream: u32,
    position: u32,
    seed: u32,
    target: &'a mut [u32],
}

impl WithSimd for Run<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let Self { counter, stream, position, seed, target } = self;
        run(counter, stream, position, seed, target);
    }
}

#[inline(always)]
fn run(counter: i64, stream: u32, position: u32, seed: u32, target: &mut [u32]) {
    let mut skip = counter.rem_euclid(4) as usize;
    let mut block = counter.div_euclid(4) as u32;
    let mut rest = target;
    while !rest.is_empty() {
        let [a, b, c, d] = blocks(block, stream, position, seed);
        let mut in_order = [[0; 4]; LANES];
        for lane in 0..LANES {
            in_order[lane] = [a[lane], b[lane], c[lane], d[lane]];
        }
        let count = rest.len().min(4 * LANES - skip);
        let (now, later) = rest.split_at_mut(count);
        now.copy_from_slice(&in_order.as_flattened()[skip..skip + count]);
        rest = later;
        skip = 0;
        block = block.wrapping_add(LANES as u32);
    }
}

/// 32 bits for each of any counters.
pub(super) fn fill_at(counters: &[i64], stream: u32, position: u32, seed: u32, target: &mut [u32]) {
    let mut known: Option<(i64, [[u32; LANES]; 4])> = None;
    for (value, &counter) in target.iter_mut().zip(counters) {
        let (block, word) = (counter.div_euclid(4), counter.rem_euclid(4));
        let first = block.div_euclid(LANES as i64);
        let words = match &known {
            Some((number, words)) if *number == first => words,
            _ => &known.insert((first, blocks((first * LANES as i64) as u32, stream, position, seed))).1,
        };
        *value = words[word as usize][block.rem_euclid(LANES as i64) as usize];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers_of_the_papers_code() {
        let mut zero = [0; 4];
        fill_run(Arch::new(), 0, 0, 0, 0, &mut zero);
        assert_eq!(zero, [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
    }

    #[test]
    fn runs_agree_with_single_counters() {
        let mut run = [0; 333];
        fill_run(Arch::new(), 6, 3, 9, 77, &mut run);
        let counters: Vec<i64> = (6..339).rev().collect();
        let mut single = [0; 333];
        fill_at(&counters, 3, 9, 77, &mut single);
        single.reverse();
        assert_eq!(run, single);
    }

    #[test]
    fn counters_below_zero_lead_up_to_it() {
        let (mut run, mut from_zero, mut single) = ([0; 133], [0; 100], [0; 133]);
        fill_run(Arch::new(), -33, 3, 9, 77, &mut run);
        fill_run(Arch::new(), 0, 3, 9, 77, &mut from_zero);
        assert_eq!(run[33..], from_zero);
        fill_at(&(-33..100).collect::<Vec<i64>>(), 3, 9, 77, &mut single);
        assert_eq!(run, single);
    }
}
