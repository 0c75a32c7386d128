//! A step that met a value that is no finite number changes nothing: its assignments are made to depend on that.

use std::sync::Arc;

use crate::dtype::DType;
use crate::graph::NodeRef;
use crate::stage::Stage;
use crate::tensor::Tensor;

use super::cell::VarCell;
use super::trace;
use super::var::Var;

/// Makes the step being traced depend on `values`: if one of them is NaN or infinite when the step runs, none of its
/// assignments happens. Outside of a trace it does nothing.
pub fn check_finite(values: &[NodeRef]) {
    trace::with(|trace| trace.checked.extend(values.iter().filter(|value| value.dtype.is_float()).cloned()));
}

/// Runs `f`, and returns what it gave to [`check_finite`] as a truth value of shape `[]`: whether one of them is not
/// finite. They do not halt the step; `None` if nothing was checked, as outside of a trace.
pub fn catch_non_finite<T>(f: impl FnOnce() -> T) -> (T, Option<Tensor>) {
    let take = || trace::with(|trace| std::mem::take(&mut trace.checked)).unwrap_or_default();
    let before = take();
    let result = f();
    let caught = take();
    trace::with(|trace| trace.checked = before);
    (result, any_non_finite(&caught).map(|bad| bad.ne(0u32)))
}

/// Makes the assignments of the step being traced depend on `skip`, a truth value of shape `[]`: if it is true when the
/// step runs, only those to `except` happen. Unlike [`check_finite`] it does not halt the step. Outside of a trace it
/// does nothing.
pub fn skip_if(skip: &Tensor, except: &[Var]) {
    trace::with(|trace| {
        trace.skips.push((skip.node().clone(), except.iter().map(Var::id).collect()));
    });
}

/// Makes assignments to `variables` in the step being traced happen whatever [`skip_if`] says. Outside of a trace it
/// does nothing.
pub fn never_skip(variables: &[Var]) {
    trace::with(|trace| trace.unskipped.extend(variables.iter().map(Var::id)));
}

/// Makes what the trace assigned depend on what it checked, and on `halted`, which becomes 1 when a check fails.
pub(super) fn close(halted: &Var) {
    let taken = trace::with(|trace| (std::mem::take(&mut trace.checked), std::mem::take(&mut trace.skips)));
    let (checked, skips) = taken.unwrap_or_default();
    if checked.is_empty() && skips.is_empty() {
        return;
    }
    Stage::Update.scope(|| {
        let go_on = any_non_finite(&checked).map(|bad| {
            let after = halted.tensor().maximum(&bad);
            (after.eq(0u32), after)
        });
        let unskipped = trace::with(|trace| std::mem::take(&mut trace.unskipped)).unwrap_or_default();
        let pending = trace::with(|trace| std::mem::take(&mut trace.pending)).unwrap_or_default();
        let gated = pending.into_iter().map(|(var, node)| {
            let skips = skips.iter().filter(|(_, except)| !unskipped.contains(&var.id) && !except.contains(&var.id));
            let skip = skips.map(|(skip, _)| Tensor::from_node(skip.clone())).reduce(|a, b| a.logical_or(&b));
            let kept = skip.map(|skip| skip.logical_not());
            let conditions = go_on.iter().map(|(ok, _)| ok.clone()).chain(kept);
            match conditions.reduce(|a, b| a.logical_and(&b)) {
                Some(condition) => gate(&condition, var, node),
                None => (var, node),
            }
        });
        let gated = gated.collect();
        trace::with(|trace| {
            trace.pending = gated;
            if let Some((_, after)) = &go_on {
                trace.write(&halted.0, after.node().clone());
            }
        });
    });
}

/// The assignment of `node` to `var`, if `condition` holds; else of what it has.
fn gate(condition: &Tensor, var: Arc<VarCell>, node: NodeRef) -> (Arc<VarCell>, NodeRef) {
    let old = trace::with(|trace| trace.before(&var)).expect("a trace is under way");
    let condition = condition.expand(node.shape.clone());
    let value = condition.where_(Tensor::from_node(node), Tensor::from_node(old));
    (var, value.node().clone())
}

/// 1 if an element of `values` is NaN or infinite, else 0, as u32 of shape `[]`.
fn any_non_finite(values: &[NodeRef]) -> Option<Tensor> {
    let bad = values.iter().map(|value| Tensor::from_node(value.clone()).isfinite().logical_not().any());
    bad.map(|bad| bad.to_dtype(DType::U32)).reduce(|a, b| a.maximum(&b))
}
