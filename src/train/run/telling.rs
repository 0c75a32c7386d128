//! What a run writes down and tells.

use std::time::Instant;

use serde::Serialize;

use crate::error::Result;
use crate::train::learner::{Learner, StepResult};
use crate::train::scores::Confusion;
use crate::train::trainer::{Trainer, steps_per_epoch};
use crate::train::{Config, Environment, Event, Start, StepMetrics};

use super::Run;

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
pub(super) struct TestDetails {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) top5: Option<f64>,
    pub(super) mean_precision: f64,
    pub(super) mean_recall: f64,
    pub(super) mean_f1: f64,
    pub(super) mean_iou: f64,
}

impl Run<'_> {
    /// Reads what the last steps gave, writes it down and tells it.
    pub(super) fn read_metrics(&mut self) -> Result<()> {
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

    pub(super) fn samples_per_second(&self) -> f64 {
        (self.sums.samples - self.samples_before) as f64 / self.epoch_start.elapsed().as_secs_f64()
    }

    pub(super) fn started(&mut self) -> Result<()> {
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

    pub(super) fn write_line(
        &mut self,
        kind: &'static str,
        loss: f64,
        accuracy: f64,
        test: Option<TestDetails>,
    ) -> Result<()> {
        let (lr, step, epoch) = (self.learning_rate, self.steps, self.epoch + 1);
        let elapsed_s = self.seconds_before + self.start.elapsed().as_secs_f64();
        self.trainer.folder.append_metrics(&Line { kind, step, epoch, loss, accuracy, lr, elapsed_s, test })
    }

    pub(super) fn write_confusion(&self, confusion: &Confusion) -> Result<()> {
        let json = serde_json::to_vec(confusion).expect("plain numbers");
        self.trainer.folder.write(CONFUSION, &json).map(drop)
    }
}
