// Philox 4x32-10 (Salmon et al. 2011): random bits as a function of a counter and a key.

// Upper 32 bits of a product, from 16-bit halves: WGSL has no wide multiplication.
fn multiply_high(a: u32, b: u32) -> u32 {
    let a0 = a & 65535u;
    let a1 = a >> 16u;
    let b0 = b & 65535u;
    let b1 = b >> 16u;
    let middle = a1 * b0 + ((a0 * b0) >> 16u);
    let other = a0 * b1 + (middle & 65535u);
    return a1 * b1 + (middle >> 16u) + (other >> 16u);
}

fn philox_round(counter: vec4u, key: vec2u) -> vec4u {
    let high0 = multiply_high(0xd2511f53u, counter.x);
    let high1 = multiply_high(0xcd9e8d57u, counter.z);
    return vec4u(high1 ^ counter.y ^ key.x, 0xcd9e8d57u * counter.z, high0 ^ counter.w ^ key.y, 0xd2511f53u * counter.x);
}

// Four words: counter (block, stream, position, 0), key (seed, 0); ten rounds, written out to cost no loop iterations.
fn philox(block: u32, stream: u32, position: u32, seed: u32) -> vec4u {
    let step = vec2u(0x9e3779b9u, 0xbb67ae85u);
    let key = vec2u(seed, 0u);
    var c = philox_round(vec4u(block, stream, position, 0u), key);
    c = philox_round(c, key + step);
    c = philox_round(c, key + step * 2u);
    c = philox_round(c, key + step * 3u);
    c = philox_round(c, key + step * 4u);
    c = philox_round(c, key + step * 5u);
    c = philox_round(c, key + step * 6u);
    c = philox_round(c, key + step * 7u);
    c = philox_round(c, key + step * 8u);
    return philox_round(c, key + step * 9u);
}

fn random_word(counter: u32, stream: u32, position: u32, seed: u32) -> u32 {
    let words = philox(counter >> 2u, stream, position, seed);
    let low = select(words.x, words.y, (counter & 1u) == 1u);
    let high = select(words.z, words.w, (counter & 1u) == 1u);
    return select(low, high, (counter & 2u) == 2u);
}
