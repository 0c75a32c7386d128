//! `metrics.jsonl` while it grows.

use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use crate::train::record::{Line, METRICS};

use super::open::open;
use super::problems::Problems;

/// The longest line that may be one.
const LONGEST: u64 = 1 << 20;
/// Bytes before the place that was reached, by which it is known again.
const REMEMBERED: usize = 256;

/// A file of lines, as far as it was read.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// Bytes read: whole lines, unless a line is too long.
    offset: u64,
    /// The last of them.
    tail: Vec<u8>,
    /// Lines read.
    count: u64,
    /// Within a line that is too long.
    skipping: bool,
    /// Lines that are none of ours.
    pub(super) problems: Problems,
}

/// What reading on came to.
pub(super) enum Reached {
    /// All whole lines were read.
    End,
    /// There may be more lines.
    More,
    /// The file is another one than before, or was cut off: it is to be read anew.
    Another,
    /// It cannot be read.
    Failed(String),
}

impl Lines {
    /// Reads on, about `most` bytes.
    pub(super) fn read(&mut self, path: &Path, most: u64, mut each: impl FnMut(Line)) -> Reached {
        let (mut bytes, most) = (Vec::new(), most.max(LONGEST + 1));
        match self.next_bytes(path, most, &mut bytes) {
            Ok(true) => {}
            Ok(false) => return Reached::Another,
            Err(error) if error.kind() == ErrorKind::NotFound && self.offset == 0 => return Reached::End,
            Err(error) if error.kind() == ErrorKind::NotFound => return Reached::Another,
            Err(error) => return Reached::Failed(error.to_string()),
        }
        let Some(end) = bytes.iter().rposition(|&byte| byte == b'\n').map(|last| last + 1) else {
            if bytes.len() as u64 <= LONGEST {
                return Reached::End;
            }
            // what comes after its end can be read again
            self.pass(&bytes);
            self.skipping = true;
            return Reached::More;
        };
        for line in bytes[..end].split_inclusive(|&byte| byte == b'\n') {
            self.count += 1;
            if std::mem::take(&mut self.skipping) {
                self.problems.add(format!("{METRICS}: line {}: it has more than {LONGEST} bytes", self.count));
            } else if !line.trim_ascii().is_empty() {
                match serde_json::from_slice(line) {
                    Ok(line) => each(line),
                    Err(error) => {
                        self.problems.add(format!("{METRICS}: line {}: {}", self.count, without_place(&error)))
                    }
                }
            }
        }
        self.pass(&bytes[..end]);
        if bytes.len() as u64 >= most { Reached::More } else { Reached::End }
    }

    /// Reads bytes from the place that was reached; false if the file is not the same up to there.
    fn next_bytes(&self, path: &Path, most: u64, bytes: &mut Vec<u8>) -> std::io::Result<bool> {
        let (mut file, length) = open(path)?;
        if length < self.offset {
            return Ok(false);
        }
        file.seek(SeekFrom::Start(self.offset - self.tail.len() as u64))?;
        let mut tail = vec![0; self.tail.len()];
        match file.read_exact(&mut tail) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(false),
            other => other?,
        }
        if tail != self.tail {
            return Ok(false);
        }
        file.take(most).read_to_end(bytes)?;
        Ok(true)
    }

    /// Takes note of bytes that were read.
    fn pass(&mut self, bytes: &[u8]) {
        self.offset += bytes.len() as u64;
        self.tail.extend_from_slice(&bytes[bytes.len().saturating_sub(REMEMBERED)..]);
        self.tail.drain(..self.tail.len().saturating_sub(REMEMBERED));
    }
}

/// What the parser says, without where in the line: it would be taken for the line in the file.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(&place).map_or_else(|| text.clone(), str::to_owned)
}
