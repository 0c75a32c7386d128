//! Recomputed segments draw the same random numbers again.

use brasa::autodiff::grad;
use brasa::nn::{Dropout, Module};
use brasa::runtime::{Step, Var, checkpoint, seed};
use brasa::{Device, Tensor};

use super::common::{assert_close, doubles, fresh_devices, values};

/// Multiples of 1/64.
fn samples(shape: &[usize], number: u64) -> Vec<f32> {
    let values = values(number, shape.iter().product(), -1.0, 1.0);
    values.into_iter().map(|value| ((value * 64.0).round() / 64.0) as f32).collect()
}

/// Two layers with dropout between; `checkpointed`: nothing in them is kept for the backward pass.
fn gradients_with_dropout(device: &Device, checkpointed: bool) -> (Vec<f64>, Vec<Vec<f64>>) {
    seed(device, 42).expect("a seed");
    let weights: Vec<Var> = (0..4)
        .map(|number| {
            let value = Tensor::from_slice(&samples(&[16, 16], 50 + number), [16, 16], device).expect("memory");
            Var::parameter(&format!("w{number}"), &value).expect("memory")
        })
        .collect();
    let mut step = Step::new(device, move |inputs| {
        let mut value = inputs[0].clone();
        for part in 0..2 {
            let block = || {
                let [first, second] = [weights[2 * part].tensor(), weights[2 * part + 1].tensor()];
                let hidden = Dropout::new(0.5).forward(&value.matmul(&first).tanh());
                Dropout::new(0.25).forward(&hidden.matmul(&second).tanh())
            };
            value = if checkpointed { checkpoint(block) } else { block() };
        }
        // a draw after those of the blocks: it must not repeat theirs
        let noise = Tensor::rand(value.shape(), value.device());
        let loss = (value * &noise).square().sum();
        let parameters: Vec<Tensor> = weights.iter().map(Var::tensor).collect();
        let mut outputs = vec![loss.clone(), noise];
        outputs.extend(grad(&loss, &parameters.iter().collect::<Vec<_>>()));
        outputs
    })
    .expect("a step");
    let input = Tensor::from_slice(&samples(&[8, 16], 60), [8, 16], device).expect("memory");
    step.run(std::slice::from_ref(&input)).expect("a run");
    let outputs = step.run(&[input]).expect("a second run, with other draws");
    let mut values: Vec<Vec<f64>> = outputs.iter().map(doubles).collect();
    (values.remove(0), values)
}

#[test]
fn checkpointing_gives_the_same_gradients_with_dropout_inside() {
    for device in fresh_devices() {
        let (loss, plain) = gradients_with_dropout(&device, false);
        let (same_loss, checkpointed) = gradients_with_dropout(&device, true);
        assert_close("loss", &same_loss, &loss, 1e-6, 0.0);
        assert_eq!(plain[0], checkpointed[0], "the draw after the blocks");
        for (number, (got, expected)) in checkpointed.iter().zip(&plain).enumerate().skip(1) {
            assert!(expected.iter().any(|value| value.abs() > 0.1), "there is a gradient");
            // kernels are cut elsewhere, so sums of 8 to 16 terms run in another order
            assert_close(&format!("gradient {number} on {device:?}"), got, expected, 1e-5, 1e-5);
        }
    }
}
