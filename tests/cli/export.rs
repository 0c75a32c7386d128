//! `brasa export`, and what it wrote: answered by `brasa infer`, measured by `brasa bench`.

use std::path::{Path, PathBuf};

use brasa::Device;
use brasa::data::digits;
use brasa::formats::onnx::Model;
use brasa::nn::load_tensors;

use super::{brasa, digit, flags, folder, json_lines, refuses, short, text};

/// A run on the digits, and some held-out ones as pictures.
fn run_and_digits(out: &Path) -> (PathBuf, PathBuf) {
    let ran = brasa(&short(out, &["--name", "run"]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let (data, pictures) = (digits().expect("they are the program's").test, out.join("pictures"));
    std::fs::create_dir_all(&pictures).expect("writable");
    for index in 0..5 {
        digit(&data, index).0.save(pictures.join(format!("{index}.png"))).expect("writable");
    }
    (out.join("run"), pictures)
}

#[test]
fn a_run_as_onnx_answers_as_the_run() {
    let out = folder();
    let (run, pictures) = run_and_digits(out.path());
    let asked = |model: &Path| {
        let ran = brasa(&["infer", text(model), text(&pictures), "--json", "--device", "cpu"]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        json_lines(&ran.stdout)
    };
    let expected = asked(&run);
    assert_eq!(expected.len(), 5);
    for flags in [&[][..], &["--batch-size", "2"], &["--normalized-input"]] {
        let file = out.path().join(format!("{}.onnx", flags.len()));
        let ran = brasa(&[&["export", text(&run), text(&file)], flags].concat());
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(ran.stdout.contains("logits f32 [") && ran.stdout.contains(", 10]"), "{}", ran.stdout);
        refuses(&["infer", text(&file), text(&pictures), "--mean", "0.5", "--std", "0.5"], 2, &["states its own mean"]);
        for (got, wanted) in asked(&file).iter().zip(&expected) {
            assert_eq!((&got["input"], &got["class"]), (&wanted["input"], &wanted["class"]), "{flags:?}");
            let [got, wanted] = [got, wanted].map(|line| line["probability"].as_f64().expect("a number"));
            assert!((got - wanted).abs() < 1e-4, "{flags:?}: {got} {wanted}");
        }
    }
}

#[test]
fn a_table_s_columns_are_found_by_name() {
    let out = folder();
    let row = |number: usize| format!("{},{number},{}\n", number % 7, if number > 50 { "high" } else { "low" });
    let path = out.path().join("own.csv");
    std::fs::write(&path, format!("a,b,class\n{}", (0..100).map(row).collect::<String>())).expect("writable");
    let dataset = format!("csv:{}", text(&path));
    let ran = brasa(&flags(out.path(), "30", &["--name", "run", "--dataset", &dataset, "--lr", "0.01"]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let (run, file) = (out.path().join("run"), out.path().join("run.onnx"));
    assert_eq!(brasa(&["export", text(&run), text(&file)]).code, Some(0));
    let turned = out.path().join("turned.csv");
    std::fs::write(&turned, "b,a\n3,5\n97,1\n").expect("writable");
    let [expected, got] = [&run, &file].map(|model| {
        let ran = brasa(&["infer", text(model), text(&turned), "--json", "--device", "cpu"]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        json_lines(&ran.stdout).iter().map(|line| line["class"].clone()).collect::<Vec<_>>()
    });
    assert_eq!(expected, ["low", "high"]);
    assert_eq!(got, expected);
    let other = out.path().join("other.csv");
    std::fs::write(&other, "b,c\n3,5\n").expect("writable");
    refuses(&["infer", text(&file), text(&other), "--device", "cpu"], 1, &["other.csv", "lacks the column `a`"]);
}

#[test]
fn a_model_is_measured() {
    let out = folder();
    let (run, _) = run_and_digits(out.path());
    let ran = brasa(&["export", text(&run)]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let file = run.join("model.onnx");
    let ran = brasa(&["bench", "--onnx", text(&file), "--quick", "--device", "cpu", "--csv"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    for case in ["model_b1", "model_b8", "model_b64"] {
        assert_eq!(ran.stdout.matches(case).count(), 1, "{}", ran.stdout);
    }
    let one = ["bench", "--onnx", text(&file), "--axis", "batch=3", "--quick", "--device", "cpu", "--csv"];
    assert!(brasa(&one).stdout.contains("model_b3"));
    refuses(&["bench", "--onnx", text(&file), "--axis", "batch"], 2, &["NAME=SIZE"]);
    let bench = ["bench", "--onnx", text(&file), "--device", "cpu", "--axis"];
    for size in ["99999999999", "9999999999999999999"] {
        let axis = format!("batch={size}");
        refuses(&[&bench[..], &[axis.as_str()]].concat(), 2, &["model.onnx", &axis, "elements"]);
    }
    let twice = [&bench[..], &["batch=8", "--axis", "batch=16"]].concat();
    refuses(&twice, 2, &["model.onnx", "`batch` is given two sizes"]);
}

#[test]
fn weights_and_refusals() {
    let out = folder();
    let (run, pictures) = run_and_digits(out.path());
    let file = out.path().join("weights.safetensors");
    let ran = brasa(&["export", text(&run), text(&file)]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let (cpu, best) = (Device::cpu(), run.join("best.safetensors"));
    let [written, saved] = [&file, &best].map(|path| load_tensors(path, &cpu).expect("weights"));
    assert!(!written.is_empty() && written.keys().eq(saved.keys()));
    for more in [&["--batch-size", "3"][..], &["--normalized-input"]] {
        refuses(&[&["export", text(&run), text(&file)], more].concat(), 2, &["--batch-size", "weights alone"]);
    }
    for name in ["best.safetensors", "model.safetensors"] {
        let own = run.join("checkpoints/..").join(name);
        let before = std::fs::read(&own).expect("weights");
        refuses(&["export", text(&run), text(&own)], 2, &[name, "the run's own file"]);
        assert_eq!(std::fs::read(&own).expect("weights"), before);
    }
    refuses(&["export", text(&run), "model.pb"], 2, &["FILE.onnx or FILE.safetensors"]);
    refuses(&["export", text(out.path())], 2, &["config.toml"]);
    refuses(&["infer", text(&run), text(&pictures), "--mean", "0.5", "--std", "0.5"], 2, &["FILE.onnx"]);
    let onnx = out.path().join("broken.onnx");
    std::fs::write(&onnx, b"\x08\x08\x12").expect("writable");
    refuses(&["infer", text(&onnx), text(&pictures)], 1, &["broken.onnx", "no ONNX model"]);
    assert!(Model::load(&onnx, &cpu).is_err());
}
