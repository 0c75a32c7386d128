//! Histograms one behind the other, or over each other, and their quantiles over time.

use egui::{Align2, Color32, FontId, Pos2, Rect, Role, Sense, Shape, Stroke, Ui, Vec2, WidgetInfo, pos2};
use egui_plot::{FilledArea, Line, Plot, PlotPoints};

use crate::runs::RecordedHistogram;
use crate::ui::text::Text;

/// Most histograms that are drawn behind each other.
const MOST: usize = 32;
/// Places from left to right.
const PLACES: usize = 64;
/// Part of the height that the largest one takes.
const TALLEST: f32 = 0.45;
/// Points.
const AXIS: f32 = 14.0;
/// Parts of the values that lie below the lines of a distribution: TensorBoard's, which are those of a normal
/// distribution at whole standard deviations.
const QUANTILES: [f64; 9] = [0.0, 0.0668, 0.1587, 0.3085, 0.5, 0.6915, 0.8413, 0.9332, 1.0];

/// Densities on a common grid, from back to front.
pub(super) struct Ridge {
    range: [f64; 2],
    rows: Vec<Row>,
    /// Rows stand behind each other, or on one line.
    is_offset: bool,
}

struct Row {
    step: u64,
    color: Color32,
    density: Vec<f64>,
}

impl Ridge {
    /// The histograms of one run, the oldest at the back.
    pub(super) fn over_time(color: Color32, histograms: &[RecordedHistogram]) -> Self {
        let stride = histograms.len().div_ceil(MOST).max(1);
        // counted from the last one, which should be among them
        let mut chosen: Vec<&RecordedHistogram> = histograms.iter().rev().step_by(stride).collect();
        chosen.reverse();
        let range = range(chosen.iter().copied());
        let len = chosen.len().max(2) as f32 - 1.0;
        let row = |(number, histogram): (usize, &&RecordedHistogram)| {
            let color = color.lerp_to_gamma(Color32::from_gray(128), 0.6 * (1.0 - number as f32 / len));
            Row { step: histogram.step, color, density: density(histogram, range) }
        };
        Self { range, rows: chosen.iter().enumerate().map(row).collect(), is_offset: true }
    }

    /// The last histograms of several runs.
    pub(super) fn overlay(runs: &[(Color32, &[RecordedHistogram])]) -> Self {
        let lasts: Vec<_> = runs.iter().filter_map(|(color, all)| Some((*color, all.last()?))).collect();
        let range = range(lasts.iter().map(|(_, histogram)| *histogram));
        let row = |(color, histogram): (Color32, &RecordedHistogram)| Row {
            step: histogram.step,
            color,
            density: density(histogram, range),
        };
        Self { range, rows: lasts.into_iter().map(row).collect(), is_offset: false }
    }

    pub(super) fn ui(&self, ui: &mut Ui, text: Text) {
        let (area, response) = ui.allocate_exact_size(ui.available_size(), Sense::hover());
        let plot = Rect::from_min_max(area.min, area.max - Vec2::new(36.0, AXIS));
        let painter = ui.painter_at(area);
        painter.rect_filled(plot, 3.0, ui.visuals().faint_bg_color);
        let highest = self.rows.iter().flat_map(|row| &row.density).copied().fold(0.0, f64::max).max(1e-30);
        let tallest = plot.height() * if self.is_offset { TALLEST } else { 0.92 };
        let len = self.rows.len().max(2) as f32 - 1.0;
        let weak = ui.visuals().weak_text_color();
        let mut hovered = None;
        for (number, row) in self.rows.iter().enumerate() {
            let depth = if self.is_offset { 1.0 - number as f32 / len } else { 0.0 };
            let base = plot.bottom() - depth * (plot.height() - tallest);
            let place = |at: usize| {
                let x = plot.left() + at as f32 / (PLACES - 1) as f32 * plot.width();
                pos2(x, base - (row.density[at] / highest) as f32 * tallest)
            };
            let top: Vec<Pos2> = (0..PLACES).map(place).collect();
            fill(&painter, &top, base, row.color.gamma_multiply(if self.is_offset { 0.75 } else { 0.25 }));
            let edge = if self.is_offset { ui.visuals().extreme_bg_color } else { row.color };
            painter.add(Shape::line(top, Stroke::new(1.0, edge)));
            let is_marked = self.is_offset && (number == 0 || number + 1 == self.rows.len());
            if is_marked {
                let at = pos2(plot.right() + 3.0, base);
                painter.text(at, Align2::LEFT_CENTER, row.step.to_string(), FontId::proportional(10.0), weak);
            }
            if let Some(pointer) = response.hover_pos().filter(|pointer| plot.contains(*pointer) && pointer.y <= base) {
                let at = ((pointer.x - plot.left()) / plot.width() * (PLACES - 1) as f32).round() as usize;
                hovered = Some((row.step, self.value(at)));
            }
        }
        for (part, align) in [(0.0, Align2::LEFT_TOP), (0.5, Align2::CENTER_TOP), (1.0, Align2::RIGHT_TOP)] {
            let value = self.range[0] + f64::from(part) * (self.range[1] - self.range[0]);
            let at = pos2(plot.left() + part * plot.width(), plot.bottom() + 1.0);
            painter.text(at, align, short(value), FontId::proportional(10.0), weak);
        }
        let range = self.range.map(short);
        response.widget_info(|| {
            let words = text.f("{} histograms of values from {} to {}", &[&self.rows.len(), &range[0], &range[1]]);
            WidgetInfo::labeled(Role::Image, true, words)
        });
        if let Some((step, value)) = hovered {
            response.on_hover_text_at_pointer(text.f("step {}, value {}", &[&step, &short(value)]));
        }
    }

    fn value(&self, place: usize) -> f64 {
        self.range[0] + place as f64 / (PLACES - 1) as f64 * (self.range[1] - self.range[0])
    }
}

/// What lies under a line, as quadrilaterals: polygons that are not convex are not filled well.
fn fill(painter: &egui::Painter, top: &[Pos2], base: f32, color: Color32) {
    let mut mesh = egui::Mesh::default();
    for point in top {
        mesh.colored_vertex(*point, color);
        mesh.colored_vertex(pos2(point.x, base), color);
    }
    for left in 0..top.len().saturating_sub(1) as u32 {
        let at = 2 * left;
        mesh.add_triangle(at, at + 1, at + 2);
        mesh.add_triangle(at + 1, at + 2, at + 3);
    }
    painter.add(mesh);
}

/// The quantiles of one run over its steps.
pub(super) fn distribution(ui: &mut Ui, tag: &str, color: Color32, histograms: &[RecordedHistogram]) {
    let steps: Vec<f64> = histograms.iter().map(|histogram| histogram.step as f64).collect();
    let lines: Vec<Vec<f64>> =
        QUANTILES.iter().map(|part| histograms.iter().map(|histogram| histogram.quantile(*part)).collect()).collect();
    Plot::new(("distribution", tag)).allow_scroll(false).show(ui, |plot| {
        for pair in 0..QUANTILES.len() / 2 {
            let (low, high) = (&lines[pair], &lines[QUANTILES.len() - 1 - pair]);
            if steps.len() > 1 && low.iter().chain(high).all(|value| value.is_finite()) {
                let part = color.gamma_multiply(0.12 + 0.1 * pair as f32);
                plot.add(FilledArea::new("", &steps, low, high).fill_color(part).allow_hover(false));
            }
        }
        for (part, values) in QUANTILES.iter().zip(&lines) {
            let points: Vec<[f64; 2]> = steps.iter().zip(values).map(|(&step, &value)| [step, value]).collect();
            let width = if *part == 0.5 { 2.0 } else { 0.7 };
            let name = format!("{:.0} %", 100.0 * part);
            plot.line(Line::new(name, PlotPoints::from(points)).color(color).width(width));
        }
    });
}

/// The range that takes in all but the thinnest tails.
fn range<'a>(histograms: impl Iterator<Item = &'a RecordedHistogram>) -> [f64; 2] {
    const TAIL: f64 = 0.001;
    let mut range: Option<[f64; 2]> = None;
    for histogram in histograms {
        let [low, high] = [histogram.quantile(TAIL), histogram.quantile(1.0 - TAIL)];
        if low.is_finite() && high.is_finite() {
            let known = range.unwrap_or([low, high]);
            range = Some([known[0].min(low), known[1].max(high)]);
        }
    }
    let [low, high] = range.unwrap_or([-1.0, 1.0]);
    if high > low { [low, high] } else { [low - 0.5, high + 0.5] }
}

/// How densely values lie at each place of the grid.
fn density(histogram: &RecordedHistogram, [from, to]: [f64; 2]) -> Vec<f64> {
    let cell = (to - from) / PLACES as f64;
    let mut density = vec![0.0; PLACES];
    for bucket in &histogram.buckets {
        // a bucket of one value has no width
        let (left, right) = (bucket.left, bucket.right.max(bucket.left + 1e-3 * cell));
        let first = ((left - from) / cell).floor().clamp(0.0, PLACES as f64 - 1.0) as usize;
        let last = ((right - from) / cell).floor().clamp(0.0, PLACES as f64 - 1.0) as usize;
        for (place, value) in density.iter_mut().enumerate().take(last + 1).skip(first) {
            let edge = from + place as f64 * cell;
            let shared = (right.min(edge + cell) - left.max(edge)).max(0.0);
            *value += bucket.count * shared / (right - left) / cell;
        }
    }
    let total: f64 = histogram.buckets.iter().map(|bucket| bucket.count).sum();
    density.iter_mut().for_each(|value| *value /= total.max(1.0));
    density
}

fn short(value: f64) -> String {
    if value == 0.0 || (1e-2..1e4).contains(&value.abs()) { format!("{value:.2}") } else { format!("{value:.0e}") }
}
