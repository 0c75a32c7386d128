//! Captured steps: traced once for the signature of their inputs, then only replayed.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use crate::device::{Device, Storage, TuneOptions, TuneProgress, TuneReport};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::{NodeRef, Program};
use crate::plan::{Plan, PlanOptions};
use crate::shape::Shape;
use crate::stage::Stage;
use crate::tensor::Tensor;
use crate::timing::spans::{SpanLog, WorkSpan};
use crate::timing::{KernelTime, StageTimes, TimeSource};

use super::capture::{Captured, Planned};
use super::eval::{options_for, realize};
use super::forecast::Forecast;
use super::signature::{Key, Signature};
use super::var::{Var, VarKind};

type Function = Box<dyn FnMut(&[Tensor]) -> Vec<Tensor> + Send>;

/// Signatures that a step stays captured for, unless it is told another number. Each has memory of its own for its
/// inputs, outputs and intermediate results: enough for the sizes of a few batches, in training and out of it.
const SIGNATURES: usize = 8;

/// A function of tensors that is traced once for each signature of inputs and then replayed without graph work.
///
/// What runs around [`run`](Self::run) on its thread belongs to the signature: within another
/// [`Mode`](crate::nn::Mode), [`no_grad`](crate::no_grad), [`autocast`](crate::tensor::autocast) or
/// [`freeze_statistics`](crate::nn::freeze_statistics) it is traced anew. What the closure does to the host, such as
/// [`set_learning_rate`](crate::optim::Optimizer::set_learning_rate) or counting, happens when it is traced, not in
/// every run: that belongs beside `run`.
///
/// Variables it assigns change when it runs. If anything in it was checked with [`super::check_finite`] (losses and
/// gradients are, by `backward` and the optimizers), a run in which a checked value is NaN or infinite changes nothing,
/// and neither does any run after it until [`Step::resume`]: a loop asks now and then with [`Step::ensure_finite`], where
/// it reads its loss anyway. An index or label out of range is no such check: it is
/// clamped, the run counts, and the next read from the device is [`Error::IndexOutOfRange`]; check data where it comes
/// from, as [`crate::data::Loader`] does. Products of f32 have the precision that was set when the step was made
/// ([`Device::set_matmul_precision`]).
///
/// ```
/// use brasa::runtime::{Step, Var};
/// use brasa::{Device, Tensor};
///
/// let device = Device::cpu();
/// let total = Var::state("total", &Tensor::zeros([2], &device))?;
/// let mine = total.clone();
/// let mut step = Step::new(&device, move |inputs| {
///     mine.assign(&(mine.tensor() + &inputs[0]));
///     vec![mine.tensor().sum()] // what was just assigned
/// })?;
/// let input = Tensor::from_slice(&[1.0_f32, 2.0], [2], &device)?;
/// assert_eq!(step.run(&[input.clone()])?[0].item::<f32>()?, 3.0);
/// assert_eq!(step.run(&[input])?[0].item::<f32>()?, 6.0);
/// assert_eq!(total.tensor().to_vec::<f32>()?, [2.0, 4.0]);
/// # Ok::<(), brasa::Error>(())
/// ```
pub struct Step {
    device: Device,
    function: Function,
    halted: Var,
    options: PlanOptions,
    /// Planned and not captured yet, the oldest first.
    planned: Vec<(Key, Planned)>,
    captured: HashMap<Key, Captured>,
    /// Most signatures that stay captured, and that stay planned.
    limit: usize,
    /// Grows with each use.
    clock: u64,
    runs: u64,
    /// Kernels are timed one by one.
    profiled: bool,
    /// What the host took to hand over inputs given as bytes, and what signatures took that were forgotten.
    times: StageTimes,
    /// Where it is noted when work was done.
    log: Option<Arc<SpanLog>>,
}

/// What a captured step consists of.
#[derive(Clone, Debug)]
pub struct StepInfo {
    /// Its plan.
    pub plan: Arc<Plan>,
    /// The program the plan was made from.
    pub program: Program,
    /// Why it was planned anew though the step had run before: what changed against the signature that is nearest.
    pub because: Option<String>,
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
            planned: Vec::new(),
            captured: HashMap::new(),
            limit: SIGNATURES,
            clock: 0,
            runs: 0,
            profiled: false,
            times: StageTimes::default(),
            log: None,
        })
    }

    /// Plans with other options than the device's own: for tests and experiments.
    #[must_use]
    pub fn with_options(mut self, change: impl FnOnce(&mut PlanOptions)) -> Self {
        change(&mut self.options);
        self
    }

    /// Stays captured for at most `limit` signatures of inputs (8 unless set, at least 1): when there is another one,
    /// that which was used longest ago is forgotten, and its memory given back.
    #[must_use]
    pub fn with_signature_limit(mut self, limit: usize) -> Self {
        self.limit = limit.max(1);
        self
    }

    /// Runs the step. The outputs are snapshots: they keep their values when it runs again.
    ///
    /// # Errors
    /// If the device fails, or the function kept a tensor of an earlier trace and uses it.
    ///
    /// # Panics
    /// If an input is on another device.
    #[track_caller]
    pub fn run(&mut self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let key = Key::now(inputs_signature(inputs));
        let device = self.device.clone();
        let _exclusive = device.exclusive();
        self.take_inputs(&key, inputs)?;
        self.replay(&key)
    }

    /// Copies `inputs` to where the captured step reads them.
    #[track_caller]
    fn take_inputs(&mut self, key: &Key, inputs: &[Tensor]) -> Result<()> {
        for input in inputs {
            let (name, own) = (input.device().name(), self.device.name());
            assert!(*input.device() == self.device, "a step on {own} got an input on {name}: move it with to_device");
        }
        let nodes: Vec<NodeRef> = inputs.iter().map(|input| input.node().clone()).collect();
        realize(&nodes)?;
        let captured = self.captured(key)?;
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
    pub fn run_bytes<S: Borrow<Shape>>(&mut self, inputs: &[(S, DType, &[u8])]) -> Result<Vec<Tensor>> {
        let signature: Signature = inputs.iter().map(|(shape, dtype, _)| (shape.borrow().clone(), *dtype)).collect();
        let key = Key::now(signature);
        for (shape, dtype, bytes) in inputs {
            check_input(shape.borrow(), *dtype, bytes)?;
        }
        let device = self.device.clone();
        let _exclusive = device.exclusive();
        let captured = self.captured(&key)?;
        let start = Instant::now();
        for ((_, dtype, bytes), storage) in inputs.iter().zip(&captured.inputs) {
            device.write(storage, 0, &dtype.canonical(bytes))?;
        }
        let end = Instant::now();
        self.times.add(Stage::Upload, (end - start).as_secs_f64() * 1e3, TimeSource::WallClock);
        if let Some(log) = &self.log {
            log.push(WorkSpan { stage: Stage::Upload, start, end, number: log.number() });
        }
        self.replay(&key)
    }

    /// Traces, plans and compiles for inputs of these shapes and types, without running.
    ///
    /// # Errors
    /// If the device fails.
    pub fn prepare(&mut self, inputs: &[(Shape, DType)]) -> Result<StepInfo> {
        let captured = self.captured(&Key::now(inputs.to_vec()))?;
        Ok(StepInfo {
            plan: captured.plan.clone(),
            program: captured.program.clone(),
            because: captured.because.clone(),
        })
    }

    /// Measures on the device which variant of each matrix product and convolution in it is the fastest for inputs of
    /// these shapes and types, and remembers it for devices that are opened from now on: this one, and steps that run
    /// on it, stay as they are. All variants give the same bits. It takes as much memory as the step itself, neither
    /// runs it nor changes any variable, and has to be done once for an adapter and a driver. Other work on the device
    /// waits until it is done. On the CPU backend there is nothing to measure.
    ///
    /// ```
    /// use brasa::device::TuneOptions;
    /// use brasa::runtime::Step;
    /// use brasa::{DType, Device};
    ///
    /// let mut step = Step::new(&Device::cpu(), |inputs| vec![inputs[0].matmul(&inputs[0])])?;
    /// let report = step.tune(&[([64, 64].into(), DType::F32)], &TuneOptions::default(), &mut |_| {})?;
    /// assert!(report.kernels.is_empty(), "the CPU backend has no variants");
    /// # Ok::<(), brasa::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the device fails or has no memory.
    pub fn tune(
        &mut self,
        inputs: &[(Shape, DType)],
        options: &TuneOptions,
        tell: &mut dyn FnMut(TuneProgress),
    ) -> Result<TuneReport> {
        let key = Key::now(inputs.to_vec());
        let planned = self.take_planned(&key)?;
        let externals: Vec<u64> = planned.traced.storages.iter().map(Storage::bytes).collect();
        let report = self.device.tune(&planned.plan, &externals, options, tell);
        self.keep_planned(key, planned);
        report
    }

    /// Whether a run met a NaN or infinity and the step has stood still since. Waits for the device.
    ///
    /// # Errors
    /// If the device fails.
    pub fn halted(&self) -> Result<bool> {
        Ok(self.halted.tensor().item::<u32>()? != 0)
    }

    /// Fails if a run met a NaN or infinity and the step has stood still since, as [`Step::halted`] says. Waits for the
    /// device: for loops of one's own to ask where they read their losses, as every epoch.
    ///
    /// ```
    /// use brasa::nn::{Init, Linear, Module};
    /// use brasa::optim::{Optimizer, SGD, SGDOptions};
    /// use brasa::runtime::Step;
    /// use brasa::{Device, Error, Tensor};
    ///
    /// let device = Device::cpu();
    /// let layer = Linear::new(2, 1, &Init::new(&device, 1))?;
    /// let optimizer = SGD::new(&layer.parameters(), SGDOptions::default())?;
    /// let mut step = Step::new(&device, move |inputs| {
    ///     let loss = layer.forward(&inputs[0]).square().mean();
    ///     optimizer.update(&loss.backward());
    ///     vec![loss]
    /// })?;
    /// step.run(&[Tensor::ones([4, 2], &device)])?;
    /// step.ensure_finite()?;
    /// step.run(&[Tensor::full([4, 2], f32::NAN, &device)])?;
    /// assert!(matches!(step.ensure_finite(), Err(Error::NonFinite { .. })));
    /// # Ok::<(), brasa::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NonFinite`], or if the device fails.
    pub fn ensure_finite(&self) -> Result<()> {
        if !self.halted()? {
            return Ok(());
        }
        let message = "a loss or gradient of this or an earlier step is NaN or infinite, and nothing has been learned \
                       since (Step::diagnose tells where it comes from, Step::resume goes on)";
        Err(Error::NonFinite { step: self.runs, message: message.to_owned() })
    }

    /// Halts with `other`, and `other` with it: a step in several parts, of which none may count if one does not. To be
    /// called before the first run.
    #[must_use]
    pub fn halting_with(mut self, other: &Self) -> Self {
        self.halted = other.halted.clone();
        self
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
        let mut times = std::mem::take(&mut self.times);
        for captured in self.captured.values_mut() {
            times.merge(&captured.bound.stage_times());
        }
        times
    }

    /// Notes in `log` when inputs were copied and when each stage ran, from now on.
    pub(crate) fn note_spans(&mut self, log: &Arc<SpanLog>) {
        self.log = Some(Arc::clone(log));
        for captured in self.captured.values_mut() {
            captured.bound.note_spans(log);
        }
    }

    /// Times every kernel by itself from now on (or not). Steps run slower meanwhile.
    pub fn profile_kernels(&mut self, on: bool) {
        self.profiled = on;
        for captured in self.captured.values_mut() {
            captured.bound.profile_kernels(on);
        }
    }

    /// What each kernel took, over the runs since profiling began, in the order of the plans.
    pub fn kernel_times(&mut self) -> Vec<KernelTime> {
        self.captured.values_mut().flat_map(|captured| captured.bound.kernel_times()).collect()
    }

    /// The same of the kernels for inputs of `signature` only.
    pub(crate) fn kernel_times_for(&mut self, signature: &Signature) -> Vec<KernelTime> {
        self.captured
            .get_mut(&Key::now(signature.clone()))
            .map(|captured| captured.bound.kernel_times())
            .unwrap_or_default()
    }

    /// Finds where the first non-finite value appears for these inputs, by running every node on its own. Changes no
    /// state.
    ///
    /// # Errors
    /// If the device fails.
    pub fn diagnose(&mut self, inputs: &[Tensor]) -> Result<Option<String>> {
        let key = Key::now(inputs_signature(inputs));
        let device = self.device.clone();
        let _exclusive = device.exclusive();
        self.take_inputs(&key, inputs)?;
        let options = self.options;
        let captured = self.captured(&key)?;
        super::diagnose::first_non_finite(&device, &captured.program, &captured.storages, &captured.hosts, &options)
    }

    /// The memory that the step takes once it is captured for all of `signatures`, which must not be more than its
    /// limit. It is traced and planned for those that are new, and takes no memory yet.
    ///
    /// # Errors
    /// If the device fails.
    pub fn forecast(&mut self, signatures: &[Signature]) -> Result<Forecast> {
        let mut counted = Vec::new();
        let mut sum = Forecast::default();
        for signature in signatures {
            let key = Key::now(signature.clone());
            let planned = self.take_planned(&key)?;
            sum = sum + planned.forecast(&mut counted);
            self.keep_planned(key, planned);
        }
        Ok(sum)
    }

    fn captured(&mut self, key: &Key) -> Result<&mut Captured> {
        if self.captured.get(key).map_or(Ok(true), Captured::is_stale)? {
            self.capture(key)?;
        }
        self.clock += 1;
        let captured = self.captured.get_mut(key).expect("it was just inserted");
        captured.used = self.clock;
        Ok(captured)
    }

    /// Plans the step for `key`, unless that was done, and gives it memory.
    fn capture(&mut self, key: &Key) -> Result<()> {
        let planned = self.take_planned(key)?;
        let because = self.why_not_reused(key, &planned.traced.program);
        crate::debug::plan_made(&planned.traced.program, &planned.plan, because.as_deref());
        // first, so that their memory can be used
        self.forget(key);
        while self.captured.len() >= self.limit {
            let oldest = self.captured.iter().min_by_key(|(_, captured)| captured.used);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { break };
            self.forget(&oldest);
        }
        match planned.bind(&self.device, because) {
            Ok(mut captured) => {
                if self.profiled {
                    captured.bound.profile_kernels(true);
                }
                if let Some(log) = &self.log {
                    captured.bound.note_spans(log);
                }
                self.captured.insert(key.clone(), captured);
                Ok(())
            }
            Err(error) => {
                self.keep_planned(key.clone(), planned);
                Err(error)
            }
        }
    }

    /// The plan for `key`, made now unless there is one that is up to date.
    fn take_planned(&mut self, key: &Key) -> Result<Planned> {
        let place = self.planned.iter().position(|(known, _)| known == key);
        match place.map(|place| self.planned.remove(place).1) {
            Some(planned) if !planned.is_stale()? => Ok(planned),
            _ => Planned::new(&self.device, &mut self.function, &key.signature, &self.halted, &self.options),
        }
    }

    /// Keeps a plan for later, in the place of the oldest one if there are too many.
    fn keep_planned(&mut self, key: Key, planned: Planned) {
        if self.planned.len() >= self.limit {
            self.planned.remove(0);
        }
        self.planned.push((key, planned));
    }

    /// What keeps a plan of the step from being used for `key`, whose program is `program`.
    fn why_not_reused(&self, key: &Key, program: &Program) -> Option<String> {
        match self.captured.get(key) {
            Some(stale) => Some(program.difference(&stale.program).unwrap_or_else(|| stale.moved())),
            None => super::signature::change(key, self.captured.keys()),
        }
    }

    /// Drops what was captured for `key`, but for its times.
    fn forget(&mut self, key: &Key) {
        if let Some(mut captured) = self.captured.remove(key) {
            self.times.merge(&captured.bound.stage_times());
        }
    }

    fn replay(&mut self, key: &Key) -> Result<Vec<Tensor>> {
        let device = self.device.clone();
        let captured = self.captured.get_mut(key).expect("captured before it is replayed");
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

fn inputs_signature(inputs: &[Tensor]) -> Signature {
    inputs.iter().map(|input| (input.shape().clone(), input.dtype())).collect()
}

/// An error if these are not as many bytes as an input takes.
pub(crate) fn check_input(shape: &Shape, dtype: DType, bytes: &[u8]) -> Result<()> {
    let (needed, got) = (shape.bytes(dtype), bytes.len());
    if got as u64 == needed {
        return Ok(());
    }
    Err(Error::Shape(format!("a step's input {dtype} {shape} takes {needed} bytes, not {got}")))
}
