//! Elements in other files of the model's folder.

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Component, Path, PathBuf};

use crate::error::{Error, Result};

use super::super::proto::StringStringEntry;
use super::call::fail;

/// So many bytes of other files may be read, however small these are.
const BYTES: u64 = 1 << 24;
/// And beside these so many for each byte that the files read so far have: several names may share it, but a small file must not fill the memory.
const READS: u64 = 4;

/// The folder of other files, and what was read of them.
pub(super) struct Files<'a> {
    folder: Option<&'a Path>,
    /// Those that were opened.
    opened: HashSet<PathBuf>,
    /// The bytes that they have.
    there: u64,
    /// The bytes that were read.
    read: u64,
}

impl<'a> Files<'a> {
    pub(super) fn of(folder: Option<&'a Path>) -> Self {
        Self { folder, opened: HashSet::new(), there: 0, read: 0 }
    }

    /// `size` bytes at the place that a tensor's `external_data` tells.
    ///
    /// # Errors
    /// If they are not there, lie outside of the folder, or too much is read of too little.
    pub(super) fn read(&mut self, entries: &[StringStringEntry], size: usize) -> Result<Vec<u8>> {
        let entry = |key: &str| entries.iter().find(|entry| entry.key == key).map(|entry| entry.value.as_str());
        let number = |key: &str| match entry(key).map(str::parse::<u64>) {
            None => Ok(None),
            Some(Ok(value)) => Ok(Some(value)),
            Some(Err(_)) => fail(format!("its {key} in another file is {:?}", entry(key).unwrap_or_default())),
        };
        let (Some(location), offset, length) = (entry("location"), number("offset")?.unwrap_or(0), number("length")?)
        else {
            return fail("its elements are in another file, of which there is no name");
        };
        let inside =
            Path::new(location).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if !inside || location.is_empty() {
            return fail(format!(
                "its elements are in `{location}`, which is not in the model's folder: that is refused"
            ));
        }
        let Some(folder) = self.folder else {
            return fail(format!("its elements are in `{location}`, and no folder was given"));
        };
        if length.is_some_and(|length| length != size as u64) {
            return fail(format!("it has {} bytes in `{location}`, not {size}", length.unwrap_or(0)));
        }
        let path = folder.join(location);
        let io = |error| Error::io(&path, error);
        let mut file = File::open(&path).map_err(io)?;
        let metadata = file.metadata().map_err(io)?;
        // what is no file, such as a pipe, might never end
        let end = offset.checked_add(size as u64);
        if !metadata.is_file() || end.is_none_or(|end| end > metadata.len()) {
            let has = metadata.len();
            return Err(Error::format(
                path,
                format!("{size} bytes from byte {offset} on are asked for, and it has {has}"),
            ));
        }
        // a file may have several names
        if self.opened.insert(path.canonicalize().unwrap_or_else(|_| path.clone())) {
            self.there = self.there.saturating_add(metadata.len());
        }
        self.take(size as u64, location)?;
        file.seek(SeekFrom::Start(offset)).map_err(io)?;
        let mut bytes = vec![0; size];
        file.read_exact(&mut bytes).map_err(io)?;
        Ok(bytes)
    }

    /// Counts bytes that are read.
    fn take(&mut self, size: u64, location: &str) -> Result<()> {
        let (there, all) = (self.there, self.read.saturating_add(size));
        if all > there.saturating_mul(READS).saturating_add(BYTES) {
            return fail(format!(
                "with its {size} bytes in `{location}`, {all} bytes are read of files that have {there}: that is \
                 refused; give one name to weights that are alike"
            ));
        }
        self.read = all;
        Ok(())
    }
}
