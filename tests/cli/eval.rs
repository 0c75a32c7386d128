//! `brasa eval`, and what a run leaves for other programs.

use brasa::data::{Dataset, digits};

use super::{brasa, brasa_with, digit, flags, folder, json_lines, refuses, short, text};

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
    assert!(!table.stdout.contains("in 8 bits"), "{}", table.stdout);
    let rounded = brasa(&["eval", text(&run), "--device", "cpu", "--quantize", "--json"]);
    let rounded = json_lines(&rounded.stdout).pop().expect("an object");
    let [accuracy, loss] =
        ["accuracy", "loss"].map(|field| [&judged, &rounded].map(|of| of[field].as_f64().expect(field)));
    assert!((accuracy[0] - accuracy[1]).abs() < 0.02 && loss[0] != loss[1], "{accuracy:?} {loss:?}");
    let rounded = brasa(&["eval", text(&run), "--device", "cpu", "--quantize"]);
    assert!(rounded.stdout.contains("best.safetensors, in 8 bits"), "{}", rounded.stdout);
    refuses(&["eval", text(out.path())], 2, &["is not a run", "it has no config.toml", "runs/digits-cnn-1"]);
    let emptied = out.path().join("emptied");
    std::fs::create_dir(&emptied).and_then(|()| std::fs::write(emptied.join("config.toml"), "\n")).expect("writable");
    refuses(&["eval", text(&emptied)], 1, &["emptied/config.toml", "it is empty"]);
    refuses(&["eval", text(&run.join("best.safetensors"))], 2, &["is not a run: it is a file", "runs/digits-cnn-1"]);
    refuses(&["eval", "nope"], 2, &["nope is not a run: there is no such folder", "runs/digits-cnn-1"]);
    refuses(&["eval", text(&run), "--device", "auto"], 2, &["`auto`", "best, cpu, gpu"]);
    // of the environment it is for trainings, and the best device elsewhere
    let ran = brasa_with(&["eval", text(&run)], &[("BRASA_DEVICE", "auto")]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    refuses(&["eval", text(&run), "--weights", "none.safetensors"], 1, &["none.safetensors"]);
}

#[test]
fn a_validation_part_leaves_the_test_part_to_evaluations() {
    let out = folder();
    let ran = brasa(&short(out.path(), &["--name", "run", "--json", "--validation", "20"]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let events = json_lines(&ran.stdout);
    let finished = events.last().expect("events");
    let of = |field: &str| events[0][field].as_u64();
    assert_eq!(
        ["train_samples", "validation_samples", "test_samples"].map(of),
        [Some(1150), Some(288), Some(359)],
        "{}",
        events[0]
    );
    assert_eq!((&finished["best"]["part"], &finished["best"]["samples"]), (&"validation".into(), &288.into()));
    let run = out.path().join("run");
    let lines = std::fs::read_to_string(run.join("metrics.jsonl")).expect("written");
    assert!(lines.contains(r#""kind":"validation""#) && !lines.contains(r#""kind":"test""#), "{lines}");
    let judged = |more: &[&str]| {
        let judged = brasa(&[&["eval", text(&run), "--device", "cpu", "--json"], more].concat());
        assert_eq!(judged.code, Some(0), "{}", judged.stderr);
        json_lines(&judged.stdout).pop().expect("an object")
    };
    let (validated, tested) = (judged(&["--part", "validation"]), judged(&[]));
    for field in ["part", "accuracy", "correct", "samples", "perplexity"] {
        assert_eq!(validated[field], finished["best"][field], "{field}");
    }
    assert_eq!((&tested["part"], &tested["samples"]), (&"test".into(), &359.into()));
    let plain = brasa(&short(out.path(), &["--name", "words", "--validation", "20"]));
    for words in ["1,150 training, 288 validation and 359 test samples", " %  validation "] {
        assert!(plain.stderr.contains(words), "`{words}` is missing in: {}", plain.stderr);
    }
    for words in [" for validation)", "test part      left to: brasa eval "] {
        assert!(plain.stdout.contains(words), "`{words}` is missing in: {}", plain.stdout);
    }
    let plain = brasa(&short(out.path(), &["--name", "plain"]));
    assert!(!plain.stdout.contains("validation") && !plain.stderr.contains("validation"), "{}", plain.stdout);
    let plain = out.path().join("plain");
    refuses(&["eval", text(&plain), "--part", "validation"], 2, &["`digits` has no validation part", "--validation"]);
    let resumed = ["--no-ui", "--resume", text(&plain), "--epochs", "4", "--validation", "20"];
    refuses(&resumed, 2, &["the parts that it began with"]);
    // of other data their own part comes before one that is held out
    let pictures = out.path().join("pictures");
    let data = digits().expect("they are the program's");
    for (part, first) in [("train", 0), ("val", 100), ("test", 200)] {
        for index in first..first + 50 {
            let (picture, class) = digit(&data.train, index);
            let folder = pictures.join(part).join(class.to_string());
            std::fs::create_dir_all(&folder).expect("writable");
            picture.save(folder.join(format!("{index}.png"))).expect("writable");
        }
    }
    let other = format!("folder:{}", text(&pictures));
    let validated = judged(&["--part", "validation", "--dataset", &other]);
    assert_eq!((&validated["part"], &validated["samples"]), (&"validation".into(), &50.into()));
    let words = ["has a validation part of its own"];
    refuses(&short(out.path(), &["--dataset", &other, "--validation", "10"]), 2, &words);
    refuses(&short(out.path(), &["--validation", "91"]), 2, &["validation is 91", "at most 90"]);
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

/// The same digits as pictures of 256 levels, larger and in colour, and rows in other units.
#[test]
fn other_data_are_seen_as_those_that_were_learned_from() {
    let out = folder();
    let ran = brasa(&flags(out.path(), "3", &["--name", "run"]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let data = digits().expect("they are the program's");
    let pictures = out.path().join("pictures");
    for (part, samples) in [("train", &data.train), ("test", &data.test)] {
        for index in 0..samples.len() {
            let (picture, class) = digit(samples, index);
            let folder = pictures.join(part).join(class.to_string());
            std::fs::create_dir_all(&folder).expect("writable");
            picture.save(folder.join(format!("{index}.png"))).expect("writable");
        }
    }
    let run = out.path().join("run");
    let accuracy = |more: &[&str]| {
        let judged = brasa(&[&["eval", text(&run), "--device", "cpu", "--json"], more].concat());
        assert_eq!(judged.code, Some(0), "{}", judged.stderr);
        json_lines(&judged.stdout).pop().expect("an object")["accuracy"].as_f64().expect("a number")
    };
    let (own, other) = (accuracy(&[]), accuracy(&["--dataset", &format!("folder:{}", text(&pictures))]));
    // 15 levels of 255 are not quite one of 16
    assert!(own > 0.8 && (own - other).abs() < 0.03, "{own} {other}");
}

/// A table's columns are brought to the scales of those that were learned from, whatever its own are.
#[test]
fn other_tables_are_standardised_by_the_one_that_was_learned_from() {
    let place = folder();
    let write = |name: &str, offset: usize| {
        // the class is whether the first column is above 50, wherever this table's rows lie
        let row = |number: usize| {
            let value = number + offset;
            format!("{value},{},{}\n", number % 7, if value > 50 { "high" } else { "low" })
        };
        let path = place.path().join(name);
        std::fs::write(&path, format!("a,b,class\n{}", (0..100).map(row).collect::<String>())).expect("writable");
        format!("csv:{}", text(&path))
    };
    let (own, other) = (write("own.csv", 0), write("other.csv", 45));
    let learn = ["--name", "run", "--dataset", &own, "--lr", "0.01"];
    let ran = brasa(&flags(place.path(), "100", &learn));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let run = place.path().join("run");
    let judged = brasa(&["eval", text(&run), "--dataset", &other, "--json"]);
    assert_eq!(judged.code, Some(0), "{}", judged.stderr);
    let scores = json_lines(&judged.stdout).pop().expect("an object");
    // nearly all of it is high: by its own mean, half would be taken for low
    assert!(scores["accuracy"].as_f64().expect("a number") > 0.9, "{scores}");
    // a record that does not tell the scales, as those of older runs
    let written = std::fs::read_to_string(run.join("run.json")).expect("written");
    let mut record: serde_json::Value = serde_json::from_str(&written).expect("JSON");
    record["input"]["mean"] = serde_json::json!([0.0]);
    record["input"]["std"] = serde_json::json!([255.0]);
    std::fs::write(run.join("run.json"), record.to_string()).expect("writable");
    let judged = brasa(&["eval", text(&run), "--dataset", &other]);
    assert_eq!(judged.code, Some(0), "{}", judged.stderr);
    std::fs::write(run.join("run.json"), written).expect("writable");
    let narrow = place.path().join("narrow.csv");
    std::fs::write(&narrow, "a,class\n".to_owned() + &"1,low\n2,high\n".repeat(20)).expect("writable");
    refuses(
        &["eval", text(&run), "--dataset", &format!("csv:{}", text(&narrow))],
        1,
        &["narrow.csv", "lacks the column `b`"],
    );
    // the same rows with their columns in another order are judged the same
    let turned = place.path().join("turned.csv");
    let rows = std::fs::read_to_string(place.path().join("other.csv")).expect("written");
    let turn = |row: &str| match row.split(',').collect::<Vec<_>>()[..] {
        [a, b, class] => format!("{class},{b},{a}\n"),
        _ => panic!("{row}"),
    };
    std::fs::write(&turned, rows.lines().map(turn).collect::<String>()).expect("writable");
    let again = brasa(&["eval", text(&run), "--dataset", &format!("csv:{},label=class", text(&turned)), "--json"]);
    assert_eq!(again.code, Some(0), "{}", again.stderr);
    assert_eq!(json_lines(&again.stdout).pop().expect("an object"), scores);
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
