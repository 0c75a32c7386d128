//! What a thread works out while the window goes on.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use crate::device::{Device, DeviceInfo};

/// A result that is there, or will be.
pub(super) struct Later<T>(Arc<Mutex<Option<T>>>);

impl<T: Send + 'static> Later<T> {
    /// Works on a thread of its own, and has the window drawn when it is done.
    pub(super) fn start(context: &egui::Context, work: impl FnOnce() -> T + Send + 'static) -> Self {
        let (result, context) = (Arc::new(Mutex::new(None)), context.clone());
        let told = Arc::clone(&result);
        std::thread::spawn(move || {
            *told.lock() = Some(work());
            context.request_repaint();
        });
        Self(result)
    }

    /// The result, if it is there.
    pub(super) fn get(&self) -> MutexGuard<'_, Option<T>> {
        self.0.lock()
    }
}

/// The devices of this machine, asked for when somebody wants to see them: drivers take their time.
#[derive(Default)]
pub(super) struct Machine(Option<Later<Vec<DeviceInfo>>>);

impl Machine {
    /// Its devices; `None` while the drivers are asked.
    pub(super) fn devices(&mut self, context: &egui::Context) -> Option<Vec<DeviceInfo>> {
        self.0.get_or_insert_with(|| Later::start(context, Device::list)).get().clone()
    }
}
