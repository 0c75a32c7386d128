//! Pictures by number, with little memory for each: a set of tar archives may have many millions.

use std::path::PathBuf;
use std::sync::Arc;

use crate::data::files::{Archive, MAX_PICTURE_BYTES, read_file};
use crate::error::{Error, Result};
use crate::units;

/// Contents of archives start at multiples of this.
pub(super) const BLOCK: u64 = 512;

/// Where a member of an archive lies: 12 bytes for each, and archives of up to 2 TiB.
#[derive(Clone, Copy)]
pub(super) struct Member {
    /// Start of its contents, in blocks.
    pub(super) block: u32,
    /// Bytes of its contents.
    pub(super) length: u32,
    /// Number of its archive.
    pub(super) archive: u16,
}

/// Where pictures lie.
pub(super) enum Places {
    Files(Vec<PathBuf>),
    Members(Arc<[Archive]>, Vec<Member>),
}

/// Pictures with the numbers of their classes.
pub(super) struct Pictures {
    pub(super) places: Places,
    /// Number of each one's class in `names`.
    pub(super) classes: Vec<u16>,
    pub(super) names: Vec<String>,
}

impl Pictures {
    pub(super) fn len(&self) -> usize {
        self.classes.len()
    }

    /// Those with these numbers.
    pub(super) fn select(&self, indices: &[usize]) -> Self {
        let places = match &self.places {
            Places::Files(paths) => Places::Files(indices.iter().map(|&index| paths[index].clone()).collect()),
            Places::Members(archives, members) => {
                Places::Members(Arc::clone(archives), indices.iter().map(|&index| members[index]).collect())
            }
        };
        let classes = indices.iter().map(|&index| self.classes[index]).collect();
        Self { places, classes, names: self.names.clone() }
    }

    /// Numbers classes in the order of their names, leaving out those without a picture. Gives the names.
    pub(super) fn sort_classes(&mut self) -> Vec<String> {
        let mut used = vec![false; self.names.len()];
        self.classes.iter().for_each(|&class| used[usize::from(class)] = true);
        let mut names: Vec<String> =
            self.names.iter().zip(used).filter(|(_, used)| *used).map(|(name, _)| name.clone()).collect();
        names.sort_unstable();
        // all that are used are among them
        let _ = self.use_classes(&names);
        names
    }

    /// Numbers classes by their places in `names`. If one is not there, its name and the number of a picture of it.
    pub(super) fn use_classes(&mut self, names: &[String]) -> Result<(), (String, usize)> {
        let map: Vec<Option<u16>> = self
            .names
            .iter()
            .map(|name| names.binary_search(name).ok().and_then(|place| u16::try_from(place).ok()))
            .collect();
        if let Some(index) = self.classes.iter().position(|&class| map[usize::from(class)].is_none()) {
            return Err((self.names[usize::from(self.classes[index])].clone(), index));
        }
        for class in &mut self.classes {
            *class = map[usize::from(*class)].unwrap_or_default();
        }
        self.names = names.to_vec();
        Ok(())
    }

    /// The file, or the archive and the member in it, for messages.
    pub(super) fn path(&self, index: usize) -> PathBuf {
        match &self.places {
            Places::Files(paths) => paths[index].clone(),
            Places::Members(archives, members) => {
                let member = members[index];
                archives[usize::from(member.archive)].member(u64::from(member.block) * BLOCK)
            }
        }
    }

    /// The bytes of a picture's file.
    pub(super) fn read(&self, index: usize, bytes: &mut Vec<u8>) -> Result<()> {
        match &self.places {
            Places::Files(paths) => read_file(&paths[index], MAX_PICTURE_BYTES, bytes),
            Places::Members(archives, members) => {
                let Member { block, length, archive } = members[index];
                if u64::from(length) > MAX_PICTURE_BYTES {
                    let most = units::bytes(MAX_PICTURE_BYTES);
                    return Err(Error::format(
                        self.path(index),
                        format!("it is larger than {most}, the most that is read"),
                    ));
                }
                archives[usize::from(archive)].read(u64::from(block) * BLOCK, length as usize, bytes)
            }
        }
    }
}
