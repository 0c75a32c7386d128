//! One run, as read so far.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Result;
use crate::formats::tensorboard::Bucket;
use crate::train::record::{PlanRecord, Predictions, RunRecord, Status};
use crate::train::{Confusion, Residuals};

use super::begun::begun;
use super::find::place;
use super::reader::Reader;
use super::{RecordedState, Series, export, state};

/// Bytes read before what they say is taken in.
const PIECE: u64 = 8 << 20;
/// What the versions of a recording begin behind those of the one before: more than there will ever be of one.
const VERSIONS: u64 = 1 << 32;

/// One run as read from its folder so far. What a file does not tell, or not yet, is missing.
#[derive(Debug, Default)]
pub struct Recording {
    /// The folder.
    pub folder: PathBuf,
    /// Where that is, without links and from the root on where this can be told: the same however the folder is named.
    pub place: PathBuf,
    /// Its path below the folder that is looked at; the folder's own name if it is that one.
    pub name: String,
    /// When it began, in milliseconds since 1970: as it says itself, or as its files lead to think.
    pub begun_unix_ms: u64,
    /// The settings, as `config.toml` has them.
    pub config: Option<toml::Table>,
    /// What it is.
    pub run: Option<RunRecord>,
    /// How it is now, or was at last.
    pub status: Option<Status>,
    /// Its training step as kernels.
    pub plan: Option<PlanRecord>,
    /// What the model says about some samples.
    pub predictions: Option<Predictions>,
    /// The [`version`](Self::version) in which `predictions` were read last.
    pub predictions_version: u64,
    /// What was taken for what in the last evaluation.
    pub confusion: Option<Confusion>,
    /// By how much numbers were missed in it.
    pub residuals: Option<Residuals>,
    /// Numbers by tag: of our own runs `loss/train`, `loss/test`, `accuracy/train`, `accuracy/test`, `learning_rate`,
    /// `gradient_norm`, `samples_per_second`, `memory_bytes`, `epoch/loss`, `epoch/accuracy`, `epoch/skipped_steps`,
    /// `epoch/loss_scale`, `epoch/joules`, `test/mean_iou`, `test/mean_f1`, `test/mean_precision`, `test/mean_recall`,
    /// `test/micro_f1`, `test/perplexity`, `test/top5`, of regression `r2/train`, `epoch/r2`, `r2/test`, `test/rmse`,
    /// `test/mae` in their place (of runs that are judged by a validation part, with `validation`
    /// in place of `test`) from `metrics.jsonl`, all else from event files.
    pub series: BTreeMap<String, Series>,
    /// Histograms by tag, at most 200 of each, evenly spaced.
    pub histograms: BTreeMap<String, Vec<RecordedHistogram>>,
    /// What could not be read: file and reason. What can be read again is no problem any more.
    pub problems: Vec<String>,
    /// Grows whenever anything changed. No other recording that this process has opened has the same, also not of the
    /// same folder.
    pub version: u64,
    /// Whether the folder was locked, as far as that could be told, if the run was silent when it was read last.
    pub(super) held: Option<bool>,
    /// Tags that `metrics.jsonl` tells of, whatever event files do.
    pub(super) measured: BTreeSet<String>,
    pub(super) reader: Reader,
}

/// How values were distributed at a step.
#[derive(Clone, PartialEq, Debug)]
pub struct RecordedHistogram {
    /// Training steps done.
    pub step: u64,
    /// Seconds since the run began.
    pub seconds: f64,
    /// How many values there were from where to where, in order, 64 buckets at most.
    pub buckets: Vec<Bucket>,
}

impl Recording {
    /// Reads what a folder has. One that is missing or cannot be read is a recording with a problem.
    pub fn open(folder: &Path) -> Self {
        let mut recording = Self::unread(folder, place(folder), own_name(folder));
        recording.refresh();
        recording
    }

    /// Of a folder that is still to be read.
    pub(super) fn unread(folder: &Path, place: PathBuf, name: String) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let version = NEXT.fetch_add(VERSIONS, Ordering::Relaxed);
        Self { folder: folder.to_owned(), place, name, begun_unix_ms: begun(folder), version, ..Self::default() }
    }

    /// Reads what is new, and returns whether anything changed.
    pub fn refresh(&mut self) -> bool {
        let before = self.version;
        let mut reader = std::mem::take(&mut self.reader);
        loop {
            let news = reader.read(&self.folder, PIECE);
            let more = news.more;
            self.apply(news);
            if !more {
                break;
            }
        }
        self.reader = reader;
        self.version != before
    }

    /// Whether the model says the class of each pixel, so that mean intersection over union is what counts.
    pub fn segments(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.input.segments)
    }

    /// Whether the model predicts numbers, so that R² is what counts.
    pub fn regresses(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.input.regresses)
    }

    /// The best score of an evaluation: accuracy, of segmentation mean intersection over union, of regression R².
    pub fn best(&self) -> Option<f64> {
        let tags = match (self.segments(), self.regresses()) {
            (true, _) => ["validation/mean_iou", "test/mean_iou"],
            (_, true) => ["r2/validation", "r2/test"],
            _ => ["accuracy/validation", "accuracy/test"],
        };
        self.first_of(tags)?.max()
    }

    /// The least loss of an evaluation.
    pub fn least_loss(&self) -> Option<f64> {
        self.first_of(["loss/validation", "loss/test"])?.min()
    }

    /// The numbers of the first of these tags that it has.
    fn first_of(&self, tags: [&str; 2]) -> Option<&Series> {
        tags.into_iter().find_map(|tag| self.series.get(tag))
    }

    /// What the run is doing, as far as it can be told.
    pub fn state(&self) -> RecordedState {
        state::of(self.status.as_ref(), self.held)
    }

    /// Whether nothing more is to be expected of it soon.
    pub(super) fn is_over(&self) -> bool {
        state::is_over(self.status.as_ref(), self.held)
    }

    /// Writes series as a table with the columns `run`, `tag`, `step`, `epoch`, `seconds`, `value`, a row for each
    /// point. Tags that the run does not have have no rows.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn to_csv(&self, tags: &[&str], out: &mut impl Write) -> Result<()> {
        export::csv(&[self], tags, out)
    }
}

/// The name of a folder, as of the one that is looked at.
pub(super) fn own_name(folder: &Path) -> String {
    let name = |folder: &Path| folder.file_name().map(|name| name.to_string_lossy().into_owned());
    let whole = || name(&std::path::absolute(folder).ok()?.canonicalize().ok()?);
    name(folder).or_else(whole).unwrap_or_else(|| folder.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_of_one_folder_share_no_version() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("writable");
        write("config.toml", "lr = 1");
        write("predictions.json", r#"{"step":1,"classes":[],"samples":[]}"#);
        let first = Recording::open(folder.path());
        let mut second = Recording::open(folder.path());
        assert!(first.version.abs_diff(second.version) > 1 << 20);
        assert_ne!(first.predictions_version, second.predictions_version);
        let before = second.predictions_version;
        write("config.toml", "lr = 0.5");
        assert!(second.refresh() && second.predictions_version == before);
        // of the same step, as of a run that took the place of another one
        write("predictions.json", r#"{"step":1,"classes":["a"],"samples":[]}"#);
        assert!(second.refresh() && second.predictions_version == second.version);
    }
}
