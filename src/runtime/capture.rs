//! The trace of a step for one signature: planned first, which takes no memory, then bound to memory.

use std::sync::Arc;

use crate::device::{Bound, Device, Purpose, Storage};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::{HostValue, Memory, Node, NodeRef, Program, Source, Tracer, WeakMemory};
use crate::plan::{self, Plan, PlanOptions};
use crate::shape::{MAX_ELEMENTS, Shape};
use crate::tensor::Tensor;

use super::cell::VarCell;
use super::forecast::Forecast;
use super::signature::Signature;
use super::var::{Var, VarKind};
use super::{gate, trace};

/// A trace and its plan. Where inputs and outputs will lie is not there yet.
pub(super) struct Planned {
    pub(super) program: Program,
    pub(super) plan: Arc<Plan>,
    storages: Vec<Storage>,
    hosts: Vec<Arc<HostValue>>,
    /// The externals that inputs are read from.
    inputs: Vec<usize>,
    outputs: Vec<PlannedOutput>,
    written: Vec<Arc<VarCell>>,
    read: Vec<Place>,
    vars: Vec<Arc<VarCell>>,
}

struct PlannedOutput {
    external: usize,
    node: NodeRef,
}

/// A variable or a tensor from outside, and the place it had when the trace was planned.
#[derive(Clone)]
struct Place {
    /// The variable's name.
    name: Option<String>,
    memory: Memory,
    storage: Storage,
    offset: usize,
}

/// One signature's trace, compiled and bound.
pub(super) struct Captured {
    pub(super) program: Program,
    pub(super) plan: Arc<Plan>,
    pub(super) bound: Bound,
    pub(super) storages: Vec<Storage>,
    pub(super) hosts: Vec<Arc<HostValue>>,
    pub(super) inputs: Vec<Storage>,
    pub(super) outputs: Vec<OutputCell>,
    pub(super) written: Vec<Arc<VarCell>>,
    pub(super) vars: Vec<Arc<VarCell>>,
    /// Why no earlier plan of the step could be used.
    pub(super) because: Option<String>,
    /// When it was last used, on the step's clock.
    pub(super) used: u64,
    read: Vec<Place>,
}

/// An output's memory, and who still holds its last value.
pub(super) struct OutputCell {
    storage: Storage,
    shape: Shape,
    dtype: DType,
    holders: Vec<WeakMemory>,
}

impl Planned {
    /// Traces `function` for inputs of `signature`, and plans what it did.
    pub(super) fn new(
        device: &Device,
        function: &mut dyn FnMut(&[Tensor]) -> Vec<Tensor>,
        signature: &Signature,
        halted: &Var,
        options: &PlanOptions,
    ) -> Result<Self> {
        let mut tracer = Tracer::default();
        let mut inputs = Vec::new();
        let mut placeholders = Vec::new();
        for (slot, (shape, dtype)) in signature.iter().enumerate() {
            let elements = shape.numel();
            if elements > MAX_ELEMENTS {
                return Err(Error::TooManyElements { what: format!("input {slot} of a step"), elements });
            }
            let storage = Storage::planned(value_bytes(shape, *dtype));
            inputs.push(tracer.bind_input(slot, &storage, *dtype));
            placeholders.push(Tensor::from_node(Node::leaf(Source::Input(slot), shape.clone(), *dtype, device)));
        }
        let (results, trace) = trace::collect(|| {
            let results = function(&placeholders);
            gate::close(halted);
            results
        });
        let roots = results.iter().map(|result| result.node()).chain(trace.pending.iter().map(|(_, node)| node));
        let (mut vars, memories) = leaves(roots);
        vars.extend(trace.pending.iter().map(|(var, _)| var.clone()));
        vars.sort_by_key(|var| var.id);
        vars.dedup_by_key(|var| var.id);
        // before looking where values lie: an assignment that waits moves those who hold the old one
        vars.iter().try_for_each(|var| var.flush())?;
        let mut outputs = Vec::new();
        for result in &results {
            let node = result.node();
            node.check_size()?;
            let number = tracer.add(node);
            let storage = Storage::planned(value_bytes(&node.shape, node.dtype));
            let external = tracer.external(&storage, node.dtype);
            tracer.output(number, external, 0);
            outputs.push(PlannedOutput { external, node: node.clone() });
        }
        let mut written = Vec::new();
        for (var, node) in &trace.pending {
            let number = tracer.add(node);
            let (storage, offset) = var.memory().get();
            let external = tracer.external(&storage, var.dtype);
            tracer.output(number, external, offset);
            written.push(var.clone());
        }
        let memories = memories.into_iter().map(|memory| (None, memory));
        let read = memories.chain(vars.iter().map(|var| (Some(var.name.clone()), var.memory())));
        let read = read.map(|(name, memory)| {
            let (storage, offset) = memory.get();
            Place { name, memory, storage, offset }
        });
        let read = read.collect();
        let plan = Arc::new(plan::plan(&tracer.program, options));
        let Tracer { program, storages, hosts, .. } = tracer;
        Ok(Self { program, plan, storages, hosts, inputs, outputs, written, read, vars })
    }

    /// What it takes to run it.
    pub(super) fn forecast(&self, counted: &mut Vec<Storage>) -> Forecast {
        let mut forecast = Forecast { activation_bytes: self.plan.slots.iter().sum(), ..Forecast::default() };
        for (number, storage) in self.storages.iter().enumerate() {
            if self.inputs.contains(&number) || self.outputs.iter().any(|output| output.external == number) {
                forecast.input_output_bytes += storage.bytes().max(1).next_multiple_of(16);
                continue;
            }
            if counted.contains(storage) {
                continue;
            }
            counted.push(storage.clone());
            let kinds = self.vars.iter().filter(|var| var.memory().get().0 == *storage).map(|var| var.kind);
            // an arena is state that holds parameters
            let bytes = match kinds.min_by_key(|kind| *kind == VarKind::State) {
                Some(VarKind::Parameter | VarKind::Buffer) => &mut forecast.model_bytes,
                Some(VarKind::State) => &mut forecast.state_bytes,
                None => &mut forecast.constant_bytes,
            };
            *bytes += storage.capacity();
        }
        forecast
    }

    /// Whether something it reads or writes has moved since. Assignments that wait are computed first.
    pub(super) fn is_stale(&self) -> Result<bool> {
        have_moved(&self.vars, &self.read)
    }

    /// Compiles it and gives it memory.
    pub(super) fn bind(&self, device: &Device, because: Option<String>) -> Result<Captured> {
        let mut storages = self.storages.clone();
        let mut inputs = Vec::new();
        for (number, &external) in self.inputs.iter().enumerate() {
            let storage = device.alloc(storages[external].bytes(), format!("input {number} of a step"))?;
            storages[external] = storage.clone();
            inputs.push(storage);
        }
        let mut outputs = Vec::new();
        for PlannedOutput { external, node } in &self.outputs {
            let storage = device.alloc(storages[*external].bytes(), Purpose::node(node))?;
            storages[*external] = storage.clone();
            let (shape, dtype) = (node.shape.clone(), node.dtype);
            outputs.push(OutputCell { storage, shape, dtype, holders: Vec::new() });
        }
        let bound = device.prepare(self.plan.clone())?.bind(&storages)?;
        Ok(Captured {
            program: self.program.clone(),
            plan: self.plan.clone(),
            bound,
            storages,
            hosts: self.hosts.clone(),
            inputs,
            outputs,
            written: self.written.clone(),
            vars: self.vars.clone(),
            because,
            used: 0,
            read: self.read.clone(),
        })
    }
}

impl Captured {
    /// Whether something it reads or writes has moved since it was bound. Assignments that wait are computed first.
    pub(super) fn is_stale(&self) -> Result<bool> {
        have_moved(&self.vars, &self.read)
    }

    /// What has moved since it was bound, in words.
    pub(super) fn moved(&self) -> String {
        let mut names = self.read.iter().filter(|place| place.has_moved()).map(|place| place.name.as_deref());
        let first =
            names.next().flatten().map_or("a tensor from outside".into(), |name| format!("the variable `{name}`"));
        match names.count() {
            0 => format!("{first} has moved in memory"),
            others => format!("{first} and {others} more have moved in memory"),
        }
    }
}

impl Drop for Captured {
    fn drop(&mut self) {
        if crate::debug::profile() {
            crate::debug::plan_done(&self.plan, &self.bound.kernel_times());
        }
    }
}

/// Whether one of `places` is not where it was, once the assignments to `vars` that wait are computed: that moves those who
/// hold an old value.
fn have_moved(vars: &[Arc<VarCell>], places: &[Place]) -> Result<bool> {
    vars.iter().try_for_each(|var| var.flush())?;
    Ok(places.iter().any(Place::has_moved))
}

impl Place {
    fn has_moved(&self) -> bool {
        !self.memory.is_at(&self.storage, self.offset)
    }
}

impl OutputCell {
    /// Moves everybody who holds the last value to a copy.
    pub(super) fn release(&mut self, device: &Device) -> Result<()> {
        self.holders.retain(WeakMemory::is_held);
        let alive: Vec<Memory> = self.holders.iter().filter_map(WeakMemory::upgrade).collect();
        if alive.is_empty() {
            return Ok(());
        }
        let bytes = (self.shape.numel() * self.dtype.size_bytes()) as u64;
        let copy = device.alloc_pooled(bytes, "a kept output of a step")?;
        device.copy(&self.storage, 0, &copy, 0, bytes)?;
        for memory in alive {
            memory.relocate(copy.clone(), 0);
        }
        self.holders.clear();
        Ok(())
    }

    pub(super) fn tensor(&mut self, device: &Device) -> Tensor {
        let memory = Memory::new(self.storage.clone(), 0);
        self.holders.push(memory.downgrade());
        Tensor::from_node(Node::leaf(Source::Memory(memory), self.shape.clone(), self.dtype, device))
    }
}

fn value_bytes(shape: &Shape, dtype: DType) -> u64 {
    (shape.numel() * dtype.size_bytes()) as u64
}

/// The variables and the tensors from outside that `roots` are computed from.
fn leaves<'a>(roots: impl Iterator<Item = &'a NodeRef>) -> (Vec<Arc<VarCell>>, Vec<Memory>) {
    let (mut vars, mut memories) = (Vec::new(), Vec::new());
    let mut seen = std::collections::HashSet::new();
    let mut stack: Vec<&NodeRef> = roots.collect();
    while let Some(node) = stack.pop() {
        if !seen.insert(node.id) {
            continue;
        }
        match &node.source {
            Some(Source::Var(var)) => vars.push(var.clone()),
            Some(Source::Memory(memory)) => memories.push(memory.clone()),
            _ => match node.value() {
                Some(memory) => memories.push(memory),
                None => stack.extend(&node.inputs),
            },
        }
    }
    (vars, memories)
}
