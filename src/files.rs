//! Files that are there whole or not at all.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile, TempDir};

use crate::error::{Error, Result};

/// How the names of files begin that are being written.
pub(crate) const TEMPORARY: &str = ".brasa-";

/// Writes a file under a temporary name beside it, then renames it: readers see the old contents or the new.
pub(crate) fn write_whole(path: &Path, contents: &[u8]) -> Result<()> {
    write(path, contents, true)
}

/// The same for what is written every moment: it does not wait until the contents are on the disk, so that after a
/// power cut the file may be empty.
pub(crate) fn replace(path: &Path, contents: &[u8]) -> Result<()> {
    write(path, contents, false)
}

/// Writes a file that is not there yet, whole or not at all.
///
/// # Errors
/// If it is there, with [`io::ErrorKind::AlreadyExists`].
#[cfg(feature = "cli")]
pub(crate) fn write_new(path: &Path, contents: &[u8]) -> io::Result<()> {
    let mut file = temporary(folder_of(path))?;
    file.as_file_mut().write_all(contents)?;
    file.persist_noclobber(path).map(drop).map_err(|error| error.error)
}

/// The folder that a file lies in.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn write(path: &Path, contents: &[u8], lasting: bool) -> Result<()> {
    let folder = folder_of(path);
    let write = || {
        let mut file = temporary(folder)?;
        // The temporary file's own writer would add its name to an error.
        file.as_file_mut().write_all(contents)?;
        // The rename must not reach the disk before the contents.
        if lasting {
            file.as_file().sync_all()?;
        }
        file.persist(path).map_err(|error| error.error)
    };
    write().map(drop).map_err(|error| Error::io(path, error))
}

/// A file that is to be renamed to another one in this folder once it is whole. An error does not name it: nobody has
/// asked for it.
pub(crate) fn temporary(folder: &Path) -> io::Result<NamedTempFile> {
    // The crate's own files are private; this one becomes an ordinary file, whose rights the umask decides.
    let open = |path: &Path| File::options().read(true).write(true).create_new(true).open(path);
    Builder::new().prefix(TEMPORARY).make_in(folder, open)
}

/// The same for a folder.
pub(crate) fn temporary_folder(parent: &Path, prefix: &str) -> io::Result<TempDir> {
    // The crate adds the folder's name to the error, of which the kind is left.
    Builder::new().prefix(prefix).tempdir_in(parent).map_err(|error| error.kind().into())
}

/// The user's folder for what can be made or fetched again (`~/.cache/brasa`), if the system has one.
pub(crate) fn cache_folder() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = || std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
    let cache = if cfg!(windows) {
        variable("LOCALAPPDATA")
    } else if cfg!(target_os = "macos") {
        home().map(|home| home.join("Library/Caches"))
    } else {
        // a relative one is to be ignored, as the XDG Base Directory Specification has it
        variable("XDG_CACHE_HOME").filter(|path| path.is_absolute()).or_else(|| home().map(|home| home.join(".cache")))
    };
    cache.map(|cache| cache.join("brasa"))
}

/// Makes a folder and those above it; it may be there already.
pub(crate) fn create_folder(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(|error| Error::io(path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_file_that_was_asked_for() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let missing = folder.path().join("missing");
        let path = missing.join("report.md");
        let said = write_whole(&path, b"").expect_err("its folder is not there").to_string();
        let reason = said.strip_prefix(&format!("{}: ", path.display()));
        assert!(reason.is_some_and(|reason| !reason.contains("missing")), "{said}");
        let said = temporary_folder(&missing, ".").expect_err("its parent is not there").to_string();
        assert!(!said.contains("missing"), "{said}");
    }
}
