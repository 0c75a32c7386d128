//! What tuning found, from one process to the next: `tiles.json` in the user's cache folder.
//!
//! It is read once, when a device is opened, and written by tuning, merged with what other processes wrote meanwhile.
//! All variants give the same bits, so that a file that is lost, old or damaged costs time and nothing else.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::files::{create_folder, write_whole};

use super::render::{Tuned, Variant};

/// Of what the file says; another one's is started afresh.
const VERSION: u32 = 3;
/// Adapters with their drivers that are kept, and kernels of each; the oldest go first.
const MAX_ADAPTERS: usize = 16;
const MAX_KERNELS: usize = 4096;

/// Its name.
const FILE: &str = "tiles.json";

/// What the kernels of an adapter depend on beside this program: which of its features a person wants, and what tuning
/// found.
pub(crate) fn circumstances() -> (String, Option<u32>) {
    let found = crate::files::cache_folder().and_then(|folder| std::fs::read(folder.join(FILE)).ok());
    (std::env::var(super::features::VARIABLE).unwrap_or_default(), found.as_deref().map(crc32c::crc32c))
}

/// The file, and whose part of it is meant.
#[derive(Clone, Debug)]
pub(super) struct Place {
    path: PathBuf,
    owner: Owner,
}

/// What times depend on beside the kernel.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Owner {
    adapter: String,
    driver: String,
    brasa: String,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Memory {
    version: u32,
    adapters: Vec<OfAdapter>,
}

#[derive(Debug, Serialize, Deserialize)]
struct OfAdapter {
    #[serde(flatten)]
    owner: Owner,
    /// Kernels for which the rule's variant is not the fastest, oldest first: number and variant.
    kernels: Vec<(String, Variant)>,
}

impl Place {
    /// Where it is kept under `folder` what was found for `adapter`.
    pub(super) fn new(folder: &Path, adapter: &wgpu::AdapterInfo) -> Self {
        let wgpu::AdapterInfo { vendor, device, backend, name, driver, driver_info, .. } = adapter;
        let owner = Owner {
            adapter: format!("{vendor:04x}:{device:04x} {backend:?} {name}"),
            driver: format!("{driver} {driver_info}").trim().to_owned(),
            brasa: env!("CARGO_PKG_VERSION").into(),
        };
        Self { path: folder.join(FILE), owner }
    }

    /// Which variants are the fastest, as far as that was found.
    pub(super) fn load(&self) -> Tuned {
        let Some(found) = load(&self.path).adapters.into_iter().find(|found| found.owner == self.owner) else {
            return Tuned::new();
        };
        let number = |(key, variant): (String, Variant)| Some((u64::from_str_radix(&key, 16).ok()?, variant));
        found.kernels.into_iter().filter_map(number).collect()
    }

    /// Notes for each of these kernels the fastest variant, `None` for that of the rule, and tells the file.
    pub(super) fn save(&self, found: &[(u64, Option<Variant>)]) -> Result<PathBuf> {
        if let Some(folder) = self.path.parent() {
            create_folder(folder)?;
        }
        let _alone = lock(&self.path.with_extension("lock"));
        let mut memory = load(&self.path);
        let known = memory.adapters.iter().position(|entry| entry.owner == self.owner);
        let mut entry = known
            .map(|known| memory.adapters.remove(known))
            .unwrap_or_else(|| OfAdapter { owner: self.owner.clone(), kernels: Vec::new() });
        for (key, variant) in found {
            let key = format!("{key:016x}");
            entry.kernels.retain(|(known, _)| *known != key);
            entry.kernels.extend(variant.map(|variant| (key, variant)));
        }
        let surplus = entry.kernels.len().saturating_sub(MAX_KERNELS);
        entry.kernels.drain(..surplus);
        memory.adapters.push(entry);
        let surplus = memory.adapters.len().saturating_sub(MAX_ADAPTERS);
        memory.adapters.drain(..surplus);
        memory.version = VERSION;
        write_whole(&self.path, &serde_json::to_vec_pretty(&memory).expect("plain data"))?;
        Ok(self.path.clone())
    }
}

/// Keeps other processes from writing for as long as the file is open, where the file system knows locks: else of two
/// who write at once one may lose what it found.
fn lock(path: &Path) -> Option<File> {
    let file = File::create(path).ok()?;
    file.lock().ok()?;
    Some(file)
}

/// Nothing if there is no file, or it is damaged or of another version.
fn load(path: &Path) -> Memory {
    match read(path) {
        Ok(memory) if memory.version == VERSION => memory,
        Ok(_) => Memory::default(),
        Err(error) => {
            tracing::warn!(
                "{error}; what `brasa tune` found is lost, so kernels are as without it until it runs again"
            );
            Memory::default()
        }
    }
}

fn read(path: &Path) -> Result<Memory> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Memory::default()),
        Err(error) => return Err(Error::io(path, error)),
    };
    serde_json::from_slice(&text).map_err(|error| Error::format(path, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::super::render::Tile;
    use super::*;

    const TILE: Variant = Variant::Registers { rows: 4, columns: 8, threads: 64 };
    const BLOCKS: Variant = Variant::Workgroup(Tile { size: [64, 128], own: [4, 8] });

    fn place(folder: &Path, driver: &str) -> Place {
        let owner = Owner { adapter: "test".into(), driver: driver.into(), brasa: "1".into() };
        Place { path: folder.join("deeper").join("tiles.json"), owner }
    }

    #[test]
    fn what_is_found_is_merged_with_what_others_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mine, of_another) = (place(folder.path(), "one"), place(folder.path(), "two"));
        assert_eq!(mine.load(), Tuned::new());
        mine.save(&[(1, Some(TILE)), (2, Some(BLOCKS))]).expect("writable");
        of_another.save(&[(1, Some(BLOCKS))]).expect("writable");
        mine.save(&[(2, None), (u64::MAX, Some(TILE))]).expect("writable");
        assert_eq!(mine.load(), Tuned::from([(1, TILE), (u64::MAX, TILE)]), "the rule's need not be noted");
        assert_eq!(of_another.load(), Tuned::from([(1, BLOCKS)]));
    }

    #[test]
    fn nothing_is_lost_where_many_write_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let mine = place(folder.path(), "one");
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let mine = &mine;
                scope.spawn(move || {
                    (0..10).for_each(|n| drop(mine.save(&[(thread * 10 + n, Some(TILE))]).expect("writable")));
                });
            }
        });
        assert_eq!(mine.load().len(), 40);
    }

    #[test]
    fn damaged_files_are_started_afresh() {
        let folder = tempfile::tempdir().expect("a folder");
        let mine = place(folder.path(), "one");
        let path = mine.save(&[(1, Some(TILE))]).expect("writable");
        let whole = std::fs::read_to_string(&path).expect("text");
        let (cut, unknown) = (&whole[..whole.len() / 2], whole.replace("registers", "other"));
        let version = format!("\"version\": {VERSION}");
        let newer = whole.replace(&version, &format!("\"version\": {}", VERSION + 1));
        for damaged in ["", cut, &unknown, &newer, "[]", &format!("{{{version}}}")] {
            std::fs::write(&path, damaged).expect("writable");
            assert_eq!(mine.load(), Tuned::new(), "{damaged}");
            mine.save(&[(3, Some(BLOCKS))]).expect("writable");
            assert_eq!(mine.load(), Tuned::from([(3, BLOCKS)]));
        }
    }

    #[test]
    fn the_file_does_not_grow_without_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let mine = place(folder.path(), "one");
        let many: Vec<_> = (0..MAX_KERNELS as u64 + 5).map(|key| (key, Some(TILE))).collect();
        mine.save(&many).expect("writable");
        assert!(mine.load().len() == MAX_KERNELS && !mine.load().contains_key(&4));
        (0..MAX_ADAPTERS).for_each(|n| {
            place(folder.path(), &format!("driver {n}")).save(&[(1, Some(TILE))]).expect("writable");
        });
        assert_eq!((mine.load().len(), place(folder.path(), "driver 3").load().len()), (0, 1));
    }
}
