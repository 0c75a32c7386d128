//! `brasa eval`: how good a run's weights are, class by class.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::ArgMatches;
use clap::parser::ValueSource;

use crate::data::DatasetName;
use crate::error::{Error, Result};
use crate::train::record::RunRecord;
use crate::train::{
    Asked, ClassificationScores, Confusion, HeldOut, Judged, Residuals, Scores, Tally, TestMetrics, Trainer,
    best_weights, evaluate_for,
};
use crate::units::thousands;

use super::report::{digits, percent, table};

/// Classes of which a matrix is printed; more are no pleasure to read.
const MAX_IN_MATRIX: usize = 20;

/// Flags of `brasa eval`.
#[derive(clap::Args)]
pub(super) struct EvalArgs {
    /// The run's folder
    run: PathBuf,
    /// Weights to judge [default: those of the run's best evaluation, or its last ones]
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// Other data to judge by, with the same classes or numbers, in the size and the levels of those learned from
    #[arg(long, value_name = "DATA")]
    dataset: Option<DatasetName>,
    /// Where to compute: best, cpu, gpu, gpu:N or part of a name (see `brasa devices`) [default: the device of the run]
    #[arg(long, value_name = "DEVICE", env = "BRASA_DEVICE")]
    device: Option<String>,
    /// The part of the data to judge by
    #[arg(long, value_enum, default_value_t)]
    part: HeldOut,
    /// Judge it with its weights in 8 bits, as `brasa infer --quantize` keeps them
    #[arg(long)]
    quantize: bool,
    /// Write one JSON object to standard output
    #[arg(long)]
    json: bool,
}

/// Judges and prints; `matches` knows which flags were given.
pub(super) fn run(args: &EvalArgs, matches: &ArgMatches) -> Result<ExitCode> {
    let mut config = Trainer::config_of(&args.run)?;
    if let Some(dataset) = &args.dataset {
        config.dataset = dataset.clone();
    }
    if args.device.is_some() {
        config.device.clone_from(&args.device);
    }
    // there for trainings, which try the devices; elsewhere it is the best one
    let in_environment = matches.value_source("device") == Some(ValueSource::EnvVariable);
    if in_environment && config.device.as_deref() == Some("auto") {
        config.device = Some("best".into());
    }
    let weights = args.weights.clone().or_else(|| best_weights(&args.run)).ok_or_else(|| {
        let run = args.run.display();
        Error::Config(format!("{run}: there are no weights; was the run saved?"))
    })?;
    let asked = Asked { part: args.part, quantize: args.quantize };
    let judged = evaluate_for(config, &weights, RunRecord::of(&args.run)?.as_ref(), asked)?;
    if args.json {
        super::print_result(&(serde_json::to_string(&judged).expect("plain data") + "\n"))?;
    } else {
        let in_bits = if args.quantize { ", in 8 bits" } else { "" };
        super::print_result(&format!("weights        {}{in_bits}\n{}", weights.display(), text(&judged)))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn text(judged: &Judged) -> String {
    let Judged { test, classes, tally, skipped } = judged;
    let mut text = match (&test.scores, tally) {
        (Scores::Classification(scores), Tally::Confusion(confusion)) => {
            of_classes(test, scores) + &per_class(scores, classes, confusion) + &matrix(classes, confusion)
        }
        (_, Tally::Residuals(residuals)) => of_numbers(test) + &per_number(classes, residuals),
        (Scores::Regression(_), Tally::Confusion(_)) => unreachable!("scores are computed from what was counted"),
    };
    if skipped.count > 0 {
        let _ = writeln!(text, "\nskipped        {} samples that could not be read:", thousands(skipped.count));
        skipped.messages.iter().for_each(|message| text += &format!("  {message}\n"));
        text += if skipped.count > skipped.messages.len() { "  ...\n" } else { "" };
    }
    text
}

fn of_classes(test: &TestMetrics, scores: &ClassificationScores) -> String {
    let mut text = String::new();
    let (correct, targets) = (thousands(scores.correct as usize), thousands(scores.targets as usize));
    let what = if scores.by_iou { "pixels" } else { "samples" };
    let part = test.part.name();
    let _ = writeln!(text, "accuracy       {} ({correct} of {targets} {part} {what})", percent(scores.accuracy));
    if let Some(top5) = scores.top5 {
        let _ = writeln!(text, "top 5          {}", percent(top5));
    }
    let _ = writeln!(text, "loss           {:.4} (perplexity {:.4})", test.loss, scores.perplexity);
    let _ = writeln!(text, "mean IoU       {}", percent(scores.mean.iou));
    let _ = writeln!(text, "{:<14} {}\n", format!("mean {}", overlap(scores)), percent(scores.mean.f1));
    text
}

fn of_numbers(test: &TestMetrics) -> String {
    let (samples, part) = (thousands(test.samples), test.part.name());
    format!("R²             {:.4} ({samples} {part} samples)\nloss           {:.4}\n\n", test.score(), test.loss)
}

/// What F1 is called: of masks, Dice.
fn overlap(scores: &ClassificationScores) -> &'static str {
    if scores.by_iou { "Dice" } else { "F1" }
}

fn per_class(of: &ClassificationScores, classes: &[String], confusion: &Confusion) -> String {
    let header = ["class", "precision", "recall", overlap(of), "IoU", "support"].map(str::to_owned);
    let row = |(number, name): (usize, &String)| {
        let scores = confusion.class(number);
        let [precision, recall, f1, iou] = [scores.precision, scores.recall, scores.f1, scores.iou].map(percent);
        [name.clone(), precision, recall, f1, iou, thousands(scores.support as usize)].to_vec()
    };
    let together = |name: &str, scores: [f64; 4]| {
        let scores = scores.map(percent).into_iter();
        std::iter::once(name.to_owned()).chain(scores).chain([thousands(confusion.total() as usize)]).collect()
    };
    let (mean, micro) = (of.mean, of.micro);
    let mean = together("mean", [mean.precision, mean.recall, mean.f1, mean.iou]);
    let micro = together("micro", [micro.precision, micro.recall, micro.f1, micro.iou]);
    let rows: Vec<_> =
        std::iter::once(header.to_vec()).chain(classes.iter().enumerate().map(row)).chain([mean, micro]).collect();
    table(&rows)
}

/// Errors in the numbers' own units.
fn per_number(names: &[String], residuals: &Residuals) -> String {
    let header = ["number", "R²", "RMSE", "MAE", "mean error"].map(str::to_owned).to_vec();
    let row = |(number, name): (usize, &String)| {
        let scores = residuals.number(number);
        let errors = [scores.rmse, scores.mae, residuals.mean_error(number)].map(digits);
        [name.clone(), format!("{:.4}", scores.r2)].into_iter().chain(errors).collect()
    };
    let rows: Vec<Vec<String>> = std::iter::once(header).chain(names.iter().enumerate().map(row)).collect();
    table(&rows)
}

/// Rows are true classes, columns what the model said; nothing if they are many.
fn matrix(classes: &[String], confusion: &Confusion) -> String {
    if classes.len() > MAX_IN_MATRIX {
        return String::new();
    }
    let mut header = vec!["is \\ said".to_owned()];
    header.extend(classes.iter().cloned());
    let row = |(of, name): (usize, &String)| {
        let counts = (0..classes.len()).map(|said| match confusion.count(of, said) {
            0 => ".".to_owned(),
            count => count.to_string(),
        });
        std::iter::once(name.clone()).chain(counts).collect()
    };
    let rows: Vec<Vec<String>> = std::iter::once(header).chain(classes.iter().enumerate().map(row)).collect();
    "\n".to_owned() + &table(&rows)
}
