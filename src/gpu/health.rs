//! What went wrong on a device, kept until the next call that can return it.
//!
//! wgpu reports most errors to callbacks, from whatever thread meets them, and panics where nobody listens.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, Result};

thread_local! {
    /// How often a driver has reported an error to this thread, of whatever device: wgpu calls back where it was met.
    static REPORTS: Cell<u64> = const { Cell::new(0) };
}

/// The state of one device.
#[derive(Debug)]
pub(super) struct Health {
    name: String,
    troubled: AtomicBool,
    trouble: Mutex<Trouble>,
}

#[derive(Debug, Default)]
struct Trouble {
    lost: Option<String>,
    reported: Option<String>,
}

impl Health {
    /// A healthy device.
    pub(super) fn new(name: String) -> Self {
        Self { name, troubled: AtomicBool::new(false), trouble: Mutex::default() }
    }

    /// Its name and interface.
    pub(super) fn device(&self) -> &str {
        &self.name
    }

    /// The error that happened since the last call; a lost device stays lost.
    pub(super) fn check(&self) -> Result<()> {
        if !self.troubled.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut trouble = self.trouble();
        if let Some(reason) = &trouble.lost {
            return Err(Error::DeviceLost { device: self.name.clone(), reason: reason.clone() });
        }
        self.troubled.store(false, Ordering::Release);
        match trouble.reported.take() {
            Some(message) => Err(self.error(message)),
            None => Ok(()),
        }
    }

    /// An error of the device that leaves it as it is.
    pub(super) fn error(&self, message: String) -> Error {
        Error::Device { device: self.name.clone(), message }
    }

    /// Whether the device is gone for good.
    pub(super) fn is_lost(&self) -> bool {
        self.troubled.load(Ordering::Acquire) && self.trouble().lost.is_some()
    }

    /// The device is gone; the first reason counts.
    pub(super) fn lose(&self, reason: &str) {
        let reason = if reason.is_empty() { "no reason given" } else { reason };
        self.trouble().lost.get_or_insert_with(|| reason.to_owned());
        self.troubled.store(true, Ordering::Release);
    }

    /// The driver reported an error; the first one counts, as the others mostly follow from it.
    pub(super) fn report(&self, message: String) {
        tracing::warn!(device = self.name, "{message}");
        REPORTS.set(REPORTS.get() + 1);
        self.trouble().reported.get_or_insert(message);
        self.troubled.store(true, Ordering::Release);
    }

    /// Of two numbers the later one is larger if something was reported in between.
    pub(super) fn reports_to_this_thread() -> u64 {
        REPORTS.get()
    }

    /// The device is gone for the reason that was reported.
    pub(super) fn lose_by_report(&self) {
        let reported = self.trouble().reported.clone();
        self.lose(&format!("it refused work: {}", reported.as_deref().unwrap_or("the reason was reported already")));
    }

    fn trouble(&self) -> std::sync::MutexGuard<'_, Trouble> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_returned_once_and_loss_for_ever() {
        let health = Health::new("test".into());
        assert!(health.check().is_ok());
        health.report("first".into());
        health.report("second".into());
        assert!(matches!(health.check(), Err(Error::Device { message, .. }) if message == "first"));
        assert!(health.check().is_ok());
        health.lose("pulled");
        health.lose("again");
        for _ in 0..2 {
            assert!(matches!(health.check(), Err(Error::DeviceLost { reason, .. }) if reason == "pulled"));
        }
        assert!(health.is_lost());
    }
}
