//! Lines whose pixels do not leave their points.

use std::ops::RangeInclusive;

use egui::{Color32, Pos2, Rect, Shape, Stroke, Ui, pos2};
use egui_plot::{ClosestElem, Line, PlotBounds, PlotGeometry, PlotItem, PlotItemBase, PlotPoints, PlotTransform};

/// Points: dashes and the gaps between them.
const DASH: f32 = 10.0;
const GAP: f32 = 6.0;
/// Points that lie closer than this have no direction from one to the other that is worth drawing.
const NEAR: f32 = 0.01;

/// A line as paths that end where it turns back. The plot's own goes on there, by mitres that stick out far beyond its
/// points, and fills dense ones in as bands that are as thin as a hair where they are steep. Segments would each be
/// moved to whole pixels, and shortened, where they are level.
pub(super) struct Stretches {
    line: Line<'static>,
    stroke: Stroke,
    /// How far it stands out from the ground, 0 to 1: mixed, not transparent, as the ends of paths lie over each other.
    strength: f32,
    dashed: bool,
}

impl Stretches {
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

/// The dashes of a run, which follow its turns: where they begin and end does not depend on where its points lie.
fn dashes(run: &[Pos2]) -> Vec<Vec<Pos2>> {
    let (mut dashes, mut dash) = (Vec::new(), run.get(..1).unwrap_or_default().to_vec());
    // what is left of a dash, or of the gap behind it
    let (mut left, mut is_gap) = (DASH, false);
    for [from, to] in run.array_windows::<2>() {
        let (length, mut done) = (from.distance(*to), 0.0);
        while length - done > left {
            done += left;
            let place = from.lerp(*to, done / length);
            if is_gap {
                dash = vec![place];
            } else {
                dash.push(place);
                dashes.push(std::mem::take(&mut dash));
            }
            is_gap = !is_gap;
            left = if is_gap { GAP } else { DASH };
        }
        left -= length - done;
        if !is_gap {
            dash.push(*to);
        }
    }
    dashes.extend((dash.len() > 1).then_some(dash));
    dashes
}

/// The parts of a run between the places where it turns back, by more than a right angle.
fn stretches(run: &[Pos2]) -> Vec<&[Pos2]> {
    let (mut parts, mut start) = (Vec::new(), 0);
    for (before, [a, b, c]) in run.array_windows::<3>().enumerate() {
        if (*b - *a).dot(*c - *b) < 0.0 {
            parts.push(&run[start..before + 2]);
            start = before + 1;
        }
    }
    parts.push(&run[start..]);
    parts
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
    // false for what is not a number, too
    let is_seen = enters <= leaves;
    is_seen.then(|| [if enters > 0.0 { along(enters) } else { a }, if leaves < 1.0 { along(leaves) } else { b }])
}

impl PlotItem for Stretches {
    fn shapes(&self, ui: &Ui, transform: &PlotTransform, shapes: &mut Vec<Shape>) {
        let PlotGeometry::Points(points) = self.line.geometry() else { return };
        let mut stroke = self.stroke;
        stroke.color = ui.visuals().extreme_bg_color.lerp_to_gamma(stroke.color, self.strength);
        if self.line.highlighted() {
            stroke.width *= 2.0;
        }
        let mut places = points.iter().map(|point| transform.position_from_point(point)).collect::<Vec<_>>();
        places.dedup_by(|next, kept| next.distance(*kept) < NEAR);
        if let [place] = places[..] {
            shapes.push(Shape::circle_filled(place, stroke.width, stroke.color));
            return;
        }
        let mut runs = seen_runs(&places, ui.clip_rect().expand(2.0 * stroke.width));
        if self.dashed {
            runs = runs.iter().flat_map(|run| dashes(run)).collect();
        }
        let parts = runs.iter().flat_map(|run| stretches(run));
        shapes.extend(parts.map(|part| Shape::line(part.to_vec(), stroke)));
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

    /// The shapes of this line in a frame of 400 by 200 points.
    fn shapes(points: &[[f64; 2]], dashed: bool) -> (egui::Context, Rect, Vec<Shape>) {
        let context = egui::Context::default();
        let mut shapes = Vec::new();
        let frame = Rect::from_min_max(pos2(0.0, 0.0), pos2(400.0, 200.0));
        let mut output = context.run_ui(egui::RawInput { screen_rect: Some(frame), ..Default::default() }, |ui| {
            shapes.clear();
            let bounds = PlotBounds::from_min_max([0.0, -1.0], [400.0, 7.0]);
            let line = Stretches::new("line", points.to_vec(), Color32::RED, 1.2).dashed(dashed);
            line.shapes(ui, &PlotTransform::new(frame, bounds, false), &mut shapes);
        });
        output.textures_delta.clear();
        (context, frame, shapes)
    }

    /// Where the vertices of this line are.
    fn drawn(points: &[[f64; 2]], dashed: bool) -> Rect {
        let (context, frame, shapes) = shapes(points, dashed);
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

    /// A line that is level, with points closer to each other than pixels are.
    fn level() -> Vec<[f64; 2]> {
        (0..=1000).map(|index| [f64::from(index) * 0.3, 3.0]).collect()
    }

    #[test]
    fn a_level_line_has_no_gaps() {
        let (.., shapes) = shapes(&level(), false);
        let [Shape::Path(path)] = &shapes[..] else { panic!("{} shapes", shapes.len()) };
        let (first, last) = (path.points[0], path.points[path.points.len() - 1]);
        assert!(first.x.abs() < 0.1 && (last.x - 300.0).abs() < 0.1, "{first} to {last}");
        assert!(path.points.iter().all(|place| place.y == first.y));
    }

    #[test]
    fn dashes_are_of_equal_length_wherever_points_lie() {
        let (.., shapes) = shapes(&level(), true);
        let ends = |shape: &Shape| match shape {
            Shape::Path(path) => [path.points[0].x, path.points[path.points.len() - 1].x],
            other => panic!("{other:?}"),
        };
        let ends: Vec<[f32; 2]> = shapes.iter().map(ends).collect();
        assert_eq!(ends.len(), 19, "a dash for every 16 points of 300");
        for [[from, to], [next, _]] in ends.array_windows() {
            assert!((to - from - DASH).abs() < 0.1 && (next - to - GAP).abs() < 0.1, "{from} to {to}, {next}");
        }
    }

    #[test]
    fn a_line_ends_where_it_turns_back() {
        let corner = [pos2(0.0, 0.0), pos2(10.0, 0.0), pos2(10.0, 10.0)];
        assert_eq!(stretches(&corner), [&corner[..]], "a right angle is no way back");
        let back = [pos2(0.0, 0.0), pos2(10.0, 0.0), pos2(20.0, 1.0), pos2(15.0, 9.0), pos2(15.0, 20.0)];
        assert_eq!(stretches(&back), [&back[..3], &back[2..]]);
    }

    #[test]
    fn a_point_alone_is_seen() {
        assert!(drawn(&[[200.0, 3.0]], false).width() > 1.0);
        assert!(drawn(&[[200.0, 3.0], [200.0, 3.0]], true).width() > 1.0, "two at one place");
        assert!(!drawn(&[], false).is_positive());
    }
}
