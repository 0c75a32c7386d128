//! The optimizer and the schedule that a configuration names.

use std::sync::Arc;

use crate::error::Result;
use crate::optim::{
    Adadelta, AdadeltaOptions, Adagrad, AdagradOptions, Adam, AdamOptions, Adamax, AdamaxOptions, Grouped, Lamb,
    LambOptions, Lion, LionOptions, Momentum, NAdam, NAdamOptions, Optimizer, RAdam, RAdamOptions, RMSprop,
    RMSpropOptions, Rule, SGD, SGDOptions, Schedule, Scheduler, WeightDecay,
};
use crate::runtime::Var;

use super::config::{Config, OptimizerName};

/// The optimizer of a resolved configuration over `parameters`.
pub(super) fn optimizer(config: &Config, parameters: &[Var]) -> Result<Arc<dyn Optimizer>> {
    let learning_rate = config.learning_rate() as f32;
    let weight_decay = config.weight_decay as f32;
    let momentum = config.momentum as f32;
    let coupled = if weight_decay > 0.0 { WeightDecay::Coupled(weight_decay) } else { WeightDecay::None };
    let decoupled = if weight_decay > 0.0 { WeightDecay::Decoupled(weight_decay) } else { WeightDecay::None };
    let limit = config.clip_norm.map(|norm| norm as f32);
    match config.optimizer {
        OptimizerName::SGD => {
            let momentum = if momentum > 0.0 { Momentum::Heavy(momentum) } else { Momentum::None };
            limited(SGD::new(parameters, SGDOptions { learning_rate, momentum, weight_decay })?, limit)
        }
        OptimizerName::Adam => {
            let options = AdamOptions { learning_rate, weight_decay: coupled, ..AdamOptions::default() };
            limited(Adam::new(parameters, options)?, limit)
        }
        OptimizerName::AdamW => {
            let options = AdamOptions { learning_rate, weight_decay: decoupled, ..AdamOptions::default() };
            limited(Adam::new(parameters, options)?, limit)
        }
        OptimizerName::NAdam => {
            let options = NAdamOptions { learning_rate, weight_decay: coupled, ..NAdamOptions::default() };
            limited(NAdam::new(parameters, options)?, limit)
        }
        OptimizerName::RAdam => {
            let options = RAdamOptions { learning_rate, weight_decay: coupled, ..RAdamOptions::default() };
            limited(RAdam::new(parameters, options)?, limit)
        }
        OptimizerName::Adamax => {
            let options = AdamaxOptions { learning_rate, weight_decay, ..AdamaxOptions::default() };
            limited(Adamax::new(parameters, options)?, limit)
        }
        OptimizerName::RMSprop => {
            let options = RMSpropOptions { learning_rate, weight_decay, ..RMSpropOptions::default() };
            limited(RMSprop::new(parameters, options)?, limit)
        }
        OptimizerName::Adagrad => {
            let options = AdagradOptions { learning_rate, weight_decay, ..AdagradOptions::default() };
            limited(Adagrad::new(parameters, options)?, limit)
        }
        OptimizerName::Adadelta => {
            let options = AdadeltaOptions { learning_rate, weight_decay, ..AdadeltaOptions::default() };
            limited(Adadelta::new(parameters, options)?, limit)
        }
        OptimizerName::Lion => {
            let options = LionOptions { learning_rate, weight_decay, ..LionOptions::default() };
            limited(Lion::new(parameters, options)?, limit)
        }
        OptimizerName::Lamb => {
            let options = LambOptions { learning_rate, weight_decay, ..LambOptions::default() };
            limited(Lamb::new(parameters, options)?, limit)
        }
    }
}

fn limited<R: Rule + 'static>(optimizer: Grouped<R>, norm: Option<f32>) -> Result<Arc<dyn Optimizer>> {
    Ok(match norm {
        Some(norm) => Arc::new(optimizer.with_max_norm(norm)),
        None => Arc::new(optimizer),
    })
}

/// The learning rate of each step of a run. A plateau is asked after each evaluation, everything else counts steps.
pub(super) struct Rates {
    scheduler: Scheduler,
    is_plateau: bool,
}

impl Rates {
    /// For a run of `steps` steps.
    pub(super) fn new(config: &Config, steps: u64) -> Result<Self> {
        let schedule = config.schedule.clone().for_run(steps);
        let is_plateau = matches!(schedule, Schedule::Plateau(_));
        Ok(Self { scheduler: Scheduler::new(schedule, &[config.learning_rate()])?, is_plateau })
    }

    /// The learning rate of the step to come.
    pub(super) fn now(&self) -> f64 {
        self.scheduler.lr()
    }

    /// A step was handed over.
    pub(super) fn step_done(&mut self) {
        if !self.is_plateau {
            self.scheduler.step();
        }
    }

    /// The held-out samples have this mean loss.
    pub(super) fn evaluated(&mut self, loss: f32) {
        if self.is_plateau {
            self.scheduler.step_metric(f64::from(loss));
        }
    }
}
