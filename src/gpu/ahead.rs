//! Machine code made before it is needed, on adapters that compute on the CPU.
//!
//! Such a driver (llvmpipe) makes a kernel's machine code at its first launch, on the one thread of its queue: a first
//! step would wait for one kernel after the other while all cores but one are idle. So the new kernels of a program are
//! launched without work, some by the device itself and some by others, which are opened on the adapter for this alone.
//! What those have made comes to the device out of the driver's cache of files.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::context::{AllocError, Gpu};
use super::features::{Feature, without};
use super::pipeline::{Pipeline, Slot, Text};

/// A launch without work that takes longer than this makes machine code. llvmpipe takes from 30 ms to two seconds for
/// that, and a millisecond to find what is in its files.
const FOUND: Duration = Duration::from_millis(8);
/// Devices that help at most: each takes a few milliseconds to open, and memory.
const MOST_HELPERS: usize = 15;
/// No uniform buffer of a kernel is longer.
const MAX_UNIFORM_BYTES: u64 = 64 << 10;

/// Where devices that help are opened.
#[derive(Debug)]
pub(super) struct Ahead {
    adapter: wgpu::Adapter,
    /// Held while machine code is made ahead.
    busy: Mutex<()>,
    /// What others made did not come through files.
    in_vain: AtomicBool,
}

/// A kernel that has not been launched.
#[derive(Debug)]
pub(super) struct New<'a> {
    pub(super) text: Text<'a>,
    pub(super) slots: &'a [Slot],
    pub(super) pipeline: &'a Arc<Pipeline>,
}

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
    /// Has the driver make the machine code of all of them, and says how many others made. Where that fails, the first
    /// launch makes it.
    pub(super) fn make_ahead(&self, mut new: Vec<New<'_>>) -> usize {
        let Some(ahead) = self.ahead.as_ref().filter(|ahead| !ahead.in_vain.load(Ordering::Relaxed)) else { return 0 };
        // modules that are not ours may need longer buffers
        new.retain(|kernel| kernel.text.foreign.is_none());
        let most_helpers = (rayon::current_num_threads() - 1).min(new.len() / 2).min(MOST_HELPERS);
        let (Ok(_alone), true) = (ahead.busy.try_lock(), most_helpers > 0) else { return 0 };
        let Ok(nothing) = self.nothing() else { return 0 };

        // from the shortest on here, which tell soonest whether there is anything to make, and from the longest on there
        new.sort_by_key(|kernel| kernel.text.wgsl.len());
        let left = Mutex::new(VecDeque::from(new));
        let left = || left.lock().unwrap_or_else(PoisonError::into_inner);
        let (sender, launched) = channel();
        let here = || {
            let sender = sender; // gone when all is done
            while let Some(kernel) = { left().pop_front() } {
                self.launch_nothing(kernel.pipeline, kernel.slots, &nothing);
                let _nobody_asks = sender.send(());
            }
        };
        let elsewhere = || self.help(&ahead.adapter, || left().pop_back());
        let (made, took) = std::thread::scope(|scope| {
            scope.spawn(here);
            let is_made = loop {
                match launched.recv_timeout(FOUND) {
                    Ok(()) => {}
                    Err(RecvTimeoutError::Timeout) => break true,
                    Err(RecvTimeoutError::Disconnected) => break false,
                }
            };
            let helpers: Vec<_> = (0..if is_made { most_helpers } else { 0 }).map(|_| scope.spawn(elsewhere)).collect();
            let all = helpers.into_iter().map(|helper| helper.join().unwrap_or_default());
            all.fold((Vec::new(), Duration::ZERO), |(mut made, took), (more, took_more)| {
                made.extend(more);
                (made, took + took_more)
            })
        });

        let begun = Instant::now();
        made.iter().for_each(|kernel| self.launch_nothing(kernel.pipeline, kernel.slots, &nothing));
        let fetched = begun.elapsed();
        if !made.is_empty() {
            tracing::debug!(
                "other devices made {} kernels' machine code in {took:?}, fetched in {fetched:?}",
                made.len()
            );
        }
        // the driver may have been told to keep no files
        ahead.in_vain.fetch_or(fetched > took / 2, Ordering::Relaxed);
        made.len()
    }

    /// Opens another device, which makes machine code for what it is given, until there is no more; with how long that
    /// took.
    fn help<'a>(&self, adapter: &wgpu::Adapter, next: impl Fn() -> Option<New<'a>>) -> (Vec<New<'a>>, Duration) {
        let (mut made, mut took) = (Vec::new(), Duration::ZERO);
        let Ok(helper) = self.beside(adapter) else { return (made, took) };
        let Ok(nothing) = helper.nothing() else { return (made, took) };
        while let Some(kernel) = next() {
            let Ok(pipeline) = helper.compile("ahead", kernel.text, kernel.slots) else { continue };
            let begun = Instant::now();
            helper.launch_nothing(&pipeline, kernel.slots, &nothing);
            took += begun.elapsed();
            made.push(kernel);
        }
        (made, took)
    }

    fn nothing(&self) -> Result<Nothing, AllocError> {
        use wgpu::BufferUsages as Usage;
        let buffer = |usage| self.alloc_for(usage, MAX_UNIFORM_BYTES, "nothing");
        Ok(Nothing { read: buffer(Usage::STORAGE | Usage::UNIFORM)?, written: buffer(Usage::STORAGE)? })
    }

    /// Launches no workgroups of a kernel, and waits until the driver has done that.
    fn launch_nothing(&self, pipeline: &Pipeline, slots: &[Slot], nothing: &Nothing) {
        let resource = |slot: &Slot| match slot {
            Slot::Read | Slot::ForeignRead | Slot::Uniform => nothing.read.as_entire_binding(),
            Slot::Write | Slot::ForeignWrite => nothing.written.as_entire_binding(),
        };
        let entries =
            (0..).zip(slots).map(|(binding, slot)| wgpu::BindGroupEntry { binding, resource: resource(slot) });
        let group = self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &pipeline.layout,
            entries: &entries.collect::<Vec<_>>(),
        });
        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            pass.set_pipeline(&pipeline.raw);
            pass.set_bind_group(0, &group, &[]);
            pass.dispatch_workgroups(0, 0, 0);
        }
        let submission = self.queue.submit([encoder.finish()]);
        self.poller.wait(Some(submission));
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
        let steps: String = (0..40).map(|step| format!("x = sin(x) * {now}.0 + {step}.0;\n")).collect();
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
        let opened = adapters.iter().map(|adapter| Gpu::open(adapter).expect("it opens"));
        let Some(gpu) = opened.into_iter().find(|gpu| gpu.ahead.is_some()) else { return };
        let slots = [Slot::Read, Slot::Write];
        let texts: Vec<String> = (0..8).map(unheard_of).collect();
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
        assert!((1..6).contains(&others), "others made {others} of six");
        gpu.check().expect("no error");
    }
}
