//! Blur and noise on the host.

use super::warp::reflected;

/// Blurs one channel with a Gaussian of `deviation` pixels, `radius` taps to each side of the middle; outside is the
/// picture mirrored.
pub(super) fn blur(
    levels: &mut [f32],
    [height, width]: [usize; 2],
    deviation: f32,
    radius: usize,
    scratch: &mut Vec<f32>,
) {
    let weights = taps(deviation, radius);
    let place = |at: usize, tap: usize, size: usize| reflected((at + tap) as i64 - radius as i64, size);
    // whole lines are added up, tap by tap
    let mut padded = vec![0.0; width + 2 * radius];
    for line in levels.chunks_exact_mut(width) {
        padded.iter_mut().enumerate().for_each(|(at, value)| *value = line[place(at, 0, width)]);
        line.fill(0.0);
        for (tap, weight) in weights.iter().enumerate() {
            add(line, &padded[tap..], *weight);
        }
    }
    scratch.clear();
    scratch.extend_from_slice(levels);
    for (row, line) in levels.chunks_exact_mut(width).enumerate() {
        line.fill(0.0);
        for (tap, weight) in weights.iter().enumerate() {
            add(line, &scratch[place(row, tap, height) * width..], *weight);
        }
    }
}

fn add(line: &mut [f32], other: &[f32], weight: f32) {
    line.iter_mut().zip(other).for_each(|(sum, value)| *sum += weight * value);
}

/// The weights of a Gaussian; they add up to 1.
fn taps(deviation: f32, radius: usize) -> Vec<f32> {
    let deviation = deviation.max(MIN_DEVIATION);
    let weight = |tap: usize| (-0.5 * ((tap as f32 - radius as f32) / deviation).powi(2)).exp();
    let weights: Vec<f32> = (0..=2 * radius).map(weight).collect();
    let sum: f32 = weights.iter().sum();
    weights.iter().map(|weight| weight / sum).collect()
}

/// Of a blur that changes nothing.
pub(super) const MIN_DEVIATION: f32 = 0.01;

/// A normal number for each element of a picture, a function of a key and the element's number.
pub(super) fn normal(key: u32, element: u32) -> f32 {
    let first = scrambled(element ^ scrambled(key));
    let second = scrambled(first ^ SECOND);
    let unit = |bits: u32| (bits >> 8) as f32 * UNIT;
    (-2.0 * (1.0 - unit(first)).ln()).sqrt() * (std::f32::consts::TAU * unit(second)).cos()
}

/// 2⁻²⁴.
pub(super) const UNIT: f32 = 1.0 / 16_777_216.0;
/// Makes a second number of the first.
pub(super) const SECOND: u32 = 0x9e37_79b9;
/// Shifts and factors of "lowbias32", a mixing of 32 bits found by C. Wellons (2018).
pub(super) const SCRAMBLE: [(u32, u32); 2] = [(16, 0x7feb_352d), (15, 0x846c_a68b)];

fn scrambled(mut bits: u32) -> u32 {
    for (shift, factor) in SCRAMBLE {
        bits = (bits ^ (bits >> shift)).wrapping_mul(factor);
    }
    bits ^ (bits >> 16)
}
