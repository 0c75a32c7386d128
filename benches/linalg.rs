//! Decompositions and solvers: `cargo bench --bench linalg -- [DEVICE]`. The figures stand in `benches/NOTES.md`.

#![allow(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::time::Instant;

use brasa::linalg;
use brasa::{Device, Result, Tensor};

/// Runs of which the median counts.
const RUNS: usize = 7;

/// Milliseconds of the median run of `f`, after one that compiles it.
fn milliseconds(f: impl Fn() -> Tensor) -> Result<f64> {
    let once = || -> Result<f64> {
        let start = Instant::now();
        // one element back: the device has finished
        f().reshape([-1]).narrow(0, 0, 1).item::<f32>()?;
        Ok(start.elapsed().as_secs_f64() * 1e3)
    };
    once()?;
    let mut times = (0..RUNS).map(|_| once()).collect::<Result<Vec<f64>>>()?;
    times.sort_by(f64::total_cmp);
    Ok(times[RUNS / 2])
}

/// Random elements in memory.
fn random(shape: &[usize], device: &Device) -> Result<Tensor> {
    let x = Tensor::randn(shape, device);
    x.realize()?;
    Ok(x)
}

fn main() -> Result<()> {
    // cargo adds flags of its own
    let name = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    let device = Device::named(&name.unwrap_or_else(|| "cpu".into()))?;
    println!("{}", device.name());
    let report = |name: &str, ms: f64| println!("{name:<28} {ms:9.2} ms");
    for n in [64, 256, 1024] {
        let (x, b) = (random(&[n, n], &device)?, random(&[n], &device)?);
        let definite = x.matmul(&x.t()) / n as f32 + Tensor::eye(n, &device);
        definite.realize()?;
        report(&format!("matmul {n}"), milliseconds(|| x.matmul(&x))?);
        report(&format!("cholesky {n}"), milliseconds(|| linalg::cholesky(&definite))?);
        report(&format!("solve {n}, a vector"), milliseconds(|| linalg::solve(&x, &b))?);
        report(&format!("inv {n}"), milliseconds(|| linalg::inv(&x))?);
        report(&format!("qr {n}"), milliseconds(|| linalg::qr(&x).0)?);
        if n < 1024 {
            report(&format!("eigh {n}"), milliseconds(|| linalg::eigh(&definite).1)?);
            report(&format!("svd {n}"), milliseconds(|| linalg::svd(&x).0)?);
        }
    }
    let many = random(&[512, 16, 16], &device)?;
    report("inv, 512 of 16", milliseconds(|| linalg::inv(&many))?);
    report("eigh, 512 of 16", milliseconds(|| linalg::eigh(&many).1)?);
    report("svd, 512 of 16", milliseconds(|| linalg::svd(&many).0)?);
    Ok(())
}
