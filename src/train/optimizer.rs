//! The optimizer that a configuration names.

use std::sync::Arc;

use crate::error::Result;
use crate::optim::{
    Adadelta, AdadeltaOptions, Adagrad, AdagradOptions, Adam, AdamOptions, Adamax, AdamaxOptions, Grouped, Lamb,
    LambOptions, Lion, LionOptions, Momentum, NAdam, NAdamOptions, Optimizer, RAdam, RAdamOptions, RMSprop,
    RMSpropOptions, Rule, SGD, SGDOptions, WeightDecay,
};
use crate::runtime::Var;

use super::config::{Config, OptimizerName};

/// The optimizer of a resolved configuration over `parameters`.
pub(super) fn optimizer(config: &Config, parameters: &[Var]) -> Result<Arc<dyn Optimizer>> {
    let learning_rate = config.learning_rate() as f32;
    let factor = config.weight_decay as f32;
    let momentum = config.momentum as f32;
    let weight_decay = match config.optimizer {
        _ if config.weight_decay == 0.0 => WeightDecay::None,
        // as PyTorch's of that name, or the paper's
        OptimizerName::AdamW | OptimizerName::Lion | OptimizerName::Lamb => WeightDecay::Decoupled(factor),
        _ => WeightDecay::Coupled(factor),
    };
    let limit = config.clip_norm.map(|norm| norm as f32);
    match config.optimizer {
        OptimizerName::SGD => {
            let momentum = if momentum > 0.0 { Momentum::Heavy(momentum) } else { Momentum::None };
            limited(SGD::new(parameters, SGDOptions { learning_rate, momentum, weight_decay })?, limit)
        }
        OptimizerName::Adam | OptimizerName::AdamW => {
            let options = AdamOptions { learning_rate, weight_decay, ..AdamOptions::default() };
            limited(Adam::new(parameters, options)?, limit)
        }
        OptimizerName::NAdam => {
            let options = NAdamOptions { learning_rate, weight_decay, ..NAdamOptions::default() };
            limited(NAdam::new(parameters, options)?, limit)
        }
        OptimizerName::RAdam => {
            let options = RAdamOptions { learning_rate, weight_decay, ..RAdamOptions::default() };
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
