//! How numbers lie along an axis, and how they are written there.

use std::ops::Range;

/// Names at an axis, about.
const TICKS: usize = 8;
/// What numbers have around them where they differ by rounding alone, in parts of their size.
const AROUND: f64 = 0.05;
/// Beyond, numbers are so far apart that drawing would overflow.
const MOST: f64 = 1e300;

/// An axis: the range of its places, which are logarithms to base 10 if it is logarithmic.
pub(super) struct Scale {
    pub(super) range: Range<f64>,
    pub(super) ticks: usize,
    log: bool,
}

impl Scale {
    /// Where a number lies, if it does.
    pub(super) fn place(log: bool, number: f64) -> Option<f64> {
        let place = if log { number.log10() } else { number };
        (place.abs() < MOST).then_some(place)
    }

    /// An axis for these numbers, and a part of their range more on either side.
    pub(super) fn of(log: bool, numbers: impl Iterator<Item = f64>, more: f64) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for place in numbers.filter_map(|number| Self::place(log, number)) {
            (low, high) = (low.min(place), high.max(place));
        }
        if low > high || !log && low == 0.0 && high == 0.0 {
            (low, high) = (0.0, 1.0);
        }
        let size = high - low;
        let room = match log {
            true if size < 0.1 => 0.1,
            true => size * more,
            false => room_around(low, high, 1e-5).unwrap_or(size * more).max(1e-12),
        };
        let range = low - room..high + room;
        // of a logarithmic axis, whole powers have names, or a few numbers between two of them
        let ticks = if log && range.end - range.start > 1.0 { (range.end - range.start) as usize + 1 } else { TICKS };
        Self { range, ticks: ticks.min(TICKS), log }
    }

    /// The number at a place, as short as it can be told from its neighbours.
    pub(super) fn word(&self, place: f64) -> String {
        let (number, fine) = match self.log {
            true => (10f64.powf(place), 10f64.powf(place) * 0.05),
            false => (place, (self.range.end - self.range.start) / (4.0 * TICKS as f64)),
        };
        if number.abs() < fine {
            return "0".into();
        }
        let digits = (number.abs() / fine).log10().ceil().clamp(0.0, 6.0) as usize;
        if (1e-3..1e6).contains(&number.abs()) {
            let decimals = digits as i32 - 1 - number.abs().log10().floor() as i32;
            let text = format!("{number:.*}", decimals.clamp(0, 9) as usize);
            return if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text };
        }
        let text = format!("{number:.*e}", digits.saturating_sub(1));
        match text.split_once('e') {
            Some((digits, power)) if digits.contains('.') => {
                format!("{}e{power}", digits.trim_end_matches('0').trim_end_matches('.'))
            }
            _ => text,
        }
    }
}

/// What an axis shows beside numbers from `low` to `high` that differ by less than `least` of their size.
pub(crate) fn room_around(low: f64, high: f64, least: f64) -> Option<f64> {
    let size = low.abs().max(high.abs());
    (size.is_finite() && high - low < size * least).then_some(AROUND * size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_finely_as_the_axis_needs() {
        let linear = |low: f64, high| Scale::of(false, [low, high].into_iter(), 0.0);
        let words = |scale: &Scale, places: &[f64]| places.iter().map(|place| scale.word(*place)).collect::<Vec<_>>();
        assert_eq!(words(&linear(0.0, 1.0), &[0.0, 0.2, 0.6000000001, 1.0]), ["0", "0.2", "0.6", "1"]);
        assert_eq!(words(&linear(0.0, 5e5), &[100_000.0, 250_000.0]), ["100000", "250000"]);
        assert_eq!(words(&linear(0.0, 4e9), &[1e9, 2.5e9]), ["1e9", "2.5e9"]);
        assert_eq!(words(&linear(0.999, 1.0), &[0.9992, 0.9998]), ["0.9992", "0.9998"]);
        assert_eq!(words(&linear(-1.0, 1.0), &[-0.5, 1e-17]), ["-0.5", "0"]);
        // rounding is no range
        let constant = linear(412_368.0, 412_368.000_001);
        assert_eq!(words(&constant, &[400_000.0, 412_368.0, 420_000.0]), ["400000", "412368", "420000"]);
        assert!(constant.range.contains(&400_000.0) && constant.range.contains(&420_000.0));
        assert_eq!(words(&linear(0.0, 0.0), &[0.0, 0.5]), ["0", "0.5"]);
        let log = Scale::of(true, [1e-5, 10.0].into_iter(), 0.0);
        assert_eq!(words(&log, &[-5.0, -2.0, 0.0, 1.0]), ["1e-5", "0.01", "1", "10"]);
    }
}
