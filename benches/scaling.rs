//! Time of a training step against batch, depth, width and resolution, as a table and a picture.
//!
//! `cargo bench --bench scaling -- [cpu|gpu] [FILE.svg]`. A step costs what its operations cost if its line is no
//! steeper than the grey one.

#![allow(clippy::print_stdout, reason = "a benchmark prints its results")]

mod support;

use std::path::PathBuf;
use std::time::Instant;

use brasa::models::{CifarResNet, Mlp};
use brasa::nn::{Init, Module};
use brasa::runs::export::{Chart, ChartLine};
use brasa::{Device, Error, Tensor};

use support::training_step;

const MIN_RUNS: usize = 5;
const MIN_S: f64 = 1.0;

/// What grows, how large it is, the work relative to the smallest, and the seconds of a step.
struct Sweep {
    name: &'static str,
    color: [u8; 3],
    points: Vec<(usize, f64, f64)>,
}

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let device = Device::named(&arguments.next().unwrap_or_else(|| "cpu".into()))?;
    let file = arguments.next().map(PathBuf::from);
    let resnet = |depth: usize, batch: usize, side: usize| {
        let model = CifarResNet::new(depth, 3, 10, &Init::new(&device, 1))?;
        seconds(&device, model, &[batch, 3, side, side])
    };
    let mlp = |width: usize| seconds(&device, Mlp::new(&[64, width, width, 10], &Init::new(&device, 1))?, &[64, 64]);
    let sweeps = [
        sweep("batch", [214, 84, 32], &[8, 16, 32, 64, 128], |n| n as f64, |n| resnet(20, n, 32))?,
        // blocks with two convolutions each, all of them as dear; the first convolution and the last layer are little
        sweep("depth", [46, 106, 168], &[8, 14, 20, 32, 56], |n| (n - 2) as f64, |n| resnet(n, 16, 32))?,
        sweep("width", [60, 140, 60], &[256, 512, 1024, 2048, 4096], |n| (n * n + 74 * n) as f64, mlp)?,
        sweep("resolution", [130, 80, 150], &[16, 32, 48, 64, 96], |n| (n * n) as f64, |n| resnet(20, 8, n))?,
    ];
    for sweep in &sweeps {
        println!("{}", sweep.name);
        for (size, work, seconds) in &sweep.points {
            let each = seconds / work / sweep.points[0].2;
            println!("  {size:>5}  work x {work:<7.2} {:>9.2} ms   time for the work x {each:.2}", seconds * 1e3);
        }
    }
    file.map_or(Ok(()), |file| draw(&sweeps, &device, &file))
}

fn sweep(
    name: &'static str,
    color: [u8; 3],
    sizes: &[usize],
    work: impl Fn(usize) -> f64,
    seconds: impl Fn(usize) -> Result<f64, Error>,
) -> Result<Sweep, Error> {
    let points = sizes.iter().map(|&size| Ok((size, work(size) / work(sizes[0]), seconds(size)?)));
    Ok(Sweep { name, color, points: points.collect::<Result<_, Error>>()? })
}

/// The median of the steps after the first two.
fn seconds(device: &Device, model: impl Module + 'static, shape: &[usize]) -> Result<f64, Error> {
    let mut step = training_step(device, Box::new(model))?;
    let inputs = [Tensor::rand(shape, device), Tensor::full([shape[0]], 1, device)];
    for input in &inputs {
        input.realize()?;
    }
    let mut once = || -> Result<f64, Error> {
        let start = Instant::now();
        step.run(&inputs)?;
        device.sync()?;
        Ok(start.elapsed().as_secs_f64())
    };
    once()?;
    once()?;
    let mut times = Vec::new();
    while times.len() < MIN_RUNS || times.iter().sum::<f64>() < MIN_S {
        times.push(once()?);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

fn draw(sweeps: &[Sweep], device: &Device, file: &std::path::Path) -> Result<(), Error> {
    let most = sweeps.iter().flat_map(|sweep| &sweep.points).map(|point| point.1).fold(1.0, f64::max);
    let linear = ChartLine {
        label: "as much time as work".into(),
        color: [170; 3],
        points: vec![[1.0, 1.0], [most, most]],
        ..Default::default()
    };
    let lines = sweeps.iter().map(|sweep| ChartLine {
        label: format!("{} {} to {}", sweep.name, sweep.points[0].0, sweep.points[sweep.points.len() - 1].0),
        color: sweep.color,
        points: sweep.points.iter().map(|point| [point.1, point.2 / sweep.points[0].2]).collect(),
        ..Default::default()
    });
    let title = format!("a training step on {}", device.info());
    let chart = Chart {
        title: &title,
        x: "times the work",
        y: "times the time",
        log_x: true,
        log_y: true,
        low_legend: true,
        lines: std::iter::once(linear).chain(lines).collect(),
        size: (900, 600),
    };
    std::fs::write(file, chart.to_svg()?).map_err(|error| Error::Config(format!("{}: {error}", file.display())))
}
