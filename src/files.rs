//! Files that are there whole or not at all.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// How the names of files begin that are being written.
pub(crate) const TEMPORARY: &str = ".brasa-";

/// Writes a file under a temporary name beside it, then renames it: readers see the old contents or the new.
pub(crate) fn write_whole(path: &Path, contents: &[u8]) -> Result<()> {
    write(path, contents, true)
}

/// The same for what is written every moment: it does not wait until the contents are on the disk, so that after a power cut
/// the file may be empty.
pub(crate) fn replace(path: &Path, contents: &[u8]) -> Result<()> {
    write(path, contents, false)
}

fn write(path: &Path, contents: &[u8], lasting: bool) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let write = || {
        let mut file = temporary(folder)?;
        file.write_all(contents)?;
        // The rename must not reach the disk before the contents.
        if lasting {
            file.as_file().sync_all()?;
        }
        file.persist(path).map_err(|error| error.error)
    };
    write().map(drop).map_err(|error| Error::io(path, error))
}

/// A file that is to be renamed to another one in this folder once it is whole.
pub(crate) fn temporary(folder: &Path) -> std::io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(TEMPORARY);
    // Temporary files are private by default; this one becomes an ordinary file, whose rights the umask decides.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder)
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
