//! Where axes have their numbers, and what these say.

use egui::{RichText, TextStyle, Ui, WidgetText};
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
pub(super) const LEAST: f64 = 8.0;
/// Below as many decades, numbers on a logarithmic axis stand at equal steps.
const FEW_DECADES: f64 = 0.7;
/// What a plot leaves below an axis's name, in parts of its height.
const BELOW_NAME: f32 = 0.25;
/// Half of what is seen of an axis where all points are at one place.
const AROUND_POINT: f64 = 0.5;
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
            Self::Seconds => seconds(value, step),
            Self::Bytes => bytes(value.max(0.0) as u64),
            Self::Epochs | Self::Number => number(value, step),
        }
    }

    /// A value that stands alone.
    pub(super) fn alone(self, value: f64) -> String {
        /// Digits of a time, as a part of it.
        const FINE: f64 = 0.01;
        self.text(value, if self == Self::Seconds { FINE * value } else { value })
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
        if low == 0.0 && high == 0.0 {
            return Some([0.0, 1.0]);
        }
        room_around(low, high, self.least_part()).map(|room| [low - room, high + room])
    }

    /// The least round step from `least` on.
    fn step(self, least: f64) -> f64 {
        match self {
            Self::Bytes => 2_f64.powf(least.log2().ceil()).max(1.0),
            Self::Steps => round(least).max(1.0),
            Self::Seconds if least < 1.0 => round(least),
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
            // there are no steps before the first one
            let low = if self == Self::Number { low } else { low.max(0.0) };
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

/// What of the horizontal axis is to be seen in any case of points from `low` to `high`, which are as they are drawn: of
/// points at one place, a plot would make it as long as the other axis.
pub(super) fn room_across([low, high]: [f64; 2]) -> Option<[f64; 2]> {
    (low == high).then_some([low - AROUND_POINT, high + AROUND_POINT])
}

/// The horizontal axis, with its name. It is as thick as it will be, or the plot would make room for it in its second
/// frame; the vertical one, too.
pub(super) fn across(ui: &Ui, axis: XAxis, log: bool, text: Text) -> AxisHints<'static> {
    let height = |style| ui.text_style_height(&style);
    let thickness = height(TextStyle::Body) + (1.0 + BELOW_NAME) * height(TextStyle::Small);
    let name = WidgetText::from(RichText::new(name(axis, text)).small());
    hints(AxisHints::new_x(), axis.into(), log).label(name).min_thickness(thickness)
}

/// The vertical one.
pub(super) fn up(unit: Unit, log: bool) -> AxisHints<'static> {
    let thickness = if unit == Unit::Bytes { 62.0 } else { 48.0 };
    hints(AxisHints::new_y(), unit, log).min_thickness(thickness)
}

fn hints(hints: AxisHints<'static>, unit: Unit, log: bool) -> AxisHints<'static> {
    // marks are as far apart as their numbers need, so none has to fade
    hints.formatter(move |mark, _| unit.mark_text(mark, log)).label_spacing(1.0..=2.0)
}

/// A time since a run began, told apart from those that are further by `step`.
fn seconds(value: f64, step: f64) -> String {
    /// A part of a second that is told in thousandths, where the grid is finer.
    const FINE: f64 = 0.1;
    let value = value.max(0.0);
    let digits = |step: f64| (-step.log10() - 1e-9).ceil().clamp(0.0, 9.0) as usize;
    let short = |value: f64, step: f64| {
        let text = format!("{value:.*}", digits(step));
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
    };
    if value < 1.0 && step < FINE {
        return format!("{} ms", short(1e3 * value, 1e3 * step));
    }
    match digits(step) {
        _ if value < 60.0 => format!("{} s", short(value, step)),
        digits if digits > 0 && value < 3600.0 => {
            let (minutes, width) = ((value / 60.0).floor(), digits + 3);
            format!("{minutes}:{:0width$.digits$} min", value - 60.0 * minutes)
        }
        _ => duration(value),
    }
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
    fn nothing_is_counted_below_zero() {
        assert_eq!(said(Unit::Steps, (-500.0, 885.0), false, 400.0), ["0", "500"]);
        assert_eq!(said(Unit::Seconds, (-100.0, 70.0), false, 400.0), ["0 s", "1:00 min"]);
        assert_eq!(said(Unit::Bytes, (-4e6, -1e6), false, 400.0), [""; 0]);
        assert_eq!(said(Unit::Number, (-1.0, 1.0), false, 240.0), ["-1", "0", "1"]);
    }

    #[test]
    fn short_times_have_fractions() {
        assert_eq!(said(Unit::Seconds, (0.0, 0.9), false, 400.0), ["0 s", "0.2 s", "0.4 s", "0.6 s", "0.8 s"]);
        assert_eq!(said(Unit::Seconds, (0.0, 0.02), false, 400.0), ["0 ms", "5 ms", "10 ms", "15 ms", "20 ms"]);
        assert_eq!(said(Unit::Seconds, (0.0, 9.0), false, 400.0), ["0 s", "2 s", "4 s", "6 s", "8 s"]);
        assert_eq!(
            said(Unit::Seconds, (61.0, 63.2), false, 400.0),
            ["1:01.0 min", "1:01.5 min", "1:02.0 min", "1:02.5 min", "1:03.0 min"]
        );
        let alone = [0.0, 0.000_12, 0.0123, 0.37, 5.1234, 37.26, 75.4, 3700.0].map(|value| Unit::Seconds.alone(value));
        assert_eq!(alone, ["0 ms", "0.12 ms", "12.3 ms", "370 ms", "5.12 s", "37.3 s", "1:15.4 min", "1:02 h"]);
    }

    #[test]
    fn points_at_one_place_have_room_beside_them() {
        assert_eq!(room_across([400.0, 400.0]), Some([399.5, 400.5]));
        assert_eq!(room_across([0.0, 400.0]), None);
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
        assert_eq!(Unit::Number.room(0.0, 0.0), Some([0.0, 1.0]));
        for (low, high) in [(2.302, 2.303), (-1.0, 1.0), (f64::INFINITY, f64::NEG_INFINITY)] {
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
