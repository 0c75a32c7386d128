//! Tuning: which variant of each contraction is the fastest here.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::error::Result;
use crate::gpu;
use crate::plan::{Place, Plan};
use crate::stage::Stage;
use crate::timing::TimeSource;

use super::executable::check_sizes;
use super::{Backend, Device};

/// How much is tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TuneOptions {
    /// No further variant is begun after this time (60 s unless set); kernels that take longest are tried first.
    pub budget: Duration,
}

impl Default for TuneOptions {
    fn default() -> Self {
        Self { budget: Duration::from_secs(60) }
    }
}

/// What is being tried.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TuneProgress {
    /// The kernel's label.
    pub kernel: String,
    /// Kernels done, and all of them.
    pub done: usize,
    /// Kernels in all.
    pub of: usize,
}

/// A kernel and its fastest variant.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TunedKernel {
    /// Its label.
    pub label: String,
    /// Its stage.
    pub stage: Stage,
    /// How many kernels of the step are equal to it, itself included.
    pub count: usize,
    /// The variant that runs until now.
    pub before: String,
    /// The fastest one: another one only if it is faster by more than chance.
    pub after: String,
    /// Milliseconds of each of the two, the median of some runs.
    pub milliseconds: [f64; 2],
    /// Variants that were tried, the first one included.
    pub tried: usize,
    /// How the milliseconds are known.
    pub source: TimeSource,
}

/// What tuning found.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct TuneReport {
    /// The contractions that have more than one variant, those that take longest first. None on the CPU backend.
    pub kernels: Vec<TunedKernel>,
    /// Milliseconds of the whole step, the least of some runs, with the variants that run until now and with the
    /// fastest ones.
    pub step_milliseconds: Option<[f64; 2]>,
    /// Whether the step as a whole takes no longer with the fastest ones; if it does, nothing of it is remembered.
    pub kept: bool,
    /// Whether all variants of all kernels were tried within the time.
    pub complete: bool,
    /// The file that remembers it: devices that are opened from now on take the fastest ones. `None` if nothing was
    /// tried, or if there is no place for it, of which there is a warning, or if it is not kept.
    pub saved: Option<PathBuf>,
}

impl Device {
    /// Tries the variants of the contractions of `plan`, in memory of its own; `externals` are the bytes of its
    /// external storages.
    pub(crate) fn tune(
        &self,
        plan: &Arc<Plan>,
        externals: &[u64],
        options: &TuneOptions,
        tell: &mut dyn FnMut(TuneProgress),
    ) -> Result<TuneReport> {
        let Backend::Gpu { gpu, .. } = self.backend() else { return Ok(TuneReport::default()) };
        self.check()?;
        check_sizes(plan)?;
        let _exclusive = self.exclusive();
        let provide = |bytes: &u64| self.alloc(*bytes, "a step that is being tuned");
        let externals = externals.iter().map(provide).collect::<Result<Vec<_>>>()?;
        let slots = plan.slots.iter().map(provide).collect::<Result<Vec<_>>>()?;
        let memory = plan.buffers.iter().map(|buffer| match buffer.place {
            Place::External(number) => externals[number].gpu(),
            Place::Slot(number) => slots[number].gpu(),
        });
        gpu::tune(gpu, plan, &memory.collect::<Vec<_>>(), options, tell)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::device::tests::{fresh_gpu, skip_without_gpu};
    use crate::dtype::DType;
    use crate::runtime::{Step, Var};
    use crate::tensor::Tensor;
    use crate::timing::TimeSource;

    const SIDES: [usize; 2] = [96, 80];

    /// A device that keeps what is found under `folder`.
    fn device(folder: &Path) -> Option<Device> {
        let Some(adapter) = gpu::adapters().first().cloned() else {
            skip_without_gpu();
            return None;
        };
        let gpu = gpu::Gpu::open_with(&adapter, Some(folder)).expect("a listed adapter opens");
        Some(Device::on_gpu(gpu, adapter.info.clone(), adapter.identity.clone()))
    }

    /// A step with two products that changes a variable.
    fn step(device: &Device) -> (Step, Var, [Tensor; 1]) {
        let [rows, columns] = SIDES;
        let values = |count: usize| (0..count).map(|n| ((n * 7919) % 257) as f32 * 0.1 - 12.0).collect::<Vec<f32>>();
        let tensor =
            |shape: [usize; 2]| Tensor::from_vec(values(shape[0] * shape[1]), device).expect("memory").reshape(shape);
        let weight = Var::parameter("weight", &tensor([columns, rows])).expect("memory");
        let own = weight.clone();
        let step = Step::new(device, move |inputs| {
            let product = inputs[0].matmul(&own.tensor()).relu();
            let other = product.matmul(&inputs[0]);
            own.assign(&(own.tensor() + other.t() * 0.01));
            vec![other]
        });
        (step.expect("a step"), weight, [tensor([rows, columns])])
    }

    fn options(seconds: u64) -> TuneOptions {
        TuneOptions { budget: Duration::from_secs(seconds) }
    }

    #[test]
    fn tuning_changes_nothing_but_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let Some(device) = device(folder.path()) else { return };
        let (mut tuned, weight, inputs) = step(&device);
        let before = weight.tensor().to_vec::<f32>().expect("read");
        let mut told = Vec::new();
        let signature = [(SIDES.into(), DType::F32)];
        let report = tuned.tune(&signature, &options(20), &mut |progress| told.push(progress)).expect("memory");
        assert_eq!(weight.tensor().to_vec::<f32>().expect("read"), before);
        assert_eq!(tuned.runs(), 0);
        assert!(report.kernels.len() == 2 && told.len() == 2, "{report:?} {told:?}");
        for kernel in &report.kernels {
            let [first, now] = kernel.milliseconds;
            assert!(first > 0.0 && now > 0.0 && now <= first && kernel.tried >= 2, "{kernel:?}");
            assert!((kernel.before == kernel.after) == (first == now), "{kernel:?}");
            assert!(kernel.source != TimeSource::WallClock, "{kernel:?}");
        }
        assert!(report.step_milliseconds.is_some_and(|[first, now]| first > 0.0 && now > 0.0));
        let file = folder.path().join("tiles.json");
        assert_eq!(report.saved.as_deref(), report.kept.then_some(&*file));
        // and a step that was tuned runs as any other
        let (mut plain, _, own) = step(&fresh_gpu().expect("there is one"));
        let [here, there] = [tuned.run(&inputs), plain.run(&own)]
            .map(|outputs| outputs.expect("a run")[0].to_vec::<f32>().expect("read"));
        assert_eq!(here, there, "the same bits");
    }

    #[test]
    fn the_next_device_takes_what_was_found_with_the_same_bits() {
        let folder = tempfile::tempdir().expect("a folder");
        let Some(first) = device(folder.path()) else { return };
        let run = |device: &Device| {
            let (mut step, weight, inputs) = step(device);
            let info = step.prepare(&[(SIDES.into(), DType::F32)]).expect("memory");
            let outputs: Vec<Vec<f32>> =
                (0..3).map(|_| step.run(&inputs).expect("a run")[0].to_vec().expect("read")).collect();
            (device.wgsl(&info.plan), outputs, weight.tensor().to_vec::<f32>().expect("read"), info.plan)
        };
        let (texts, outputs, weights, plan) = run(&first);
        let last = gpu::remember_last_variants(first.gpu_backend(), &plan);
        assert_eq!(last, 2, "both products have variants");
        let again = run(&first);
        assert_eq!(again.0, texts, "a device stays as it was opened");
        let second = device(folder.path()).expect("as before");
        let (other_texts, other_outputs, other_weights, _) = run(&second);
        let changed = texts.iter().zip(&other_texts).filter(|(one, other)| one != other).count();
        assert_eq!(changed, 2);
        assert_eq!((outputs, weights), (other_outputs, other_weights));
    }

    #[test]
    fn a_plan_starts_from_what_the_one_before_was_tuned_to() {
        let folder = tempfile::tempdir().expect("a folder");
        let Some(device) = device(folder.path()) else { return };
        let starts = || {
            let (mut tuned, ..) = step(&device);
            let report = tuned.tune(&[(SIDES.into(), DType::F32)], &options(0), &mut |_| {}).expect("memory");
            let mut names: Vec<_> = report.kernels.into_iter().map(|kernel| (kernel.label, kernel.before)).collect();
            names.sort();
            names
        };
        let first = starts();
        let (mut plain, ..) = step(&device);
        let plan = plain.prepare(&[(SIDES.into(), DType::F32)]).expect("memory").plan;
        gpu::remember_last_variants(device.gpu_backend(), &plan);
        let second = starts();
        assert!(first.iter().zip(&second).all(|(one, other)| one.0 == other.0 && one.1 != other.1), "{second:?}");
    }

    #[test]
    fn without_time_nothing_is_tried_and_nothing_changes() {
        let folder = tempfile::tempdir().expect("a folder");
        let Some(device) = device(folder.path()) else { return };
        let (mut tuned, ..) = step(&device);
        let report = tuned.tune(&[(SIDES.into(), DType::F32)], &options(0), &mut |_| {}).expect("memory");
        assert!(!report.complete);
        assert!(report.kernels.iter().all(|kernel| kernel.tried == 1 && kernel.before == kernel.after), "{report:?}");
    }
}
