//! Event files, which TensorBoard shows: writing scalars, histograms, pictures, a graph, and the settings of a run, and
//! reading scalars and histograms, those of other programs too.
//!
//! ```
//! use brasa::formats::tensorboard::{EventReader, EventWriter, Recorded};
//!
//! # let folder = tempfile::tempdir().unwrap();
//! let mut events = EventWriter::create(folder.path(), 0)?;
//! for step in 1..=10 {
//!     events.scalar("loss/train", 1.0 / step as f32, step)?;
//! }
//! events.flush()?;
//!
//! let mut reader = EventReader::new(events.path().to_owned());
//! let mut losses = Vec::new();
//! reader.read(1 << 20, &mut |event| {
//!     if let Recorded::Scalar { value, .. } = event.what {
//!         losses.push((event.step, value));
//!     }
//! })?;
//! assert_eq!((losses.len(), losses[9].0), (10, 10));
//! # Ok::<(), brasa::Error>(())
//! ```

mod graph;
mod histogram;
mod hparams;
mod proto;
mod read;
mod read_value;

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use prost::Message as _;

use crate::error::{Error, Result};

pub use graph::GraphNode;
pub use histogram::Histogram;
pub use hparams::Setting;
use proto::{Event, Image, SessionLog, Summary, Value, ValueKind, What};
pub use read::{EventReader, Recorded, RecordedEvent};
pub use read_value::Bucket;

/// What every file begins with.
const VERSION: &str = "brain.Event:2";
/// The start of a session, for TensorBoard.
const START: i32 = 1;

/// Writes one event file. What is written is seen by others after [`flush`](Self::flush).
#[derive(Debug)]
pub struct EventWriter {
    path: PathBuf,
    file: BufWriter<File>,
}

impl EventWriter {
    /// A new file in `folder`, for what happens from `step` on: what another file of this folder says of later steps is
    /// dropped by TensorBoard, so that a run that was resumed has one curve.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn create(folder: &Path, step: u64) -> Result<Self> {
        crate::files::create_folder(folder)?;
        // TensorBoard reads files of a folder by their names: by the time they were begun, if clocks are never set back
        let seconds = newest(folder).map_or(0, |newest| newest + 1).max(now() as u64);
        let mut number = 0;
        let (path, file) = loop {
            let name = format!("events.out.tfevents.{:010}.brasa.{}.{number}", seconds, std::process::id());
            let path = folder.join(name);
            match File::create_new(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => number += 1,
                other => break (path.clone(), other.map_err(|error| Error::io(path, error))?),
            }
        };
        let mut writer = Self { path, file: BufWriter::new(file) };
        writer.event(0, What::FileVersion(VERSION.into()))?;
        if step > 0 {
            writer.event(step, What::SessionLog(SessionLog { status: START }))?;
        }
        writer.flush()?;
        Ok(writer)
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A number.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn scalar(&mut self, tag: &str, value: f32, step: u64) -> Result<()> {
        self.value(tag, ValueKind::Simple(value), step)
    }

    /// How values are distributed.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn histogram(&mut self, tag: &str, histogram: &Histogram, step: u64) -> Result<()> {
        self.value(tag, ValueKind::Histogram(histogram.message()), step)
    }

    /// A picture of `height` by `width` pixels, row by row, with one byte each if it is grey and three if it is in
    /// colours.
    ///
    /// # Errors
    /// If it cannot be written.
    ///
    /// # Panics
    /// If the number of bytes is another.
    #[track_caller]
    pub fn image(&mut self, tag: &str, [height, width]: [usize; 2], pixels: &[u8], step: u64) -> Result<()> {
        let channels = pixels.len() / (height * width).max(1);
        assert!(
            matches!(channels, 1 | 3) && pixels.len() == channels * height * width,
            "image: {} bytes for {height}x{width} pixels",
            pixels.len()
        );
        let color = if channels == 1 { image::ExtendedColorType::L8 } else { image::ExtendedColorType::Rgb8 };
        let mut encoded = Vec::new();
        image::ImageEncoder::write_image(
            image::codecs::png::PngEncoder::new(&mut encoded),
            pixels,
            width as u32,
            height as u32,
            color,
        )
        .map_err(|error| Error::format(&self.path, error.to_string()))?;
        let image = Image { height: height as i32, width: width as i32, colorspace: channels as i32, encoded };
        self.value(tag, ValueKind::Image(image), step)
    }

    /// The graph of a model; a file has one.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn graph(&mut self, nodes: &[GraphNode]) -> Result<()> {
        self.event(0, What::GraphDef(graph::message(nodes).encode_to_vec()))
    }

    /// The settings of a run, and the tags of the scalars it is judged by, for the page that compares runs.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn settings(&mut self, settings: &[(String, Setting)], metrics: &[&str]) -> Result<()> {
        for value in hparams::beginning(settings, metrics, now()) {
            self.event(0, What::Summary(Summary { value: vec![value] }))?;
        }
        Ok(())
    }

    /// That the run is over.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(&mut self, success: bool) -> Result<()> {
        let value = hparams::end(success, now());
        self.event(0, What::Summary(Summary { value: vec![value] }))?;
        self.flush()
    }

    /// Shows others what was written.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn flush(&mut self) -> Result<()> {
        self.file.flush().map_err(|error| Error::io(&self.path, error))
    }

    fn value(&mut self, tag: &str, value: ValueKind, step: u64) -> Result<()> {
        let value = Value { tag: tag.to_owned(), metadata: None, value: Some(value) };
        self.event(step, What::Summary(Summary { value: vec![value] }))
    }

    fn event(&mut self, step: u64, what: What) -> Result<()> {
        let event = Event { wall_time: now(), step: i64::try_from(step).unwrap_or(i64::MAX), what: Some(what) };
        let written = self.file.write_all(&record(&event.encode_to_vec()));
        written.map_err(|error| Error::io(&self.path, error))
    }
}

/// A record of a TFRecord file: its length, the length's checksum, the data, the data's checksum.
fn record(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    let mut record = Vec::with_capacity(data.len() + 16);
    record.extend(length);
    record.extend(masked_checksum(&length).to_le_bytes());
    record.extend(data);
    record.extend(masked_checksum(data).to_le_bytes());
    record
}

/// CRC-32C, rotated and moved by a constant so that a checksum of data with checksums in it is no problem
/// (`tensorflow/core/lib/hash/crc32c.h`).
fn masked_checksum(data: &[u8]) -> u32 {
    crc32c::crc32c(data).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// The seconds in the name of the last event file in `folder`.
fn newest(folder: &Path) -> Option<u64> {
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let seconds = |name: std::ffi::OsString| -> Option<u64> {
        let (seconds, _) = name.to_str()?.split_once(".tfevents.")?.1.split_once('.')?;
        // ten digits are sorted as numbers are
        seconds.parse().ok().filter(|&seconds: &u64| seconds < 9_999_999_999)
    };
    names.filter_map(seconds).max()
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_behind_those_that_were_begun_before_whatever_the_clock_says() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("events.out.tfevents.5000000000.elsewhere"), "").expect("writable");
        let begin = || EventWriter::create(folder.path(), 1).expect("writable").path().to_owned();
        let names = [begin(), begin()].map(|path| path.file_name().expect("a file").to_string_lossy().into_owned());
        assert!(names[0].starts_with("events.out.tfevents.5000000001."), "{names:?}");
        assert!(names[1].starts_with("events.out.tfevents.5000000002."), "{names:?}");
    }

    /// The records of a file, their checksums checked.
    fn records(bytes: &[u8]) -> Vec<Event> {
        let mut rest = bytes;
        let mut events = Vec::new();
        while !rest.is_empty() {
            let length = u64::from_le_bytes(rest[..8].try_into().expect("8 bytes")) as usize;
            let whole = &rest[..length + 16];
            assert_eq!(whole, record(&whole[12..12 + length]));
            events.push(Event::decode(&whole[12..12 + length]).expect("an event"));
            rest = &rest[length + 16..];
        }
        events
    }

    #[test]
    fn what_is_written_is_read_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut writer = EventWriter::create(folder.path(), 3).expect("writable");
        writer.scalar("loss", 0.5, 4).expect("writable");
        writer.histogram("weights", &Histogram::of(&[1.0, 2.0]), 5).expect("writable");
        writer.image("picture", [1, 2], &[0, 0, 255, 255, 0, 0], 6).expect("writable");
        let node = GraphNode { name: "a/b".into(), op: "Conv".into(), inputs: vec![], shape: vec![1, 2] };
        writer.graph(&[node]).expect("writable");
        writer.settings(&[("lr".into(), Setting::Number(0.1))], &["loss"]).expect("writable");
        writer.finish(true).expect("writable");
        let events = records(&std::fs::read(&writer.path).expect("readable"));
        assert!(matches!(&events[0].what, Some(What::FileVersion(version)) if version == VERSION));
        assert!(matches!(&events[1].what, Some(What::SessionLog(log)) if log.status == START));
        let steps: Vec<_> = events.iter().map(|event| event.step).collect();
        assert_eq!(steps, [0, 3, 4, 5, 6, 0, 0, 0, 0]);
        // a second file of the same second has a name of its own
        assert_ne!(EventWriter::create(folder.path(), 0).expect("writable").path, writer.path);
    }

    /// The example of TensorFlow's and LevelDB's documentation of masked checksums: CRC-32C of 32 zeros is 0x8a9136aa.
    #[test]
    fn checksums_are_castagnoli_ones() {
        assert_eq!(crc32c::crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(masked_checksum(&[0; 32]), 0x8a91_36aa_u32.rotate_right(15).wrapping_add(0xa282_ead8));
    }
}
