//! Pictures of a batch mixed with each other: mixup and CutMix.

use super::color::to_byte;
use super::draw::{BOX, PARAMETERS, PARTNER, SHARE, clipped, put_rectangle};
use super::{Augment, Change};
use crate::data::{Random, Targets};

/// Mixes batches, with memory that is used again.
#[derive(Default)]
pub(in crate::data) struct Mixer {
    before: Vec<u8>,
}

/// How the rows of a batch are mixed.
pub(in crate::data) struct Mixed {
    /// Row `i` takes from row `(i + turn) % rows`: each is taken from once, and none from itself if there are two.
    turn: usize,
    rows: Vec<Row>,
}

/// What a row keeps.
struct Row {
    /// Of each pixel outside of the rectangle.
    share: f32,
    /// Top, left, bottom and right of what comes from the other picture.
    rectangle: [usize; 4],
    /// Of its class.
    class_share: f32,
}

impl Mixer {
    /// Draws how `rows` samples of this shape are mixed.
    pub(in crate::data) fn draw(&self, augment: &Augment, key: &[u64], rows: usize, shape: &[usize]) -> Mixed {
        let mut random = Random::new(key);
        let turn = if rows < 2 { 0 } else { 1 + random.below(rows - 1) };
        Mixed { turn, rows: (0..rows).map(|_| row(augment, &mut random, shape)).collect() }
    }

    /// Mixes pictures of this shape.
    pub(in crate::data) fn apply(&mut self, mixed: &Mixed, pictures: &mut [u8], shape: &[usize]) {
        let &[channels, height, width] = shape else { return };
        let size = channels * height * width;
        self.before.clear();
        self.before.extend_from_slice(pictures);
        for (number, row) in mixed.rows.iter().enumerate() {
            let other = mixed.partner(number);
            let other = &self.before[other * size..(other + 1) * size];
            let own = &mut pictures[number * size..(number + 1) * size];
            if row.share < 1.0 {
                for (own, other) in own.iter_mut().zip(other) {
                    *own = to_byte(f32::from(*own) * row.share + f32::from(*other) * (1.0 - row.share));
                }
            }
            let [top, left, bottom, right] = row.rectangle;
            for line in (0..channels).flat_map(|channel| (top..bottom).map(move |row| channel * height + row)) {
                let range = line * width + left..line * width + right.max(left);
                own[range.clone()].copy_from_slice(&other[range]);
            }
        }
    }
}

impl Mixed {
    fn partner(&self, row: usize) -> usize {
        (row + self.turn) % self.rows.len()
    }

    /// The classes of rows that have one each.
    pub(in crate::data) fn targets(&self, targets: Targets) -> Targets {
        let Targets::Classes(mut first) = targets else { return targets };
        let padding = first.len() - self.rows.len();
        let mut second: Vec<u32> = (0..self.rows.len()).map(|row| first[self.partner(row)]).collect();
        let mut share: Vec<f32> = self.rows.iter().map(|row| row.class_share).collect();
        second.resize(first.len(), 0);
        share.extend(std::iter::repeat_n(1.0, padding));
        first.truncate(second.len());
        Targets::Mixed { first, second, share }
    }

    /// Puts it in the rows of parameters.
    pub(in crate::data) fn write(&self, parameters: &mut [f32]) {
        let all = parameters.chunks_exact_mut(PARAMETERS).enumerate();
        for (number, parameters) in all {
            // padding mixes with itself
            parameters[PARTNER] = number as f32;
            let Some(row) = self.rows.get(number) else { continue };
            parameters[PARTNER] = self.partner(number) as f32;
            parameters[SHARE] = row.share;
            put_rectangle(parameters, BOX, row.rectangle);
        }
    }
}

fn row(augment: &Augment, random: &mut Random, shape: &[usize]) -> Row {
    let unmixed = Row { share: 1.0, rectangle: [0; 4], class_share: 1.0 };
    let &[_, height, width] = shape else { return unmixed };
    match (augment.amount(Change::Mixup), augment.amount(Change::CutMix)) {
        (Some(alpha), cut) if cut.is_none() || random.chance(0.5) => {
            let share = random.beta(alpha) as f32;
            Row { share, class_share: share, ..unmixed }
        }
        (_, Some(alpha)) => {
            // Yun et al. (2019): a rectangle of the picture's proportions around any point; what is left of it counts
            let side = (1.0 - random.beta(alpha)).sqrt();
            let half = [(side * height as f64) as i64 / 2, (side * width as f64) as i64 / 2];
            let [y, x] = [random.below(height.max(1)) as i64, random.below(width.max(1)) as i64];
            let rectangle = clipped([y - half[0], x - half[1], y + half[0], x + half[1]], height, width);
            let [top, left, bottom, right] = rectangle;
            let area = ((bottom - top) * (right - left)) as f32;
            Row { rectangle, class_share: 1.0 - area / (height * width).max(1) as f32, ..unmixed }
        }
        _ => unmixed,
    }
}
