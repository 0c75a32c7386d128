//! An axis at another size: a table of the elements that each new one is made of, which is computed on the host.

use crate::error::Result;
use crate::tensor::Tensor;

use super::call::{Call, fail};
use super::checks::shape_along;

/// Where the place of a new element lies among the old ones.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Transformation {
    HalfPixel,
    HalfPixelSymmetric,
    PytorchHalfPixel,
    AlignCorners,
    Asymmetric,
    CropAndResize { start: f32, end: f32 },
}

/// How a place becomes elements.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Mode {
    Nearest(Rounding),
    Linear,
    Cubic { a: f64 },
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Rounding {
    PreferFloor,
    PreferCeil,
    Floor,
    Ceil,
    /// Of version 10: up where the picture shrinks, else down.
    Simple,
}

/// How an axis changes.
pub(super) struct Axis {
    pub(super) old: usize,
    pub(super) new: usize,
    /// New elements for each old one.
    pub(super) scale: f64,
    /// The new size that places are measured by: where it follows from a scale, that without rounding.
    pub(super) whole: f64,
    pub(super) transformation: Transformation,
}

impl Axis {
    /// The place of a new element, in old ones. It is computed in f32, as elsewhere: of places between two elements,
    /// rounding decides.
    pub(super) fn place(&self, number: usize) -> f64 {
        self.place_f32(number).into()
    }

    fn place_f32(&self, number: usize) -> f32 {
        let (old, new, at) = (self.old as f32, self.new as f32, number as f32);
        let scale = self.scale as f32;
        let half = (at + 0.5) / scale - 0.5;
        let whole = self.whole as f32;
        match self.transformation {
            Transformation::HalfPixel => half,
            Transformation::HalfPixelSymmetric => old / 2.0 * (1.0 - new / whole) + half,
            Transformation::PytorchHalfPixel if self.new > 1 => half,
            Transformation::PytorchHalfPixel => 0.0,
            Transformation::AlignCorners if whole == 1.0 || self.new == 1 => 0.0,
            Transformation::AlignCorners => at * (old - 1.0) / (whole - 1.0),
            Transformation::Asymmetric => at / scale,
            Transformation::CropAndResize { start, end } if self.new > 1 => {
                start * (old - 1.0) + at * (end - start) * (old - 1.0) / (new - 1.0)
            }
            Transformation::CropAndResize { start, end } => 0.5 * (start + end) * (old - 1.0),
        }
    }

    /// Whether a place lies where nothing is.
    pub(super) fn is_outside(&self, place: f64) -> bool {
        matches!(self.transformation, Transformation::CropAndResize { .. })
            && !(0.0..=self.old as f64 - 1.0).contains(&place)
    }

    fn nearest(&self, place: f64, rounding: Rounding) -> i64 {
        let rounded = match rounding {
            Rounding::PreferFloor => (place - 0.5).ceil(),
            Rounding::PreferCeil => (place + 0.5).floor(),
            Rounding::Floor => place.floor(),
            Rounding::Ceil => place.ceil(),
            Rounding::Simple if self.scale < 1.0 => place.ceil(),
            Rounding::Simple => place.floor(),
        };
        rounded as i64
    }
}

/// `[batch, channels, ..]` by weights of the elements around each place.
pub(super) struct Table {
    /// Elements per place.
    taps: usize,
    /// Their numbers, within the axis, `[new · taps]`.
    numbers: Vec<usize>,
    weights: Vec<f64>,
}

/// What the weights depend on, beside places.
#[derive(Clone, Copy)]
pub(super) struct Filter {
    pub(super) mode: Mode,
    /// Wider where the picture shrinks.
    pub(super) antialias: bool,
    /// Elements outside do not count; else they are those of the edge.
    pub(super) exclude_outside: bool,
}

/// The weight of an element at a distance.
fn weight(mode: Mode, distance: f64) -> f64 {
    let d = distance.abs();
    match mode {
        Mode::Nearest(_) => 1.0,
        Mode::Linear => (1.0 - d).max(0.0),
        Mode::Cubic { a } if d <= 1.0 => ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0,
        Mode::Cubic { a } if d < 2.0 => ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a,
        Mode::Cubic { .. } => 0.0,
    }
}

impl Table {
    pub(super) fn new(axis: &Axis, filter: Filter, limit: usize) -> Result<Self> {
        let last = axis.old as i64 - 1;
        if let Mode::Nearest(rounding) = filter.mode {
            let number = |at: usize| axis.nearest(axis.place(at), rounding).clamp(0, last) as usize;
            let numbers = (0..axis.new).map(number).collect();
            return Ok(Self { taps: 1, numbers, weights: vec![1.0; axis.new] });
        }
        let reach: f64 = if filter.mode == Mode::Linear { 1.0 } else { 2.0 };
        let stretch = if filter.antialias { axis.scale.min(1.0) } else { 1.0 };
        // from so many before the element below the place
        let first = (-reach / stretch).floor() as i64 + 1;
        let taps = usize::try_from(2 - 2 * first).unwrap_or(usize::MAX);
        if taps.saturating_mul(axis.new) > limit {
            return fail(format!("{} elements made of {taps} each", axis.new));
        }
        let (mut numbers, mut weights) = (Vec::new(), Vec::new());
        for at in 0..axis.new {
            let place = axis.place(at);
            let below = place.floor();
            let start = weights.len();
            let mut sum = 0.0;
            for tap in first..first + taps as i64 {
                let number = (below as i64).saturating_add(tap);
                let is_inside = (0..=last).contains(&number);
                let mut weight = weight(filter.mode, (tap as f64 - (place - below)) * stretch);
                if filter.exclude_outside && !is_inside {
                    weight = 0.0;
                }
                sum += weight;
                numbers.push(number.clamp(0, last) as usize);
                weights.push(weight);
            }
            if (filter.exclude_outside || filter.antialias) && sum != 0.0 {
                weights[start..].iter_mut().for_each(|weight| *weight /= sum);
            }
        }
        Ok(Self { taps, numbers, weights })
    }

    /// The value with an axis at its new places.
    pub(super) fn apply(&self, call: &Call<'_>, x: &Tensor, axis: usize) -> Result<Tensor> {
        let new = self.weights.len() / self.taps;
        let old = x.shape()[axis];
        let column = |tap: usize| (0..new).map(move |at| at * self.taps + tap);
        let number = axis.cast_signed();
        if self.taps == 1 {
            let factor = new / old.max(1);
            let repeats = new.is_multiple_of(old) && (0..new).all(|at| self.numbers[at] == at / factor);
            if repeats {
                return Ok(if factor == 1 { x.clone() } else { x.repeat_interleave(factor, number) });
            }
            let numbers: Vec<i32> = self.numbers.iter().map(|&number| number as i32).collect();
            return Ok(x.index_select(number, &Tensor::from_vec(numbers, call.device())?));
        }
        if self.taps > 4 {
            return self.as_product(call, x, axis);
        }
        let along = shape_along(x.rank(), axis, new);
        let mut sum: Option<Tensor> = None;
        for tap in 0..self.taps {
            let numbers: Vec<i32> = column(tap).map(|place| self.numbers[place] as i32).collect();
            let weights: Vec<f32> = column(tap).map(|place| self.weights[place] as f32).collect();
            let weights = Tensor::from_slice(&weights, along.as_slice(), call.device())?.to_dtype(x.dtype());
            let term = x.index_select(number, &Tensor::from_vec(numbers, call.device())?) * weights;
            sum = Some(match sum {
                Some(sum) => sum + term,
                None => term,
            });
        }
        Ok(sum.unwrap_or_else(|| x.clone()))
    }

    /// The same as a product with a matrix, where many elements count.
    fn as_product(&self, call: &Call<'_>, x: &Tensor, axis: usize) -> Result<Tensor> {
        let (new, old) = (self.weights.len() / self.taps, x.shape()[axis]);
        call.shape(&[old, new])?;
        let mut matrix = vec![0.0_f32; old * new];
        for (place, (&number, &weight)) in self.numbers.iter().zip(&self.weights).enumerate() {
            matrix[number * new + place / self.taps] += weight as f32;
        }
        let matrix = Tensor::from_slice(&matrix, [old, new], call.device())?.to_dtype(x.dtype());
        Ok(x.transpose(axis.cast_signed(), -1).matmul(&matrix).transpose(axis.cast_signed(), -1))
    }
}
