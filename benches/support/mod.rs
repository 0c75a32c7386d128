//! What several benchmarks measure.

use brasa::nn::Module;
use brasa::optim::{Adam, AdamOptions, Optimizer};
use brasa::runtime::Step;
use brasa::{Device, Error, Stage};

/// A training step of `model` with Adam, of inputs and classes.
pub(crate) fn training_step(device: &Device, model: Box<dyn Module>) -> Result<Step, Error> {
    let optimizer = Adam::new(&model.parameters(), AdamOptions::default())?;
    Step::new(device, move |inputs| {
        let logits = model.forward(&inputs[0]);
        let loss = Stage::Loss.scope(|| logits.cross_entropy(&inputs[1]));
        optimizer.update(&loss.backward());
        vec![loss]
    })
}
