//! Evaluation, variables and captured steps: the one path by which anything runs.

mod arena;
mod checkpoint;
mod diagnose;
mod eval;
mod random;
mod step;
pub(crate) mod trace;
mod validate;
mod var;

pub use arena::Arena;
pub use checkpoint::checkpoint;
pub use eval::{PlanCacheStats, plan_cache_stats, realize};
pub(crate) use eval::limit_waiting;
pub use random::{random_inputs, random_state, seed};
pub use step::{Step, StepInfo};
pub use trace::check_finite;
pub use var::{Hyper, Var, VarCell, VarKind};
