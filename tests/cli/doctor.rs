//! `brasa doctor`.

use std::process::Command;

use serde_json::Value;

use crate::{brasa, devices, folder, json_lines, refuses, text};

#[test]
fn a_right_driver_passes_and_a_planted_fault_is_named() {
    let folder = folder();
    let file = folder.path().join("report.md");
    for device in devices() {
        let flags = ["doctor", "--filter", "layer_norm", "--device", device, "--out", text(&file)];
        let ran = brasa(&flags);
        assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
        let last = format!("\n{device}: of ops with `layer_norm` in their names alone: safe to train here\n");
        assert!(ran.stdout.ends_with(&last), "{}", ran.stdout);
        let ran = brasa(&[&flags[..], &["--plant-fault", "layer_norm"]].concat());
        assert_eq!(ran.code, Some(1), "{}{}", ran.stdout, ran.stderr);
        // lines are broken between words
        let words = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        for word in ["layer_norm(f32[", "element 0 is ", "not safe to train here"] {
            assert!(words.contains(word), "`{word}` is missing in: {words}");
        }
        let report = std::fs::read_to_string(&file).expect("it was written");
        assert!(report.contains("| layer_norm(f32[") && report.contains(": not safe to train here"), "{report}");
    }
}

#[test]
fn a_whole_report_is_json() {
    let folder = folder();
    let out = folder.path().join("report.md");
    let ran = brasa(&["doctor", "--device", "cpu", "--json", "--out", text(&out)]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    let report: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!((&report["verdict"], &report["sweep"]["deviations"]), (&"safe".into(), &Value::Array(Vec::new())));
    assert!(report["sweep"]["ops"].as_u64() > Some(300) && report["sweep"]["cases"].as_u64() > Some(1000));
    assert!(report["device"]["selector"] == "cpu" && report["device"]["max_buffer_bytes"].is_null(), "{report}");
    assert!(out.is_file() && !out.with_file_name("report.md.partial").exists(), "the whole report alone");
    let outcomes = report["checks"].as_array().expect("a list");
    assert_eq!(outcomes.len(), 9);
    assert!(outcomes.iter().all(|check| check["outcome"]["failed"].is_null()), "{report}");
}

#[test]
fn a_device_that_cannot_be_opened_does_not_keep_the_others_from_being_examined() {
    let folder = folder();
    let flags = ["doctor", "--filter", "layer_norm", "--device", "no such device", "--device", "cpu", "--json"];
    let ran = brasa(&[&flags[..], &["--out", text(&folder.path().join("report.md"))]].concat());
    assert_eq!(ran.code, Some(1), "{}{}", ran.stdout, ran.stderr);
    let told = json_lines(&ran.stdout);
    let verdicts: Vec<_> = told.iter().map(|report| report["verdict"].as_str().expect("a word")).collect();
    assert_eq!(verdicts, ["not_safe", "safe"], "{told:?}");
    assert!(told[0]["failure"].as_str().is_some_and(|failure| failure.contains("no such device")), "{told:?}");
    refuses(&["doctor", "--filter", "layer_norm", "--device", "cpu", "--out", "/nowhere/a.md"], 1, &["/nowhere/a.md"]);
}

#[test]
fn a_report_of_some_ops_does_not_replace_that_of_all() {
    let folder = folder();
    let whole = folder.path().join("brasa-doctor.md");
    std::fs::write(&whole, "of all ops").expect("writable");
    let mut command = Command::new(env!("CARGO_BIN_EXE_brasa"));
    let ran = command.current_dir(&folder).args(["doctor", "--device", "cpu", "--filter", "layer_norm"]).output();
    let said = String::from_utf8(ran.expect("the program starts").stdout).expect("UTF-8");
    assert!(said.contains("report is in brasa-doctor-filtered.md."), "{said}");
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("it is there");
    assert_eq!(read("brasa-doctor.md"), "of all ops");
    assert!(read("brasa-doctor-filtered.md").contains("of ops with `layer_norm` in their names alone"));
}

#[test]
fn wrong_names_are_refused() {
    refuses(&["doctor", "--filter", "no_such_op"], 2, &["no_such_op"]);
    refuses(&["doctor", "--plant-fault", "no_such_op"], 2, &["no_such_op"]);
    refuses(&["doctor", "--device", "no such device"], 2, &["no such device"]);
}
