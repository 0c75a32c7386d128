//! Is this driver right? Every op of the table, a short training and what a device must withstand, held against f64.
//!
//! [`examine`] gives a [`Report`] with each deviation by op, shape, type and error, and a [`Verdict`] in one line. It
//! is what `brasa doctor` prints, and what to send along when something is wrong.
//!
//! **Invariant:** nothing here loosens a bound for a driver: what the tests ask of the kernels is what is asked here.

mod checks;
mod products;
mod report;
pub mod rows;
mod sweep;
mod training;

pub use report::{Check, Deviation, Outcome, Problem, Report, Sweep, Verdict};

use crate::device::{Device, Fault};

/// What to examine.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Options {
    /// Only ops whose name contains this, and no other checks unless it is empty.
    pub filter: String,
    /// A kernel of this op is made wrong, to see that it is found.
    #[doc(hidden)]
    pub planted: Option<String>,
}

/// What is being examined.
#[derive(Clone, PartialEq, Debug)]
pub struct Progress {
    /// An op or a check.
    pub what: String,
    /// How many are done.
    pub done: usize,
    /// How many there are.
    pub of: usize,
}

/// Examines `device`, and tells of each step before it begins.
///
/// ```
/// use brasa::doctor::{Options, Verdict, examine};
///
/// let options = Options { filter: "softmax".into(), ..Options::default() };
/// let report = examine(&brasa::Device::cpu(), &options, &mut |_| {});
/// assert!(report.sweep.cases > 0 && report.sweep.deviations.is_empty());
/// assert_eq!(report.verdict(), Verdict::Safe);
/// ```
pub fn examine(device: &Device, options: &Options, tell: &mut dyn FnMut(Progress)) -> Report {
    let rows: Vec<rows::Row> = rows::all().filter(|row| row.name.contains(&options.filter)).collect();
    let checks = if options.filter.is_empty() { &checks::ALL[..] } else { &[] };
    let of = rows.len() + checks.len();
    let mut done = 0;
    let mut told = |what: &str| {
        tell(Progress { what: what.into(), done, of });
        done += 1;
    };
    let mut report = Report::new(device);
    for row in &rows {
        told(row.name);
        if options.planted.as_deref() == Some(row.name) {
            device.inject(Fault::WrongKernel);
        }
        report.sweep.add(row, device);
        if report.sweep.lost {
            break;
        }
    }
    for (name, check) in checks {
        told(name);
        let outcome = check(device).unwrap_or_else(|error| Outcome::Failed(error.to_string()));
        report.checks.push(Check { name: (*name).into(), outcome });
    }
    report
}
