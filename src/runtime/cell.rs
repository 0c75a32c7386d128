//! The memory behind variables: who shares it, who still reads an old value, and what waits to be written.

use std::fmt;
use std::ops::Range;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::device::{Device, Purpose, Storage};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::{Memory, Node, NodeRef, Source, WeakMemory};
use crate::shape::Shape;
use crate::tensor::Tensor;

use super::quantized::Codes;
use super::var::VarKind;
use super::{eval, trace};

/// The cell behind a [`Var`](super::Var).
pub struct VarCell {
    /// Unique in the process.
    pub(crate) id: u64,
    /// Path in its model, such as `layer1.0.conv1.weight`.
    pub(crate) name: String,
    /// What it is for.
    pub(crate) kind: VarKind,
    /// The value's shape.
    pub(crate) shape: Shape,
    /// The value's element type.
    pub(crate) dtype: DType,
    /// Where it lives.
    pub(crate) device: Device,
    memory: Memory,
    state: Mutex<State>,
}

impl fmt::Debug for VarCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}{}", self.name, self.dtype, self.shape)
    }
}

#[derive(Default)]
struct State {
    /// An assignment outside of any step that has not been computed yet.
    pending: Option<NodeRef>,
    /// The leaf of the last snapshot, as long as somebody holds it.
    snapshot: Weak<Node>,
    /// Snapshots that share the cell's memory.
    holders: Arc<Holders>,
    ownership: Ownership,
    /// What the value is computed from, if it is kept in 8 bits.
    codes: Option<Codes>,
}

/// Whose a cell's memory is.
#[derive(Clone, Default)]
enum Ownership {
    /// Its own.
    #[default]
    Alone,
    /// Its own, and these cells are parts of it.
    Arena(Vec<Arc<VarCell>>),
    /// A part of an arena's, from this element on, of which `holders` hold all.
    Member { arena: Weak<VarCell>, holders: Arc<Holders>, offset: usize },
}

/// Snapshots that share one memory.
#[derive(Default)]
struct Holders(Mutex<Vec<WeakMemory>>);

impl Holders {
    fn list(&self) -> MutexGuard<'_, Vec<WeakMemory>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, memory: &Memory) {
        let mut list = self.list();
        list.retain(WeakMemory::is_held);
        list.push(memory.downgrade());
    }

    /// Moves them to a copy of these bytes of `storage`.
    fn moved(&self, device: &Device, storage: &Storage, bytes: Range<u64>, purpose: impl Into<Purpose>) -> Result<()> {
        let alive: Vec<Memory> = self.list().iter().filter_map(WeakMemory::upgrade).collect();
        if !alive.is_empty() {
            let length = bytes.end - bytes.start;
            let copy = device.alloc_pooled(length, purpose)?;
            device.copy(storage, bytes.start, &copy, 0, length)?;
            for memory in alive {
                memory.relocate(copy.clone(), 0);
            }
        }
        // only now: had there been no memory, they would still share it
        self.list().clear();
        Ok(())
    }
}

impl VarCell {
    pub(super) fn new(
        name: &str,
        kind: VarKind,
        shape: Shape,
        dtype: DType,
        device: &Device,
        memory: Memory,
    ) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Arc::new(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            name: name.to_owned(),
            kind,
            shape,
            dtype,
            device: device.clone(),
            memory,
            state: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where its current value lies.
    pub(crate) fn memory(&self) -> Memory {
        self.memory.clone()
    }

    #[track_caller]
    fn check(&self, value: &Node) {
        assert!(
            self.shape == value.shape && self.dtype == value.dtype,
            "assign to `{}`: {} {} instead of {} {}",
            self.name,
            value.dtype,
            value.shape,
            self.dtype,
            self.shape
        );
        let (own, other) = (self.device.name(), value.device.name());
        assert!(self.device == value.device, "assign to `{}` on {own}: a value on {other}", self.name);
        assert!(self.codes().is_none(), "assign to `{}`: it is kept in 8 bits, and stays as it is", self.name);
    }

    /// What its value is computed from, if it is kept in 8 bits.
    pub(super) fn codes(&self) -> Option<Codes> {
        self.state().codes.clone()
    }

    /// Keeps these codes instead of the value that they stand for.
    pub(super) fn keep(&self, codes: Codes) -> Result<()> {
        let nothing = self.device.alloc(0, self.name.clone())?;
        let mut state = self.state();
        // snapshots keep the old memory, which nobody writes any more
        state.holders.list().clear();
        state.snapshot = Weak::new();
        self.memory.relocate(nothing, 0);
        state.codes = Some(codes);
        Ok(())
    }

    /// The value now: a snapshot outside of steps, the value at this point inside of one.
    #[track_caller]
    pub(super) fn read(self: &Arc<Self>) -> NodeRef {
        if let Some(codes) = self.codes() {
            return codes.value().node().clone();
        }
        if trace::is_tracing() {
            return self.read_traced();
        }
        // or a replay on another thread would not know of the new snapshot, and overwrite it
        let _exclusive = self.device.exclusive();
        if let Err(error) = self.flush() {
            // whoever asks for the value will hear of it
            tracing::debug!("assignment to `{}` put off: {error}", self.name);
        }
        let mut state = self.state();
        if let Some(pending) = &state.pending {
            return Node::assigned(pending.clone(), self.id);
        }
        if let Some(node) = state.snapshot.upgrade() {
            return node;
        }
        let (storage, offset) = self.memory.get();
        let memory = Memory::new(storage, offset);
        state.holders.add(&memory);
        let node = Node::leaf(Source::Memory(memory), self.shape.clone(), self.dtype, &self.device);
        let node = node.of_variable(self.id);
        state.snapshot = Arc::downgrade(&node);
        node
    }

    /// Replaces the value: inside of a step when the step runs, outside when it is next read or, if memory is shared,
    /// now.
    #[track_caller]
    pub(super) fn assign(self: &Arc<Self>, value: &NodeRef) {
        self.check(value);
        if trace::is_tracing() {
            return self.write_traced(value);
        }
        let shares_memory = {
            let mut state = self.state();
            state.pending = Some(value.clone());
            state.snapshot = Weak::new();
            !matches!(state.ownership, Ownership::Alone)
        };
        if shares_memory && let Err(error) = self.flush() {
            tracing::debug!("assignment to `{}` put off: {error}", self.name);
        }
    }

    /// Replaces the value now.
    #[track_caller]
    pub(super) fn set(&self, value: &NodeRef) -> Result<()> {
        if self.codes().is_some() {
            let message = format!("`{}` is kept in 8 bits, and cannot be set: load weights before", self.name);
            return Err(Error::Config(message));
        }
        self.check(value);
        if trace::is_tracing() {
            // it would happen once, however often the step runs
            return Err(Error::SetInStep { name: self.name.clone(), location: Location::caller().to_string() });
        }
        let previous = self.state().pending.replace(value.clone());
        self.state().snapshot = Weak::new();
        self.flush().inspect_err(|_| {
            let mut state = self.state();
            if is(&state.pending, value) {
                state.pending = previous;
            }
        })
    }

    /// True if an arena that is still in use holds its memory.
    pub(super) fn is_in_arena(&self) -> bool {
        self.arena().is_some()
    }

    /// The arena this is a member of, and its first element there.
    fn arena(&self) -> Option<(Arc<Self>, usize)> {
        match &self.state().ownership {
            Ownership::Member { arena, offset, .. } => Some((arena.upgrade()?, *offset)),
            Ownership::Alone | Ownership::Arena(_) => None,
        }
    }

    /// The cells that are parts of this one's memory.
    fn members(&self) -> Vec<Arc<Self>> {
        match &self.state().ownership {
            Ownership::Arena(members) => members.clone(),
            Ownership::Alone | Ownership::Member { .. } => Vec::new(),
        }
    }

    /// The value at this point of the trace: of a member, its part of what the arena was assigned; of an arena, with
    /// what its members were assigned. The same node until it is assigned again.
    #[track_caller]
    fn read_traced(self: &Arc<Self>) -> NodeRef {
        if let Some(known) = trace::with(|trace| trace.current.get(&self.id).cloned()).flatten() {
            return known;
        }
        let node = self.assigned_in_trace().map(|value| Node::assigned(value, self.id));
        let before = || trace::with(|trace| trace.before(self)).expect("a trace is under way");
        let node = node.unwrap_or_else(before);
        trace::with(|trace| trace.current.insert(self.id, node.clone()));
        node
    }

    /// What it was given in the trace so far, by itself or together with others.
    #[track_caller]
    fn assigned_in_trace(self: &Arc<Self>) -> Option<NodeRef> {
        let pending = |cell: &Arc<Self>| trace::with(|trace| trace.pending_of(cell)).flatten();
        if let Some((arena, offset)) = self.arena()
            && let Some(flat) = pending(&arena)
        {
            let part = Tensor::from_node(flat).narrow(0, offset, self.shape.numel());
            return Some(part.reshape(self.shape.clone()).node().clone());
        }
        let own = pending(self);
        self.members().iter().filter_map(|part| Some((pending(part)?, part.arena()?.1))).fold(own, |whole, part| {
            let whole = whole.or_else(|| trace::with(|trace| trace.before(self)));
            Some(splice(whole.expect("a trace is under way"), part.0, part.1))
        })
    }

    /// Gives it a value at this point of the trace. An arena and a member of it never both wait: the order in which
    /// they would be written is not defined.
    #[track_caller]
    fn write_traced(self: &Arc<Self>, value: &NodeRef) {
        let arena = self.arena();
        let parts = self.members();
        trace::with(|trace| {
            let shared = arena.iter().map(|(arena, _)| arena.id).chain(parts.iter().map(|part| part.id));
            shared.chain([self.id]).for_each(|id| drop(trace.current.remove(&id)));
        });
        if let Some((arena, offset)) = arena
            && let Some(Some(flat)) = trace::with(|trace| trace.pending_of(&arena))
        {
            let flat = splice(flat, value.clone(), offset);
            trace::with(|trace| trace.write(&arena, flat));
            return;
        }
        trace::with(|trace| {
            trace.pending.retain(|(cell, _)| parts.iter().all(|part| part.id != cell.id));
            trace.write(self, value.clone());
        });
    }

    /// Computes an assignment made outside of any step.
    pub(super) fn flush(&self) -> Result<()> {
        let _exclusive = self.device.exclusive();
        let Some(node) = self.state().pending.clone() else { return Ok(()) };
        eval::realize(std::slice::from_ref(&node))?;
        let (from, from_offset) = node.value().expect("it was just computed").get();
        self.release_snapshots()?;
        let (to, to_offset) = self.memory.get();
        let size = self.dtype.size_bytes();
        let bytes = |elements: usize| (elements * size) as u64;
        self.device.copy(&from, bytes(from_offset), &to, bytes(to_offset), bytes(self.shape.numel()))?;
        if from.is_foreign() {
            // before the application changes what it is copied from
            self.device.submit()?;
        }
        let mut state = self.state();
        // another thread may have assigned a newer one since
        if is(&state.pending, &node) {
            state.pending = None;
        }
        Ok(())
    }

    /// Moves everybody who still holds the current value to a copy: it is about to be overwritten, and with it the
    /// value of an arena's members, or of the arena that this is a member of.
    pub(super) fn release_snapshots(&self) -> Result<()> {
        self.move_holders()?;
        let ownership = match &self.state().ownership {
            Ownership::Alone => return Ok(()),
            other => other.clone(),
        };
        match ownership {
            Ownership::Alone => Ok(()),
            Ownership::Arena(members) => members.iter().try_for_each(|member| member.move_holders()),
            Ownership::Member { arena, holders, .. } => match arena.upgrade() {
                Some(arena) => arena.move_holders(),
                // what it was, somebody may still hold
                None => {
                    let storage = self.memory.get().0;
                    holders.moved(&self.device, &storage, 0..storage.bytes(), "a kept arena".to_owned())
                }
            },
        }
    }

    /// Moves those who hold this very cell's value to a copy.
    fn move_holders(&self) -> Result<()> {
        let holders = {
            let mut state = self.state();
            if state.holders.list().is_empty() {
                return Ok(());
            }
            state.snapshot = Weak::new();
            Arc::clone(&state.holders)
        };
        let (storage, offset) = self.memory.get();
        let start = (offset * self.dtype.size_bytes()) as u64;
        let bytes = start..start + self.shape.bytes(self.dtype);
        holders.moved(&self.device, &storage, bytes, format!("a kept value of {}", self.name))
    }

    /// Makes `parts` live in this cell's memory, at the given first elements.
    pub(super) fn adopt(self: &Arc<Self>, parts: &[(Arc<Self>, usize)]) -> Result<()> {
        let (storage, start) = self.memory.get();
        let holders = Arc::clone(&self.state().holders);
        for (part, offset) in parts {
            part.flush()?;
            let size = part.dtype.size_bytes();
            let (old, old_offset) = part.memory.get();
            let bytes = |elements: usize| (elements * size) as u64;
            self.device.copy(&old, bytes(old_offset), &storage, bytes(start + offset), bytes(part.shape.numel()))?;
            part.memory.relocate(storage.clone(), start + offset);
            let mut state = part.state();
            // snapshots keep the old memory, which nobody writes any more
            state.holders.list().clear();
            state.snapshot = Weak::new();
            state.ownership =
                Ownership::Member { arena: Arc::downgrade(self), holders: Arc::clone(&holders), offset: *offset };
        }
        self.state().ownership = Ownership::Arena(parts.iter().map(|(part, _)| part.clone()).collect());
        Ok(())
    }
}

fn is(pending: &Option<NodeRef>, node: &NodeRef) -> bool {
    pending.as_ref().is_some_and(|pending| Arc::ptr_eq(pending, node))
}

/// `flat` with the elements from `offset` on replaced by those of `part`.
#[track_caller]
fn splice(flat: NodeRef, part: NodeRef, offset: usize) -> NodeRef {
    let (flat, part) = (Tensor::from_node(flat), Tensor::from_node(part));
    let (end, len) = (offset + part.numel(), flat.numel());
    let pieces = [&flat.narrow(0, 0, offset), &part.reshape([part.numel()]), &flat.narrow(0, end, len - end)];
    Tensor::cat(&pieces, 0).node().clone()
}
