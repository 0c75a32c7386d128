// Conversions as Rust's `as`: floats to integers truncate and saturate, NaN becomes 0; narrowing integers wrap.

fn float_to_int(x: f32) -> i32 {
    if ((bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u) {
        return 0;
    }
    if (x >= 2147483648.0) {
        return 2147483647;
    }
    if (x < -2147483648.0) {
        return i32(-2147483648);
    }
    return i32(x);
}

fn float_to_uint(x: f32) -> u32 {
    if ((bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u || x <= 0.0) {
        return 0u;
    }
    if (x >= 4294967296.0) {
        return 4294967295u;
    }
    return u32(x);
}

fn float_to_byte(x: f32) -> u32 {
    return min(float_to_uint(x), 255u);
}

// True for everything but the two zeros, NaN and subnormal numbers included.
fn float_to_bool(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) != 0u;
}

// The 16 bits of x rounded to half precision, ties to even; too large becomes infinity.
fn half_bits(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    let sign = (bits >> 16u) & 0x8000u;
    let magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return sign | 0x7e00u;
    }
    if (magnitude >= 0x477ff000u) {
        return sign | 0x7c00u;
    }
    if (magnitude >= 0x38800000u) {
        return sign | ((magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13u) & 1u)) >> 13u);
    }
    if (magnitude < 0x33000000u) {
        return sign;
    }
    // Subnormal: shift the mantissa with its leading one into place, rounding to even.
    let mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    let shift = 126u - (magnitude >> 23u);
    let kept = mantissa >> shift;
    let rest = mantissa & ((1u << shift) - 1u);
    let half = 1u << (shift - 1u);
    let up = rest > half || (rest == half && (kept & 1u) == 1u);
    return sign | (kept + select(0u, 1u, up));
}

// The value of 16 bits of half precision.
fn half_value(half: u32) -> f32 {
    let sign = (half & 0x8000u) << 16u;
    let exponent = (half >> 10u) & 31u;
    let mantissa = half & 0x3ffu;
    if (exponent == 0u) {
        let value = f32(mantissa) * 0.000000059604644775390625;
        return bitcast<f32>(bitcast<u32>(value) | sign);
    }
    let exponent_bits = select(exponent + 112u, 255u, exponent == 31u) << 23u;
    return bitcast<f32>(sign | exponent_bits | (mantissa << 13u));
}

fn round_to_half(x: f32) -> f32 {
    return half_value(half_bits(x));
}

// Two halves in a word, the first one in the lower bits.
fn half_of_word(word: u32, index: u32) -> f32 {
    return half_value((word >> ((index & 1u) * 16u)) & 65535u);
}

fn halves_of_words(low: u32, high: u32) -> vec4f {
    return vec4f(half_value(low & 65535u), half_value(low >> 16u), half_value(high & 65535u), half_value(high >> 16u));
}

fn word_of_halves(a: f32, b: f32) -> u32 {
    return half_bits(a) | (half_bits(b) << 16u);
}

// What rounding x to half precision left, times 2¹¹, so that it is a half of about the size of `high`, the rounded one.
fn low_term(x: vec4f, high: vec4f) -> vec4f {
    return (x - high) * 2048.0;
}

// Sums of products of high terms, and of a high and a low one, as one.
fn sum_of_terms(high: vec4f, low: vec4f) -> vec4f {
    return high + low * (1.0 / 2048.0);
}
