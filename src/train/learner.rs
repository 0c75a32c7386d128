//! The model that learns: two captured steps, one that trains and one that evaluates, over shared variables.

use std::sync::Arc;

use crate::data::{Batch, Dataset, Description};
use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::models::{self, ModelSpec};
use crate::nn::{self, Mode, Module};
use crate::optim::Optimizer;
use crate::runtime::{Forecast, Signature, Step};
use crate::stage::Stage;
use crate::tensor::{CrossEntropy, Reduction, Tensor};
use crate::timing::StageTimes;

use super::config::Config;
use super::metrics::{Evaluation, Ring, StepResult};
use super::optimizer::optimizer;

/// A model with its optimizer on a device.
pub(super) struct Learner {
    device: Device,
    model: Arc<dyn Module>,
    train: Step,
    evaluate: Step,
    optimizer: Arc<dyn Optimizer>,
    metrics: Ring,
    evaluation: Evaluation,
    /// What it learns.
    data: Description,
}

impl Learner {
    /// The model that `config` names, for samples such as `data` has, on `device`.
    pub(super) fn new(config: &Config, data: &dyn Dataset, device: &Device) -> Result<Self> {
        let of = data.description();
        let spec = ModelSpec { input: of.shape.clone(), classes: of.classes.len(), seed: u64::from(config.seed) };
        crate::runtime::seed(device, u64::from(config.seed))?;
        let model: Arc<dyn Module> = models::create(&config.model.to_string(), &spec, device)?.into();
        let optimizer = optimizer(config, &model.parameters())?;
        let metrics = Ring::new(config.log_every, device)?;
        let evaluation = Evaluation::new(device)?;
        let train = Step::new(device, {
            let (model, optimizer, record) = (model.clone(), optimizer.clone(), metrics.recorder());
            let normalization = of.normalization.clone();
            let smoothed = CrossEntropy { label_smoothing: config.label_smoothing, ..CrossEntropy::default() };
            move |inputs| {
                let [pixels, labels] = inputs else { panic!("a training step takes pixels and labels") };
                let logits = model.forward(&normalization.apply(pixels));
                let loss = Stage::Loss.scope(|| logits.cross_entropy_with(labels, &smoothed));
                optimizer.update(&loss.backward());
                Stage::Log.scope(|| record(&loss, &correct(&logits, labels).sum()));
                Vec::new()
            }
        })?;
        let evaluate = Step::new(device, {
            let (model, sums, normalization) = (model.clone(), evaluation.vars(), of.normalization.clone());
            move |inputs| {
                let [pixels, labels, mask] = inputs else { panic!("evaluation takes pixels, labels and a mask") };
                Stage::Evaluate.scope(|| {
                    let logits = Mode::Evaluate.scope(|| model.forward(&normalization.apply(pixels)));
                    let losses = logits
                        .cross_entropy_with(labels, &CrossEntropy { reduction: Reduction::None, ..Default::default() });
                    let [loss, right] = &sums;
                    loss.assign(&(loss.tensor() + mask.ne(0.0).where_(losses, 0.0).sum()));
                    right.assign(&(right.tensor() + (correct(&logits, labels) * mask).sum()));
                });
                Vec::new()
            }
        })?;
        Ok(Self { device: device.clone(), model, train, evaluate, optimizer, metrics, evaluation, data: of.clone() })
    }

    /// Trainable numbers in the model.
    pub(super) fn parameter_count(&self) -> usize {
        nn::parameter_count(self.model())
    }

    /// The model, for saving.
    pub(super) fn model(&self) -> &dyn Module {
        self.model.as_ref()
    }

    /// Plans and compiles the steps for batches of these numbers of rows, and for evaluation.
    pub(super) fn prepare(&mut self, train_rows: &[usize], evaluate_rows: usize) -> Result<()> {
        for &rows in train_rows {
            self.train.prepare(&self.train_signature(rows))?;
        }
        self.evaluate.prepare(&self.evaluate_signature(evaluate_rows)).map(drop)
    }

    /// What training with these numbers of rows and evaluation will take of the device's memory.
    pub(super) fn forecast(&mut self, train_rows: &[usize], evaluate_rows: usize) -> Result<(Forecast, Forecast)> {
        let train: Vec<_> = train_rows.iter().map(|&rows| self.train_signature(rows)).collect();
        let evaluate = self.evaluate_signature(evaluate_rows);
        Ok((self.train.forecast(&train)?, self.evaluate.forecast(&[evaluate])?))
    }

    /// One training step on `batch`. Its results are on the device until [`Learner::read_metrics`].
    pub(super) fn train(&mut self, batch: Batch, learning_rate: f64) -> Result<()> {
        self.optimizer.set_learning_rate(learning_rate as f32);
        debug_assert!(!self.metrics_full(), "metrics must be read before they are overwritten");
        self.train.run_bytes(&batch.uploads()[..2])?;
        self.metrics.handed_over(batch);
        Ok(())
    }

    /// True if the metrics must be read before the next training step.
    pub(super) fn metrics_full(&self) -> bool {
        self.metrics.is_full()
    }

    /// What the steps since the last call gave, in order, and the error that ended them, if one did. Waits for the device.
    pub(super) fn read_metrics(&mut self) -> Result<(Vec<StepResult>, Option<Error>)> {
        let unread = self.metrics.unread();
        if unread == 0 {
            return Ok((Vec::new(), None));
        }
        if !self.train.halted()? {
            return Ok((self.metrics.read(unread)?, None));
        }
        let counted = self.metrics.counted()?;
        let results = self.metrics.read(counted)?;
        let Some((step, batch)) = self.metrics.take_stopped() else {
            return Ok((results, None));
        };
        let general = "the loss or a gradient is not finite";
        let message = match self.diagnose(&batch) {
            Ok(found) => found.unwrap_or_else(|| general.into()),
            Err(error) => format!("{general}; where it appeared could not be found: {error}"),
        };
        Ok((results, Some(Error::NonFinite { step, message })))
    }

    /// Where the first value that is not finite appears in a training step on `batch`.
    fn diagnose(&mut self, batch: &Batch) -> Result<Option<String>> {
        let inputs: Result<Vec<Tensor>> = batch.uploads()[..2]
            .iter()
            .map(|(shape, dtype, bytes)| Tensor::from_bytes(bytes, shape.clone(), *dtype, &self.device))
            .collect();
        self.train.diagnose(&inputs?)
    }

    /// Adds `batch` to the evaluation under way.
    pub(super) fn evaluate(&mut self, batch: &Batch) -> Result<()> {
        self.evaluate.run_bytes(&batch.uploads()).map(drop)
    }

    /// Sum of losses and number of correct answers since the last call; waits for the device.
    pub(super) fn read_evaluation(&mut self) -> Result<(f32, usize)> {
        self.evaluation.take()
    }

    /// What the device did since the last call, by stage.
    pub(super) fn stage_times(&mut self) -> StageTimes {
        let mut times = self.train.stage_times();
        times.merge(&self.evaluate.stage_times());
        times
    }

    fn train_signature(&self, rows: usize) -> Signature {
        self.data.signature(rows)[..2].to_vec()
    }

    fn evaluate_signature(&self, rows: usize) -> Signature {
        self.data.signature(rows).to_vec()
    }
}

/// 1 for each sample whose largest logit is that of its label, else 0.
fn correct(logits: &Tensor, labels: &Tensor) -> Tensor {
    logits.argmax(1).eq(labels).to_dtype(DType::F32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Last, Pipeline, digits};
    use crate::device::Fault;
    use crate::device::tests::fresh_devices;
    use crate::train::ModelName;

    #[test]
    fn a_diagnosis_that_fails_does_not_hide_what_it_was_for() {
        for device in fresh_devices() {
            let data = Arc::new(digits().expect("they are built in").train);
            let model = ModelName::new("mlp").expect("a model of that name");
            let config = Config { model, batch_size: 64, ..Config::default() }.resolve().expect("good settings");
            let mut learner = Learner::new(&config, data.as_ref(), &device).expect("memory");
            let mut loader = Pipeline::new(data).batch(64, Last::Keep).start().expect("threads");
            // the first step ruins the weights, the second meets that
            for _ in 0..2 {
                let batch = loader.next().expect("more than two batches").expect("they load");
                learner.train(batch, 1e30).expect("memory");
            }
            device.inject(Fault::MemoryLimit(0));
            let (results, error) = learner.read_metrics().expect("it is known which steps counted");
            assert_eq!(results.len(), 1, "{device:?}");
            let Some(Error::NonFinite { step: 2, message }) = error else { panic!("{error:?}") };
            let words = "is not finite; where it appeared could not be found: ";
            assert!(message.contains(words) && message.contains("memory"), "{message}");
        }
    }
}
