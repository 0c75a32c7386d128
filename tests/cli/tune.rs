//! `brasa tune`.

use std::fs;

use crate::{brasa, brasa_with, devices, folder, json_lines, refuses, text};

#[test]
fn what_is_found_is_remembered_and_changes_no_bit() {
    if !devices().contains(&"gpu") {
        return;
    }
    let (out, cache) = (folder(), folder());
    let settings =
        [("XDG_CACHE_HOME", text(cache.path())), ("LOCALAPPDATA", text(cache.path())), ("HOME", text(cache.path()))];
    let common = ["--model", "mlp", "--batch-size", "32", "--device", "gpu"];
    let weights = |name: &str| {
        let own = ["--no-ui", "--epochs", "1", "--seed", "3", "--out", text(out.path()), "--name", name];
        let ran = brasa_with(&[&common[..], &own].concat(), &settings);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        fs::read(out.path().join(name).join("model.safetensors")).expect("it was saved")
    };
    let before = weights("before");
    let tune = |more: &[&str]| {
        let ran = brasa_with(&[&["tune"], &common[..], more].concat(), &settings);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        ran
    };
    // a machine that is busy with something else may find the tuned step no faster, but not each time
    let find = || {
        let mut tries = (0..4).map(|_| tune(&["--budget", "8"]));
        tries.find(|ran| ran.stdout.contains("remembered in")).expect("something faster is found")
    };
    let first = find();
    assert!(!first.stderr.contains("brasa tune"), "nothing to warn of: {}", first.stderr);
    let table = first.stdout;
    for word in ["training, batch 32", "evaluation, batch 32", "ms before", "the whole step", "tiles.json"] {
        assert!(table.contains(word), "`{word}` is missing in: {table}");
    }
    assert_eq!(weights("after"), before, "all variants give the same bits");

    // a file that is damaged costs a word and is started afresh
    let path = table.lines().find_map(|line| line.strip_prefix("remembered in ")?.split(", and").next()).expect("told");
    assert!(path.starts_with(text(cache.path())), "{path}");
    fs::write(path, "{\"version\": 1, \"adapt").expect("writable");
    let hasty = brasa_with(&[&["tune"], &common[..], &["--budget", "0", "--json"]].concat(), &settings);
    assert!(hasty.code == Some(0) && hasty.stderr.contains("brasa tune"), "{}", hasty.stderr);
    let told = json_lines(&hasty.stdout).pop().expect("an object");
    let kernels = told["steps"][0]["kernels"].as_array().expect("kernels");
    assert!(!kernels.is_empty() && kernels.iter().all(|kernel| kernel["tried"] == 1), "{told}");
    assert_eq!(told["steps"][0]["complete"], false);
    assert!(tune(&["--budget", "0"]).stdout.contains("no other variant was tried"));
    find();
    assert!(fs::read_to_string(path).expect("text").contains("\"adapters\""));
}

#[test]
fn on_the_cpu_there_is_nothing_to_tune() {
    let ran = brasa(&["tune", "--model", "mlp", "--batch-size", "8", "--device", "cpu"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert!(ran.stdout.contains("nothing to tune"), "{}", ran.stdout);
    let ran = brasa(&["tune", "--model", "mlp", "--batch-size", "8", "--device", "cpu", "--json"]);
    let told = json_lines(&ran.stdout).pop().expect("an object");
    assert!(told["device"]["selector"] == "cpu" && told["device"]["max_buffer_bytes"].is_null(), "{told}");
    refuses(&["tune", "--device", "no such device"], 2, &["no such device"]);
    refuses(&["tune", "--batch-size", "0"], 2, &["batch-size is 0"]);
}
