//! What every layer and model has in common.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::graph::{Entered, Scopes, at_callers_line, layer, model};
use crate::runtime::checkpoint;
use crate::tensor::Tensor;

use super::Variables;

/// A function of one tensor with [variables](Variables) of its own.
///
/// A model is a plain struct of layers. One of several inputs or outputs is none of these: its `forward` is a method of
/// its own, and it has [`Variables`] all the same.
///
/// ```no_run
/// # use brasa::{Result, nn::{Init, Linear, Module}, tensor::Tensor};
/// struct Mlp { fc1: Linear, fc2: Linear }
///
/// impl Mlp {
///     fn new(init: &Init) -> Result<Self> {
///         Ok(Self { fc1: Linear::new(64, 128, &init.at("fc1"))?, fc2: Linear::new(128, 10, &init.at("fc2"))? })
///     }
/// }
///
/// brasa::variables!(Mlp: fc1, fc2);
///
/// impl Module for Mlp {
///     fn forward(&self, input: &Tensor) -> Tensor {
///         self.fc2.forward(&self.fc1.forward(input).relu())
///     }
/// }
/// ```
pub trait Module: Variables + Send + Sync {
    /// The output for `input`, in the current [`Mode`].
    fn forward(&self, input: &Tensor) -> Tensor;
}

/// Its variables.
impl fmt::Debug for dyn Module + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.variables()).finish()
    }
}

impl<M: Module + ?Sized> Module for Box<M> {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        (**self).forward(input)
    }
}

impl<M: Module + ?Sized> Module for Arc<M> {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        (**self).forward(input)
    }
}

/// Whether a model learns or is used: batch norm and dropout behave differently.
///
/// The mode belongs to the thread that traces and holds while a scope runs. Without one it is [`Mode::Train`], as in
/// PyTorch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Mode {
    /// Batch statistics, which also move the running ones; dropout drops.
    #[default]
    Train,
    /// Running statistics; dropout does nothing.
    Evaluate,
}

impl Mode {
    /// The mode of this thread now.
    pub fn current() -> Self {
        if Scopes::current().evaluates { Self::Evaluate } else { Self::Train }
    }

    /// Runs `f` in this mode.
    pub fn scope<T>(self, f: impl FnOnce() -> T) -> T {
        Scopes::with(|scopes| scopes.evaluates = self == Self::Evaluate, f)
    }
}

/// Runs `f` with batch norms that use their running statistics and leave them as they are, whatever the [`Mode`];
/// dropout still drops in training.
///
/// This is the second of two switches for fine-tuning. Which parameters learn is decided by what the optimizer is given
/// ([`trainable`](super::trainable)); statistics are not parameters, and follow the data unless they are frozen here.
pub fn freeze_statistics<T>(f: impl FnOnce() -> T) -> T {
    Scopes::with(|scopes| scopes.statistics_frozen = true, f)
}

/// True if normalisation uses the batch's own statistics now, and moves the running ones.
pub(crate) fn follows_statistics() -> bool {
    let scopes = Scopes::current();
    !scopes.evaluates && !scopes.statistics_frozen
}

/// Runs `f` with models whose [blocks](block) keep nothing but their inputs for the backward pass, and compute the rest
/// again there ([`checkpoint`]): less memory for about a third more time (Chen et al. 2016, arXiv 1604.06174).
pub fn checkpoint_blocks<T>(f: impl FnOnce() -> T) -> T {
    Scopes::with(|scopes| scopes.checkpoints_blocks = true, f)
}

/// `module` of `input`, as one of the blocks that a deep model consists of: what [`checkpoint_blocks`] computes again.
#[track_caller]
pub fn block(module: &(impl Module + ?Sized), input: &Tensor) -> Tensor {
    let _model = model();
    let scopes = Scopes::current();
    if scopes.checkpoints_blocks && !scopes.evaluates {
        at_callers_line(|| checkpoint(|| module.forward(input)))
    } else {
        module.forward(input)
    }
}

/// A layer's type and path, under which its nodes are traced, so that errors, dumps and summaries can name the layer.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    kind: &'static str,
    path: String,
}

thread_local! {
    /// Types of the layers that were used, by path, while [`Scope::kinds`] runs.
    static KINDS: RefCell<Option<BTreeMap<String, &'static str>>> = const { RefCell::new(None) };
}

impl Scope {
    /// A layer of type `kind`.
    pub(crate) fn new(kind: &'static str, path: &str) -> Self {
        Self { kind, path: path.to_owned() }
    }

    /// A layer over one to three axes, of the type that stands in that place.
    pub(crate) fn over(axes: usize, kinds: [&'static str; 3], path: &str) -> Self {
        Self::new(kinds[axes - 1], path)
    }

    /// Until what it gives is dropped, nodes are the layer's.
    #[track_caller]
    pub(crate) fn enter(&self) -> Option<Entered> {
        KINDS.with_borrow_mut(|kinds| kinds.as_mut().map(|kinds| kinds.insert(self.path.clone(), self.kind)));
        if self.path.is_empty() { None } else { Some(layer(&self.path)) }
    }

    /// What `f` gives, and the types of the layers that it used, by path.
    pub(crate) fn kinds<T>(f: impl FnOnce() -> T) -> (T, BTreeMap<String, &'static str>) {
        KINDS.set(Some(BTreeMap::new()));
        let value = f();
        (value, KINDS.take().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_ends_even_with_a_panic() {
        assert_eq!(Mode::current(), Mode::Train);
        let panicked = std::panic::catch_unwind(|| Mode::Evaluate.scope(|| panic!("inside {:?}", Mode::current())));
        assert!(panicked.is_err());
        assert_eq!(Mode::current(), Mode::Train);
        let after_inner = Mode::Evaluate.scope(|| {
            Mode::Train.scope(|| ());
            Mode::current()
        });
        assert_eq!(after_inner, Mode::Evaluate);
    }
}
