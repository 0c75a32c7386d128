//! `brasa bench`: is the GPU worth it?

mod changes;
mod crossovers;
mod csv;
#[cfg(feature = "ui")]
mod plot;
mod tables;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use crate::bench::{self, CrossoverOptions, DeviceReport, Method, OnnxModel, Options, Progress, Report, Suite, Tell};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::files;
use crate::train::ModelName;

use super::interrupt::{is_second, on_interrupt};
use super::layout::{self, Style};
use super::progress_bar;

/// Flags of `brasa bench`.
#[derive(clap::Args)]
pub(super) struct BenchArgs {
    /// What to measure [default: all]
    #[arg(value_enum)]
    suites: Vec<Suite>,
    /// Where, may be given several times [default: every device of the machine]
    #[arg(long, value_name = "DEVICE")]
    device: Vec<String>,
    /// Only cases whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,
    /// Short cases only, each for a tenth of a second: under a minute for two devices
    #[arg(long)]
    quick: bool,
    /// The loops 7000x3000 and 70x30 as notebooks time them: no warm-up, and without waiting for the device
    #[arg(long)]
    as_notebook: bool,
    /// Instead of the suites: from which size on is each device faster than the CPU, or than the first --device?
    #[arg(long, conflicts_with_all = ["suites", "as_notebook", "filter", "csv"])]
    crossover: bool,
    /// The network of --crossover
    #[arg(long, value_name = "NAME", default_value = "tutorial-cnn", requires = "crossover", value_parser = ModelName::new,
        conflicts_with_all = ["suites", "as_notebook", "filter", "csv", "compare", "onnx"])]
    model: ModelName,
    /// Instead of the suites: inference of a model in an ONNX file, with batches of 1, 8 and 64 where it leaves that
    /// open
    #[arg(long, value_name = "FILE", conflicts_with_all = ["suites", "as_notebook", "filter", "crossover", "compare"])]
    onnx: Option<PathBuf>,
    /// The size of an axis that the file of --onnx leaves open, such as sequence=128; may be given several times
    #[arg(long, value_name = "NAME=SIZE", requires = "onnx", value_parser = axis,
        conflicts_with_all = ["crossover", "compare"])]
    axis: Vec<(String, usize)>,
    /// Write the whole report as JSON to standard output, for --compare
    #[arg(long, group = "format")]
    json: bool,
    /// Write comma-separated values, a line for each case and device
    #[arg(long, group = "format")]
    csv: bool,
    /// Write tables in Markdown
    #[arg(long, group = "format")]
    markdown: bool,
    /// Keep the report as JSON in this file, too
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Draw it, too: products of matrices by their size, or what --crossover found (FILE.png or FILE.svg)
    #[cfg(feature = "ui")]
    #[arg(long, value_name = "FILE", conflicts_with = "compare", value_parser = plot::path)]
    plot: Option<PathBuf>,
    /// Measure nothing; say how the second report differs from the first
    #[arg(long, num_args = 2, value_names = ["FIRST", "SECOND"], conflicts_with_all = ["suites", "device", "quick", "save", "csv", "as_notebook", "crossover"])]
    compare: Option<Vec<PathBuf>>,
}

/// Measures, or compares, and prints.
pub(super) fn run(args: &BenchArgs) -> Result<ExitCode> {
    let style = if args.markdown { Style::Markdown } else { Style::Plain { width: layout::width() } };
    if let Some([first, second]) = args.compare.as_deref() {
        let (first, second) = (Report::load(first)?, Report::load(second)?);
        let found = bench::compare(&first, &second, &args.filter);
        if found.changes.is_empty() && !args.filter.is_empty() {
            return Err(Error::Config(format!("no case of both reports has `{}` in its name", args.filter)));
        }
        if found.changes.is_empty() && found.gaps.is_empty() {
            let what = if [&first, &second].iter().any(|report| !report.crossovers.is_empty()) {
                "what --crossover finds has no cases to compare: compare reports of the suites"
            } else {
                "the two reports have no case on the same device in common"
            };
            return Err(Error::Config(what.into()));
        }
        let text = if args.json {
            serde_json::to_string_pretty(&found).expect("plain data") + "\n"
        } else {
            changes::changes(&first, &second, &found, style)
        };
        super::print_result(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let [only] = &args.device[..] {
        // of several, the others are measured all the same
        Device::named(only)?;
    }
    let mut method = if args.quick { Method::quick() } else { Method::thorough() };
    method.as_notebook = args.as_notebook;
    // what cannot be written is told now, and not minutes later
    args.save.as_deref().map_or(Ok(()), can_be_written)?;
    #[cfg(feature = "ui")]
    args.plot.as_deref().map_or(Ok(()), can_be_written)?;
    if args.crossover {
        return search(args, method, style);
    }
    let suites = if args.suites.is_empty() { Suite::ALL.to_vec() } else { args.suites.clone() };
    let options =
        Options { suites, devices: args.device.clone(), filter: args.filter.clone(), quick: args.quick, method };
    #[cfg(feature = "ui")]
    if args.plot.is_some() && args.onnx.is_some() {
        return Err(Error::Config(
            "--plot draws products of square matrices by their size, and none is measured".into(),
        ));
    }
    #[cfg(feature = "ui")]
    if args.plot.is_some() && !bench::names(&options).iter().any(|(suite, name)| plot::is_drawn(*suite, name)) {
        let message = "--plot draws products of square matrices by their size, and none is measured: add the suite matmul, and \
                       leave out --as-notebook and a --filter that excludes `matmul_64` and its like";
        return Err(Error::Config(message.into()));
    }
    let (measured, stopped) = until_stopped(|tell| match &args.onnx {
        Some(path) => {
            let model = OnnxModel { path: path.clone(), axes: args.axis.clone() };
            bench::run_onnx(&model, &options, tell)
        }
        None => bench::run(&options, tell),
    });
    let report = measured?;
    let text = if args.json {
        report.to_json() + "\n"
    } else if args.csv {
        csv::lines(&report)?
    } else {
        tables::report(&report, style)
    };
    // whichever cannot be written, the other one is
    let printed = super::print_result(&text);
    if let Some(path) = &args.save {
        report.save(path)?;
    }
    printed?;
    #[cfg(feature = "ui")]
    if let Some(path) = &args.plot {
        plot::products(&report, path)?;
    }
    let measured =
        |device: &DeviceReport| device.rows.iter().any(|row| row.measured.is_some()) || !device.stages.is_empty();
    let failed = report.devices.iter().all(|device| device.failure.is_some() || !measured(device));
    // what failed or was left out is in the report, but not what a device has no case for
    for device in report.devices.iter().filter(|device| failed && !stopped && device.is_empty()) {
        super::say(&format!("nothing was measured on {}: no case that was asked for is one for it", device.selector));
    }
    Ok(exit_code(stopped, failed))
}

/// The name and the size of an axis.
fn axis(text: &str) -> Result<(String, usize), String> {
    let parts = text.split_once('=').and_then(|(name, size)| Some((name.to_owned(), size.parse().ok()?)));
    parts.filter(|(_, size)| *size > 0).ok_or_else(|| "an axis is NAME=SIZE, such as sequence=128".into())
}

/// An error if this file cannot be; what it has now stays.
fn can_be_written(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Err(Error::Config(format!("{}: this is a folder; name a file in it", path.display())));
    }
    files::can_be_written(path)
}

/// From which sizes on the devices are worth it.
fn search(args: &BenchArgs, method: Method, style: Style) -> Result<ExitCode> {
    let options = CrossoverOptions { devices: args.device.clone(), model: args.model, method };
    let (found, stopped) = until_stopped(|tell| bench::crossovers(&options, tell));
    let report = found?;
    let text = if args.json {
        report.to_json() + "\n"
    } else {
        crossovers::crossovers(&report, !args.device.is_empty(), style)
    };
    let printed = super::print_result(&text);
    if let Some(path) = &args.save {
        report.save(path)?;
    }
    printed?;
    #[cfg(feature = "ui")]
    if let Some(path) = &args.plot {
        if report.crossovers.is_empty() {
            super::say("nothing was drawn: no device was held against another");
        } else {
            plot::crossovers(&report.crossovers, path)?;
        }
    }
    let nothing = report.crossovers.is_empty() && report.growths.is_empty();
    let failed = nothing || report.devices.iter().all(|device| device.failure.is_some());
    Ok(exit_code(stopped, failed))
}

/// What `measure` finds until a signal stops it, shown as it goes on, and whether one did. A second one ends the program.
fn until_stopped(measure: impl FnOnce(&mut Tell<'_>) -> Result<Report>) -> (Result<Report>, bool) {
    let first = Arc::new(OnceLock::new());
    let on_signal = Arc::clone(&first);
    on_interrupt(move || {
        if is_second(&on_signal) {
            std::process::exit(super::INTERRUPTED.into());
        }
        super::say("stopping after this case, with what was measured; once more to end at once");
    });
    let bar = progress_bar();
    let measured = measure(&mut |Progress { device, case, done, of }| {
        if first.get().is_some() {
            return ControlFlow::Break(());
        }
        bar.set_length(of as u64);
        bar.set_position(done as u64);
        bar.set_message(format!("{device}: {case}"));
        bar.tick();
        ControlFlow::Continue(())
    });
    bar.finish_and_clear();
    (measured, first.get().is_some())
}

fn exit_code(stopped: bool, failed: bool) -> ExitCode {
    if stopped { ExitCode::from(super::INTERRUPTED) } else { ExitCode::from(u8::from(failed)) }
}
