//! Pictures of a batch with what a model says about them, side by side.

use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::{ExtendedColorType, ImageEncoder as _};

use crate::colors::class_color;
use crate::data::Batch;

/// A picture without larger levels is brightened.
pub(super) const FEW: u8 = 64;
/// Pixels around each picture.
const BORDER: usize = 2;
const RIGHT: [u8; 3] = [40, 170, 70];
const WRONG: [u8; 3] = [220, 50, 40];
const NEUTRAL: [u8; 3] = [90, 90, 90];

/// `[height, width]`, and RGB pixels.
pub(super) type Drawn = ([usize; 2], Vec<u8>);

/// The pictures of a batch in rows of four, each with a frame that says whether the answer is right.
pub(super) fn marked(batch: &Batch, right: &[bool]) -> Drawn {
    let color = |right: &bool| if *right { RIGHT } else { WRONG };
    let cells: Vec<_> = right.iter().enumerate().map(|(row, right)| (picture(batch, row), color(right))).collect();
    grid(sides(batch), &cells, 4)
}

/// The pictures of a batch, each with its mask and with what the model says: three in a row.
pub(super) fn masks(batch: &Batch, of: &[u8], said: &[u8]) -> Drawn {
    let pixels: usize = sides(batch).iter().product();
    let mut cells = Vec::new();
    for row in 0..batch.samples {
        let part = row * pixels..(row + 1) * pixels;
        cells.push((picture(batch, row), NEUTRAL));
        cells.push((colored(&of[part.clone()]), NEUTRAL));
        cells.push((colored(&said[part]), NEUTRAL));
    }
    grid(sides(batch), &cells, 3)
}

fn sides(batch: &Batch) -> [usize; 2] {
    [batch.shape[2], batch.shape[3]]
}

/// One picture of a batch as RGB.
fn picture(batch: &Batch, row: usize) -> Vec<u8> {
    let bytes = batch.inputs.as_bytes();
    let (channels, elements) = (batch.shape[1], batch.shape[1..].iter().product::<usize>());
    let pixels = interleaved(&bytes[row * elements..(row + 1) * elements], channels, largest(bytes));
    match channels {
        3 => pixels,
        channels => pixels
            .chunks_exact(channels)
            .flat_map(|pixel| [0, 1, 2].map(|at: usize| pixel[at.min(channels - 1)]))
            .collect(),
    }
}

/// The largest level of some pictures.
pub(super) fn largest(bytes: &[u8]) -> u8 {
    bytes.iter().copied().max().unwrap_or(255).max(1)
}

/// A picture `[channels, height, width]` as `[height, width, channels]`. If `largest` is its largest level, and small,
/// as of the digits with 16, it is brightened.
pub(super) fn interleaved(planes: &[u8], channels: usize, largest: u8) -> Vec<u8> {
    let level =
        |byte: u8| if largest < FEW { (u16::from(byte) * 255 / u16::from(largest)).min(255) as u8 } else { byte };
    let pixels = planes.len() / channels.max(1);
    (0..pixels).flat_map(|pixel| (0..channels).map(move |channel| level(planes[channel * pixels + pixel]))).collect()
}

/// Pictures of one size, `[pictures, height, width, channels]` with one channel or three, in rows of `columns`, as a
/// PNG file.
pub(super) fn sheet(pixels: &[u8], [height, width, channels]: [usize; 3], columns: usize) -> Result<Vec<u8>, String> {
    let cells = pixels.chunks_exact(height * width * channels);
    let rows = cells.len().div_ceil(columns);
    let line = columns * width * channels;
    let mut all = vec![0; rows * height * line];
    for (number, cell) in cells.enumerate() {
        let corner = number / columns * height * line + number % columns * width * channels;
        for (y, row) in cell.chunks_exact(width * channels).enumerate() {
            all[corner + y * line..][..row.len()].copy_from_slice(row);
        }
    }
    let color = if channels == 1 { ExtendedColorType::L8 } else { ExtendedColorType::Rgb8 };
    let mut file = Vec::new();
    let encoder = PngEncoder::new_with_quality(&mut file, CompressionType::Fast, FilterType::Sub);
    let (width, height) = ((columns * width) as u32, (rows * height) as u32);
    encoder.write_image(&all, width, height, color).map_err(|error| error.to_string())?;
    Ok(file)
}

fn colored(classes: &[u8]) -> Vec<u8> {
    classes.iter().flat_map(|&class| class_color(class)).collect()
}

/// Pictures of `height` by `width` pixels with frames, `columns` in a row.
fn grid([height, width]: [usize; 2], cells: &[(Vec<u8>, [u8; 3])], columns: usize) -> Drawn {
    let [cell_height, cell_width] = [height + 2 * BORDER, width + 2 * BORDER];
    let [all_height, all_width] = [cells.len().div_ceil(columns) * cell_height, columns * cell_width];
    let mut drawn = vec![0; 3 * all_height * all_width];
    for (number, (pixels, frame)) in cells.iter().enumerate() {
        let (top, left) = (number / columns * cell_height, number % columns * cell_width);
        for y in 0..cell_height {
            let start = 3 * ((top + y) * all_width + left);
            let line = &mut drawn[start..start + 3 * cell_width];
            line.chunks_exact_mut(3).for_each(|pixel| pixel.copy_from_slice(frame));
            if let Some(row) = y.checked_sub(BORDER).filter(|&row| row < height) {
                line[3 * BORDER..3 * (BORDER + width)].copy_from_slice(&pixels[3 * row * width..3 * (row + 1) * width]);
            }
        }
    }
    ([all_height, all_width], drawn)
}
