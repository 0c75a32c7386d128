//! A program with its memory: what is replayed.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::error::Result;
use crate::timing::spans::SpanLog;
use crate::timing::{KernelTime, StageTimes, TimeSource};

use super::context::{Gpu, Submitted};
use super::dispatch::{Dispatch, Memory, bind};
use super::fences::{End, Fences};
use super::pace::DISPLAY_MILLISECONDS;
use super::passes::{Cost, Measured, Pass, Rules, cut};
use super::program::Program;
use super::recorder::Recorder;
use super::timestamps::Timer;

/// Replays of one program that may wait on the device before the host does.
const MAX_REPLAYS: usize = 3;
/// Longest submission, except on software adapters, which no watchdog resets.
const BUDGET_MILLISECONDS: f64 = 100.0;
/// Queries cost some 20 µs each on software adapters, and fences a submission for each stage, of up to 70 µs on Metal:
/// once that many replays were timed, of a program that takes no longer than this many milliseconds only one in so many
/// is.
const ALWAYS_TIMED: u64 = 32;
const SHORT_MILLISECONDS: f64 = 2.0;
const SHORT_BY_FENCE_MILLISECONDS: f64 = 20.0;
const TIMED_ONE_IN: u64 = 16;
/// After this many measured replays the cuts stay as they are.
const LEARNING_REPLAYS: u32 = 4;

/// A program bound to memory.
#[derive(Debug)]
pub(crate) struct Bound {
    program: Arc<Program>,
    dispatches: Vec<Dispatch>,
    /// Before the first replay: what to bind again after it.
    unused: Option<Memory>,
    uniforms: Option<wgpu::Buffer>,
    in_flight: VecDeque<Submitted>,
    costs: Vec<Cost>,
    rules: Rules,
    /// By a test, whatever the device is.
    budget_is_given: bool,
    passes: Vec<Pass>,
    timing: Timing,
}

/// What was measured, and how it is.
#[derive(Debug)]
struct Timing {
    /// One-off work is not timed: the queries would cost more than they tell.
    wanted: bool,
    timer: Option<Timer>,
    fences: Fences,
    /// Sums over the `timed` replays.
    stages: StageTimes,
    /// Since stage times were last told: replays whose times arrived, and replays without any.
    timed: u32,
    untimed: u32,
    /// For each kernel: milliseconds, samples and source.
    kernels: Vec<Option<(f64, u32, TimeSource)>>,
    learnt: u32,
    /// Replays so far.
    replays: u64,
    /// What the last measured replay took.
    last_milliseconds: f64,
    log: Option<Arc<SpanLog>>,
}

/// How a replay is timed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum How {
    /// By the device's clock.
    Queries,
    /// By when the host learns that its stages are done.
    Fences,
    /// Not at all, but the next one is by fences.
    FencesNext,
}

impl Bound {
    /// Binds a program; `buffers` has what each of the plan's buffers lies in.
    pub(crate) fn new(program: Arc<Program>, buffers: &[&wgpu::Buffer]) -> Result<Self> {
        let gpu = &program.gpu;
        gpu.check()?;
        let words = program.plan.uniforms;
        let uniforms = (words > 0).then(|| gpu.uniform_buffer("host values", &vec![0; words]));
        let buffers = buffers.iter().map(|&buffer| buffer.clone()).collect();
        let memory = Memory { buffers, uniforms: uniforms.clone() };
        let dispatches = bind(&program, &memory);
        gpu.check()?;
        let mut bound = Self {
            dispatches,
            unused: program.plan.literal_sizes.then_some(memory),
            uniforms,
            in_flight: VecDeque::new(),
            costs: program.costs.clone(),
            rules: Rules { kernel_passes: false, pass_submissions: false, budget_milliseconds: budget(gpu) },
            budget_is_given: false,
            passes: Vec::new(),
            timing: Timing {
                wanted: program.plan.literal_sizes,
                timer: None,
                fences: Fences::default(),
                stages: StageTimes::default(),
                timed: 0,
                untimed: 0,
                kernels: vec![None; program.plan.kernels.len()],
                learnt: 0,
                replays: 0,
                last_milliseconds: 0.0,
                log: None,
            },
            program,
        };
        bound.recut();
        bound.profile_kernels(crate::debug::profile());
        Ok(bound)
    }

    /// Times every kernel by itself from now on (or not), at the price of a pass for each.
    pub(crate) fn profile_kernels(&mut self, on: bool) {
        self.timing.wanted = on || self.program.plan.literal_sizes;
        self.rules.kernel_passes = on;
        let gpu = &self.program.gpu;
        if self.timing.wanted && self.timing.timer.is_none() && gpu.clock.is_trusted() && !self.costs.is_empty() {
            self.timing.timer = Timer::new(gpu, self.costs.len());
        }
        self.recut();
    }

    /// Notes in `log` when each timed stage ran, from now on.
    pub(crate) fn note_spans(&mut self, log: &Arc<SpanLog>) {
        self.timing.log = Some(Arc::clone(log));
    }

    /// Runs the program once more, after all work recorded before. Waits only if too many replays are under way.
    pub(crate) fn run(&mut self, uniforms: &[u32]) -> Result<()> {
        assert_eq!(uniforms.len(), self.program.plan.uniforms, "one word for each host value of the plan");
        let program = Arc::clone(&self.program);
        let gpu = &program.gpu;
        gpu.check()?;
        if self.in_flight.len() >= MAX_REPLAYS
            && let Some(oldest) = self.in_flight.pop_front()
        {
            gpu.wait_for(oldest);
            gpu.check()?;
        }
        self.collect();
        self.timing.fences.number = self.timing.number();
        let timed = self.timing.next(gpu.clock.is_trusted(), self.rules.kernel_passes);
        let by_fence = timed == Some(How::Fences);
        let rules = Rules { pass_submissions: by_fence, ..self.rules };
        let rules = if self.budget_is_given { rules } else { Rules { budget_milliseconds: budget(gpu), ..rules } };
        if rules != self.rules {
            self.rules = rules;
            self.recut();
        }
        let slot = if timed == Some(How::Queries) { self.timing.begin() } else { None };

        let mut recorder = gpu.recorder();
        recorder.may_raise |= program.may_raise;
        if let Some(buffer) = &self.uniforms {
            recorder.upload(gpu, bytemuck::cast_slice(uniforms), buffer, 0)?;
        }
        let apart = by_fence || slot.is_some();
        let mut number = 0;
        // what nobody times is one pass: on an H100 each takes 6 µs more than its launches
        for together in self.passes.chunk_by(|_, next| !apart && !next.submits_before) {
            if together[0].submits_before {
                let end = if by_fence { End::Pass(&self.passes[number - 1]) } else { End::Untimed };
                if let Some(submission) = self.timing.fences.submit(gpu, &mut recorder, end) {
                    gpu.pace.submitted(gpu, &submission);
                }
            }
            self.record(&mut recorder, number, together, slot.is_some());
            number += together.len();
        }
        if let (Some(slot), Some(timer)) = (slot, &mut self.timing.timer) {
            timer.resolve(recorder.encoder(gpu), slot, &self.passes);
        }
        let end = match (timed, self.passes.last()) {
            (Some(How::Fences), Some(last)) => End::Last(last),
            (Some(How::FencesNext), _) => End::Before,
            _ => End::Untimed,
        };
        let submission = self.timing.fences.submit(gpu, &mut recorder, end);
        // before another thread submits, whose work may take longer
        let submitted = submission.map(|submission| (submission.clone(), gpu.submitted(Some(submission))));
        drop(recorder);
        if let (Some(slot), Some(timer)) = (slot, &self.timing.timer) {
            timer.fetch(slot);
        }
        if let Some((submission, submitted)) = submitted {
            gpu.pace.submitted(gpu, &submission);
            self.in_flight.push_back(submitted);
        }
        if let Some(memory) = self.unused.take() {
            // Whatever was not initialized when it was bound, wgpu looks at again in each launch. Now everything is.
            self.dispatches = bind(&self.program, &memory);
        }
        Ok(())
    }

    /// Cuts submissions as on a GPU where they may take this long.
    #[cfg(test)]
    pub(super) fn set_budget(&mut self, milliseconds: f64) {
        self.budget_is_given = true;
        self.rules.budget_milliseconds = milliseconds;
        self.recut();
    }

    /// What each stage took in the replays since the last call, estimated from those that were timed. Replays whose
    /// times have not arrived yet are left for the next call; so are all, if none were timed.
    pub(crate) fn stage_times(&mut self) -> StageTimes {
        self.program.gpu.poller.turn();
        self.collect();
        self.timing.take_stages()
    }

    /// What each kernel took, on average, in the profiled replays whose times arrived since the last call.
    pub(crate) fn kernel_times(&mut self) -> Vec<KernelTime> {
        self.program.gpu.poller.turn();
        self.collect();
        let sums = self.timing.kernels.iter_mut().map(Option::take);
        let kernels = self.program.plan.kernels.iter();
        kernels
            .zip(sums)
            .filter_map(|(kernel, sum)| {
                let (total, samples, source) = sum?;
                Some(KernelTime::new(kernel, total / f64::from(samples), samples, source))
            })
            .collect()
    }

    /// Records passes, of which the first one is number `number`, as one; several only if they are not timed.
    fn record(&self, recorder: &mut Recorder, number: usize, passes: &[Pass], timed: bool) {
        let timer = self.timing.timer.as_ref().filter(|_| timed);
        let descriptor = wgpu::ComputePassDescriptor {
            label: Some(passes[0].stage.name()),
            timestamp_writes: timer.and_then(|timer| timer.writes(number)),
        };
        let mut commands = recorder.encoder(&self.program.gpu).begin_compute_pass(&descriptor);
        let launches = passes.iter().flat_map(|pass| pass.launches.clone());
        for (position, launch) in launches.enumerate() {
            self.dispatches[launch].record(&mut commands, position == 0);
        }
    }

    fn recut(&mut self) {
        self.passes = cut(&self.costs, self.rules);
    }

    /// Takes the times that have arrived.
    fn collect(&mut self) {
        let clock = &self.program.gpu.clock;
        let log = self.timing.log.clone();
        let log = log.as_deref();
        let timed = self.timing.timer.as_mut().map(|timer| timer.collect(clock, log)).unwrap_or_default();
        for replay in timed {
            match replay {
                Some(measured) => self.learn(&measured, TimeSource::Timestamp),
                None => self.timing.untimed += 1,
            }
        }
        for measured in self.timing.fences.collect(log) {
            self.learn(&measured, TimeSource::Fence);
        }
        if self.timing.learnt > 0 && self.timing.learnt < LEARNING_REPLAYS && self.rules.budget_milliseconds.is_finite()
        {
            self.recut();
        }
    }

    fn learn(&mut self, replay: &Measured, source: TimeSource) {
        for (pass, milliseconds) in replay {
            self.learn_pass(pass, *milliseconds, source);
        }
        if self.rules.kernel_passes {
            self.learn_kernels(replay, source);
        }
        self.timing.last_milliseconds = replay.iter().map(|(_, milliseconds)| milliseconds).sum();
        self.timing.timed += 1;
        self.timing.learnt = self.timing.learnt.saturating_add(1);
    }

    /// Notes what each kernel took; one that runs in pieces may have several passes. A replay that began before kernels
    /// were timed tells nothing of them.
    fn learn_kernels(&mut self, replay: &Measured, source: TimeSource) {
        let kernel = |pass: &Pass| self.costs[pass.launches.start].kernel;
        let alone =
            |(pass, _): &(Pass, f64)| self.costs[pass.launches.clone()].iter().all(|cost| cost.kernel == kernel(pass));
        if !replay.iter().all(alone) {
            return;
        }
        for passes in replay.chunk_by(|(a, _), (b, _)| kernel(a) == kernel(b)) {
            let (total, samples, weakest) = self.timing.kernels[kernel(&passes[0].0)].get_or_insert((0.0, 0, source));
            *total += passes.iter().map(|(_, milliseconds)| milliseconds).sum::<f64>();
            (*samples, *weakest) = (*samples + 1, source.max(*weakest));
        }
    }

    fn learn_pass(&mut self, pass: &Pass, milliseconds: f64, source: TimeSource) {
        self.timing.stages.add(pass.stage, milliseconds, source);
        if self.timing.learnt < LEARNING_REPLAYS {
            let costs = &mut self.costs[pass.launches.clone()];
            let estimate: f64 = costs.iter().map(|cost| cost.milliseconds).sum();
            let factor = milliseconds.max(1e-3) / estimate;
            costs.iter_mut().for_each(|cost| cost.milliseconds *= factor);
        }
    }
}

impl Timing {
    /// How the replay that starts now is timed, if it is.
    fn next(&mut self, clock_is_trusted: bool, profile: bool) -> Option<How> {
        if !self.wanted {
            return None;
        }
        self.replays += 1;
        let queries = clock_is_trusted && self.timer.is_some();
        let short = self.last_milliseconds < if queries { SHORT_MILLISECONDS } else { SHORT_BY_FENCE_MILLISECONDS };
        let is_timed = |replay: u64| !short || profile || replay <= ALWAYS_TIMED || replay.is_multiple_of(TIMED_ONE_IN);
        match (is_timed(self.replays), queries) {
            (true, true) => Some(How::Queries),
            (true, false) => Some(How::Fences),
            (false, _) => {
                self.untimed += 1;
                (!queries && is_timed(self.replays + 1)).then_some(How::FencesNext)
            }
        }
    }

    /// A place for the timestamps of the replay that starts now, if one is free.
    fn begin(&mut self) -> Option<usize> {
        let number = self.number();
        let slot = self.timer.as_mut()?.begin(number);
        if slot.is_none() {
            self.untimed += 1;
        }
        slot
    }

    /// The number of the replay that is handed over now, for the log of spans.
    fn number(&self) -> u64 {
        self.log.as_ref().map_or(0, |log| log.number())
    }

    /// What was measured since the last call, scaled to all replays.
    fn take_stages(&mut self) -> StageTimes {
        if self.timed == 0 {
            return StageTimes::default();
        }
        let timed = std::mem::take(&mut self.timed);
        let replays = timed + std::mem::take(&mut self.untimed);
        std::mem::take(&mut self.stages).of_replays(replays, timed)
    }
}

fn budget(gpu: &Gpu) -> f64 {
    match (gpu.caps.software, gpu.pace.is_beside_display()) {
        (true, _) => f64::INFINITY,
        (false, true) => DISPLAY_MILLISECONDS,
        (false, false) => BUDGET_MILLISECONDS,
    }
}
