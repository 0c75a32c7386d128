//! Tar archives: what lies in them and where, so that each member can be read by itself.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use tar::{Entries, Header, PaxExtensions};

use crate::error::{Error, Result};

const BLOCK: u64 = 512;
/// The most bytes of headers that come before one member, such as its long name.
const MAX_EXTENSION: u64 = 1 << 20;

/// What a member is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    File,
    Folder,
    /// A link, a device, or anything else that has no contents of its own.
    Other,
}

/// A member of an archive.
pub(crate) struct Found<'a> {
    /// Its path, as the archive has it: it may lead anywhere.
    pub(crate) name: &'a str,
    pub(crate) kind: Kind,
    /// Where its contents lie.
    pub(crate) offset: u64,
    /// How many bytes they are.
    pub(crate) size: u64,
}

/// Shows all members to `visit`, in their order, each with its contents. `path` is for messages.
///
/// Extensions of the format are read here rather than by the crate, because that would read a name of any length.
pub(crate) fn walk<R: Read>(
    path: &Path,
    entries: io::Result<Entries<'_, R>>,
    visit: &mut dyn FnMut(&Found<'_>, &mut dyn Read) -> Result<()>,
) -> Result<()> {
    let mut long_name = None;
    for entry in entries.map_err(|error| Error::io(path, error))?.raw(true) {
        let mut entry = entry.map_err(|error| damaged(path, &error))?;
        let (size, kind) = (entry.size(), entry.header().entry_type());
        if kind.is_gnu_longname() || kind.is_pax_local_extensions() {
            if size > MAX_EXTENSION {
                return Err(Error::format(path, format!("a member's header has {size} bytes: it is damaged")));
            }
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).map_err(|error| damaged(path, &error))?;
            let name = if kind.is_gnu_longname() { Some(trim_nul(&bytes).to_vec()) } else { pax_name(path, &bytes)? };
            long_name = name.or(long_name);
            continue;
        }
        // the archive's own comments, and long targets of links, which are told by the member itself
        if kind.is_pax_global_extensions() || kind.is_gnu_longlink() {
            continue;
        }
        let bytes = long_name.take().unwrap_or_else(|| entry.header().path_bytes().into_owned());
        let name = std::str::from_utf8(&bytes).map_err(|_| {
            Error::format(path, format!("the name of member `{}` is not UTF-8", String::from_utf8_lossy(&bytes)))
        })?;
        let kind = match kind {
            kind if kind.is_dir() || (kind.is_file() && name.ends_with('/')) => Kind::Folder,
            kind if kind.is_file() || kind.is_contiguous() => Kind::File,
            _ => Kind::Other,
        };
        let found = Found { name, kind, offset: entry.raw_file_position(), size };
        visit(&found, &mut entry)?;
    }
    Ok(())
}

/// The name that an extended header gives to the next member, if it does.
fn pax_name(path: &Path, bytes: &[u8]) -> Result<Option<Vec<u8>>> {
    let mut name = None;
    for record in PaxExtensions::new(bytes) {
        let record = record.map_err(|error| damaged(path, &error))?;
        match record.key_bytes() {
            b"path" => name = Some(record.value_bytes().to_vec()),
            // such sizes are written for members of 8 GiB and more; readers that heed only one of two sizes differ in
            // what they see
            b"size" => {
                return Err(Error::format(path, "a member's size stands in an extended header, which is not read"));
            }
            _ => {}
        }
    }
    Ok(name)
}

fn trim_nul(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len())]
}

fn damaged(path: &Path, error: &io::Error) -> Error {
    Error::format(path, format!("it is not whole tar archive: {error}"))
}

/// An uncompressed archive whose members are read by their position, from any thread.
pub(crate) struct Archive {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl Archive {
    /// Opens an archive, without reading it.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let io = |error| Error::io(path, error);
        let file = File::open(path).map_err(io)?;
        let bytes = file.metadata().map_err(io)?.len();
        Ok(Self { path: path.to_owned(), file, bytes })
    }

    /// Shows all members to `visit`, in their order. Reads their headers only.
    ///
    /// # Errors
    /// If it is damaged or cut off, also behind the last whole member.
    pub(crate) fn index(&self, visit: &mut dyn FnMut(&Found<'_>) -> Result<()>) -> Result<()> {
        let file = File::open(&self.path).map_err(|error| Error::io(&self.path, error))?;
        let mut archive = tar::Archive::new(Skipping { file: BufReader::new(file), position: 0 });
        let mut end = 0;
        walk(&self.path, archive.entries_with_seek(), &mut |found, _| {
            end = found.offset.saturating_add(found.size.div_ceil(BLOCK).saturating_mul(BLOCK));
            if found.offset.saturating_add(found.size) > self.bytes {
                return Err(self.cut_off());
            }
            visit(found)
        })?;
        // a whole archive ends with a block of zeros
        if self.bytes < end + BLOCK { Err(self.cut_off()) } else { Ok(()) }
    }

    fn cut_off(&self) -> Error {
        Error::format(&self.path, format!("the archive is cut off after {} bytes: fetch or pack it again", self.bytes))
    }

    /// Reads a member's `length` bytes at `offset`.
    pub(crate) fn read(&self, offset: u64, length: usize, bytes: &mut Vec<u8>) -> Result<()> {
        bytes.resize(length, 0);
        read_exact_at(&self.file, bytes, offset).map_err(|error| Error::io(self.member(offset), error))
    }

    /// The archive's path followed by that of the member whose contents lie at `offset`, for messages: it is read anew,
    /// so that not every name has to be kept.
    pub(crate) fn member(&self, offset: u64) -> PathBuf {
        let mut header = Header::new_old();
        let read = offset
            .checked_sub(BLOCK)
            .is_some_and(|start| read_exact_at(&self.file, header.as_mut_bytes(), start).is_ok());
        let name =
            if read { String::from_utf8_lossy(&header.path_bytes()).into_owned() } else { format!("byte {offset}") };
        self.path.join(name.trim_start_matches('/'))
    }
}

/// A file whose buffer is kept over short steps: what is smaller than the buffer is skipped without asking the system.
struct Skipping {
    file: BufReader<File>,
    position: u64,
}

impl Read for Skipping {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(into)?;
        self.position += read as u64;
        Ok(read)
    }
}

impl Seek for Skipping {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.position = match to {
            SeekFrom::Current(step) => {
                self.file.seek_relative(step)?;
                self.position.saturating_add_signed(step)
            }
            other => self.file.seek(other)?,
        };
        Ok(self.position)
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut bytes: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, bytes, offset)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => {
                bytes = &mut bytes[read..];
                offset += read as u64;
            }
        }
    }
    Ok(())
}

#[cfg(not(any(unix, windows)))]
fn read_exact_at(_: &File, _: &mut [u8], _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
