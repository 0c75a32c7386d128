//! An exponential moving average of a model's weights (Polyak and Juditsky 1992; decay as in TensorFlow's
//! `ExponentialMovingAverage`): what is evaluated and saved can be steadier than what learns.

use std::sync::Arc;

use crate::error::Result;
use crate::nn::Module;
use crate::optim::Optimizer;
use crate::runtime::{Arena, Hyper, Var, VarKind};
use crate::stage::Stage;

/// A second model whose parameters follow those of the first.
pub(super) struct Average {
    model: Arc<dyn Module>,
    of: Arc<dyn Module>,
    /// The followers of each of the optimizer's groups, laid out as the group is: one launch for all of them.
    arenas: Arc<Vec<Arena>>,
    decay: f64,
    /// The decay of the next step.
    now: Hyper,
}

impl Average {
    /// `model`, of the same kind as `of`, becomes its average, and starts as a copy.
    pub(super) fn new(
        model: Arc<dyn Module>,
        of: Arc<dyn Module>,
        optimizer: &dyn Optimizer,
        decay: f64,
    ) -> Result<Self> {
        let followers = model.variables();
        let mut arenas = Vec::new();
        for layout in optimizer.layouts() {
            let named = |parameter: &Var| {
                let follower = followers.iter().find(|follower| follower.name() == parameter.name());
                follower.expect("the two models have the same parameters").clone()
            };
            arenas.push(Arena::new("average", &layout.parameters().iter().map(named).collect::<Vec<_>>())?);
        }
        let average = Self { model, of, arenas: Arc::new(arenas), decay, now: Hyper::new(0.0) };
        average.copy(|_| true)?;
        Ok(average)
    }

    /// The model with the averaged weights.
    pub(super) fn model(&self) -> &Arc<dyn Module> {
        &self.model
    }

    /// What a traced step calls after the optimizer's update.
    pub(super) fn follower(&self, optimizer: Arc<dyn Optimizer>) -> impl Fn() + Send + 'static {
        let (arenas, now) = (Arc::clone(&self.arenas), self.now.clone());
        move || {
            Stage::Update.scope(|| {
                for (arena, layout) in arenas.iter().zip(optimizer.layouts()) {
                    let (old, new) = (arena.tensor(), layout.arena().tensor());
                    let decay = now.tensor(old.device());
                    arena.assign(&(&new + (old - &new) * decay));
                }
            });
        }
    }

    /// Before step `number` (from 1): the average of few steps is that of their weights, not of the first ones.
    pub(super) fn set_step(&self, number: u64) {
        let warm = (1.0 + number as f64) / (10.0 + number as f64);
        self.now.set(self.decay.min(warm) as f32);
    }

    /// Before the average is used: statistics are those of now.
    pub(super) fn refresh(&self) -> Result<()> {
        self.copy(|variable| variable.kind() == VarKind::Buffer)
    }

    fn copy(&self, which: impl Fn(&Var) -> bool) -> Result<()> {
        for (follower, variable) in self.model.variables().iter().zip(self.of.variables()) {
            if which(follower) {
                follower.set(&variable.tensor())?;
            }
        }
        Ok(())
    }
}
