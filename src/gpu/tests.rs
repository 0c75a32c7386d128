//! Hand-written launches through the executor.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::device::tests::{fresh_gpu, fresh_gpu_with};
use crate::device::{Bound, Device, Storage};
use crate::error::{Error, Result};
use crate::plan::{Body, Buffer, Kernel, LoopKernel, Place, Plan};
use crate::stage::Stage;
use crate::tensor::Tensor;
use crate::timing::{StageTimes, TimeSource};
use crate::{DType, status};

use super::{Binding, Gpu, Launch, Uniforms};

const ELEMENTS: usize = 1000;

/// `state = state * scale + 1` in two kernels over a slot in between: forward `slot = state * scale`, update
/// `state = slot + step` with `step` from the sizes uniform.
const SCALE: &str = "
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<uniform> sizes: array<vec4<u32>, 1>;
@group(0) @binding(3) var<uniform> host: array<vec4<u32>, 1>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < sizes[0].x { y[id.x] = x[id.x] * bitcast<f32>(host[0].y); }
}";
const ADD: &str = "
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<uniform> sizes: array<vec4<u32>, 1>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < sizes[0].x { y[id.x] = x[id.x] + f32(sizes[0].y); }
}";

fn buffer(place: Place, label: &str) -> Buffer {
    Buffer { dtype: DType::F32, elements: ELEMENTS, place, offset_bytes: 0, label: label.into() }
}

fn kernel(label: &str, stage: Stage, reads: &[usize], writes: &[usize]) -> Kernel {
    Kernel {
        label: label.into(),
        stage,
        body: Body::Loop(LoopKernel { axes: vec![ELEMENTS], outer: 1, phases: Vec::new() }),
        nodes: Vec::new(),
        values: Vec::new(),
        modules: Vec::new(),
        reads: reads.to_vec(),
        writes: writes.to_vec(),
        flops: ELEMENTS as u64,
        bytes: 8 * ELEMENTS as u64,
    }
}

fn launch(label: &str, wgsl: &str, buffers: &[(usize, bool)], sizes: &[u32]) -> Launch {
    let window = |&(buffer, writable): &(usize, bool)| Binding {
        buffer,
        offset_bytes: 0,
        size_bytes: 4 * ELEMENTS as u64,
        writable,
    };
    Launch {
        label: label.into(),
        wgsl: wgsl.into(),
        foreign: None,
        bindings: buffers.iter().map(window).collect(),
        sizes: sizes.to_vec(),
        uniforms: wgsl.contains("host").then_some(Uniforms::Uniform),
        uses_status: wgsl.contains("status"),
        groups: [ELEMENTS.div_ceil(64) as u32, 1, 1],
    }
}

fn plan(kernels: Vec<Kernel>) -> Arc<Plan> {
    Arc::new(Plan {
        buffers: vec![buffer(Place::External(0), "state"), buffer(Place::Slot(0), "scaled")],
        kernels,
        slots: vec![4 * ELEMENTS as u64],
        externals: 1,
        uniforms: 2,
        literal_sizes: true,
        ..Plan::default()
    })
}

fn two_kernels(device: &Device) -> (Bound, Storage) {
    let plan = plan(vec![kernel("scale", Stage::Forward, &[0], &[1]), kernel("add", Stage::Update, &[1], &[0])]);
    let sizes = [ELEMENTS as u32, 3];
    let launches = vec![
        vec![launch("scale", SCALE, &[(0, false), (1, true)], &sizes)],
        vec![launch("add", ADD, &[(1, false), (0, true)], &sizes)],
    ];
    let executable = device.prepare_launches(plan, launches).expect("prepare");
    let state = device.alloc(4 * ELEMENTS as u64, "state").expect("alloc");
    let bound = executable.bind(std::slice::from_ref(&state)).expect("bind");
    (bound, state)
}

fn values(device: &Device, storage: &Storage) -> Result<Vec<f32>> {
    let bytes = device.begin_read::<u8>(storage, 0, storage.bytes()).now()?;
    Ok(bytemuck::pod_collect_to_vec(&bytes))
}

/// `low = state` and `high = state * scale` in two parts of one slot, then `state = low + high`.
#[test]
fn buffers_lie_in_parts_of_one_slot() {
    const SPLIT: &str = "
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> low: array<f32>;
@group(0) @binding(2) var<storage, read_write> high: array<f32>;
@group(0) @binding(3) var<uniform> sizes: array<vec4<u32>, 1>;
@group(0) @binding(4) var<uniform> host: array<vec4<u32>, 1>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < sizes[0].x { low[id.x] = x[id.x]; high[id.x] = x[id.x] * bitcast<f32>(host[0].y); }
}";
    const JOIN: &str = "
@group(0) @binding(0) var<storage, read> low: array<f32>;
@group(0) @binding(1) var<storage, read> high: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(3) var<uniform> sizes: array<vec4<u32>, 1>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < sizes[0].x { y[id.x] = low[id.x] + high[id.x]; }
}";
    let Some(device) = fresh_gpu() else { return };
    let kernels = vec![kernel("split", Stage::Forward, &[0], &[1, 2]), kernel("join", Stage::Update, &[1, 2], &[0])];
    let mut plan = Plan::clone(&plan(kernels));
    plan.buffers.push(Buffer { offset_bytes: 4096, ..buffer(Place::Slot(0), "high") });
    plan.slots = vec![4096 + 4 * ELEMENTS as u64];
    let sizes = [ELEMENTS as u32];
    let launches = vec![
        vec![launch("split", SPLIT, &[(0, false), (1, true), (2, true)], &sizes)],
        vec![launch("join", JOIN, &[(1, false), (2, false), (0, true)], &sizes)],
    ];
    let executable = device.prepare_launches(Arc::new(plan), launches).expect("prepare");
    let state = device.alloc(4 * ELEMENTS as u64, "state").expect("alloc");
    let start: Vec<f32> = (0..ELEMENTS).map(|n| n as f32).collect();
    device.write(&state, 0, bytemuck::cast_slice(&start)).expect("write");
    let mut bound = executable.bind(std::slice::from_ref(&state)).expect("bind");
    bound.run(&[0, 0.5f32.to_bits()]).expect("run");
    let expected: Vec<f32> = start.iter().map(|value| value * 1.5).collect();
    assert_eq!(values(&device, &state).expect("read"), expected);
}

#[test]
fn replays_in_flight_keep_their_own_host_values() {
    let Some(device) = fresh_gpu() else { return };
    let (mut bound, state) = two_kernels(&device);
    let start: Vec<f32> = (0..ELEMENTS).map(|n| n as f32).collect();
    device.write(&state, 0, bytemuck::cast_slice(&start)).expect("write");
    let mut expected = start;
    for replay in 0..20 {
        let scale = if replay % 2 == 0 { 0.5f32 } else { -0.25 };
        bound.run(&[0, scale.to_bits()]).expect("run");
        expected.iter_mut().for_each(|value| *value = *value * scale + 3.0);
    }
    assert_eq!(values(&device, &state).expect("read"), expected);
}

#[test]
fn a_replay_makes_nothing_and_is_one_submission() {
    let Some(device) = fresh_gpu() else { return };
    let (mut bound, _state) = two_kernels(&device);
    bound.run(&[0, 0]).expect("run");
    let before = device.counters();
    for _ in 0..50 {
        bound.run(&[0, 0]).expect("run");
    }
    let after = device.counters();
    assert_eq!(
        (after.buffers, after.pipelines, after.bind_groups),
        (before.buffers, before.pipelines, before.bind_groups)
    );
    assert_eq!(after.submissions, before.submissions + 50);
}

#[test]
fn equal_kernels_are_compiled_once() {
    let Some(device) = fresh_gpu() else { return };
    let opened = device.counters().pipelines;
    let _first = two_kernels(&device);
    let first = device.counters().pipelines;
    let _second = two_kernels(&device);
    assert_eq!((first, device.counters().pipelines), (opened + 2, opened + 2));
}

#[test]
fn stages_and_kernels_are_timed() {
    let Some(device) = fresh_gpu() else { return };
    let (mut bound, _state) = two_kernels(&device);
    bound.profile_kernels(false);
    for _ in 0..10 {
        bound.run(&[0, 0]).expect("run");
    }
    device.sync().expect("sync");
    let times = bound.stage_times();
    let expected = if device.info().timestamps { TimeSource::Timestamp } else { TimeSource::Fence };
    for stage in [Stage::Forward, Stage::Update] {
        let time = times.get(stage).expect("measured");
        assert_eq!((time.samples, time.source), (10, expected));
        assert!(time.milliseconds > 0.0 && time.milliseconds < 1000.0, "{time:?}");
    }
    assert_eq!(bound.kernel_times(), []);
    assert_eq!(bound.stage_times().total_milliseconds(), 0.0, "counted since the last call");

    bound.profile_kernels(true);
    bound.run(&[0, 0]).expect("run");
    device.sync().expect("sync");
    let kernels = bound.kernel_times();
    assert_eq!(kernels.iter().map(|time| time.label.as_str()).collect::<Vec<_>>(), ["scale", "add"]);
    assert!(kernels.iter().all(|time| time.samples == 1 && time.gigabytes_per_second > 0.0), "{kernels:?}");
}

#[test]
fn short_replays_that_are_not_timed_are_counted() {
    const REPLAYS: u32 = 200;
    let Some(device) = fresh_gpu() else { return };
    let (mut bound, _state) = two_kernels(&device);
    let start = Instant::now();
    for _ in 0..REPLAYS {
        bound.run(&[0, 0]).expect("run");
    }
    device.sync().expect("sync");
    let wall = start.elapsed().as_secs_f64() * 1e3;
    let times = bound.stage_times();
    for stage in [Stage::Forward, Stage::Update] {
        assert_eq!(times.get(stage).map(|time| time.samples), Some(REPLAYS));
    }
    // Timed replays do not overlap, so those alone take no longer than the wall clock says, and at least 1 in 16 is
    // timed.
    let total = times.total_milliseconds();
    assert!(total > 0.0 && total < 16.0 * (1.05 * wall + 0.1 * f64::from(REPLAYS)), "{total} ms of {wall} ms");
    assert_eq!(bound.stage_times(), StageTimes::default(), "counted since the last call");
}

#[test]
fn without_a_trusted_clock_stages_are_timed_by_fences() {
    let Some(device) = fresh_gpu() else { return };
    device.gpu_backend().clock.distrust();
    let (mut bound, state) = two_kernels(&device);
    for _ in 0..5 {
        bound.run(&[0, 1f32.to_bits()]).expect("run");
    }
    assert_eq!(values(&device, &state).expect("read"), [15.0; ELEMENTS]);
    device.sync().expect("sync");
    // The thread that waits for submissions may still be about to note the last one.
    let deadline = Instant::now() + Duration::from_secs(10);
    let mut times = StageTimes::default();
    while times.get(Stage::Update).is_none_or(|time| time.samples < 5) && Instant::now() < deadline {
        times.merge(&bound.stage_times());
    }
    for stage in [Stage::Forward, Stage::Update] {
        let time = times.get(stage).expect("measured");
        assert_eq!((time.samples, time.source), (5, TimeSource::Fence));
    }
}

/// A submission for each stage takes long, on Metal up to 70 µs, so short programs are seldom cut into them.
#[test]
fn fences_cut_one_short_replay_in_sixteen() {
    let Some(device) = fresh_gpu() else { return };
    device.gpu_backend().clock.distrust();
    let (mut bound, _state) = two_kernels(&device);
    let mut submissions = |replays: usize| {
        let before = device.counters().submissions;
        for _ in 0..replays {
            bound.run(&[0, 0]).expect("run");
        }
        device.counters().submissions - before
    };
    assert_eq!(submissions(32), 64);
    assert_eq!(submissions(32), 34);
    device.sync().expect("sync");
    assert!(bound.stage_times().total_milliseconds() > 0.0);
}

#[test]
fn an_index_outside_its_range_is_an_error_of_the_next_read() {
    const CHECK: &str = "
@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> status: atomic<u32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x == 10u { atomicMax(&status, SITEu); x[0] = 1.0; }
}";
    let Some(device) = fresh_gpu() else { return };
    let site = status::register("embedding".into(), std::panic::Location::caller(), 77);
    let wgsl = CHECK.replace("SITE", &site.to_string());
    let plan = plan(vec![kernel("check", Stage::Forward, &[], &[0])]);
    let executable =
        device.prepare_launches(plan, vec![vec![launch("check", &wgsl, &[(0, true)], &[])]]).expect("prepare");
    let state = device.alloc(4 * ELEMENTS as u64, "state").expect("alloc");
    let mut bound = executable.bind(std::slice::from_ref(&state)).expect("bind");
    for _ in 0..2 {
        bound.run(&[0, 0]).expect("run");
        match values(&device, &state) {
            Err(Error::IndexOutOfRange { op, bound, location }) => {
                assert_eq!((op.as_str(), bound), ("embedding", 77));
                assert!(location.contains("tests.rs"), "{location}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(values(&device, &state).expect("the error is told once")[0], 1.0);
    }
    // each read tells what was met since the one that began before it, whichever is waited for first
    let error = |result: Result<Vec<f32>>| assert!(matches!(result, Err(Error::IndexOutOfRange { .. })), "{result:?}");
    bound.run(&[0, 0]).expect("run");
    let first = device.begin_read::<f32>(&state, 0, 4);
    bound.run(&[0, 0]).expect("run");
    let second = device.begin_read::<f32>(&state, 0, 4);
    error(first.now());
    error(second.now());
    assert!(values(&device, &state).is_ok());
}

#[test]
fn a_kernel_that_does_not_compile_is_an_error_with_its_name() {
    let Some(device) = fresh_gpu() else { return };
    for wgsl in ["fn main( {", "@compute @workgroup_size(1) fn other() {}"] {
        let plan = plan(vec![kernel("broken", Stage::Forward, &[], &[0])]);
        let result = device.prepare_launches(plan, vec![vec![launch("broken", wgsl, &[(0, true)], &[])]]);
        assert!(matches!(result, Err(Error::Kernel { kernel, .. }) if kernel == "broken"));
    }
    assert!(device.sync().is_ok(), "the device is as good as before");
}

#[test]
fn what_the_driver_reports_is_an_error_of_the_next_call() {
    let Some(device) = fresh_gpu() else { return };
    let gpu = device.gpu_backend();
    let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::STORAGE; // which do not go together
    gpu.buffer("refused", 16, usage);
    assert!(matches!(device.sync(), Err(Error::Device { .. })));
    assert!(device.sync().is_ok());
}

/// Whose results are missing is not known, and they must not be taken for results.
#[test]
fn a_device_that_refused_work_is_lost() {
    let Some(device) = fresh_gpu() else { return };
    let gpu = device.gpu_backend();
    let sum = Tensor::ones([70], &device).sum();
    sum.realize().expect("recorded");
    // A copy beyond the end is refused by wgpu's validation when the commands are finished.
    gpu.recorder().encoder(gpu).copy_buffer_to_buffer(&gpu.status, 0, &gpu.status, 1 << 20, 4);
    for _ in 0..2 {
        let error = sum.item::<f32>().expect_err("it was never computed");
        assert!(matches!(&error, Error::DeviceLost { reason, .. } if reason.contains("refused")), "{error}");
    }
}

#[test]
fn a_device_lost_between_replays_is_an_error() {
    let Some(device) = fresh_gpu() else { return };
    let (mut bound, _state) = two_kernels(&device);
    for _ in 0..3 {
        bound.run(&[0, 0]).expect("run");
    }
    device.inject(crate::device::Fault::Lost);
    assert!(matches!(bound.run(&[0, 0]), Err(Error::DeviceLost { .. })));
    bound.stage_times();
}

#[test]
fn long_replays_are_cut_into_submissions() {
    let Some(device) = fresh_gpu() else { return };
    let (mut bound, state) = two_kernels(&device);
    bound.gpu_bound().set_budget(0.01);
    let before = device.counters().submissions;
    for _ in 0..3 {
        bound.run(&[0, 1f32.to_bits()]).expect("run");
    }
    assert_eq!(device.counters().submissions, before + 6);
    assert_eq!(values(&device, &state).expect("read"), [9.0; ELEMENTS]);
    device.sync().expect("sync");
    let times = bound.stage_times();
    assert_eq!(times.get(Stage::Update).map(|time| time.samples), Some(3), "timed across submissions");
}

#[test]
fn threads_share_a_device() {
    let Some(device) = fresh_gpu() else { return };
    let asked = fresh_gpu_with(Gpu::ask_before_waiting);
    for device in [device, asked] {
        share(&device);
    }
}

fn share(device: &Device) {
    std::thread::scope(|scope| {
        for thread in 0..3u8 {
            scope.spawn(move || {
                let (mut bound, state) = two_kernels(device);
                let own = device.alloc(100_000, "own").expect("alloc");
                for round in 0..30u8 {
                    bound.run(&[0, 1f32.to_bits()]).expect("run");
                    let data = vec![thread ^ round; 100_000];
                    device.write(&own, 0, &data).expect("write");
                    assert_eq!(device.begin_read::<u8>(&own, 0, 100_000).now().expect("read"), data);
                }
                assert_eq!(values(device, &state).expect("read"), [90.0; ELEMENTS]);
            });
        }
    });
}

#[test]
fn more_host_values_than_a_uniform_holds_are_read_from_storage() {
    let Some(plain) = fresh_gpu() else { return };
    let narrow = fresh_gpu_with(|gpu| gpu.caps.max_uniforms = 3);
    let [expected, drawn] = [&plain, &narrow].map(|device| {
        crate::runtime::seed(device, 7).expect("a device");
        let draw = || Tensor::rand([37], device);
        (draw() + draw() * draw() - draw()).to_vec::<f32>().expect("numbers")
    });
    assert_eq!(drawn, expected);
    assert!(expected.iter().any(|&value| value != expected[0]), "they are random");
}
