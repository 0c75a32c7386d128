//! Augmentation by the device, as ordinary ops: what is not in the list is not traced.

use super::draw::{
    BLUR, BOX, BRIGHTNESS, CONTRAST, ERASE, HUE, NOISE, NOISE_KEY, PARAMETERS, PARTNER, SATURATION, SHARE,
};
use super::{Augment, Change};
use crate::data::IGNORED;
use crate::data::augment::color::GREY;
use crate::data::augment::filter::{MIN_DEVIATION, SCRAMBLE, SECOND, UNIT};
use crate::data::augment::warp::{MIN_DEPTH, reflected};
use crate::dtype::DType;
use crate::tensor::{Outside, Tensor};

/// The parameters of each row.
struct Parameters<'a>(&'a Tensor);

impl Parameters<'_> {
    /// One of them, `[rows, 1..]` of this rank.
    fn at(&self, place: usize, rank: usize) -> Tensor {
        let mut shape = vec![1; rank];
        shape[0] = self.0.shape()[0];
        self.0.select(1, place).reshape(shape)
    }
}

/// Numbers along an axis, `[1.., size, 1..]` of this rank, as f32.
fn count(axis: usize, size: usize, rank: usize, like: &Tensor) -> Tensor {
    let mut shape = vec![1; rank];
    shape[axis] = size;
    Tensor::iota(shape, axis, like.device()).to_dtype(DType::F32)
}

impl Augment {
    /// Does to pictures, `[rows, channels, height, width]` of bytes, what each row of `parameters` says, `[rows,`
    /// [`PARAMETERS`]`]` of floats; bytes again, as if the host had done it.
    ///
    /// # Panics
    /// If shapes or types are others.
    #[track_caller]
    #[must_use]
    pub fn apply_on_device(&self, pictures: &Tensor, parameters: &Tensor) -> Tensor {
        check(pictures, 4, parameters);
        let drawn = Parameters(parameters);
        let mut levels = pictures.to_dtype(DType::F32);
        if self.moves() {
            let fill = f64::from(self.fill);
            let places = self.places(&drawn, pictures.shape()[2], pictures.shape()[3]);
            // by whole pixels, the nearest one is the picture itself
            levels = (levels - fill).at_places(&places, self.moves_exactly()) + fill;
        }
        levels = self.recolored(levels, &drawn);
        levels = levels.clamp(0.0, 255.0).round();
        if self.has(&[Change::Erase, Change::Cutout]) {
            levels = inside(&levels, &drawn, ERASE).where_(f64::from(self.fill), &levels);
        }
        if self.mixes() {
            levels = mixed(&levels, &drawn);
        }
        levels.to_dtype(DType::U8)
    }

    /// Does the same to masks, `[rows, height, width]` of bytes, where the nearest class is taken, and
    /// [`IGNORED`] where there is none.
    ///
    /// # Panics
    /// If shapes or types are others.
    #[track_caller]
    #[must_use]
    pub fn apply_to_masks(&self, masks: &Tensor, parameters: &Tensor) -> Tensor {
        check(masks, 3, parameters);
        let drawn = Parameters(parameters);
        let ignored = f64::from(IGNORED);
        let mut classes = masks.to_dtype(DType::F32).unsqueeze(1);
        if self.moves() {
            let places = self.places(&drawn, masks.shape()[1], masks.shape()[2]);
            classes = (classes - ignored).at_places(&places, true) + ignored;
        }
        if self.has(&[Change::Erase, Change::Cutout]) {
            classes = inside(&classes, &drawn, ERASE).where_(ignored, &classes);
        }
        classes.squeeze(1).to_dtype(DType::U8)
    }

    /// Where the pixels of the result come from: y and x, `[rows, height, width]` each.
    fn places(&self, drawn: &Parameters, height: usize, width: usize) -> [Tensor; 2] {
        let middle = |size: usize| (size as f64 - 1.0) / 2.0;
        let x = count(2, width, 3, drawn.0) - middle(width);
        let y = count(1, height, 3, drawn.0) - middle(height);
        let row = |row: usize| {
            let [a, b, c] = [0, 1, 2].map(|column| drawn.at(3 * row + column, 3));
            a * &x + b * &y + c
        };
        let [mut u, mut v] = [row(0), row(1)];
        if self.has(&[Change::Perspective]) {
            let depth = row(2).maximum(f64::from(MIN_DEPTH));
            [u, v] = [u / &depth, v / depth];
        }
        [settled(&(v + middle(height)), height, self.edge), settled(&(u + middle(width)), width, self.edge)]
    }

    /// All that changes the levels, in its fixed order.
    fn recolored(&self, mut levels: Tensor, drawn: &Parameters) -> Tensor {
        let channels = levels.shape()[1];
        let factor = |place: usize| drawn.at(place, 4);
        if self.has(&[Change::Brightness]) {
            levels = (levels * factor(BRIGHTNESS)).clamp(0.0, 255.0);
        }
        if self.has(&[Change::Contrast]) {
            let mean = grey(&levels).mean_keepdim([1, 2, 3]);
            levels = blended(&levels, &mean, &factor(CONTRAST));
        }
        if self.has(&[Change::Saturation]) && channels == 3 {
            levels = blended(&levels, &grey(&levels), &factor(SATURATION));
        }
        if self.has(&[Change::Hue]) && channels == 3 {
            levels = turned(&levels, &factor(HUE));
        }
        if let Some(radius) = self.blur_radius() {
            let deviation = factor(BLUR).maximum(f64::from(MIN_DEVIATION));
            levels = blurred(&blurred(&levels, &deviation, radius, 3), &deviation, radius, 2);
        }
        if self.has(&[Change::Noise]) {
            levels = &levels + factor(NOISE) * normal(&levels, &factor(NOISE_KEY));
        }
        levels
    }
}

#[track_caller]
fn check(pictures: &Tensor, rank: usize, parameters: &Tensor) {
    let (shape, wanted) = (pictures.shape(), [pictures.shape()[0], PARAMETERS]);
    assert!(
        pictures.rank() == rank && pictures.dtype() == DType::U8 && *parameters.shape() == wanted.into(),
        "augmentation: {} {shape} with parameters {}",
        pictures.dtype(),
        parameters.shape()
    );
}

/// As `settled` in `warp.rs`.
fn settled(place: &Tensor, size: usize, edge: Outside) -> Tensor {
    let last = size as f64 - 1.0;
    match edge {
        Outside::Zeros => place.clamp(-2.0, last + 2.0),
        Outside::Border => place.clamp(0.0, last),
        Outside::Reflection if size == 1 => place * 0.0,
        Outside::Reflection => {
            let rest = place.abs().fmod(2.0 * last);
            rest.minimum(2.0 * last - &rest).clamp(0.0, last)
        }
    }
}

/// True in the rectangle of each row whose parameters begin at `place`; `[rows, 1, height, width]`.
fn inside(levels: &Tensor, drawn: &Parameters, place: usize) -> Tensor {
    let [top, left, bottom, right] = [0, 1, 2, 3].map(|side| drawn.at(place + side, 4));
    let (y, x) = (count(2, levels.shape()[2], 4, levels), count(3, levels.shape()[3], 4, levels));
    let rows = y.ge(&top).logical_and(&y.lt(&bottom));
    rows.logical_and(&x.ge(&left).logical_and(&x.lt(&right)))
}

/// Mixes each row with its partner.
fn mixed(levels: &Tensor, drawn: &Parameters) -> Tensor {
    let partner = drawn.0.select(1, PARTNER).to_dtype(DType::I32);
    let other = levels.index_select(0, &partner);
    let share = drawn.at(SHARE, 4);
    let both = (levels * &share + &other * (1.0 - &share)).round();
    inside(levels, drawn, BOX).where_(&other, &both)
}

/// `[rows, 1, height, width]`.
fn grey(levels: &Tensor) -> Tensor {
    if levels.shape()[1] != 3 {
        return levels.mean_keepdim(1);
    }
    let part = |channel: usize| levels.narrow(1, channel, 1) * f64::from(GREY[channel]);
    part(0) + part(1) + part(2)
}

fn blended(levels: &Tensor, with: &Tensor, factor: &Tensor) -> Tensor {
    (levels * factor + with * (1.0 - factor)).clamp(0.0, 255.0)
}

/// As in `color.rs`, with choices in the place of branches.
fn turned(levels: &Tensor, turns: &Tensor) -> Tensor {
    let [red, green, blue] = [0, 1, 2].map(|channel| levels.narrow(1, channel, 1));
    let most = red.maximum(&green).maximum(&blue);
    let range = &most - red.minimum(&green).minimum(&blue);
    let is_grey = range.eq(0.0);
    let divisor = is_grey.where_(1.0, &range);
    let of_green = 2.0 + (&blue - &red) / &divisor;
    let of_blue = 4.0 + (&red - &green) / &divisor;
    let of_red = (&green - &blue) / &divisor;
    let sixths = most.eq(&red).where_(&of_red, most.eq(&green).where_(&of_green, &of_blue)) + turns * 6.0;
    // value · saturation is the range
    let channel = |offset: f64| {
        let place = &sixths + offset;
        let place = &place - (&place * (1.0 / 6.0)).floor() * 6.0;
        &most - &range * place.minimum(4.0 - &place).clamp(0.0, 1.0)
    };
    Tensor::cat(&[&channel(5.0), &channel(3.0), &channel(1.0)], 1)
}

/// Blurs along one axis.
fn blurred(levels: &Tensor, deviation: &Tensor, radius: usize, axis: usize) -> Tensor {
    let size = levels.shape()[axis];
    let places: Vec<i32> = (0..size + 2 * radius).map(|at| reflected(at as i64 - radius as i64, size) as i32).collect();
    let sides = |range: std::ops::Range<usize>| -> Vec<Tensor> {
        places[range].iter().map(|&place| levels.narrow(axis as isize, place as usize, 1)).collect()
    };
    let (before, after) = (sides(0..radius), sides(size + radius..size + 2 * radius));
    let pieces: Vec<&Tensor> = before.iter().chain([levels]).chain(&after).collect();
    let padded = Tensor::cat(&pieces, axis as isize);
    let weight = |tap: usize| ((deviation.reciprocal() * (tap as f64 - radius as f64)).square() * -0.5).exp();
    let weights: Vec<Tensor> = (0..=2 * radius).map(weight).collect();
    let sum = weights.iter().cloned().reduce(|sum, weight| sum + weight).expect("there is a middle");
    let term = |tap: usize| padded.narrow(axis as isize, tap, size) * &weights[tap];
    (0..=2 * radius).map(term).reduce(|sum, term| sum + term).expect("there is a middle") / sum
}

/// As in `filter.rs`: the same bits, and the device's own logarithm, root and cosine.
fn normal(levels: &Tensor, key: &Tensor) -> Tensor {
    let shape = levels.shape();
    let sides = [shape[1], shape[2], shape[3]];
    let element = Tensor::iota([sides.iter().product::<usize>()], 0, levels.device()).to_dtype(DType::U32);
    let element = element.reshape([1, sides[0], sides[1], sides[2]]);
    let first = scrambled(&element.bitwise_xor(scrambled(&key.to_dtype(DType::U32))));
    let second = scrambled(&first.bitwise_xor(i64::from(SECOND)));
    let unit = |bits: &Tensor| bits.bitwise_right_shift(8).to_dtype(DType::F32) * f64::from(UNIT);
    let radius = ((1.0 - unit(&first)).log() * -2.0).sqrt();
    radius * (unit(&second) * f64::from(std::f32::consts::TAU)).cos()
}

fn scrambled(bits: &Tensor) -> Tensor {
    let mut bits = bits.clone();
    for (shift, factor) in SCRAMBLE {
        bits = bits.bitwise_xor(bits.bitwise_right_shift(i64::from(shift))) * i64::from(factor);
    }
    bits.bitwise_xor(bits.bitwise_right_shift(16))
}
