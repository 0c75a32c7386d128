//! Files fetched over HTTP: whole or not at all, resumed where a transfer broke, and checked.

#[cfg(test)]
pub(super) mod server;
#[cfg(test)]
mod tests;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek as _, SeekFrom, Write as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use ureq::http::{Response, StatusCode, header};
use ureq::{Agent, Body};

use crate::error::{Error, Result};
use crate::units;

/// How often a transfer is taken up again without having come any further.
const ATTEMPTS: u32 = 4;
/// What is waited before that, times the number of failures.
const PAUSE: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 300 });
/// How long the other side may say nothing.
const SILENCE: Duration = Duration::from_secs(60);

/// A file to be fetched.
pub(super) struct Transfer<'a> {
    /// Where it is.
    pub(super) url: String,
    /// Where it goes. Until it is whole, what there is of it lies beside, with `.part` added.
    pub(super) to: &'a Path,
    /// Its size.
    pub(super) bytes: u64,
    /// Its SHA-256, as hexadecimal digits.
    pub(super) sha256: &'a str,
}

/// Who hears how many bytes are there.
type Hears<'a> = dyn FnMut(u64) -> ControlFlow<()> + 'a;

/// Why a transfer ended early.
enum Broken {
    /// It may go on from where it is.
    Transient(String),
    /// It makes no sense to try again.
    Final(Error),
}

impl Transfer<'_> {
    /// Fetches the file. `progress` hears how many bytes are there, and may end it.
    ///
    /// # Errors
    /// If the server cannot be reached or does not have it, what it sends is not the file, or it cannot be written;
    /// [`Error::Stopped`] if `progress` ends it.
    pub(super) fn run(&self, progress: &mut Hears<'_>) -> Result<()> {
        let part = self.beside("part");
        let io = |error| Error::io(&part, error);
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&part).map_err(io)?;
        // some file systems know no locks
        if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
            return Err(self.failed("another process is fetching it: wait for that one"));
        }
        // who had it has removed it since, as nothing came
        if !part.exists() {
            return Err(self.failed("another process has just given it up: try again"));
        }
        if let Err(error) = self.fetch(&mut file, progress) {
            if file.metadata().is_ok_and(|metadata| metadata.len() == 0) {
                let _ = fs::remove_file(&part);
                let _ = fs::remove_file(self.beside("tag"));
            }
            return Err(error);
        }
        self.check(&mut file)?;
        // the rename must not reach the disk before the contents
        file.sync_all().map_err(io)?;
        fs::rename(&part, self.to).map_err(io)?;
        // it was of use only while the file was not whole
        let _ = fs::remove_file(self.beside("tag"));
        Ok(())
    }

    /// All attempts.
    fn fetch(&self, file: &mut File, progress: &mut Hears<'_>) -> Result<()> {
        let io = |error| Error::io(self.beside("part"), error);
        let agent: Agent = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(SILENCE))
            .timeout_per_read(Some(SILENCE))
            .accept_encoding("identity")
            .build()
            .into();
        let mut failures = 0;
        loop {
            let before = file.metadata().map_err(io)?.len();
            let reason = match self.go_on(&agent, file, progress) {
                Ok(()) => return Ok(()),
                Err(Broken::Final(error)) => return Err(error),
                Err(Broken::Transient(reason)) => reason,
            };
            let there = file.metadata().map_err(io)?.len();
            failures = if there > before { 1 } else { failures + 1 };
            if failures >= ATTEMPTS {
                return Err(self.kept(there, reason));
            }
            std::thread::sleep(PAUSE * failures);
        }
    }

    /// One attempt: fetches what is not in `file`.
    fn go_on(&self, agent: &Agent, file: &mut File, progress: &mut Hears<'_>) -> Result<(), Broken> {
        let write_error = |error| Broken::Final(Error::io(self.beside("part"), error));
        let mut there = file.metadata().map_err(write_error)?.len();
        if there > self.bytes {
            file.set_len(0).map_err(write_error)?;
            there = 0;
        }
        let told = |there, progress: &mut Hears<'_>| match progress(there) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Broken::Final(Error::Stopped { kept: self.what_is_kept(there) })),
        };
        told(there, progress)?;
        if there == self.bytes {
            return Ok(());
        }
        let mut request = agent.get(&self.url);
        if there > 0 {
            request = request.header(header::RANGE, format!("bytes={there}-"));
            // if the file has changed since, all of it is sent
            if let Ok(tag) = fs::read_to_string(self.beside("tag")) {
                request = request.header(header::IF_RANGE, tag);
            }
        }
        let response = request.call().map_err(|error| Broken::Transient(self.describe(&error)))?;
        match response.status() {
            StatusCode::PARTIAL_CONTENT if first_byte(&response) == Some(there) => {}
            StatusCode::OK => there = 0,
            StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE if there > 0 => {
                file.set_len(0).map_err(write_error)?;
                return Err(Broken::Transient(format!("the server did not go on from byte {there}")));
            }
            status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                return Err(Broken::Transient(format!("the server answers {status}")));
            }
            status => return Err(Broken::Final(self.failed(&format!("the server answers {status}")))),
        }
        file.set_len(there).and_then(|()| file.seek(SeekFrom::Start(there)).map(drop)).map_err(write_error)?;
        if let Some(tag) = validator(&response) {
            fs::write(self.beside("tag"), tag).map_err(write_error)?;
        }
        let mut body = response.into_body().into_with_config().limit(u64::MAX).reader();
        let mut buffer = vec![0; 1 << 16];
        while there < self.bytes {
            let read =
                body.read(&mut buffer).map_err(|error| Broken::Transient(format!("the transfer broke: {error}")))?;
            if read == 0 {
                return Err(Broken::Transient(format!("the transfer ended after {there} of {} bytes", self.bytes)));
            }
            let wanted = read.min(usize::try_from(self.bytes - there).unwrap_or(usize::MAX));
            file.write_all(&buffer[..wanted]).map_err(write_error)?;
            there += wanted as u64;
            told(there, progress)?;
            if wanted < read {
                break;
            }
        }
        Ok(())
    }

    /// Compares the SHA-256 of what was fetched with the one that is known of the file. If it is another, nothing of it
    /// is kept.
    fn check(&self, file: &mut File) -> Result<()> {
        let part = self.beside("part");
        let io = |error| Error::io(&part, error);
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; 1 << 20];
        file.seek(SeekFrom::Start(0)).map_err(io)?;
        loop {
            match file.read(&mut buffer).map_err(io)? {
                0 => break,
                read => hasher.update(&buffer[..read]),
            }
        }
        let found: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        if found == self.sha256 {
            return Ok(());
        }
        fs::remove_file(&part).map_err(io)?;
        let _ = fs::remove_file(self.beside("tag"));
        Err(self.failed(&format!(
            "its SHA-256 is {found} instead of {}, which TensorFlow Datasets lists for it, so it was not kept: fetch it again, or from another address",
            self.sha256
        )))
    }

    /// The path of something that belongs to the file.
    fn beside(&self, ending: &str) -> PathBuf {
        let mut path = self.to.as_os_str().to_owned();
        path.push(".");
        path.push(ending);
        path.into()
    }

    /// Why it is not whole, and what there is of it.
    fn kept(&self, there: u64, reason: String) -> Error {
        let kept = self.what_is_kept(there);
        self.failed(&if kept.is_empty() { reason } else { format!("{reason}; {kept}") })
    }

    /// What there is of it, in words; nothing of nothing.
    fn what_is_kept(&self, there: u64) -> String {
        let (kept, all) = (units::bytes(there), units::bytes(self.bytes));
        match there {
            0 => String::new(),
            _ => format!("{kept} of {all} are kept, and the same command goes on from there"),
        }
    }

    fn failed(&self, reason: &str) -> Error {
        Error::Download { url: self.url.clone(), to: self.to.to_owned(), reason: reason.into(), others: Vec::new() }
    }

    fn describe(&self, error: &ureq::Error) -> String {
        match error {
            ureq::Error::HostNotFound => "its host is not known: is there a connection?".into(),
            // the systems' own words for a name that cannot be asked for
            other => match other.to_string() {
                text if ["failed to lookup address", "No such host"].iter().any(|words| text.contains(words)) => {
                    format!("its host is not known ({text}): is there a connection?")
                }
                text => text,
            },
        }
    }
}

/// Where the part begins that is sent.
fn first_byte(response: &Response<Body>) -> Option<u64> {
    let range = response.headers().get(header::CONTENT_RANGE)?.to_str().ok()?;
    range.strip_prefix("bytes ")?.split('-').next()?.trim().parse().ok()
}

/// What tells whether the file has changed: a strong tag, or else its date.
fn validator(response: &Response<Body>) -> Option<String> {
    let text = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    text(header::ETAG).filter(|tag| !tag.starts_with("W/")).or_else(|| text(header::LAST_MODIFIED))
}
