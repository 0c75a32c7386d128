//! An application with a wgpu device of its own: brasa computes, the application's pipeline goes on with the result.

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::error::Error;

use brasa::{Device, Tensor, wgpu};

/// The application's own kernel: brightness to characters of a picture.
const SHADE: &str = "
@group(0) @binding(0) var<storage, read> brightness: array<f32>;
@group(0) @binding(1) var<storage, read_write> picture: array<u32>;
@compute @workgroup_size(64) fn shade(@builtin(global_invocation_id) id: vec3u) {
    if id.x < arrayLength(&picture) {
        picture[id.x] = u32(clamp(brightness[id.x], 0.0, 0.999) * 8.0);
    }
}";
const SIDE: usize = 24;

fn main() -> Result<(), Box<dyn Error>> {
    // The application opens its device: with what brasa wants, and what it needs itself.
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
    let adapter = pollster::block_on(instance.request_adapter(&wgpu::RequestAdapterOptions::default()))?;
    let (device, queue) = pollster::block_on(adapter.request_device(&Device::wgpu_descriptor(&adapter)))?;
    let brasa = Device::from_wgpu(&adapter, device.clone(), queue.clone())?;

    // Brasa computes on it: a lens of light.
    let line: Vec<f32> = (0..SIDE).map(|n| n as f32 / (SIDE - 1) as f32 * 2.0 - 1.0).collect();
    let squares = Tensor::from_vec(line, &brasa)?.square();
    let brightness = (-(squares.reshape([SIDE, 1]) + squares.reshape([1, SIDE])) * 2.0).exp();
    let brightness = brightness.wgpu_buffer()?;

    // The application's pipeline reads the very buffer, in a submission behind brasa's.
    let bytes = (SIDE * SIDE * size_of::<u32>()) as u64;
    let buffer = |usage| {
        device.create_buffer(&wgpu::BufferDescriptor { label: None, size: bytes, usage, mapped_at_creation: false })
    };
    let picture = buffer(wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC);
    let download = buffer(wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST);
    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: None,
        source: wgpu::ShaderSource::Wgsl(SHADE.into()),
    });
    let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: None,
        layout: None,
        module: &module,
        entry_point: Some("shade"),
        compilation_options: wgpu::PipelineCompilationOptions::default(),
        cache: None,
    });
    let entries = [(0, &brightness), (1, &picture)]
        .map(|(binding, buffer)| wgpu::BindGroupEntry { binding, resource: buffer.as_entire_binding() });
    let layout = &pipeline.get_bind_group_layout(0);
    let group = device.create_bind_group(&wgpu::BindGroupDescriptor { label: None, layout, entries: &entries });
    let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
    pass.set_pipeline(&pipeline);
    pass.set_bind_group(0, &group, &[]);
    pass.dispatch_workgroups((SIDE * SIDE).div_ceil(64) as u32, 1, 1);
    drop(pass);
    encoder.copy_buffer_to_buffer(&picture, 0, &download, 0, bytes);
    queue.submit([encoder.finish()]);

    download.map_async(wgpu::MapMode::Read, .., |mapped| mapped.expect("the picture is mapped"));
    device.poll(wgpu::PollType::wait_indefinitely())?;
    let shades: Vec<u32> = bytemuck::pod_collect_to_vec(&download.get_mapped_range(..)?);
    for line in shades.chunks(SIDE) {
        println!("{}", line.iter().map(|&shade| &" .:-=+*#"[shade as usize..][..1]).collect::<String>());
    }
    Ok(())
}
