//! The end of a run that gets no better.

use std::path::PathBuf;

use serde_json::Value;

use crate::error::{Error, Result};
use crate::nn::{LoadOptions, load_weights, save_weights};
use crate::runtime::VarKind;

use super::callback::{Callback, Context};
use super::event::Start;
use super::scores::{Score, Tally, TestMetrics};

/// What of an evaluation is to get better.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Monitor {
    /// The loss, which is to become smaller.
    #[default]
    Loss,
    /// The part of the targets that is classified correctly.
    Accuracy,
    /// The mean F1 over classes; of masks, mean Dice.
    MeanF1,
    /// The mean intersection over union.
    MeanIou,
    /// The coefficient of determination, of regression.
    R2,
}

impl Monitor {
    fn name(self) -> &'static str {
        match self {
            Self::Loss => "loss",
            Self::Accuracy => "accuracy",
            Self::MeanF1 => "mean F1",
            Self::MeanIou => "mean IoU",
            Self::R2 => "R²",
        }
    }

    /// A number that is larger if the model is better; none of what is not measured, which is refused at the beginning.
    fn merit(self, test: &TestMetrics) -> f64 {
        let classes = test.classification();
        let merit = match self {
            Self::Loss => Some(-test.loss),
            Self::Accuracy => classes.map(|scores| scores.accuracy),
            Self::MeanF1 => classes.map(|scores| scores.mean.f1),
            Self::MeanIou => classes.map(|scores| scores.mean.iou),
            Self::R2 => test.regression().map(|scores| scores.r2),
        };
        merit.unwrap_or(f64::NAN)
    }
}

/// Ends a run whose evaluations have not become better for some epochs: Keras' `EarlyStopping`. Evaluations within an
/// epoch do not count.
///
/// ```
/// use brasa::train::{EarlyStopping, Monitor};
///
/// let patient = EarlyStopping::new(5).monitor(Monitor::Accuracy).min_delta(0.001).restore_best();
/// ```
#[derive(Debug)]
pub struct EarlyStopping {
    patience: usize,
    monitor: Monitor,
    min_delta: f64,
    restores: bool,
    /// The merit of the best evaluation.
    best: f64,
    /// Evaluations since then.
    since: usize,
}

impl EarlyStopping {
    /// After `patience` evaluations without a smaller held-out loss.
    pub fn new(patience: usize) -> Self {
        let (monitor, best) = (Monitor::default(), f64::NEG_INFINITY);
        Self { patience, monitor, min_delta: 0.0, restores: false, best, since: 0 }
    }

    /// Goes by this instead of the loss.
    #[must_use]
    pub fn monitor(mut self, monitor: Monitor) -> Self {
        self.monitor = monitor;
        self
    }

    /// Takes for no better what is better by no more than this: of the loss, of a part of 1 that is 0.001 for a tenth
    /// of a percent.
    #[must_use]
    pub fn min_delta(mut self, delta: f64) -> Self {
        self.min_delta = delta;
        self
    }

    /// Puts the weights of the best evaluation back when it ends the run, so that they are the ones saved; Keras'
    /// `restore_best_weights`. Until then they are in the run's folder, as `early-stopping.safetensors`, or with the name
    /// of what it goes by: two may watch a run if they go by different ones. A run that ends otherwise keeps its last
    /// weights. The optimizer's state stays that of the last step.
    #[must_use]
    pub fn restore_best(mut self) -> Self {
        self.restores = true;
        self
    }

    /// The weights that may be put back.
    fn weights(&self, run: &Context<'_>) -> PathBuf {
        run.folder().join(format!("{}.safetensors", self.name()))
    }
}

impl Callback for EarlyStopping {
    fn on_train_begin(&mut self, run: &mut Context<'_>, _start: &Start) -> Result<()> {
        let regresses = matches!(run.learner().score(0.0), Score::R2(_));
        let fits = match self.monitor {
            Monitor::Loss => true,
            Monitor::Accuracy | Monitor::MeanF1 | Monitor::MeanIou => !regresses,
            Monitor::R2 => regresses,
        };
        if fits {
            return Ok(());
        }
        let of = if regresses { "numbers" } else { "classes" };
        Err(Error::Config(format!(
            "EarlyStopping: there is no {} of {of}: monitor another measure",
            self.monitor.name()
        )))
    }

    fn name(&self) -> &str {
        match self.monitor {
            Monitor::Loss => "early-stopping",
            Monitor::Accuracy => "early-stopping-accuracy",
            Monitor::MeanF1 => "early-stopping-mean-f1",
            Monitor::MeanIou => "early-stopping-mean-iou",
            Monitor::R2 => "early-stopping-r2",
        }
    }

    fn on_test_end(&mut self, run: &mut Context<'_>, test: &TestMetrics, _tally: &Tally) -> Result<()> {
        if run.mid_epoch() {
            return Ok(());
        }
        let merit = self.monitor.merit(test);
        if merit > self.best + self.min_delta {
            (self.best, self.since) = (merit, 0);
            if self.restores {
                save_weights(run.judged_model(), self.weights(run))?;
            }
            return Ok(());
        }
        self.since += 1;
        if self.since < self.patience {
            return Ok(());
        }
        let (part, what) = (test.part.name(), self.monitor.name());
        let mut reason = format!("the {part} {what} has not become better for {} epochs", self.since);
        if self.restores && self.best.is_finite() {
            load_weights(run.judged_model(), self.weights(run), &LoadOptions::default())?;
            // an average takes its running statistics from the model that learns whenever it is saved
            for (learning, judged) in run.model().variables().iter().zip(run.judged_model().variables()) {
                if judged.kind() == VarKind::Buffer && judged.id() != learning.id() {
                    learning.set(&judged.tensor())?;
                }
            }
            reason += "; the weights of the best one are back";
        }
        run.stop(reason);
        Ok(())
    }

    fn state(&self) -> Option<Value> {
        // JSON has no infinity
        Some(serde_json::json!({ "merit": self.best.is_finite().then_some(self.best), "since": self.since }))
    }

    fn load_state(&mut self, state: Value) -> Result<()> {
        self.best = state["merit"].as_f64().unwrap_or(f64::NEG_INFINITY);
        self.since = state["since"].as_u64().unwrap_or(0) as usize;
        Ok(())
    }
}
