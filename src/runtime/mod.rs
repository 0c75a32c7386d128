//! Evaluation, variables and captured steps: the one path by which anything runs.

mod arena;
mod capture;
mod captures;
mod cell;
mod checkpoint;
mod diagnose;
mod eval;
mod forecast;
mod gate;
mod hyper;
mod quantized;
mod random;
mod signature;
mod step;
mod substitute;
pub(crate) mod trace;
#[doc(hidden)]
pub mod traced;
mod validate;
mod var;

pub use arena::Arena;
pub use cell::VarCell;
pub use checkpoint::checkpoint;
pub use eval::{PlanCacheStats, plan_cache_stats, realize};
pub(crate) use eval::{limit_waiting, readable};
pub use forecast::{Forecast, preview};
pub use gate::{catch_non_finite, check_finite, never_skip, skip_if};
pub use hyper::Hyper;
pub(crate) use quantized::rounded_to_codes;
pub use random::{RandomState, random_inputs, random_state, random_variables, seed, set_random_state};
pub use signature::Signature;
pub(crate) use step::check_input;
pub use step::{Step, StepInfo};
pub use substitute::functional_call;
pub use var::{Var, VarKind};
