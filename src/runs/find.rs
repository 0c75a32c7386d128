//! Which folders are those of runs.

use std::cmp::{Ordering, Reverse};
use std::fs::{DirEntry, read_dir};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::train::record::{METRICS, RUN};

use super::events::is_event_file;

/// How far below the folder that is looked at.
const DEPTH: usize = 4;
/// Runs that are listed.
const MAX_RUNS: usize = 1_000;
/// Folders that are looked into.
const MAX_FOLDERS: usize = 10_000;
/// Folders of one level that are kept in mind to choose from.
const MAX_WAITING: usize = 50_000;
/// Entries of a folder that are looked at.
const MAX_ENTRIES: usize = 20_000;

/// All folders of runs in a folder: itself, and those up to four levels below it, in natural order (`run-2` before
/// `run-10`). Of more than 1000, and of more than 10,000 folders, those are taken that were changed last. A folder of a
/// run has a `run.json`, a `metrics.jsonl` or an event file. Hidden folders below are passed over, and so are links to
/// folders that are in it anyway. What cannot be read has no runs.
pub fn find(root: &Path) -> Vec<PathBuf> {
    search(root).runs.into_iter().map(|found| found.folder).collect()
}

/// What a search came to.
pub(super) struct Search {
    /// In natural order.
    pub(super) runs: Vec<Found>,
    /// Whether some folders were left out because there are so many.
    pub(super) is_cut: bool,
}

/// A folder.
pub(super) struct Found {
    pub(super) folder: PathBuf,
    /// See [`place`].
    pub(super) place: PathBuf,
}

/// Does what [`find`] says.
pub(super) fn search(root: &Path) -> Search {
    let mut search = Search { runs: Vec::new(), is_cut: false };
    let root = Found { folder: root.to_owned(), place: place(root) };
    let (root_place, mut left) = (root.place.clone(), MAX_FOLDERS);
    // level by level, as the newest are looked for in the whole of one
    let mut level = vec![root];
    for depth in 0..=DEPTH {
        search.is_cut |= keep_newest(&mut level, left);
        left -= level.len();
        let mut below = Vec::new();
        for found in level {
            let is_run = search.look_into(&found, &root_place, (depth < DEPTH).then_some(&mut below));
            if is_run {
                search.runs.push(found);
            }
        }
        level = below;
    }
    search.is_cut |= keep_newest(&mut search.runs, MAX_RUNS);
    search.runs.sort_by(|Found { folder: a, .. }, Found { folder: b, .. }| {
        natural_order(&a.to_string_lossy(), &b.to_string_lossy()).then_with(|| a.cmp(b))
    });
    search
}

/// Where a folder is: the same however it is named, as far as that can be told.
pub(crate) fn place(folder: &Path) -> PathBuf {
    folder.canonicalize().or_else(|_| std::path::absolute(folder)).unwrap_or_else(|_| folder.to_owned())
}

impl Search {
    /// Whether a folder is that of a run; the folders in it are added to `below`.
    fn look_into(&mut self, of: &Found, root: &Path, mut below: Option<&mut Vec<Found>>) -> bool {
        let mut is_run = false;
        for entry in read_dir(&of.folder).into_iter().flatten().flatten().take(MAX_ENTRIES) {
            let name = entry.file_name();
            is_run |= name == METRICS || name == RUN || is_event_file(&name);
            if let Some(below) = &mut below
                && !name.as_encoded_bytes().starts_with(b".")
                && let Some(place) = place_of_folder(&entry, of, root)
            {
                if below.len() < MAX_WAITING {
                    below.push(Found { folder: entry.path(), place });
                } else {
                    self.is_cut = true;
                }
            }
        }
        is_run
    }
}

/// The place of an entry if it is a folder, and none that is found elsewhere.
fn place_of_folder(entry: &DirEntry, of: &Found, root: &Path) -> Option<PathBuf> {
    let kind = entry.file_type().ok()?;
    if kind.is_dir() {
        return Some(of.place.join(entry.file_name()));
    }
    let target = kind.is_symlink().then(|| entry.path().canonicalize().ok())??;
    let is_new = target.is_dir() && !target.starts_with(root) && !root.starts_with(&target);
    is_new.then_some(target)
}

/// Leaves the folders that were changed last; whether there were more. A run that is written changes its folder.
fn keep_newest(folders: &mut Vec<Found>, most: usize) -> bool {
    let is_cut = folders.len() > most;
    if is_cut {
        let changed = |folder: &Path| -> Option<SystemTime> { std::fs::metadata(folder).ok()?.modified().ok() };
        folders.sort_by_cached_key(|found| Reverse(changed(&found.folder)));
        folders.truncate(most);
    }
    is_cut
}

/// As people sort: numbers in names by their size.
pub(crate) fn natural_order(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a, b);
    loop {
        let ((part_a, rest_a), (part_b, rest_b)) = (first_part(a), first_part(b));
        let order = match (number(part_a), number(part_b)) {
            (Some(a), Some(b)) => a.len().cmp(&b.len()).then_with(|| a.cmp(b)),
            _ => part_a.cmp(part_b),
        };
        if order != Ordering::Equal || part_a.is_empty() {
            return order;
        }
        (a, b) = (rest_a, rest_b);
    }
}

/// The digits that a text begins with, or else what is before the first digit; and the rest.
fn first_part(text: &str) -> (&str, &str) {
    let digits = text.starts_with(|first: char| first.is_ascii_digit());
    text.split_at(text.find(|next: char| next.is_ascii_digit() != digits).unwrap_or(text.len()))
}

/// A number without zeros before it.
fn number(part: &str) -> Option<&str> {
    part.starts_with(|first: char| first.is_ascii_digit()).then(|| part.trim_start_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_sorted_by_size() {
        let mut names =
            ["b", "run-10", "run-9", "run-2/b", "run-2", "a10b2", "a10b11", "run-010", "", "10", "9", "run"];
        names.sort_by(|a, b| natural_order(a, b));
        let expected = ["", "9", "10", "a10b2", "a10b11", "b", "run", "run-2", "run-2/b", "run-9", "run-10", "run-010"];
        assert_eq!(names, expected);
    }
}
