//! `brasa view`: the window over runs that were recorded, or are being recorded.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use crate::error::{Error, Result};
use crate::runs::find;
use crate::train::record::{METRICS, RUN};
use crate::ui::{Options, open};

use super::train::{close_on_interrupt, tell_end};

/// Flags of `brasa view`.
#[derive(clap::Args)]
pub(super) struct ViewArgs {
    /// Runs, or folders with runs: brasa's own, or TensorBoard's event files of any program
    #[arg(value_name = "RUNS", default_value = "runs")]
    runs: Vec<PathBuf>,
}

/// Opens the window; what is trained in it was started there, and ends as any other run does.
pub(super) fn run(args: ViewArgs) -> Result<ExitCode> {
    args.runs.iter().try_for_each(|path| check(path))?;
    let options = Options { roots: args.runs, ..Options::default() };
    let first = Arc::new(OnceLock::new());
    close_on_interrupt(&options.closer, &first);
    match open(options) {
        Ok(None) if first.get().is_some() => Ok(ExitCode::from(super::INTERRUPTED)),
        Ok(ended) => tell_end(ended, first.get().is_some()),
        Err((_, why)) => {
            // no setting is wrong
            super::say(&format!("error: no window can be opened: {why}"));
            Ok(ExitCode::FAILURE)
        }
    }
}

/// An empty window would not tell what is wrong with the path.
fn check(path: &Path) -> Result<()> {
    let found = if !path.exists() {
        "there is no such folder"
    } else if !path.is_dir() {
        "this is a file"
    } else if find(path).is_empty() {
        "there is no run in this folder"
    } else {
        return Ok(());
    };
    let path = path.display();
    Err(Error::Config(format!(
        "{path}: {found}; name the folder of a run, such as runs/digits-cnn-1, or one with such folders in it \
         (a run has a {RUN}, a {METRICS} or a TensorBoard event file)"
    )))
}
