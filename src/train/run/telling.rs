//! What a run writes down and tells.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::data::{Goal, Normalization, Pipeline, Skipped};
use crate::error::Result;
use crate::train::devices;
use crate::train::learner::StepResult;
use crate::train::record::{InputRecord, Kind, Line, RUN, RunRecord, RunState};
use crate::train::trainer::Trainer;
use crate::train::{Config, Environment, Event, Score, Start, StepMetrics};

use super::Run;
use super::status::now_unix_ms;
use super::timeline::Part;

/// A step is told after this time, whatever its number.
const SLOW: Duration = Duration::from_secs(1);

/// Samples that could not be read.
#[derive(Default)]
pub(super) struct Broken {
    /// In an epoch and in an evaluation: each meets them anew.
    pub(super) most: [usize; 2],
    /// Met by the loader of training data before this epoch.
    before: usize,
    /// What was said of them.
    told: Vec<String>,
}

impl Run<'_> {
    /// Reads what steps gave, of `all` or of those that it is time for, writes it down and tells it.
    pub(super) fn read_metrics(&mut self, all: bool) -> Result<()> {
        let (results, failure) = self.on_device(|learner| learner.read_metrics(all))?;
        let start = Instant::now();
        // results of several steps come at once: each has its part of the time since the last ones
        let (since, now, count) = (self.steps_known, self.watch.elapsed(), results.len() as u32);
        for (number, result) in (1..).zip(results) {
            let at = since + now.saturating_sub(since) * number / count;
            self.steps += 1;
            self.learning_rate = self.under_way.pop_front().map_or(self.learning_rate, |step| step.learning_rate);
            self.sums.add(result);
            let metrics = self.step_metrics(result, at);
            let line = self.line(Kind::Train, result.loss.into(), self.trainer.learner.score(result.part()));
            self.write_down(&Line {
                elapsed_s: metrics.elapsed_s,
                samples_per_second: Some(metrics.samples_per_second),
                gradient_norm: Some(result.gradient_norm.into()),
                ..line
            })?;
            self.call(|callback, run| callback.on_train_batch_end(run, &metrics))?;
            let is_reported = self.steps.is_multiple_of(self.trainer.config.log_every as u64);
            if is_reported || self.step_told.elapsed() >= SLOW {
                self.step_told = Instant::now();
                self.tell(Event::Step(metrics));
            }
        }
        self.steps_known = now;
        self.log_took(start);
        if let Some(message) = self.trainer.learner.first_skipped() {
            self.tell(Event::Notice { message });
        }
        self.halted |= failure.is_some();
        failure.map_or(Ok(()), Err)
    }

    /// Names samples of an epoch that could not be read, each once in a run.
    pub(super) fn tell_broken(&mut self, part: Part, skipped: &Skipped) {
        let Broken { most, before, told } = &mut self.broken;
        // the loader of tests begins anew each time
        let met = match part {
            Part::Train => skipped.count - std::mem::replace(before, skipped.count),
            Part::Test => skipped.count,
        };
        let most = &mut most[part as usize];
        let is_more = met > *most;
        *most = met.max(*most);
        let mut news: Vec<String> =
            skipped.messages.iter().filter(|message| !told.contains(message)).cloned().collect();
        told.extend(news.iter().cloned());
        let unnamed = met.saturating_sub(skipped.messages.len());
        if is_more && unnamed > 0 {
            news.push(format!("and {unnamed} more samples that cannot be read"));
        }
        for message in news {
            self.tell(Event::Notice { message: format!("skipped: {message}") });
        }
    }

    /// Adds a line to the run's numbers. What finds no room waits for some, which is told once and does not end the run
    /// as long as there is not too much of it.
    pub(super) fn write_down(&mut self, line: &Line) -> Result<()> {
        let folder = &mut self.trainer.folder;
        let told = folder.has_unwritten();
        let Err(error) = folder.append_metrics(line) else { return Ok(()) };
        if folder.is_crowded() {
            return Err(error);
        }
        if !told {
            self.tell(Event::SaveFailed { message: error.to_string() });
        }
        Ok(())
    }

    /// What is told of the last step, whose work was done at this time on the watch.
    fn step_metrics(&self, result: StepResult, at: Duration) -> StepMetrics {
        StepMetrics {
            step: self.steps as usize,
            epoch: self.epoch + 1,
            loss: result.loss,
            learning_rate: self.learning_rate,
            score: self.trainer.learner.score(result.part()),
            samples_per_second: self.samples_per_second(at),
            gradient_norm: result.gradient_norm,
            elapsed_s: self.seconds_before + at.as_secs_f64(),
            left_s: self.seconds_left(),
        }
    }

    /// The rate of this epoch until this time on the watch.
    pub(super) fn samples_per_second(&self, at: Duration) -> f64 {
        (self.sums.samples - self.samples_before) as f64 / at.saturating_sub(self.epoch_start).as_secs_f64()
    }

    pub(super) fn started(&mut self) -> Result<()> {
        let Trainer { config, devices, folder, data, learner, memory, length, .. } = &self.trainer;
        let memory = *memory;
        let Config { dataset, model, epochs, batch_size, .. } = config;
        let start = Start {
            name: folder.name().to_owned(),
            folder: folder.path().to_owned(),
            device: devices::names(devices),
            dataset: dataset.to_string(),
            model: model.to_string(),
            parameters: learner.parameter_count(),
            train_samples: data.train.samples_per_epoch(),
            validation_samples: data.validation.as_ref().map(Pipeline::samples_per_epoch),
            test_samples: data.test.samples_per_epoch(),
            epochs: *epochs,
            steps_done: self.steps as usize,
            steps_per_epoch: length.steps_per_epoch,
            steps: length.steps as usize,
            batch_size: *batch_size,
            environment: Environment::new(devices, config.precision),
        };
        let of = data.train.description().clone();
        let Normalization { mean, std } = of.normalization;
        let input = InputRecord {
            shape: of.shape,
            mean,
            std,
            segments: of.goal == Goal::Segment,
            columns: of.columns,
            regresses: of.goal == Goal::Regress,
            scales: of.scales,
            counts: of.counts,
        };
        let begun_unix_ms = begun(folder.path());
        let record = RunRecord { start: start.clone(), memory, classes: of.classes, input, begun_unix_ms };
        let record = serde_json::to_vec(&record).expect("plain data");
        folder.write(RUN, &record)?;
        self.call(|callback, run| callback.on_train_begin(run, &start))?;
        self.tell(Event::Started(Box::new(start)));
        self.tell(Event::Memory(memory));
        for message in std::mem::take(&mut self.trainer.notices) {
            self.tell(Event::Notice { message });
        }
        self.write_plan()?;
        self.read_shown();
        self.report_as(RunState::Running, None);
        Ok(())
    }

    /// What is said of the step under way.
    pub(super) fn line(&self, kind: Kind, loss: f64, score: Score) -> Line {
        Line {
            kind,
            step: self.steps,
            epoch: self.epoch + 1,
            loss,
            score,
            lr: self.learning_rate,
            elapsed_s: self.seconds(),
            samples_per_second: (kind == Kind::Epoch).then(|| self.samples_per_second(self.watch.elapsed())),
            gradient_norm: None,
            memory_bytes: Some(self.trainer.device().memory().live_bytes),
            top5: None,
            perplexity: None,
            mean: None,
            skipped_steps: None,
            loss_scale: None,
            joules: None,
            micro: None,
            rmse: None,
            mae: None,
        }
    }

    /// Seconds of training and evaluation.
    pub(super) fn seconds(&self) -> f64 {
        self.seconds_before + self.watch.elapsed().as_secs_f64()
    }

    /// Seconds to go, if steps go on to take as long as those of this process; 0 as long as there was none.
    pub(super) fn seconds_left(&self) -> f64 {
        let left = self.steps_in_all().saturating_sub(self.steps) as f64;
        match self.steps - self.steps_before {
            0 => 0.0,
            done => self.watch.elapsed().as_secs_f64() / done as f64 * left,
        }
    }

    pub(super) fn steps_in_all(&self) -> u64 {
        self.trainer.length.steps
    }
}

/// When the run in a folder began, which is now if it was not recorded before.
fn begun(folder: &Path) -> Option<u64> {
    let Ok(before) = std::fs::read(folder.join(RUN)) else { return Some(now_unix_ms()) };
    serde_json::from_slice::<RunRecord>(&before).ok()?.begun_unix_ms
}
