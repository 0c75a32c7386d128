//! The pages, one file each.

mod about;
mod benchmark;
mod curves;
mod devices;
mod graph;
mod histograms;
mod predictions;
mod runs;
mod stages;
mod start;

use std::path::PathBuf;

use egui::{Label, Response, RichText, Ui};

use crate::bench::Report;
use crate::runs::Recording;
use crate::train::Config;

use super::dropped::sorted;
use super::later::Machine;
use super::palette;
use super::settings::Page;
use super::text::Text;
use super::window::Seen;

/// What the pages remember between frames.
pub(super) struct Pages {
    start: start::Start,
    curves: curves::Curves,
    stages: stages::Stages,
    graph: graph::Graph,
    predictions: predictions::PredictionsPage,
    devices: devices::Devices,
    benchmark: benchmark::Benchmark,
    machine: Machine,
}

impl Pages {
    /// The form starts with `config`.
    pub(super) fn new(config: Option<&Config>) -> Self {
        Self {
            start: start::Start::new(config.unwrap_or(&Config::default())),
            curves: curves::Curves::default(),
            stages: stages::Stages::default(),
            graph: graph::Graph::default(),
            predictions: predictions::PredictionsPage::default(),
            devices: devices::Devices::default(),
            benchmark: benchmark::Benchmark::default(),
            machine: Machine::default(),
        }
    }

    /// Draws the page that is open; `dropped` are files and folders that were dropped on the window.
    pub(super) fn ui(&mut self, ui: &mut Ui, seen: &mut Seen<'_>, dropped: &[PathBuf]) {
        self.devices.poll(seen.settings);
        self.benchmark.poll(seen.settings);
        if seen.settings.page == Page::Start {
            self.start.take_dropped(dropped);
        } else {
            let pictures = sorted(seen, dropped);
            self.predictions.take_dropped(seen, &pictures);
        }
        match seen.settings.page {
            Page::Start => self.start.ui(ui, seen, &mut self.machine),
            Page::Curves => self.curves.ui(ui, seen),
            Page::Stages => self.stages.ui(ui, seen),
            Page::Graph => self.graph.ui(ui, seen),
            Page::Histograms => histograms::ui(ui, seen),
            Page::Predictions => self.predictions.ui(ui, seen),
            Page::Devices => self.devices.ui(ui, seen, &mut self.machine),
            Page::Benchmark => self.benchmark.ui(ui, seen),
            Page::Runs => runs::ui(ui, seen),
            Page::About => about::ui(ui, seen),
        }
    }

    /// A benchmark that was done after the last frame.
    pub(super) fn unkept_benchmark(&self) -> Option<Report> {
        self.benchmark.unkept()
    }
}

/// The name of a page.
pub(super) fn title(page: Page, text: Text) -> &'static str {
    match page {
        Page::Start => text.t("Start"),
        Page::Curves => text.t("Curves"),
        Page::Stages => text.t("Stages"),
        Page::Graph => text.t("Graph"),
        Page::Histograms => text.t("Histograms"),
        Page::Predictions => text.t("Predictions"),
        Page::Devices => text.t("Devices"),
        Page::Benchmark => text.t("Benchmark"),
        Page::Runs => text.t("Runs"),
        Page::About => text.t("About"),
    }
}

/// The run that a page is about.
fn about_run(ui: &mut Ui, seen: &Seen<'_>, run: &Recording) {
    run_name(ui, seen, run).on_hover_text(run.folder.display().to_string());
}

/// Its name, in its colour.
pub(super) fn run_name(ui: &mut Ui, seen: &Seen<'_>, run: &Recording) -> Response {
    let color = palette::readable(ui, seen.selection.color(&run.folder));
    ui.add(Label::new(RichText::new(&run.name).color(color).strong()).truncate())
}

/// What stands where there is nothing to show yet.
fn nothing(ui: &mut Ui, message: &str) {
    ui.add_space(ui.available_height() * 0.35);
    ui.vertical_centered(|ui| ui.weak(message));
}
