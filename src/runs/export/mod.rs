//! Curves for other programs: as a table, and as pictures for a text.

#[cfg(feature = "ui")]
mod chart;
#[cfg(feature = "ui")]
mod scale;
mod table;

#[cfg(feature = "ui")]
pub use chart::{Chart, ChartLine};
#[cfg(feature = "ui")]
pub(crate) use scale::room_around;
pub use table::csv;
