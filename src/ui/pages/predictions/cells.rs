//! One sample of the grid.

use egui::{Align2, Color32, FontId, Pos2, Rect, Role, Sense, Shape, Stroke, StrokeKind, Ui, Vec2, WidgetInfo, pos2};

use crate::train::record::Predictions;

use crate::ui::legend::fitted;
use crate::ui::palette;
use crate::ui::text::Text;

use super::class_name;
use super::sheets::Sheets;

/// Points.
const SIDE: f32 = 84.0;
const MASK_SIDE: f32 = 190.0;
const GAP: f32 = 4.0;
const LINE: f32 = 15.0;
/// Half of a mark's width.
const MARK: f32 = 5.0;
/// Of a picture with its lines of words, and of one with its masks.
pub(super) const CLASSIFIED: Vec2 = Vec2::new(SIDE, SIDE + 2.0 * LINE);
pub(super) const MASKED: Vec2 = Vec2::new(2.0 * MASK_SIDE + GAP, MASK_SIDE + LINE);

/// A picture, what the model says, how sure it is, and what it is. Right and wrong have a mark, as not everybody tells
/// green from red.
pub(super) fn classified(ui: &mut Ui, text: Text, sheets: &Sheets, said: &Predictions, number: usize) {
    let sample = &said.samples[number];
    let (area, response) = ui.allocate_exact_size(CLASSIFIED, Sense::hover());
    let picture = Rect::from_min_size(area.min, Vec2::splat(SIDE)).shrink(2.0);
    let right = sample.accuracy >= 1.0;
    let frame = if right { palette::GOOD } else { palette::BAD };
    if !sheets.picture(ui, picture, number) {
        ui.painter().rect_filled(picture, 2.0, ui.visuals().faint_bg_color);
        let (font, color) = (FontId::proportional(12.0), ui.visuals().weak_text_color());
        ui.painter().text(picture.center(), Align2::CENTER_CENTER, format!("#{}", sample.index), font, color);
    }
    ui.painter().rect_stroke(picture, 2.0, Stroke::new(2.0, frame), StrokeKind::Outside);
    let name = |class: u32| class_name(&said.classes, class);
    let (first, sure) = sample.likeliest.first().copied().unwrap_or((0, 0.0));
    let percent = format!("{:.0} %", 100.0 * sure);
    let is = sample.label.map(name).unwrap_or_default();
    let font = FontId::proportional(11.5);
    let row = |number: f32| area.top() + SIDE + LINE * (number + 0.5);
    let ink = ui.visuals().text_color();
    let sureness = ui.painter().text(
        pos2(area.right() - 2.0, row(0.0)),
        Align2::RIGHT_CENTER,
        &percent,
        font.clone(),
        ui.visuals().weak_text_color(),
    );
    mark(ui, pos2(area.left() + MARK, row(0.0)), right, frame);
    let line = |number: f32, words: String, color: Color32, left: f32, right: f32| {
        let words = fitted(ui, words, font.clone(), color, right - left - 3.0);
        ui.painter().galley(pos2(left, row(number) - words.size().y / 2.0), words, color);
    };
    line(0.0, name(first), palette::readable(ui, frame), area.left() + 3.0 * MARK, sureness.left());
    line(1.0, text.f("is {}", &[&is]), ink, area.left() + 2.0, area.right());
    response.widget_info(|| {
        let verdict = if right { text.t("right") } else { text.t("wrong") };
        let words = text
            .f("sample {}: is {}, taken for {} with {}, {}", &[&sample.index, &is, &name(first), &percent, &verdict]);
        WidgetInfo::labeled(Role::Image, true, words)
    });
    response.on_hover_ui(|ui| {
        ui.strong(text.f("sample {}: {}", &[&sample.index, &is]));
        for (class, part) in &sample.likeliest {
            ui.label(format!("{:>5.1} %  {}", 100.0 * part, name(*class)));
        }
        ui.weak(text.f("loss {}", &[&format!("{:.4}", sample.loss)]));
    });
}

/// A tick or a cross, which the fonts do not have.
fn mark(ui: &Ui, center: Pos2, right: bool, color: Color32) {
    let place = |x: f32, y: f32| center + MARK * Vec2::new(x, y);
    let lines = if right {
        vec![vec![place(-0.8, 0.1), place(-0.2, 0.7), place(0.8, -0.7)]]
    } else {
        vec![vec![place(-0.7, -0.7), place(0.7, 0.7)], vec![place(-0.7, 0.7), place(0.7, -0.7)]]
    };
    for line in lines {
        ui.painter().add(Shape::line(line, Stroke::new(1.8, color)));
    }
}

/// A picture with its mask, and with that of the model.
pub(super) fn masked(ui: &mut Ui, text: Text, sheets: &Sheets, said: &Predictions, number: usize, opacity: f32) {
    let sample = &said.samples[number];
    let (area, response) = ui.allocate_exact_size(MASKED, Sense::hover());
    for (side, which) in [0, 1].into_iter().enumerate() {
        let corner = area.min + Vec2::new(side as f32 * (MASK_SIDE + GAP), 0.0);
        let place = Rect::from_min_size(corner, Vec2::splat(MASK_SIDE));
        sheets.picture(ui, place, number);
        sheets.mask(ui, place, number, which, opacity);
    }
    let words = text.f(
        "sample {}: {} of its pixels are right, loss {}",
        &[&sample.index, &format!("{:.1} %", 100.0 * sample.accuracy), &format!("{:.3}", sample.loss)],
    );
    response.widget_info(|| WidgetInfo::labeled(Role::Image, true, &words));
    let at = pos2(area.left(), area.bottom() - LINE / 2.0);
    ui.painter().text(at, Align2::LEFT_CENTER, words, FontId::proportional(11.5), ui.visuals().text_color());
}
