//! What a frame of the window costs our own CPU, page by page, with ten runs of a million points; and what it costs to
//! leave the window open beside a run that goes on.
//!
//! `cargo bench --bench window [-- POINTS]`. Layout and tessellation are counted, drawing the triangles is not.

#![allow(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use brasa::train::{Config, Control, Trainer};
use brasa::ui::{Options, Page, SavedSettings, Window};
use cpu_time::{ProcessTime, ThreadTime};

const RUNS: usize = 10;
/// Loss, accuracy and learning rate.
const CURVES: usize = 3;
const WARM_UP: usize = 10;
const FRAMES: usize = 200;
/// What a page takes to find out what it shows first.
const SETTLE: Duration = Duration::from_secs(5);
/// How long the window is left alone then.
const IDLE: Duration = Duration::from_secs(10);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let points = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(1_000_000_usize);
    let runs = tempfile::tempdir()?;
    // a real run gives stages, a plan, histograms and predictions; nine more have its files and longer curves
    let config = Config { epochs: 2, device: Some("cpu".into()), out: runs.path().into(), ..Config::default() };
    let mut trainer = Trainer::new(config)?;
    trainer.add_tensorboard();
    let real = trainer.run(&Control::default(), &mut |_| {})?.folder;
    for number in 0..RUNS {
        let folder = runs.path().join(format!("long-{number}"));
        std::fs::create_dir(&folder)?;
        for entry in std::fs::read_dir(&real)?.flatten().filter(|entry| entry.path().is_file()) {
            std::fs::copy(entry.path(), folder.join(entry.file_name()))?;
        }
        write_curve(&folder.join("metrics.jsonl"), points, number)?;
    }
    frames(runs.path(), points);
    idle()
}

/// One frame: what it cost this thread, and when the next one is wanted.
fn frame(context: &egui::Context, window: &mut Window) -> (Duration, Duration) {
    let began = ThreadTime::now();
    let size = egui::Rect::from_min_size(egui::Pos2::ZERO, egui::vec2(1280.0, 800.0));
    let input = egui::RawInput { screen_rect: Some(size), ..egui::RawInput::default() };
    let mut output = context.run_ui(input, |ui| window.ui(ui));
    output.textures_delta.clear();
    let triangles = context.tessellate(output.shapes, output.pixels_per_point);
    std::hint::black_box(triangles);
    let wanted = output.viewport_output.values().map(|viewport| viewport.repaint_delay).min();
    (began.elapsed(), wanted.unwrap_or(Duration::MAX))
}

fn looking_at(folder: &Path) -> Window {
    Window::new(Options { roots: vec![folder.into()], ..Options::default() }, SavedSettings::default())
}

/// Every page, drawn again and again.
fn frames(runs: &Path, points: usize) {
    let start = Instant::now();
    let (context, mut window) = (egui::Context::default(), looking_at(runs));
    while window.points() < RUNS * points * CURVES {
        frame(&context, &mut window);
        std::thread::sleep(Duration::from_millis(50));
    }
    println!("{RUNS} runs of {points} points read in {:.1} s", start.elapsed().as_secs_f64());
    for page in Page::ALL {
        window.open_page(page);
        (0..WARM_UP).for_each(|_| {
            frame(&context, &mut window);
            std::thread::sleep(Duration::from_millis(20));
        });
        let mut times: Vec<Duration> = (0..FRAMES).map(|_| frame(&context, &mut window).0).collect();
        times.sort_unstable();
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let name = format!("{page:?}").to_lowercase();
        println!(
            "{name:<12} median {:>7.3} ms   99th percentile {:>7.3} ms",
            ms(times[FRAMES / 2]),
            ms(times[FRAMES * 99 / 100])
        );
    }
}

/// The window as a desktop draws it, when it asks to be, beside a run of another process: all that this one takes is
/// the window's.
fn idle() -> Result<(), Box<dyn std::error::Error>> {
    let runs = tempfile::tempdir()?;
    let mut training = Command::new(env!("CARGO_BIN_EXE_brasa"))
        .args(["train", "--no-ui", "--json", "--device", "cpu", "--epochs", "100000", "--out"])
        .arg(runs.path())
        .stdout(Stdio::null())
        .spawn()?;
    let (asking, asked) = mpsc::channel();
    let context = egui::Context::default();
    context.set_request_repaint_callback(move |request| {
        let _ = asking.send(Instant::now() + request.delay);
    });
    let mut window = looking_at(runs.path());
    for page in Page::ALL {
        window.open_page(page);
        let (mut drawn, mut next) = (0, Instant::now());
        let (mut start, mut took) = (Instant::now(), ProcessTime::now());
        let mut settled = false;
        while !settled || start.elapsed() < IDLE {
            if !settled && start.elapsed() >= SETTLE {
                (settled, drawn, start, took) = (true, 0, Instant::now(), ProcessTime::now());
            }
            let until = next.min(start + IDLE);
            match asked.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(wanted) => next = next.min(wanted),
                Err(_) if next <= Instant::now() => {
                    let (_, wanted) = frame(&context, &mut window);
                    drawn += 1;
                    // what was asked for before this frame is served by it
                    while asked.try_recv().is_ok() {}
                    next = Instant::now().checked_add(wanted).unwrap_or(start + 2 * IDLE);
                }
                Err(_) => {}
            }
        }
        let (seconds, took) = (start.elapsed().as_secs_f64(), took.elapsed().as_secs_f64());
        let name = format!("{page:?}").to_lowercase();
        println!(
            "{name:<12} left alone: {:>5.2} frames a second, {:>5.2} % of a core",
            f64::from(drawn) / seconds,
            100.0 * took / seconds
        );
    }
    training.kill()?;
    training.wait()?;
    Ok(())
}

/// A noisy descent.
fn write_curve(path: &Path, points: usize, run: usize) -> std::io::Result<()> {
    let mut file = BufWriter::new(std::fs::File::create(path)?);
    let mut noise = run as u64 + 1;
    for step in 1..=points {
        noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let random = (noise >> 40) as f64 / (1_u64 << 24) as f64;
        let loss = 2.3 * (-4.0 * step as f64 / points as f64).exp() + 0.3 * random;
        let (epoch, seconds) = (1 + step / 1000, step as f64 * 1e-3);
        let accuracy = 1.0 - 0.4 * loss;
        writeln!(
            file,
            r#"{{"kind":"train","step":{step},"epoch":{epoch},"loss":{loss},"accuracy":{accuracy},"lr":0.001,"elapsed_s":{seconds}}}"#
        )?;
    }
    file.flush()
}
