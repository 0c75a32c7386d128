//! One report against another.

use serde::{Deserialize, Serialize};

use super::{Measured, Report, Suite};

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
    /// The least and the most that it may be, by the ranges of both.
    pub between: [f64; 2],
    /// Whether the difference is larger than the spread of both; of a single run none is known.
    pub is_clear: bool,
    /// One of them was run only once.
    pub is_of_one_run: bool,
}

impl Change {
    fn new(device: &str, suite: Suite, name: &str, first: &Measured, second: &Measured) -> Self {
        let is_of_one_run = first.runs.min(second.runs) < 2;
        Self {
            device: device.into(),
            suite,
            name: name.into(),
            seconds: [first.median_s, second.median_s],
            speedup: first.median_s / second.median_s,
            between: [first.range_s[0] / second.range_s[1], first.range_s[1] / second.range_s[0]],
            is_clear: !is_of_one_run && !first.is_same_as(second),
            is_of_one_run,
        }
    }
}

/// What both measured, device by device, in the order of the first report.
pub fn compare(first: &Report, second: &Report) -> Vec<Change> {
    let rows = first.devices.iter().flat_map(|device| device.rows.iter().map(move |row| (&device.selector, row)));
    rows.filter_map(|(device, row)| {
        let other = second.row(device, row.suite, &row.name)?;
        Some(Change::new(device, row.suite, &row.name, row.measured.as_ref()?, other.measured.as_ref()?))
    })
    .collect()
}
