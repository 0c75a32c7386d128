// Small elements in u32 words, the first one in the lowest bits.

fn byte_of_word(word: u32, index: u32) -> u32 {
    return (word >> ((index & 3u) * 8u)) & 255u;
}

fn bytes_of_word(word: u32) -> vec4u {
    return (vec4u(word) >> vec4u(0u, 8u, 16u, 24u)) & vec4u(255u);
}

fn word_of_bytes(bytes: vec4u) -> u32 {
    let b = bytes & vec4u(255u);
    return b.x | (b.y << 8u) | (b.z << 16u) | (b.w << 24u);
}
