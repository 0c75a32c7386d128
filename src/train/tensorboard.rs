//! A run as TensorBoard shows it.

use std::fmt;

use crate::data::{Batch, Last, Targets, Values};
use crate::error::{Error, Result};
use crate::formats::tensorboard::{EventWriter, Histogram, Setting};
use crate::stage::Stage;

use super::callback::{Callback, Context};
use super::event::{EpochMetrics, Start, StepMetrics, Summary};
use super::learner::Inside;
use super::pictures;
use super::scores::{Scores, Tally, TestMetrics};

/// Pictures that are shown with what the model says about them.
const PICTURES: usize = 16;

/// Writes event files into the run's folder: scalars of steps, epochs and evaluations, histograms of weights, and of
/// gradients and activations for the first held-out samples, the part of ReLUs' units that are dead for them, pictures
/// with predictions, the model's graph, the settings, and what each stage took.
pub struct TensorBoard {
    every: u64,
    settings: Vec<(String, Setting)>,
    events: Option<EventWriter>,
    /// The first samples of the test set.
    shown: Option<Batch>,
    /// As many of them as there is memory for in a step.
    looked_into: Option<Batch>,
}

impl fmt::Debug for TensorBoard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TensorBoard").field("every", &self.every).finish_non_exhaustive()
    }
}

impl TensorBoard {
    /// With scalars of every `every`th step; `settings` are those of the run.
    pub fn new(every: usize, settings: Vec<(String, Setting)>) -> Self {
        Self { every: every as u64, settings, events: None, shown: None, looked_into: None }
    }

    /// What shows a run does not end it: if a file cannot be written, no further events are.
    fn shown(&mut self, run: &mut Context<'_>, written: Result<()>) -> Result<()> {
        let Err(error @ Error::Io { .. }) = written else { return written };
        self.events = None;
        run.notice(format!("{error}: no further TensorBoard events are written"));
        Ok(())
    }

    /// Writes, if the file is open.
    fn write(&mut self, write: impl FnOnce(&mut EventWriter) -> Result<()>) -> Result<()> {
        self.events.as_mut().map_or(Ok(()), write)
    }

    fn evaluation(&mut self, run: &mut Context<'_>, test: &TestMetrics) -> Result<()> {
        if self.events.is_none() {
            return Ok(());
        }
        let step = run.steps();
        self.write(|events| {
            let part = test.part.name();
            let mut scalar = |tag: String, value: f64| events.scalar(&tag, value as f32, step);
            scalar(format!("loss/{part}"), test.loss)?;
            match &test.scores {
                Scores::Classification(scores) => {
                    scalar(format!("accuracy/{part}"), scores.accuracy)?;
                    scalar(format!("{part}/perplexity"), scores.perplexity)?;
                    scalar(format!("{part}/mean_iou"), scores.mean.iou)?;
                    scalar(format!("{part}/mean_f1"), scores.mean.f1)?;
                    scalar(format!("{part}/micro_f1"), scores.micro.f1)?;
                    scores.top5.map_or(Ok(()), |top5| scalar(format!("{part}/top5"), top5))
                }
                Scores::Regression(scores) => {
                    scalar(format!("r2/{part}"), scores.r2)?;
                    scalar(format!("{part}/rmse"), scores.rmse)?;
                    scalar(format!("{part}/mae"), scores.mae)
                }
            }
        })?;
        self.histograms(run)?;
        self.predictions(run)?;
        self.write(EventWriter::flush)
    }

    fn histograms(&mut self, run: &mut Context<'_>) -> Result<()> {
        let step = run.steps();
        for variable in run.model().variables() {
            if variable.dtype().is_float() {
                let values = variable.tensor().to_dtype(crate::DType::F32).to_vec::<f32>()?;
                let name = format!("weights/{}", variable.name().replace('.', "/"));
                self.write(|events| events.histogram(&name, &Histogram::of(&values), step))?;
            }
        }
        let Some(batch) = &self.looked_into else { return Ok(()) };
        let Inside { gradients, activations, dead } = match run.learner().inside(batch) {
            Err(error @ (Error::OutOfMemory { .. } | Error::BufferTooLarge { .. })) => {
                self.looked_into = None;
                run.notice(format!("no histograms of gradients and activations from here on: {error}"));
                return Ok(());
            }
            inside => inside?,
        };
        for (kind, named) in [("gradients", gradients), ("activations", activations)] {
            for (name, values) in named {
                let name = format!("{kind}/{}", name.replace('.', "/"));
                self.write(|events| events.histogram(&name, &Histogram::of(&values), step))?;
            }
        }
        for (name, part) in dead {
            let name = format!("dead/{}", name.replace('.', "/"));
            self.write(|events| events.scalar(&name, part, step))?;
        }
        Ok(())
    }

    fn predictions(&mut self, run: &Context<'_>) -> Result<()> {
        let Some(batch) = &self.shown else { return Ok(()) };
        let Values::U8(_) = &batch.inputs else { return Ok(()) };
        let Some(predictions) = run.predictions.get(..batch.samples) else { return Ok(()) };
        let (size, pixels) = match &batch.targets {
            Targets::Masks(masks) => {
                let said: Vec<u8> = predictions.iter().flat_map(|said| said.mask.iter().copied()).collect();
                pictures::masks(batch, masks, &said)
            }
            // a picture has no room for them
            Targets::Numbers(_) => return Ok(()),
            Targets::Classes(_) | Targets::Mixed { .. } => {
                pictures::marked(batch, &predictions.iter().map(|said| said.accuracy == 1.0).collect::<Vec<_>>())
            }
        };
        let step = run.steps();
        self.write(|events| events.image("predictions", size, &pixels, step))
    }
}

impl Callback for TensorBoard {
    fn on_train_begin(&mut self, run: &mut Context<'_>, start: &Start) -> Result<()> {
        let graph = run.learner().graph()?;
        let judge = start.judged_by().name();
        let score = run.learner().score(0.0).name();
        let settings = std::mem::take(&mut self.settings);
        // what was said of the step that it goes on behind still holds
        let from = if start.steps_done > 0 { start.steps_done as u64 + 1 } else { 0 };
        let opened = EventWriter::create(run.folder(), from).and_then(|mut events| {
            events.graph(&graph)?;
            events.settings(&settings, &[&format!("loss/{judge}"), &format!("{score}/{judge}")])?;
            events.flush()?;
            self.events = Some(events);
            Ok(())
        });
        self.shown(run, opened)?;
        let first = |samples: usize| -> Result<_> {
            let pictures = run.test_data().clone().take(samples).batch(samples, Last::Keep).workers(1);
            // whoever needs these samples says what is wrong with them
            Ok(pictures.start()?.next().and_then(Result::ok))
        };
        self.shown = first(PICTURES)?;
        self.looked_into = first(PICTURES.min(run.test_data().batch_size()))?;
        Ok(())
    }

    fn on_train_batch_end(&mut self, run: &mut Context<'_>, step: &StepMetrics) -> Result<()> {
        let number = step.step as u64;
        if !number.is_multiple_of(self.every) {
            return Ok(());
        }
        let (rate, speed) = (step.learning_rate as f32, step.samples_per_second as f32);
        let written = self.write(|events| {
            events.scalar("loss/train", step.loss, number)?;
            events.scalar(&format!("{}/train", step.score.name()), step.score.value() as f32, number)?;
            events.scalar("learning_rate", rate, number)?;
            events.scalar("gradient_norm", step.gradient_norm, number)?;
            events.scalar("samples_per_second", speed, number)?;
            events.flush()
        });
        self.shown(run, written)
    }

    fn on_epoch_end(&mut self, run: &mut Context<'_>, epoch: &EpochMetrics) -> Result<()> {
        let step = run.steps();
        let written = self.write(|events| {
            events.scalar("epoch/loss", epoch.loss as f32, step)?;
            events.scalar(&format!("epoch/{}", epoch.score.name()), epoch.score.value() as f32, step)?;
            events.scalar("epoch/skipped_steps", epoch.skipped_steps as f32, step)?;
            let told =
                [("epoch/loss_scale", epoch.loss_scale), ("epoch/joules", epoch.joules.map(|joules| joules as f32))];
            for (tag, value) in told.into_iter().filter_map(|(tag, value)| Some((tag, value?))) {
                events.scalar(tag, value, step)?;
            }
            Ok(())
        });
        self.shown(run, written)
    }

    fn on_test_end(&mut self, run: &mut Context<'_>, test: &TestMetrics, _tally: &Tally) -> Result<()> {
        let written = self.evaluation(run, test);
        self.shown(run, written)
    }

    fn on_train_end(&mut self, run: &mut Context<'_>, summary: &Summary) -> Result<()> {
        let step = run.steps();
        let written = self.write(|events| {
            for stage in Stage::ALL {
                let report = &summary.stages[stage as usize];
                events.scalar(&format!("stages/{}_busy_ms", stage.name()), report.busy_ms as f32, step)?;
                events.scalar(&format!("stages/{}_exposed_ms", stage.name()), report.exposed_ms as f32, step)?;
            }
            events.finish(summary.completed)
        });
        self.shown(run, written)
    }
}
