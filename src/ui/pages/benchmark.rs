//! Is the GPU worth it? Every device of the machine side by side, as `brasa bench` measures them.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use egui::{Button, Grid, RichText, ScrollArea, Sense, Ui, Vec2};
use parking_lot::Mutex;

use crate::bench::{self, DeviceReport, Method, Options, Progress, Report, Row, Suite, number};

use crate::ui::later::Later;
use crate::ui::palette;
use crate::ui::progress::progress;
use crate::ui::session::Session;
use crate::ui::settings::Settings;
use crate::ui::text::Text;
use crate::ui::window::Seen;

/// Points.
const BAR: Vec2 = Vec2::new(160.0, 12.0);
/// Powers of ten from the middle of a bar to its end.
const DECADES: f64 = 2.0;

/// What the page remembers; the last report is among the settings.
pub(super) struct Benchmark {
    /// What is to be measured.
    suites: [bool; Suite::ALL.len()],
    measuring: Option<Measuring>,
    error: Option<String>,
}

impl Default for Benchmark {
    fn default() -> Self {
        Self { suites: [true; Suite::ALL.len()], measuring: None, error: None }
    }
}

struct Measuring {
    progress: Arc<Mutex<Option<Progress>>>,
    /// Whether no more is wanted.
    stop: Arc<AtomicBool>,
    report: Later<Report>,
}

impl Benchmark {
    /// Keeps a report that is done, whatever page is open.
    pub(super) fn poll(&mut self, settings: &mut Settings) {
        let done = self.measuring.as_ref().and_then(|measuring| measuring.report.get().take());
        if let Some(done) = done {
            self.measuring = None;
            match done {
                // one that was stopped before there was anything in it takes no other's place
                Ok(report) if report.devices.iter().all(|device| device.is_empty()) => {}
                Ok(report) => settings.benchmark = Some(report),
                Err(error) => self.error = Some(error),
            }
        }
    }

    /// A report that is done, and was not kept yet.
    pub(super) fn unkept(&self) -> Option<Report> {
        self.measuring.as_ref()?.report.get().as_ref()?.as_ref().ok().cloned()
    }

    pub(super) fn ui(&mut self, ui: &mut Ui, seen: &mut Seen<'_>) {
        let text = seen.text;
        self.controls(ui, seen);
        ui.separator();
        match &seen.settings.benchmark {
            Some(report) => {
                ScrollArea::both().auto_shrink([false, false]).show(ui, |ui| tables(ui, text, report));
            }
            None => super::nothing(ui, text.t("Nothing was measured yet")),
        }
    }

    fn controls(&mut self, ui: &mut Ui, seen: &Seen<'_>) {
        let text = seen.text;
        ui.horizontal_wrapped(|ui| {
            for (chosen, suite) in self.suites.iter_mut().zip(Suite::ALL) {
                ui.toggle_value(chosen, suite.name());
            }
            let may = self.measuring.is_none() && self.suites.contains(&true);
            let start = ui.add_enabled(may, Button::new(text.t("Measure all devices")));
            let hint = text.t("Takes about a minute: products, operations, stages, training, inference and transfers");
            if start.on_hover_text(hint).clicked() {
                self.start(ui.ctx());
            }
            if seen.session.is_some_and(Session::is_running) {
                ui.colored_label(
                    palette::readable(ui, palette::WARN),
                    text.t("What trains now is in the way: pause it first"),
                );
            }
            if let Some(measuring) = &self.measuring {
                let stop = ui.add_enabled(!measuring.stop.load(Ordering::Relaxed), Button::new(text.t("Stop")));
                if stop.on_hover_text(text.t("After this case; what was measured is kept")).clicked() {
                    measuring.stop.store(true, Ordering::Relaxed);
                }
            }
            if let Some(measuring) = &self.measuring
                && let Some(Progress { device, case, done, of }) = &*measuring.progress.lock()
            {
                let part = *done as f32 / (*of).max(1) as f32;
                let said = format!("{device}: {case}");
                progress(ui, part, 220.0, palette::EMBER.gamma_multiply(0.8)).accessible_name(&said);
                ui.label(said);
            }
            if let Some(error) = &self.error {
                ui.colored_label(palette::readable(ui, palette::BAD), error);
            }
        });
    }

    fn start(&mut self, context: &egui::Context) {
        let progress = Arc::new(Mutex::new(None));
        let stop = Arc::new(AtomicBool::new(false));
        let (told, stopped, drawn) = (Arc::clone(&progress), Arc::clone(&stop), context.clone());
        let suites = Suite::ALL.into_iter().zip(self.suites).filter(|(_, chosen)| *chosen).map(|(suite, _)| suite);
        let options = Options { suites: suites.collect(), quick: true, method: Method::quick(), ..Options::default() };
        let report = Later::start(context, move || {
            let mut tell = |progress| {
                *told.lock() = Some(progress);
                drawn.request_repaint();
                if stopped.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            bench::run(&options, &mut tell).map_err(|error| error.to_string())
        });
        (self.measuring, self.error) = (Some(Measuring { progress, stop, report }), None);
    }
}

fn tables(ui: &mut Ui, text: Text, report: &Report) {
    for device in &report.devices {
        ui.horizontal(|ui| {
            ui.label(RichText::new(&device.selector).monospace().color(palette::readable(ui, palette::EMBER)));
            ui.label(&device.name);
            if let Some(peak) = device.peak {
                let at_most = [number(peak.gflops), number(peak.gigabytes)];
                ui.weak(text.f("at most {} GFLOP/s and {} GB/s", &[&at_most[0], &at_most[1]]));
            }
            if let Some(failure) = &device.failure {
                ui.colored_label(palette::readable(ui, palette::BAD), failure);
            }
        });
    }
    let devices: Vec<&DeviceReport> = report.devices.iter().filter(|device| !device.rows.is_empty()).collect();
    let Some((reference, others)) = devices.split_first() else { return };
    for suite in Suite::ALL {
        let rows: Vec<&Row> = reference.rows.iter().filter(|row| row.suite == suite).collect();
        if rows.is_empty() {
            continue;
        }
        ui.add_space(10.0);
        ui.heading(suite.name());
        Grid::new(suite.name()).striped(true).spacing([16.0, 4.0]).show(ui, |ui| {
            ui.weak(text.t("case"));
            for device in &devices {
                ui.weak(&device.selector);
                ui.weak(text.t("rate"));
                ui.weak(text.t("of its limit"));
            }
            for other in others {
                ui.weak(text.f("{} against {}", &[&other.selector, &reference.selector]));
                ui.weak("");
            }
            ui.end_row();
            for row in rows {
                ui.label(&row.name).on_hover_text(&row.what);
                for device in &devices {
                    of_device(ui, device, report.row(&device.selector, suite, &row.name));
                }
                for other in others {
                    against(ui, text, report, suite, &row.name, [&reference.selector, &other.selector]);
                }
                ui.end_row();
            }
        });
    }
    stages(ui, text, &devices);
    ui.add_space(10.0);
    for left_out in &report.left_out {
        ui.weak(text.f("Left out: {}", &[left_out]));
    }
    ui.weak(report.method.describe());
}

fn of_device(ui: &mut Ui, device: &DeviceReport, row: Option<&Row>) {
    let measured = row.and_then(|row| row.measured);
    let time = ui.monospace(measured.map_or_else(|| "–".to_owned(), |measured| measured.in_words()));
    if let Some(why) = row.and_then(|row| row.left_out.as_ref()) {
        time.on_hover_text(why);
    }
    ui.monospace(row.and_then(Row::rate_in_words).unwrap_or_default());
    let share = row.zip(device.peak).and_then(|(row, peak)| row.share_of(&peak));
    ui.monospace(share.map(|(share, _)| format!("{:.0} %", 100.0 * share)).unwrap_or_default());
}

/// A bar to the right where the second device is faster, to the left where it is slower, by powers of ten.
fn against(ui: &mut Ui, text: Text, report: &Report, suite: Suite, name: &str, [one, other]: [&str; 2]) {
    let (area, _) = ui.allocate_exact_size(BAR, Sense::hover());
    let Some(ratio) = report.ratio(suite, name, one, other) else {
        ui.label("");
        return;
    };
    let middle = area.center().x;
    let reach = (ratio.value.log10() / DECADES).clamp(-1.0, 1.0) as f32 * area.width() / 2.0;
    let color = match ratio {
        ratio if ratio.is_same => ui.visuals().weak_text_color(),
        ratio if ratio.value > 1.0 => palette::GOOD,
        _ => palette::BAD,
    };
    let bar = egui::Rect::from_two_pos(egui::pos2(middle, area.top()), egui::pos2(middle + reach, area.bottom()));
    ui.painter().rect_filled(bar, 2.0, color.gamma_multiply(0.7));
    ui.painter().vline(middle, area.y_range(), ui.visuals().widgets.noninteractive.bg_stroke);
    let said = match ratio {
        ratio if ratio.is_same => text.t("the same").to_owned(),
        ratio if ratio.value > 1.0 => text.f("{} × faster", &[&number(ratio.value)]),
        ratio => text.f("{} × slower", &[&number(1.0 / ratio.value)]),
    };
    ui.label(said);
}

fn stages(ui: &mut Ui, text: Text, devices: &[&DeviceReport]) {
    let measured: Vec<&&DeviceReport> = devices.iter().filter(|device| !device.stages.is_empty()).collect();
    let Some(first) = measured.first() else { return };
    ui.add_space(10.0);
    ui.heading(text.t("The ten stages, in ms a step"));
    Grid::new("stages of devices").striped(true).spacing([16.0, 4.0]).show(ui, |ui| {
        ui.weak(text.t("stage"));
        for device in &measured {
            ui.weak(&device.selector);
        }
        ui.end_row();
        for stage in &first.stages {
            ui.label(text.t(stage.stage.name()));
            for device in &measured {
                let row = device.stage(stage.stage);
                let cell = ui.monospace(row.map_or_else(|| "–".to_owned(), |row| format!("{:.3}", row.busy_ms)));
                if let Some(row) = row {
                    cell.on_hover_text(&row.place);
                }
            }
            ui.end_row();
        }
    });
}
