//! Stochastic gradient descent.

use crate::autodiff::Gradients;
use crate::error::Result;
use crate::runtime::Var;
use crate::stage::Stage;

use super::Optimizer;
use super::group::Groups;

/// Settings of a group of parameters. Defaults are PyTorch's, but for the learning rate, which it asks for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SgdOptions {
    /// Length of a step along the gradient.
    pub learning_rate: f32,
    /// How past gradients are carried on.
    pub momentum: Momentum,
    /// The gradient gets this times the parameter added (L2 penalty).
    pub weight_decay: f32,
}

/// How past gradients are carried on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Momentum {
    /// Not at all.
    None,
    /// `v ← factor · v + g`, and the step follows `v`.
    Heavy(f32),
    /// The same `v`, and the step follows `g + factor · v`.
    Nesterov(f32),
}

impl Default for SgdOptions {
    fn default() -> Self {
        Self { learning_rate: 1e-2, momentum: Momentum::None, weight_decay: 0.0 }
    }
}

/// Stochastic gradient descent, as PyTorch's `SGD` without dampening:
/// `g ← g + weight_decay · p`, then momentum, then `p ← p − learning_rate · g`.
pub struct Sgd {
    groups: Groups<SgdOptions, Option<Var>>,
}

impl Sgd {
    /// An optimizer of one group.
    pub fn new(parameters: &[Var], options: SgdOptions) -> Result<Self> {
        Self { groups: Groups::new() }.with_group(parameters, options)
    }

    /// Adds a group with options of its own.
    pub fn with_group(mut self, parameters: &[Var], options: SgdOptions) -> Result<Self> {
        self.groups.add(parameters, options.learning_rate, options, |new| match options.momentum {
            Momentum::None => Ok(None),
            Momentum::Heavy(_) | Momentum::Nesterov(_) => new.flat("momentum_buffer").map(Some),
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

impl Optimizer for Sgd {
    fn update(&self, gradients: &Gradients) {
        Stage::Update.scope(|| {
            for (group, gradient) in self.groups.groups.iter().zip(self.groups.gradients(gradients)) {
                let parameters = group.arena.tensor();
                let mut direction = gradient;
                if group.options.weight_decay != 0.0 {
                    direction = direction + &parameters * group.options.weight_decay;
                }
                if let (Some(buffer), Momentum::Heavy(factor) | Momentum::Nesterov(factor)) =
                    (&group.state, group.options.momentum)
                {
                    let velocity = buffer.tensor() * factor + &direction;
                    buffer.assign(&velocity);
                    direction = match group.options.momentum {
                        Momentum::Nesterov(_) => direction + velocity * factor,
                        Momentum::Heavy(_) | Momentum::None => velocity,
                    };
                }
                group.arena.assign(&(parameters - direction * group.rate()));
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
        self.groups.groups.iter().filter_map(|group| group.state.clone()).collect()
    }
}
