//! Where axes have their numbers, and what these say.

use egui::{RichText, WidgetText};
use egui_plot::{AxisHints, GridInput, GridMark};

use crate::runs::XAxis;
use crate::runs::export::room_around;
use crate::units::{bytes, thousands};

use crate::ui::numbers::{duration, number};
use crate::ui::text::Text;

/// Points between two numbers, at least: across, and up.
pub(super) const ACROSS: f64 = 80.0;
pub(super) const UP: f64 = 32.0;
/// Points from one line of the grid to the next, of which the plot makes the least step that it tells.
const LEAST: f64 = 8.0;
/// Below as many decades, numbers on a logarithmic axis stand at equal steps.
const FEW_DECADES: f64 = 0.7;
const SECONDS: [f64; 15] =
    [1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 14400.0];

/// What is counted along an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unit {
    Steps,
    Epochs,
    Seconds,
    Bytes,
    Number,
}

impl From<XAxis> for Unit {
    fn from(axis: XAxis) -> Self {
        match axis {
            XAxis::Step => Self::Steps,
            XAxis::Epoch => Self::Epochs,
            XAxis::Time => Self::Seconds,
        }
    }
}

impl Unit {
    /// A value, told apart from those that are further by `step`.
    pub(super) fn text(self, value: f64, step: f64) -> String {
        match self {
            Self::Steps => thousands(value.round().max(0.0) as u64),
            Self::Seconds => duration(value),
            Self::Bytes => bytes(value.max(0.0) as u64),
            Self::Epochs | Self::Number => number(value, step),
        }
    }

    /// The part of their size by which values must differ, at least, to be worth an axis of their own: less is
    /// rounding, or is not seen in the numbers at the axis.
    const fn least_part(self) -> f64 {
        match self {
            Self::Bytes => 1e-3,
            _ => 1e-5,
        }
    }

    /// What an axis has to show, at least, of values from `low` to `high`; nothing more if they differ by enough.
    pub(super) fn room(self, low: f64, high: f64) -> Option<[f64; 2]> {
        room_around(low, high, self.least_part()).map(|room| [low - room, high + room])
    }

    /// The least round step from `least` on.
    fn step(self, least: f64) -> f64 {
        match self {
            Self::Bytes => 2_f64.powf(least.log2().ceil()).max(1.0),
            Self::Steps => round(least).max(1.0),
            Self::Seconds => SECONDS.into_iter().find(|step| *step >= least).unwrap_or_else(|| {
                let day = 86_400.0;
                if least <= day { day } else { day * round(least / day) }
            }),
            Self::Epochs | Self::Number => round(least),
        }
    }

    /// Where numbers stand on what is seen of an axis, `apart` points from each other or more.
    pub(super) fn marks(self, input: &GridInput, log: bool, apart: f64) -> Vec<GridMark> {
        let (low, high) = input.bounds;
        let least = input.base_step_size / LEAST * apart;
        if !(least > 0.0 && (high - low).is_finite()) {
            return Vec::new();
        }
        if !log {
            return multiples(self.step(least), (low, high)).collect();
        }
        if high - low > FEW_DECADES {
            // with two numbers between powers of ten where there is room for them
            let (every, parts): (f64, &[f64]) =
                if least < 0.3 { (1.0, &[1.0, 2.0, 5.0]) } else { (least.ceil(), &[1.0]) };
            let step_size = if parts.len() > 1 { 0.3 } else { every };
            let powers = multiples(every, (low - every, high));
            let marks = powers.flat_map(|power| parts.iter().map(move |part| power.value + part.log10()));
            let seen = marks.filter(|value| (low..=high).contains(value));
            return seen.map(|value| GridMark { value, step_size }).collect();
        }
        let (from, to) = (10_f64.powf(low), 10_f64.powf(high));
        // numbers are closest to each other at the upper end
        let step = self.step(to - 10_f64.powf(high - least));
        let place = |mark: GridMark| GridMark { value: mark.value.log10(), step_size: least };
        multiples(step, (from, to)).filter(|mark| mark.value > 0.0).map(place).collect()
    }

    /// What a mark says.
    pub(super) fn mark_text(self, mark: GridMark, log: bool) -> String {
        if log {
            // 2e3 as a power of ten is 2000.0000000000002
            let value = 10_f64.powf(mark.value);
            let digits = 10_f64.powf(value.log10().floor() - 6.0);
            let value = (value / digits).round() * digits;
            return self.text(value, value);
        }
        self.text(mark.value, mark.step_size)
    }
}

/// What the horizontal axis counts, in words.
pub(super) fn name(axis: XAxis, text: Text) -> &'static str {
    match axis {
        XAxis::Step => text.t("step"),
        XAxis::Epoch => text.t("epoch"),
        XAxis::Time => text.t("time"),
    }
}

/// The horizontal axis, with its name.
pub(super) fn across(axis: XAxis, log: bool, text: Text) -> AxisHints<'static> {
    let name = WidgetText::from(RichText::new(name(axis, text)).small());
    hints(AxisHints::new_x(), axis.into(), log).label(name)
}

/// The vertical one.
pub(super) fn up(unit: Unit, log: bool) -> AxisHints<'static> {
    hints(AxisHints::new_y(), unit, log).min_thickness(38.0)
}

fn hints(hints: AxisHints<'static>, unit: Unit, log: bool) -> AxisHints<'static> {
    // marks are as far apart as their numbers need, so none has to fade
    hints.formatter(move |mark, _| unit.mark_text(mark, log)).label_spacing(1.0..=2.0)
}

/// The least of 1, 2 and 5 times a power of ten from `least` on.
fn round(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0].map(|times| times * power).into_iter().find(|step| *step >= least).unwrap_or(10.0 * power)
}

fn multiples(step: f64, (low, high): (f64, f64)) -> impl Iterator<Item = GridMark> {
    /// More than fit in any window.
    const MOST: usize = 500;
    let first = (low / step).ceil();
    let values = (0..MOST).map(move |index| (first + index as f64) * step).take_while(move |value| *value <= high);
    values.map(move |value| GridMark { value, step_size: step })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an axis of so many points says from `low` to `high`.
    fn said(unit: Unit, (low, high): (f64, f64), log: bool, points: f64) -> Vec<String> {
        let bounds = if log { (low.log10(), high.log10()) } else { (low, high) };
        let input = GridInput { bounds, base_step_size: (bounds.1 - bounds.0) / points * LEAST };
        unit.marks(&input, log, ACROSS).into_iter().map(|mark| unit.mark_text(mark, log)).collect()
    }

    #[test]
    fn numbers_stand_at_round_steps() {
        assert_eq!(said(Unit::Steps, (0.0, 885.0), false, 400.0), ["0", "200", "400", "600", "800"]);
        assert_eq!(said(Unit::Steps, (0.0, 16_000.0), false, 400.0), ["0", "5,000", "10,000", "15,000"]);
        assert_eq!(said(Unit::Steps, (7.2, 9.1), false, 400.0), ["8", "9"]);
        assert_eq!(said(Unit::Seconds, (0.0, 100.0), false, 400.0), ["0 s", "30 s", "1:00 min", "1:30 min"]);
        assert_eq!(said(Unit::Epochs, (0.0, 1.0), false, 400.0), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        assert_eq!(said(Unit::Bytes, (0.0, 3e6), false, 300.0), ["0 B", "1 MiB", "2 MiB"]);
    }

    #[test]
    fn every_range_has_numbers() {
        for exponent in -6..9 {
            for part in [1.0, 1.3, 2.2, 3.7, 4.9, 7.5, 9.9] {
                let high = part * 10_f64.powi(exponent);
                for points in [200.0, 420.0, 1100.0] {
                    let marks = said(Unit::Number, (0.0, high), false, points).len() as f64;
                    assert!(marks >= 2.0 && marks <= points / ACROSS + 1.0, "{high} in {points}: {marks}");
                    assert!(!said(Unit::Number, (high, high * 30.0), true, points).is_empty(), "{high} in {points}");
                    assert!(!said(Unit::Number, (high, high * 2.5), true, points).is_empty(), "{high} in {points}");
                }
            }
        }
    }

    #[test]
    fn values_that_do_not_differ_have_room_around_them() {
        let bytes = 412_368.0;
        assert_eq!(Unit::Bytes.room(bytes, bytes + 1.0), Some([bytes - 20_618.45, bytes + 1.0 + 20_618.45]));
        assert!(Unit::Number.room(-0.1, -0.1 + 1e-9).is_some_and(|[low, high]| low < -0.104 && high > -0.096));
        for (low, high) in [(0.0, 0.0), (2.302, 2.303), (-1.0, 1.0), (f64::INFINITY, f64::NEG_INFINITY)] {
            assert_eq!(Unit::Number.room(low, high), None, "{low} to {high}");
        }
    }

    #[test]
    fn a_logarithmic_axis_says_powers_of_ten_and_what_is_between() {
        assert_eq!(said(Unit::Steps, (1.0, 1e4), true, 400.0), ["1", "10", "100", "1,000", "10,000"]);
        let close = said(Unit::Steps, (10.0, 1000.0), true, 800.0);
        assert_eq!(close, ["10", "20", "50", "100", "200", "500", "1,000"]);
        let input = GridInput { bounds: (f64::NEG_INFINITY, 1.0), base_step_size: f64::INFINITY };
        assert!(Unit::Number.marks(&input, false, ACROSS).is_empty());
    }
}
