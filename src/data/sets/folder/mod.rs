//! Pictures in a folder for each class, loose or in tar archives.

mod collect;
mod pictures;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::data::files::{decode_picture, picture_header, plain_tar};
use crate::data::memory::stratified;
use crate::data::{Dataset, Description, Goal, Sample, Split, Target};
use crate::error::{Error, Result};

use super::place::names_in;
use super::sizes::{check_size, common_shape, of_photographs};
use super::{HELD_OUT_KEY, HELD_OUT_PERCENT, OpenOptions};

use collect::{Collected, Part};
use pictures::Pictures;

pub(super) use collect::HELD_OUT_NAMES;

/// Pictures of files, with the class of the folder that each lies in.
pub struct ClassFolders {
    description: Description,
    pictures: Pictures,
}

impl fmt::Debug for ClassFolders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (self as &dyn Dataset).fmt(f)
    }
}

/// Opens `folder:PATH`. The class of a picture is the name of the top folder that it lies in, whatever folders are in
/// that one; classes are sorted by name. A folder around all of them says nothing.
///
/// `path` is a folder, or a tar archive of one, compressed or not. It has a folder for each class, or folders `train`,
/// `test` and `val` (or `valid`, `validation`) of such; where there is no `test`, `val` is what is tested with. In a
/// folder, these may also be archives, `train.tar` and `test.tar`, or several, `train-0.tar`, `train-1.tar`, … Where
/// neither is there, a fixed 20 % of each class is held out.
///
/// Archives are read by position; of compressed ones, an uncompressed copy is made once in the
/// [data folder](OpenOptions::folder). Pictures are grey if those that are looked at are, else RGB, and normalised as
/// photographs are for most pretrained networks.
///
/// # Errors
/// If there are no pictures or fewer than two classes, a folder is empty, or another part has a class that is not in
/// the training part.
pub fn open_folder(path: &Path, options: &OpenOptions) -> Result<Split<ClassFolders>> {
    let (train, [validation, test]) = match sources(path)? {
        Sources::Parts(train, [validation, test]) => {
            let finish = |part: &[PathBuf]| {
                let wrong = |reason| Error::format(path, reason);
                collect(part, options)?.finish().map(|(pictures, _)| pictures).map_err(wrong)
            };
            let if_there = |part: &[PathBuf]| (!part.is_empty()).then(|| finish(part)).transpose();
            (finish(&train)?, [if_there(&validation)?, if_there(&test)?])
        }
        Sources::One(source) => {
            let (all, parts) = collect(&[source], options)?.finish().map_err(|reason| Error::format(path, reason))?;
            let of = |part| {
                let indices: Vec<usize> = (0..parts.len()).filter(|&index| parts[index] == part).collect();
                (!indices.is_empty()).then(|| all.select(&indices))
            };
            match of(Part::Train) {
                Some(train) => (train, [Part::Validation, Part::Test].map(of)),
                None => (all, [None, None]),
            }
        }
    };
    if train.len() == 0 {
        let reason =
            "there is no picture to train on: expected a folder of JPEG, PNG, BMP, WebP or GIF files for each class";
        return Err(Error::format(path, reason));
    }
    let mut parts = match (validation, test) {
        (validation, Some(test)) => Split { train, validation, test },
        (Some(test), None) => Split::new(train, test),
        (None, None) => {
            let labels: Vec<u32> = train.classes.iter().map(|&class| class.into()).collect();
            let parts = stratified(&labels, train.names.len(), HELD_OUT_PERCENT, HELD_OUT_KEY);
            parts.map(|part| train.select(&part))
        }
    };
    let classes = parts.train.sort_classes();
    if classes.len() < 2 {
        let reason = format!(
            "all pictures lie in folders called `{}`: expected a folder for each of two or more classes",
            classes[0]
        );
        return Err(Error::format(path, reason));
    }
    if parts.test.len() == 0 {
        return Err(Error::format(path, "there are too few pictures to hold any out: at least 3 of a class"));
    }
    for part in parts.validation.iter_mut().chain([&mut parts.test]) {
        part.use_classes(&classes).map_err(|(class, place)| {
            let reason =
                format!("its class `{class}` is not in the training part: add pictures of it there, or remove it here");
            Error::format(part.path(place), reason)
        })?;
    }
    let count = parts.parts().map(Pictures::len).sum();
    let shape = common_shape(count, options.any_size, |number| {
        let (part, index) = picture(&parts, number);
        let mut bytes = Vec::new();
        part.read(index, &mut bytes)?;
        picture_header(&bytes).map_err(|reason| Error::format(part.path(index), reason))
    })?;
    let normalization = of_photographs(shape[0]);
    let name = format!("folder:{}", path.display());
    let mut counts = vec![0; classes.len()];
    parts.train.classes.iter().for_each(|&class| counts[usize::from(class)] += 1);
    let counts = Some(counts);
    let description = Description { normalization, counts, ..Description::new(name, Goal::Classify, classes, shape) };
    Ok(parts.map(|pictures| ClassFolders { description: description.clone(), pictures }))
}

/// The picture of this number, counted through all parts: which part it is in, and its number there.
fn picture(parts: &Split<Pictures>, number: usize) -> (&Pictures, usize) {
    let mut index = number;
    for part in parts.parts() {
        if index < part.len() {
            return (part, index);
        }
        index -= part.len();
    }
    panic!("there is no picture number {number}")
}

impl Dataset for ClassFolders {
    fn description(&self) -> &Description {
        &self.description
    }

    fn len(&self) -> usize {
        self.pictures.len()
    }

    fn get(&self, index: usize, sample: &mut Sample) -> Result<()> {
        let mut bytes = Vec::new();
        self.pictures.read(index, &mut bytes)?;
        let shape = &self.description.shape;
        decode_picture(&bytes, shape[0], sample)
            .and_then(|()| check_size(sample, shape))
            .map_err(|reason| Error::format(self.pictures.path(index), reason))?;
        sample.target = Target::Class(self.pictures.classes[index].into());
        Ok(())
    }
}

/// Folders or archives to read.
enum Sources {
    /// Those to train on, and those to validate and to test with.
    Parts(Vec<PathBuf>, [Vec<PathBuf>; 2]),
    /// One that has all parts in it, or only one.
    One(PathBuf),
}

/// Looks for parts in a folder.
fn sources(path: &Path) -> Result<Sources> {
    if !path.is_dir() {
        return Ok(Sources::One(path.to_owned()));
    }
    let names = names_in(path)?;
    let train = part_in(path, &names, "train");
    let held_out = HELD_OUT_NAMES.map(|called| {
        let found = called.iter().map(|part| part_in(path, &names, part)).find(|found| !found.is_empty());
        found.unwrap_or_default()
    });
    if !train.is_empty() {
        return Ok(Sources::Parts(train, held_out));
    }
    match held_out.iter().flatten().next() {
        None => Ok(Sources::One(path.to_owned())),
        Some(part) => Err(Error::format(path, format!("there is {}, but no `train` beside it", part.display()))),
    }
}

/// What is called `part` in a folder that has these names in it: a folder, or else an archive, or else several
/// archives. Of one archive there may also be a compressed copy, and of an archive its unpacked contents.
fn part_in(path: &Path, names: &[String], part: &str) -> Vec<PathBuf> {
    if path.join(part).is_dir() {
        return vec![path.join(part)];
    }
    let mut archives = BTreeMap::new();
    for name in names {
        if let Some(stem) = archive_stem(name) {
            // they are sorted, so that the uncompressed one comes first
            archives.entry(stem).or_insert_with(|| path.join(name));
        }
    }
    if let Some(whole) = archives.remove(part) {
        return vec![whole];
    }
    let is_piece = |stem: &str| stem.strip_prefix(part).is_some_and(|rest| rest.starts_with('-'));
    archives.into_iter().filter(|(stem, _)| is_piece(stem)).map(|(_, archive)| archive).collect()
}

/// The name of a tar archive without its ending.
fn archive_stem(name: &str) -> Option<&str> {
    [".tar", ".tar.gz", ".tgz"].iter().find_map(|ending| name.strip_suffix(ending))
}

/// Looks through folders and archives.
fn collect(sources: &[PathBuf], options: &OpenOptions) -> Result<Collected> {
    let mut collected = Collected::default();
    for source in sources {
        if source.is_dir() {
            collected.folder(source)?;
        } else {
            let name = source.file_name().unwrap_or_default().to_string_lossy();
            if archive_stem(&name).is_none() && source.exists() {
                return Err(Error::format(source, "it is neither a folder nor a tar archive (.tar, .tar.gz, .tgz)"));
            }
            collected.archive(&if name.ends_with(".tar") {
                source.clone()
            } else {
                plain_tar(source, &options.folder()?)?
            })?;
        }
    }
    Ok(collected)
}
