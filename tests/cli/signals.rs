//! The shell's view of Ctrl-C, and of other signals that end a program.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::{flags, folder, text};

/// A run that would go on for long.
fn long(program: &mut Command, arguments: &[&str]) -> Child {
    let child = program.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    child.spawn().expect("the program starts")
}

fn send(signal: &str, child: &Child) {
    let status = Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill is there");
    assert!(status.success());
}

/// The signals of a process that its status has under `what`, signal 1 in the lowest bit; 0 where Linux is not.
fn signals(process: &str, what: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix(what)?.strip_prefix(':'));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Whether these tests themselves run as under nohup, and so the program would, too.
fn is_hangup_ignored() -> bool {
    signals("self", "SigIgn") & 1 == 1
}

/// The run stops after a step, saves, and says so by its exit code.
#[test]
fn an_interrupted_run_is_saved() {
    let signals: &[&str] = if is_hangup_ignored() { &["-INT", "-TERM"] } else { &["-INT", "-TERM", "-HUP"] };
    for &signal in signals {
        let out = folder();
        let mut program = Command::new(env!("CARGO_BIN_EXE_brasa"));
        let mut child = long(&mut program, &flags(out.path(), "100000", &["--json"]));
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let mut next = || Some(serde_json::from_str::<Value>(&lines.next()?.expect("readable")).expect("JSON"));
        assert!(std::iter::from_fn(&mut next).any(|event| event["event"] == "step"), "no step before the end");
        send(signal, &child);
        let last = std::iter::from_fn(&mut next).last().expect("events after the signal");
        assert_eq!((&last["event"], &last["completed"]), (&Value::from("finished"), &Value::from(false)), "{signal}");
        assert_eq!(child.wait().expect("it ends").code(), Some(130), "{signal}");
        let run = out.path().join("digits-mlp-1");
        let weights = std::fs::read(run.join("model.safetensors")).expect("it was saved");
        safetensors::SafeTensors::deserialize(&weights).expect("a whole file");
        assert_eq!(std::fs::read_dir(run.join("checkpoints")).expect("readable").count(), 1, "{signal}");
    }
}

#[test]
fn a_run_that_was_stopped_says_how_to_go_on() {
    let out = folder();
    let place = out.path().join("my runs");
    let mut program = Command::new(env!("CARGO_BIN_EXE_brasa"));
    let mut child = long(&mut program, &flags(&place, "100000", &["--name", "run"]));
    let mut lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
    let mut next = || lines.next().map(|line| line.expect("readable"));
    assert!(std::iter::from_fn(&mut next).any(|line| line.contains("epoch")), "no epoch before the end");
    send("-INT", &child);
    let last = std::iter::from_fn(&mut next).last().expect("messages after the signal");
    assert_eq!(last, format!("go on with: brasa --resume '{}'", text(&place.join("run"))));
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
}

/// Where no window opens, the terminal has the run, from its first moment on.
#[cfg(all(not(target_os = "macos"), feature = "ui"))]
#[test]
fn a_signal_while_a_run_is_set_up_ends_it() {
    let out = folder();
    let arguments = ["--model", "mlp", "--epochs", "100000", "--device", "cpu", "--out", text(out.path())];
    let mut child = long(&mut super::command(&[]), &arguments);
    let mut lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
    let first = lines.next().expect("a message").expect("readable");
    assert!(first.starts_with("no window can be opened"), "{first}");
    send("-INT", &child);
    // what it says must find a reader; if the signal is lost, this takes long
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    std::thread::spawn(move || lines.for_each(drop));
    while child.try_wait().expect("a child").is_none() {
        if std::time::Instant::now() > end {
            child.kill().expect("it runs");
            panic!("it trains as if there had been no signal");
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
}

/// What it was at says nothing of the driver then, and an earlier report stays.
#[test]
fn an_examination_that_is_stopped_leaves_the_report_before_it() {
    let folder = folder();
    let [report, partial] = ["report.md", "report.md.partial"].map(|name| folder.path().join(name));
    std::fs::write(&report, "of before").expect("writable");
    let arguments = ["doctor", "--device", "cpu", "--out", text(&report)];
    let mut child = long(&mut Command::new(env!("CARGO_BIN_EXE_brasa")), &arguments);
    while !partial.exists() {
        assert_eq!(child.try_wait().expect("a child"), None, "it says how far it is");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    send("-INT", &child);
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    assert_eq!(std::fs::read_to_string(&report).expect("it is there"), "of before");
    assert!(!partial.exists(), "no verdict");
}

/// Minutes of measuring are not lost.
#[cfg(target_os = "linux")]
#[test]
fn a_benchmark_that_is_stopped_tells_what_it_has() {
    let folder = folder();
    let report = folder.path().join("report.json");
    let arguments = ["bench", "--device", "cpu", "--save", text(&report)];
    let mut child = long(&mut Command::new(env!("CARGO_BIN_EXE_brasa")), &arguments);
    // it has not begun to measure before it listens
    while signals(&child.id().to_string(), "SigCgt") & 2 == 0 {
        assert_eq!(child.try_wait().expect("a child"), None, "it measures");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    send("-INT", &child);
    let done = child.wait_with_output().expect("it ends");
    let [out, said] = [done.stdout, done.stderr].map(|bytes| String::from_utf8(bytes).expect("text"));
    assert_eq!(done.status.code(), Some(130), "{said}");
    assert!(said.contains("once more to end at once"), "{said}");
    assert!(out.contains("Left out: what comes after it was stopped on cpu"), "{out}");
    let kept: Value = serde_json::from_slice(&std::fs::read(report).expect("it was kept")).expect("JSON");
    assert_eq!(kept["devices"][0]["selector"], "cpu");
}

/// Closing the terminal is what nohup is for.
#[test]
fn a_hangup_that_is_ignored_stays_ignored() {
    let out = folder();
    let mut program = Command::new("nohup");
    program.arg(env!("CARGO_BIN_EXE_brasa"));
    let mut child = long(&mut program, &flags(out.path(), "100000", &["--json"]));
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let mut next = || Some(serde_json::from_str::<Value>(&lines.next()?.expect("readable")).expect("JSON"));
    let is_epoch = |event: Value| event["event"] == "epoch";
    assert!(std::iter::from_fn(&mut next).any(is_epoch), "no pass before the signal");
    send("-HUP", &child);
    assert_eq!(std::iter::from_fn(&mut next).filter(|event| event["event"] == "epoch").take(5).count(), 5);
    assert_eq!(child.try_wait().expect("a child"), None, "it trains");
    send("-TERM", &child);
    assert!(std::iter::from_fn(&mut next).any(|event| event["event"] == "finished"));
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
}
