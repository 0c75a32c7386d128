//! A report as people read it.

use crate::bench::{DeviceReport, Measured, Report, Row, StageRow, Suite, number, seconds};
use crate::timing::TimeSource;
use crate::units::{bytes, thousands};

use crate::cli::layout::{Style, below, draw, list, title};

/// Samples of CIFAR-10 to train on.
const EPOCH: f64 = 50_000.0;
/// Where other programs keep a larger part of the processor busy, it is not measured in peace.
const BUSY: f64 = 0.15;
/// A CPU that does less than this part of what the `gemm` crate does is told of.
const MIN_SHARE: f64 = 0.9;
/// Runs and clocks that slow down by more than this part are told of.
const DRIFT: f64 = 0.15;
/// Where there is nothing.
const NONE: &str = "–";

/// All of a report.
pub(super) fn report(report: &Report, style: Style) -> String {
    let mut text = head(report, &report.method.describe(), style);
    for suite in Suite::ALL {
        if suite == Suite::Stages {
            if report.devices.iter().any(|device| !device.stages.is_empty()) {
                title(&mut text, "stages: ms of work in a step of the tutorial CNN, batch 128", style);
                text += &draw(&stages(report), 1, style);
                below(&mut text, &sources(report), style);
                text.push('\n');
            }
            continue;
        }
        let rows = cases(report, suite);
        if rows.len() > 1 {
            title(&mut text, suite.name(), style);
            text += &draw(&rows, 2, style);
            for verdict in verdicts(report, suite) {
                below(&mut text, &verdict, style);
            }
            text.push('\n');
        }
    }
    let left_out = left_out(report);
    if !left_out.is_empty() {
        text += &(list(&left_out, style) + "\n");
    }
    text += &legend(report, style);
    text
}

/// What each case is, how often it was run, what it took in kernels alone, and what the columns say.
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
    let is_timed =
        |device: &DeviceReport| device.rows.iter().any(|row| row.measured.is_some_and(|m| m.in_kernels.is_some()));
    let mut what = vec![vec!["case".to_owned(), "one run is".into()]];
    let mut runs = vec![vec!["case".to_owned()]];
    for device in &devices {
        runs[0].push(format!("runs on {}", device.selector));
        runs[0].extend(is_timed(device).then(|| "in kernels".into()));
    }
    for (suite, name) in names {
        let row = |device: &DeviceReport| report.row(&device.selector, suite, name);
        what.push(vec![
            name.to_owned(),
            devices.iter().find_map(|device| row(device)).map(Row::in_words).unwrap_or_default(),
        ]);
        let mut cells = vec![name.to_owned()];
        for device in &devices {
            let measured = row(device).and_then(|row| row.measured);
            cells.push(measured.map_or(NONE.into(), |measured| thousands(measured.runs * measured.together)));
            let told = measured.and_then(|measured| measured.in_kernels);
            let said = told.map_or(NONE.into(), |(time, source)| format!("{} ({})", seconds(time), source.name()));
            cells.extend(is_timed(device).then_some(said));
        }
        runs.push(cells);
    }
    let mut text = String::new();
    title(&mut text, "what was measured", style);
    text += &draw(&what, 2, style);
    text.push('\n');
    title(&mut text, "how often", style);
    text += &draw(&runs, 1, style);
    let columns = columns(report);
    if !columns.is_empty() {
        text.push('\n');
        title(&mut text, "what the columns say", style);
        text += &list(&columns, style);
    }
    text
}

/// The words of the tables that are there.
fn columns(report: &Report) -> Vec<String> {
    let rows = || report.devices.iter().flat_map(|device| &device.rows);
    let has = |told: fn(&Measured) -> bool| rows().any(|row| row.measured.as_ref().is_some_and(told));
    let trains = rows().any(|row| row.suite == Suite::Train);
    let mut lines = Vec::new();
    let mut say = |there: bool, line: &str| lines.extend(there.then(|| line.to_owned()));
    say(
        !report.method.as_notebook,
        "time: the median of all runs, by the wall clock; ± is how far a quartile, or the median of a round, lies from it",
    );
    say(
        has(|m| m.runs > 1 && m.spread() > 1.0),
        "±>100 %: it was disturbed, as by another program; measure again where nothing else runs",
    );
    let shares = |device: &DeviceReport| device.rows.iter().filter_map(|row| row.share_of(&device.peak?)).count();
    let peaks = report.devices.iter().any(|device| shares(device) > 0);
    say(
        peaks,
        "of peak: the share of what the device was measured to do at most, of its arithmetic (c) or its memory (m), of \
         which there is none where all may lie in caches",
    );
    say(trains, "first step: with planning and compiling");
    say(trains, "memory: what a step holds on the device: weights, activations, inputs and outputs");
    say(has(|m| m.utilisation.is_some()) && trains, "busy: the part of the device that was at work");
    say(
        has(|m| m.joules.is_some()),
        "energy: of the whole device in one run, with what it uses when idle; an epoch is 50,000 samples",
    );
    say(
        rows().any(|row| row.suite == Suite::Infer && row.samples == 1),
        "p95, p99: 95 and 99 of 100 runs took no longer; there must have been 100",
    );
    say(has(|m| m.in_kernels.is_some()), "in kernels: of one run, without what it takes to hand work over and to wait");
    lines
}

/// Where and how everything was measured.
pub(super) fn head(report: &Report, method: &str, style: Style) -> String {
    let machine = &report.machine;
    let mut lines = vec![format!("brasa {}, report {}", report.version, report.id)];
    let clock = machine.clock_mhz.map(|mhz| format!(" at {:.1} GHz", mhz / 1e3)).unwrap_or_default();
    lines.push(format!("{}; {}, {} threads{clock}", machine.system, machine.processor, machine.threads));
    for device in &report.devices {
        let mut line = format!("{}: ", device.selector);
        if let Some(failure) = &device.failure {
            line += &format!("FAILED: {failure} ");
        }
        if !device.name.is_empty() {
            line += &format!("{} ({}, {}; {})", device.name, device.kind, device.backend, device.driver);
        }
        line += &at_most(device);
        lines.push(line.trim_end().to_owned());
    }
    for device in report.devices.iter().filter(|device| !device.energy.is_empty()) {
        let DeviceReport { selector, energy, utilisation, .. } = device;
        lines.push(format!("Energy of {selector}: {energy}. Utilisation: {utilisation}."));
        if let (Some(before), Some(after)) = (device.clock_mhz, device.clock_after_mhz) {
            let held = device.held_down_by.as_ref().map(|why| format!(", held down by {why}")).unwrap_or_default();
            lines.push(format!("Clock of {selector}: {before:.0} MHz before, {after:.0} MHz after{held}."));
        }
    }
    lines.push(format!("Method: {method}."));
    if report.build == "debug" {
        lines.push("This is a debug build, whose figures say nothing: build with --release.".into());
    }
    if let (Some(before), Some(after)) = (machine.clock_mhz, machine.clock_after_mhz)
        && after < before * (1.0 - DRIFT)
    {
        let (before, after) = (before / 1e3, after / 1e3);
        lines.push(format!(
            "The processor's clock was {after:.1} GHz at the end, {before:.1} GHz at the beginning: heat, or a limit of power."
        ));
    }
    if let Some(busy) = machine.others_busy.filter(|busy| *busy > BUSY) {
        let part = 100.0 * busy;
        lines.push(format!(
            "Other programs kept {part:.0} % of the processor busy when this began: expect wider spreads."
        ));
    }
    list(&lines, style) + "\n"
}

fn at_most(device: &DeviceReport) -> String {
    let Some(peak) = device.peak else { return String::new() };
    let mut text = format!(": at most {} GFLOP/s", number(peak.gflops));
    if let Some(half) = peak.half_gflops {
        let units = device.units.as_ref().map(|units| format!(", with units of {units}")).unwrap_or_default();
        text += &format!(" (f16 {}{units})", number(half));
    }
    text += &format!(" and {} GB/s, by {}", number(peak.gigabytes), peak.source.name());
    if let Some(yardstick) = peak.yardstick_gflops {
        text += &format!("; the `gemm` crate alone {} GFLOP/s", number(yardstick));
        if yardstick * MIN_SHARE > peak.gflops {
            text += ", more than a tenth better: the CPU is not at its best here";
        }
    }
    text
}

/// A header, and a line for each case of the suite on each device.
fn cases(report: &Report, suite: Suite) -> Vec<Vec<String>> {
    let devices: Vec<&DeviceReport> = report.devices.iter().filter(|device| !device.rows.is_empty()).collect();
    let mut names: Vec<&str> = Vec::new();
    for row in devices.iter().flat_map(|device| &device.rows).filter(|row| row.suite == suite) {
        if !names.contains(&row.name.as_str()) {
            names.push(&row.name);
        }
    }
    let has = |told: fn(&Measured) -> bool| {
        let mut rows = devices.iter().flat_map(|device| &device.rows).filter(|row| row.suite == suite);
        rows.any(|row| row.measured.as_ref().is_some_and(told))
    };
    let trains = suite == Suite::Train;
    let infers = suite == Suite::Infer;
    let with_energy = has(|measured| measured.joules.is_some());
    let with_peak = !infers && suite != Suite::Transfer && !report.method.as_notebook;
    let reference = devices.first().map_or("", |device| device.selector.as_str());
    let mut header = vec!["case".to_owned(), "device".into(), "time".into()];
    let mut column = |there: bool, name: &str| header.extend(there.then(|| name.to_owned()));
    column(devices.len() > 1, &format!("against {reference}"));
    column(true, "rate");
    column(infers, "p95");
    column(infers, "p99");
    column(with_peak, "of peak");
    column(trains, "first step");
    column(trains, "memory");
    column(trains && has(|measured| measured.utilisation.is_some()), "busy");
    column(with_energy, "energy");
    column(with_energy && trains, "of an epoch");
    let mut rows = vec![header.clone()];
    for name in names {
        let first = rows.len();
        for device in &devices {
            let Some(row) = report.row(&device.selector, suite, name) else { continue };
            // the first device may have no such case
            let is_first = rows.len() == first;
            let cell = |column: &String| match column.as_str() {
                "case" if is_first => name.to_owned(),
                "case" => String::new(),
                "device" => device.selector.clone(),
                column if column.starts_with("against ") => against(report, suite, name, reference, device),
                column => figure(column, row, device).unwrap_or_else(|| NONE.into()),
            };
            rows.push(header.iter().map(cell).collect());
        }
    }
    rows
}

/// What a column says of a case, if it is known.
fn figure(column: &str, row: &Row, device: &DeviceReport) -> Option<String> {
    let measured = row.measured?;
    Some(match column {
        "time" => measured.in_words(),
        "rate" => row.rate_in_words()?,
        "p95" => seconds(measured.tail_s?[0]),
        "p99" => seconds(measured.tail_s?[1]),
        "of peak" => {
            let (share, of_compute) = row.share_of(&device.peak?)?;
            format!("{:.0} % {}", 100.0 * share, if of_compute { "c" } else { "m" })
        }
        "first step" => seconds(measured.first_s),
        "memory" => bytes(measured.memory_bytes?),
        "busy" => format!("{:.0} %", 100.0 * measured.utilisation?),
        "energy" => format!("{} mJ", number(1e3 * measured.joules?)),
        "of an epoch" => format!("{} J", number(measured.joules? * EPOCH / row.samples as f64)),
        _ => return None,
    })
}

fn against(report: &Report, suite: Suite, name: &str, reference: &str, device: &DeviceReport) -> String {
    if device.selector == reference {
        return String::new();
    }
    match report.ratio(suite, name, reference, &device.selector) {
        Some(ratio) if ratio.is_same => "the same".into(),
        Some(ratio) => times(ratio.value),
        None => NONE.into(),
    }
}

/// A ratio as what the other one is.
pub(super) fn times(ratio: f64) -> String {
    match ratio > 1.0 {
        true => format!("{} x faster", number(ratio)),
        false => format!("{} x slower", number(1.0 / ratio)),
    }
}

/// What the table says about each device after the first.
fn verdicts(report: &Report, suite: Suite) -> Vec<String> {
    let mut devices = report.devices.iter().filter(|device| !device.rows.is_empty());
    let Some(reference) = devices.next() else { return Vec::new() };
    let verdict = |device: &DeviceReport| {
        let names = device.rows.iter().filter(|row| row.suite == suite).map(|row| row.name.as_str());
        let ratios: Vec<(f64, bool)> = names
            .filter_map(|name| report.ratio(suite, name, &reference.selector, &device.selector))
            .map(|ratio| (ratio.value, ratio.is_same))
            .collect();
        (!ratios.is_empty())
            .then(|| format!("{} against {}: {}.", device.selector, reference.selector, counts(&ratios)))
    };
    devices.filter_map(verdict).collect()
}

/// In how many cases a device is faster, slower or neither, and by how much.
fn counts(ratios: &[(f64, bool)]) -> String {
    let same = ratios.iter().filter(|(_, is_same)| *is_same).count();
    let clear = |faster: bool| {
        let of = ratios.iter().filter(move |(ratio, is_same)| !is_same && (*ratio > 1.0) == faster);
        let mut factors: Vec<f64> = of.map(|(ratio, _)| if faster { *ratio } else { 1.0 / ratio }).collect();
        factors.sort_by(f64::total_cmp);
        factors
    };
    let of = |count: usize| match ratios.len() {
        1 => "the only case".to_owned(),
        all if all == count => format!("all {count} cases"),
        all => format!("{count} of {all} cases"),
    };
    let said = |word: &str, factors: Vec<f64>| {
        let (first, last) = (number(*factors.first()?), number(*factors.last()?));
        let range = if first == last { first } else { format!("{first} to {last}") };
        Some(format!("{word} in {} ({range} x)", of(factors.len())))
    };
    let equal = (same > 0).then(|| format!("the same in {}", of(same)));
    let parts = [said("faster", clear(true)), said("slower", clear(false)), equal];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn stages(report: &Report) -> Vec<Vec<String>> {
    let devices: Vec<&DeviceReport> = report.devices.iter().filter(|device| !device.stages.is_empty()).collect();
    let mut header = vec!["stage".to_owned()];
    header.extend(devices.iter().flat_map(|device| [format!("with {}", device.selector), "done on".into()]));
    header.extend(devices.iter().skip(1).map(|device| match devices.len() {
        2 => format!("against {}", devices[0].selector),
        _ => format!("{} against {}", device.selector, devices[0].selector),
    }));
    let mut rows = vec![header];
    for &StageRow { stage, .. } in &devices[0].stages {
        let mut cells = vec![stage.name().to_owned()];
        for device in &devices {
            match device.stage(stage) {
                Some(StageRow { busy_ms, place, source, .. }) => {
                    cells.extend([format!("{busy_ms:.3} {}", source.map_or("", letter)), place.clone()]);
                }
                None => cells.extend(["did not run".into(), String::new()]),
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

/// How a time is known, in one letter.
const fn letter(source: TimeSource) -> &'static str {
    match source {
        TimeSource::Timestamp => "t",
        TimeSource::Fence => "f",
        TimeSource::WallClock => "w",
    }
}

/// What the letters of the stages say.
fn sources(report: &Report) -> String {
    let has = |source: &TimeSource| {
        report.devices.iter().flat_map(|device| &device.stages).any(|stage| stage.source == Some(*source))
    };
    let known: Vec<String> = TimeSource::ALL
        .into_iter()
        .filter(has)
        .map(|source| format!("{}: known by {}", letter(source), source.name()))
        .collect();
    format!("{}; one run only, so no spread is known.", known.join(", "))
}

/// What was not measured of the report as a whole.
pub(super) fn of_report(report: &Report) -> Vec<String> {
    report.left_out.iter().map(|why| format!("Left out: {why}")).collect()
}

/// What was not measured, and what slowed down.
fn left_out(report: &Report) -> Vec<String> {
    let mut lines = of_report(report);
    for device in &report.devices {
        for row in &device.rows {
            if let Some(why) = &row.left_out {
                lines.push(format!("{} on {} was left out: {why}", row.name, device.selector));
            }
        }
        let slowed = device.rows.iter().filter_map(|row| Some((row.name.as_str(), row.measured?.drift)));
        lines.extend(slowed_down(&slowed.filter(|(_, drift)| *drift > DRIFT).collect::<Vec<_>>(), &device.selector));
    }
    lines
}

/// What is said of cases that slowed down by these parts while they were measured.
fn slowed_down(cases: &[(&str, f64)], device: &str) -> Option<String> {
    const NAMED: usize = 3;
    let most = cases.iter().map(|(_, drift)| *drift).fold(0.0, f64::max);
    // how far a round was disturbed says nothing
    let most = if most > 1.0 { "more than 100 %".to_owned() } else { format!("{:.0} %", 100.0 * most) };
    let (what, by) = match cases {
        [] => return None,
        [(name, _)] => (format!("{name} on {device}"), most),
        _ => {
            let names: Vec<&str> = cases.iter().map(|(name, _)| *name).take(NAMED).collect();
            let rest = if cases.len() > NAMED { ", ..." } else { "" };
            (format!("{} cases on {device} ({}{rest})", cases.len(), names.join(", ")), format!("{most} at worst"))
        }
    };
    Some(format!("{what} slowed down by {by} while measured: heat, or something else that ran"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::Stage;

    fn of(devices: Vec<DeviceReport>) -> Report {
        Report {
            id: String::new(),
            version: String::new(),
            build: String::new(),
            machine: crate::bench::Machine::look(),
            method: crate::bench::Method::quick(),
            devices,
            crossovers: Vec::new(),
            growths: Vec::new(),
            left_out: Vec::new(),
        }
    }

    #[test]
    fn what_is_the_same_is_neither_faster_nor_slower() {
        assert_eq!(counts(&[(0.1, false), (0.05, false)]), "slower in all 2 cases (10.0 to 20.0 x)");
        assert_eq!(
            counts(&[(2.0, false), (1.01, true), (0.99, true), (0.5, false)]),
            "faster in 1 of 4 cases (2.00 x), slower in 1 of 4 cases (2.00 x), the same in 2 of 4 cases"
        );
        assert_eq!(counts(&[(1.01, true)]), "the same in the only case");
    }

    #[test]
    fn the_stages_of_two_devices_fit_a_terminal() {
        let stages = |times: [(Stage, f64, &str, TimeSource); 2]| {
            times.map(|(stage, busy_ms, place, source)| StageRow {
                stage,
                busy_ms,
                place: place.into(),
                source: Some(source),
            })
        };
        let device = |selector: &str, rows: [StageRow; 2]| DeviceReport {
            selector: selector.into(),
            stages: rows.to_vec(),
            ..DeviceReport::default()
        };
        let (by_clock, by_device) = (TimeSource::WallClock, TimeSource::Timestamp);
        let cpu = stages([(Stage::Backward, 3.634, "cpu", by_clock), (Stage::Log, 0.687, "host + cpu", by_clock)]);
        let gpu =
            stages([(Stage::Backward, 27.126, "gpu:0", by_device), (Stage::Log, 3.572, "host + gpu:0", by_clock)]);
        let of = of(vec![device("cpu", cpu), device("gpu:0", gpu)]);
        let text = report(&of, Style::Plain { width: 80 });
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let header = text.lines().find(|line| line.starts_with("stage  ")).expect("the table");
        assert!(header.ends_with("against cpu"), "{text}");
        let line = text.lines().find(|line| line.starts_with("backward")).expect("its line");
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words, ["backward", "3.634", "w", "cpu", "27.126", "t", "gpu:0", "7.46", "x", "slower"]);
        assert!(text.contains("\nt: known by timestamp, w: known by wall clock; one run only"), "{text}");
    }

    #[test]
    fn a_case_that_the_first_device_has_not_is_named() {
        let row = |name: &str| Row {
            suite: Suite::Matmul,
            name: name.into(),
            what: String::new(),
            dtype: crate::dtype::DType::F32,
            precision: crate::MatmulPrecision::default(),
            flops: 0.0,
            bytes: 0.0,
            samples: 0,
            measured: None,
            left_out: Some("no memory".into()),
        };
        let device = |selector: &str, names: &[&str]| DeviceReport {
            selector: selector.into(),
            rows: names.iter().map(|name| row(name)).collect(),
            ..DeviceReport::default()
        };
        let of = of(vec![device("cpu", &["both"]), device("gpu:0", &["both", "high"])]);
        let rows = cases(&of, Suite::Matmul);
        let names: Vec<[&str; 2]> = rows[1..].iter().map(|row| [row[0].as_str(), row[1].as_str()]).collect();
        assert_eq!(names, [["both", "cpu"], ["", "gpu:0"], ["high", "gpu:0"]]);
    }

    #[test]
    fn cases_that_slowed_down_share_a_line() {
        assert_eq!(slowed_down(&[], "cpu"), None);
        let said = |cases: &[(&str, f64)]| slowed_down(cases, "cpu").expect("some");
        assert!(said(&[("add", 0.2)]).starts_with("add on cpu slowed down by 20 % while"));
        let many = said(&[("a", 0.2), ("b", 0.5), ("c", 0.3), ("d", 867.7)]);
        assert!(many.starts_with("4 cases on cpu (a, b, c, ...) slowed down by more than 100 % at worst"), "{many}");
    }
}
