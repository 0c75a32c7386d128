//! Looks through folders and archives for pictures, and for what the names of their folders say.

use std::collections::{HashMap, HashSet};
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
    Validation,
    Test,
    /// No folder says.
    Any,
}

/// Names of folders and archives that are to validate with, and of those to test with.
pub(in crate::data::sets) const HELD_OUT_NAMES: [&[&str]; 2] = [&["val", "valid", "validation"], &["test"]];

/// Pictures that were found, in their order: of folders by name, of archives as they lie.
#[derive(Default)]
pub(super) struct Collected {
    paths: Vec<PathBuf>,
    archives: Vec<Archive>,
    members: Vec<Member>,
    /// The number of the folder that each lies in.
    lies_in: Vec<u32>,
    /// Paths of folders with pictures, by number.
    folders: Vec<String>,
    numbers: HashMap<String, u32>,
}

impl Collected {
    /// All of them, with what each is for. The error says what is wrong with their folders.
    pub(super) fn finish(mut self) -> Result<(Pictures, Vec<Part>), String> {
        self.members.shrink_to_fit();
        let said = what_they_say(&self.folders)?;
        let (mut names, mut of_name) = (Vec::new(), HashMap::new());
        let mut of_folder = Vec::with_capacity(said.len());
        for (class, part) in said {
            let next = names.len();
            let number = *of_name.entry(class).or_insert(next);
            if number == next {
                names.push(class.to_owned());
            }
            let number = u16::try_from(number)
                .map_err(|_| format!("`{class}` is the 65,537th class, and no more can be told apart"))?;
            of_folder.push((number, part));
        }
        let (classes, parts) = self.lies_in.iter().map(|&folder| of_folder[folder as usize]).unzip();
        let places = match self.archives.is_empty() {
            true => Places::Files(self.paths),
            false => Places::Members(self.archives.into(), self.members),
        };
        Ok((Pictures { places, classes, names }, parts))
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
        // an archive often has all of its contents in a folder of its name
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let own = super::archive_stem(&file).map(|stem| format!("{stem}/")).unwrap_or_default();
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
                    self.add(path, name.strip_prefix(&*own).unwrap_or(name))?;
                    self.members.push(Member { block, length, archive: number });
                }
                _ => {}
            }
            Ok(())
        })?;
        let whole: Vec<String> = self.folders.iter().map(|used| format!("{own}{used}")).collect();
        let with_pictures: HashSet<&str> =
            whole.iter().chain(&self.folders).flat_map(|used| with_parents(used)).collect();
        empty_ones.retain(|folder| !is_hidden(folder) && !with_pictures.contains(folder.as_str()));
        if let Some(folder) = empty_ones.first() {
            return Err(empty(&path.join(folder)));
        }
        self.archives.push(archive);
        Ok(())
    }

    /// Takes down the folder of the picture called `name`, a path below `root`.
    fn add(&mut self, root: &Path, name: &str) -> Result<()> {
        let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
        let number = match self.numbers.get(folder) {
            Some(&known) => known,
            None if folder.is_empty() => {
                return Err(Error::format(root.join(name), "it lies in no folder, whose name would be its class"));
            }
            None => {
                let number = u32::try_from(self.folders.len())
                    .map_err(|_| Error::format(root.join(name), "there are more than 4,294,967,296 folders"))?;
                self.folders.push(folder.to_owned());
                self.numbers.insert(folder.to_owned(), number);
                number
            }
        };
        self.lies_in.push(number);
        Ok(())
    }
}

/// Class and part of the pictures in each of these folders. As in torchvision's `ImageFolder`, the class is the first
/// folder, whatever lies in it; folders around everything say nothing, and folders `train`, `val` and `test` are
/// parts, in which the class is the first folder again.
fn what_they_say(folders: &[String]) -> Result<Vec<(&str, Part)>, String> {
    let paths: Vec<Vec<&str>> = folders.iter().map(|folder| folder.split('/').collect()).collect();
    let parts: Vec<(Part, usize)> = paths.iter().map(|path| part_of(path)).collect();
    let of = |wanted: Part| paths.iter().zip(&parts).filter(move |(_, (part, _))| *part == wanted);
    // one in each class says nothing about the whole
    let is_one = |wanted| {
        let mut above = of(wanted).map(|(path, &(_, place))| &path[..place]);
        above.next().is_none_or(|first| above.all(|other| other == first))
    };
    let start = around(paths.iter(), 0);
    let first_train = of(Part::Train).map(|(_, &(_, place))| place + 1).next();
    // nor does one beside classes, unless it lies where they do
    let is_whole = |first: &usize| *first == start + 1 || of(Part::Any).next().is_none();
    let Some(first) =
        first_train.filter(is_whole).filter(|_| [Part::Train, Part::Validation, Part::Test].into_iter().all(is_one))
    else {
        let mut held_out = of(Part::Validation).chain(of(Part::Test));
        let stray = held_out.find(|(_, (_, place))| *place == start).filter(|_| first_train.is_none());
        return match stray {
            Some((path, _)) => Err(format!("there is `{}`, but no `train` beside it", path[start])),
            None => Ok(paths.iter().map(|path| (path[start], Part::Any)).collect()),
        };
    };
    // in the others there may be one class alone
    let deeper = around(of(Part::Train).map(|(path, _)| path), first) - first;
    let says = |(path, &(part, place)): (&Vec<&'_ str>, &(Part, usize))| {
        let class = (place + 1 + deeper).min(path.len() - 1);
        (class, part)
    };
    let said = paths.iter().zip(&parts).map(|pair| (pair.0, says(pair)));
    Ok(said.map(|(path, (class, part))| (path[class], part)).collect())
}

/// What the first folder says that is called as a part is, and its place; a part has folders in it.
fn part_of(path: &[&str]) -> (Part, usize) {
    let named = path[..path.len() - 1].iter().enumerate().find_map(|(place, name)| match *name {
        "train" => Some((Part::Train, place)),
        name => HELD_OUT_NAMES
            .into_iter()
            .zip([Part::Validation, Part::Test])
            .find_map(|(names, part)| names.contains(&name).then_some((part, place))),
    });
    named.unwrap_or((Part::Any, 0))
}

/// Where these paths first differ, from number `from` on; at the last folder of the shortest one at the latest.
fn around<'a>(paths: impl Iterator<Item = &'a Vec<&'a str>> + Clone, from: usize) -> usize {
    let Some(first) = paths.clone().next() else { return from };
    let is_around = |at: &usize| paths.clone().all(|path| path.len() > at + 1 && path[*at] == first[*at]);
    (from..first.len()).take_while(is_around).count() + from
}

fn empty(folder: &Path) -> Error {
    Error::format(folder, "there is no picture in this folder: put some there, or remove it")
}

/// Whether a part of the path is what systems leave behind.
fn is_hidden(name: &str) -> bool {
    name.split('/').any(|part| part == "__MACOSX" || (part.starts_with('.') && part.len() > 1))
}

/// A folder and all that it lies in.
fn with_parents(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| Some(path.rsplit_once('/')?.0))
}
