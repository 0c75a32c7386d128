//! Files in the published layouts, made here, and what the readers say of them. `tests/malformed/` damages them.

mod csv;
#[cfg(feature = "download")]
mod fetching;
mod folders;
mod masks;
mod published;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use image::{DynamicImage, ImageFormat, RgbImage};
use tempfile::TempDir;

use super::*;
use crate::data::{Goal, Sample, Target, Values};

fn temporary() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// Writes a file, and the folders that it is in.
fn write(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().expect("it is in a folder")).expect("writable");
    fs::write(path, bytes).expect("writable");
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("in memory");
    encoder.finish().expect("in memory")
}

/// A tar archive of files by name; a name that ends with `/` is a folder.
fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        if name.ends_with('/') {
            header.set_entry_type(tar::EntryType::Directory);
        }
        builder.append_data(&mut header, name, *bytes).expect("in memory");
    }
    builder.into_inner().expect("in memory")
}

/// A tar archive of one member without contents, whose name may lead anywhere, unlike those that the crate writes.
fn raw_tar(name: &str, kind: tar::EntryType) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.as_gnu_mut().expect("it is one").name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_entry_type(kind);
    header.set_size(0);
    if kind.is_symlink() {
        header.set_link_name("/etc").expect("short");
    }
    header.set_cksum();
    [&header.as_bytes()[..], &[0; 1024]].concat()
}

fn encode(picture: impl Into<DynamicImage>, format: ImageFormat) -> Vec<u8> {
    let mut bytes = std::io::Cursor::new(Vec::new());
    picture.into().write_to(&mut bytes, format).expect("in memory");
    bytes.into_inner()
}

/// An RGB picture whose pixels count up from `first`.
fn rgb(width: u32, height: u32, first: u8) -> RgbImage {
    RgbImage::from_fn(width, height, |x, y| {
        let place = (y * width + x) as u8;
        image::Rgb([first.wrapping_add(place), 100, 200])
    })
}

/// An RGB picture as a PNG.
fn png(width: u32, height: u32, first: u8) -> Vec<u8> {
    encode(rgb(width, height, first), ImageFormat::Png)
}

fn options(data_dir: &Path) -> OpenOptions {
    OpenOptions { data_dir: Some(data_dir.to_owned()), ..OpenOptions::default() }
}

#[track_caller]
fn opened(name: &str, data_dir: &Path) -> Split<Arc<dyn Dataset>> {
    open(&name.parse().expect("a name"), &options(data_dir)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// What is said of a data set that cannot be opened.
#[track_caller]
fn refused(name: &str, data_dir: &Path) -> String {
    match open(&name.parse().expect("a name"), &options(data_dir)) {
        Ok(_) => panic!("{name} was opened"),
        Err(error) => error.to_string(),
    }
}

#[track_caller]
fn sample(data: &dyn Dataset, index: usize) -> Sample {
    // what was in it before must not matter
    let mut sample = Sample::default();
    sample.set_picture([3, 70, 70]);
    sample.set_mask(7);
    data.get(index, &mut sample).unwrap_or_else(|error| panic!("sample {index}: {error}"));
    sample
}

fn bytes(sample: &Sample) -> &[u8] {
    let Values::U8(pixels) = &sample.input else { panic!("pictures are bytes") };
    pixels
}

#[track_caller]
fn says(message: &str, words: &[&str]) {
    for word in words {
        assert!(message.contains(word), "`{word}` is missing in: {message}");
    }
}

fn text(path: PathBuf) -> String {
    path.into_os_string().into_string().expect("UTF-8")
}
