//! What is random in an augmentation, as a row of numbers.

use super::{Augment, Change};
use crate::data::Random;

/// Numbers in the row of parameters of a sample.
///
/// The first nine are a map, row by row, that takes a pixel of the result to the place in the picture that it comes
/// from: `(x, y, 1)` to `(u, v, w)`, and the place is `(u / w, v / w)`, all counted in pixels from the picture's
/// middle.
pub const PARAMETERS: usize = 26;

pub(super) const BRIGHTNESS: usize = 9;
pub(super) const CONTRAST: usize = 10;
pub(super) const SATURATION: usize = 11;
/// The turn of the hue, in whole turns.
pub(super) const HUE: usize = 12;
/// Standard deviation of the blur, in pixels.
pub(super) const BLUR: usize = 13;
/// Standard deviation of the noise, in levels.
pub(super) const NOISE: usize = 14;
/// A whole number below 2²⁴ that the noise is a function of.
pub(super) const NOISE_KEY: usize = 15;
/// What is erased: top, left, bottom and right, in pixels.
pub(super) const ERASE: usize = 16;
/// Which row of the batch is mixed in.
pub(super) const PARTNER: usize = 20;
/// How much of a picture's own pixels is left where another one is mixed in.
pub(super) const SHARE: usize = 21;
/// Where none of a picture's own pixels is left: top, left, bottom and right, in pixels.
pub(super) const BOX: usize = 22;

/// When a picture is shown: for what goes by turns.
#[derive(Clone, Copy)]
pub(in crate::data) struct Turn {
    /// Epochs before.
    pub(in crate::data) epoch: u64,
    /// A picture's own in every epoch: whether it begins the other way round.
    pub(in crate::data) begins_turned: bool,
}

/// A projective map.
pub(super) type Map = [[f64; 3]; 3];

const UNMOVED: Map = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];

/// The parameters that change nothing.
pub(in crate::data) fn identity() -> [f32; PARAMETERS] {
    let mut parameters = [0.0; PARAMETERS];
    put_map(&mut parameters, &UNMOVED);
    for place in [BRIGHTNESS, CONTRAST, SATURATION, SHARE] {
        parameters[place] = 1.0;
    }
    parameters
}

fn put_map(parameters: &mut [f32; PARAMETERS], map: &Map) {
    for (to, from) in parameters.iter_mut().zip(map.as_flattened()) {
        *to = *from as f32;
    }
}

impl Augment {
    /// Draws what is done to a picture of `shape` `[channels, height, width]`, but for the mix with another one.
    pub(in crate::data) fn draw(&self, random: &mut Random, turn: Turn, shape: &[usize]) -> [f32; PARAMETERS] {
        let &[_, height, width] = shape else { return identity() };
        let (h, w) = (height as f64, width as f64);
        let (mut parameters, mut map) = (identity(), UNMOVED);
        for &(change, amount) in &self.changes {
            let mut factor = |place: usize| {
                parameters[place] = random.between((1.0 - amount).max(0.0), 1.0 + amount) as f32;
            };
            let step = match change {
                Change::Brightness => {
                    factor(BRIGHTNESS);
                    continue;
                }
                Change::Contrast => {
                    factor(CONTRAST);
                    continue;
                }
                Change::Saturation => {
                    factor(SATURATION);
                    continue;
                }
                Change::Hue => {
                    parameters[HUE] = random.between(-amount, amount) as f32;
                    continue;
                }
                Change::Blur => {
                    parameters[BLUR] = random.between(0.1, amount) as f32;
                    continue;
                }
                Change::Noise => {
                    parameters[NOISE] = amount as f32;
                    parameters[NOISE_KEY] = random.below(1 << 24) as f32;
                    continue;
                }
                Change::Erase => {
                    if random.chance(amount) {
                        put_rectangle(&mut parameters, ERASE, erased(random, height, width));
                    }
                    continue;
                }
                Change::Cutout => {
                    let side = amount as i64;
                    let (top, left) =
                        (random.below(height.max(1)) as i64 - side / 2, random.below(width.max(1)) as i64 - side / 2);
                    put_rectangle(&mut parameters, ERASE, clipped([top, left, top + side, left + side], height, width));
                    continue;
                }
                Change::Mixup | Change::CutMix => continue,
                Change::Flip if random.chance(amount) => scaled(-1.0, 1.0),
                Change::VerticalFlip if random.chance(amount) => scaled(1.0, -1.0),
                Change::AlternateFlip if turn.begins_turned != (turn.epoch / amount as u64).is_multiple_of(2) => {
                    scaled(-1.0, 1.0)
                }
                Change::Flip | Change::VerticalFlip | Change::AlternateFlip => UNMOVED,
                Change::Crop => {
                    let by = |random: &mut Random| random.below(2 * amount as usize + 1) as f64 - amount;
                    moved(by(random), by(random))
                }
                Change::Translate => {
                    let (x, y) = (random.between(-amount, amount) * w, random.between(-amount, amount) * h);
                    moved(-x.round(), -y.round())
                }
                Change::ResizedCrop => resized_crop(random, amount, height, width),
                Change::Rotate => rotated(random.between(-amount, amount).to_radians()),
                Change::Scale => {
                    let factor = random.between(1.0 - amount, 1.0 + amount).recip();
                    scaled(factor, factor)
                }
                Change::Shear => {
                    let slope = random.between(-amount, amount).to_radians().tan();
                    [[1.0, slope, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
                }
                Change::Perspective if random.chance(0.5) => perspective(random, amount, h, w),
                Change::Perspective => UNMOVED,
            };
            // a pixel of the result goes back through the last change first
            map = product(&map, &step);
        }
        put_map(&mut parameters, &map);
        parameters
    }
}

pub(super) fn put_rectangle(parameters: &mut [f32], place: usize, rectangle: [usize; 4]) {
    for (to, from) in parameters[place..].iter_mut().zip(rectangle) {
        *to = from as f32;
    }
}

/// The part of a rectangle (top, left, bottom, right) that lies in the picture.
pub(super) fn clipped(rectangle: [i64; 4], height: usize, width: usize) -> [usize; 4] {
    let [top, left, bottom, right] = rectangle;
    [(top, height), (left, width), (bottom, height), (right, width)].map(|(at, side)| at.clamp(0, side as i64) as usize)
}

fn scaled(x: f64, y: f64) -> Map {
    [[x, 0.0, 0.0], [0.0, y, 0.0], [0.0, 0.0, 1.0]]
}

fn moved(x: f64, y: f64) -> Map {
    [[1.0, 0.0, x], [0.0, 1.0, y], [0.0, 0.0, 1.0]]
}

fn rotated(angle: f64) -> Map {
    let (sin, cos) = angle.sin_cos();
    [[cos, -sin, 0.0], [sin, cos, 0.0], [0.0, 0.0, 1.0]]
}

pub(super) fn product(a: &Map, b: &Map) -> Map {
    std::array::from_fn(|row| std::array::from_fn(|column| (0..3).map(|k| a[row][k] * b[k][column]).sum()))
}

/// torchvision's `RandomResizedCrop`: ten tries, then all of the picture that has allowed proportions.
fn resized_crop(random: &mut Random, least: f64, height: usize, width: usize) -> Map {
    let (h, w) = (height as f64, width as f64);
    let [low, high] = [3.0_f64 / 4.0, 4.0 / 3.0];
    for _ in 0..10 {
        let area = random.between(least, 1.0) * h * w;
        let ratio = random.between(low.ln(), high.ln()).exp();
        let (rows, columns) = ((area / ratio).sqrt().round(), (area * ratio).sqrt().round());
        if (1.0..=h).contains(&rows) && (1.0..=w).contains(&columns) {
            let top = random.below((h - rows) as usize + 1) as f64;
            let left = random.below((w - columns) as usize + 1) as f64;
            return crop(top, left, rows, columns, h, w);
        }
    }
    let ratio = (w / h).clamp(low, high);
    let (rows, columns) = (h.min((w / ratio).round()), w.min((h * ratio).round()));
    crop(((h - rows) / 2.0).floor(), ((w - columns) / 2.0).floor(), rows, columns, h, w)
}

/// A part of the picture in full size.
fn crop(top: f64, left: f64, rows: f64, columns: f64, h: f64, w: f64) -> Map {
    let [x, y] = [left + columns / 2.0 - w / 2.0, top + rows / 2.0 - h / 2.0];
    product(&moved(x, y), &scaled(columns / w, rows / h))
}

/// Ten tries, as in torchvision's `RandomErasing`; no rectangle if none fits.
fn erased(random: &mut Random, height: usize, width: usize) -> [usize; 4] {
    let (h, w) = (height as f64, width as f64);
    for _ in 0..10 {
        let area = random.between(0.02, 0.33) * h * w;
        let ratio = random.between(0.3_f64.ln(), 3.3_f64.ln()).exp();
        let (rows, columns) = ((area * ratio).sqrt().round(), (area / ratio).sqrt().round());
        if rows < h && columns < w {
            let (top, left) = (random.below((h - rows) as usize + 1), random.below((w - columns) as usize + 1));
            return [top, left, top + rows as usize, left + columns as usize];
        }
    }
    [0; 4]
}

/// Corners of the picture move inwards by up to `amount` of half a side each; the map takes the moved corners back to
/// where they come from.
fn perspective(random: &mut Random, amount: f64, h: f64, w: f64) -> Map {
    let (x, y) = ((w - 1.0) / 2.0, (h - 1.0) / 2.0);
    let corners = [[-x, -y], [x, -y], [x, y], [-x, y]];
    let inwards = corners.map(|[x, y]| {
        let by = |random: &mut Random| 1.0 - random.uniform() * amount;
        [x * by(random), y * by(random)]
    });
    projection(&inwards, &corners).unwrap_or(UNMOVED)
}

/// The projective map that takes four points to four others; `None` if three of them lie on a line.
pub(super) fn projection(from: &[[f64; 2]; 4], to: &[[f64; 2]; 4]) -> Option<Map> {
    // u (g x + h y + 1) = a x + b y + c, and so for v
    let mut rows = [[0.0; 9]; 8];
    for (point, (&[x, y], &[u, v])) in from.iter().zip(to).enumerate() {
        rows[2 * point] = [x, y, 1.0, 0.0, 0.0, 0.0, -u * x, -u * y, u];
        rows[2 * point + 1] = [0.0, 0.0, 0.0, x, y, 1.0, -v * x, -v * y, v];
    }
    for column in 0..8 {
        let pivot = (column..8).max_by(|&a, &b| rows[a][column].abs().total_cmp(&rows[b][column].abs()))?;
        if rows[pivot][column].abs() < 1e-9 {
            return None;
        }
        rows.swap(column, pivot);
        let chosen = rows[column].map(|value| value / rows[column][column]);
        for row in &mut rows {
            let factor = row[column];
            row.iter_mut().zip(chosen).for_each(|(value, chosen)| *value -= factor * chosen);
        }
        rows[column] = chosen;
    }
    let [a, b, c, d, e, f, g, h] = rows.map(|row| row[8]);
    Some([[a, b, c], [d, e, f], [g, h, 1.0]])
}
