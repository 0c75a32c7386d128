//! From which sizes on are the devices of a machine worth it, in a report that says where and how that was found.

use std::ops::ControlFlow;

use crate::error::Result;
use crate::train::ModelName;

use super::crossover::{Family, crossover};
use super::growth::growth;
use super::run::{Opened, opened};
use super::{Crossover, DeviceReport, Method, Progress, Report, Tell};

/// What to search.
#[derive(Clone, Debug)]
pub struct CrossoverOptions {
    /// Devices by selector or part of their names; the first is held against each of the others. None: all of the
    /// machine, the CPU first.
    pub devices: Vec<String>,
    /// The network whose training steps are measured.
    pub model: ModelName,
    /// How.
    pub method: Method,
}

/// Searches where the first device is overtaken by each other one, and the batch with which each trains the most. What
/// fails is in the report with its reason, and so is that there is nothing to overtake. `tell` may end it.
///
/// # Errors
/// If the method measures nothing.
pub fn crossovers(options: &CrossoverOptions, tell: &mut Tell<'_>) -> Result<Report> {
    search(options, opened(&options.devices), tell)
}

fn search(options: &CrossoverOptions, opened: Vec<Opened>, tell: &mut Tell<'_>) -> Result<Report> {
    let CrossoverOptions { model, method, .. } = options;
    method.check()?;
    let mut report = Report::new(*method);
    let mut devices = Vec::new();
    for (selector, device) in opened {
        match device {
            Ok(device) => {
                report.devices.push(DeviceReport::new(&device));
                devices.push(device);
            }
            Err(error) => report.devices.push(DeviceReport::failed(&selector, error.to_string())),
        }
    }
    let Some((reference, others)) = devices.split_first() else { return Ok(report) };
    let families = Family::all(*model);
    let of = others.len() * families.len() + devices.len();
    let (mut done, mut stopped) = (0, false);
    let mut told = |device: &str, what: &str, done: usize, size: usize| {
        stopped = stopped
            || tell(Progress { device: device.into(), case: format!("{what}, n = {size}"), done, of }).is_break();
        if stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    for other in others {
        for family in families {
            let (device, name) = (&other.info().selector, family.name());
            let found = crossover(family, reference, other, method, &mut |size| told(device, &name, done, size));
            match found {
                Ok(found) => report.crossovers.push(found),
                Err(error) => report.left_out.push(format!("{name} on {device}: {error}")),
            }
            done += 1;
        }
    }
    for device in &devices {
        let (selector, name) = (&device.info().selector, Family::Training(*model).name());
        let known = known(&report.crossovers, Family::Training(*model), selector);
        match growth(*model, device, known, method, &mut |size| told(selector, &name, done, size)) {
            Ok(found) => report.growths.push(found),
            Err(error) => report.left_out.push(format!("{name} on {selector}: {error}")),
        }
        done += 1;
    }
    report.machine.look_again();
    Ok(report)
}

/// What was measured of a device on the way.
fn known(found: &[Crossover], family: Family, selector: &str) -> Vec<(usize, f64)> {
    let mut known: Vec<(usize, f64)> = Vec::new();
    for found in found.iter().filter(|found| found.family == family) {
        let Some(side) = found.devices.iter().position(|device| device == selector) else { continue };
        for point in &found.points {
            if !known.iter().any(|(size, _)| *size == point.size) {
                known.push((point.size, point.seconds[side]));
            }
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Device, Fault};
    use crate::error::Error;

    fn options() -> CrossoverOptions {
        let method = Method { rounds: 1, least_runs: 1, budget_s: 0.0, longest_s: 0.002, as_notebook: false };
        CrossoverOptions { devices: Vec::new(), model: ModelName::new("mlp").expect("there is one"), method }
    }

    #[test]
    fn one_device_alone_has_nothing_to_overtake_and_is_measured() {
        let missing = ("gpu:0".to_owned(), Err(Error::NoAdapter));
        let opened = vec![("cpu".to_owned(), Ok(Device::cpu())), missing];
        let report = search(&options(), opened, &mut |_| ControlFlow::Continue(())).expect("it measures something");
        assert!(report.crossovers.is_empty() && report.left_out.is_empty());
        assert_eq!(report.growths.len(), 1);
        assert!(report.growths[0].best().1 > 0.0);
        assert!(report.devices[1].failure.is_some() && !report.id.is_empty());
    }

    #[test]
    fn a_device_that_fails_leaves_what_was_found_before() {
        let lost = Device::cpu().reopen().expect("there is always one");
        let opened = vec![("cpu".to_owned(), Ok(Device::cpu())), ("lost".to_owned(), Ok(lost.clone()))];
        let mut heard = Vec::new();
        // longer than the smallest sizes take beside other tests: a second one follows
        let mut options = options();
        options.method.longest_s = 0.1;
        let report = search(&options, opened, &mut |progress| {
            if progress.done == 2 {
                lost.inject(Fault::Lost);
            }
            heard.push(progress);
            ControlFlow::Continue(())
        });
        let report = report.expect("the rest is told");
        assert_eq!(report.crossovers.len(), 2, "products and maps");
        assert!(report.left_out.iter().any(|why| why.contains("convolution")), "{:?}", report.left_out);
        assert!(heard.windows(2).any(|two| two[0].done == two[1].done && two[0].case != two[1].case), "size by size");
    }
}
