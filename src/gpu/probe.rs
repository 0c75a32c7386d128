//! A look at units for small matrices before anything relies on them: wgpu calls them experimental, and what the tests see
//! on one driver says little about another.

use crate::error::{Error, Result};

use super::context::Gpu;
use super::features;
use super::pipeline::{Slot, Text};
use super::render::{Units, probe_terms_text, probe_text};

impl Gpu {
    /// The units that give what they should; contractions do without the others.
    pub(super) fn probed_units(&self) -> Option<Units> {
        let mut units = self.caps.cooperative?;
        let subgroups = units.subgroups;
        for half in [true, false] {
            let size = if half { &mut units.f16 } else { &mut units.f32 };
            let Some(known) = *size else { continue };
            if let Err(reason) = self.all_right(known, &probe_text(known, half, subgroups)) {
                *size = None;
                tracing::warn!("the {known}x{known} matrix units of this GPU are not used: {reason}");
            }
        }
        if let (Some(size), true) = (units.f16, units.splits())
            && let Err(reason) = self.all_right(size, &probe_terms_text(size, subgroups))
        {
            units.terms = false;
            tracing::debug!("the matrix units of this GPU do not multiply f32 as sums of f16: {reason}");
        }
        (units.f16.is_some() || units.f32.is_some()).then_some(units)
    }

    /// Why not, if a trial of units of this size does not give what it should.
    fn all_right(&self, size: usize, wgsl: &str) -> std::result::Result<(), String> {
        match self.right_results(wgsl) {
            Ok(right) if right as usize == size * size => Ok(()),
            Ok(right) => Err(format!("{right} of {} results are right", size * size)),
            Err(error) => Err(error.to_string()),
        }
    }

    fn right_results(&self, wgsl: &str) -> Result<u32> {
        use wgpu::BufferUsages as Usage;
        let pipeline = self.pipeline("probe_units", Text { wgsl, foreign: None }, &[Slot::Write])?;
        let counted = self.buffer("right results", 16, Usage::STORAGE | Usage::COPY_SRC);
        let read = self.buffer("right results to read", 16, Usage::COPY_DST | Usage::MAP_READ);
        let group = self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &pipeline.layout,
            entries: &[wgpu::BindGroupEntry { binding: 0, resource: counted.as_entire_binding() }],
        });
        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            pass.set_pipeline(&pipeline.raw);
            pass.set_bind_group(0, &group, &[]);
            pass.dispatch_workgroups(1, 1, 1);
        }
        encoder.copy_buffer_to_buffer(&counted, 0, &read, 0, 16);
        let submission = self.queue.submit([encoder.finish()]);
        read.map_async(wgpu::MapMode::Read, .., |_| {});
        self.poller.wait(Some(submission));
        self.check().map_err(|error| match error {
            Error::DeviceLost { device, reason } => {
                let reason =
                    format!("{reason} (in a trial of its matrix units: set {}=-cooperative)", features::VARIABLE);
                Error::DeviceLost { device, reason }
            }
            other => other,
        })?;
        // what cannot be read was not seen to be right
        Ok(read.get_mapped_range(..).map_or(0, |view| bytemuck::pod_read_unaligned(&view[..4])))
    }
}
