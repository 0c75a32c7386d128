//! Files that are there whole or not at all, and what may lie in place of one.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::{Builder, NamedTempFile, TempDir};

use crate::error::{Error, Result};

/// How the names of files begin that are being written.
pub(crate) const TEMPORARY: &str = ".brasa-";
/// After what time without a change something is not being written any more.
const FORGOTTEN: Duration = Duration::from_secs(24 * 60 * 60);

/// Writes a file under a temporary name beside it, then renames it: readers see the old contents or the new. A link
/// stays, and the file that it leads to is replaced; a pipe or a device is written to.
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

/// What lies where a file was to be fetched to, and what to do about it; `None` if it may be the file.
pub(crate) fn stand_in(contents: &[u8]) -> Option<&'static str> {
    let text = contents.trim_ascii_start();
    let begins = |with: &str| text.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with.as_bytes()));
    if text.is_empty() {
        Some("it is empty: fetch it again")
    } else if begins("version https://git-lfs.github.com/spec/") {
        Some("it only says where Git LFS keeps the file: `git lfs pull` fetches that")
    } else if begins("<!doctype html") || begins("<html") {
        Some("it is a web page in place of the file: open it to see why, and fetch the file again")
    } else {
        None
    }
}

/// An error if this file cannot be written; what it has now stays.
#[cfg(feature = "cli")]
pub(crate) fn can_be_written(path: &Path) -> Result<()> {
    let attempt = || -> io::Result<()> {
        match place(path)? {
            Some(place) if place.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
            Some(place) => temporary(folder_of(&place)).map(drop),
            // to open a pipe is to wait for who reads it
            None => Ok(()),
        }
    };
    attempt().map_err(|error| Error::io(path, error))
}

/// Whether what is written there replaces a file, or makes one: not so of a pipe or a device.
#[cfg(feature = "cli")]
pub(crate) fn is_replaced(path: &Path) -> bool {
    place(path).is_ok_and(|place| place.is_some())
}

/// Where the file lies that this path leads to, over links; `None` if it is a pipe, a device or the like, which a file
/// must not take the place of.
fn place(path: &Path) -> io::Result<Option<PathBuf>> {
    if std::fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir()) {
        return Ok(None);
    }
    let mut place = path.to_owned();
    // as many as Linux follows
    for _ in 0..40 {
        // by hand, as a link may lead to what is not there yet
        if !place.is_symlink() {
            return Ok(Some(place));
        }
        place = folder_of(&place).join(std::fs::read_link(&place)?);
    }
    Err(io::Error::other("too many links lead on from it"))
}

/// The folder that a file lies in.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn write(path: &Path, contents: &[u8], lasting: bool) -> Result<()> {
    let write = || -> io::Result<()> {
        let Some(place) = place(path)? else {
            return File::options().write(true).open(path)?.write_all(contents);
        };
        let mut file = temporary(folder_of(&place))?;
        // The temporary file's own writer would add its name to an error.
        file.as_file_mut().write_all(contents)?;
        // The rename must not reach the disk before the contents.
        if lasting {
            file.as_file().sync_all()?;
        }
        file.persist(&place).map(drop).map_err(|error| error.error)
    };
    write().map_err(|error| Error::io(path, error))
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

/// Removes from `folder` what killed processes have left there: files and folders with such a name that nobody has
/// written to for a day.
pub(crate) fn remove_left_behind(folder: &Path, prefix: &str) {
    let is_old = |path: &Path| {
        let changed = path.symlink_metadata().and_then(|metadata| metadata.modified());
        changed.is_ok_and(|changed| changed.elapsed().is_ok_and(|age| age > FORGOTTEN))
    };
    for entry in folder.read_dir().into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_name().to_string_lossy().starts_with(prefix) && is_old(&path) {
            // what cannot be removed disturbs nobody
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let _gone = if is_folder { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
        }
    }
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

/// The file because of which there can be no folder of this name.
pub(crate) fn file_in_the_way(path: &Path) -> Option<&Path> {
    path.ancestors().find(|path| path.is_file())
}

/// Makes a folder and those above it; it may be there already.
pub(crate) fn create_folder(path: &Path) -> Result<()> {
    if let Some(file) = file_in_the_way(path) {
        let which = if file == path { "it".to_owned() } else { file.display().to_string() };
        let said = format!("{which} is a file, and no folder");
        return Err(Error::io(path, io::Error::new(io::ErrorKind::NotADirectory, said)));
    }
    std::fs::create_dir_all(path).map_err(|error| Error::io(path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_for_a_file_is_told() {
        let says = |contents: &str| stand_in(contents.as_bytes()).unwrap_or_default();
        assert!(says("").contains("empty") && says(" \n").contains("empty"));
        assert!(
            says("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n").contains("git lfs pull")
        );
        assert!(says("\n<!DOCTYPE HTML>\n<p>404").contains("web page") && says("<html lang=en>").contains("web page"));
        assert_eq!(stand_in(b"PK\x03\x04"), None);
        assert_eq!(stand_in(b"<"), None);
    }

    #[test]
    fn a_file_in_the_way_of_a_folder_is_named() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("runs");
        std::fs::write(&file, b"").expect("writable");
        for (path, words) in [(&file, "runs: it is a file"), (&file.join("inner"), "runs is a file")] {
            let said = create_folder(path).expect_err("a file is there").to_string();
            assert!(said.contains(words), "{said}");
        }
    }

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

    #[test]
    #[cfg(unix)]
    fn what_killed_processes_left_is_removed_after_a_day() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let at = |name: &str| folder.path().join(name);
        for name in [".brasa-old", ".brasa-new", "data-old"] {
            std::fs::create_dir(at(name)).expect("a folder");
            std::fs::write(at(name).join("inside"), "").expect("writable");
        }
        std::fs::write(at(".brasa-file"), "").expect("writable");
        for name in [".brasa-old", "data-old", ".brasa-file"] {
            let old = std::time::SystemTime::now() - FORGOTTEN - Duration::from_secs(60);
            File::open(at(name)).and_then(|file| file.set_modified(old)).expect("its date");
        }
        remove_left_behind(folder.path(), TEMPORARY);
        let there = [".brasa-old", ".brasa-file", ".brasa-new", "data-old"].map(|name| at(name).exists());
        assert_eq!(there, [false, false, true, true]);
        remove_left_behind(&at("missing"), TEMPORARY);
    }

    #[test]
    #[cfg(unix)]
    fn links_and_devices_stay_what_they_are() {
        use std::os::unix::fs::{FileTypeExt as _, symlink};

        let folder = tempfile::tempdir().expect("a temporary folder");
        let at = |name: &str| folder.path().join(name);
        for (link, target) in [("link", "file"), ("twice", "link"), ("circle", "circle"), ("null", "/dev/null")] {
            symlink(target, at(link)).expect("a link");
        }
        for (link, contents) in [("link", "made"), ("link", "replaced"), ("twice", "again")] {
            write_whole(&at(link), contents.as_bytes()).expect("writable");
            assert_eq!(std::fs::read_to_string(at("file")).expect("a file"), contents);
        }
        assert!(!at("file").is_symlink() && at("link").is_symlink() && at("twice").is_symlink());
        write_whole(&at("circle"), b"").expect_err("there is no end of it");
        write_whole(&at("null"), b"gone").expect("writable");
        assert!(at("null").is_symlink(), "it is not a file");
        let pipe = at("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("it is there").success());
        let read = std::thread::spawn({
            let pipe = pipe.clone();
            move || std::fs::read(pipe).expect("a pipe")
        });
        write_whole(&pipe, b"through it").expect("somebody reads");
        assert_eq!(read.join().expect("no panic"), b"through it");
        assert!(std::fs::metadata(&pipe).expect("it is there").file_type().is_fifo());
    }
}
