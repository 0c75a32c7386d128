//! Scalar functions of f32 without branches or calls, so that a loop over them becomes vector code.
//!
//! The error against f64 is measured by a test that states the bound of each: at most 4 ulps.

const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// ln 2 in two parts; the first has few enough bits for `n * LN2_HIGH` to be exact.
const LN2_HIGH: f32 = 0.693_359_4;
const LN2_LOW: f32 = -2.121_944_4e-4;
/// Adding it rounds to an integer, which then stands in the low bits.
const MAGIC: f32 = 12_582_912.0;

/// Horner's rule, highest coefficient first.
#[inline(always)]
fn polynomial<const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let mut sum = coefficients[0];
    for c in &coefficients[1..] {
        sum = sum.mul_add(x, *c);
    }
    sum
}

/// `2^n` for n in -126..=127; anything for others.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) << 23).cast_unsigned())
}

/// `p` and `n` of which `e^x` is `p · 2^n`, 0.7 < p < 1.5.
#[inline(always)]
fn exp_in_parts(x: f32) -> (f32, i32) {
    let shifted = x.mul_add(LOG2_E, MAGIC);
    let n = shifted - MAGIC;
    let power = shifted.to_bits().wrapping_sub(MAGIC.to_bits()).cast_signed();
    let r = n.mul_add(-LN2_LOW, n.mul_add(-LN2_HIGH, x));
    // Taylor: |r| <= ln 2 / 2, so the first term left out is below 6e-9.
    let p = polynomial(r, [1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0]);
    (p, power)
}

/// `e^x` for x in -87..88, the bits of [`exp`]; NaN stays NaN.
#[inline(always)]
fn exp_of_normal(x: f32) -> f32 {
    let (p, power) = exp_in_parts(x);
    p * power_of_two(power)
}

/// `e^x`; NaN stays NaN.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    // Below, the result rounds to 0, by a multiplication that processors hand to microcode. Each masked place of an
    // attention is such a one.
    let vanishes = x < -104.0;
    let x = if vanishes { 0.0 } else { x };
    let x = if x > 90.0 { 90.0 } else { x };
    let (p, power) = exp_in_parts(x);
    // In two steps, because 2^power itself may not be a normal number.
    let half = power >> 1;
    let y = p * power_of_two(half) * power_of_two(power.wrapping_sub(half));
    if vanishes { 0.0 } else { y }
}

/// Natural logarithm; -inf at 0, NaN below.
#[inline(always)]
pub(super) fn log(x: f32) -> f32 {
    let small = x < f32::MIN_POSITIVE;
    let scaled = if small { x * 8_388_608.0 } else { x };
    let bits = scaled.to_bits();
    // The exponent that leaves a mantissa in sqrt(1/2)..sqrt(2).
    let exponent = (bits.wrapping_sub(0x3f35_04f3)).cast_signed() >> 23;
    let mantissa = f32::from_bits(bits.wrapping_sub((exponent << 23).cast_unsigned()));
    let e = exponent as f32 - if small { 23.0 } else { 0.0 };
    let f = mantissa - 1.0;
    // log(1 + f) = f - f²/2 + s (f²/2 + 2 s² (1/3 + s²/5 + ...)), s = f / (2 + f)
    let s = f / (2.0 + f);
    let z = s * s;
    let tail = z * polynomial(z, [2.0 / 11.0, 2.0 / 9.0, 2.0 / 7.0, 2.0 / 5.0, 2.0 / 3.0]);
    let square = 0.5 * f * f;
    let y = e * LN2_HIGH - ((square - s.mul_add(square + tail, e * LN2_LOW)) - f);
    let y = if x == f32::INFINITY { x } else { y };
    let y = if x == 0.0 { f32::NEG_INFINITY } else { y };
    if x < 0.0 || x.is_nan() { f32::NAN } else { y }
}

/// `e^x - 1`, by its Taylor polynomial near 0, where the difference would cancel.
#[inline(always)]
pub(super) fn expm1(x: f32) -> f32 {
    let p = polynomial(
        x,
        [1.0 / 362_880.0, 1.0 / 40_320.0, 1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5],
    );
    let near = (x * x).mul_add(p, x);
    let far = exp(x) - 1.0;
    // The sum of a zero and -0 is 0.
    if x.abs() < 0.5 { near.copysign(x) } else { far }
}

/// `ln(1 + x)`; near 0 without the sum, which would round x away.
#[inline(always)]
pub(super) fn log1p(x: f32) -> f32 {
    // as in `log`, with f = x
    let s = x / (2.0 + x);
    let z = s * s;
    let tail = z * polynomial(z, [2.0 / 11.0, 2.0 / 9.0, 2.0 / 7.0, 2.0 / 5.0, 2.0 / 3.0]);
    let square = 0.5 * x * x;
    let near = x - (square - s * (square + tail));
    let far = log(1.0 + x);
    if x > -0.292_89 && x < 0.414_21 { near } else { far }
}

/// Angle of the point (x, y), as C's `atan2f`: reduced to a tangent in 0..1, then to 0..tan(π/8), where the
/// polynomial's relative error is 2e-8.
#[inline(always)]
pub(super) fn atan2(y: f32, x: f32) -> f32 {
    let (a, b) = (x.abs(), y.abs());
    let low = if a < b { a } else { b };
    let high = if a < b { b } else { a };
    let quotient = low / if high == 0.0 { 1.0 } else { high };
    // to infinity: 0, but of two infinities: 1
    let to_infinity = if low == f32::INFINITY { 1.0 } else { 0.0 };
    let ratio = if high == f32::INFINITY { to_infinity } else { quotient };
    let above = ratio > 0.414_213_56;
    let t = if above { (ratio - 1.0) / (ratio + 1.0) } else { ratio };
    let z = t * t;
    let p = polynomial(z, [0.080_554_48, -0.138_784_54, 0.199_778_08, -0.333_329_53]);
    let first = (t * z).mul_add(p, t) + if above { std::f32::consts::FRAC_PI_4 } else { 0.0 };
    let half = if b > a { std::f32::consts::FRAC_PI_2 - first } else { first };
    let whole = if x.is_sign_negative() { std::f32::consts::PI - half } else { half };
    if x.is_nan() || y.is_nan() { f32::NAN } else { whole.copysign(y) }
}

/// `1 / (1 + e^-x)`
#[inline(always)]
pub(super) fn sigmoid(x: f32) -> f32 {
    let e = exp(-x.abs());
    let numerator = if x < 0.0 { e } else { 1.0 };
    numerator / (1.0 + e)
}

/// Hyperbolic tangent.
#[inline(always)]
pub(super) fn tanh(x: f32) -> f32 {
    let t = x.abs();
    let s = x * x;
    let p = polynomial(s, [-5.599_785e-3, 2.053_697_2e-2, -5.370_427_7e-2, 1.333_091_7e-1, -3.333_325e-1]);
    let near = (x * s).mul_add(p, x);
    // beyond, the result is 1
    let clamped = if t > 20.0 { 20.0 } else { t };
    let far = 1.0 - 2.0 / (exp_of_normal(2.0 * clamped) + 1.0);
    // The sum of a zero and -0 is 0.
    (if t < 0.632 { near } else { far }).copysign(x)
}

/// Error function.
#[inline(always)]
pub(super) fn erf(x: f32) -> f32 {
    let t = x.abs();
    let s = x * x;
    let p = polynomial(
        s,
        [7.875_875e-5, -8.016_864e-4, 5.189_087_4e-3, -2.685_421_2e-2, 1.128_359_5e-1, -3.761_262_7e-1, 1.283_791_7e-1],
    );
    let near = x.mul_add(p, x);
    // ln(1 - erf t) on 1..4; beyond, the result is 1.
    let clamped = if t > 4.0 { 4.0 } else { t };
    let q = polynomial(
        clamped,
        [
            1.637_151_4e-6,
            -4.605_804e-5,
            5.968_056e-4,
            -4.759_596e-3,
            2.642_113_6e-2,
            -1.100_800_8e-1,
            -6.318_260_5e-1,
            -1.130_233_4,
            3.201_380_5e-4,
        ],
    );
    let far = (1.0 - exp_of_normal(q)).copysign(x);
    if t < 1.0 { near } else { far }
}

/// Largest magnitude for which [`sin`] and [`cos`] are good; beyond, callers use the standard library's.
pub(super) const TRIGONOMETRIC_LIMIT: f32 = 1.0e6;

/// Sine of `x + quadrant · π/2`, in f64 inside: the reduction would lose everything in f32.
#[inline(always)]
fn sin_shifted(x: f32, quadrant: u64) -> f32 {
    const MAGIC: f64 = 6_755_399_441_055_744.0;
    let x = f64::from(x);
    let shifted = x.mul_add(std::f64::consts::FRAC_2_PI, MAGIC);
    let n = shifted - MAGIC;
    let r = n.mul_add(-6.123_233_995_736_766e-17, n.mul_add(-std::f64::consts::FRAC_PI_2, x));
    let quadrant = shifted.to_bits().wrapping_add(quadrant);
    let s = r * r;
    let sine = r + r
        * s
        * (-1.0 / 6.0 + s * (1.0 / 120.0 + s * (-1.0 / 5040.0 + s * (1.0 / 362_880.0 - s * (1.0 / 39_916_800.0)))));
    // The sum of a zero and -0 is 0.
    let sine = sine.copysign(r);
    let cosine = 1.0
        + s * (-0.5
            + s * (1.0 / 24.0
                + s * (-1.0 / 720.0 + s * (1.0 / 40_320.0 + s * (-1.0 / 3_628_800.0 + s * (1.0 / 479_001_600.0))))));
    let value = if quadrant & 1 == 0 { sine } else { cosine };
    (if quadrant & 2 == 0 { value } else { -value }) as f32
}

/// Sine, up to [`TRIGONOMETRIC_LIMIT`].
#[inline(always)]
pub(super) fn sin(x: f32) -> f32 {
    sin_shifted(x, 0)
}

/// Cosine, up to [`TRIGONOMETRIC_LIMIT`].
#[inline(always)]
pub(super) fn cos(x: f32) -> f32 {
    sin_shifted(x, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Largest distance in ulps of the f32 nearest to the true value, over a dense sample of `low..high`.
    fn worst(low: f32, high: f32, f: fn(f32) -> f32, truth: fn(f64) -> f64) -> f64 {
        let samples = 400_000;
        (0..=samples)
            .map(|i| {
                let x = low + (high - low) * (i as f32 / samples as f32);
                let expected = truth(f64::from(x));
                let rounded = expected as f32;
                let ulp = f64::from(rounded.abs().max(f32::MIN_POSITIVE).next_up())
                    - f64::from(rounded.abs().max(f32::MIN_POSITIVE));
                (f64::from(f(x)) - expected).abs() / ulp
            })
            .fold(0.0, f64::max)
    }

    fn sigmoid_truth(x: f64) -> f64 {
        1.0 / (1.0 + (-x).exp())
    }

    /// The standard library has no erf: its Taylor series near 0, a continued fraction beyond.
    fn erf_truth(x: f64) -> f64 {
        let t = x.abs();
        let value = if t < 3.0 {
            let (mut term, mut sum) = (t, t);
            for n in 1..200 {
                term *= -t * t / f64::from(n);
                sum += term / f64::from(2 * n + 1);
            }
            sum * std::f64::consts::FRAC_2_SQRT_PI
        } else {
            let mut fraction = t;
            for n in (1..60).rev() {
                fraction = t + f64::from(n) / 2.0 / fraction;
            }
            1.0 - (-t * t).exp() / fraction / std::f64::consts::PI.sqrt()
        };
        value.copysign(x)
    }

    #[test]
    fn exponentials_vanish_where_they_round_to_0() {
        for x in [-104.1, -110.0, -1e30, f32::NEG_INFINITY] {
            assert_eq!(exp(x).to_bits(), 0, "{x}");
        }
        let least = f64::from(f32::from_bits(1));
        for x in [-104.0f32, -103.97, -103.5, -100.0, -90.0, -87.4] {
            let truth = f64::from(x).exp();
            assert!((f64::from(exp(x)) - truth).abs() <= least.max(truth * 5e-7), "{x}: {} for {truth}", exp(x));
        }
        assert_eq!(exp(f32::INFINITY), f32::INFINITY);
        assert!(exp(f32::NAN).is_nan());
    }

    #[test]
    fn errors_stay_within_the_stated_ulps() {
        let cases: [(&str, f64); 18] = [
            ("exp", worst(-87.0, 88.7, exp, f64::exp)),
            ("exp near 0", worst(-1.0, 1.0, exp, f64::exp)),
            ("log", worst(1e-3, 10.0, log, f64::ln)),
            ("log far", worst(1.0, 3e38, log, f64::ln)),
            ("expm1", worst(-20.0, 88.0, expm1, f64::exp_m1)),
            ("expm1 near 0", worst(-0.6, 0.6, expm1, f64::exp_m1)),
            ("log1p", worst(-0.999, 10.0, log1p, f64::ln_1p)),
            ("log1p near 0", worst(-0.5, 0.5, log1p, f64::ln_1p)),
            ("atan2 of a slope", worst(-3.0, 3.0, |x| atan2(x, 1.0), f64::atan)),
            ("atan2 far", worst(-100.0, 100.0, |x| atan2(1.0, x), |x| 1.0_f64.atan2(x))),
            ("sigmoid", worst(-87.0, 30.0, sigmoid, sigmoid_truth)),
            ("tanh", worst(-10.0, 10.0, tanh, f64::tanh)),
            ("tanh near 0", worst(-0.7, 0.7, tanh, f64::tanh)),
            ("erf", worst(-5.0, 5.0, erf, erf_truth)),
            ("sin", worst(-10.0, 10.0, sin, f64::sin)),
            ("cos", worst(-10.0, 10.0, cos, f64::cos)),
            ("sin far", worst(-1e6, 1e6, sin, f64::sin)),
            ("cos far", worst(-1e6, 1e6, cos, f64::cos)),
        ];
        for (name, ulps) in cases {
            assert!(ulps <= 4.0, "{name}: {ulps} ulps");
        }
    }

    #[test]
    fn special_values_are_those_of_ieee() {
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp(f32::INFINITY), f32::INFINITY);
        assert_eq!(exp(89.0), f32::INFINITY);
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(log(0.0), f32::NEG_INFINITY);
        assert_eq!(log(1.0), 0.0);
        assert_eq!(log(f32::INFINITY), f32::INFINITY);
        assert!(log(-1.0).is_nan());
        assert!((log(1e-40) - 1e-40_f32.ln()).abs() < 1e-4);
        assert_eq!(tanh(f32::INFINITY), 1.0);
        assert_eq!(tanh(f32::NEG_INFINITY), -1.0);
        assert_eq!(erf(f32::INFINITY), 1.0);
        assert_eq!(erf(-30.0), -1.0);
        assert_eq!(sigmoid(f32::NEG_INFINITY), 0.0);
        assert_eq!(sigmoid(f32::INFINITY), 1.0);
        assert_eq!((expm1(f32::INFINITY), expm1(f32::NEG_INFINITY)), (f32::INFINITY, -1.0));
        assert_eq!((log1p(-1.0), log1p(f32::INFINITY)), (f32::NEG_INFINITY, f32::INFINITY));
        assert!(log1p(-2.0).is_nan() && log1p(f32::NEG_INFINITY).is_nan());
        for odd in [expm1, log1p, tanh, erf, sin] {
            assert_eq!((odd(0.0).to_bits(), odd(-0.0).to_bits()), (0, (-0.0_f32).to_bits()));
        }
        let special = [0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
        for (y, x) in special.iter().flat_map(|&y| special.map(|x| (y, x))) {
            let (got, expected) = (atan2(y, x), y.atan2(x));
            let same = got.is_sign_negative() == expected.is_sign_negative() && (got - expected).abs() < 1e-6;
            assert!(same || got.is_nan() && expected.is_nan(), "atan2({y}, {x}) = {got}, not {expected}");
        }
        for f in [exp, expm1, log, log1p, tanh, erf, sigmoid, sin, cos] {
            assert!(f(f32::NAN).is_nan());
        }
    }
}
