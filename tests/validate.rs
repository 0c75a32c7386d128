//! `BRASA_VALIDATE=1` compares every kernel of a run with the f64 interpreter, and changes no result.

use std::process::Command;

fn accuracy(device: &str, validate: bool) -> Option<serde_json::Value> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_brasa"));
    command.args(["--device", device, "--model", "mlp", "--batch-size", "719", "--epochs", "1", "--seed", "1"]);
    command.args(["--no-ui", "--json", "--out"]).arg(folder.path()).env_remove("BRASA_DEVICE");
    if validate {
        command.env("BRASA_VALIDATE", "1");
    }
    let ran = command.output().expect("the program starts");
    let stderr = String::from_utf8_lossy(&ran.stderr);
    if stderr.contains("no GPU adapter") {
        assert!(std::env::var_os("BRASA_REQUIRE_GPU").is_none(), "{stderr}");
        eprintln!("no GPU rows: {stderr}");
        return None;
    }
    assert!(ran.status.success(), "{stderr}");
    let stdout = String::from_utf8(ran.stdout).expect("UTF-8");
    let lines = stdout.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let evaluated = lines.filter(|event| event["event"] == "evaluated").last().expect("an evaluation");
    Some(serde_json::json!([evaluated["loss"], evaluated["correct"]]))
}

#[test]
fn a_validated_run_on_the_cpu_passes_and_is_the_same() {
    assert_eq!(accuracy("cpu", true), accuracy("cpu", false));
}

#[test]
fn a_validated_run_on_a_gpu_passes_and_is_the_same() {
    assert_eq!(accuracy("gpu:0", true), accuracy("gpu:0", false));
}
