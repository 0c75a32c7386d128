//! A hash that is the same in every build and on every machine, for what is to stay as it is.

/// FNV-1a (Fowler, Noll, Vo) in 64 bits.
pub(crate) fn fnv_1a(bytes: impl IntoIterator<Item = u8>) -> u64 {
    let join = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, join)
}

#[cfg(test)]
mod tests {
    use super::fnv_1a;

    /// From the test vectors of the hash's authors.
    #[test]
    fn it_is_theirs() {
        assert_eq!(fnv_1a([]), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv_1a(*b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv_1a(*b"foobar"), 0x8594_4171_f739_67e8);
    }
}
