//! Pictures of a batch with what a model says about them, side by side.

use crate::data::{Batch, IGNORED};

/// Pixels around each picture.
const BORDER: usize = 2;
const RIGHT: [u8; 3] = [40, 170, 70];
const WRONG: [u8; 3] = [220, 50, 40];
const NEUTRAL: [u8; 3] = [90, 90, 90];

/// Colours of classes, as far apart as ten can be (Tableau's).
const COLORS: [[u8; 3]; 10] = [
    [31, 119, 180],
    [255, 127, 14],
    [44, 160, 44],
    [214, 39, 40],
    [148, 103, 189],
    [140, 86, 75],
    [227, 119, 194],
    [127, 127, 127],
    [188, 189, 34],
    [23, 190, 207],
];

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
    let (channels, pixels) = (batch.shape[1], sides(batch).iter().product::<usize>());
    let bytes = batch.inputs.as_bytes();
    // pictures with few levels, such as the digits with 16, are brightened
    let largest = usize::from(bytes.iter().copied().max().unwrap_or(255).max(1));
    let level = |byte: u8| if largest < 64 { (usize::from(byte) * 255 / largest) as u8 } else { byte };
    let planes = &bytes[row * channels * pixels..(row + 1) * channels * pixels];
    let at = |pixel: usize, channel: usize| level(planes[channel.min(channels - 1) * pixels + pixel]);
    (0..pixels).flat_map(|pixel| [0, 1, 2].map(|channel| at(pixel, channel))).collect()
}

fn colored(classes: &[u8]) -> Vec<u8> {
    let color = |&class: &u8| if class == IGNORED { [0; 3] } else { COLORS[usize::from(class) % COLORS.len()] };
    classes.iter().flat_map(color).collect()
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
