//! A look at units for small matrices and at subgroups before anything relies on them: wgpu calls the units
//! experimental, which lanes of a subgroup are active is left to drivers, and what the tests see on one driver says
//! little about another.

use crate::error::{Error, Result};

use super::context::Gpu;
use super::features::{Feature, VARIABLE};
use super::pipeline::{Slot, Text};
use super::render::{Units, lanes_probe_text, probe_terms_text, probe_text, subgroup_probe_text};

/// What is tried.
#[derive(Clone, Copy)]
struct Trial {
    label: &'static str,
    what: &'static str,
    /// What does without it.
    feature: Feature,
}

const UNITS: Trial = Trial { label: "probe_units", what: "matrix units", feature: Feature::Cooperative };
const SUBGROUPS: Trial = Trial { label: "probe_subgroups", what: "subgroups", feature: Feature::Subgroups };

impl Gpu {
    /// The units that give what they should; contractions do without the others.
    pub(super) fn probed_units(&self) -> Option<Units> {
        let mut units = self.caps.cooperative?;
        let subgroups = units.subgroups;
        for half in [true, false] {
            let size = if half { &mut units.f16 } else { &mut units.f32 };
            let Some(known) = *size else { continue };
            let (wgsl, results) = probe_text(known, half, subgroups);
            if let Err(reason) = self.all_right(results, UNITS, &wgsl) {
                *size = None;
                tracing::warn!("the {known}x{known} matrix units of this GPU are not used: {reason}");
            }
        }
        if let (Some(size), true) = (units.f16, units.splits())
            && let Err(reason) = self.all_right(size * size, UNITS, &probe_terms_text(size, subgroups))
        {
            units.terms = false;
            tracing::debug!("the matrix units of this GPU do not multiply f32 as sums of f16: {reason}");
        }
        (units.f16.is_some() || units.f32.is_some()).then_some(units)
    }

    /// The sizes of its subgroups, if shuffles give what they should; kernels do without the others.
    pub(super) fn probed_subgroups(&self) -> Option<[usize; 2]> {
        let sizes = self.caps.subgroups?;
        let trials = std::iter::once(subgroup_probe_text(&self.caps)?).chain(lanes_probe_text(&self.caps));
        for (wgsl, threads) in trials {
            if let Err(reason) = self.all_right(threads, SUBGROUPS, &wgsl) {
                tracing::warn!("the subgroups of this GPU are not used: {reason}");
                return None;
            }
        }
        Some(sizes)
    }

    /// Why not, if a trial of so many results does not give what it should.
    fn all_right(&self, results: usize, what: Trial, wgsl: &str) -> std::result::Result<(), String> {
        match self.right_results(what, wgsl) {
            Ok(right) if right as usize == results => Ok(()),
            Ok(right) => Err(format!("{right} of {results} results are right")),
            Err(error) => Err(error.to_string()),
        }
    }

    fn right_results(&self, Trial { label, what, feature }: Trial, wgsl: &str) -> Result<u32> {
        use wgpu::BufferUsages as Usage;
        let pipeline = self.pipeline(label, Text { wgsl, foreign: None }, &[Slot::Write])?;
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
                let reason = format!("{reason} (in a trial of its {what}: set {VARIABLE}=-{feature})");
                Error::DeviceLost { device, reason }
            }
            other => other,
        })?;
        // what cannot be read was not seen to be right
        Ok(read.get_mapped_range(..).map_or(0, |view| bytemuck::pod_read_unaligned(&view[..4])))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::gpu::adapters;

    /// One that opens, and how many results of a text that its adapter is tried with are right.
    fn tried() -> Option<(Arc<Gpu>, impl Fn(&str) -> u32)> {
        let adapters = adapters();
        let gpu = Gpu::open(adapters.first()?).expect("it opens");
        let tried = Arc::clone(&gpu);
        Some((gpu, move |wgsl: &str| tried.right_results(SUBGROUPS, wgsl).expect("it runs")))
    }

    #[test]
    fn shuffles_from_wrong_lanes_are_noticed() {
        let Some((gpu, right)) = tried() else { return };
        let Some((wgsl, threads)) = subgroup_probe_text(&gpu.caps) else { return };
        assert_eq!(right(&wgsl), threads as u32);
        for (lane, wrong) in [("Xor(whole_part, 2u)", "Xor(whole_part, 1u)"), ("(whole_part, 0u)", "(whole_part, 1u)")]
        {
            assert!(wgsl.contains(lane), "{wgsl}");
            assert_eq!(right(&wgsl.replace(lane, wrong)), 0, "{wrong} for {lane}");
        }
    }

    #[test]
    fn lanes_that_hand_each_other_something_else_are_noticed() {
        let Some((gpu, right)) = tried() else { return };
        let Some((wgsl, lanes)) = lanes_probe_text(&gpu.caps) else { return };
        assert_eq!(right(&wgsl), lanes as u32);
        let (said, more) = (format!("LANES: u32 = {lanes}u"), format!("LANES: u32 = {}u", 2 * lanes));
        // another lane's number, another one's vector, and a workgroup that is two subgroups
        for (text, wrong) in [
            ("(value(lane), other)", "(value(lane), other ^ 1u)"),
            ("(values(lane), other)", "(values(lane), first)"),
            (said.as_str(), more.as_str()),
        ] {
            assert!(wgsl.contains(text), "{wgsl}");
            assert_eq!(right(&wgsl.replace(text, wrong)), 0, "{wrong} for {text}");
        }
    }
}
