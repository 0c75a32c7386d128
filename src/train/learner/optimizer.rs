//! The optimizer that a configuration names.

use std::sync::Arc;

use crate::error::Result;
use crate::optim::{
    AdadeltaOptions, AdagradOptions, AdamOptions, AdamaxOptions, Grouped, LambOptions, LionOptions, Momentum,
    NAdamOptions, Optimizer, RAdamOptions, RMSpropOptions, Rule, SGDOptions, WeightDecay,
};
use crate::runtime::Var;

use crate::train::config::{Config, OptimizerName};

/// The optimizer of a resolved configuration over `parameters`.
pub(super) fn optimizer(config: &Config, parameters: &[Var]) -> Result<Arc<dyn Optimizer>> {
    let learning_rate = config.learning_rate() as f32;
    let limit = Common {
        max_norm: config.clip_norm.map(|norm| norm as f32),
        max_value: config.clip_value.map(|value| value as f32),
        accumulates: config.accumulate > 1,
    };
    let weight_decay = match (config.decay() as f32, config.optimizer) {
        (0.0, _) => WeightDecay::None,
        // as PyTorch's of that name, or the paper's
        (factor, OptimizerName::AdamW | OptimizerName::Lion | OptimizerName::Lamb) => WeightDecay::Decoupled(factor),
        (factor, _) => WeightDecay::Coupled(factor),
    };
    match config.optimizer {
        OptimizerName::SGD => {
            let factor = config.momentum as f32;
            let momentum = if factor > 0.0 { Momentum::Heavy(factor) } else { Momentum::None };
            made(SGDOptions { learning_rate, momentum, weight_decay }, parameters, limit)
        }
        OptimizerName::Adam | OptimizerName::AdamW => {
            made(AdamOptions { learning_rate, weight_decay, ..AdamOptions::default() }, parameters, limit)
        }
        OptimizerName::NAdam => {
            made(NAdamOptions { learning_rate, weight_decay, ..NAdamOptions::default() }, parameters, limit)
        }
        OptimizerName::RAdam => {
            made(RAdamOptions { learning_rate, weight_decay, ..RAdamOptions::default() }, parameters, limit)
        }
        OptimizerName::Adamax => {
            made(AdamaxOptions { learning_rate, weight_decay, ..AdamaxOptions::default() }, parameters, limit)
        }
        OptimizerName::RMSprop => {
            made(RMSpropOptions { learning_rate, weight_decay, ..RMSpropOptions::default() }, parameters, limit)
        }
        OptimizerName::Adagrad => {
            made(AdagradOptions { learning_rate, weight_decay, ..AdagradOptions::default() }, parameters, limit)
        }
        OptimizerName::Adadelta => {
            made(AdadeltaOptions { learning_rate, weight_decay, ..AdadeltaOptions::default() }, parameters, limit)
        }
        OptimizerName::Lion => {
            made(LionOptions { learning_rate, weight_decay, ..LionOptions::default() }, parameters, limit)
        }
        OptimizerName::Lamb => {
            made(LambOptions { learning_rate, weight_decay, ..LambOptions::default() }, parameters, limit)
        }
    }
}

/// What the configuration says of every optimizer.
#[derive(Clone, Copy)]
struct Common {
    max_norm: Option<f32>,
    max_value: Option<f32>,
    accumulates: bool,
}

fn made<R: Rule + 'static>(options: R, parameters: &[Var], common: Common) -> Result<Arc<dyn Optimizer>> {
    let mut optimizer = Grouped::new(parameters, options)?;
    if common.accumulates {
        optimizer = optimizer.with_accumulation()?;
    }
    Ok(Arc::new(match (common.max_norm, common.max_value) {
        (Some(norm), _) => optimizer.with_max_norm(norm),
        (None, Some(value)) => optimizer.with_max_value(value),
        (None, None) => optimizer,
    }))
}
