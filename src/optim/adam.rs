//! Adam and AdamW.

use crate::autodiff::Gradients;
use crate::error::Result;
use crate::runtime::Var;
use crate::stage::Stage;
use crate::tensor::Tensor;

use super::Optimizer;
use super::group::Groups;

/// Settings of a group of parameters; defaults are those of PyTorch's `Adam`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AdamOptions {
    /// About the length of a step, in each coordinate.
    pub learning_rate: f32,
    /// How much of the gradient's running mean each step keeps.
    pub beta1: f64,
    /// How much of the squared gradient's running mean each step keeps.
    pub beta2: f64,
    /// Added to the root of the squared gradient's mean.
    pub epsilon: f32,
    /// Pull towards zero.
    pub weight_decay: WeightDecay,
}

/// Pull towards zero.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum WeightDecay {
    /// None.
    None,
    /// The gradient gets this times the parameter added: Adam.
    Coupled(f32),
    /// The parameter shrinks by the learning rate times this, beside the gradient: AdamW.
    Decoupled(f32),
}

impl Default for AdamOptions {
    fn default() -> Self {
        Self { learning_rate: 1e-3, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: WeightDecay::None }
    }
}

impl AdamOptions {
    /// The defaults of PyTorch's `AdamW`: decoupled weight decay of 0.01.
    pub fn adamw() -> Self {
        Self { weight_decay: WeightDecay::Decoupled(1e-2), ..Self::default() }
    }
}

/// What a group keeps from step to step.
struct AdamState {
    /// Running mean of the gradient.
    exp_avg: Var,
    /// Running mean of the squared gradient.
    exp_avg_sq: Var,
    /// `1 − beta1^t` after t steps.
    correction1: Var,
    /// `1 − beta2^t` after t steps.
    correction2: Var,
}

/// Adam (Kingma and Ba, arXiv 1412.6980) and, with decoupled weight decay, AdamW (Loshchilov and Hutter, arXiv
/// 1711.05101), with PyTorch's order of operations.
///
/// The corrections `1 − beta^t` follow the recurrence `c ← c · beta + (1 − beta)` from 0: the one that the running means
/// follow, with the same rounded factors. All terms are positive, so that it keeps f32's relative precision, where
/// `1 − 0.999^t` would lose four digits in the first steps.
pub struct Adam {
    groups: Groups<AdamOptions, AdamState>,
}

impl Adam {
    /// An optimizer of one group.
    pub fn new(parameters: &[Var], options: AdamOptions) -> Result<Self> {
        Self { groups: Groups::new() }.with_group(parameters, options)
    }

    /// Adds a group with options of its own.
    pub fn with_group(mut self, parameters: &[Var], options: AdamOptions) -> Result<Self> {
        self.groups.add(parameters, options.learning_rate, options, |new| {
            Ok(AdamState {
                exp_avg: new.flat("exp_avg")?,
                exp_avg_sq: new.flat("exp_avg_sq")?,
                correction1: new.scalar("correction1")?,
                correction2: new.scalar("correction2")?,
            })
        })?;
        Ok(self)
    }

    /// Limits the Euclidean norm of all gradients together.
    #[must_use]
    pub fn with_max_norm(mut self, max_norm: f32) -> Self {
        self.groups.max_norm = Some(max_norm);
        self
    }
}

/// Moves `running`, which starts at 0, towards `newest`: `running · beta + newest · (1 − beta)`.
fn follow(running: &Var, newest: &Tensor, beta: f64) -> Tensor {
    let next = running.tensor() * beta as f32 + newest * (1.0 - beta) as f32;
    running.assign(&next);
    next
}

impl Optimizer for Adam {
    fn update(&self, gradients: &Gradients) {
        Stage::Update.scope(|| {
            for (group, gradient) in self.groups.groups.iter().zip(self.groups.gradients(gradients)) {
                let AdamOptions { beta1, beta2, epsilon, weight_decay, .. } = group.options;
                let (mut parameters, mut gradient, rate) = (group.arena.tensor(), gradient, group.rate());
                match weight_decay {
                    WeightDecay::None => {}
                    WeightDecay::Coupled(factor) => gradient = gradient + &parameters * factor,
                    WeightDecay::Decoupled(factor) => parameters = &parameters - &parameters * (&rate * factor),
                }
                let one = Tensor::full([], 1.0_f32, gradient.device());
                let correction1 = follow(&group.state.correction1, &one, beta1);
                let correction2 = follow(&group.state.correction2, &one, beta2);
                let mean = follow(&group.state.exp_avg, &gradient, beta1);
                let square = follow(&group.state.exp_avg_sq, &gradient.square(), beta2);
                let length = square.sqrt() / correction2.sqrt() + epsilon;
                group.arena.assign(&(parameters - mean / length * (rate / correction1)));
            }
        });
    }

    fn set_learning_rate(&self, learning_rate: f32) {
        self.groups.set_learning_rate(learning_rate);
    }

    fn learning_rate(&self) -> f32 {
        self.groups.learning_rate()
    }

    fn state(&self) -> Vec<Var> {
        let states = self.groups.groups.iter().map(|group| &group.state);
        states.flat_map(|s| [&s.exp_avg, &s.exp_avg_sq, &s.correction1, &s.correction2]).cloned().collect()
    }
}
