//! `brasa export`: a run's model as a file for other programs.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::error::{Error, Result};
use crate::formats::onnx::Batch;
use crate::train::{BEST, ModelExport, WEIGHTS, export};
use crate::units::bytes;

use super::layout::{width, wrap};

/// Flags of `brasa export`.
#[derive(clap::Args)]
pub(super) struct ExportArgs {
    /// The run's folder
    run: PathBuf,
    /// Where to write it: FILE.onnx, which any program that runs ONNX models can run, or FILE.safetensors, weights by
    /// PyTorch's names [default: model.onnx in the run's folder]
    file: Option<PathBuf>,
    /// Weights to write [default: those of the run's best evaluation, or its last ones]
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// Fix the size of the batch, which is left open else, for programs that want all sizes fixed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    batch_size: Option<u16>,
    /// Leave out the normalisation: the ONNX model is given what the network is, instead of levels of pixels or a
    /// table's own numbers
    #[arg(long)]
    normalized_input: bool,
}

/// Writes the file and says what is in it.
pub(super) fn run(args: &ExportArgs) -> Result<ExitCode> {
    let path = args.file.clone().unwrap_or_else(|| args.run.join("model.onnx"));
    let is_weights = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("safetensors"));
    if is_weights && (args.batch_size.is_some() || args.normalized_input) {
        let message = "--batch-size and --normalized-input are for FILE.onnx, and FILE.safetensors has weights alone: \
                       leave them out";
        return Err(Error::Config(message.into()));
    }
    if is_own(&args.run, &path) {
        return Err(Error::Config(format!("{}: this is the run's own file: name another", path.display())));
    }
    let batch = args.batch_size.map_or(Batch::Named, |size| Batch::Fixed(size.into()));
    let options = ModelExport { batch, normalized_input: args.normalized_input };
    let written = export(&args.run, args.weights.as_deref(), &path, &options)?;
    let size = bytes(written.bytes as u64);
    super::print_result(&wrap(&format!("{} ({size}): {}", path.display(), written.contents), width()))?;
    Ok(ExitCode::SUCCESS)
}

/// Whether this is one of the run's files, whatever the way there. Later commands read what training has put there.
fn is_own(run: &Path, path: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    [BEST, WEIGHTS].iter().any(|name| {
        let own = run.join(name);
        own == path || real(path).is_some_and(|path| real(&own) == Some(path))
    })
}
