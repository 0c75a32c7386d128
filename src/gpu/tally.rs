//! Submissions counted on the device, where one that the system has stopped looks like one that is done.
//!
//! macOS ends work that keeps a display waiting. wgpu 30 takes such a command buffer for a finished one on Metal (its
//! issue 9545): no error, no lost device, and memory that was written in part. Fences of a device that DX12 has removed
//! say the same until something else fails. There, every submission ends by adding one to a counter, and a read that
//! finds fewer than were handed over before it says that the device is lost.

use std::sync::Arc;

use super::context::Gpu;
use super::pipeline::{Pipeline, Slot, Text};
use super::render::TALLY;
use crate::error::Result;

/// What adds one.
#[derive(Debug)]
pub(super) struct Tally {
    pipeline: Arc<Pipeline>,
    status: wgpu::BindGroup,
}

impl Tally {
    /// Counts behind the word of `gpu.status` that kernels write to.
    pub(super) fn new(gpu: &Gpu) -> Result<Self> {
        let pipeline = gpu.pipeline("tally", Text { wgsl: TALLY, foreign: None }, &[Slot::Write])?;
        let status = gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some("tally"),
            layout: &pipeline.layout,
            entries: &[wgpu::BindGroupEntry { binding: 0, resource: gpu.status.as_entire_binding() }],
        });
        Ok(Self { pipeline, status })
    }

    /// Counts what is recorded so far.
    pub(super) fn record(&self, encoder: &mut wgpu::CommandEncoder) {
        let mut pass =
            encoder.begin_compute_pass(&wgpu::ComputePassDescriptor { label: Some("tally"), ..Default::default() });
        pass.set_pipeline(&self.pipeline.raw);
        pass.set_bind_group(0, &self.status, &[]);
        pass.dispatch_workgroups(1, 1, 1);
    }
}

#[cfg(test)]
mod tests {
    use crate::device::tests::fresh_gpu;
    use crate::error::Error;
    use crate::tensor::Tensor;

    #[test]
    fn work_that_was_never_done_is_noticed() {
        let Some(device) = fresh_gpu() else { return };
        let gpu = device.gpu_backend();
        gpu.count_submissions().expect("a kernel");
        for _ in 0..3 {
            let sum = Tensor::ones([70], &device).sum().item::<f32>().expect("all work is done");
            assert_eq!(sum, 70.0);
        }
        // as if the system had stopped one
        gpu.recorder().tallied += 1;
        let error = Tensor::ones([70], &device).sum().item::<f32>().expect_err("one is missing");
        assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
    }
}
