//! The native executor: runs plans on the CPU's SIMD units and cores.
//!
//! [`Compiled`] turns each kernel into strips, blocks and linear forms once; [`Bound`] adds memory; a run only
//! computes. Every order of summation depends on shapes and on the machine's vector length, never on the number of
//! threads.
//!
//! Reading order: `space` (how points are walked), `program` and `execute` with `planes` (tapes over strips of them),
//! `loops` with `run_loops`, `contract` with `small`, `gemm`, `windowed`, or `pack` and `micro`, and `routine` with
//! `grouped`, `scan`, `attention` and `custom` (the three kinds of kernels). Who works on a kernel's pieces is said in
//! `scratch` and `team`.
//! All unchecked code is in `memory`, `view`, `offsets`, `small`, `dots`, `gemm`, `micro`, `lanes`, `lines` and
//! `team`.

mod access;
mod ahead;
mod attention;
mod blocking;
mod border;
mod compile;
mod contract;
mod custom;
mod dots;
mod elementwise;
mod execute;
mod fold;
mod gemm;
mod grouped;
mod joined;
mod lanes;
mod lines;
mod loops;
mod math;
mod memory;
mod micro;
mod offsets;
mod operands;
mod pack;
mod phases;
mod philox;
mod planes;
mod position;
mod prepack;
mod program;
mod reads;
mod recipe;
mod registers;
mod reshape;
mod routine;
mod run_loops;
mod scan;
mod scratch;
mod segments;
mod small;
mod space;
mod taps;
mod team;
#[cfg(test)]
mod tests;
mod unroll;
mod view;
mod windowed;
mod windows;
mod winograd;
mod words;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use pulp::Arch;
use smallvec::{SmallVec, smallvec};

use crate::plan::{Body, ContractKernel, LoopKernel, Place, Plan};
use crate::pool;
use crate::stage::Stage;
use crate::timing::spans::{SpanLog, WorkSpan};
use crate::timing::{KernelTime, StageTimes, TimeSource};

use contract::{CompiledContract, ContractState};
use execute::Env;
pub(crate) use gemm::by_the_crate_alone;
use loops::{CompiledLoop, LoopState};
pub(crate) use memory::{Blocks, Memory};
use phases::phases;
use prepack::{Buffers, Packed, Source};
use reshape::{batched_contract, thin_contract, tileable_parts};
use routine::CompiledRoutine;
use scratch::{Threads, WORTH_WAKING};
use segments::segmented;
use unroll::unrolled_windows;
use view::View;

/// The vector instructions in use: their length decides the order of sums.
pub(crate) fn vector_instructions() -> &'static str {
    match Arch::new() {
        Arch::Scalar => "no vector instructions",
        #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
        Arch::V3(_) => "AVX2",
        #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
        Arch::V4(_) => "AVX-512",
        #[cfg(target_arch = "aarch64")]
        Arch::Neon(_) => "Neon",
        _ => "vector instructions",
    }
}

/// A step of fewer nanoseconds, on one core, keeps its threads awake: waking them for each kernel would weigh on it.
const SHORT_STEP: f64 = 20e6;
/// Nanoseconds of a kernel that does next to nothing.
const FIXED: f64 = 1_000.0;
/// How much longer than an even share of a wave its longest kernel may take if each kernel is to have one thread.
const UNEVEN: f64 = 1.25;

/// Runs of plans by all devices.
static RUNS: AtomicU64 = AtomicU64::new(1);

/// A plan whose kernels are ready to run.
#[derive(Clone, Debug)]
pub(crate) struct Compiled(Arc<Ready>);

#[derive(Debug)]
struct Ready {
    plan: Arc<Plan>,
    kernels: Vec<Kernel>,
    /// What is packed before the first one.
    packings: Vec<Source>,
    /// The external storages that they write.
    written: Vec<usize>,
    /// Some of them are host code.
    has_host_code: bool,
    /// Rough time of all of them on one core.
    nanoseconds: f64,
}

/// A kernel ready to run.
#[derive(Debug)]
enum Kernel {
    Loop(CompiledLoop),
    /// A kernel in several parts, one after the other.
    Parts(Vec<Kernel>),
    Contract(Box<CompiledContract>),
    Routine(CompiledRoutine),
}

/// What a kernel keeps between its pieces.
#[derive(Debug)]
enum State {
    Loop(Option<LoopState>),
    Contract(Option<ContractState>),
    Parts(Vec<State>),
    Nothing,
}

/// A plan with its memory.
#[derive(Debug)]
pub(crate) struct Bound {
    ready: Arc<Ready>,
    // many run once, so their lists need no heap while they are short
    views: SmallVec<[View; 8]>,
    states: SmallVec<[Mutex<State>; 2]>,
    packed: SmallVec<[Packed; 2]>,
    packed_views: SmallVec<[View; 2]>,
    /// Milliseconds of each kernel in the last timed run.
    times: Vec<f64>,
    /// Since they were last asked for.
    stages: StageTimes,
    profile: Option<Profile>,
    log: Option<Arc<SpanLog>>,
    /// Externals, then slots.
    memory: SmallVec<[Memory; 8]>,
}

/// Times of single kernels.
#[derive(Debug)]
struct Profile {
    /// Milliseconds of each kernel.
    sums: Vec<f64>,
    runs: u32,
}

impl Compiled {
    /// Makes all kernels of `plan` ready.
    pub(crate) fn new(plan: Arc<Plan>) -> Self {
        let buffers = Buffers::of(&plan);
        Self::with(plan, buffers)
    }

    fn with(plan: Arc<Plan>, buffers: Buffers) -> Self {
        let arch = Arch::new();
        let kernels = plan.kernels.iter().map(|kernel| Kernel::new(&kernel.body, &buffers, arch));
        let mut kernels: Vec<Kernel> = kernels.collect();
        let nanoseconds = kernels.iter().map(Kernel::nanoseconds).sum();
        let products = kernels.iter_mut().map(|kernel| kernel.products_mut().into_iter().map(|it| &mut it.prepacked));
        let packings = prepack::count(products);
        let has_host_code = kernels.iter().any(|kernel| matches!(kernel, Kernel::Routine(it) if it.is_host_code()));
        Self(Arc::new(Ready { plan, kernels, packings, written: buffers.written(), has_host_code, nanoseconds }))
    }

    /// Gives the plan its memory: `externals` by number, slots and scratch of its own from `blocks`. `None` if there is
    /// none left.
    pub(crate) fn bind(&self, blocks: &Blocks, externals: impl Iterator<Item = Memory>) -> Option<Bound> {
        let plan = &self.0.plan;
        let slots = plan.slots.iter().map(|&bytes| blocks.scratch(bytes));
        let memories = externals.map(Some).chain(slots).collect::<Option<SmallVec<[_; 8]>>>()?;
        let memory = |place: Place| match place {
            Place::External(number) => &memories[number],
            Place::Slot(number) => &memories[plan.externals + number],
        };
        let views = plan.buffers.iter().map(|b| memory(b.place).view(b.offset_bytes, b.bytes())).collect();
        for (buffer, gap) in &plan.zeroed {
            let buffer = &plan.buffers[*buffer];
            let Range { start, end } = buffer.bytes_of(gap.clone());
            memory(buffer.place).clear(start, end - start);
        }
        let states = self.0.kernels.iter().map(|kernel| kernel.state(blocks).map(Mutex::new));
        let states = states.collect::<Option<SmallVec<_>>>()?;
        let packed = self.0.packings.iter().map(|source| Packed::new(source, &memories[source.external], blocks));
        let packed = packed.collect::<Option<SmallVec<[Packed; 2]>>>()?;
        let packed_views = packed.iter().map(Packed::view).collect();
        let stages = StageTimes::default();
        let (ready, times, memory) = (self.0.clone(), Vec::new(), memories);
        let (profile, log) = (None, None);
        let mut bound = Bound { ready, views, states, packed, packed_views, times, stages, profile, log, memory };
        bound.profile_kernels(crate::debug::profile());
        Some(bound)
    }
}

impl Kernel {
    fn new(body: &Body, buffers: &Buffers, arch: Arch) -> Self {
        match body {
            Body::Loop(body) => {
                let tiled = |kernel: LoopKernel| tileable_parts(&kernel).unwrap_or_else(|| vec![kernel]);
                let is_pool = || CompiledContract::pool(body, buffers, arch).is_some();
                let segments = segmented(body).or_else(|| segmented(&unrolled_windows(body)?).filter(|_| !is_pool()));
                let segments = segments.map(|segments| segments.into_iter().flat_map(tiled).collect());
                let parts = segments.or_else(|| tileable_parts(body)).map(|parts: Vec<LoopKernel>| {
                    parts.iter().map(|part| Self::of_loop(part, buffers, arch)).collect::<Vec<_>>()
                });
                parts.map_or_else(|| Self::of_loop(body, buffers, arch), Self::Parts)
            }
            Body::Contract(body) => match phases(body) {
                Some(parts) => Self::Parts(parts.iter().map(|part| Self::of_contract(part, buffers, arch)).collect()),
                None => Self::of_contract(body, buffers, arch),
            },
            Body::Routine(body) => Self::Routine(CompiledRoutine::new(body)),
        }
    }

    fn of_contract(kernel: &ContractKernel, buffers: &Buffers, arch: Arch) -> Self {
        let dtypes = &buffers.dtypes;
        if let Some(kernel) = thin_contract(kernel, dtypes, arch) {
            return Self::Loop(CompiledLoop::new(&kernel, dtypes));
        }
        let batched = batched_contract(kernel, dtypes);
        Self::Contract(Box::new(CompiledContract::new(batched.as_ref().unwrap_or(kernel), buffers, arch)))
    }

    fn of_loop(kernel: &LoopKernel, buffers: &Buffers, arch: Arch) -> Self {
        match CompiledContract::pool(kernel, buffers, arch) {
            Some(pool) => Self::Contract(Box::new(pool)),
            None => Self::Loop(CompiledLoop::new(kernel, &buffers.dtypes)),
        }
    }

    /// The products that it is, or is made of.
    fn products(&self) -> SmallVec<[&CompiledContract; 1]> {
        match self {
            Self::Contract(kernel) => smallvec![&**kernel],
            Self::Parts(parts) => parts.iter().flat_map(Self::products).collect(),
            _ => SmallVec::new(),
        }
    }

    fn products_mut(&mut self) -> SmallVec<[&mut CompiledContract; 1]> {
        match self {
            Self::Contract(kernel) => smallvec![&mut **kernel],
            Self::Parts(parts) => parts.iter_mut().flat_map(Self::products_mut).collect(),
            _ => SmallVec::new(),
        }
    }

    /// Memory for what it keeps; `None` if there is none left.
    fn state(&self, blocks: &Blocks) -> Option<State> {
        Some(match self {
            Self::Loop(kernel) => State::Loop(kernel.state(blocks)?),
            Self::Contract(kernel) => State::Contract(kernel.state(blocks)?),
            Self::Parts(parts) => State::Parts(parts.iter().map(|part| part.state(blocks)).collect::<Option<_>>()?),
            Self::Routine(_) => State::Nothing,
        })
    }

    /// Rough time on one core.
    fn nanoseconds(&self) -> f64 {
        FIXED
            + match self {
                Self::Loop(kernel) => kernel.nanoseconds,
                Self::Parts(parts) => parts.iter().map(Self::nanoseconds).sum(),
                Self::Contract(kernel) => kernel.nanoseconds,
                Self::Routine(kernel) => kernel.nanoseconds,
            }
    }

    fn run(&self, env: &Env<'_>, state: &Mutex<State>) {
        let env = Env { threads: env.threads.worth(self.nanoseconds()), ..*env };
        self.run_with(&env, &mut state.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn run_with(&self, env: &Env<'_>, state: &mut State) {
        match (self, state) {
            (Self::Loop(kernel), State::Loop(state)) => kernel.run(env, state.as_mut()),
            (Self::Contract(kernel), State::Contract(state)) => kernel.run(env, state.as_mut()),
            (Self::Parts(parts), State::Parts(states)) => {
                parts.iter().zip(states).for_each(|(part, state)| part.run_with(env, state));
            }
            (Self::Routine(kernel), State::Nothing) => kernel.run(env),
            _ => unreachable!("each kernel has the state of its own kind"),
        }
    }
}

/// What the kernels of a run share.
fn env<'a>(
    (views, packed): (&'a [View], &'a [View]),
    uniforms: &'a [u32],
    status: &'a AtomicU32,
    threads: Threads<'a>,
) -> Env<'a> {
    Env { arch: Arch::new(), views, packed, uniforms, status, threads, run: RUNS.fetch_add(1, Ordering::Relaxed) }
}

/// True if the kernels of a wave take less time on a thread each than one after the other.
fn side_by_side(kernels: &[Kernel], threads: Threads<'_>) -> bool {
    let times = kernels.iter().map(Kernel::nanoseconds);
    match threads {
        Threads::One => false,
        Threads::Pool => times.filter(|&time| time > WORTH_WAKING).count() >= 2,
        Threads::Team(team) => {
            let (sum, longest) = (times.clone().sum::<f64>(), times.fold(0.0, f64::max));
            longest <= UNEVEN * sum / team.len() as f64
        }
    }
}

impl Ready {
    /// Runs the kernels of a wave; `done` gets the numbers of those that have just ended.
    fn run_wave(
        &self,
        wave: &Range<usize>,
        env: &Env<'_>,
        states: &[Mutex<State>],
        mut done: impl FnMut(Range<usize>),
    ) {
        let (kernels, states) = (&self.kernels[wave.clone()], &states[wave.clone()]);
        if side_by_side(kernels, env.threads) {
            env.threads.for_each_kernel(kernels.len(), |number, threads| {
                kernels[number].run(&Env { threads, ..*env }, &states[number]);
            });
            done(wave.clone());
        } else {
            for (number, (kernel, state)) in wave.clone().zip(kernels.iter().zip(states)) {
                kernel.run(env, state);
                done(number..number + 1);
            }
        }
    }
}

impl Bound {
    /// Runs all kernels in order; `uniforms` are the host values' bits. An index out of range raises `status`.
    pub(crate) fn run(&mut self, uniforms: &[u32], status: &AtomicU32) {
        self.with_threads(|bound, threads| bound.run_timed(threads, uniforms, status));
    }

    /// As [`run`](Self::run), but that nobody will ask for times: looking at the clock costs as much as a small kernel.
    pub(crate) fn run_untimed(&mut self, uniforms: &[u32], status: &AtomicU32) {
        if self.profile.is_some() {
            return self.run(uniforms, status);
        }
        self.with_threads(|bound, threads| {
            bound.pack(threads, |_| {});
            let env = env((&bound.views, &bound.packed_views), uniforms, status, threads);
            let ready = &bound.ready;
            ready.plan.waves.iter().for_each(|wave| ready.run_wave(wave, &env, &bound.states, |_| {}));
        });
    }

    fn with_threads(&mut self, work: impl FnOnce(&mut Self, Threads<'_>) + Send) {
        let nanoseconds = self.ready.nanoseconds;
        let helpers = rayon::current_num_threads().min((nanoseconds / WORTH_WAKING) as usize + 1) - 1;
        let lead = if helpers > 0 && nanoseconds < SHORT_STEP { team::lead(helpers) } else { None };
        let is_on_pool = lead.is_none() && helpers > 0 || self.ready.has_host_code;
        let work = || match &lead {
            _ if helpers == 0 => work(self, Threads::One),
            Some(lead) => work(self, Threads::Team(lead)),
            None => work(self, Threads::Pool),
        };
        // On a thread of the pool, so that kernels do not enter and leave it one by one, nor host code each for itself.
        let done = catch_unwind(AssertUnwindSafe(|| if is_on_pool { pool::run(work) } else { work() }));
        // whatever was written before a panic was written
        self.ready.written.iter().for_each(|&external| self.memory[external].changed());
        done.unwrap_or_else(|panic| resume_unwind(panic));
    }

    /// Packs the operands that have changed since they were packed last; `done` gets the kernel of each such when it ends.
    fn pack(&mut self, threads: Threads<'_>, mut done: impl FnMut(usize)) {
        let Self { ready, views, packed, packed_views, .. } = self;
        let status = AtomicU32::new(0);
        for ((source, packed), view) in ready.packings.iter().zip(packed).zip(packed_views) {
            let pack = |words| {
                let product = ready.kernels[source.kernel].products()[source.product];
                let env = env((views, &[]), &[], &status, threads);
                product.pack(&env, (source.operand, source.batches), words);
            };
            if packed.refresh(source, pack) {
                *view = packed.view();
                done(source.kernel);
            }
        }
    }

    fn run_timed(&mut self, threads: Threads<'_>, uniforms: &[u32], status: &AtomicU32) {
        let mut before = Instant::now();
        let mut packing: SmallVec<[(usize, f64); 2]> = SmallVec::new();
        self.pack(threads, |kernel| {
            let now = Instant::now();
            packing.push((kernel, (now - before).as_secs_f64() * 1e3));
            before = now;
        });
        let Self { ready, views, packed_views, states, times, .. } = self;
        times.resize(states.len(), 0.0);
        let env = env((views, packed_views), uniforms, status, threads);
        let mut stages = [0.0; Stage::ALL.len()];
        let mut spans: Vec<(Stage, Instant, Instant)> = Vec::new();
        for wave in &ready.plan.waves {
            let start = before;
            ready.run_wave(wave, &env, states, |ended| {
                let now = Instant::now();
                let milliseconds = (now - before).as_secs_f64() * 1e3;
                before = now;
                // Side by side they have no time of their own: shares by expected work.
                let kernels = &ready.kernels[ended.clone()];
                let sum: f64 = kernels.iter().map(Kernel::nanoseconds).sum();
                for (time, kernel) in times[ended].iter_mut().zip(kernels) {
                    *time = milliseconds * kernel.nanoseconds() / sum;
                }
            });
            for &(kernel, milliseconds) in packing.iter().filter(|(kernel, _)| wave.contains(kernel)) {
                times[kernel] += milliseconds;
            }
            let stage = ready.plan.kernels[wave.start].stage;
            match spans.last_mut() {
                _ if self.log.is_none() => {}
                Some((last, _, end)) if *last == stage => *end = before,
                _ => spans.push((stage, start, before)),
            }
            for number in wave.clone() {
                stages[ready.plan.kernels[number].stage as usize] += times[number];
            }
        }
        for (stage, milliseconds) in Stage::ALL.into_iter().zip(stages) {
            if ready.plan.kernels.iter().any(|kernel| kernel.stage == stage) {
                self.stages.add(stage, milliseconds, TimeSource::WallClock);
            }
        }
        if let Some(log) = &self.log {
            let number = log.number();
            spans.into_iter().for_each(|(stage, start, end)| log.push(WorkSpan { stage, start, end, number }));
        }
        if let Some(profile) = &mut self.profile {
            profile.runs += 1;
            profile.sums.iter_mut().zip(times).for_each(|(sum, milliseconds)| *sum += *milliseconds);
        }
    }

    /// What each stage took since the last call.
    pub(crate) fn stage_times(&mut self) -> StageTimes {
        std::mem::take(&mut self.stages)
    }

    /// Adds up the times of every kernel from now on (or not).
    pub(crate) fn profile_kernels(&mut self, on: bool) {
        self.profile = on.then(|| Profile { sums: vec![0.0; self.states.len()], runs: 0 });
    }

    /// Notes in `log` when each stage ran, from now on.
    pub(crate) fn note_spans(&mut self, log: &Arc<SpanLog>) {
        self.log = Some(Arc::clone(log));
    }

    /// What each kernel took, on average, in the profiled runs since the last call.
    pub(crate) fn kernel_times(&mut self) -> Vec<KernelTime> {
        let Some(Profile { sums, runs }) = self.profile.as_mut().filter(|profile| profile.runs > 0) else {
            return Vec::new();
        };
        let runs = std::mem::take(runs);
        let kernels = self.ready.plan.kernels.iter().zip(sums);
        kernels
            .map(|(kernel, sum)| {
                let milliseconds = std::mem::take(sum) / f64::from(runs);
                KernelTime::new(kernel, milliseconds, runs, TimeSource::WallClock)
            })
            .collect()
    }
}
