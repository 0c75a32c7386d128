//! `brasa eval`, and what a run leaves for other programs.

use super::{brasa, folder, json_lines, refuses, short, text};

#[test]
fn evaluation_repeats_what_training_said() {
    let out = folder();
    let ran = brasa(&short(out.path(), &["--name", "run", "--json", "--seed", "3", "--patience", "9"]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let finished = json_lines(&ran.stdout).pop().expect("events");
    let run = out.path().join("run");
    let judged = brasa(&["eval", text(&run), "--device", "cpu", "--json"]);
    assert_eq!(judged.code, Some(0), "{}", judged.stderr);
    let judged = json_lines(&judged.stdout).pop().expect("an object");
    for field in ["accuracy", "correct", "targets", "top5", "mean", "micro", "perplexity"] {
        assert_eq!(judged[field], finished["best"][field], "{field}");
    }
    assert_eq!(judged["classes"].as_array().expect("a list").len(), 10);
    let table = brasa(&["eval", text(&run), "--device", "cpu"]);
    for word in
        ["precision", "recall", "support", "is \\ said", "top 5", "mean F1", "micro", "perplexity", "best.safetensors"]
    {
        assert!(table.stdout.contains(word), "`{word}` is missing in: {}", table.stdout);
    }
    refuses(&["eval", text(out.path())], 2, &["is no run", "it has no config.toml", "runs/digits-cnn-1"]);
    refuses(&["eval", "nope"], 2, &["nope is no run: there is no such folder", "runs/digits-cnn-1"]);
    refuses(&["eval", text(&run), "--device", "auto"], 2, &["`auto`", "best, cpu, gpu"]);
    refuses(&["eval", text(&run), "--weights", "none.safetensors"], 1, &["none.safetensors"]);
}

#[test]
fn data_with_other_classes_are_no_measure() {
    let place = folder();
    let write = |name: &str, classes: [&str; 2]| {
        let rows: String =
            (0..40).map(|number| format!("{number},{},{}\n", 40 - number, classes[number % 2])).collect();
        let path = place.path().join(name);
        std::fs::write(&path, format!("a,b,class\n{rows}")).expect("writable");
        format!("csv:{}", text(&path))
    };
    let [own, same, other] = [("own.csv", ["cat", "dog"]), ("same.csv", ["dog", "cat"]), ("other.csv", ["cat", "cow"])]
        .map(|(name, classes)| write(name, classes));
    let ran = brasa(&short(place.path(), &["--name", "run", "--dataset", &own, "--cache"]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let run = place.path().join("run");
    let judged = brasa(&["eval", text(&run), "--dataset", &same]);
    assert_eq!(judged.code, Some(0), "{}", judged.stderr);
    assert!(judged.stdout.contains("samples)"), "{}", judged.stdout);
    let words = ["other.csv", "the classes cat, cow", "has learned cat, dog"];
    refuses(&["eval", text(&run), "--dataset", &other], 2, &words);
}

#[test]
fn a_run_leaves_everything_that_is_promised() {
    let out = folder();
    let ran = brasa(&short(out.path(), &["--name", "run"]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let mut names: Vec<String> = std::fs::read_dir(out.path().join("run"))
        .expect("a folder")
        .flatten()
        .map(|entry| entry.file_name().into_string().expect("UTF-8"))
        .map(|name| if name.starts_with("events.out.tfevents.") { "events".to_owned() } else { name })
        .collect();
    names.sort();
    let expected = [
        ".lock",
        "best.safetensors",
        "checkpoints",
        "config.toml",
        "confusion.json",
        "environment.toml",
        "events",
        "metrics.jsonl",
        "model.safetensors",
        "pictures.png",
        "plan.json",
        "predictions.json",
        "run.json",
        "stages.json",
        "status.json",
    ];
    assert_eq!(names, expected);
}
