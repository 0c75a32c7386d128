//! Samples a second that a pipeline makes: `cargo bench --bench loader`.
//!
//! Pictures of 32x32 in memory, in batches of 128, by one worker: the median of seven passes, and what the stages took
//! in it.

#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use brasa::data::{InMemory, Last, Normalization, On, Pipeline};

const PICTURES: usize = 20_000;
const ROUNDS: usize = 7;

fn main() {
    let pixels = (0..PICTURES * 3072).map(|place| (place * 7 / 3) as u8).collect();
    let labels = (0..PICTURES).map(|number| number as u32 % 10).collect();
    let classes = (0..10).map(|class| class.to_string()).collect();
    let data = Arc::new(InMemory::new("pictures", classes, [3, 32, 32], Normalization::default(), pixels, labels));
    println!("{:34} {:>14} {:>34}", "augmentation", "samples/s", "load, augment, batch: us a sample");
    for (text, on) in [
        ("none", On::Host),
        ("cifar", On::Host),
        ("cifar", On::Device),
        ("rotate", On::Host),
        ("cifar,color", On::Host),
        ("cifar,erase,cutmix", On::Host),
        ("cifar,noise,blur", On::Host),
    ] {
        let pipeline = Pipeline::new(data.clone()).shuffle().batch(128, Last::Keep).workers(1);
        let pipeline = pipeline.augment(text.parse().expect("good text"), on);
        let mut rounds: Vec<_> = (0..ROUNDS).map(|_| round(&pipeline)).collect();
        rounds.sort_by_key(|(time, _)| *time);
        let (time, stages) = rounds[ROUNDS / 2];
        let micros = stages.map(|stage| stage.as_secs_f64() * 1e6 / PICTURES as f64);
        let rate = PICTURES as f64 / time.as_secs_f64();
        let [load, augment, batch] = micros;
        println!("{:34} {rate:>14.0} {load:>18.2} {augment:>7.2} {batch:>7.2}", format!("{text} on {on:?}"));
    }
}

/// Wall clock and stages of one pass.
fn round(pipeline: &Pipeline) -> (Duration, [Duration; 3]) {
    let start = Instant::now();
    let mut stages = [Duration::ZERO; 3];
    let mut batches = pipeline.start().expect("threads");
    while let Some(batch) = batches.next() {
        let batch = batch.expect("good data");
        for (sum, stage) in stages.iter_mut().zip([batch.times.load, batch.times.augment, batch.times.batch]) {
            *sum += stage;
        }
        batches.recycle(batch);
    }
    (start.elapsed(), stages)
}
