//! The training step as kernels.

use std::sync::Arc;

use crate::error::Result;
use crate::plan::Plan;
use crate::timing::KernelTime;

use super::Learner;

impl Learner {
    /// The step for whole batches of `rows` rows as kernels, with the text of each where it can be written.
    pub(in crate::train) fn plan(&mut self, rows: usize) -> Result<(Arc<Plan>, Vec<Option<String>>)> {
        let signature = self.train_signature(self.parts(rows)[0]);
        let plan = self.train.prepare(&signature)?.plan;
        let texts = self.device.wgsl(&plan);
        Ok((plan, texts))
    }

    /// Times every kernel of training by itself from now on (or not).
    pub(in crate::train) fn profile_kernels(&mut self, on: bool) {
        self.train.profile_kernels(on);
    }

    /// What the kernels of the step for batches of `rows` rows took while they were timed, as far as that is known.
    pub(in crate::train) fn kernel_times(&mut self, rows: usize) -> Vec<KernelTime> {
        let signature = self.train_signature(self.parts(rows)[0]);
        self.train.kernel_times_for(&signature)
    }
}
