//! The smallest network that needs a hidden layer: exclusive or.

#![expect(clippy::print_stdout, reason = "an example prints")]

use brasa::nn::Linear;
use brasa::optim::{Adam, AdamOptions};
use brasa::prelude::*;

fn main() -> Result<()> {
    let device = Device::best()?;
    let inputs = Tensor::from_slice(&[0.0_f32, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0], [4, 2], &device)?;
    let targets = Tensor::from_slice(&[0.0_f32, 1.0, 1.0, 0.0], [4, 1], &device)?;

    let init = Init::new(&device, 1);
    let hidden = Linear::new(2, 8, &init.at("hidden"))?;
    let output = Linear::new(8, 1, &init.at("output"))?;
    let parameters = [hidden.parameters(), output.parameters()].concat();
    let optimizer = Adam::new(&parameters, AdamOptions { learning_rate: 0.05, ..AdamOptions::default() })?;

    // Traced once, then replayed: forward, loss, gradients and the update are one plan of fused kernels.
    let mut step = Step::new(&device, move |tensors| {
        let [inputs, targets] = tensors else { panic!("inputs and targets") };
        let guesses = output.forward(&hidden.forward(inputs).tanh()).sigmoid();
        let loss = (&guesses - targets).square().mean();
        optimizer.update(&loss.backward());
        vec![loss, guesses]
    })?;

    for number in 1..=300 {
        let results = step.run(&[inputs.clone(), targets.clone()])?;
        if number % 100 == 0 {
            step.ensure_finite()?;
            println!("step {number}: loss {:.5}", results[0].item::<f32>()?);
        }
        if number == 300 {
            println!("0^0, 0^1, 1^0, 1^1: {:.2?}", results[1].to_vec::<f32>()?);
        }
    }
    Ok(())
}
