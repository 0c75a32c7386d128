//! State: parameters, optimizer moments, running statistics, counters.

use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::device::{Device, Purpose};
use crate::dtype::{DType, Scalar};
use crate::error::{Error, Result};
use crate::graph::{HostValue, Memory, Node, NodeRef, Source, WeakMemory};
use crate::shape::Shape;
use crate::tensor::Tensor;

use super::{eval, trace};

/// What a variable is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VarKind {
    /// Trained by the optimizer.
    Parameter,
    /// Part of the model's state, not trained: running statistics.
    Buffer,
    /// Everything else: moments, counters, random positions.
    State,
}

/// A named cell of device memory whose value steps read and replace.
///
/// Clones share the cell. Reading gives a snapshot: a tensor that keeps its value when the variable changes.
#[derive(Clone)]
pub struct Var(pub(crate) Arc<VarCell>);

/// The cell behind a [`Var`].
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

#[derive(Default)]
struct State {
    /// An assignment outside of any step that has not been computed yet.
    pending: Option<NodeRef>,
    /// The leaf of the last snapshot, as long as somebody holds it.
    snapshot: Weak<Node>,
    /// Snapshots that share the cell's memory.
    holders: Vec<WeakMemory>,
    ownership: Ownership,
}

/// Whose a cell's memory is.
#[derive(Clone, Default)]
enum Ownership {
    /// Its own.
    #[default]
    Alone,
    /// Its own, and these cells are parts of it.
    Arena(Vec<Arc<VarCell>>),
    /// A part of an arena's, from this element on.
    Member { arena: Weak<VarCell>, offset: usize },
}

impl Var {
    /// A trained parameter with `value`, which is computed now.
    ///
    /// # Errors
    /// If the value cannot be computed or there is no memory.
    #[track_caller]
    pub fn parameter(name: &str, value: &Tensor) -> Result<Self> {
        Self::new(name, VarKind::Parameter, value)
    }

    /// Untrained state of a model, such as running statistics.
    ///
    /// # Errors
    /// If the value cannot be computed or there is no memory.
    #[track_caller]
    pub fn buffer(name: &str, value: &Tensor) -> Result<Self> {
        Self::new(name, VarKind::Buffer, value)
    }

    /// Other state, such as a counter.
    ///
    /// # Errors
    /// If the value cannot be computed or there is no memory.
    #[track_caller]
    pub fn state(name: &str, value: &Tensor) -> Result<Self> {
        Self::new(name, VarKind::State, value)
    }

    /// A variable of any kind.
    ///
    /// # Errors
    /// If the value cannot be computed or there is no memory.
    #[track_caller]
    pub fn new(name: &str, kind: VarKind, value: &Tensor) -> Result<Self> {
        let node = value.node();
        let var = Self::allocate(name, kind, node.shape.clone(), node.dtype, &node.device, node.location)?;
        if trace::is_tracing() && depends_on_inputs(node) {
            let what = format!("a new variable `{name}` with a value made from the step's inputs");
            return Err(Error::Traced { what });
        }
        // also when a step is being traced: making it is not something that the step repeats
        trace::suspended(|| var.set(value))?;
        Ok(var)
    }

    /// A variable of any kind that is zero everywhere. Nothing is computed.
    ///
    /// # Errors
    /// If there is no memory.
    #[track_caller]
    pub fn zeros(name: &str, kind: VarKind, shape: Shape, dtype: DType, device: &Device) -> Result<Self> {
        Self::allocate(name, kind, shape, dtype, device, Location::caller())
    }

    /// New memory is zero.
    fn allocate(
        name: &str,
        kind: VarKind,
        shape: Shape,
        dtype: DType,
        device: &Device,
        location: &'static Location<'static>,
    ) -> Result<Self> {
        let bytes = (shape.numel() * dtype.size_bytes()) as u64;
        let storage = device.alloc(bytes, Purpose::value(name.to_owned(), dtype, &shape, location))?;
        Ok(Self(VarCell::new(name, kind, shape, dtype, device, Memory::new(storage, 0))))
    }

    /// The value now: a snapshot outside of steps, the value at this point inside of one.
    #[track_caller]
    pub fn tensor(&self) -> Tensor {
        Tensor::from_node(self.0.read())
    }

    /// Replaces the value: inside of a step when the step runs, outside when it is next read (members of arenas and arenas
    /// themselves at once, because they share memory). What the value was computed from is not kept.
    ///
    /// # Panics
    /// If shape or element type differ.
    #[track_caller]
    pub fn assign(&self, value: &Tensor) {
        let node = value.node();
        self.0.check(node);
        if trace::is_tracing() {
            return self.0.write_traced(node);
        }
        let shares_memory = {
            let mut state = self.0.state();
            state.pending = Some(node.clone());
            state.snapshot = Weak::new();
            !matches!(state.ownership, Ownership::Alone)
        };
        if shares_memory && let Err(error) = self.0.flush() {
            tracing::debug!("assignment to `{}` put off: {error}", self.0.name);
        }
    }

    /// Replaces the value now.
    ///
    /// # Errors
    /// If the value cannot be computed.
    ///
    /// # Panics
    /// If shape or element type differ.
    #[track_caller]
    pub fn set(&self, value: &Tensor) -> Result<()> {
        self.0.check(value.node());
        let previous = self.0.state().pending.replace(value.node().clone());
        self.0.state().snapshot = Weak::new();
        self.0.flush().inspect_err(|_| self.0.state().pending = previous)
    }

    /// Path in its model.
    pub fn name(&self) -> &str {
        &self.0.name
    }
    /// What it is for.
    pub fn kind(&self) -> VarKind {
        self.0.kind
    }
    /// The value's shape.
    pub fn shape(&self) -> &Shape {
        &self.0.shape
    }
    /// The value's element type.
    pub fn dtype(&self) -> DType {
        self.0.dtype
    }
    /// Where it lives.
    pub fn device(&self) -> &Device {
        &self.0.device
    }
    /// Unique number.
    pub fn id(&self) -> u64 {
        self.0.id
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
    }

    #[track_caller]
    fn read(self: &Arc<Self>) -> NodeRef {
        if trace::is_tracing() {
            return self.read_traced();
        }
        if let Err(error) = self.flush() {
            // whoever asks for the value will hear of it
            tracing::debug!("assignment to `{}` put off: {error}", self.name);
        }
        let mut state = self.state();
        if let Some(pending) = &state.pending {
            return pending.clone();
        }
        if let Some(node) = state.snapshot.upgrade() {
            return node;
        }
        let (storage, offset) = self.memory.get();
        let memory = Memory::new(storage, offset);
        state.holders.retain(WeakMemory::is_held);
        state.holders.push(memory.downgrade());
        let node = Node::leaf(Source::Memory(memory), self.shape.clone(), self.dtype, &self.device);
        state.snapshot = Arc::downgrade(&node);
        node
    }

    /// True if an arena that is still in use holds its memory.
    pub(super) fn is_in_arena(&self) -> bool {
        self.arena().is_some()
    }

    /// The arena this is a member of, and its first element there.
    fn arena(&self) -> Option<(Arc<Self>, usize)> {
        match &self.state().ownership {
            Ownership::Member { arena, offset } => Some((arena.upgrade()?, *offset)),
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

    /// The value at this point of the trace: of a member, its part of what the arena was assigned; of an arena, with what
    /// its members were assigned.
    #[track_caller]
    fn read_traced(self: &Arc<Self>) -> NodeRef {
        let pending = |cell: &Arc<Self>| trace::with(|trace| trace.pending_of(cell)).flatten();
        if let Some((arena, offset)) = self.arena()
            && let Some(flat) = pending(&arena)
        {
            let part = Tensor::from_node(flat).narrow(0, offset, self.shape.numel());
            return part.reshape(self.shape.clone()).node().clone();
        }
        let own = trace::with(|trace| trace.read(self)).expect("a trace is under way");
        self.members()
            .iter()
            .filter_map(|part| Some((pending(part)?, part.arena()?.1)))
            .fold(own, |whole, (part, offset)| splice(whole, part, offset))
    }

    /// Gives it a value at this point of the trace. An arena and a member of it never both wait: the order in which
    /// they would be written is not defined.
    #[track_caller]
    fn write_traced(self: &Arc<Self>, value: &NodeRef) {
        if let Some((arena, offset)) = self.arena()
            && let Some(Some(flat)) = trace::with(|trace| trace.pending_of(&arena))
        {
            let flat = splice(flat, value.clone(), offset);
            trace::with(|trace| trace.write(&arena, flat));
            return;
        }
        let parts = self.members();
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
        self.state().pending = None;
        Ok(())
    }

    /// Moves everybody who still holds the current value to a copy: it is about to be overwritten, and with it the value of
    /// an arena's members, or of the arena that this is a member of.
    pub(super) fn release_snapshots(&self) -> Result<()> {
        self.move_holders()?;
        let ownership = match &self.state().ownership {
            Ownership::Alone => return Ok(()),
            other => other.clone(),
        };
        match ownership {
            Ownership::Alone => Ok(()),
            Ownership::Arena(members) => members.iter().try_for_each(|member| member.move_holders()),
            Ownership::Member { arena, .. } => arena.upgrade().map_or(Ok(()), |arena| arena.move_holders()),
        }
    }

    /// Moves those who hold this very cell's value to a copy.
    fn move_holders(&self) -> Result<()> {
        let alive: Vec<Memory> = {
            let mut state = self.state();
            if state.holders.is_empty() {
                return Ok(());
            }
            state.snapshot = Weak::new();
            state.holders.iter().filter_map(WeakMemory::upgrade).collect()
        };
        if !alive.is_empty() {
            let bytes = (self.shape.numel() * self.dtype.size_bytes()) as u64;
            let copy = self.device.alloc_pooled(bytes, format!("a kept value of {}", self.name))?;
            let (storage, offset) = self.memory.get();
            self.device.copy(&storage, (offset * self.dtype.size_bytes()) as u64, &copy, 0, bytes)?;
            for memory in alive {
                memory.relocate(copy.clone(), 0);
            }
        }
        // only now: had there been no memory, they would still share the cell's
        self.state().holders.clear();
        Ok(())
    }

    /// Makes `parts` live in this cell's memory, at the given first elements.
    pub(super) fn adopt(self: &Arc<Self>, parts: &[(Arc<Self>, usize)]) -> Result<()> {
        let (storage, start) = self.memory.get();
        for (part, offset) in parts {
            part.flush()?;
            let size = part.dtype.size_bytes();
            let (old, old_offset) = part.memory.get();
            let bytes = |elements: usize| (elements * size) as u64;
            self.device.copy(&old, bytes(old_offset), &storage, bytes(start + offset), bytes(part.shape.numel()))?;
            part.memory.relocate(storage.clone(), start + offset);
            let mut state = part.state();
            // snapshots keep the old memory, which nobody writes any more
            state.holders.clear();
            state.snapshot = Weak::new();
            state.ownership = Ownership::Member { arena: Arc::downgrade(self), offset: *offset };
        }
        self.state().ownership = Ownership::Arena(parts.iter().map(|(part, _)| part.clone()).collect());
        Ok(())
    }
}

/// True if `node` can only be computed when the step that is being traced runs.
fn depends_on_inputs(node: &NodeRef) -> bool {
    let mut seen = std::collections::HashSet::new();
    let mut stack = vec![node];
    while let Some(node) = stack.pop() {
        if matches!(node.source, Some(Source::Input(_))) {
            return true;
        }
        if node.value().is_none() && seen.insert(node.id) {
            stack.extend(&node.inputs);
        }
    }
    false
}

/// `flat` with the elements from `offset` on replaced by those of `part`.
#[track_caller]
fn splice(flat: NodeRef, part: NodeRef, offset: usize) -> NodeRef {
    let (flat, part) = (Tensor::from_node(flat), Tensor::from_node(part));
    let (end, len) = (offset + part.numel(), flat.numel());
    let pieces = [&flat.narrow(0, 0, offset), &part.reshape([part.numel()]), &flat.narrow(0, end, len - end)];
    Tensor::cat(&pieces, 0).node().clone()
}

impl fmt::Debug for Var {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Var({} {}{})", self.0.name, self.0.dtype, self.0.shape)
    }
}

/// A host value that captured steps read when they run, such as a learning rate: changing it compiles nothing.
#[derive(Clone, Debug)]
pub struct Hyper(Arc<HostValue>);

impl Hyper {
    /// A value to start with.
    pub fn new(value: f32) -> Self {
        Self(Arc::new(HostValue::new(value.to_bits())))
    }

    /// The value for runs from now on.
    pub fn set(&self, value: f32) {
        self.0.set(value.to_bits());
    }

    /// The value now.
    pub fn get(&self) -> f32 {
        f32::from_bits(self.0.get())
    }

    /// A tensor of shape `[]` that has the value of the moment when it is computed.
    #[track_caller]
    pub fn tensor(&self, device: &Device) -> Tensor {
        let node = Node::leaf(Source::Host(self.0.clone()), Shape::default(), DType::F32, device);
        Tensor::from_node(node)
    }
}

/// A leaf holding `value` as a host value: programs that differ only in it are the same program.
pub(super) fn host_leaf(value: Scalar, device: &Device) -> NodeRef {
    let host = Arc::new(HostValue::new(value.bits));
    Node::leaf(Source::Host(host), Shape::default(), value.dtype, device)
}
