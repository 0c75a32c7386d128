//! Disks that are full.

use std::process::Command;

use super::common::checkpoints;
use super::resume::bytes;
use super::{Ran, brasa, flags, folder, metrics, text};

/// Runs the program with a limit on the size of files, in blocks of 512 or 1024 bytes, which stands for a disk that is
/// full.
fn with_room(blocks: usize, arguments: &[&str]) -> Ran {
    let shell = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    let output = Command::new("sh").args(["-c", &shell, env!("CARGO_BIN_EXE_brasa")]).args(arguments).output();
    let output = output.expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    let ran = Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) };
    assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
    assert!(!ran.stderr.contains(".brasa-"), "the name of a temporary file: {}", ran.stderr);
    ran
}

#[test]
fn weights_that_find_no_room_are_an_error_and_leave_the_rest() {
    let out = folder();
    for (more, words) in [
        (&["--epochs", "1"][..], &["warning: not saved: ", "best.safetensors", "error: ", "step-00000023"][..]),
        (&["--epochs", "1", "--lr", "1e30"], &["warning: not saved: ", "model.safetensors", "error: step 2: "]),
    ] {
        let arguments = ["--model", "mlp", "--batch-size", "64", "--device", "cpu", "--out", text(out.path())];
        // the metrics of an epoch fit, 69 KB of weights do not
        let ran = with_room(24, &[&arguments[..], &["--tensorboard=false", "--no-ui"], more].concat());
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        for word in words {
            assert!(ran.stderr.contains(word), "`{word}` is missing in: {}", ran.stderr);
        }
    }
    let files = |folder: &str| {
        let entries = std::fs::read_dir(out.path().join(folder)).expect("it was made");
        let mut names: Vec<_> = entries.map(|entry| entry.expect("readable").file_name()).collect();
        names.sort();
        names
    };
    let expected = [
        ".lock",
        "checkpoints",
        "config.toml",
        "confusion.json",
        "environment.toml",
        "metrics.jsonl",
        "run.json",
        "status.json",
    ];
    assert_eq!(files("digits-mlp-1"), expected, "and nothing half written");
    assert!(files("digits-mlp-1/checkpoints").is_empty(), "and nothing half written");
    assert!(metrics(&out.path().join("digits-mlp-1")).len() > 20);
}

#[test]
fn a_disk_that_fills_leaves_the_last_checkpoint_and_the_run_goes_on_from_it() {
    let out = folder();
    let more = |name| ["--name", name, "--schedule", "constant", "--seed", "2", "--save-every", "5"];
    let whole = brasa(&flags(out.path(), "6", &more("whole")));
    assert_eq!(whole.code, Some(0), "{}", whole.stderr);
    let first = brasa(&flags(out.path(), "1", &more("run")));
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    let run = out.path().join("run");
    let before = (checkpoints(&run), bytes(&run.join("model.safetensors")));

    // no room for a checkpoint, nor for the lines of all epochs, nor for TensorBoard's events
    let resume = ["--resume", text(&run), "--epochs", "6", "--no-ui"];
    let full = with_room(24, &resume);
    assert_eq!(full.code, Some(1), "{}", full.stderr);
    let told = ["not saved: ", "step-00000028.safetensors: ", "metrics.jsonl: ", "TensorBoard", "epoch 6/6", "error: "];
    for words in told {
        assert!(full.stderr.contains(words), "`{words}` is missing in: {}", full.stderr);
    }
    assert_eq!((checkpoints(&run), bytes(&run.join("model.safetensors"))), before, "what was there is as it was");

    let resumed = brasa(&resume);
    assert_eq!(resumed.code, Some(0), "{}", resumed.stderr);
    for file in ["model.safetensors", "best.safetensors"] {
        assert_eq!(bytes(&run.join(file)), bytes(&out.path().join("whole").join(file)), "{file}");
    }
    // all but that the first one ended after an epoch
    assert_eq!(metrics(&run), metrics(&out.path().join("whole")));
}

#[test]
fn a_full_disk_is_an_error() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
    let mut command = Command::new(env!("CARGO_BIN_EXE_brasa"));
    let output = command.arg("devices").stdout(full).output().expect("the program starts");
    let message = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("error: standard output: ") && !message.contains("panicked"), "{message}");
}
