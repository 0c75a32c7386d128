//! What a thread has set for the graphs that it makes, while scopes such as [`Mode`](crate::nn::Mode)'s run.

use std::cell::Cell;

use crate::dtype::DType;

/// The scopes that hold on a thread: the same code makes other nodes within others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Scopes {
    /// [`Mode::Evaluate`](crate::nn::Mode) instead of training.
    pub(crate) evaluates: bool,
    /// Running statistics stay as they are.
    pub(crate) statistics_frozen: bool,
    /// Blocks of models are computed again in the backward pass.
    pub(crate) checkpoints_blocks: bool,
    /// The type that products are computed in, if that is set.
    pub(crate) products: Option<DType>,
    /// Gradients pass through nothing.
    pub(super) no_gradient: bool,
}

thread_local! {
    static CURRENT: Cell<Scopes> = const {
        Cell::new(Scopes {
            evaluates: false,
            statistics_frozen: false,
            checkpoints_blocks: false,
            products: None,
            no_gradient: false,
        })
    };
}

impl Scopes {
    /// Those of this thread now.
    pub(crate) fn current() -> Self {
        CURRENT.get()
    }

    /// Runs `f` with what `change` sets; ends with it, also when a panic passes.
    pub(crate) fn with<T>(change: impl FnOnce(&mut Self), f: impl FnOnce() -> T) -> T {
        struct Restore(Scopes);
        impl Drop for Restore {
            fn drop(&mut self) {
                CURRENT.set(self.0);
            }
        }
        let mut scopes = CURRENT.get();
        change(&mut scopes);
        let _restore = Restore(CURRENT.replace(scopes));
        f()
    }

    /// Which of them are others than in `other`, in words.
    pub(crate) fn difference(&self, other: &Self) -> Option<String> {
        let is = |scope: &str, now: bool, before: bool| match (now, before) {
            (true, false) => Some(format!("it now runs within {scope}; before, it did not")),
            (false, true) => Some(format!("it no longer runs within {scope}; before, it did")),
            _ => None,
        };
        let differences = [
            is("Mode::Evaluate", self.evaluates, other.evaluates),
            is("freeze_statistics", self.statistics_frozen, other.statistics_frozen),
            is("checkpoint_blocks", self.checkpoints_blocks, other.checkpoints_blocks),
            is("no_grad", self.no_gradient, other.no_gradient),
            (self.products != other.products).then(|| "products have another type (autocast)".to_owned()),
        ];
        let differences: Vec<String> = differences.into_iter().flatten().collect();
        (!differences.is_empty()).then(|| differences.join(" and "))
    }
}

/// Runs `f`; no gradient passes through nodes it makes.
pub fn without_gradient<T>(f: impl FnOnce() -> T) -> T {
    Scopes::with(|scopes| scopes.no_gradient = true, f)
}
