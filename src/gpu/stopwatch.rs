//! How long launches take by themselves: by the device's clock where it is trusted, else by fences.

use std::time::Instant;

use crate::error::Result;
use crate::stage::Stage;
use crate::timing::TimeSource;

use super::context::Gpu;
use super::dispatch::Dispatch;
use super::passes::Pass;
use super::timestamps::Timer;

/// What is shorter is run so often in a sample that it takes this long.
const SAMPLE_MILLISECONDS: f64 = 2.0;
/// Most runs in a sample.
const MAX_RUNS: usize = 64;
/// Samples whose median is taken, and of what takes long.
const SAMPLES: usize = 7;
const FEW_SAMPLES: usize = 3;
const LONG_MILLISECONDS: f64 = 50.0;

/// Times the work of one device.
pub(super) struct Stopwatch<'a> {
    gpu: &'a Gpu,
    timer: Option<Timer>,
}

impl<'a> Stopwatch<'a> {
    pub(super) fn new(gpu: &'a Gpu) -> Self {
        Self { gpu, timer: if gpu.clock.is_trusted() { Timer::new(gpu, 1) } else { None } }
    }

    /// Milliseconds of one run of `dispatches`, which have run once before.
    pub(super) fn once(&mut self, dispatches: &[Dispatch]) -> Result<(f64, TimeSource)> {
        self.run(dispatches, 1)?;
        self.sample(dispatches, 1)
    }

    /// The median of some samples of what took so many milliseconds once.
    pub(super) fn median(&mut self, dispatches: &[Dispatch], once: f64) -> Result<(f64, TimeSource)> {
        let mut times = Vec::new();
        let mut source = TimeSource::Timestamp;
        for _ in 0..samples(once) {
            let (milliseconds, how) = self.sample(dispatches, runs(once))?;
            source = source.max(how);
            times.push(milliseconds);
        }
        Ok((median(times), source))
    }

    /// The medians of two that take turns, so that both meet what else goes on, and the least of each; the first took
    /// so many milliseconds once.
    pub(super) fn duel(&mut self, both: [&[Dispatch]; 2], once: f64) -> Result<([f64; 2], [f64; 2])> {
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..samples(once) {
            for (dispatches, times) in both.into_iter().zip(&mut times) {
                times.push(self.sample(dispatches, runs(once))?.0);
            }
        }
        let least = [0, 1].map(|side: usize| times[side].iter().copied().fold(f64::INFINITY, f64::min));
        Ok((times.map(median), least))
    }

    /// Runs them, waits, and tells the milliseconds. A kernel has several launches where one might take too long for
    /// the system's watchdog, so each of them is a submission of its own.
    pub(super) fn run(&self, dispatches: &[Dispatch], runs: usize) -> Result<f64> {
        let pieces = match dispatches {
            [_] => vec![(dispatches, runs)],
            _ => dispatches.chunks(1).cycle().take(runs * dispatches.len()).map(|piece| (piece, 1)).collect(),
        };
        let start = Instant::now();
        let mut submitted = None;
        for (piece, runs) in pieces {
            let mut recorder = self.gpu.recorder();
            recorder.may_raise = true; // of noise, there may be indices
            let mut pass = recorder.encoder(self.gpu).begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            record(&mut pass, piece, runs);
            drop(pass);
            submitted = Some(self.gpu.submitted(recorder.submit(self.gpu)));
        }
        if let Some(submitted) = submitted {
            self.gpu.wait_for(submitted);
        }
        self.gpu.check()?;
        Ok(start.elapsed().as_secs_f64() * 1e3)
    }

    /// Milliseconds of a run.
    fn sample(&mut self, dispatches: &[Dispatch], runs: usize) -> Result<(f64, TimeSource)> {
        self.gpu.sync()?;
        if dispatches.len() > 1 {
            return Ok((self.run(dispatches, runs)? / runs as f64, TimeSource::Fence));
        }
        let slot = self.timer.as_mut().and_then(|timer| timer.begin(0));
        let start = Instant::now();
        let mut recorder = self.gpu.recorder();
        recorder.may_raise = true;
        let encoder = recorder.encoder(self.gpu);
        let writes = self.timer.as_ref().filter(|_| slot.is_some()).and_then(|timer| timer.writes(0));
        let descriptor = wgpu::ComputePassDescriptor { label: Some("a sample"), timestamp_writes: writes };
        let mut pass = encoder.begin_compute_pass(&descriptor);
        record(&mut pass, dispatches, runs);
        drop(pass);
        if let (Some(slot), Some(timer)) = (slot, &mut self.timer) {
            let pass = Pass { stage: Stage::Forward, launches: 0..dispatches.len(), submits_before: false };
            timer.resolve(encoder, slot, &[pass]);
        }
        let submitted = self.gpu.submitted(recorder.submit(self.gpu));
        drop(recorder);
        if let (Some(slot), Some(timer)) = (slot, &self.timer) {
            timer.fetch(slot);
        }
        self.gpu.wait_for(submitted);
        let wall = start.elapsed().as_secs_f64() * 1e3;
        // another thread's poll may be about to tell it
        while let (Some(slot), Some(timer)) = (slot, &self.timer)
            && timer.is_pending(slot)
            && !self.gpu.is_lost()
        {
            self.gpu.poller.turn();
            std::thread::yield_now();
        }
        self.gpu.check()?;
        let clock = &self.gpu.clock;
        let told = self.timer.as_mut().filter(|_| slot.is_some()).map(|timer| timer.collect(clock, None));
        let told = told.and_then(|replays| replays.into_iter().flatten().next_back());
        let told = told.map(|measured| measured.iter().map(|(_, milliseconds)| milliseconds).sum::<f64>());
        let (all, source) = told.map_or((wall, TimeSource::Fence), |told| (told, TimeSource::Timestamp));
        Ok((all / runs as f64, source))
    }
}

fn record(pass: &mut wgpu::ComputePass<'_>, dispatches: &[Dispatch], runs: usize) {
    for run in 0..runs {
        dispatches.iter().for_each(|dispatch| dispatch.record(pass, run == 0));
    }
}

/// How many samples are taken of something that takes so many milliseconds.
fn samples(milliseconds: f64) -> usize {
    if milliseconds > LONG_MILLISECONDS { FEW_SAMPLES } else { SAMPLES }
}

/// How often something is run in a sample that takes so many milliseconds once.
fn runs(milliseconds: f64) -> usize {
    ((SAMPLE_MILLISECONDS / milliseconds.max(1e-6)) as usize).clamp(1, MAX_RUNS)
}

/// The middle one, 0 of none.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
