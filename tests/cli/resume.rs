//! Runs that go on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::common;
use super::{brasa, devices, flags, folder, refuses, text};

pub(super) fn bytes(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn a_complete_run_can_be_made_longer() {
    let out = folder();
    let first = brasa(&flags(out.path(), "1", &["--name", "run", "--schedule", "constant", "--seed", "2"]));
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    let run = out.path().join("run");
    let second = brasa(&["--resume", text(&run), "--epochs", "2", "--no-ui"]);
    assert_eq!(second.code, Some(0), "{}", second.stderr);
    assert!(second.stdout.contains("; the table is of the last 23 steps, in "), "{}", second.stdout);
    let at_once = brasa(&flags(out.path(), "2", &["--name", "once", "--schedule", "constant", "--seed", "2"]));
    assert_eq!(at_once.code, Some(0), "{}", at_once.stderr);
    assert_eq!(bytes(&run.join("model.safetensors")), bytes(&out.path().join("once/model.safetensors")));
}

#[test]
fn a_run_on_several_devices_goes_on_with_the_same_bits() {
    if devices().len() < 2 {
        return common::skipped("it takes two devices");
    }
    let out = folder();
    let run = |name: &str, epochs: &str| {
        // it has dropout, whose random numbers each device draws for itself
        let named = ["--model", "cnn", "--device", "cpu,gpu:0", "--out", text(out.path()), "--name", name];
        let ran = brasa(&[&named[..], &["--no-ui", "--schedule", "constant", "--epochs", epochs]].concat());
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(ran.stdout.contains("cpu + gpu:0") || ran.stdout.contains("gpu:0 + cpu"), "{}", ran.stdout);
        out.path().join(name)
    };
    let [whole, again, first] =
        [("whole", "2"), ("again", "2"), ("first", "1")].map(|(name, epochs)| run(name, epochs));
    let weights = |run: &Path| bytes(&run.join("model.safetensors"));
    assert!(weights(&whole) == weights(&again), "the same seed gives other bits");
    let resumed = brasa(&["--resume", text(&first), "--epochs", "2", "--no-ui"]);
    assert_eq!(resumed.code, Some(0), "{}", resumed.stderr);
    assert!(weights(&whole) == weights(&first), "a run that went on has other bits");
}

#[test]
fn a_finished_run_keeps_its_record() {
    let out = folder();
    let first = brasa(&flags(out.path(), "2", &["--name", "run"]));
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    let run = out.path().join("run");
    let before = record(&run);
    for more in [&[][..], &["--epochs", "1"], &["--json"]] {
        let again = brasa(&[&["--resume", text(&run)], more].concat());
        assert_eq!((again.code, again.stdout.as_str()), (Some(0), ""), "{}", again.stderr);
        let words = ["run is finished, after 2 epochs", "brasa --resume", "--epochs 4"];
        assert!(words.iter().all(|word| again.stderr.contains(word)), "{}", again.stderr);
    }
    assert!(record(&run) == before, "something was written");
}

/// All files of a run, by their paths.
fn record(run: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files =
        |folder: &Path| std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("readable").path());
    let all = files(run).chain(files(&run.join("checkpoints"))).filter(|path| path.is_file());
    all.map(|path| (path.clone(), bytes(&path))).collect()
}

#[test]
fn fewer_epochs_than_have_begun_are_refused() {
    let out = folder();
    let first = brasa(&flags(out.path(), "3", &["--name", "run", "--save-every", "40"]));
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    let run = out.path().join("run");
    // as if it had been stopped in its second pass, of 23 steps
    let newest = run.join("checkpoints/step-00000069.safetensors");
    assert!(run.join("checkpoints/step-00000040.safetensors").exists());
    std::fs::remove_file(newest).expect("the last one");
    let status = String::from_utf8(bytes(&run.join("status.json"))).expect("UTF-8");
    let stopped = status.replace("\"state\":\"completed\"", "\"state\":\"stopped\"");
    assert_ne!(status, stopped);
    std::fs::write(run.join("status.json"), stopped).expect("writable");
    let before = record(&run);
    refuses(
        &["--resume", text(&run), "--no-ui", "--epochs", "1"],
        2,
        &["error: epochs is 1, but 2 have begun: give --epochs of at least 2"],
    );
    assert!(record(&run) == before, "something was written");
    let enough = brasa(&["--resume", text(&run), "--no-ui", "--epochs", "2"]);
    assert_eq!(enough.code, Some(0), "{}", enough.stderr);
}

#[test]
fn a_run_without_any_checkpoint_says_what_is_left_of_it() {
    let out = folder();
    let first = brasa(&flags(out.path(), "1", &["--name", "run"]));
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    let run = out.path().join("run");
    // what a run has that was killed after its first evaluation
    std::fs::remove_dir_all(run.join("checkpoints")).expect("it is there");
    std::fs::remove_file(run.join("model.safetensors")).expect("it is there");
    let resume = ["--resume", text(&run), "--no-ui", "--epochs", "2"];
    refuses(&resume, 2, &["no checkpoint", "--save-every", "--weights", text(&run.join("best.safetensors"))]);
    std::fs::remove_file(run.join("best.safetensors")).expect("it is there");
    let ran = brasa(&resume);
    assert!(ran.code == Some(2) && !ran.stderr.contains("--weights"), "{}", ran.stderr);
}

#[test]
fn the_weights_that_a_run_began_with_are_not_needed_any_more() {
    let out = folder();
    let first = brasa(&flags(out.path(), "1", &["--name", "first"]));
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    let weights = out.path().join("weights.safetensors");
    std::fs::rename(out.path().join("first/model.safetensors"), &weights).expect("writable");
    let tuned = brasa(&flags(out.path(), "1", &["--name", "tuned", "--weights", text(&weights)]));
    assert_eq!(tuned.code, Some(0), "{}", tuned.stderr);
    assert!(tuned.stderr.contains("variables loaded from"), "{}", tuned.stderr);
    std::fs::remove_file(&weights).expect("it is there");
    let run = out.path().join("tuned");
    let longer = brasa(&["--resume", text(&run), "--epochs", "2", "--no-ui"]);
    assert_eq!(longer.code, Some(0), "{}", longer.stderr);
    assert!(!longer.stderr.contains("variables loaded from"), "{}", longer.stderr);
    let config = String::from_utf8(bytes(&run.join("config.toml"))).expect("UTF-8");
    assert!(config.contains("weights.safetensors"), "what it began with is still told: {config}");
}

#[test]
fn what_cannot_be_gone_on_from_is_named() {
    let out = folder();
    refuses(&["--resume", text(&out.path().join("none"))], 2, &["none is not a run: there is no such folder", "runs/"]);
    let ran = brasa(&flags(out.path(), "1", &["--name", "run"]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let run = out.path().join("run");
    let longer = ["--resume", text(&run), "--epochs", "2"];
    refuses(&[&longer[..], &["--model", "cnn"]].concat(), 1, &["step-", "another model", "conv1.weight"]);
    // another order of the data; the run is as it was
    let files = ["config.toml", "metrics.jsonl", "model.safetensors"].map(|name| run.join(name));
    let before = files.each_ref().map(|file| bytes(file));
    refuses(&[&longer[..], &["--seed", "77"]].concat(), 1, &["cannot go on in the data", "seed"]);
    assert_eq!(files.each_ref().map(|file| bytes(file)), before);
    // data that only the program has that began the run
    let config = run.join("config.toml");
    let settings = String::from_utf8(bytes(&config)).expect("UTF-8");
    std::fs::write(&config, settings.replace("\"digits\"", "\"program:rows\"")).expect("writable");
    for arguments in [&longer[..], &["eval", text(&run)]] {
        refuses(arguments, 2, &["`rows`", "resume_with_data", "--dataset"]);
    }
    std::fs::write(&config, settings).expect("writable");
    // a damaged checkpoint is left out, and there is no other one
    let checkpoints = run.join("checkpoints");
    for entry in std::fs::read_dir(&checkpoints).expect("a folder").flatten() {
        let whole = bytes(&entry.path());
        std::fs::write(entry.path(), &whole[..whole.len() / 2]).expect("writable");
    }
    refuses(&longer, 2, &["no checkpoint", "left out", "step-"]);
}

#[test]
fn what_a_run_began_with_cannot_be_changed() {
    let out = folder();
    let ran = brasa(&flags(out.path(), "1", &["--name", "run"]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let run = out.path().join("run");
    let before = bytes(&run.join("config.toml"));
    for flag in [["--weights", "x.safetensors"], ["--skip-weights", "4.*"], ["--name", "other"], ["--out", "elsewhere"]]
    {
        refuses(&[&["--resume", text(&run)], &flag[..]].concat(), 2, &[flag[0], "--resume", "begin a new run"]);
    }
    assert_eq!(bytes(&run.join("config.toml")), before);
}

#[test]
fn a_run_on_a_relative_path_goes_on_from_elsewhere() {
    let place = folder();
    let rows: String = (0..40).map(|number| format!("{number},{},{}\n", 40 - number, number % 2)).collect();
    std::fs::write(place.path().join("rows.csv"), format!("a,b,class\n{rows}")).expect("writable");
    let within = |arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_brasa"));
        command.current_dir(place.path()).args(arguments).output().expect("the program starts")
    };
    let flags = ["--dataset", "csv:rows.csv", "--model", "mlp", "--epochs", "1", "--device", "cpu", "--no-ui"];
    let first = within(&[&flags[..], &["--out", "runs", "--name", "run", "--schedule", "constant"]].concat());
    assert_eq!(first.status.code(), Some(0), "{}", String::from_utf8_lossy(&first.stderr));
    let longer = brasa(&["--resume", text(&place.path().join("runs/run")), "--epochs", "2", "--no-ui"]);
    assert_eq!(longer.code, Some(0), "{}", longer.stderr);
    assert!(longer.stderr.contains("training and") && longer.stderr.contains("test samples"), "{}", longer.stderr);
    std::fs::rename(place.path().join("rows.csv"), place.path().join("moved.csv")).expect("a new name");
    let run = place.path().join("runs/run");
    for arguments in [&["--resume", text(&run), "--epochs", "3", "--no-ui"][..], &["eval", text(&run)]] {
        refuses(arguments, 1, &["rows.csv", "data that were moved are named with --dataset"]);
    }
    let moved = format!("csv:{}", text(&place.path().join("moved.csv")));
    let longest = brasa(&["--resume", text(&run), "--epochs", "3", "--no-ui", "--dataset", &moved]);
    assert_eq!(longest.code, Some(0), "{}", longest.stderr);
}

#[test]
fn a_run_goes_on_with_a_table_whose_columns_stand_otherwise() {
    let place = folder();
    let write = |name: &str, header: &str, row: fn(usize, usize) -> String| {
        let rows = (0..40).map(|number| row(number, number % 7)).collect::<String>();
        std::fs::write(place.path().join(name), format!("{header}\n{rows}")).expect("writable");
        format!("csv:{}", text(&place.path().join(name)))
    };
    let own = write("own.csv", "a,b,class", |a, b| format!("{a},{b},{}\n", a / 20));
    let turned = write("turned.csv", "b,class,a", |a, b| format!("{b},{},{a}\n", a / 20));
    let other = write("other.csv", "a,c,class", |a, b| format!("{a},{b},{}\n", a / 20));
    let weights = |name: &str, dataset: &str| {
        let run = place.path().join(name);
        let first = brasa(&flags(place.path(), "1", &["--name", name, "--dataset", &own, "--schedule", "constant"]));
        assert_eq!(first.code, Some(0), "{}", first.stderr);
        let second = brasa(&["--resume", text(&run), "--epochs", "2", "--dataset", dataset, "--no-ui"]);
        assert_eq!(second.code, Some(0), "{}", second.stderr);
        bytes(&run.join("model.safetensors"))
    };
    assert_eq!(weights("one", &own), weights("two", &turned));
    let run = place.path().join("one");
    let resume = ["--resume", text(&run), "--epochs", "3", "--no-ui", "--dataset", &other];
    refuses(&resume, 1, &["other.csv", "lacks the column `b`"]);
}
