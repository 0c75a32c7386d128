//! Columns of tables: what separates them, which are features, in which order, and which has the classes.

use std::collections::{HashMap, HashSet};
use std::io::{self, BufRead as _, BufReader, Cursor, Read};

use csv::StringRecord;

use crate::data::Normalization;
use crate::units::some;

use super::TableTarget;

/// What may separate columns. Of equally many in a line the last one does: beside semicolons, commas are decimal ones.
const SEPARATORS: [u8; 3] = [b',', b';', b'\t'];
/// As much of a table as is looked at for its separator.
const MAX_START: u64 = 1 << 20;

/// Names of columns that an error lists.
const MAX_LISTED: usize = 32;

/// The columns that a model has learned from.
#[derive(Clone, PartialEq, Debug)]
pub struct Columns {
    /// Their names, in the order in which the model is given them; empty if the table had none.
    pub names: Vec<String>,
    /// What they were standardised by.
    pub scales: Normalization,
}

/// What separates the columns of a line: what of comma, semicolon and tab stands in it most often, outside of quotes;
/// `None` if it has none of them.
pub(crate) fn separator(line: &[u8]) -> Option<u8> {
    let (mut quoted, mut counts) = (false, [0; SEPARATORS.len()]);
    for &byte in line {
        quoted ^= byte == b'"';
        match SEPARATORS.iter().position(|&separator| separator == byte) {
            Some(place) if !quoted => counts[place] += 1,
            _ if matches!(byte, b'\n' | b'\r') && !quoted && counts != [0; 3] => break,
            _ => {}
        }
    }
    let (most, separator) = counts.into_iter().zip(SEPARATORS).max_by_key(|&(count, _)| count)?;
    (most > 0).then_some(separator)
}

/// A whole table with what separates its columns, by its first line that is not empty.
pub(super) fn separated(text: impl Read) -> io::Result<(u8, impl Read)> {
    let mut text = BufReader::new(text);
    let mut start = Vec::new();
    while text.by_ref().take(MAX_START - start.len() as u64).read_until(b'\n', &mut start)? > 0 {
        if !start.trim_ascii().is_empty() {
            break;
        }
    }
    let separator = separator(&start).unwrap_or(SEPARATORS[0]);
    Ok((separator, Cursor::new(start).chain(text)))
}

/// Whether a field has a number, and so is no column's name.
pub(super) fn is_number(text: &str) -> bool {
    text.parse::<f32>().is_ok()
}

/// Whether a first line has the columns' names: it has no number, but for the column `label`, or a word that is one of
/// the names that a model has `learned` from.
pub(crate) fn has_names(first: &StringRecord, label: Option<usize>, learned: &[String]) -> bool {
    let words: HashSet<&str> =
        learned.iter().map(String::as_str).filter(|name| !name.is_empty() && !is_number(name)).collect();
    let is_value = |(place, text): (usize, &str)| Some(place) != label && is_number(text);
    !first.iter().enumerate().any(is_value) || first.iter().any(|text| words.contains(text))
}

/// Where the columns of these names are in a table with this first line; of several with one name, the first that is
/// not taken. The error names those that are missing.
pub(crate) fn find(names: &[String], first: &StringRecord) -> Result<Vec<usize>, String> {
    let mut places = HashMap::<&str, Vec<usize>>::new();
    for place in (0..first.len()).rev() {
        places.entry(&first[place]).or_default().push(place);
    }
    let mut place_of = |name: &String| places.get_mut(name.as_str()).and_then(Vec::pop).ok_or_else(|| name.clone());
    let (mut found, mut missing) = (Vec::with_capacity(names.len()), Vec::new());
    names.iter().for_each(|name| match place_of(name) {
        Ok(place) => found.push(place),
        Err(name) => missing.push(format!("`{name}`")),
    });
    if missing.is_empty() {
        return Ok(found);
    }
    let columns = if missing.len() == 1 { "column" } else { "columns" };
    let (missing, has) = (some(&missing), listed(first));
    Err(format!("it lacks the {columns} {missing}, which the model has learned from: its first line has {has}"))
}

/// The fields of a line, or the first of very many.
fn listed(line: &StringRecord) -> String {
    let first = line.iter().take(MAX_LISTED).collect::<Vec<_>>().join(", ");
    if line.len() > MAX_LISTED { first + ", ..." } else { first }
}

/// What the columns of a table are.
pub(super) struct Layout {
    /// Whether the first line has their names.
    pub(super) has_names: bool,
    /// Where the classes are, or the numbers that are to be predicted.
    pub(super) target: usize,
    /// Where the features are, in the order in which a model is given them.
    pub(super) features: Vec<usize>,
    /// Names of the features, if they are known.
    pub(super) names: Vec<String>,
}

impl Layout {
    /// That of a table with this first line, with what is asked for in the column that `asked` names, or in the last one
    /// that is no feature. `learned` are the names of the features of another table, which are looked for in this one, if
    /// it has names.
    pub(super) fn new(first: &StringRecord, asked: &TableTarget, learned: &[String]) -> Result<Self, String> {
        let last = first.len() - 1;
        let what = if matches!(asked, TableTarget::Class(_)) { "class" } else { "number to predict" };
        let (target, names_target) = match asked.column() {
            None => (None, false),
            Some(name) => column(first, name, asked).map(|(column, by_name)| (Some(column), by_name))?,
        };
        if last == 0 {
            let what = format!("features and a {what}, separated by commas, semicolons or tabs");
            return Err(format!("its first line has one column: expected {what}"));
        }
        let found = find(learned, first);
        // names may be numbers
        let has_all = found.is_ok() && !learned.is_empty();
        let has_names = names_target || has_all || has_names(first, Some(target.unwrap_or(last)), learned);
        if learned.is_empty() || !has_names {
            let target = target.unwrap_or(last);
            let features: Vec<usize> = (0..=last).filter(|&place| place != target).collect();
            let own = features.iter().filter(|_| has_names).map(|&place| first[place].to_owned()).collect();
            let names = if learned.is_empty() { own } else { learned.to_vec() };
            return Ok(Self { has_names, target, features, names });
        }
        let features = found?;
        let mut is_free = vec![true; first.len()];
        features.iter().for_each(|&place| is_free[place] = false);
        let target = target.or_else(|| is_free.iter().rposition(|&free| free)).ok_or_else(|| {
            format!("it has features alone, and no column with a {what}: its first line has {}", listed(first))
        })?;
        Ok(Self { has_names, target, features, names: learned.to_vec() })
    }
}

/// The column that goes by `name`, and whether it does by its name, which the first line has then; else by its number.
fn column(first: &StringRecord, name: &str, asked: &TableTarget) -> Result<(usize, bool), String> {
    // of a line of numbers, one is a column's name only where they count the columns, as tables without names of
    // their own are written by some programs
    let counts = || first.iter().enumerate().all(|(place, text)| text == place.to_string());
    let named = |place: usize| {
        let others = || first.iter().enumerate().filter(|&(other, _)| other != place);
        !is_number(name) || !others().any(|(_, text)| is_number(text)) || counts()
    };
    if let Some(place) = first.iter().position(|own| own == name).filter(|&place| named(place)) {
        return Ok((place, true));
    }
    match name.parse::<usize>() {
        Ok(number) if (1..=first.len()).contains(&number) => Ok((number - 1, false)),
        Ok(_) => Err(format!("there is no column {name}: its first line has {}, counted from 1", first.len())),
        Err(_) => Err(format!(
            "there is no column `{name}` in its first line, which has: {}; where columns have no names, their number \
             says which one it is: `,{}={}` is the last",
            listed(first),
            if matches!(asked, TableTarget::Class(_)) { "label" } else { "target" },
            first.len()
        )),
    }
}
