// Scalar maths that WGSL lacks or leaves open. A function whose name ends in `_4` works on four values at once; for the
// others such a form is generated where it is needed. NaN is tested by bits: compilers may assume that it does not
// occur.

fn is_nan(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

fn is_nan_4(x: vec4f) -> vec4<bool> {
    return (bitcast<vec4u>(x) & vec4u(0x7fffffffu)) > vec4u(0x7f800000u);
}

// naga's SPIR-V has the ordered comparison for `!=`, which is false of NaN.
fn not_equal(a: f32, b: f32) -> bool {
    return !(a == b) || is_nan(a) || is_nan(b);
}

fn not_equal_4(a: vec4f, b: vec4f) -> vec4<bool> {
    return !(a == b) | is_nan_4(a) | is_nan_4(b);
}

fn is_finite(x: f32) -> bool {
    // not whether the exponent's bits are all set: LLVM knows that for a test, which is true of all numbers under fast
    // maths
    return (bitcast<u32>(x) & 0x7fffffffu) < 0x7f800000u;
}

fn is_finite_4(x: vec4f) -> vec4<bool> {
    return (bitcast<vec4u>(x) & vec4u(0x7fffffffu)) < vec4u(0x7f800000u);
}

// Larger one; NaN if either is.
fn maximum(a: f32, b: f32) -> f32 {
    return select(select(max(a, b), b, is_nan(b)), a, is_nan(a));
}

fn maximum_4(a: vec4f, b: vec4f) -> vec4f {
    return select(select(max(a, b), b, is_nan_4(b)), a, is_nan_4(a));
}

// Smaller one; NaN if either is.
fn minimum(a: f32, b: f32) -> f32 {
    return select(select(min(a, b), b, is_nan(b)), a, is_nan(a));
}

fn minimum_4(a: vec4f, b: vec4f) -> vec4f {
    return select(select(min(a, b), b, is_nan_4(b)), a, is_nan_4(a));
}

// -1, 0 or 1; NaN stays.
fn sign_float(x: f32) -> f32 {
    return select(sign(x), x, is_nan(x));
}

fn sign_uint(x: u32) -> u32 {
    return min(x, 1u);
}

fn negate_uint(x: u32) -> u32 {
    return 0u - x;
}

fn identity_uint(x: u32) -> u32 {
    return x;
}

fn reciprocal(x: f32) -> f32 {
    return 1.0 / x;
}

fn reciprocal_4(x: vec4f) -> vec4f {
    return 1.0 / x;
}

// Square root that keeps 0, infinity and NaN whatever the driver makes of them.
fn square_root(x: f32) -> f32 {
    return select(x, sqrt(x), (x != 0.0 && is_finite(x)) || x < 0.0);
}

fn square_root_4(x: vec4f) -> vec4f {
    return select(x, sqrt(x), ((x != vec4f()) & is_finite_4(x)) | (x < vec4f()));
}

// 1 / (1 + e^-x), without overflow.
fn sigmoid(x: f32) -> f32 {
    let e = exp(-abs(x));
    return select(e, 1.0, x >= 0.0) / (1.0 + e);
}

fn sigmoid_4(x: vec4f) -> vec4f {
    let e = exp(-abs(x));
    return select(e, vec4f(1.0), x >= vec4f()) / (1.0 + e);
}

// x = 2^k * (1 + f) with 1 + f in sqrt(1/2)..sqrt(2): k, and s = f / (2 + f), of which log(1 + f) = 2 atanh(s).
fn power_and_ratio(x: f32) -> vec2f {
    let bits = bitcast<u32>(x);
    let k = bitcast<i32>(bits - 0x3f3504f3u) >> 23u;
    let f = bitcast<f32>(bits - (bitcast<u32>(k) << 23u)) - 1.0;
    return vec2f(f32(k), f / (2.0 + f));
}

// 2 atanh(s) - 2 s as a series.
fn atanh_beyond(s: f32) -> f32 {
    let z = s * s;
    return s * (z * (0.66666667 + z * (0.4 + z * (0.28571429 + z * (0.22222222 + z * 0.18181818)))));
}

// Natural logarithm. Drivers' own may be off by 2^-21 near 1 (Vulkan), where the logarithm is that small itself; zero,
// subnormal numbers, infinity and NaN are left to them.
fn logarithm(x: f32) -> f32 {
    let parts = power_and_ratio(x);
    let n = parts.x;
    let s = parts.y;
    let value = n * 0.69313812 + (2.0 * s + (atanh_beyond(s) + n * 0.0000090580006));
    return select(log(x), value, is_finite(x) && x >= 1.1754944e-38);
}

// Logarithm to base 2 in the same way, exact for powers of two.
fn logarithm_2(x: f32) -> f32 {
    let parts = power_and_ratio(x);
    let s = parts.y;
    let value = parts.x + (2.0 * s + atanh_beyond(s)) * 1.4426950;
    return select(log2(x), value, is_finite(x) && x >= 1.1754944e-38);
}

// log(1 + x): near 0 as the series of `logarithm`, where 1 + x would round x away.
fn log_plus_1(x: f32) -> f32 {
    let s = x / (2.0 + x);
    return select(logarithm(1.0 + x), 2.0 * s + atanh_beyond(s), x > -0.29289 && x < 0.41421);
}

// e^x - 1: near 0 as a Taylor polynomial, where e^x - 1 would cancel.
fn exp_minus_1(x: f32) -> f32 {
    let p = 0.5 + x * (0.16666667 + x * (0.041666667 + x * (0.0083333333 + x * (0.0013888889
        + x * (0.00019841270 + x * (0.000024801587 + x * 0.0000027557319))))));
    return select(exp(x) - 1.0, x + x * x * p, abs(x) < 0.5);
}

// Angle of the point (x, y) in -pi..pi, as C's atan2f: reduced to a tangent in 0..1, then to 0..tan(pi / 8), where the
// polynomial's relative error is 2e-8. Drivers' own may be off by 4096 ulps (Vulkan).
fn arc_tangent(y: f32, x: f32) -> f32 {
    let low = min(abs(x), abs(y));
    let high = max(abs(x), abs(y));
    let quotient = low / select(high, 1.0, high == 0.0);
    // to infinity: 0, but of two infinities: 1
    let ratio = select(select(1.0, 0.0, is_finite(low)), quotient, is_finite(high));
    let above = ratio > 0.41421356;
    let t = select(ratio, (ratio - 1.0) / (ratio + 1.0), above);
    let z = t * t;
    let p = -0.33332953 + z * (0.19977808 + z * (-0.13878454 + z * 0.08055448));
    var angle = (t + t * z * p) + select(0.0, 0.78539816, above);
    angle = select(angle, 1.5707963 - angle, abs(y) > abs(x));
    angle = select(angle, 3.1415927 - angle, (bitcast<u32>(x) >> 31u) == 1u);
    angle = select(angle, -angle, (bitcast<u32>(y) >> 31u) == 1u);
    return select(angle, x + y, is_nan(x) || is_nan(y));
}

// Sine of x + quadrant * pi / 2: reduced by multiples of pi / 2 in three parts (Cody and Waite; Cephes' constants),
// then Taylor polynomials on -pi/4..pi/4. Drivers' own may be off by 2^-11 (Vulkan), which random normals would show.
fn sine_shifted(x: f32, quadrant: i32) -> f32 {
    let n = round(x * 0.63661977);
    // calls, which no compiler puts in another order: parts that were added first would be pi / 2 once, and not exact
    var r = fma(-n, 1.5703125, x);
    r = fma(-n, 0.00048375130, r);
    r = fma(-n, 0.000000075497900, r);
    let s = r * r;
    let odd = r + r * s * (-0.16666667 + s * (0.0083333333 + s * (-0.00019841270 + s * 0.0000027557319)));
    let even = 1.0 + s * (-0.5 + s * (0.041666667 + s * (-0.0013888889 + s * (0.000024801587 + s * -0.00000027557319))));
    let q = i32(n) + quadrant;
    let value = select(odd, even, (q & 1) != 0);
    return select(value, -value, (q & 2) != 0);
}

// Beyond 10,000 the reduction loses its digits. A zero (by its bits) stays what it is: sums lose its sign.
fn sine(x: f32) -> f32 {
    let value = select(sin(x), sine_shifted(x, 0), abs(x) < 10000.0);
    return select(value, x, (bitcast<u32>(x) & 0x7fffffffu) == 0u);
}

fn cosine(x: f32) -> f32 {
    return select(cos(x), sine_shifted(x, 1), abs(x) < 10000.0);
}

// Hyperbolic tangent: a Taylor polynomial near 0, where 1 - e^-2x would cancel, else without overflow. A zero stays
// what it is, as in `sine`.
fn tanh_stable(x: f32) -> f32 {
    let s = x * x;
    let p = -0.33333333 + s * (0.13333333 + s * (-0.053968254 + s * (0.021869488 + s * (-0.0088632355 + s * 0.0035921280))));
    let e = exp(-2.0 * abs(x));
    let t = (1.0 - e) / (1.0 + e);
    let value = select(select(t, -t, x < 0.0), x + x * s * p, abs(x) < 0.4);
    return select(value, x, (bitcast<u32>(x) & 0x7fffffffu) == 0u);
}

fn tanh_stable_4(x: vec4f) -> vec4f {
    let s = x * x;
    let p = -0.33333333 + s * (0.13333333 + s * (-0.053968254 + s * (0.021869488 + s * (-0.0088632355 + s * 0.0035921280))));
    let e = exp(-2.0 * abs(x));
    let t = (1.0 - e) / (1.0 + e);
    let value = select(select(t, -t, x < vec4f()), x + x * s * p, abs(x) < vec4f(0.4));
    return select(value, x, (bitcast<vec4u>(x) & vec4u(0x7fffffffu)) == vec4u());
}

// Error function: Taylor series below 1, Abramowitz and Stegun 7.1.26 (error 1.5e-7) above.
fn erf(x: f32) -> f32 {
    let s = x * x;
    let series = 1.0 + s * (-0.33333333 + s * (0.1 + s * (-0.023809524 + s * (0.0046296296 + s * (-0.00075757576
        + s * (0.00010683761 + s * (-0.000013227513 + s * (0.0000014589169 + s * -0.00000014503852))))))));
    let a = abs(x);
    let t = 1.0 / (1.0 + 0.3275911 * a);
    let tail = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)))) * exp(-s);
    let far = select(1.0 - tail, -(1.0 - tail), x < 0.0);
    return select(far, 1.1283792 * x * series, a < 1.0);
}

// a^b as C's powf: negative bases take integer exponents only; anything to the 0 and 1 to anything are 1.
fn power(a: f32, b: f32) -> f32 {
    if (b == 0.0 || a == 1.0) {
        return 1.0;
    }
    if (is_nan(a) || is_nan(b)) {
        return a + b;
    }
    let odd = abs(b) < 16777216.0 && abs(floor(b * 0.5) * 2.0 - b) == 1.0;
    let whole = !is_finite(b) || floor(b) == b;
    let negative = (bitcast<u32>(a) >> 31u) == 1u;
    if (a == 0.0) {
        let zero = select(0.0, a, odd);
        return select(zero, 1.0 / zero, b < 0.0);
    }
    if (negative && !whole && is_finite(a)) {
        return from_bits(0x7fc00000u | bitcast<u32>(a));
    }
    if (!is_finite(b) && abs(a) == 1.0) {
        return 1.0;
    }
    // near 1 drivers' own logarithm is too coarse for a large b to multiply
    let magnitude = exp2(b * logarithm_2(abs(a)));
    return select(magnitude, -magnitude, negative && odd);
}

// Remainder with the sign of a, as Rust's `%`: a long division of whole numbers, bit by bit. (With floats, NVIDIA's
// compiler makes one power of two of a loop that doubles, and that overflows.)
fn remainder_float(a: f32, b: f32) -> f32 {
    // a zero by its bits: drivers may take subnormals for one
    if (!is_finite(a) || is_nan(b) || (bitcast<u32>(b) & 0x7fffffffu) == 0u) {
        return from_bits(0x7fc00000u | bitcast<u32>(a));
    }
    let negative = bitcast<u32>(a) & 0x80000000u;
    let size = bitcast<u32>(a) & 0x7fffffffu;
    let by = bitcast<u32>(b) & 0x7fffffffu;
    if (size < by) {
        return a;
    }
    // the numbers are rest * 2^(place - 150) and part * 2^(last - 150)
    var place = max(size >> 23u, 1u);
    let last = max(by >> 23u, 1u);
    var rest = (size & 0x7fffffu) | select(0u, 0x800000u, size >= 0x800000u);
    let part = (by & 0x7fffffu) | select(0u, 0x800000u, by >= 0x800000u);
    // from here on less than part (of a subnormal divisor it may be many times that)
    rest %= part;
    while (place > last) {
        rest <<= 1u;
        rest = select(rest, rest - part, rest >= part);
        place--;
    }
    if (rest == 0u) {
        return from_bits(negative);
    }
    // back to a number whose first digit is at its place, or as near as subnormals come
    let shift = min(23u - firstLeadingBit(rest), place - 1u);
    rest <<= shift;
    place -= shift;
    let exponent = select(0u, place << 23u, rest >= 0x800000u);
    return from_bits(negative | exponent | (rest & 0x7fffffu));
}

fn remainder_int(a: i32, b: i32) -> i32 {
    return select(a % select(b, 1, b == 0 || b == -1), 0, b == 0 || b == -1);
}

fn remainder_uint(a: u32, b: u32) -> u32 {
    return select(a % select(b, 1u, b == 0u), 0u, b == 0u);
}

// Truncating quotient; by zero: 0.
fn divide_int(a: i32, b: i32) -> i32 {
    let quotient = a / select(b, 1, b == 0 || b == -1);
    return select(select(quotient, 0 - a, b == -1), 0, b == 0);
}

fn divide_uint(a: u32, b: u32) -> u32 {
    return select(a / select(b, 1u, b == 0u), 0u, b == 0u);
}

fn shift_left_int(a: i32, b: i32) -> i32 {
    return a << (bitcast<u32>(b) & 31u);
}

fn shift_left_uint(a: u32, b: u32) -> u32 {
    return a << (b & 31u);
}

fn shift_right_int(a: i32, b: i32) -> i32 {
    return a >> (bitcast<u32>(b) & 31u);
}

fn shift_right_uint(a: u32, b: u32) -> u32 {
    return a >> (b & 31u);
}

fn less_bool(a: bool, b: bool) -> bool {
    return !a && b;
}

fn less_equal_bool(a: bool, b: bool) -> bool {
    return !a || b;
}

// A float by its bits: a call is never a constant expression, so what compilers read or flush wrongly passes them. A
// NaN by constant bits may still be taken for a promise that it does not happen, where the driver computes without.
fn from_bits(bits: u32) -> f32 {
    return bitcast<f32>(bits);
}
