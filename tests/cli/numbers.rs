//! Tables with a number to predict, from training to answers.

use std::path::Path;

use serde_json::Value;

use super::{brasa, flags, folder, json_lines, refuses, text};

/// What a house costs, as far as these tables know.
fn price(area: f64, age: f64) -> f64 {
    30_000.0 + 2_000.0 * area - 150.0 * age
}

fn house(row: usize) -> (f64, f64) {
    ((20 + row * 37 % 101) as f64, (row * 53 % 89) as f64)
}

fn table(path: &Path, rows: std::ops::Range<usize>) {
    let line = |row: usize| {
        let (area, age) = house(row);
        format!("{age},{},{area}\n", price(area, age))
    };
    std::fs::write(path, "age,price,area\n".to_owned() + &rows.map(line).collect::<String>()).expect("writable");
}

#[test]
fn a_number_is_learned_judged_answered_and_exported() {
    let out = folder();
    let file = out.path().join("houses.csv");
    table(&file, 0..300);
    let dataset = format!("csv:{},target=price", text(&file));
    let run = out.path().join("run");
    let more = ["--name", "run", "--dataset", &dataset, "--lr", "0.01", "--loss", "huber"];
    let ran = brasa(&flags(out.path(), "40", &[&more[..], &["--json"]].concat()));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let events = json_lines(&ran.stdout);
    let of = |kind: &str| events.iter().rfind(|event| event["event"] == kind).expect(kind);
    assert!(of("step")["r2"].is_f64() && of("epoch")["r2"].is_f64() && of("step")["accuracy"].is_null());
    let best = &of("finished")["best"];
    assert!(best["r2"].as_f64() > Some(0.98) && best["rmse"].as_f64() < Some(8_000.0), "{best}");

    // as a whole and number by number, in its own unit
    let judged = brasa(&["eval", text(&run), "--json"]);
    assert_eq!(judged.code, Some(0), "{}", judged.stderr);
    let judged = json_lines(&judged.stdout).remove(0);
    for field in ["r2", "rmse", "mae", "loss", "samples"] {
        assert_eq!(judged[field], best[field], "{field}");
    }
    assert_eq!((&judged["classes"][0], &judged["residuals"]["samples"]), (&Value::from("price"), &judged["samples"]));
    let told = brasa(&["eval", text(&run)]).stdout;
    for word in ["R²", "(60 test samples)", "number", "RMSE", "MAE", "mean error", "price", "best.safetensors"] {
        assert!(told.contains(word), "`{word}` is missing in: {told}");
    }

    // rows of another table, which are too few to tell their own scale, by that of the first one
    let other = out.path().join("other.csv");
    table(&other, 300..320);
    let dataset = format!("csv:{},target=price", text(&other));
    let judged = brasa(&["eval", text(&run), "--dataset", &dataset, "--json"]);
    let judged = json_lines(&judged.stdout).remove(0);
    assert!(judged["rmse"].as_f64() < Some(8_000.0), "{judged}");
    refuses(&["eval", text(&run), "--dataset", "digits"], 2, &["`digits` has classes", "learned numbers"]);
    let area = format!("csv:{},target=area", text(&other));
    refuses(&["eval", text(&run), "--dataset", &area], 2, &["has the numbers area", "learned price"]);

    // answers
    let questions = out.path().join("questions.csv");
    std::fs::write(&questions, "area,age\n60,30\n100,5\n").expect("writable");
    let of_run = brasa(&["infer", text(&run), text(&questions), "--json"]);
    assert_eq!(of_run.code, Some(0), "{}", of_run.stderr);
    let said = |stdout: &str| -> Vec<f64> {
        let of = |line: &Value| line["numbers"]["price"].as_f64().unwrap_or_else(|| panic!("{line}"));
        json_lines(stdout).iter().map(of).collect()
    };
    let answers = said(&of_run.stdout);
    for (answer, expected) in answers.iter().zip([price(60.0, 30.0), price(100.0, 5.0)]) {
        assert!((answer - expected).abs() < 15_000.0, "{answers:?}");
    }
    let plain = brasa(&["infer", text(&run), text(&questions)]).stdout;
    assert!(plain.contains("questions.csv:2: price 1"), "{plain}");
    refuses(&["infer", text(&run), text(&file), "--masks", text(out.path())], 2, &["masks", "predicts numbers"]);

    // the same by a file for other programs, in its own unit
    let model = out.path().join("houses.onnx");
    let exported = brasa(&["export", text(&run), text(&model)]);
    let wrote = [exported.stdout, exported.stderr].concat();
    assert!(exported.code == Some(0) && wrote.contains("numbers f32 [batch, 1]"), "{wrote}");
    let of_file = brasa(&["infer", text(&model), text(&questions), "--device", "cpu", "--json"]);
    assert_eq!(of_file.code, Some(0), "{}", of_file.stderr);
    for (own, file) in answers.iter().zip(said(&of_file.stdout)) {
        assert!((own - file).abs() < 1e-3 * own.abs(), "{answers:?} and {}", of_file.stdout);
    }
    refuses(&["infer", text(&run), text(&questions), "--top", "2"], 2, &["top", "predicts numbers"]);

    // a run goes on by the scales that it has learned by, whatever the file has become
    let scales = || -> Value {
        let record = std::fs::read_to_string(run.join("run.json")).expect("a record");
        serde_json::from_str::<Value>(&record).expect("JSON")["input"]["scales"].clone()
    };
    let learned = scales();
    let dearer = |line: &str| match *line.split(',').collect::<Vec<_>>() {
        [age, price, area] if area != "area" => format!("{age},{}0,{area}\n", price),
        _ => line.to_owned() + "\n",
    };
    let text_before = std::fs::read_to_string(&file).expect("readable");
    std::fs::write(&file, text_before.lines().map(dearer).collect::<String>()).expect("writable");
    let resumed = brasa(&["train", "--resume", text(&run), "--epochs", "41", "--no-ui", "--device", "cpu"]);
    assert_eq!(resumed.code, Some(0), "{}", resumed.stderr);
    assert!(learned["mean"][0].is_f64() && scales() == learned, "{learned}");
    let names = out.path().join("names.txt");
    std::fs::write(&names, "cost\n").expect("writable");
    let named = ["infer", text(&model), text(&questions), "--device", "cpu", "--classes", text(&names)];
    refuses(&named, 1, &["houses.onnx", "predicts numbers"]);
}

#[test]
fn what_does_not_fit_a_number_is_said() {
    let out = folder();
    let file = out.path().join("houses.csv");
    table(&file, 0..40);
    let train = |column: &str, more: &[&str], words: &[&str]| {
        let dataset = format!("csv:{}{column}", text(&file));
        refuses(&flags(out.path(), "1", &[&["--dataset", &dataset], more].concat()), 2, words);
    };
    train(",target=price", &["--loss", "cross-entropy"], &["loss: cross-entropy is of classes", "mse"]);
    train(",target=price", &["--label-smoothing", "0.1"], &["label-smoothing"]);
    train(",target=price", &["--class-weights", "balanced"], &["class-weights are of classes"]);
    train(",label=price,target=price", &[], &["not both"]);
    let dataset = format!("csv:{},target=cost", text(&file));
    refuses(&flags(out.path(), "1", &["--dataset", &dataset]), 1, &["no column `cost`", "age, price, area"]);
    // what seems to be a table of classes, and has none
    std::fs::write(&file, "a,b\n1,0.5\n2,0.25\n3,0.5\n").expect("writable");
    let dataset = format!("csv:{}", text(&file));
    refuses(&flags(out.path(), "1", &["--dataset", &dataset]), 1, &["`0.5` is not a class", ",target=COLUMN"]);
}
