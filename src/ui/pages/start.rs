//! What to train, and how: every flag of the command line, with its help, checked as it is typed.

use std::path::{Path, PathBuf};

use egui::{Button, CollapsingHeader, ComboBox, Grid, RichText, ScrollArea, TextEdit, Ui};

use crate::data::known_forms;
use crate::device::DeviceInfo;
use crate::train::{Config, Control, RunForecast, SECTIONS, forecast};
use crate::units::{bytes, thousands};

use crate::ui::form::{Field, FieldKind, Form};
use crate::ui::later::{Later, Machine};
use crate::ui::numbers::{UNKNOWN, duration};
use crate::ui::palette;
use crate::ui::session::Task;
use crate::ui::text::Text;
use crate::ui::window::Seen;

/// Points: what names take, what stands beside values, and values at least and at most.
const NAMES: f32 = 120.0;
const BESIDE: f32 = 110.0;
const VALUE: std::ops::RangeInclusive<f32> = 140.0..=420.0;
/// Points from which on sections stand in two columns.
const WIDE: f32 = 860.0;

/// The form, and what was found out about what it says.
pub(super) struct Start {
    form: Form,
    /// A forecast that is being made, or was, and what stops it.
    forecast: Option<(Control, Later<RunForecast>)>,
}

impl Start {
    pub(super) fn new(config: &Config) -> Self {
        // a name is taken once it was used
        let config = Config { name: None, ..config.clone() };
        Self { form: Form::new(&config), forecast: None }
    }

    /// A folder that was dropped is trained on.
    pub(super) fn take_dropped(&mut self, dropped: &[PathBuf]) {
        if let Some(path) = dropped.first() {
            self.form.field("dataset").value = dataset_of(path);
            self.changed();
        }
    }

    pub(super) fn ui(&mut self, ui: &mut Ui, seen: &mut Seen<'_>, machine: &mut Machine) {
        self.actions(ui, seen);
        ui.separator();
        let mut changed = false;
        ScrollArea::vertical().auto_shrink([false, false]).show(ui, |ui| {
            if ui.available_width() < WIDE {
                changed = self.sections(ui, seen.text, &SECTIONS, machine);
                return;
            }
            let (left, right) = SECTIONS.split_at(SECTIONS.len() / 2);
            ui.columns_const(|[first, second]| {
                changed = self.sections(first, seen.text, left, machine);
                changed |= self.sections(second, seen.text, right, machine);
            });
        });
        if changed {
            self.changed();
        }
    }

    /// Some of the form's parts below each other; true if something was changed.
    fn sections(&mut self, ui: &mut Ui, text: Text, sections: &[(&str, &[&str])], machine: &mut Machine) -> bool {
        let mut changed = false;
        for &(title, keys) in sections {
            let open = CollapsingHeader::new(RichText::new(text.any(title)).strong()).default_open(true);
            open.show(ui, |ui| {
                let width = (ui.available_width() - NAMES - BESIDE).clamp(*VALUE.start(), *VALUE.end());
                Grid::new(title).num_columns(2).min_col_width(NAMES).spacing([16.0, 6.0]).show(ui, |ui| {
                    for &key in keys {
                        changed |= self.row(ui, text, key, width, machine);
                        ui.end_row();
                    }
                });
            });
        }
        changed
    }

    fn changed(&mut self) {
        self.form.check();
        if let Some((control, _)) = self.forecast.take() {
            control.stop();
        }
    }

    /// Start, forecast, and back to the defaults.
    fn actions(&mut self, ui: &mut Ui, seen: &mut Seen<'_>) {
        let text = seen.text;
        let running = seen.session.is_some_and(|session| session.is_running());
        ui.horizontal_wrapped(|ui| {
            let good = self.form.config().is_ok();
            let label = if running { text.t("Stop the run and start this one") } else { text.t("Start training") };
            let button = Button::new(RichText::new(label).strong()).fill(palette::EMBER.gamma_multiply(0.55));
            if ui.add_enabled(good, button).clicked()
                && let Ok(config) = self.form.config()
            {
                seen.asks.start = Some(Task::New(Box::new(config.clone())));
            }
            let forecast = ui.add_enabled(good && !self.is_forecasting(), Button::new(text.t("Forecast")));
            let forecast = forecast.on_hover_text(text.t(
                "Makes the model, does a few steps and throws them away: what the run will take of memory and of time",
            ));
            if forecast.clicked() {
                self.make_forecast(ui.ctx());
            }
            if ui.button(text.t("Defaults")).on_hover_text(text.t("Everything as it is without any flag")).clicked() {
                self.form = Form::new(&Config::default());
                self.changed();
            }
        });
        ui.vertical(|ui| self.messages(ui, text));
    }

    /// What is wrong, and what the run would take.
    fn messages(&self, ui: &mut Ui, text: Text) {
        let wrong = self.form.fields.iter().find_map(|field| Some((field.key, field.problem.as_ref()?)));
        if let Some((key, problem)) = wrong {
            // the field may be out of sight
            ui.colored_label(palette::readable(ui, palette::BAD), format!("{key}: {}", problem.text(text)));
        } else if let Err(problem) = self.form.config() {
            ui.colored_label(palette::readable(ui, palette::BAD), problem);
        }
        if let Some((_, result)) = &self.forecast {
            match &*result.get() {
                None => {
                    ui.horizontal(|ui| {
                        ui.spinner();
                        ui.label(text.t("making the model and timing a few steps"));
                    });
                }
                Some(Ok(forecast)) => show_forecast(ui, text, forecast),
                Some(Err(error)) => {
                    ui.colored_label(palette::readable(ui, palette::BAD), error);
                }
            }
        }
    }

    fn is_forecasting(&self) -> bool {
        self.forecast.as_ref().is_some_and(|(_, result)| result.get().is_none())
    }

    fn make_forecast(&mut self, context: &egui::Context) {
        let Ok(config) = self.form.config().cloned() else { return };
        let control = Control::default();
        let obeyed = control.clone();
        let made = Later::start(context, move || forecast(config, &obeyed).map_err(|error| error.to_string()));
        self.forecast = Some((control, made));
    }

    /// A flag: its name and its value; true if it was changed.
    fn row(&mut self, ui: &mut Ui, text: Text, key: &str, width: f32, machine: &mut Machine) -> bool {
        let devices = if key == "device" { machine.devices(ui.ctx()).and_then(Result::ok) } else { None };
        let field = self.form.field(key);
        let help = text.any(&field.help).to_owned();
        let name = ui.label(key).on_hover_text(&help);
        ui.vertical(|ui| {
            let changed = ui.horizontal(|ui| value(ui, text, field, (&help, &name), width, devices.as_deref())).inner;
            if let Some(problem) = &field.problem {
                // within the column, whatever it says
                ui.set_max_width(width);
                ui.add(
                    egui::Label::new(RichText::new(problem.text(text)).color(palette::readable(ui, palette::BAD)))
                        .wrap(),
                );
            }
            changed
        })
        .inner
    }
}

/// The value of a flag, to be changed; true if it was.
fn value(
    ui: &mut Ui,
    text: Text,
    field: &mut Field,
    (help, name): (&str, &egui::Response),
    width: f32,
    devices: Option<&[DeviceInfo]>,
) -> bool {
    let key = field.key;
    match &field.kind {
        FieldKind::Switch => switch(ui, field, name),
        FieldKind::Choice(choices) => {
            let chosen = choice(ui, text, (key, width), &field.value, choices, name);
            let is_new = chosen.is_some();
            field.value = chosen.unwrap_or_else(|| std::mem::take(&mut field.value));
            is_new
        }
        FieldKind::Text => {
            let mut edit = TextEdit::singleline(&mut field.value).desired_width(width);
            // whatever messages come and go, the field that is typed in stays the same one
            edit = edit.id(egui::Id::unique(("field", key)));
            if !field.hint.is_empty() {
                edit = edit.hint_text(field.hint.as_str());
            }
            if field.problem.is_some() {
                edit = edit.text_color(palette::readable(ui, palette::BAD));
            }
            let typed = ui.add(edit).labelled_by(name.id).on_hover_text(help).changed();
            typed | suggestions(ui, text, field, devices)
        }
    }
}

fn switch(ui: &mut Ui, field: &mut Field, name: &egui::Response) -> bool {
    let mut on = field.value == "true";
    let check = ui.checkbox(&mut on, "").labelled_by(name.id);
    if check.changed() {
        field.value = on.to_string();
    }
    check.changed()
}

fn choice(
    ui: &mut Ui,
    text: Text,
    (key, width): (&str, f32),
    value: &str,
    choices: &[(String, String)],
    label: &egui::Response,
) -> Option<String> {
    let mut chosen = None;
    let shown_as = |name: &str| if name.is_empty() { UNKNOWN.to_owned() } else { name.to_owned() };
    let shown = ComboBox::from_id_salt(key).selected_text(shown_as(value)).width(width).show_ui(ui, |ui| {
        for (name, help) in choices {
            if ui.selectable_label(name == value, shown_as(name)).on_hover_text(text.any(help)).clicked()
                && name != value
            {
                chosen = Some(name.clone());
            }
        }
    });
    shown.response.labelled_by(label.id);
    chosen
}

/// Values to choose from where any text may stand.
fn suggestions(ui: &mut Ui, text: Text, field: &mut Field, devices: Option<&[DeviceInfo]>) -> bool {
    let known: Vec<(String, String)> = match field.key {
        "dataset" => {
            // a path has to be typed, or dropped
            let names = known_forms().into_iter().filter(|form| !form.contains(':'));
            names.map(|name| (name.to_owned(), String::new())).collect()
        }
        "device" => match devices {
            Some(devices) => {
                let one = devices.iter().map(|device| (device.selector.clone(), device.name.clone()));
                let several = devices.iter().filter(|device| device.kind.is_taken_unasked()).count() > 1;
                let all = several.then(|| ("gpus".to_owned(), text.t("all of them together").to_owned()));
                one.chain(all).collect()
            }
            None => {
                ui.spinner();
                return false;
            }
        },
        "augment" => ["none", "shift", "cifar"].map(|name| (name.to_owned(), String::new())).to_vec(),
        "schedule" => ["onecycle", "constant", "cosine", "cosine:warmup=100", "plateau:patience=2"]
            .map(|name| (name.to_owned(), String::new()))
            .to_vec(),
        _ => return false,
    };
    let mut changed = false;
    let menu = ui.menu_button("…", |ui| {
        for (value, about) in known {
            let label = if about.is_empty() { value.clone() } else { format!("{value}   {about}") };
            if ui.button(label).clicked() {
                field.value = value;
                changed = true;
                ui.close();
            }
        }
    });
    let name = text.f("values of {}", &[&field.key]);
    menu.response.accessible_name(name).on_hover_text(text.t("Values to choose from"));
    changed
}

fn show_forecast(ui: &mut Ui, text: Text, forecast: &RunForecast) {
    let RunForecast { memory, step_ms, steps, seconds } = forecast;
    let step = step_ms.map_or_else(|| UNKNOWN.to_owned(), |ms| format!("{ms:.2} ms"));
    let (whole, total) = (duration(seconds.unwrap_or(f64::NAN)), bytes(memory.training.total_bytes()));
    ui.label(
        text.f(
            "{} a step, {} steps, about {} in all; {} of memory to train",
            &[&step, &thousands(steps), &whole, &total],
        ),
    );
    match memory.free_bytes {
        Some(free) if !memory.fits() => {
            let line = text.f("only {} are free: use a smaller batch or model", &[&bytes(free)]);
            ui.colored_label(palette::readable(ui, palette::BAD), line);
        }
        Some(free) => {
            ui.weak(text.f("{} are free", &[&bytes(free)]));
        }
        None => {
            ui.weak(text.t("how much is free is unknown"));
        }
    }
}

/// What a dropped path is as a data set.
fn dataset_of(path: &Path) -> String {
    let is_csv = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv"));
    format!("{}:{}", if is_csv { "csv" } else { "folder" }, path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_becomes_the_data_set() {
        let mut start = Start::new(&Config::default());
        start.take_dropped(&[PathBuf::from("/pictures/cats and dogs")]);
        let config = start.form.config().expect("any path may be typed");
        assert_eq!(config.dataset.to_string(), "folder:/pictures/cats and dogs");
        assert_eq!(dataset_of(Path::new("a/b.CSV")), "csv:a/b.CSV");
    }
}
