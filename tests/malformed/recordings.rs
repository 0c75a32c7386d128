//! The folders of runs, damaged: a file that cannot be read is a problem of the recording, and nothing else.

use std::path::Path;

use brasa::formats::tensorboard::{EventWriter, Histogram, Setting};
use brasa::runs::{Recording, XAxis, band};
use stats_alloc::Region;

use crate::ALLOCATOR;
use crate::damage::{Random, damage};

/// The most that reading a run of a few kilobytes may take from the allocator, in all.
const MAX_BYTES: usize = 512 << 20;
const ROUNDS: usize = 1_000;

const METRICS: &str = concat!(
    r#"{"kind":"train","step":1,"epoch":1,"loss":2.5,"accuracy":0.25,"lr":0.1,"elapsed_s":0.5,"gradient_norm":1.5}"#,
    "\n",
    r#"{"kind":"epoch","step":1,"epoch":1,"loss":2.5,"accuracy":0.25,"lr":0.1,"elapsed_s":0.5}"#,
    "\n",
    r#"{"kind":"test","step":1,"epoch":1,"loss":2.5,"accuracy":0.25,"lr":0.1,"elapsed_s":0.5,"top5":0.5,"perplexity":12.2,"mean":{"precision":1,"recall":0.5,"f1":0.5,"iou":0.5},"micro":{"precision":0.25,"recall":0.25,"f1":0.25,"iou":0.1}}"#,
    "\n",
    r#"{"kind":"test","step":2,"epoch":1,"loss":2.5,"r2":null,"lr":0.1,"elapsed_s":0.5,"rmse":3.5,"mae":2.5}"#,
    "\n",
);
const STATUS: &str = r#"{"state":"running","step":1,"steps":9,"epoch":1,"elapsed_s":1.0,"left_s":3.5,"learning_rate_factor":1.0,"memory_bytes":5,"memory_peak_bytes":6,"stages":[],"timeline":{"lanes":[{"name":"a","spans":[{"stage":"load","start_ms":0.0,"end_ms":1.0,"step":1}]}]},"written_unix_ms":1700000000000,"process":7}"#;
const PLAN: &str = r#"{"kernels":[{"label":"map.add[3]","stage":"forward","wave":0,"modules":["0"],"after":[],"writes":["f32[3]"],"flops":3,"bytes":36,"wgsl":"fn"}],"bytes":12}"#;
const PREDICTIONS: &str = r#"{"step":1,"classes":["a","b"],"samples":[{"index":0,"label":1,"likeliest":[[1,0.75],[0,0.25]],"loss":0.5,"accuracy":1.0},{"index":1,"label":null,"likeliest":[],"target":[1.5,2],"predicted":[null,2.5],"loss":0.5,"accuracy":0}],"pictures":{"file":"pictures.png","height":4,"width":4,"columns":2},"masks":null}"#;
const CONFUSION: &str = r#"{"classes":2,"counts":[3,1,0,4]}"#;
const RESIDUALS: &str = r#"{"samples":4,"numbers":[{"error":0.5,"absolute":2.5,"squared":2.25,"total":5},{"error":null,"absolute":null,"squared":null,"total":0}]}"#;

/// A run with one of each file.
fn files() -> Vec<(String, Vec<u8>)> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut events = EventWriter::create(folder.path(), 2).expect("writable");
    for step in 3..9 {
        events.scalar("own", step as f32, step).expect("writable");
        events.histogram("weights", &Histogram::of(&[-1.0, 0.5, 0.5]), step).expect("writable");
    }
    events.image("picture", [1, 2], &[0, 1], 3).expect("writable");
    events.settings(&[("lr".into(), Setting::Number(0.1))], &["own"]).expect("writable");
    events.finish(true).expect("writable");
    let events = std::fs::read(events.path()).expect("readable");
    let mut png = Vec::new();
    let picture = image::RgbImage::from_fn(8, 4, |x, y| image::Rgb([x as u8, y as u8, 9]));
    picture.write_to(&mut std::io::Cursor::new(&mut png), image::ImageFormat::Png).expect("in memory");
    let texts = [
        ("config.toml", "model = \"mlp\"\n[data]\nbatch-size = 3\n"),
        ("metrics.jsonl", METRICS),
        ("status.json", STATUS),
        ("plan.json", PLAN),
        ("predictions.json", PREDICTIONS),
        ("confusion.json", CONFUSION),
        ("residuals.json", RESIDUALS),
    ];
    let texts = texts.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec()));
    let others = [("events.out.tfevents.1.x".to_owned(), events), ("pictures.png".to_owned(), png)];
    texts.into_iter().chain(others).collect()
}

/// Makes the checksums of an event file right again, as far as its records can be told, so that what they say is
/// believed.
fn right_events(bytes: &[u8]) -> Vec<u8> {
    let sum = |bytes: &[u8]| crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes();
    let mut bytes = bytes.to_vec();
    let mut at = 0;
    while bytes.len() >= at + 12 {
        let length: [u8; 8] = bytes[at..at + 8].try_into().expect("8 bytes");
        bytes[at + 8..at + 12].copy_from_slice(&sum(&length));
        let start = at + 12;
        let end = usize::try_from(u64::from_le_bytes(length)).ok().and_then(|length| start.checked_add(length));
        let Some(end) = end.filter(|end| end + 4 <= bytes.len()) else { break };
        let checksum = sum(&bytes[start..end]);
        bytes[end..end + 4].copy_from_slice(&checksum);
        at = end + 4;
    }
    bytes
}

/// Does with a recording all that can be done with one.
fn use_all(recording: &Recording) {
    let everything = f64::NEG_INFINITY..=f64::INFINITY;
    let mut out = Vec::new();
    for series in recording.series.values() {
        for axis in [XAxis::Step, XAxis::Epoch, XAxis::Time] {
            series.decimated(axis, everything.clone(), 100, &mut out);
            series.smoothed(axis.log(), everything.clone(), 0.6, 100, &mut out);
            let _ = (series.bounds(axis), series.nearest(axis, 1.0), band(&[series], axis, everything.clone(), 0.5, 9));
        }
    }
    let tags: Vec<&str> = recording.series.keys().map(String::as_str).collect();
    recording.to_csv(&tags, &mut Vec::new()).expect("in memory");
    if let Some(predictions) = &recording.predictions {
        let sheets = predictions.pictures.iter().chain(predictions.masks.iter().flatten());
        sheets.for_each(|sheet| drop(recording.image_sheet(sheet)));
    }
    if let Some(residuals) = &recording.residuals {
        let _ = (residuals.means(), (0..residuals.numbers()).map(|number| residuals.mean_error(number)).sum::<f64>());
    }
    let _ = (recording.best(), recording.state(), recording.confusion.as_ref().map(|confusion| confusion.means()));
}

fn write(folder: &Path, name: &str, bytes: &[u8]) {
    let path = folder.join(name);
    // a file that is written over is brought to the disk at once by some file systems, a new one is not
    let _ = std::fs::remove_file(&path);
    std::fs::write(path, bytes).expect("writable");
}

#[test]
fn damaged_runs_are_recordings_with_problems() {
    let _alone = crate::ALONE.lock().expect("no test panicked before");
    let files = files();
    let place = tempfile::tempdir().expect("a temporary folder");
    let folder = place.path();
    files.iter().for_each(|(name, bytes)| write(folder, name, bytes));
    let whole = Recording::open(folder);
    assert!(whole.problems.is_empty(), "{:?}", whole.problems);
    assert_eq!((whole.series["own"].len(), whole.histograms["weights"].len(), whole.series.len()), (6, 6, 19));
    let sheet = whole.predictions.as_ref().and_then(|predictions| predictions.pictures.as_ref()).expect("pictures");
    assert!(whole.image_sheet(sheet).is_ok());
    use_all(&whole);
    let mut random = Random(1);
    for (name, bytes) in &files {
        let mut problems = 0;
        let mut followed = Recording::open(folder);
        for round in 0..ROUNDS {
            let mut damaged = damage(bytes, bytes.len().min(64), &mut random);
            if name.contains("tfevents") && round % 2 == 0 {
                damaged = right_events(&damaged);
            }
            write(folder, name, &damaged);
            let region = Region::new(ALLOCATOR);
            let recording = Recording::open(folder);
            use_all(&recording);
            // one that was open before has seen other bytes
            followed.refresh();
            use_all(&followed);
            let taken = region.change().bytes_allocated;
            assert!(taken < MAX_BYTES, "{name}, round {round}: {taken} bytes were taken");
            let of_this = |problem: &String| problem.starts_with(name.as_str());
            assert!(recording.problems.iter().all(of_this), "{name}, round {round}: {:?}", recording.problems);
            let picture = recording.predictions.as_ref().and_then(|predictions| predictions.pictures.as_ref());
            let undrawn = picture.is_none_or(|sheet| recording.image_sheet(sheet).is_err());
            problems += usize::from(!recording.problems.is_empty() || undrawn);
        }
        assert!(problems > ROUNDS / 20, "{name}: {problems} problems: is it damaged at all?");
        // one that was read on is known again by its length and its last bytes, which damage may have left as they were
        std::fs::remove_file(folder.join(name)).expect("it was written");
        followed.refresh();
        write(folder, name, bytes);
        followed.refresh();
        assert!(followed.problems.is_empty(), "{:?}", followed.problems);
    }
}
