//! What kinds of lines mean; their colours are those of the list of runs.

use egui::{Role, Sense, Shape, Stroke, Ui, Vec2, WidgetInfo};

use crate::ui::settings::CurveSettings;
use crate::ui::text::Text;

/// Points.
const SAMPLE: Vec2 = Vec2::new(26.0, 10.0);
const DASH: f32 = 6.0;

/// How a line is drawn.
#[derive(Clone, Copy)]
enum Kind {
    Solid,
    Dashed,
    Faint,
    Band,
}

/// One line of words and samples.
pub(super) fn lines(ui: &mut Ui, text: Text, settings: &CurveSettings) {
    ui.horizontal_wrapped(|ui| {
        sample(ui, Kind::Solid, text.t("training"));
        sample(ui, Kind::Dashed, text.t("held-out samples"));
        if settings.band {
            sample(ui, Kind::Band, text.t("from the least to the greatest of all seeds"));
        } else if settings.smoothing > 0.0 {
            sample(ui, Kind::Faint, text.t("training, not smoothed"));
        }
        ui.separator();
        ui.weak(text.t("zoom: scroll with Ctrl, or drag with the right button"));
    });
}

fn sample(ui: &mut Ui, kind: Kind, words: &str) {
    let (area, response) = ui.allocate_exact_size(SAMPLE, Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(Role::Image, true, words));
    let ink = ui.visuals().text_color();
    let ends = [area.left_center(), area.right_center()];
    let (full, painter) = (Stroke::new(1.8, ink), ui.painter());
    match kind {
        Kind::Solid => painter.add(Shape::line_segment(ends, full)),
        Kind::Dashed => painter.add(Shape::Vec(Shape::dashed_line(&ends, full, DASH, DASH / 2.0))),
        Kind::Faint => painter.add(Shape::line_segment(ends, Stroke::new(1.0, ink.gamma_multiply(0.35)))),
        Kind::Band => painter.rect_filled(area, 0.0, ink.gamma_multiply(0.2)),
    };
    ui.label(words);
    ui.add_space(4.0);
}
