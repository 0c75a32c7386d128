//! Numbers over time: several runs over each other, smoothed, zoomed, exported.

mod axes;
mod chart;
mod families;
mod key;
mod lines;
mod sections;
mod seeds;
mod smoothing;
mod stroke;

use std::collections::HashMap;

use egui::{Align2, CollapsingHeader, ComboBox, Grid, Id, ScrollArea, Slider, TextEdit, Ui, Vec2, Window};

use crate::runs::{Axis, Recording, XAxis};

use crate::ui::export::{self, Format};
use crate::ui::palette;
use crate::ui::settings::CurveSettings;
use crate::ui::text::Text;
use crate::ui::window::Seen;

use chart::Chart;
use families::{Family, families};
use lines::Lines;
use sections::{Heading, sections};

/// Height of a chart over its width.
const ASPECT: f32 = 0.62;
/// Points between charts.
const GAP: f32 = 10.0;

/// What the page remembers.
#[derive(Default)]
pub(super) struct Curves {
    /// Counts up to have all charts go back to showing everything.
    resets: u64,
    /// The chart that is shown alone.
    large: Option<String>,
    export: Option<export::Dialog>,
    lines: Lines,
    /// Whether sections are open, of those that somebody has opened or folded.
    open: HashMap<String, bool>,
}

impl Curves {
    pub(super) fn ui(&mut self, ui: &mut Ui, seen: &mut Seen<'_>) {
        self.controls(ui, seen);
        key::lines(ui, seen.text, &seen.settings.curves);
        ui.separator();
        let shown = seen.selection.shown(seen.runs);
        let families = families(&shown, &seen.settings.curves.filter);
        if families.is_empty() {
            let message = if seen.runs.is_empty() {
                seen.text.t("Nothing has been measured yet")
            } else {
                seen.text.t("No curve of the chosen runs fits")
            };
            return super::nothing(ui, message);
        }
        if let Some(family) = self.large.as_ref().and_then(|name| families.iter().find(|family| family.name == *name)) {
            let size = Vec2::new(ui.available_width(), ui.available_height() - GAP);
            self.chart(ui, seen, &shown, family, size);
        } else {
            self.large = None;
            ScrollArea::vertical().auto_shrink([false, false]).show(ui, |ui| {
                for section in sections(&families, &shown, !seen.settings.curves.filter.trim().is_empty()) {
                    let title = match section.heading {
                        Heading::None => {
                            self.grid(ui, seen, &shown, "", &section.families);
                            continue;
                        }
                        Heading::Part(part) => part,
                        Heading::Single => seen.text.t("single values"),
                    };
                    let open = self.open.get(title).copied().unwrap_or(section.open);
                    let header = CollapsingHeader::new(format!("{title} ({})", section.families.len()));
                    let header = header.id_salt(("section", title)).default_open(open).open(Some(open));
                    let body = |ui: &mut Ui| self.grid(ui, seen, &shown, title, &section.families);
                    if header.show_unindented(ui, body).header_response.clicked() {
                        self.open.insert(title.to_owned(), !open);
                    }
                }
            });
        }
        self.exporting(ui, seen, &shown, &families);
    }

    /// The charts of a section side by side.
    fn grid(&mut self, ui: &mut Ui, seen: &Seen<'_>, shown: &[&Recording], section: &str, families: &[&Family]) {
        let columns = (ui.available_width() / seen.settings.curves.chart_width).round().max(1.0) as usize;
        let width = (ui.available_width() - GAP * (columns - 1) as f32) / columns as f32;
        let size = Vec2::new(width, (width * ASPECT).clamp(160.0, 420.0));
        Grid::new(("charts", section)).num_columns(columns).spacing([GAP, GAP]).show(ui, |ui| {
            for (number, family) in families.iter().enumerate() {
                self.chart(ui, seen, shown, family, size);
                if (number + 1).is_multiple_of(columns) {
                    ui.end_row();
                }
            }
        });
        ui.add_space(GAP);
    }

    fn controls(&mut self, ui: &mut Ui, seen: &mut Seen<'_>) {
        let text = seen.text;
        let settings = &mut seen.settings.curves;
        ui.horizontal_wrapped(|ui| {
            let label = ui.label(text.t("Over"));
            let axis = ComboBox::from_id_salt("axis").selected_text(axis_name(text, settings.axis)).width(70.0);
            let axis = axis.show_ui(ui, |ui| {
                for axis in [XAxis::Step, XAxis::Epoch, XAxis::Time] {
                    if ui.selectable_value(&mut settings.axis, axis, axis_name(text, axis)).changed() {
                        self.resets += 1;
                    }
                }
            });
            axis.response.labelled_by(label.id);
            if ui.checkbox(&mut settings.log_x, text.t("log x")).changed() {
                self.resets += 1;
            }
            if ui.checkbox(&mut settings.log_y, text.t("log y")).changed() {
                self.resets += 1;
            }
            let label = ui.label(text.t("Smoothing"));
            let slider = Slider::new(&mut settings.smoothing, 0.0..=0.999).max_decimals(3);
            let slider = ui.add(slider).labelled_by(label.id);
            slider.on_hover_text(text.t("Weight of the past in the moving average; the line as it is stays behind it"));
            let band = ui.checkbox(&mut settings.band, text.t("mean over seeds"));
            band.on_hover_text(text.t("Mean and range of runs that differ in nothing but their seed"));
            let label = ui.label(text.t("Size"));
            ui.add(Slider::new(&mut settings.chart_width, 260.0..=1200.0).show_value(false)).labelled_by(label.id);
            let filter = TextEdit::singleline(&mut settings.filter).desired_width(110.0);
            let filter = ui.add(filter.hint_text(text.t("filter curves")));
            filter.on_hover_text(text.t("Draw curves whose names contain this"));
            if ui
                .button(text.t("Show all"))
                .on_hover_text(text.t("Zoom out to everything (or double click a chart)"))
                .clicked()
            {
                self.resets += 1;
            }
            if ui.button(text.t("Export…")).clicked() {
                self.export = Some(export::Dialog::new(self.large.clone()));
            }
        });
    }

    fn chart(&mut self, ui: &mut Ui, seen: &Seen<'_>, shown: &[&Recording], family: &Family, size: Vec2) {
        ui.allocate_ui(size, |ui| {
            ui.set_min_size(size);
            ui.vertical(|ui| {
                ui.horizontal(|ui| {
                    ui.strong(&family.name);
                    let is_large = self.large.is_some();
                    let label = if is_large { seen.text.t("small") } else { seen.text.t("large") };
                    if ui.small_button(label).clicked() {
                        self.large = (!is_large).then(|| family.name.clone());
                    }
                });
                if !ui.is_rect_visible(ui.available_rect_before_wrap()) {
                    return;
                }
                let chart = Chart::new(family, shown, seen, &self.lines);
                chart.ui(ui, Id::unique(("chart", self.resets)), seen.text);
            });
        });
    }

    fn exporting(&mut self, ui: &Ui, seen: &Seen<'_>, shown: &[&Recording], families: &[Family]) {
        let Some(dialog) = &mut self.export else { return };
        let mut open = true;
        let text = seen.text;
        let window = Window::new(text.t("Export")).open(&mut open).collapsible(false).resizable(false);
        let window = window.pivot(Align2::CENTER_CENTER).default_pos(ui.ctx().content_rect().center());
        window.show(ui.ctx(), |ui| {
            let label = ui.label(text.t("Curve"));
            // what was chosen may be filtered out by now
            let chosen = families.iter().find(|family| dialog.family.as_ref() == Some(&family.name));
            let chosen = chosen.unwrap_or(&families[0]);
            ComboBox::from_id_salt("family")
                .selected_text(&chosen.name)
                .width(240.0)
                .show_ui(ui, |ui| {
                    for family in families {
                        ui.selectable_value(&mut dialog.family, Some(family.name.clone()), &family.name);
                    }
                })
                .response
                .labelled_by(label.id);
            let label = ui.label(text.t("Into the folder"));
            ui.add(TextEdit::singleline(&mut dialog.folder).desired_width(240.0)).labelled_by(label.id);
            ui.horizontal(|ui| {
                for format in Format::ALL {
                    if ui.button(format.name()).clicked() {
                        let chart = Chart::new(chosen, shown, seen, &self.lines);
                        let tags: Vec<&str> = chosen.tags.iter().map(|(tag, _)| tag.as_str()).collect();
                        let result = export::write(&chart.for_export(text), shown, &tags, format, &dialog.folder);
                        dialog.result = Some(result);
                    }
                }
            });
            match &dialog.result {
                Some(Ok(path)) => {
                    ui.colored_label(palette::GOOD, text.f("written: {}", &[&path.display()]));
                }
                Some(Err(error)) => {
                    ui.colored_label(palette::BAD, error);
                }
                None => {}
            }
        });
        if !open {
            self.export = None;
        }
    }
}

fn axis_name(text: Text, axis: XAxis) -> &'static str {
    match axis {
        XAxis::Step => text.t("steps"),
        XAxis::Epoch => text.t("epochs"),
        XAxis::Time => text.t("time"),
    }
}

impl CurveSettings {
    fn x(&self) -> Axis {
        Axis { of: self.axis, log: self.log_x }
    }
}
