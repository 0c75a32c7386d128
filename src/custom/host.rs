//! Where an application's host code runs.

use crate::pool;

/// Calls host code of a kernel on brasa's own threads, so that what it does in parallel stays there: whoever waits for
/// it holds its device.
pub(super) fn run<T: Send>(code: impl FnOnce() -> T + Send) -> T {
    pool::run(code)
}

/// Asserts that this is no host code, nor what that does in parallel: its inputs lie in memory that the device may write
/// when it is given work, and the device waits for it.
///
/// # Panics
/// If it is.
#[track_caller]
pub(crate) fn assert_outside() {
    assert!(
        !pool::is_own(),
        "the host code of a custom kernel cannot compute with tensors, as its device waits for it: use the slices that \
         it is given"
    );
}
