//! What runs go on from, damaged: checkpoints, and samples that were kept on disk.

use std::path::Path;
use std::sync::Arc;

use brasa::data::{Cache, Last, Pipeline, Targets, Values, digits};
use brasa::train::{Config, Control, ModelName, Trainer};
use stats_alloc::Region;

use crate::ALLOCATOR;
use crate::damage::{Random, damage};

/// The most that a small run may take from the allocator, in all.
const MAX_BYTES: usize = 512 << 20;

fn few(count: usize) -> Pipeline {
    Pipeline::new(Arc::new(digits().expect("they are bundled").train)).take(count)
}

fn settings(out: &Path) -> Config {
    let model = ModelName::new("mlp").expect("a model of that name");
    let device = Some("cpu".into());
    Config { model, epochs: 3, batch_size: 16, device, out: out.into(), name: Some("run".into()), ..Config::default() }
}

fn data() -> brasa::data::Split<Pipeline> {
    brasa::data::Split::new(few(48), few(16))
}

/// Goes on from the checkpoint in `folder` for a step; what is said if that cannot be.
fn go_on(folder: &Path) -> Result<(), String> {
    let control = Control::default();
    control.stop();
    let trainer = Trainer::resume_with_data(folder, settings(folder), data()).map_err(|error| error.to_string())?;
    trainer.run(&control, &mut |_| {}).map(drop).map_err(|error| error.to_string())
}

#[test]
fn damaged_checkpoints_are_refused_or_gone_on_from() {
    let _alone = crate::ALONE.lock().expect("no test panicked before");
    let out = tempfile::tempdir().expect("a temporary folder");
    let control = Control::default();
    let stopping = control.clone();
    let trainer = Trainer::with_data(settings(out.path()), data()).expect("good settings");
    // within the first pass
    let summary = trainer.run(&control, &mut |_| stopping.stop()).expect("a run");
    let run = summary.folder;
    let [checkpoint] = [run.join("checkpoints").join(format!("step-{:08}.safetensors", summary.steps))];
    let whole = std::fs::read(&checkpoint).expect("it was written");
    let metrics = std::fs::read(run.join("metrics.jsonl")).expect("it was written");
    let length = u64::from_le_bytes(whole[..8].try_into().expect("8 bytes")) as usize;
    let header = String::from_utf8(whole[8..8 + length].to_vec()).expect("UTF-8");

    let place = tempfile::tempdir().expect("a temporary folder");
    let mut random = Random(7);
    let mut attempt = |bytes: &[u8]| {
        // what the last attempt wrote is not for the next one to find
        let folder = place.path().join(random.next().to_string());
        std::fs::create_dir_all(folder.join("checkpoints")).expect("writable");
        std::fs::write(folder.join("metrics.jsonl"), &metrics).expect("writable");
        let path = folder.join("checkpoints").join(checkpoint.file_name().expect("a name"));
        std::fs::write(&path, bytes).expect("writable");
        let region = Region::new(ALLOCATOR);
        let done = go_on(&folder);
        let taken = region.change().bytes_allocated;
        assert!(taken < MAX_BYTES, "{taken} bytes were taken");
        if let Err(message) = &done {
            let named = message.contains(path.to_str().expect("UTF-8")) || message.contains("metrics.jsonl");
            assert!(named || message.contains("go on"), "which file, and what is wrong with it? {message}");
        }
        std::fs::remove_dir_all(&folder).expect("it was made here");
        done
    };
    assert_eq!(attempt(&whole), Ok(()));
    let with_header = |header: &str| {
        let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &whole[8 + length..]];
        bytes.concat()
    };
    assert_eq!(attempt(&with_header(&header)), Ok(()));
    let mut refuses = |bytes: &[u8], words: &str| {
        let message = attempt(bytes).expect_err(words);
        assert!(message.contains(words), "`{words}` is missing in: {message}");
    };
    for end in [0, 7, 8, 100, 8 + length, whole.len() - 1] {
        refuses(&whole[..end], "checkpoint");
    }
    for length in [u64::MAX, i64::MAX as u64, 200_000_000, whole.len() as u64] {
        refuses(&[&length.to_le_bytes(), &whole[8..]].concat(), "left out");
    }
    refuses(&with_header(&header.replace("brasa-checkpoint", "other-checkpoint")), "is no checkpoint");
    let version = header.replace(r#""version":"2""#, r#""version":"9""#);
    refuses(&with_header(&version), "version 9");

    // one bit of a weight
    let mut damaged = whole.clone();
    *damaged.last_mut().expect("it holds something") ^= 1;
    refuses(&damaged, "checksum");

    let mut refused = 0;
    for round in 0..ROUNDS {
        // the header is JSON, in which most of what decides lies; every other time it fits to its length
        let damaged = match round % 2 {
            0 => damage(&whole, 8 + length, &mut Random(round)),
            _ => {
                let header = damage(header.as_bytes(), header.len(), &mut Random(round));
                [&(header.len() as u64).to_le_bytes()[..], &header, &whole[8 + length..]].concat()
            }
        };
        refused += u64::from(attempt(&damaged).is_err());
    }
    assert!(refused > ROUNDS / 4, "{refused} refused: are they damaged at all?");
}

const ROUNDS: u64 = 200;

/// What the pipeline gives, all of it.
fn read(pipeline: &Pipeline) -> Result<Vec<(Values, Targets)>, String> {
    let batches = pipeline.start().map_err(|error| error.to_string())?;
    batches.map(|batch| batch.map(|batch| (batch.inputs, batch.targets)).map_err(|error| error.to_string())).collect()
}

#[test]
fn a_damaged_cache_is_refused_or_made_whole() {
    let _alone = crate::ALONE.lock().expect("no test panicked before");
    let place = tempfile::tempdir().expect("a temporary folder");
    let path = place.path().join("samples");
    let cached = || few(12).cache(Cache::Disk(path.clone())).batch(5, Last::Keep);
    let expected = read(&few(12).batch(5, Last::Keep)).expect("they are bundled");
    assert_eq!(read(&cached()), Ok(expected.clone()));
    let whole = std::fs::read(&path).expect("it was written");
    assert_eq!(read(&cached()), Ok(expected.clone()));
    let mut random = Random(11);
    let (mut refused, mut mended) = (0, 0);
    for round in 0..1_000 {
        let damaged = damage(&whole, 80, &mut random);
        let _ = std::fs::remove_file(&path);
        std::fs::write(&path, &damaged).expect("writable");
        let region = Region::new(ALLOCATOR);
        let outcome = read(&cached());
        let taken = region.change().bytes_allocated;
        assert!(taken < MAX_BYTES, "round {round}: {taken} bytes were taken");
        match outcome {
            Ok(batches) => {
                assert_eq!(batches, expected, "round {round}: other samples than there are");
                mended += u64::from(damaged != whole);
            }
            Err(message) => {
                assert!(message.contains(path.to_str().expect("UTF-8")), "round {round}: which file? {message}");
                refused += 1;
            }
        }
    }
    assert!(refused > 100 && mended > 100, "{refused} refused, {mended} mended");
}
