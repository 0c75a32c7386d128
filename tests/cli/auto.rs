//! `--device auto`.

use std::fs;

use crate::{brasa_with, devices, folder, metrics, text};

#[test]
fn the_fastest_device_is_taken_and_remembered() {
    let (out, cache) = (folder(), folder());
    let settings =
        [("XDG_CACHE_HOME", text(cache.path())), ("LOCALAPPDATA", text(cache.path())), ("HOME", text(cache.path()))];
    let train = |name: &str, batch: &str| {
        let flags = ["--no-ui", "--device", "auto", "--model", "mlp", "--epochs", "1", "--batch-size", batch];
        let ran = brasa_with(&[&flags[..], &["--out", text(out.path()), "--name", name]].concat(), &settings);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(!metrics(&out.path().join(name)).is_empty());
        let config = fs::read_to_string(out.path().join(name).join("config.toml")).expect("it is written");
        assert!(!config.contains("\"auto\""), "a run says where it was: {config}");
        ran.stderr + &ran.stdout
    };
    let only_cpu = devices().len() == 1;
    let when = |words| if only_cpu { "as there is no GPU" } else { words };
    let first = train("first", "64");
    assert!(first.contains("--device auto: ") && first.contains(when("(measured now)")), "{first}");
    assert!(first.contains(when("pays off if an hour of it costs less than ")), "{first}");
    let second = train("second", "64");
    assert!(second.contains(when("(measured by an earlier run)")), "{second}");
    let other = train("other", "32");
    assert!(other.contains(when("(measured now)")), "another batch takes other times: {other}");
    if only_cpu {
        return;
    }
    let find = |folder: &std::path::Path| walk(folder).into_iter().find(|path| path.ends_with("devices.json"));
    let file = find(cache.path()).expect("it is kept");
    fs::write(&file, "{\"measured\": [[").expect("writable");
    let damaged = train("damaged", "64");
    assert!(damaged.contains("(measured now)"), "{damaged}");
}

/// All files under `folder`.
fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}
