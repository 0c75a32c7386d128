//! Numbers and tables for people.

use std::fmt::Write as _;

use crate::error::shell_word;
use crate::train::{BEST, HeldOut, RegressionScores, Score, Scores, StageReport, Summary, TestMetrics, what_binds};
use crate::units::{counted, thousands};

use super::layout::{width, wrap};

/// The end of a run: the ten stages, the accuracy, and where everything was saved.
pub(super) fn summary(summary: &Summary) -> String {
    let mut text = stages(&summary.stages);
    if let Some(binding) = what_binds(&summary.stages) {
        text += &wrap(&binding.to_string(), width());
    }
    let _ = write!(text, "\ntrained        {} in {}", counted(summary.steps, "step"), seconds(summary.seconds));
    if summary.steps_before > 0 {
        let here = counted(summary.steps - summary.steps_before, "step");
        let took = seconds(summary.seconds - summary.seconds_before);
        let _ = write!(text, "; the table is of the last {here}, in {took}");
    }
    text.push('\n');
    let _ = match summary.joules {
        Some(joules) => writeln!(text, "energy         {} ({})", energy(joules), summary.energy),
        None if summary.energy.starts_with("not available") => writeln!(text, "energy         {}", summary.energy),
        None => Ok(()),
    };
    match summary.test {
        Some(test) => {
            let when = match summary.test_mid_epoch {
                Some(step) => format!(", after step {}", thousands(step)),
                None if summary.completed => String::new(),
                None => ", in the last evaluation".to_owned(),
            };
            text += &judged(&test, &when);
            if let Some(best) = summary.best.filter(|best| best.score() > test.score()) {
                let _ = writeln!(text, "best {:<8}  {}, in {BEST}", best.score_name(), main_score(&best));
            }
        }
        None => text.push_str("evaluation     none: stopped before\n"),
    }
    let judged_by = summary.test.map(|test| test.part).unwrap_or_default();
    let Summary { skipped_samples, skipped_tests, skipped_steps, .. } = summary;
    for (count, what) in
        [(*skipped_samples, "training"), (*skipped_tests, judged_by.name())].into_iter().filter(|(count, _)| *count > 0)
    {
        let _ = writeln!(text, "skipped        {} that could not be read", counted(count, &format!("{what} sample")));
    }
    if *skipped_steps > 0 {
        let _ = writeln!(text, "skipped        {} in which something was not finite", counted(*skipped_steps, "step"));
    }
    let _ = writeln!(text, "saved in       {}", summary.folder.display());
    if summary.completed && judged_by == HeldOut::Validation {
        let _ = writeln!(text, "test part      left to: brasa eval {}", shell_word(&summary.folder));
    }
    text
}

/// How well held-out samples were answered, and when.
fn judged(test: &TestMetrics, when: &str) -> String {
    let for_validation = if test.part == HeldOut::Validation { " for validation" } else { "" };
    match &test.scores {
        Scores::Classification(scores) => {
            let (correct, targets) = (thousands(scores.correct as usize), thousands(scores.targets as usize));
            let name = if test.part == HeldOut::Test { "test accuracy" } else { "accuracy" };
            let accuracy = percent(scores.accuracy);
            let mut text = format!("{name:<14} {accuracy} ({correct} of {targets}{for_validation}){when}\n");
            if scores.by_iou {
                let _ = writeln!(text, "mean IoU       {}{when}", percent(scores.mean.iou));
            }
            text
        }
        Scores::Regression(RegressionScores { r2, rmse, mae }) => {
            let name = if test.part == HeldOut::Test { "test R²" } else { "R²" };
            let (samples, [rmse, mae]) = (thousands(test.samples), [*rmse, *mae].map(digits));
            format!(
                "{name:<14} {r2:.4} ({samples} samples{for_validation}){when}\nRMSE           {rmse}{when}\nMAE            {mae}{when}\n"
            )
        }
    }
}

/// The number that models are compared by.
fn main_score(test: &TestMetrics) -> String {
    match &test.scores {
        Scores::Classification(_) => percent(test.score()),
        Scores::Regression(scores) => format!("{:.4}", scores.r2),
    }
}

/// One row for each stage. Busy: work done, on whatever thread or device; exposed: what training waited for.
fn stages(stages: &[StageReport]) -> String {
    let header = ["stage", "busy ms", "exposed ms", "share", "device", "source"].map(str::to_owned);
    let row = |stage: &StageReport| match stage.source {
        Some(source) => [
            stage.stage.name().to_owned(),
            format!("{:.1}", stage.busy_ms),
            format!("{:.1}", stage.exposed_ms),
            percent(stage.share),
            stage.device.clone(),
            source.name().to_owned(),
        ],
        None => [stage.stage.name(), "-", "-", "-", "-", "not run"].map(str::to_owned),
    };
    let total = [
        "total".to_owned(),
        format!("{:.1}", stages.iter().map(|stage| stage.busy_ms).sum::<f64>()),
        format!("{:.1}", stages.iter().map(|stage| stage.exposed_ms).sum::<f64>()),
        percent(stages.iter().map(|stage| stage.share).sum()),
        String::new(),
        String::new(),
    ];
    let rows: Vec<_> = std::iter::once(header).chain(stages.iter().map(row)).chain([total]).collect();
    let widths: [usize; 6] =
        std::array::from_fn(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0));
    let rule = "-".repeat(widths.iter().sum::<usize>() + 2 * (widths.len() - 1)) + "\n";
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        if number == 1 || number == rows.len() - 1 {
            text.push_str(&rule);
        }
        let [w0, w1, w2, w3, w4, w5] = widths;
        let [stage, busy, exposed, share, device, source] = row;
        let line = format!("{stage:<w0$}  {busy:>w1$}  {exposed:>w2$}  {share:>w3$}  {device:<w4$}  {source:<w5$}");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A loss with as many digits as tell something.
pub(super) fn loss(loss: f32) -> String {
    if loss < 1e5 { format!("{loss:.4}") } else { format!("{loss:.3e}") }
}

/// A number of whatever unit with as many digits as tell something.
pub(super) fn digits(number: f64) -> String {
    let size = number.abs();
    match size {
        _ if size == 0.0 || !number.is_finite() => number.to_string(),
        0.001..10.0 => format!("{number:.4}"),
        10.0..1e3 => format!("{number:.2}"),
        1e3..1e7 => (if number < 0.0 { "-" } else { "" }).to_owned() + &thousands(size.round() as u64),
        _ => format!("{number:.3e}"),
    }
}

/// How good answers were, in few words.
pub(super) fn score(score: Score) -> String {
    match score {
        Score::Accuracy(part) => percent(part),
        // one that diverges has too many digits
        Score::R2(part) if part < -99.0 => format!("R² {part:.1e}"),
        Score::R2(part) => format!("R² {part:.4}"),
    }
}

/// `part` of 1, as `97.50 %`.
pub(super) fn percent(part: f64) -> String {
    format!("{:.2} %", part * 100.0)
}

/// A time that people read: `23 ms`, `4.2 s`, `3 min 07 s`, `2 h 05 min`.
pub(super) fn seconds(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match whole {
        0 if (0.0005..0.1).contains(&seconds) => format!("{:.0} ms", 1e3 * seconds),
        0..10 => format!("{seconds:.1} s"),
        10..60 => format!("{whole} s"),
        60..3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3600, whole % 3600 / 60),
    }
}

/// An energy that people read: `3.2 J`, `410 J`, `12.3 kJ`.
pub(super) fn energy(joules: f64) -> String {
    match joules {
        0.0..10.0 => format!("{joules:.1} J"),
        10.0..1e3 => format!("{joules:.0} J"),
        1e3..1e6 => format!("{:.1} kJ", joules / 1e3),
        _ => format!("{:.1} MJ", joules / 1e6),
    }
}

/// Columns, the first one from the left, the others from the right.
pub(super) fn table(rows: &[Vec<String>]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows.first().map_or(0, Vec::len)).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| match column {
            0 => format!("{cell:<width$}"),
            _ => format!("  {cell:>width$}"),
        });
        text.push_str(cells.collect::<String>().trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(accuracy: f64) -> Summary {
        let test = |accuracy: f64| {
            let metrics = serde_json::json!({
                "loss": 0.5, "accuracy": accuracy, "correct": 3, "targets": 4, "samples": 4, "by_iou": false,
                "mean": { "precision": 0.7, "recall": 0.7, "f1": 0.7, "iou": 0.6 },
            });
            Some(serde_json::from_value(metrics).expect("metrics"))
        };
        Summary {
            completed: true,
            stopped: None,
            steps: 1300,
            steps_before: 0,
            test: test(accuracy),
            test_mid_epoch: None,
            best: test(0.75),
            skipped_samples: 0,
            skipped_tests: 0,
            skipped_steps: 0,
            seconds: 21.0,
            seconds_before: 0.0,
            joules: None,
            energy: "not available here: none".into(),
            stages: Vec::new(),
            folder: "runs/one".into(),
        }
    }

    #[test]
    fn what_was_better_than_the_end_is_said() {
        assert!(!summary(&ended(0.75)).contains("best"));
        let text = summary(&ended(0.5));
        assert!(text.contains("\nbest accuracy  75.00 %, in best.safetensors\n"), "{text}");
    }

    #[test]
    fn what_a_run_that_was_resumed_had_done_before_is_told_apart() {
        assert!(summary(&ended(0.75)).contains("\ntrained        1,300 steps in 21 s\n"));
        let text = summary(&Summary { steps_before: 1000, seconds_before: 15.0, ..ended(0.75) });
        assert!(
            text.contains("\ntrained        1,300 steps in 21 s; the table is of the last 300 steps, in 6.0 s\n"),
            "{text}"
        );
    }

    #[test]
    fn it_is_said_when_the_last_evaluation_was() {
        let said = |completed, test_mid_epoch| summary(&Summary { completed, test_mid_epoch, ..ended(0.75) });
        for (completed, step, when) in [
            (true, None, ""),
            (false, None, ", in the last evaluation"),
            (false, Some(1234), ", after step 1,234"),
            (true, Some(1234), ", after step 1,234"),
        ] {
            let text = said(completed, step);
            assert!(text.contains(&format!("test accuracy  75.00 % (3 of 4){when}\n")), "{text}");
        }
    }

    #[test]
    fn numbers_read_well() {
        let all = [0.0, 0.0234, 0.12, 4.23, 59.4, 187.0, 7500.0].map(seconds);
        assert_eq!(all, ["0.0 s", "23 ms", "0.1 s", "4.2 s", "59 s", "3 min 07 s", "2 h 05 min"]);
        assert_eq!([3.21, 410.4, 12_340.0, 2.5e6].map(energy), ["3.2 J", "410 J", "12.3 kJ", "2.5 MJ"]);
        assert_eq!(percent(0.98611), "98.61 %");
        let numbers = [0.0, -0.12345, 54.321, -54_321.4, 1.2345e9, 1e-5, f64::NAN].map(digits);
        assert_eq!(numbers, ["0", "-0.1235", "54.32", "-54,321", "1.234e9", "1.000e-5", "NaN"]);
        assert_eq!([0.12345, 2.3e8].map(loss), ["0.1235", "2.300e8"]);
    }
}
