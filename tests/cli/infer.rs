//! `brasa infer`: pictures, folders, tables and standard input, answered as the library answers them.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use brasa::data::digits;
use brasa::train::Predictor;
use serde_json::Value;

use super::{Ran, brasa, command, devices, digit, flags, folder, json_lines, refuses, short, text};

/// Runs the program with these bytes in its standard input.
fn fed(arguments: &[&str], input: &[u8]) -> Ran {
    let mut command = command(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    // small enough for the pipe, so that nobody waits
    child.stdin.take().expect("a pipe").write_all(input).expect("it is read");
    Ran::of(child.wait_with_output().expect("it ends"))
}

/// A run on the digits, and so many held-out ones as pictures, larger and in colour.
fn run_and_digits(out: &Path, count: usize) -> (PathBuf, PathBuf) {
    let ran = brasa(&short(out, &["--name", "run"]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let (data, pictures) = (digits().expect("they are the program's").test, out.join("pictures"));
    for index in 0..count {
        let (picture, class) = digit(&data, index);
        let folder = pictures.join(class.to_string());
        std::fs::create_dir_all(&folder).expect("writable");
        picture.save(folder.join(format!("{index:03}.png"))).expect("writable");
    }
    (out.join("run"), pictures)
}

/// What is sent to it is told to be nothing that can be answered.
fn refuses_fed(run: &Path, input: &[u8], words: &[&str]) {
    let ran = fed(&["infer", text(run)], input);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{}", ran.stderr);
    for word in words {
        assert!(ran.stderr.contains(word), "`{word}` is missing in: {}", ran.stderr);
    }
}

#[test]
#[cfg(unix)]
fn links_that_lead_back_and_pipes_are_left_out() {
    let out = folder();
    let (run, pictures) = run_and_digits(out.path(), 2);
    for link in ["a", "b"] {
        std::os::unix::fs::symlink(&pictures, pictures.join(link)).expect("a link");
    }
    let pipe = pictures.join("pipe.png");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("coreutils").success());
    let ran = brasa(&["infer", text(&run), text(&pictures)]);
    assert_eq!((ran.code, ran.stdout.lines().count()), (Some(0), 2), "{} {}", ran.stdout, ran.stderr);
}

fn assert_answers(lines: &[Value], expected: &[Value]) {
    assert_eq!(lines.len(), expected.len());
    for (line, expected) in lines.iter().zip(expected) {
        assert_eq!((&line["input"], &line["class"]), (&expected["input"], &expected["class"]));
        let [got, wanted] = [line, expected].map(|line| line["probability"].as_f64().expect("a number"));
        assert!((got - wanted).abs() < 1e-4, "{line} {expected}");
    }
}

#[test]
fn pictures_are_answered_as_the_library_does() {
    let out = folder();
    let (run, pictures) = run_and_digits(out.path(), 45);
    let predictor = Predictor::open_best(&run, Some("cpu")).expect("weights");
    let ran = brasa(&["infer", text(&run), text(&pictures), "--json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("45 pictures in ") && ran.stderr.contains("a batch of 32: "), "{}", ran.stderr);
    let all = json_lines(&ran.stdout);
    assert_eq!(all.len(), 45);
    for line in &all {
        let said = predictor.predict_file(Path::new(line["input"].as_str().expect("a path"))).expect("a picture");
        let (class, probability) = said.prediction.likeliest[0];
        assert_eq!(line["class"], predictor.classes()[class as usize].as_str());
        assert!((line["probability"].as_f64().expect("a number") - f64::from(probability)).abs() < 1e-4, "{line}");
        assert_eq!(line["likeliest"].as_array().expect("a list").len(), 3);
    }
    // they are told by what their folders are called; two passes do not suffice for all of them
    let right = all.iter().filter(|line| {
        let folder = Path::new(line["input"].as_str().expect("a path")).parent().and_then(Path::file_name);
        folder.and_then(|name| name.to_str()) == line["class"].as_str()
    });
    assert!(right.count() > 30);

    for device in devices() {
        let names: String = all.iter().map(|line| format!("{}\n", line["input"].as_str().expect("a path"))).collect();
        for flags in [&["--batch-size", "7"][..], &[], &["-"]] {
            let arguments = [&["infer", text(&run), "--json", "--device", device], flags].concat();
            let ran = fed(&arguments, names.as_bytes());
            assert_eq!(ran.code, Some(0), "{}", ran.stderr);
            assert_answers(&json_lines(&ran.stdout), &all);
        }
    }
    let first = all[0]["input"].as_str().expect("a path");
    let ran = fed(&["infer", text(&run), "--json"], &std::fs::read(first).expect("a picture"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let [piped] = &json_lines(&ran.stdout)[..] else { panic!("{}", ran.stdout) };
    assert_eq!((&piped["input"], &piped["class"]), (&"standard input".into(), &all[0]["class"]));

    let ran = brasa(&["infer", text(&run), first, "--top", "1"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let class = all[0]["class"].as_str().expect("a name");
    assert!(ran.stdout.starts_with(&format!("{first}: {class} ")) && ran.stdout.ends_with(" %\n"), "{}", ran.stdout);
    assert!(ran.stderr.contains("1 picture in "), "{}", ran.stderr);
    let ran = brasa(&["infer", text(&run), text(&pictures), "--json", "--quantize"]);
    assert!(ran.stderr.contains("weights in 8 bits: ") && ran.code == Some(0), "{}", ran.stderr);
    let rounded = json_lines(&ran.stdout);
    let changed = all.iter().zip(&rounded).filter(|(one, other)| one["class"] != other["class"]).count();
    assert!(changed <= 1 && all != rounded, "{changed} of 45 have another class");
    for (top, told) in [("7", 7), ("300", 10)] {
        let ran = brasa(&["infer", text(&run), first, "--top", top]);
        assert_eq!((ran.code, ran.stdout.matches(" %").count()), (Some(0), told), "{} {}", ran.stdout, ran.stderr);
    }
}

#[test]
fn what_cannot_be_read_is_told_and_the_rest_is_answered() {
    let out = folder();
    let (run, pictures) = run_and_digits(out.path(), 3);
    let broken = out.path().join("broken.png");
    std::fs::write(&broken, b"no picture").expect("writable");
    let empty = out.path().join("empty");
    std::fs::create_dir(&empty).expect("writable");
    let inputs = [text(&broken), text(&pictures), "none.jpg", text(&empty)];
    let ran = brasa(&[&["infer", text(&run)], &inputs[..]].concat());
    assert_eq!((ran.code, ran.stdout.lines().count()), (Some(1), 3), "{}", ran.stderr);
    for word in ["broken.png", "none.jpg", "empty", "there are no pictures", "3 inputs without an answer"] {
        assert!(ran.stderr.contains(word), "`{word}` is missing in: {}", ran.stderr);
    }
    let ran = brasa(&[&["infer", text(&run), "--json"], &inputs[..]].concat());
    let lines = json_lines(&ran.stdout);
    assert_eq!((ran.code, lines.len()), (Some(1), 6), "{}", ran.stderr);
    assert!(lines[0]["error"].as_str().is_some_and(|error| error.contains("broken.png")), "{}", lines[0]);
    assert!(lines[1..4].iter().all(|line| line["class"].is_string()), "{lines:?}");

    let other = [&b"P6\n"[..], &[b'a'; 99], b"\0"].concat();
    refuses_fed(&run, &other, &["P6", "neither a picture", "nor a name"]);
    refuses_fed(&run, b"\x89PN", &["standard input"]);
    let ran = fed(&["infer", text(&run)], b"");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{}", ran.stderr);
    refuses(&["infer", text(&run), "--masks", "m", text(&pictures)], 2, &["masks", "not their pixels"]);
    refuses(&["infer", text(out.path()), text(&pictures)], 2, &["is not a run"]);
    refuses(&["infer", text(&run), "--weights", "none.safetensors", text(&pictures)], 1, &["none.safetensors"]);
    refuses(&["infer", text(&run), "--top", "0"], 2, &["--top"]);
}

#[test]
fn masks_have_the_sizes_of_their_pictures_and_are_never_written_over_others() {
    let out = folder();
    let more = ["--name", "run", "--dataset", "shapes:n=24,size=16", "--batch-size", "4"];
    let arguments = ["--model", "unet", "--no-ui", "--epochs", "1", "--out", text(out.path()), "--device", "cpu"];
    let ran = brasa(&[&arguments[..], &more].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let (run, pictures, masks) = (out.path().join("run"), out.path().join("pictures"), out.path().join("masks"));
    std::fs::create_dir_all(pictures.join("inner")).expect("writable");
    for (name, width, height) in [("a.png", 40, 20), ("inner/b.jpg", 16, 16), ("inner/c.bmp", 7, 33)] {
        let picture = image::RgbImage::from_fn(width, height, |x, y| image::Rgb([x as u8 * 6, y as u8 * 7, 90]));
        picture.save(pictures.join(name)).expect("writable");
    }
    let arguments = ["infer", text(&run), text(&pictures), "--masks", text(&masks), "--json"];
    let ran = brasa(&arguments);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    for (line, (name, width, height)) in
        json_lines(&ran.stdout).iter().zip([("a.png", 40, 20), ("inner/b.png", 16, 16), ("inner/c.png", 7, 33)])
    {
        let mask = masks.join(name);
        assert_eq!(line["mask"], text(&mask));
        assert_eq!((line["width"].as_u64(), line["height"].as_u64()), (Some(width), Some(height)));
        assert_eq!(image::image_dimensions(&mask).expect("a picture"), (width as u32, height as u32));
        let shares = line["pixels"].as_array().expect("a list").iter().map(|part| part["share"].as_f64());
        assert!((shares.map(|share| share.expect("a number")).sum::<f64>() - 1.0).abs() < 1e-9, "{line}");
    }
    let ran = brasa(&[&arguments[..3], &["--json", "--top", "1"]].concat());
    assert!(json_lines(&ran.stdout).iter().all(|line| line["pixels"].as_array().expect("a list").len() == 1));
    let ran = brasa(&arguments);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    // before anything is answered
    assert_eq!(ran.stdout, "");
    let told = ran.stderr.contains("such a file already") && ran.stderr.contains("3 of 3 masks");
    assert!(told && ran.stderr.lines().count() == 1, "{}", ran.stderr);
    // what comes one by one is answered all the same
    let names = format!("{}\n", text(&pictures.join("a.png")));
    let ran = fed(&["infer", text(&run), "--masks", text(&masks)], names.as_bytes());
    assert_eq!((ran.code, ran.stdout.lines().count()), (Some(1), 1), "{}", ran.stderr);
    assert!(ran.stderr.contains("1 answer without a mask"), "{}", ran.stderr);
    // files of one name in different folders, by their names
    let twice = out.path().join("twice");
    for name in ["one/x.png", "two/x.png"] {
        std::fs::create_dir_all(out.path().join(name).parent().expect("a folder")).expect("writable");
        std::fs::copy(pictures.join("a.png"), out.path().join(name)).expect("writable");
    }
    let mut command = command(&["infer", "run", "one/x.png", "./two/x.png", "--masks", "twice"]);
    command.current_dir(out.path());
    for (code, answers) in [(0, 2), (1, 0)] {
        let output = command.output().expect("the program starts");
        let lines = String::from_utf8_lossy(&output.stdout).lines().count();
        assert_eq!((output.status.code(), lines), (Some(code), answers), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert!(twice.join("one/x.png").is_file() && twice.join("two/x.png").is_file());
    // and folders that have pictures of one name
    let [one, two, both] = ["one", "two", "both"].map(|name| out.path().join(name));
    let ran = brasa(&["infer", text(&run), text(&one), text(&two), text(&one), "--masks", text(&both)]);
    assert_eq!((ran.code, ran.stdout.matches(" -> ").count()), (Some(0), 3), "{}", ran.stderr);
    assert!(ran.stdout.contains("one/x.png\n") && ran.stdout.contains("two/x.png\n"), "{}", ran.stdout);
    assert!(ran.stdout.ends_with("one/x-2.png\n"), "{}", ran.stdout);
    // where the pictures lie
    let before = std::fs::read(pictures.join("a.png")).expect("a picture");
    assert_eq!(brasa(&["infer", text(&run), text(&pictures), "--masks", text(&pictures)]).code, Some(1));
    let file = pictures.join("a.png");
    refuses(&["infer", text(&run), text(&pictures), "--masks", text(&file)], 2, &["masks", "is a file"]);
    assert_eq!(std::fs::read(pictures.join("a.png")).expect("a picture"), before);
}

#[test]
fn rows_of_tables_are_answered() {
    let out = folder();
    let table = out.path().join("table.csv");
    let rows: String =
        (0..60).map(|row| format!("{},{},{}\n", row, 200 - row, if row < 30 { "low" } else { "high" })).collect();
    std::fs::write(&table, format!("a,b,class\n{rows}")).expect("writable");
    let dataset = format!("csv:{}", text(&table));
    let ran = brasa(&flags(out.path(), "40", &["--name", "run", "--dataset", &dataset, "--lr", "0.02"]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let run = out.path().join("run");
    let questions = out.path().join("questions.csv");
    std::fs::write(&questions, "a,b\n1,199\n58,142\n").expect("writable");
    let ran = brasa(&["infer", text(&run), text(&questions), "--json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let of = |line: &Value| (line["input"].as_str().map(str::to_owned), line["class"].as_str().map(str::to_owned));
    let said: Vec<_> = json_lines(&ran.stdout).iter().map(of).collect();
    let name = |line: usize| Some(format!("{}:{line}", text(&questions)));
    assert_eq!(said, [(name(2), Some("low".into())), (name(3), Some("high".into()))]);
    assert!(ran.stderr.contains("2 rows in "), "{}", ran.stderr);
    std::fs::write(&questions, "\n\na,b\n1,199\n").expect("writable");
    let ran = brasa(&["infer", text(&run), text(&questions)]);
    assert_eq!((ran.code, ran.stdout.lines().count()), (Some(0), 1), "{}", ran.stderr);

    let ran = fed(&["infer", text(&run)], b"1,199\n58\nx,2\n58, 142\n");
    assert_eq!((ran.code, ran.stdout.lines().count()), (Some(1), 2), "{}", ran.stderr);
    assert!(ran.stdout.starts_with("standard input:1: low "), "{}", ran.stdout);
    assert!(ran.stdout.contains("\nstandard input:4: high "), "{}", ran.stdout);
    for word in ["standard input:2", "1 column", "2 features", "standard input:3", "`x` instead of a number"] {
        assert!(ran.stderr.contains(word), "`{word}` is missing in: {}", ran.stderr);
    }
    // each line by itself, whatever is wrong with another
    let ran = fed(&["infer", text(&run), "--json"], b"a,b\n\"1,199\n\n\xff,3\n58,142\n");
    let lines = json_lines(&ran.stdout);
    let inputs: Vec<_> = lines.iter().map(|line| line["input"].as_str().expect("a name")).collect();
    assert_eq!(inputs, [2, 4, 5].map(|line| format!("standard input:{line}")), "{}", ran.stderr);
    assert!(lines[..2].iter().all(|line| line["error"].is_string()) && lines[2]["class"] == "high", "{lines:?}");
    std::fs::write(&questions, "a,b\n").expect("writable");
    refuses(&["infer", text(&run), text(&questions)], 1, &["no row below the columns' names"]);
    // the table that was learned from: the class is none of the names
    let classes = |ran: &Ran| {
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        json_lines(&ran.stdout).iter().map(|line| line["class"].as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    let learned = classes(&brasa(&["infer", text(&run), text(&table), "--json"]));
    assert!(learned.len() == 60 && learned[0] == Some("low".into()) && learned[59] == Some("high".into()));
    // columns in another order, among others, and with another separator
    let turned: String = (0..60).map(|row| format!("x;{};;{row}\n", 200 - row)).collect();
    let turned = format!("note;b;class;a\n{turned}");
    std::fs::write(&questions, &turned).expect("writable");
    assert_eq!(classes(&brasa(&["infer", text(&run), text(&questions), "--json"])), learned);
    assert_eq!(classes(&fed(&["infer", text(&run), "--json"], turned.as_bytes())), learned);
    // a table that does not fit as a whole is told once, and the next one is answered
    for (text_of, word) in [
        (format!("class,c,a\n{}", "low,1,2\n".repeat(40)), "lacks the column `b`"),
        ("1,2,low\n".repeat(40), "3 columns, but the model is given 2 features"),
    ] {
        std::fs::write(&questions, text_of).expect("writable");
        let ran = brasa(&["infer", text(&run), text(&questions), text(&table)]);
        assert_eq!((ran.code, ran.stdout.lines().count()), (Some(1), 60), "{}", ran.stderr);
        let told = ran.stderr.matches("questions.csv").count();
        assert!(told == 1 && ran.stderr.contains(word) && ran.stderr.contains("1 input without"), "{}", ran.stderr);
    }
    // runs from before names were written go by position
    let record = std::fs::read_to_string(run.join("run.json")).expect("written");
    let mut old: Value = serde_json::from_str(&record).expect("JSON");
    assert_eq!(old["input"]["columns"], serde_json::json!(["a", "b"]));
    old["input"].as_object_mut().expect("an object").remove("columns");
    std::fs::write(run.join("run.json"), old.to_string()).expect("writable");
    std::fs::write(&questions, "x,y\n1,199\n58,142\n").expect("writable");
    let by_position = classes(&brasa(&["infer", text(&run), text(&questions), "--json"]));
    assert_eq!(by_position, [Some("low".into()), Some("high".into())]);
    let ran = brasa(&["infer", text(&run), text(&table)]);
    assert_eq!((ran.code, ran.stderr.matches("without the class").count()), (Some(1), 1), "{}", ran.stderr);
    refuses(&["infer", text(&run), text(out.path())], 1, &["no pictures"]);
}
