use std::path::Path;

use super::*;
use crate::error::Error;

fn sample(number: u8, is_mask: bool) -> Sample {
    let mut sample = Sample::default();
    sample.set_picture([1, 2, 3]).fill(number);
    sample.target = Target::Class(number.into());
    if is_mask {
        sample.set_mask(6).fill(number);
    }
    sample
}

fn opened(path: &Path, samples: usize) -> Result<Store> {
    let store = Store::new(Cache::Disk(path.to_owned()), samples);
    store.prepare("test", samples, "map")?;
    Ok(store)
}

/// What is there of each of four samples.
fn found(store: &Store) -> [bool; 4] {
    [0, 1, 2, 3].map(|number| {
        let mut read = Sample { input: Values::F32(vec![1.0]), ..Sample::default() };
        let is_there = store.get(number, &mut read).expect("it reads");
        assert!(!is_there || read == sample(number as u8, number == 1), "{read:?}");
        is_there
    })
}

#[test]
fn a_file_holds_samples_from_run_to_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("samples");
    let store = opened(&path, 4).expect("a new file");
    for number in [3, 1, 0] {
        store.put(number, &sample(number as u8, number == 1)).expect("it writes");
    }
    assert_eq!(found(&store), [true, true, false, true]);
    assert!(matches!(opened(&path, 4), Err(Error::Format { .. })), "one run at a time");
    drop(store);
    assert_eq!(found(&opened(&path, 4).expect("the same data")), [true, true, false, true]);
    let error = opened(&path, 5).err().expect("other data").to_string();
    assert!(error.contains("4 samples of test, map") && error.contains("5 samples of test"), "{error}");

    // a table
    let mut table = sample(0, false);
    table.shape = vec![2];
    table.input = Values::F32(vec![0.5, -3.0]);
    let store = opened(&path, 4).expect("the same data");
    store.put(2, &table).expect("it writes");
    let mut read = Sample::default();
    assert!(store.get(2, &mut read).expect("it reads") && read == table);

    // with numbers to predict
    let store = opened(&folder.path().join("numbers"), 4).expect("a new file");
    table.set_numbers(&[1.5, -7.25]);
    store.put(2, &table).expect("it writes");
    assert!(store.get(2, &mut read).expect("it reads") && read == table);
}

/// Writes the first two of four samples to `path`: the file, and the length of its head.
fn two_of_four(path: &Path) -> (Vec<u8>, usize) {
    let store = opened(path, 4).expect("a new file");
    for number in 0..2 {
        store.put(number, &sample(number as u8, number == 1)).expect("it writes");
    }
    drop(store);
    let whole = std::fs::read(path).expect("it is there");
    let head = whole.iter().position(|&byte| byte == b'\n').expect("a line") + 1;
    (whole, head)
}

/// Wherever a file ends, the samples before that are there, and the rest can be written.
#[test]
fn a_file_that_was_cut_off_is_mended() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("samples");
    let (whole, head) = two_of_four(&path);
    let first = head + 16 + (whole[head + 8] as usize);
    for end in head..whole.len() {
        std::fs::write(&path, &whole[..end]).expect("it writes");
        let store = opened(&path, 4).expect("a part of a file");
        assert_eq!(found(&store), [end >= first, false, false, false]);
        for number in 0..4 {
            store.put(number, &sample(number as u8, number == 1)).expect("it writes");
        }
        drop(store);
        assert_eq!(found(&opened(&path, 4).expect("a mended file")), [true; 4]);
    }
}

/// A byte that changed makes a sample be read again from the data, not a wrong one.
#[test]
fn what_was_damaged_is_not_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("samples");
    let (whole, head) = two_of_four(&path);
    for place in head..whole.len() {
        let mut damaged = whole.clone();
        damaged[place] ^= 0x11;
        std::fs::write(&path, &damaged).expect("it writes");
        let store = opened(&path, 4).expect("the head is whole");
        let before = found(&store);
        assert!(!(before[0] && before[1]), "byte {place} is in one of them");
        store.put(0, &sample(0, false)).expect("it writes");
        assert!(found(&store)[0]);
    }
}
