//! `brasa tune`: the fastest variants of a training's kernels, measured.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::ArgMatches;

use crate::device::{TuneOptions, TuneProgress, TuneReport, TunedKernel};
use crate::error::Result;
use crate::train::{Config, TunedStep, Tuning, tune};

use super::layout::{width, wrap};
use super::report::table;
use super::train::settings;

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

/// Tunes the steps of the training that the flags describe, and prints what was found; `matches` knows which were
/// given.
pub(super) fn run(args: &TuneArgs, matches: &ArgMatches) -> Result<ExitCode> {
    let config = settings(&args.config, matches, args.file.as_deref())?;
    if config.download {
        super::data::fetch_with_bar(&config.dataset, &config.open_options())?;
    }
    let options = TuneOptions { budget: Duration::from_secs(args.budget) };
    let bar = super::progress_bar();
    let tuned = tune(config, &options, &mut |TuneProgress { kernel, done, of }| {
        bar.set_length(of as u64);
        bar.set_position(done as u64);
        bar.set_message(kernel);
    });
    bar.finish_and_clear();
    let tuning = tuned?;
    let text = if args.json { json(&tuning) } else { text(&tuning, width()) };
    super::print_result(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn json(tuning: &Tuning) -> String {
    let mut value = serde_json::to_value(tuning).expect("plain data");
    value["device"] = super::devices::value(&tuning.device);
    value.to_string() + "\n"
}

fn text(tuning: &Tuning, width: usize) -> String {
    let mut text = format!("{}\n", tuning.device);
    if tuning.device.kind == crate::device::DeviceKind::Cpu {
        return text + "there is nothing to tune: the CPU backend's products have no variants to choose from\n";
    }
    for TunedStep { step, is_last, report } in &tuning.steps {
        let _ = writeln!(text, "\n{step}{}", if *is_last { ": the last, smaller batch of an epoch" } else { "" });
        text += &kernels(report, width);
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

/// A table of times, with the variants below each kernel: beside it, they would not fit a terminal.
fn kernels(report: &TuneReport, width: usize) -> String {
    let mut rows = vec![["kernel", "tried", "ms before", "ms now", "faster"].map(str::to_owned).to_vec()];
    let mut variants = vec![String::new()];
    for TunedKernel { label, count, before, after, tried, milliseconds: [first, now], .. } in &report.kernels {
        let name = if *count > 1 { format!("{label}, {count} times") } else { label.clone() };
        rows.push(vec![name, tried.to_string(), ms(*first), ms(*now), factor(*first, *now)]);
        variants.push(match before == after {
            true => format!("  stays {before}"),
            false => format!("  before {before}, now {after}"),
        });
    }
    if let Some([first, now]) = report.step_milliseconds {
        rows.push(vec!["the whole step".into(), String::new(), ms(first), ms(now), factor(first, now)]);
        variants.push(String::new());
    }
    let mut text = String::new();
    for (line, variant) in table(&rows).lines().zip(&variants) {
        text += &format!("{line}\n{}", wrap(variant, width));
    }
    if !report.kept {
        text += "the whole step takes longer with these, so it stays as it was\n";
    }
    if !report.complete {
        text += "not all variants were tried: give --budget more seconds\n";
    }
    text
}

fn ms(milliseconds: f64) -> String {
    format!("{milliseconds:.4}")
}

fn factor(before: f64, now: f64) -> String {
    format!("{:.2}x", before / now.max(f64::MIN_POSITIVE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Device, DeviceInfo, DeviceKind};
    use crate::stage::Stage;
    use crate::timing::TimeSource;

    #[test]
    fn tables_fit_a_terminal_and_the_last_batch_is_told() {
        let kernel = TunedKernel {
            label: "contract.select[128, 32, 32, 32]".into(),
            stage: Stage::Forward,
            count: 12,
            before: "16x16 in registers, 8 threads".into(),
            after: "16x16 in registers, 16 threads".into(),
            milliseconds: [187.4692, 179.6886],
            tried: 5,
            source: TimeSource::Timestamp,
        };
        let same = TunedKernel { after: kernel.before.clone(), ..kernel.clone() };
        let report = TuneReport {
            kernels: vec![kernel, same],
            step_milliseconds: Some([822.8326, 821.1627]),
            ..TuneReport::default()
        };
        let steps = [("training, batch 128", false), ("evaluation, batch 128", false), ("training, batch 30", true)];
        let steps =
            steps.map(|(step, is_last)| TunedStep { step: step.into(), is_last, report: report.clone() }).to_vec();
        let device = DeviceInfo { kind: DeviceKind::Software, ..Device::cpu().info().clone() };
        let text = text(&Tuning { device, steps }, 80);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        for line in [
            "training, batch 128",
            "evaluation, batch 128",
            "training, batch 30: the last, smaller batch of an epoch",
            "  before 16x16 in registers, 8 threads, now 16x16 in registers, 16 threads",
            "  stays 16x16 in registers, 8 threads",
        ] {
            assert!(text.lines().any(|one| one == line), "`{line}` is missing in {text}");
        }
    }
}
