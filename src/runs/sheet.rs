//! Pictures that a run wrote.

use std::io::{Cursor, Read as _};

use image::{ImageFormat, ImageReader, Limits};

use crate::error::{Error, Result};
use crate::train::record::Sheet;

use super::Recording;
use super::open::open;

/// The longest file that is read.
const MAX_BYTES: u64 = 64 << 20;
/// The longest side of a sheet.
const MAX_SIDE: u32 = 1 << 14;
/// The most pixels: 96 MiB of RGB.
const MAX_PIXELS: u64 = 1 << 25;
/// The most memory that the decoder may take.
const MAX_DECODER_BYTES: u64 = 256 << 20;

impl Recording {
    /// Decodes one of the run's PNG files: width, height, and red, green and blue of each pixel, row by row. Of a sheet
    /// of masks, each of the three is the class.
    ///
    /// # Errors
    /// If the file is missing, damaged or too large, or if the sheet says something impossible.
    pub fn image_sheet(&self, sheet: &Sheet) -> Result<(usize, usize, Vec<u8>)> {
        let path = self.folder.join(&sheet.file);
        let wrong = |reason: String| Error::format(&path, reason);
        super::json::sheet(sheet).map_err(wrong)?;
        let failed = |error| Error::io(&path, error);
        let (file, length) = open(&path).map_err(failed)?;
        if length > MAX_BYTES {
            return Err(wrong(format!("it has more than the {MAX_BYTES} bytes that are read")));
        }
        let mut bytes = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut bytes).map_err(failed)?;
        let mut reader = ImageReader::with_format(Cursor::new(bytes.as_slice()), ImageFormat::Png);
        let (width, height) = reader.into_dimensions().map_err(|error| wrong(error.to_string()))?;
        if width.max(height) > MAX_SIDE || u64::from(width) * u64::from(height) > MAX_PIXELS {
            return Err(wrong(format!("its header says {width}x{height}, which is too large")));
        }
        reader = ImageReader::with_format(Cursor::new(bytes.as_slice()), ImageFormat::Png);
        let mut limits = Limits::default();
        limits.max_alloc = Some(MAX_DECODER_BYTES);
        reader.limits(limits);
        let picture = reader.decode().map_err(|error| wrong(error.to_string()))?;
        Ok((width as usize, height as usize, picture.into_rgb8().into_raw()))
    }
}
