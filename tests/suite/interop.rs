//! A GPU shared with an application that uses wgpu itself.

use brasa::optim::{Adam, AdamOptions, Optimizer};
use brasa::runtime::{Step, Var};
use brasa::{DType, Device, Error, Shape, Tensor, wgpu};
use pollster::block_on;

use crate::common::floats;

const USAGES: wgpu::BufferUsages =
    wgpu::BufferUsages::STORAGE.union(wgpu::BufferUsages::COPY_SRC).union(wgpu::BufferUsages::COPY_DST);

/// The application's kernel: twice each element.
const TWICE: &str = "
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
    if id.x < arrayLength(&y) { y[id.x] = 2.0 * x[id.x]; }
}";

/// What an application opens, and brasa on it.
struct Application {
    device: wgpu::Device,
    queue: wgpu::Queue,
    brasa: Device,
}

fn adapter() -> Option<wgpu::Adapter> {
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
    let found = block_on(instance.enumerate_adapters(wgpu::Backends::PRIMARY)).into_iter().next();
    let required = std::env::var_os("BRASA_REQUIRE_GPU").is_some_and(|value| value == "1");
    assert!(found.is_some() || !required, "BRASA_REQUIRE_GPU is 1 and there is no GPU adapter");
    found
}

fn open(descriptor: impl Fn(&wgpu::Adapter) -> wgpu::DeviceDescriptor<'static>) -> Option<Application> {
    let adapter = adapter()?;
    let (device, queue) = block_on(adapter.request_device(&descriptor(&adapter))).expect("opened");
    let brasa = Device::from_wgpu(&adapter, device.clone(), queue.clone()).expect("good enough");
    Some(Application { device, queue, brasa })
}

/// Nothing but WebGPU's defaults.
fn plain(_adapter: &wgpu::Adapter) -> wgpu::DeviceDescriptor<'static> {
    wgpu::DeviceDescriptor::default()
}

impl Application {
    fn buffer(&self, values: &[f32]) -> wgpu::Buffer {
        let size = (4 * values.len() as u64).next_multiple_of(16);
        let descriptor = wgpu::BufferDescriptor { label: None, size, usage: USAGES, mapped_at_creation: false };
        let buffer = self.device.create_buffer(&descriptor);
        self.queue.write_buffer(&buffer, 0, bytemuck::cast_slice(values));
        buffer
    }

    /// The application's kernel over `from`, whose result is read with brasa.
    fn twice(&self, from: &wgpu::Buffer, elements: usize) -> Vec<f32> {
        let module = self.device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: None,
            source: wgpu::ShaderSource::Wgsl(TWICE.into()),
        });
        let pipeline = self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: None,
            module: &module,
            entry_point: None,
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: None,
        });
        let to = self.buffer(&vec![0.0; elements]);
        let entries = [from, &to].map(wgpu::Buffer::as_entire_binding);
        let entries: Vec<_> =
            (0..).zip(entries).map(|(binding, resource)| wgpu::BindGroupEntry { binding, resource }).collect();
        let layout = pipeline.get_bind_group_layout(0);
        let group = wgpu::BindGroupDescriptor { label: None, layout: &layout, entries: &entries };
        let group = self.device.create_bind_group(&group);
        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        pass.set_pipeline(&pipeline);
        pass.set_bind_group(0, &group, &[]);
        pass.dispatch_workgroups(elements.div_ceil(64) as u32, 1, 1);
        drop(pass);
        self.queue.submit([encoder.finish()]);
        Tensor::from_wgpu_buffer(&to, [elements], DType::F32, &self.brasa).to_vec().expect("read")
    }
}

#[test]
fn a_step_trains_on_an_applications_device() {
    for descriptor in [Device::wgpu_descriptor, plain] {
        let Some(Application { brasa, .. }) = open(descriptor) else { return };
        let losses = |device: &Device| {
            let start = Tensor::from_vec(floats(1, 35, -1.0, 1.0), device).expect("memory").reshape([7, 5]);
            let weight = Var::parameter("weight", &start).expect("memory");
            let optimizer = Adam::new(std::slice::from_ref(&weight), AdamOptions::default()).expect("memory");
            let mut step = Step::new(device, move |inputs| {
                let loss = inputs[0].matmul(&weight.tensor()).square().mean();
                optimizer.update(&loss.backward());
                vec![loss]
            })
            .expect("a step");
            let input = Tensor::from_vec(floats(2, 21, -1.0, 1.0), device).expect("memory").reshape([3, 7]);
            let run = |_| step.run(std::slice::from_ref(&input)).expect("a run")[0].item::<f32>().expect("a loss");
            (0..5).map(run).collect::<Vec<f32>>()
        };
        let (here, there) = (losses(&brasa), losses(&Device::cpu()));
        assert!(here[4] < here[0], "{here:?}");
        for (here, there) in here.iter().zip(&there) {
            assert!((here - there).abs() <= 1e-5 * there.abs(), "{here} and {there}");
        }
    }
}

#[test]
fn buffers_and_tensors_share_their_memory() {
    let Some(application) = open(Device::wgpu_descriptor) else { return };
    let values = floats(3, 101, -1.0, 1.0);
    let buffer = application.buffer(&values);
    let tensor = Tensor::from_wgpu_buffer(&buffer, [101], DType::F32, &application.brasa);
    assert_eq!(tensor.to_vec::<f32>().expect("read"), values);
    assert!(tensor.wgpu_buffer().expect("there") == buffer, "a buffer that nothing writes is handed out as it is");

    let sum = &tensor + 1.0;
    let first = sum.wgpu_buffer().expect("computed");
    assert!(sum.wgpu_buffer().expect("there") == first, "it is the tensor's memory");
    let expected: Vec<f32> = values.iter().map(|value| 2.0 * (value + 1.0)).collect();
    assert_eq!(application.twice(&first, 101), expected);

    drop(sum);
    let others: Vec<Tensor> = (0..4).map(|n| &tensor * n as f32).collect();
    others.iter().for_each(|other| drop(other.to_vec::<f32>().expect("computed")));
    assert_eq!(application.twice(&first, 101), expected, "its memory is not used again while the application has it");

    application.queue.write_buffer(&buffer, 0, bytemuck::cast_slice(&[5.0f32]));
    assert_eq!((&tensor + 1.0).to_vec::<f32>().expect("read")[0], 6.0, "what is written later shows later");
    assert_eq!(application.twice(&first, 101), expected);
}

#[test]
fn what_a_step_writes_again_is_handed_out_as_a_copy() {
    let Some(application) = open(Device::wgpu_descriptor) else { return };
    let device = &application.brasa;
    let var = Var::state("count", &Tensor::from_vec(vec![1.0f32; 70], device).expect("memory")).expect("memory");
    let counter = var.clone();
    let mut step = Step::new(device, move |_| {
        let next = counter.tensor() + 1.0;
        counter.assign(&next);
        vec![next * 10.0]
    })
    .expect("a step");
    let before = var.tensor().wgpu_buffer().expect("a buffer");
    let output = step.run(&[]).expect("a run")[0].wgpu_buffer().expect("a buffer");
    let reversed = var.tensor().slice(0, 35..70).wgpu_buffer().expect("a buffer");
    for _ in 0..3 {
        step.run(&[]).expect("a run");
    }
    assert_eq!(application.twice(&before, 70), [2.0; 70]);
    assert_eq!(application.twice(&output, 70), [40.0; 70]);
    assert_eq!(application.twice(&reversed, 35), [4.0; 35]);
    assert_eq!(var.tensor().to_vec::<f32>().expect("read"), [5.0; 70]);
}

#[test]
fn errors_of_the_shared_device_are_returned() {
    let Some(application) = open(plain) else { return };
    let (device, _) = application.brasa.wgpu().expect("a GPU");
    assert!(*device == application.device && Device::cpu().wgpu().is_none());
    let size = device.limits().max_buffer_size + 16;
    let too_long = wgpu::BufferDescriptor { label: None, size, usage: USAGES, mapped_at_creation: false };
    drop(device.create_buffer(&too_long));
    assert!(matches!(application.brasa.sync(), Err(Error::Device { .. })));
    application.device.destroy();
    let result = Tensor::from_vec(vec![1.0f32], &application.brasa).and_then(|tensor| tensor.to_vec::<f32>());
    assert!(matches!(result, Err(Error::DeviceLost { .. })), "{result:?}");
}

#[test]
fn a_device_with_too_low_limits_is_refused_with_their_names() {
    let Some(adapter) = adapter() else { return };
    let required_limits = wgpu::Limits { max_storage_buffers_per_shader_stage: 4, ..wgpu::Limits::default() };
    let descriptor = wgpu::DeviceDescriptor { required_limits, ..Default::default() };
    let (device, queue) = block_on(adapter.request_device(&descriptor)).expect("opened");
    match Device::from_wgpu(&adapter, device, queue) {
        Err(Error::DeviceOpen { reason, .. }) => assert!(reason.contains("max_storage_buffers_per_shader_stage is 4")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn buffers_that_do_not_fit_are_the_callers_mistake() {
    let Some(application) = open(plain) else { return };
    let buffer = |size, usage| {
        let descriptor = wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false };
        application.device.create_buffer(&descriptor)
    };
    let wrong = [buffer(16, USAGES), buffer(20, USAGES), buffer(32, wgpu::BufferUsages::STORAGE)];
    for buffer in wrong {
        let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            Tensor::from_wgpu_buffer(&buffer, Shape::from([5]), DType::F32, &application.brasa)
        }));
        assert!(made.is_err(), "{buffer:?}");
    }
}

#[test]
fn a_variable_that_was_set_to_a_buffer_keeps_what_that_held() {
    let Some(application) = open(plain) else { return };
    let buffer = application.buffer(&[1.0, 2.0, 3.0, 4.0]);
    let there = Tensor::from_wgpu_buffer(&buffer, [4], DType::F32, &application.brasa);
    let variable = Var::parameter("w", &there).expect("memory");
    application.queue.write_buffer(&buffer, 0, bytemuck::cast_slice(&[5.0_f32; 4]));
    assert_eq!(variable.tensor().to_vec::<f32>().expect("values"), [1.0, 2.0, 3.0, 4.0]);
    variable.set(&there).expect("memory");
    application.queue.write_buffer(&buffer, 0, bytemuck::cast_slice(&[6.0_f32; 4]));
    assert_eq!(variable.tensor().to_vec::<f32>().expect("values"), [5.0; 4]);
}

#[test]
fn a_callback_that_panics_in_what_brasa_submits_loses_the_device_and_nothing_hangs() {
    let Some(application) = open(plain) else { return };
    let x = Tensor::from_vec(floats(1, 8, -1.0, 1.0), &application.brasa).expect("memory");
    x.realize().expect("memory");
    // runs in whatever is submitted, or waited for, next
    application.queue.on_submitted_work_done(|| panic!("the application's"));
    // whichever call runs it hands the panic on; all others return errors
    let mut panics = 0;
    for _ in 0..50 {
        let call = std::panic::AssertUnwindSafe(|| (&x + 1.0).to_vec::<f32>());
        match std::panic::catch_unwind(call) {
            Ok(read) => assert_eq!(read.is_err(), panics > 0, "{read:?}"),
            Err(_) => panics += 1,
        }
    }
    assert_eq!(panics, 1);
    let error = (&x + 1.0).to_vec::<f32>().expect_err("it is lost");
    assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
}
