//! Sorting and sums by index: `cargo bench --bench sort`. The figures stand in `benches/NOTES.md`.

#![allow(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::time::Instant;

use brasa::{DType, Device, Tensor};

/// Runs of which the median counts.
const RUNS: usize = 9;

/// Milliseconds of the median run of `f`, which makes a tensor, after one that compiles it.
fn milliseconds(f: impl Fn() -> Tensor) -> f64 {
    let once = || {
        let start = Instant::now();
        // one element back: the device has finished
        f().reshape([-1]).narrow(0, 0, 1).to_bytes_blocking();
        start.elapsed().as_secs_f64() * 1e3
    };
    once();
    let mut times: Vec<f64> = (0..RUNS).map(|_| once()).collect();
    times.sort_by(f64::total_cmp);
    times[RUNS / 2]
}

trait Blocking {
    fn to_bytes_blocking(&self);
}

impl Blocking for Tensor {
    fn to_bytes_blocking(&self) {
        pollster::block_on(self.to_bytes()).expect("values");
    }
}

/// Whole numbers below `bound`, as a hash of their number has them.
fn indices(count: usize, bound: u32) -> Vec<i32> {
    (0..count as u32)
        .map(|n| ((n.wrapping_mul(0x9e37_79b9) ^ n >> 7).wrapping_mul(0x85eb_ca6b) % bound) as i32)
        .collect()
}

fn main() {
    let count = 1 << 20;
    let numbers: Vec<f32> = indices(count, u32::MAX >> 1).into_iter().map(|n| n as f32 * 1e-3 - 1e5).collect();
    for device in [Ok(Device::cpu()), Device::gpu(0)].into_iter().flatten() {
        let report = |name: &str, ms: f64| println!("{:>40} {name:<44} {ms:9.2} ms", device.name());
        let x = Tensor::from_slice(&numbers, [count], &device).expect("memory");
        report("sort of 1 Mi f32", milliseconds(|| x.sort(0, false).0));
        report("argsort of 1024 rows of 1024", milliseconds(|| x.reshape([1024, 1024]).argsort(1, false)));
        report("top 8 of 1024 rows of 1024", milliseconds(|| x.reshape([1024, 1024]).topk(8, 1, true).0));
        for bound in [1000, 1 << 20] {
            let index = Tensor::from_slice(&indices(count, bound), [count], &device).expect("memory");
            let zeros = Tensor::zeros([bound as usize], &device);
            report(&format!("scatter_add of 1 Mi into {bound}"), milliseconds(|| zeros.scatter_add(0, &index, &x)));
        }
        for (tokens, vocabulary, width) in
            [(1024, 1000, 64), (2048, 5000, 64), (8192, 50_000, 64), (8192, 1000, 256), (65_536, 100, 8)]
        {
            let index = Tensor::from_slice(&indices(tokens, vocabulary), [tokens], &device).expect("memory");
            let rows = x.narrow(0, 0, width).expand([tokens, width]).reshape([tokens, width]) * 0.5;
            rows.realize().expect("memory");
            let zeros = Tensor::zeros([vocabulary as usize, width], &device);
            let name = format!("index_add of {tokens} rows of {width} into {vocabulary}");
            report(&name, milliseconds(|| zeros.index_add(0, &index, &rows)));
            if tokens * width * vocabulary as usize <= 1 << 32 {
                let one_hot = || index.one_hot(vocabulary as usize).to_dtype(DType::F32).t().matmul(&rows);
                report("the same as a product with one-hot rows", milliseconds(one_hot));
            }
        }
    }
}
