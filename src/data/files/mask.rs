//! Masks: PNGs whose pixels are numbers.

use std::io::Cursor;

use png::{BitDepth, ColorType, Decoder, Limits, Transformations};

use super::budget::decoding;

/// The most pixels a mask may have, as of pictures.
const MAX_PIXELS: u64 = 1 << 26;
/// The most memory that the decoder may take for itself.
const MAX_DECODER_BYTES: usize = 128 << 20;

/// Reads the numbers of a PNG's pixels, row by row: of an indexed one the places in its palette, of a grey one its
/// levels, neither of them scaled. Gives height and width. The error says what is wrong with it, not where it lies.
pub(crate) fn read_mask(bytes: &[u8], numbers: &mut Vec<u8>) -> Result<[usize; 2], String> {
    let mut decoder = Decoder::new_with_limits(Cursor::new(bytes), Limits { bytes: MAX_DECODER_BYTES });
    decoder.set_transformations(Transformations::IDENTITY);
    let head = decoder.read_header_info().map_err(|error| error.to_string())?;
    let (width, height, depth, color) = (head.width, head.height, head.bit_depth, head.color_type);
    if width == 0 || height == 0 {
        return Err(format!("its header says {width}x{height}: there are no pixels"));
    }
    if u64::from(width) * u64::from(height) > MAX_PIXELS {
        return Err(format!("its header says {width}x{height}, more than the {MAX_PIXELS} pixels that are read"));
    }
    if !matches!(color, ColorType::Indexed | ColorType::Grayscale) || depth == BitDepth::Sixteen {
        return Err(format!(
            "its pixels are {color:?} of {depth:?} bits, but a mask is an indexed or grey PNG of 8 bits or fewer"
        ));
    }
    let _memory = decoding(2 * u64::from(width) * u64::from(height));
    let mut reader = decoder.read_info().map_err(|error| error.to_string())?;
    let size = reader.output_buffer_size().ok_or("its size overflows")?;
    let mut packed = vec![0; size];
    let frame = reader.next_frame(&mut packed).map_err(|error| error.to_string())?;
    let [height, width] = [height, width].map(|side| side as usize);
    numbers.clear();
    numbers.reserve(height * width);
    let bits = depth as usize;
    for row in packed[..frame.buffer_size()].chunks_exact(frame.line_size).take(height) {
        // several pixels share a byte, the first in its highest bits
        let numbers_of = |byte: &u8| {
            let byte = *byte;
            (0..8 / bits).map(move |place| (byte >> (8 - bits * (place + 1))) & (0xff >> (8 - bits)))
        };
        numbers.extend(row.iter().flat_map(numbers_of).take(width));
    }
    if numbers.len() != height * width {
        return Err(format!("it has {} pixels instead of {height}x{width}", numbers.len()));
    }
    Ok([height, width])
}
