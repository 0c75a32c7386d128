//! Figures of a report, as people read them.

use crate::units::{bytes, thousands};

use super::{Advice, Measured, Report, Row, Suite};

/// Three digits.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 99.95 => thousands(value.round() as i64),
        size if size >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Three digits of a time, with its unit.
pub(crate) fn seconds(seconds: f64) -> String {
    match seconds {
        s if s >= 1.0 => format!("{} s", number(s)),
        s if s >= 1e-3 => format!("{} ms", number(1e3 * s)),
        s => format!("{} µs", number(1e6 * s)),
    }
}

impl Advice {
    /// What a million samples take, and what an hour of the second device may cost.
    pub(crate) fn describe(&self) -> String {
        const SAMPLES: u64 = 1_000_000;
        let [one, other] = &self.devices;
        let [first, second] = self.samples_per_second.map(|rate| seconds(SAMPLES as f64 / rate));
        let (weights, samples, [batch, large]) =
            (thousands(self.weights), thousands(SAMPLES), self.batches.map(thousands));
        let (of_weights, of_samples) = (bytes(4 * self.weights as u64), bytes(SAMPLES * self.sample_bytes as u64));
        format!(
            "{}: {weights} weights ({of_weights}). {samples} samples ({of_samples}) take {first} on {one} in batches of {batch} \
             and {second} on {other} in batches of {large}, the best that were tried: an hour of {other} is worth {} hours of {one}, in rent or in energy.",
            self.model,
            number(self.samples_per_second[1] / self.samples_per_second[0])
        )
    }
}

impl Measured {
    /// `1.23 ms ±4 %`.
    pub(crate) fn in_words(&self) -> String {
        match self.runs {
            // of one run there is no spread
            1 => seconds(self.median_s),
            _ => format!("{} ±{:.0} %", seconds(self.median_s), 100.0 * self.spread()),
        }
    }
}

impl Row {
    /// What one run is, and how much: `256x256 times 256x256, f32: 33.6 MFLOP, 768 KiB`.
    pub(crate) fn in_words(&self) -> String {
        let operations = (self.flops > 0.0).then(|| format!("{} MFLOP", number(self.flops * 1e-6)));
        let moved = (self.bytes > 0.0).then(|| bytes(self.bytes as u64));
        let amounts: Vec<String> = operations.into_iter().chain(moved).collect();
        if amounts.is_empty() { self.what.clone() } else { format!("{}: {}", self.what, amounts.join(", ")) }
    }

    /// What was done in a second, in the unit of the case; the tail of the times where one sample was waited for.
    pub(crate) fn rate_in_words(&self) -> Option<String> {
        let measured = self.measured?;
        let each = |amount: f64| number(amount / measured.median_s);
        match self {
            Self { samples: 1, .. } => {
                let [p95, p99] = measured.tail_s?;
                Some(format!("p95 {}, p99 {}", seconds(p95), seconds(p99)))
            }
            Self { samples: 2.., .. } => Some(format!("{}/s", each(self.samples as f64))),
            Self { flops, .. } if *flops > 0.0 => Some(format!("{} GFLOP/s", each(flops * 1e-9))),
            Self { bytes, .. } if *bytes > 0.0 => Some(format!("{} GB/s", each(bytes * 1e-9))),
            _ => None,
        }
    }
}

/// One device's times by another's.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Ratio {
    /// Above 1, the other one is faster.
    pub(crate) value: f64,
    /// The difference is smaller than the spread of both.
    pub(crate) is_same: bool,
}

impl Report {
    /// How much faster `other` is in a case than `reference`; `None` where one of them was not measured.
    pub(crate) fn ratio(&self, suite: Suite, name: &str, reference: &str, other: &str) -> Option<Ratio> {
        let of = |device: &str| self.row(device, suite, name)?.measured;
        let (one, another) = (of(reference)?, of(other)?);
        Some(Ratio { value: one.median_s / another.median_s, is_same: one.is_same_as(&another) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits() {
        assert_eq!([0.1234, 9.999, 12.345, 99.96, 123_456.0].map(number), ["0.12", "10.0", "12.3", "100", "123,456"]);
        assert_eq!([2.0, 0.0123, 4.5e-6].map(seconds), ["2.00 s", "12.3 ms", "4.50 µs"]);
    }
}
