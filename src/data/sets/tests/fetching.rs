//! A published set, fetched from a server of our own.

use std::ops::ControlFlow;

use sha2::{Digest as _, Sha256};

use super::*;
use crate::data::download::server::{Answer, Server};
use crate::data::sets::fetch::fetch_missing;

/// A set of two files, one of which is to be unpacked, with the checksums of these contents.
fn published(address: &str, plain: &[u8], archive: &[u8]) -> &'static Published {
    let file = |name, unpacked, unpack, contents: &[u8]| PublishedFile {
        name,
        bytes: contents.len() as u64,
        sha256: Sha256::digest(contents).iter().map(|byte| format!("{byte:02x}")).collect::<String>().leak(),
        unpacked,
        unpack,
    };
    let files = vec![file("plain.gz", "plain", false, plain), file("images.tar.gz", "images", true, archive)];
    Box::leak(Box::new(Published {
        name: "made-here",
        about: "",
        licence: "",
        home: "",
        address: address.to_owned().leak(),
        files: files.leak(),
    }))
}

#[test]
fn a_set_is_fetched_checked_and_unpacked() {
    let archive = gzip(&tar(&[("images/", b""), ("images/a.txt", b"first"), ("images/deep/er/b.txt", b"second")]));
    let files: [(&str, &[u8]); 2] = [("plain.gz", b"plain"), ("images.tar.gz", &archive)];
    let server = Server::new(&files, &[Answer::Cut(3)], "\"1\"");
    let set = published(&format!("{}/some/where/", server.address), b"plain", &archive);
    let place = temporary();
    let folder = place.path().join("new/made-here");
    let mut heard = Vec::new();
    let mut fetch = || {
        fetch_missing(set, &folder, &OpenOptions::default(), &mut |progress: Progress<'_>| {
            heard.push((progress.file.to_owned(), progress.done, progress.total));
            ControlFlow::Continue(())
        })
    };
    fetch().expect("it is served");
    assert_eq!(fs::read(folder.join("plain.gz")).expect("fetched"), b"plain");
    assert_eq!(fs::read(folder.join("images/deep/er/b.txt")).expect("unpacked"), b"second");
    assert_eq!(fs::read_dir(&folder).expect("made").count(), 2, "what was unpacked of it is all that is kept");
    let asked = server.requests.lock().expect("no panic").len();
    assert_eq!(asked, 3, "one transfer broke");
    fetch().expect("it is there");
    assert_eq!(server.requests.lock().expect("no panic").len(), asked, "nothing is fetched twice");
    assert_eq!(heard.last(), Some(&("images.tar.gz".into(), archive.len() as u64, archive.len() as u64)));
}

#[test]
fn a_set_that_is_not_served_whole_is_not_there() {
    let archive = gzip(&raw_tar("images/../../evil.txt", tar::EntryType::Regular));
    let files: [(&str, &[u8]); 2] = [("plain.gz", b"plain"), ("images.tar.gz", &archive)];
    let server = Server::new(&files, &[], "\"1\"");
    let place = temporary();
    let folder = place.path().join("data/made-here");
    let fetch = |set| {
        fetch_missing(set, &folder, &OpenOptions::default(), &mut |_| ControlFlow::Continue(()))
            .expect_err("it is not what it should be")
            .to_string()
    };
    says(
        &fetch(published(&server.address, b"other", &archive)),
        &["SHA-256", "plain.gz", "missing too", "images.tar.gz"],
    );
    says(&fetch(published(&server.address, b"plain", &archive)), &["images.tar.gz", "`..`", "nothing was unpacked"]);
    // nobody answers there
    let (set, empty) = (published("http://127.0.0.1:9", b"more", b"and more"), place.path().join("empty"));
    let nowhere = fetch_missing(set, &empty, &OpenOptions::default(), &mut |_| ControlFlow::Continue(()))
        .expect_err("nobody answers");
    says(&nowhere.to_string(), &["127.0.0.1:9/plain.gz", "missing too", "127.0.0.1:9/images.tar.gz"]);
    assert!(!place.path().join("evil.txt").exists() && !folder.join("images").exists());
}
