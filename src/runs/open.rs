//! Opening what may be anything.

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::path::Path;

/// Opens a file, and says how long it is. What is none, such as a pipe, on which one might wait for ever, is an error.
pub(super) fn open(path: &Path) -> Result<(File, u64)> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(Error::new(ErrorKind::InvalidInput, "it is not a file"));
    }
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    Ok((file, length))
}
