//! A training loop of one's own, without the trainer: data, model, schedule, captured steps, evaluation, weights.

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;

use brasa::data::{Dataset, Last, On, Pipeline, digits};
use brasa::models::{ModelSpec, create};
use brasa::nn::{Mode, Module, save_weights};
use brasa::optim::{Adam, AdamOptions, Optimizer, Schedule};
use brasa::runtime::Step;
use brasa::tensor::CrossEntropy;
use brasa::{DType, Device, Result, Tensor};

const EPOCHS: usize = 5;
const ROWS: usize = 32;

fn main() -> Result<()> {
    let device = Device::best()?;
    let data = digits()?;
    let (train, test) = (Arc::new(data.train), Arc::new(data.test));
    let of = train.description();
    let spec = ModelSpec { input: of.shape.clone(), classes: of.classes.len(), seed: 1 };
    let model: Arc<dyn Module> = create("cnn", &spec, &device)?.into();
    let optimizer = Arc::new(Adam::new(&model.parameters(), AdamOptions::default())?);

    let training = Pipeline::new(train).shuffle().batch(ROWS, Last::Drop);
    let training = training.augment("rotate=5".parse()?, On::Device).epochs(EPOCHS).seed(1);
    let testing = Pipeline::new(test.clone()).batch(ROWS, Last::Pad);

    // What is traced here once, brasa replays as one plan of fused kernels.
    let (learner, updater, format) = (Arc::clone(&model), Arc::clone(&optimizer), training.format());
    let mut learn = Step::new(&device, move |uploads| {
        let batch = format.receive(uploads);
        let loss = batch.labels.cross_entropy(&learner.forward(&batch.inputs), &CrossEntropy::default());
        updater.update(&loss.backward());
        vec![loss]
    })?;
    let (judged, format) = (Arc::clone(&model), testing.format());
    let mut judge = Step::new(&device, move |uploads| {
        let batch = format.receive(uploads);
        let logits = Mode::Evaluate.scope(|| judged.forward(&batch.inputs));
        vec![(logits.argmax(1).eq(&batch.labels.classes).to_dtype(DType::F32) * &batch.weights).sum()]
    })?;

    let schedule = "cosine:warmup=20".parse::<Schedule>()?;
    let schedule = schedule.for_run((EPOCHS * training.batches_per_epoch()) as u64);
    // kept on the device, so that no step waits for its loss to be read
    let mut losses = Vec::new();
    for (number, batch) in training.start()?.enumerate() {
        let batch = batch?;
        optimizer.set_learning_rate(schedule.lr(1e-3, number as u64) as f32);
        losses.push(learn.run_bytes(&batch.uploads())?.remove(0));
        if batch.last {
            learn.ensure_finite()?;
            let loss = Tensor::stack(&losses.iter().collect::<Vec<_>>(), 0).mean().item::<f32>()?;
            losses.clear();
            let mut right = 0.0;
            for batch in testing.start()? {
                right += judge.run_bytes(&batch?.uploads())?[0].item::<f32>()?;
            }
            println!("epoch {}: loss {loss:.4}, {right} of {} right", batch.epoch + 1, test.len());
        }
    }
    save_weights(model.as_ref(), "digits-cnn.safetensors")
}
