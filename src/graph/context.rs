//! Where nodes come from: line, module and segment, as those who call ops say.

use std::cell::RefCell;
use std::panic::Location;
use std::sync::Arc;

use super::Node;

/// Where nodes made on this thread come from, beyond the caller's line.
#[derive(Clone, Default)]
pub(super) struct Context {
    pub(super) location: Option<&'static Location<'static>>,
    pub(super) module: Option<Arc<str>>,
    pub(super) segment: u32,
    pub(super) no_gradient: bool,
    /// True for nodes that are made once for one that was there before, such as its gradient.
    pub(super) follows: bool,
}

impl Context {
    /// That of this thread.
    pub(super) fn current() -> Self {
        CONTEXT.with(|context| context.borrow().clone())
    }
}

thread_local! {
    static CONTEXT: RefCell<Context> = RefCell::default();
}

fn with_context<T>(change: impl FnOnce(&mut Context), f: impl FnOnce() -> T) -> T {
    struct Restore(Option<Context>);
    impl Drop for Restore {
        fn drop(&mut self) {
            if let Some(old) = self.0.take() {
                CONTEXT.with(|context| *context.borrow_mut() = old);
            }
        }
    }
    let old = CONTEXT.with(|context| {
        let old = context.borrow().clone();
        change(&mut context.borrow_mut());
        old
    });
    let _restore = Restore(Some(old));
    f()
}

/// Runs `f`; nodes it makes carry `like`'s line and module (a gradient points at the forward line).
pub fn traced_like<T>(like: &Node, f: impl FnOnce() -> T) -> T {
    with_context(
        |context| {
            context.location = Some(like.location);
            context.module.clone_from(&like.module);
            context.follows = true;
        },
        f,
    )
}

/// Runs `f`, a part of an op that has a gradient rule of its own or none; as [`at_callers_line`].
#[track_caller]
pub(crate) fn opaque<T>(f: impl FnOnce() -> T) -> T {
    at_callers_line(|| without_gradient(f))
}

/// Runs `f`; nodes it makes belong to sub-module `name` of the current module, and carry the line that called it: the
/// one that uses the layer, not one within it.
#[track_caller]
pub fn in_layer<T>(name: &str, f: impl FnOnce() -> T) -> T {
    at_callers_line(|| in_module(name, f))
}

/// Runs `f`; nodes it makes carry the line that called this, closures within `f` included, which cannot know it.
#[track_caller]
pub(crate) fn at_callers_line<T>(f: impl FnOnce() -> T) -> T {
    let caller = Location::caller();
    let outermost = |context: &mut Context| {
        context.location.get_or_insert(caller);
    };
    with_context(outermost, f)
}

/// Runs `f`; nodes it makes belong to sub-module `name` of the current module.
pub fn in_module<T>(name: &str, f: impl FnOnce() -> T) -> T {
    with_context(
        |context| {
            context.module = Some(match &context.module {
                Some(parent) => format!("{parent}.{name}").into(),
                None => name.into(),
            });
        },
        f,
    )
}

/// Runs `f`; nodes it makes belong to recomputed segment `segment`.
pub fn in_segment<T>(segment: u32, f: impl FnOnce() -> T) -> T {
    with_context(|context| context.segment = segment, f)
}

/// Runs `f`; no gradient passes through nodes it makes.
pub fn without_gradient<T>(f: impl FnOnce() -> T) -> T {
    with_context(|context| context.no_gradient = true, f)
}

/// True while [`without_gradient`] runs on this thread.
pub(super) fn gradients_stop() -> bool {
    CONTEXT.with(|context| context.borrow().no_gradient)
}
