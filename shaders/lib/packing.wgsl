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

fn half_of_word(word: u32, index: u32) -> f32 {
    return half_value((word >> ((index & 1u) * 16u)) & 65535u);
}

fn halves_of_words(low: u32, high: u32) -> vec4f {
    return vec4f(half_value(low & 65535u), half_value(low >> 16u), half_value(high & 65535u), half_value(high >> 16u));
}

fn word_of_halves(a: f32, b: f32) -> u32 {
    return half_bits(a) | (half_bits(b) << 16u);
}
