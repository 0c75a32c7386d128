//! Reading event files while they grow.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use prost::Message as _;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use crate::error::{Error, Result};

use super::proto::{ReadEvent, ReadValue};
use super::read_value::{Bucket, Plugin, interpret};
use super::{START, masked_checksum};

/// The longest record that is read: it may hold a few pictures, or a large graph.
const MAX_RECORD_BYTES: u64 = 64 << 20;
/// What is kept between two records, at most.
const KEPT_BYTES: usize = 1 << 20;
/// Bytes of a record before its data: the length, and the length's checksum.
const HEAD: u64 = 12;
/// And after it: the data's checksum.
const FOOT: u64 = 4;

/// Something that an event file says.
#[derive(Clone, PartialEq, Debug)]
pub struct RecordedEvent {
    /// When it was written: seconds since 1970.
    pub wall_time: f64,
    /// The training step it is about.
    pub step: u64,
    /// What it is.
    pub what: Recorded,
}

/// What an event file says. Pictures, sounds, texts, graphs and settings are passed over.
#[derive(Clone, PartialEq, Debug)]
pub enum Recorded {
    /// A session begins: what was said before of this step and later ones is void.
    Start,
    /// A number.
    Scalar {
        /// Its name.
        tag: String,
        /// The number.
        value: f64,
    },
    /// How values are distributed.
    Histogram {
        /// Its name.
        tag: String,
        /// How many values there are from where to where, in order, 64 buckets at most.
        buckets: Vec<Bucket>,
    },
}

/// Reads one event file, from where it was left the last time.
#[derive(Debug)]
pub struct EventReader {
    path: PathBuf,
    offset: u64,
    buffer: Vec<u8>,
    /// What shows the values of a tag: TensorFlow says so with the first one only.
    plugins: HashMap<String, Plugin>,
}

impl EventReader {
    /// Of this file, from its beginning.
    pub fn new(path: PathBuf) -> Self {
        Self { path, offset: 0, buffer: Vec::new(), plugins: HashMap::new() }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of it that were read.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Reads on, whole records of about `most` bytes together and at least one, and returns whether there are more. A
    /// record that is not complete yet is left for the next time.
    ///
    /// # Errors
    /// If the file cannot be read, or a record is damaged: its checksum is wrong, or it is longer than 64 MiB. It is
    /// left there, so the next call will say the same.
    pub fn read(&mut self, most: u64, each: &mut dyn FnMut(RecordedEvent)) -> Result<bool> {
        let failed = |error| Error::io(&self.path, error);
        let file = File::open(&self.path).map_err(failed)?;
        let end = file.metadata().map_err(failed)?.len();
        let mut file = BufReader::with_capacity(1 << 16, file);
        file.seek(SeekFrom::Start(self.offset)).map_err(failed)?;
        let start = self.offset;
        while self.offset - start < most {
            if !self.record(&mut file, end)? {
                return Ok(false);
            }
            let length = self.buffer.len();
            let told = self.tell(each);
            if length > KEPT_BYTES {
                self.buffer = Vec::new();
            }
            told.map_err(|reason| self.damaged(&reason))?;
            self.offset += HEAD + length as u64 + FOOT;
        }
        Ok(self.offset < end)
    }

    /// Reads the next record, if all of it is there.
    fn record(&mut self, file: &mut BufReader<File>, end: u64) -> Result<bool> {
        let left = end.saturating_sub(self.offset);
        if left < HEAD {
            return Ok(false);
        }
        let mut length = [0; 8];
        self.fill(file, &mut length)?;
        let checksum = self.checksum(file)?;
        if masked_checksum(&length) != checksum {
            return Err(self.damaged("the checksum of its length is wrong"));
        }
        let length = u64::from_le_bytes(length);
        if length > MAX_RECORD_BYTES {
            let reason = format!("it says it has {length} bytes, and {MAX_RECORD_BYTES} at most are read");
            return Err(self.damaged(&reason));
        }
        if left < HEAD + length + FOOT {
            return Ok(false);
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(length as usize, 0);
        self.fill(file, &mut buffer)?;
        self.buffer = buffer;
        if masked_checksum(&self.buffer) != self.checksum(file)? {
            return Err(self.damaged("its checksum is wrong"));
        }
        Ok(true)
    }

    fn fill(&self, file: &mut BufReader<File>, bytes: &mut [u8]) -> Result<()> {
        file.read_exact(bytes).map_err(|error| Error::io(&self.path, error))
    }

    fn checksum(&self, file: &mut BufReader<File>) -> Result<u32> {
        let mut bytes = [0; 4];
        self.fill(file, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn damaged(&self, reason: &str) -> Error {
        Error::format(&self.path, format!("the record at byte {}: {reason}", self.offset))
    }

    /// Tells what the record says.
    fn tell(&mut self, each: &mut dyn FnMut(RecordedEvent)) -> Result<(), String> {
        let event = ReadEvent::decode(self.buffer.as_slice()).map_err(|error| error.to_string())?;
        let (wall_time, step) = (event.wall_time, u64::try_from(event.step).unwrap_or(0));
        let mut tell = |what| each(RecordedEvent { wall_time, step, what });
        if event.session_log.is_some_and(|log| log.status == START) {
            tell(Recorded::Start);
        }
        // one value after the other: as structs, a record of empty ones would take many times its size
        let mut rest = event.summary.as_slice();
        while !rest.is_empty() {
            if let Some(what) = next_value(&mut rest)?.and_then(|value| interpret(value, &mut self.plugins)) {
                tell(what);
            }
        }
        Ok(())
    }
}

/// The next field of a summary, if it is a value.
fn next_value(rest: &mut &[u8]) -> Result<Option<ReadValue>, String> {
    let text = |error: prost::DecodeError| error.to_string();
    let (field, wire_type) = decode_key(rest).map_err(text)?;
    if (field, wire_type) != (1, WireType::LengthDelimited) {
        skip_field(wire_type, field, rest, DecodeContext::default()).map_err(text)?;
        return Ok(None);
    }
    let length = usize::try_from(decode_varint(rest).map_err(text)?).unwrap_or(usize::MAX);
    let (value, after) = rest.split_at_checked(length).ok_or("it is cut off")?;
    *rest = after;
    ReadValue::decode(value).map(Some).map_err(text)
}
