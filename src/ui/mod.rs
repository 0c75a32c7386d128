//! The window: live curves, stages, the plan, histograms and predictions of runs, and control of one's own run.
//!
//! **Invariant:** pages read [`Recording`](crate::runs::Recording)s, which come from run folders, and steer by a
//! [`Control`](crate::train::Control); nothing here touches a tensor, and training never waits for the window. One's
//! own run is seen as any other one is: through its folder.

mod dropped;
mod export;
mod form;
mod frame;
mod later;
mod legend;
mod look;
#[cfg(all(unix, not(target_os = "macos")))]
mod lost_display;
mod numbers;
mod pages;
pub(crate) mod palette;
mod path_field;
mod portuguese;
mod progress;
mod runs;
mod selection;
mod session;
mod settings;
mod steer;
mod text;
mod texture;
mod top;
mod translate;
mod utilisation;
mod window;

pub use frame::open;
pub use session::{Ended, NoEnd};
pub use settings::{Language, Page};
pub use window::{Closer, Options, SavedSettings, Window};
