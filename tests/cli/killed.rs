//! Runs that are killed and go on.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use image::{GrayImage, Luma};

use super::resume::bytes;
use super::{brasa, devices, folder, metrics, text};

/// How often the run is killed, and how often it must be seen that a checkpoint was being written then.
const KILLS: (usize, usize) = (20, 3);
/// The same of the run that also writes event files and augments on the device.
const FEWER_KILLS: (usize, usize) = (6, 1);

/// A small network with dropout, and settings whose state is more than weights: moments, a schedule, an average, the
/// position of random numbers, sums of an epoch. A checkpoint after each of the short steps, so that much of the time
/// goes into writing.
const SETTINGS: [&str; 19] = [
    "--no-ui",
    "--json",
    "--model",
    "cnn",
    "--batch-size",
    "4",
    "--epochs",
    "6",
    "--seed",
    "7",
    "--augment=shift",
    "--ema",
    "0.9",
    "--accumulate",
    "2",
    "--save-every",
    "1",
    "--patience",
    "50",
];

/// SplitMix64 (Steele, Lea and Flood, 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}

/// Names of what is in the folder of checkpoints.
fn files(run: &Path) -> Vec<String> {
    let files = std::fs::read_dir(run.join("checkpoints")).into_iter().flatten().flatten();
    files.map(|file| file.file_name().to_string_lossy().into_owned()).collect()
}

/// The step of the newest checkpoint.
fn newest(run: &Path) -> Option<u64> {
    let step = |name: &String| name.strip_prefix("step-")?.strip_suffix(".safetensors")?.parse().ok();
    files(run).iter().filter_map(step).max()
}

/// Whether a checkpoint is, or was, being written: under another name until it is whole.
fn is_writing(run: &Path) -> bool {
    files(run).iter().any(|name| name.starts_with(".brasa-"))
}

/// When a run is killed. Steps are counted rather than time, so that runs come as far on any machine.
#[derive(Debug)]
enum Moment {
    /// This long after it was started, at the latest once it has written some checkpoints.
    Early(Duration),
    /// This long after so many checkpoints.
    Later(u64, Duration),
    /// As soon as it is seen to write, after so many checkpoints.
    Writing(u64),
}

impl Moment {
    fn any(random: &mut Random) -> Self {
        match random.below(4) {
            0 => Self::Early(Duration::from_millis(random.below(400))),
            1 => Self::Later(random.below(3), Duration::from_micros(random.below(6_000))),
            _ => Self::Writing(random.below(3)),
        }
    }

    /// Waits for it; false if the run ended before.
    fn comes(&self, child: &mut Child, run: &Path) -> bool {
        let (start, begun) = (Instant::now(), newest(run).unwrap_or(0));
        while child.try_wait().expect("a child").is_none() {
            let written = newest(run).unwrap_or(0) - begun;
            match *self {
                Self::Early(time) if start.elapsed() >= time || written >= 4 => return true,
                Self::Later(steps, delay) if written >= steps => {
                    sleep(delay);
                    return true;
                }
                Self::Writing(steps) if written >= steps && is_writing(run) => return true,
                _ => sleep(Duration::from_micros(100)),
            }
            assert!(start.elapsed() < Duration::from_secs(120), "{self:?} does not come");
        }
        false
    }
}

/// Writes pictures of two classes, 20 steps in an epoch.
fn write_pictures(folder: &Path) {
    for (part, count) in [("train", 160), ("test", 20)] {
        for number in 0..count {
            let class = folder.join(part).join(["falling", "rising"][number % 2]);
            std::fs::create_dir_all(&class).expect("writable");
            let level =
                |x: u32, y: u32| (if number % 2 == 0 { 3 - x } else { x } * 50 + y * 9) as u8 + number as u8 % 60;
            let picture = GrayImage::from_fn(4, 4, |x, y| Luma([level(x, y)]));
            picture.save(class.join(format!("{number}.png"))).expect("writable");
        }
    }
}

/// A run that is killed again and again, with these settings beside the common ones, and in the end compared with one
/// that was left alone.
fn kill_and_compare(device: &str, more: &[&str], (kills, least): (usize, usize)) {
    let out = folder();
    write_pictures(&out.path().join("pictures"));
    let data = format!("folder:{}", text(&out.path().join("pictures")));
    let place = ["--dataset", &data, "--device", device, "--out", text(out.path())];
    let flags = |name| [&SETTINGS[..], more, &place, &["--name", name]].concat();
    let undisturbed = brasa(&flags("whole"));
    assert_eq!(undisturbed.code, Some(0), "{}", undisturbed.stderr);
    let (whole, killed) = (out.path().join("whole"), out.path().join("killed"));
    let resume = ["--resume", text(&killed), "--json"];

    let (mut random, mut while_writing) = (Random(20), 0);
    for kill in 0..kills {
        let arguments = if newest(&killed).is_some() {
            resume.to_vec()
        } else {
            // killed before there was anything to go on from
            let _ = std::fs::remove_dir_all(&killed);
            flags("killed")
        };
        let mut command = Command::new(env!("CARGO_BIN_EXE_brasa"));
        let command = command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the program starts");
        let moment = Moment::any(&mut random);
        assert!(moment.comes(&mut child, &killed), "{device}: it ended before kill {kill}, {moment:?}");
        child.kill().expect("a child");
        child.wait().expect("a child");
        while_writing += usize::from(is_writing(&killed));
    }
    assert!(while_writing >= least, "{device}: {while_writing} kills while a checkpoint was being written");
    let last = brasa(&resume);
    assert_eq!(last.code, Some(0), "{}", last.stderr);
    for file in ["model.safetensors", "best.safetensors"] {
        assert_eq!(bytes(&killed.join(file)), bytes(&whole.join(file)), "{device}: {file}");
    }
    assert_eq!(metrics(&killed), metrics(&whole), "{device}");
    assert_eq!(files(&killed).len(), 2, "old checkpoints and temporary files are removed");
}

#[test]
fn killed_runs_end_as_if_nothing_had_happened() {
    for device in devices() {
        kill_and_compare(device, &["--tensorboard=false"], KILLS);
    }
}

#[test]
fn neither_event_files_nor_augmentation_on_the_device_change_that() {
    for device in devices() {
        kill_and_compare(device, &["--augment-on", "device"], FEWER_KILLS);
    }
}
