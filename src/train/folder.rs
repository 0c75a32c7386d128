//! The folder that a run is saved in.

use std::fs::File;
use std::io::{ErrorKind, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::{Error, Result};
use crate::files::{TEMPORARY, create_folder, replace, write_whole};

/// Where checkpoints are, in a run's folder.
pub(super) const CHECKPOINTS: &str = "checkpoints";

/// `runs/NAME/`: `config.toml`, `metrics.jsonl` and the weights.
pub(super) struct RunFolder {
    name: String,
    path: PathBuf,
    metrics: File,
    /// Bytes that are in the file.
    metrics_bytes: u64,
    /// Those that found no room in it.
    unwritten: Vec<u8>,
}

/// The most that is kept of lines that find no room: those of a hundred thousand steps and more.
const MOST_UNWRITTEN: usize = 32 << 20;

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
        let file = path.join("metrics.jsonl");
        let metrics = File::create_new(&file).map_err(|error| Error::io(file, error))?;
        Ok(Self { name, path, metrics, metrics_bytes: 0, unwritten: Vec::new() })
    }

    /// Opens the folder of a run that goes on: what was written to `metrics.jsonl` after `metrics_bytes` bytes is dropped, and
    /// so are files that were being written when it ended.
    pub(super) fn reopen(path: &Path, metrics_bytes: u64) -> Result<Self> {
        let file = path.join("metrics.jsonl");
        let failed = |error| Error::io(&file, error);
        let mut metrics = File::options().write(true).open(&file).map_err(failed)?;
        let length = metrics.metadata().map_err(failed)?.len();
        if length < metrics_bytes {
            let message = format!("it has {length} bytes instead of at least {metrics_bytes}: was it changed?");
            return Err(Error::format(&file, message));
        }
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
        Ok(Self { name, path: path.to_owned(), metrics, metrics_bytes, unwritten: Vec::new() })
    }

    /// Length of `metrics.jsonl`, which has all lines now.
    ///
    /// # Errors
    /// If there is no room for those that could not be written before.
    pub(super) fn metrics_bytes(&mut self) -> Result<u64> {
        self.write_metrics()?;
        Ok(self.metrics_bytes)
    }

    /// True if lines wait for room.
    pub(super) fn has_unwritten(&self) -> bool {
        !self.unwritten.is_empty()
    }

    /// True if no further line can wait.
    pub(super) fn is_crowded(&self) -> bool {
        self.unwritten.len() > MOST_UNWRITTEN
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
        assert_eq!(files, 2, "no temporary file is left");
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_an_error() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let error = RunFolder::create(file.path(), None, "x").err().expect("a file is no folder");
        assert!(matches!(error, Error::Io { .. }), "{error}");
    }
}
