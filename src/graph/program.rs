//! A program: the part of the graph that some outputs need, as plain numbered data.
//!
//! Two traces of the same computation give equal programs, whatever tensors they ran on; that is what plans are cached
//! by.

use std::borrow::Cow;
use std::hash::{Hash, Hasher};
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use smallvec::SmallVec;

use crate::device::Storage;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::shape::{MAX_COUNTED, Shape};
use crate::stage::Stage;

use super::{HostValue, Node, NodeRef, Op, Source};

/// Numbered nodes in topological order, and what to do with some of their values.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The nodes; inputs come before their users.
    pub nodes: Vec<ProgramNode>,
    /// Values to write to external storage.
    pub outputs: Vec<Output>,
    /// Type and number of elements of each external storage.
    pub externals: Vec<External>,
    /// Number of host values.
    pub uniforms: usize,
}

/// One node of a [`Program`].
#[derive(Clone, Debug)]
pub struct ProgramNode {
    /// What it computes.
    pub op: Op,
    /// From which nodes.
    pub inputs: Inputs,
    /// The value's shape.
    pub shape: Shape,
    /// The value's element type.
    pub dtype: DType,
    /// The stage it was traced in.
    pub stage: Stage,
    /// The recomputed segment it belongs to, 0 for none.
    pub segment: u32,
    /// For leaves and host values.
    pub slot: Slot,
    /// The caller's line. Not part of the structure.
    pub location: &'static Location<'static>,
    /// The module's path. Not part of the structure.
    pub module: Option<Arc<str>>,
}

/// Numbers of the nodes that one is computed from; most have two at most.
pub type Inputs = SmallVec<[usize; 2]>;

/// Where a leaf's value comes from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Slot {
    /// It is computed.
    None,
    /// Elements of an external storage from `offset` on, row-major.
    External {
        /// Number of the storage.
        external: usize,
        /// First element.
        offset: usize,
    },
    /// Host value number n.
    Uniform(usize),
}

/// A storage that exists outside of the plan.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct External {
    /// The elements' type.
    pub dtype: DType,
    /// How many there are.
    pub elements: usize,
}

/// A value to write to external storage, row-major from element `offset` on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Output {
    /// The node.
    pub node: usize,
    /// Number of the storage.
    pub external: usize,
    /// First element.
    pub offset: usize,
}

impl ProgramNode {
    /// What distinguishes it, its line included where kernels report it.
    fn structure(&self) -> impl PartialEq + Hash + '_ {
        let reported = matches!(self.op, Op::CheckIndex { .. }).then_some((self.location, &self.module));
        (&self.op, &self.inputs, &self.shape, self.dtype, self.stage, self.segment, self.slot, reported)
    }

    /// `op at file:line (module)`, for messages.
    pub fn describe(&self) -> String {
        let module = self.module.as_ref().map(|module| format!(" in module `{module}`")).unwrap_or_default();
        format!("{} {} at {}{module}", op_name(&self.op), self.shape, self.location)
    }
}

impl Program {
    /// Refuses values of more elements than can be counted, though none of them would be in memory.
    ///
    /// # Errors
    /// If there is one.
    pub(crate) fn check_sizes(&self) -> Result<()> {
        let large = self.nodes.iter().find(|node| node.shape.numel() as u64 > MAX_COUNTED);
        large.map_or(Ok(()), |node| Err(Error::TooManyElements { what: node.describe(), elements: node.shape.numel() }))
    }
}

/// The lower-case name of an op.
pub fn op_name(op: &Op) -> Cow<'static, str> {
    match op {
        Op::Unary(unary) => Cow::Borrowed(unary.into()),
        Op::Binary(binary) => Cow::Borrowed(binary.into()),
        Op::Reduce { op, .. } => Cow::Borrowed(op.into()),
        Op::Kernel(kernel) => Cow::Owned(kernel.name().to_owned()),
        other => Cow::Borrowed(other.into()),
    }
}

impl PartialEq for Program {
    fn eq(&self, other: &Self) -> bool {
        self.outputs == other.outputs
            && self.externals == other.externals
            && self.uniforms == other.uniforms
            && self.nodes.len() == other.nodes.len()
            && self.nodes.iter().zip(&other.nodes).all(|(a, b)| a.structure() == b.structure())
    }
}

impl Program {
    /// Hash of the structure: equal programs have equal keys.
    pub fn key(&self) -> u64 {
        let mut hasher = FxHasher::default();
        for node in &self.nodes {
            node.structure().hash(&mut hasher);
        }
        self.outputs.hash(&mut hasher);
        self.externals.hash(&mut hasher);
        hasher.finish()
    }

    /// Whether it has the same operations on the same values as `other`, whatever their sizes and constants.
    pub fn has_form_of(&self, other: &Self) -> bool {
        self.nodes.len() == other.nodes.len()
            && self
                .nodes
                .iter()
                .zip(&other.nodes)
                .all(|(a, b)| a.inputs == b.inputs && a.dtype == b.dtype && op_name(&a.op) == op_name(&b.op))
    }

    /// The first difference in structure from `other`, in words: why a plan could not be used again.
    pub fn difference(&self, other: &Self) -> Option<String> {
        if let Some((a, b)) = self.nodes.iter().zip(&other.nodes).find(|(a, b)| a.structure() != b.structure()) {
            let (new, old) = (a.describe(), b.describe());
            return Some(if new == old {
                format!("{old} was {:?} and is {:?}", b.op, a.op)
            } else {
                format!("{old} is now {new}")
            });
        }
        if self.nodes.len() != other.nodes.len() {
            return Some(format!("{} nodes instead of {}", self.nodes.len(), other.nodes.len()));
        }
        (self.outputs != other.outputs || self.externals != other.externals).then(|| "other outputs".to_owned())
    }

    /// For each node, the nodes that use it, ascending, once each.
    pub fn users(&self) -> Vec<Vec<usize>> {
        let mut users = vec![Vec::new(); self.nodes.len()];
        for (number, node) in self.nodes.iter().enumerate() {
            for &input in &node.inputs {
                if users[input].last() != Some(&number) {
                    users[input].push(number);
                }
            }
        }
        users
    }
}

/// Cuts a [`Program`] out of the graph, and collects what it must be bound to.
#[derive(Default, Debug)]
pub struct Tracer {
    /// The program so far.
    pub program: Program,
    /// The external storages, by number.
    pub storages: Vec<Storage>,
    /// The host values, by number.
    pub hosts: Vec<Arc<HostValue>>,
    /// The numbers of those, by where they are, which they keep alive.
    host_numbers: FxHashMap<usize, usize>,
    numbers: FxHashMap<u64, usize>,
    /// By the leaf that stands for a step's input, the external storage it is read from.
    inputs: FxHashMap<u64, usize>,
    /// Recomputed segments, renumbered from 1 in order of appearance.
    segments: FxHashMap<u32, u32>,
    /// For each node of the program, whether it is computed although it was before.
    again: Vec<bool>,
}

impl Tracer {
    /// Registers an external storage (once) and returns its number.
    pub fn external(&mut self, storage: &Storage, dtype: DType) -> usize {
        if let Some(number) = self.storages.iter().position(|known| known == storage) {
            return number;
        }
        self.storages.push(storage.clone());
        let elements = usize::try_from(storage.bytes()).unwrap_or(usize::MAX) / dtype.size_bytes();
        self.program.externals.push(External { dtype, elements });
        self.storages.len() - 1
    }

    /// Declares that `leaf`, an input of the step, is read from `storage`; returns the number of that.
    pub fn bind_input(&mut self, leaf: &Node, storage: &Storage) -> usize {
        let external = self.external(storage, leaf.dtype);
        self.inputs.insert(leaf.id, external);
        external
    }

    /// Adds `root` and all it needs; returns its number. Nodes that already have a value become leaves.
    ///
    /// # Errors
    /// If it needs an input that is not bound: a tensor was kept from another trace.
    pub fn add(&mut self, root: &NodeRef) -> Result<usize> {
        let mut stack = SmallVec::<[_; 8]>::from_slice(&[(root, false)]);
        while let Some((node, inputs_done)) = stack.pop() {
            if self.numbers.contains_key(&node.id) {
                continue;
            }
            let Some(slot) = self.slot(node) else {
                let user = stack.iter().rev().find(|(_, inputs_done)| *inputs_done).map(|(user, _)| &***user);
                return Err(of_another_trace(node, user));
            };
            if inputs_done || slot != Slot::None {
                self.push(node, slot);
            } else {
                stack.push((node, true));
                stack.extend(node.inputs.iter().rev().map(|input| (input, false)));
            }
        }
        Ok(self.numbers[&root.id])
    }

    /// Where the value of `node` comes from; `None` for an input that is not bound.
    fn slot(&mut self, node: &Node) -> Option<Slot> {
        let memory = match &node.source {
            Some(Source::Host(host)) => {
                let number = *self.host_numbers.entry(Arc::as_ptr(host).addr()).or_insert_with(|| {
                    self.hosts.push(host.clone());
                    self.program.uniforms += 1;
                    self.hosts.len() - 1
                });
                return Some(Slot::Uniform(number));
            }
            Some(Source::Input(_)) => {
                return self.inputs.get(&node.id).map(|&external| Slot::External { external, offset: 0 });
            }
            Some(Source::Var(var)) => Some(var.memory()),
            Some(Source::Memory(memory)) => Some(memory.clone()),
            None => node.value(),
        };
        Some(match memory {
            Some(memory) => {
                let (storage, offset) = memory.get();
                Slot::External { external: self.external(&storage, node.dtype), offset }
            }
            None => Slot::None,
        })
    }

    fn push(&mut self, node: &Node, slot: Slot) {
        let (op, inputs) = match slot {
            Slot::None => {
                (node.op.clone(), node.inputs.iter().map(|input| self.numbers[&input.id]).collect::<Inputs>())
            }
            Slot::External { .. } => (Op::Leaf, Inputs::new()),
            Slot::Uniform(_) => (Op::Uniform, Inputs::new()),
        };
        let next_segment = self.segments.len() as u32 + 1;
        let segment = match node.segment {
            0 => 0,
            segment => *self.segments.entry(segment).or_insert(next_segment),
        };
        self.again.push(slot == Slot::None && node.passed.swap(true, Ordering::Relaxed));
        self.numbers.insert(node.id, self.program.nodes.len());
        self.program.nodes.push(ProgramNode {
            op,
            inputs,
            shape: node.shape.clone(),
            dtype: node.dtype,
            stage: node.stage,
            segment,
            slot,
            location: node.location,
            module: node.module.clone(),
        });
    }

    /// Nodes of the program that are computed although they were before, and from which something is made that was not:
    /// where what is computed again and again ends.
    pub fn computed_again(&self) -> FxHashSet<usize> {
        if !self.again.contains(&true) {
            return FxHashSet::default();
        }
        let is_new = |number: &usize| !self.again[*number];
        let inputs = (0..self.again.len()).filter(is_new).flat_map(|number| &self.program.nodes[number].inputs);
        inputs.copied().filter(|&input| self.again[input]).collect()
    }

    /// The number of a node in the program.
    pub fn number(&self, node: &Node) -> Option<usize> {
        self.numbers.get(&node.id).copied()
    }

    /// Asks for `node`'s value in external storage `external` from element `offset` on.
    pub fn output(&mut self, node: usize, external: usize, offset: usize) {
        self.program.outputs.push(Output { node, external, offset });
    }
}

/// What is wrong with `leaf`, an input that is not bound, as far as it is read by `user`.
fn of_another_trace(leaf: &Node, user: Option<&Node>) -> Error {
    let input = match leaf.source {
        Some(Source::Input(slot)) => format!("input {slot} of another trace"),
        _ => "a value of another trace".to_owned(),
    };
    // the leaf's own line is none of the caller's
    let what = match user {
        Some(user) => format!("a value made from {input} at {}", user.location),
        None => input,
    };
    Error::Traced { what }
}
