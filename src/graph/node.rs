//! Nodes of the lazy graph.

use std::cell::RefCell;
use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::device::{Device, Storage};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::shape::{MAX_ELEMENTS, Shape};
use crate::stage::Stage;

use super::{Op, op_name};

/// A shared handle to a node.
pub type NodeRef = Arc<Node>;

/// One value of the graph: an operation on other nodes, with its shape and where it came from.
pub struct Node {
    /// Unique in the process, growing with creation.
    pub id: u64,
    /// What it computes.
    pub op: Op,
    /// From what.
    pub inputs: Vec<NodeRef>,
    /// The value's shape.
    pub shape: Shape,
    /// The value's element type.
    pub dtype: DType,
    /// Where the value lives.
    pub device: Device,
    /// The stage it was traced in.
    pub stage: Stage,
    /// The caller's line.
    pub location: &'static Location<'static>,
    /// The module it was traced in, such as `layer1.0.conv1`.
    pub module: Option<Arc<str>>,
    /// Number of the recomputed segment it belongs to (activation checkpointing); 0 for none. Part of its identity.
    pub segment: u32,
    /// True if no gradient passes through it: it was made inside [`without_gradient`].
    pub no_gradient: bool,
    /// What a leaf stands for.
    pub source: Option<Source>,
    /// The gradient rule of an [`Op::Custom`] node.
    pub gradient: Option<GradientRule>,
    /// Length of the longest chain of uncomputed nodes below, when it was made.
    pub depth: u32,
    value: Mutex<Option<Memory>>,
}

/// Maps (node, gradient of its output) to the gradients of its inputs (`None`: no gradient).
///
/// It gets at other values through the node and its inputs, never by capturing them: dropping a captured node recurses.
pub type GradientRule = Arc<dyn Fn(&NodeRef, &NodeRef) -> Vec<Option<NodeRef>> + Send + Sync>;

/// What a leaf stands for.
#[derive(Clone)]
pub enum Source {
    /// Memory that holds its value.
    Memory(Memory),
    /// The variable with this number, read at its current value.
    Var(Arc<crate::runtime::VarCell>),
    /// Input number n of the step being traced.
    Input(usize),
    /// A host value, read when the plan runs.
    Host(Arc<HostValue>),
}

/// Elements on a device: a storage and the first element's number in it.
///
/// Shared by all who hold the value. When a replay is about to overwrite the storage, it moves the holders to a copy.
#[derive(Clone)]
pub struct Memory(Arc<Mutex<(Storage, usize)>>);

impl Memory {
    /// Elements of `storage` from number `offset` on.
    pub fn new(storage: Storage, offset: usize) -> Self {
        Self(Arc::new(Mutex::new((storage, offset))))
    }

    /// The storage and offset now.
    pub fn get(&self) -> (Storage, usize) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether it is there now.
    pub fn is_at(&self, storage: &Storage, offset: usize) -> bool {
        let place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        place.0 == *storage && place.1 == offset
    }

    /// Moves all holders to other memory with the same contents.
    pub fn relocate(&self, storage: Storage, offset: usize) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (storage, offset);
    }

    /// A reference that does not keep the memory.
    pub fn downgrade(&self) -> WeakMemory {
        WeakMemory(Arc::downgrade(&self.0))
    }
}

/// A reference to [`Memory`] that does not keep it: how those who will overwrite a storage know who still reads it.
#[derive(Clone)]
pub struct WeakMemory(Weak<Mutex<(Storage, usize)>>);

impl WeakMemory {
    /// The memory, if someone still holds it.
    pub fn upgrade(&self) -> Option<Memory> {
        self.0.upgrade().map(Memory)
    }

    /// Whether someone still holds it.
    pub fn is_held(&self) -> bool {
        self.0.strong_count() > 0
    }
}

/// A 32-bit host value that plans read when they run: a learning rate, a step number, a seed.
#[derive(Debug)]
pub struct HostValue(std::sync::atomic::AtomicU32);

impl HostValue {
    /// A value with these bits.
    pub fn new(bits: u32) -> Self {
        Self(bits.into())
    }
    /// Its bits.
    pub fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
    /// Sets its bits.
    pub fn set(&self, bits: u32) {
        self.0.store(bits, Ordering::Relaxed);
    }
}

/// Where nodes made on this thread come from, beyond the caller's line.
#[derive(Clone, Default)]
struct Context {
    location: Option<&'static Location<'static>>,
    module: Option<Arc<str>>,
    segment: u32,
    no_gradient: bool,
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
        },
        f,
    )
}

/// Runs `f`, a part of an op that has a gradient rule of its own or none; as [`at_callers_line`].
#[track_caller]
pub(crate) fn opaque<T>(f: impl FnOnce() -> T) -> T {
    at_callers_line(|| without_gradient(f))
}

/// Runs `f`; nodes it makes belong to sub-module `name` of the current module, and carry the line that called it: the one
/// that uses the layer, not one within it.
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

impl Node {
    /// A node; its line is the caller's unless [`traced_like`] says otherwise.
    #[track_caller]
    pub fn new(op: Op, inputs: Vec<NodeRef>, shape: Shape, dtype: DType, device: &Device) -> NodeRef {
        Self::build(op, inputs, shape, dtype, device, None, None)
    }

    /// A leaf.
    #[track_caller]
    pub fn leaf(source: Source, shape: Shape, dtype: DType, device: &Device) -> NodeRef {
        let op = if matches!(source, Source::Host(_)) { Op::Uniform } else { Op::Leaf };
        Self::build(op, Vec::new(), shape, dtype, device, Some(source), None)
    }

    /// `inputs[0]` with a gradient rule of its own for the others: `gradient` gets this node and its gradient and
    /// returns one for each input (`None` for the first).
    #[track_caller]
    pub fn custom(inputs: Vec<NodeRef>, gradient: GradientRule) -> NodeRef {
        let (shape, dtype, device) = (inputs[0].shape.clone(), inputs[0].dtype, inputs[0].device.clone());
        Self::build(Op::Custom, inputs, shape, dtype, &device, None, Some(gradient))
    }

    #[track_caller]
    fn build(
        op: Op,
        inputs: Vec<NodeRef>,
        shape: Shape,
        dtype: DType,
        device: &Device,
        source: Option<Source>,
        gradient: Option<GradientRule>,
    ) -> NodeRef {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let caller = Location::caller();
        let context = CONTEXT.with(|context| context.borrow().clone());
        let cut =
            |input: NodeRef| if context.no_gradient || input.no_gradient { without_history(input) } else { input };
        let inputs: Vec<NodeRef> = inputs.into_iter().map(cut).collect();
        let waiting = |input: &NodeRef| if input.value().is_some() { 0 } else { input.depth };
        let depth = inputs.iter().map(waiting).max().map_or(0, |depth| depth + 1);
        let node = Arc::new(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            op,
            inputs,
            shape,
            dtype,
            device: device.clone(),
            stage: Stage::current(),
            location: context.location.unwrap_or(caller),
            module: context.module,
            segment: context.segment,
            no_gradient: context.no_gradient,
            source,
            gradient,
            depth,
            value: Mutex::new(None),
        });
        crate::runtime::limit_waiting(&node);
        node
    }

    /// Refuses a value that cannot be in memory.
    ///
    /// # Errors
    /// If it has too many elements.
    pub(crate) fn check_size(&self) -> Result<()> {
        let elements = self.shape.numel();
        if elements <= MAX_ELEMENTS {
            return Ok(());
        }
        let what = format!("{} {}{} at {}", op_name(&self.op), self.dtype, self.shape, self.location);
        Err(Error::TooManyElements { what, elements })
    }

    /// The computed value, if there is one.
    pub fn value(&self) -> Option<Memory> {
        if let Some(Source::Memory(memory)) = &self.source {
            return Some(memory.clone());
        }
        self.value.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Keeps the computed value.
    pub fn set_value(&self, memory: Memory) {
        *self.value.lock().unwrap_or_else(PoisonError::into_inner) = Some(memory);
    }
}

/// A computed value that no gradient passes through, without what it was computed from: a loop under `no_grad` does not
/// keep its past.
#[track_caller]
fn without_history(node: NodeRef) -> NodeRef {
    match node.value() {
        Some(memory) if node.source.is_none() => {
            Node::leaf(Source::Memory(memory), node.shape.clone(), node.dtype, &node.device)
        }
        _ => node,
    }
}

impl Drop for Node {
    /// Without recursion: a chain of any length is dropped in constant stack space.
    fn drop(&mut self) {
        let mut stack = std::mem::take(&mut self.inputs);
        while let Some(node) = stack.pop() {
            if let Some(mut node) = Arc::into_inner(node) {
                stack.append(&mut node.inputs);
            }
        }
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{} {:?} {}{}", self.id, self.op, self.dtype, self.shape)
    }
}
