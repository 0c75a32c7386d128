//! Files of every reader of data sets and of runs, damaged in thousands of ways: no panic, bounded memory, and errors
//! that name what they are about.

mod damage;
mod files;
mod onnx;
mod recordings;
mod resumed;

use std::alloc::System;
use std::sync::Mutex;

use brasa::data::{Dataset, DatasetName, OpenOptions, Sample, open};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

use damage::{Random, damage};
use files::{Case, cases};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Held by a test while it runs, because the allocator's count is that of the process.
static ALONE: Mutex<()> = Mutex::new(());

/// The most that opening a set of a few tiny files and reading all of it may take from the allocator, in all: that of a
/// few pictures of the largest size, which a header can say that a small file has.
const MAX_BYTES: usize = 2 << 30;

/// What became of the damaged files of a case.
#[derive(Default, Debug)]
struct Counts {
    refused: usize,
    /// Opened, but some samples are told to be broken.
    broken: usize,
    /// The damage did not matter, or cannot be seen.
    read: usize,
}

/// Opens the set and reads all of it; the errors' messages.
fn read_all(name: &DatasetName, options: &OpenOptions) -> Result<Vec<String>, String> {
    let data = open(name, options).map_err(|error| error.to_string())?;
    let mut sample = Sample::default();
    let mut read = |data: &dyn Dataset| {
        (0..data.len())
            .filter_map(|index| data.get(index, &mut sample).err())
            .map(|error| error.to_string())
            .collect::<Vec<_>>()
    };
    Ok([read(&*data.train), read(&*data.test)].concat())
}

/// Damages one file of the case again and again.
fn sweep(case: &Case, seed: u64) -> Counts {
    let mut counts = Counts::default();
    let place = tempfile::tempdir().expect("a temporary folder");
    let mut random = Random(seed);
    for round in 0..case.rounds {
        let folder = place.path().join(if case.anew { round.to_string() } else { "0".into() });
        if round == 0 || case.anew {
            case.write(&folder);
        }
        let bytes = (case.finish)(&damage(&case.bytes, case.lengths, &mut random));
        case.write_damaged(&folder, &bytes);
        let name: DatasetName = (case.name)(&folder).parse().expect("a name");
        let options = OpenOptions { data_dir: Some(folder.clone()), ..OpenOptions::default() };
        let region = Region::new(ALLOCATOR);
        let outcome = read_all(&name, &options);
        let taken = region.change().bytes_allocated;
        assert!(taken < MAX_BYTES, "{}, round {round}: {taken} bytes were taken", case.file);
        let place = folder.to_str().expect("UTF-8");
        let names_it = |message: &String| {
            assert!(message.contains(place), "{}, round {round}: which file? {message}", case.file);
        };
        match outcome {
            Err(message) => {
                names_it(&message);
                counts.refused += 1;
            }
            Ok(messages) => {
                messages.iter().for_each(names_it);
                *(if messages.is_empty() { &mut counts.read } else { &mut counts.broken }) += 1;
            }
        }
        if case.anew {
            std::fs::remove_dir_all(&folder).expect("it was made here");
        }
    }
    counts
}

/// Whole files are read, or nothing that follows would mean anything.
fn check_whole(case: &Case) {
    let place = tempfile::tempdir().expect("a temporary folder");
    case.write(place.path());
    let name = (case.name)(place.path()).parse().expect("a name");
    let options = OpenOptions { data_dir: Some(place.path().to_owned()), ..OpenOptions::default() };
    let errors = read_all(&name, &options).unwrap_or_else(|error| panic!("{}: {error}", case.file));
    assert!(errors.is_empty(), "{}: {errors:?}", case.file);
}

#[test]
fn damaged_files_are_refused_or_read() {
    let _alone = ALONE.lock().expect("no test panicked before");
    for (number, case) in cases().iter().enumerate() {
        check_whole(case);
        let counts = sweep(case, number as u64 + 1);
        assert!(counts.refused + counts.broken > case.rounds / 20, "{}: {counts:?}: is it damaged at all?", case.label);
    }
}
