//! `brasa bench`: is the GPU worth it?

#[cfg(feature = "ui")]
mod plot;
mod tables;

use std::path::PathBuf;
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressStyle};

use crate::bench::{self, Family, Method, Options, Progress, Report, Suite};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::train::ModelName;

use tables::Style;

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
    /// Short cases only, each for a tenth of a second: about a minute on two cores
    #[arg(long)]
    quick: bool,
    /// The two loops of the lecture notebook as it ran them: no warm-up, and without waiting for the device
    #[arg(long)]
    as_notebook: bool,
    /// Instead of the suites: from which size on is each device faster than the CPU, or than the first --device?
    #[arg(long, conflicts_with_all = ["suites", "as_notebook", "filter", "save", "csv"])]
    crossover: bool,
    /// The network of --crossover
    #[arg(long, value_name = "NAME", default_value = "tutorial-cnn", requires = "crossover", value_parser = ModelName::new)]
    model: ModelName,
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
    let style = if args.markdown { Style::Markdown } else { Style::Plain };
    if let Some([first, second]) = args.compare.as_deref() {
        let (first, second) = (Report::load(first)?, Report::load(second)?);
        let mut changes = bench::compare(&first, &second);
        if changes.is_empty() {
            return Err(Error::Config("the two reports have no case on the same device in common".into()));
        }
        changes.retain(|change| change.name.contains(&args.filter));
        if changes.is_empty() {
            return Err(Error::Config(format!("no case of both reports has `{}` in its name", args.filter)));
        }
        let text = if args.json {
            serde_json::to_string_pretty(&changes).expect("plain data") + "\n"
        } else {
            tables::changes(&first, &second, &changes, style)
        };
        super::print_result(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut method = if args.quick { Method::quick() } else { Method::thorough() };
    method.as_notebook = args.as_notebook;
    if args.crossover {
        return search(args, &method, style);
    }
    #[cfg(feature = "ui")]
    if args.plot.is_some() && !(args.suites.is_empty() || args.suites.contains(&Suite::Matmul)) {
        return Err(Error::Config(
            "--plot draws products of matrices by their size: measure the suite matmul, too".into(),
        ));
    }
    let suites = if args.suites.is_empty() { Suite::ALL.to_vec() } else { args.suites.clone() };
    let options =
        Options { suites, devices: args.device.clone(), filter: args.filter.clone(), quick: args.quick, method };
    let bar = progress_bar();
    let measured = bench::run(&options, &mut |Progress { device, case, done, of }| {
        bar.set_length(of as u64);
        bar.set_position(done as u64);
        bar.set_message(format!("{device}: {case}"));
    });
    bar.finish_and_clear();
    let report = measured?;
    let text = if args.json {
        report.to_json() + "\n"
    } else if args.csv {
        tables::csv(&report)?
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
    let failed = report.devices.iter().all(|device| device.failure.is_some());
    Ok(ExitCode::from(u8::from(failed)))
}

pub(super) fn progress_bar() -> ProgressBar {
    let bar = ProgressBar::new(0);
    bar.set_style(ProgressStyle::with_template("{bar:24} {pos}/{len}  {msg}").expect("a good template"));
    bar
}

/// From which sizes on the devices are worth it.
fn search(args: &BenchArgs, method: &Method, style: Style) -> Result<ExitCode> {
    let selectors = bench::selectors(&args.device);
    let mut failures = Vec::new();
    let mut devices = Vec::new();
    for selector in &selectors {
        match Device::named(selector) {
            Ok(device) => devices.push(device),
            Err(error) => failures.push(format!("{selector} was left out: {error}")),
        }
    }
    let [reference, others @ ..] = &devices[..] else { return Err(Error::Config(failures.join("; "))) };
    if others.is_empty() {
        failures.push("there is only one device here, which nothing can overtake".into());
        return Err(Error::Config(failures.join("; ")));
    }
    let families = Family::all(args.model);
    let bar = progress_bar();
    bar.set_length((others.len() * families.len()) as u64);
    let mut found = Vec::new();
    for other in others {
        for family in families {
            bar.set_message(format!("{}: {}", other.info().selector, family.name()));
            bar.tick();
            match bench::crossover(family, reference, other, method) {
                Ok(crossover) => found.push(crossover),
                Err(error) => {
                    failures.push(format!("{} on {other}: {error}", family.name(), other = other.info().selector))
                }
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let text = if args.json {
        serde_json::to_string_pretty(&found).expect("plain data") + "\n"
    } else {
        tables::crossovers(&found, style)
    };
    super::print_result(&text)?;
    for failure in &failures {
        super::say(failure);
    }
    #[cfg(feature = "ui")]
    if let Some(path) = &args.plot {
        plot::crossovers(&found, path)?;
    }
    Ok(ExitCode::from(u8::from(found.is_empty())))
}
