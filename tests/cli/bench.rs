//! `brasa bench`.

use serde_json::Value;

use crate::{brasa, devices, folder, refuses, text};

const SHORT: [&str; 6] = ["bench", "matmul", "--quick", "--filter", "matmul_64", "--device"];

fn short(device: &str, more: &[&str]) -> crate::Ran {
    let arguments: Vec<&str> = SHORT.iter().copied().chain([device]).chain(more.iter().copied()).collect();
    let ran = brasa(&arguments);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    ran
}

#[test]
fn a_report_says_what_was_measured_and_how() {
    for device in devices() {
        let report: Value = serde_json::from_str(&short(device, &["--json"]).stdout).expect("JSON");
        assert_eq!(report["version"], env!("CARGO_PKG_VERSION"));
        let found = &report["devices"][0];
        assert!(found["peak"]["gflops"].as_f64().expect("a number") > 0.0);
        let rows = found["rows"].as_array().expect("a list");
        assert_eq!(rows.len(), 1);
        let row = &rows[0];
        assert_eq!((&row["name"], &row["flops"]), (&"matmul_64".into(), &(2.0 * 64f64.powi(3)).into()));
        let time = |key: &str| row["measured"][key].as_f64().expect("a number");
        assert!(time("least_s") > 0.0 && time("least_s") <= time("median_s") && time("runs") >= 3.0, "{row}");
        // in kernels alone: by the device's clock or not at all, and never more than the run itself
        let kernels = &row["measured"]["in_kernels"];
        assert!(device != "cpu" || kernels.is_null(), "{row}");
        if let Some(seconds) = kernels[0].as_f64() {
            let whole = row["measured"]["median_s"].as_f64().expect("a number");
            assert!(seconds > 0.0 && seconds <= whole && kernels[1] != "wall_clock", "{row}");
        }
    }
}

#[test]
fn tables_can_be_read_by_people_and_by_programs() {
    let plain = short("cpu", &[]).stdout;
    for word in [
        "Method: ",
        "at most ",
        "GFLOP/s",
        "matmul_64",
        "of peak",
        "Utilisation:",
        "64x64 times 64x64, f32: 0.52 MFLOP",
    ] {
        assert!(plain.contains(word), "`{word}` is missing in {plain}");
    }
    assert!(plain.lines().all(|line| line.chars().count() <= 80), "too wide for a terminal: {plain}");
    let markdown = short("cpu", &["--markdown"]).stdout;
    assert!(markdown.contains("| matmul_64 | cpu | ") && markdown.contains("| --- | --- | ---: |"), "{markdown}");
    assert!(markdown.contains("\n- Method: "), "{markdown}");
    let mut header = "";
    for line in markdown.lines() {
        if line.starts_with("| ---") {
            assert_eq!(line.matches('|').count(), header.matches('|').count(), "{header} over {line}");
        }
        header = line;
    }
    // a line right behind a table would be a row of it
    let lines: Vec<&str> = markdown.lines().collect();
    let ends = lines.windows(2).filter(|two| two[0].starts_with('|') && !two[1].starts_with('|'));
    assert!(ends.clone().count() > 1 && ends.clone().all(|two| two[1].is_empty()), "{markdown}");
    let csv = short("cpu", &["--csv"]).stdout;
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let lines: Vec<csv::StringRecord> = reader.records().map(|line| line.expect("as many as in the header")).collect();
    let [line] = &lines[..] else { panic!("{csv}") };
    assert_eq!(line.iter().take(3).collect::<Vec<_>>(), ["matmul", "matmul_64", "cpu"]);
    assert_eq!(line.iter().next_back(), Some("64x64 times 64x64, f32"));
}

#[test]
fn two_reports_are_compared() {
    let out = folder();
    let [one, other] = ["a.json", "b.json"].map(|name| out.path().join(name));
    short("cpu", &["--save", text(&one)]);
    // the same case, twice as fast
    let mut report: Value = serde_json::from_slice(&std::fs::read(&one).expect("it was saved")).expect("JSON");
    let measured = &mut report["devices"][0]["rows"][0]["measured"];
    for key in ["median_s", "least_s"] {
        measured[key] = (measured[key].as_f64().expect("a number") / 1000.0).into();
    }
    for number in 0..2 {
        let end = measured["range_s"][number].as_f64().expect("a number");
        measured["range_s"][number] = (end / 1000.0).into();
    }
    std::fs::write(&other, report.to_string()).expect("writable");
    let same = brasa(&["bench", "--compare", text(&one), text(&one)]);
    assert!(same.code == Some(0) && same.stdout.contains("the same within the spread"), "{}", same.stdout);
    let faster = brasa(&["bench", "--compare", text(&one), text(&other)]).stdout;
    assert!(faster.contains("1,000 x faster") && !faster.contains("one run"), "{faster}");
    report["devices"][0]["rows"][0]["measured"]["runs"] = 1.into();
    std::fs::write(&other, report.to_string()).expect("writable");
    let once = brasa(&["bench", "--compare", text(&one), text(&other)]).stdout;
    let line = once.lines().find(|line| line.starts_with("matmul_64")).expect("its line");
    assert!(line.contains("1,000 x faster, by one run") && line.ends_with("–"), "no interval is known: {once}");
    // what cannot be compared is named
    report["devices"][0]["rows"][0]["measured"] = Value::Null;
    report["devices"][0]["rows"][0]["left_out"] = "no memory".into();
    let mut elsewhere = report["devices"][0].clone();
    elsewhere["selector"] = "gpu:7".into();
    report["devices"].as_array_mut().expect("a list").push(elsewhere);
    std::fs::write(&other, report.to_string()).expect("writable");
    let ran = brasa(&["bench", "--compare", text(&one), text(&other)]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    for words in ["matmul_64 on cpu was left out of the second report: no memory", "gpu:7 is not in the first report"] {
        assert!(ran.stdout.contains(words), "`{words}` is missing in {}", ran.stdout);
    }
    let json = brasa(&["bench", "--compare", text(&one), text(&other), "--json"]).stdout;
    let compared: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(
        (compared["changes"].as_array().map(Vec::len), compared["gaps"].as_array().map(Vec::len)),
        (Some(0), Some(2))
    );
    refuses(&["bench", "--compare", text(&one), text(&one), "--filter", "conv"], 2, &["no case", "`conv`"]);
    refuses(&["bench", "--compare", text(&one), text(&one), "--crossover"], 2, &["--crossover"]);
    std::fs::write(&other, "{}").expect("writable");
    refuses(&["bench", "--compare", text(&one), text(&other)], 1, &["b.json", "not a report"]);
    refuses(&["bench", "--compare", text(&one), "/nowhere.json"], 1, &["/nowhere.json"]);
}

#[test]
fn the_notebooks_loop_can_be_run_as_it_was() {
    let ran = brasa(&["bench", "matmul", "--as-notebook", "--quick", "--filter", "small", "--device", "cpu"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("no warm-up") && ran.stdout.contains("notebook_small_x100"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("what the columns say"), "nothing would follow: {}", ran.stdout);
}

#[test]
fn a_device_that_fails_leaves_a_report_of_the_rest() {
    let ran = short("cpu", &["--device", "gpu:99"]);
    assert!(ran.stdout.contains("gpu:99") && ran.stdout.contains("FAILED"), "{}", ran.stdout);
    assert!(ran.stdout.contains("matmul_64  "), "{}", ran.stdout);
    let csv = short("cpu", &["--device", "gpu:99", "--csv"]).stdout;
    assert!(csv.lines().any(|line| line.starts_with(",,gpu:99,") && line.contains("unknown device")), "{csv}");
    for device in ["gpu:99", "nonsense"] {
        refuses(&["bench", "matmul", "--quick", "--device", device], 2, &["error: unknown device", device]);
    }
}

#[test]
fn sizes_at_which_devices_overtake_each_other_are_searched() {
    if devices().len() < 2 {
        return;
    }
    let ran = brasa(&["bench", "--crossover", "--quick", "--json", "--device", "cpu", "--device", "gpu"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let report: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    for key in ["id", "machine", "method", "build"] {
        assert!(!report[key].is_null(), "`{key}` is missing in {report}");
    }
    assert_eq!(report["devices"].as_array().map(Vec::len), Some(2));
    assert_eq!(report["growths"].as_array().map(Vec::len), Some(2), "the best batch of each device");
    let found = report["crossovers"].as_array().expect("a list");
    assert_eq!(found.len(), 4);
    for one in found {
        let points = one["points"].as_array().expect("a list");
        assert!(points.is_sorted_by_key(|point| point["size"].as_u64()), "{one}");
        // by 2 % at the least: less is noise
        let seconds = |point: &Value, device: usize| point["seconds"][device].as_f64().expect("a time");
        let faster = |point: &Value| seconds(point, 1) < 0.98 * seconds(point, 0);
        for point in points {
            // what it says is what it measured
            let size = point["size"].as_u64().expect("a size");
            if one["between"][0] == size {
                assert!(!faster(point), "{one}");
            }
            if one["between"][1] == size {
                assert!(faster(point), "{one}");
            }
        }
    }
}

#[test]
fn of_one_device_it_is_told_what_it_trains() {
    let ran = brasa(&["bench", "--crossover", "--quick", "--model", "mlp", "--device", "cpu"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    for words in
        ["brasa ", "Method: ", "Only cpu was asked for", "Training mlp, which has ", " in batches of ", " were tried"]
    {
        assert!(ran.stdout.contains(words), "`{words}` is missing in {}", ran.stdout);
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    refuses(&["bench", "nonsense"], 2, &["nonsense", "matmul"]);
    refuses(&["bench", "my/model.onnx"], 2, &["matmul", "--onnx my/model.onnx"]);
    refuses(&["bench", "matmul", "--filter", "no such case"], 2, &["no such case"]);
    refuses(&["bench", "--model", "mlp"], 2, &["--crossover"]);
    for more in [&["matmul"][..], &["--filter", "conv"], &["--as-notebook"], &["--csv"]] {
        refuses(&[&["bench", "--model", "mlp"], more].concat(), 2, &["cannot be used with", "--model"]);
    }
    refuses(&["bench", "--model", "mlp", "--onnx", "a.onnx"], 2, &["cannot be used with", "--model"]);
    for more in [&["--crossover"][..], &["--compare", "a.json", "b.json"]] {
        refuses(&[&["bench", "--axis", "n=8"], more].concat(), 2, &["cannot be used with", "--axis"]);
    }
}

#[test]
fn what_could_not_be_kept_is_told_before_anything_is_measured() {
    let folder = folder();
    let begun = std::time::Instant::now();
    let nowhere = folder.path().join("nowhere/report.json");
    refuses(&["bench", "--device", "cpu", "--save", text(&nowhere)], 1, &["report.json"]);
    refuses(&["bench", "--device", "cpu", "--save", text(folder.path())], 2, &["this is a folder"]);
    assert!(begun.elapsed().as_secs() < 20, "the whole benchmark takes minutes");
    if cfg!(feature = "ui") {
        let plot = folder.path().join("plot.svg");
        let nothing = [&["bench", "--device", "cpu", "--plot", text(&plot)][..], &["--filter", "conv"]].concat();
        refuses(&nothing, 2, &["none is measured", "matmul_64"]);
        refuses(&["bench", "--as-notebook", "--device", "cpu", "--plot", text(&plot)], 2, &["none is measured"]);
        assert!(!plot.exists());
    }
}

/// Products at high precision are there where units for f16 are.
#[test]
fn to_have_measured_nothing_is_no_success() {
    let ran = brasa(&["bench", "matmul", "--device", "cpu", "--filter", "_high"]);
    assert_eq!(ran.code, Some(1), "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains("nothing was measured on cpu: no case"), "{}", ran.stderr);
}

#[test]
fn products_are_drawn() {
    let folder = folder();
    for name in ["plot.png", "plot.svg"] {
        let path = folder.path().join(name);
        short("cpu", &["--plot", text(&path)]);
        assert!(std::fs::metadata(&path).expect("it was drawn").len() > 1000);
    }
    refuses(&[&SHORT[..], &["cpu", "--plot", "plot.gif"]].concat(), 2, &[".png or .svg"]);
}
