//! Fetching published data sets.

use std::ops::ControlFlow;
use std::path::PathBuf;

use crate::error::Result;

use super::{DatasetName, OpenOptions, Published};

/// How far a transfer is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress<'a> {
    /// Name of the file.
    pub file: &'a str,
    /// Bytes that are there.
    pub done: u64,
    /// Bytes that there will be.
    pub total: u64,
}

/// Fetches the files of a published set that are not there, checks them against the SHA-256 that TensorFlow Datasets
/// lists for them, and unpacks what has to be. `progress` hears about each file, many times, and ends it with
/// [`ControlFlow::Break`]. Gives the folder that they are in; none for sets that are not published.
///
/// What was fetched of a broken transfer is kept, and gone on from the next time.
///
/// # Errors
/// If there is no connection, the files are not what was published, there is no room for them, or `progress` ends it;
/// without the feature `download`, if anything is missing.
pub fn fetch(
    name: &DatasetName,
    options: &OpenOptions,
    progress: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
) -> Result<Option<PathBuf>> {
    let DatasetName::Published(set) = name else { return Ok(None) };
    let folder = options.folder_of(set)?;
    fetch_missing(set, &folder, options, progress).map(|()| Some(folder))
}

#[cfg(feature = "download")]
pub(super) fn fetch_missing(
    set: &'static Published,
    folder: &std::path::Path,
    _: &OpenOptions,
    progress: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
) -> Result<()> {
    use crate::data::download::Transfer;
    use crate::error::Error;

    crate::files::create_folder(folder)?;
    let missing = super::place::missing(set, folder);
    for (number, file) in missing.iter().enumerate() {
        let to = folder.join(file.name);
        let transfer = Transfer { url: set.url(file), to: &to, bytes: file.bytes, sha256: file.sha256 };
        let fetched = transfer.run(&mut |done| progress(Progress { file: file.name, done, total: file.bytes }));
        fetched.map_err(|error| match error {
            // whoever has no connection needs all of them
            Error::Download { url, to, reason, .. } => {
                let others = missing[number + 1..].iter().map(|file| set.url(file)).collect();
                Error::Download { url, to, reason, others }
            }
            other => other,
        })?;
        if file.unpack {
            super::place::unpack(file, folder)?;
            // what was unpacked of it is all that is read
            match std::fs::remove_file(&to) {
                // another process has
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                removed => removed.map_err(|error| Error::io(&to, error))?,
            }
        }
    }
    Ok(())
}

#[cfg(not(feature = "download"))]
fn fetch_missing(
    set: &'static Published,
    folder: &std::path::Path,
    options: &OpenOptions,
    _: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
) -> Result<()> {
    match super::place::missing(set, folder).is_empty() {
        true => Ok(()),
        false => Err(super::place::not_there(set, folder, options)),
    }
}
