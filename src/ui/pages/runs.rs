//! All runs: what they were set to, how well they did, how they are; settings side by side.

use std::collections::BTreeSet;

use egui::{Grid, Label, RichText, ScrollArea, Sense, TextEdit, Ui};

use crate::runs::{Recording, natural_order};

use crate::ui::numbers::{duration, score};
use crate::ui::palette;
use crate::ui::settings::RunOrder;
use crate::ui::steer::state;
use crate::ui::text::Text;
use crate::ui::window::Seen;

pub(super) fn ui(ui: &mut Ui, seen: &mut Seen<'_>) {
    let text = seen.text;
    let settings = &mut seen.settings.runs;
    ui.horizontal_wrapped(|ui| {
        ui.label(text.t("sorted by"));
        for (order, name) in [
            (RunOrder::Newest, text.t("newest")),
            (RunOrder::Best, text.t("best score")),
            (RunOrder::Name, text.t("name")),
        ] {
            ui.selectable_value(&mut settings.order, order, name);
        }
        let filter = TextEdit::singleline(&mut settings.filter).desired_width(160.0);
        ui.add(filter.hint_text(text.t("filter by name or setting")))
            .on_hover_text(text.t("For example resnet20 or lr = 0.1"));
    });
    ui.separator();
    let filter = settings.filter.trim().to_lowercase();
    let mut runs: Vec<&Recording> = seen.runs.iter().rev().filter(|run| wants(&filter, run)).collect();
    match settings.order {
        RunOrder::Newest => {}
        RunOrder::Name => runs.sort_by(|a, b| natural_order(&a.name, &b.name)),
        RunOrder::Best => runs.sort_by(|a, b| {
            let score = |run: &Recording| run.best().unwrap_or(f64::NEG_INFINITY);
            score(b).total_cmp(&score(a))
        }),
    }
    if runs.is_empty() {
        return super::nothing(ui, text.t("No runs yet"));
    }
    ScrollArea::both().auto_shrink([false, false]).show(ui, |ui| {
        table(ui, seen, &runs);
        ui.add_space(16.0);
        compare(ui, seen);
    });
}

fn wants(filter: &str, run: &Recording) -> bool {
    let settings = || run.config.as_ref().map(ToString::to_string).unwrap_or_default().to_lowercase();
    filter.is_empty() || run.name.to_lowercase().contains(filter) || settings().contains(filter)
}

/// The settings of the runs that are drawn, in columns, in the order of the list.
fn compare(ui: &mut Ui, seen: &mut Seen<'_>) {
    let shown = seen.selection.shown(seen.runs);
    let runs: Vec<_> = shown.into_iter().rev().filter_map(|run| Some((run, run.config.as_ref()?))).collect();
    if runs.is_empty() {
        return;
    }
    ui.horizontal(|ui| {
        ui.heading(seen.text.t("Settings of the runs that are drawn"));
        ui.checkbox(&mut seen.settings.runs.all_settings, seen.text.t("also those that are equal"));
    });
    let keys: BTreeSet<&String> = runs.iter().flat_map(|(_, config)| config.keys()).collect();
    let value = |config: &toml::Table, key: &str| config.get(key).map(plain).unwrap_or_default();
    let differs = |key: &str| runs.iter().any(|(_, config)| value(config, key) != value(runs[0].1, key));
    Grid::new("settings").striped(true).spacing([18.0, 4.0]).show(ui, |ui| {
        ui.weak(seen.text.t("setting"));
        for (run, _) in &runs {
            ui.colored_label(palette::readable(ui, seen.selection.color(&run.folder)), cut(&run.name));
        }
        ui.end_row();
        for key in keys {
            let differs = differs(key);
            if !differs && !seen.settings.runs.all_settings {
                continue;
            }
            ui.label(key);
            for (_, config) in &runs {
                let text = RichText::new(value(config, key)).monospace();
                ui.label(if differs { text.strong() } else { text });
            }
            ui.end_row();
        }
    });
}

fn table(ui: &mut Ui, seen: &mut Seen<'_>, runs: &[&Recording]) {
    let text = seen.text;
    Grid::new("runs").striped(true).spacing([18.0, 5.0]).show(ui, |ui| {
        for title in [
            text.t("run"),
            text.t("state"),
            text.t("best score"),
            text.t("best loss"),
            text.t("epochs"),
            text.t("time"),
            text.t("model"),
            text.t("data"),
            text.t("device"),
        ] {
            ui.weak(title);
        }
        ui.end_row();
        for run in runs {
            row(ui, seen, text, run);
            ui.end_row();
        }
    });
}

fn row(ui: &mut Ui, seen: &mut Seen<'_>, text: Text, run: &Recording) {
    let name = RichText::new(cut(&run.name)).color(palette::readable(ui, seen.selection.color(&run.folder))).strong();
    if ui.add(Label::new(name).sense(Sense::click())).on_hover_text(run.folder.display().to_string()).clicked() {
        seen.selection.set_focus(&run.folder);
    }
    let state = ui.label(state(ui, text, run));
    if let Some(message) = run.status.as_ref().and_then(|status| status.message.as_ref()) {
        state.on_hover_text(message);
    }
    ui.label(run.best().map(|best| score(best, run.regresses())).unwrap_or_default());
    ui.label(run.least_loss().map(|loss| format!("{loss:.4}")).unwrap_or_default());
    ui.label(run.status.as_ref().map(|status| status.epoch.to_string()).unwrap_or_default());
    ui.label(run.status.as_ref().map(|status| duration(status.elapsed_s)).unwrap_or_default());
    let start = run.run.as_ref().map(|record| &record.start);
    ui.label(start.map(|start| start.model.clone()).unwrap_or_default());
    ui.label(start.map(|start| cut(&start.dataset)).unwrap_or_default());
    ui.label(start.map(|start| start.device.clone()).unwrap_or_default());
    if !run.problems.is_empty() {
        let list = run.problems.join("\n");
        ui.colored_label(
            palette::readable(ui, palette::WARN),
            text.f("{} files cannot be read", &[&run.problems.len()]),
        )
        .on_hover_text(list);
    }
}

/// A setting as it is given on the command line.
fn plain(value: &toml::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}

/// A name of any length in a column.
fn cut(name: &str) -> String {
    const MOST: usize = 40;
    if name.chars().count() <= MOST {
        return name.to_owned();
    }
    let head: String = name.chars().take(MOST - 1).collect();
    head + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut() {
        assert_eq!(cut("short"), "short");
        assert_eq!(cut(&"ß".repeat(500)).chars().count(), 40);
    }
}
