//! Launches with everything that is bound to them: what a replay hands to wgpu.
//!
//! A replay comes to this list with cold caches, so it is one flat run of handles, and wgpu is left as little to look
//! at as its rules allow.

use super::counters::Made;
use super::program::{Prepared, Program};

/// A launch, ready to be recorded.
#[derive(Debug)]
pub(super) struct Dispatch {
    pipeline: wgpu::ComputePipeline,
    bind_group: wgpu::BindGroup,
    groups: [u32; 3],
    /// The launch before has another pipeline.
    switches: bool,
}

impl Dispatch {
    /// Records it. `first`: of its pass.
    pub(super) fn record(&self, pass: &mut wgpu::ComputePass<'_>, first: bool) {
        if first || self.switches {
            pass.set_pipeline(&self.pipeline);
        }
        pass.set_bind_group(0, &self.bind_group, &[]);
        pass.dispatch_workgroups(self.groups[0], self.groups[1], self.groups[2]);
    }
}

/// The memory that a program's launches are bound to.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    /// What each of the plan's buffers lies in.
    pub(super) buffers: Vec<wgpu::Buffer>,
    /// Where the host values are, if the plan has any.
    pub(super) uniforms: Option<wgpu::Buffer>,
}

/// Binds all launches of a program.
pub(super) fn bind(program: &Program, memory: &Memory) -> Vec<Dispatch> {
    let mut before = None;
    let launches = program.launches.iter().map(|launch| {
        let pipeline = &launch.pipeline.raw;
        Dispatch {
            pipeline: pipeline.clone(),
            bind_group: bind_group(program, launch, memory),
            groups: launch.groups,
            switches: before.replace(pipeline) != Some(pipeline),
        }
    });
    launches.collect()
}

fn bind_group(program: &Program, launch: &Prepared, memory: &Memory) -> wgpu::BindGroup {
    let gpu = &program.gpu;
    let window = |buffer, offset, bytes| {
        wgpu::BindingResource::Buffer(wgpu::BufferBinding { buffer, offset, size: wgpu::BufferSize::new(bytes) })
    };
    let windows = launch.bindings.iter().map(|binding| {
        let buffer = &memory.buffers[binding.buffer];
        let offset = program.plan.buffers[binding.buffer].offset_bytes + binding.offset_bytes;
        // Buffers are padded: the last window of one may reach into its padding, never beyond.
        let bytes = binding.size_bytes.min(buffer.size() - offset);
        window(buffer, offset, bytes)
    });
    let sizes = launch.sizes.map(|(offset, bytes)| window(&program.sizes, offset, bytes));
    let uniforms = memory.uniforms.as_ref().filter(|_| launch.uses_uniforms).map(wgpu::Buffer::as_entire_binding);
    let status = launch.uses_status.then(|| gpu.status.as_entire_binding());
    let resources = windows.chain(sizes).chain(uniforms).chain(status);
    let entries: Vec<_> =
        (0..).zip(resources).map(|(binding, resource)| wgpu::BindGroupEntry { binding, resource }).collect();
    gpu.count(Made::BindGroup);
    gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: None,
        layout: &launch.pipeline.layout,
        entries: &entries,
    })
}
