//! Runs as their folders tell of them: what others wrote, and what happens while it is read.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use brasa::formats::tensorboard::{EventWriter, Histogram};
use brasa::runs::{Point, RecordedState, Recording, Series, Watcher, XAxis, find};
use brasa::train::record::{Kind, Line, Sheet};
use brasa::train::{Config, Confusion, Control, Event, HeldOut, ModelName, Score, Trainer};
use serde_json::Value;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn reference() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference/events")
}

fn expected() -> Value {
    let text = fs::read_to_string(reference().join("expected.json")).expect("recorded");
    serde_json::from_str(&text).expect("JSON")
}

/// A line of a training step.
fn line(step: u64, loss: f64) -> String {
    let line = Line {
        kind: Kind::Train,
        step,
        epoch: 1,
        loss,
        score: Score::Accuracy(0.5),
        lr: 0.1,
        elapsed_s: step as f64 / 2.0,
        samples_per_second: None,
        gradient_norm: None,
        memory_bytes: None,
        top5: None,
        perplexity: None,
        mean: None,
        skipped_steps: None,
        loss_scale: None,
        joules: None,
        micro: None,
        rmse: None,
        mae: None,
    };
    serde_json::to_string(&line).expect("JSON") + "\n"
}

fn lines(steps: std::ops::Range<u64>) -> String {
    steps.map(|step| line(step, step as f64)).collect()
}

fn append(path: &Path, text: &str) {
    let mut file = fs::File::options().append(true).create(true).open(path).expect("writable");
    file.write_all(text.as_bytes()).expect("writable");
}

fn values(series: &Series) -> Vec<(u64, f64)> {
    series.points().map(|point| (point.step, point.value)).collect()
}

fn steps(recording: &Recording, tag: &str) -> usize {
    recording.series.get(tag).map_or(0, Series::len)
}

/// Waits for something that another thread does.
fn wait_until(mut is: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < Duration::from_secs(60), "nothing happens");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn event_files_of_others_are_what_tensorboard_reads_of_them() {
    let expected = expected();
    for name in ["torch", "tensors"] {
        let recording = Recording::open(&reference().join(name));
        assert_eq!(recording.problems, Vec::<String>::new());
        assert_eq!((recording.name.as_str(), recording.state()), (name, RecordedState::Foreign));
        let scalars = expected[name]["scalars"].as_object().expect("tags");
        assert_eq!(recording.series.keys().collect::<Vec<_>>(), scalars.keys().collect::<Vec<_>>(), "{name}");
        for (tag, points) in scalars {
            let points = points.as_array().expect("points");
            assert_eq!(recording.series[tag].len(), points.len(), "{tag}");
            for (point, expected) in recording.series[tag].points().zip(points) {
                assert_eq!(Some(point.step), expected[0].as_u64(), "{tag}");
                assert_eq!(Some(point.seconds + 1.7e9), expected[1].as_f64(), "{tag}");
                // JSON's last bit is not always read
                let value = expected[2].as_f64().map(|value| value as f32);
                assert_eq!(Some(point.value as f32).filter(|value| value.is_finite()), value, "{tag}");
            }
        }
        let histograms = expected[name]["histograms"].as_object().expect("tags");
        assert_eq!(recording.histograms.len(), histograms.len(), "{name}");
        for (tag, list) in histograms {
            let counts = recording.histograms[tag].iter().map(|histogram| {
                let count: f64 = histogram.buckets.iter().map(|bucket| bucket.count).sum();
                (histogram.step, (count * 1e6).round() / 1e6)
            });
            let list = list.as_array().expect("histograms").iter();
            let list = list.map(|of| (of[0].as_u64().expect("a step"), of[1].as_f64().expect("a count")));
            assert_eq!(counts.collect::<Vec<_>>(), list.collect::<Vec<_>>(), "{tag}");
        }
    }
}

#[test]
fn smoothing_is_what_tensorboard_draws() {
    for (weight, values) in expected()["smoothed"].as_object().expect("weights") {
        let weight: f64 = weight.parse().expect("a number");
        let mut series = Series::new();
        for step in 0..20_u64 {
            let value = 2.0 / (step as f64 + 1.0) + 0.1 * ((step * 7919) % 13) as f64 / 13.0;
            series.push(Point { step, epoch: f32::NAN, seconds: 0.0, value });
        }
        let mut drawn = Vec::new();
        series.smoothed(XAxis::Step, 0.0..=19.0, weight, 100, &mut drawn);
        for ([_, y], expected) in drawn.iter().zip(values.as_array().expect("values")) {
            assert!((y - expected.as_f64().expect("a number")).abs() < 1e-12, "{weight}: {y}, {expected}");
        }
        assert_eq!(drawn.len(), 20);
    }
}

#[test]
fn a_run_of_our_own_tells_all_there_is() {
    let out = folder();
    let config = Config {
        model: ModelName::new("mlp").expect("a model of that name"),
        epochs: 2,
        device: Some("cpu".into()),
        out: out.path().into(),
        ..Config::default()
    };
    let summary = Trainer::new(config).expect("good settings").run(&Control::default(), &mut |_| {}).expect("a run");
    let recording = Recording::open(&summary.folder);
    assert_eq!(recording.problems, Vec::<String>::new());
    assert_eq!(recording.state(), RecordedState::Completed);
    let run = recording.run.as_ref().expect("run.json");
    assert_eq!((2 * run.start.steps_per_epoch, run.start.epochs), (summary.steps, 2));
    let status = recording.status.as_ref().expect("status.json");
    assert_eq!((status.step, status.process), (summary.steps as u64, std::process::id()));
    assert!(recording.plan.as_ref().is_some_and(|plan| !plan.kernels.is_empty()), "plan.json");
    let predictions = recording.predictions.as_ref().expect("predictions.json");
    assert_eq!(predictions.step, summary.steps as u64);
    let sheet = predictions.pictures.as_ref().expect("pictures");
    let (width, height, pixels) = recording.image_sheet(sheet).expect("a picture");
    assert_eq!(width, sheet.columns * sheet.width);
    assert_eq!(
        (pixels.len(), height),
        (3 * width * height, predictions.samples.len().div_ceil(sheet.columns) * sheet.height)
    );
    let test = summary.test.expect("an evaluation");
    assert_eq!(
        recording.confusion.as_ref().map(Confusion::correct),
        test.classification().map(|scores| scores.correct)
    );
    assert!(recording.config.as_ref().is_some_and(|config| config["model"].as_str() == Some("mlp")));
    let last = |tag: &str| recording.series[tag].last().expect("points");
    for tag in ["loss/train", "accuracy/train", "learning_rate", "samples_per_second", "gradient_norm", "memory_bytes"]
    {
        let series = &recording.series[tag];
        assert_eq!(
            (series.len(), last(tag).step, last(tag).epoch),
            (summary.steps, summary.steps as u64, 2.0),
            "{tag}"
        );
    }
    assert_eq!(recording.series["test/top5"].len(), 2);
    assert!((last("loss/test").value - test.loss).abs() < 1e-9);
    assert!((last("test/mean_iou").value - test.classification().expect("classes").mean.iou).abs() < 1e-9);
    let best = summary.best.expect("an evaluation").score();
    assert!(recording.best().is_some_and(|score| (score - best).abs() < 1e-9));
}

#[test]
fn a_run_that_is_judged_by_a_validation_part_says_so() {
    let out = folder();
    let config = Config {
        model: ModelName::new("mlp").expect("a model of that name"),
        epochs: 2,
        validation: Some(20),
        device: Some("cpu".into()),
        out: out.path().into(),
        ..Config::default()
    };
    let mut trainer = Trainer::new(config).expect("good settings");
    trainer.add_tensorboard();
    let summary = trainer.run(&Control::default(), &mut |_| {}).expect("a run");
    let best = summary.best.expect("an evaluation");
    assert_eq!((best.part, best.samples), (HeldOut::Validation, 288));
    let close = |value: Option<f64>, expected: f64| value.is_some_and(|value| (value - expected).abs() < 1e-9);
    let check = |recording: &Recording, losses: usize| {
        assert_eq!(recording.series["loss/validation"].len(), losses);
        assert!(recording.series.keys().all(|tag| !tag.contains("test")), "{:?}", recording.series.keys());
    };
    let recording = Recording::open(&summary.folder);
    check(&recording, 2);
    assert!(close(recording.best(), best.score()), "{:?}", recording.best());
    let least = summary.test.expect("an evaluation").loss.min(best.loss);
    assert!(close(recording.least_loss(), least), "{:?}", recording.least_loss());
    // TensorBoard's files alone
    fs::remove_file(summary.folder.join("metrics.jsonl")).expect("it is there");
    check(&Recording::open(&summary.folder), 2);
}

#[test]
fn what_was_told_of_the_step_that_a_run_goes_on_behind_stays() {
    let out = folder();
    let config = |epochs| Config {
        model: ModelName::new("mlp").expect("a model of that name"),
        epochs,
        device: Some("cpu".into()),
        out: out.path().into(),
        ..Config::default()
    };
    let run = |mut trainer: Trainer| {
        trainer.add_tensorboard();
        trainer.run(&Control::default(), &mut |_| {}).expect("a run")
    };
    let first = run(Trainer::new(config(1)).expect("good settings"));
    let second = run(Trainer::resume(&first.folder, config(2)).expect("a checkpoint"));
    let recording = Recording::open(&first.folder);
    assert_eq!(recording.problems, Vec::<String>::new());
    let ends = vec![first.steps as u64, second.steps as u64];
    assert_eq!(recording.series["epoch/loss"].points().map(|point| point.step).collect::<Vec<_>>(), ends);
    assert!(!recording.histograms.is_empty());
    for (name, histograms) in &recording.histograms {
        assert_eq!(histograms.iter().map(|histogram| histogram.step).collect::<Vec<_>>(), ends, "{name}");
    }
}

#[test]
fn lines_are_read_as_they_come() {
    let folder = folder();
    let path = folder.path().join("metrics.jsonl");
    let mut recording = Recording::open(folder.path());
    assert!(recording.series.is_empty() && recording.problems.is_empty() && !recording.refresh());
    append(&path, &lines(1..4));
    assert!(recording.refresh() && !recording.refresh());
    assert_eq!(values(&recording.series["loss/train"]), [(1, 1.0), (2, 2.0), (3, 3.0)]);
    // half a line waits for its other half
    let next = line(4, 4.0);
    append(&path, &next[..20]);
    assert!(!recording.refresh() && recording.problems.is_empty());
    append(&path, &next[20..]);
    assert!(recording.refresh());
    // what is none of ours is named, and is no end
    append(&path, "{\"kind\":\"train\"}\nnonsense\n\n{\"kind\":\"other\",\"step\":1}\n");
    append(&path, &line(5, f64::NAN));
    let version = recording.version;
    assert!(recording.refresh() && recording.version > version);
    assert_eq!(recording.series["loss/train"].len(), 5);
    assert!(recording.series["loss/train"].last().is_some_and(|last| last.value.is_nan()));
    let problems = recording.problems.join("; ");
    assert!(problems.contains("metrics.jsonl: line 5: missing field"), "{problems}");
    assert!(problems.contains("line 6: ") && problems.contains("line 8: "), "{problems}");
    assert_eq!(recording.problems.len(), 3);
}

#[test]
fn a_run_that_goes_on_from_an_earlier_step_is_read_anew() {
    let folder = folder();
    let path = folder.path().join("metrics.jsonl");
    append(&path, &lines(1..100));
    let mut recording = Recording::open(folder.path());
    assert_eq!(steps(&recording, "loss/train"), 99);
    // shorter than before
    fs::write(&path, lines(1..50)).expect("writable");
    assert!(recording.refresh());
    assert_eq!(steps(&recording, "loss/train"), 49);
    // cut off and written on in between, so that it is longer than before
    fs::write(&path, lines(1..20) + &(20..90).map(|step| line(step, 0.25)).collect::<String>()).expect("writable");
    assert!(recording.refresh());
    assert_eq!(recording.series["loss/train"].last().map(|last| (last.step, last.value)), Some((89, 0.25)));
    assert_eq!(steps(&recording, "loss/train"), 89);
    fs::remove_file(&path).expect("it was there");
    assert!(recording.refresh() && recording.series.is_empty());
}

#[test]
fn files_that_cannot_be_understood_are_problems_until_they_can() {
    let folder = folder();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("writable");
    write("confusion.json", r#"{"classes":2,"counts":[1,0,0,1]}"#);
    write("config.toml", "batch-size = 3");
    let mut recording = Recording::open(folder.path());
    assert!(recording.problems.is_empty());
    assert_eq!(recording.config.as_ref().and_then(|config| config["batch-size"].as_integer()), Some(3));
    for wrong in
        [r#"{"classes":2,"cou"#, r#"{"classes":3,"counts":[1,0,0,1]}"#, r#"{"classes":1,"counts":[1e30]}"#, "\u{0}"]
    {
        write("confusion.json", wrong);
        assert!(recording.refresh());
        assert!(recording.problems.len() == 1 && recording.problems[0].starts_with("confusion.json: "), "{wrong}");
        // the last good value stays
        assert_eq!(recording.confusion.as_ref().map(|confusion| confusion.correct()), Some(2));
    }
    write("confusion.json", r#"{"classes":1,"counts":[7]}"#);
    assert!(recording.refresh() && recording.problems.is_empty());
    assert_eq!(recording.confusion.as_ref().map(|confusion| confusion.correct()), Some(7));
    for (name, text) in [
        (
            "plan.json",
            r#"{"kernels":[{"label":"a","stage":"load","wave":9,"modules":[],"after":[],"writes":[],"flops":0,"bytes":0,"wgsl":""}],"bytes":0}"#,
        ),
        (
            "predictions.json",
            r#"{"step":1,"classes":["a"],"samples":[{"index":0,"label":1,"likeliest":[],"loss":0.0,"accuracy":1.0}]}"#,
        ),
        (
            "predictions.json",
            r#"{"step":1,"classes":[],"samples":[],"pictures":{"file":"../x","height":1,"width":1,"columns":1}}"#,
        ),
        ("status.json", "[]"),
        ("run.json", "{}"),
        ("config.toml", "= 3"),
    ] {
        write(name, text);
        assert!(recording.refresh(), "{name}");
        assert!(recording.problems.iter().any(|problem| problem.starts_with(name)), "{name}: {:?}", recording.problems);
    }
    assert!(recording.plan.is_none() && recording.predictions.is_none() && recording.config.is_some());
    // a folder in the place of a file, and the end of all
    fs::remove_file(folder.path().join("config.toml")).expect("it was there");
    fs::create_dir(folder.path().join("metrics.jsonl")).expect("writable");
    assert!(recording.refresh());
    assert!(
        recording.problems.iter().any(|problem| problem == "metrics.jsonl: it is not a file"),
        "{:?}",
        recording.problems
    );
    fs::remove_dir_all(folder.path()).expect("it was there");
    assert!(recording.refresh() && recording.config.is_some());
    assert!(recording.problems.len() == 1 && recording.problems[0].starts_with("the folder: "));
}

#[test]
fn event_files_fill_in_what_lines_do_not_tell() {
    let folder = folder();
    let mut events = EventWriter::create(folder.path(), 0).expect("writable");
    for step in 1..=10 {
        events.scalar("loss/train", 77.0, step).expect("writable");
        events.scalar("own", step as f32, step).expect("writable");
        events.histogram("weights", &Histogram::of(&[0.0, step as f32]), step).expect("writable");
    }
    events.flush().expect("writable");
    let mut recording = Recording::open(folder.path());
    assert_eq!((steps(&recording, "loss/train"), steps(&recording, "own")), (10, 10));
    append(&folder.path().join("metrics.jsonl"), &lines(1..4));
    assert!(recording.refresh());
    assert_eq!(values(&recording.series["loss/train"]), [(1, 1.0), (2, 2.0), (3, 3.0)]);
    // the run goes on from step 6, in a second file
    let mut events = EventWriter::create(folder.path(), 6).expect("writable");
    events.scalar("own", 0.5, 7).expect("writable");
    events.scalar("loss/train", 78.0, 7).expect("writable");
    events.flush().expect("writable");
    assert!(recording.refresh());
    let own = values(&recording.series["own"]);
    assert_eq!(own, [(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0), (5, 5.0), (7, 0.5)]);
    assert_eq!((steps(&recording, "loss/train"), recording.histograms["weights"].len()), (3, 5));
    assert!(recording.problems.is_empty());
}

#[test]
fn a_damaged_event_file_ends_where_it_is_damaged() {
    let folder = folder();
    let mut events = EventWriter::create(folder.path(), 0).expect("writable");
    for step in 1..=10 {
        events.scalar("loss", step as f32, step).expect("writable");
    }
    events.flush().expect("writable");
    let path = events.path().to_owned();
    let whole = fs::read(&path).expect("readable");
    let mut damaged = whole.clone();
    damaged[whole.len() - 20] ^= 1;
    fs::write(&path, &damaged).expect("writable");
    let mut recording = Recording::open(folder.path());
    assert_eq!(steps(&recording, "loss"), 9);
    assert!(recording.problems[0].contains("the record at byte") && recording.problems[0].contains("checksum"));
    // cut off: it may still be written
    fs::write(&path, &whole[..whole.len() - 20]).expect("writable");
    assert!(recording.refresh() && recording.problems.is_empty());
    fs::write(&path, &whole).expect("writable");
    assert!(recording.refresh());
    assert_eq!(steps(&recording, "loss"), 10);
    // a length that nobody would write, its checksum right
    let mut record = (1_u64 << 50).to_le_bytes().to_vec();
    record.extend(crc32c::crc32c(&record).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes());
    fs::write(&path, [whole, record].concat()).expect("writable");
    assert!(recording.refresh());
    assert!(recording.problems[0].contains("1125899906842624 bytes"), "{:?}", recording.problems);
}

#[test]
fn runs_are_found_wherever_they_are() {
    let root = folder();
    let place = |path: &str, file: &str| {
        fs::create_dir_all(root.path().join(path)).expect("writable");
        fs::write(root.path().join(path).join(file), "").expect("writable");
    };
    for (path, file) in [
        ("run-10", "metrics.jsonl"),
        ("run-9", "run.json"),
        ("keras/train", "events.out.tfevents.1.x"),
        ("keras/validation", "events.out.tfevents.1.x"),
        ("a/b/c/d", "metrics.jsonl"),
        ("a/b/c/d/too-deep", "metrics.jsonl"),
        (".hidden", "metrics.jsonl"),
        ("none", "config.toml"),
        (&"n".repeat(200), "metrics.jsonl"),
    ] {
        place(path, file);
    }
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt as _;
        std::os::unix::fs::symlink(root.path(), root.path().join("a/loop")).expect("a link");
        std::os::unix::fs::symlink(root.path().join("run-9"), root.path().join("latest")).expect("a link");
        let name = root.path().join(std::ffi::OsStr::from_bytes(b"zz-\xff"));
        fs::create_dir(&name).expect("writable");
        fs::write(name.join("metrics.jsonl"), lines(0..3)).expect("writable");
        assert_eq!(Recording::open(&name).series["loss/train"].len(), 3);
    }
    let found: Vec<_> =
        find(root.path()).iter().map(|path| path.strip_prefix(root.path()).expect("below").to_owned()).collect();
    let names: Vec<_> = found.iter().map(|path| path.to_string_lossy()).collect();
    let long = "n".repeat(200);
    let mut expected = vec!["a/b/c/d", "keras/train", "keras/validation", &long, "run-9", "run-10"];
    if cfg!(unix) {
        expected.push("zz-\u{fffd}");
    }
    assert_eq!(names, expected);
    assert!(find(&root.path().join("missing")).is_empty());
}

#[test]
fn of_too_many_runs_the_newest_are_found() {
    let root = folder();
    let place = |name: &str| {
        fs::create_dir(root.path().join(name)).expect("writable");
        fs::write(root.path().join(name).join("metrics.jsonl"), "").expect("writable");
    };
    (0..1000).for_each(|number| place(&format!("a-{number}")));
    let watcher = Watcher::new(vec![root.path().to_owned()], Duration::from_millis(10), || {});
    wait_until(|| watcher.lock().len() == 1000);
    assert!(!watcher.is_cut());
    // the times of folders have steps of some milliseconds
    std::thread::sleep(Duration::from_millis(50));
    place("z");
    let found = find(root.path());
    assert_eq!((found.len(), found.last()), (1000, Some(&root.path().join("z"))));
    wait_until(|| watcher.is_cut() && watcher.lock().last().is_some_and(|run| run.name == "z"));
}

/// A status of a minute ago says little: the process may be another one by now, or on another machine.
#[test]
fn a_run_goes_on_as_long_as_it_keeps_its_folder_locked() {
    let out = folder();
    let config = Config {
        model: ModelName::new("mlp").expect("a model of that name"),
        epochs: 1,
        device: Some("cpu".into()),
        out: out.path().into(),
        log_every: 1,
        ..Config::default()
    };
    let age = |folder: &Path, process: u32| {
        let path = folder.join("status.json");
        let text = fs::read_to_string(&path).expect("it is there");
        let mut status: Value = serde_json::from_str(&text).expect("JSON");
        (status["state"], status["process"]) = ("running".into(), process.into());
        status["written_unix_ms"] =
            (status["written_unix_ms"].as_u64().expect("milliseconds").saturating_sub(60_000)).into();
        fs::write(&path, status.to_string()).expect("writable");
        Recording::open(folder).state()
    };
    // no system gives this number to a process
    let gone = u32::MAX;
    let (mut folder, mut states) = (PathBuf::new(), Vec::new());
    let trainer = Trainer::new(config).expect("good settings");
    let summary = trainer.run(&Control::default(), &mut |event| match event {
        Event::Started(start) => folder = start.folder,
        Event::Step(_) if states.is_empty() => states.push(age(&folder, gone)),
        _ => {}
    });
    assert_eq!(states, [RecordedState::Running]);
    let folder = summary.expect("a run").folder;
    assert!(matches!(age(&folder, std::process::id()), RecordedState::Silent { seconds } if seconds > 50.0));
    fs::remove_file(folder.join(".lock")).expect("it was there");
    let by_number = Path::new("/proc/self").exists();
    assert_eq!(age(&folder, std::process::id()).is_alive(), by_number, "as before there were locks");
}

#[test]
fn pictures_are_decoded_within_limits() {
    let folder = folder();
    let sheet = |file: &str| Sheet { file: file.into(), height: 2, width: 3, columns: 1 };
    let picture = image::GrayImage::from_fn(3, 2, |x, y| image::Luma([(10 * y + x) as u8]));
    picture.save(folder.path().join("a.png")).expect("writable");
    let recording = Recording::open(folder.path());
    let (width, height, pixels) = recording.image_sheet(&sheet("a.png")).expect("a picture");
    assert_eq!((width, height, &pixels[..6], &pixels[15..]), (3, 2, &[0, 0, 0, 1, 1, 1][..], &[12, 12, 12][..]));
    let mut huge = fs::read(folder.path().join("a.png")).expect("readable");
    huge[16..24].copy_from_slice(&[0x7f, 0, 0, 0, 0x7f, 0, 0, 0]);
    fs::write(folder.path().join("huge.png"), huge).expect("writable");
    for name in ["missing.png", "huge.png", "../a.png", "/etc/hostname", "", "."] {
        assert!(recording.image_sheet(&sheet(name)).is_err(), "{name}");
    }
    assert!(recording.image_sheet(&Sheet { width: 0, ..sheet("a.png") }).is_err());
}

#[test]
fn a_table_has_a_row_for_each_point() {
    let folder = folder();
    append(&folder.path().join("metrics.jsonl"), &(line(1, 0.1) + &line(2, f64::NAN)));
    let recording = Recording::open(folder.path());
    let mut table = Vec::new();
    recording.to_csv(&["loss/train", "missing", "learning_rate"], &mut table).expect("in memory");
    let name = &recording.name;
    let expected = format!(
        "run,tag,step,epoch,seconds,value\n{name},loss/train,1,0,0.5,0.1\n{name},loss/train,2,0,1,NaN\n\
         {name},learning_rate,1,0,0.5,0.1\n{name},learning_rate,2,0,1,0.1\n"
    );
    assert_eq!(String::from_utf8(table).expect("text"), expected);
}

#[test]
fn a_watcher_keeps_up_with_what_is_written() {
    let root = folder();
    let place = |name: &str| {
        let path = root.path().join(name);
        fs::create_dir_all(&path).expect("writable");
        path.join("metrics.jsonl")
    };
    append(&place("run-2"), &lines(0..3));
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let changed = move || {
        count.fetch_add(1, Ordering::SeqCst);
    };
    let watcher = Watcher::new(vec![root.path().to_owned()], Duration::from_millis(10), changed);
    let state = || -> Vec<(String, usize)> {
        watcher.lock().iter().map(|run| (run.name.clone(), steps(run, "loss/train"))).collect()
    };
    let is = |expected: &[(&str, usize)]| {
        wait_until(|| state().iter().map(|(name, count)| (name.as_str(), *count)).eq(expected.iter().copied()));
    };
    is(&[("run-2", 3)]);
    // the times of folders, by which these are ordered, have steps of some milliseconds
    std::thread::sleep(Duration::from_millis(50));
    append(&place("run-2"), &lines(3..5));
    append(&place("run-1"), &lines(0..1));
    // the newest last
    is(&[("run-2", 5), ("run-1", 1)]);
    let other = folder();
    append(&other.path().join("metrics.jsonl"), &lines(0..40_000));
    watcher.add_root(other.path().to_owned());
    let name = other.path().file_name().expect("a name").to_string_lossy().into_owned();
    is(&[("run-2", 5), ("run-1", 1), (name.as_str(), 40_000)]);
    // nothing is told if nothing changes; what changed last may still have to be told
    std::thread::sleep(Duration::from_millis(200));
    let before = calls.load(Ordering::SeqCst);
    watcher.nudge();
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(calls.load(Ordering::SeqCst), before);
    fs::remove_dir_all(root.path().join("run-1")).expect("it was there");
    is(&[("run-2", 5), (name.as_str(), 40_000)]);
    drop(watcher);
    let before = calls.load(Ordering::SeqCst);
    append(&place("run-2"), &lines(5..6));
    std::thread::sleep(Duration::from_millis(30));
    assert_eq!(calls.load(Ordering::SeqCst), before);
}
