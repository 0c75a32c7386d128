//! Counter-based random bits: Philox 4x32-10.

use crate::graph::Node;

/// Four words of random bits for a counter and a key.
pub fn philox(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let [mut a, mut b, mut c, mut d] = counter;
    let [mut k0, mut k1] = key;
    for _ in 0..10 {
        let first = u64::from(a) * 0xD251_1F53;
        let second = u64::from(c) * 0xCD9E_8D57;
        [a, b, c, d] = [(second >> 32) as u32 ^ b ^ k0, second as u32, (first >> 32) as u32 ^ d ^ k1, first as u32];
        k0 = k0.wrapping_add(0x9E37_79B9);
        k1 = k1.wrapping_add(0xBB67_AE85);
    }
    [a, b, c, d]
}

/// The bits of element `element` of draw `stream`.
pub fn bits(element: u32, stream: u32, seed: u32, position: u32) -> u32 {
    philox([element / 4, stream, position, 0], [seed, 0])[(element % 4) as usize]
}

pub(super) fn reference(stream: u32, node: &Node, inputs: &[&[f64]]) -> Vec<f64> {
    let (seed, position) = (inputs[0][0] as u32, inputs[1][0] as u32);
    (0..node.shape.numel() as u32).map(|element| f64::from(bits(element, stream, seed, position))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers published with the generator (Salmon et al. 2011, kat_vectors).
    #[test]
    fn philox_gives_the_known_answers() {
        assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox([u32::MAX; 4], [u32::MAX; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        assert_eq!(
            philox([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }
}
