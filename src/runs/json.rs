//! Files that are written anew as a whole, read again when they changed.

use std::io::{Error, ErrorKind, Read as _};
use std::path::Path;
use std::time::SystemTime;

use serde::de::DeserializeOwned;

use crate::stage::Stage;
use crate::train::Confusion;
use crate::train::record::{PlanRecord, Predictions, Sheet, Status};

use super::open::open;

/// The longest such file that is read: several times the plan of a large network.
const MAX_BYTES: u64 = 64 << 20;
/// Targets in a confusion matrix, with which its sums stay far from overflowing.
const MAX_TARGETS: u64 = 1 << 53;

/// A file that is written anew as a whole.
#[derive(Debug, Default)]
pub(super) struct Watched {
    /// Length and time of change of what was read last.
    stamp: Option<(u64, Option<SystemTime>)>,
    problem: Option<String>,
}

impl Watched {
    /// What the file says, if it changed since the last time and can be understood.
    pub(super) fn read<T>(&mut self, path: &Path, parse: fn(&[u8]) -> Result<T, String>) -> Option<T> {
        let metadata = match std::fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) => {
                self.stamp = None;
                let missing = error.kind() == ErrorKind::NotFound;
                self.problem = (!missing).then(|| error.to_string());
                return None;
            }
        };
        // taken before the contents, so that what is written in between is read the next time
        let stamp = Some((metadata.len(), metadata.modified().ok()));
        if self.stamp == stamp {
            return None;
        }
        let bytes = read_bytes(path);
        // what could not be read may be the next time; what is too long stays so until it is changed
        let is_read = bytes.as_ref().map_or_else(|error| error.kind() == ErrorKind::FileTooLarge, |_| true);
        self.stamp = if is_read { stamp } else { None };
        let parsed = bytes.map_err(|error| error.to_string()).and_then(|bytes| parse(&bytes));
        self.problem = parsed.as_ref().err().cloned();
        parsed.ok()
    }

    /// Why the file could not be understood as it is now.
    pub(super) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }
}

/// What a file has, if it is not too long.
pub(super) fn read_bytes(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let (file, _) = open(path)?;
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        let reason = format!("it has more than the {MAX_BYTES} bytes that are read");
        return Err(Error::new(ErrorKind::FileTooLarge, reason));
    }
    Ok(bytes)
}

pub(super) fn json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|error| error.to_string())
}

pub(super) fn settings(bytes: &[u8]) -> Result<toml::Table, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    text.parse().map_err(|error: toml::de::Error| error.message().to_owned())
}

pub(super) fn status(bytes: &[u8]) -> Result<Status, String> {
    let status: Status = json(bytes)?;
    let stages = status.stages.len();
    check([0, Stage::ALL.len()].contains(&stages), || format!("it has {stages} stages"))?;
    Ok(status)
}

pub(super) fn plan(bytes: &[u8]) -> Result<PlanRecord, String> {
    let plan: PlanRecord = json(bytes)?;
    let count = plan.kernels.len();
    for (place, kernel) in plan.kernels.iter().enumerate() {
        let known = kernel.wave < count && kernel.after.iter().all(|&after| after < count);
        check(known, || format!("kernel {place} names a wave or a kernel that there is not"))?;
    }
    Ok(plan)
}

pub(super) fn predictions(bytes: &[u8]) -> Result<Predictions, String> {
    let predictions: Predictions = json(bytes)?;
    let classes = predictions.classes.len();
    let is_class = |class: u32| (class as usize) < classes;
    for (place, sample) in predictions.samples.iter().enumerate() {
        let known = sample.label.is_none_or(is_class) && sample.likeliest.iter().all(|&(class, _)| is_class(class));
        check(known, || format!("sample {place} has a class that is none of the {classes}"))?;
        let count = sample.target.len();
        check(count == sample.predicted.len() && [0, classes].contains(&count), || {
            format!("sample {place} has {count} numbers and {} predicted ones, of {classes}", sample.predicted.len())
        })?;
    }
    predictions.pictures.iter().chain(predictions.masks.iter().flatten()).try_for_each(sheet)?;
    Ok(predictions)
}

/// Checks that a sheet is one, in the run's folder.
pub(super) fn sheet(sheet: &Sheet) -> Result<(), String> {
    let Sheet { file, height, width, columns } = sheet;
    check(*height > 0 && *width > 0 && *columns > 0, || format!("{file}: pictures without pixels"))?;
    let mut parts = Path::new(file).components();
    let plain = matches!((parts.next(), parts.next()), (Some(std::path::Component::Normal(_)), None));
    check(plain, || format!("{file} is not the name of a file in the run's folder"))
}

pub(super) fn confusion(bytes: &[u8]) -> Result<Confusion, String> {
    #[derive(serde::Deserialize)]
    struct Table {
        classes: usize,
        counts: Vec<u64>,
    }
    let Table { classes, counts } = json(bytes)?;
    check(classes.checked_mul(classes) == Some(counts.len()), || {
        format!("{} counts for {classes} classes", counts.len())
    })?;
    let total = counts.iter().try_fold(0_u64, |sum, &count| sum.checked_add(count).filter(|&sum| sum <= MAX_TARGETS));
    check(total.is_some(), || "more targets than can be counted".into())?;
    Ok(Confusion::new(classes, counts))
}

fn check(good: bool, reason: impl FnOnce() -> String) -> Result<(), String> {
    if good { Ok(()) } else { Err(reason()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_tried_again() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (path, mut watched) = (folder.path().join("config.toml"), Watched::default());
        std::fs::create_dir(&path).expect("writable");
        assert!(watched.read(&path, settings).is_none());
        assert_eq!((watched.problem(), watched.stamp), (Some("it is not a file"), None));
        std::fs::remove_dir(&path).expect("it was there");
        std::fs::write(&path, "= 3").expect("writable");
        assert!(watched.read(&path, settings).is_none());
        assert!(watched.problem().is_some() && watched.stamp.is_some(), "what cannot be understood stays so");
    }
}
