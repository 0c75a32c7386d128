//! The training loop.

mod energy;
mod evaluating;
mod plan;
mod predicting;
mod saving;
mod status;
mod steering;
mod telling;
mod timeline;
mod watch;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use crate::data::{Batch, HostTimes, Loader, State};
use crate::error::{Result, panic_message};
use crate::optim::Scheduler;
use crate::stage::Stage;
use crate::timing::TimeSource;

use crate::train::callback::{Callback, Context, Requests};
use crate::train::checkpoint::{EpochSums, Progress};
use crate::train::clock::{HOST, StageClock};
use crate::train::learner::{Learner, Prediction, StepResult};
use crate::train::record::{Kind, Line, PlanRecord, RunState, Sheet};
use crate::train::shown::Shown;
use crate::train::trainer::Trainer;
use crate::train::{Control, EpochMetrics, Event, Summary, TestMetrics};

use energy::Energy;
use saving::BestDue;
pub(crate) use saving::{BEST, WEIGHTS};
use status::Report;
use telling::Broken;
use timeline::{Part, Recorder};
use watch::Watch;

/// A run under way.
pub(super) struct Run<'a> {
    trainer: Trainer,
    listen: &'a mut dyn FnMut(Event),
    clock: StageClock,
    watch: Watch,
    energy: Energy,
    report: Report,
    timeline: Recorder,
    plan: PlanRecord,
    shown: Shown,
    pictures: Option<Sheet>,
    masks: Option<Sheet>,
    predictions: Vec<Prediction>,
    /// Training steps, and batches of evaluations, that were handed over by this process.
    handed_over: [u64; 2],
    /// Seconds of the run before it was resumed.
    seconds_before: f64,
    /// Steps done before it was resumed.
    steps_before: u64,
    /// How long the host was held up by the device, as far as it is not charged to a stage.
    device_wait: Duration,
    /// Steps whose results are known.
    steps: u64,
    /// The epoch under way, from 0.
    epoch: usize,
    /// When it began, on the watch.
    epoch_start: Duration,
    /// When the results of the last steps were read, or what else was done had ended, on the watch.
    steps_known: Duration,
    /// Samples of this epoch that were done before the run was resumed.
    samples_before: usize,
    sums: EpochSums,
    /// The epoch under way was told of; its evaluation is what is left of it.
    epoch_told: bool,
    /// An evaluation is under way.
    evaluating: bool,
    /// Where the training data stands behind the last step that was handed over.
    data: State,
    /// The first batch after it, if it was looked at.
    held: Option<Batch>,
    /// Steps whose results are not known yet.
    under_way: VecDeque<UnderWay>,
    /// One of them was not finite: nothing has changed since.
    halted: bool,
    /// That of the last step whose results are known.
    learning_rate: f64,
    /// When a step was told the last time.
    step_told: Instant,
    saved: Instant,
    saved_steps: Option<u64>,
    /// The checkpoint of `saved_steps` was written, and the weights beside it were not.
    weights_due: bool,
    /// Steps when it was tried to save the last time.
    tried_steps: u64,
    /// Something but a step has changed since.
    unsaved: bool,
    test: Option<TestMetrics>,
    /// The step behind which that was measured, if it was within an epoch.
    test_mid_epoch: Option<u64>,
    best: Option<TestMetrics>,
    best_due: Option<BestDue>,
    broken: Broken,
    requests: Requests,
}

/// A step that was handed to the device.
struct UnderWay {
    learning_rate: f64,
    /// Where the training data and the schedule stood before it.
    data: State,
    schedule: (Scheduler, f64),
}

/// How a run ended.
enum End {
    Completed,
    /// A callback ended it, for this reason.
    Stopped(String),
    Interrupted,
}

impl<'a> Run<'a> {
    pub(super) fn new(trainer: Trainer, listen: &'a mut dyn FnMut(Event)) -> Self {
        Self {
            clock: StageClock::default(),
            watch: Watch::start(),
            energy: Energy::of(&trainer.devices),
            report: Report::default(),
            timeline: Recorder::new(trainer.device().info().selector.clone()),
            plan: PlanRecord::default(),
            shown: Shown::default(),
            pictures: None,
            masks: None,
            predictions: Vec::new(),
            handed_over: [0; 2],
            seconds_before: 0.0,
            steps_before: 0,
            device_wait: Duration::ZERO,
            steps: 0,
            epoch: 0,
            epoch_start: Duration::ZERO,
            steps_known: Duration::ZERO,
            samples_before: 0,
            sums: EpochSums::default(),
            epoch_told: false,
            evaluating: false,
            data: trainer.data.train.beginning(),
            held: None,
            under_way: VecDeque::new(),
            halted: false,
            learning_rate: trainer.rates.now(),
            step_told: Instant::now(),
            saved: Instant::now(),
            saved_steps: None,
            weights_due: false,
            tried_steps: 0,
            unsaved: false,
            test: None,
            test_mid_epoch: None,
            best: None,
            best_due: None,
            broken: Broken::default(),
            requests: Requests::default(),
            listen,
            trainer,
        }
    }

    fn go_on_from(&mut self, progress: Progress) -> Result<()> {
        let Progress { steps, epoch, mut sums, data, test, test_mid_epoch, best, seconds, joules, .. } = progress;
        if sums.counted.is_nan() {
            sums.counted = sums.targets;
        }
        self.learning_rate = progress.learning_rate.unwrap_or(self.learning_rate);
        let mut callbacks = progress.callbacks;
        self.energy.go_on_from(joules);
        (self.steps, self.steps_before, self.saved_steps, self.tried_steps) = (steps, steps, Some(steps), steps);
        (self.epoch, self.sums, self.samples_before, self.data) = (epoch, sums, sums.samples, data);
        self.epoch_told = progress.epoch_told;
        (self.test, self.test_mid_epoch, self.best, self.seconds_before) = (test, test_mid_epoch, best, seconds);
        for callback in &mut self.trainer.callbacks {
            if let Some(state) = callbacks.remove(callback.name()) {
                callback.load_state(state)?;
            }
        }
        Ok(())
    }

    /// Trains, saves, and says how it was.
    pub(super) fn complete(mut self, control: &Control) -> Result<Summary> {
        let trained = catch_unwind(AssertUnwindSafe(|| self.train(control)));
        if matches!(trained, Ok(Err(_))) {
            // The first error is the one to return; a second one would only hide it.
            self.save_what_was_learned();
        }
        let ended = trained.and_then(|end| catch_unwind(AssertUnwindSafe(|| end.and_then(|end| self.finish(end)))));
        match ended {
            Ok(Ok(summary)) => Ok(summary),
            Ok(Err(error)) => {
                self.report_as(RunState::Failed, Some(error.to_string()));
                Err(error)
            }
            Err(panic) => {
                let said = panic_message(panic.as_ref()).unwrap_or("without a message");
                self.report_as(RunState::Failed, Some(format!("a panic: {said}")));
                resume_unwind(panic)
            }
        }
    }

    fn train(&mut self, control: &Control) -> Result<End> {
        if let Some(progress) = self.trainer.progress.take() {
            self.go_on_from(progress)?;
        }
        let mut batches = self.trainer.data.train.resume(&self.data)?;
        if self.data.epoch() == self.epoch && self.data.samples() > 0 {
            self.look_ahead(&mut batches)?;
        }
        self.started()?;
        while self.epoch < self.trainer.config.epochs {
            self.epoch_start = self.watch.elapsed();
            self.steps_known = self.epoch_start;
            self.energy.begin_pass();
            let number = self.epoch + 1;
            self.call(|callback, run| callback.on_epoch_begin(run, number))?;
            // a checkpoint may have been written behind the last step of an epoch
            let mut is_last = self.data.epoch() > self.epoch;
            while !is_last {
                is_last = self.step(&mut batches)?;
                let due = self.save_is_due();
                let stopping = control.stopping();
                let is_asked = self.requests.save || self.requests.stop.is_some();
                let mut known = is_last || due || control.is_heard() || is_asked;
                if known || self.trainer.learner.metrics_are_due() {
                    self.read_metrics(known)?;
                    if !known && (control.is_heard() || self.requests.save || self.requests.stop.is_some()) {
                        // by who was just told of steps, and wants something at a moment whose steps are all known
                        self.read_metrics(true)?;
                        known = true;
                    }
                    self.trainer.learner.take_spent().into_iter().for_each(|batch| batches.recycle(batch));
                }
                if is_last && !stopping {
                    // what is asked for at the last step waits for the evaluation
                    break;
                }
                if due && !is_last {
                    self.save_if_possible();
                }
                if known && control.is_heard() && self.obey(control)? {
                    return Ok(End::Interrupted);
                }
                if self.requests.save {
                    self.save_if_possible();
                }
                if let Some(reason) = self.requests.stop.take() {
                    return Ok(End::Stopped(reason));
                }
                self.report();
            }
            self.tell_broken(Part::Train, batches.skipped());
            if !self.epoch_told {
                self.epoch_done()?;
            }
            // it comes now
            control.take_evaluate();
            if !self.evaluate(false, control)? {
                return Ok(self.requests.stop.take().map_or(End::Interrupted, End::Stopped));
            }
            (self.epoch, self.sums, self.samples_before) = (self.epoch + 1, EpochSums::default(), 0);
            self.epoch_told = false;
            // one that was due at the last step has waited for the evaluation
            let due = self.save_is_due() || self.trainer.config.save_every.is_due_after_epoch(self.saved.elapsed());
            if due || self.requests.save {
                self.save_if_possible();
            }
            if let Some(reason) = self.requests.stop.take() {
                return Ok(End::Stopped(reason));
            }
            if self.epoch < self.trainer.config.epochs && self.obey(control)? {
                return Ok(End::Interrupted);
            }
        }
        Ok(End::Completed)
    }

    /// Of an epoch that was resumed, what is left may be unreadable by now: then it is over.
    fn look_ahead(&mut self, batches: &mut Loader) -> Result<()> {
        self.held = batches.next().transpose()?;
        let pass = self.held.as_ref().map(|batch| batch.state.epoch() - usize::from(batch.last));
        if pass != Some(self.epoch) {
            self.data = self.trainer.data.train.beginning_of(self.epoch + 1);
        }
        Ok(())
    }

    /// One training step; true if it is the last one of its epoch.
    fn step(&mut self, batches: &mut Loader) -> Result<bool> {
        let step = self.steps_handed_over() as usize + 1;
        self.call(|callback, run| callback.on_train_batch_begin(run, step))?;
        self.handed_over[0] += 1;
        let number = self.handed_over[0];
        self.time_kernels(number);
        let mut parts = Vec::with_capacity(self.trainer.config.accumulate);
        let mut is_last = false;
        while parts.len() < self.trainer.config.accumulate && !is_last {
            let batch = self.next_batch(batches, Part::Train)?;
            is_last = batch.last;
            parts.push(batch);
        }
        let learning_rate = self.trainer.rates.now();
        let schedule = self.trainer.rates.state();
        let behind = parts.last().map_or_else(|| self.data.clone(), |batch| batch.state.clone());
        let data = std::mem::replace(&mut self.data, behind);
        self.begin(Part::Train);
        self.on_device(|learner| learner.train(parts, learning_rate))?;
        self.trainer.rates.step_done();
        self.under_way.push_back(UnderWay { learning_rate, data, schedule });
        Ok(is_last)
    }

    /// A training step, or a batch of an evaluation, is handed to the device.
    fn begin(&mut self, part: Part) {
        self.timeline.begin();
        self.trainer.learner.log().begin(self.handed_over[part as usize]);
    }

    /// Takes the next batch, and charges what it cost and how long it was waited for.
    fn next_batch(&mut self, loader: &mut Loader, part: Part) -> Result<Batch> {
        let asked = Instant::now();
        let batch = match self.held.take_if(|_| part == Part::Train) {
            Some(batch) => batch,
            None => loader.next().expect("a loader has batches for all epochs")?,
        };
        let HostTimes { load, augment, batch: together, work } = &batch.times;
        self.timeline.add_loading(work, part, self.handed_over[part as usize]);
        let pieces = [(Stage::Load, *load), (Stage::Augment, *augment), (Stage::Batch, *together)];
        // A stage that did nothing (augmentation switched off) is not run at all.
        let pieces: Vec<_> = pieces.into_iter().filter(|(_, busy)| !busy.is_zero()).collect();
        self.clock.add_waited(&pieces, asked.elapsed(), HOST, TimeSource::WallClock);
        Ok(batch)
    }

    /// Gives the device work or waits for it; the time is charged to its stages at the end.
    fn on_device<T>(&mut self, work: impl FnOnce(&mut Learner) -> Result<T>) -> Result<T> {
        let start = Instant::now();
        let result = work(&mut self.trainer.learner);
        self.device_wait += start.elapsed();
        self.energy.look();
        result
    }

    fn epoch_done(&mut self) -> Result<()> {
        let skipped_steps = self.trainer.learner.skipped_steps()?;
        let loss_scale = self.trainer.learner.loss_scale()?;
        let start = Instant::now();
        let metrics = EpochMetrics {
            epoch: self.epoch + 1,
            // not a number if all steps were skipped
            loss: self.sums.loss / self.sums.counted,
            score: self.trainer.learner.score(self.sums.correct / self.sums.targets),
            samples_per_second: self.samples_per_second(self.watch.elapsed()),
            skipped_steps,
            loss_scale,
            joules: if self.samples_before == 0 { self.energy.of_pass() } else { None },
        };
        let line = self.line(Kind::Epoch, metrics.loss, metrics.score);
        let line = Line {
            skipped_steps: Some(skipped_steps),
            loss_scale: loss_scale.map(f64::from),
            joules: metrics.joules,
            ..line
        };
        self.write_down(&line)?;
        self.call(|callback, run| callback.on_epoch_end(run, &metrics))?;
        self.tell(Event::Epoch(metrics));
        (self.epoch_told, self.unsaved) = (true, true);
        self.log_took(start);
        Ok(())
    }

    fn finish(&mut self, end: End) -> Result<Summary> {
        self.save()?;
        self.take_device_times();
        let (completed, stopped) = match end {
            End::Completed => (true, None),
            End::Stopped(reason) => (true, Some(reason)),
            End::Interrupted => (false, None),
        };
        let summary = Summary {
            completed,
            stopped,
            steps: self.steps as usize,
            steps_before: self.steps_before as usize,
            test: self.test,
            test_mid_epoch: self.test_mid_epoch.map(|step| step as usize),
            best: self.best,
            skipped_samples: self.broken.most[Part::Train as usize],
            skipped_tests: self.broken.most[Part::Test as usize],
            skipped_steps: self.trainer.learner.skipped_steps()?,
            seconds: self.seconds(),
            seconds_before: self.seconds_before,
            joules: self.energy.so_far(),
            energy: self.energy.source(),
            stages: self.clock.report(),
            folder: self.trainer.folder.path().to_owned(),
        };
        self.trainer.folder.write("stages.json", &serde_json::to_vec(&summary.stages).expect("plain data"))?;
        self.call(|callback, run| callback.on_train_end(run, &summary))?;
        let state = if summary.completed { RunState::Completed } else { RunState::Stopped };
        self.report_as(state, summary.stopped.clone());
        self.tell(Event::Finished(Box::new(summary.clone())));
        Ok(summary)
    }

    /// Calls all callbacks at one of their moments.
    fn call(&mut self, moment: impl FnMut(&mut dyn Callback, &mut Context<'_>) -> Result<()>) -> Result<()> {
        self.call_in(false, moment)
    }

    /// The same, perhaps in an evaluation within an epoch.
    fn call_in(
        &mut self,
        mid_epoch: bool,
        mut moment: impl FnMut(&mut dyn Callback, &mut Context<'_>) -> Result<()>,
    ) -> Result<()> {
        let Trainer { callbacks, learner, folder, data, .. } = &mut self.trainer;
        let mut context = Context {
            learner,
            test_data: data.judged_by(),
            folder: folder.path(),
            steps: self.steps,
            epoch: self.epoch + 1,
            mid_epoch,
            predictions: &self.predictions,
            requests: &mut self.requests,
        };
        callbacks.iter_mut().try_for_each(|callback| moment(callback.as_mut(), &mut context))?;
        if let Some(factor) = self.requests.learning_rate_factor.take() {
            self.set_learning_rate_factor(factor);
        }
        for message in std::mem::take(&mut self.requests.notices) {
            self.tell(Event::Notice { message });
        }
        Ok(())
    }

    /// Charges the stages of the device with what it has done, as far as that is known by now; waits for nothing.
    fn take_device_times(&mut self) {
        let times = self.trainer.learner.stage_times();
        if times.iter().next().is_some() {
            let waited = std::mem::take(&mut self.device_wait);
            self.clock.add_device(&times, waited, &self.trainer.devices[0].info().selector);
            // all of them are waited for as one
            for (selector, times) in self.trainer.learner.stage_times_of_others() {
                self.clock.add_device(&times, Duration::ZERO, selector);
            }
        }
    }

    fn log_took(&mut self, since: Instant) {
        let took = since.elapsed();
        self.clock.add(Stage::Log, took, took, HOST, TimeSource::WallClock);
        self.timeline.add_log(since, self.handed_over[0]);
    }
}

impl EpochSums {
    fn add(&mut self, result: StepResult) {
        if !result.loss.is_finite() {
            // a step that was skipped
            return;
        }
        self.loss += f64::from(result.loss) * result.counted;
        self.correct += result.correct;
        self.targets += result.targets;
        self.counted += result.counted;
        self.samples += result.samples;
    }
}
