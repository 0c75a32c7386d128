//! Judging trained weights by held-out samples, without training.

use std::path::Path;

use crate::data::{self, Batch, Goal, OpenOptions, Pipeline, Skipped, Split, UNNAMED};
use crate::error::{Error, Result};
use crate::nn;

use super::Config;
use super::auto::AUTO;
use super::checkpoint;
use super::devices::open_first;
use super::learner::{Evaluated, Learner};
use super::record::RunRecord;
use super::scores::{ClassificationScores, HeldOut, Scores, Tally, TestMetrics};
use super::targets;
use super::trainer::{batched, pipelines};

/// How good a model is, as a whole and class by class.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Judged {
    /// As a whole.
    #[serde(flatten)]
    pub test: TestMetrics,
    /// Names of the classes, or of the numbers that are predicted.
    pub classes: Vec<String>,
    /// What was taken for what, or by how much numbers were missed: `confusion` or `residuals`.
    #[serde(flatten)]
    pub tally: Tally,
    /// Samples that could not be read.
    pub skipped: Skipped,
}

/// Judges the weights in the file `weights` by a part of `config`'s data, with its model and precision, on its device.
/// The validation part is the one that `config` holds out, where the data have none of their own.
///
/// # Errors
/// If the settings, the data, the device or the weights are not what they should be.
pub fn evaluate(config: Config, weights: &Path, part: HeldOut) -> Result<Judged> {
    evaluate_for(config, weights, None, Asked { part, quantize: false })
}

/// What an evaluation is asked for beside the weights.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    /// By which part of the data.
    pub(crate) part: HeldOut,
    /// With the values that weights have in 8 bits.
    pub(crate) quantize: bool,
}

/// The same, of what is `asked`, by data that may be others than those that the model has `learned` from: they are
/// brought to the form of those, and refused if they have other classes.
pub(crate) fn evaluate_for(
    config: Config,
    weights: &Path,
    learned: Option<&RunRecord>,
    asked: Asked,
) -> Result<Judged> {
    // what is for training alone; a cache is of use to who reads samples more than once
    let config = Config {
        ema: None,
        weights: None,
        skip_weights: Vec::new(),
        accumulate: 1,
        class_weights: None,
        cache: false,
        ..config.resolve()?
    };
    if config.device.as_deref() == Some(AUTO) {
        let message = "device is `auto`, which tries steps of a training: for an evaluation take best, cpu, gpu, gpu:N or part \
                       of a name (see `brasa devices`)";
        return Err(Error::Config(message.into()));
    }
    let device = open_first(config.device.as_deref())?;
    let data = match learned {
        Some(learned) => in_form(&config, learned)?,
        None => open(&config, &config.open_options())?,
    };
    let data = batched(data, &config)?;
    let part = match asked.part {
        HeldOut::Test => &data.test,
        HeldOut::Validation => data.validation.as_ref().ok_or_else(|| {
            let message = "has no validation part: judge by its test part, or train with --validation PERCENT";
            Error::Config(format!("`{}` {message}", config.dataset))
        })?,
    };
    let (mut learner, _) = Learner::new(&config, [data.train.format(), part.format()], &[device])?;
    checkpoint::load_weights(learner.model(), weights)?;
    if asked.quantize {
        nn::round_to_codes(learner.model())?;
    }
    let mut samples = 0;
    let mut batches = part.start()?;
    for batch in batches.by_ref() {
        let batch: Batch = batch?;
        samples += batch.samples;
        learner.evaluate(&batch)?;
    }
    let evaluated = learner.read_evaluation()?;
    let test = TestMetrics::new(asked.part, &evaluated, samples, learner.segments());
    let classes = part.description().classes.clone();
    let skipped = batches.skipped().clone();
    Ok(Judged { test, classes, tally: evaluated.tally, skipped })
}

/// The data that `config` names; a validation part of their own comes before one that is held out.
fn open(config: &Config, options: &OpenOptions) -> Result<Split<Pipeline>> {
    Ok(pipelines(data::open(&config.dataset, options)?, config))
}

/// The same in the form of those that `learned` is about.
fn in_form(config: &Config, learned: &RunRecord) -> Result<Split<Pipeline>> {
    let own = config.open_options();
    let is_other = learned.start.dataset != config.dataset.to_string();
    // a file of the same name may have been written anew
    let options = OpenOptions { any_size: own.any_size || is_other, columns: learned.input.columns(), ..own };
    let data = open(config, &options)?;
    let of = data.test.description();
    // a table without names says that it has a number
    let unnamed = [UNNAMED.to_owned()];
    let is_one = of.goal == Goal::Regress && learned.input.regresses && of.classes.len() == learned.classes.len();
    if !(is_one && (of.classes == unnamed || learned.classes == unnamed)) {
        learned.check_asked(of, "model", "judge it by data with")?;
    }
    let data = targets::learned(data, Some(learned));
    data.map(|part| learned.input.applied(part)).transpose()
}

impl TestMetrics {
    pub(super) fn new(part: HeldOut, evaluated: &Evaluated, samples: usize, by_iou: bool) -> Self {
        let Evaluated { loss, tally, top5 } = evaluated;
        let scores = match tally {
            Tally::Confusion(confusion) => Scores::Classification(ClassificationScores {
                perplexity: loss.exp(),
                accuracy: confusion.accuracy(),
                correct: confusion.correct(),
                targets: confusion.total(),
                top5: *top5,
                mean: confusion.means(),
                micro: confusion.micro(),
                by_iou,
            }),
            Tally::Residuals(residuals) => Scores::Regression(residuals.means()),
        };
        Self { part, loss: *loss, samples, scores }
    }
}
