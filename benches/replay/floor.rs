//! What wgpu alone takes for a step like a plan's: the same inputs written, as many launches, with as many bindings
//! each, a pipeline for each, in one pass and one submission, with nothing of ours around them.

use std::collections::BTreeSet;

use brasa::plan::Plan;
use brasa::wgpu;
use cpu_time::ThreadTime;

/// Each launch reads what those before it wrote.
const KERNEL: &str = "
@group(0) @binding(0) var<storage, read_write> result: array<f32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) { result[id.x] += 1.0; }";
/// Elements of each buffer; the work itself should be none.
const ELEMENTS: u64 = 64;

/// Launches that wait to be recorded.
pub(crate) struct Floor {
    device: wgpu::Device,
    queue: wgpu::Queue,
    launches: Vec<(wgpu::ComputePipeline, wgpu::BindGroup)>,
    /// One for each input of the step.
    inputs: Vec<wgpu::Buffer>,
}

impl Floor {
    /// Launches with the shape of `plan`'s, on a device of their own, and places for `inputs`; `None` without an
    /// adapter.
    pub(crate) fn new(plan: &Plan, inputs: &[&[u8]]) -> Option<Self> {
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
        let adapter = pollster::block_on(instance.request_adapter(&wgpu::RequestAdapterOptions::default())).ok()?;
        let descriptor = brasa::Device::wgpu_descriptor(&adapter);
        let (device, queue) = pollster::block_on(adapter.request_device(&descriptor)).ok()?;
        let source = wgpu::ShaderSource::Wgsl(KERNEL.into());
        let module = device.create_shader_module(wgpu::ShaderModuleDescriptor { label: None, source });
        let buffer = |size, more| {
            let usage = wgpu::BufferUsages::STORAGE | more;
            device.create_buffer(&wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false })
        };
        let inputs = inputs.iter().map(|bytes| buffer(bytes.len() as u64, wgpu::BufferUsages::COPY_DST)).collect();
        let results: Vec<wgpu::Buffer> =
            plan.kernels.iter().map(|_| buffer(ELEMENTS * 4, wgpu::BufferUsages::empty())).collect();
        let launches = plan.kernels.iter().enumerate().map(|(number, kernel)| {
            let bound: BTreeSet<_> = kernel.reads.iter().chain(&kernel.writes).collect();
            let entry = |binding, read_only| wgpu::BindGroupLayoutEntry {
                binding,
                visibility: wgpu::ShaderStages::COMPUTE,
                ty: wgpu::BindingType::Buffer {
                    ty: wgpu::BufferBindingType::Storage { read_only },
                    has_dynamic_offset: false,
                    min_binding_size: wgpu::BufferSize::new(ELEMENTS * 4),
                },
                count: None,
            };
            let sources = bound.len().saturating_sub(1).min(number);
            let entries: Vec<_> = (0..=sources).map(|binding| entry(binding as u32, binding > 0)).collect();
            let layout =
                device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries });
            let pipeline_layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
                label: None,
                bind_group_layouts: &[Some(&layout)],
                immediate_size: 0,
            });
            let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: None,
                layout: Some(&pipeline_layout),
                module: &module,
                entry_point: Some("main"),
                compilation_options: wgpu::PipelineCompilationOptions::default(),
                cache: None,
            });
            let entries: Vec<_> = (0..=sources)
                .map(|back| wgpu::BindGroupEntry {
                    binding: back as u32,
                    resource: results[number - back].as_entire_binding(),
                })
                .collect();
            let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
                label: None,
                layout: &layout,
                entries: &entries,
            });
            (pipeline, group)
        });
        let launches = launches.collect();
        Some(Self { device, queue, launches, inputs })
    }

    /// Writes the inputs, records and submits all launches; CPU time of this thread in µs.
    pub(crate) fn replay(&self, inputs: &[&[u8]]) -> f64 {
        let cpu = ThreadTime::now();
        for (buffer, bytes) in self.inputs.iter().zip(inputs) {
            self.queue.write_buffer(buffer, 0, bytes);
        }
        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        for (pipeline, group) in &self.launches {
            pass.set_pipeline(pipeline);
            pass.set_bind_group(0, group, &[]);
            pass.dispatch_workgroups(1, 1, 1);
        }
        drop(pass);
        self.queue.submit([encoder.finish()]);
        cpu.elapsed().as_secs_f64() * 1e6
    }

    pub(crate) fn wait(&self) {
        let _ = self.device.poll(wgpu::PollType::wait_indefinitely());
    }
}
