//! A short training, step by step against the same in f64.

use std::collections::HashMap;

use crate::autodiff::grad;
use crate::data::{Dataset as _, Sample, Target, digits};
use crate::device::Device;
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::{NodeRef, reference};
use crate::runtime::{Step, Var};
use crate::tensor::Tensor;

use super::Outcome;
use super::rows::values;

const STEPS: usize = 20;
const BATCH: usize = 32;
const LEARNING_RATE: f64 = 0.5;
/// The weights of a small CNN: a 3×3 convolution, and two dense layers behind max-pooling.
const WEIGHTS: [&[usize]; 6] = [&[8, 1, 3, 3], &[8], &[32, 128], &[32], &[10, 32], &[10]];

/// The loss of the network with these weights, computed in `dtype` behind f32 weights.
fn loss(weights: &[Tensor], pictures: &Tensor, labels: &Tensor, dtype: DType) -> Tensor {
    let [kernel, bias, first, first_bias, last, last_bias] =
        [0, 1, 2, 3, 4, 5].map(|number: usize| weights[number].to_dtype(dtype));
    let pictures = pictures.to_dtype(dtype);
    let same = crate::ops::conv::ConvOptions::default().padding(1);
    let found = pictures.conv2d(&kernel, Some(&bias), &same).relu().max_pool2d(2, 2, 0);
    let hidden = found.flatten(1, -1).linear(&first, Some(&first_bias)).relu();
    hidden.linear(&last, Some(&last_bias)).to_dtype(DType::F32).cross_entropy(labels)
}

/// Gradient descent by one step: the loss before it, and the weights after it.
fn step(weights: &[Tensor], pictures: &Tensor, labels: &Tensor, dtype: DType) -> Vec<Tensor> {
    let loss = loss(weights, pictures, labels, dtype);
    let gradients = grad(&loss, &weights.iter().collect::<Vec<_>>());
    let moved = weights.iter().zip(gradients).map(|(weight, gradient)| weight - gradient * LEARNING_RATE);
    std::iter::once(loss.clone()).chain(moved).collect()
}

/// What is trained with: digits, their classes, and the weights at the beginning, exact in f32.
struct Start {
    pictures: Vec<f32>,
    labels: Vec<i32>,
    weights: Vec<Vec<f64>>,
}

impl Start {
    fn new() -> Result<Self> {
        let data = digits()?.train;
        let (mut pictures, mut labels) = (Vec::new(), Vec::new());
        let mut sample = Sample::default();
        for number in 0..BATCH {
            data.get(number, &mut sample)?;
            pictures.extend(sample.input.as_bytes().iter().map(|&pixel| f32::from(pixel) / 255.0));
            let Target::Class(class) = sample.target else { unreachable!("the digits have classes") };
            labels.push(class as i32);
        }
        let weights = WEIGHTS.iter().zip(1..).map(|(shape, seed)| {
            let inputs: usize = shape[1..].iter().product();
            let bound = if shape.len() == 1 { 0.0 } else { (3.0 / inputs as f64).sqrt() };
            values(seed, shape.iter().product(), -bound, bound)
        });
        Ok(Self { pictures, labels, weights: weights.collect() })
    }

    fn tensors(&self, device: &Device) -> Result<(Tensor, Tensor, Vec<Tensor>)> {
        let pictures = Tensor::from_slice(&self.pictures, [BATCH, 1, 8, 8], device)?;
        let labels = Tensor::from_slice(&self.labels, [BATCH], device)?;
        let weights = self.weights.iter().zip(WEIGHTS).map(|(values, shape)| {
            let values: Vec<f32> = values.iter().map(|&value| value as f32).collect();
            Tensor::from_slice(&values, shape, device)
        });
        Ok((pictures, labels, weights.collect::<Result<_>>()?))
    }

    /// The losses in f64.
    fn expected(&self) -> Result<Vec<f64>> {
        let (pictures, labels, weights) = self.tensors(&Device::cpu())?;
        let results = step(&weights, &pictures, &labels, DType::F32);
        let nodes: Vec<NodeRef> = results.iter().map(|result| result.node().clone()).collect();
        let mut current = self.weights.clone();
        let mut losses = Vec::new();
        for _ in 0..STEPS {
            let leaves: HashMap<u64, Vec<f64>> = weights.iter().map(|weight| weight.node().id).zip(current).collect();
            let mut values = reference::evaluate(&nodes, &leaves);
            current = values.split_off(1);
            losses.push(values[0][0]);
        }
        Ok(losses)
    }

    /// The losses on `device`, by a captured step as training has it.
    fn trained(&self, device: &Device, dtype: DType) -> Result<Vec<f32>> {
        let (pictures, labels, weights) = self.tensors(device)?;
        let variables = weights.iter().zip(0..).map(|(weight, number)| Var::parameter(&format!("w{number}"), weight));
        let variables = variables.collect::<Result<Vec<_>>>()?;
        let mut captured = Step::new(device, move |inputs| {
            let weights: Vec<Tensor> = variables.iter().map(Var::tensor).collect();
            let mut results = step(&weights, &inputs[0], &inputs[1], dtype);
            for (variable, moved) in variables.iter().zip(&results[1..]) {
                variable.assign(moved);
            }
            results.truncate(1);
            results
        })?;
        let inputs = [pictures, labels];
        (0..STEPS).map(|_| captured.run(&inputs)?[0].item()).collect()
    }
}

/// In f32, twice: within 1e-4 of the losses in f64, and the same bits.
pub(super) fn in_f32(device: &Device) -> Result<Outcome> {
    let start = Start::new()?;
    let losses = start.trained(device, DType::F32)?;
    if losses != start.trained(device, DType::F32)? {
        return Ok(Outcome::Failed("the same training twice gave different losses".into()));
    }
    // what the tests ask of both backends, against PyTorch
    Ok(judged(&losses, &start.expected()?, 1e-4))
}

/// With f16 between f32 weights and an f32 loss: within 1 %, as f16 has eleven bits and steps add up.
pub(super) fn in_f16(device: &Device) -> Result<Outcome> {
    let start = Start::new()?;
    Ok(judged(&start.trained(device, DType::F16)?, &start.expected()?, 1e-2))
}

fn judged(losses: &[f32], expected: &[f64], allowed: f64) -> Outcome {
    let off = |(got, expected): (&f32, &f64)| ((f64::from(*got) - expected) / expected).abs();
    let worst = losses
        .iter()
        .zip(expected)
        .map(off)
        .fold(0.0, |worst, off| if off > worst || off.is_nan() { off } else { worst });
    let (first, last) = (losses[0], losses[losses.len() - 1]);
    let text =
        format!("{STEPS} losses from {first:.4} to {last:.4}, at most {worst:.1e} from f64's (allowed {allowed:.0e})");
    if worst <= allowed && last < first { Outcome::Passed(text) } else { Outcome::Failed(text) }
}
