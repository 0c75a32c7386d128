//! The folder that a run is saved in.

use std::fs::{File, TryLockError};
use std::io::{BufRead as _, BufReader, ErrorKind, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::error::{Error, Result};
use crate::files::{TEMPORARY, create_folder, replace, write_whole};
use crate::train::record::LOCK;

/// Where checkpoints are, in a run's folder.
pub(super) const CHECKPOINTS: &str = "checkpoints";

/// `runs/NAME/`: `config.toml`, `metrics.jsonl` and the weights.
pub(super) struct RunFolder {
    name: String,
    path: PathBuf,
    /// Held while the run goes on. A file of its own: on Windows others cannot read what is locked.
    _lock: File,
    metrics: File,
    /// Bytes that are in the file.
    metrics_bytes: u64,
    /// Those that found no room in it.
    unwritten: Vec<u8>,
}

/// Whoever looks whether a run is gone holds its lock for less than this.
const LOOKING: Duration = Duration::from_millis(50);
/// The most that is kept of lines that find no room: those of a hundred thousand steps and more.
const MAX_UNWRITTEN: usize = 32 << 20;

impl RunFolder {
    /// Makes a new folder in `out`: `name`, or else the first free `prefix-1`, `prefix-2`, … Never one that exists.
    pub(super) fn create(out: &Path, name: Option<&str>, prefix: &str) -> Result<Self> {
        create_folder(out)?;
        let (name, path) = match name {
            Some(name) => {
                let path = out.join(name);
                make_new(&path)?.then_some((name.to_owned(), path.clone())).ok_or_else(|| {
                    let message = format!("{}: this run exists already; choose another --name", path.display());
                    Error::Config(message)
                })?
            }
            None => first_free(out, prefix)?,
        };
        let lock = lock(&path)?;
        let file = path.join("metrics.jsonl");
        let metrics = File::create_new(&file).map_err(|error| Error::io(file, error))?;
        Ok(Self { name, path, _lock: lock, metrics, metrics_bytes: 0, unwritten: Vec::new() })
    }

    /// An error if another process trains in this folder, which need not be there.
    pub(super) fn check_ended(path: &Path) -> Result<()> {
        if path.join(LOCK).is_file() { lock(path).map(drop) } else { Ok(()) }
    }

    /// Opens the folder of a run that goes on: what was written to `metrics.jsonl` after `metrics_bytes` bytes is
    /// dropped, and so are files that were being written when it ended. If the file is shorter, `notices` has it.
    /// `check` may still refuse, when nobody else can change the folder any more, and nothing is changed yet.
    pub(super) fn reopen(
        path: &Path,
        metrics_bytes: u64,
        notices: &mut Vec<String>,
        check: impl FnOnce() -> Result<()>,
    ) -> Result<Self> {
        let lock = lock(path)?;
        check()?;
        let file = path.join("metrics.jsonl");
        let failed = |error| Error::io(&file, error);
        let mut metrics = File::options().read(true).write(true).open(&file).map_err(failed)?;
        let length = metrics.metadata().map_err(failed)?.len();
        let metrics_bytes = if length < metrics_bytes {
            notices.push(format!("{}: its last lines are lost; the curves have a gap there", file.display()));
            whole_lines(&mut metrics).map_err(failed)?
        } else {
            metrics_bytes
        };
        metrics.set_len(metrics_bytes).map_err(failed)?;
        metrics.seek(SeekFrom::End(0)).map_err(failed)?;
        for folder in [path.to_owned(), path.join(CHECKPOINTS)] {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                if entry.file_name().to_str().is_some_and(|name| name.starts_with(TEMPORARY)) {
                    // if it cannot be removed it is only in the way
                    let _ = std::fs::remove_file(entry.path());
                }
            }
        }
        let name = path.file_name().map_or_else(|| "run".into(), |name| name.to_string_lossy().into_owned());
        Ok(Self { name, path: path.to_owned(), _lock: lock, metrics, metrics_bytes, unwritten: Vec::new() })
    }

    /// Length of `metrics.jsonl`, which has all lines now, and keeps them if the power fails.
    ///
    /// # Errors
    /// If there is no room for those that could not be written before.
    pub(super) fn metrics_bytes(&mut self) -> Result<u64> {
        self.write_metrics()?;
        self.metrics.sync_data().map_err(|error| Error::io(self.path.join("metrics.jsonl"), error))?;
        Ok(self.metrics_bytes)
    }

    /// True if lines wait for room.
    pub(super) fn has_unwritten(&self) -> bool {
        !self.unwritten.is_empty()
    }

    /// True if no further line can wait.
    pub(super) fn is_crowded(&self) -> bool {
        self.unwritten.len() > MAX_UNWRITTEN
    }

    /// Where checkpoints are.
    pub(super) fn checkpoints(&self) -> PathBuf {
        self.path.join(CHECKPOINTS)
    }

    /// The run's name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends one line to `metrics.jsonl`. If that fails it is kept, and written before the next one.
    pub(super) fn append_metrics(&mut self, line: &impl Serialize) -> Result<()> {
        serde_json::to_writer(&mut self.unwritten, line).expect("metrics are plain numbers and strings");
        self.unwritten.push(b'\n');
        self.write_metrics()
    }

    fn write_metrics(&mut self) -> Result<()> {
        while !self.unwritten.is_empty() {
            // one write per line, unless the disk is full: another process that reads along sees whole lines
            match self.metrics.write(&self.unwritten) {
                Ok(0) => return Err(Error::io(self.path.join("metrics.jsonl"), ErrorKind::WriteZero.into())),
                Ok(written) => {
                    self.unwritten.drain(..written);
                    self.metrics_bytes += written as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io(self.path.join("metrics.jsonl"), error)),
            }
        }
        Ok(())
    }

    /// Writes a file of the run that is written again and again; see [`replace`].
    pub(super) fn replace(&self, file_name: &str, contents: &[u8]) -> Result<()> {
        replace(&self.path.join(file_name), contents)
    }

    /// Writes a file of the run whole or not at all, and returns its path.
    pub(super) fn write(&self, file_name: &str, contents: &[u8]) -> Result<PathBuf> {
        let path = self.path.join(file_name);
        write_whole(&path, contents)?;
        Ok(path)
    }
}

/// Keeps other processes from training in this folder for as long as the file is open, and tells [`crate::runs`] that
/// the run goes on.
fn lock(folder: &Path) -> Result<File> {
    let path = folder.join(LOCK);
    let file = File::create(&path).map_err(|error| Error::io(&path, error))?;
    let start = Instant::now();
    // some file systems know no locks
    while matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
        if start.elapsed() > LOOKING {
            let message = format!("{}: another process trains in this run; wait until it has ended", folder.display());
            return Err(Error::Config(message));
        }
        std::thread::sleep(LOOKING / 10);
    }
    Ok(file)
}

/// Bytes up to the end of the last whole line.
fn whole_lines(file: &mut File) -> std::io::Result<u64> {
    let mut whole = 0;
    let mut lines = BufReader::new(file);
    let mut line = Vec::new();
    loop {
        line.clear();
        match lines.read_until(b'\n', &mut line)? {
            0 => return Ok(whole),
            read if line.ends_with(b"\n") => whole += read as u64,
            _ => return Ok(whole),
        }
    }
}

/// True if the folder was made, false if something of that name was there.
fn make_new(path: &Path) -> Result<bool> {
    match std::fs::create_dir(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(Error::io(path, error)),
    }
}

fn first_free(out: &Path, prefix: &str) -> Result<(String, PathBuf)> {
    let mut number = 1_u64;
    loop {
        let name = format!("{prefix}-{number}");
        let path = out.join(&name);
        // Making it is the test, so that two runs started together get two folders.
        if make_new(&path)? {
            return Ok((name, path));
        }
        number += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_count_up_and_nothing_is_overwritten() {
        let out = tempfile::tempdir().expect("a temporary folder");
        let create = |name| RunFolder::create(&out.path().join("deep/er"), name, "digits-cnn");
        assert_eq!(create(None).expect("first").name(), "digits-cnn-1");
        assert_eq!(create(None).expect("second").name(), "digits-cnn-2");
        assert_eq!(create(Some("mine")).expect("named").name(), "mine");
        let error = create(Some("mine")).err().expect("it exists").to_string();
        assert!(error.contains("mine: this run exists already"), "{error}");
    }

    #[test]
    fn files_are_written_whole() {
        let out = tempfile::tempdir().expect("a temporary folder");
        let mut run = RunFolder::create(out.path(), Some("run"), "").expect("writable");
        run.write("a.txt", b"one").expect("writable");
        run.write("a.txt", b"two").expect("writable");
        run.append_metrics(&serde_json::json!({"loss": 1.5})).expect("writable");
        run.append_metrics(&serde_json::json!({"loss": 1.25})).expect("writable");
        let read = |name: &str| std::fs::read_to_string(run.path().join(name)).expect("it is there");
        assert_eq!(read("a.txt"), "two");
        assert_eq!(read("metrics.jsonl"), "{\"loss\":1.5}\n{\"loss\":1.25}\n");
        let files = std::fs::read_dir(run.path()).expect("readable").count();
        assert_eq!(files, 3, "a.txt, metrics.jsonl and the lock: no temporary file is left");
    }

    #[test]
    fn one_process_trains_in_a_folder() {
        let out = tempfile::tempdir().expect("a temporary folder");
        let mut first = RunFolder::create(out.path(), Some("run"), "").expect("writable");
        first.append_metrics(&1).expect("writable");
        let path = first.path().to_owned();
        let error = RunFolder::reopen(&path, 0, &mut Vec::new(), || Ok(())).err().expect("it is in use").to_string();
        assert!(error.contains("another process trains in this run"), "{error}");
        assert_eq!(std::fs::read(path.join("metrics.jsonl")).expect("readable"), b"1\n", "nothing was cut off");
        assert!(RunFolder::check_ended(&path).is_err());
        drop(first);
        RunFolder::check_ended(&path).expect("it has ended");
        RunFolder::check_ended(&path.join("none")).expect("nobody trains there");
        let changed = || Err(Error::Config("it went on".into()));
        let error = RunFolder::reopen(&path, 0, &mut Vec::new(), changed).err().expect("it is refused").to_string();
        assert_eq!(error, "it went on");
        assert_eq!(std::fs::read(path.join("metrics.jsonl")).expect("readable"), b"1\n", "nothing was cut off");
        RunFolder::reopen(&path, 2, &mut Vec::new(), || Ok(())).expect("it is free");
    }

    #[test]
    fn lines_that_a_power_cut_took_are_missed_and_no_reason_to_refuse() {
        let out = tempfile::tempdir().expect("a temporary folder");
        let path = RunFolder::create(out.path(), Some("run"), "").expect("writable").path().to_owned();
        std::fs::write(path.join("metrics.jsonl"), "{\"loss\":1.5}\n{\"lo").expect("writable");
        let mut notices = Vec::new();
        let mut run = RunFolder::reopen(&path, 1000, &mut notices, || Ok(())).expect("it goes on");
        assert!(notices[0].contains("lines are lost"), "{notices:?}");
        run.append_metrics(&2).expect("writable");
        assert_eq!(std::fs::read_to_string(path.join("metrics.jsonl")).expect("readable"), "{\"loss\":1.5}\n2\n");
        assert_eq!(run.metrics_bytes().expect("writable"), 15);
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_an_error() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let error = RunFolder::create(file.path(), None, "x").err().expect("a file is not a folder");
        assert!(matches!(error, Error::Io { .. }), "{error}");
    }
}
