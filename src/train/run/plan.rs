//! `plan.json`: the training step as kernels, and what each of them takes.

use std::collections::BTreeSet;

use crate::error::Result;
use crate::plan::{Body, Plan};
use crate::timing::KernelTime;
use crate::train::record::{KernelRecord, PLAN, PlanRecord};

use super::Run;

/// Of these steps of a process each kernel is timed by itself: behind the first ones, which are slower than the others,
/// and too few to be felt.
const TIMED: std::ops::RangeInclusive<u64> = 5..=15;

impl Run<'_> {
    /// Writes the plan of the training step for whole batches.
    pub(super) fn write_plan(&mut self) -> Result<()> {
        let rows = self.rows();
        let (plan, texts) = self.trainer.learner.plan(rows)?;
        self.plan = record(&plan, texts);
        self.show(PLAN, &serde_json::to_vec(&self.plan).expect("plain data"));
        Ok(())
    }

    /// To be called before each training step of this process: times the kernels of a few.
    pub(super) fn time_kernels(&mut self, number: u64) {
        // whoever asked for times of all steps has them
        if crate::debug::profile() {
            return;
        }
        if number == *TIMED.start() {
            self.trainer.learner.profile_kernels(true);
        } else if number == *TIMED.end() + 1 {
            let times = self.trainer.learner.kernel_times(self.rows());
            self.trainer.learner.profile_kernels(false);
            if self.plan.add_times(&times) {
                self.show(PLAN, &serde_json::to_vec(&self.plan).expect("plain data"));
            }
        }
    }

    /// Rows of a whole batch.
    fn rows(&self) -> usize {
        self.trainer.config.batch_size.min(self.trainer.data.train.samples_per_epoch())
    }
}

fn record(plan: &Plan, texts: Vec<Option<String>>) -> PlanRecord {
    let mut kernels = Vec::with_capacity(plan.kernels.len());
    for (number, ((kernel, wgsl), after)) in plan.kernels.iter().zip(texts).zip(dependencies(plan)).enumerate() {
        kernels.push(KernelRecord {
            label: kernel.label.clone(),
            stage: kernel.stage,
            wave: plan.waves.iter().position(|wave| wave.contains(&number)).unwrap_or_default(),
            modules: kernel.modules.iter().map(ToString::to_string).collect(),
            after,
            writes: kernel.values.iter().map(|(dtype, shape)| format!("{dtype} {shape}")).collect(),
            flops: kernel.flops,
            products: match &kernel.body {
                Body::Contract(kernel) => Some(kernel.products()),
                Body::Loop(_) | Body::Routine(_) => None,
            },
            bytes: kernel.bytes,
            wgsl: wgsl.unwrap_or_default(),
            milliseconds: None,
            source: None,
        });
    }
    PlanRecord { kernels, bytes: plan.memory_bytes() }
}

/// For each kernel, those of the same run that it needs: they write what it reads, or read or write what it overwrites.
fn dependencies(plan: &Plan) -> Vec<Vec<usize>> {
    let mut writer = vec![None; plan.buffers.len()];
    let mut readers = vec![Vec::new(); plan.buffers.len()];
    let mut all = Vec::with_capacity(plan.kernels.len());
    for (number, kernel) in plan.kernels.iter().enumerate() {
        let mut after: BTreeSet<usize> = kernel.reads.iter().filter_map(|&buffer| writer[buffer]).collect();
        for &buffer in &kernel.writes {
            after.extend(writer[buffer]);
            after.extend(&readers[buffer]);
        }
        for &buffer in &kernel.reads {
            readers[buffer].push(number);
        }
        for &buffer in &kernel.writes {
            writer[buffer] = Some(number);
            readers[buffer].clear();
        }
        all.push(after.into_iter().collect());
    }
    all
}

impl PlanRecord {
    /// Notes what kernels took, told in their order, but perhaps not of all; false if nothing is told.
    fn add_times(&mut self, times: &[KernelTime]) -> bool {
        let mut times = times.iter().peekable();
        let mut any = false;
        for kernel in &mut self.kernels {
            if let Some(time) = times.next_if(|time| (time.stage, &time.label) == (kernel.stage, &kernel.label)) {
                (kernel.milliseconds, kernel.source, any) = (Some(time.milliseconds), Some(time.source), true);
            }
        }
        any
    }
}
