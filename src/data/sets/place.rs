//! Where files of published data sets lie, and whether they are there.

use std::fs;
use std::path::{Path, PathBuf};

use crate::data::files::unpack_folder;
use crate::error::{Error, Result};
use crate::files::cache_folder;

use super::catalogue::{Published, PublishedFile};
use super::columns::Columns;

/// What may come out of a published archive: a few times what does.
const MAX_UNPACKED: u64 = 4 << 30;

/// How a data set is opened.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct OpenOptions {
    /// Folder that has a folder for each published set, and what is unpacked of others; none is `BRASA_DATA_DIR`, or
    /// the system's folder for what can be fetched again (`~/.cache/brasa/data`).
    pub data_dir: Option<PathBuf>,
    /// Fetch what is not there.
    pub download: bool,
    /// Pictures may differ in size, as something [resizes](crate::data::Resize) them: none is refused, and the
    /// description says that heights and widths are 0 even if the first ones do not differ.
    pub any_size: bool,
    /// The columns of the table that a model has learned from: those of another one are found by these names, and
    /// standardised by these scales. None are its own, and the scales of its own training part.
    pub columns: Option<Columns>,
}

impl OpenOptions {
    /// The folder that data sets are in.
    ///
    /// # Errors
    /// If none is named and the system has no folder for the user.
    pub fn folder(&self) -> Result<PathBuf> {
        let named = std::env::var_os("BRASA_DATA_DIR").filter(|value| !value.is_empty()).map(PathBuf::from);
        self.data_dir.clone().or(named).or_else(|| cache_folder().map(|cache| cache.join("data"))).ok_or_else(|| {
            Error::Config("there is no home folder to keep data sets in: name one with --data-dir".into())
        })
    }

    /// The folder that the files of `set` are in.
    ///
    /// # Errors
    /// As of [`folder`](Self::folder).
    pub fn folder_of(&self, set: &Published) -> Result<PathBuf> {
        Ok(self.folder()?.join(set.name))
    }
}

/// The files of `set` that are not in `folder`, in any form.
pub(crate) fn missing<'a>(set: &'a Published, folder: &Path) -> Vec<&'a PublishedFile> {
    set.files.iter().filter(|file| !folder.join(file.unpacked).exists() && !folder.join(file.name).is_file()).collect()
}

/// The folder of `set`, if all of its files are there; unpacks what has to be.
pub(super) fn find_files(set: &'static Published, folder: &Path, options: &OpenOptions) -> Result<()> {
    if !missing(set, folder).is_empty() {
        return Err(not_there(set, folder, options));
    }
    set.files.iter().filter(|file| file.unpack).try_for_each(|file| unpack(file, folder))
}

/// Which files are missing, and how to get them.
pub(super) fn not_there(set: &Published, folder: &Path, options: &OpenOptions) -> Error {
    let files = missing(set, folder).into_iter().map(|file| set.url(file)).collect();
    let data_dir = options.data_dir.clone();
    Error::DataMissing { name: set.name.into(), folder: folder.to_owned(), data_dir, files }
}

/// Unpacks a file, unless that was done.
pub(super) fn unpack(file: &PublishedFile, folder: &Path) -> Result<()> {
    unpack_folder(&folder.join(file.name), folder, file.unpacked, MAX_UNPACKED)
}

/// The names in a folder, sorted.
pub(super) fn names_in(folder: &Path) -> Result<Vec<String>> {
    let io = |error| Error::io(folder, error);
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(io)? {
        let name = entry.map_err(io)?.file_name();
        let name =
            name.into_string().map_err(|name| Error::format(folder.join(name), "its name is not UTF-8: rename it"))?;
        // what the system or an editor left there
        if !name.starts_with('.') && name != "__MACOSX" {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}
