//! Where an application's host code runs.

use std::cell::Cell;

use crate::pool;

thread_local! {
    /// This thread is in host code.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Calls host code of a kernel on brasa's own threads, so that what it does in parallel stays there: whoever waits for
/// it holds its device.
pub(super) fn run<T: Send>(code: impl FnOnce() -> T + Send) -> T {
    pool::run(|| {
        let _inside = Inside::enter();
        code()
    })
}

/// Asserts that this is no host code: its inputs lie in memory that the device may write when it is given work.
///
/// # Panics
/// If it is.
#[track_caller]
pub(crate) fn assert_outside() {
    assert!(
        !INSIDE.get(),
        "the host code of a custom kernel cannot compute with tensors, as its device waits for it: use the slices that \
         it is given"
    );
}

/// While it lives this thread is in host code.
struct Inside(bool);

impl Inside {
    fn enter() -> Self {
        Self(INSIDE.replace(true))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(self.0);
    }
}
