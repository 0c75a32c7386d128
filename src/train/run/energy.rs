//! The energy that a run uses, where the machine tells.

use crate::device::Device;
use crate::sensors::{Meter, Tally};

/// Joules of the run's device.
pub(super) struct Energy {
    tally: Result<Tally, String>,
    /// Those of the run before it was resumed; `None` if they are not known.
    before: Option<f64>,
    /// What the tally stood at when the epoch began.
    pass: f64,
}

impl Energy {
    /// Of a run that begins on these devices.
    pub(super) fn of(devices: &[Device]) -> Self {
        let meter = match devices {
            [device] => Meter::of(device.info()),
            _ => Err("several devices learn together".into()),
        };
        Self { tally: meter.map(Tally::new), before: Some(0.0), pass: 0.0 }
    }

    /// The run goes on, having used so much.
    pub(super) fn go_on_from(&mut self, joules: Option<f64>) {
        self.before = joules;
    }

    /// To be called often while the run works.
    pub(super) fn look(&mut self) {
        self.tally.iter_mut().for_each(Tally::look);
    }

    /// The run waits: what is used now is not its own.
    pub(super) fn hold(&mut self) {
        self.tally.iter_mut().for_each(Tally::hold);
    }

    /// What the tally stands at now.
    pub(super) fn stand(&mut self) -> f64 {
        self.tally.as_mut().map_or(0.0, Tally::joules)
    }

    pub(super) fn begin_pass(&mut self) {
        self.pass = self.stand();
    }

    /// What was used since the tally stood at this is not the epoch's.
    pub(super) fn leave_out_since(&mut self, stand: f64) {
        self.pass += self.stand() - stand;
    }

    /// Joules since the epoch began, but those that were left out.
    pub(super) fn of_pass(&mut self) -> Option<f64> {
        let tally = self.tally.as_mut().ok()?;
        told(tally.joules() - self.pass)
    }

    /// Joules of the whole run.
    pub(super) fn so_far(&mut self) -> Option<f64> {
        let tally = self.tally.as_mut().ok()?;
        told(self.before? + tally.joules())
    }

    /// What tells, or why nothing does.
    pub(super) fn source(&self) -> String {
        match &self.tally {
            Ok(tally) => tally.source().to_owned(),
            Err(why) => format!("not available here: {why}"),
        }
    }
}

/// Counters stand still for a moment at times: what used nothing was too short to be seen.
fn told(joules: f64) -> Option<f64> {
    (joules > 0.0).then_some(joules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_beside_a_pass_is_not_its_own() {
        let counter = tempfile::NamedTempFile::new().expect("a file");
        let stands_at =
            |joules: u64| std::fs::write(counter.path(), (joules * 1_000_000).to_string()).expect("writable");
        let tally = Ok(Tally::new(Meter::Counter(counter.path().to_owned())));
        let mut energy = Energy { tally, before: Some(0.0), pass: 0.0 };
        stands_at(5);
        energy.begin_pass();
        stands_at(8);
        let stand = energy.stand();
        stands_at(18);
        energy.leave_out_since(stand);
        stands_at(19);
        assert_eq!((energy.of_pass(), energy.so_far()), (Some(4.0), Some(14.0)));
        energy.begin_pass();
        stands_at(21);
        assert_eq!(energy.of_pass(), Some(2.0));
    }
}
