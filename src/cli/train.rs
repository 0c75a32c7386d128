//! `brasa train`: settings from file and flags, listeners, Ctrl-C.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use clap::ArgMatches;
use clap::parser::ValueSource;

use crate::error::{Error, Result, shell_word};
use crate::train::record::{RunState, STATUS, Status};
use crate::train::{Config, Control, Summary, Trainer};
use crate::units::counted;

use super::interrupt::{is_second, on_interrupt};
use super::listener::Listener;

/// Flags of `brasa train`.
#[derive(clap::Args)]
pub(super) struct TrainArgs {
    #[command(flatten)]
    config: Config,
    /// Settings in a TOML file, named like the flags; flags override it
    #[arg(long = "config", id = "config-file", value_name = "FILE")]
    file: Option<PathBuf>,
    /// Go on with the run in this folder from its last checkpoint. Its settings hold unless other ones are given
    #[arg(long, value_name = "RUN", conflicts_with = "config-file")]
    resume: Option<PathBuf>,
    /// No window: train in the terminal, as happens where there is no display
    #[arg(long)]
    no_ui: bool,
    /// Write one JSON object per event, line by line, to standard output
    #[arg(long)]
    json: bool,
}

/// Trains as the flags say; `matches` knows which of them were given.
pub(super) fn run(args: &TrainArgs, matches: &ArgMatches) -> Result<ExitCode> {
    let config = match &args.resume {
        Some(run) => {
            check_resumed(matches)?;
            merge(&args.config, matches, &Trainer::config_of(run)?)?
        }
        None => settings(&args.config, matches, args.file.as_deref())?,
    };
    if let Some(message) = args.resume.as_deref().and_then(|run| already_finished(run, &config)) {
        super::say(&message);
        return Ok(ExitCode::SUCCESS);
    }
    if config.download {
        // the trainer would do it, too, but without a word
        super::data::fetch_with_bar(&config.dataset, &config.open_options())?;
    }
    let first = Arc::new(OnceLock::new());
    #[cfg(feature = "ui")]
    let config = if args.no_ui || args.json {
        config
    } else {
        // settings that make no sense are an error of the command line, not something for a window to show
        config.clone().resolve()?;
        match in_window(config, args.resume.clone(), &first) {
            Ok(done) => return done,
            Err(config) => *config,
        }
    };
    let mut trainer = match &args.resume {
        Some(run) => Trainer::resume(run, config)?,
        None => Trainer::new(config)?,
    };
    trainer.add_tensorboard();
    let control = Control::default();
    let on_signal = control.clone();
    on_interrupt(move || {
        if is_second(&first) && on_signal.stopping() {
            std::process::exit(super::INTERRUPTED.into());
        }
        on_signal.stop();
    });
    let mut listener = Listener::new(args.json);
    let summary = trainer.run(&control, &mut |event| listener.hear(event)).inspect_err(|_| listener.run_failed())?;
    listener.finish()?;
    Ok(if summary.completed { ExitCode::SUCCESS } else { ExitCode::from(super::INTERRUPTED) })
}

/// Trains in the window; the settings come back if there is none.
#[cfg(feature = "ui")]
fn in_window(
    config: Config,
    resume: Option<PathBuf>,
    first: &Arc<OnceLock<Instant>>,
) -> std::result::Result<Result<ExitCode>, Box<Config>> {
    let options = crate::ui::Options { train: Some(Box::new(config)), resume, ..crate::ui::Options::default() };
    // where there is no window after all, the terminal has it
    close_on_interrupt(&options.closer, first);
    match crate::ui::open(options) {
        Ok(ended) => Ok(tell_end(ended, first.get().is_some())),
        Err((options, why)) => {
            // until the run can be stopped, there is nothing to save: a signal ends the program, one that came before
            // this as well
            on_interrupt(|| std::process::exit(super::INTERRUPTED.into()));
            if first.get().is_some() {
                std::process::exit(super::INTERRUPTED.into());
            }
            super::say(&format!("no window can be opened: {why}; training in the terminal instead, as with --no-ui"));
            Err(options.train.expect("it was put in"))
        }
    }
}

/// Has a signal end and save what trains in the window, and close it; a second one ends the program at once.
#[cfg(feature = "ui")]
pub(super) fn close_on_interrupt(closer: &crate::ui::Closer, first: &Arc<OnceLock<Instant>>) {
    let (closer, first) = (closer.clone(), Arc::clone(first));
    on_interrupt(move || {
        if is_second(&first) {
            std::process::exit(super::INTERRUPTED.into());
        }
        closer.close();
    });
}

/// Says how the window's run ended, as without a window; `by_signal` closed it.
#[cfg(feature = "ui")]
pub(super) fn tell_end(ended: Option<crate::ui::Ended>, by_signal: bool) -> Result<ExitCode> {
    use crate::ui::NoEnd;

    let summary = match ended {
        None => return Ok(ExitCode::SUCCESS),
        Some(Err(NoEnd::Failed(message))) => {
            super::say(&format!("error: {message}"));
            return Ok(ExitCode::FAILURE);
        }
        Some(Err(NoEnd::Stopped(message))) => {
            super::say(if by_signal { BY_SIGNAL } else { &message });
            return Ok(if by_signal { ExitCode::from(super::INTERRUPTED) } else { ExitCode::SUCCESS });
        }
        Some(Ok(summary)) => summary,
    };
    let by_signal = by_signal && !summary.completed;
    if by_signal {
        super::say(BY_SIGNAL);
    }
    super::print_result(&format!("\n{}", super::report::summary(&summary)))?;
    if !summary.completed {
        super::say(&how_to_go_on(&summary));
    }
    Ok(if by_signal { ExitCode::from(super::INTERRUPTED) } else { ExitCode::SUCCESS })
}

/// What is said of a run that a signal ended.
pub(super) const BY_SIGNAL: &str = "stopped by Ctrl-C or another signal";

/// What is said of a run that was stopped.
pub(super) fn how_to_go_on(summary: &Summary) -> String {
    format!("go on with: brasa --resume {}", shell_word(&summary.folder))
}

/// What is said of a run that has all the epochs that are asked for: going on would train nothing, and write over its
/// record.
fn already_finished(run: &Path, config: &Config) -> Option<String> {
    let status: Status = serde_json::from_slice(&std::fs::read(run.join(STATUS)).ok()?).ok()?;
    // with a message, a callback ended it before its last epoch
    let is_finished = status.state == RunState::Completed && status.message.is_none() && config.epochs <= status.epoch;
    is_finished.then(|| {
        let (epochs, path) = (counted(status.epoch, "epoch"), shell_word(run));
        let more = 2 * status.epoch;
        format!("{} is finished, after {epochs}; to train on: brasa --resume {path} --epochs {more}", run.display())
    })
}

/// The settings of the flags and of the file that they name, with a network for the data if neither names one.
pub(super) fn settings(flags: &Config, matches: &ArgMatches, file: Option<&Path>) -> Result<Config> {
    let config = match file {
        Some(file) => merge(flags, matches, &named(file)?)?,
        None => flags.clone(),
    };
    let in_file = |file: &Path| {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        text.parse::<toml::Table>().is_ok_and(|table| table.contains_key("model"))
    };
    let names_model = matches.value_source("model") == Some(ValueSource::CommandLine) || file.is_some_and(in_file);
    Ok(if names_model { config } else { config.with_model_for_data() })
}

/// The settings in a file that the command line names: mistakes there are wrong settings.
pub(super) fn named(file: &Path) -> Result<Config> {
    Config::load(file).map_err(|error| match error {
        Error::Format { .. } => Error::Config(error.to_string()),
        other => other,
    })
}

/// Refuses flags that say where a run lies and what it begins with: one that goes on has both.
fn check_resumed(matches: &ArgMatches) -> Result<()> {
    for (flag, why) in [
        ("weights", "the run's checkpoint has its weights: begin a new run with these"),
        ("skip_weights", "the run's checkpoint has its weights: begin a new run with others"),
        ("name", "the run has its name: omit it, or begin a new run"),
        ("out", "the run goes on in its own folder: omit it, or begin a new run"),
    ] {
        if matches.value_source(flag) == Some(ValueSource::CommandLine) {
            return Err(Error::Config(format!("--{} beside --resume: {why}", flag.replace('_', "-"))));
        }
    }
    Ok(())
}

/// The settings of a file, overridden by the flags and environment variables that were given.
pub(super) fn merge(flags: &Config, matches: &ArgMatches, file: &Config) -> Result<Config> {
    let is_given = |key: &str| {
        let source = matches.value_source(&key.replace('-', "_"));
        matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable))
    };
    let mut file = file.clone();
    if is_given("optimizer") && flags.optimizer != file.optimizer {
        // a run's settings name these of its optimizer as if they had been chosen
        let of = file.optimizer;
        file.lr = file.lr.filter(|&lr| lr != of.learning_rate());
        file.weight_decay = file.weight_decay.filter(|&decay| decay != of.weight_decay());
    }
    let mut table = to_table(&file)?;
    for (key, value) in to_table(flags)? {
        if is_given(&key) {
            // of two ways to limit gradients, that of the flags takes the place of the file's
            if let Some((_, other)) = INSTEAD.iter().find(|(one, _)| *one == key) {
                table.remove(*other);
            }
            table.insert(key, value);
        }
    }
    table.try_into().map_err(|error: toml::de::Error| Error::Config(error.message().to_owned()))
}

/// Settings of which there may be one.
const INSTEAD: [(&str, &str); 2] = [("clip-norm", "clip-value"), ("clip-value", "clip-norm")];

fn to_table(config: &Config) -> Result<toml::Table> {
    toml::Table::try_from(config).map_err(|error| Error::Config(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory as _, FromArgMatches as _};
    use std::io::Write as _;

    #[test]
    fn flags_override_the_file_and_defaults_do_not() {
        let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
        file.write_all(b"epochs = 3\nbatch-size = 7\nlr = 0.5\nlog-every = 2\n").expect("writable");
        let arguments = ["brasa", "--batch-size", "9", "--optimizer", "sgd", "--augment"];
        let matches = super::super::Cli::command().get_matches_from(arguments);
        let cli = super::super::Cli::from_arg_matches(&matches).expect("good flags");
        let config =
            merge(&cli.train.config, &matches, &named(file.path()).expect("a good file")).expect("good settings");
        assert_eq!((config.epochs, config.batch_size, config.lr, config.log_every), (3, 9, Some(0.5), 2));
        assert_eq!(config.optimizer, crate::train::OptimizerName::SGD);
        assert_eq!(config.augment.to_string(), "crop=1");
    }

    #[test]
    fn another_optimizer_has_its_own_learning_rate() {
        let run = Config::default().resolve().expect("good settings");
        let merged = |arguments: &[&str], file: &Config| {
            let matches = super::super::Cli::command().get_matches_from([&["brasa"], arguments].concat());
            let cli = super::super::Cli::from_arg_matches(&matches).expect("good flags");
            let config = merge(&cli.train.config, &matches, file).expect("good settings");
            let config = config.resolve().expect("good settings");
            (config.lr, config.weight_decay)
        };
        assert_eq!(merged(&["--optimizer", "lamb"], &run), (Some(0.005), Some(0.01)));
        assert_eq!(merged(&["--optimizer", "adam"], &run), (Some(0.002), Some(0.0)));
        assert_eq!(merged(&["--optimizer", "lamb", "--lr", "0.1"], &run), (Some(0.1), Some(0.01)));
        // what was chosen stays
        let chosen = Config { lr: Some(0.5), ..run };
        assert_eq!(merged(&["--optimizer", "lamb"], &chosen), (Some(0.5), Some(0.01)));
    }

    #[test]
    fn tables_have_a_network_for_rows_unless_one_is_named() {
        let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
        file.write_all(b"model = 'cnn'\n").expect("writable");
        let model = |arguments: &[&str], file: Option<&Path>| {
            let matches = super::super::Cli::command().get_matches_from([&["brasa"], arguments].concat());
            let cli = super::super::Cli::from_arg_matches(&matches).expect("good flags");
            settings(&cli.train.config, &matches, file).expect("good settings").model.name()
        };
        let table = ["--dataset", "csv:a.csv"];
        assert_eq!(model(&table, None), "mlp");
        assert_eq!(model(&[&table[..], &["--model", "cnn"]].concat(), None), "cnn");
        assert_eq!(model(&table, Some(file.path())), "cnn");
        assert_eq!(model(&[], None), "cnn");
        std::fs::write(file.path(), "dataset = 'csv:b.csv'\n").expect("writable");
        assert_eq!(model(&[], Some(file.path())), "mlp");
        assert_eq!(model(&["--dataset", "digits"], Some(file.path())), "cnn");
    }

    #[test]
    fn every_setting_of_a_file_can_be_taken_back() {
        let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
        file.write_all(b"clip-norm = 1.0\nfreeze-statistics = true\n").expect("writable");
        let arguments = ["brasa", "--clip-value", "0.5", "--freeze-statistics=false"];
        let matches = super::super::Cli::command().get_matches_from(arguments);
        let cli = super::super::Cli::from_arg_matches(&matches).expect("good flags");
        let config =
            merge(&cli.train.config, &matches, &named(file.path()).expect("a good file")).expect("good settings");
        assert_eq!((config.clip_norm, config.clip_value, config.freeze_statistics), (None, Some(0.5), false));
        let matches = super::super::Cli::command().get_matches_from(["brasa", "--freeze-statistics"]);
        let cli = super::super::Cli::from_arg_matches(&matches).expect("good flags");
        assert!(cli.train.config.freeze_statistics);
    }
}
