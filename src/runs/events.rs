//! The event files of a folder, as one account.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::Path;
use std::time::SystemTime;

use crate::error::Error;
use crate::formats::tensorboard::{EventReader, Recorded, RecordedEvent};

use super::news::News;
use super::problems::Problems;
use super::{Point, RecordedHistogram};

/// How the names of event files are known.
const MARK: &[u8] = b"tfevents";
/// Files that are read in a folder.
const MAX_FILES: usize = 1_000;
/// Tags that are told apart.
const MAX_TAGS: usize = 10_000;

/// Whether a file of this name is an event file.
pub(super) fn is_event_file(name: &std::ffi::OsStr) -> bool {
    name.as_encoded_bytes().windows(MARK.len()).any(|part| part == MARK)
}

/// The event files of a folder, as far as they were read.
#[derive(Debug, Default)]
pub(super) struct EventFiles {
    /// In the order in which they are read, which is that in which they were begun: TensorBoard's names begin with the
    /// time.
    files: BTreeMap<OsString, Followed>,
    tags: BTreeSet<String>,
    /// When the first event was written: seconds since 1970.
    start: Option<f64>,
    too_many: [bool; 2],
}

#[derive(Debug)]
struct Followed {
    reader: EventReader,
    /// Length and time of change when it was read to its end.
    stamp: Option<(u64, Option<SystemTime>)>,
    problem: Option<String>,
}

/// A file is gone, or shorter than what was read of it.
pub(super) struct Another;

impl EventFiles {
    /// Reads on, about `most` bytes, and returns whether there is more; `epoch` tells how many epochs are done at a
    /// step.
    pub(super) fn read(
        &mut self,
        folder: &Path,
        most: u64,
        epoch: impl Fn(u64) -> f32,
        news: &mut News,
    ) -> Result<bool, Another> {
        self.list(folder)?;
        let mut left = most;
        for followed in self.files.values_mut() {
            let Ok(metadata) = std::fs::metadata(followed.reader.path()) else { continue };
            let stamp = Some((metadata.len(), metadata.modified().ok()));
            if metadata.len() < followed.reader.offset() {
                return Err(Another);
            }
            if followed.stamp == stamp || !metadata.is_file() {
                continue;
            }
            let before = followed.reader.offset();
            let (tags, start, too_many) = (&mut self.tags, &mut self.start, &mut self.too_many[1]);
            let mut take = |event: RecordedEvent| {
                let start = *start.get_or_insert(event.wall_time);
                *too_many |= !tell(event, start, &epoch, tags, news);
            };
            match followed.reader.read(left, &mut take) {
                Ok(true) => return Ok(true),
                outcome => {
                    followed.stamp = stamp;
                    followed.problem = outcome.err().map(reason);
                }
            }
            left = left.saturating_sub(followed.reader.offset() - before).max(1);
        }
        Ok(false)
    }

    /// What could not be read.
    pub(super) fn problems(&self, problems: &mut Problems) {
        for (name, followed) in &self.files {
            if let Some(reason) = &followed.problem {
                problems.add(format!("{}: {reason}", name.to_string_lossy()));
            }
        }
        let [files, tags] = self.too_many;
        if files {
            problems.add(format!("only {MAX_FILES} event files are read"));
        }
        if tags {
            problems.add(format!("only {MAX_TAGS} tags are told apart"));
        }
    }

    /// Looks which files there are.
    fn list(&mut self, folder: &Path) -> Result<(), Another> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let names: BTreeSet<OsString> =
            entries.map(|entry| entry.file_name()).filter(|name| is_event_file(name)).collect();
        if self.files.iter().any(|(name, followed)| followed.reader.offset() > 0 && !names.contains(name)) {
            return Err(Another);
        }
        self.too_many[0] = names.len() > MAX_FILES;
        for name in names.into_iter().take(MAX_FILES) {
            let path = folder.join(&name);
            let new = || Followed { reader: EventReader::new(path), stamp: None, problem: None };
            self.files.entry(name).or_insert_with(new);
        }
        Ok(())
    }
}

/// Passes an event on; false if there are too many tags for it.
fn tell(
    event: RecordedEvent,
    start: f64,
    epoch: &impl Fn(u64) -> f32,
    tags: &mut BTreeSet<String>,
    news: &mut News,
) -> bool {
    let RecordedEvent { wall_time, step, what } = event;
    let seconds = wall_time - start;
    let mut known = |tag: &String| tags.contains(tag) || tags.len() < MAX_TAGS && tags.insert(tag.clone());
    match what {
        Recorded::Start => news.cut(step),
        Recorded::Scalar { tag, .. } | Recorded::Histogram { tag, .. } if !known(&tag) => return false,
        Recorded::Scalar { tag, value } => {
            news.scalar(tag, Point { step, epoch: epoch(step), seconds, value });
        }
        Recorded::Histogram { tag, buckets } => news.histogram(tag, RecordedHistogram { step, seconds, buckets }),
    }
    true
}

/// What went wrong, without the file, which is named where it is listed.
fn reason(error: Error) -> String {
    match error {
        Error::Io { source, .. } => source.to_string(),
        Error::Format { reason, .. } => reason,
        other => other.to_string(),
    }
}
