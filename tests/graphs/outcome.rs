//! How a case turned out, and how a failing one is reported.

use std::collections::BTreeSet;

use super::case::Case;
use super::common::caught;

/// How a case turned out.
pub(crate) enum Outcome {
    Same,
    /// A change in the last bits of some values changes others a lot.
    Unsteady,
    Wrong(String),
}

/// The outcome of a case, and the rows it drew.
pub(crate) type Run = (Outcome, Vec<&'static str>);

/// The outcome of `f`; a panic is one too.
fn outcome(f: impl FnOnce() -> Run) -> Run {
    caught(f).unwrap_or_else(|((message, file, line), trace)| {
        (Outcome::Wrong(format!("panic at {file}:{line}: {message}\n{trace}")), Vec::new())
    })
}

/// What makes two failures the same: the place of a panic, or that values differ.
fn kind(failure: &str) -> &str {
    match failure.strip_prefix("panic at ") {
        Some(place) => place.split(": ").next().unwrap_or_default(),
        None => "difference",
    }
}

/// A report of a failure: its seed, and the smallest graph that fails in the same way.
fn report(seed: u64, case: Case, failure: &str, run: &impl Fn(&Case) -> Run) -> String {
    let smallest = case.shrunk(|case| match outcome(|| run(case)).0 {
        Outcome::Wrong(other) => kind(&other) == kind(failure),
        _ => false,
    });
    let found = match outcome(|| run(&smallest)).0 {
        Outcome::Wrong(found) if kind(&found) == kind(failure) => found,
        _ => failure.to_owned(),
    };
    format!("seed {seed}: {}\n{found}\n", smallest.describe())
}

/// What a number of cases came to.
#[derive(Default)]
pub(crate) struct Sweep {
    pub(crate) same: usize,
    pub(crate) unsteady: usize,
    pub(crate) failures: Vec<String>,
    pub(crate) drawn: BTreeSet<&'static str>,
}

impl Sweep {
    /// Runs the cases of `seeds` until `most` have failed.
    pub(crate) fn run(&mut self, seeds: impl Iterator<Item = u64>, most: usize, run: impl Fn(&Case) -> Run) {
        for seed in seeds {
            let case = Case::random(seed);
            let (outcome, drawn) = outcome(|| run(&case));
            self.drawn.extend(drawn);
            match outcome {
                Outcome::Same => self.same += 1,
                Outcome::Unsteady => self.unsteady += 1,
                Outcome::Wrong(failure) => self.failures.push(report(seed, case, &failure, &run)),
            }
            if self.failures.len() >= most {
                break;
            }
        }
    }

    /// Panics if a case failed, or if many were decided by rounding.
    pub(crate) fn assert_same(&self) {
        assert!(self.failures.is_empty(), "{}", self.failures.join("\n"));
        assert!(self.unsteady * 10 < self.same, "{} decided by rounding, {} not", self.unsteady, self.same);
    }
}

/// A number from the environment.
pub(crate) fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}
