//! Ways to damage a file.

/// SplitMix64 (Steele, Lea and Flood, 2014).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

/// A copy with one to three of: bytes changed, cut off, left out, doubled, put in, or numbers made extreme. Every other
/// change is within the first `head` bytes, where formats keep what decides.
pub(crate) fn damage(bytes: &[u8], head: usize, random: &mut Random) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=random.below(3) {
        let end = if random.below(2) == 0 { head.min(bytes.len()) } else { bytes.len() };
        let at = random.below(end);
        let length = (1 + random.below(8)).min(bytes.len() - at.min(bytes.len()));
        match random.below(8) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 if at < bytes.len() => bytes[at] = random.next() as u8,
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..at + length)),
            4 => {
                let again = bytes[at..at + length].to_vec();
                bytes.splice(at..at, again);
            }
            5 => {
                let new: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
                bytes.splice(at..at, new);
            }
            6 => bytes[at..at + length].fill(if random.below(2) == 0 { 0xff } else { 0 }),
            _ => {
                let extreme = [u32::MAX, i32::MAX as u32, 60_000, 30_000, 1, 0][random.below(6)];
                let extreme = if random.below(2) == 0 { extreme.to_be_bytes() } else { extreme.to_le_bytes() };
                let length = 4.min(bytes.len() - at);
                bytes[at..at + length].copy_from_slice(&extreme[..length]);
            }
        }
    }
    bytes
}
