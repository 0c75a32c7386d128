//! The time that a run has taken.

use std::time::{Duration, Instant};

/// A clock that can be held: pauses do not count.
pub(super) struct Watch {
    /// What it showed when it was last set going.
    before: Duration,
    since: Option<Instant>,
}

impl Watch {
    /// One that goes.
    pub(super) fn start() -> Self {
        Self { before: Duration::ZERO, since: Some(Instant::now()) }
    }

    /// What it shows.
    pub(super) fn elapsed(&self) -> Duration {
        self.before + self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    pub(super) fn hold(&mut self) {
        (self.before, self.since) = (self.elapsed(), None);
    }

    pub(super) fn go_on(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stands_while_it_is_held() {
        let mut watch = Watch::start();
        watch.hold();
        let shown = watch.elapsed();
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(watch.elapsed(), shown);
        watch.go_on();
        std::thread::sleep(Duration::from_millis(2));
        assert!(watch.elapsed() >= shown + Duration::from_millis(2));
    }
}
