//! Files that may be compressed, read from their beginning to their end.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use crate::error::{Error, Result};
use crate::units;

const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The bytes of a file; of a gzip one, whatever its name is, those that were compressed. More than a limit is an error,
/// so that a few bytes of a bomb do not become very many.
pub(crate) struct Stream {
    bytes: Box<dyn Read>,
    most: u64,
    left: u64,
}

impl Stream {
    /// Opens `path`, of which at most `most` bytes are read.
    pub(crate) fn open(path: &Path, most: u64) -> Result<Self> {
        let io = |error| Error::io(path, error);
        let mut file = BufReader::with_capacity(1 << 16, File::open(path).map_err(io)?);
        let bytes: Box<dyn Read> = if file.fill_buf().map_err(io)?.starts_with(&GZIP) {
            Box::new(MultiGzDecoder::new(file))
        } else {
            Box::new(file)
        };
        Ok(Self { bytes, most, left: most })
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        // one byte past the limit tells more from the end
        let room = usize::try_from(self.left.saturating_add(1)).unwrap_or(usize::MAX);
        let within = into.len().min(room);
        let read = self.bytes.read(&mut into[..within])?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| {
            io::Error::other(format!("it holds more than {}, the most that is read of it", units::bytes(self.most)))
        })?;
        Ok(read)
    }
}
