//! One chart: the curves of one family, of all runs that are drawn.

use std::ops::RangeInclusive;

use egui::{Color32, Id, Label, RichText, Ui, Vec2b};
use egui_plot::{FilledArea, HoverPosition, Plot, PlotBounds, PlotUi};

use crate::runs::export::{Chart as Drawing, ChartLine};
use crate::runs::{BandPoint, Recording, Series, band};

use crate::ui::selection::Selection;
use crate::ui::settings::CurveSettings;
use crate::ui::text::Text;
use crate::ui::window::Seen;

use super::axes::{self, Unit};
use super::families::{Family, is_held_out};
use super::lines::{Lines, View};
use super::seeds::groups;
use super::smoothing;
use super::stroke::Stretches;

/// Places in a line for each point of the chart's width: a bucket of first, least, greatest and last is then a few
/// pixels wide.
const PER_POINT: f32 = 2.0;
/// What is left of a line behind its smoothed one.
const FAINT: f32 = 0.35;
/// Lines of the grid are seen from one distance on, in points, and as bright as words at another: curves come first.
const GRID: RangeInclusive<f32> = axes::LEAST as f32..=1200.0;
const EXPORT_PLACES: usize = 2000;
const EXPORT_SIZE: (u32, u32) = (1280, 800);

/// What is drawn, and how.
pub(super) struct Chart<'a> {
    family: &'a Family,
    runs: &'a [&'a Recording],
    settings: &'a CurveSettings,
    selection: &'a Selection,
    lines: &'a Lines,
}

/// A line before it is drawn.
struct Curve<'a> {
    run: &'a Recording,
    tag: &'a str,
    label: String,
    color: Color32,
    series: &'a Series,
    /// Of held-out samples.
    is_held_out: bool,
}

/// Mean and range over seeds.
struct Seeds {
    label: String,
    color: Color32,
    points: Vec<BandPoint>,
    /// Of held-out samples.
    is_held_out: bool,
}

impl<'a> Chart<'a> {
    /// The curves of `family`, of these runs, drawn as the settings say.
    pub(super) fn new(family: &'a Family, runs: &'a [&'a Recording], seen: &'a Seen<'_>, lines: &'a Lines) -> Self {
        Self { family, runs, settings: &seen.settings.curves, selection: seen.selection, lines }
    }

    pub(super) fn ui(&self, ui: &mut Ui, id: Id, text: Text) {
        let most = ((ui.available_width() * PER_POINT) as usize).max(64);
        let x = self.settings.x();
        let [log_x, log_y] = [self.settings.log_x, self.settings.log_y];
        let y = if self.family.name.ends_with("_bytes") { Unit::Bytes } else { Unit::Number };
        let plot = Plot::new(id.with(&self.family.name));
        let plot = self.room_across().into_iter().flatten().fold(plot, Plot::include_x);
        let plot = self.room(y).into_iter().flatten().fold(plot, Plot::include_y);
        let plot = plot
            .link_axis(id, Vec2b::new(true, false))
            .link_cursor(id, Vec2b::new(true, false))
            .allow_scroll(false)
            .grid_spacing(GRID)
            .x_grid_spacer(move |input| Unit::from(x.of).marks(&input, log_x, axes::ACROSS))
            .y_grid_spacer(move |input| y.marks(&input, log_y, axes::UP))
            .custom_x_axes(vec![axes::across(ui, x.of, log_x, text)])
            .custom_y_axes(vec![axes::up(y, log_y)])
            .label_formatter(move |position| {
                let (HoverPosition::NearDataPoint { position, .. } | HoverPosition::Elsewhere { position }) = position;
                let at = unlog(position.x, log_x);
                let values = self.values_at(at, y, text);
                let name = axes::name(x.of, text);
                (!values.is_empty()).then(|| format!("{name} {}\n{values}", Unit::from(x.of).alone(at)))
            });
        let shown = plot.show(ui, |plot| {
            let range = self.range(plot);
            if self.settings.band {
                for Seeds { label, color, points, is_held_out } in self.seeds(range, most, text) {
                    self.band(plot, &label, color, &points, is_held_out);
                }
            } else {
                self.lines(plot, range, most);
            }
        });
        if self.has_no_logarithm() {
            let why = RichText::new(text.t("no values above 0 to draw on a logarithmic axis")).weak();
            ui.put(shown.response.rect, Label::new(why).wrap().selectable(false));
        }
    }

    /// Whether nothing is drawn because none of it has a logarithm.
    fn has_no_logarithm(&self) -> bool {
        let is_positive = |curve: &Curve<'_>| curve.series.max().is_some_and(|most| most > 0.0);
        self.settings.log_y && !self.curves().iter().any(is_positive)
    }

    /// What of the vertical axis is to be seen in any case: of values that differ in their last bits alone, a plot
    /// would fill it with those.
    fn room(&self, unit: Unit) -> Option<[f64; 2]> {
        if self.has_no_logarithm() {
            return Some([0.0, 1.0]);
        }
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for series in self.curves().iter().map(|curve| curve.series) {
            low = series.min().map_or(low, |least| low.min(least));
            high = series.max().map_or(high, |most| high.max(most));
        }
        let log = |value: f64| if self.settings.log_y { value.log10() } else { value };
        let room = unit.room(low, high)?.map(log);
        room.iter().all(|value| value.is_finite()).then_some(room)
    }

    /// The same of the horizontal axis.
    fn room_across(&self) -> Option<[f64; 2]> {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for [first, last] in self.curves().iter().filter_map(|curve| curve.series.bounds(self.settings.axis)) {
            (low, high) = (low.min(first), high.max(last));
        }
        let places = [low, high].map(|x| if self.settings.log_x { x.log10() } else { x });
        // an axis without a line has its points' places as well
        let room = axes::room_across(places).or_else(|| self.has_no_logarithm().then_some(places))?;
        room.iter().all(|x| x.is_finite()).then_some(room)
    }

    /// The values of all curves there, a line for each: as they were measured, and as they are drawn if that is smoothed.
    fn values_at(&self, at: f64, unit: Unit, text: Text) -> String {
        const MOST: usize = 16;
        let axis = self.settings.axis;
        let curves = self.curves().into_iter().filter_map(|curve| {
            let is_there = lies_within(curve.series.bounds(axis)?, at);
            let point = is_there.then(|| curve.series.nearest(axis, at)).flatten()?;
            let is_smooth = !self.settings.band && self.smooths(&curve).is_some();
            let smooth = is_smooth.then(|| self.lines.smoothed_at(&curve.run.folder, curve.tag, at)).flatten();
            let value = match smooth {
                Some(smooth) => text.f("{} (smoothed {})", &[&unit.alone(point.value), &unit.alone(smooth)]),
                None => unit.alone(point.value),
            };
            Some(format!("{}: {value}", curve.label))
        });
        let mut lines: Vec<String> = curves.collect();
        if lines.len() > MOST {
            let more = lines.len() - MOST;
            lines.truncate(MOST);
            lines.push(text.f("and {} more", &[&more]));
        }
        lines.join("\n")
    }

    /// What is seen of the horizontal axis, in its own units, with a margin so that lines go on to the edges.
    fn range(&self, plot: &PlotUi<'_>) -> RangeInclusive<f64> {
        let bounds: PlotBounds = plot.plot_bounds();
        if plot.auto_bounds().x || !bounds.is_valid() {
            return f64::NEG_INFINITY..=f64::INFINITY;
        }
        let margin = 0.05 * bounds.width();
        let [low, high] = [bounds.min()[0] - margin, bounds.max()[0] + margin].map(|x| unlog(x, self.settings.log_x));
        low..=high
    }

    fn curves(&self) -> Vec<Curve<'_>> {
        let mut curves = Vec::new();
        for run in self.runs {
            for (tag, part) in &self.family.tags {
                if let Some(series) = run.series.get(tag) {
                    let label = if part.is_empty() { run.name.clone() } else { format!("{} ({part})", run.name) };
                    let color = self.selection.color(&run.folder);
                    curves.push(Curve { run, tag, label, color, series, is_held_out: is_held_out(part) });
                }
            }
        }
        curves
    }

    /// Weight of the past in the moving average of a curve; `None` if it is drawn as it is.
    fn smooths(&self, curve: &Curve<'_>) -> Option<f64> {
        self.weight(curve.tag, &[curve.series], curve.is_held_out)
    }

    fn weight(&self, tag: &str, series: &[&Series], is_held_out: bool) -> Option<f64> {
        if is_held_out { None } else { smoothing::weight(self.settings.smoothing, tag, series) }
    }

    fn lines(&self, plot: &mut PlotUi<'_>, range: RangeInclusive<f64>, most: usize) {
        let x = self.settings.x();
        let curves = self.curves();
        let points = |curve: &Curve<'_>, weight| {
            let view = View { version: curve.run.version, axis: x, range: range.clone(), most, weight };
            self.lines.points(&curve.run.folder, curve.tag, curve.series, view)
        };
        // what is in the background comes first: it covers what lies below it
        for curve in curves.iter().filter(|curve| self.smooths(curve).is_some()) {
            self.line(plot, &points(curve, None), |points| {
                Stretches::new(&curve.label, points, curve.color, 1.2).faint(FAINT)
            });
        }
        for curve in &curves {
            let weight = self.smooths(curve);
            let width = if weight.is_some() || curve.is_held_out { 1.8 } else { 1.2 };
            self.line(plot, &points(curve, weight), |points| {
                Stretches::new(&curve.label, points, curve.color, width).dashed(curve.is_held_out)
            });
        }
    }

    /// Draws a line, or several where it has gaps.
    fn line(&self, plot: &mut PlotUi<'_>, points: &[[f64; 2]], dress: impl Fn(Vec<[f64; 2]>) -> Stretches) {
        for piece in points.split(|point| self.place(*point).is_none()) {
            let placed: Vec<[f64; 2]> = piece.iter().filter_map(|point| self.place(*point)).collect();
            if !placed.is_empty() {
                plot.add(dress(placed));
            }
        }
    }

    /// Where a point is drawn; nowhere if it has no logarithm.
    fn place(&self, [x, y]: [f64; 2]) -> Option<[f64; 2]> {
        let log = |value: f64, log: bool| if log { value.log10() } else { value };
        let place = [log(x, self.settings.log_x), log(y, self.settings.log_y)];
        place.iter().all(|value| value.is_finite()).then_some(place)
    }

    /// What runs that differ in nothing but their seed say together.
    fn seeds(&self, range: RangeInclusive<f64>, most: usize, text: Text) -> Vec<Seeds> {
        let mut found = Vec::new();
        for group in groups(self.runs) {
            let color = self.selection.color(&group[0].folder);
            for (tag, part) in &self.family.tags {
                let series: Vec<&Series> = group.iter().filter_map(|run| run.series.get(tag)).collect();
                if series.is_empty() {
                    continue;
                }
                let is_held_out = is_held_out(part);
                let weight = self.weight(tag, &series, is_held_out).unwrap_or(0.0);
                let points = band(&series, self.settings.x(), range.clone(), weight, most);
                let label = text.f("{}, {} runs {}", &[&group[0].name, &series.len(), part]);
                found.push(Seeds { label: label.trim_end().to_owned(), color, points, is_held_out });
            }
        }
        found
    }

    fn band(&self, plot: &mut PlotUi<'_>, label: &str, color: Color32, points: &[BandPoint], is_held_out: bool) {
        let placed = |of: fn(&BandPoint) -> f64| -> Vec<Option<[f64; 2]>> {
            points.iter().map(|point| self.place([point.x, of(point)])).collect()
        };
        let (mean, low, high) = (placed(|point| point.mean), placed(|point| point.low), placed(|point| point.high));
        let edges = low.iter().zip(&high).filter_map(|(low, high)| Some(((*low)?, (*high)?)));
        let (xs, (lows, highs)): (Vec<f64>, (Vec<f64>, Vec<f64>)) =
            edges.map(|(low, high)| (low[0], (low[1], high[1]))).unzip();
        if xs.len() > 1 {
            let area = FilledArea::new(label, &xs, &lows, &highs).fill_color(color.gamma_multiply(0.2));
            plot.add(area.allow_hover(false));
        }
        let mean: Vec<[f64; 2]> = mean.into_iter().flatten().collect();
        plot.add(Stretches::new(label, mean, color, 1.8).dashed(is_held_out));
    }

    /// The chart for a file: everything, not only what is seen.
    pub(super) fn for_export(&self, text: Text) -> Drawing<'_> {
        Drawing {
            title: &self.family.name,
            x: self.settings.axis.unit(),
            y: "",
            low_legend: false,
            log_x: self.settings.log_x,
            log_y: self.settings.log_y,
            lines: if self.settings.band { self.bands_for_export(text) } else { self.lines_for_export() },
            size: EXPORT_SIZE,
        }
    }

    fn lines_for_export(&self) -> Vec<ChartLine> {
        let (x, all) = (self.settings.x(), f64::NEG_INFINITY..=f64::INFINITY);
        let line = |curve: Curve<'_>| {
            let weight = self.smooths(&curve);
            let Curve { label, color, series, is_held_out, .. } = curve;
            let (mut points, mut faint) = (Vec::new(), None);
            series.decimated(x, all.clone(), EXPORT_PLACES, &mut points);
            if let Some(weight) = weight {
                let mut smooth = Vec::new();
                series.smoothed(x, all.clone(), weight, EXPORT_PLACES, &mut smooth);
                faint = Some(std::mem::replace(&mut points, smooth));
            }
            ChartLine { label, color: rgb(color), points, faint, dashed: is_held_out, ..Default::default() }
        };
        self.curves().into_iter().map(line).collect()
    }

    fn bands_for_export(&self, text: Text) -> Vec<ChartLine> {
        let all = f64::NEG_INFINITY..=f64::INFINITY;
        let line = |Seeds { label, color, points, is_held_out }: Seeds| ChartLine {
            label,
            color: rgb(color),
            points: points.iter().map(|point| [point.x, point.mean]).collect(),
            band: points.iter().map(|point| [point.x, point.low, point.high]).collect(),
            dashed: is_held_out,
            ..Default::default()
        };
        self.seeds(all, EXPORT_PLACES, text).into_iter().map(line).collect()
    }
}

fn rgb(color: Color32) -> [u8; 3] {
    let [r, g, b, _] = color.to_array();
    [r, g, b]
}

fn unlog(value: f64, log: bool) -> f64 {
    if log { 10_f64.powf(value) } else { value }
}

/// Whether a place is one of a curve, which its ends are whatever rounding there was.
fn lies_within([from, to]: [f64; 2], at: f64) -> bool {
    const ROUNDING: f64 = 1e-9;
    (from - ROUNDING * from.abs()..=to + ROUNDING * to.abs()).contains(&at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::tensorboard::EventWriter;
    use crate::ui::Language;

    #[test]
    fn the_ends_of_a_curve_are_found_on_a_logarithmic_axis() {
        let through_log = |x: f64| unlog(x.log10(), true);
        assert!((1..1000).map(f64::from).any(|x| through_log(x) > x), "rounding there is");
        for x in (1..1000).map(f64::from) {
            assert!(lies_within([0.5, x], through_log(x)) && lies_within([x, 2e3], through_log(x)), "{x}");
        }
        assert!(lies_within([0.0, 3.0], 0.0) && !lies_within([1.0, 3.0], 3.01) && !lies_within([1.0, 3.0], 0.99));
    }

    /// What `look` sees in the chart of a curve of these values.
    fn seen<T>(values: &[f32], settings: &CurveSettings, look: impl Fn(&Chart<'_>) -> T) -> T {
        let family = Family { name: "loss".into(), tags: vec![("loss".into(), "")] };
        let folder = tempfile::tempdir().expect("a folder");
        let mut events = EventWriter::create(folder.path(), 0).expect("writable");
        for (step, value) in (1..).zip(values) {
            events.scalar("loss", *value, step).expect("writable");
        }
        events.flush().expect("writable");
        let run = Recording::open(folder.path());
        let (runs, selection, lines) = ([&run], Selection::default(), Lines::default());
        look(&Chart { family: &family, runs: &runs, settings, selection: &selection, lines: &lines })
    }

    #[test]
    fn a_short_series_is_smoothed_nowhere() {
        let settings = CurveSettings { smoothing: 0.5, ..CurveSettings::default() };
        let faint = |values: &[f32]| {
            seen(values, &settings, |chart| {
                let drawing = chart.for_export(Text(Language::English));
                let line = &drawing.lines[0];
                (line.points.len(), line.faint.is_some(), chart.smooths(&chart.curves()[0]))
            })
        };
        assert_eq!(faint(&[1.0, 2.0]), (2, false, None));
        assert_eq!(faint(&[1.0, 2.0, 3.0]), (3, true, Some(0.5)));
    }

    #[test]
    fn a_smoothed_value_is_told_beside_the_one_that_was_measured() {
        let mut settings = CurveSettings { smoothing: 0.5, ..CurveSettings::default() };
        let told = |settings: &CurveSettings| {
            seen(&[0.0, 1.0, 1.0], settings, |chart| {
                for curve in chart.curves() {
                    let range = f64::NEG_INFINITY..=f64::INFINITY;
                    let weight = chart.smooths(&curve);
                    let view = View { version: curve.run.version, axis: settings.x(), range, most: 100, weight };
                    chart.lines.points(&curve.run.folder, curve.tag, curve.series, view);
                }
                let told = chart.values_at(2.0, Unit::Number, Text(Language::English));
                told.split_once(": ").expect("a name").1.to_owned()
            })
        };
        assert_eq!(told(&settings), "1 (smoothed 0.6667)");
        settings.smoothing = 0.0;
        assert_eq!(told(&settings), "1");
    }

    #[test]
    fn what_has_no_logarithm_is_told_and_has_an_axis() {
        let plain = CurveSettings::default();
        let log = CurveSettings { log_y: true, ..plain.clone() };
        let room = |values: &[f32], settings: &CurveSettings| {
            seen(values, settings, |chart| (chart.has_no_logarithm(), chart.room(Unit::Number), chart.room_across()))
        };
        assert_eq!(room(&[0.0, -1.0], &log), (true, Some([0.0, 1.0]), Some([1.0, 2.0])));
        assert_eq!(room(&[0.0, 1.0], &log), (false, None, None));
        assert_eq!(room(&[0.0, 0.0], &plain), (false, Some([0.0, 1.0]), None));
        assert_eq!(room(&[1.0], &log).2, Some([0.5, 1.5]));
    }
}
