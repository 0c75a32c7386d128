//! The trace of a step for one signature: planned first, which takes no memory, then bound to memory.

use std::sync::Arc;

use crate::device::{Bound, Device, Purpose, Storage};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::{HostValue, Memory, Node, Program, Source, WeakMemory};
use crate::plan::{self, Plan, PlanOptions};
use crate::shape::Shape;
use crate::tensor::Tensor;

use super::cell::VarCell;
use super::forecast::Forecast;
use super::signature::Signature;
use super::traced::Traced;
use super::var::{Var, VarKind};

/// A trace and its plan. Where inputs and outputs will lie is not there yet.
pub(super) struct Planned {
    pub(super) traced: Traced,
    pub(super) plan: Arc<Plan>,
    read: Vec<Place>,
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
        // or what the trace reads might move before its place is noted
        let exclusive = device.exclusive();
        let traced = Traced::gated(device, signature, function, halted)?;
        let memories = traced.memories.iter().map(|memory| (None, memory.clone()));
        let vars = traced.vars.iter().map(|var| (Some(var.name.clone()), var.memory()));
        let read = memories.chain(vars).map(|(name, memory)| {
            let (storage, offset) = memory.get();
            Place { name, memory, storage, offset }
        });
        let read = read.collect();
        drop(exclusive);
        let plan = Arc::new(plan::plan(&traced.program, options));
        Ok(Self { traced, plan, read })
    }

    /// What it takes to run it.
    pub(super) fn forecast(&self, counted: &mut Vec<Storage>) -> Forecast {
        let mut forecast = Forecast { activation_bytes: self.plan.slots.iter().sum(), ..Forecast::default() };
        for (number, storage) in self.traced.storages.iter().enumerate() {
            let is_input = number < self.traced.inputs.len();
            if is_input || self.traced.outputs().any(|(_, external)| external == number) {
                forecast.input_output_bytes += storage.bytes().max(1).next_multiple_of(16);
                continue;
            }
            if counted.contains(storage) {
                continue;
            }
            counted.push(storage.clone());
            let kinds = self.traced.vars.iter().filter(|var| var.memory().get().0 == *storage).map(|var| var.kind);
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
        have_moved(&self.traced.vars, &self.read)
    }

    /// Compiles it and gives it memory.
    pub(super) fn bind(&self, device: &Device, because: Option<String>) -> Result<Captured> {
        let traced = &self.traced;
        let mut storages = traced.storages.clone();
        let mut inputs = Vec::new();
        for (number, storage) in storages[..traced.inputs.len()].iter_mut().enumerate() {
            *storage = device.alloc(storage.bytes(), format!("input {number} of a step"))?;
            inputs.push(storage.clone());
        }
        let mut outputs = Vec::new();
        for (node, external) in traced.outputs() {
            let storage = device.alloc(storages[external].bytes(), Purpose::node(node))?;
            storages[external] = storage.clone();
            let (shape, dtype) = (node.shape.clone(), node.dtype);
            outputs.push(OutputCell { storage, shape, dtype, holders: Vec::new() });
        }
        let bound = device.prepare(self.plan.clone())?.bind(&storages)?;
        Ok(Captured {
            program: traced.program.clone(),
            plan: self.plan.clone(),
            bound,
            storages,
            hosts: traced.hosts.clone(),
            inputs,
            outputs,
            written: traced.written.clone(),
            vars: traced.vars.clone(),
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

    /// The input or variable that lies in external storage `external` from element `offset` on, in words.
    pub(super) fn name_of(&self, external: usize, offset: usize, shape: &Shape) -> Option<String> {
        if external < self.inputs.len() {
            return Some(format!("input {external}"));
        }
        let lies_there =
            |var: &&Arc<VarCell>| var.shape == *shape && var.memory().is_at(&self.storages[external], offset);
        self.vars.iter().find(lies_there).map(|var| format!("the variable `{}`", var.name))
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

/// Whether one of `places` is not where it was, once the assignments to `vars` that wait are computed: that moves those
/// who hold an old value.
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
        let bytes = self.shape.bytes(self.dtype);
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
