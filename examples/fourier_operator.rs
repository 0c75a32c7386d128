//! A Fourier neural operator (Li et al. 2020, arXiv 2010.08895): how a wave will look after a while, for waves that it
//! has not seen, on grids finer than the one that it was trained on.
//!
//! Burgers' equation `u_t + u u_x = ν u_xx` steepens waves and smooths them. Examples come from a solver of their spectra,
//! all waves together on whatever device there is; the network learns to do in one pass what takes that many steps.

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;
use std::time::Instant;

use brasa::fft::{self, Complex};
use brasa::nn::{Conv1d, Init};
use brasa::optim::{Adam, AdamOptions, Optimizer, Schedule};
use brasa::prelude::*;
use brasa::{runtime, variables};

/// Points of the solver's grid, and of the one that is learned on.
const FINE: usize = 256;
const COARSE: usize = 64;

/// Waves to learn from and to be tried with.
const LEARNED: usize = 512;
const TRIED: usize = 128;

const VISCOSITY: f32 = 0.05;
const MODES: usize = 16;
const WIDTH: usize = 32;
const BATCH: usize = 32;
const STEPS: u64 = 1_500;

/// Smooth waves around a circle, `[count, FINE]`: few frequencies, the lower the stronger.
fn waves(count: usize, device: &Device) -> Tensor {
    let frequency = Tensor::arange(FINE / 2 + 1, device).to_dtype(DType::F32);
    let strength = (frequency.square() * -0.08).exp() * FINE as f32 * 0.25;
    let part = || Tensor::randn([count, FINE / 2 + 1], device) * &strength;
    fft::irfft(&Complex::new(part(), part()), FINE, -1)
}

/// How fast spectra change: the slopes of `u² / 2`, of which frequencies that the grid cannot tell apart are left out,
/// and what friction takes.
fn change(spectrum: &Complex) -> Complex {
    let frequency = Tensor::arange(FINE / 2 + 1, spectrum.device()).to_dtype(DType::F32);
    let known = frequency.lt((FINE / 3) as f32).to_dtype(DType::F32);
    let energy = fft::rfft(&(fft::irfft(spectrum, FINE, -1).square() * 0.5), FINE, -1) * (&frequency * known);
    // the slope of a wave is the product of its spectrum with the frequency and i
    let slope = Complex::new(-energy.im(), energy.re().clone());
    -slope - spectrum * (frequency.square() * VISCOSITY)
}

/// The waves a time of 1 later, by the Runge-Kutta method of the fourth order.
fn solved(waves: &Tensor) -> Result<Tensor> {
    const TIMES: usize = 400;
    let time = 1.0 / TIMES as f32;
    let mut step = Step::new(waves.device(), move |parts| {
        let now = Complex::new(parts[0].clone(), parts[1].clone());
        let first = change(&now);
        let second = change(&(&now + &first * (time / 2.0)));
        let third = change(&(&now + &second * (time / 2.0)));
        let fourth = change(&(&now + &third * time));
        let next = now + (first + (second + third) * 2.0 + fourth) * (time / 6.0);
        vec![next.re().clone(), next.im().clone()]
    })?;
    let spectrum = fft::rfft(waves, None, -1);
    let mut parts = vec![spectrum.re().clone(), spectrum.im().clone()];
    for _ in 0..TIMES {
        parts = step.run(&parts)?;
    }
    let [re, im] = [parts.remove(0), parts.remove(0)];
    Ok(fft::irfft(&Complex::new(re, im), FINE, -1))
}

/// Mixes channels of each of the lowest frequencies, and drops the others.
struct SpectralConv {
    re: Var,
    im: Var,
}

variables!(SpectralConv: re, im);

impl SpectralConv {
    fn new(name: &str, device: &Device) -> Result<Self> {
        let weights = || Tensor::randn([WIDTH, WIDTH, MODES], device) / WIDTH as f32;
        let named = |part: &str| format!("{name}.{part}");
        Ok(Self { re: Var::parameter(&named("re"), &weights())?, im: Var::parameter(&named("im"), &weights())? })
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        let low = fft::rfft(x, None, -1).map(|part| part.slice(-1, ..MODES));
        let weights = Complex::new(self.re.tensor(), self.im.tensor());
        // frequencies that are not there are zero
        fft::irfft(&Complex::einsum("bik,iok->bok", &low, &weights), x.size(-1), -1)
    }
}

/// Layers that see a wave as a whole, by its spectrum, and point by point.
struct Operator {
    lift: Conv1d,
    spectral: Vec<SpectralConv>,
    local: Vec<Conv1d>,
    head: [Conv1d; 2],
}

variables!(Operator: lift, spectral, local, head);

impl Operator {
    fn new(device: &Device) -> Result<Self> {
        let init = Init::new(device, 1);
        let conv = |inputs, outputs, name: &str| Conv1d::new(inputs, outputs, [1], Default::default(), &init.at(name));
        let layers = 0..4;
        Ok(Self {
            lift: conv(1, WIDTH, "lift")?,
            spectral: layers
                .clone()
                .map(|n| SpectralConv::new(&format!("spectral.{n}"), device))
                .collect::<Result<_>>()?,
            local: layers.map(|n| conv(WIDTH, WIDTH, &format!("local.{n}"))).collect::<Result<_>>()?,
            head: [conv(WIDTH, 2 * WIDTH, "head.0")?, conv(2 * WIDTH, 1, "head.1")?],
        })
    }

    /// Waves later, from waves now: `[batch, points]`, however many points there are.
    fn forward(&self, waves: &Tensor) -> Tensor {
        let mut x = self.lift.forward(&waves.unsqueeze(1));
        for (spectral, local) in self.spectral.iter().zip(&self.local) {
            x = (spectral.forward(&x) + local.forward(&x)).gelu();
        }
        self.head[1].forward(&self.head[0].forward(&x).gelu()).squeeze(1)
    }
}

/// How far off waves are, relative to their size, in the mean.
fn error(got: &Tensor, expected: &Tensor) -> Tensor {
    ((got - expected).square().sum_dim(-1) / expected.square().sum_dim(-1)).sqrt().mean()
}

/// Every so many-th point.
fn sampled(waves: &Tensor, points: usize) -> Tensor {
    waves.slice_step(-1, .., (FINE / points) as isize)
}

fn main() -> Result<()> {
    let device = Device::best()?;
    runtime::seed(&device, 1)?;
    println!("on {}", device.info().name);
    let start = Instant::now();
    let now = waves(LEARNED + TRIED, &device);
    now.realize()?;
    let later = solved(&now)?;
    later.realize()?;
    println!("solved for {} waves in {:.1} s", LEARNED + TRIED, start.elapsed().as_secs_f64());

    let operator = Arc::new(Operator::new(&device)?);
    println!("{} numbers to learn", nn::parameter_count(&*operator));
    let optimizer = Arc::new(Adam::new(&operator.parameters(), AdamOptions::default())?);
    let (learner, updater) = (Arc::clone(&operator), Arc::clone(&optimizer));
    let mut learn = Step::new(&device, move |data| {
        let chosen = |waves: &Tensor| waves.index_select(0, &data[2]);
        let loss = error(&learner.forward(&chosen(&data[0])), &chosen(&data[1]));
        updater.update(&loss.backward());
        vec![loss]
    })?;
    let schedule = "cosine:warmup=50".parse::<Schedule>()?.for_run(STEPS);
    let [coarse, answers] = [&now, &later].map(|waves| sampled(&waves.slice(0, ..LEARNED), COARSE));
    coarse.realize()?;
    answers.realize()?;
    let start = Instant::now();
    for number in 1..=STEPS {
        optimizer.set_learning_rate(schedule.lr(3e-3, number - 1) as f32);
        let chosen = Tensor::randint(0, LEARNED as i32, [BATCH], &device);
        let loss = learn.run(&[coarse.clone(), answers.clone(), chosen])?.remove(0);
        if number % 300 == 0 {
            learn.ensure_finite()?;
            println!("step {number}: {:.2} % off", 100.0 * loss.item::<f32>()?);
        }
    }
    println!("learned in {:.1} s", start.elapsed().as_secs_f64());

    println!("waves that it has not seen, as they are and as they will be:");
    for points in [COARSE, 128, FINE] {
        let [now, later] = [&now, &later].map(|waves| sampled(&waves.slice(0, LEARNED..), points));
        let found = no_grad(|| operator.forward(&now));
        let [still, off] = [error(&now, &later), error(&found, &later)].map(|error| error.item::<f32>());
        println!("{points:3} points: {:.1} % apart, found but for {:.2} %", 100.0 * still?, 100.0 * off?);
    }
    Ok(())
}
