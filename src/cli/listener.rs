//! Shows a run's events: a bar on a terminal, plain lines without one, JSON lines for machines.

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;

use indicatif::{ProgressBar, ProgressStyle};

use crate::error::Result;
use crate::train::{EpochMetrics, Event};
use crate::units::{counted, thousands};

use super::report::{energy, loss, percent, seconds, summary};
use super::train::{BY_SIGNAL, how_to_go_on};

/// Listens to a run.
pub(super) struct Listener {
    json: bool,
    bar: ProgressBar,
    epochs: usize,
    /// The line of the epoch that ended, until its evaluation is in.
    epoch_line: String,
    /// The weights that were saved last.
    saved: Option<PathBuf>,
    /// The first error in writing to standard output.
    failed: Option<crate::error::Error>,
}

impl Listener {
    /// A listener that writes events as JSON to standard output, or else shows them on standard error and the summary on
    /// standard output.
    pub(super) fn new(json: bool) -> Self {
        let bar = if json { ProgressBar::hidden() } else { ProgressBar::new(0) };
        Self { json, bar, epochs: 0, epoch_line: String::new(), saved: None, failed: None }
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
                self.bar.set_length((start.epochs * start.steps_per_epoch) as u64);
                self.bar.set_position(start.steps_done as u64);
                self.message(&format!(
                    "{} on {}: {} parameters, {} training and {} test samples, on {}",
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
                    "loss {}  accuracy {}  {} samples/s  {} left",
                    loss(step.loss),
                    percent(step.accuracy.into()),
                    thousands(step.samples_per_second as usize),
                    seconds(step.left_s),
                ));
            }
            Event::Epoch(EpochMetrics {
                epoch,
                loss: mean,
                accuracy,
                samples_per_second,
                skipped_steps,
                joules,
                ..
            }) => {
                let width = self.epochs.to_string().len();
                self.epoch_line = format!(
                    "epoch {epoch:>width$}/{}  loss {}  accuracy {:>8}  {:>7} samples/s",
                    self.epochs,
                    loss(*mean as f32),
                    percent(*accuracy),
                    thousands(*samples_per_second as usize),
                );
                if let Some(joules) = joules {
                    self.epoch_line += &format!("  {}", energy(*joules));
                }
                if *skipped_steps > 0 {
                    self.epoch_line += &format!("  {} skipped", counted(*skipped_steps, "step"));
                }
            }
            Event::Evaluated { test, .. } => {
                let line = std::mem::take(&mut self.epoch_line);
                let separator = if line.is_empty() { "" } else { "  " };
                let iou = if test.by_iou { format!("  mean IoU {:>8}", percent(test.mean.iou)) } else { String::new() };
                self.message(&format!(
                    "{line}{separator}test loss {}  test accuracy {:>8}{iou}",
                    loss(test.loss as f32),
                    percent(test.accuracy)
                ));
            }
            Event::Paused => self.message("paused"),
            Event::Resumed => self.message("going on"),
            Event::Notice { message } => self.message(message),
            Event::SaveFailed { message } => self.message(&format!("warning: not saved: {message}")),
            Event::Saved { path } => self.saved = Some(path.clone()),
            Event::Finished(end) => {
                self.bar.finish_and_clear();
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

    /// A line above the bar, or alone where there is no terminal.
    fn message(&self, line: &str) {
        if std::io::stderr().is_terminal() {
            self.bar.println(line);
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
