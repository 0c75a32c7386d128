//! Archives that are larger than the memory that reading them takes.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::{folder, text};

/// Pictures in an archive.
const PICTURES: u32 = 400;
const SIDE: u32 = 96;

/// An archive of 11 MB.
fn write_shard(path: &Path) {
    let mut archive = tar::Builder::new(std::fs::File::create(path).expect("writable"));
    for number in 0..PICTURES {
        let level = |x: u32, y: u32| (x * y + number) as u8;
        let picture = image::RgbImage::from_fn(SIDE, SIDE, |x, y| image::Rgb([level(x, y), 0, number as u8]));
        let mut bytes = std::io::Cursor::new(Vec::new());
        picture.write_to(&mut bytes, image::ImageFormat::Bmp).expect("in memory");
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.get_ref().len() as u64);
        header.set_mode(0o644);
        let name = format!("{}/{number}.bmp", ["even", "odd"][number as usize % 2]);
        archive.append_data(&mut header, name, bytes.get_ref().as_slice()).expect("writable");
    }
    archive.finish().expect("writable");
}

/// The most memory, in KiB, that a run takes whose data is the same archive under `shards` names.
fn most_memory(shards: usize) -> u64 {
    let place = folder();
    let data = place.path().join("data");
    std::fs::create_dir(&data).expect("writable");
    write_shard(&data.join("train-0.tar"));
    for name in (1..shards).map(|number| format!("train-{number}.tar")).chain(["test.tar".into()]) {
        std::fs::hard_link(data.join("train-0.tar"), data.join(name)).expect("the file system has links");
    }
    let data = format!("folder:{}", text(&data));
    let settings = ["--no-ui", "--model", "mlp", "--image-size", "16", "--batch-size", "100", "--epochs", "1"];
    let place = ["--dataset", &data, "--out", text(place.path()), "--device", "cpu", "--workers", "2"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_brasa"));
    let command = command.args(settings).args(place).arg("--tensorboard=false");
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts");
    let status = format!("/proc/{}/status", child.id());
    let mut most = 0;
    let ended = loop {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok());
        most = most.max(kibibytes.unwrap_or(0));
        if let Some(ended) = child.try_wait().expect("a child") {
            break ended;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    assert!(ended.success() && most > 0, "{ended}");
    most
}

#[test]
fn repeated_shards_take_no_more_memory_than_one() {
    let (one, many) = (most_memory(1), most_memory(40));
    // 440 MB of pictures, of which the numbers of 16,000 are what is kept
    assert!(many < one + (48 << 10), "{one} KiB for one, {many} KiB for forty");
}
