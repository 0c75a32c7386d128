//! What a machine tells of itself while it works: energy, utilisation, clocks. Without administrator rights; what is
//! not told is said to be so with its reason, and never guessed.

mod card;
mod energy;
mod machine;
#[cfg_attr(target_arch = "wasm32", path = "no_nvidia.rs")]
mod nvidia;
mod utilisation;

pub(crate) use card::Card;
pub(crate) use energy::{Meter, Tally};
pub use machine::Machine;
pub(crate) use machine::{host_free_bytes, host_memory_bytes};
#[cfg(feature = "ui")]
pub(crate) use utilisation::Look;
pub(crate) use utilisation::Utilisation;

/// The system's name, for people.
pub(crate) fn system() -> &'static str {
    match std::env::consts::OS {
        "macos" => "macOS",
        "windows" => "Windows",
        other => other,
    }
}
