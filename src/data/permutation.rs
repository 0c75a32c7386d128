//! A shuffle of any length in constant memory.

/// Rounds of the Feistel network; four suffice for cryptographers with ideal rounds, small domains want more.
const ROUNDS: usize = 8;

/// A pseudo-random permutation of `0..len`, fixed by a key, computed point by point.
///
/// A Feistel network permutes the smallest `4^k >= len`; a result outside `0..len` is permuted again until it falls
/// inside (cycle walking), which takes under four rounds on average and keeps the map a bijection. Nothing is stored
/// but the round keys, so shuffling a billion samples costs no list.
#[derive(Clone, Debug)]
pub struct Permutation {
    len: u64,
    half_bits: u32,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// The permutation of `0..len` for `key`, such as `[seed, epoch]`.
    pub fn new(len: usize, key: &[u64]) -> Self {
        let len = len as u64;
        let bits = u64::BITS - len.saturating_sub(1).leading_zeros();
        let state = hash(key);
        let keys = std::array::from_fn(|round| hash(&[state, round as u64]));
        Self { len, half_bits: bits.div_ceil(2).max(1), keys }
    }

    /// Where position `index` goes.
    ///
    /// # Panics
    /// If `index` is not below the length.
    #[track_caller]
    pub fn get(&self, index: usize) -> usize {
        let mut value = index as u64;
        assert!(value < self.len, "position {index} of a permutation of {}", self.len);
        loop {
            value = self.network(value);
            if value < self.len {
                return value as usize;
            }
        }
    }

    fn network(&self, value: u64) -> u64 {
        let mask = (1_u64 << self.half_bits) - 1;
        let (mut left, mut right) = (value >> self.half_bits, value & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (mix(right ^ key) & mask));
        }
        left << self.half_bits | right
    }
}

/// 64 bits that depend on every bit of every word: the key of a random decision.
pub(crate) fn hash(words: &[u64]) -> u64 {
    words.iter().fold(0x6272_6173_6121_0001, |state, &word| mix(state.wrapping_add(mix(word))))
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood, 2014), with its increment so that 0 does not map to 0.
pub(crate) fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_a_bijection() {
        for len in (1..70).chain([255, 256, 257, 1437, 4096, 4097]) {
            let permutation = Permutation::new(len, &[7, 3]);
            let mut seen = vec![false; len];
            for index in 0..len {
                let target = permutation.get(index);
                assert!(!std::mem::replace(&mut seen[target], true), "{target} twice in a permutation of {len}");
            }
        }
    }

    #[test]
    fn the_key_decides() {
        let order = |key: &[u64]| {
            let permutation = Permutation::new(1000, key);
            (0..1000).map(|i| permutation.get(i)).collect::<Vec<_>>()
        };
        assert_eq!(order(&[1, 0]), order(&[1, 0]));
        assert_ne!(order(&[1, 0]), order(&[1, 1]));
        assert_ne!(order(&[1, 0]), order(&[2, 0]));
        assert_ne!(order(&[0, 1]), order(&[1, 0]));
    }

    /// Each element should reach each position about equally often; the largest deviation of a fair shuffle is bounded.
    #[test]
    fn positions_are_uniform() {
        const LEN: usize = 10;
        const TRIALS: u64 = 20_000;
        let mut counts = [[0_u32; LEN]; LEN];
        for key in 0..TRIALS {
            let permutation = Permutation::new(LEN, &[key]);
            for (index, row) in counts.iter_mut().enumerate() {
                row[permutation.get(index)] += 1;
            }
        }
        let expected = TRIALS as f64 / LEN as f64;
        // Six standard deviations of a binomial count; 100 cells never reach it by chance.
        let bound = 6.0 * (expected * (1.0 - 1.0 / LEN as f64)).sqrt();
        for count in counts.into_iter().flatten() {
            assert!((f64::from(count) - expected).abs() < bound, "{count} instead of about {expected}");
        }
    }
}
