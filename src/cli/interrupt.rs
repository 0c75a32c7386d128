//! Ctrl-C, and on Unix SIGTERM and SIGHUP: what ends a program from outside.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Signals within this time are one.
const TWICE: Duration = Duration::from_millis(300);

/// Whether this is the second signal; one that closes a terminal may send the same signal twice, as may its shell.
pub(super) fn is_second(first: &OnceLock<Instant>) -> bool {
    first.get_or_init(Instant::now).elapsed() > TWICE
}

/// Has them do this from now on, instead of what they did before.
pub(super) fn on_interrupt(act: impl Fn() + Send + Sync + 'static) {
    type Act = Box<dyn Fn() + Send + Sync>;
    static ACT: OnceLock<Mutex<Act>> = OnceLock::new();
    let is_first = ACT.get().is_none();
    let current = ACT.get_or_init(|| Mutex::new(Box::new(|| {})));
    *current.lock() = Box::new(act);
    // there may be one handler only
    if is_first && let Err(error) = handle(move || current.lock()()) {
        tracing::warn!("Ctrl-C will end the run without saving: {error}");
    }
}

#[cfg(not(unix))]
fn handle(act: impl FnMut() + Send + 'static) -> Result<(), ctrlc::Error> {
    ctrlc::set_handler(act)
}

/// Under nohup, a closed terminal is nothing to end for: a SIGHUP that is ignored stays so.
#[cfg(unix)]
#[expect(unsafe_code, reason = "a handler of one's own must keep to what is safe in it; to ignore a signal is")]
fn handle(act: impl FnMut() + Send + 'static) -> Result<(), ctrlc::Error> {
    use nix::sys::signal::{SigHandler, Signal, signal};

    let ignore = || {
        // SAFETY: no code of ours runs when an ignored signal comes
        unsafe { signal(Signal::SIGHUP, SigHandler::SigIgn) }
    };
    let before = ignore();
    ctrlc::set_handler(act)?;
    if matches!(before, Ok(SigHandler::SigIgn)) {
        // it was possible a moment ago
        let _ = ignore();
    }
    Ok(())
}
