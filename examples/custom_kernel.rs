//! An own WGSL kernel as an op with a gradient: a recurrence along time, which tensor ops can only write step by step.
//!
//! `y[t] = decay · y[t - 1] + x[t]` in each row. From inputs and outputs alone the decays are learnt that made them, on
//! whatever device there is: `BRASA_DEBUG=2 cargo run --release --example custom_kernel` shows what the kernel takes.

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::sync::LazyLock;

use brasa::custom::{Call, CustomOp, Kernel, Signature};
use brasa::optim::{Adam, AdamOptions, Optimizer};
use brasa::runtime::{Step, Var};
use brasa::{Device, Result, Scalar, Tensor};

/// Forwards in time, or backwards: each is what the other's gradient needs.
static SCANS: LazyLock<[CustomOp<2>; 2]> =
    LazyLock::new(|| [false, true].map(|backwards| CustomOp::new(Scan { backwards }).expect("the WGSL is valid")));

#[derive(PartialEq, Eq, Hash)]
struct Scan {
    backwards: bool,
}

impl Kernel<2> for Scan {
    fn name(&self) -> &str {
        "scan"
    }

    // one invocation for each row
    fn wgsl(&self) -> &str {
        "
struct Params { length: u32, backwards: u32 }
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> decay: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(3) var<uniform> params: Params;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u) {
    let row = id.x;
    if row >= arrayLength(&decay) {
        return;
    }
    var state = 0.0;
    for (var step = 0u; step < params.length; step++) {
        let t = select(step, params.length - 1u - step, params.backwards == 1u);
        state = decay[row] * state + x[row * params.length + t];
        y[row * params.length + t] = state;
    }
}"
    }

    fn outputs(&self, [x, decay]: &[Signature; 2]) -> [Signature; 1] {
        assert!(x.shape.rank() == 2 && decay.shape.dims() == &x.shape[..1], "scan: {} and {}", x.shape, decay.shape);
        [x.clone()]
    }

    fn groups(&self, call: &Call) -> [u32; 3] {
        [call.inputs[1].shape[0].div_ceil(64) as u32, 1, 1]
    }

    fn params(&self, call: &Call) -> Vec<Scalar> {
        vec![(call.inputs[0].shape[1] as u32).into(), u32::from(self.backwards).into()]
    }

    /// The same on the CPU, which also checks the kernel: `BRASA_VALIDATE=1`.
    fn host(&self, call: &Call, [x, decay]: [&[f64]; 2], [y]: [&mut [f64]; 1]) {
        let length = call.inputs[0].shape[1];
        for (row, decay) in decay.iter().enumerate() {
            let mut state = 0.0;
            for step in 0..length {
                let t = row * length + if self.backwards { length - 1 - step } else { step };
                state = decay * state + x[t];
                y[t] = state;
            }
        }
    }

    /// `∂x` is the scan of the gradient in the other direction, and `∂decay = Σ ∂x[t] · y[t - 1]`.
    fn gradient(&self, [x, decay]: &[Tensor; 2], [y]: &[Tensor; 1], [gradient]: &[Tensor; 1]) -> [Option<Tensor>; 2] {
        let [by_x] = SCANS[usize::from(!self.backwards)].call([gradient, decay]);
        let length = x.shape()[1];
        let (earlier, later) = if self.backwards { (1..length, 0..length - 1) } else { (0..length - 1, 1..length) };
        let by_decay = (by_x.slice(1, later) * y.slice(1, earlier)).sum_dim(1);
        [Some(by_x), Some(by_decay)]
    }
}

fn main() -> Result<()> {
    let (device, rows, length) = (Device::best()?, 256, 400);
    let x = Tensor::randn([rows, length], &device);
    let wanted: Vec<f32> = (0..rows).map(|row| 0.95 * row as f32 / rows as f32).collect();
    let [y] = SCANS[0].call([&x, &Tensor::from_slice(&wanted, [rows], &device)?]);

    let decay = Var::parameter("decay", &Tensor::full([rows], 0.5, &device))?;
    let optimizer =
        Adam::new(std::slice::from_ref(&decay), AdamOptions { learning_rate: 0.01, ..AdamOptions::default() })?;
    let learnt = decay.clone();
    let mut step = Step::new(&device, move |tensors| {
        let [guess] = SCANS[0].call([&tensors[0], &decay.tensor()]);
        let loss = (guess - &tensors[1]).square().mean();
        optimizer.update(&loss.backward());
        vec![loss]
    })?;

    for number in 1..=400 {
        let loss = step.run(&[x.clone(), y.clone()])?.remove(0);
        if number % 100 == 0 {
            step.ensure_finite()?;
            println!("step {number}: loss {:.1e}", loss.item::<f32>()?);
        }
    }
    let learnt = learnt.tensor().to_vec::<f32>()?;
    let error = learnt.iter().zip(&wanted).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    println!("{rows} decays on {}: at most {error:.1e} off", device.name());
    Ok(())
}
