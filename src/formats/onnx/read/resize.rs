//! Pictures at other sizes: each axis by a table of the elements that each new one is made of, which is computed on the host.

use crate::error::Result;
use crate::ops::movement::with_size;
use crate::tensor::{Outside, Tensor};

use super::call::{Call, Outputs, axis, fail, one, sizes};
use super::table::{Operator, op};

pub(super) const OPERATORS: &[Operator] = &[
    op("AffineGrid", 20, affine_grid),
    op("GridSample", 16, grid_sample),
    op("Resize", 10, resize),
    op("Upsample", 7, upsample),
];

/// Where the place of a new element lies among the old ones.
#[derive(Clone, Copy, PartialEq)]
enum Transformation {
    HalfPixel,
    HalfPixelSymmetric,
    PytorchHalfPixel,
    AlignCorners,
    Asymmetric,
    CropAndResize { start: f64, end: f64 },
}

/// How a place becomes elements.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Nearest(Rounding),
    Linear,
    Cubic { a: f64 },
}

#[derive(Clone, Copy, PartialEq)]
enum Rounding {
    PreferFloor,
    PreferCeil,
    Floor,
    Ceil,
    /// Of version 10: up where the picture shrinks, else down.
    Simple,
}

/// How an axis changes.
struct Axis {
    old: usize,
    new: usize,
    scale: f64,
    transformation: Transformation,
}

impl Axis {
    /// The place of a new element, in old ones.
    fn place(&self, number: usize) -> f64 {
        let (old, new, at) = (self.old as f64, self.new as f64, number as f64);
        let half = (at + 0.5) / self.scale - 0.5;
        // what the size would be without rounding
        let whole = self.scale * old;
        match self.transformation {
            Transformation::HalfPixel => half,
            Transformation::HalfPixelSymmetric => old / 2.0 * (1.0 - new / whole) + half,
            Transformation::PytorchHalfPixel if self.new > 1 => half,
            Transformation::PytorchHalfPixel => 0.0,
            Transformation::AlignCorners if whole == 1.0 || self.new == 1 => 0.0,
            Transformation::AlignCorners => at * (old - 1.0) / (whole - 1.0),
            Transformation::Asymmetric => at / self.scale,
            Transformation::CropAndResize { start, end } if self.new > 1 => {
                (start + at * (end - start) / (new - 1.0)) * (old - 1.0)
            }
            Transformation::CropAndResize { start, end } => 0.5 * (start + end) * (old - 1.0),
        }
    }

    /// Whether a place lies where nothing is.
    fn is_outside(&self, place: f64) -> bool {
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
struct Table {
    /// Elements per place.
    taps: usize,
    /// Their numbers, within the axis, `[new · taps]`.
    numbers: Vec<usize>,
    weights: Vec<f64>,
}

/// What the weights depend on, beside places.
#[derive(Clone, Copy)]
struct Filter {
    mode: Mode,
    /// Wider where the picture shrinks.
    antialias: bool,
    /// Elements outside do not count; else they are those of the edge.
    exclude_outside: bool,
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
    fn new(axis: &Axis, filter: Filter, limit: usize) -> Result<Self> {
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
    fn apply(&self, call: &Call<'_>, x: &Tensor, axis: usize) -> Result<Tensor> {
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
        let mut along = vec![1; x.rank()];
        along[axis] = new;
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

fn transformation(name: &str) -> Result<Transformation> {
    Ok(match name {
        "half_pixel" => Transformation::HalfPixel,
        "half_pixel_symmetric" => Transformation::HalfPixelSymmetric,
        "pytorch_half_pixel" => Transformation::PytorchHalfPixel,
        "align_corners" => Transformation::AlignCorners,
        "asymmetric" => Transformation::Asymmetric,
        "tf_crop_and_resize" => Transformation::CropAndResize { start: 0.0, end: 1.0 },
        other => return fail(format!("coordinate_transformation_mode `{other}` is not known")),
    })
}

fn mode(call: &Call<'_>, rounding: Rounding) -> Result<Mode> {
    Ok(match call.text("mode", "nearest")?.as_str() {
        "nearest" => Mode::Nearest(rounding),
        "linear" | "bilinear" | "trilinear" => Mode::Linear,
        "cubic" => Mode::Cubic { a: call.number_attribute("cubic_coeff_a", -0.75)? },
        other => return fail(format!("mode `{other}` is not known")),
    })
}

fn upsample(call: &Call<'_>) -> Outputs {
    let x = call.float(0)?;
    let scales = match call.opset() {
        ..9 => call.floats("scales")?.unwrap_or_default().into_iter().map(f64::from).collect(),
        _ => call.host(1)?.to_f64(),
    };
    let filter = Filter { mode: mode(call, Rounding::Floor)?, antialias: false, exclude_outside: false };
    let axes: Vec<usize> = (0..x.rank()).collect();
    let changes = by_scales(&x, &axes, &scales, &vec![Transformation::Asymmetric; axes.len()])?;
    resized(call, x, &changes, filter, 0.0)
}

/// A factor for each axis, sizes rounded down.
fn by_scales(x: &Tensor, axes: &[usize], scales: &[f64], of: &[Transformation]) -> Result<Vec<(usize, Axis)>> {
    if scales.len() != axes.len() || scales.iter().any(|scale| !(1e-6..=1e6).contains(scale)) {
        return fail(format!("scales {scales:?} for {} axes of {}", axes.len(), x.shape()));
    }
    let change = |((&axis, &scale), &transformation): ((&usize, &f64), &Transformation)| {
        let old = x.shape()[axis];
        // a factor such as 0.6 is a little more or less, as f32
        let new = ((old as f32) * (scale as f32)).floor() as usize;
        (axis, Axis { old, new, scale, transformation })
    };
    Ok(axes.iter().zip(scales).zip(of).map(change).collect())
}

fn resize(call: &Call<'_>) -> Outputs {
    let x = call.number(0)?;
    let dtype = x.dtype();
    let old_version = call.opset() < 11;
    let rounding = match call.text("nearest_mode", "round_prefer_floor")?.as_str() {
        _ if old_version => Rounding::Simple,
        "round_prefer_floor" => Rounding::PreferFloor,
        "round_prefer_ceil" => Rounding::PreferCeil,
        "floor" => Rounding::Floor,
        "ceil" => Rounding::Ceil,
        other => return fail(format!("nearest_mode `{other}` is not known")),
    };
    let mode = mode(call, rounding)?;
    let x = if mode == Mode::Nearest(rounding) || dtype.is_float() { x } else { x.to_dtype(crate::DType::F32) };
    let name = call.text("coordinate_transformation_mode", if old_version { "asymmetric" } else { "half_pixel" })?;
    let transformation = transformation(if old_version { "asymmetric" } else { &name })?;
    let axes: Vec<usize> = match call.list("axes")? {
        Some(numbers) => numbers.iter().map(|&number| axis(number, x.rank(), x.shape())).collect::<Result<_>>()?,
        None => (0..x.rank()).collect(),
    };
    let mut transformations = vec![transformation; axes.len()];
    if matches!(transformation, Transformation::CropAndResize { .. }) {
        let region = call.host(1)?.to_f64();
        if region.len() != 2 * axes.len() || region.iter().any(|place| !place.is_finite()) {
            return fail(format!("a region of {} numbers for {} axes", region.len(), axes.len()));
        }
        for (number, of) in transformations.iter_mut().enumerate() {
            *of = Transformation::CropAndResize { start: region[number], end: region[number + axes.len()] };
        }
    }
    let scales = match call.given(if old_version { 1 } else { 2 }) {
        Some(value) if value.shape().numel() > 0 => Some(call.host(if old_version { 1 } else { 2 })?.to_f64()),
        _ => None,
    };
    let changes = match scales {
        Some(scales) => by_scales(&x, &axes, &scales, &transformations)?,
        None => by_sizes(call, &x, &axes, &transformations)?,
    };
    let filter = Filter { mode, antialias: call.flag("antialias")?, exclude_outside: call.flag("exclude_outside")? };
    let value = resized(call, x, &changes, filter, call.number_attribute("extrapolation_value", 0.0)?)?;
    value.into_iter().map(|value| call.on_device(&value).map(|value| value.to_dtype(dtype).into())).collect()
}

fn by_sizes(call: &Call<'_>, x: &Tensor, axes: &[usize], of: &[Transformation]) -> Result<Vec<(usize, Axis)>> {
    let wanted = sizes(&call.ints(3)?, "the sizes")?;
    if wanted.len() != axes.len() || axes.iter().any(|&axis| x.shape()[axis] == 0) {
        return fail(format!("sizes {wanted:?} for {} axes of {}", axes.len(), x.shape()));
    }
    let scales: Vec<f64> = axes.iter().zip(&wanted).map(|(&axis, &new)| new as f64 / x.shape()[axis] as f64).collect();
    let one_scale = match call.text("keep_aspect_ratio_policy", "stretch")?.as_str() {
        "stretch" => None,
        "not_larger" => scales.iter().copied().reduce(f64::min),
        "not_smaller" => scales.iter().copied().reduce(f64::max),
        other => return fail(format!("keep_aspect_ratio_policy `{other}` is not known")),
    };
    let change = |number: usize| {
        let (axis, old) = (axes[number], x.shape()[axes[number]]);
        let (new, scale) = match one_scale {
            None => (wanted[number], scales[number]),
            Some(scale) => ((scale * old as f64 + 0.5).floor() as usize, scale),
        };
        (axis, Axis { old, new, scale, transformation: of[number] })
    };
    Ok((0..axes.len()).map(change).collect())
}

fn resized(call: &Call<'_>, x: Tensor, changes: &[(usize, Axis)], filter: Filter, outside: f64) -> Outputs {
    let mut whole = x.shape().clone();
    for (axis, change) in changes {
        if change.old == 0 || change.new == 0 || !change.scale.is_finite() || change.scale <= 0.0 {
            return fail(format!("axis {axis} of {} becomes {}", x.shape(), change.new));
        }
        whole = with_size(&whole, *axis, change.new);
    }
    call.shape(&whole)?;
    let mut value = x;
    let mut beyond: Option<Tensor> = None;
    for (axis, change) in changes {
        let crops =
            matches!(change.transformation, Transformation::CropAndResize { start, end } if (start, end) != (0.0, 1.0));
        if change.old == change.new && change.scale == 1.0 && !crops {
            continue;
        }
        let between = with_size(value.shape(), *axis, change.new);
        call.shape(&between)?;
        value = Table::new(change, filter, call.pass.limit)?.apply(call, &value, *axis)?;
        let out: Vec<bool> = (0..change.new).map(|at| change.is_outside(change.place(at))).collect();
        if out.contains(&true) {
            let mut along = vec![1; value.rank()];
            along[*axis] = change.new;
            let out = Tensor::from_slice(&out, along, call.device())?;
            beyond = Some(match beyond {
                Some(beyond) => beyond.logical_or(&out),
                None => out,
            });
        }
    }
    one(match beyond {
        Some(beyond) => beyond.expand(value.shape()).where_(value.full_like(outside), &value),
        None => value,
    })
}

fn grid_sample(call: &Call<'_>) -> Outputs {
    let (x, grid) = super::contract::alike(call.float(0)?, call.float(1)?)?;
    let nearest = match call.text("mode", "linear")?.as_str() {
        "nearest" => true,
        "linear" | "bilinear" => false,
        other => return fail(format!("mode `{other}` is not known here")),
    };
    let outside = match call.text("padding_mode", "zeros")?.as_str() {
        "zeros" => Outside::Zeros,
        "border" => Outside::Border,
        "reflection" => Outside::Reflection,
        other => return fail(format!("padding_mode `{other}` is not known")),
    };
    let rank = x.rank();
    let fits = (rank == 4 || rank == 5)
        && grid.rank() == rank
        && grid.shape()[rank - 1] == rank - 2
        && grid.shape()[0] == x.shape()[0];
    if !fits || x.numel() == 0 || grid.numel() == 0 {
        return fail(format!("{} at {}", x.shape(), grid.shape()));
    }
    call.shape(&[&x.shape()[..2], &grid.shape()[1..rank - 1]].concat())?;
    one(x.grid_sample(&grid, nearest, outside, call.flag("align_corners")?))
}

fn affine_grid(call: &Call<'_>) -> Outputs {
    let theta = call.float(0)?;
    let size = sizes(&call.ints(1)?, "the sizes")?;
    let axes = size.len().saturating_sub(2);
    let fits = (axes == 2 || axes == 3) && *theta.shape() == [size[0], axes, axes + 1].into() && !size.contains(&0);
    if !fits {
        return fail(format!("maps {} for a value of {size:?}", theta.shape()));
    }
    call.shape(&[&size[..1], &size[2..], &[axes]].concat())?;
    one(theta.affine_grid(&size[2..], call.flag("align_corners")?))
}
