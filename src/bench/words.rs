//! Figures of a report, as people read them.

use crate::units::{bytes, pays_off, thousands};

use super::{Advice, Ended, Measured, Report, Row, Suite};

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

/// Arithmetic operations, with no more than four digits before the point.
fn operations(count: f64) -> String {
    let mut value = count * 1e-6;
    let mut units = ["MFLOP", "GFLOP", "TFLOP", "PFLOP"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    // what is rounded to 10,000 has five
    while value >= 9_999.5
        && let Some(larger) = units.next()
    {
        (value, unit) = (value * 1e-3, larger);
    }
    format!("{} {unit}", number(value))
}

impl Advice {
    /// Lines: what a million samples take on each device, and what an hour of those after the first may cost.
    pub(crate) fn describe(&self) -> Vec<String> {
        const SAMPLES: u64 = 1_000_000;
        let (weights, of_weights) = (thousands(self.weights), bytes(4 * self.weights as u64));
        let of_samples = bytes(SAMPLES * self.sample_bytes as u64);
        let mut lines = vec![format!(
            "Training {}, which has {weights} weights ({of_weights}): {} samples ({of_samples}) take",
            self.model,
            thousands(SAMPLES)
        )];
        for growth in &self.devices {
            let (batch, rate) = growth.best();
            let (time, batch, largest) =
                (seconds(SAMPLES as f64 / rate), thousands(batch), thousands(growth.largest()));
            let why = match &growth.ended {
                Ended::Level => ", and larger ones are no faster".to_owned(),
                Ended::Slow(longest_s) => format!(", and a step of the next would take more than {longest_s}\u{a0}s"),
                Ended::Largest => "; larger ones were not tried and may be faster".to_owned(),
                Ended::Failed(error) => format!(", and the next could not be measured: {error}"),
            };
            lines.push(format!("  {}: {time} in batches of {batch}; up to {largest} were tried{why}", growth.device));
        }
        if let [reference, others @ ..] = &self.devices[..] {
            for other in others {
                let times = other.best().1 / reference.best().1;
                lines.push(format!("{}.", pays_off(&other.device, &reference.device, times)));
            }
        }
        lines
    }
}

impl Measured {
    /// `1.23 ms ±4 %`, or `1.23 ms ±>100 %` where a round was disturbed.
    pub(crate) fn in_words(&self) -> String {
        match self.runs {
            // of one run there is no spread
            1 => seconds(self.median_s),
            // a round that was disturbed may lie anywhere: how far says nothing
            _ if self.spread() > 1.0 => format!("{} ±>100 %", seconds(self.median_s)),
            _ => format!("{} ±{:.0} %", seconds(self.median_s), 100.0 * self.spread()),
        }
    }
}

impl Row {
    /// What one run is, and how much: `256x256 times 256x256, f32: 33.6 MFLOP, 768 KiB`.
    pub(crate) fn in_words(&self) -> String {
        let operations = (self.flops > 0.0).then(|| operations(self.flops));
        let moved = (self.bytes > 0.0).then(|| bytes(self.bytes as u64));
        let amounts: Vec<String> = operations.into_iter().chain(moved).collect();
        if amounts.is_empty() { self.what.clone() } else { format!("{}: {}", self.what, amounts.join(", ")) }
    }

    /// What was done in a second, in the unit of the case.
    pub(crate) fn rate_in_words(&self) -> Option<String> {
        let measured = self.measured?;
        let each = |amount: f64| number(amount / measured.median_s);
        match self {
            Self { samples: 1.., .. } => Some(format!("{}/s", each(self.samples as f64))),
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
        assert_eq!(
            [524_288.0, 2_147.48e6, 9_999.6e6, 29.4e12].map(operations),
            ["0.52 MFLOP", "2,147 MFLOP", "10.0 GFLOP", "29.4 TFLOP"]
        );
        assert_eq!([2.0, 0.0123, 4.5e-6].map(seconds), ["2.00 s", "12.3 ms", "4.50 µs"]);
    }

    #[test]
    fn a_spread_beyond_the_time_itself_is_no_figure() {
        let said = |rounds: &[Vec<f64>]| Measured::of(0.0, rounds, 1).in_words();
        assert_eq!(said(&[vec![2.0, 2.0], vec![2.0], vec![4.0, 100.0]]), "2.00 s ±>100 %");
        assert_eq!(said(&[vec![2.0, 2.0], vec![2.0]]), "2.00 s ±0 %");
    }
}
