//! The device's limits as our own kernels reach them: what kernels of a plan are compared with.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::cpu::by_the_crate_alone;
use crate::device::Device;
use crate::dtype::DType;
use crate::error::Result;
use crate::matmul_precision::MatmulPrecision;
use crate::runtime::Step;
use crate::tensor::Tensor;
use crate::timing::TimeSource;

use super::{Row, Suite};

/// Sides of the matrices that are multiplied: the best rate of these counts, as small devices are slower with large
/// ones.
const SIDES: [usize; 4] = [512, 1024, 2048, 4096];
/// Elements that are read and written: 64 MiB, larger than caches.
const ELEMENTS: usize = 16 << 20;
/// Bytes of a case that may lie in caches, which says nothing of memory, are fewer.
pub(super) const BEYOND_CACHES: f64 = 4.0 * ELEMENTS as f64;
/// A size is measured until it has taken this long, three times at least; a larger one is left out if a single run of
/// it would take longer than that.
const BUDGET_S: f64 = 0.5;
const MIN_RUNS: usize = 3;

/// What a device was measured to do at most.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Peak {
    /// Thousands of millions of f32 operations a second, in a product of two square matrices: 2·n³ operations.
    pub gflops: f64,
    /// The same of f16 operations, summed in f32, where the device has them.
    #[serde(default)]
    pub half_gflops: Option<f64>,
    /// Thousands of millions of bytes a second: read and written when one is added to 64 MiB of f32, or read when they
    /// are summed, whichever is more.
    pub gigabytes: f64,
    /// How times are known; the least direct one.
    pub source: TimeSource,
    /// Of a CPU: what the `gemm` crate alone does on all threads with the same matrices, right after ours, in the units
    /// of `gflops`.
    #[serde(default)]
    pub yardstick_gflops: Option<f64>,
}

impl Peak {
    /// Thousands of millions of operations a second, of numbers of this type that are multiplied at this precision.
    pub(crate) fn gflops_of(&self, dtype: DType, precision: MatmulPrecision) -> f64 {
        match (self.half_gflops, dtype, precision) {
            (Some(half), DType::F16, _) => half,
            (Some(half), DType::F32, MatmulPrecision::High) => half / precision.products() as f64,
            _ => self.gflops,
        }
    }

    /// The same, and what the cases of this device have reached, where that is more: their shapes may suit it better
    /// than those that were tried for the peak.
    pub(super) fn or_reached(mut self, rows: &[Row]) -> Self {
        for row in rows.iter().filter(|row| row.suite != Suite::Transfer) {
            let Some(seconds) = row.measured.map(|measured| measured.least_s).filter(|time| *time > 0.0) else {
                continue;
            };
            let gflops = row.flops * 1e-9 / seconds;
            match (&mut self.half_gflops, row.dtype, row.precision) {
                (Some(half), DType::F16, _) => *half = half.max(gflops),
                (Some(half), DType::F32, MatmulPrecision::High) => {
                    *half = half.max(gflops * row.precision.products() as f64);
                }
                _ => self.gflops = self.gflops.max(gflops),
            }
            if row.bytes >= BEYOND_CACHES {
                self.gigabytes = self.gigabytes.max(row.bytes * 1e-9 / seconds);
            }
        }
        self
    }
}

/// Measures `device`; takes some seconds, in which it should do nothing else.
///
/// # Errors
/// If the device fails, or has no 128 MiB of memory to spare.
pub fn measure_peak(device: &Device) -> Result<Peak> {
    let mut add = Step::new(device, |inputs| vec![&inputs[0] + 1.0])?;
    let values = Tensor::zeros([ELEMENTS], device);
    let (copied, mut source) = shortest(&mut add, std::slice::from_ref(&values), device)?;
    let mut sum = Step::new(device, |inputs| vec![inputs[0].sum()])?;
    let (read, known) = shortest(&mut sum, &[values], device)?;
    source = source.max(known);
    let each = 4.0 * ELEMENTS as f64 * 1e-9;
    let (gflops, sides) = products(device, DType::F32, &mut source)?;
    // the CPU backend computes with f32
    let half = !device.is_cpu() && device.info().f16;
    let half_gflops = half.then(|| products(device, DType::F16, &mut source).map(|(rate, _)| rate)).transpose()?;
    let yardstick = |side: &usize| operations(*side) / shortest_of_the_crate(*side);
    let yardstick_gflops = device.is_cpu().then(|| sides.iter().map(yardstick).fold(0.0, f64::max));
    Ok(Peak { gflops, half_gflops, gigabytes: (2.0 * each / copied).max(each / read), source, yardstick_gflops })
}

/// Thousands of millions of operations in a product of two square matrices.
fn operations(side: usize) -> f64 {
    2.0 * (side as f64).powi(3) * 1e-9
}

/// The best rate of several products, and the sides that were tried.
fn products(device: &Device, dtype: DType, source: &mut TimeSource) -> Result<(f64, &'static [usize])> {
    let mut best = 0.0_f64;
    for (number, &side) in SIDES.iter().enumerate() {
        let mut product = Step::new(device, |inputs| vec![inputs[0].matmul(&inputs[1])])?;
        let matrix = || Tensor::full([side, side], 0.5, device).to_dtype(dtype);
        let (time, known) = shortest(&mut product, &[matrix(), matrix()], device)?;
        *source = (*source).max(known);
        best = best.max(operations(side) / time);
        // the next one is eight times as much
        if 8.0 * time > BUDGET_S {
            return Ok((best, &SIDES[..=number]));
        }
    }
    Ok((best, &SIDES))
}

/// The same for a product by the `gemm` crate.
fn shortest_of_the_crate(side: usize) -> f64 {
    let matrix = vec![0.5; side * side];
    let mut result = vec![0.0; side * side];
    let mut timed = || {
        let began = Instant::now();
        by_the_crate_alone(side, &matrix, &matrix, &mut result);
        began.elapsed().as_secs_f64()
    };
    timed();
    let (start, mut best, mut runs) = (Instant::now(), f64::INFINITY, 0);
    while runs < MIN_RUNS || start.elapsed().as_secs_f64() < BUDGET_S {
        best = best.min(timed());
        runs += 1;
    }
    best
}

/// Seconds of the shortest of several runs, after one that does not count.
fn shortest(step: &mut Step, inputs: &[Tensor], device: &Device) -> Result<(f64, TimeSource)> {
    step.run(inputs)?;
    device.sync()?;
    step.profile_kernels(true);
    let (start, mut best, mut runs) = (Instant::now(), f64::INFINITY, 0);
    let mut source = TimeSource::Timestamp;
    while runs < MIN_RUNS || start.elapsed().as_secs_f64() < BUDGET_S {
        let began = Instant::now();
        step.run(inputs)?;
        device.sync()?;
        let wall = began.elapsed().as_secs_f64();
        let kernels = step.kernel_times();
        let in_kernels: f64 = kernels.iter().map(|kernel| kernel.milliseconds * 1e-3).sum();
        let is_known = in_kernels > 0.0;
        best = best.min(if is_known { in_kernels } else { wall });
        source = kernels.iter().map(|kernel| kernel.source).fold(source, TimeSource::max);
        if !is_known {
            source = TimeSource::WallClock;
        }
        runs += 1;
    }
    Ok((best, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "takes seconds, and says nothing of a machine that does something else"]
    fn a_cpu_does_something() {
        let peak = measure_peak(&Device::cpu()).expect("memory for 128 MiB");
        assert!(peak.gflops > 0.1 && peak.gigabytes > 0.1, "{peak:?}");
    }
}
