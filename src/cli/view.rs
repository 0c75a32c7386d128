//! `brasa view`: the window over runs that were recorded, or are being recorded.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::error::{Error, Result};
use crate::ui::{Options, open};

/// Flags of `brasa view`.
#[derive(clap::Args)]
pub(super) struct ViewArgs {
    /// Runs, or folders with runs: brasa's own, or TensorBoard's event files of any program
    #[arg(value_name = "RUNS", default_value = "runs")]
    runs: Vec<PathBuf>,
}

/// Opens the window; trains nothing.
pub(super) fn run(args: ViewArgs) -> Result<ExitCode> {
    if let Some(missing) = args.runs.iter().find(|path| !path.exists()) {
        return Err(Error::Config(format!("{}: there is no such folder", missing.display())));
    }
    let options = Options { roots: args.runs, ..Options::default() };
    match open(options) {
        Ok(_) => Ok(ExitCode::SUCCESS),
        Err((_, why)) => Err(Error::Config(format!("no window can be opened: {why}"))),
    }
}
