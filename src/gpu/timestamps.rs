//! The device's own clock.
//!
//! Queries are written at the boundaries of passes, resolved at the end of a replay and read some replays later, so
//! that nobody waits for them. They are believed only after a check: some drivers return zeros, or a clock that stands.
//!
//! Where on the host's clock a replay lies is concluded from when the host heard of its end: that is never before the
//! end, and the quickest news of the last replays is taken for immediate. So lengths, distances and order are the
//! device's own, and all of them may be shown too late by what the quickest news took.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::timing::spans::{SpanLog, WorkSpan};

use super::context::Gpu;
use super::counters::Made;
use super::passes::{Measured, Pass};

/// Passes of one replay that can be timed: WebGPU allows 4,096 queries in a set.
const MAX_PASSES: u32 = 2048;
/// Replays whose times may be on their way; one more than may be in flight.
const SLOTS: usize = 4;
/// Replays whose news say how the two clocks stand: few enough that the clocks do not drift apart meanwhile.
const NEWS: usize = 64;
/// Milliseconds that a clock goes back by when it begins anew: those of 36 bits go for an hour.
const ANEW: f64 = 600e3;
/// Metal has 32 buffers of counters at a time, each set of queries takes one, and wgpu gives the device up when one
/// more is asked for.
const MAX_METAL_SETS: usize = 24;
/// After this many implausible replays in a row the clock is not used any more.
const MAX_IMPLAUSIBLE: u32 = 3;

/// The clock of a device, as far as it is trusted.
#[derive(Debug)]
pub(super) struct Clock {
    milliseconds_per_tick: f64,
    trusted: AtomicBool,
    implausible: AtomicU32,
    /// What `offsets` are counted from on the host.
    zero: Instant,
    /// Of the last replays: milliseconds of the host's clock when it heard of the end, less those of the device's at
    /// the end.
    offsets: Mutex<VecDeque<f64>>,
    /// The end of the last replay.
    last: AtomicU64,
    /// Sets of queries that there may be at once.
    max_sets: usize,
    /// Held by each of them.
    sets: Arc<()>,
}

impl Clock {
    pub(super) fn new(device: &wgpu::Device, queue: &wgpu::Queue, backend: wgpu::Backend) -> Self {
        let there = device.features().contains(wgpu::Features::TIMESTAMP_QUERY);
        let period = if there { f64::from(queue.get_timestamp_period()) } else { 0.0 };
        Self {
            milliseconds_per_tick: period * 1e-6,
            trusted: AtomicBool::new(period > 0.0),
            implausible: AtomicU32::new(0),
            zero: Instant::now(),
            offsets: Mutex::default(),
            last: AtomicU64::new(0),
            max_sets: if backend == wgpu::Backend::Metal { MAX_METAL_SETS } else { usize::MAX },
            sets: Arc::default(),
        }
    }

    /// Whether it is there and has not been caught telling nonsense.
    pub(super) fn is_trusted(&self) -> bool {
        self.trusted.load(Ordering::Relaxed)
    }

    /// Milliseconds of each pass from (begin, end) ticks; `None` if they cannot be true of work that took at most
    /// `wall_milliseconds`.
    pub(super) fn interpret(&self, ticks: &[[u64; 2]], wall_milliseconds: f64) -> Option<Vec<f64>> {
        let result = durations(ticks, self.milliseconds_per_tick, wall_milliseconds);
        if result.is_some() {
            self.implausible.store(0, Ordering::Relaxed);
        } else if self.implausible.fetch_add(1, Ordering::Relaxed) + 1 == MAX_IMPLAUSIBLE {
            self.trusted.store(false, Ordering::Relaxed);
            tracing::warn!("the GPU's timestamps make no sense; stages are timed by fences from now on");
        }
        result
    }

    /// Where these ticks are on the host's clock, which heard of the last of them at `heard`.
    fn place(&self, ticks: &[[u64; 2]], heard: Instant) -> Vec<[Instant; 2]> {
        let device = |tick: u64| tick as f64 * self.milliseconds_per_tick;
        let Some(&[_, last]) = ticks.last() else { return Vec::new() };
        let mut offsets = self.offsets.lock().unwrap_or_else(PoisonError::into_inner);
        // a clock of few bits has begun anew; replays of several programs may be told out of order
        if device(self.last.swap(last, Ordering::Relaxed)) > device(last) + ANEW {
            offsets.clear();
        } else if offsets.len() == NEWS {
            offsets.pop_front();
        }
        offsets.push_back(heard.saturating_duration_since(self.zero).as_secs_f64() * 1e3 - device(last));
        let offset = offsets.iter().copied().fold(f64::INFINITY, f64::min);
        let host = |tick| self.zero + Duration::from_secs_f64(((device(tick) + offset) / 1e3).max(0.0));
        ticks.iter().map(|&both| both.map(host)).collect()
    }

    /// Leave to make a set of queries, if there are not too many.
    fn set(&self) -> Option<Arc<()>> {
        let set = Arc::clone(&self.sets);
        // this one, the clock's own, and those of the sets
        (Arc::strong_count(&set) <= self.max_sets.saturating_add(1)).then_some(set)
    }

    #[cfg(test)]
    pub(super) fn distrust(&self) {
        self.trusted.store(false, Ordering::Relaxed);
    }
}

fn durations(ticks: &[[u64; 2]], milliseconds_per_tick: f64, wall_milliseconds: f64) -> Option<Vec<f64>> {
    let mut last_end = 0;
    let mut result = Vec::with_capacity(ticks.len());
    for &[begin, end] in ticks {
        // all bits set: Metal's counter could not be read
        if begin == 0 || end == u64::MAX || end < begin || end < last_end {
            return None;
        }
        last_end = end;
        result.push((end - begin) as f64 * milliseconds_per_tick);
    }
    let total: f64 = result.iter().sum();
    let stands = total == 0.0 && !ticks.is_empty(); // every pass launches something, which takes time
    (!stands && total <= wall_milliseconds * 1.05 + 0.1).then_some(result)
}

/// Queries and readback buffers of one bound program.
#[derive(Debug)]
pub(super) struct Timer {
    set: wgpu::QuerySet,
    _one_of_few: Arc<()>,
    passes: u32,
    resolved: wgpu::Buffer,
    slots: Vec<Slot>,
}

#[derive(Debug)]
struct Slot {
    buffer: wgpu::Buffer,
    state: Arc<Mutex<State>>,
    started: Instant,
    /// The number of its replay, for the log of spans.
    number: u64,
    passes: Vec<Pass>,
}

/// Where a slot's times are.
#[derive(Clone, Copy, Debug)]
enum State {
    /// Nowhere: it is free.
    Idle,
    /// On their way.
    Pending,
    /// Here, since that moment.
    Mapped(Instant),
}

impl Timer {
    /// For programs of up to `passes` passes; of longer ones the first 2,048 passes are timed. None where the device
    /// has no room for one more.
    pub(super) fn new(gpu: &Gpu, passes: usize) -> Option<Self> {
        let one_of_few = gpu.clock.set()?;
        let passes = (passes as u32).clamp(1, MAX_PASSES);
        let bytes = u64::from(passes) * 16;
        let usage = wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC;
        let slots = (0..SLOTS).map(|_| Slot {
            buffer: gpu.buffer("timestamps", bytes, wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST),
            state: Arc::new(Mutex::new(State::Idle)),
            started: Instant::now(),
            number: 0,
            passes: Vec::new(),
        });
        gpu.count(Made::Buffer);
        // without room for them nothing is timed by the clock, and everything else goes on
        let scope = gpu.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let timer = Self {
            _one_of_few: one_of_few,
            set: gpu.device.create_query_set(&wgpu::QuerySetDescriptor {
                label: Some("timestamps"),
                ty: wgpu::QueryType::Timestamp,
                count: passes * 2,
            }),
            passes,
            slots: slots.collect(),
            resolved: gpu.buffer("timestamps", bytes, usage),
        };
        pollster::block_on(scope.pop()).is_none().then_some(timer)
    }

    /// A place for the times of replay `number`, which starts now, if one is free.
    pub(super) fn begin(&mut self, number: u64) -> Option<usize> {
        let free = self.slots.iter().position(|slot| matches!(get(&slot.state), State::Idle))?;
        (self.slots[free].started, self.slots[free].number) = (Instant::now(), number);
        Some(free)
    }

    /// Whether the times of this place are still on their way.
    pub(super) fn is_pending(&self, slot: usize) -> bool {
        matches!(get(&self.slots[slot].state), State::Pending)
    }

    /// What pass number `pass` has to write.
    pub(super) fn writes(&self, pass: usize) -> Option<wgpu::ComputePassTimestampWrites<'_>> {
        let pass = u32::try_from(pass).ok().filter(|&pass| pass < self.passes)?;
        Some(wgpu::ComputePassTimestampWrites {
            query_set: &self.set,
            beginning_of_pass_write_index: Some(pass * 2),
            end_of_pass_write_index: Some(pass * 2 + 1),
        })
    }

    /// Records that the times of these passes go to the place that `begin` gave.
    pub(super) fn resolve(&mut self, encoder: &mut wgpu::CommandEncoder, slot: usize, passes: &[Pass]) {
        let timed = passes.len().min(self.passes as usize);
        self.slots[slot].passes.clear();
        self.slots[slot].passes.extend_from_slice(&passes[..timed]);
        encoder.resolve_query_set(&self.set, 0..timed as u32 * 2, &self.resolved, 0);
        encoder.copy_buffer_to_buffer(&self.resolved, 0, &self.slots[slot].buffer, 0, timed as u64 * 16);
    }

    /// Asks for the times, once their replay is submitted.
    pub(super) fn fetch(&self, slot: usize) {
        let slot = &self.slots[slot];
        let state = Arc::clone(&slot.state);
        set(&state, State::Pending);
        let bytes = slot.passes.len() as u64 * 16;
        slot.buffer.map_async(wgpu::MapMode::Read, 0..bytes, move |result| {
            // What cannot be read is forgotten.
            set(&state, if result.is_ok() { State::Mapped(Instant::now()) } else { State::Idle });
        });
    }

    /// The replays whose times have arrived, oldest first; `None` for those whose times are implausible.
    pub(super) fn collect(&mut self, clock: &Clock, log: Option<&SpanLog>) -> Vec<Option<Measured>> {
        let arrived = self.slots.iter_mut().filter_map(|slot| match get(&slot.state) {
            State::Mapped(when) => Some((slot, when)),
            State::Idle | State::Pending => None,
        });
        let mut arrived: Vec<_> = arrived.collect();
        arrived.sort_by_key(|(slot, _)| slot.started);
        arrived.into_iter().map(|(slot, when)| slot.take(clock, when, log)).collect()
    }
}

impl Slot {
    fn take(&mut self, clock: &Clock, arrived: Instant, log: Option<&SpanLog>) -> Option<Measured> {
        let view = self.buffer.get_mapped_range(0..self.passes.len() as u64 * 16).ok();
        let ticks = view.map(|view| bytemuck::pod_collect_to_vec::<_, [u64; 2]>(&view));
        self.buffer.unmap();
        set(&self.state, State::Idle);
        // From before it was recorded until the news came: the work took no longer.
        let wall = arrived.saturating_duration_since(self.started).as_secs_f64() * 1e3;
        let ticks = ticks?;
        let milliseconds = clock.interpret(&ticks, wall)?;
        if let Some(log) = log {
            let mut spans: Vec<WorkSpan> = Vec::new();
            for (pass, [start, end]) in self.passes.iter().zip(clock.place(&ticks, arrived)) {
                match spans.last_mut() {
                    Some(last) if last.stage == pass.stage => last.end = end,
                    _ => spans.push(WorkSpan { stage: pass.stage, start, end, number: self.number }),
                }
            }
            spans.into_iter().for_each(|span| log.push(span));
        }
        Some(self.passes.drain(..).zip(milliseconds).collect())
    }
}

fn get(state: &Mutex<State>) -> State {
    *state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn set(state: &Mutex<State>, new: State) {
    *state.lock().unwrap_or_else(PoisonError::into_inner) = new;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(max_sets: usize) -> Clock {
        Clock {
            milliseconds_per_tick: 1.0,
            trusted: AtomicBool::new(true),
            implausible: AtomicU32::new(0),
            zero: Instant::now(),
            offsets: Mutex::default(),
            last: AtomicU64::new(0),
            max_sets,
            sets: Arc::default(),
        }
    }

    #[test]
    fn sets_of_queries_are_counted() {
        let clock = clock(2);
        let (first, second) = (clock.set(), clock.set());
        assert!(first.is_some() && second.is_some());
        assert!(clock.set().is_none());
        drop(first);
        assert!(clock.set().is_some());
    }

    #[test]
    fn replays_lie_where_the_quickest_news_put_them() {
        let clock = clock(1);
        let at = |ms: u64| clock.zero + Duration::from_millis(ms);
        let close = |placed: Instant, ms: u64| {
            let apart = placed.max(at(ms)) - placed.min(at(ms));
            assert!(apart < Duration::from_micros(1), "{apart:?}");
        };
        // the device is 1000 ms ahead; the first news take 5 ms, the second 2 ms, the third 9 ms
        close(clock.place(&[[1010, 1020]], at(25))[0][1], 25);
        close(clock.place(&[[1030, 1040], [1040, 1050]], at(52))[1][0], 42);
        close(clock.place(&[[1060, 1070]], at(79))[0][0], 62);
        // a replay that ended before the last one is told of behind it
        close(clock.place(&[[1050, 1060]], at(80))[0][1], 62);
        // an hour later the device's clock begins anew
        close(clock.place(&[[4_000_000, 4_000_010]], at(3_999_012))[0][1], 3_999_012);
        close(clock.place(&[[3, 13]], at(4_000_099))[0][1], 4_000_099);
        close(clock.place(&[[23, 33]], at(4_000_115))[0][0], 4_000_105);
    }

    #[test]
    fn ticks_that_cannot_be_true_are_refused() {
        let interpret = |ticks: &[[u64; 2]]| durations(ticks, 1e-3, 10.0);
        assert_eq!(interpret(&[[1000, 3000], [3000, 4000]]), Some(vec![2.0, 1.0]));
        assert_eq!(interpret(&[[0, 0], [0, 0]]), None, "zeros");
        assert_eq!(interpret(&[[7, 7], [7, 7]]), None, "a clock that stands");
        assert_eq!(interpret(&[[7, 7]]), None, "a clock that stands during the only pass");
        assert_eq!(interpret(&[[7, 7], [7, 8]]), Some(vec![0.0, 1e-3]), "a pass shorter than a tick");
        assert_eq!(interpret(&[[3000, 1000]]), None, "backwards");
        assert_eq!(interpret(&[[3000, 4000], [1000, 2000]]), None, "out of order");
        assert_eq!(interpret(&[[1000, 90_000]]), None, "longer than the wall clock says");
    }
}
