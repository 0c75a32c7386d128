//! Oxford-IIIT Pet (Parkhi et al. 2012), as it is published: `images/*.jpg`, `annotations/trimaps/*.png`, and lists of
//! names.

use std::collections::HashSet;
use std::path::Path;

use crate::data::Split;
use crate::data::files::read_file;
use crate::data::memory::stratified;
use crate::error::{Error, Result};

use super::masked::{Masked, Numbers};
use super::place::names_in;
use super::sizes::of_photographs;
use super::{HELD_OUT_KEY, HELD_OUT_PERCENT};

/// The longest list that is read: a hundred times the published one.
const MAX_LIST: u64 = 32 << 20;

/// Opens the folder that has `images` and `annotations` in it. The parts are those of `trainval.txt` and `test.txt`; if
/// neither is there, a fixed 20 % of each breed in `list.txt` is held out.
pub(super) fn open(folder: &Path) -> Result<Split<Masked>> {
    let annotations = folder.join("annotations");
    let there = [names_in(&folder.join("images"))?, names_in(&annotations.join("trimaps"))?];
    let there = there.map(|names| names.into_iter().collect::<HashSet<_>>());
    let list = |file: &str| {
        let path = annotations.join(file);
        let mut bytes = Vec::new();
        read_file(&path, MAX_LIST, &mut bytes)?;
        let mut files = Vec::new();
        let entries = parse_list(&path, &bytes)?;
        for entry in &entries {
            let name = &entry.name;
            let wanted = [("images", format!("{name}.jpg")), ("annotations/trimaps", format!("{name}.png"))];
            for ((below, file), there) in wanted.iter().zip(&there) {
                if !there.contains(file) {
                    let reason = format!(
                        "line {} names `{name}`, but there is no {}: unpack the archives again",
                        entry.line,
                        folder.join(below).join(file).display()
                    );
                    return Err(Error::format(&path, reason));
                }
            }
            files.push(wanted.map(|(below, file)| folder.join(below).join(file)));
        }
        Ok((entries, files))
    };
    let both_lists = ["trainval.txt", "test.txt"].iter().any(|file| annotations.join(file).exists());
    let parts = if both_lists {
        Split::new(list("trainval.txt")?.1, list("test.txt")?.1)
    } else {
        let (entries, files) = list("list.txt")?;
        let breeds: Vec<u32> = entries.iter().map(|entry| entry.breed).collect();
        let most = breeds.iter().max().map_or(0, |&breed| breed as usize + 1);
        let parts = stratified(&breeds, most, HELD_OUT_PERCENT, HELD_OUT_KEY);
        parts.map(|part| part.into_iter().map(|index| files[index].clone()).collect())
    };
    let classes = ["animal", "background", "border"].map(str::to_owned).into();
    // photographs of whatever size, always in colour: sizes are known to differ
    Masked::open("oxford-pets".into(), classes, Numbers::Trimap, parts, true, of_photographs)
}

/// A line of a list.
struct Entry {
    line: usize,
    /// Name of the picture's and the mask's files, without their endings.
    name: String,
    breed: u32,
}

/// Reads lines of a name, its breed from 1, its species and its number in the breed; `#` begins a comment.
fn parse_list(path: &Path, bytes: &[u8]) -> Result<Vec<Entry>> {
    let wrong = |line: usize, reason: &str| Error::format(path, format!("line {line}: {reason}"));
    let text = std::str::from_utf8(bytes).map_err(|_| Error::format(path, "it is not UTF-8"))?;
    let mut entries = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let number = number + 1;
        let mut fields = line.split_ascii_whitespace();
        let Some(name) = fields.next().filter(|name| !name.starts_with('#')) else { continue };
        if name.contains(['/', '\\']) || name.starts_with('.') {
            return Err(wrong(number, &format!("`{name}` is not the name of a picture")));
        }
        let breed = fields.next().and_then(|breed| breed.parse().ok()).filter(|breed| (1..=10_000).contains(breed));
        let breed = breed.ok_or_else(|| wrong(number, "expected a name and the number of its breed, from 1"))?;
        entries.push(Entry { line: number, name: name.into(), breed });
    }
    if entries.is_empty() {
        return Err(Error::format(path, "there is no picture in this list: unpack the archives again"));
    }
    Ok(entries)
}
