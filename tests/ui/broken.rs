//! Folders that nobody should have made.

use std::path::Path;

use brasa::formats::tensorboard::{EventWriter, Histogram};
use brasa::ui::{Options, Page};
use egui_kittest::kittest::Queryable as _;

use crate::{config, trained, wait, window};

fn write(path: &Path, contents: &[u8]) {
    std::fs::write(path, contents).expect("writable");
}

#[test]
fn damaged_and_foreign_files_are_named_and_the_rest_is_shown() {
    let out = tempfile::tempdir().expect("a folder");
    let good = trained(config(out.path())).folder;
    let damaged = out.path().join("damaged");
    std::fs::create_dir(&damaged).expect("a folder");
    let copy = |name: &str| std::fs::read(good.join(name)).unwrap_or_default();
    write(&damaged.join("metrics.jsonl"), b"{\"kind\": \"train\"\nnot json at all\n\xff\xfe\n");
    for name in ["status.json", "plan.json", "predictions.json", "run.json", "confusion.json", "config.toml"] {
        let whole = copy(name);
        write(&damaged.join(name), &whole[..whole.len() / 2]);
    }
    write(&damaged.join("events.out.tfevents.1.x"), &[0xff; 100]);
    let long = out.path().join("n".repeat(250));
    std::fs::create_dir(&long).expect("a long name");
    write(&long.join("metrics.jsonl"), &copy("metrics.jsonl"));
    // a data set, a class and a curve of 500 characters
    let wordy = out.path().join("wordy");
    std::fs::create_dir(&wordy).expect("a folder");
    for name in ["status.json", "predictions.json", "run.json", "plan.json"] {
        let text = String::from_utf8(copy(name)).expect("JSON");
        write(
            &wordy.join(name),
            text.replace("digits", &"d".repeat(500))
                .replace("\"7\"", &format!("\"{}\"", "seven ".repeat(84)))
                .as_bytes(),
        );
    }
    write(&wordy.join("metrics.jsonl"), &copy("metrics.jsonl"));
    let mut events = EventWriter::create(&wordy, 0).expect("writable");
    let tag = "t".repeat(500);
    events.scalar(&tag, 0.5, 1).expect("writable");
    events.histogram(&tag, &Histogram::of(&[1.0, 2.0]), 1).expect("writable");
    events.flush().expect("writable");
    let empty = out.path().join("empty");
    std::fs::create_dir(empty).expect("a folder");

    let mut seen = window(Options { roots: vec![out.path().into()], ..Options::default() });
    wait(&mut seen, "all are listed", |seen| seen.query_all_by_label_contains("damaged").next().is_some());
    for page in Page::ALL {
        seen.state_mut().open_page(page);
        seen.run_steps(5);
    }
    seen.state_mut().open_page(Page::Runs);
    wait(&mut seen, "it is said", |seen| seen.query_all_by_label_contains("cannot be read").next().is_some());
}

#[test]
fn a_folder_that_vanishes_takes_nothing_with_it() {
    let out = tempfile::tempdir().expect("a folder");
    let run = trained(config(out.path())).folder;
    let mut seen = window(Options { roots: vec![out.path().into()], ..Options::default() });
    wait(&mut seen, "it is there", |seen| seen.query_all_by_label_contains("digits-cnn-1").next().is_some());
    std::fs::remove_dir_all(run).expect("removable");
    for page in Page::ALL {
        seen.state_mut().open_page(page);
        seen.run_steps(10);
    }
    wait(&mut seen, "it is gone", |seen| seen.query_all_by_label_contains("digits-cnn-1").next().is_none());
}
