//! The training loop.

mod saving;
mod telling;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::data::{Batch, HostTimes, Loader, State};
use crate::error::Result;
use crate::stage::Stage;
use crate::timing::TimeSource;

use crate::train::callback::{Callback, Context, Requests};
use crate::train::checkpoint::{EpochSums, Progress};
use crate::train::clock::{HOST, StageClock};
use crate::train::learner::{Learner, StepResult};
use crate::train::trainer::Trainer;
use crate::train::{Control, EpochMetrics, Event, Summary, TestMetrics};

use telling::TestDetails;

/// A run under way.
pub(super) struct Run<'a> {
    trainer: Trainer,
    listen: &'a mut dyn FnMut(Event),
    clock: StageClock,
    start: Instant,
    /// Seconds of the run before it was resumed.
    seconds_before: f64,
    /// Steps done before it was resumed.
    steps_before: u64,
    /// How long the host was held up by the device.
    device_wait: Duration,
    /// Steps whose results are known.
    steps: u64,
    /// The pass under way, from 0.
    epoch: usize,
    epoch_start: Instant,
    /// Samples of this pass that were done before the run was resumed.
    samples_before: usize,
    sums: EpochSums,
    /// Where the training data stands behind the last step that was handed over.
    data: State,
    /// Learning rates of the steps whose results are not known yet.
    rates: VecDeque<f64>,
    /// That of the last step whose results are known.
    learning_rate: f64,
    saved: Instant,
    saved_steps: Option<u64>,
    test: Option<TestMetrics>,
    best: Option<TestMetrics>,
    skipped_samples: usize,
    requests: Requests,
}

/// How a run ended.
enum End {
    Completed,
    /// A callback ended it, for this reason.
    Stopped(String),
    Interrupted,
}

impl<'a> Run<'a> {
    pub(super) fn new(mut trainer: Trainer, listen: &'a mut dyn FnMut(Event)) -> Result<Self> {
        let now = Instant::now();
        let progress = trainer.progress.take();
        let mut run = Self {
            clock: StageClock::default(),
            start: now,
            seconds_before: 0.0,
            steps_before: 0,
            device_wait: Duration::ZERO,
            steps: 0,
            epoch: 0,
            epoch_start: now,
            samples_before: 0,
            sums: EpochSums::default(),
            data: trainer.data.train.beginning(),
            rates: VecDeque::new(),
            learning_rate: trainer.rates.now(),
            saved: now,
            saved_steps: None,
            test: None,
            best: None,
            skipped_samples: 0,
            requests: Requests::default(),
            listen,
            trainer,
        };
        if let Some(progress) = progress {
            run.go_on_from(progress)?;
        }
        Ok(run)
    }

    fn go_on_from(&mut self, progress: Progress) -> Result<()> {
        let Progress { steps, epoch, sums, data, test, best, seconds, mut callbacks, .. } = progress;
        (self.steps, self.steps_before, self.saved_steps) = (steps, steps, Some(steps));
        (self.epoch, self.sums, self.samples_before, self.data) = (epoch, sums, sums.samples, data);
        (self.test, self.best, self.seconds_before) = (test, best, seconds);
        for callback in &mut self.trainer.callbacks {
            if let Some(state) = callbacks.remove(callback.name()) {
                callback.load_state(state)?;
            }
        }
        Ok(())
    }

    /// Trains, saves, and says how it was.
    pub(super) fn complete(mut self, control: &Control) -> Result<Summary> {
        match self.train(control) {
            Ok(end) => self.finish(end),
            Err(error) => {
                // The first error is the one to return; a second one would only hide it.
                self.save_weights_if_possible();
                Err(error)
            }
        }
    }

    fn train(&mut self, control: &Control) -> Result<End> {
        let mut batches = self.trainer.data.train.resume(&self.data)?;
        self.started()?;
        while self.epoch < self.trainer.config.epochs {
            self.epoch_start = Instant::now();
            let number = self.epoch + 1;
            self.call(|callback, run| callback.on_epoch_begin(run, number))?;
            // a checkpoint may have been written behind the last step of a pass
            let mut is_last = self.data.epoch() > self.epoch;
            while !is_last {
                is_last = self.step(&mut batches)?;
                let stopping = control.stopping();
                let due = self.save_is_due();
                let full = !self.trainer.learner.has_room(self.trainer.config.accumulate);
                if full || is_last || stopping || due {
                    self.read_metrics()?;
                    self.trainer.learner.take_spent().into_iter().for_each(|batch| batches.recycle(batch));
                }
                if (due || self.requests.save) && !is_last {
                    self.save_if_possible();
                }
                if stopping {
                    return Ok(End::Interrupted);
                }
                // what is asked for at the last step waits for the evaluation
                if !is_last && let Some(reason) = self.requests.stop.take() {
                    return Ok(End::Stopped(reason));
                }
            }
            self.skipped_samples = batches.skipped().count;
            self.epoch_done()?;
            self.evaluate()?;
            (self.epoch, self.sums, self.samples_before) = (self.epoch + 1, EpochSums::default(), 0);
            if self.requests.save || self.trainer.config.save_every.is_due_after_epoch(self.saved.elapsed()) {
                self.save_if_possible();
            }
            if let Some(reason) = self.requests.stop.take() {
                return Ok(End::Stopped(reason));
            }
        }
        Ok(End::Completed)
    }

    /// One training step; true if it is the last one of its pass.
    fn step(&mut self, batches: &mut Loader) -> Result<bool> {
        let mut parts = Vec::with_capacity(self.trainer.config.accumulate);
        let mut is_last = false;
        while parts.len() < self.trainer.config.accumulate && !is_last {
            let batch = self.next_batch(batches)?;
            is_last = batch.last;
            parts.push(batch);
        }
        if let Some(batch) = parts.last() {
            self.data = batch.state.clone();
        }
        if let Some(factor) = self.requests.learning_rate_factor.take() {
            self.trainer.rates.set_factor(factor);
        }
        let learning_rate = self.trainer.rates.now();
        self.on_device(|learner| learner.train(parts, learning_rate))?;
        self.trainer.rates.step_done();
        self.rates.push_back(learning_rate);
        Ok(is_last)
    }

    /// Takes the next batch, and charges what it cost and how long it was waited for.
    fn next_batch(&mut self, loader: &mut Loader) -> Result<Batch> {
        let asked = Instant::now();
        let batch = loader.next().expect("a loader has batches for all epochs")?;
        let HostTimes { load, augment, batch: together } = batch.times;
        let pieces = [(Stage::Load, load), (Stage::Augment, augment), (Stage::Batch, together)];
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
        result
    }

    fn epoch_done(&mut self) -> Result<()> {
        let skipped_steps = self.trainer.learner.skipped_steps()?;
        let loss_scale = self.trainer.learner.loss_scale()?;
        let start = Instant::now();
        let metrics = EpochMetrics {
            epoch: self.epoch + 1,
            loss: self.sums.loss / self.sums.samples.max(1) as f64,
            accuracy: self.sums.correct / self.sums.targets.max(1.0),
            samples_per_second: self.samples_per_second(),
            skipped_steps,
            loss_scale,
        };
        self.write_line("epoch", metrics.loss, metrics.accuracy, None)?;
        self.call(|callback, run| callback.on_epoch_end(run, &metrics))?;
        (self.listen)(Event::Epoch(metrics));
        self.log_took(start);
        Ok(())
    }

    fn evaluate(&mut self) -> Result<()> {
        self.trainer.learner.begin_evaluation()?;
        let mut batches = self.trainer.data.test.start()?;
        let mut samples = 0;
        loop {
            let batch = self.next_batch(&mut batches)?;
            samples += batch.samples;
            self.on_device(|learner| learner.evaluate(&batch))?;
            let is_last = batch.last;
            batches.recycle(batch);
            if is_last {
                break;
            }
        }
        let evaluated = self.on_device(Learner::read_evaluation)?;
        let start = Instant::now();
        let test = TestMetrics::new(&evaluated, samples, self.trainer.learner.segments());
        let confusion = Arc::new(evaluated.confusion);
        let TestMetrics { loss, accuracy, top5, mean, .. } = test;
        let details = TestDetails {
            top5,
            mean_precision: mean.precision,
            mean_recall: mean.recall,
            mean_f1: mean.f1,
            mean_iou: mean.iou,
        };
        self.write_line("test", loss, accuracy, Some(details))?;
        self.write_confusion(&confusion)?;
        self.trainer.rates.evaluated(loss);
        self.test = Some(test);
        if self.best.is_none_or(|best| test.score() > best.score()) {
            self.best = Some(test);
            self.save_best_if_possible();
        }
        self.call(|callback, run| callback.on_test_end(run, &test, &confusion))?;
        (self.listen)(Event::Evaluated { epoch: self.epoch + 1, test, confusion });
        self.log_took(start);
        Ok(())
    }

    fn finish(mut self, end: End) -> Result<Summary> {
        self.save()?;
        let device = self.trainer.device.info().selector.clone();
        let times = self.trainer.learner.stage_times();
        self.clock.add_device(&times, self.device_wait, &device);
        let (completed, stopped) = match end {
            End::Completed => (true, None),
            End::Stopped(reason) => (true, Some(reason)),
            End::Interrupted => (false, None),
        };
        let summary = Summary {
            completed,
            stopped,
            steps: self.steps as usize,
            test: self.test,
            best: self.best,
            skipped_samples: self.skipped_samples,
            seconds: self.seconds_before + self.start.elapsed().as_secs_f64(),
            stages: self.clock.report(),
            folder: self.trainer.folder.path().to_owned(),
        };
        self.trainer.folder.write("stages.json", &serde_json::to_vec(&summary.stages).expect("plain data"))?;
        self.call(|callback, run| callback.on_train_end(run, &summary))?;
        (self.listen)(Event::Finished(summary.clone()));
        Ok(summary)
    }

    /// Calls all callbacks at one of their moments.
    fn call(&mut self, mut moment: impl FnMut(&mut dyn Callback, &mut Context<'_>) -> Result<()>) -> Result<()> {
        let Trainer { callbacks, learner, folder, data, .. } = &mut self.trainer;
        let mut context = Context {
            learner,
            test_data: &data.test,
            folder: folder.path(),
            steps: self.steps,
            epoch: self.epoch + 1,
            requests: &mut self.requests,
        };
        callbacks.iter_mut().try_for_each(|callback| moment(callback.as_mut(), &mut context))
    }

    fn log_took(&mut self, since: Instant) {
        let took = since.elapsed();
        self.clock.add(Stage::Log, took, took, HOST, TimeSource::WallClock);
    }
}

impl EpochSums {
    fn add(&mut self, result: StepResult) {
        self.loss += f64::from(result.loss) * result.samples as f64;
        self.correct += result.correct;
        self.targets += result.targets;
        self.samples += result.samples;
    }
}
