//! Several devices that learn one model: in a loop of one's own, and in the trainer.
//!
//! `cargo run --release --example several_devices`: all GPUs there are; with one, it and the CPU.

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;

use brasa::data::{Dataset, Last, On, Pipeline, digits};
use brasa::device::DeviceKind;
use brasa::models::{ModelSpec, create};
use brasa::nn::{Mode, Module};
use brasa::optim::{Adam, AdamOptions};
use brasa::parallel::DataParallel;
use brasa::tensor::CrossEntropy;
use brasa::train::{Config, Control, Event, Trainer};
use brasa::{Device, Result, Tensor, no_grad};

const EPOCHS: usize = 5;
const ROWS: usize = 64;

fn main() -> Result<()> {
    let gpus = Device::list().into_iter().filter(|info| info.kind != DeviceKind::Cpu);
    let mut names: Vec<String> = gpus.map(|info| info.selector).collect();
    if names.len() < 2 {
        names.push("cpu".into());
    }
    let devices = names.iter().map(|name| Device::named(name)).collect::<Result<Vec<_>>>()?;
    println!("on {}", names.join(" and "));

    let data = digits()?;
    let of = data.train.description().clone();
    let training = Pipeline::new(Arc::new(data.train)).shuffle().batch(ROWS, Last::Keep);
    let training = training.augment("shift".parse()?, On::Host).epochs(EPOCHS).seed(1);
    let (spec, format) = (ModelSpec { input: of.shape, classes: of.classes.len(), seed: 1 }, training.format());
    let mut together = DataParallel::new(
        &devices,
        |device| create("cnn", &spec, device),
        |parameters| Adam::new(parameters, AdamOptions::default()),
        move |model, uploads| {
            // some rows of each batch, on one of the devices
            let batch = format.receive(uploads);
            batch.labels.cross_entropy(&model.forward(&batch.inputs), &CrossEntropy::default())
        },
    )?;
    let mut losses = Vec::new();
    for batch in training.start()? {
        let batch = batch?;
        losses.push(together.step_bytes(&batch.uploads())?);
        if batch.last {
            together.ensure_finite()?;
            let loss = Tensor::stack(&losses.iter().collect::<Vec<_>>(), 0).mean().item::<f32>()?;
            losses.clear();
            println!("epoch {}: loss {loss:.4}", batch.epoch + 1);
        }
    }
    // the model of the first device is the one to go on with
    let testing = Pipeline::new(Arc::new(data.test)).batch(ROWS, Last::Keep);
    let (mut right, format) = (0, testing.format());
    for batch in testing.start()? {
        let batch = batch?;
        let upload = |(shape, dtype, bytes)| Tensor::from_bytes(bytes, shape, dtype, &devices[0]);
        let batch = format.receive(&batch.uploads().into_iter().map(upload).collect::<Result<Vec<_>>>()?);
        let logits = no_grad(|| Mode::Evaluate.scope(|| together.model().forward(&batch.inputs)));
        right += logits.argmax(1).eq(&batch.labels.classes).to_dtype(brasa::DType::I32).sum().item::<i32>()?;
    }
    println!("{right} test samples right");

    // The trainer takes their names, separated by commas, as `brasa train --device` does.
    let config = Config { device: Some(names.join(",")), batch_size: ROWS, epochs: 2, seed: 1, ..Config::default() };
    let summary = Trainer::new(config)?.run(&Control::default(), &mut |event| {
        if let Event::Evaluated { epoch, test, .. } = event {
            println!("trainer, epoch {epoch}: {:.1} % right", 100.0 * test.score());
        }
    })?;
    println!("saved in {}", summary.folder.display());
    Ok(())
}
