//! `BRASA_VALIDATE=1` compares every kernel of a run with the f64 interpreter, and changes no result.

mod common;

use std::process::Command;

use serde_json::Value;

/// Loss and correct answers of the test set after an epoch.
fn evaluated(device: &str, validate: bool) -> (Value, Value) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_brasa"));
    command.args(["--device", device, "--model", "mlp", "--batch-size", "719", "--epochs", "1", "--seed", "1"]);
    command.args(["--no-ui", "--json", "--out"]).arg(folder.path()).env_remove("BRASA_DEVICE");
    if validate {
        command.env("BRASA_VALIDATE", "1");
    }
    let ran = command.output().expect("the program starts");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let stdout = String::from_utf8(ran.stdout).expect("UTF-8");
    let mut events = stdout.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let event = events.find(|event| event["event"] == "evaluated").expect("an evaluation");
    assert!(event["loss"].is_number() && event["correct"].is_number(), "{event}");
    (event["loss"].clone(), event["correct"].clone())
}

#[test]
fn a_validated_run_passes_and_is_the_same() {
    for device in common::devices() {
        let selector = &device.info().selector;
        assert_eq!(evaluated(selector, true), evaluated(selector, false), "{device:?}");
    }
}
