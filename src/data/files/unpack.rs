//! Archives unpacked, whole or not at all, and never outside of the folder that they are meant for.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::time::UNIX_EPOCH;

use rayon::prelude::*;

use crate::data::permutation::hash;
use crate::error::{Error, Result};
use crate::files::{TEMPORARY, remove_left_behind, temporary, temporary_folder};

use super::{Archive, Kind, Stream, walk};

/// How much of a compressed archive may come out of each of its bytes. What holds pictures comes to less than ten.
const MAX_RATIO: u64 = 200;
/// How the names of folders begin that are being unpacked to.
const UNPACKING: &str = ".unpacking-";
/// What may come out of any.
const MAX_SMALL: u64 = 1 << 30;

/// Unpacks the folder `folder` of a tar archive, which may be compressed, to `parent/folder`, unless it is there. It
/// appears once it is whole.
///
/// # Errors
/// If a member would lie outside, is a link or a device, if more than `most` bytes come out, or there is no such
/// folder.
pub(crate) fn unpack_folder(archive: &Path, parent: &Path, folder: &str, most: u64) -> Result<()> {
    let target = parent.join(folder);
    if target.exists() {
        return Ok(());
    }
    remove_left_behind(parent, UNPACKING);
    let beside = temporary_folder(parent, UNPACKING).map_err(|error| Error::io(&target, error))?;
    let mut tar = tar::Archive::new(Stream::open(archive, most)?);
    let mut written = Vec::new();
    walk(archive, tar.entries(), &mut |found, contents| {
        let wrong =
            |reason: &str| Error::format(archive, format!("member `{}` {reason}; nothing was unpacked", found.name));
        let inside = inside(found.name).map_err(wrong)?;
        let path = beside.path().join(&inside);
        let io = |error| Error::io(parent.join(&inside), error);
        match found.kind {
            Kind::Folder => fs::create_dir_all(&path).map_err(io),
            Kind::File => {
                fs::create_dir_all(path.parent().unwrap_or(beside.path())).map_err(io)?;
                let mut file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(io)?;
                let copied = io::copy(contents, &mut file).map_err(|error| Error::io(archive, error))?;
                if copied != found.size {
                    return Err(wrong("is cut off: fetch the archive again"));
                }
                drop(file);
                written.push(path);
                Ok(())
            }
            Kind::Other => Err(wrong("is a link or a device, which is not unpacked")),
        }
    })?;
    // before it gets its name: whoever finds it takes it to be whole, and the archive may be gone by then
    written.par_iter().try_for_each(|path| {
        let file = OpenOptions::new().write(true).open(path);
        file.and_then(|file| file.sync_all()).map_err(|error| Error::io(&target, error))
    })?;
    let unpacked = beside.path().join(folder);
    if !unpacked.is_dir() {
        return Err(Error::format(archive, format!("there is no folder `{folder}` in it")));
    }
    match fs::rename(&unpacked, &target) {
        // another process was faster
        Err(_) if target.is_dir() => Ok(()),
        renamed => renamed.map_err(|error| Error::io(target, error)),
    }
}

/// The path of a member below the folder that it is unpacked to.
fn inside(name: &str) -> Result<PathBuf, &'static str> {
    // what separates folders elsewhere must not be in a name here: the same archive gives the same files everywhere
    if name.contains(['\\', '\0']) || name.as_bytes().get(1) == Some(&b':') {
        return Err("has a name that is not safe everywhere");
    }
    let mut path = PathBuf::new();
    for component in Path::new(name).components() {
        match component {
            Component::Normal(part) => path.push(part),
            Component::CurDir => {}
            Component::ParentDir => return Err("leads out of its folder by `..`"),
            Component::RootDir | Component::Prefix(_) => return Err("has an absolute path"),
        }
    }
    Ok(path)
}

/// The path of an uncompressed tar archive with what is in `archive`: itself, or a copy of a compressed one in `cache`,
/// made when it is first asked for, or when the archive has changed since.
pub(crate) fn plain_tar(archive: &Path, cache: &Path) -> Result<PathBuf> {
    let name = archive.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if name.ends_with(".tar") {
        return Ok(archive.to_owned());
    }
    let io = |error| Error::io(archive, error);
    let metadata = fs::metadata(archive).map_err(io)?;
    let changed = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    let version = hash(&[metadata.len(), changed.as_secs(), changed.subsec_nanos().into()]);
    let whole_path = archive.canonicalize().map_err(io)?;
    let bytes = whole_path.as_os_str().as_encoded_bytes().iter().map(|&byte| u64::from(byte));
    let place = hash(&bytes.collect::<Vec<u64>>());
    let folder = cache.join("unpacked");
    let stem = name.trim_end_matches(".gz").trim_end_matches(".tgz").trim_end_matches(".tar");
    let name = format!("{stem}-{place:016x}-");
    let plain = folder.join(format!("{name}{version:016x}.tar"));
    if plain.is_file() {
        return Ok(plain);
    }
    tracing::info!("{} is unpacked once, to {}", archive.display(), plain.display());
    fs::create_dir_all(&folder).map_err(|error| Error::io(&folder, error))?;
    let in_copy = |error| Error::io(&plain, error);
    remove_left_behind(&folder, TEMPORARY);
    let mut copy = temporary(&folder).map_err(in_copy)?;
    let most = metadata.len().saturating_mul(MAX_RATIO).max(MAX_SMALL);
    io::copy(&mut Stream::open(archive, most)?, copy.as_file_mut()).map_err(io)?;
    // what cannot be read is not kept, and the fault is that of the archive
    Archive::open(copy.path())?.index(&mut |_| Ok(())).map_err(|error| match error {
        Error::Format { reason, .. } => Error::format(archive, reason),
        Error::Io { source, .. } => Error::io(&plain, source),
        other => other,
    })?;
    copy.as_file().sync_all().map_err(in_copy)?;
    copy.persist(&plain).map_err(|error| in_copy(error.error))?;
    // copies of what the archive was before
    let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
    for old in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&name) && entry.path() != plain) {
        let _gone = fs::remove_file(old.path());
    }
    Ok(plain)
}
