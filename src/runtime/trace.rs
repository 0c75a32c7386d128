//! What a thread collects while it traces a step.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use crate::graph::{Node, NodeRef, Source};

use super::cell::VarCell;
use super::substitute;

/// The state of the trace under way on this thread.
#[derive(Default)]
pub(crate) struct Trace {
    /// Variables that get a new value, in the order of their first assignment.
    pub(super) pending: Vec<(Arc<VarCell>, NodeRef)>,
    /// The leaf that stands for each variable's value before the step.
    leaves: HashMap<u64, NodeRef>,
    /// The value of each variable that was read since it was last assigned.
    pub(super) current: HashMap<u64, NodeRef>,
    /// Values whose finiteness decides whether the step counts.
    pub(super) checked: Vec<NodeRef>,
    /// Truth values, and variables to which assignments count though they hold.
    pub(super) skips: Vec<(NodeRef, Vec<u64>)>,
    /// Variables to which assignments count whichever of them hold.
    pub(super) unskipped: Vec<u64>,
    /// Random draws so far.
    pub(super) draws: u32,
}

thread_local! {
    static TRACE: RefCell<Option<Trace>> = const { RefCell::new(None) };
}

/// True while a step's closure runs on this thread.
pub(crate) fn is_tracing() -> bool {
    TRACE.with(|trace| trace.borrow().is_some())
}

/// Runs `f` and returns what was collected. Traces do not nest.
pub(crate) fn collect<T>(f: impl FnOnce() -> T) -> (T, Trace) {
    struct Clear;
    impl Drop for Clear {
        fn drop(&mut self) {
            TRACE.with(|trace| trace.borrow_mut().take());
        }
    }
    assert!(!is_tracing(), "a step is being traced already: steps do not nest");
    TRACE.with(|trace| *trace.borrow_mut() = Some(Trace::default()));
    let clear = Clear;
    let result = substitute::hidden(f);
    let trace = TRACE.with(|trace| trace.borrow_mut().take()).unwrap_or_default();
    drop(clear);
    (result, trace)
}

/// Runs `f` as outside of any step: what it computes and assigns is not part of the trace.
pub(super) fn suspended<T>(f: impl FnOnce() -> T) -> T {
    struct Resume(Option<Trace>);
    impl Drop for Resume {
        fn drop(&mut self) {
            TRACE.with(|trace| *trace.borrow_mut() = self.0.take());
        }
    }
    let _resume = Resume(TRACE.with(|trace| trace.borrow_mut().take()));
    f()
}

/// The trace under way, if there is one.
pub(super) fn with<T>(f: impl FnOnce(&mut Trace) -> T) -> Option<T> {
    TRACE.with(|trace| trace.borrow_mut().as_mut().map(f))
}

impl Trace {
    /// What `var` was assigned so far.
    pub(super) fn pending_of(&self, var: &VarCell) -> Option<NodeRef> {
        self.pending.iter().find(|(cell, _)| cell.id == var.id).map(|(_, node)| node.clone())
    }

    /// The value of `var` before the step.
    #[track_caller]
    pub(super) fn before(&mut self, var: &Arc<VarCell>) -> NodeRef {
        let leaf =
            || Node::leaf(Source::Var(var.clone()), var.shape.clone(), var.dtype, &var.device).of_variable(var.id);
        self.leaves.entry(var.id).or_insert_with(leaf).clone()
    }

    /// The name of a variable that got a new value.
    pub(crate) fn first_assigned(&self) -> Option<&str> {
        self.pending.first().map(|(cell, _)| cell.name.as_str())
    }

    /// Gives `var` a new value.
    pub(super) fn write(&mut self, var: &Arc<VarCell>, value: NodeRef) {
        match self.pending.iter_mut().find(|(cell, _)| cell.id == var.id) {
            Some((_, node)) => *node = value,
            None => self.pending.push((var.clone(), value)),
        }
    }
}
