//! The model that learns: captured steps that train and evaluate, over shared variables.

mod average;
mod inspect;
mod metrics;
mod numbers;
mod optimizer;
mod others;
mod own;
mod plan;
mod state;
mod steps;
mod task;
mod tune;
mod weights;

use std::sync::Arc;

use crate::data::{Batch, Description, Format, Goal};
use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::models::{self, ModelSpec};
use crate::nn::{self, Module, checkpoint_blocks, freeze_statistics};
use crate::optim::{LossScaleOptions, LossScaler, Optimizer};
use crate::runtime::{Forecast, Hyper, Signature, Step, Var};
use crate::tensor::{Tensor, autocast};
use crate::timing::StageTimes;
use crate::timing::spans::SpanLog;

use super::config::{Config, OnNan, Precision};
use super::scores::Score;
use average::Average;
pub(super) use inspect::{Inside, LIKELIEST, Prediction, likeliest};
pub(super) use metrics::{Evaluated, StepResult};
use metrics::{Evaluation, Ring, Watched};
use optimizer::optimizer;
use others::Others;
use task::Question;
pub(super) use weights::Loaded;

/// A model with its optimizer on a device.
pub(super) struct Learner {
    device: Device,
    model: Arc<dyn Module>,
    average: Option<Average>,
    /// A part of a step, or a whole one: gradients, and the update of the parameters. Of several devices, the first
    /// one's part.
    train: Step,
    /// A part of a step that others follow: gradients that are added up.
    accumulate: Option<Step>,
    /// Other devices that learn beside this one.
    others: Option<Others>,
    evaluate: Step,
    optimizer: Arc<dyn Optimizer>,
    scaler: Option<Arc<LossScaler>>,
    /// Steps that were skipped because something was not finite.
    skipped: Option<Var>,
    /// The part of a step's loss that one of its batches is.
    share: Hyper,
    /// Of accumulated parts of whose targets not all count: by what gradients have to be divided so far, f32 `[]`.
    divisor: Option<Var>,
    metrics: Ring,
    evaluation: Evaluation,
    question: Question,
    numbers: Numbers,
    /// What batches are, in training and in evaluation.
    formats: [Format; 2],
    /// Steps handed to the device, for the average.
    handed_over: u64,
    /// When the device did what.
    log: Arc<SpanLog>,
}

/// How numbers are computed in a step.
#[derive(Clone, Copy)]
pub(super) struct Numbers {
    precision: Precision,
    statistics_frozen: bool,
    activations_checkpointed: bool,
}

impl Learner {
    /// The model that `config` names, for batches of these formats in training and in evaluation, on the first of
    /// `devices`, which all learn; and what was loaded into it.
    pub(super) fn new(config: &Config, formats: [Format; 2], devices: &[Device]) -> Result<(Self, Option<Loaded>)> {
        let data = &formats[0].description.clone();
        config.check_fits(data)?;
        let (device, others) = devices.split_first().expect("a device");
        crate::runtime::seed(device, u64::from(config.seed))?;
        let model = model(config, data, device)?;
        let loaded = config.weights.as_deref().map(|path| Loaded::new(model.as_ref(), path, &config.skip_weights));
        let loaded = loaded.transpose()?;
        let frozen: Vec<&str> = config.freeze.iter().map(String::as_str).collect();
        let parameters = nn::trainable(model.as_ref(), &frozen)?;
        if parameters.is_empty() {
            return Err(Error::Config("freeze: there is no parameter left to train".into()));
        }
        let optimizer = optimizer(config, &parameters)?;
        let average = match config.ema {
            None => None,
            Some(decay) => {
                let second = self::model(config, data, device)?;
                Some(Average::new(second, model.as_ref(), optimizer.as_ref(), decay)?)
            }
        };
        let scaler = match config.precision {
            Precision::F32 => None,
            Precision::F16 => Some(Arc::new(LossScaler::new(device, LossScaleOptions::default())?)),
        };
        let skipped = match config.on_nan {
            OnNan::Stop => None,
            OnNan::Skip => Some(Var::state("skipped", &Tensor::scalar(0_u32, device))?),
        };
        let question = Question::new(data, config, device)?;
        question.check_count(config.batch_size, data)?;
        let divisor = if others.is_empty() && config.accumulate > 1 && question.divides() {
            Some(Var::state("divisor", &Tensor::scalar(0.0_f32, device))?)
        } else {
            None
        };
        let numbers = Numbers::of(config);
        let parts = if others.is_empty() { config.accumulate } else { 1 };
        let mut learner = Self {
            metrics: Ring::new(config.log_every, parts, device)?,
            evaluation: Evaluation::new(&question, device)?,
            question,
            numbers,
            // replaced below: they share what is above
            train: Step::new(device, |_| Vec::new())?,
            accumulate: None,
            others: None,
            evaluate: Step::new(device, |_| Vec::new())?,
            device: device.clone(),
            share: Hyper::new(1.0),
            divisor,
            formats,
            handed_over: 0,
            log: Arc::default(),
            model,
            average,
            optimizer,
            scaler,
            skipped,
        };
        if learner.skipped.is_some() {
            // a gradient that overflows with the scaled loss is the scaler's affair
            let scaled = learner.scaler.is_some();
            learner.metrics.watch(if scaled { Watched::Loss } else { Watched::LossAndGradients });
        }
        // its steps keep it, whatever is set later
        devices.iter().for_each(|device| device.set_matmul_precision(config.matmul_precision));
        if !others.is_empty() {
            learner.learn_with(others, config)?;
        } else {
            learner.train = learner.train_step(config.accumulate > 1, true)?;
            if config.accumulate > 1 {
                let accumulate = learner.train_step(true, false)?;
                learner.accumulate = Some(accumulate.halting_with(&learner.train));
            }
        }
        learner.evaluate = learner.evaluate_step()?;
        let Self { train, accumulate, others, evaluate, log, .. } = &mut learner;
        let update = others.as_mut().map(|others| others.exchange.update());
        let steps = [Some(train), accumulate.as_mut(), update, Some(evaluate)];
        steps.into_iter().flatten().for_each(|step| step.note_spans(log));
        Ok((learner, loaded))
    }

    /// True if it classifies pixels.
    pub(super) fn segments(&self) -> bool {
        self.formats[0].description.goal == Goal::Segment
    }

    /// What the part of the training targets is called that was right, or explained.
    pub(super) fn score(&self, part: f64) -> Score {
        self.question.score(part)
    }

    /// Trainable numbers in the model.
    pub(super) fn parameter_count(&self) -> usize {
        nn::parameter_count(self.model.as_ref())
    }

    /// The model that is evaluated and saved: the one that learns, or its average.
    pub(super) fn model(&self) -> &dyn Module {
        self.average.as_ref().map_or(&self.model, Average::model).as_ref()
    }

    /// The model that learns.
    pub(super) fn learning_model(&self) -> &dyn Module {
        self.model.as_ref()
    }

    /// Plans and compiles the steps for batches of these numbers of rows, and for evaluation.
    pub(super) fn prepare(&mut self, train_rows: &[usize], evaluate_rows: usize) -> Result<()> {
        for &rows in train_rows {
            let Self { train, accumulate, others, formats: [format, _], .. } = &mut *self;
            if let Some(others) = others {
                others.exchange.prepare(train, rows, &|rows| format.signature(rows))?;
                continue;
            }
            let signature = format.signature(rows);
            train.prepare(&signature)?;
            accumulate.as_mut().map(|step| step.prepare(&signature)).transpose()?;
        }
        self.evaluate.prepare(&self.evaluate_signature(evaluate_rows)).map(drop)
    }

    /// What training with these numbers of rows and evaluation will take of the device's memory.
    pub(super) fn forecast(&mut self, train_rows: &[usize], evaluate_rows: usize) -> Result<(Forecast, Forecast)> {
        let train: Vec<_> = train_rows.iter().map(|&rows| self.train_signature(self.parts(rows)[0])).collect();
        let evaluate = self.evaluate_signature(evaluate_rows);
        let mut training = self.train.forecast(&train)?;
        if let Some(others) = &mut self.others {
            training = training + others.exchange.forecast_of_update()?;
        }
        Ok((training, self.evaluate.forecast(&[evaluate])?))
    }

    /// One training step on `batches`, which are one batch in several parts. Its results are on the device until
    /// [`Learner::read_metrics`].
    pub(super) fn train(&mut self, batches: Vec<Batch>, learning_rate: f64) -> Result<()> {
        // one that grows without end makes the loss NaN, which is told
        self.optimizer.set_learning_rate(learning_rate.clamp(0.0, f64::from(f32::MAX)) as f32);
        self.handed_over += 1;
        if let Some(average) = &self.average {
            average.set_step(self.handed_over);
        }
        if let Some(others) = &mut self.others {
            others.exchange.run(&mut self.train, &batches.iter().map(Batch::uploads).collect::<Vec<_>>())?;
            self.metrics.handed_over(batches, true);
            return Ok(());
        }
        let samples: usize = batches.iter().map(|batch| batch.samples).sum();
        let parts = batches.len();
        for (number, batch) in batches.into_iter().enumerate() {
            self.share.set(batch.samples as f32 / samples as f32);
            let is_last = number + 1 == parts;
            let step = match &mut self.accumulate {
                Some(accumulate) if !is_last => accumulate,
                _ => &mut self.train,
            };
            step.run_bytes(&batch.uploads())?;
            self.metrics.handed_over(vec![batch], is_last);
        }
        Ok(())
    }

    /// True if it is time to read metrics: else they would be overwritten.
    pub(super) fn metrics_are_due(&self) -> bool {
        self.metrics.is_due()
    }

    /// Batches that are no longer needed.
    pub(super) fn take_spent(&mut self) -> Vec<Batch> {
        self.metrics.take_spent()
    }

    /// What steps gave that is not known yet, in order, and the error that ended them, if one did: of those that were
    /// asked for the last time, which the device has done since, unless it is far behind; what came after them is asked
    /// for now. With `all` of every step so far, which waits for the device.
    pub(super) fn read_metrics(&mut self, all: bool) -> Result<(Vec<StepResult>, Option<Error>)> {
        let (mut results, mut counted) = self.metrics.answer()?;
        if counted && self.metrics.has_news() {
            self.metrics.ask()?;
            // the CPU backend has done what it was given
            if all || self.device.is_cpu() {
                let (more, count) = self.metrics.answer()?;
                results.extend(more);
                counted = count;
            }
        }
        if counted {
            return Ok((results, None));
        }
        let Some((step, batches)) = self.metrics.take_stopped() else {
            return Ok((results, None));
        };
        let mut message = self.origin(&batches);
        if let Some(scaler) = self.scaler.as_ref().filter(|scaler| scaler.is_exhausted().unwrap_or(false)) {
            let scale = scaler.scale()?;
            message += &format!("; the scale of the losses has fallen to {scale:e} and does not help any more");
        }
        Ok((results, Some(Error::NonFinite { step, message })))
    }

    /// In words, once, why the first step was skipped of those that are.
    pub(super) fn first_skipped(&mut self) -> Option<String> {
        let (step, batches) = self.metrics.take_skipped()?;
        let origin = self.origin(&batches);
        Some(format!("step {step} was skipped: {origin}; further ones are counted only"))
    }

    /// True if what the device has is what a whole step left.
    pub(super) fn is_between_steps(&self) -> bool {
        self.metrics.is_between_steps()
    }

    /// Where the first value that is not finite appears in a training step on `batches`, as well as that can be said.
    fn origin(&mut self, batches: &[Batch]) -> String {
        let general = "the loss or a gradient is not finite";
        let found = batches.iter().find_map(|batch| self.diagnose(batch).transpose()).transpose();
        match found {
            Ok(found) => found.unwrap_or_else(|| general.into()),
            Err(error) => format!("{general}; where it appeared could not be found: {error}"),
        }
    }

    /// Where the first value that is not finite appears in a training step on `batch`.
    fn diagnose(&mut self, batch: &Batch) -> Result<Option<String>> {
        let uploads = self.upload(batch)?;
        self.train.diagnose(&uploads)
    }

    /// To be called before the first batch of an evaluation, and before weights are saved.
    pub(super) fn refresh_average(&self) -> Result<()> {
        self.average.as_ref().map_or(Ok(()), Average::refresh)
    }

    /// Adds `batch` to the evaluation under way.
    pub(super) fn evaluate(&mut self, batch: &Batch) -> Result<()> {
        self.evaluation.make_room(batch)?;
        self.evaluate.run_bytes(&batch.uploads()).map(drop)
    }

    /// What the evaluation since the last call found; waits for the device.
    pub(super) fn read_evaluation(&mut self) -> Result<Evaluated> {
        self.evaluation.take()
    }

    /// Steps that changed nothing because something in them was not finite, so far; waits for the device.
    pub(super) fn skipped_steps(&self) -> Result<u32> {
        let by_scaler = self.scaler.as_ref().map(|scaler| scaler.skipped_steps()).transpose()?;
        let others = self.skipped.as_ref().map(|var| var.tensor().item::<u32>()).transpose()?;
        Ok(by_scaler.unwrap_or(0) + others.unwrap_or(0))
    }

    /// The factor that the loss is scaled by now, if it is; waits for the device.
    pub(super) fn loss_scale(&self) -> Result<Option<f32>> {
        self.scaler.as_ref().map(|scaler| scaler.scale()).transpose()
    }

    /// What the device did since the last call, by stage.
    pub(super) fn stage_times(&mut self) -> StageTimes {
        let mut times = self.train.stage_times();
        if let Some(accumulate) = &mut self.accumulate {
            times.merge(&accumulate.stage_times());
        }
        if let Some(others) = &mut self.others {
            times.merge(&others.exchange.update().stage_times());
        }
        times.merge(&self.evaluate.stage_times());
        times
    }

    /// What the devices beside it did since the last call, by stage, with their selectors.
    pub(super) fn stage_times_of_others(&mut self) -> Vec<(&str, StageTimes)> {
        self.others.as_mut().map_or_else(Vec::new, |others| others.exchange.stage_times())
    }

    /// When the device does what, noted until somebody takes it.
    pub(super) fn log(&self) -> &SpanLog {
        &self.log
    }

    /// How many of the rows of a batch each device learns from, the first one's first; without those that get none.
    pub(super) fn parts(&self, rows: usize) -> Vec<usize> {
        let Some(others) = &self.others else { return vec![rows] };
        others.exchange.rows(rows).iter().map(ExactSizeIterator::len).filter(|&rows| rows > 0).collect()
    }

    fn train_signature(&self, rows: usize) -> Signature {
        self.formats[0].signature(rows)
    }

    fn evaluate_signature(&self, rows: usize) -> Signature {
        self.formats[1].signature(rows)
    }
}

impl Numbers {
    pub(super) fn of(config: &Config) -> Self {
        Self {
            precision: config.precision,
            statistics_frozen: config.freeze_statistics,
            activations_checkpointed: config.checkpoint_activations,
        }
    }

    /// What `model` makes of `inputs`.
    pub(super) fn forward(self, model: &dyn Module, inputs: &Tensor) -> Tensor {
        let forward = || {
            if self.activations_checkpointed {
                checkpoint_blocks(|| model.forward(inputs))
            } else {
                model.forward(inputs)
            }
        };
        let run = || match self.precision {
            Precision::F32 => forward(),
            Precision::F16 => autocast(DType::F16, forward),
        };
        if self.statistics_frozen { freeze_statistics(run) } else { run() }
    }
}

/// A new model such as `config` says.
pub(super) fn model(config: &Config, data: &Description, device: &Device) -> Result<Arc<dyn Module>> {
    let spec = ModelSpec { input: data.shape.clone(), classes: data.classes.len(), seed: u64::from(config.seed) };
    let model: Arc<dyn Module> = models::create(config.model.name(), &spec, device)?.into();
    if !models::MODELS.contains(config.model.entry()) {
        own::check(config.model, &*model, &spec)?;
    }
    Ok(model)
}

#[cfg(test)]
mod tests {
    use super::task::Counts;
    use super::*;
    use crate::data::{Dataset as _, Last, Pipeline, digits};
    use crate::device::Fault;
    use crate::device::tests::fresh_devices;
    use crate::train::{Confusion, ModelName};

    #[test]
    fn counts_that_would_overflow_on_the_device_are_added_up_by_the_host() {
        for device in fresh_devices() {
            let data = Arc::new(digits().expect("they are built in").test);
            let model = ModelName::new("mlp").expect("a model of that name");
            let config = Config { model, batch_size: 64, ..Config::default() }.resolve().expect("good settings");
            let pipeline = Pipeline::new(data).batch(64, Last::Pad);
            let formats = [pipeline.format(), pipeline.format()];
            let (mut learner, _) = Learner::new(&config, formats, std::slice::from_ref(&device)).expect("memory");
            let mut evaluate = |most_unread| {
                learner.evaluation.most_unread = most_unread;
                for batch in pipeline.start().expect("threads") {
                    learner.evaluate(&batch.expect("it loads")).expect("memory");
                }
                learner.read_evaluation().expect("the device is there")
            };
            let [at_once, in_parts] = [u64::MAX, 150].map(&mut evaluate);
            assert_eq!(at_once.tally.confusion().map_or(0, Confusion::total), 359, "{device:?}");
            assert_eq!((&at_once.tally, at_once.top5), (&in_parts.tally, in_parts.top5), "{device:?}");
            assert!((at_once.loss - in_parts.loss).abs() < 1e-6 * at_once.loss, "{device:?}");
        }
    }

    #[test]
    fn of_equally_likely_classes_the_first_five_are_the_likeliest() {
        let of = digits().expect("they are built in").test.description().clone();
        for device in fresh_devices() {
            let question = Question::new(&of, &Config::default(), &device).expect("memory");
            let labels: Vec<i32> = (0..10).collect();
            let labels = Tensor::from_slice(&labels, [10], &device).expect("small");
            let same = Tensor::zeros([10, 10], &device);
            let answers = question.answers(&same, &labels, &Tensor::ones([10], &device));
            let Counts::Classes { top, .. } = answers.counts else { panic!("classes") };
            assert_eq!(top.item::<i32>().expect("a number"), 5, "{device:?}");
        }
    }

    #[test]
    fn a_batch_of_more_targets_than_are_counted_exactly_is_refused() {
        let mut large = digits().expect("they are built in").test.description().clone();
        (large.goal, large.shape) = (Goal::Segment, vec![3, 1024, 1024]);
        let question = Question::new(&large, &Config::default(), &Device::cpu()).expect("memory");
        assert!(question.check_count(16, &large).is_ok());
        let error = question.check_count(17, &large).expect_err("2^24 are counted").to_string();
        assert!(error.contains("batch-size is 17") && error.contains("image-size"), "{error}");
    }

    #[test]
    fn a_diagnosis_that_fails_does_not_hide_what_it_was_for() {
        for device in fresh_devices() {
            let data = Arc::new(digits().expect("they are built in").train);
            let model = ModelName::new("mlp").expect("a model of that name");
            let config = Config { model, batch_size: 64, ..Config::default() }.resolve().expect("good settings");
            let pipeline = Pipeline::new(data).batch(64, Last::Keep);
            let formats = [pipeline.format(), pipeline.format()];
            let (mut learner, _) = Learner::new(&config, formats, std::slice::from_ref(&device)).expect("memory");
            let mut loader = pipeline.start().expect("threads");
            // the first step ruins the weights, the second meets that
            for _ in 0..2 {
                let batch = loader.next().expect("more than two batches").expect("they load");
                learner.train(vec![batch], 1e30).expect("memory");
            }
            device.inject(Fault::MemoryLimit(0));
            let (results, error) = learner.read_metrics(true).expect("it is known which steps counted");
            assert_eq!(results.len(), 1, "{device:?}");
            let Some(Error::NonFinite { step: 2, message }) = error else { panic!("{error:?}") };
            let words = "is not finite; where it appeared could not be found: ";
            assert!(message.contains(words) && message.contains("memory"), "{message}");
        }
    }
}
