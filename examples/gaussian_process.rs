//! A Gaussian process that learns how smooth a curve is and how noisy its samples are: linear algebra with gradients.
//!
//! The marginal likelihood of the samples (Rasmussen and Williams 2006, equation 2.30) is computed from a Cholesky
//! factor of their covariance, and its gradient through that factor, by one captured step on whatever device there is.

#![expect(clippy::print_stdout, reason = "an example prints")]

use brasa::linalg::{self, Triangle};
use brasa::optim::{Adam, AdamOptions, Optimizer};
use brasa::prelude::*;
use brasa::runtime;

/// Samples, and how far they are off.
const SAMPLES: usize = 300;
const NOISE: f32 = 0.2;

/// The curve that is to be found.
fn curve(x: &Tensor) -> Tensor {
    (x * 3.0).sin() + x * 0.5
}

/// Logarithms of what is learned.
struct Process {
    lengthscale: Var,
    amplitude: Var,
    noise: Var,
}

brasa::variables!(Process: lengthscale, amplitude, noise);

impl Process {
    fn new(device: &Device) -> Result<Self> {
        let of = |name: &str, value: f32| Var::parameter(name, &Tensor::full([], value.ln(), device));
        Ok(Self { lengthscale: of("lengthscale", 3.0)?, amplitude: of("amplitude", 1.0)?, noise: of("noise", 1.0)? })
    }

    /// How curves at two lists of places vary together: the closer, the more.
    fn covariance(&self, a: &Tensor, b: &Tensor) -> Tensor {
        let distance = (a.unsqueeze(1) - b.unsqueeze(0)) / self.lengthscale.tensor().exp();
        (distance.square() * -0.5).exp() * (self.amplitude.tensor() * 2.0).exp()
    }

    /// The Cholesky factor of the samples' covariance, and what they come to by it.
    fn factor(&self, x: &Tensor, y: &Tensor) -> (Tensor, Tensor) {
        let noise = Tensor::eye(x.numel(), x.device()) * (self.noise.tensor() * 2.0).exp();
        let l = linalg::cholesky(&(self.covariance(x, x) + noise));
        let y = linalg::solve_triangular(&l, y, Triangle::Lower);
        (l, y)
    }

    /// The negative logarithm of how likely a sample is, in the mean.
    fn loss(&self, x: &Tensor, y: &Tensor) -> Tensor {
        let (l, y) = self.factor(x, y);
        let volume = l.diagonal(0, 0, 1).log().sum();
        (y.square().sum() * 0.5 + volume) / x.numel() as f32 + 0.5 * std::f32::consts::TAU.ln()
    }

    /// What curves through the samples are at other places: mean, and standard deviation.
    fn predict(&self, x: &Tensor, y: &Tensor, places: &Tensor) -> (Tensor, Tensor) {
        let (l, y) = self.factor(x, y);
        let across = linalg::solve_triangular(&l, &self.covariance(x, places), Triangle::Lower);
        let variance = (self.amplitude.tensor() * 2.0).exp() - across.square().sum_dim(0);
        (across.t().mv(&y), variance.clamp_min(0.0).sqrt())
    }
}

fn main() -> Result<()> {
    let device = Device::best()?;
    runtime::seed(&device, 1)?;
    let x = Tensor::rand([SAMPLES], &device) * 6.0 - 3.0;
    let y = curve(&x) + Tensor::randn([SAMPLES], &device) * NOISE;

    let process = std::sync::Arc::new(Process::new(&device)?);
    let options = AdamOptions { learning_rate: 0.05, ..AdamOptions::default() };
    let optimizer = Adam::new(&process.parameters(), options)?;
    let learned = process.clone();
    let mut step = Step::new(&device, move |data| {
        let loss = learned.loss(&data[0], &data[1]);
        optimizer.update(&loss.backward());
        vec![loss]
    })?;
    for number in 1..=150 {
        let loss = step.run(&[x.clone(), y.clone()])?.remove(0);
        if number % 30 == 0 {
            step.ensure_finite()?;
            println!("step {number}: {:.3} nats for a sample", loss.item::<f32>()?);
        }
    }

    let [lengthscale, noise] = [&process.lengthscale, &process.noise].map(|var| var.tensor().exp().item::<f32>());
    println!("correlated over {:.2}, noise {:.3} (it is {NOISE})", lengthscale?, noise?);
    let places = Tensor::linspace(-2.5, 2.5, 6, &device);
    let (mean, deviation) = process.predict(&x, &y, &places);
    let columns = [&places, &curve(&places), &mean, &deviation].map(Tensor::to_vec::<f32>);
    let [places, truth, mean, deviation] = columns;
    let (truth, mean, deviation) = (truth?, mean?, deviation?);
    for (number, place) in places?.into_iter().enumerate() {
        println!("at {place:+.1}: {:+.3} ± {:.3}, truly {:+.3}", mean[number], deviation[number], truth[number]);
    }
    Ok(())
}
