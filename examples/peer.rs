//! One line of JSON for each workload that frameworks are compared by: matrix products, loops, memory-bound operations,
//! convolutions, training steps, inference.
//!
//! ```text
//! cargo run --release --example peer -- --backend cpu --filter matmul
//! ```
//!
//! Inputs are drawn before the first call and stay the same; training steps get theirs as a loader hands them over, as
//! bytes. Up to three calls warm up; then there are at least five runs in at least two seconds, or two if one takes
//! more than ten. A run ends when the device has been waited for.

#![expect(clippy::print_stdout, reason = "its lines are what it is for")]

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use brasa::autodiff::vjp;
use brasa::models::{ModelSpec, create};
use brasa::nn::Mode;
use brasa::ops::conv::ConvOptions;
use brasa::optim::{Adam, AdamOptions, Optimizer};
use brasa::runtime::Step;
use brasa::tensor::no_grad;
use brasa::{DType, Device, Element, Error, Result, Shape, Tensor};
use clap::Parser;
use serde_json::{Map, Value, json};

/// 64 MiB of f32.
const MANY: usize = 16 << 20;

/// Prints a line of JSON for each workload.
#[derive(Parser)]
struct Options {
    /// `cpu`, `gpu`, or part of a GPU's name
    #[arg(long, default_value = "gpu")]
    backend: String,
    /// Only workloads whose names contain this
    #[arg(long, default_value = "")]
    filter: String,
    /// The filter is the whole name
    #[arg(long)]
    exact: bool,
    #[arg(long, default_value_t = 5)]
    min_runs: usize,
    /// Seconds
    #[arg(long, default_value_t = 2.0)]
    min_time: f64,
    /// When the process was started, in seconds since 1970; this is where it begins to run, if it is not said
    #[arg(long, env = "PEERS_T0")]
    started: Option<f64>,
}

/// Runs the workloads that are asked for.
struct Peer {
    options: Options,
    device: Device,
    started: f64,
}

/// Part of a batch on the host.
struct Batch {
    shape: Shape,
    dtype: DType,
    bytes: Vec<u8>,
}

impl Batch {
    fn new<T: Element + bytemuck::Pod>(values: &Tensor) -> Result<Self> {
        let bytes = bytemuck::cast_slice(&values.to_vec::<T>()?).to_vec();
        Ok(Self { shape: values.shape().clone(), dtype: values.dtype(), bytes })
    }
}

/// What was timed of one workload, in seconds.
struct Timed {
    first: f64,
    age_after_first: f64,
    runs: Vec<f64>,
}

fn main() -> Result<()> {
    let begun = unix_time();
    let options = Options::parse();
    let device = Device::named(&options.backend)?;
    let peer = Peer { started: options.started.unwrap_or(begun), options, device };
    products(&peer);
    memory_bound(&peer);
    convolutions(&peer);
    training(&peer);
    inference(&peer);
    Ok(())
}

fn products(peer: &Peer) {
    let device = &peer.device;
    let squares = [256, 512, 1024, 2048].map(|side| (format!("matmul_{side}"), [side; 3], DType::F32));
    let others =
        [[70, 30, 70], [7000, 3000, 7000]].map(|[m, k, n]| (format!("matmul_{m}x{k}x{n}"), [m, k, n], DType::F32));
    // what libraries of vendors are measured by
    let large =
        [("", DType::F32), ("_f16", DType::F16)].map(|(end, dtype)| (format!("matmul_4096{end}"), [4096; 3], dtype));
    for (name, [m, k, n], dtype) in squares.into_iter().chain(others).chain(large) {
        peer.run(&name, product_flops(m, k, n), || {
            let matrix = |rows: usize, columns: usize| Tensor::rand([rows, columns], device).to_dtype(dtype);
            let inputs = realized(&[matrix(m, k), matrix(k, n)])?;
            Ok(peer.waited(move || inputs[0].matmul(&inputs[1])))
        });
    }
    for (name, [rows, inner], count, tolerance) in
        [("loop_small", [70, 30], 100, 0.2), ("loop_large", [7000, 3000], 1, 0.02)]
    {
        peer.run(name, count as f64 * product_flops(rows, inner, rows), || {
            let drawn = device.clone();
            let mut step = Step::new(device, move |_| {
                let [x, y] = [(); 2].map(|()| Tensor::rand([rows, inner], &drawn));
                vec![x.matmul(&y.t()).sum()]
            })?;
            let expected = (rows * rows * inner) as f64 / 4.0;
            Ok(move || {
                for _ in 1..count {
                    step.run(&[])?;
                }
                check_sum(&step.run(&[])?[0], expected, tolerance)
            })
        });
    }
}

fn memory_bound(peer: &Peer) {
    let device = &peer.device;
    let many = || Tensor::rand([MANY], device);
    peer.run("gelu_chain_16m", 0.0, || {
        let x = realized(&[many(), many(), many(), many()])?;
        Ok(peer.waited(move || (&x[0] * &x[1] + &x[2]).gelu() * &x[3]))
    });
    peer.run("add1_16m", 0.0, || {
        let x = realized(&[many()])?;
        Ok(peer.waited(move || &x[0] + 1.0))
    });
    peer.run("sum_16m", 0.0, || {
        let x = realized(&[many()])?;
        Ok(move || check_sum(&x[0].sum(), MANY as f64 / 2.0, 0.02))
    });
    peer.run("softmax_4096x1024", 0.0, || {
        let x = realized(&[Tensor::rand([4096, 1024], device)])?;
        Ok(peer.waited(move || x[0].softmax(1)))
    });
    peer.run("transpose_4096", 0.0, || {
        let x = realized(&[Tensor::rand([4096, 4096], device)])?;
        Ok(peer.waited(move || x[0].t()))
    });
}

fn convolutions(peer: &Peer) {
    let flops = 2.0 * (32 * 64 * 64 * 9 * 32 * 32) as f64;
    let picture = || Tensor::rand([32, 64, 32, 32], &peer.device);
    let weights = || Tensor::rand([64, 64, 3, 3], &peer.device);
    let padded = ConvOptions::default().padding(1);
    peer.run("conv_fwd", flops, || {
        let (inputs, options) = (realized(&[picture(), weights()])?, padded.clone());
        Ok(peer.waited(move || inputs[0].conv2d(&inputs[1], None, &options)))
    });
    peer.run("conv_fwd_bwd", 3.0 * flops, || {
        let (inputs, options) = (realized(&[picture(), weights(), picture()])?, padded.clone());
        let mut step = Step::new(&peer.device, move |x| {
            let y = x[0].conv2d(&x[1], None, &options);
            // the forward is asked for as well, or planning would leave it out
            [vec![y.clone()], vjp(&[&y], &[&x[2]], &[&x[0], &x[1]])].concat()
        })?;
        Ok(move || {
            let _kept = step.run(&inputs)?;
            peer.device.sync()
        })
    });
}

fn training(peer: &Peer) {
    let image = |batch: usize| vec![batch, 3, 32, 32];
    let networks = [
        ("train_mlp_b64", "mlp", vec![64, 1, 8, 8], 10, vec![64], 5_488_640.0),
        ("train_cnn_b4", "tutorial-cnn", image(4), 10, vec![4], 4.0 * 3_204_720.0),
        ("train_cnn_b128", "tutorial-cnn", image(128), 10, vec![128], 128.0 * 3_204_720.0),
        ("train_resnet20_b64", "resnet20", image(64), 10, vec![64], 15_615_639_552.0),
        ("train_resnet20_b128", "resnet20", image(128), 10, vec![128], 2.0 * 15_615_639_552.0),
        ("train_unet_b8", "unet", vec![8, 3, 128, 128], 3, vec![8, 128, 128], 31_973_179_392.0),
        ("train_gpt_b8", "gpt", vec![8, 128], 96, vec![8, 128], 5_846_859_776.0),
    ];
    for (name, model, shape, classes, targets, flops) in networks {
        peer.train(name, flops, || {
            let device = &peer.device;
            let network = create(model, &ModelSpec { input: shape[1..].to_vec(), classes, seed: 1 }, device)?;
            let options = if model == "gpt" { AdamOptions::adamw() } else { AdamOptions::default() };
            let optimizer = Adam::new(&network.parameters(), options)?;
            let numbers = |shape: &[usize]| Batch::new::<i32>(&Tensor::randint(0, classes as i32, shape, device));
            let samples = match model {
                "gpt" => numbers(&shape),
                _ => Batch::new::<f32>(&Tensor::rand(shape.clone(), device)),
            }?;
            let inputs = [samples, numbers(&targets)?];
            let step = Step::new(device, move |inputs| {
                let loss = network.forward(&inputs[0]).cross_entropy(&inputs[1]);
                optimizer.update(&loss.backward());
                vec![loss]
            })?;
            Ok((step, inputs))
        });
    }
}

fn inference(peer: &Peer) {
    for (name, model) in [("infer_cnn_b1", "tutorial-cnn"), ("infer_resnet20_b1", "resnet20")] {
        peer.run(name, 0.0, || {
            let device = &peer.device;
            let network = create(model, &ModelSpec { input: vec![3, 32, 32], classes: 10, seed: 1 }, device)?;
            let inputs = realized(&[Tensor::rand([1, 3, 32, 32], device)])?;
            let forward = move |x: &[Tensor]| vec![no_grad(|| Mode::Evaluate.scope(|| network.forward(&x[0])))];
            let mut step = Step::new(device, forward)?;
            Ok(move || {
                let _kept = step.run(&inputs)?;
                device.sync()
            })
        });
    }
}

/// Multiplications and additions of `[m, k]` times `[k, n]`.
fn product_flops(m: usize, k: usize, n: usize) -> f64 {
    2.0 * m as f64 * k as f64 * n as f64
}

/// Computes them now, so that no run has to.
fn realized(inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    inputs.iter().try_for_each(Tensor::realize)?;
    Ok(inputs.to_vec())
}

/// Reads a sum back, which must be about what is `expected` of uniform numbers: a fast wrong one is no result.
fn check_sum(sum: &Tensor, expected: f64, tolerance: f64) -> Result<()> {
    let sum = f64::from(sum.item::<f32>()?);
    let is_right = (sum / expected - 1.0).abs() < tolerance;
    is_right.then_some(()).ok_or_else(|| Error::Config(format!("the sum is {sum}, not about {expected}")))
}

impl Peer {
    /// Computes a tensor into new memory and waits for it.
    fn waited<'a>(&'a self, compute: impl Fn() -> Tensor + 'a) -> impl FnMut() -> Result<()> + 'a {
        move || {
            let kept = compute();
            kept.realize()?;
            self.device.sync()?;
            drop(kept);
            Ok(())
        }
    }

    fn run<S: FnMut() -> Result<()>>(&self, name: &str, flops: f64, make: impl FnOnce() -> Result<S>) {
        if self.wants(name) {
            let timed = make().and_then(|step| self.time(step));
            self.print(name, flops, timed, |_| Map::new());
        }
    }

    fn train(&self, name: &str, flops: f64, make: impl FnOnce() -> Result<(Step, [Batch; 2])>) {
        if !self.wants(name) {
            return;
        }
        let mut losses: Vec<Tensor> = Vec::new();
        let timed = make().and_then(|(mut step, inputs)| {
            let inputs = inputs.each_ref().map(|batch| (&batch.shape, batch.dtype, batch.bytes.as_slice()));
            self.time(|| {
                losses.truncate(1);
                losses.extend(step.run_bytes(&inputs)?);
                self.device.sync()
            })
        });
        self.print(name, flops, timed, |timed| {
            let loss = |tensor: Option<&Tensor>| tensor.and_then(|loss| loss.item::<f32>().ok());
            let mut more = Map::new();
            more.insert("time_to_first_step_s".into(), json!(timed.age_after_first));
            more.insert("loss_first".into(), json!(loss(losses.first())));
            more.insert("loss_last".into(), json!(loss(losses.last())));
            more
        });
    }

    fn wants(&self, name: &str) -> bool {
        if self.options.exact { name == self.options.filter } else { name.contains(&self.options.filter) }
    }

    fn time(&self, mut step: impl FnMut() -> Result<()>) -> Result<Timed> {
        let mut timed = || -> Result<f64> {
            let begun = Instant::now();
            step()?;
            Ok(begun.elapsed().as_secs_f64())
        };
        let first = timed()?;
        let age_after_first = unix_time() - self.started;
        for limit in [30.0, 5.0] {
            if first < limit {
                timed()?;
            }
        }
        let (mut runs, begun) = (Vec::new(), Instant::now());
        loop {
            runs.push(timed()?);
            let (count, total) = (runs.len(), begun.elapsed().as_secs_f64());
            let enough = count >= self.options.min_runs && total >= self.options.min_time;
            if enough || total > 60.0 || (runs[0] > 10.0 && count >= 2) {
                return Ok(Timed { first, age_after_first, runs });
            }
        }
    }

    fn print(&self, name: &str, flops: f64, timed: Result<Timed>, more: impl FnOnce(&Timed) -> Map<String, Value>) {
        let peer = format!("brasa-{}", if self.device.is_cpu() { "cpu" } else { "gpu" });
        let mut line = json!({"peer": peer, "version": env!("CARGO_PKG_VERSION"), "workload": name});
        let fields = line.as_object_mut().expect("it is one");
        match timed {
            Ok(mut timed) => {
                fields.extend(more(&timed));
                timed.runs.sort_by(f64::total_cmp);
                let count = timed.runs.len();
                let median = (timed.runs[(count - 1) / 2] + timed.runs[count / 2]) / 2.0;
                fields.insert("median_s".into(), json!(median));
                fields.insert("min_s".into(), json!(timed.runs[0]));
                fields.insert("runs".into(), json!(count));
                fields.insert("gflops".into(), if flops > 0.0 { json!(flops / median / 1e9) } else { Value::Null });
                fields.insert("peak_rss_mib".into(), json!(peak_resident_mib()));
                let bytes = self.device.memory().peak_bytes;
                fields.insert("peak_tensor_mib".into(), json!(bytes as f64 / f64::from(1 << 20)));
                fields.insert("first_call_s".into(), json!(timed.first));
            }
            Err(error) => {
                fields.insert("median_s".into(), Value::Null);
                fields.insert("min_s".into(), Value::Null);
                fields.insert("runs".into(), json!(0));
                fields.insert("gflops".into(), Value::Null);
                fields.insert("error".into(), json!(error.to_string()));
            }
        }
        println!("{line}");
    }
}

/// The largest amount of memory that the process has held, where the system tells.
fn peak_resident_mib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kib: f64 =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib / 1024.0)
}

fn unix_time() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
