//! Suite after suite, device after device.

use std::ops::ControlFlow;

use crate::device::{Device, DeviceKind};
use crate::error::{Error, Result};
use crate::sensors::{Card, Meter, Utilisation};

use super::cases::{self, Case};
use super::method::{Sampler, Sensors, measure_as_notebook};
use super::{DeviceReport, Measured, Method, OnnxModel, Report, Row, Suite, measure_peak, stages};

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which suites.
    pub suites: Vec<Suite>,
    /// Devices by selector or part of their names, as for [`Device::named`]; none: all.
    pub devices: Vec<String>,
    /// Cases whose name contains this.
    pub filter: String,
    /// Only the short cases.
    pub quick: bool,
    /// How.
    pub method: Method,
}

impl Default for Options {
    /// Everything, thoroughly.
    fn default() -> Self {
        let suites = Suite::ALL.to_vec();
        Self { suites, devices: Vec::new(), filter: String::new(), quick: false, method: Method::thorough() }
    }
}

/// What is being measured.
#[derive(Clone, PartialEq, Debug)]
pub struct Progress {
    /// Device by selector.
    pub device: String,
    /// Case, or what else is done.
    pub case: String,
    /// Visits to cases done, over all devices.
    pub done: usize,
    /// Visits in all.
    pub of: usize,
}

/// Hears of what is measured next, and says whether it shall be.
pub type Tell<'a> = dyn FnMut(Progress) -> ControlFlow<()> + 'a;

/// Measures, and tells of each case before it begins, which may end it: what was measured until then is in the report. A
/// device or a case that fails is there with its reason, and the others are measured.
///
/// ```
/// use std::ops::ControlFlow;
///
/// use brasa::bench::{Method, Options, Suite, run};
///
/// let method = Method { rounds: 1, least_runs: 1, budget_s: 0.0, ..Method::quick() };
/// let options = Options {
///     suites: vec![Suite::Matmul], devices: vec!["cpu".into()], filter: "matmul_64".into(), quick: true, method,
/// };
/// let report = run(&options, &mut |_| ControlFlow::Continue(()))?;
/// let row = report.row("cpu", Suite::Matmul, "matmul_64").expect("it was asked for");
/// assert!(row.measured.is_some());
/// # Ok::<(), brasa::Error>(())
/// ```
///
/// # Errors
/// If nothing fits `options`, or their method measures nothing.
pub fn run(options: &Options, tell: &mut Tell<'_>) -> Result<Report> {
    options.method.check()?;
    let mut options = options.clone();
    let mut known = Vec::new();
    options.suites.retain(|suite| {
        let is_new = !known.contains(suite);
        known.extend(is_new.then_some(*suite));
        is_new
    });
    let options = &options;
    let cases: Vec<Case> = cases::all(options).collect();
    if cases.is_empty() && !with_stages(options) {
        let suites = options.suites.iter().map(|suite| suite.name()).collect::<Vec<_>>().join(", ");
        let what = if options.method.as_notebook { "the notebook's loops are in the suite matmul" } else { "no case" };
        let what = match &options.filter[..] {
            "" => format!("nothing to measure in {suites}: {what}"),
            filter if options.quick && cases::all(&Options { quick: false, ..options.clone() }).next().is_some() => {
                format!("what has `{filter}` in its name in {suites} is not among the short cases: leave out --quick")
            }
            filter => {
                let all = names(&Options { filter: String::new(), ..options.clone() });
                let all: Vec<String> = all.into_iter().map(|(_, name)| name).collect();
                format!("nothing to measure in {suites} with `{filter}` in its name; there are {}", all.join(", "))
            }
        };
        return Err(Error::Config(what));
    }
    Ok(measure(options, &cases, opened(&options.devices), tell))
}

/// Measures the inference of a model in an ONNX file instead, with batches of 1, 8 and 64 samples where the file leaves
/// that open, on the devices of `options` and by their method.
///
/// # Errors
/// If the file cannot be read, sizes are missing, or the method measures nothing.
pub fn run_onnx(model: &OnnxModel, options: &Options, tell: &mut Tell<'_>) -> Result<Report> {
    options.method.check()?;
    let options = Options { suites: vec![Suite::Infer], ..options.clone() };
    Ok(measure(&options, &cases::onnx::cases(model)?, opened(&options.devices), tell))
}

/// The cases that [`run`] measures with these options: suite and name.
pub fn names(options: &Options) -> Vec<(Suite, String)> {
    cases::all(options).map(|case| (case.suite, case.name)).collect()
}

fn with_stages(options: &Options) -> bool {
    options.suites.contains(&Suite::Stages) && options.filter.is_empty() && !options.method.as_notebook
}

/// A device, as it was asked for.
pub(crate) type Opened = (String, Result<Device>);

/// The devices that were asked for, or those of this machine, each once by whatever names.
pub(crate) fn opened(asked: &[String]) -> Vec<Opened> {
    let mut opened: Vec<Opened> = Vec::new();
    for selector in selectors(asked) {
        let device = Device::named(&selector);
        let same = |other: &Opened| matches!((&other.1, &device), (Ok(one), Ok(other)) if one == other);
        if !opened.iter().any(same) {
            opened.push((selector, device));
        }
    }
    opened
}

/// Device after device.
fn measure(options: &Options, cases: &[Case], opened: Vec<Opened>, tell: &mut Tell<'_>) -> Report {
    let mut report = Report::new(options.method);
    // what the device can do at most; each case to warm it up and in each round; the stages
    let rounds = if options.method.as_notebook { 0 } else { options.method.rounds };
    let each = 1 + cases.len() * (1 + rounds) + usize::from(with_stages(options));
    let of = each * opened.len();
    let mut stopped = false;
    for (number, (selector, device)) in opened.into_iter().enumerate() {
        let mut done = number * each;
        let mut go_on = |case: &str| {
            stopped = stopped || tell(Progress { device: selector.clone(), case: case.into(), done, of }).is_break();
            done += 1;
            !stopped
        };
        report.devices.push(match device {
            Ok(device) => measure_one(&device, options, cases, &mut go_on),
            Err(error) => DeviceReport::failed(&selector, error.to_string()),
        });
        if stopped {
            report.left_out.push(format!("what comes after it was stopped on {selector}"));
            break;
        }
    }
    report.machine.look_again();
    report
}

/// One device; what `go_on` says no to is left out, with all that comes after it.
fn measure_one(
    device: &Device,
    options: &Options,
    cases: &[Case],
    go_on: &mut dyn FnMut(&str) -> bool,
) -> DeviceReport {
    let begins = go_on("what it can do at most");
    let mut found = DeviceReport::new(device);
    let (meter, utilisation) = (Meter::of(device.info()), Utilisation::of(device.info()));
    found.energy = said(meter.as_ref().map(Meter::source));
    found.utilisation = said(utilisation.as_ref().map(Utilisation::source));
    let sensors = Sensors { meter: meter.ok(), utilisation: utilisation.ok() };
    let card = Card::of(device.info()).ok();
    found.clock_mhz = card.as_ref().and_then(Card::clock).map(|(clock, _)| clock);
    if begins && !options.method.as_notebook {
        // without it there are no shares of it; what it needs, small devices may not have
        found.peak = measure_peak(device).ok();
    }
    for suite in &options.suites {
        let wanted = |case: &&Case| case.suite == *suite && (case.wanted_on)(device);
        let cases: Vec<&Case> = cases.iter().filter(wanted).collect();
        let rows = together(&cases, device, &found, &options.method, &sensors, go_on);
        found.rows.extend(rows);
        // the rest would fail in the same way
        if let Err(error) = device.sync() {
            found.failure = Some(error.to_string());
            break;
        }
    }
    found.peak = found.peak.map(|peak| peak.or_reached(&found.rows));
    if with_stages(options) && found.failure.is_none() && go_on("the ten stages") {
        match stages::measure(device) {
            Ok(rows) => found.stages = rows,
            Err(error) => found.failure = Some(error.to_string()),
        }
    }
    if let Some((clock, held)) = card.as_ref().and_then(Card::clock) {
        (found.clock_after_mhz, found.held_down_by) = (Some(clock), held.map(str::to_owned));
    }
    found
}

/// What tells something, or why nothing does.
fn said(source: std::result::Result<&str, &String>) -> String {
    source.map_or_else(|why| format!("not available here: {why}"), str::to_owned)
}

/// The devices that were asked for, each once; if none was, those of this machine. The CPU, which others are held
/// against, comes first then.
pub fn selectors(asked: &[String]) -> Vec<String> {
    if !asked.is_empty() {
        let first = |number: usize, selector: &String| !asked[..number].contains(selector);
        return asked
            .iter()
            .enumerate()
            .filter(|(n, selector)| first(*n, selector))
            .map(|(_, one)| one.clone())
            .collect();
    }
    let mut devices = Device::list();
    devices.sort_by_key(|info| info.kind != DeviceKind::Cpu);
    devices.into_iter().map(|info| info.selector).collect()
}

/// Measures cases in rounds, until `go_on` says no: those that were visited have rows then.
fn together(
    cases: &[&Case],
    device: &Device,
    found: &DeviceReport,
    method: &Method,
    sensors: &Sensors,
    go_on: &mut dyn FnMut(&str) -> bool,
) -> Vec<Row> {
    let prepare = |case: &Case| -> std::result::Result<Sampler, String> {
        let expected = found.peak.map_or(0.0, |peak| {
            (case.flops / peak.gflops_of(case.dtype, case.precision) * 1e-9).max(case.bytes / peak.gigabytes * 1e-9)
        });
        if expected > method.longest_s {
            return Err(format!("one run would take at least {expected:.0} s here"));
        }
        (case.make)(device)
            .and_then(|work| Sampler::new(work, case.throughput, case.least_runs))
            .map_err(|error| error.to_string())
    };
    if method.as_notebook {
        let one = |case: &&Case| {
            row(case, (case.make)(device).and_then(measure_as_notebook).map_err(|error| error.to_string()))
        };
        return cases.iter().take_while(|case| go_on(&case.name)).map(one).collect();
    }
    let mut samplers: Vec<std::result::Result<Sampler, String>> = Vec::new();
    for case in cases.iter().take_while(|case| go_on(&case.name)) {
        samplers.push(prepare(case));
    }
    'rounds: for round in 1..=method.rounds {
        for (case, sampler) in cases.iter().zip(&mut samplers) {
            if !go_on(&case.name) {
                break 'rounds;
            }
            let visited = sampler.as_mut().map(|sampler| {
                sampler.visit(method, sensors)?;
                if round == method.rounds { sampler.sense(sensors) } else { Ok(()) }
            });
            if let Ok(Err(error)) = visited {
                *sampler = Err(error.to_string());
            }
        }
    }
    let finish = |sampler: Sampler| sampler.finish().map_err(|error| error.to_string());
    let visited = |sampler: &std::result::Result<Sampler, String>| sampler.as_ref().map_or(true, Sampler::was_visited);
    let samplers = cases.iter().zip(samplers).filter(|(_, sampler)| visited(sampler));
    samplers.map(|(case, sampler)| row(case, sampler.and_then(finish))).collect()
}

fn row(case: &Case, measured: std::result::Result<Measured, String>) -> Row {
    let (measured, left_out) = match measured {
        Ok(measured) => (Some(measured), None),
        Err(why) => (None, Some(why)),
    };
    Row {
        suite: case.suite,
        name: case.name.clone(),
        what: case.what.clone(),
        dtype: case.dtype,
        precision: case.precision,
        flops: case.flops,
        bytes: case.bytes,
        samples: case.samples,
        measured,
        left_out,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Fault;

    #[test]
    fn a_suite_that_is_named_twice_is_measured_once() {
        let method = Method { rounds: 1, least_runs: 1, budget_s: 0.0, ..Method::quick() };
        let (suites, devices) = (vec![Suite::Matmul; 2], vec!["cpu".into()]);
        let report = run(&Options { suites, devices, filter: "matmul_64".into(), quick: true, method }, &mut |_| {
            ControlFlow::Continue(())
        });
        let report = report.expect("there is such a case");
        assert_eq!(report.devices[0].rows.iter().filter(|row| row.name == "matmul_64").count(), 1);
    }

    #[test]
    fn what_was_measured_before_a_stop_is_kept() {
        let method = Method { rounds: 2, least_runs: 2, budget_s: 0.0, ..Method::quick() };
        let options = Options { suites: vec![Suite::Matmul, Suite::Infer], quick: true, method, ..Options::default() };
        let wanted = |case: &Case| ["matmul_64", "matmul_256", "infer_mlp_b1"].contains(&case.name.as_str());
        let cases: Vec<Case> = cases::all(&options).filter(wanted).collect();
        // the most, two cases made ready, two rounds of them
        for (heard, measured) in [(0, 0), (1, 0), (2, 0), (4, 1), (5, 2), (7, 2), (8, 2)] {
            let opened = ["cpu", "cpu"].map(|name| (name.into(), Ok(Device::cpu()))).into();
            let mut told = 0;
            let report = measure(&options, &cases, opened, &mut |_| {
                told += 1;
                if told > heard { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            assert_eq!(told, heard + 1, "nobody is told of what comes after it");
            let [device] = &report.devices[..] else { panic!("{} devices", report.devices.len()) };
            assert_eq!(device.rows.len(), measured, "after {heard}");
            assert!(device.rows.iter().all(|row| row.measured.is_some()));
            assert_eq!(report.left_out, ["what comes after it was stopped on cpu"]);
        }
    }

    #[test]
    fn a_device_that_fails_half_way_leaves_a_report_of_the_rest() {
        let method = Method { rounds: 2, least_runs: 2, budget_s: 0.0, ..Method::quick() };
        let suites = vec![Suite::Matmul, Suite::Infer, Suite::Transfer];
        let options = Options { suites, quick: true, filter: "m".into(), method, ..Options::default() };
        let wanted = |case: &Case| ["matmul_64", "infer_mlp_b1", "upload_64mib"].contains(&case.name.as_str());
        let cases: Vec<Case> = cases::all(&options).filter(wanted).collect();
        let lost = Device::cpu().reopen().expect("there is always one");
        let missing = Err(Error::NoAdapter);
        let opened =
            vec![("lost".into(), Ok(lost.clone())), ("gpu:9".into(), missing), ("cpu".into(), Ok(Device::cpu()))];
        let report = measure(&options, &cases, opened, &mut |progress| {
            if progress.case == "infer_mlp_b1" {
                lost.inject(Fault::Lost);
            }
            ControlFlow::Continue(())
        });
        let [failed, missing, whole] = &report.devices[..] else { panic!("{:?}", report.devices.len()) };
        assert!(failed.failure.as_ref().is_some_and(|why| why.contains("lost")), "{:?}", failed.failure);
        let [product, inference] = &failed.rows[..] else { panic!("what came before, and where it failed") };
        assert!(product.measured.is_some() && inference.measured.is_none());
        assert!(inference.left_out.as_ref().is_some_and(|why| why.contains("lost")), "{:?}", inference.left_out);
        assert!(missing.failure.is_some() && missing.rows.is_empty());
        assert!(
            whole.failure.is_none() && whole.rows.len() == 3 && whole.rows.iter().all(|row| row.measured.is_some())
        );
    }
}
