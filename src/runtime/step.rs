//! Captured steps: traced once for the signature of their inputs, then only replayed.

use std::borrow::Borrow;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::Instant;

use crate::device::{Device, Storage, TuneOptions, TuneProgress, TuneReport};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::{NodeRef, Program};
use crate::plan::{Plan, PlanOptions};
use crate::shape::Shape;
use crate::tensor::Tensor;
use crate::timing::spans::SpanLog;
use crate::timing::{KernelTime, StageTimes};

use super::capture::{Captured, Planned};
use super::captures::Captures;
use super::eval::{options_for, realize};
use super::forecast::Forecast;
use super::signature::{Key, Signature};
use super::trace;
use super::var::{Var, VarKind};

type Function = Box<dyn FnMut(&[Tensor]) -> Vec<Tensor> + Send>;

/// A function of tensors that is traced once for each signature of inputs and then replayed without graph work.
///
/// What runs around [`run`](Self::run) on its thread belongs to the signature: within another
/// [`Mode`](crate::nn::Mode), [`no_grad`](crate::no_grad), [`autocast`](crate::tensor::autocast) or
/// [`freeze_statistics`](crate::nn::freeze_statistics) it is traced anew. What the closure does to the host, such as
/// [`set_learning_rate`](crate::optim::Optimizer::set_learning_rate) or counting, happens when it is traced, not in
/// every run: that belongs beside `run`. So does running another step, which is refused while a step is traced
/// ([`Error::StepInStep`]).
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
    captures: Captures,
    runs: u64,
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Step").field("device", &self.device).field("runs", &self.runs).finish_non_exhaustive()
    }
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
            captures: Captures::default(),
            runs: 0,
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
        self.captures.set_limit(limit.max(1));
        self
    }

    /// Runs the step. The outputs are snapshots: they keep their values when it runs again.
    ///
    /// # Errors
    /// If the device fails, or the function kept a tensor of an earlier trace and uses it; within another step, which
    /// would not repeat it.
    ///
    /// # Panics
    /// If an input is on another device.
    #[track_caller]
    pub fn run(&mut self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let key = key_now(inputs_signature(inputs))?;
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
    /// As [`run`](Self::run), or if an input has not as many bytes as it takes.
    #[track_caller]
    pub fn run_bytes<S: Borrow<Shape>>(&mut self, inputs: &[(S, DType, &[u8])]) -> Result<Vec<Tensor>> {
        let signature: Signature = inputs.iter().map(|(shape, dtype, _)| (shape.borrow().clone(), *dtype)).collect();
        let key = key_now(signature)?;
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
        self.captures.note_upload(start, end);
        self.replay(&key)
    }

    /// Traces, plans and compiles for inputs of these shapes and types, without running.
    ///
    /// # Errors
    /// If the device fails, or within another step.
    #[track_caller]
    pub fn prepare(&mut self, inputs: &[(Shape, DType)]) -> Result<StepInfo> {
        let key = key_now(inputs.to_vec())?;
        let captured = self.captured(&key)?;
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
    /// If the device fails or has no memory, or within another step.
    #[track_caller]
    pub fn tune(
        &mut self,
        inputs: &[(Shape, DType)],
        options: &TuneOptions,
        tell: &mut dyn FnMut(TuneProgress),
    ) -> Result<TuneReport> {
        let key = key_now(inputs.to_vec())?;
        let planned = self.take_planned(&key)?;
        let externals: Vec<u64> = planned.traced.storages.iter().map(Storage::bytes).collect();
        let report = self.device.tune(&planned.plan, &externals, options, tell);
        self.captures.keep_planned(key, planned);
        report
    }

    /// Whether a run met a NaN or infinity and the step has stood still since. Waits for the device.
    ///
    /// # Errors
    /// If the device fails.
    pub fn halted(&self) -> Result<bool> {
        Ok(self.halted.tensor().item::<u32>()? != 0)
    }

    /// Fails if a run met a NaN or infinity and the step has stood still since, as [`Step::halted`] says: in which run, is
    /// not known. Waits for the device: for loops of one's own to ask where they read their losses, as every epoch.
    ///
    /// ```
    /// use brasa::nn::{Init, Linear, Module, Variables};
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
    /// assert!(matches!(step.ensure_finite(), Err(Error::Halted { runs: 2 })));
    /// # Ok::<(), brasa::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Halted`], or if the device fails.
    pub fn ensure_finite(&self) -> Result<()> {
        if self.halted()? { Err(Error::Halted { runs: self.runs }) } else { Ok(()) }
    }

    /// Halts with `other`, and `other` with it: a step in several parts, of which none may count if one does not.
    ///
    /// # Panics
    /// If the step was run, prepared or planned already, as its plans would halt by themselves, or `other` is on
    /// another device.
    #[must_use]
    #[track_caller]
    pub fn halting_with(mut self, other: &Self) -> Self {
        let (own, others) = (self.device.name(), other.device.name());
        assert!(self.device == other.device, "halting_with: a step on {own} cannot halt with one on {others}");
        assert!(self.captures.is_empty(), "halting_with: the step was traced already: call it before anything else");
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
        self.captures.stage_times()
    }

    /// Notes in `log` when inputs were copied and when each stage ran, from now on.
    pub(crate) fn note_spans(&mut self, log: &Arc<SpanLog>) {
        self.captures.note_spans(log);
    }

    /// Times every kernel by itself from now on (or not). Steps run slower meanwhile.
    pub fn profile_kernels(&mut self, on: bool) {
        self.captures.profile_kernels(on);
    }

    /// What each kernel took, over the runs since profiling began: of each signature in the order of its plan, and of
    /// the signature first that was captured first.
    pub fn kernel_times(&mut self) -> Vec<KernelTime> {
        self.captures.kernel_times()
    }

    /// The same of the kernels for inputs of `signature` only.
    pub(crate) fn kernel_times_for(&mut self, signature: &Signature) -> Vec<KernelTime> {
        self.captures.kernel_times_for(&Key::now(signature.clone()))
    }

    /// Finds where the first non-finite value appears for these inputs, in words: the input or variable that has one
    /// already, if there is one, and the first op that makes one, by running every node on its own. Changes no state.
    ///
    /// # Errors
    /// If the device fails, or within another step.
    ///
    /// # Panics
    /// If an input is on another device.
    #[track_caller]
    pub fn diagnose(&mut self, inputs: &[Tensor]) -> Result<Option<String>> {
        let key = key_now(inputs_signature(inputs))?;
        let device = self.device.clone();
        let _exclusive = device.exclusive();
        self.take_inputs(&key, inputs)?;
        let options = self.options;
        let captured = self.captured(&key)?;
        super::diagnose::first_non_finite(&device, captured, &options)
    }

    /// The memory that the step takes once it is captured for all of `signatures`, which must not be more than its
    /// limit. It is traced and planned for those that are new, and takes no memory yet.
    ///
    /// # Errors
    /// If the device fails, or within another step.
    #[track_caller]
    pub fn forecast(&mut self, signatures: &[Signature]) -> Result<Forecast> {
        let mut counted = Vec::new();
        let mut sum = Forecast::default();
        for signature in signatures {
            let key = key_now(signature.clone())?;
            let planned = self.take_planned(&key)?;
            sum = sum + planned.forecast(&mut counted);
            self.captures.keep_planned(key, planned);
        }
        Ok(sum)
    }

    /// What it is captured as for `key`: now, unless that was done and is up to date.
    fn captured(&mut self, key: &Key) -> Result<&mut Captured> {
        if !self.captures.is_current(key)? {
            let planned = self.take_planned(key)?;
            self.captures.capture(key, planned, &self.device)?;
        }
        Ok(self.captures.used(key))
    }

    /// The plan for `key`, made now unless there is one that is up to date.
    fn take_planned(&mut self, key: &Key) -> Result<Planned> {
        match self.captures.take_planned(key)? {
            Some(planned) => Ok(planned),
            None => Planned::new(&self.device, &mut self.function, &key.signature, &self.halted, &self.options),
        }
    }

    fn replay(&mut self, key: &Key) -> Result<Vec<Tensor>> {
        let device = self.device.clone();
        let captured = self.captures.used(key);
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

/// What a step is found by for inputs of `signature`, within the scopes that hold on this thread.
///
/// # Errors
/// While a step is traced: what another one gave would be a constant of the trace, and it would not run again.
#[track_caller]
fn key_now(signature: Signature) -> Result<Key> {
    if trace::is_tracing() {
        return Err(Error::StepInStep { location: Location::caller().to_string() });
    }
    Ok(Key::now(signature))
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
