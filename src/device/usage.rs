//! How much memory and how many objects a device holds, and what the memory is for.

use std::borrow::Cow;
use std::fmt;
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use crate::dtype::DType;
use crate::error::LiveMemory;
use crate::graph::{Node, op_name};
use crate::shape::Shape;

/// Bytes that brasa holds on a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemoryUse {
    /// In use now.
    pub live_bytes: u64,
    /// The most in use so far.
    pub peak_bytes: u64,
    /// Kept for reuse, beside those in use. They are given back before anything is refused for want of memory.
    pub cached_bytes: u64,
}

impl MemoryUse {
    /// In use or kept for reuse.
    pub const fn held_bytes(&self) -> u64 {
        self.live_bytes.saturating_add(self.cached_bytes)
    }
}

/// How many objects were made on a device since it was opened; all zero on the CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Buffers, those for staging and reading included.
    pub buffers: u64,
    /// Compiled kernels.
    pub pipelines: u64,
    /// Bind groups.
    pub bind_groups: u64,
    /// Submissions.
    pub submissions: u64,
}

/// What a piece of memory is for, in the words of an out-of-memory error.
#[derive(Clone, Debug)]
pub(crate) struct Purpose {
    what: Cow<'static, str>,
    value: Option<(DType, Shape)>,
    location: Option<&'static Location<'static>>,
}

impl Purpose {
    /// A value with its type and shape, and the user's line that it comes from.
    pub(crate) fn value(
        what: impl Into<Cow<'static, str>>,
        dtype: DType,
        shape: &Shape,
        location: &'static Location<'static>,
    ) -> Self {
        Self { what: what.into(), value: Some((dtype, shape.clone())), location: Some(location) }
    }

    /// The value of a node, called by its op.
    pub(crate) fn node(node: &Node) -> Self {
        Self::value(op_name(&node.op), node.dtype, &node.shape, node.location)
    }

    fn live(&self, bytes: u64) -> LiveMemory {
        LiveMemory {
            bytes,
            what: self.what.clone().into_owned(),
            value: self.value.clone(),
            location: self.location.map(ToString::to_string),
        }
    }
}

impl<T: Into<Cow<'static, str>>> From<T> for Purpose {
    fn from(what: T) -> Self {
        Self { what: what.into(), value: None, location: None }
    }
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.live(0).fmt(f)
    }
}

/// Live and peak bytes, and what they are for.
#[derive(Debug, Default)]
pub(super) struct Ledger(Mutex<Book>);

#[derive(Debug, Default)]
struct Book {
    live_bytes: u64,
    peak_bytes: u64,
    next: u64,
    claims: FxHashMap<u64, (u64, Purpose)>,
}

/// Bytes on a ledger, until it is dropped.
#[derive(Debug)]
pub(super) struct Claim {
    ledger: Arc<Ledger>,
    number: u64,
}

impl Ledger {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts `bytes` down, unless more than `limit` would be in use.
    pub(super) fn claim(self: &Arc<Self>, bytes: u64, purpose: &Purpose, limit: u64) -> Option<Claim> {
        let mut book = self.book();
        let live = book.live_bytes.checked_add(bytes).filter(|&live| live <= limit)?;
        book.live_bytes = live;
        book.peak_bytes = book.peak_bytes.max(live);
        book.next += 1;
        let number = book.next;
        book.claims.insert(number, (bytes, purpose.clone()));
        Some(Claim { ledger: Arc::clone(self), number })
    }

    /// Bytes in use now, and the most so far.
    pub(super) fn live_and_peak(&self) -> (u64, u64) {
        let book = self.book();
        (book.live_bytes, book.peak_bytes)
    }

    /// The `count` largest pieces in use, largest first; older ones first among equals.
    pub(super) fn largest(&self, count: usize) -> Vec<LiveMemory> {
        let book = self.book();
        let mut claims: Vec<_> = book.claims.iter().collect();
        claims.sort_by_key(|(number, (bytes, _))| (std::cmp::Reverse(*bytes), **number));
        claims.into_iter().take(count).map(|(_, (bytes, purpose))| purpose.live(*bytes)).collect()
    }
}

impl Claim {
    /// It is of so many bytes.
    pub(super) fn set_bytes(&self, bytes: u64) {
        let mut book = self.ledger.book();
        let claimed = book.claims.get_mut(&self.number).map(|claim| std::mem::replace(&mut claim.0, bytes));
        let claimed = claimed.expect("a claim is in its book until it is dropped");
        book.live_bytes = book.live_bytes - claimed + bytes;
        book.peak_bytes = book.peak_bytes.max(book.live_bytes);
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut book = self.ledger.book();
        if let Some((bytes, _)) = book.claims.remove(&self.number) {
            book.live_bytes -= bytes;
        }
    }
}
