//! What a window takes to show long runs: `cargo bench --bench runs`. The figures stand in `benches/NOTES.md`.
//!
//! Ten series of a million points, on the calling thread's own clock, as other processes share the machine.

#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use std::alloc::System;
use std::hint::black_box;
use std::time::Duration;

use brasa::runs::{Point, Recording, Series, XAxis, band};
use brasa::train::Score;
use brasa::train::record::{Kind, Line};
use cpu_time::ThreadTime;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const RUNS: usize = 10;
const POINTS: u64 = 1_000_000;
/// Points drawn of a curve.
const DRAWN: usize = 2_000;
const ROUNDS: usize = 21;

/// Time of one call on this thread: the median of several.
fn median(mut call: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let start = ThreadTime::now();
            call();
            start.elapsed()
        })
        .collect();
    times.sort();
    times[ROUNDS / 2]
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// A loss that falls, with noise.
fn value(step: u64, seed: u64) -> f64 {
    let mixed = (step ^ (seed << 40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    2.0 / (1.0 + step as f64 * 1e-4) + ((mixed >> 40) & 0xfff) as f64 / 4096.0
}

fn series(seed: u64) -> Series {
    let mut series = Series::new();
    for step in 0..POINTS {
        let seconds = step as f64 * 0.01;
        series.push(Point { step, epoch: step as f32 / 1000.0, seconds, value: value(step, seed) });
    }
    series
}

fn main() {
    let region = Region::new(ALLOCATOR);
    let start = ThreadTime::now();
    let all: Vec<Series> = (0..RUNS as u64).map(series).collect();
    let points = RUNS as f64 * POINTS as f64;
    println!("push: {:.1} ns a point", start.elapsed().as_secs_f64() * 1e9 / points);
    let change = region.change();
    let held = change.bytes_allocated - change.bytes_deallocated;
    println!("memory: {:.1} bytes a point, with what vectors have in reserve", held as f64 / points);

    let mut out = Vec::new();
    let whole = 0.0..=POINTS as f64;
    let narrow = 612_345.0..=622_345.0;
    for (name, range) in [("all", &whole), ("a hundredth", &narrow)] {
        for axis in [XAxis::Step, XAxis::Time] {
            let scale = if axis == XAxis::Time { 0.01 } else { 1.0 };
            let range = range.start() * scale..=range.end() * scale;
            let mut count = 0;
            let raw = median(|| {
                for series in &all {
                    series.decimated(axis, range.clone(), DRAWN, &mut out);
                    count = black_box(&out).len();
                }
            });
            println!("decimated, {name}, {axis:?}: {:.3} ms for {RUNS} runs ({count} points each)", millis(raw));
            for weight in [0.6, 0.999] {
                let smooth = median(|| {
                    for series in &all {
                        series.smoothed(axis, range.clone(), weight, DRAWN, &mut out);
                        count = black_box(&out).len();
                    }
                });
                println!("smoothed by {weight}, {name}, {axis:?}: {:.3} ms ({count} points each)", millis(smooth));
            }
        }
    }
    let log = median(|| {
        for series in &all {
            series.decimated(XAxis::Step.log(), whole.clone(), DRAWN, &mut out);
            black_box(&out);
        }
    });
    println!("decimated, all, logarithmic: {:.3} ms", millis(log));
    let together: Vec<&Series> = all.iter().collect();
    let banded = median(|| drop(black_box(band(&together, XAxis::Step, whole.clone(), 0.9, DRAWN))));
    println!("a band of {RUNS} runs: {:.3} ms", millis(banded));
    let nearest = median(|| {
        black_box(all[0].nearest(XAxis::Time, 6_543.21));
    });
    println!("nearest: {:.1} us", nearest.as_secs_f64() * 1e6);

    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut text = String::new();
    for step in 0..POINTS {
        let line = Line {
            kind: Kind::Train,
            step,
            epoch: 1 + (step / 1000) as usize,
            loss: value(step, 0),
            score: Score::Accuracy(value(step, 1) / 4.0),
            lr: 0.001,
            elapsed_s: step as f64 * 0.01,
            samples_per_second: Some(12_345.678),
            gradient_norm: Some(value(step, 2)),
            memory_bytes: Some(123_456_789),
            top5: None,
            perplexity: None,
            mean: None,
            skipped_steps: None,
            loss_scale: None,
            joules: None,
            micro: None,
            rmse: None,
            mae: None,
        };
        text.push_str(&serde_json::to_string(&line).expect("plain numbers"));
        text.push('\n');
    }
    std::fs::write(folder.path().join("metrics.jsonl"), &text).expect("writable");
    let start = ThreadTime::now();
    let mut recording = Recording::open(folder.path());
    let time = start.elapsed();
    let bytes = text.len() as f64;
    println!(
        "reading {POINTS} lines: {:.0} ms, {:.0} MB/s, {} series",
        millis(time),
        bytes / 1e6 / time.as_secs_f64(),
        recording.series.len()
    );
    let idle = median(|| {
        black_box(recording.refresh());
    });
    println!("looking again: {:.1} us", idle.as_secs_f64() * 1e6);
}
