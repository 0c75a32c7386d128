//! Moving averages of weights.

use crate::error::{Error, Result};
use crate::nn::Variables;
use crate::runtime::{Arena, Hyper, Var, VarKind};
use crate::stage::Stage;

use super::rule::partners;
use super::{Layout, Optimizer};

/// An exponential moving average (EMA) of a model's parameters, in a second model of the same kind, which is often
/// steadier than what learns (Polyak and Juditsky 1992): `average ← decay · average + (1 - decay) · parameter`, as
/// PyTorch's `AveragedModel` with `get_ema_multi_avg_fn`, but that its first update is a copy: here the average begins
/// with the weights of the start. One launch for each group of the optimizer.
///
/// What is no parameter, such as running statistics, is not averaged, and copied by
/// [`refresh`](ExponentialMovingAverage::refresh) before the second model is used.
///
/// ```
/// use brasa::nn::{Init, Linear, Module, Variables};
/// use brasa::optim::{ExponentialMovingAverage, Optimizer, SGD, SGDOptions};
/// use brasa::{Device, Tensor};
///
/// # fn main() -> brasa::Result<()> {
/// let device = Device::cpu();
/// let [model, averaged] = [(); 2].map(|()| Linear::without_bias(1, 1, &Init::zeros(&device).at("fc")));
/// let (model, averaged) = (model?, averaged?);
/// let optimizer = SGD::new(&model.parameters(), SGDOptions { learning_rate: 1.0, ..Default::default() })?;
/// let average = ExponentialMovingAverage::new(&averaged, &model, &optimizer, 0.75)?;
/// for _ in 0..2 {
///     // the gradient is -1: the weight becomes 1, then 2
///     let loss = -model.forward(&Tensor::ones([1, 1], &device)).sum();
///     optimizer.update(&loss.backward());
///     average.update();
/// }
/// average.refresh()?;
/// assert_eq!(averaged.weight.tensor().item::<f32>()?, 0.75 * 0.25 + 2.0 * 0.25);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ExponentialMovingAverage {
    /// Of each group, as it is laid out: the average, and what it follows.
    groups: Vec<[Arena; 2]>,
    /// All variables, and those that they follow.
    pairs: Vec<[Var; 2]>,
    decay: Hyper,
}

impl ExponentialMovingAverage {
    /// The parameters of `average` become the average of those of `model` that `optimizer` changes; all of its variables
    /// start as copies, so that what was saved of an average is loaded after this.
    ///
    /// # Errors
    /// If the two have not the same variables on one device, or the device fails.
    ///
    /// # Panics
    /// If a parameter of `average` belongs to an optimizer, or the decay is not in 0 to 1.
    #[track_caller]
    pub fn new(
        average: &(impl Variables + ?Sized),
        model: &(impl Variables + ?Sized),
        optimizer: &(impl Optimizer + ?Sized),
        decay: f64,
    ) -> Result<Self> {
        let layouts = optimizer.layouts();
        let of = model.variables();
        let pairs: Vec<_> = partners(&of, average)?.into_iter().zip(of).map(|(own, of)| [own, of]).collect();
        if let Some([own, of]) = pairs.iter().find(|[own, of]| own.device() != of.device()) {
            let (name, own, of) = (of.name(), own.device().name(), of.device().name());
            return Err(Error::Config(format!("the average of `{name}` is on {own}, and the variable itself on {of}")));
        }
        let own = Layout::beside("average", &layouts, average)?;
        let groups = own.iter().zip(layouts).map(|(own, of)| [own.arena().clone(), of.arena().clone()]).collect();
        let made = Self { groups, pairs, decay: Hyper::new(0.0) };
        made.set_decay(decay);
        made.copy(|_| true)?;
        Ok(made)
    }

    /// Sets the decay for updates from now on; captured steps stay as they are.
    ///
    /// # Panics
    /// If it is not in 0 to 1.
    #[track_caller]
    pub fn set_decay(&self, decay: f64) {
        assert!((0.0..=1.0).contains(&decay), "average: a decay of {decay}");
        self.decay.set(decay as f32);
    }

    /// Traces that the average follows, in [`Stage::Update`]: to be called after the optimizer's update.
    #[track_caller]
    pub fn update(&self) {
        Stage::Update.scope(|| {
            for [average, of] in &self.groups {
                let (old, new) = (average.tensor(), of.tensor());
                let decay = self.decay.tensor(old.device());
                average.assign(&(&new + (old - &new) * decay));
            }
        });
    }

    /// Copies what is no parameter, such as running statistics, which no average is made of: to be called before the
    /// average is used.
    ///
    /// # Errors
    /// If the device fails.
    pub fn refresh(&self) -> Result<()> {
        self.copy(|variable| variable.kind() == VarKind::Buffer)
    }

    fn copy(&self, which: impl Fn(&Var) -> bool) -> Result<()> {
        self.pairs.iter().filter(|[own, _]| which(own)).try_for_each(|[own, of]| own.set(&of.tensor()))
    }
}
