//! The training loop.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::data::{Batch, HostTimes, Loader, State};
use crate::error::Result;
use crate::stage::Stage;
use crate::timing::TimeSource;

use super::callback::{Callback, Context, Requests};
use super::checkpoint::{self, EpochSums, Progress};
use super::clock::{HOST, StageClock};
use super::learner::{Learner, StepResult};
use super::scores::Confusion;
use super::trainer::{Trainer, steps_per_epoch};
use super::{Config, Control, Environment, EpochMetrics, Event, Start, StepMetrics, Summary, TestMetrics};

/// The weights of the last checkpoint, and those of the best evaluation.
const WEIGHTS: &str = "model.safetensors";
const BEST: &str = "best.safetensors";
/// What was taken for what in the last evaluation.
const CONFUSION: &str = "confusion.json";

/// A line of `metrics.jsonl`.
#[derive(Serialize)]
struct Line {
    /// `train` for one step, `epoch` for the mean over one pass, `test` for the held-out samples.
    kind: &'static str,
    step: u64,
    epoch: usize,
    loss: f64,
    accuracy: f64,
    lr: f64,
    elapsed_s: f64,
    #[serde(flatten)]
    test: Option<TestDetails>,
}

/// What is said of evaluations only.
#[derive(Serialize)]
struct TestDetails {
    #[serde(skip_serializing_if = "Option::is_none")]
    top5: Option<f64>,
    mean_precision: f64,
    mean_recall: f64,
    mean_f1: f64,
    mean_iou: f64,
}

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
                }
                if (due || self.requests.save) && !is_last {
                    self.save_if_possible();
                }
                if stopping {
                    return Ok(End::Interrupted);
                }
                if let (Some(reason), false) = (self.requests.stop.take(), is_last) {
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

    /// Reads what the last steps gave, writes it down and tells it.
    fn read_metrics(&mut self) -> Result<()> {
        let (results, failure) = self.on_device(Learner::read_metrics)?;
        let start = Instant::now();
        for result in results {
            self.steps += 1;
            self.learning_rate = self.rates.pop_front().unwrap_or(self.learning_rate);
            self.sums.add(result);
            self.write_line("train", result.loss.into(), result.accuracy().into(), None)?;
            let metrics = self.step_metrics(result);
            self.call(|callback, run| callback.on_train_batch_end(run, &metrics))?;
            if self.steps.is_multiple_of(self.trainer.config.log_every as u64) {
                (self.listen)(Event::Step(metrics));
            }
        }
        self.log_took(start);
        failure.map_or(Ok(()), Err)
    }

    fn step_metrics(&self, result: StepResult) -> StepMetrics {
        let here = self.start.elapsed().as_secs_f64();
        let per_epoch = steps_per_epoch(&self.trainer.config, &self.trainer.data.train);
        let total = (self.trainer.config.epochs * per_epoch) as u64;
        StepMetrics {
            step: self.steps as usize,
            epoch: self.epoch + 1,
            loss: result.loss,
            learning_rate: self.learning_rate,
            accuracy: result.accuracy(),
            samples_per_second: self.samples_per_second(),
            elapsed_s: self.seconds_before + here,
            left_s: here / (self.steps - self.steps_before) as f64 * total.saturating_sub(self.steps) as f64,
        }
    }

    fn samples_per_second(&self) -> f64 {
        (self.sums.samples - self.samples_before) as f64 / self.epoch_start.elapsed().as_secs_f64()
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
            if batch.last {
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

    fn write_confusion(&self, confusion: &Confusion) -> Result<()> {
        let json = serde_json::to_vec(confusion).expect("plain numbers");
        self.trainer.folder.write(CONFUSION, &json).map(drop)
    }

    fn save_is_due(&self) -> bool {
        let since = self.steps_handed_over() - self.saved_steps.unwrap_or(self.steps_before);
        self.trainer.config.save_every.is_due(since, self.saved.elapsed())
    }

    fn steps_handed_over(&self) -> u64 {
        self.steps + self.rates.len() as u64
    }

    /// Saves; a failure is told and not the end of the run, as the disk may have room again when it ends.
    fn save_if_possible(&mut self) {
        if let Err(error) = self.save() {
            (self.listen)(Event::SaveFailed { message: error.to_string() });
            // not again at once
            self.saved = Instant::now();
        }
    }

    fn save_best_if_possible(&mut self) {
        if let Err(error) = self.save_weights(BEST) {
            (self.listen)(Event::SaveFailed { message: error.to_string() });
        }
    }

    fn save_weights_if_possible(&mut self) {
        match self.save_weights(WEIGHTS) {
            Ok(path) => (self.listen)(Event::Saved { path }),
            Err(error) => (self.listen)(Event::SaveFailed { message: error.to_string() }),
        }
    }

    fn save_weights(&self, name: &str) -> Result<PathBuf> {
        let weights = crate::nn::to_safetensors(self.trainer.learner.model())?;
        self.trainer.folder.write(name, &weights)
    }

    /// Writes a checkpoint and the weights, and removes old checkpoints; if that fails, those before are still there.
    fn save(&mut self) -> Result<()> {
        self.requests.save = false;
        self.saved = Instant::now();
        if self.saved_steps == Some(self.steps) && self.steps > self.steps_before {
            return Ok(());
        }
        let start = Instant::now();
        let progress = self.progress()?;
        let folder = self.trainer.folder.checkpoints();
        crate::files::create_folder(&folder)?;
        let path = folder.join(checkpoint::file_name(self.steps));
        checkpoint::save(&path, self.trainer.learner.state()?, &progress)?;
        self.saved_steps = Some(self.steps);
        let weights = self.save_weights(WEIGHTS)?;
        for (_, old) in checkpoint::list(&folder).into_iter().skip(self.trainer.config.keep) {
            // one that cannot be removed is no harm
            let _ = std::fs::remove_file(old);
        }
        self.log_took(start);
        self.call(|callback, run| callback.on_save(run, &path))?;
        (self.listen)(Event::Saved { path: weights });
        Ok(())
    }

    fn progress(&self) -> Result<Progress> {
        let device = &self.trainer.device;
        let random = crate::runtime::random_state(device)?;
        let states = self.trainer.callbacks.iter();
        let callbacks: BTreeMap<_, _> =
            states.filter_map(|callback| Some((callback.name().to_owned(), callback.state()?))).collect();
        Ok(Progress {
            steps: self.steps,
            epoch: self.epoch,
            sums: self.sums,
            data: self.data.clone(),
            scheduler: self.trainer.rates.state(),
            random: [random.seed, random.position, random.draws],
            test: self.test,
            best: self.best,
            callbacks,
            seconds: self.seconds_before + self.start.elapsed().as_secs_f64(),
            metrics_bytes: self.trainer.folder.metrics_bytes(),
            environment: Environment::new(device, self.trainer.config.precision),
        })
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

    fn started(&mut self) -> Result<()> {
        let Trainer { config, device, folder, data, learner, memory, .. } = &self.trainer;
        let memory = *memory;
        let Config { dataset, model, epochs, batch_size, .. } = config;
        let start = Start {
            name: folder.name().to_owned(),
            folder: folder.path().to_owned(),
            device: device.info().name.clone(),
            dataset: dataset.to_string(),
            model: model.to_string(),
            parameters: learner.parameter_count(),
            train_samples: data.train.samples_per_epoch(),
            test_samples: data.test.samples_per_epoch(),
            epochs: *epochs,
            steps_done: self.steps as usize,
            steps_per_epoch: steps_per_epoch(config, &data.train),
            batch_size: *batch_size,
            environment: Environment::new(device, config.precision),
        };
        self.call(|callback, run| callback.on_train_begin(run, &start))?;
        (self.listen)(Event::Started(Box::new(start)));
        (self.listen)(Event::Memory(memory));
        for message in std::mem::take(&mut self.trainer.notices) {
            (self.listen)(Event::Notice { message });
        }
        Ok(())
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

    fn write_line(&mut self, kind: &'static str, loss: f64, accuracy: f64, test: Option<TestDetails>) -> Result<()> {
        let (lr, step, epoch) = (self.learning_rate, self.steps, self.epoch + 1);
        let elapsed_s = self.seconds_before + self.start.elapsed().as_secs_f64();
        self.trainer.folder.append_metrics(&Line { kind, step, epoch, loss, accuracy, lr, elapsed_s, test })
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
