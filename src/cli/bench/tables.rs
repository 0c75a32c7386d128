//! A report as people read it, and as spreadsheets do.

use std::fmt::Write as _;

use crate::bench::{
    Advice, Change, Crossing, Crossover, DeviceReport, Measured, Report, Row, StageRow, Suite, number, seconds,
};
use crate::error::{Error, Result};
use crate::units::{bytes, thousands};

use super::super::report::table;

/// How tables look.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// Columns.
    Plain,
    /// With bars between them.
    Markdown,
}

/// Samples of CIFAR-10 to train on.
const EPOCH: f64 = 50_000.0;
/// A processor with more to do than this is not measured in peace.
const BUSY: f64 = 0.5;
/// A CPU that does less than this part of what the `gemm` crate does is told of.
const LEAST_SHARE: f64 = 0.9;
/// Runs and clocks that slow down by more than this part are told of.
const DRIFT: f64 = 0.15;

/// All of a report.
pub(super) fn report(report: &Report, style: Style) -> String {
    let mut text = head(report);
    for suite in Suite::ALL {
        if suite == Suite::Stages {
            if report.devices.iter().any(|device| !device.stages.is_empty()) {
                title(&mut text, "stages: milliseconds of work in a training step, tutorial CNN, batch 128", style);
                text += &draw(&stages(report), style);
                text.push('\n');
            }
            continue;
        }
        let rows = cases(report, suite);
        if rows.len() > 1 {
            title(&mut text, suite.name(), style);
            text += &draw(&rows, style);
            if let Some(verdict) = verdict(report, suite) {
                let _ = writeln!(text, "{verdict}");
            }
            text.push('\n');
        }
    }
    text += &left_out(report);
    text += &legend(report, style);
    text
}

/// What each case is, how often it was run, and what it took in kernels alone.
fn legend(report: &Report, style: Style) -> String {
    let mut names: Vec<(Suite, &str)> = Vec::new();
    for row in report.devices.iter().flat_map(|device| &device.rows).filter(|row| row.measured.is_some()) {
        if !names.contains(&(row.suite, &row.name)) {
            names.push((row.suite, &row.name));
        }
    }
    if names.is_empty() {
        return String::new();
    }
    let devices: Vec<&DeviceReport> = report.devices.iter().filter(|device| !device.rows.is_empty()).collect();
    let mut rows = vec![vec!["case".to_owned(), "one run".into()]];
    rows[0].extend(devices.iter().map(|device| format!("runs on {}, in kernels", device.selector)));
    for (suite, name) in names {
        let row = |device: &&&DeviceReport| report.row(&device.selector, suite, name);
        let what = devices.iter().find_map(|device| row(&device)).map(Row::in_words);
        let mut cells = vec![name.to_owned(), what.unwrap_or_default()];
        cells.extend(devices.iter().map(|device| {
            let Some(measured) = row(&device).and_then(|row| row.measured) else { return String::new() };
            let runs = thousands(measured.runs * measured.together);
            match measured.in_kernels {
                Some((time, source)) => format!("{runs}, {} ({})", seconds(time), source.name()),
                None => runs,
            }
        }));
        rows.push(cells);
    }
    let mut text = String::new();
    title(&mut text, "what was measured", style);
    text + &draw(&rows, style)
}

fn title(text: &mut String, words: &str, style: Style) {
    let _ = match style {
        Style::Plain => writeln!(text, "{words}"),
        Style::Markdown => writeln!(text, "### {words}\n"),
    };
}

fn head(report: &Report) -> String {
    let machine = &report.machine;
    let mut text = format!("brasa {}, report {}\n", report.version, report.id);
    let clock = machine.clock_mhz.map(|mhz| format!(" at {:.1} GHz", mhz / 1e3)).unwrap_or_default();
    let _ = writeln!(text, "{}; {}, {} threads{clock}", machine.system, machine.processor, machine.threads);
    for device in &report.devices {
        let _ = write!(text, "{:<6} ", device.selector);
        if let Some(failure) = &device.failure {
            let _ = write!(text, "FAILED: {failure} ");
        }
        if !device.name.is_empty() {
            let _ = write!(text, "{} ({}, {}; {})", device.name, device.kind, device.backend, device.driver);
        }
        if let Some(peak) = device.peak {
            let (gflops, gigabytes) = (number(peak.gflops), number(peak.gigabytes));
            let _ = write!(text, ": at most {gflops} GFLOP/s");
            if let Some(half) = peak.half_gflops {
                let units = device.units.as_ref().map(|units| format!(", with units of {units}")).unwrap_or_default();
                let _ = write!(text, " (f16 {}{units})", number(half));
            }
            let _ = write!(text, " and {gigabytes} GB/s, by {}", peak.source.name());
            if let Some(yardstick) = peak.yardstick_gflops {
                let _ = write!(text, "; the `gemm` crate alone {} GFLOP/s", number(yardstick));
                if yardstick * LEAST_SHARE > peak.gflops {
                    let _ = write!(text, ", more than a tenth better: the CPU is not at its best here");
                }
            }
        }
        text.push('\n');
    }
    for device in report.devices.iter().filter(|device| !device.energy.is_empty()) {
        let DeviceReport { selector, energy, utilisation, .. } = device;
        let _ = writeln!(text, "Energy of {selector}: {energy}. Utilisation: {utilisation}.");
        if let (Some(before), Some(after)) = (device.clock_mhz, device.clock_after_mhz) {
            let held = device.held_down_by.as_ref().map(|why| format!(", held down by {why}")).unwrap_or_default();
            let _ = writeln!(text, "Clock of {selector}: {before:.0} MHz before, {after:.0} MHz after{held}.");
        }
    }
    let _ = writeln!(text, "Method: {}.", report.method.describe());
    if !report.method.as_notebook {
        text += "Times are wall clock, until the device is done; `of peak` is the share of what the device was measured to do at \
                 most, c of its arithmetic, m of its memory.\n";
    }
    if report.build == "debug" {
        text += "This is a debug build, whose figures say nothing: build with --release.\n";
    }
    if let (Some(before), Some(after)) = (machine.clock_mhz, machine.clock_after_mhz)
        && after < before * (1.0 - DRIFT)
    {
        let _ = writeln!(
            text,
            "The processor's clock was {:.1} GHz at the end, {:.1} GHz at the beginning: heat, or a limit of power.",
            after / 1e3,
            before / 1e3
        );
    }
    if machine.load.is_some_and(|load| load > BUSY) {
        let _ = writeln!(
            text,
            "Something else was running (load {:.1}): expect wider spreads.",
            machine.load.unwrap_or(0.0)
        );
    }
    text.push('\n');
    text
}

/// A header and a line for each case of the suite.
fn cases(report: &Report, suite: Suite) -> Vec<Vec<String>> {
    let devices: Vec<&DeviceReport> = report.devices.iter().filter(|device| !device.rows.is_empty()).collect();
    let mut names: Vec<&str> = Vec::new();
    for row in devices.iter().flat_map(|device| &device.rows).filter(|row| row.suite == suite) {
        if !names.contains(&row.name.as_str()) {
            names.push(&row.name);
        }
    }
    let with_first = suite == Suite::Train;
    let with_utilisation = |device: &DeviceReport| {
        with_first && device.rows.iter().any(|row| row.measured.is_some_and(|m| m.utilisation.is_some()))
    };
    let with_energy =
        |device: &DeviceReport| device.rows.iter().any(|row| row.measured.is_some_and(|m| m.joules.is_some()));
    let with_peak = !matches!(suite, Suite::Infer) && !report.method.as_notebook;
    let mut header = vec!["case".to_owned()];
    for device in &devices {
        header.extend([device.selector.clone(), "rate".into()]);
        header.extend(with_peak.then(|| "of peak".into()));
        header.extend(with_first.then_some(["first step", "memory"]).into_iter().flatten().map(str::to_owned));
        header.extend(with_utilisation(device).then(|| "busy".into()));
        header.extend(with_energy(device).then(|| "energy".into()));
    }
    let others: Vec<&&DeviceReport> = devices.iter().skip(1).collect();
    header.extend(others.iter().map(|other| format!("{} against {}", other.selector, devices[0].selector)));
    let mut rows = vec![header];
    for name in names {
        let mut cells = vec![name.to_owned()];
        for device in &devices {
            let row = report.row(&device.selector, suite, name);
            let measured = row.and_then(|row| row.measured);
            let none = || "–".to_owned();
            cells.push(measured.map_or_else(none, |measured| measured.in_words()));
            cells.push(row.and_then(Row::rate_in_words).unwrap_or_default());
            if with_peak {
                let share = row.zip(device.peak).and_then(|(row, peak)| row.share_of(&peak));
                let said = share.map(|(share, of_compute)| {
                    format!("{:.0} % {}", 100.0 * share, if of_compute { "c" } else { "m" })
                });
                cells.push(said.unwrap_or_default());
            }
            if with_first {
                cells.push(measured.map_or_else(none, |measured| seconds(measured.first_s)));
                cells.push(measured.and_then(|measured| measured.memory_bytes).map_or_else(none, bytes));
            }
            if with_utilisation(device) {
                let part = measured.and_then(|measured| measured.utilisation);
                cells.push(part.map_or_else(none, |part| format!("{:.0} %", 100.0 * part)));
            }
            if with_energy(device) {
                let joules = measured.and_then(|measured| measured.joules);
                let epoch = row.filter(|row| with_first && row.samples > 0).zip(joules).map(|(row, joules)| {
                    format!(", {} J an epoch of 50,000", number(joules * EPOCH / row.samples as f64))
                });
                let of = |joules: f64| format!("{} mJ{}", number(1e3 * joules), epoch.unwrap_or_default());
                cells.push(joules.map_or_else(none, of));
            }
        }
        for other in &others {
            let ratio = report.ratio(suite, name, &devices[0].selector, &other.selector);
            cells.push(match ratio {
                Some(ratio) if ratio.is_same => "the same".into(),
                Some(ratio) => times(ratio.value),
                None => String::new(),
            });
        }
        rows.push(cells);
    }
    rows
}

/// A ratio as what the other one is.
fn times(ratio: f64) -> String {
    match ratio > 1.0 {
        true => format!("{} x faster", number(ratio)),
        false => format!("{} x slower", number(1.0 / ratio)),
    }
}

/// In one sentence: what the table says about each device after the first.
fn verdict(report: &Report, suite: Suite) -> Option<String> {
    let reference = report.devices.iter().find(|device| !device.rows.is_empty())?;
    let mut sentences = Vec::new();
    for device in report.devices.iter().filter(|device| device.selector != reference.selector) {
        let names = device.rows.iter().filter(|row| row.suite == suite).map(|row| row.name.as_str());
        let mut ratios: Vec<(f64, &str)> = names
            .filter_map(|name| Some((report.ratio(suite, name, &reference.selector, &device.selector)?.value, name)))
            .collect();
        ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (Some(worst), Some(best)) = (ratios.first(), ratios.last()) else { continue };
        let faster = ratios.iter().filter(|(ratio, _)| *ratio > 1.0).count();
        let said = |(ratio, name): &(f64, &str)| format!("{} ({name})", times(*ratio));
        sentences.push(format!(
            "{} is faster than {} in {faster} of {} cases: from {} to {}.",
            device.selector,
            reference.selector,
            ratios.len(),
            said(worst),
            said(best)
        ));
    }
    (!sentences.is_empty()).then(|| sentences.join("\n"))
}

fn stages(report: &Report) -> Vec<Vec<String>> {
    let devices: Vec<&DeviceReport> = report.devices.iter().filter(|device| !device.stages.is_empty()).collect();
    let mut header = vec!["stage".to_owned()];
    header.extend(
        devices.iter().flat_map(|device| [format!("on {}", device.selector), "where".into(), "known by".into()]),
    );
    header.extend(devices.iter().skip(1).map(|device| format!("{} against {}", device.selector, devices[0].selector)));
    let mut rows = vec![header];
    for &StageRow { stage, .. } in &devices[0].stages {
        let mut cells = vec![stage.name().to_owned()];
        for device in &devices {
            match device.stage(stage) {
                Some(StageRow { busy_ms, place, source, .. }) => {
                    cells.extend([
                        format!("{busy_ms:.3} ms"),
                        place.clone(),
                        source.map_or("", |source| source.name()).to_owned(),
                    ]);
                }
                None => cells.extend(["did not run".into(), String::new(), String::new()]),
            }
        }
        for device in devices.iter().skip(1) {
            let ratio =
                devices[0].stage(stage).zip(device.stage(stage)).map(|(one, other)| one.busy_ms / other.busy_ms);
            cells.push(ratio.filter(|ratio| ratio.is_finite() && *ratio > 0.0).map(times).unwrap_or_default());
        }
        rows.push(cells);
    }
    rows
}

/// What was not measured, and what slowed down.
fn left_out(report: &Report) -> String {
    let mut text = String::new();
    for device in &report.devices {
        for row in &device.rows {
            if let Some(why) = &row.left_out {
                let _ = writeln!(text, "{} on {} was left out: {why}", row.name, device.selector);
            }
            if let Some(measured) = row.measured.filter(|measured| measured.drift > DRIFT) {
                let part = 100.0 * measured.drift;
                let _ = writeln!(
                    text,
                    "{} on {} slowed down by {part:.0} % while it was measured: heat, or something else that ran",
                    row.name, device.selector
                );
            }
        }
    }
    text
}

/// How one report differs from another.
pub(super) fn changes(first: &Report, second: &Report, changes: &[Change], style: Style) -> String {
    let mut text =
        format!("first   {} (brasa {})\nsecond  {} (brasa {})\n", first.id, first.version, second.id, second.version);
    if first.machine.processor != second.machine.processor || first.machine.system != second.machine.system {
        text += "These are different machines.\n";
    }
    if first.method != second.method {
        text += "They were measured in different ways.\n";
    }
    for (one, other) in [(first, "first"), (second, "second")] {
        if one.build == "debug" {
            let _ = writeln!(text, "The {other} was measured with a debug build, which says nothing.");
        }
    }
    for device in &first.devices {
        let Some(other) = second.devices.iter().find(|other| other.selector == device.selector) else { continue };
        let of = |device: &DeviceReport| format!("{} ({}; {})", device.name, device.backend, device.driver);
        if of(device) != of(other) {
            let _ = writeln!(text, "{} was {}, and is {} in the second.", device.selector, of(device), of(other));
        }
    }
    if [first, second].iter().all(|report| report.devices.iter().any(|device| !device.stages.is_empty())) {
        text += "Stages are not compared: of one training run each, no spread is known.\n";
    }
    text.push('\n');
    let header = ["case", "device", "first", "second", "second is", "between"].map(str::to_owned).to_vec();
    let row = |change: &Change| {
        let [one, other] = change.seconds.map(seconds);
        let verdict = match change {
            change if change.is_clear => times(change.speedup),
            change if change.is_of_one_run => format!("{}, by one run", times(change.speedup)),
            _ => "the same within the spread".into(),
        };
        let between = format!("{:.2} and {:.2}", change.between[0], change.between[1]);
        vec![change.name.clone(), change.device.clone(), one, other, verdict, between]
    };
    let rows: Vec<Vec<String>> = std::iter::once(header).chain(changes.iter().map(row)).collect();
    text + &draw(&rows, style)
}

/// Where devices overtake each other.
pub(super) fn crossovers(found: &[Crossover], style: Style) -> String {
    let mut text = String::new();
    for Crossover { family, devices: [reference, other], points, between, ended_by } in found {
        let said = match between {
            [_, None] => format!("{other} does not overtake {reference} up to the largest size that was tried"),
            [None, Some(least)] => {
                format!("{other} is faster than {reference} from the smallest size on, n = {}", thousands(least))
            }
            [Some(slower), Some(faster)] => {
                format!("{other} overtakes {reference} between n = {} and {}", thousands(slower), thousands(faster))
            }
        };
        title(&mut text, &family.name(), style);
        let header = vec!["n".to_owned(), reference.clone(), other.clone(), String::new()];
        let row = |point: &Crossing| {
            let [one, another] = point.seconds;
            vec![thousands(point.size), seconds(one), seconds(another), times(one / another)]
        };
        let rows: Vec<Vec<String>> = std::iter::once(header).chain(points.iter().map(row)).collect();
        text += &draw(&rows, style);
        let _ = writeln!(text, "{said}.");
        if let Some(error) = ended_by {
            let _ = writeln!(text, "The search ended where a size could not be measured: {error}.");
        }
        text.push('\n');
    }
    for found in found {
        if let Some(advice) = Advice::of(found) {
            let _ = writeln!(text, "{}", advice.describe());
        }
    }
    text
}

/// A line for each case and device.
pub(super) fn csv(report: &Report) -> Result<String> {
    let wrong = |error: csv::Error| Error::Config(error.to_string());
    let mut writer = csv::Writer::from_writer(Vec::new());
    let header = [
        "suite",
        "case",
        "device",
        "median_s",
        "low_s",
        "high_s",
        "least_s",
        "p95_s",
        "p99_s",
        "runs",
        "source",
        "joules",
        "utilisation",
        "memory_bytes",
        "first_run_s",
        "in_kernels_s",
        "in_kernels_source",
        "flops",
        "bytes",
        "samples",
        "left_out",
        "what",
    ];
    writer.write_record(header).map_err(wrong)?;
    for device in &report.devices {
        for row in &device.rows {
            let of = |get: &dyn Fn(&Measured) -> String| row.measured.as_ref().map(get).unwrap_or_default();
            let told = |value: Option<String>| value.unwrap_or_default();
            let record = [
                row.suite.name().to_owned(),
                row.name.clone(),
                device.selector.clone(),
                of(&|measured| measured.median_s.to_string()),
                of(&|measured| measured.range_s[0].to_string()),
                of(&|measured| measured.range_s[1].to_string()),
                of(&|measured| measured.least_s.to_string()),
                of(&|measured| told(measured.tail_s.map(|tail| tail[0].to_string()))),
                of(&|measured| told(measured.tail_s.map(|tail| tail[1].to_string()))),
                of(&|measured| measured.runs.to_string()),
                of(&|measured| measured.source.name().to_owned()),
                of(&|measured| told(measured.joules.map(|joules| joules.to_string()))),
                of(&|measured| told(measured.utilisation.map(|part| part.to_string()))),
                of(&|measured| told(measured.memory_bytes.map(|bytes| bytes.to_string()))),
                of(&|measured| measured.first_s.to_string()),
                of(&|measured| told(measured.in_kernels.map(|(seconds, _)| seconds.to_string()))),
                of(&|measured| told(measured.in_kernels.map(|(_, source)| source.name().to_owned()))),
                row.flops.to_string(),
                row.bytes.to_string(),
                row.samples.to_string(),
                row.left_out.clone().unwrap_or_default(),
                row.what.clone(),
            ];
            writer.write_record(record).map_err(wrong)?;
        }
        for stage in device.stages.iter().filter(|stage| stage.source.is_some()) {
            let mut record = vec![String::new(); header.len()];
            let source = stage.source.map_or("", |source| source.name());
            let told = ["stages", stage.stage.name(), &device.selector, &(1e-3 * stage.busy_ms).to_string()];
            told.iter().zip(&mut record).for_each(|(from, to)| (*from).clone_into(to));
            let place = |name: &str| header.iter().position(|column| *column == name).expect("a column");
            source.clone_into(&mut record[place("source")]);
            record[place("what")] = format!("work of one training step, on {}", stage.place);
            writer.write_record(record).map_err(wrong)?;
        }
    }
    let bytes = writer.into_inner().map_err(|error| Error::Config(error.to_string()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn draw(rows: &[Vec<String>], style: Style) -> String {
    if style == Style::Plain {
        return table(rows);
    }
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        let _ = writeln!(text, "| {} |", row.join(" | "));
        if number == 0 {
            let _ = writeln!(text, "| --- {}|", "| ---: ".repeat(row.len() - 1));
        }
    }
    text
}
