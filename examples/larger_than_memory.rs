//! Data that does not fit in memory: pictures in tar archives, streamed through a pipeline whose memory is bounded.
//!
//! `cargo run --release --example larger_than_memory -- 20` goes through 20 GB: four archives of 32 MB, listed as often as it
//! takes.

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use brasa::data::{Dataset, Description, Goal, Last, Normalization, On, Pipeline, Sample, Target};
use brasa::{Error, Result};

const SIDE: usize = 64;
const BYTES: usize = 3 * SIDE * SIDE;
const SHARDS: usize = 4;

/// Knows where each picture begins, and reads it when it is asked for.
struct Shards {
    description: Description,
    files: Vec<(PathBuf, Mutex<File>)>,
    /// File and place of each.
    pictures: Vec<(usize, u64)>,
    rounds: usize,
}

impl Dataset for Shards {
    fn description(&self) -> &Description {
        &self.description
    }
    fn len(&self) -> usize {
        self.pictures.len() * self.rounds
    }
    fn get(&self, index: usize, sample: &mut Sample) -> Result<()> {
        let (shard, place) = self.pictures[index / self.rounds];
        let (path, file) = &self.files[shard];
        let mut file = file.lock().expect("no reader panics");
        let read = file.seek(SeekFrom::Start(place)).and_then(|_| file.read_exact(sample.set_picture([3, SIDE, SIDE])));
        sample.target = Target::Class(index as u32 % 2);
        read.map_err(|error| Error::io(path, error))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let gigabytes: f64 = std::env::args().nth(1).as_deref().unwrap_or("1").parse()?;
    let (folder, mut files, mut pictures) = (tempfile::tempdir()?, Vec::new(), Vec::new());
    for shard in 0..SHARDS {
        let path = folder.path().join(format!("{shard}.tar"));
        write(&path, shard)?;
        let mut archive = tar::Archive::new(File::open(&path)?);
        for entry in archive.entries_with_seek()? {
            pictures.push((shard, entry?.raw_file_position()));
        }
        files.push((path.clone(), Mutex::new(File::open(path)?)));
    }
    let (goal, normalization, classes) = (Goal::Classify, Normalization::default(), vec!["even".into(), "odd".into()]);
    let description = Description { name: "shards".into(), goal, classes, shape: vec![3, SIDE, SIDE], normalization };
    let rounds = (gigabytes * 1e9 / (pictures.len() * BYTES) as f64).ceil() as usize;

    // from all archives in turn, in runs of 16, and what comes is shuffled: numbers, not pictures, lie in the buffer
    let pipeline = Pipeline::new(Arc::new(Shards { description, files, pictures, rounds }));
    let pipeline = pipeline.interleave(SHARDS, 16).shuffle_buffer(4096).augment("flip,crop=4".parse()?, On::Host);
    let (start, mut samples, mut batches) = (Instant::now(), 0, pipeline.batch(256, Last::Drop).start()?);
    while let Some(batch) = batches.next() {
        let batch = batch?;
        samples += batch.samples;
        batches.recycle(batch);
    }
    let (read, seconds) = ((samples * BYTES) as f64 / 1e9, start.elapsed().as_secs_f64());
    println!("{samples} pictures, {read:.1} GB in {seconds:.1} s: {:.2} GB/s", read / seconds);
    // Linux says how much memory there was at most
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().filter(|line| line.starts_with("VmHWM")).for_each(|line| println!("{line}"));
    Ok(())
}

fn write(path: &Path, shard: usize) -> std::io::Result<()> {
    let mut archive = tar::Builder::new(File::create(path)?);
    for picture in 0..32_000_000 / BYTES {
        let pixels: Vec<u8> = (0..BYTES).map(|place| (place + picture + shard) as u8).collect();
        let mut header = tar::Header::new_gnu();
        header.set_size(BYTES as u64);
        archive.append_data(&mut header, format!("{picture}.raw"), &pixels[..])?;
    }
    archive.finish()
}
