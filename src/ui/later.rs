//! What a thread works out while the window goes on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use crate::device::{Device, DeviceInfo};
use crate::error::panic_message;

/// A result that is there, or will be, or why there is none.
pub(super) struct Later<T>(Arc<Mutex<Option<Result<T, String>>>>);

impl<T: Send + 'static> Later<T> {
    /// Works on a thread of its own, and has the window drawn when it is done.
    pub(super) fn start(context: &egui::Context, work: impl FnOnce() -> Result<T, String> + Send + 'static) -> Self {
        let (result, context) = (Arc::new(Mutex::new(None)), context.clone());
        let told = Arc::clone(&result);
        let thread = std::thread::Builder::new().spawn(move || {
            *told.lock() = Some(caught(work));
            context.request_repaint();
        });
        if let Err(error) = thread {
            *result.lock() = Some(Err(no_thread(&error)));
        }
        Self(result)
    }

    /// The result, if it is there.
    pub(super) fn get(&self) -> MutexGuard<'_, Option<Result<T, String>>> {
        self.0.lock()
    }
}

/// What this work comes to; a panic is an error, as nobody else would tell of it.
pub(super) fn caught<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let said = panic_message(panic.as_ref()).unwrap_or("it did not say why");
        Err(format!("this crashed: {said}"))
    })
}

/// Why nothing is worked on.
pub(super) fn no_thread(error: &std::io::Error) -> String {
    format!("no thread to work on: {error}")
}

/// The devices of this machine, asked for when somebody wants to see them: drivers take their time.
#[derive(Default)]
pub(super) struct Machine(Option<Later<Vec<DeviceInfo>>>);

impl Machine {
    /// Its devices; `None` while the drivers are asked.
    pub(super) fn devices(&mut self, context: &egui::Context) -> Option<Result<Vec<DeviceInfo>, String>> {
        self.0.get_or_insert_with(|| Later::start(context, || Ok(Device::list()))).get().clone()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn work_that_panics_comes_to_an_error() {
        let later = Later::start(&egui::Context::default(), || -> Result<(), String> { panic!("on purpose") });
        let start = Instant::now();
        while later.get().is_none() {
            assert!(start.elapsed() < Duration::from_secs(60), "nothing comes of it");
            std::thread::sleep(Duration::from_millis(2));
        }
        let said = later.get().clone();
        assert_eq!(said, Some(Err("this crashed: on purpose".into())));
    }
}
