//! The training step as its kernels, in waves, and each of them in detail.

use egui::{
    Align2, Color32, ComboBox, FontId, Grid, Panel, Rect, RichText, Role, ScrollArea, Sense, Stroke, TextEdit, Ui,
    Vec2, WidgetInfo, pos2,
};

use crate::bench::Peak;
use crate::stage::Stage;
use crate::train::record::{KernelRecord, PlanRecord};
use crate::units::{bytes, thousands};

use crate::ui::legend::legend;
use crate::ui::palette;
use crate::ui::text::Text;
use crate::ui::translate::{Dialect, translate};
use crate::ui::window::Seen;

/// Points.
const NODE: Vec2 = Vec2::new(210.0, 38.0);
const GAP: Vec2 = Vec2::new(14.0, 26.0);
const DETAILS: f32 = 400.0;
const NOT_MEASURED: Color32 = Color32::from_gray(90);

/// What the page remembers.
pub(super) struct Graph {
    chosen: Option<usize>,
    dialect: Dialect,
    zoom: f32,
    /// The text that was translated last.
    translated: Option<Translated>,
}

/// A text in another language, or why there is none.
struct Translated {
    wgsl: String,
    dialect: Dialect,
    result: Result<String, String>,
}

impl Default for Graph {
    fn default() -> Self {
        Self { chosen: None, dialect: Dialect::Wgsl, zoom: 1.0, translated: None }
    }
}

impl Graph {
    pub(super) fn ui(&mut self, ui: &mut Ui, seen: &mut Seen<'_>) {
        let text = seen.text;
        let Some(run) = seen.selection.focus(seen.runs) else {
            return super::nothing(ui, text.t("No run is chosen"));
        };
        super::about_run(ui, seen, run);
        let Some(plan) = run.plan.as_ref() else {
            return super::nothing(ui, text.t("This run has written no plan"));
        };
        ui.horizontal_wrapped(|ui| {
            ui.strong(text.f("{} kernels, {} of memory", &[&plan.kernels.len(), &bytes(plan.bytes)]));
            ui.separator();
            ui.label(text.t("coloured by"));
            ui.selectable_value(&mut seen.settings.kernels_by_time, false, text.t("stage"));
            ui.selectable_value(&mut seen.settings.kernels_by_time, true, text.t("time"));
            ui.separator();
            for (sign, factor, what) in [("-", 0.8, text.t("smaller")), ("+", 1.25, text.t("larger"))] {
                if ui.small_button(sign).accessible_name(what).on_hover_text(what).clicked() {
                    self.zoom = (self.zoom * factor).clamp(0.3, 2.0);
                }
            }
            let measured: f64 = plan.kernels.iter().filter_map(|kernel| kernel.milliseconds).sum();
            if measured > 0.0 {
                ui.label(text.f("{} ms a step in kernels", &[&format!("{measured:.3}")]));
            }
        });
        let colors = Colors::new(&plan.kernels, seen.settings.kernels_by_time);
        legend(ui, colors.meanings(text));
        ui.separator();
        if let Some(kernel) = self.chosen.and_then(|number| plan.kernels.get(number)) {
            Panel::right("kernel").default_size(DETAILS).size_range(240.0..=900.0).show(ui, |ui| {
                self.details(ui, text, kernel, seen);
            });
        }
        ScrollArea::both().auto_shrink([false, false]).show(ui, |ui| self.picture(ui, plan, &colors));
    }

    fn picture(&mut self, ui: &mut Ui, plan: &PlanRecord, colors: &Colors) {
        let zoom = self.zoom;
        let (node, gap) = (NODE * zoom, GAP * zoom);
        let places = places(&plan.kernels);
        let columns = places.iter().map(|place| place.0 + 1).max().unwrap_or(1);
        let rows = places.iter().map(|place| place.1 + 1).max().unwrap_or(1);
        let size = Vec2::new(columns as f32 * (node.x + gap.x) + 60.0, rows as f32 * (node.y + gap.y));
        let (area, _) = ui.allocate_exact_size(size.max(ui.available_size()), Sense::hover());
        let rect = |number: usize| {
            let (column, row) = places[number];
            let corner = pos2(column as f32 * (node.x + gap.x) + 50.0, row as f32 * (node.y + gap.y));
            Rect::from_min_size(area.min + corner.to_vec2(), node)
        };
        let seen = ui.clip_rect();
        let line = ui.visuals().weak_text_color().gamma_multiply(0.9);
        for (number, kernel) in plan.kernels.iter().enumerate() {
            for &before in &kernel.after {
                let (from, to) = (rect(before).center_bottom(), rect(number).center_top());
                let touched = self.chosen.is_some_and(|chosen| chosen == number || chosen == before);
                if seen.intersects(Rect::from_two_pos(from, to)) {
                    let stroke = if touched { Stroke::new(2.2, palette::EMBER) } else { Stroke::new(1.2, line) };
                    let bend = Vec2::new(0.0, gap.y.max((to.y - from.y) * 0.4));
                    let points = [from, from + bend, to - bend, to];
                    ui.painter().add(egui::epaint::CubicBezierShape::from_points_stroke(
                        points,
                        false,
                        Color32::TRANSPARENT,
                        stroke,
                    ));
                }
            }
        }
        let mut last_wave = None;
        for (number, kernel) in plan.kernels.iter().enumerate() {
            let place = rect(number);
            if !seen.intersects(place) {
                continue;
            }
            if last_wave != Some(kernel.wave) {
                let at = pos2(area.left() + 4.0, place.center().y);
                let (font, color) = (FontId::proportional(11.0 * zoom), ui.visuals().weak_text_color());
                ui.painter().text(at, Align2::LEFT_CENTER, format!("{}", kernel.wave + 1), font, color);
                last_wave = Some(kernel.wave);
            }
            self.node(ui, place, number, kernel, colors.of(kernel));
        }
    }

    fn node(&mut self, ui: &mut Ui, place: Rect, number: usize, kernel: &KernelRecord, fill: Color32) {
        let response = ui.interact(place, ui.scope_id().with(("kernel", number)), Sense::click());
        response.widget_info(|| WidgetInfo::labeled(Role::Button, true, &kernel.label));
        let ink = palette::ink_on(fill);
        let chosen = self.chosen == Some(number);
        let width = if chosen { 2.5 } else { f32::from(u8::from(response.hovered())) };
        let painter = ui.painter_at(place.expand(2.0));
        painter.rect(place, 5.0, fill, Stroke::new(width, ui.visuals().strong_text_color()), egui::StrokeKind::Outside);
        let font = |size: f32| FontId::proportional(size * self.zoom);
        let left = place.left() + 6.0 * self.zoom;
        painter.text(pos2(left, place.top() + 11.0 * self.zoom), Align2::LEFT_CENTER, &kernel.label, font(12.0), ink);
        let mut below = kernel.modules.first().cloned().unwrap_or_default();
        if let Some(time) = kernel.milliseconds {
            below = format!("{time:.3} ms  {below}");
        }
        painter.text(pos2(left, place.bottom() - 10.0 * self.zoom), Align2::LEFT_CENTER, below, font(10.5), ink);
        if response.clicked() {
            self.chosen = (!chosen).then_some(number);
        }
        response.on_hover_text(&kernel.label);
    }

    fn details(&mut self, ui: &mut Ui, text: Text, kernel: &KernelRecord, seen: &Seen<'_>) {
        let peak = seen.settings.peak_of(seen.selection.focus(seen.runs));
        ui.horizontal(|ui| {
            ui.heading(RichText::new(&kernel.label).size(16.0));
            if ui.small_button("×").accessible_name(text.t("close")).on_hover_text(text.t("close")).clicked() {
                self.chosen = None;
            }
        });
        Grid::new("facts").num_columns(2).spacing([14.0, 4.0]).show(ui, |ui| {
            let mut row = |name: &str, value: String| {
                ui.weak(name);
                ui.add(egui::Label::new(value).wrap());
                ui.end_row();
            };
            row(text.t("stage"), format!("{}, {} {}", text.t(kernel.stage.name()), text.t("wave"), kernel.wave + 1));
            row(text.t("modules"), kernel.modules.join(", "));
            row(text.t("writes"), kernel.writes.join(", "));
            row(text.t("operations"), thousands(kernel.flops));
            row(text.t("memory traffic"), bytes(kernel.bytes));
            match kernel.milliseconds.filter(|time| *time > 0.0) {
                Some(time) => {
                    let source = kernel.source.map_or("", |source| text.t(source.name()));
                    row(text.t("time"), format!("{time:.4} ms ({source})"));
                    let (gflops, gigabytes) = (kernel.flops as f64 / time * 1e-6, kernel.bytes as f64 / time * 1e-6);
                    let most = |peak: &Peak| {
                        kernel.products.map_or(peak.gflops, |(dtype, precision)| peak.gflops_of(dtype, precision))
                    };
                    row("GFLOP/s", of_limit(text, gflops, peak.as_ref().map(most), ""));
                    row("GB/s", of_limit(text, gigabytes, peak.map(|peak| peak.gigabytes), text.t("from caches")));
                    if peak.is_none() {
                        row("", text.t("the device's limits are measured on the page Devices").to_owned());
                    }
                }
                None => row(text.t("time"), text.t("not measured").to_owned()),
            }
        });
        if kernel.wgsl.is_empty() {
            ui.weak(text.t("this kernel has no text"));
            return;
        }
        ui.horizontal(|ui| {
            let label = ui.label(text.t("text in"));
            let choice = ComboBox::from_id_salt("dialect").selected_text(self.dialect.name());
            choice
                .show_ui(ui, |ui| {
                    for dialect in Dialect::ALL {
                        ui.selectable_value(&mut self.dialect, dialect, dialect.name());
                    }
                })
                .response
                .labelled_by(label.id);
        });
        let dialect = self.dialect;
        let known = self.translated.take().filter(|known| known.dialect == dialect && known.wgsl == kernel.wgsl);
        let shown = self.translated.insert(known.unwrap_or_else(|| {
            let (wgsl, result) = (kernel.wgsl.clone(), translate(&kernel.wgsl, dialect));
            Translated { wgsl, dialect, result }
        }));
        ScrollArea::both().auto_shrink([false, false]).show(ui, |ui| match &shown.result {
            Ok(code) => {
                // it can be marked and copied, and not changed
                let mut code = code.as_str();
                ui.add(TextEdit::multiline(&mut code).code_editor().desired_width(f32::INFINITY));
            }
            Err(error) => {
                ui.colored_label(palette::readable(ui, palette::BAD), error.as_str());
            }
        });
    }
}

/// A rate, and which part it is of what the device was measured to do; of more than that, why it may be.
fn of_limit(text: Text, rate: f64, most: Option<f64>, beyond: &str) -> String {
    match most {
        Some(most) if rate <= most => format!("{rate:.2}  ({:.0} % {} {most:.1})", 100.0 * rate / most, text.t("of")),
        Some(_) if !beyond.is_empty() => format!("{rate:.2}  ({beyond})"),
        _ => format!("{rate:.2}"),
    }
}

/// What kernels are filled with.
struct Colors {
    /// Milliseconds of the slowest one, if time is what counts.
    slowest: Option<f64>,
    stages: Vec<Stage>,
}

impl Colors {
    fn new(kernels: &[KernelRecord], by_time: bool) -> Self {
        let slowest = || kernels.iter().filter_map(|kernel| kernel.milliseconds).fold(0.0, f64::max);
        let has = |stage: &Stage| kernels.iter().any(|kernel| kernel.stage == *stage);
        Self { slowest: by_time.then(slowest), stages: Stage::ALL.into_iter().filter(has).collect() }
    }

    fn of(&self, kernel: &KernelRecord) -> Color32 {
        match (self.slowest, kernel.milliseconds) {
            (None, _) => palette::of_stage(kernel.stage),
            // most kernels take a small part of what the slowest one does
            (Some(slowest), Some(time)) if slowest > 0.0 => palette::heat((time / slowest).sqrt() as f32),
            (Some(_), _) => NOT_MEASURED,
        }
    }

    fn meanings(&self, text: Text) -> impl Iterator<Item = (Color32, String)> {
        let entries = match self.slowest {
            None => {
                self.stages.iter().map(|stage| (palette::of_stage(*stage), text.t(stage.name()).to_owned())).collect()
            }
            Some(slowest) => {
                let time = |part: f32| (palette::heat(part), format!("{:.3} ms", slowest * f64::from(part * part)));
                let unknown = (NOT_MEASURED, text.t("not measured").to_owned());
                [0.0, 0.33, 0.67, 1.0].map(time).into_iter().chain([unknown]).collect::<Vec<_>>()
            }
        };
        entries.into_iter()
    }
}

/// Column and row of each kernel: a row for each wave, wide waves over several.
fn places(kernels: &[KernelRecord]) -> Vec<(usize, usize)> {
    const MOST: usize = 6;
    let mut places = Vec::with_capacity(kernels.len());
    let (mut row, mut column, mut wave) = (0, 0, kernels.first().map_or(0, |kernel| kernel.wave));
    for kernel in kernels {
        if kernel.wave != wave || column == MOST {
            (row, column, wave) = (row + 1, 0, kernel.wave);
        }
        places.push((column, row));
        column += 1;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_share_is_above_the_whole() {
        let of = |rate, most| of_limit(Text(crate::ui::Language::English), rate, most, "from caches");
        let said = [of(2.5, Some(5.0)), of(11.74, Some(5.1)), of(1.0, None)];
        assert_eq!(said, ["2.50  (50 % of 5.0)", "11.74  (from caches)", "1.00"]);
    }

    #[test]
    fn waves_are_rows() {
        let kernel = |wave| KernelRecord {
            label: String::new(),
            stage: Stage::Forward,
            wave,
            modules: Vec::new(),
            after: Vec::new(),
            writes: Vec::new(),
            flops: 0,
            products: None,
            bytes: 0,
            wgsl: String::new(),
            milliseconds: None,
            source: None,
        };
        let of = |waves: &[usize]| places(&waves.iter().map(|&wave| kernel(wave)).collect::<Vec<_>>());
        assert_eq!(of(&[0, 0, 1, 2]), [(0, 0), (1, 0), (0, 1), (0, 2)]);
        assert_eq!(of(&[5; 7]).last(), Some(&(0, 1)), "a wide wave goes on below");
        assert!(of(&[]).is_empty());
    }
}
