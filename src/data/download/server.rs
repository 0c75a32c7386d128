//! A server of our own, for tests, that can be as bad as those of others.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What the server does with a request.
#[derive(Clone, Copy, PartialEq)]
pub(in crate::data) enum Answer {
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
pub(in crate::data) struct Server {
    pub(in crate::data) address: String,
    /// The heads of the requests.
    pub(in crate::data) requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// A server of these files, by name, all of which have this tag.
    pub(in crate::data) fn new(files: &[(&str, &[u8])], answers: &[Answer], tag: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = format!("http://{}", listener.local_addr().expect("bound"));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let files: Vec<_> = files.iter().map(|(name, contents)| (name.to_string(), contents.to_vec())).collect();
        let (heads, mut answers) = (Arc::clone(&requests), Vec::from(answers).into_iter());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.expect("a connection");
                let head = read_head(&stream);
                heads.lock().expect("no panic").push(head.clone());
                let path = head.split(' ').nth(1).unwrap_or_default();
                let file = files.iter().find(|(name, _)| path.ends_with(&format!("/{name}")));
                let (contents, default) =
                    file.map_or((&[][..], Answer::Status(404)), |(_, contents)| (contents, Answer::Serve));
                // a client that hangs up is no failure of the server
                let _ = answer(stream, &head, contents, answers.next().unwrap_or(default), tag);
            }
        });
        Self { address, requests }
    }

    pub(in crate::data) fn ranges(&self) -> Vec<Option<String>> {
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

pub(in crate::data) fn value<'a>(head: &'a str, name: &str) -> Option<&'a str> {
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
