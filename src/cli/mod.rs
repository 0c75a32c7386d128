//! The program: flags, terminal and JSON listeners, exit codes. Results go to standard output, messages to standard
//! error.

mod arguments;
mod bench;
mod data;
mod devices;
mod doctor;
mod eval;
mod export;
mod infer;
mod interrupt;
mod layout;
mod listener;
mod report;
mod train;
mod tune;
#[cfg(feature = "ui")]
mod view;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};

use crate::error::{Error, Result};

/// Exit code of a run that was stopped by Ctrl-C or another signal, after saving: 128 and the number of SIGINT, as
/// shells have it.
const INTERRUPTED: u8 = 130;
/// Exit code for flags or settings that make no sense.
const USAGE: u8 = 2;

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    failed: device, file, memory, or a step that gave no finite number
  2    wrong flags or settings
  130  stopped by Ctrl-C, SIGTERM or SIGHUP; what was trained is saved (a second one ends at once, without saving)";

const MORE: &str = "\
These are the settings that most runs are given; --help explains all of them, and the exit codes.";

/// Trains neural networks on whatever GPU the machine has.
#[derive(Parser)]
#[command(name = "brasa", version, args_conflicts_with_subcommands = true, after_help = MORE, after_long_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    train: train::TrainArgs,
}

#[derive(Subcommand)]
enum Command {
    /// Train a network; also what happens without a command
    #[command(after_help = MORE, after_long_help = EXIT_CODES)]
    Train(Box<train::TrainArgs>),
    /// Open the window over recorded runs, and over those that other processes are training
    #[cfg(feature = "ui")]
    View(view::ViewArgs),
    /// Judge the weights of a run by held-out samples, class by class
    Eval(eval::EvalArgs),
    /// Say what a run's model makes of pictures, folders of them, or rows of tables
    Infer(infer::InferArgs),
    /// Write a run's model as a file that other programs run: ONNX, or weights as safetensors
    Export(export::ExportArgs),
    /// Measure what the devices can do: is the GPU worth it, and for what?
    Bench(bench::BenchArgs),
    /// Measure which variants of a training's products and convolutions are the fastest on a GPU, and remember it
    Tune(Box<tune::TuneArgs>),
    /// List the devices that can compute, with what they can do
    Devices(devices::DevicesArgs),
    /// Hold every op, a short training and what a device must withstand against f64: is it safe to train here?
    Doctor(doctor::DoctorArgs),
    /// List the data sets, or say where one is, or fetch it
    Data(data::DataArgs),
}

/// Runs the program with these arguments, the first of which is its own name.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_writer(std::io::stderr)
        .without_time()
        .with_target(false)
        .log_internal_errors(false)
        .init();
    let args = arguments::with_negative_numbers(args);
    let mut command = arguments::without_empty_variables(arguments::laid_out(Cli::command()));
    let matches = match command.try_get_matches_from_mut(&args) {
        Ok(matches) => matches,
        Err(error) => {
            let error = arguments::with_tip(arguments::without_equals(&mut command, &args, error));
            // Help and version are such errors, too; clap knows which stream each belongs on. If that is closed,
            // there is nobody to tell.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(USAGE));
        }
    };
    let done = Cli::from_arg_matches(&matches).map_err(|error| Error::Config(error.to_string())).and_then(|cli| {
        match cli.command {
            None => train::run(&cli.train, &matches),
            Some(Command::Train(args)) => {
                train::run(&args, matches.subcommand_matches("train").expect("clap parsed this command"))
            }
            #[cfg(feature = "ui")]
            Some(Command::View(args)) => view::run(args),
            Some(Command::Eval(args)) => {
                eval::run(&args, matches.subcommand_matches("eval").expect("clap parsed this command"))
            }
            Some(Command::Infer(args)) => infer::run(&args),
            Some(Command::Export(args)) => export::run(&args),
            Some(Command::Bench(args)) => bench::run(&args),
            Some(Command::Tune(args)) => {
                tune::run(&args, matches.subcommand_matches("tune").expect("clap parsed this command"))
            }
            Some(Command::Devices(args)) => devices::run(&args),
            Some(Command::Doctor(args)) => doctor::run(&args),
            Some(Command::Data(args)) => data::run(&args),
        }
    });
    crate::device::Device::keep_compiled();
    done.unwrap_or_else(|error| {
        report_error(&error);
        ExitCode::from(match error {
            Error::Config(_) | Error::UnknownDevice { .. } | Error::Shape(_) => USAGE,
            Error::Stopped { .. } => INTERRUPTED,
            _ => 1,
        })
    })
}

fn report_error(error: &Error) {
    say(&format!("error: {error}"));
}

/// A message, which belongs on standard error. That nobody can read it any more is no reason to end.
fn say(line: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "{}", layout::for_stderr(line));
}

/// Writes a result to standard output. A closed pipe (`brasa devices | head -1`) is not our error.
fn print_result(text: &str) -> Result<()> {
    print_while_read(text).map(drop)
}

/// The same; false if nobody reads it.
fn print_while_read(text: &str) -> Result<bool> {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Error::io("standard output", error)),
        Ok(()) => Ok(true),
    }
}

/// Shows on a terminal how far something is.
fn progress_bar() -> ProgressBar {
    let bar = ProgressBar::new(0);
    bar.set_style(ProgressStyle::with_template("{bar:24} {pos}/{len}  {msg}").expect("a good template"));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_are_consistent() {
        arguments::laid_out(Cli::command()).debug_assert();
    }
}
