//! Numbers for the places that check indices which come from data.
//!
//! A kernel that meets an index outside its range cannot raise an error; it clamps the index and leaves the number of
//! its place in the device's status word. The next read of that device turns the number back into an error.

use std::collections::HashMap;
use std::panic::Location;
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::error::Error;

/// A place that checks indices.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Site {
    /// The op that checks.
    pub(crate) op: String,
    /// The caller's line.
    pub(crate) location: &'static Location<'static>,
    /// Indices must be below it.
    pub(crate) bound: usize,
}

#[derive(Default)]
struct Table {
    sites: Vec<Site>,
    numbers: HashMap<Site, u32>,
}

static TABLE: LazyLock<Mutex<Table>> = LazyLock::new(Mutex::default);

/// The number of a place, never 0; the same place gets the same number, so that plans which contain it can be shared.
pub(crate) fn register(op: String, location: &'static Location<'static>, bound: usize) -> u32 {
    let site = Site { op, location, bound };
    let mut table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(&number) = table.numbers.get(&site) {
        return number;
    }
    table.sites.push(site.clone());
    let number = table.sites.len() as u32;
    table.numbers.insert(site, number);
    number
}

/// The place with this number.
pub(crate) fn lookup(number: u32) -> Option<Site> {
    let table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    table.sites.get((number as usize).checked_sub(1)?).cloned()
}

/// The error that a status word other than 0 stands for.
pub(crate) fn error(number: u32) -> Error {
    match lookup(number) {
        Some(site) => Error::IndexOutOfRange { op: site.op, location: site.location.to_string(), bound: site.bound },
        None => Error::IndexOutOfRange { op: format!("unregistered op {number}"), location: "?".into(), bound: 0 },
    }
}

/// The number that [`error`] made `error` of; 0 for other errors.
pub(crate) fn number(error: &Error) -> u32 {
    let Error::IndexOutOfRange { op, location, bound } = error else { return 0 };
    let table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    let same = |site: &Site| site.op == *op && site.bound == *bound && site.location.to_string() == *location;
    table.sites.iter().position(same).map_or(0, |position| position as u32 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_place_has_one_number() {
        let here = Location::caller();
        let first = register("gather".into(), here, 10);
        assert_ne!(first, 0);
        assert_eq!(register("gather".into(), here, 10), first);
        assert_ne!(register("gather".into(), here, 11), first);
        let Error::IndexOutOfRange { op, bound, .. } = error(first) else { panic!("another error") };
        assert_eq!((op.as_str(), bound), ("gather", 10));
        assert_eq!(number(&error(first)), first);
        assert_eq!(number(&Error::NoAdapter), 0);
        assert_eq!(lookup(0), None);
    }
}
