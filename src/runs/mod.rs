//! Runs as their folders tell of them, those that are over and those that are still going on, in this process or
//! another one: numbers, state, plan and predictions of our own ([`crate::train::record`] names the files), and the
//! event files that PyTorch, Keras and others write for TensorBoard. Knows no front end.
//!
//! Only what is new is read, each time. Nothing in a file makes reading panic or take more memory than a few times the
//! file: what cannot be read is a line in [`Recording::problems`], and what was read before stays.
//!
//! ```
//! use brasa::runs::Recording;
//! use brasa::train::{Config, Control, ModelName, Trainer};
//!
//! # fn main() -> brasa::Result<()> {
//! let out = tempfile::tempdir().expect("a temporary folder");
//! let config = Config {
//!     model: ModelName::new("mlp")?,
//!     epochs: 1,
//!     device: Some("cpu".into()),
//!     out: out.path().into(),
//!     ..Config::default()
//! };
//! let summary = Trainer::new(config)?.run(&Control::default(), &mut |_| {})?;
//!
//! let recording = Recording::open(&summary.folder);
//! let losses = &recording.series["loss/train"];
//! let (first, last) = (losses.points().next().expect("a step"), losses.last().expect("a step"));
//! assert_eq!(last.step, summary.steps as u64);
//! assert!(last.value < first.value);
//! println!("loss {:.3}, best score {:.3}", last.value, recording.best().expect("an evaluation"));
//! # Ok(())
//! # }
//! ```

mod begun;
mod events;
pub mod export;
mod find;
mod histogram;
mod json;
mod lines;
mod news;
mod open;
mod problems;
mod reader;
mod recording;
mod series;
mod sheet;
mod state;
mod watcher;

pub use find::find;
#[cfg(feature = "ui")]
pub(crate) use find::{natural_order, place};
pub use recording::{RecordedHistogram, Recording};
pub use series::{Axis, BandPoint, Point, Series, XAxis, band};
pub use state::RecordedState;
pub use watcher::Watcher;
