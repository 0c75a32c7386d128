//! Lines whose pixels do not leave their points.

use std::ops::RangeInclusive;

use egui::{Color32, Pos2, Rect, Shape, Stroke, Ui, pos2};
use egui_plot::{ClosestElem, Line, PlotBounds, PlotGeometry, PlotItem, PlotItemBase, PlotPoints, PlotTransform};

/// Points: dashes and the gaps between them.
const DASH: f32 = 10.0;
const GAP: f32 = 6.0;

/// A line as one segment after another. The plot's own joins segments by mitres, which at the turns of a jagged line
/// stick out far beyond its points, and fills dense ones in as bands that are as thin as a hair where they are steep.
pub(super) struct Segments {
    line: Line<'static>,
    stroke: Stroke,
    /// How far it stands out from the ground, 0 to 1: mixed, not transparent, as the ends of segments lie over each
    /// other.
    strength: f32,
    dashed: bool,
}

impl Segments {
    pub(super) fn new(label: &str, points: Vec<[f64; 2]>, color: Color32, width: f32) -> Self {
        let line = Line::new(label, PlotPoints::from(points)).color(color).width(width);
        Self { line, stroke: Stroke::new(width, color), strength: 1.0, dashed: false }
    }

    /// Not continuous.
    pub(super) fn dashed(self, dashed: bool) -> Self {
        Self { dashed, ..self }
    }

    /// In the background, where it does not answer the pointer.
    pub(super) fn faint(self, strength: f32) -> Self {
        Self { line: self.line.allow_hover(false), strength, ..self }
    }
}

/// What is seen of a line, in runs that hang together. Zoomed into, a segment may be a billion times as long as the
/// window is wide, and dashes would be counted along all of it.
fn seen_runs(places: &[Pos2], seen: Rect) -> Vec<Vec<Pos2>> {
    let mut runs: Vec<Vec<Pos2>> = Vec::new();
    for pair in places.array_windows::<2>() {
        let Some([from, to]) = clipped(*pair, seen) else { continue };
        match runs.last_mut() {
            Some(run) if run.last() == Some(&from) => run.push(to),
            _ => runs.push(vec![from, to]),
        }
    }
    runs
}

/// The part of a segment that lies in `seen` (Liang and Barsky 1984), in f64: its ends may be far away.
fn clipped([a, b]: [Pos2; 2], seen: Rect) -> Option<[Pos2; 2]> {
    let sides = [(a.x, b.x, seen.min.x, seen.max.x), (a.y, b.y, seen.min.y, seen.max.y)];
    let sides = sides.map(|(start, end, low, high)| [start, end, low, high].map(f64::from));
    let (mut enters, mut leaves) = (0.0_f64, 1.0_f64);
    for [start, end, low, high] in sides {
        let way = end - start;
        if way == 0.0 {
            if start < low || start > high {
                return None;
            }
            continue;
        }
        let (first, last) = ((low - start) / way, (high - start) / way);
        enters = enters.max(first.min(last));
        leaves = leaves.min(first.max(last));
    }
    let along = |part: f64| {
        let [x, y] = sides.map(|[start, end, ..]| (start + (end - start) * part) as f32);
        pos2(x, y)
    };
    // false for what is no number, too
    let is_seen = enters <= leaves;
    is_seen.then(|| [if enters > 0.0 { along(enters) } else { a }, if leaves < 1.0 { along(leaves) } else { b }])
}

impl PlotItem for Segments {
    fn shapes(&self, ui: &Ui, transform: &PlotTransform, shapes: &mut Vec<Shape>) {
        let PlotGeometry::Points(points) = self.line.geometry() else { return };
        let mut stroke = self.stroke;
        stroke.color = ui.visuals().extreme_bg_color.lerp_to_gamma(stroke.color, self.strength);
        if self.line.highlighted() {
            stroke.width *= 2.0;
        }
        let places = points.iter().map(|point| transform.position_from_point(point)).collect::<Vec<_>>();
        let seen = ui.clip_rect().expand(stroke.width);
        if let [place] = places[..] {
            shapes.push(Shape::circle_filled(place, stroke.width, stroke.color));
        } else if self.dashed {
            let runs = seen_runs(&places, seen);
            shapes.extend(runs.iter().flat_map(|run| Shape::dashed_line(run, stroke, DASH, GAP)));
        } else {
            let pairs = places.array_windows::<2>().filter(|[a, b]| seen.intersects(Rect::from_two_pos(*a, *b)));
            shapes.extend(pairs.map(|pair| Shape::line_segment(*pair, stroke)));
        }
    }

    fn initialize(&mut self, range: RangeInclusive<f64>) {
        self.line.initialize(range);
    }

    fn color(&self) -> Color32 {
        self.stroke.color
    }

    fn geometry(&self) -> PlotGeometry<'_> {
        self.line.geometry()
    }

    fn bounds(&self) -> PlotBounds {
        self.line.bounds()
    }

    fn base(&self) -> &PlotItemBase {
        self.line.base()
    }

    fn base_mut(&mut self) -> &mut PlotItemBase {
        self.line.base_mut()
    }

    fn find_closest(&self, point: Pos2, transform: &PlotTransform) -> Option<ClosestElem> {
        self.line.find_closest(point, transform)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use egui::epaint::{ClippedShape, Primitive};

    /// Where the vertices of this line are, in a frame of 400 by 200 points.
    fn drawn(points: &[[f64; 2]], dashed: bool) -> Rect {
        let context = egui::Context::default();
        let mut shapes = Vec::new();
        let frame = Rect::from_min_max(pos2(0.0, 0.0), pos2(400.0, 200.0));
        let mut output = context.run_ui(egui::RawInput { screen_rect: Some(frame), ..Default::default() }, |ui| {
            shapes.clear();
            let bounds = PlotBounds::from_min_max([0.0, -1.0], [400.0, 7.0]);
            let line = Segments::new("line", points.to_vec(), Color32::RED, 1.2).dashed(dashed);
            line.shapes(ui, &PlotTransform::new(frame, bounds, false), &mut shapes);
        });
        output.textures_delta.clear();
        let clipped = shapes.into_iter().map(|shape| ClippedShape::new(frame, shape)).collect();
        let mut area = Rect::NOTHING;
        for primitive in context.tessellate(clipped, 1.0) {
            if let Primitive::Mesh(mesh) = primitive.primitive {
                mesh.vertices.iter().for_each(|vertex| area.extend_with(vertex.pos));
            }
        }
        area
    }

    #[test]
    fn of_a_line_zoomed_into_only_what_is_seen_has_dashes() {
        let seen = Rect::from_min_max(pos2(0.0, 0.0), pos2(400.0, 200.0));
        let far = [pos2(-4e9, 100.0), pos2(100.0, 100.0), pos2(200.0, 50.0), pos2(4e9, 50.0), pos2(4e9, 5e9)];
        let runs = seen_runs(&far, seen);
        let length: f32 = runs.iter().flat_map(|run| run.array_windows::<2>()).map(|[a, b]| a.distance(*b)).sum();
        assert!(runs.iter().flatten().all(|place| seen.expand(1.0).contains(*place)), "{runs:?}");
        assert!((300.0..500.0).contains(&length), "{length}");
        // what lies inside is one run, so that dashes go on over its points
        assert_eq!(seen_runs(&far[1..3], seen), [far[1..3].to_vec()]);
        assert_eq!(seen_runs(&[pos2(-1.0, -1.0), pos2(-5.0, 3.0)], seen), Vec::<Vec<Pos2>>::new());
    }

    #[test]
    fn nothing_is_drawn_beyond_the_points() {
        // from 0 to 6, which lie at 175 and 25 of 200, and back within less than a pixel
        let spikes = |step: f64| -> Vec<[f64; 2]> {
            (0..400).map(|index| [f64::from(index) * step, f64::from(index % 2) * 6.0]).collect()
        };
        for (step, dashed) in [(1.0, false), (0.3, false), (0.01, false), (0.3, true)] {
            let area = drawn(&spikes(step), dashed);
            assert!(area.top() > 22.0 && area.bottom() < 178.0, "{step} {dashed}: {area:?}");
            assert!(area.height() > 148.0, "{step} {dashed}: {area:?}");
        }
    }

    #[test]
    fn a_point_alone_is_seen() {
        assert!(drawn(&[[200.0, 3.0]], false).width() > 1.0);
        assert!(!drawn(&[], false).is_positive());
    }
}
