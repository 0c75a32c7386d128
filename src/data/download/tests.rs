//! Transfers from a server of our own that can be as bad as those of others.

use std::net::TcpListener;

use super::server::{Answer, Server, value};
use super::*;

const CONTENTS: &[u8] = &[7; 100_000];

fn hash(contents: &[u8]) -> String {
    Sha256::digest(contents).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A server that has these contents under the one name that is asked for.
fn serve(contents: &[u8], answers: &[Answer]) -> Server {
    Server::new(&[("file.bin", contents)], answers, "\"v1\"")
}

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("file.bin")
    }

    fn fetch(&self, server: &Server, contents: &[u8]) -> (Result<()>, Vec<u64>) {
        self.fetch_until(None, server, contents)
    }

    /// The same, ended once so many bytes are there.
    fn fetch_until(&self, most: Option<u64>, server: &Server, contents: &[u8]) -> (Result<()>, Vec<u64>) {
        let (to, sha256) = (self.path(), hash(contents));
        let mut heard = Vec::new();
        let url = format!("{}/file.bin", server.address);
        let transfer = Transfer { url, to: &to, bytes: contents.len() as u64, sha256: &sha256 };
        let hears = &mut |done| {
            heard.push(done);
            if most.is_some_and(|most| done >= most) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        (transfer.run(hears), heard)
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(self.0.path())
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
            .collect();
        names.sort();
        names
    }
}

#[test]
fn a_file_is_fetched_whole() {
    let (place, server) = (Place::new(), serve(CONTENTS, &[]));
    let (done, heard) = place.fetch(&server, CONTENTS);
    done.expect("it is served");
    assert_eq!(fs::read(place.path()).expect("written"), CONTENTS);
    assert_eq!(place.names(), ["file.bin"], "nothing else is left");
    assert!(heard.is_sorted() && heard[0] == 0 && heard.last() == Some(&100_000));
    assert_eq!(server.ranges(), [None]);
}

#[test]
fn a_transfer_is_stopped_and_goes_on_later() {
    let (place, server) = (Place::new(), serve(CONTENTS, &[]));
    let (stopped, heard) = place.fetch_until(Some(1), &server, CONTENTS);
    let Err(Error::Stopped { kept }) = stopped else { panic!("{stopped:?}") };
    assert!(kept.contains("are kept"), "{kept}");
    let there = *heard.last().expect("it was heard of");
    assert!(there > 0 && there < 100_000 && !place.path().exists());
    let at_once = place.fetch_until(Some(0), &server, CONTENTS).0;
    assert!(matches!(at_once, Err(Error::Stopped { .. })), "{at_once:?}");
    place.fetch(&server, CONTENTS).0.expect("it is served");
    assert_eq!(fs::read(place.path()).expect("written"), CONTENTS);
    assert_eq!(server.ranges(), [None, Some(format!("bytes={there}-"))]);
}

#[test]
fn a_broken_transfer_goes_on_where_it_was() {
    let (place, server) = (Place::new(), serve(CONTENTS, &[Answer::Cut(30_000), Answer::Cut(20_000)]));
    let (done, heard) = place.fetch(&server, CONTENTS);
    done.expect("it is served in three parts");
    assert_eq!(fs::read(place.path()).expect("written"), CONTENTS);
    assert_eq!(server.ranges(), [None, Some("bytes=30000-".into()), Some("bytes=50000-".into())]);
    let requests = server.requests.lock().expect("no panic");
    assert_eq!(value(&requests[1], "if-range"), Some("\"v1\""));
    assert!(heard.is_sorted());
}

#[test]
fn another_run_goes_on_where_one_was_given_up() {
    let place = Place::new();
    let broken = serve(CONTENTS, &[Answer::Cut(40_000), Answer::Cut(0), Answer::Cut(0), Answer::Cut(0)]);
    let error = place.fetch(&broken, CONTENTS).0.expect_err("it never comes to its end").to_string();
    assert!(error.contains("39.1 KiB of 97.7 KiB are kept") && error.contains("goes on from there"), "{error}");
    assert_eq!(place.names(), ["file.bin.part", "file.bin.tag"]);

    let server = serve(CONTENTS, &[]);
    place.fetch(&server, CONTENTS).0.expect("it is served");
    assert_eq!(server.ranges(), [Some("bytes=40000-".into())]);
    assert_eq!(place.names(), ["file.bin"]);
    assert_eq!(fs::read(place.path()).expect("written"), CONTENTS);
}

#[test]
fn what_changed_since_is_fetched_anew() {
    const OTHER: &[u8] = &[9; 100_000];
    let place = Place::new();
    let broken = [Answer::Cut(40_000), Answer::Cut(0), Answer::Cut(0), Answer::Cut(0)];
    place.fetch(&serve(CONTENTS, &broken), CONTENTS).0.expect_err("it never comes to its end");
    let server = Server::new(&[("file.bin", OTHER)], &[], "\"v2\"");
    place.fetch(&server, OTHER).0.expect("it is served");
    assert_eq!(fs::read(place.path()).expect("written"), OTHER);
    // servers that send all of it, or nothing, when they are asked to go on
    for answer in [Answer::IgnoreRange, Answer::Status(416)] {
        let place = Place::new();
        place.fetch(&serve(CONTENTS, &broken), CONTENTS).0.expect_err("it never comes to its end");
        place.fetch(&serve(CONTENTS, &[answer]), CONTENTS).0.expect("it is served");
        assert_eq!(fs::read(place.path()).expect("written"), CONTENTS);
    }
}

#[test]
fn what_is_not_the_file_is_not_kept() {
    const WRONG: &[u8] = &[8; 100_000];
    let place = Place::new();
    let error = place.fetch(&serve(WRONG, &[]), CONTENTS).0.expect_err("it is another file").to_string();
    assert!(error.contains(&hash(WRONG)) && error.contains(&hash(CONTENTS)) && error.contains("file.bin"), "{error}");
    assert!(place.names().is_empty());
    // bytes behind the end are not even read
    place.fetch(&serve(CONTENTS, &[Answer::TooMuch]), CONTENTS).0.expect("its beginning is the file");
    assert_eq!(fs::read(place.path()).expect("written"), CONTENTS);
}

#[test]
fn what_the_server_refuses_is_told_with_its_address() {
    let (place, server) = (Place::new(), serve(CONTENTS, &[Answer::Status(404)]));
    let error = place.fetch(&server, CONTENTS).0.expect_err("it is not there").to_string();
    assert!(error.contains(&server.address) && error.contains("404"), "{error}");
    assert_eq!(server.ranges().len(), 1, "that does not change by asking again");
    let server = serve(CONTENTS, &[Answer::Status(503), Answer::Status(429)]);
    place.fetch(&server, CONTENTS).0.expect("that does");
}

#[test]
fn nobody_there_is_told_with_what_to_do() {
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = format!("http://{}", listener.local_addr().expect("bound"));
    drop(listener);
    let nobody = Server { address, requests: std::sync::Arc::default() };
    let error = place.fetch(&nobody, CONTENTS).0.expect_err("nobody answers").to_string();
    assert!(error.contains(&nobody.address) && error.contains(place.path().to_str().expect("UTF-8")), "{error}");
    assert!(!error.contains("are kept") && place.names().is_empty(), "there is nothing to keep: {error}");
}

#[test]
fn a_name_that_cannot_be_looked_up_is_a_matter_of_the_connection() {
    let place = Place::new();
    let path = place.path();
    let transfer = Transfer { url: String::new(), to: &path, bytes: 0, sha256: "" };
    for words in
        ["failed to lookup address information: Temporary failure in name resolution", "No such host is known."]
    {
        let said = transfer.describe(&ureq::Error::Io(std::io::Error::other(words)));
        assert!(said.contains("is there a connection?") && said.contains(words), "{said}");
    }
    let said = transfer.describe(&ureq::Error::Io(std::io::Error::other("broken pipe")));
    assert!(!said.contains("connection"), "{said}");
}

#[test]
fn one_process_at_a_time() {
    let place = Place::new();
    let other = File::create(place.0.path().join("file.bin.part")).expect("writable");
    other.lock().expect("nobody else has it");
    let error = place.fetch(&serve(CONTENTS, &[]), CONTENTS).0.expect_err("it is taken").to_string();
    assert!(error.contains("another process"), "{error}");
}
