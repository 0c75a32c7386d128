//! What this machine has to compute with.

use egui::{Button, Grid, RichText, ScrollArea, Ui};

use crate::bench::{Peak, measure_peak};
use crate::device::{Device, DeviceInfo, DeviceKind};
use crate::units::{bytes, thousands};

use crate::ui::later::{Later, Machine};
use crate::ui::palette;
use crate::ui::settings::Settings;
use crate::ui::text::Text;
use crate::ui::utilisation::{Usage, Watch};
use crate::ui::window::Seen;

/// Points; as wide as the longest name in either language, so that the tables of all devices stand below each other.
const NAMES: f32 = 190.0;

/// What the page remembers.
#[derive(Default)]
pub(super) struct Devices {
    /// The device that is being measured, or was at last.
    measured: Option<(DeviceInfo, Later<Peak>)>,
    watch: Watch,
}

impl Devices {
    /// Keeps what was measured, whatever page is open.
    pub(super) fn poll(&self, settings: &mut Settings) {
        if let Some((device, result)) = &self.measured
            && let Some(Ok(peak)) = &*result.get()
        {
            settings.peaks.insert(device.name.clone(), *peak);
        }
    }

    pub(super) fn ui(&mut self, ui: &mut Ui, seen: &mut Seen<'_>, machine: &mut Machine) {
        let text = seen.text;
        let devices = match machine.devices(ui.ctx()) {
            Some(Ok(devices)) => devices,
            Some(Err(error)) => {
                ui.colored_label(palette::readable(ui, palette::BAD), error);
                return;
            }
            None => {
                ui.horizontal(|ui| {
                    ui.spinner();
                    ui.label(text.t("asking the drivers"));
                });
                return;
            }
        };
        ScrollArea::vertical().auto_shrink([false, false]).show(ui, |ui| {
            in_use(ui, seen);
            let usages = self.watch.usages(ui.ctx(), &devices);
            for device in &devices {
                self.device(ui, seen, device, usages.get(&device.selector));
                ui.add_space(14.0);
            }
        });
    }

    fn device(&mut self, ui: &mut Ui, seen: &Seen<'_>, device: &DeviceInfo, usage: Option<&Usage>) {
        let text = seen.text;
        ui.horizontal(|ui| {
            ui.label(RichText::new(&device.selector).monospace().color(palette::readable(ui, palette::EMBER)));
            ui.heading(&device.name);
        });
        let grid = Grid::new(&device.selector).num_columns(2).min_col_width(NAMES).spacing([18.0, 4.0]);
        grid.show(ui, |ui| {
            let mut row = |name: &str, value: String| {
                ui.weak(name);
                ui.label(value);
                ui.end_row();
            };
            row(text.t("type"), text.any(device.kind.name()).to_owned());
            row(text.t("backend"), text.any(&device.backend).to_owned());
            row(text.t("driver"), device.driver.clone());
            row(text.t("memory"), device.memory_bytes.map_or_else(|| text.t("unknown").to_owned(), bytes));
            if let Some(usage) = usage {
                let missing = |why: &String| text.f("not available here: {}", &[&text.any(why)]);
                row(text.t("free memory"), usage.free_bytes.as_ref().map_or_else(missing, |free| bytes(*free)));
                row(text.t("memory of this process"), ours(text, usage));
                let busy = usage.busy.as_ref().map(|(part, by)| format!("{:.0} % ({})", 100.0 * part, text.any(by)));
                row(text.t("utilisation"), busy.unwrap_or_else(missing));
            }
            if device.max_buffer_bytes != u64::MAX {
                let largest = [bytes(device.max_buffer_bytes), bytes(device.max_binding_bytes)];
                row(text.t("largest buffer, binding"), largest.join(", "));
                row(text.t("storage buffers in a kernel"), device.max_storage_buffers.to_string());
                row(text.t("invocations in a workgroup"), thousands(device.max_workgroup_invocations));
            }
            row(text.t("features"), features(text, device));
            if let Some(peak) = seen.settings.peaks.get(&device.name) {
                let said = text.f(
                    "{} GFLOP/s in a product of f32 matrices, {} GB/s read and written ({})",
                    &[&format!("{:.1}", peak.gflops), &format!("{:.1}", peak.gigabytes), &peak.source.name()],
                );
                row(text.t("measured limits"), said);
            }
        });
        self.measure(ui, text, device);
    }

    fn measure(&mut self, ui: &mut Ui, text: Text, device: &DeviceInfo) {
        let (mut under_way, mut of_this, mut error) = (false, false, None);
        if let Some((measured, result)) = &self.measured {
            let result = result.get();
            (under_way, of_this) = (result.is_none(), measured.selector == device.selector);
            error = result.as_ref().filter(|_| of_this).and_then(|result| result.as_ref().err().cloned());
        }
        ui.horizontal(|ui| {
            let button = ui.add_enabled(!under_way, Button::new(text.t("Measure its limits")));
            let hint = text.t("Takes some seconds, in which the device should do nothing else");
            if button.on_hover_text(hint).clicked() {
                let selector = device.selector.clone();
                let work = move || Device::named(&selector).and_then(|device| measure_peak(&device));
                let result = Later::start(ui.ctx(), move || work().map_err(|error| error.to_string()));
                self.measured = Some((device.clone(), result));
            }
            if under_way && of_this {
                ui.spinner();
            }
            if let Some(error) = error {
                ui.colored_label(palette::readable(ui, palette::BAD), error);
            }
        });
    }
}

/// Memory of the run that is looked at.
fn in_use(ui: &mut Ui, seen: &Seen<'_>) {
    let Some(run) = seen.selection.focus(seen.runs) else { return };
    let (Some(status), Some(record)) = (&run.status, &run.run) else { return };
    let line = seen.text.f(
        "{} on {}: {} in use, {} at most",
        &[&run.name, &record.start.device, &bytes(status.memory_bytes), &bytes(status.memory_peak_bytes)],
    );
    ui.strong(line);
    ui.add_space(10.0);
}

/// What this process holds on a device.
fn ours(text: Text, usage: &Usage) -> String {
    let Some(memory) = usage.ours else { return text.t("none, it is not in use").to_owned() };
    let [live, cached, peak] = [memory.live_bytes, memory.cached_bytes, memory.peak_bytes].map(bytes);
    text.f("{} in use, {} kept for reuse, {} in use at most", &[&live, &cached, &peak])
}

fn features(text: Text, device: &DeviceInfo) -> String {
    let subgroups = device.subgroups.map(|(least, most)| match least == most {
        true => text.f("subgroups of {}", &[&least]),
        false => text.f("subgroups of {} to {}", &[&least, &most]),
    });
    let units = device.cooperative.as_ref().map(|units| text.f("matrix units for {}", &[units]));
    let timestamps = device.timestamps.then(|| text.t("timestamps").to_owned());
    let half = match device.kind {
        DeviceKind::Cpu => text.t("f16 in memory, computed in f32"),
        _ => "f16",
    };
    let known = [device.f16.then(|| half.to_owned()), units, subgroups, timestamps];
    let known: Vec<String> = known.into_iter().flatten().collect();
    if known.is_empty() { text.t("none of the optional ones").to_owned() } else { known.join(", ") }
}
