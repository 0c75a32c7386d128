//! Samples in one file: a head line, then a record for each, in the order in which they were first asked for.
//!
//! A record is its sample's number, the length of what follows, the CRC-32C of these two and the sample (16 bytes,
//! little-endian), then the sample. A file whose writer was stopped ends in a part of a record, which is cut off when
//! it is opened again; a record that was damaged is as good as none.

use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;

use parking_lot::{Mutex, RwLock};

use super::{Sample, Target, Values};
use crate::error::{Error, Result};

const FORMAT: &str = "brasa samples 2";
const RECORD_HEAD: u64 = 16;
/// Kinds of targets.
const CLASS: u8 = 0;
const MASK: u8 = 1;
const NUMBERS: u8 = 2;

pub(in crate::data) struct Disk {
    path: PathBuf,
    /// Once it is open.
    file: RwLock<Option<Contents>>,
}

struct Contents {
    /// What the samples are.
    description: String,
    file: Mutex<File>,
    /// Where the records begin, and how long they are without their head.
    places: RwLock<HashMap<u64, (u64, u32)>>,
}

impl Disk {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, file: RwLock::new(None) }
    }

    /// Opens the file, or makes it, for samples as `description` says.
    pub(super) fn open(&self, description: &str) -> Result<()> {
        let mut contents = self.file.write();
        match &*contents {
            None => *contents = Some(self.opened(description)?),
            Some(open) if open.description != description => {
                return Err(self.holds(&open.description, description));
            }
            Some(_) => {}
        }
        Ok(())
    }

    fn holds(&self, found: &str, wanted: &str) -> Error {
        let reason = format!("it holds `{found}` instead of `{wanted}`: remove it, or use another file");
        Error::format(&self.path, reason)
    }

    fn opened(&self, description: &str) -> Result<Contents> {
        let io = |error| Error::io(&self.path, error);
        let mut options = OpenOptions::new();
        let mut file = options.read(true).write(true).create(true).truncate(false).open(&self.path).map_err(io)?;
        // some file systems know no locks
        if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
            return Err(Error::format(&self.path, "another run is using this cache: give each run a file of its own"));
        }
        let head = format!("{FORMAT}: {}\n", description.replace('\n', " "));
        if file.metadata().map_err(io)?.len() == 0 {
            file.write_all(head.as_bytes()).map_err(io)?;
        }
        file.rewind().map_err(io)?;
        let mut found = Vec::new();
        let longest = head.len() as u64 + 4096;
        BufReader::new((&file).take(longest)).read_until(b'\n', &mut found).map_err(io)?;
        if found != head.as_bytes() {
            return Err(self.holds(String::from_utf8_lossy(&found).trim_end(), head.trim_end()));
        }
        let places = places(&mut file, head.len() as u64).map_err(io)?;
        Ok(Contents { description: description.into(), file: Mutex::new(file), places: RwLock::new(places) })
    }

    /// Reads the sample of this number, if it is there and whole.
    pub(super) fn get(&self, index: u64, sample: &mut Sample) -> Result<bool> {
        let contents = self.file.read();
        let contents = contents.as_ref().expect("a cache is opened before it is used");
        let Some((start, length)) = contents.places.read().get(&index).copied() else { return Ok(false) };
        let mut record = vec![0; RECORD_HEAD as usize + length as usize];
        let read = |file: &mut File, record: &mut [u8]| {
            file.seek(SeekFrom::Start(start))?;
            file.read_exact(record)
        };
        read(&mut contents.file.lock(), &mut record).map_err(|error| Error::io(&self.path, error))?;
        let (head, body) = record.split_at(RECORD_HEAD as usize);
        let whole = head == record_head(index, body) && decode(body, sample).is_some();
        if !whole {
            contents.places.write().remove(&index);
        }
        Ok(whole)
    }

    /// Adds a sample at the end of the file.
    pub(super) fn put(&self, index: u64, sample: &Sample) -> Result<()> {
        let contents = self.file.read();
        let contents = contents.as_ref().expect("a cache is opened before it is used");
        let body = encode(sample);
        let record = [&record_head(index, &body)[..], &body].concat();
        let mut file = contents.file.lock();
        if contents.places.read().contains_key(&index) {
            return Ok(());
        }
        let mut write = || {
            let start = file.seek(SeekFrom::End(0))?;
            // what a full disk left of a record would hide all that follow
            file.write_all(&record).inspect_err(|_| drop(file.set_len(start)))?;
            Ok(start)
        };
        let start = write().map_err(|error| Error::io(&self.path, error))?;
        contents.places.write().insert(index, (start, body.len() as u32));
        Ok(())
    }
}

/// Finds the records of a file behind its head, and cuts off what is not whole one.
fn places(file: &mut File, head: u64) -> io::Result<HashMap<u64, (u64, u32)>> {
    let end = file.metadata()?.len();
    let mut places = HashMap::new();
    let mut start = head;
    let mut record = [0; RECORD_HEAD as usize];
    while start + RECORD_HEAD <= end {
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(&mut record)?;
        let index = u64::from_le_bytes(record[..8].try_into().expect("eight bytes"));
        let length = u32::from_le_bytes(record[8..12].try_into().expect("four bytes"));
        let next = start + RECORD_HEAD + u64::from(length);
        if next > end {
            break;
        }
        // of two for one sample, the later one was written because the earlier one was damaged
        places.insert(index, (start, length));
        start = next;
    }
    file.set_len(start)?;
    Ok(places)
}

fn record_head(index: u64, body: &[u8]) -> [u8; RECORD_HEAD as usize] {
    let mut head = [0; RECORD_HEAD as usize];
    head[..8].copy_from_slice(&index.to_le_bytes());
    head[8..12].copy_from_slice(&(body.len() as u32).to_le_bytes());
    let sum = crc32c::crc32c_append(crc32c::crc32c(&head[..12]), body);
    head[12..].copy_from_slice(&sum.to_le_bytes());
    head
}

/// Type of the input (0 bytes, 1 floats), rank, sides as u32, kind of target (0 class, 1 mask, 2 numbers) with the class
/// or the bytes of the mask or the numbers as u32, then the input and these.
fn encode(sample: &Sample) -> Vec<u8> {
    let mut bytes = vec![u8::from(matches!(sample.input, Values::F32(_))), sample.shape.len() as u8];
    for &side in &sample.shape {
        bytes.extend((side as u32).to_le_bytes());
    }
    let (kind, number, target) = match &sample.target {
        Target::Class(class) => (CLASS, *class, &[][..]),
        Target::Mask(mask) => (MASK, mask.len() as u32, &mask[..]),
        Target::Numbers(numbers) => (NUMBERS, size_of_val(&numbers[..]) as u32, bytemuck::cast_slice(numbers)),
    };
    bytes.push(kind);
    bytes.extend(number.to_le_bytes());
    bytes.extend(sample.input.as_bytes());
    bytes.extend(target);
    bytes
}

/// What [`encode`] wrote, in the memory of `sample`; `None` if it is nothing that it writes.
fn decode(mut bytes: &[u8], sample: &mut Sample) -> Option<()> {
    let [is_float, rank] = *bytes.split_off(..2)? else { return None };
    sample.shape.clear();
    for _ in 0..rank {
        sample.shape.push(word(&mut bytes)? as usize);
    }
    let [kind] = *bytes.split_off(..1)? else { return None };
    let number = word(&mut bytes)?;
    let length = if kind == CLASS { 0 } else { number as usize };
    let (input, target) = bytes.split_at_checked(bytes.len().checked_sub(length)?)?;
    let count = sample.shape.iter().try_fold(1_usize, |count, &side| count.checked_mul(side))?;
    if input.len() != count * if is_float == 1 { 4 } else { 1 } {
        return None;
    }
    if is_float == 1 {
        sample.input = Values::F32(floats(input));
    } else {
        let pixels = sample.input.as_bytes_mut();
        pixels.clear();
        pixels.extend_from_slice(input);
    }
    match kind {
        CLASS => sample.target = Target::Class(number),
        MASK => sample.set_mask(target.len()).copy_from_slice(target),
        NUMBERS if target.len().is_multiple_of(4) => sample.target = Target::Numbers(floats(target)),
        _ => return None,
    }
    Some(())
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

fn word(bytes: &mut &[u8]) -> Option<u32> {
    bytes.split_off(..4)?.try_into().ok().map(u32::from_le_bytes)
}
