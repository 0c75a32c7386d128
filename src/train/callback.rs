//! What may be hung into a run: a trait with the moments that Keras' callbacks have.

use std::fmt;
use std::path::Path;

use serde_json::Value;

use crate::data::Pipeline;
use crate::error::Result;
use crate::nn::Module;

use super::event::{EpochMetrics, Start, StepMetrics, Summary};
use super::learner::{Learner, Prediction};
use super::rates::checked_factor;
use super::scores::{Tally, TestMetrics};

/// Something that is called at the moments of a run. All methods do nothing unless they are written.
///
/// Moments are those of Keras' callbacks, and one more, [`on_save`](Self::on_save). What Keras hands over as `logs`
/// comes as numbers with names, and late where they would have to be waited for: steps are handed to the device long
/// before it has done them, so `on_train_batch_begin` and `on_test_batch_*` go by what the host does,
/// [`on_train_batch_end`](Self::on_train_batch_end) by what is known. What is asked for at a moment ([`Context::stop`],
/// [`Context::save`]) is done after the step or the evaluation that is under way.
///
/// An error ends the run, which saves what it has.
///
/// ```
/// use brasa::train::{Callback, Config, Context, Control, EpochMetrics, Trainer};
///
/// /// Stops once nine of ten training samples are right.
/// struct GoodEnough;
///
/// impl Callback for GoodEnough {
///     fn on_epoch_end(&mut self, run: &mut Context<'_>, epoch: &EpochMetrics) -> brasa::Result<()> {
///         if epoch.score.value() > 0.9 {
///             run.stop("nine of ten are right");
///         }
///         Ok(())
///     }
/// }
///
/// # let out = tempfile::tempdir().unwrap();
/// let config = Config { epochs: 50, device: Some("cpu".into()), out: out.path().into(), ..Config::default() };
/// let mut trainer = Trainer::new(config)?;
/// trainer.add_callback(GoodEnough);
/// let summary = trainer.run(&Control::default(), &mut |_| {})?;
/// assert_eq!(summary.stopped.as_deref(), Some("nine of ten are right"));
/// # Ok::<(), brasa::Error>(())
/// ```
pub trait Callback: Send {
    /// Under what name its state is kept in checkpoints; two callbacks of a run must not share one if they keep any.
    fn name(&self) -> &str {
        std::any::type_name::<Self>()
    }

    /// Everything is ready; training begins, or goes on.
    ///
    /// # Errors
    /// The callback's own, which ends the run.
    fn on_train_begin(&mut self, _run: &mut Context<'_>, _start: &Start) -> Result<()> {
        Ok(())
    }

    /// An epoch begins, or goes on in a run that was resumed; the first is number 1.
    ///
    /// # Errors
    /// The callback's own, which ends the run.
    fn on_epoch_begin(&mut self, _run: &mut Context<'_>, _epoch: usize) -> Result<()> {
        Ok(())
    }

    /// The training step of this number, from 1, is about to be handed to the device. Of those before, the last ones
    /// may not be known yet.
    ///
    /// # Errors
    /// The callback's own, which ends the run.
    fn on_train_batch_begin(&mut self, _run: &mut Context<'_>, _step: usize) -> Result<()> {
        Ok(())
    }

    /// The results of a training step are known. They are read some steps late, so that the device is never waited for;
    /// how many depends on `log_every` and on how long steps take.
    ///
    /// # Errors
    /// The callback's own, which ends the run.
    fn on_train_batch_end(&mut self, _run: &mut Context<'_>, _step: &StepMetrics) -> Result<()> {
        Ok(())
    }

    /// An epoch is complete; its evaluation follows. A run that goes on with that does not say so again.
    ///
    /// # Errors
    /// The callback's own, which ends the run.
    fn on_epoch_end(&mut self, _run: &mut Context<'_>, _epoch: &EpochMetrics) -> Result<()> {
        Ok(())
    }

    /// The held-out samples are going to be judged: after each epoch, and when it is asked for within one. A run that is
    /// stopped meanwhile ends without [`on_test_end`](Self::on_test_end), and begins the evaluation anew when it goes on.
    ///
    /// # Errors
    /// The callback's own, which ends the run.
    fn on_test_begin(&mut self, _run: &mut Context<'_>) -> Result<()> {
        Ok(())
    }

    /// The batch of this number, from 1, of an evaluation is about to be handed to the device.
    ///
    /// # Errors
    /// The callback's own, which ends the run.
    fn on_test_batch_begin(&mut self, _run: &mut Context<'_>, _batch: usize) -> Result<()> {
        Ok(())
    }

    /// It was handed over. What it says is part of what [`on_test_end`](Self::on_test_end) hears, and is not known
    /// before.
    ///
    /// # Errors
    /// The callback's own, which ends the run.
    fn on_test_batch_end(&mut self, _run: &mut Context<'_>, _batch: usize) -> Result<()> {
        Ok(())
    }

    /// The held-out samples were judged.
    ///
    /// # Errors
    /// The callback's own, which ends the run.
    fn on_test_end(&mut self, _run: &mut Context<'_>, _test: &TestMetrics, _tally: &Tally) -> Result<()> {
        Ok(())
    }

    /// A checkpoint was written.
    ///
    /// # Errors
    /// The callback's own, which ends the run.
    fn on_save(&mut self, _run: &mut Context<'_>, _checkpoint: &Path) -> Result<()> {
        Ok(())
    }

    /// The run is over.
    ///
    /// # Errors
    /// The callback's own, which ends the run.
    fn on_train_end(&mut self, _run: &mut Context<'_>, _summary: &Summary) -> Result<()> {
        Ok(())
    }

    /// What a resumed run has to know; `None` if nothing.
    fn state(&self) -> Option<Value> {
        None
    }

    /// Takes back what [`Callback::state`] gave when the checkpoint was written.
    ///
    /// # Errors
    /// If it cannot read that state; the run is not resumed then.
    fn load_state(&mut self, _state: Value) -> Result<()> {
        Ok(())
    }
}

/// What a callback sees of the run, and may ask of it.
pub struct Context<'a> {
    pub(super) learner: &'a Learner,
    pub(super) test_data: &'a Pipeline,
    pub(super) folder: &'a Path,
    pub(super) steps: u64,
    pub(super) epoch: usize,
    pub(super) mid_epoch: bool,
    /// What the model said about the first held-out samples in the last evaluation.
    pub(super) predictions: &'a [Prediction],
    pub(super) requests: &'a mut Requests,
}

impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("folder", &self.folder)
            .field("steps", &self.steps)
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

/// What callbacks asked for.
#[derive(Default)]
pub(super) struct Requests {
    pub(super) stop: Option<String>,
    pub(super) save: bool,
    pub(super) learning_rate_factor: Option<f64>,
    pub(super) notices: Vec<String>,
}

impl Context<'_> {
    /// The model that learns; its variables can be read.
    pub fn model(&self) -> &dyn Module {
        self.learner.learning_model()
    }

    /// The model that is judged and saved: the one that learns, or the moving average of its weights (`ema`).
    pub fn judged_model(&self) -> &dyn Module {
        self.learner.model()
    }

    /// The run's folder, for files of one's own.
    pub fn folder(&self) -> &Path {
        self.folder
    }

    /// Training steps whose results are known.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The epoch that is under way, from 1.
    pub fn epoch(&self) -> usize {
        self.epoch
    }

    /// True in an evaluation that was asked for within an epoch: one more than those after each epoch.
    pub fn mid_epoch(&self) -> bool {
        self.mid_epoch
    }

    /// Ends the run after this step, in good order; `reason` is part of its summary.
    pub fn stop(&mut self, reason: impl Into<String>) {
        self.requests.stop.get_or_insert(reason.into());
    }

    /// Has a checkpoint written after this step.
    pub fn save(&mut self) {
        self.requests.save = true;
    }

    /// Tells whoever listens something that should be known, and is no reason to end the run.
    pub fn notice(&mut self, message: impl Into<String>) {
        self.requests.notices.push(message.into());
    }

    /// From now on learning rates are those of the schedule times `factor`.
    ///
    /// # Panics
    /// If `factor` is not a positive number.
    #[track_caller]
    pub fn set_learning_rate_factor(&mut self, factor: f64) {
        self.requests.learning_rate_factor = Some(checked_factor(factor));
    }

    /// The held-out samples, as they are judged.
    pub fn test_data(&self) -> &Pipeline {
        self.test_data
    }

    pub(super) fn learner(&self) -> &Learner {
        self.learner
    }
}
