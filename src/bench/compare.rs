//! One report against another.

use serde::{Deserialize, Serialize};

use super::{DeviceReport, Measured, Report, Row, Suite};

/// How a case differs between two reports.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Change {
    /// On which device.
    pub device: String,
    /// Of which suite.
    pub suite: Suite,
    /// The case.
    pub name: String,
    /// Seconds in the first report and in the second.
    pub seconds: [f64; 2],
    /// The first time by the second: above 1, the second is faster.
    pub speedup: f64,
    /// The least and the most that it may be, by the ranges of both; `None` where one of them is of a single run, which
    /// has none.
    pub between: Option<[f64; 2]>,
    /// Whether 1 lies outside of that.
    pub is_clear: bool,
}

/// Something that cannot be compared.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Gap {
    /// On which device.
    pub device: String,
    /// Of which suite, if it is a case.
    pub suite: Option<Suite>,
    /// The case, or else it is the whole device.
    pub name: Option<String>,
    /// Why.
    pub why: String,
}

/// How one report differs from another.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Comparison {
    /// What both measured, device by device, in the order of the first report.
    pub changes: Vec<Change>,
    /// What only one of them did, or none.
    pub gaps: Vec<Gap>,
}

impl Change {
    fn new(device: &str, row: &Row, first: &Measured, second: &Measured) -> Self {
        let is_of_one_run = first.runs.min(second.runs) < 2;
        Self {
            device: device.into(),
            suite: row.suite,
            name: row.name.clone(),
            seconds: [first.median_s, second.median_s],
            speedup: first.median_s / second.median_s,
            between: (!is_of_one_run).then(|| first.speedup_to(second)),
            is_clear: !is_of_one_run && !first.is_same_as(second),
        }
    }
}

const NAMES: [&str; 2] = ["first", "second"];

/// Holds the second report against the first, in the cases whose names contain `filter`.
pub fn compare(first: &Report, second: &Report, filter: &str) -> Comparison {
    let reports = [first, second];
    let mut found = Comparison::default();
    let mut selectors: Vec<&str> = Vec::new();
    for device in reports.iter().flat_map(|report| &report.devices) {
        if !selectors.contains(&&*device.selector) {
            selectors.push(&device.selector);
        }
    }
    for selector in selectors {
        let devices = reports.map(|report| report.devices.iter().find(|device| device.selector == selector));
        for (number, device) in devices.iter().enumerate() {
            let why = match device {
                None => format!("is not in the {} report", NAMES[number]),
                Some(DeviceReport { failure: Some(failure), .. }) => {
                    format!("failed in the {} report: {failure}", NAMES[number])
                }
                Some(_) => continue,
            };
            found.gaps.push(Gap { device: selector.into(), suite: None, name: None, why });
        }
        let [Some(one), Some(other)] = devices else { continue };
        cases(&mut found, selector, [one, other], filter);
    }
    found
}

fn cases(found: &mut Comparison, selector: &str, devices: [&DeviceReport; 2], filter: &str) {
    let same = |row: &Row, other: &Row| row.suite == other.suite && row.name == other.name;
    let only_second = devices[1].rows.iter().filter(|row| !devices[0].rows.iter().any(|other| same(row, other)));
    for row in devices[0].rows.iter().chain(only_second).filter(|row| row.name.contains(filter)) {
        let rows = devices.map(|device| device.rows.iter().find(|other| same(row, other)));
        if let [Some(Row { measured: Some(one), .. }), Some(Row { measured: Some(other), .. })] = rows {
            found.changes.push(Change::new(selector, row, one, other));
            continue;
        }
        let reasons = rows.iter().zip(NAMES).filter_map(|(row, name)| match row {
            None => Some(format!("is not in the {name} report")),
            Some(Row { measured: None, left_out, .. }) => {
                let why = left_out.as_deref().unwrap_or("without a reason");
                Some(format!("was left out of the {name} report: {why}"))
            }
            Some(_) => None,
        });
        let why = reasons.collect::<Vec<_>>().join("; ");
        found.gaps.push(Gap { device: selector.into(), suite: Some(row.suite), name: Some(row.name.clone()), why });
    }
}
