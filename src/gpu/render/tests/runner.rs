//! Runs launches on the machine's adapter, one submission, buffers as bytes.

use std::sync::OnceLock;

use crate::gpu::render::{Launch, Units};
use crate::gpu::wanted;

/// Bytes behind each buffer that kernels can reach, and have to leave as they are.
const GUARD: usize = 4096;
/// Of what the guard and what pads a buffer is: a NaN of both floating-point types.
const POISON: u8 = 0x7f;

pub(super) struct Gpu {
    device: wgpu::Device,
    queue: wgpu::Queue,
    pub(super) f16: bool,
    /// The smallest and the largest number of lanes of its subgroups.
    pub(super) subgroups: Option<[usize; 2]>,
    /// Its units for small matrices, imitated ones too.
    pub(super) units: Option<Units>,
    pub(super) workgroup_bytes: u32,
}

/// The adapter, if there is one; `BRASA_REQUIRE_GPU=1` makes its absence an error.
pub(super) fn gpu() -> Option<&'static Gpu> {
    static GPU: OnceLock<Option<Gpu>> = OnceLock::new();
    GPU.get_or_init(|| {
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
        let Ok(adapter) = pollster::block_on(instance.request_adapter(&wgpu::RequestAdapterOptions::default())) else {
            crate::device::tests::skip_without_gpu(); // kernels are then only validated
            return None;
        };
        let (device, queue) =
            pollster::block_on(adapter.request_device(&wanted(&adapter))).expect("the adapter gives a device");
        let features = device.features();
        let units = crate::gpu::features::offered_units(&adapter, features);
        let sizes = crate::gpu::features::subgroups(&adapter.get_info(), features);
        let subgroups = sizes.map(|sizes| sizes.map(|size| size as usize));
        let (f16, workgroup_bytes) =
            (features.contains(wgpu::Features::SHADER_F16), device.limits().max_compute_workgroup_storage_size);
        Some(Gpu { device, queue, f16, subgroups, units, workgroup_bytes })
    })
    .as_ref()
}

impl Gpu {
    /// Whether kernels for subgroups of these sizes run: all of its own are as large as that, and none is larger.
    pub(super) fn has(&self, [least, most]: [usize; 2]) -> bool {
        self.subgroups.is_some_and(|own| least <= own[0] && own[1] <= most)
    }

    fn buffer(&self, contents: &[u8], usage: wgpu::BufferUsages) -> wgpu::Buffer {
        let size = (contents.len() as u64).next_multiple_of(16) + GUARD as u64;
        let usage = usage | wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::COPY_SRC;
        let buffer =
            self.device.create_buffer(&wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false });
        let mut padded = contents.to_vec();
        padded.resize(size as usize, POISON);
        self.queue.write_buffer(&buffer, 0, &padded);
        buffer
    }

    /// Runs the launches over `buffers` and returns the status word.
    pub(super) fn run(&self, launches: &[Launch], buffers: &mut [Vec<u8>], uniforms: &[u32]) -> u32 {
        use wgpu::BufferUsages as U;
        let storages: Vec<wgpu::Buffer> = buffers.iter().map(|bytes| self.buffer(bytes, U::STORAGE)).collect();
        let mut host = uniforms.to_vec();
        host.resize(host.len().max(4).next_multiple_of(4), 0);
        let host = self.buffer(bytemuck::cast_slice(&host), U::UNIFORM);
        let status = self.buffer(&[0; 4], U::STORAGE);
        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        for launch in launches {
            self.encode(&mut encoder, launch, &storages, &host, &status, true);
        }
        self.queue.submit([encoder.finish()]);
        for (bytes, storage) in buffers.iter_mut().zip(&storages) {
            let all = self.read(storage);
            let (got, rest) = all.split_at(bytes.len());
            bytes.copy_from_slice(got);
            // the vector of four words in which the buffer ends may be written as a whole
            let guard = &rest[bytes.len().next_multiple_of(16) - bytes.len()..];
            assert!(guard.iter().all(|&byte| byte == POISON), "written behind a buffer of {} bytes", bytes.len());
        }
        u32::from_le_bytes(self.read(&status)[..4].try_into().expect("four bytes"))
    }

    /// Least seconds of at least five submissions of the launches, for half a second: an idle GPU's clock is slow at
    /// first.
    pub(super) fn time(&self, launches: &[Launch], contents: &[Vec<u8>]) -> f64 {
        let storages: Vec<wgpu::Buffer> =
            contents.iter().map(|bytes| self.buffer(bytes, wgpu::BufferUsages::STORAGE)).collect();
        let host = self.buffer(&[0; 16], wgpu::BufferUsages::UNIFORM);
        let status = self.buffer(&[0; 4], wgpu::BufferUsages::STORAGE);
        let once = || {
            let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            launches.iter().for_each(|launch| self.encode(&mut encoder, launch, &storages, &host, &status, false));
            let commands = encoder.finish();
            self.device.poll(wgpu::PollType::wait_indefinitely()).expect("the device answers");
            let start = std::time::Instant::now();
            self.queue.submit([commands]);
            self.device.poll(wgpu::PollType::wait_indefinitely()).expect("the device answers");
            start.elapsed().as_secs_f64()
        };
        let begun = std::time::Instant::now();
        let goes_on = |&number: &usize| number < 5 || begun.elapsed().as_secs_f64() < 0.5;
        (0..).take_while(goes_on).map(|_| once()).fold(f64::INFINITY, f64::min)
    }

    fn encode(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        launch: &Launch,
        storages: &[wgpu::Buffer],
        host: &wgpu::Buffer,
        status: &wgpu::Buffer,
        checked: bool,
    ) {
        let sizes = self.buffer(bytemuck::cast_slice(&launch.sizes), wgpu::BufferUsages::UNIFORM);
        let mut resources: Vec<wgpu::BindingResource<'_>> = Vec::new();
        for binding in &launch.bindings {
            assert_eq!(binding.offset_bytes % 256, 0);
            // With the guard, where the binding ends with the buffer: an access behind it is then neither clamped nor
            // dropped.
            let (buffer, end) = (&storages[binding.buffer], binding.offset_bytes + binding.size_bytes);
            let guarded = end + GUARD as u64 >= buffer.size() - 15;
            resources.push(wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                buffer,
                offset: binding.offset_bytes,
                size: std::num::NonZeroU64::new(binding.size_bytes).filter(|_| !guarded),
            }));
        }
        if !launch.sizes.is_empty() {
            resources.push(sizes.as_entire_binding());
        }
        if launch.uniforms.is_some() {
            resources.push(host.as_entire_binding());
        }
        if launch.uses_status {
            resources.push(status.as_entire_binding());
        }
        let entries: Vec<wgpu::BindGroupEntry<'_>> = resources
            .into_iter()
            .enumerate()
            .map(|(binding, resource)| wgpu::BindGroupEntry { binding: binding as u32, resource })
            .collect();
        let layout = self.layout(launch);
        let pipeline = self.pipeline(launch, &layout, checked);
        let group = self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &layout,
            entries: &entries,
        });
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        pass.set_pipeline(&pipeline);
        pass.set_bind_group(0, &group, &[]);
        pass.dispatch_workgroups(launch.groups[0], launch.groups[1], launch.groups[2]);
    }

    /// What the launch says it binds; the module may use less of it.
    fn layout(&self, launch: &Launch) -> wgpu::BindGroupLayout {
        use wgpu::BufferBindingType as Type;
        let storages = launch.bindings.iter().map(|binding| Type::Storage { read_only: !binding.writable });
        let uniforms = usize::from(!launch.sizes.is_empty()) + usize::from(launch.uniforms.is_some());
        let status = launch.uses_status.then_some(Type::Storage { read_only: false });
        let types = storages.chain(std::iter::repeat_n(Type::Uniform, uniforms)).chain(status);
        let entries: Vec<wgpu::BindGroupLayoutEntry> = types
            .enumerate()
            .map(|(binding, ty)| wgpu::BindGroupLayoutEntry {
                binding: binding as u32,
                visibility: wgpu::ShaderStages::COMPUTE,
                ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset: false, min_binding_size: None },
                count: None,
            })
            .collect();
        self.device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries })
    }

    fn pipeline(&self, launch: &Launch, layout: &wgpu::BindGroupLayout, checked: bool) -> wgpu::ComputePipeline {
        let source = wgpu::ShaderSource::Wgsl(launch.wgsl.as_str().into());
        let descriptor = wgpu::ShaderModuleDescriptor { label: Some(&launch.label), source };
        let module = if checked {
            self.device.create_shader_module(descriptor)
        } else {
            #[expect(unsafe_code, reason = "measured as the executor runs it")]
            // SAFETY: the same kernel has run checked, and its indices are in bounds by construction.
            unsafe {
                self.device.create_shader_module_trusted(descriptor, wgpu::ShaderRuntimeChecks::unchecked())
            }
        };
        let layout = self.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(layout)],
            immediate_size: 0,
        });
        self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(&launch.label),
            layout: Some(&layout),
            module: &module,
            entry_point: Some("main"),
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: None,
        })
    }

    fn read(&self, buffer: &wgpu::Buffer) -> Vec<u8> {
        use wgpu::BufferUsages as U;
        let size = buffer.size();
        let staging = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size,
            usage: U::COPY_DST | U::MAP_READ,
            mapped_at_creation: false,
        });
        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        encoder.copy_buffer_to_buffer(buffer, 0, &staging, 0, size);
        self.queue.submit([encoder.finish()]);
        staging.map_async(wgpu::MapMode::Read, .., |result| result.expect("the buffer maps"));
        self.device.poll(wgpu::PollType::wait_indefinitely()).expect("the device answers");
        staging.get_mapped_range(..).expect("it is mapped").to_vec()
    }
}
