//! Fourier transforms: `cargo bench --bench fft -- [DEVICE]`. The figures stand in `benches/NOTES.md`.

#![allow(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::time::Instant;

use brasa::fft::{self, Complex, Stft};
use brasa::runtime::Step;
use brasa::{Device, Result, Tensor};

/// Runs of which the median counts.
const RUNS: usize = 15;

/// Milliseconds of the median run of a captured step, after one that compiles it.
fn milliseconds(inputs: &[Tensor], f: impl Fn(&[Tensor]) -> Complex + Send + 'static) -> Result<f64> {
    let device = inputs[0].device().clone();
    let mut step = Step::new(&device, move |inputs| {
        let z = f(inputs);
        vec![z.re().clone(), z.im().clone()]
    })?;
    let mut once = || -> Result<f64> {
        let start = Instant::now();
        let outputs = step.run(inputs)?;
        // one element back: the device has finished
        outputs[0].reshape([-1]).narrow(0, 0, 1).item::<f32>()?;
        Ok(start.elapsed().as_secs_f64() * 1e3)
    };
    once()?;
    once()?;
    let mut times = (0..RUNS).map(|_| once()).collect::<Result<Vec<f64>>>()?;
    times.sort_by(f64::total_cmp);
    Ok(times[RUNS / 2])
}

/// Random parts in memory.
fn random(shape: &[usize], device: &Device) -> Result<[Tensor; 2]> {
    let parts = [Tensor::randn(shape, device), Tensor::randn(shape, device)];
    parts.iter().try_for_each(Tensor::realize)?;
    Ok(parts)
}

fn complex(parts: &[Tensor]) -> Complex {
    Complex::new(parts[0].clone(), parts[1].clone())
}

fn main() -> Result<()> {
    // cargo adds flags of its own
    let name = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    let device = Device::named(&name.unwrap_or_else(|| "cpu".into()))?;
    println!("{}", device.name());
    let report = |name: &str, ms: f64| println!("{name:<32} {ms:9.2} ms");
    let square = random(&[1024, 1024], &device)?;
    // the floor: what reads and writes as much
    report("copy 1024 x 1024", milliseconds(&square, |x| complex(x) * 1.5)?);
    report("fft of rows, 1024 x 1024", milliseconds(&square, |x| fft::fft(&complex(x), None, 1))?);
    report("fft of columns, 1024 x 1024", milliseconds(&square, |x| fft::fft(&complex(x), None, 0))?);
    report("fft2, 1024 x 1024", milliseconds(&square, |x| fft::fft2(&complex(x)))?);
    report("rfft of rows, 1024 x 1024", milliseconds(&square, |x| fft::rfft(&x[0], None, 1))?);
    report("irfft of rows, 1024 x 2046", milliseconds(&square, |x| Complex::real(&fft::irfft(&complex(x), None, 1)))?);
    let short = random(&[16_384, 64], &device)?;
    report("fft of rows, 16384 x 64", milliseconds(&short, |x| fft::fft(&complex(x), None, 1))?);
    let long = random(&[4, 1 << 18], &device)?;
    report("rfft of rows, 4 x 262144", milliseconds(&long, |x| fft::rfft(&x[0], None, 1))?);
    let prime = random(&[1024, 1009], &device)?;
    report("fft of rows, 1024 x 1009", milliseconds(&prime, |x| fft::fft(&complex(x), None, 1))?);
    let pictures = random(&[32, 3, 128, 128], &device)?;
    report("rfft2, 32 x 3 x 128 x 128", milliseconds(&pictures, |x| fft::rfft2(&x[0]))?);
    let sound = random(&[16, 64_000], &device)?;
    let stft = Stft::new(400).hop(160).window(&fft::hann_window(400, true, &device));
    report("stft 400 / 160, 16 x 64000", milliseconds(&sound, move |x| stft.forward(&x[0]))?);
    Ok(())
}
