//! Shows a run's events: a bar on a terminal, plain lines without one, JSON lines for machines.

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;

use indicatif::{ProgressBar, ProgressStyle};

use crate::error::Result;
use crate::train::{EpochMetrics, Event, Score, Scores, TestMetrics};
use crate::units::{counted, thousands};

use super::layout::for_stderr;
use super::report::{energy, loss, percent, score, seconds, summary};
use super::train::{BY_SIGNAL, how_to_go_on};

/// Listens to a run.
pub(super) struct Listener {
    json: bool,
    bar: ProgressBar,
    epochs: usize,
    /// What is said of the epoch that ended before and behind its evaluation, until that is in.
    epoch_line: Option<(String, String)>,
    /// The weights that were saved last.
    saved: Option<PathBuf>,
    /// The first error in writing to standard output.
    failed: Option<crate::error::Error>,
}

impl Listener {
    /// A listener that writes events as JSON to standard output, or else shows them on standard error and the summary
    /// on standard output.
    pub(super) fn new(json: bool) -> Self {
        let bar = if json { ProgressBar::hidden() } else { ProgressBar::new(0) };
        Self { json, bar, epochs: 0, epoch_line: None, saved: None, failed: None }
    }

    /// Shows an event.
    pub(super) fn hear(&mut self, event: Event) {
        if self.json {
            let line = serde_json::to_string(&event).expect("events are plain data") + "\n";
            self.result(&line);
        } else {
            self.show(&event);
        }
    }

    /// Takes down what is left on the screen of a run that failed, and says what is left of the run.
    pub(super) fn run_failed(&self) {
        self.bar.finish_and_clear();
        if let Some(path) = &self.saved {
            self.message(&format!("what was learned before is saved in {}", path.display()));
        }
    }

    /// Takes down what is left on the screen; the first error in writing a result, if there was one.
    pub(super) fn finish(self) -> Result<()> {
        self.bar.finish_and_clear();
        self.failed.map_or(Ok(()), Err)
    }

    fn show(&mut self, event: &Event) {
        match event {
            Event::Started(start) => {
                self.epochs = start.epochs;
                // 62 columns are left for the message on a terminal of 80.
                let style = ProgressStyle::with_template("{bar:10.cyan/blue} {percent:>3} %  {wide_msg}")
                    .expect("a fixed, well-formed template")
                    .progress_chars("━╸─");
                self.bar.set_style(style);
                self.bar.set_length(start.steps as u64);
                self.bar.set_position(start.steps_done as u64);
                let validation = start
                    .validation_samples
                    .map_or_else(|| " and".to_owned(), |samples| format!(", {} validation and", thousands(samples)));
                self.message(&format!(
                    "{} on {}: {} parameters, {} training{validation} {} test samples, on {}",
                    start.model,
                    start.dataset,
                    thousands(start.parameters),
                    thousands(start.train_samples),
                    thousands(start.test_samples),
                    start.device,
                ));
            }
            Event::Memory(need) => self.message(&need.to_string()),
            Event::Step(step) => {
                self.bar.set_position(step.step as u64);
                self.bar.set_message(format!(
                    "loss {}  {}  {} samples/s  {} left",
                    loss(step.loss),
                    match step.score {
                        Score::Accuracy(part) => format!("accuracy {}", percent(part)),
                        of_numbers @ Score::R2(_) => score(of_numbers),
                    },
                    thousands(step.samples_per_second as usize),
                    seconds(step.left_s),
                ));
            }
            Event::Epoch(EpochMetrics {
                epoch, loss: mean, score, samples_per_second, skipped_steps, joules, ..
            }) => {
                let epoch = format!("{}  {}", self.epoch(*epoch), learned("loss", *mean, *score));
                let mut cost = format!("  {} samples/s", thousands(*samples_per_second as usize));
                if let Some(joules) = joules {
                    cost += &format!("  {}", energy(*joules));
                }
                if *skipped_steps > 0 {
                    cost += &format!("  {} skipped so far", counted(*skipped_steps, "step"));
                }
                self.epoch_line = Some((epoch, cost));
            }
            Event::Evaluated { test, epoch, mid_epoch, .. } => {
                let line = self.evaluated(test, (!mid_epoch).then_some(*epoch));
                self.message(&line);
            }
            Event::Paused => self.message("paused"),
            Event::Resumed => self.message("going on"),
            Event::Notice { message } => self.message(message),
            Event::SaveFailed { message } => self.message(&format!("warning: not saved: {message}")),
            Event::Saved { path } => self.saved = Some(path.clone()),
            Event::Finished(end) => {
                self.bar.finish_and_clear();
                // its evaluation did not come to its end
                if let Some((epoch, cost)) = self.epoch_line.take() {
                    self.message(&(epoch + &cost));
                }
                if !end.completed {
                    self.message(BY_SIGNAL);
                }
                if let Some(reason) = &end.stopped {
                    self.message(&format!("stopped: {reason}"));
                }
                self.result(&format!("\n{}", summary(end)));
                if !end.completed {
                    self.message(&how_to_go_on(end));
                }
            }
        }
    }

    /// Which epoch of how many.
    fn epoch(&self, epoch: usize) -> String {
        let width = self.epochs.to_string().len();
        format!("epoch {epoch:>width$}/{}", self.epochs)
    }

    /// The line of an epoch with its evaluation, or of that alone where it was asked for within an epoch, or another
    /// process has told of the `epoch`.
    fn evaluated(&mut self, test: &TestMetrics, epoch: Option<usize>) -> String {
        let (score, iou) = match &test.scores {
            Scores::Classification(scores) => {
                let iou = if scores.by_iou { format!(" IoU {}", percent(scores.mean.iou)) } else { String::new() };
                (Score::Accuracy(scores.accuracy), iou)
            }
            Scores::Regression(scores) => (Score::R2(scores.r2), String::new()),
        };
        let tested = learned(test.part.name(), test.loss, score) + &iou;
        match (self.epoch_line.take(), epoch) {
            (Some((epoch, cost)), _) => format!("{epoch}  {tested}{cost}"),
            (None, Some(epoch)) => format!("{}  {tested}", self.epoch(epoch)),
            (None, None) => tested,
        }
    }

    /// A line above the bar, or alone where there is no terminal.
    fn message(&self, line: &str) {
        if std::io::stderr().is_terminal() {
            self.bar.println(for_stderr(line));
        } else {
            // a terminal that was closed hears nothing more, and the run is still to be saved
            let _ = writeln!(std::io::stderr(), "{line}");
        }
    }

    fn result(&mut self, text: &str) {
        if let Err(error) = super::print_result(text) {
            self.failed.get_or_insert(error);
        }
    }
}

/// A loss and a score in so few words that an epoch has room in the 80 columns of a terminal.
fn learned(what: &str, mean: f64, part: Score) -> String {
    format!("{what} {} {:>7}", loss(mean as f32), score(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::{ClassificationScores, HeldOut, MeanScores, MicroScores};

    fn lines(samples_per_second: f64, joules: Option<f64>, by_iou: bool) -> [String; 2] {
        let epoch = EpochMetrics {
            epoch: 9,
            loss: 0.59912,
            score: Score::Accuracy(0.83031),
            samples_per_second,
            skipped_steps: 0,
            loss_scale: None,
            joules,
        };
        let test = TestMetrics {
            part: HeldOut::Test,
            loss: 0.37031,
            samples: 359,
            scores: Scores::Classification(ClassificationScores {
                perplexity: 1.4,
                accuracy: 0.89136,
                correct: 320,
                targets: 359,
                top5: None,
                mean: MeanScores { iou: 0.76, ..MeanScores::default() },
                micro: MicroScores::default(),
                by_iou,
            }),
        };
        let mut listener = Listener::new(true);
        listener.epochs = 15;
        listener.show(&Event::Epoch(epoch));
        [listener.evaluated(&test, Some(9)), listener.evaluated(&test, None)]
    }

    #[test]
    fn an_epoch_with_all_that_is_told_of_it_fits_a_terminal() {
        let [epoch, alone] = lines(10_676.2, None, false);
        assert_eq!(epoch, "epoch  9/15  loss 0.5991 83.03 %  test 0.3703 89.14 %  10,676 samples/s");
        assert_eq!(alone, "test 0.3703 89.14 %");
        let [energy, _] = lines(10_676.2, Some(410.0), false);
        assert!(energy.ends_with("  10,676 samples/s  410 J"), "{energy}");
        let [segmented, _] = lines(76.0, None, true);
        assert!(segmented.contains("  test 0.3703 89.14 % IoU 76.00 %  76 samples/s"), "{segmented}");
        for line in [epoch, energy, segmented] {
            assert!(line.len() <= 80, "{} columns: {line}", line.len());
        }
    }
}
