//! `brasa infer` with models in ONNX files.

use std::path::{Path, PathBuf};

use brasa::formats::onnx::{ExportOptions, Input, export_function};
use brasa::{DType, Device, Tensor};
use serde_json::Value;

use super::{brasa, folder, json_lines, refuses, text};

/// A file with this function of batches of inputs of `shape`.
fn write(path: &Path, shape: &[usize], f: &dyn Fn(&Tensor) -> Tensor) -> PathBuf {
    let inputs = [Input::new("x", shape, DType::F32)];
    let options = ExportOptions::default();
    let bytes = export_function(&Device::cpu(), &inputs, &["y"], &options, |inputs| vec![f(&inputs[0])]);
    std::fs::write(path, bytes.expect("it can be written")).expect("writable");
    path.to_owned()
}

/// What a sigmoid says of each class is its own probability, and of one class that of the second of two.
#[test]
fn sigmoids_are_told_as_they_are_and_a_lone_number_is_no_class() {
    let out = folder();
    let write = |name: &str, shape: &[usize], f: &dyn Fn(&Tensor) -> Tensor| write(&out.path().join(name), shape, f);
    let rows = out.path().join("rows.csv");
    std::fs::write(&rows, "a,b\n2,1\n-1,3\n").expect("writable");
    let answers = |model: &Path, more: &[&str]| {
        let ran = brasa(&[&["infer", text(model), text(&rows), "--device", "cpu", "--json"], more].concat());
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let percent = |part: &Value| (part["probability"].as_f64().expect("a number") * 1e4).round() / 100.0;
        let of = |line: Value| {
            let parts = line["likeliest"].as_array().expect("a list").clone();
            parts.iter().map(|part| (part["class"].as_str().expect("a name").to_owned(), percent(part))).collect()
        };
        json_lines(&ran.stdout).into_iter().map(of).collect::<Vec<Vec<(String, f64)>>>()
    };
    let named = |parts: &[(&str, f64)]| parts.iter().map(|&(name, share)| (name.to_owned(), share)).collect::<Vec<_>>();
    let one = write("one.onnx", &[2], &|x| x.narrow(1, 0, 1).sigmoid());
    assert_eq!(answers(&one, &[])[0], named(&[("1", 88.08), ("0", 11.92)]));
    assert_eq!(answers(&one, &[])[1], named(&[("0", 73.11), ("1", 26.89)]));
    let two = write("two.onnx", &[2], &|x| x.sigmoid());
    assert_eq!(answers(&two, &[])[0], named(&[("0", 88.08), ("1", 73.11)]));
    // may be a price
    let number = write("number.onnx", &[2], &|x| x.narrow(1, 0, 1) * 1.0);
    refuses(
        &["infer", text(&number), text(&rows), "--device", "cpu"],
        1,
        &["one number for each sample", "two classes"],
    );
    let names = out.path().join("names.txt");
    std::fs::write(&names, "no\nyes\n").expect("writable");
    assert_eq!(answers(&number, &["--classes", text(&names)])[0], named(&[("yes", 88.08), ("no", 11.92)]));

    // of rows, a number for each column, or one for all
    assert_eq!(answers(&one, &["--mean", "2,0", "--std", "4,1"])[0], named(&[("0", 50.0), ("1", 50.0)]));
    assert_eq!(answers(&one, &["--mean", "0", "--std", "2"])[0], named(&[("1", 73.11), ("0", 26.89)]));
    for numbers in ["1,2,3", "nan"] {
        let wrong = ["infer", text(&one), text(&rows), "--device", "cpu", "--mean", numbers, "--std", numbers];
        refuses(&wrong, 2, &["one.onnx", "mean"]);
    }

    let picture = out.path().join("picture.png");
    image::GrayImage::from_fn(4, 4, |x, _| image::Luma([if x < 1 { 255 } else { 0 }]))
        .save(&picture)
        .expect("writable");
    for (name, mask) in [
        ("mask", write("mask.onnx", &[1, 4, 4], &|x| (x * 20.0 - 10.0).sigmoid())),
        ("logits", write("logits.onnx", &[1, 4, 4], &|x| x * 20.0 - 10.0)),
    ] {
        let folder = out.path().join(name);
        let ran = brasa(&["infer", text(&mask), text(&picture), "--device", "cpu", "--masks", text(&folder)]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(ran.stdout.contains("0 75.00 %, 1 25.00 %"), "{}", ran.stdout);
    }
}

/// A field of a message of protobuf, of bytes.
fn bytes_field(number: u8, bytes: &[u8]) -> Vec<u8> {
    assert!(bytes.len() < 128, "one byte for the length");
    [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
}

/// A field of a message of protobuf, of a small number.
fn number_field(number: u8, value: u8) -> Vec<u8> {
    vec![number << 3, value]
}

/// A model that takes the mean of all pixels of each channel, of pictures of any size.
fn means_of_channels() -> Vec<u8> {
    let axis = |name: &str| bytes_field(1, &bytes_field(2, name.as_bytes()));
    let shape = [axis("n"), bytes_field(1, &number_field(1, 3)), axis("h"), axis("w")].concat();
    let tensor = [number_field(1, 1), bytes_field(2, &shape)].concat();
    let input = [bytes_field(1, b"x"), bytes_field(2, &bytes_field(1, &tensor))].concat();
    let node = [bytes_field(1, b"x"), bytes_field(2, b"y"), bytes_field(4, b"GlobalAveragePool")].concat();
    let graph = [bytes_field(1, &node), bytes_field(11, &input), bytes_field(12, &bytes_field(1, b"y"))].concat();
    [number_field(1, 8), bytes_field(7, &graph), bytes_field(8, &number_field(2, 17))].concat()
}

#[test]
fn pictures_of_open_sizes_channels_behind_them_and_masks_of_fewer_points_are_answered() {
    let out = folder();
    let picture = out.path().join("picture.png");
    // the left half is red, the right half blue
    let color = |x: u32| image::Rgb(if x < 4 { [255, 0, 0] } else { [0, 0, 255] });
    image::RgbImage::from_fn(8, 8, |x, _| color(x)).save(&picture).expect("writable");
    let infer = |model: &Path, more: &[&str]| {
        let ran = brasa(&[&["infer", text(model), text(&picture), "--device", "cpu", "--json"], more].concat());
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        json_lines(&ran.stdout).remove(0)
    };
    let likeliest = |said: &Value| said["likeliest"][0]["class"].as_str().map(str::to_owned);

    let open = out.path().join("open.onnx");
    std::fs::write(&open, means_of_channels()).expect("writable");
    let asked = ["infer", text(&open), text(&picture), "--device", "cpu"];
    refuses(&asked, 1, &["open.onnx", "[n, 3, h, w]", "--image-size"]);
    for wrong in ["0", "8x", "8x8x8", "-1", "99999"] {
        let wrong = format!("--image-size={wrong}");
        refuses(&[&asked[..], &[wrong.as_str()]].concat(), 2, &["480x640"]);
    }
    let said = infer(&open, &["--image-size", "6x4", "--mean", "0,0,0.4", "--std", "1,1,1"]);
    assert_eq!(likeliest(&said).as_deref(), Some("0"), "{said}");
    let said = infer(&open, &["--image-size", "5", "--mean", "0.4,0,0", "--std", "1,1,1"]);
    assert_eq!(likeliest(&said).as_deref(), Some("2"), "{said}");

    let last = write(&out.path().join("last.onnx"), &[8, 8, 3], &|x| x.narrow(2, 0, 4).mean_dim([1, 2]));
    let said = infer(&last, &[]);
    assert_eq!(likeliest(&said).as_deref(), Some("0"), "{said}");
    refuses(
        &["infer", text(&last), text(&picture), "--device", "cpu", "--image-size", "9"],
        2,
        &["[batch, 8, 8, 3]", "leave out"],
    );
    infer(&last, &["--image-size", "8"]);

    // class 1 is red, 2 blue, of squares of 2 by 2 pixels; between these, neither of them is as likely as class 0
    let squares = write(&out.path().join("squares.onnx"), &[8, 8, 3], &|x| {
        let squares = x.permute([0, 3, 1, 2]).avg_pool2d(2, 2, 0);
        let [red, green, blue] = [0, 1, 2].map(|channel| squares.narrow(1, channel, 1));
        Tensor::cat(&[&(green + 0.8), &red, &blue], 1).permute([0, 2, 3, 1])
    });
    let masks = out.path().join("masks");
    let said = infer(&squares, &["--masks", text(&masks)]);
    let shares = said["pixels"].as_array().expect("a list").iter().map(|part| (&part["class"], &part["share"]));
    let shares: Vec<_> = shares.map(|(class, share)| (class.as_str().expect("a name"), share.as_f64())).collect();
    assert_eq!(shares, [("1", Some(0.375)), ("2", Some(0.375)), ("0", Some(0.25))]);
    let mask = image::open(masks.join("picture.png")).expect("a mask").to_rgb8();
    let line: Vec<_> = (0..8).map(|x| mask.get_pixel(x, 5)).collect();
    let [red, neither, blue] = [line[0], line[3], line[5]];
    assert_eq!(line, [red, red, red, neither, neither, blue, blue, blue]);
    assert!(red != neither && neither != blue && blue != red, "{line:?}");
}
