//! Runs that are killed and go on.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::{brasa, devices, flags, folder, refuses, text};

/// Kills a run this often, at moments spread over a run's length.
const KILLS: u64 = 20;

/// Settings whose state is more than weights: moments, a schedule, an average, dropout's position, sums of an epoch.
const SETTINGS: [&str; 12] = [
    "--seed",
    "7",
    "--augment=shift",
    "--ema",
    "0.9",
    "--accumulate",
    "2",
    "--save-every",
    "3",
    "--patience",
    "50",
    "--json",
];

fn bytes(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Whether a run has come so far that there is something to go on from: its folder of checkpoints comes before the first one.
fn has_checkpoint(run: &Path) -> bool {
    let mut files = std::fs::read_dir(run.join("checkpoints")).into_iter().flatten().flatten();
    files.any(|file| file.file_name().to_string_lossy().starts_with("step-"))
}

/// Lines of `metrics.jsonl` without what depends on the clock and on the process.
fn metrics(run: &Path) -> Vec<serde_json::Value> {
    let lines = super::json_lines(&String::from_utf8(bytes(&run.join("metrics.jsonl"))).expect("UTF-8"));
    let timeless = |mut line: serde_json::Value| {
        for field in ["elapsed_s", "samples_per_second", "memory_bytes"] {
            line.as_object_mut().expect("an object").remove(field);
        }
        line
    };
    lines.into_iter().map(timeless).collect()
}

#[test]
fn killed_runs_end_as_if_nothing_had_happened() {
    for device in devices() {
        let out = folder();
        let more = |name: &'static str| [&SETTINGS[..], &["--device", device, "--name", name]].concat();
        let undisturbed = brasa(&flags(out.path(), "4", &more("whole")));
        assert_eq!(undisturbed.code, Some(0), "{}", undisturbed.stderr);
        let (whole, killed) = (out.path().join("whole"), out.path().join("killed"));

        let mut kills = 0;
        for attempt in 0..10 * KILLS {
            let arguments = if has_checkpoint(&killed) {
                ["--resume", text(&killed), "--json"].map(str::to_owned).to_vec()
            } else {
                // killed before there was anything to go on from
                let _ = std::fs::remove_dir_all(&killed);
                flags(out.path(), "4", &more("killed")).into_iter().map(str::to_owned).collect()
            };
            let mut child = Command::new(env!("CARGO_BIN_EXE_brasa"))
                .args(&arguments)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("the program starts");
            // a deterministic spread; what is done at that moment is up to the machine
            let wait = if kills < KILLS { 20 + attempt * 7919 % 400 } else { 600_000 };
            let ended = wait_for(&mut child, Duration::from_millis(wait));
            if let Some(code) = ended {
                assert_eq!(code, Some(0));
                break;
            }
            kills += 1;
        }
        assert_eq!(bytes(&killed.join("model.safetensors")), bytes(&whole.join("model.safetensors")), "{kills} kills");
        assert_eq!(metrics(&killed), metrics(&whole), "{kills} kills");
        assert!(kills > 0, "the run ended before it could be killed");
        let left = std::fs::read_dir(killed.join("checkpoints")).expect("a folder").count();
        assert_eq!(left, 2, "old checkpoints and temporary files are removed");
    }
}

/// The exit code, if the program ends in that time; else it is killed.
fn wait_for(child: &mut std::process::Child, time: Duration) -> Option<Option<i32>> {
    let start = std::time::Instant::now();
    while start.elapsed() < time {
        if let Some(status) = child.try_wait().expect("a child") {
            return Some(status.code());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().expect("a child");
    child.wait().expect("a child");
    None
}

#[test]
fn a_complete_run_can_be_made_longer() {
    let out = folder();
    let first = brasa(&flags(out.path(), "1", &["--name", "run", "--schedule", "constant", "--seed", "2"]));
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    let run = out.path().join("run");
    let second = brasa(&["--resume", text(&run), "--epochs", "2", "--no-ui"]);
    assert_eq!(second.code, Some(0), "{}", second.stderr);
    let at_once = brasa(&flags(out.path(), "2", &["--name", "once", "--schedule", "constant", "--seed", "2"]));
    assert_eq!(at_once.code, Some(0), "{}", at_once.stderr);
    assert_eq!(bytes(&run.join("model.safetensors")), bytes(&out.path().join("once/model.safetensors")));
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
    refuses(&["--resume", text(&out.path().join("none"))], 1, &["none", "config.toml"]);
    let ran = brasa(&flags(out.path(), "1", &["--name", "run"]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let run = out.path().join("run");
    refuses(&["--resume", text(&run), "--model", "cnn"], 1, &["step-", "another model", "conv1.weight"]);
    // data that only the program has that began the run
    let config = run.join("config.toml");
    let settings = String::from_utf8(bytes(&config)).expect("UTF-8");
    std::fs::write(&config, settings.replace("\"digits\"", "\"program:rows\"")).expect("writable");
    for arguments in [["--resume", text(&run)], ["eval", text(&run)]] {
        refuses(&arguments, 2, &["`rows`", "resume_with_data", "--dataset"]);
    }
    std::fs::write(&config, settings).expect("writable");
    // a damaged checkpoint is left out, and there is no other one
    let checkpoints = run.join("checkpoints");
    for entry in std::fs::read_dir(&checkpoints).expect("a folder").flatten() {
        let whole = bytes(&entry.path());
        std::fs::write(entry.path(), &whole[..whole.len() / 2]).expect("writable");
    }
    refuses(&["--resume", text(&run)], 2, &["no checkpoint", "left out", "step-"]);
}
