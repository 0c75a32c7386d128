//! What a run writes, read by the programs that it is for: TensorBoard's own reader and safetensors' own, through the
//! scripts of a folder beside the repository, where that and a Python with these packages are there.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{brasa, folder, short, text};

/// The script, if it can run here.
#[expect(clippy::print_stderr, reason = "a test that does nothing has to say so")]
fn script(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/checks").join(name);
    if !path.is_file() {
        eprintln!("skipped: there is no ../shared/checks/{name}");
        return None;
    }
    let tried = Command::new("python3").arg(&path).arg("--help").output();
    if !tried.as_ref().is_ok_and(|output| output.status.success()) {
        let why =
            tried.map_or_else(|error| error.to_string(), |output| String::from_utf8_lossy(&output.stderr).into_owned());
        eprintln!("skipped: python3 cannot run ../shared/checks/{name}: {}", why.lines().last().unwrap_or_default());
        return None;
    }
    Some(path)
}

/// What the script says of these files; fails if it finds them wrong.
fn checked(script: &Path, arguments: &[&str]) -> String {
    let output = Command::new("python3").arg(script).args(arguments).output().expect("it ran before");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{arguments:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

#[test]
fn others_read_what_a_run_writes() {
    let (events, weights) = (script("read_tfevents.py"), script("read_safetensors.py"));
    if events.is_none() && weights.is_none() {
        return;
    }
    let out = folder();
    let more = ["--name", "run", "--log-every", "1", "--save-every", "10"];
    let ran = brasa(&short(out.path(), &more));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    // and one that goes on writes a second file of events
    let run = out.path().join("run");
    let longer = brasa(&["--resume", text(&run), "--epochs", "3", "--no-ui"]);
    assert_eq!(longer.code, Some(0), "{}", longer.stderr);
    if let Some(script) = events {
        let expected = [
            "scalar:loss/train:69",
            "scalar:loss/test:3",
            "scalar:epoch/loss:3",
            "histogram:weights/0/weight:3",
            "histogram:gradients/0/weight:3",
            "image:predictions:3",
            "graph:graph",
        ];
        let expected: Vec<&str> = expected.iter().flat_map(|tag| ["--expect", tag]).collect();
        checked(&script, &[&[text(&run)], &expected[..]].concat());
    }
    if let Some(script) = weights {
        let checkpoints = std::fs::read_dir(run.join("checkpoints")).expect("a folder").flatten();
        let mut files: Vec<PathBuf> = checkpoints.map(|entry| entry.path()).collect();
        assert!(!files.is_empty());
        files.extend(["model.safetensors", "best.safetensors"].map(|name| run.join(name)));
        for file in files {
            let said = checked(&script, &[text(&file), "--finite"]);
            assert!(said.contains("0.weight"), "{said}");
        }
    }
}
