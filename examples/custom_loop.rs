//! A training loop of one's own, without the trainer: data, model, schedule, captured steps, evaluation, weights.

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;

use brasa::data::{Augment, Dataset, Loader, LoaderOptions, Order, digits};
use brasa::models::{ModelSpec, create};
use brasa::nn::{Mode, Module, save_weights};
use brasa::optim::{Adam, AdamOptions, Optimizer, Schedule};
use brasa::runtime::Step;
use brasa::{DType, Device, Result, Tensor};

const EPOCHS: usize = 5;
const ROWS: usize = 32;

fn main() -> Result<()> {
    let device = Device::best()?;
    let data = digits()?;
    let (train, test) = (Arc::new(data.train), Arc::new(data.test));
    let of = train.description().clone();
    let spec = ModelSpec { input: of.shape.clone(), classes: of.classes.len(), seed: 1 };
    let model: Arc<dyn Module> = create("cnn", &spec, &device)?.into();
    let optimizer = Arc::new(Adam::new(&model.parameters(), AdamOptions::default())?);

    // What is traced here once, brasa replays as one plan of fused kernels.
    let (learner, updater, bytes_to_numbers) = (Arc::clone(&model), Arc::clone(&optimizer), of.normalization.clone());
    let mut learn = Step::new(&device, move |tensors| {
        let logits = learner.forward(&bytes_to_numbers.apply(&tensors[0]));
        let loss = logits.cross_entropy(&tensors[1]);
        updater.update(&loss.backward());
        vec![loss]
    })?;
    let judged = Arc::clone(&model);
    let mut judge = Step::new(&device, move |tensors| {
        let logits = Mode::Evaluate.scope(|| judged.forward(&of.normalization.apply(&tensors[0])));
        vec![(logits.argmax(1).eq(&tensors[1]).to_dtype(DType::F32) * &tensors[2]).sum()]
    })?;

    let options =
        |order, epochs| LoaderOptions { batch_size: ROWS, order, augment: Augment::None, workers: 2, ahead: 4, epochs };
    let schedule = "cosine:warmup=20".parse::<Schedule>()?;
    let per_epoch = Loader::batches_per_epoch(train.len(), ROWS);
    let schedule = schedule.for_run((EPOCHS * per_epoch) as u64);
    let mut batches = Loader::new(train, options(Order::Shuffled { seed: 1 }, EPOCHS));
    for epoch in 0..EPOCHS {
        // kept on the device, so that no step waits for its loss to be read
        let mut losses = Vec::new();
        for (number, batch) in (epoch * per_epoch..).zip(batches.by_ref().take(per_epoch)) {
            optimizer.set_learning_rate(schedule.lr(1e-3, number as u64) as f32);
            losses.push(learn.run_bytes(&batch?.uploads())?.remove(0));
        }
        let loss = Tensor::stack(&losses.iter().collect::<Vec<_>>(), 0).mean().item::<f32>()?;
        let mut right = 0.0;
        for batch in Loader::new(test.clone(), options(Order::Sequential, 1)) {
            right += judge.run_bytes(&batch?.uploads())?[0].item::<f32>()?;
        }
        println!("epoch {}: loss {loss:.4}, {right} of {} right", epoch + 1, test.len());
    }
    save_weights(model.as_ref(), "digits-cnn.safetensors")
}
