//! The training loop.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::data::{self, Augment, Batch, Dataset, HostTimes, Loader, LoaderOptions, Order, Split};
use crate::device::Device;
use crate::error::Result;
use crate::stage::Stage;
use crate::timing::TimeSource;

use super::clock::{HOST, StageClock};
use super::folder::RunFolder;
use super::learner::Learner;
use super::metrics::StepResult;
use super::rates::Rates;
use super::{Config, Control, Environment, Event, MemoryNeed, Start, StepMetrics, Summary, TestMetrics};

/// Batches that each worker may have ready.
const AHEAD: usize = 4;
/// Weights are saved after an epoch if the last time is longer ago than this.
const SAVE_INTERVAL: Duration = Duration::from_secs(10);

const WEIGHTS: &str = "model.safetensors";

/// A run that is ready to start: settings checked, data and device open, model made, folder there.
///
/// ```
/// use brasa::train::{Config, Control, Event, Trainer};
///
/// let out = std::env::temp_dir().join("brasa-example-runs");
/// let config = Config { epochs: 1, device: Some("cpu".into()), out: out.clone(), ..Config::default() };
/// let mut accuracy = 0.0;
/// let summary = Trainer::new(config)?.run(&Control::default(), &mut |event| {
///     if let Event::Evaluated { test, .. } = event {
///         accuracy = test.accuracy;
///     }
/// })?;
/// assert!(accuracy > 0.5 && summary.folder.join("model.safetensors").exists());
/// # std::fs::remove_dir_all(out).unwrap();
/// # Ok::<(), brasa::Error>(())
/// ```
pub struct Trainer {
    config: Config,
    device: Device,
    folder: RunFolder,
    data: Split<Arc<dyn Dataset>>,
    learner: Learner,
    memory: MemoryNeed,
    rates: Rates,
}

impl Trainer {
    /// Checks and opens everything that a run with `config` needs; whatever can be wrong before training is found here.
    pub fn new(config: Config) -> Result<Self> {
        let config = config.resolve()?;
        let device = config.device.as_deref().map_or_else(Device::best, Device::named)?;
        let data = data::open(&config.dataset, &config.open_options())?;
        let mut learner = Learner::new(&config, data.train.as_ref(), &device)?;
        let mut rows = vec![config.batch_size.min(data.train.len())];
        rows.extend(Some(data.train.len() % config.batch_size).filter(|&last| last > 0 && last != rows[0]));
        let steps = config.epochs * Loader::batches_per_epoch(data.train.len(), config.batch_size);
        let rates = Rates::new(&config, steps as u64)?;
        let memory = memory_need(&mut learner, &rows, config.batch_size, &device)?;
        if !memory.fits() {
            tracing::warn!("{memory}");
        }
        // if it does not fit, what it would have taken
        learner.prepare(&rows, config.batch_size).inspect_err(|_| tracing::warn!("{memory}"))?;
        // last: what cannot start leaves no folder behind
        let prefix = format!("{}-{}", config.dataset.short(), config.model);
        let folder = RunFolder::create(&config.out, config.name.as_deref(), &prefix)?;
        folder.write("config.toml", config.to_toml().as_bytes())?;
        folder.write("environment.toml", Environment::new(&device, config.precision).to_toml().as_bytes())?;
        Ok(Self { config, device, folder, data, learner, memory, rates })
    }

    /// Trains to the end, or until `control` says stop, and saves. `listen` hears what happens as it happens.
    ///
    /// If a step fails, what was learned before it is saved, too.
    pub fn run(self, control: &Control, listen: &mut dyn FnMut(Event)) -> Result<Summary> {
        let mut run = Run {
            clock: StageClock::default(),
            start: Instant::now(),
            device_wait: Duration::ZERO,
            steps: 0,
            rates: VecDeque::new(),
            learning_rate: self.config.learning_rate(),
            saved: Instant::now(),
            test: None,
            listen,
            trainer: self,
        };
        match run.train(control) {
            Ok(completed) => run.finish(completed),
            Err(error) => {
                // The first error is the one to return; a second one would only hide it.
                run.save_if_possible();
                Err(error)
            }
        }
    }
}

fn memory_need(learner: &mut Learner, rows: &[usize], evaluate_rows: usize, device: &Device) -> Result<MemoryNeed> {
    let (training, inference) = learner.forecast(rows, evaluate_rows)?;
    let needed_bytes = training.new_bytes() + inference.new_bytes();
    Ok(MemoryNeed { training, inference, needed_bytes, free_bytes: device.free_memory() })
}

/// A line of `metrics.jsonl`.
#[derive(Serialize)]
struct Line {
    /// `train` for one step, `epoch` for the mean over one pass, `test` for the held-out samples.
    kind: &'static str,
    step: usize,
    epoch: usize,
    loss: f32,
    accuracy: f32,
    lr: f64,
    elapsed_s: f64,
}

/// A run under way.
struct Run<'a> {
    trainer: Trainer,
    listen: &'a mut dyn FnMut(Event),
    clock: StageClock,
    start: Instant,
    /// How long the host was held up by the device.
    device_wait: Duration,
    /// Steps whose results are known.
    steps: usize,
    /// Learning rates of the steps whose results are not known yet.
    rates: VecDeque<f64>,
    /// That of the last step whose results are known.
    learning_rate: f64,
    saved: Instant,
    test: Option<TestMetrics>,
}

/// Sums over a pass of the training data.
#[derive(Default)]
struct EpochSums {
    /// In f64: a long pass of small losses must not lose any.
    loss: f64,
    correct: usize,
    samples: usize,
}

impl Run<'_> {
    /// Trains; true if it came to the end.
    fn train(&mut self, control: &Control) -> Result<bool> {
        let config = &self.trainer.config;
        let (epochs, per_epoch) = (config.epochs, self.steps_per_epoch());
        let mut train_batches = self.loader(&self.trainer.data.train, Order::Shuffled { seed: config.seed.into() });
        let mut test_batches = self.loader(&self.trainer.data.test, Order::Sequential);
        self.started(per_epoch);
        for epoch in 1..=epochs {
            let epoch_start = Instant::now();
            let mut sums = EpochSums::default();
            for step in 1..=per_epoch {
                let batch = self.next_batch(&mut train_batches)?;
                let learning_rate = self.trainer.rates.now();
                self.on_device(|learner| learner.train(batch, learning_rate))?;
                self.trainer.rates.step_done();
                self.rates.push_back(learning_rate);
                if self.trainer.learner.metrics_full() || step == per_epoch || control.stopping() {
                    self.read_metrics(epoch, epoch_start, &mut sums)?;
                }
                if control.stopping() {
                    return Ok(false);
                }
            }
            self.epoch_done(epoch, epoch_start, &sums)?;
            self.evaluate(epoch, &mut test_batches)?;
            if self.saved.elapsed() > SAVE_INTERVAL {
                self.save_if_possible();
            }
        }
        Ok(true)
    }

    fn steps_per_epoch(&self) -> usize {
        Loader::batches_per_epoch(self.trainer.data.train.len(), self.trainer.config.batch_size)
    }

    fn loader(&self, data: &Arc<dyn Dataset>, order: Order) -> Loader {
        let config = &self.trainer.config;
        let augment = if config.augment { Augment::Shift } else { Augment::None };
        let Config { batch_size, workers, epochs, .. } = *config;
        Loader::new(Arc::clone(data), LoaderOptions { batch_size, order, augment, workers, ahead: AHEAD, epochs })
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
    fn read_metrics(&mut self, epoch: usize, epoch_start: Instant, sums: &mut EpochSums) -> Result<()> {
        let (results, failure) = self.on_device(Learner::read_metrics)?;
        let start = Instant::now();
        for result in results {
            self.steps += 1;
            self.learning_rate = self.rates.pop_front().unwrap_or(self.learning_rate);
            sums.add(result);
            self.write_line("train", epoch, result.loss, result.accuracy())?;
            if self.steps.is_multiple_of(self.trainer.config.log_every) {
                self.tell_step(epoch, epoch_start, sums, result);
            }
        }
        self.log_took(start);
        failure.map_or(Ok(()), Err)
    }

    fn tell_step(&mut self, epoch: usize, epoch_start: Instant, sums: &EpochSums, result: StepResult) {
        let elapsed_s = self.start.elapsed().as_secs_f64();
        let total = self.trainer.config.epochs * self.steps_per_epoch();
        let metrics = StepMetrics {
            step: self.steps,
            epoch,
            loss: result.loss,
            accuracy: result.accuracy(),
            samples_per_second: sums.samples as f64 / epoch_start.elapsed().as_secs_f64(),
            elapsed_s,
            left_s: elapsed_s / self.steps as f64 * (total - self.steps) as f64,
        };
        (self.listen)(Event::Step(metrics));
    }

    fn epoch_done(&mut self, epoch: usize, epoch_start: Instant, sums: &EpochSums) -> Result<()> {
        let start = Instant::now();
        let samples_per_second = sums.samples as f64 / epoch_start.elapsed().as_secs_f64();
        let (loss, accuracy) = (sums.mean_loss(), sums.correct as f32 / sums.samples as f32);
        self.write_line("epoch", epoch, loss, accuracy)?;
        (self.listen)(Event::Epoch { epoch, loss, accuracy, samples_per_second });
        self.log_took(start);
        Ok(())
    }

    fn evaluate(&mut self, epoch: usize, batches: &mut Loader) -> Result<()> {
        let samples = self.trainer.data.test.len();
        for _ in 0..Loader::batches_per_epoch(samples, self.trainer.config.batch_size) {
            let batch = self.next_batch(batches)?;
            self.on_device(|learner| learner.evaluate(&batch))?;
        }
        let (loss, correct) = self.on_device(Learner::read_evaluation)?;
        let start = Instant::now();
        let test =
            TestMetrics { loss: loss / samples as f32, accuracy: correct as f32 / samples as f32, correct, samples };
        self.write_line("test", epoch, test.loss, test.accuracy)?;
        self.trainer.rates.evaluated(test.loss);
        self.test = Some(test);
        (self.listen)(Event::Evaluated { epoch, test });
        self.log_took(start);
        Ok(())
    }

    /// Saves; a failure is told and not the end of the run, as the disk may have room again when it ends.
    fn save_if_possible(&mut self) {
        if let Err(error) = self.save() {
            (self.listen)(Event::SaveFailed { message: error.to_string() });
        }
    }

    /// Saves the weights; if that fails, those that were saved before are still there.
    fn save(&mut self) -> Result<PathBuf> {
        let start = Instant::now();
        let weights = crate::nn::to_safetensors(self.trainer.learner.model())?;
        let path = self.trainer.folder.write(WEIGHTS, &weights)?;
        self.saved = Instant::now();
        self.log_took(start);
        (self.listen)(Event::Saved { path: path.clone() });
        Ok(path)
    }

    fn finish(mut self, completed: bool) -> Result<Summary> {
        self.save()?;
        let device = self.trainer.device.info().selector.clone();
        let times = self.trainer.learner.stage_times();
        self.clock.add_device(&times, self.device_wait, &device);
        let summary = Summary {
            completed,
            steps: self.steps,
            test: self.test,
            seconds: self.start.elapsed().as_secs_f64(),
            stages: self.clock.report(),
            folder: self.trainer.folder.path().to_owned(),
        };
        (self.listen)(Event::Finished(summary.clone()));
        Ok(summary)
    }

    fn started(&mut self, steps_per_epoch: usize) {
        let Trainer { config, device, folder, data, learner, memory, .. } = &self.trainer;
        let memory = *memory;
        let start = Start {
            name: folder.name().to_owned(),
            folder: folder.path().to_owned(),
            device: device.info().name.clone(),
            dataset: config.dataset.to_string(),
            model: config.model.to_string(),
            parameters: learner.parameter_count(),
            train_samples: data.train.len(),
            test_samples: data.test.len(),
            epochs: config.epochs,
            steps_per_epoch,
            batch_size: config.batch_size,
            environment: Environment::new(device, config.precision),
        };
        (self.listen)(Event::Started(Box::new(start)));
        (self.listen)(Event::Memory(memory));
    }

    fn write_line(&mut self, kind: &'static str, epoch: usize, loss: f32, accuracy: f32) -> Result<()> {
        let lr = self.learning_rate;
        let elapsed_s = self.start.elapsed().as_secs_f64();
        self.trainer.folder.append_metrics(&Line { kind, step: self.steps, epoch, loss, accuracy, lr, elapsed_s })
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
        self.samples += result.samples;
    }

    fn mean_loss(&self) -> f32 {
        (self.loss / self.samples as f64) as f32
    }
}
