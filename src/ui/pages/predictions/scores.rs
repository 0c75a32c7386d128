//! What is taken for what, and how well each class is told from the others.

use egui::{Align2, Color32, FontId, Grid, Rect, ScrollArea, Sense, Ui, Vec2};

use crate::runs::Recording;
use crate::train::Confusion;

use crate::ui::text::Text;

use super::class_name;

/// Points.
const LARGEST_CELL: f32 = 54.0;
const SMALLEST_CELL: f32 = 6.0;
const NAMES: f32 = 110.0;

fn classes(run: &Recording) -> &[String] {
    run.predictions.as_ref().map_or(&[], |predictions| &predictions.classes)
}

/// The confusion matrix: rows are what samples are, columns what the model says.
pub(super) fn matrix(ui: &mut Ui, text: Text, run: &Recording) {
    let Some(confusion) = &run.confusion else {
        return super::super::nothing(ui, text.t("Nothing was evaluated yet"));
    };
    let count = confusion.classes();
    ui.label(text.f(
        "rows: what it is; columns: what the model says. {} of {} are right",
        &[&confusion.correct(), &confusion.total()],
    ));
    let room = (ui.available_size() - Vec2::splat(NAMES)) / count as f32;
    let cell = room.min_elem().clamp(SMALLEST_CELL, LARGEST_CELL);
    ScrollArea::both().auto_shrink([false, false]).show(ui, |ui| {
        let (area, response) = ui.allocate_exact_size(Vec2::splat(NAMES + cell * count as f32), Sense::hover());
        let origin = area.min + Vec2::new(NAMES, 22.0);
        let place = |of: usize, said: usize| {
            Rect::from_min_size(origin + Vec2::new(said as f32 * cell, of as f32 * cell), Vec2::splat(cell))
        };
        let painter = ui.painter_at(area.expand(2.0));
        let rows: Vec<u64> = (0..count).map(|of| (0..count).map(|said| confusion.count(of, said)).sum()).collect();
        let names = classes(run);
        let font = FontId::proportional((cell * 0.36).clamp(8.0, 14.0));
        for (of, targets) in rows.into_iter().enumerate() {
            for said in 0..count {
                let number = confusion.count(of, said);
                let part = number as f32 / targets.max(1) as f32;
                let fill = color(part, of == said, ui.visuals().dark_mode);
                painter.rect_filled(place(of, said).shrink(0.5), 1.0, fill);
                if cell >= 20.0 && number > 0 {
                    let ink = crate::ui::palette::ink_on(fill);
                    painter.text(place(of, said).center(), Align2::CENTER_CENTER, number, font.clone(), ink);
                }
            }
            if cell >= 10.0 {
                let ink = ui.visuals().text_color();
                let left = place(of, 0).left_center() - Vec2::new(6.0, 0.0);
                painter.text(left, Align2::RIGHT_CENTER, short(names, of), font.clone(), ink);
                let top = place(0, of).center_top() - Vec2::new(0.0, 4.0);
                painter.text(top, Align2::CENTER_BOTTOM, short(names, of), font.clone(), ink);
            }
        }
        let pointed = response.hover_pos().map(|pointer| (pointer - origin) / cell);
        if let Some(pointed) = pointed.filter(|at| at.min_elem() >= 0.0 && at.max_elem() < count as f32) {
            let (of, said) = (pointed.y as usize, pointed.x as usize);
            let [is, says] = [of, said].map(|class| class_name(names, class as u32));
            response.on_hover_text_at_pointer(
                text.f("{} samples of {} are taken for {}", &[&confusion.count(of, said), &is, &says]),
            );
        }
    });
}

/// Scores of each class.
pub(super) fn table(ui: &mut Ui, text: Text, run: &Recording) {
    let Some(confusion) = &run.confusion else {
        return super::super::nothing(ui, text.t("Nothing was evaluated yet"));
    };
    let names = classes(run);
    ScrollArea::vertical().auto_shrink([false, false]).show(ui, |ui| {
        Grid::new("classes").striped(true).spacing([26.0, 5.0]).show(ui, |ui| {
            let score = if run.segments() { "Dice" } else { "F1" };
            for title in [text.t("class"), text.t("precision"), text.t("recall"), score, "IoU", text.t("targets")] {
                ui.weak(title);
            }
            ui.end_row();
            for class in 0..confusion.classes() {
                let scores = confusion.class(class);
                ui.label(class_name(names, class as u32));
                for value in [scores.precision, scores.recall, scores.f1, scores.iou] {
                    ui.monospace(format!("{:>6.2} %", 100.0 * value));
                }
                ui.monospace(scores.support.to_string());
                ui.end_row();
            }
            means(ui, text, confusion);
        });
    });
}

fn means(ui: &mut Ui, text: Text, confusion: &Confusion) {
    let mean = confusion.means();
    ui.strong(text.t("mean"));
    for value in [mean.precision, mean.recall, mean.f1, mean.iou] {
        ui.monospace(format!("{:>6.2} %", 100.0 * value));
    }
    ui.monospace(confusion.total().to_string());
    ui.end_row();
}

fn short(names: &[String], class: usize) -> String {
    class_name(names, class as u32).chars().take(14).collect()
}

/// Green on the diagonal, red beside it, stronger with more.
fn color(part: f32, right: bool, dark: bool) -> Color32 {
    let ground = if dark { Color32::from_gray(38) } else { Color32::from_gray(240) };
    let full = if right { crate::ui::palette::GOOD } else { crate::ui::palette::BAD };
    // a few mistakes should be seen
    ground.lerp_to_gamma(full, part.sqrt())
}
