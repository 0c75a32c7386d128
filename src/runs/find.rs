//! Which folders are those of runs.

use std::cmp::Ordering;
use std::fs::{DirEntry, read_dir};
use std::path::{Path, PathBuf};

use crate::train::record::{METRICS, RUN};

use super::events::is_event_file;

/// How far below the folder that is looked at.
const DEPTH: usize = 4;
/// Runs that are listed.
const MAX_RUNS: usize = 1_000;
/// Folders that are looked into.
const MAX_FOLDERS: usize = 10_000;
/// Entries of a folder that are looked at.
const MAX_ENTRIES: usize = 20_000;

/// All folders of runs in a folder: itself, and those up to four levels below it, at most 1000, in natural order
/// (`run-2` before `run-10`). A folder of a run has a `run.json`, a `metrics.jsonl` or an event file. Hidden folders
/// are passed over, and so are links to folders that are in it anyway. What cannot be read has no runs.
pub fn find(root: &Path) -> Vec<PathBuf> {
    let mut search = Search { root: root.canonicalize().ok(), folders: 0, runs: Vec::new() };
    search.visit(root, DEPTH);
    search.runs.sort_by(|a, b| natural_order(&a.to_string_lossy(), &b.to_string_lossy()).then_with(|| a.cmp(b)));
    search.runs
}

struct Search {
    root: Option<PathBuf>,
    folders: usize,
    runs: Vec<PathBuf>,
}

impl Search {
    fn visit(&mut self, folder: &Path, depth: usize) {
        self.folders += 1;
        let (mut is_run, mut below) = (false, Vec::new());
        for entry in read_dir(folder).into_iter().flatten().flatten().take(MAX_ENTRIES) {
            let name = entry.file_name();
            is_run |= name == METRICS || name == RUN || is_event_file(&name);
            if depth > 0 && !name.as_encoded_bytes().starts_with(b".") && self.is_new_folder(&entry) {
                below.push(entry.path());
            }
        }
        if is_run && self.runs.len() < MAX_RUNS {
            self.runs.push(folder.to_owned());
        }
        below.sort_by(|a, b| natural_order(&a.to_string_lossy(), &b.to_string_lossy()));
        for folder in below {
            if self.folders < MAX_FOLDERS && self.runs.len() < MAX_RUNS {
                self.visit(&folder, depth - 1);
            }
        }
    }

    /// Whether this is a folder, and none that is found elsewhere.
    fn is_new_folder(&self, entry: &DirEntry) -> bool {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => true,
            Ok(kind) if kind.is_symlink() => entry.path().canonicalize().is_ok_and(|target| {
                target.is_dir()
                    && self.root.as_ref().is_some_and(|root| !target.starts_with(root) && !root.starts_with(&target))
            }),
            _ => false,
        }
    }
}

/// As people sort: numbers in names by their size.
fn natural_order(a: &str, b: &str) -> Ordering {
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
