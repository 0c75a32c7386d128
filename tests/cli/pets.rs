//! Oxford-IIIT Pet as it is published, on a few pictures made here.

use std::path::Path;

use image::{GrayImage, Luma, Rgb, RgbImage};

use super::{brasa, folder, json_lines, text};

/// Writes pictures of these names in the layout of the unpacked archives: an animal is bright, and has a border.
fn write_pets(folder: &Path, train: &[&str], test: &[&str]) {
    let (images, trimaps) = (folder.join("images"), folder.join("annotations/trimaps"));
    for folder in [&images, &trimaps] {
        std::fs::create_dir_all(folder).expect("writable");
    }
    for (number, name) in (0_u32..).zip(train.iter().chain(test)) {
        // photographs differ in size
        let (width, height) = (24 + 3 * number, 20 + 2 * number);
        let class = |x: u32, y: u32| {
            let away = (x.abs_diff(width / 2)).max(y.abs_diff(height / 2));
            if away < 6 { 1 } else { 3 - u8::from(away > 7) }
        };
        let picture = RgbImage::from_fn(width, height, |x, y| Rgb([250 / class(x, y), 90, 40]));
        picture.save(images.join(format!("{name}.jpg"))).expect("writable");
        let trimap = GrayImage::from_fn(width, height, |x, y| Luma([class(x, y)]));
        trimap.save(trimaps.join(format!("{name}.png"))).expect("writable");
    }
    for (list, names) in [("trainval.txt", train), ("test.txt", test)] {
        let lines: String = names.iter().map(|name| format!("{name} 1 1 1\n")).collect();
        std::fs::write(folder.join("annotations").join(list), lines).expect("writable");
    }
}

#[test]
fn the_recipe_for_shapes_learns_from_pets() {
    let place = folder();
    let names = ["pug_1", "pug_2", "pug_3", "pug_4", "pug_5"];
    write_pets(&place.path().join("oxford-pets"), &names, &["boxer_1", "boxer_2"]);
    let recipe = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/recipes/shapes-unet.toml");
    let (out, data) = (place.path().join("runs"), place.path());
    let command =
        ["--config", text(&recipe), "--dataset", "oxford-pets", "--data-dir", text(data), "--out", text(&out)];
    let small = ["--image-size", "16", "--batch-size", "2", "--epochs", "1", "--device", "cpu", "--no-ui", "--json"];
    let ran = brasa(&[&command[..], &small].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let events = json_lines(&ran.stdout);
    let event = |name: &str| events.iter().find(|event| event["event"] == name).expect("it is told");
    assert_eq!(
        (event("started")["train_samples"].as_u64(), event("started")["test_samples"].as_u64()),
        (Some(5), Some(2))
    );
    let test = &event("finished")["test"];
    assert_eq!((test["by_iou"].as_bool(), test["targets"].as_u64()), (Some(true), Some(2 * 16 * 16)), "{test}");
    assert_eq!(event("finished")["skipped_samples"], 0);

    let judged = brasa(&["eval", text(&out.join("oxford-pets-unet-1")), "--device", "cpu"]);
    assert_eq!(judged.code, Some(0), "{}", judged.stderr);
    for word in ["animal", "background", "border", "mean Dice", "pixels", "mean IoU", "micro"] {
        assert!(judged.stdout.contains(word), "`{word}` is missing in: {}", judged.stdout);
    }
    assert!(!judged.stdout.contains("F1"), "{}", judged.stdout);
}
