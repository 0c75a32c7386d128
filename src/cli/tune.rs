//! `brasa tune`: the fastest variants of a training's kernels, measured.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::ArgMatches;

use crate::device::{TuneOptions, TuneProgress, TuneReport, TunedKernel};
use crate::error::Result;
use crate::train::{Config, Tuning, tune};

use super::report::table;
use super::train::{merge, named};

/// Flags of `brasa tune`: those of `brasa train`, as each of its settings may change what is computed.
#[derive(clap::Args)]
pub(super) struct TuneArgs {
    #[command(flatten)]
    config: Config,
    /// Settings in a TOML file, named like the flags; flags override it
    #[arg(long = "config", id = "config-file", value_name = "FILE")]
    file: Option<PathBuf>,
    /// Begin no further variant after this time; kernels that take longest are tried first
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    budget: u64,
    /// Write one JSON object to standard output
    #[arg(long)]
    json: bool,
}

/// Tunes the steps of the training that the flags describe, and prints what was found; `matches` knows which were given.
pub(super) fn run(args: &TuneArgs, matches: &ArgMatches) -> Result<ExitCode> {
    let config = match &args.file {
        Some(file) => merge(&args.config, matches, &named(file)?)?,
        None => args.config.clone(),
    };
    if config.download {
        super::data::fetch_with_bar(&config.dataset, &config.open_options())?;
    }
    let options = TuneOptions { budget: Duration::from_secs(args.budget) };
    let bar = super::bench::progress_bar();
    let tuned = tune(config, &options, &mut |TuneProgress { kernel, done, of }| {
        bar.set_length(of as u64);
        bar.set_position(done as u64);
        bar.set_message(kernel);
    });
    bar.finish_and_clear();
    let tuning = tuned?;
    let text = if args.json { serde_json::to_string(&tuning).expect("plain data") + "\n" } else { text(&tuning) };
    super::print_result(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn text(tuning: &Tuning) -> String {
    let mut text = format!("{}\n", tuning.device);
    if tuning.device.kind == crate::device::DeviceKind::Cpu {
        return text + "there is nothing to tune: the CPU backend's products have no variants to choose from\n";
    }
    for step in &tuning.steps {
        let _ = writeln!(text, "\n{}", step.step);
        text += &kernels(&step.report);
    }
    let saved = tuning.steps.iter().find_map(|step| step.report.saved.as_ref());
    let tried = || tuning.steps.iter().flat_map(|step| &step.report.kernels);
    text += &match saved {
        Some(path) => format!("\nremembered in {}, and used from the next run on\n", path.display()),
        None if tried().next().is_none() => "\nno kernel has variants to choose from\n".to_owned(),
        None if tried().all(|kernel| kernel.tried < 2) => {
            "\nnothing is remembered, as no other variant was tried: give --budget more seconds\n".to_owned()
        }
        None if tuning.steps.iter().any(|step| !step.report.kept) => "\nnothing is remembered\n".to_owned(),
        None => "\nnot remembered: there is no cache folder that can be written to\n".to_owned(),
    };
    text
}

fn kernels(report: &TuneReport) -> String {
    let header = ["kernel", "before", "now", "tried", "ms before", "ms now", "faster"].map(str::to_owned);
    let mut rows = vec![header.to_vec()];
    rows.extend(report.kernels.iter().map(|kernel| {
        let TunedKernel { label, count, before, after, tried, milliseconds: [first, now], .. } = kernel;
        let name = if *count > 1 { format!("{label}, {count} times") } else { label.clone() };
        let after = if before == after { "the same".to_owned() } else { after.clone() };
        vec![name, before.clone(), after, tried.to_string(), ms(*first), ms(*now), factor(*first, *now)]
    }));
    if let Some([first, now]) = report.step_milliseconds {
        let blank = String::new;
        rows.push(vec!["the whole step".into(), blank(), blank(), blank(), ms(first), ms(now), factor(first, now)]);
    }
    let unfinished = if report.complete { "" } else { "not all variants were tried: give --budget more seconds\n" };
    let slower = if report.kept { "" } else { "the whole step takes longer with these, so it stays as it was\n" };
    table(&rows) + slower + unfinished
}

fn ms(milliseconds: f64) -> String {
    format!("{milliseconds:.4}")
}

fn factor(before: f64, now: f64) -> String {
    format!("{:.2}x", before / now.max(f64::MIN_POSITIVE))
}
