//! Machine code made before it is needed, on adapters that compute on the CPU.
//!
//! Such a driver (llvmpipe) makes a kernel's machine code at its first launch, on the one thread of its queue: a first
//! step would wait for one kernel after the other while all cores but one are idle. So the new kernels of a program are
//! launched without work, some by the device itself and some by others, which are opened on the adapter for this alone.
//! What those have made comes to the device out of the driver's cache of files.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::context::Gpu;
use super::features::{Feature, without};
use super::pipeline::{Pipeline, Slot, Text};

/// A launch without work that takes longer than this makes machine code. llvmpipe takes from 20 ms to two seconds for
/// that, and a millisecond to find what is in its files.
const FOUND: Duration = Duration::from_millis(8);
/// Devices that help at most: each takes a few milliseconds to open, and memory.
const MAX_HELPERS: usize = 15;
/// No uniform buffer of a kernel is longer.
const MAX_UNIFORM_BYTES: u64 = 64 << 10;

/// Where devices that help are opened.
#[derive(Debug)]
pub(super) struct Ahead {
    adapter: wgpu::Adapter,
    /// Held while machine code is made ahead.
    busy: Mutex<()>,
    /// What others made did not come through files, or launches without work are refused.
    in_vain: AtomicBool,
}

/// A kernel that has not been launched.
#[derive(Debug)]
pub(super) struct New<'a> {
    pub(super) text: Text<'a>,
    pub(super) slots: &'a [Slot],
    pub(super) pipeline: &'a Arc<Pipeline>,
}

/// A kernel that a device which helps has launched, and how long that took.
type Made<'a> = (New<'a>, Duration);

/// What kernels are bound to that are launched without work.
struct Nothing {
    read: wgpu::Buffer,
    written: wgpu::Buffer,
}

impl Ahead {
    /// `None` where drivers compile a kernel when they are given it, on any thread.
    pub(super) fn on(adapter: &wgpu::Adapter) -> Option<Self> {
        let info = adapter.get_info();
        let at_launch = info.device_type == wgpu::DeviceType::Cpu && info.backend == wgpu::Backend::Vulkan;
        (at_launch && !without(Feature::Ahead)).then(|| Self {
            adapter: adapter.clone(),
            busy: Mutex::default(),
            in_vain: AtomicBool::new(false),
        })
    }
}

impl Gpu {
    /// Has the driver make the machine code of all of them, and says how many others launched. Where that fails, the
    /// first launch makes it.
    pub(super) fn make_ahead(&self, mut new: Vec<New<'_>>) -> usize {
        let Some(ahead) = self.ahead.as_ref().filter(|ahead| !ahead.in_vain.load(Ordering::Relaxed)) else { return 0 };
        // modules that are not ours may need longer buffers
        new.retain(|kernel| kernel.text.foreign.is_none());
        let most_helpers = (rayon::current_num_threads() - 1).min(new.len() / 2).min(MAX_HELPERS);
        if most_helpers == 0 {
            return 0;
        }
        let Some(_alone) = ahead.busy.try_lock() else { return 0 };
        let Some(nothing) = self.nothing() else { return 0 };
        let made = self.launch_all(new, most_helpers, (ahead, &nothing));

        // what they have found as well says nothing about what they make
        let fetch = |(kernel, took): &Made<'_>| {
            let begun = Instant::now();
            let is_launched = self.launch_nothing(kernel.pipeline, kernel.slots, &nothing);
            (*took > FOUND).then(|| is_launched && begun.elapsed() < *took / 2)
        };
        let came: Vec<bool> = made.iter().filter_map(fetch).collect();
        tracing::debug!("other devices launched {} kernels without work and made {}", made.len(), came.len());
        // the driver may have been told to keep no files
        if !came.is_empty() && !came.contains(&true) {
            ahead.in_vain.store(true, Ordering::Relaxed);
        }
        made.len()
    }

    /// Launches all of them without work, here and, if that takes long, on up to so many other devices; returns what
    /// those have launched.
    fn launch_all<'a>(
        &self,
        mut new: Vec<New<'a>>,
        most_helpers: usize,
        (ahead, nothing): (&Ahead, &Nothing),
    ) -> Vec<Made<'a>> {
        // from the shortest on here, which tell soonest whether there is anything to make, and from the longest on there
        new.sort_by_key(|kernel| kernel.text.wgsl.len());
        let left = Mutex::new(VecDeque::from(new));
        let (sender, launched) = channel();
        let here = || {
            let sender = sender; // gone when all is done
            while let Some(kernel) = { left.lock().pop_front() } {
                if !self.launch_nothing(kernel.pipeline, kernel.slots, nothing) {
                    ahead.in_vain.store(true, Ordering::Relaxed);
                    left.lock().clear();
                }
                let _nobody_asks = sender.send(());
            }
        };
        let elsewhere = || self.help(&ahead.adapter, || left.lock().pop_back());
        thread::scope(|scope| {
            // without a thread there is no help
            let Ok(here) = thread::Builder::new().spawn_scoped(scope, here) else { return Vec::new() };
            let takes_long = loop {
                match launched.recv_timeout(FOUND) {
                    Ok(()) => {}
                    Err(error) => break error == RecvTimeoutError::Timeout,
                }
            };
            let helpers = (0..if takes_long { most_helpers } else { 0 })
                .filter_map(|_| thread::Builder::new().spawn_scoped(scope, elsewhere).ok());
            let helpers: Vec<_> = helpers.collect();
            let made = helpers.into_iter().flat_map(|helper| helper.join().unwrap_or_default()).collect();
            // a callback of the program's may have panicked
            here.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            made
        })
    }

    /// Opens another device, which launches what it is given, until there is no more.
    fn help<'a>(&self, adapter: &wgpu::Adapter, next: impl Fn() -> Option<New<'a>>) -> Vec<Made<'a>> {
        let mut made = Vec::new();
        let Ok(helper) = self.beside(adapter) else { return made };
        let Some(nothing) = helper.nothing() else { return made };
        while let Some(kernel) = next() {
            let Ok(pipeline) = helper.compile("ahead", kernel.text, kernel.slots) else { continue };
            let begun = Instant::now();
            if !helper.launch_nothing(&pipeline, kernel.slots, &nothing) {
                break;
            }
            made.push((kernel, begun.elapsed()));
        }
        made
    }

    fn nothing(&self) -> Option<Nothing> {
        use wgpu::BufferUsages as Usage;
        let size = MAX_UNIFORM_BYTES.min(self.device.limits().max_uniform_buffer_binding_size);
        let buffer = |usage| {
            self.device.create_buffer(&wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false })
        };
        self.unless_refused(|| Nothing {
            read: buffer(Usage::STORAGE | Usage::UNIFORM),
            written: buffer(Usage::STORAGE),
        })
    }

    /// Launches no workgroups of a kernel, and waits until the driver has done that; false if it is refused.
    fn launch_nothing(&self, pipeline: &Pipeline, slots: &[Slot], nothing: &Nothing) -> bool {
        let resource = |slot: &Slot| match slot {
            Slot::Read | Slot::ForeignRead | Slot::Uniform => nothing.read.as_entire_binding(),
            Slot::Write | Slot::ForeignWrite => nothing.written.as_entire_binding(),
        };
        let entries =
            (0..).zip(slots).map(|(binding, slot)| wgpu::BindGroupEntry { binding, resource: resource(slot) });
        let entries: Vec<_> = entries.collect();
        let submitted = self.unless_refused(|| {
            let group = self.device.create_bind_group(&wgpu::BindGroupDescriptor {
                label: None,
                layout: &pipeline.layout,
                entries: &entries,
            });
            let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            {
                let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
                pass.set_pipeline(&pipeline.raw);
                pass.set_bind_group(0, &group, &[]);
                pass.dispatch_workgroups(0, 0, 0);
            }
            self.queue.submit([encoder.finish()])
        });
        submitted.map(|submission| self.poller.wait(Some(submission))).is_some()
    }

    /// What it makes; errors of the device are nobody else's.
    fn unless_refused<T>(&self, make: impl FnOnce() -> T) -> Option<T> {
        use wgpu::ErrorFilter as Filter;
        let [internal, memory, validation] = [Filter::Internal, Filter::OutOfMemory, Filter::Validation]
            .map(|filter| self.device.push_error_scope(filter));
        let made = make();
        let errors = [validation, memory, internal].map(|scope| pollster::block_on(scope.pop()));
        errors.iter().all(Option::is_none).then_some(made)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;
    use crate::gpu::adapters;

    /// A kernel that no driver has in its files.
    fn unheard_of(number: usize) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").subsec_nanos();
        let steps: String = (0..80).map(|step| format!("x = sin(x) * {now}.0 + {step}.0;\n")).collect();
        format!(
            "@group(0) @binding(0) var<storage, read> a: array<f32>;
            @group(0) @binding(1) var<storage, read_write> b: array<f32>;
            @compute @workgroup_size(8) fn main(@builtin(global_invocation_id) at: vec3u) {{
                var x = a[at.x] + {number}.0;\n{steps}
                b[at.x] = x;
            }}"
        )
    }

    #[test]
    fn other_devices_make_machine_code_of_new_kernels_alone() {
        let adapters = adapters();
        let Some(llvmpipe) = adapters.iter().find(|adapter| adapter.info.name.starts_with("llvmpipe")) else { return };
        let gpu = Gpu::open(llvmpipe).expect("it opens");
        let slots = [Slot::Read, Slot::Write];
        let texts: Vec<String> = (0..23).map(unheard_of).collect();
        let made = |texts: &[String]| {
            let texts: Vec<_> = texts.iter().map(|wgsl| Text { wgsl, foreign: None }).collect();
            let compile = |text: &Text<'_>| gpu.pipeline("test", *text, &slots).expect("it compiles");
            let pipelines: Vec<_> = texts.iter().map(compile).collect();
            let new = texts.iter().zip(&pipelines).map(|(&text, pipeline)| New { text, slots: &slots, pipeline });
            gpu.make_ahead(new.collect())
        };
        let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        assert_eq!(pool(1).install(|| made(&texts[..2])), 0, "one thread");
        assert_eq!(pool(3).install(|| made(&texts[2..3])), 0, "one kernel");
        let others = pool(3).install(|| made(&texts[2..]));
        assert!((1..21).contains(&others), "others made {others} of 21");
        gpu.check().expect("no error");
        let in_vain = || gpu.ahead.as_ref().is_none_or(|ahead| ahead.in_vain.load(Ordering::Relaxed));
        if in_vain() {
            return; // Mesa was told to keep no files of shaders
        }
        pool(3).install(|| made(&texts[3..])); // which are there
        assert!(!in_vain());
        let more: Vec<String> = (23..43).map(unheard_of).collect();
        assert_ne!(pool(3).install(|| made(&more)), 0, "others help again");
    }
}
