//! Pictures as files have them: JPEG, PNG, BMP, WebP, GIF (its first frame).

use std::io::Cursor;

use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits};

use super::budget::decoding;
use crate::data::Sample;

/// The most pixels a picture may have: more than any camera's, and 192 MiB of RGB.
const MAX_PIXELS: u64 = 1 << 26;
/// The longest side.
const MAX_SIDE: u32 = 1 << 15;
/// The most memory that a decoder may take for itself, where it keeps count of it.
const MAX_DECODER_BYTES: u64 = 512 << 20;

/// What the first bytes of a picture say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PictureHeader {
    /// Height and width, upright.
    pub(crate) size: [usize; 2],
    /// Whether it has no colours.
    pub(crate) grey: bool,
}

/// Whether a file with this name is taken for a picture.
pub(crate) fn is_picture_name(name: &str) -> bool {
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    ["jpg", "jpeg", "png", "bmp", "webp", "gif"].iter().any(|known| extension.eq_ignore_ascii_case(known))
}

/// Size and kind of a picture, without its pixels. The error says what is wrong with it, not where it lies.
pub(crate) fn picture_header(bytes: &[u8]) -> Result<PictureHeader, String> {
    let (decoder, orientation) = open(bytes)?;
    let (width, height) = decoder.dimensions();
    let size = match orientation {
        Orientation::NoTransforms
        | Orientation::Rotate180
        | Orientation::FlipHorizontal
        | Orientation::FlipVertical => [height, width],
        Orientation::Rotate90 | Orientation::Rotate270 | Orientation::Rotate90FlipH | Orientation::Rotate270FlipH => {
            [width, height]
        }
    };
    Ok(PictureHeader { size: size.map(|side| side as usize), grey: !decoder.color_type().has_color() })
}

/// Decodes a picture into the input of `sample`, `[channels, height, width]`, upright as its EXIF data say. One channel
/// is grey, three are RGB, whatever the file has; transparency is dropped.
///
/// # Panics
/// If `channels` is neither 1 nor 3.
pub(crate) fn decode_picture(bytes: &[u8], channels: usize, sample: &mut Sample) -> Result<(), String> {
    let (decoder, orientation) = open(bytes)?;
    let (width, height) = decoder.dimensions();
    let pixels = u64::from(width) * u64::from(height);
    // as the file has it, as bytes of RGB or grey, the planes, and what decoders and turns take beside
    let _memory = decoding(2 * decoder.total_bytes() + pixels * channels as u64);
    let mut picture = DynamicImage::from_decoder(decoder).map_err(|error| error.to_string())?;
    picture.apply_orientation(orientation);
    let (width, height) = (picture.width() as usize, picture.height() as usize);
    let planes = sample.set_picture([channels, height, width]);
    match channels {
        1 => planes.copy_from_slice(&picture.into_luma8()),
        3 => {
            let (red, rest) = planes.split_at_mut(height * width);
            let (green, blue) = rest.split_at_mut(height * width);
            let pixels = picture.into_rgb8();
            for (pixel, ((red, green), blue)) in pixels.chunks_exact(3).zip(red.iter_mut().zip(green).zip(blue)) {
                [*red, *green, *blue] = [pixel[0], pixel[1], pixel[2]];
            }
        }
        _ => panic!("a picture has 1 or 3 channels, not {channels}"),
    }
    Ok(())
}

/// A decoder that has read the head of the file, which is of bearable size, and how its picture is to be turned.
fn open(bytes: &[u8]) -> Result<(impl ImageDecoder, Orientation), String> {
    let mut limits = Limits::default();
    limits.max_image_width = Some(MAX_SIDE);
    limits.max_image_height = Some(MAX_SIDE);
    limits.max_alloc = Some(MAX_DECODER_BYTES);
    let mut reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format().map_err(|error| error.to_string())?;
    if reader.format().is_none() {
        return Err("it is no JPEG, PNG, BMP, WebP or GIF".into());
    }
    if reader.format() == Some(ImageFormat::Jpeg) && is_cut_off(bytes) {
        return Err("it is cut off: its end marker is missing".into());
    }
    reader.limits(limits);
    let mut decoder = reader.into_decoder().map_err(|error| error.to_string())?;
    let (width, height) = decoder.dimensions();
    if width == 0 || height == 0 {
        return Err(format!("its header says {width}x{height}: there are no pixels"));
    }
    if width.max(height) > MAX_SIDE || u64::from(width) * u64::from(height) > MAX_PIXELS {
        return Err(format!("its header says {width}x{height}, more than the {MAX_PIXELS} pixels that are read"));
    }
    // metadata that cannot be read do not make a picture unreadable
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    Ok((decoder, orientation))
}

/// Whether a JPEG has no end: the decoder would fill what is missing with grey, and say nothing.
fn is_cut_off(jpeg: &[u8]) -> bool {
    const END: [u8; 2] = [0xff, 0xd9];
    const SCAN: u8 = 0xda;
    // segments, which say how long they are, come before the pixels; a preview in one of them has an end of its own
    let mut at = 2;
    loop {
        match jpeg.get(at..at + 4) {
            Some([0xff, 0xff, ..]) => at += 1,
            Some([0xff, SCAN, ..]) => break,
            Some([0xff, _, high, low]) => at += 2 + usize::from(u16::from_be_bytes([*high, *low])),
            // damaged in another way, which the decoder tells, or cut off before the pixels
            Some(_) => return false,
            None => return true,
        }
    }
    // among pixels, these bytes are nothing else
    !jpeg[at..].windows(2).any(|two| two == END)
}
