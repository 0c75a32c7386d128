//! What is taken for what, and how well each class is told from the others.

use std::f32::consts::FRAC_PI_2;
use std::ops::Range;
use std::sync::Arc;

use egui::epaint::TextShape;
use egui::{Align2, Color32, FontId, Galley, Grid, Rangef, Rect, Role, ScrollArea, Sense, Ui, Vec2, WidgetInfo, pos2};

use crate::runs::Recording;
use crate::train::Confusion;

use crate::ui::legend::fitted;
use crate::ui::text::Text;

use super::class_name;

/// Points.
const LARGEST_CELL: f32 = 54.0;
const SMALLEST_CELL: f32 = 6.0;
const NAMES: f32 = 110.0;
const GAP: f32 = 6.0;

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
    let names: Vec<String> = (0..count).map(|class| class_name(classes(run), class as u32)).collect();
    let room = (ui.available_size() - Vec2::splat(NAMES)) / count as f32;
    let cell = room.min_elem().clamp(SMALLEST_CELL, LARGEST_CELL);
    ScrollArea::both().auto_shrink([false, false]).show(ui, |ui| {
        let font = FontId::proportional((cell * 0.36).clamp(8.0, 14.0));
        let headings = Headings::new(ui, &names, &font, cell);
        let corner = Vec2::new(headings.left, headings.top);
        let size = corner + Vec2::splat(cell * count as f32);
        let (area, response) = ui.allocate_exact_size(size, Sense::hover());
        let origin = area.min + corner;
        let place = |of: usize, said: usize| {
            Rect::from_min_size(origin + Vec2::new(said as f32 * cell, of as f32 * cell), Vec2::splat(cell))
        };
        let painter = ui.painter_at(area.expand(2.0));
        let clip = ui.clip_rect();
        let seen = |from: f32, sides: Rangef| classes_in(sides, from, cell, count);
        let (rows, columns) = (seen(origin.y, clip.y_range()), seen(origin.x, clip.x_range()));
        for said in columns.clone() {
            headings.above(ui, said, place(0, said));
        }
        for of in rows {
            headings.beside(ui, of, place(of, 0));
            let targets: u64 = (0..count).map(|said| confusion.count(of, said)).sum();
            for said in columns.clone() {
                let number = confusion.count(of, said);
                let part = number as f32 / targets.max(1) as f32;
                let fill = color(part, of == said, ui.visuals().dark_mode);
                painter.rect_filled(place(of, said).shrink(0.5), 1.0, fill);
                if cell >= 20.0 && number > 0 {
                    let ink = crate::ui::palette::ink_on(fill);
                    painter.text(place(of, said).center(), Align2::CENTER_CENTER, number, font.clone(), ink);
                }
            }
        }
        response.widget_info(|| WidgetInfo::labeled(Role::Image, true, in_words(text, confusion, &names)));
        let class = |at: f32| usize::try_from(at.floor() as i64).ok().filter(|class| *class < count);
        let pointed = response.hover_pos().map(|pointer| (pointer - origin) / cell);
        let hint = match pointed.map(|at| (class(at.y), class(at.x))) {
            Some((Some(of), Some(said))) => {
                text.f("{} of {} are taken for {}", &[&confusion.count(of, said), &names[of], &names[said]])
            }
            Some((Some(class), None) | (None, Some(class))) => names[class].clone(),
            _ => return,
        };
        response.on_hover_text_at_pointer(hint);
    });
}

/// The classes whose cells, the first of which begins at `from`, lie between these sides of what is seen.
fn classes_in(sides: Rangef, from: f32, cell: f32, count: usize) -> Range<usize> {
    // what is negative or no number becomes 0
    let start = ((sides.min - from) / cell).floor() as usize;
    let end = (((sides.max - from) / cell).ceil() as usize).min(count);
    start.min(end)..end
}

/// What is most often taken for what, for those who do not see it.
fn in_words(text: Text, confusion: &Confusion, names: &[String]) -> String {
    const MOST: usize = 5;
    let pairs = (0..names.len()).flat_map(|of| (0..names.len()).map(move |said| (of, said)));
    // the most often first; of as many the first ones
    let mut wrong: Vec<(u64, usize, usize)> = Vec::new();
    for (of, said) in pairs.filter(|(of, said)| of != said) {
        let count = confusion.count(of, said);
        let place = wrong.partition_point(|(other, ..)| *other >= count);
        if count > 0 && place < MOST {
            wrong.truncate(MOST - 1);
            wrong.insert(place, (count, of, said));
        }
    }
    let said = |(count, of, said): &(u64, usize, usize)| {
        text.f("{} of {} are taken for {}", &[count, &names[*of], &names[*said]])
    };
    let said: Vec<String> = wrong.iter().map(said).collect();
    format!("{}: {}", text.t("confusion matrix"), said.join("; "))
}

/// Names of classes beside and above the matrix; those above stand upright where they are too wide.
struct Headings {
    names: Vec<Arc<Galley>>,
    upright: bool,
    left: f32,
    top: f32,
}

impl Headings {
    fn new(ui: &Ui, names: &[String], font: &FontId, cell: f32) -> Self {
        // smaller ones cannot be read
        let shown = if cell >= 10.0 { names } else { &[] };
        let ink = ui.visuals().text_color();
        let names: Vec<_> = shown.iter().map(|name| fitted(ui, name.clone(), font.clone(), ink, NAMES - GAP)).collect();
        let widest = names.iter().map(|name| name.size().x).fold(0.0, f32::max);
        let height = names.first().map_or(0.0, |name| name.size().y);
        let upright = widest > cell;
        Self { names, upright, left: widest + GAP, top: GAP + if upright { widest } else { height } }
    }

    fn beside(&self, ui: &Ui, class: usize, row: Rect) {
        let Some(name) = self.names.get(class) else { return };
        let (size, ink) = (name.size(), ui.visuals().text_color());
        let left = pos2(row.left() - GAP - size.x, row.center().y - size.y / 2.0);
        ui.painter().galley(left, Arc::clone(name), ink);
    }

    fn above(&self, ui: &Ui, class: usize, column: Rect) {
        let Some(name) = self.names.get(class) else { return };
        let (size, ink) = (name.size(), ui.visuals().text_color());
        let bottom = column.top() - GAP;
        if self.upright {
            let foot = pos2(column.center().x - size.y / 2.0, bottom);
            ui.painter().add(TextShape::new(foot, Arc::clone(name), ink).with_angle(-FRAC_PI_2));
        } else {
            ui.painter().galley(pos2(column.center().x - size.x / 2.0, bottom - size.y), Arc::clone(name), ink);
        }
    }
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

/// Green on the diagonal, red beside it, stronger with more.
fn color(part: f32, right: bool, dark: bool) -> Color32 {
    let ground = if dark { Color32::from_gray(38) } else { Color32::from_gray(240) };
    let full = if right { crate::ui::palette::GOOD } else { crate::ui::palette::BAD };
    // a few mistakes should be seen
    ground.lerp_to_gamma(full, part.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::Language;

    #[test]
    fn only_cells_that_are_seen_are_painted() {
        let count = 300;
        let folder = tempfile::tempdir().expect("a folder");
        let text = serde_json::to_string(&Confusion::new(count, vec![1; count * count])).expect("plain data");
        std::fs::write(folder.path().join("confusion.json"), text).expect("writable");
        let run = Recording::open(folder.path());
        let frame = Rect::from_min_max(pos2(0.0, 0.0), pos2(400.0, 300.0));
        let input = egui::RawInput { screen_rect: Some(frame), ..Default::default() };
        let context = egui::Context::default();
        let mut output = context.run_ui(input, |ui| matrix(ui, Text(Language::English), &run));
        // nothing is drawn
        output.textures_delta.clear();
        context.tex_manager().write().take_delta().clear();
        // 6 points each
        assert!((1000..10_000).contains(&output.shapes.len()), "{}", output.shapes.len());
    }

    #[test]
    fn classes_are_in_sight_or_not() {
        let seen = |low, high| classes_in(Rangef::new(low, high), 100.0, 10.0, 8);
        assert_eq!([seen(0.0, 500.0), seen(115.0, 131.0), seen(175.0, 500.0)], [0..8, 1..4, 7..8]);
        for none in [seen(0.0, 90.0), seen(300.0, 500.0), seen(131.0, 115.0), seen(f32::NAN, f32::NAN)] {
            assert!(none.is_empty(), "{none:?}");
        }
    }

    #[test]
    fn what_is_taken_for_what_most_often_is_said_first() {
        let names = ["a", "b", "c"].map(ToOwned::to_owned);
        let confusion = Confusion::new(3, vec![9, 1, 2, 3, 9, 3, 0, 4, 9]);
        let said = in_words(Text(Language::English), &confusion, &names);
        let pairs: Vec<&str> = said.split(": ").nth(1).expect("pairs").split("; ").collect();
        let pair = |count, of, said| format!("{count} of {of} are taken for {said}");
        let expected = [pair(4, "c", "b"), pair(3, "b", "a"), pair(3, "b", "c"), pair(2, "a", "c"), pair(1, "a", "b")];
        assert_eq!(pairs, expected);
    }
}
