//! Lines whose pixels do not leave their points.

use std::ops::RangeInclusive;

use egui::{Color32, Pos2, Rect, Shape, Stroke, Ui};
use egui_plot::{ClosestElem, Line, PlotBounds, PlotGeometry, PlotItem, PlotItemBase, PlotPoints, PlotTransform};

/// Points: dashes and the gaps between them.
const DASH: f32 = 10.0;
const GAP: f32 = 6.0;

/// A line as one segment after another. The plot's own joins segments by mitres, which at the turns of a jagged line stick out
/// far beyond its points, and fills dense ones in as bands that are as thin as a hair where they are steep.
pub(super) struct Segments {
    line: Line<'static>,
    stroke: Stroke,
    /// How far it stands out from the ground, 0 to 1: mixed, not transparent, as the ends of segments lie over each other.
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
            let is_out = |pair: &[Pos2]| !seen.intersects(Rect::from_two_pos(pair[0], pair[1]));
            let first = places.windows(2).position(|pair| !is_out(pair)).unwrap_or(places.len());
            let last = places.windows(2).rposition(|pair| !is_out(pair)).map_or(first, |last| last + 2);
            shapes.extend(Shape::dashed_line(&places[first..last], stroke, DASH, GAP));
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
    use egui::pos2;

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
