//! A bar of which a part is filled.

use egui::{Color32, Rect, Response, Role, Sense, Ui, Vec2, WidgetInfo, pos2};

/// A bar of this width. egui's own is never shorter than it is high, so that nothing looks like a tenth.
pub(super) fn progress(ui: &mut Ui, part: f32, width: f32, fill: Color32) -> Response {
    // what is told may be anything
    let part = if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 };
    let size = Vec2::new(width, ui.spacing().interact_size.y);
    let (area, response) = ui.allocate_exact_size(size, Sense::hover());
    let round = area.height() / 2.0;
    ui.painter().rect_filled(area, round, ui.visuals().extreme_bg_color);
    let done = Rect::from_min_max(area.min, pos2(area.left() + part * area.width(), area.bottom()));
    ui.painter_at(done).rect_filled(area, round, fill);
    ui.painter().rect_stroke(area, round, ui.visuals().widgets.noninteractive.bg_stroke, egui::StrokeKind::Inside);
    response.widget_info(|| WidgetInfo::new(Role::ProgressIndicator));
    response
}
