//! Where nodes come from: line, module and segment, as those who call ops say.

use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;

use super::{Node, without_gradient};

/// Where nodes made on this thread come from, beyond the caller's line.
#[derive(Clone, Default)]
pub(super) struct Context {
    pub(super) location: Option<&'static Location<'static>>,
    /// The line that called the outermost model, for panics in it.
    model: Option<&'static Location<'static>>,
    pub(super) module: Option<Arc<str>>,
    pub(super) segment: u32,
    /// True for nodes that are made once for one that was there before, such as its gradient.
    pub(super) follows: bool,
}

impl Context {
    /// That of this thread.
    pub(super) fn current() -> Self {
        CONTEXT.with(|context| context.borrow().clone())
    }

    fn outermost(&mut self, line: &'static Location<'static>) {
        self.location.get_or_insert(line);
    }

    fn descend(&mut self, name: &str) {
        self.module = Some(match &self.module {
            Some(parent) => format!("{parent}.{name}").into(),
            None => name.into(),
        });
    }
}

thread_local! {
    static CONTEXT: RefCell<Context> = RefCell::default();
}

/// Puts this thread's context back when it is dropped, also when a panic passes.
#[must_use = "the context ends where this is dropped"]
pub(crate) struct Entered(Context, PhantomData<*const ()>);

impl Drop for Entered {
    fn drop(&mut self) {
        CONTEXT.set(std::mem::take(&mut self.0));
    }
}

fn enter(change: impl FnOnce(&mut Context)) -> Entered {
    let old = Context::current();
    CONTEXT.with_borrow_mut(change);
    Entered(old, PhantomData)
}

fn with_context<T>(change: impl FnOnce(&mut Context), f: impl FnOnce() -> T) -> T {
    let _entered = enter(change);
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
    let _layer = layer(name);
    f()
}

/// Until it ends, nodes belong to sub-module `name` of the current module, and carry the line that called it: the one
/// that uses the layer, not one within it.
///
/// Not a closure, which would not hand its caller's line on to the checks of shapes in it.
#[track_caller]
pub(crate) fn layer(name: &str) -> Entered {
    let caller = Location::caller();
    enter(|context| {
        context.outermost(caller);
        context.descend(name);
    })
}

/// Until it ends, panics of [`refuse`] name the line that called this, if no line was named before: modules are called
/// through pointers, where the caller's line is lost.
#[track_caller]
pub(crate) fn model() -> Entered {
    let caller = Location::caller();
    enter(|context| {
        context.model.get_or_insert(caller);
    })
}

/// Panics at the caller's line, and names the module and the user's line as far as they are known beyond that.
#[track_caller]
pub(crate) fn refuse(message: impl fmt::Display) -> ! {
    let (Context { module, location, model, .. }, here) = (Context::current(), Location::caller());
    let line = model.or(location).filter(|line| *line != here);
    match (module, line) {
        (Some(module), Some(line)) => panic!("{message} (in `{module}`, called at {line})"),
        (Some(module), None) => panic!("{message} (in `{module}`)"),
        (None, Some(line)) => panic!("{message} (called at {line})"),
        (None, None) => panic!("{message}"),
    }
}

/// Runs `f`; nodes it makes carry the line that called this, closures within `f` included, which cannot know it.
#[track_caller]
pub(crate) fn at_callers_line<T>(f: impl FnOnce() -> T) -> T {
    let caller = Location::caller();
    with_context(|context| context.outermost(caller), f)
}

/// Runs `f`; nodes it makes belong to sub-module `name` of the current module.
pub fn in_module<T>(name: &str, f: impl FnOnce() -> T) -> T {
    with_context(|context| context.descend(name), f)
}

/// Runs `f`; nodes it makes belong to recomputed segment `segment`.
pub fn in_segment<T>(segment: u32, f: impl FnOnce() -> T) -> T {
    with_context(|context| context.segment = segment, f)
}
