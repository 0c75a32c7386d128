//! Looks through folders and archives for pictures, and for what the names of their folders say.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::data::files::{Archive, Kind, is_picture_name};
use crate::data::sets::place::names_in;
use crate::error::{Error, Result};

use super::pictures::{BLOCK, Member, Pictures, Places};

/// How deep folders may lie in each other: a link that leads back up ends here.
const MAX_DEPTH: usize = 32;

/// What pictures are for, as a folder above theirs says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    Train,
    Test,
    /// No folder says.
    Any,
}

/// Names of folders and archives that are to test with.
pub(in crate::data::sets) const TEST_NAMES: [&str; 4] = ["test", "val", "valid", "validation"];

/// Pictures that were found, in their order: of folders by name, of archives as they lie.
#[derive(Default)]
pub(super) struct Collected {
    paths: Vec<PathBuf>,
    archives: Vec<Archive>,
    members: Vec<Member>,
    classes: Vec<u16>,
    /// What each is for.
    parts: Vec<Part>,
    /// Names of the classes, in the order in which they were found.
    names: Vec<String>,
    /// Class and part of the pictures in a folder, by its path.
    folders: HashMap<String, (u16, Part)>,
}

impl Collected {
    /// All of them, with what each is for.
    pub(super) fn finish(mut self) -> (Pictures, Vec<Part>) {
        self.members.shrink_to_fit();
        self.classes.shrink_to_fit();
        let places = match self.archives.is_empty() {
            true => Places::Files(self.paths),
            false => Places::Members(self.archives.into(), self.members),
        };
        (Pictures { places, classes: self.classes, names: self.names }, self.parts)
    }

    /// Looks through a folder.
    pub(super) fn folder(&mut self, root: &Path) -> Result<()> {
        self.below(root, "", 0)
    }

    fn below(&mut self, root: &Path, relative: &str, depth: usize) -> Result<()> {
        let folder = root.join(relative);
        if depth > MAX_DEPTH {
            return Err(Error::format(
                folder,
                format!("it lies more than {MAX_DEPTH} folders deep: does a link lead back up?"),
            ));
        }
        let (mut found, mut inner) = (0, 0);
        for name in names_in(&folder)? {
            let path = folder.join(&name);
            let relative = if relative.is_empty() { name.clone() } else { format!("{relative}/{name}") };
            if path.is_dir() {
                inner += 1;
                self.below(root, &relative, depth + 1)?;
            } else if is_picture_name(&name) {
                found += 1;
                self.add(root, &relative)?;
                self.paths.push(path);
            }
        }
        if found + inner == 0 { Err(empty(&folder)) } else { Ok(()) }
    }

    /// Looks through an uncompressed archive.
    pub(super) fn archive(&mut self, path: &Path) -> Result<()> {
        let number = u16::try_from(self.archives.len())
            .map_err(|_| Error::format(path, "there are more than 65,536 archives"))?;
        let archive = Archive::open(path)?;
        let mut empty_ones: Vec<String> = Vec::new();
        archive.index(&mut |found| {
            let name = found.name.trim_start_matches("./");
            match found.kind {
                Kind::Folder if !name.trim_matches('/').is_empty() => {
                    empty_ones.push(name.trim_end_matches('/').to_owned())
                }
                Kind::Other if is_picture_name(name) => {
                    return Err(Error::format(
                        path.join(name),
                        "it is a link, not a file: pack the files themselves (tar -h)",
                    ));
                }
                Kind::File if is_picture_name(name) && !is_hidden(name) => {
                    let place = u32::try_from(found.offset / BLOCK).ok().zip(u32::try_from(found.size).ok());
                    let (block, length) =
                        place.ok_or_else(|| Error::format(path.join(name), "it is too large, or lies beyond 2 TiB"))?;
                    self.add(path, name)?;
                    self.members.push(Member { block, length, archive: number });
                }
                _ => {}
            }
            Ok(())
        })?;
        empty_ones.retain(|folder| !is_hidden(folder) && !self.folders.keys().any(|used| is_at_or_below(used, folder)));
        if let Some(folder) = empty_ones.first() {
            return Err(empty(&path.join(folder)));
        }
        self.archives.push(archive);
        Ok(())
    }

    /// Takes down class and part of the picture called `name`, a path below `root`.
    fn add(&mut self, root: &Path, name: &str) -> Result<()> {
        let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
        let (class, part) = match self.folders.get(folder) {
            Some(known) => *known,
            None => {
                let known = self.what_it_says(folder).map_err(|reason| Error::format(root.join(name), reason))?;
                self.folders.insert(folder.to_owned(), known);
                known
            }
        };
        self.classes.push(class);
        self.parts.push(part);
        Ok(())
    }

    /// Class and part of what lies in `folder`.
    fn what_it_says(&mut self, folder: &str) -> Result<(u16, Part), String> {
        let (above, class) = folder.rsplit_once('/').unwrap_or(("", folder));
        if class.is_empty() {
            return Err("it lies in no folder, whose name would be its class".into());
        }
        let part = above.split('/').find_map(|name| match name {
            "train" => Some(Part::Train),
            name if TEST_NAMES.contains(&name) => Some(Part::Test),
            _ => None,
        });
        let number = match self.names.iter().position(|known| known == class) {
            Some(number) => number,
            None => {
                self.names.push(class.to_owned());
                self.names.len() - 1
            }
        };
        let number = u16::try_from(number).map_err(|_| "it is in the 65,537th class, more than can be told apart")?;
        Ok((number, part.unwrap_or(Part::Any)))
    }
}

fn empty(folder: &Path) -> Error {
    Error::format(folder, "there is no picture in this folder: put some there, or remove it")
}

/// Whether a part of the path is what systems leave behind.
fn is_hidden(name: &str) -> bool {
    name.split('/').any(|part| part == "__MACOSX" || (part.starts_with('.') && part.len() > 1))
}

fn is_at_or_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
