//! Pixels that change their places, on the host.

use super::draw::PARAMETERS;
use crate::data::IGNORED;
use crate::tensor::Outside;

/// Where the pixels of a line come from, for a map that moves by whole pixels: `place = sign · position + start`.
#[derive(Clone, Copy)]
struct Line {
    reversed: bool,
    start: i64,
    size: usize,
}

impl Line {
    /// One axis of a map, from its factor and its offset from middle to middle.
    fn new(factor: f32, offset: f32, size: usize) -> Self {
        let reversed = factor < 0.0;
        let start = offset as i64 + if reversed { size as i64 - 1 } else { 0 };
        Self { reversed, start, size }
    }

    /// The place that `position` comes from.
    fn place(self, position: usize, edge: Outside) -> Option<usize> {
        let position = position as i64;
        inside(self.start + if self.reversed { -position } else { position }, self.size, edge)
    }

    /// The positions that come from inside.
    fn span(self) -> std::ops::Range<usize> {
        let size = self.size as i64;
        let range = if self.reversed { self.start - size + 1..self.start + 1 } else { -self.start..size - self.start };
        range.start.clamp(0, size) as usize..range.end.clamp(0, size) as usize
    }
}

/// A place brought into `0..size`; `None` if it is outside and stays there.
fn inside(place: i64, size: usize, edge: Outside) -> Option<usize> {
    let last = size as i64 - 1;
    match edge {
        Outside::Zeros => (0..=last).contains(&place).then_some(place as usize),
        Outside::Border => Some(place.clamp(0, last) as usize),
        Outside::Reflection => Some(reflected(place, size)),
    }
}

/// A place mirrored at the first and the last one, as often as it takes.
pub(super) fn reflected(place: i64, size: usize) -> usize {
    let last = size as i64 - 1;
    if last == 0 {
        return 0;
    }
    let rest = place.rem_euclid(2 * last);
    rest.min(2 * last - rest) as usize
}

/// Moves one channel, or a mask, by whole pixels.
pub(super) fn move_exactly<T: Copy>(
    from: &[T],
    to: &mut [T],
    [height, width]: [usize; 2],
    parameters: &[f32; PARAMETERS],
    (edge, fill): (Outside, T),
) {
    let (columns, rows) =
        (Line::new(parameters[0], parameters[2], width), Line::new(parameters[4], parameters[5], height));
    let span = columns.span();
    for (row, line) in to.chunks_exact_mut(width.max(1)).enumerate() {
        let Some(source) = rows.place(row, edge) else {
            line.fill(fill);
            continue;
        };
        let source = &from[source * width..][..width];
        for column in (0..span.start.min(width)).chain(span.end..width) {
            line[column] = columns.place(column, edge).map_or(fill, |place| source[place]);
        }
        if span.is_empty() {
            continue;
        }
        let inner = &mut line[span.clone()];
        if columns.reversed {
            let first = (columns.start - span.end as i64 + 1) as usize;
            inner.iter_mut().zip(source[first..][..span.len()].iter().rev()).for_each(|(to, from)| *to = *from);
        } else {
            inner.copy_from_slice(&source[(columns.start + span.start as i64) as usize..][..span.len()]);
        }
    }
}

/// The place in the picture (x, y) that a pixel of the result comes from.
fn place(parameters: &[f32; PARAMETERS], x: usize, y: usize, [height, width]: [usize; 2], edge: Outside) -> [f32; 2] {
    let middle = [(width as f32 - 1.0) / 2.0, (height as f32 - 1.0) / 2.0];
    let (x, y) = (x as f32 - middle[0], y as f32 - middle[1]);
    let row = |row: usize| parameters[3 * row] * x + parameters[3 * row + 1] * y + parameters[3 * row + 2];
    // what is behind the eye is far outside
    let depth = row(2).max(MIN_DEPTH);
    [settled(row(0) / depth + middle[0], width, edge), settled(row(1) / depth + middle[1], height, edge)]
}

pub(super) const MIN_DEPTH: f32 = 1e-6;

/// A place brought inside, or at most two pixels outside.
fn settled(place: f32, size: usize, edge: Outside) -> f32 {
    let last = size as f32 - 1.0;
    match edge {
        Outside::Zeros => place.clamp(-2.0, last + 2.0),
        Outside::Border => place.clamp(0.0, last),
        Outside::Reflection if size == 1 => 0.0,
        Outside::Reflection => {
            let rest = place.abs() % (2.0 * last);
            rest.min(2.0 * last - rest).clamp(0.0, last)
        }
    }
}

/// Resamples all channels of a picture bilinearly, not rounded.
pub(super) fn resample(
    from: &[u8],
    to: &mut [f32],
    [height, width]: [usize; 2],
    parameters: &[f32; PARAMETERS],
    (edge, fill): (Outside, u8),
) {
    let size = height * width;
    let fill = f32::from(fill);
    for y in 0..height {
        for x in 0..width {
            let [u, v] = place(parameters, x, y, [height, width], edge);
            let (left, top) = (floor(u), floor(v));
            let (right_part, lower_part) = (u - left as f32, v - top as f32);
            let weights = [
                (1.0 - lower_part) * (1.0 - right_part),
                (1.0 - lower_part) * right_part,
                lower_part * (1.0 - right_part),
                lower_part * right_part,
            ];
            let channels = from.chunks_exact(size).zip(to.iter_mut().skip(y * width + x).step_by(size));
            let is_inner = left >= 0 && top >= 0 && (left as usize) + 1 < width && (top as usize) + 1 < height;
            if is_inner {
                let first = top as usize * width + left as usize;
                for (from, to) in channels {
                    let taps = [from[first], from[first + 1], from[first + width], from[first + width + 1]];
                    *to = (0..4).map(|tap| f32::from(taps[tap]) * weights[tap]).sum();
                }
                continue;
            }
            let places = [(top, left), (top, left + 1), (top + 1, left), (top + 1, left + 1)].map(|(row, column)| {
                let is_inside = (0..height as i32).contains(&row) && (0..width as i32).contains(&column);
                is_inside.then(|| row as usize * width + column as usize)
            });
            for (from, to) in channels {
                let value = |tap: usize| places[tap].map_or(fill, |place| f32::from(from[place])) * weights[tap];
                *to = (0..4).map(value).sum();
            }
        }
    }
}

/// The largest whole number that is not above `value`, without the call that `f32::floor` is on older processors.
pub(super) fn floor(value: f32) -> i32 {
    let whole = value as i32;
    whole - i32::from(value < whole as f32)
}

/// The classes of a mask in their new places, the nearest ones.
pub(super) fn resample_mask(
    from: &[u8],
    to: &mut [u8],
    [height, width]: [usize; 2],
    parameters: &[f32; PARAMETERS],
    edge: Outside,
) {
    for y in 0..height {
        for x in 0..width {
            let [u, v] = place(parameters, x, y, [height, width], edge).map(|place| place.round_ties_even() as i64);
            let is_inside = (0..width as i64).contains(&u) && (0..height as i64).contains(&v);
            to[y * width + x] = if is_inside { from[v as usize * width + u as usize] } else { IGNORED };
        }
    }
}
