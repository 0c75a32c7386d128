//! Transfers from a server of our own that can be as bad as those of others.

use std::io::{BufRead as _, BufReader};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use super::*;

/// What the server does with a request.
#[derive(Clone, Copy, PartialEq)]
enum Answer {
    /// Sends what is asked for.
    Serve,
    /// Sends so many bytes of it, and hangs up.
    Cut(usize),
    /// Sends all, whatever is asked for.
    IgnoreRange,
    /// Sends a status and nothing else.
    Status(u16),
    /// Says that there is more than it sends, and more than there should be.
    TooMuch,
}

/// Answers one request after the other, each as told; more than were told are served.
struct Server {
    address: String,
    /// The heads of the requests.
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn new(contents: &'static [u8], answers: &[Answer]) -> Self {
        Self::tagged(contents, answers, "\"v1\"")
    }

    fn tagged(contents: &'static [u8], answers: &[Answer], tag: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = format!("http://{}", listener.local_addr().expect("bound"));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (heads, mut answers) = (Arc::clone(&requests), answers.to_vec().into_iter());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.expect("a connection");
                let head = read_head(&stream);
                heads.lock().expect("no panic").push(head.clone());
                // a client that hangs up is no failure of the server
                let _ = answer(stream, &head, contents, answers.next().unwrap_or(Answer::Serve), tag);
            }
        });
        Self { address, requests }
    }

    fn ranges(&self) -> Vec<Option<String>> {
        let requests = self.requests.lock().expect("no panic");
        requests.iter().map(|head| value(head, "range").map(str::to_owned)).collect()
    }
}

fn read_head(stream: &TcpStream) -> String {
    let mut head = String::new();
    let mut reader = BufReader::new(stream);
    while reader.read_line(&mut head).is_ok_and(|read| read > 2) {}
    head
}

fn value<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        line.split_once(": ").filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    })
}

fn answer(mut stream: TcpStream, head: &str, contents: &[u8], answer: Answer, tag: &str) -> std::io::Result<()> {
    let asked = value(head, "range").and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok());
    let unchanged = value(head, "if-range").is_none_or(|known| known == tag);
    let from = asked.filter(|_| unchanged && answer != Answer::IgnoreRange).unwrap_or(0);
    let (body, status) = match answer {
        Answer::Status(status) => {
            return write!(stream, "HTTP/1.1 {status} no\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        }
        Answer::TooMuch => ([contents, b"and more"].concat(), "200 OK"),
        _ if from > 0 => (contents[from..].to_vec(), "206 Partial Content"),
        _ => (contents.to_vec(), "200 OK"),
    };
    write!(stream, "HTTP/1.1 {status}\r\netag: {tag}\r\ncontent-length: {}\r\nconnection: close\r\n", body.len())?;
    if from > 0 {
        write!(stream, "content-range: bytes {from}-{}/{}\r\n", contents.len() - 1, contents.len())?;
    }
    stream.write_all(b"\r\n")?;
    let sent = if let Answer::Cut(most) = answer { most.min(body.len()) } else { body.len() };
    stream.write_all(&body[..sent])
}

const CONTENTS: &[u8] = &[7; 100_000];

fn hash(contents: &[u8]) -> String {
    Sha256::digest(contents).iter().map(|byte| format!("{byte:02x}")).collect()
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
        let (to, sha256) = (self.path(), hash(contents));
        let mut heard = Vec::new();
        let url = format!("{}/file.bin", server.address);
        let transfer = Transfer { url, to: &to, bytes: contents.len() as u64, sha256: &sha256 };
        (transfer.run(&mut |done| heard.push(done)), heard)
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
    let (place, server) = (Place::new(), Server::new(CONTENTS, &[]));
    let (done, heard) = place.fetch(&server, CONTENTS);
    done.expect("it is served");
    assert_eq!(fs::read(place.path()).expect("written"), CONTENTS);
    assert_eq!(place.names(), ["file.bin"], "nothing else is left");
    assert!(heard.is_sorted() && heard[0] == 0 && heard.last() == Some(&100_000));
    assert_eq!(server.ranges(), [None]);
}

#[test]
fn a_broken_transfer_goes_on_where_it_was() {
    let (place, server) = (Place::new(), Server::new(CONTENTS, &[Answer::Cut(30_000), Answer::Cut(20_000)]));
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
    let broken = Server::new(CONTENTS, &[Answer::Cut(40_000), Answer::Cut(0), Answer::Cut(0), Answer::Cut(0)]);
    let error = place.fetch(&broken, CONTENTS).0.expect_err("it never comes to its end").to_string();
    assert!(error.contains("39.1 KiB of 97.7 KiB are kept") && error.contains("goes on from there"), "{error}");
    assert_eq!(place.names(), ["file.bin.part", "file.bin.tag"]);

    let server = Server::new(CONTENTS, &[]);
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
    place.fetch(&Server::new(CONTENTS, &broken), CONTENTS).0.expect_err("it never comes to its end");
    let server = Server::tagged(OTHER, &[], "\"v2\"");
    place.fetch(&server, OTHER).0.expect("it is served");
    assert_eq!(fs::read(place.path()).expect("written"), OTHER);
    // servers that send all of it, or nothing, when they are asked to go on
    for answer in [Answer::IgnoreRange, Answer::Status(416)] {
        let place = Place::new();
        place.fetch(&Server::new(CONTENTS, &broken), CONTENTS).0.expect_err("it never comes to its end");
        place.fetch(&Server::new(CONTENTS, &[answer]), CONTENTS).0.expect("it is served");
        assert_eq!(fs::read(place.path()).expect("written"), CONTENTS);
    }
}

#[test]
fn what_is_not_the_file_is_not_kept() {
    const WRONG: &[u8] = &[8; 100_000];
    let place = Place::new();
    let error = place.fetch(&Server::new(WRONG, &[]), CONTENTS).0.expect_err("it is another file").to_string();
    assert!(error.contains(&hash(WRONG)) && error.contains(&hash(CONTENTS)) && error.contains("file.bin"), "{error}");
    assert!(place.names().is_empty());
    // bytes behind the end are not even read
    place.fetch(&Server::new(CONTENTS, &[Answer::TooMuch]), CONTENTS).0.expect("its beginning is the file");
    assert_eq!(fs::read(place.path()).expect("written"), CONTENTS);
}

#[test]
fn what_the_server_refuses_is_told_with_its_address() {
    let (place, server) = (Place::new(), Server::new(CONTENTS, &[Answer::Status(404)]));
    let error = place.fetch(&server, CONTENTS).0.expect_err("it is not there").to_string();
    assert!(error.contains(&server.address) && error.contains("404"), "{error}");
    assert_eq!(server.ranges().len(), 1, "that does not change by asking again");
    let server = Server::new(CONTENTS, &[Answer::Status(503), Answer::Status(429)]);
    place.fetch(&server, CONTENTS).0.expect("that does");
}

#[test]
fn nobody_there_is_told_with_what_to_do() {
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = format!("http://{}", listener.local_addr().expect("bound"));
    drop(listener);
    let nobody = Server { address, requests: Arc::default() };
    let error = place.fetch(&nobody, CONTENTS).0.expect_err("nobody answers").to_string();
    assert!(error.contains(&nobody.address) && error.contains(place.path().to_str().expect("UTF-8")), "{error}");
}

#[test]
fn one_process_at_a_time() {
    let place = Place::new();
    let other = File::create(place.0.path().join("file.bin.part")).expect("writable");
    other.lock().expect("nobody else has it");
    let error = place.fetch(&Server::new(CONTENTS, &[]), CONTENTS).0.expect_err("it is taken").to_string();
    assert!(error.contains("another process"), "{error}");
}
