//! One opened adapter.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::device::{Counters, DeviceInfo};
use crate::error::{Error, Result};
use crate::units;

use super::adapter::{Adapter, capabilities, describe, wanted};
use super::ahead::Ahead;
use super::counters::{Cells, Made};
use super::features;
use super::health::Health;
use super::pace::Pace;
use super::passes;
use super::pipeline::Pipelines;
use super::pipeline_cache::PipelineCache;
use super::readback::ReadbackPool;
use super::recorder::Recorder;
use super::render::Capabilities;
use super::tally::Tally;
use super::timestamps::Clock;
use super::tuned::Place;
use super::waiter::{Ticket, Waiter};

/// The limits that kernels depend on.
const COMPUTE_LIMITS: [&str; 9] = [
    "max_buffer_size",
    "max_storage_buffer_binding_size",
    "max_storage_buffers_per_shader_stage",
    "max_uniform_buffers_per_shader_stage",
    "max_compute_workgroup_storage_size",
    "max_compute_invocations_per_workgroup",
    "max_compute_workgroup_size_x",
    "max_compute_workgroup_size_y",
    "max_compute_workgroups_per_dimension",
];

/// An opened adapter: its queue and everything that is shared by the programs that run on it.
#[derive(Debug)]
pub(crate) struct Gpu {
    pub(super) device: wgpu::Device,
    pub(super) queue: wgpu::Queue,
    pub(crate) caps: Capabilities,
    pub(super) poller: Poller,
    pub(super) waiter: Waiter,
    pub(super) pipelines: Pipelines,
    pub(super) pipeline_cache: Option<PipelineCache>,
    pub(super) ahead: Option<Ahead>,
    /// Where it is remembered what tuning finds.
    pub(super) tuned_place: Option<Place>,
    pub(super) readbacks: ReadbackPool,
    pub(super) clock: Clock,
    pub(super) pace: Pace,
    /// Two atomic words: the largest number of a place that met an index outside its range, and what `tally` counts.
    pub(super) status: wgpu::Buffer,
    /// Where the end of work does not tell whether it was done.
    pub(super) tally: OnceLock<Tally>,
    /// Compile kernels with bounds checks and bounded loops.
    pub(super) checked: bool,
    counters: Arc<Cells>,
    recorder: Mutex<Recorder>,
}

/// Why there is no memory.
#[derive(Debug)]
pub(crate) enum AllocError {
    /// There is not enough.
    OutOfMemory,
    /// Something else is wrong.
    Other(Error),
}

/// What drives wgpu's callbacks.
#[derive(Clone, Debug)]
pub(super) struct Poller {
    device: wgpu::Device,
    pub(super) health: Arc<Health>,
    /// Waiting begins with asking.
    asks: bool,
}

/// Work that was given to the device.
#[derive(Debug)]
pub(super) struct Submitted {
    /// The last of it, if that is known.
    submission: Option<wgpu::SubmissionIndex>,
    /// Settled when it is done, where waits ask for that.
    done: Option<Ticket>,
}

/// How long a wait asks whether the work is done before the thread sleeps: to be woken takes some 25 µs (H100, Linux),
/// which is much beside a step of 100 µs and nothing beside one of this length.
const ASKING: Duration = Duration::from_micros(500);

impl Poller {
    /// Blocks until `submission` (the latest one if not given) is done or the device is lost, and runs what is due.
    pub(super) fn wait(&self, submission: Option<wgpu::SubmissionIndex>) {
        self.poll(wgpu::PollType::Wait { submission_index: submission, timeout: None });
    }

    /// The same, or until it `is_done`, which a callback tells, and for which this asks first. (Waits without time
    /// would say it, too, but wgpu 30 panics if another thread finds the queue empty in the middle of one.)
    pub(super) fn wait_until(&self, is_done: impl Fn() -> bool, submission: Option<wgpu::SubmissionIndex>) {
        if is_done() {
            return;
        }
        let begun = Instant::now();
        while self.asks && begun.elapsed() < ASKING && !self.is_lost() {
            self.turn();
            if is_done() {
                return;
            }
            // a microsecond or so for who wants wgpu's locks
            (0..16).for_each(|_| std::hint::spin_loop());
        }
        self.wait(submission);
    }

    /// Runs what is due.
    pub(super) fn turn(&self) {
        self.poll(wgpu::PollType::Poll);
    }

    /// Whether the device is gone for good.
    pub(super) fn is_lost(&self) -> bool {
        self.health.is_lost()
    }

    fn poll(&self, how: wgpu::PollType) {
        if self.health.is_lost() {
            return;
        }
        // A wait for a submission that was refused returns an error, but then the refusal itself has been reported.
        let _done = self.with_callbacks(|| self.device.poll(how));
    }

    /// Calls `work`, in which wgpu runs callbacks; `None` if the driver failed. wgpu panics when the driver loses the
    /// device during a wait; that is an error of the world, not of ours. But those of an application that shares the
    /// device may panic, too, and those behind them are dropped: whoever waits for one would wait for ever.
    pub(super) fn with_callbacks<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        let panic = match catch_unwind(AssertUnwindSafe(work)) {
            Ok(done) => return Some(done),
            Err(panic) => panic,
        };
        let message = panic.downcast_ref::<String>().map_or("", String::as_str);
        let is_drivers = message.contains("Device::poll") || self.health.is_lost();
        let what = if is_drivers { "the driver failed" } else { "a callback panicked" };
        self.health.lose(&format!("{what} while it was at work"));
        if !is_drivers {
            resume_unwind(panic);
        }
        None
    }
}

impl Gpu {
    /// Opens an adapter, with all the limits and those of our features that it has.
    pub(crate) fn open(adapter: &Adapter) -> Result<Arc<Self>> {
        Self::open_with(adapter, cache_folder().as_deref())
    }

    /// The same, with what earlier processes found out about it from `folder`.
    pub(crate) fn open_with(adapter: &Adapter, folder: Option<&Path>) -> Result<Arc<Self>> {
        let name = full_name(&adapter.info);
        check_limits(&adapter.raw.limits(), &name)?;
        let (device, queue) = request(&adapter.raw, &wanted(&adapter.raw), &name)?;
        Self::untried(name, &adapter.raw, device, queue, folder).tried()
    }

    /// Works on a device that an application has opened on `adapter`, with the limits and features it was opened with.
    pub(crate) fn adopt(
        adapter: &wgpu::Adapter,
        device: wgpu::Device,
        queue: wgpu::Queue,
    ) -> Result<(Arc<Self>, DeviceInfo)> {
        let limits = device.limits();
        let info = describe("wgpu".into(), adapter, &limits, device.features());
        let name = full_name(&info);
        check_limits(&limits, &name)?;
        Ok((Self::untried(name, adapter, device, queue, cache_folder().as_deref()).tried()?, info))
    }

    /// Tries what it is said to be able to do.
    fn tried(mut self) -> Result<Arc<Self>> {
        self.check()?;
        if matches!(self.device.adapter_info().backend, wgpu::Backend::Metal | wgpu::Backend::Dx12) {
            self.count_submissions()?;
        }
        self.caps.subgroups = self.probed_subgroups();
        self.caps.cooperative = self.probed_units();
        let place = self.tuned_place.as_ref().filter(|_| !features::without(features::Feature::Tuned));
        self.caps.tuned = place.map(|place| Arc::new(place.load()));
        self.check()?;
        Ok(Arc::new(self))
    }

    /// Another one on its adapter, untried, for which drivers make the same of a kernel.
    pub(super) fn beside(&self, adapter: &wgpu::Adapter) -> Result<Self> {
        let descriptor = wgpu::DeviceDescriptor {
            required_features: self.device.features(),
            required_limits: self.device.limits(),
            ..wanted(adapter)
        };
        let name = self.poller.health.device().to_owned();
        let (device, queue) = request(adapter, &descriptor, &name)?;
        Ok(Self::untried(name, adapter, device, queue, None))
    }

    /// Nothing has run on it, so its capabilities are those that the adapter tells.
    fn untried(
        name: String,
        adapter: &wgpu::Adapter,
        device: wgpu::Device,
        queue: wgpu::Queue,
        folder: Option<&Path>,
    ) -> Self {
        let health = Arc::new(Health::new(name));
        let listener = Arc::clone(&health);
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| listener.report(in_words(&error))));
        let listener = Arc::clone(&health);
        device.set_device_lost_callback(move |reason, message| {
            listener.lose(if message.is_empty() { reason_name(reason) } else { &message });
        });

        let counters = Arc::new(Cells::default());
        counters.count(Made::Buffer);
        let status = device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("status"),
            size: 16,
            usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let caps = capabilities(adapter, &device);
        // elsewhere it is not measured, and a processor that stands in for a GPU has other work
        let asks = adapter.get_info().backend == wgpu::Backend::Vulkan && !caps.software;
        Self {
            caps,
            poller: Poller { device: device.clone(), health, asks },
            waiter: Waiter::new(),
            pipelines: Pipelines::default(),
            pipeline_cache: PipelineCache::open(&device, folder),
            ahead: Ahead::on(adapter),
            tuned_place: folder.map(|folder| Place::new(folder, &adapter.get_info())),
            readbacks: ReadbackPool::default(),
            clock: Clock::new(&device, &queue, adapter.get_info().backend),
            pace: Pace::default(),
            status,
            tally: OnceLock::new(),
            checked: crate::debug::checked(),
            counters,
            recorder: Mutex::new(Recorder::default()),
            device,
            queue,
        }
    }

    /// Counts submissions on the device from now on.
    pub(super) fn count_submissions(&self) -> Result<()> {
        let tally = Tally::new(self)?;
        self.tally.get_or_init(|| tally);
        Ok(())
    }

    /// The error that happened since the last call, if any.
    pub(crate) fn check(&self) -> Result<()> {
        self.poller.health.check()
    }

    /// Whether the device is gone for good.
    pub(crate) fn is_lost(&self) -> bool {
        self.poller.is_lost()
    }

    /// Destroys the device as a driver reset would.
    pub(crate) fn lose(&self) {
        // first, so that a thread whose readback fails meanwhile learns why
        self.poller.health.lose("destroyed");
        self.device.destroy();
    }

    /// Memory for values, that reads as zero.
    pub(crate) fn alloc(&self, bytes: u64, what: &str) -> Result<wgpu::Buffer, AllocError> {
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        self.alloc_for(usage, bytes, what)
    }

    /// Memory for what `usage` says, that reads as zero.
    pub(super) fn alloc_for(
        &self,
        usage: wgpu::BufferUsages,
        bytes: u64,
        what: &str,
    ) -> Result<wgpu::Buffer, AllocError> {
        self.check().map_err(AllocError::Other)?;
        match self.try_alloc(usage, bytes, what) {
            Err(AllocError::OutOfMemory) => {
                // Dropped memory is given back only when the work that used it is done.
                self.sync().map_err(AllocError::Other)?;
                self.try_alloc(usage, bytes, what)
            }
            result => result,
        }
    }

    /// Memory for something that soon does without it: `which` says what takes it, and what to do if there is none.
    pub(super) fn alloc_passing(
        &self,
        usage: wgpu::BufferUsages,
        bytes: u64,
        what: &str,
        which: &str,
    ) -> Result<wgpu::Buffer> {
        self.alloc_for(usage, bytes, what).map_err(|error| match error {
            AllocError::Other(error) => error,
            AllocError::OutOfMemory => {
                self.poller.health.error(format!("no memory for the {} that {which}", units::bytes(bytes)))
            }
        })
    }

    fn try_alloc(&self, usage: wgpu::BufferUsages, bytes: u64, what: &str) -> Result<wgpu::Buffer, AllocError> {
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let buffer = self.buffer(what, bytes, usage);
        match pollster::block_on(scope.pop()) {
            Some(_) => Err(AllocError::OutOfMemory),
            None => self.check().map(|()| buffer).map_err(AllocError::Other),
        }
    }

    /// A counted buffer.
    pub(super) fn buffer(&self, label: &str, bytes: u64, usage: wgpu::BufferUsages) -> wgpu::Buffer {
        self.count(Made::Buffer);
        let descriptor = wgpu::BufferDescriptor { label: Some(label), size: bytes, usage, mapped_at_creation: false };
        self.device.create_buffer(&descriptor)
    }

    /// A counted uniform buffer of at least these words.
    pub(super) fn uniform_buffer(&self, label: &str, words: &[u32]) -> wgpu::Buffer {
        self.count(Made::Buffer);
        let bytes: &[u8] = bytemuck::cast_slice(words);
        let buffer = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some(label),
            size: (bytes.len() as u64).next_multiple_of(16).max(16),
            // too many words for a uniform are bound as storage
            usage: wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: true,
        });
        // Without a view the device is lost or out of memory, which the next call reports.
        if let Ok(mut view) = buffer.get_mapped_range_mut(..) {
            view.slice(..bytes.len()).copy_from_slice(bytes);
        }
        buffer.unmap();
        buffer
    }

    /// Counts an object.
    pub(super) fn count(&self, made: Made) {
        self.counters.count(made);
    }

    /// Into how many launches work is cut that can be.
    pub(crate) fn launches(&self, flops: u64, bytes: u64) -> usize {
        passes::launches(flops, bytes, self.caps.launch_milliseconds)
    }

    /// How many objects were made so far.
    pub(crate) fn counters(&self) -> Counters {
        self.counters.get()
    }

    /// Whether it draws a window as well, from now on.
    pub(crate) fn set_beside_display(&self, on: bool) {
        self.pace.set_beside_display(on);
    }

    /// Submits what is recorded and waits until the device has done everything.
    pub(crate) fn sync(&self) -> Result<()> {
        self.recorder().submit(self);
        self.wait_for(self.submitted(None));
        self.check()
    }

    /// Has waits begin with asking, whatever the adapter is.
    #[cfg(test)]
    pub(crate) fn ask_before_waiting(&mut self) {
        self.poller.asks = true;
    }

    /// What is submitted so far, the last of it `submission`, to be waited for later.
    pub(super) fn submitted(&self, submission: Option<wgpu::SubmissionIndex>) -> Submitted {
        let done = self.poller.asks.then(Ticket::default);
        if let Some(done) = done.clone() {
            self.queue.on_submitted_work_done(move || done.settle(true));
        }
        Submitted { submission, done }
    }

    /// Blocks until it is done or the device is lost.
    pub(super) fn wait_for(&self, submitted: Submitted) {
        let Submitted { submission, done } = submitted;
        self.poller.wait_until(|| done.as_ref().is_some_and(|done| done.outcome().is_some()), submission);
    }

    /// Submits what is recorded, so that whatever the queue is given next comes after it.
    pub(crate) fn flush(&self) -> Result<()> {
        self.recorder().submit(self);
        self.check()
    }

    /// Keeps what was compiled for the next process, where the driver has such a cache.
    #[cfg(feature = "cli")]
    pub(crate) fn keep_compiled(&self) {
        if let Some(cache) = &self.pipeline_cache {
            cache.save();
        }
    }

    /// What the application shares with it.
    pub(crate) fn raw(&self) -> (&wgpu::Device, &wgpu::Queue) {
        (&self.device, &self.queue)
    }

    /// The work that is being recorded.
    pub(super) fn recorder(&self) -> MutexGuard<'_, Recorder> {
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An error that names what is too little, unless kernels can rely on all that WebGPU promises them.
fn check_limits(limits: &wgpu::Limits, device: &str) -> Result<()> {
    let mut lacking = Vec::new();
    wgpu::Limits::default().check_limits_with_fail_fn(limits, false, |limit, needed, given| {
        if COMPUTE_LIMITS.contains(&limit) {
            lacking.push(format!("{limit} is {given}, at least {needed} is needed"));
        }
    });
    if lacking.is_empty() {
        Ok(())
    } else {
        Err(Error::DeviceOpen { device: device.into(), reason: lacking.join("; ") })
    }
}

fn request(
    adapter: &wgpu::Adapter,
    descriptor: &wgpu::DeviceDescriptor<'_>,
    name: &str,
) -> Result<(wgpu::Device, wgpu::Queue)> {
    let opened = pollster::block_on(adapter.request_device(descriptor));
    opened.map_err(|error| Error::DeviceOpen { device: name.into(), reason: error.to_string() })
}

/// Where it is kept what processes found out about adapters. Unit tests leave the user's folder alone.
fn cache_folder() -> Option<PathBuf> {
    if cfg!(test) { None } else { crate::files::cache_folder() }
}

/// Name and interface, as messages give it.
pub(crate) fn full_name(info: &DeviceInfo) -> String {
    format!("{} ({})", info.name, info.backend)
}

/// What the driver said; where tensors find no memory, the allocator tells instead.
fn in_words(error: &wgpu::Error) -> String {
    match error {
        wgpu::Error::OutOfMemory { source } => {
            format!("out of memory for a buffer of brasa's own ({source}); use a smaller batch or model")
        }
        error => error.to_string(),
    }
}

fn reason_name(reason: wgpu::DeviceLostReason) -> &'static str {
    match reason {
        wgpu::DeviceLostReason::Unknown => "no reason given",
        wgpu::DeviceLostReason::Destroyed => "destroyed",
    }
}
