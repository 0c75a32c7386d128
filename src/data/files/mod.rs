//! Files that data sets lie in: pictures, masks, archives, compressed streams. Nothing here knows a data set.
//!
//! **Invariant:** no file, whatever is in it, makes a reader take more memory than a limit that its constant names; all
//! that are decoded at a time have one limit together (`budget.rs`).

mod archive;
mod budget;
mod mask;
mod picture;
mod stream;
mod unpack;

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use crate::error::{Error, Result};
use crate::units;

pub(super) use archive::{Archive, Kind, walk};
pub(super) use budget::keep;
pub(crate) use mask::read_mask;
pub(crate) use picture::decode_picture;
pub(crate) use picture::is_picture_name;
pub(super) use picture::{PictureHeader, picture_header};
pub(super) use stream::Stream;
pub(super) use unpack::{plain_tar, unpack_folder};

/// The largest file with one picture or mask that is read.
pub(crate) const MAX_PICTURE_BYTES: u64 = 256 << 20;

/// All bytes of a file, into memory that is used again.
///
/// # Errors
/// If it cannot be read, or has more than `most` bytes.
pub(crate) fn read_file(path: &Path, most: u64, bytes: &mut Vec<u8>) -> Result<()> {
    bytes.clear();
    let file = File::open(path).map_err(|error| Error::io(path, error))?;
    file.take(most + 1).read_to_end(bytes).map_err(|error| Error::io(path, error))?;
    if bytes.len() as u64 > most {
        return Err(Error::format(path, format!("it is larger than {}, the most that is read", units::bytes(most))));
    }
    Ok(())
}
