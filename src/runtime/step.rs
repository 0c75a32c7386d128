//! Captured steps: traced once for the signature of their inputs, then only replayed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;

use crate::device::{Bound, Device, Storage};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::{HostValue, Memory, Node, NodeRef, Program, Source, Tracer};
use crate::plan::{self, Plan, PlanOptions};
use crate::shape::Shape;
use crate::stage::Stage;
use crate::tensor::Tensor;
use crate::timing::{KernelTime, StageTimes, TimeSource};

use super::eval::{options_for, realize};
use super::trace;
use super::var::{Var, VarCell, VarKind};

type Signature = Vec<(Shape, DType)>;
type Function = Box<dyn FnMut(&[Tensor]) -> Vec<Tensor> + Send>;

/// A function of tensors that is traced once for each signature of inputs and then replayed without graph work.
///
/// Variables it assigns change when it runs. If anything in it was checked with [`super::check_finite`] (losses and
/// gradients are, by `backward` and the optimizers), a run in which a checked value is NaN or infinite changes nothing,
/// and neither does any run after it until [`Step::resume`].
pub struct Step {
    device: Device,
    function: Function,
    halted: Var,
    options: PlanOptions,
    captured: HashMap<Signature, Captured>,
    runs: u64,
    /// What the host took to hand over inputs given as bytes.
    uploads: StageTimes,
}

/// One signature's trace, compiled and bound.
struct Captured {
    program: Program,
    plan: Arc<Plan>,
    bound: Bound,
    storages: Vec<Storage>,
    hosts: Vec<Arc<HostValue>>,
    inputs: Vec<Storage>,
    outputs: Vec<OutputCell>,
    written: Vec<Arc<VarCell>>,
    /// Variables and captured tensors, with the storage they had when bound.
    read: Vec<(Memory, Storage, usize)>,
    vars: Vec<Arc<VarCell>>,
}

/// An output's memory, and who still holds its last value.
struct OutputCell {
    storage: Storage,
    shape: Shape,
    dtype: DType,
    holders: Vec<Weak<Mutex<(Storage, usize)>>>,
}

/// What a captured step consists of.
#[derive(Clone, Debug)]
pub struct StepInfo {
    /// Its plan.
    pub plan: Arc<Plan>,
    /// The program the plan was made from.
    pub program: Program,
}

impl Step {
    /// A step on `device`. `function` is called once for each new signature of inputs.
    ///
    /// # Errors
    /// If the device fails.
    pub fn new(device: &Device, function: impl FnMut(&[Tensor]) -> Vec<Tensor> + Send + 'static) -> Result<Self> {
        let zero = Tensor::scalar(0u32, device);
        Ok(Self {
            device: device.clone(),
            function: Box::new(function),
            halted: Var::new("halted", VarKind::State, &zero)?,
            options: options_for(device),
            captured: HashMap::new(),
            runs: 0,
            uploads: StageTimes::default(),
        })
    }

    /// Plans with other options than the device's own: for tests and experiments.
    #[must_use]
    pub fn with_options(mut self, change: impl FnOnce(&mut PlanOptions)) -> Self {
        change(&mut self.options);
        self
    }

    /// Runs the step. The outputs are snapshots: they keep their values when it runs again.
    ///
    /// # Errors
    /// If the device fails.
    ///
    /// # Panics
    /// If an input is on another device.
    #[track_caller]
    pub fn run(&mut self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let signature = inputs_signature(inputs);
        let device = self.device.clone();
        let _exclusive = device.exclusive();
        self.take_inputs(&signature, inputs)?;
        self.replay(&signature)
    }

    /// Copies `inputs` to where the captured step reads them.
    #[track_caller]
    fn take_inputs(&mut self, signature: &Signature, inputs: &[Tensor]) -> Result<()> {
        for input in inputs {
            let (name, own) = (input.device().name(), self.device.name());
            assert!(*input.device() == self.device, "a step on {own} got an input on {name}: move it with to_device");
        }
        let nodes: Vec<NodeRef> = inputs.iter().map(|input| input.node().clone()).collect();
        realize(&nodes)?;
        let captured = self.captured(signature.clone())?;
        for (node, storage) in nodes.iter().zip(&captured.inputs) {
            let (from, offset) = node.value().expect("it was just computed").get();
            let size = node.dtype.size_bytes();
            let bytes = (node.shape.numel() * size) as u64;
            node.device.copy(&from, (offset * size) as u64, storage, 0, bytes)?;
        }
        Ok(())
    }

    /// Runs the step on inputs given as bytes, in the order, shapes and types of `signature`: no tensors are made.
    ///
    /// # Errors
    /// If the device fails.
    pub fn run_bytes(&mut self, inputs: &[(&Shape, DType, &[u8])]) -> Result<Vec<Tensor>> {
        let signature: Signature = inputs.iter().map(|(shape, dtype, _)| ((*shape).clone(), *dtype)).collect();
        for (shape, dtype, bytes) in inputs {
            let needed = shape.numel() * dtype.size_bytes();
            if bytes.len() != needed {
                let got = bytes.len();
                return Err(Error::Shape(format!("a step's input {dtype} {shape} takes {needed} bytes, not {got}")));
            }
        }
        let device = self.device.clone();
        let _exclusive = device.exclusive();
        let captured = self.captured(signature.clone())?;
        let start = Instant::now();
        for ((_, _, bytes), storage) in inputs.iter().zip(&captured.inputs) {
            device.write(storage, 0, bytes)?;
        }
        self.uploads.add(Stage::Upload, start.elapsed().as_secs_f64() * 1e3, TimeSource::WallClock);
        self.replay(&signature)
    }

    /// Traces, plans and compiles for inputs of these shapes and types, without running.
    ///
    /// # Errors
    /// If the device fails.
    pub fn prepare(&mut self, inputs: &[(Shape, DType)]) -> Result<StepInfo> {
        let captured = self.captured(inputs.to_vec())?;
        Ok(StepInfo { plan: captured.plan.clone(), program: captured.program.clone() })
    }

    /// Whether a run met a NaN or infinity and the step has stood still since. Waits for the device.
    ///
    /// # Errors
    /// If the device fails.
    pub fn halted(&self) -> Result<bool> {
        Ok(self.halted.tensor().item::<u32>()? != 0)
    }

    /// The halt word as a tensor, for reading it late together with other values.
    pub fn halt_word(&self) -> Tensor {
        self.halted.tensor()
    }

    /// Lets the step change state again after it halted.
    ///
    /// # Errors
    /// If the device fails.
    pub fn resume(&mut self) -> Result<()> {
        self.halted.set(&Tensor::scalar(0u32, &self.device))
    }

    /// Number of runs so far.
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// Milliseconds per stage since the last call, over all signatures.
    pub fn stage_times(&mut self) -> StageTimes {
        let mut times = std::mem::take(&mut self.uploads);
        for captured in self.captured.values_mut() {
            times.merge(&captured.bound.stage_times());
        }
        times
    }

    /// Times every kernel by itself from now on (or not). Steps run slower meanwhile.
    pub fn profile_kernels(&mut self, on: bool) {
        for captured in self.captured.values_mut() {
            captured.bound.profile_kernels(on);
        }
    }

    /// What each kernel took, over the runs since profiling began, in the order of the plans.
    pub fn kernel_times(&mut self) -> Vec<KernelTime> {
        self.captured.values_mut().flat_map(|captured| captured.bound.kernel_times()).collect()
    }

    /// Finds where the first non-finite value appears for these inputs, by running every node on its own. Changes no
    /// state.
    ///
    /// # Errors
    /// If the device fails.
    pub fn diagnose(&mut self, inputs: &[Tensor]) -> Result<Option<String>> {
        let signature = inputs_signature(inputs);
        let device = self.device.clone();
        let _exclusive = device.exclusive();
        self.take_inputs(&signature, inputs)?;
        let options = PlanOptions { fuse: false, ..self.options };
        let captured = self.captured(signature)?;
        super::diagnose::first_non_finite(&device, &captured.program, &captured.storages, &captured.hosts, &options)
    }

    fn captured(&mut self, signature: Signature) -> Result<&mut Captured> {
        if let Some(captured) = self.captured.get(&signature) {
            // before looking: an assignment that waits moves those who hold the old value
            captured.vars.iter().try_for_each(|var| var.flush())?;
        }
        let stale = match self.captured.get(&signature) {
            Some(captured) => captured.read.iter().any(|(memory, storage, offset)| {
                let (now, now_offset) = memory.get();
                now != *storage || now_offset != *offset
            }),
            None => true,
        };
        if stale {
            let captured = self.capture(&signature)?;
            self.captured.insert(signature.clone(), captured);
        }
        Ok(self.captured.get_mut(&signature).expect("it was just inserted"))
    }

    fn capture(&mut self, signature: &Signature) -> Result<Captured> {
        let device = self.device.clone();
        let mut inputs = Vec::new();
        let mut placeholders = Vec::new();
        for (slot, (shape, dtype)) in signature.iter().enumerate() {
            let bytes = (shape.numel() * dtype.size_bytes()) as u64;
            inputs.push(device.alloc(bytes, "a step's input")?);
            placeholders.push(Tensor::from_node(Node::leaf(Source::Input(slot), shape.clone(), *dtype, &device)));
        }
        let halted = self.halted.clone();
        let function = &mut self.function;
        let (results, trace) = trace::collect(|| {
            let results = function(&placeholders);
            let gates = trace::with(|trace| std::mem::take(&mut trace.checked)).unwrap_or_default();
            if !gates.is_empty() {
                Stage::Update.scope(|| gate(&halted, &gates));
            }
            results
        });
        let mut tracer = Tracer::default();
        for (slot, storage) in inputs.iter().enumerate() {
            tracer.bind_input(slot, storage, signature[slot].1);
        }
        let mut outputs = Vec::new();
        for result in &results {
            let node = result.node();
            let number = tracer.add(node);
            let bytes = (node.shape.numel() * node.dtype.size_bytes()) as u64;
            let storage = device.alloc(bytes, "a step's output")?;
            let external = tracer.external(&storage, node.dtype);
            tracer.output(number, external, 0);
            let (shape, dtype) = (node.shape.clone(), node.dtype);
            outputs.push(OutputCell { storage, shape, dtype, holders: Vec::new() });
        }
        let mut written = Vec::new();
        let roots = results.iter().map(|result| result.node()).chain(trace.pending.iter().map(|(_, node)| node));
        let (mut vars, memories) = leaves(roots);
        for (var, node) in &trace.pending {
            var.flush()?;
            let number = tracer.add(node);
            let (storage, offset) = var.memory().get();
            let external = tracer.external(&storage, var.dtype);
            tracer.output(number, external, offset);
            written.push(var.clone());
        }
        vars.extend(written.iter().cloned());
        vars.sort_by_key(|var| var.id);
        vars.dedup_by_key(|var| var.id);
        let memories = memories.into_iter().chain(vars.iter().map(|var| var.memory()));
        let read = memories.map(|memory| {
            let (storage, offset) = memory.get();
            (memory, storage, offset)
        });
        let read = read.collect();
        let plan = Arc::new(plan::plan(&tracer.program, &self.options));
        let previous = self.captured.values().next().map(|captured| &captured.program);
        crate::debug::plan_made(&tracer.program, &plan, previous);
        let bound = device.prepare(plan.clone())?.bind(&tracer.storages)?;
        Ok(Captured {
            program: tracer.program,
            plan,
            bound,
            storages: tracer.storages,
            hosts: tracer.hosts,
            inputs,
            outputs,
            written,
            read,
            vars,
        })
    }

    fn replay(&mut self, signature: &Signature) -> Result<Vec<Tensor>> {
        let device = self.device.clone();
        let captured = self.captured.get_mut(signature).expect("captured before it is replayed");
        for var in &captured.written {
            var.release_snapshots()?;
        }
        for output in &mut captured.outputs {
            output.release(&device)?;
        }
        let uniforms: Vec<u32> = captured.hosts.iter().map(|host| host.get()).collect();
        if crate::debug::validate() {
            super::validate::run(&device, &captured.plan, &captured.storages, &uniforms)?;
        } else {
            captured.bound.run(&uniforms)?;
        }
        self.runs += 1;
        Ok(captured.outputs.iter_mut().map(|output| output.tensor(&device)).collect())
    }
}

impl Drop for Captured {
    fn drop(&mut self) {
        if crate::debug::profile() {
            crate::debug::plan_done(&self.plan, &self.bound.kernel_times());
        }
    }
}

impl OutputCell {
    /// Moves everybody who holds the last value to a copy.
    fn release(&mut self, device: &Device) -> Result<()> {
        self.holders.retain(|holder| holder.strong_count() > 0);
        let alive: Vec<Memory> = self.holders.iter().filter_map(Memory::upgrade).collect();
        if alive.is_empty() {
            return Ok(());
        }
        let bytes = (self.shape.numel() * self.dtype.size_bytes()) as u64;
        let copy = device.alloc(bytes, "a kept output of a step")?;
        device.copy(&self.storage, 0, &copy, 0, bytes)?;
        for memory in alive {
            memory.relocate(copy.clone(), 0);
        }
        self.holders.clear();
        Ok(())
    }

    fn tensor(&mut self, device: &Device) -> Tensor {
        let memory = Memory::new(self.storage.clone(), 0);
        self.holders.push(memory.downgrade());
        Tensor::from_node(Node::leaf(Source::Memory(memory), self.shape.clone(), self.dtype, device))
    }
}

fn inputs_signature(inputs: &[Tensor]) -> Signature {
    inputs.iter().map(|input| (input.shape().clone(), input.dtype())).collect()
}

/// Makes every pending assignment depend on all of `checked` being finite and on the step not having halted before.
fn gate(halted: &Var, checked: &[NodeRef]) {
    let before = halted.tensor();
    let bad = checked
        .iter()
        .map(|value| {
            let value = Tensor::from_node(value.clone());
            value.isfinite().logical_not().any().to_dtype(DType::U32)
        })
        .reduce(|a, b| a.maximum(&b))
        .expect("something is checked");
    let after = before.maximum(&bad);
    let ok = after.eq(0u32);
    let pending = trace::with(|trace| std::mem::take(&mut trace.pending)).unwrap_or_default();
    let gated: Vec<(Arc<VarCell>, NodeRef)> = pending
        .into_iter()
        .map(|(var, node)| {
            let old = trace::with(|trace| trace.before(&var)).expect("a trace is under way");
            let condition = ok.expand(node.shape.clone());
            let value = condition.where_(Tensor::from_node(node), Tensor::from_node(old));
            (var, value.node().clone())
        })
        .collect();
    trace::with(|trace| {
        trace.pending = gated;
        trace.write(&halted.0, after.node().clone());
    });
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
