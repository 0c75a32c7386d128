//! A picture of what runs have learned, from their folders: accuracy while learning, and of the held-out samples.
//!
//! `cargo run --release --example plot_runs -- runs/digits-cnn-1 [runs/…] accuracy.svg`

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example prints")]

use std::path::Path;

use brasa::runs::export::{Chart, ChartLine};
use brasa::runs::{Recording, Series};

/// Blue and orange, as they are told apart by all who see.
const COLORS: [[u8; 3]; 2] = [[31, 119, 180], [255, 127, 14]];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((picture, folders)) = arguments.split_last().filter(|(_, folders)| !folders.is_empty()) else {
        eprintln!("usage: plot_runs RUN [RUN ...] FILE.svg, where a RUN is a folder such as runs/digits-cnn-1");
        std::process::exit(2);
    };
    let mut lines = Vec::new();
    for folder in folders {
        let recording = Recording::open(Path::new(folder));
        let name = Path::new(folder).file_name().map_or_else(String::new, |name| name.to_string_lossy().into());
        let series = |tag: &str| recording.series.get(tag);
        let held_out = series("accuracy/validation").or_else(|| series("accuracy/test"));
        for ((series, what), color) in
            [(series("epoch/accuracy"), "while learning"), (held_out, "held out")].into_iter().zip(COLORS)
        {
            let Some(series) = series else { continue };
            lines.push(ChartLine {
                label: format!("{name}, {what}"),
                color,
                points: points(series),
                ..ChartLine::default()
            });
        }
        match recording.best() {
            Some(best) => println!("{name}: at best {:.2} %", 100.0 * best),
            None => println!("{name}: nothing was evaluated yet"),
        }
    }
    let chart = Chart {
        title: "",
        x: "passes over the training data",
        y: "accuracy, %",
        log_x: false,
        log_y: false,
        low_legend: true,
        lines,
        size: (800, 450),
    };
    std::fs::write(picture, chart.to_svg()?)?;
    Ok(())
}

/// Passes, and per cent.
fn points(series: &Series) -> Vec<[f64; 2]> {
    series.points().map(|point| [f64::from(point.epoch), 100.0 * point.value]).collect()
}
