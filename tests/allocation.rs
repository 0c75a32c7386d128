//! What a captured step takes from the allocator: memory that is touched for the first time costs more than the values
//! that are put there.

use std::alloc::System;

use brasa::models::{ModelSpec, create};
use brasa::optim::{Adam, AdamOptions, Optimizer};
use brasa::runtime::Step;
use brasa::{DType, Device, Shape};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// A thread's working memory grows to what the largest kernel needs, and its lists of offsets, of which new ones take
/// the place of old ones, to the longest that comes to each place.
const WARM_UP: usize = 30;
const REPLAYS: usize = 10;

/// Bytes that a training step on the CPU takes, on average, once it has run.
fn bytes_per_step(name: &str, side: usize) -> usize {
    let device = Device::cpu();
    let (batch, input) = (2, [3, side, side]);
    let model = create(name, &ModelSpec { input: input.to_vec(), classes: 10, seed: 1 }, &device).expect("a model");
    let optimizer = Adam::new(&model.parameters(), AdamOptions::default()).expect("memory");
    let mut step = Step::new(&device, move |inputs| {
        let loss = model.forward(&inputs[0]).cross_entropy(&inputs[1]);
        optimizer.update(&loss.backward());
        vec![loss]
    })
    .expect("a step");
    let (pixels, labels) = (Shape::from([batch, input[0], input[1], input[2]]), Shape::from(batch));
    let (values, classes) = (vec![64u8; pixels.numel() * 4], vec![0u8; batch * 4]);
    let mut replay = || {
        step.run_bytes(&[(&pixels, DType::F32, &values), (&labels, DType::I32, &classes)]).expect("a run");
        device.sync().expect("a device");
    };
    (0..WARM_UP).for_each(|_| replay());
    let region = Region::new(ALLOCATOR);
    (0..REPLAYS).for_each(|_| replay());
    region.change().bytes_allocated / REPLAYS
}

/// One test, so that nothing else runs meanwhile; one thread, as working memory belongs to a thread, and which of them
/// takes a kernel's largest piece is chance.
#[test]
fn replays_on_the_cpu_take_next_to_no_memory() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    for (name, side) in [("tutorial-cnn", 32), ("resnet20", 16)] {
        let bytes = pool.install(|| bytes_per_step(name, side));
        // What a step returns, and jobs of the thread pool, take under 1 KiB; the `gemm` crate takes 2.7 KiB for each
        // product while it lasts, of which ResNet-20 has two (a convolution of 1x1, of two images). Most values of
        // these networks are larger.
        assert!(bytes < 8 << 10, "{name}: {bytes} bytes a step");
    }
}
