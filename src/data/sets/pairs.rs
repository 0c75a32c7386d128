//! Pictures in one folder, and masks of the same names in another.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use crate::data::files::{MAX_PICTURE_BYTES, is_picture_name, read_file, read_mask};
use crate::data::memory::stratified;
use crate::data::{IGNORED, Split};
use crate::error::{Error, Result};

use super::folder::HELD_OUT_NAMES;
use super::masked::{Masked, Numbers};
use super::place::names_in;
use super::sizes::of_photographs;
use super::{HELD_OUT_KEY, HELD_OUT_PERCENT, OpenOptions};

/// The file that names the classes, beside the masks.
const CLASSES: &str = "classes.txt";
const MAX_CLASSES_BYTES: u64 = 1 << 20;

/// Opens `pairs:IMAGES,MASKS`. A mask has the name of its picture, whatever the endings are; it is an indexed or grey
/// PNG with the number of a class in each pixel, from 0, and 255 where it is not known ([`IGNORED`]). A file
/// `classes.txt` beside the masks names the classes, one a line; without one, all masks are read to know how many there
/// are.
///
/// Both folders may have folders `train`, `test` and `val` (or `valid`, `validation`) in them; where there is no `test`,
/// `val` is what is tested with. Where neither is there, a fixed 20 % is held out.
///
/// # Errors
/// If a picture has no mask or a mask no picture, or if there are too few.
pub fn open_pairs(images: &Path, masks: &Path, options: &OpenOptions) -> Result<Split<Masked>> {
    let is_in_parts = images.join("train").is_dir() && masks.join("train").is_dir();
    let of_part = |part: &str| pair(&images.join(part), &masks.join(part));
    let is_there = |name: &&str| is_in_parts && images.join(name).is_dir();
    let [validation, test] = HELD_OUT_NAMES.map(|names| names.iter().copied().find(is_there));
    let parts: Split<Vec<[PathBuf; 2]>> = if let Some(test) = test.or(validation) {
        // alone, the validation part is what there is to test with
        let validation = validation.filter(|&name| name != test).map(of_part).transpose()?;
        Split { train: of_part("train")?, validation, test: of_part(test)? }
    } else {
        let all = if is_in_parts { of_part("train")? } else { pair(images, masks)? };
        let parts = stratified(&vec![0; all.len()], 1, HELD_OUT_PERCENT, HELD_OUT_KEY);
        parts.map(|part| part.into_iter().map(|index| all[index].clone()).collect())
    };
    if let Some((_, purpose)) =
        [(&parts.train, "train on"), (&parts.test, "test with")].into_iter().find(|(part, _)| part.is_empty())
    {
        return Err(Error::format(images, format!("there are too few pictures: none is left to {purpose}")));
    }
    let named = masks.join(CLASSES);
    let classes = if named.is_file() {
        read_classes(&named)?
    } else {
        count_classes(&parts.parts().flatten().collect::<Vec<_>>())?
    };
    let name = format!("pairs:{},{}", images.display(), masks.display());
    Masked::open(name, classes, Numbers::Classes, parts, options.any_size, of_photographs)
}

/// Pictures and masks by name, sorted.
fn pair(images: &Path, masks: &Path) -> Result<Vec<[PathBuf; 2]>> {
    let by_stem = |folder: &Path| -> Result<BTreeMap<String, PathBuf>> {
        let mut files = BTreeMap::new();
        for name in names_in(folder)?.into_iter().filter(|name| is_picture_name(name)) {
            let stem = name.rsplit_once('.').map_or(name.as_str(), |(stem, _)| stem);
            if let Some(other) = files.insert(stem.to_owned(), folder.join(&name)) {
                return Err(Error::format(other, format!("{name} has the same name: which is it?")));
            }
        }
        Ok(files)
    };
    let (pictures, mut mask_files) = (by_stem(images)?, by_stem(masks)?);
    let mut pairs = Vec::new();
    for (stem, picture) in pictures {
        let Some(mask) = mask_files.remove(&stem) else {
            return Err(Error::format(picture, format!("there is no mask `{stem}.png` for it in {}", masks.display())));
        };
        pairs.push([picture, mask]);
    }
    match mask_files.into_values().next() {
        Some(mask) => Err(Error::format(mask, format!("there is no picture for this mask in {}", images.display()))),
        None if pairs.is_empty() => Err(Error::format(images, "there is no picture in this folder")),
        None => Ok(pairs),
    }
}

fn read_classes(path: &Path) -> Result<Vec<String>> {
    let mut bytes = Vec::new();
    read_file(path, MAX_CLASSES_BYTES, &mut bytes)?;
    let text = String::from_utf8(bytes).map_err(|_| Error::format(path, "it is not UTF-8"))?;
    let classes: Vec<String> = text.lines().map(|line| line.trim().to_owned()).collect();
    match classes.len() {
        2..=255 if classes.iter().all(|class| !class.is_empty()) => Ok(classes),
        2..=255 => Err(Error::format(path, "a line is empty: expected the name of a class in each")),
        many => Err(Error::format(path, format!("it names {many} classes, but there may be 2 to 255"))),
    }
}

/// One class for each number up to the largest in any mask.
fn count_classes(pairs: &[&[PathBuf; 2]]) -> Result<Vec<String>> {
    let largest = |[_, mask]: &&[PathBuf; 2]| -> Result<u8> {
        let (mut bytes, mut numbers) = (Vec::new(), Vec::new());
        read_file(mask, MAX_PICTURE_BYTES, &mut bytes)?;
        read_mask(&bytes, &mut numbers).map_err(|reason| Error::format(mask, reason))?;
        Ok(numbers.into_iter().filter(|&number| number != IGNORED).max().unwrap_or(0))
    };
    let largest = pairs.par_iter().map(largest).try_reduce(|| 0, |a, b| Ok(a.max(b)))?;
    if largest == 0 {
        let reason = "all pixels of the masks are 0, or 255, which is for what is not known: number what is to be found from 1 on";
        return Err(Error::format(&pairs[0][1], reason));
    }
    Ok((0..=largest).map(|class| format!("class {class}")).collect())
}
