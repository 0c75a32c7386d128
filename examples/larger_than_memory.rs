//! Data that does not fit in memory: pictures in tar archives, streamed through a pipeline whose memory is bounded.
//!
//! `cargo run --release --example larger_than_memory -- 20` goes through 20 GB: four archives, again and again.

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use brasa::data::{Dataset, Description, Goal, Last, On, Pipeline, Sample, Target};
use brasa::{Error, Result};

const SIDE: usize = 64;
const BYTES: usize = 3 * SIDE * SIDE;
const ARCHIVES: usize = 4;

/// Knows where each picture begins, and reads it when it is asked for.
struct Pictures {
    description: Description,
    files: Vec<Mutex<File>>,
    /// File and place of each.
    places: Vec<(usize, u64)>,
    rounds: usize,
}

impl Dataset for Pictures {
    fn description(&self) -> &Description {
        &self.description
    }
    fn len(&self) -> usize {
        self.places.len() * self.rounds
    }
    fn get(&self, index: usize, sample: &mut Sample) -> Result<()> {
        let (number, place) = self.places[index / self.rounds];
        let mut file = self.files[number].lock().expect("no reader panics");
        let read = file.seek(SeekFrom::Start(place)).and_then(|_| file.read_exact(sample.set_picture([3, SIDE, SIDE])));
        sample.target = Target::Class(index as u32 % 2);
        read.map_err(|error| Error::io(format!("archive {number}"), error))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let gigabytes: f64 = std::env::args().nth(1).as_deref().unwrap_or("1").parse()?;
    let (mut files, mut places) = (Vec::new(), Vec::new());
    for number in 0..ARCHIVES {
        let file = write(number)?;
        for entry in tar::Archive::new(&file).entries_with_seek()? {
            places.push((number, entry?.raw_file_position()));
        }
        files.push(Mutex::new(file));
    }
    let classes = ["even", "odd"].map(str::to_owned);
    let description = Description::new("archives", Goal::Classify, classes, [3, SIDE, SIDE]);
    let rounds = (gigabytes * 1e9 / (places.len() * BYTES) as f64).ceil() as usize;

    // from all archives in turn, in runs of 16, and what comes is shuffled: numbers, not pictures, lie in the buffer
    let pipeline = Pipeline::new(Arc::new(Pictures { description, files, places, rounds }));
    let pipeline = pipeline.interleave(ARCHIVES, 16).shuffle_buffer(4096).augment("flip,crop=4".parse()?, On::Host);
    let (start, mut samples, mut batches) = (Instant::now(), 0, pipeline.batch(256, Last::Drop).start()?);
    while let Some(batch) = batches.next().transpose()? {
        samples += batch.samples;
        batches.recycle(batch);
    }
    let (read, seconds) = ((samples * BYTES) as f64 / 1e9, start.elapsed().as_secs_f64());
    println!("{samples} pictures, {read:.1} GB in {seconds:.1} s: {:.2} GB/s", read / seconds);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default(); // on Linux, with the most memory taken
    status.lines().filter(|line| line.starts_with("VmHWM")).for_each(|line| println!("{line}"));
    Ok(())
}

fn write(number: usize) -> std::io::Result<File> {
    let (mut archive, mut header) = (tar::Builder::new(tempfile::tempfile()?), tar::Header::new_gnu());
    header.set_size(BYTES as u64);
    for picture in 0..32_000_000 / BYTES {
        let pixels: Vec<u8> = (0..BYTES).map(|place| (place + picture + number) as u8).collect();
        archive.append_data(&mut header, format!("{picture}.raw"), &pixels[..])?;
    }
    let mut file = archive.into_inner()?;
    file.rewind()?;
    Ok(file)
}
