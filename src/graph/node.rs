//! Nodes of the lazy graph.

use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::ops::stops_gradient;
use crate::shape::{MAX_ELEMENTS, Shape};
use crate::stage::Stage;

use super::context::{Context, traced_like};
use super::memory::{HostValue, Memory};
use super::scopes::{Scopes, without_gradient};
use super::{Op, op_name};

/// A shared handle to a node.
pub type NodeRef = Arc<Node>;

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// One value of the graph: an operation on other nodes, with its shape and where it came from.
pub struct Node {
    /// Unique in the process, growing with creation; of a value without its history, the number that it had with it.
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
    /// True if no gradient passes through it: it was computed inside [`without_gradient`](super::without_gradient).
    pub no_gradient: bool,
    /// What a leaf stands for.
    pub source: Option<Source>,
    /// Number of the variable whose value it is, as it was read: what gradients by it belong to.
    pub variable: Option<u64>,
    /// The gradient rule of an [`Op::Custom`] node.
    pub gradient: Option<GradientRule>,
    /// Length of the longest chain of uncomputed nodes below, when it was made. What is made for each of them, such as
    /// gradients, does not count: it is no more than they are, and needs them all.
    pub depth: u32,
    /// True once it was computed on the way to another value, and not kept.
    pub(super) passed: AtomicBool,
    value: Mutex<Option<Memory>>,
}

/// Maps (node, gradient of its output) to the gradients of its inputs (`None`: no gradient).
///
/// It gets at other values through the node and its inputs, never by capturing them: dropping a captured node recurses.
pub type GradientRule = Arc<dyn Fn(&NodeRef, &NodeRef) -> Vec<Option<NodeRef>> + Send + Sync>;

/// What a leaf stands for.
#[derive(Clone, Debug)]
pub enum Source {
    /// Memory that holds its value.
    Memory(Memory),
    /// The variable, read at its current value.
    Var(Arc<crate::runtime::VarCell>),
    /// Input number n of the step being traced.
    Input(usize),
    /// A host value, read when the plan runs.
    Host(Arc<HostValue>),
}

impl Node {
    /// A node; its line is the caller's unless [`traced_like`](super::traced_like) says otherwise.
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

    /// The value that a variable has been assigned: the same value, and a leaf to gradients.
    #[track_caller]
    pub(crate) fn assigned(value: NodeRef, variable: u64) -> NodeRef {
        let (shape, dtype, device) = (value.shape.clone(), value.dtype, value.device.clone());
        Self::new(Op::Detach, vec![value], shape, dtype, &device).of_variable(variable)
    }

    /// A node that was just made, as the value of this variable.
    pub(crate) fn of_variable(mut self: NodeRef, variable: u64) -> NodeRef {
        Arc::get_mut(&mut self).expect("nobody else has it yet").variable = Some(variable);
        self
    }

    /// True if gradients end here, by default: at the values of variables, inputs of steps and tensors made from data.
    pub(crate) fn is_leaf(&self) -> bool {
        let given = matches!(self.source, Some(Source::Memory(_) | Source::Var(_) | Source::Input(_)));
        self.dtype.is_float() && (self.variable.is_some() || given && !stops_gradient(self))
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
        let caller = Location::caller();
        let context = Context::current();
        let no_gradient = Scopes::current().no_gradient;
        let cut = |input: NodeRef| if no_gradient || stops_gradient(&input) { without_history(input) } else { input };
        let inputs: Vec<NodeRef> = inputs.into_iter().map(cut).collect();
        let waiting = |input: &NodeRef| if input.value().is_some() { 0 } else { input.depth };
        let depth = inputs.iter().map(waiting).max().map_or(0, |depth| depth + u32::from(!context.follows));
        let node = Arc::new(Self {
            id: Self::next_id(),
            op,
            inputs,
            shape,
            dtype,
            device: device.clone(),
            stage: Stage::current(),
            location: context.location.unwrap_or(caller),
            module: context.module,
            segment: context.segment,
            // what is given is not computed: whoever reads it first must not decide for the others
            no_gradient: no_gradient && source.is_none(),
            source,
            variable: None,
            gradient,
            depth,
            passed: AtomicBool::new(false),
            value: Mutex::new(None),
        });
        // gradients wait for nothing that does not wait already
        if !context.follows {
            crate::runtime::limit_waiting(&node);
        }
        node
    }

    /// The same operation on other inputs, in the stage and segment of now.
    pub(crate) fn again(&self, inputs: Vec<NodeRef>) -> NodeRef {
        let (op, shape, gradient) = (self.op.clone(), self.shape.clone(), self.gradient.clone());
        let build = || Self::build(op, inputs, shape, self.dtype, &self.device, None, gradient);
        traced_like(self, || if self.no_gradient { without_gradient(build) } else { build() })
    }

    /// A number that nodes from now on are not below.
    pub(crate) fn next_id() -> u64 {
        NEXT_ID.fetch_add(1, Ordering::Relaxed)
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

/// A computed value that no gradient passes through, without what it was computed from: a loop under `no_grad`, or one
/// that detaches what it carries on, does not keep its past. To gradients by it, it is the same node.
#[track_caller]
fn without_history(node: NodeRef) -> NodeRef {
    match node.value() {
        Some(memory) if node.source.is_none() => {
            let mut leaf = Node::leaf(Source::Memory(memory), node.shape.clone(), node.dtype, &node.device);
            let own = Arc::get_mut(&mut leaf).expect("nobody else has it yet");
            (own.id, own.no_gradient, own.variable) = (node.id, stops_gradient(&node), node.variable);
            // where it comes from is the same, whoever uses it first
            (own.location, own.module) = (node.location, node.module.clone());
            (own.stage, own.segment) = (node.stage, node.segment);
            leaf
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
