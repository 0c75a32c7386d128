//! Loss scaling: keeps small gradients from vanishing where they are computed in f16.

use crate::autodiff::Gradients;
use crate::device::Device;
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::traced_like;
use crate::runtime::{Var, catch_non_finite, check_finite, skip_if};
use crate::stage::Stage;
use crate::tensor::Tensor;

use super::Optimizer;

/// Settings of a [`LossScaler`]; the defaults are those that PyTorch documents for `torch.amp.GradScaler`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LossScaleOptions {
    /// The factor to start with: 2^16.
    pub initial: f32,
    /// What it is multiplied by after [`growth_interval`](Self::growth_interval) good steps in a row: 2.
    pub growth: f32,
    /// What it is multiplied by after a step whose gradients overflowed: 1/2.
    pub backoff: f32,
    /// 2000.
    pub growth_interval: u32,
    /// The factor does not shrink below this, and a step whose gradients overflow in spite of it halts, because no
    /// smaller factor would help: 2^-14. PyTorch goes on forever.
    pub least: f32,
}

impl Default for LossScaleOptions {
    fn default() -> Self {
        Self { initial: 65536.0, growth: 2.0, backoff: 0.5, growth_interval: 2000, least: 1.0 / 16384.0 }
    }
}

/// The factor never grows beyond this: its inverse is still a normal number.
const LARGEST: f32 = 1.0 / f32::MIN_POSITIVE;

/// Dynamic loss scaling (Micikevicius et al. 2018, "Mixed Precision Training", arXiv 1710.03740, section 3.2): the loss
/// is multiplied by a factor before gradients are computed, and they are divided by it before they are used.
///
/// * **A gradient that is not finite** counts as overflow of the factor: the step changes nothing (no parameter,
///   moment, running statistic or random position), it is counted, the factor shrinks, and the next step goes on.
/// * **A loss that is not finite before it is scaled** is none of the factor's doing: the step halts as without a
///   scaler, the factor stays, and [`Step::diagnose`](crate::runtime::Step::diagnose) finds the origin.
/// * **A factor that cannot shrink any more** ([`LossScaleOptions::least`]) is of no help: a step whose gradients are
///   not finite halts then, too.
///
/// The factor is a variable of the device like any other; nothing is compiled or waited for when it changes.
#[derive(Debug)]
pub struct LossScaler {
    options: LossScaleOptions,
    scale: Var,
    good_steps: Var,
    skipped: Var,
}

impl LossScaler {
    /// A scaler for models on `device`.
    ///
    /// # Errors
    /// If the device fails.
    pub fn new(device: &Device, options: LossScaleOptions) -> Result<Self> {
        Ok(Self {
            options,
            scale: Var::state("loss_scaler.scale", &Tensor::scalar(options.initial, device))?,
            good_steps: Var::state("loss_scaler.good_steps", &Tensor::scalar(0u32, device))?,
            skipped: Var::state("loss_scaler.skipped", &Tensor::scalar(0u32, device))?,
        })
    }

    /// The gradients of `loss` (f32, of one element), computed at its scaled size and divided by the factor afterwards:
    /// for [`LossScaler::update`]. In a step that is being traced.
    ///
    /// # Panics
    /// If the loss is not f32: cast before the mean over the batch is taken.
    #[track_caller]
    pub fn backward(&self, loss: &Tensor) -> Gradients {
        assert!(loss.dtype() == DType::F32, "LossScaler::backward: the loss is {}, not f32", loss.dtype());
        check_finite(std::slice::from_ref(loss.node()));
        let scaled = Stage::Loss.scope(|| loss * self.scale.tensor());
        // that the scaled loss overflows shows in the gradients
        let (gradients, _overflow) = catch_non_finite(|| scaled.backward());
        Stage::Backward.scope(|| {
            let inverse = self.scale.tensor().reciprocal();
            gradients.map(|gradient| traced_like(gradient.node(), || gradient * inverse.to_dtype(gradient.dtype())))
        })
    }

    /// Traces `optimizer`'s update by `gradients`, which comes to nothing if they are not finite, and adapts the
    /// factor.
    ///
    /// The whole step is skipped then: everything it assigns, whoever assigned it. Limits to the gradients' norm that
    /// the optimizer has apply to their true size, which is what this returns the norm of, as [`Optimizer::update`].
    ///
    /// # Panics
    /// Outside of a step that is being traced.
    #[track_caller]
    pub fn update(&self, optimizer: &dyn Optimizer, gradients: &Gradients) -> Tensor {
        self.unless_overflow(|| optimizer.update(gradients))
    }

    /// [`LossScaler::update`] for a part of a batch: see [`Optimizer::accumulate`]. A part whose gradients overflow is
    /// left out.
    ///
    /// # Panics
    /// Outside of a step that is being traced.
    #[track_caller]
    pub fn accumulate(&self, optimizer: &dyn Optimizer, gradients: &Gradients) {
        self.unless_overflow(|| optimizer.accumulate(gradients));
    }

    /// Traces `apply`, which checks gradients, and what happens if they are not finite.
    #[track_caller]
    fn unless_overflow<T>(&self, apply: impl FnOnce() -> T) -> T {
        let (result, overflow) = catch_non_finite(apply);
        let overflow = overflow.expect("LossScaler: only in a captured step (runtime::Step)");
        let LossScaleOptions { growth, backoff, growth_interval, least, .. } = self.options;
        Stage::Update.scope(|| {
            let scale = self.scale.tensor();
            let smaller = &scale * backoff;
            let is_spent = overflow.logical_and(&smaller.lt(least));
            let halts = is_spent.where_(f64::INFINITY, scale.zeros_like());
            check_finite(std::slice::from_ref(halts.node()));
            let (good, larger) = (self.good_steps.tensor() + 1u32, &scale * growth);
            let is_due = good.ge(growth_interval);
            let grown = is_due.logical_and(&larger.le(LARGEST)).where_(&larger, &scale);
            self.scale.assign(&overflow.where_(smaller.maximum(f64::from(least)), grown));
            self.good_steps.assign(&overflow.logical_or(&is_due).where_(good.zeros_like(), &good));
            self.skipped.assign(&(self.skipped.tensor() + overflow.to_dtype(DType::U32)));
        });
        skip_if(&overflow, &self.state());
        result
    }

    /// The factor now; waits for the device.
    ///
    /// # Errors
    /// If the device fails.
    pub fn scale(&self) -> Result<f32> {
        self.scale.tensor().item()
    }

    /// The factor's variable.
    pub(crate) fn scale_variable(&self) -> &Var {
        &self.scale
    }

    /// True if the factor is as small as it gets; waits for the device.
    pub(crate) fn is_exhausted(&self) -> Result<bool> {
        Ok(self.scale()? * self.options.backoff < self.options.least)
    }

    /// Steps skipped so far; waits for the device.
    ///
    /// # Errors
    /// If the device fails.
    pub fn skipped_steps(&self) -> Result<u32> {
        self.skipped.tensor().item()
    }

    /// What a checkpoint keeps.
    pub fn state(&self) -> Vec<Var> {
        vec![self.scale.clone(), self.good_steps.clone(), self.skipped.clone()]
    }
}
