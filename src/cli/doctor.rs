//! `brasa doctor`: is this driver right?

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::bench;
use crate::doctor::{self, Options, Problem, Progress, Report, Verdict};
use crate::error::{Error, Result};
use crate::files::{can_be_written, is_replaced, write_whole};
use crate::units::thousands;

use super::interrupt::on_interrupt;
use super::layout::{hang, width};

/// Deviations that are shown; the file and --json have all.
const SHOWN: usize = 20;

/// Where reports are written if nobody says: one of some ops is no replacement for one of all.
const WHOLE: &str = "brasa-doctor.md";
const FILTERED: &str = "brasa-doctor-filtered.md";

/// Flags of `brasa doctor`.
#[derive(clap::Args)]
pub(super) struct DoctorArgs {
    /// Which device to examine, may be given several times [default: every device of the machine]
    #[arg(long, value_name = "DEVICE")]
    device: Vec<String>,
    /// Only ops whose name contains this, and nothing else
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,
    /// Where to write the report to, to be shared (Markdown) [default: brasa-doctor.md, and with --filter
    /// brasa-doctor-filtered.md, so that the report of all ops stays]. Until all is examined, FILE.partial says how far
    /// it is, which shows where a driver ended the program
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write JSON to standard output, a line for each device
    #[arg(long)]
    json: bool,
    /// Make a kernel of this op wrong, to see that it is found
    #[arg(long, value_name = "OP", hide = true)]
    plant_fault: Option<String>,
}

/// Examines devices, and ends with 1 unless training is safe on all of them.
pub(super) fn run(args: &DoctorArgs) -> Result<ExitCode> {
    let options = Options { filter: args.filter.clone(), planted: args.plant_fault.clone() };
    let known = doctor::rows::all;
    if !known().any(|row| row.name.contains(&args.filter)) {
        return Err(Error::Config(format!("no op has `{}` in its name", args.filter)));
    }
    if let Some(planted) = args.plant_fault.as_ref().filter(|planted| !known().any(|row| row.name == planted.as_str()))
    {
        return Err(Error::Config(format!("there is no op `{planted}`")));
    }
    let out = args.out.as_deref().unwrap_or(Path::new(if args.filter.is_empty() { WHOLE } else { FILTERED }));
    // that it cannot be written is told now, and not minutes later
    can_be_written(out)?;
    let partial = Partial::of(out);
    let mut document = format!("# brasa doctor, version {}, {}\n\n", env!("CARGO_PKG_VERSION"), crate::BUILD);
    let (mut is_safe, mut last_words) = (true, String::new());
    for (selector, device) in bench::opened(&args.device) {
        let device = match device {
            Ok(device) => device,
            // the others are examined all the same
            Err(error) if args.device.len() != 1 => {
                is_safe = false;
                let verdict = format!("not safe to train here: it cannot be opened: {error}");
                let _ = writeln!(document, "## {selector}\n\n**{verdict}**\n");
                let _ = writeln!(last_words, "{selector}: {verdict}");
                if args.json {
                    let told = serde_json::json!({
                        "device": { "selector": selector }, "failure": error.to_string(), "verdict": Verdict::NotSafe,
                    });
                    super::print_result(&format!("{told}\n"))?;
                }
                continue;
            }
            Err(error) => return Err(error),
        };
        let bar = super::progress_bar();
        let report = doctor::examine(&device, &options, &mut |Progress { what, done, of }| {
            bar.set_length(of as u64);
            bar.set_position(done as u64);
            bar.set_message(format!("{selector}: {what}"));
            // a driver may take the process with it: what it was at then stays there
            let end = format!("not safe to train here if nobody stopped it: it ended at `{what}`");
            let _ = partial.write(&format!("{document}## {}\n\n**{end}**\n", device.info()));
        });
        bar.finish_and_clear();
        is_safe &= report.verdict() != Verdict::NotSafe;
        document += &in_markdown(&report, &args.filter);
        let _ = writeln!(last_words, "{selector}: {}", verdict(&report, &args.filter));
        let text = if args.json { json(&report) } else { in_words(&report) };
        // the report first: what was found does not depend on who reads along
        partial.write(&document)?;
        super::print_result(&text)?;
    }
    write_whole(out, document.as_bytes())?;
    partial.remove();
    if !args.json {
        super::print_result(&format!("The whole report is in {}.\n{last_words}", out.display()))?;
    }
    Ok(ExitCode::from(u8::from(!is_safe)))
}

/// What there is of a report while devices are examined, beside the file that the whole one is to be in: what that has
/// now stays until then.
struct Partial {
    /// `None` where the report goes to a pipe or a device.
    path: Option<PathBuf>,
    writing: Arc<Mutex<()>>,
}

impl Partial {
    /// Who stops the program ends it without: that it ended somewhere says nothing then.
    fn of(out: &Path) -> Self {
        let mut name = out.as_os_str().to_owned();
        name.push(".partial");
        let path = is_replaced(out).then(|| PathBuf::from(name));
        let writing = Arc::new(Mutex::new(()));
        on_interrupt({
            let (path, writing) = (path.clone(), Arc::clone(&writing));
            move || {
                // held to the end, so that it is not written again
                let _held = writing.lock();
                let _ = path.as_deref().map(std::fs::remove_file);
                std::process::exit(super::INTERRUPTED.into());
            }
        });
        Self { path, writing }
    }

    fn write(&self, text: &str) -> Result<()> {
        let _held = self.writing.lock();
        self.path.as_deref().map_or(Ok(()), |path| write_whole(path, text.as_bytes()))
    }

    /// The whole report is there.
    fn remove(&self) {
        let _held = self.writing.lock();
        let _ = self.path.as_deref().map(std::fs::remove_file);
    }
}

/// In one line: safe, or not, and with which switches.
fn verdict(report: &Report, filter: &str) -> String {
    let verdict = report.verdict().to_string();
    let verdict = match (filter, report.advice()) {
        ("", None) => verdict,
        ("", Some(advice)) => format!("{verdict}; {advice}"),
        (filter, _) => format!("of ops with `{filter}` in their names alone: {verdict}"),
    };
    verdict.replace('\n', " ")
}

fn json(report: &Report) -> String {
    let mut value = serde_json::to_value(report).expect("plain data");
    value["device"] = super::devices::value(&report.device);
    value["verdict"] = serde_json::to_value(report.verdict()).expect("plain data");
    value.to_string() + "\n"
}

/// `conv2d(f32[2, 3], f32[4]), gradient of input 1`, and what is wrong.
fn deviation(found: &doctor::Deviation) -> (String, String) {
    let part = if found.part.is_empty() { String::new() } else { format!(", {}", found.part) };
    let what = format!("{}({}){part}", found.op, found.inputs.join(", "));
    let problem = match &found.problem {
        Problem::Differs { index, got, expected, allowed } => {
            format!("element {index} is {got} instead of {expected} (may be off by {allowed:.1e})")
        }
        Problem::Failed(error) => error.clone(),
    };
    (what, problem)
}

fn counts(report: &Report) -> String {
    let sweep = &report.sweep;
    let wrong = match sweep.deviations.len() {
        0 => "all agree with f64".to_owned(),
        1 => "1 result does not agree with f64".to_owned(),
        many => format!("{many} results do not agree with f64"),
    };
    let lost = if sweep.lost { "; the device was lost, the rest was not tried" } else { "" };
    format!("{} ops with {} inputs, forward and gradients: {wrong}{lost}", sweep.ops, thousands(sweep.cases))
}

fn in_words(report: &Report) -> String {
    let width = width();
    let names = report.checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
    let row = |name: &str, seen: &str| hang(&format!("  {name:<names$}  {seen}"), names + 4, width);
    let mut text = hang(&format!("{}, driver {}", report.device, report.device.driver), 2, width);
    text += &row("ops", &counts(report));
    for found in report.sweep.deviations.iter().take(SHOWN) {
        let (what, problem) = deviation(found);
        text += &hang(&format!("    {what}: {problem}"), 6, width);
    }
    let more = report.sweep.deviations.len().saturating_sub(SHOWN);
    if more > 0 {
        let _ = writeln!(text, "    and {more} more");
    }
    for check in &report.checks {
        let (word, seen) = check.outcome.in_words();
        text += &row(&check.name, &format!("{word}: {seen}"));
    }
    text + "\n"
}

fn in_markdown(report: &Report, filter: &str) -> String {
    let info = &report.device;
    let machine = &report.machine;
    let mut text = format!("## {info}\n\n**{}**\n\n", verdict(report, filter));
    let limits = super::devices::limits(info);
    let mut row = |name: &str, value: &str| {
        let _ = writeln!(text, "* {name}: {value}");
    };
    row("driver", &info.driver);
    row("system", &machine.system);
    row("processor", &format!("{}, {} threads", machine.processor, machine.threads));
    row("limits", &if limits.is_empty() { "none".to_owned() } else { limits.join(", ") });
    row("features", &super::devices::features(info));
    let _ = writeln!(text, "\n| check | outcome | what was seen |\n| --- | --- | --- |");
    let ops = if report.sweep.deviations.is_empty() && !report.sweep.lost { "passed" } else { "FAILED" };
    let _ = writeln!(text, "| ops | {ops} | {} |", counts(report));
    for check in &report.checks {
        let (word, seen) = check.outcome.in_words();
        let _ = writeln!(text, "| {} | {word} | {} |", check.name, seen.replace('|', "\\|"));
    }
    if !report.sweep.deviations.is_empty() {
        let _ = writeln!(text, "\n| op | what is wrong |\n| --- | --- |");
        for found in &report.sweep.deviations {
            let (what, problem) = deviation(found);
            let _ = writeln!(text, "| {what} | {} |", problem.replace('|', "\\|").replace('\n', " "));
        }
    }
    text + "\n"
}
