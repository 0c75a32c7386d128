//! What is measured: inputs that stay the same for all runs, and one step of plain tensor code.

mod infer;
mod matmul;
pub(super) mod onnx;
mod ops;
mod train;
mod transfer;

use crate::device::Device;
use crate::dtype::DType;
use crate::error::Result;
use crate::matmul_precision::MatmulPrecision;
use crate::runtime::Step;
use crate::tensor::Tensor;
use crate::train::ModelName;

pub(super) use train::Network;

use super::method::Work;
use super::{Options, Suite};

type Make = Box<dyn Fn(&Device) -> Result<Box<dyn Work>>>;

/// One thing that is measured.
pub(super) struct Case {
    pub(super) suite: Suite,
    pub(super) name: String,
    pub(super) what: String,
    pub(super) flops: f64,
    pub(super) bytes: f64,
    pub(super) samples: usize,
    /// Several runs are started before the device is waited for.
    pub(super) throughput: bool,
    /// Runs that are measured at least, if more than usual.
    pub(super) least_runs: usize,
    /// What is multiplied.
    pub(super) dtype: DType,
    /// How exactly, if it is f32.
    pub(super) precision: MatmulPrecision,
    /// Part of the quick selection.
    quick: bool,
    /// Which devices it says anything about.
    pub(super) wanted_on: fn(&Device) -> bool,
    pub(super) make: Make,
}

impl Case {
    fn new(suite: Suite, name: impl Into<String>, make: impl Fn(&Device) -> Result<Box<dyn Work>> + 'static) -> Self {
        let (what, make) = (String::new(), Box::new(make));
        let (flops, bytes, samples) = (0.0, 0.0, 0);
        let (least_runs, dtype, precision) = (0, DType::F32, MatmulPrecision::Highest);
        let (name, wanted_on) = (name.into(), |_: &Device| true);
        let (throughput, quick) = (false, false);
        Self {
            suite,
            name,
            what,
            flops,
            bytes,
            samples,
            throughput,
            least_runs,
            dtype,
            precision,
            quick,
            wanted_on,
            make,
        }
    }

    fn what(mut self, what: impl Into<String>) -> Self {
        self.what = what.into();
        self
    }

    fn flops(mut self, flops: f64) -> Self {
        self.flops = flops;
        self
    }

    fn bytes(mut self, bytes: f64) -> Self {
        self.bytes = bytes;
        self
    }

    fn samples(mut self, samples: usize) -> Self {
        self.samples = samples;
        self
    }

    fn least_runs(mut self, count: usize) -> Self {
        self.least_runs = count;
        self
    }

    fn dtype(mut self, dtype: DType) -> Self {
        self.dtype = dtype;
        self
    }

    fn throughput(mut self) -> Self {
        self.throughput = true;
        self
    }

    fn quick(mut self, quick: bool) -> Self {
        self.quick = quick;
        self
    }
}

/// The cases that `options` ask for.
pub(super) fn all(options: &Options) -> impl Iterator<Item = Case> + '_ {
    let cases = if options.method.as_notebook {
        matmul::as_notebook(options.quick)
    } else {
        let suites: [fn() -> Vec<Case>; 5] = [matmul::cases, ops::cases, train::cases, infer::cases, transfer::cases];
        suites.iter().flat_map(|cases| cases()).collect()
    };
    let wanted = |case: &Case| {
        let in_time = case.quick || !options.quick;
        in_time && options.suites.contains(&case.suite) && case.name.contains(&options.filter)
    };
    cases.into_iter().filter(wanted)
}

/// The product of two square matrices.
pub(super) fn square(side: usize) -> Case {
    matmul::square(side, DType::F32)
}

/// `x + 1`.
pub(super) fn add_one(elements: usize) -> Case {
    ops::add_one("add1", elements)
}

/// A 3×3 convolution of so many pictures.
pub(super) fn convolution(batch: usize) -> Case {
    ops::convolution(batch, false)
}

/// A training step of a network.
pub(super) fn training(model: ModelName, batch: usize) -> Case {
    train::step("train", Network::of(model), batch)
}

/// A step that is replayed with the same inputs.
struct Replay {
    device: Device,
    step: Step,
    inputs: Vec<Tensor>,
}

/// Replays `function` of `inputs`, which are computed first and given to each run.
fn replay(
    device: &Device,
    inputs: Vec<Tensor>,
    function: impl FnMut(&[Tensor]) -> Vec<Tensor> + Send + 'static,
) -> Result<Box<dyn Work>> {
    for input in &inputs {
        input.realize()?;
    }
    device.sync()?;
    Ok(Box::new(Replay { device: device.clone(), step: Step::new(device, function)?, inputs }))
}

/// Replays `function` of `inputs`, which lie on the device and stay there: a step that is given them copies them each
/// time, which takes longer than many a computation with them.
fn compute(
    device: &Device,
    inputs: Vec<Tensor>,
    mut function: impl FnMut(&[Tensor]) -> Vec<Tensor> + Send + 'static,
) -> Result<Box<dyn Work>> {
    for input in &inputs {
        input.realize()?;
    }
    device.sync()?;
    replay(device, Vec::new(), move |_| function(&inputs))
}

impl Work for Replay {
    fn start(&mut self) -> Result<()> {
        self.step.run(&self.inputs).map(drop)
    }

    fn wait(&mut self) -> Result<()> {
        self.device.sync()
    }

    fn step(&mut self) -> Option<&mut Step> {
        Some(&mut self.step)
    }

    fn memory_bytes(&mut self) -> Option<u64> {
        let signature = self.inputs.iter().map(|input| (input.shape().clone(), input.dtype())).collect();
        self.step.forecast(&[signature]).ok().map(|forecast| forecast.total_bytes())
    }
}

/// Anything that ends when it returns.
struct Call<F>(F);

impl<F: FnMut() -> Result<()>> Work for Call<F> {
    fn start(&mut self) -> Result<()> {
        (self.0)()
    }

    fn wait(&mut self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_runs() {
        let device = Device::cpu();
        for case in all(&Options::default()).filter(|case| case.flops < 1e10) {
            let ran = (case.make)(&device).and_then(|mut work| {
                work.start()?;
                work.wait()
            });
            assert!(ran.is_ok(), "{}: {:?}", case.name, ran.err());
        }
    }
}
