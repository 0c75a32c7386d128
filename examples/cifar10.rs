//! CIFAR-10, line by line: what PyTorch's tutorial "Training a Classifier" teaches, in Rust and on any GPU.
//!
//! `cargo run --release --example cifar10 -- cifar10` (after `brasa data cifar10 --download`), or with a folder of
//! pictures: `... -- folder:PATH`, where PATH has `train/CLASS/*.png` and `test/CLASS/*.png`.

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;

use brasa::data::{Last, OpenOptions, Pipeline, open};
use brasa::nn::{Conv2d, Init, Linear, Mode, Module, Variables, save_weights};
use brasa::ops::conv::ConvOptions;
use brasa::optim::{Momentum, Optimizer, SGD, SGDOptions};
use brasa::runtime::Step;
use brasa::tensor::CrossEntropy;
use brasa::{DType, Device, Error, Result, Tensor, variables};

/// The network: two convolutions, each with max-pooling, and three linear layers. 62,006 numbers to be learned.
struct Net {
    conv1: Conv2d,
    conv2: Conv2d,
    fc1: Linear,
    fc2: Linear,
    fc3: Linear,
}

impl Net {
    /// Layers are told where they are and draw their first weights from `init`, each by its own name.
    fn new(classes: usize, init: &Init) -> Result<Self> {
        Ok(Self {
            // 3 channels to 6, and 6 to 16, with windows of 5x5
            conv1: Conv2d::new(3, 6, 5, ConvOptions::default(), &init.at("conv1"))?,
            conv2: Conv2d::new(6, 16, 5, ConvOptions::default(), &init.at("conv2"))?,
            // what is left of 32x32 pixels: a window takes 4 off, pooling halves; 28, 14, 10, 5
            fc1: Linear::new(16 * 5 * 5, 120, &init.at("fc1"))?,
            fc2: Linear::new(120, 84, &init.at("fc2"))?,
            fc3: Linear::new(84, classes, &init.at("fc3"))?,
        })
    }
}

// Where the numbers are that are learned: what PyTorch finds by looking at attributes.
variables!(Net: conv1, conv2, fc1, fc2, fc3);

impl Module for Net {
    /// `[pictures, 3, 32, 32]` to a number for each class, larger if it is likelier: `[pictures, classes]`.
    fn forward(&self, pictures: &Tensor) -> Tensor {
        let x = self.conv1.forward(pictures).relu().max_pool2d(2, 2, 0);
        let x = self.conv2.forward(&x).relu().max_pool2d(2, 2, 0);
        // all but the first axis, which is the batch
        let x = x.flatten(1, -1);
        let x = self.fc1.forward(&x).relu();
        let x = self.fc2.forward(&x).relu();
        self.fc3.forward(&x)
    }
}

fn main() -> Result<()> {
    // 1. Where? The best device there is. `Device::cpu()` is the only line to change for a processor.
    let device = Device::best()?;
    println!("training on {}", device.info().name);

    // 2. The data: 50,000 pictures to learn from and 10,000 to be judged by, 32x32 pixels, ten classes. A picture is
    //    3,072 bytes: red, green and blue planes.
    let name = std::env::args().nth(1).ok_or_else(|| Error::Config("say where CIFAR-10 is".into()))?;
    let data = open(&name.parse()?, &OpenOptions::default())?;
    let classes = data.train.description().classes.clone();

    // 3. Batches: a step sees four pictures at a time, in another order in each of two passes. Threads read and put
    //    them together while the device computes; `shuffle` needs no list, and the same seed gives the same order.
    let train = Pipeline::new(data.train).shuffle().seed(1).batch(4, Last::Keep).epochs(2);
    let test = Pipeline::new(data.test).batch(100, Last::Pad);

    // 4. The network from above, with the first weights that the seed 1 gives.
    let model = Arc::new(Net::new(classes.len(), &Init::new(&device, 1))?);

    // 5. How it learns: cross-entropy says how wrong it is, SGD with momentum goes downhill.
    let options = SGDOptions { learning_rate: 0.001, momentum: Momentum::Heavy(0.9), ..SGDOptions::default() };
    let optimizer = Arc::new(SGD::new(&model.parameters(), options)?);

    // 6. One training step. The closure is called once, to see what is to be done; forward, loss, gradients and update
    //    become one plan of fused kernels, which every further step only replays.
    let (net, sgd, format) = (model.clone(), optimizer.clone(), train.format());
    let mut learn = Step::new(&device, move |uploads| {
        // bytes become numbers around 0, on the device
        let batch = format.receive(uploads);
        let loss = batch.labels.cross_entropy(&net.forward(&batch.inputs), &CrossEntropy::default());
        sgd.update(&loss.backward());
        vec![loss]
    })?;

    // 7. The loop. The loss stays on the device until somebody wants to see it: every 2,000 steps.
    let mut losses = Vec::new();
    for (number, batch) in train.start()?.enumerate() {
        losses.push(learn.run_bytes(&batch?.uploads())?.remove(0));
        if losses.len() == 2000 {
            learn.ensure_finite()?;
            let mean = Tensor::stack(&losses.iter().collect::<Vec<_>>(), 0).mean().item::<f32>()?;
            println!("step {:5}: loss {mean:.3}", number + 1);
            losses.clear();
        }
    }

    // 8. What was learned, under PyTorch's names: `torch` reads this file.
    save_weights(model.as_ref(), "cifar_net.safetensors")?;

    // 9. The exam, class by class, with pictures it has never seen. No gradients here, and layers know that they are
    //    used.
    let (net, format, count) = (model.clone(), test.format(), classes.len());
    let mut judge = Step::new(&device, move |uploads| {
        let batch = format.receive(uploads);
        let said = Mode::Evaluate.scope(|| net.forward(&batch.inputs)).argmax(1);
        let right = said.eq(&batch.labels.classes).to_dtype(DType::F32) * &batch.weights;
        // how many there are of each class, and how many were right
        let per_class = |what: &Tensor| batch.labels.classes.bincount_with(what, count);
        vec![per_class(&right), per_class(&batch.weights)]
    })?;
    let (mut right, mut all) = (vec![0.0; count], vec![0.0; count]);
    for batch in test.start()? {
        let counts = judge.run_bytes(&batch?.uploads())?;
        for (sums, count) in [&mut right, &mut all].into_iter().zip(&counts) {
            sums.iter_mut().zip(count.to_vec::<f32>()?).for_each(|(sum, value)| *sum += value);
        }
    }
    for (class, (right, all)) in classes.iter().zip(right.iter().zip(&all)) {
        println!("{class:>12}: {:.1} %", 100.0 * right / all);
    }
    println!("{:>12}: {:.1} %", "together", 100.0 * right.iter().sum::<f32>() / all.iter().sum::<f32>());
    Ok(())
}
