//! Pictures at other sizes, and at places that are data.

use crate::error::Result;
use crate::ops::movement::with_size;
use crate::tensor::{Outside, Tensor};

use super::call::{Call, Outputs, fail, one};
use super::checks::{axis, shape_along, sizes};
use super::resample::{Axis, Filter, Mode, Rounding, Table, Transformation};
use super::table::{Operator, op};

pub(super) const OPERATORS: &[Operator] = &[
    op("AffineGrid", 20, affine_grid),
    op("GridSample", 16, grid_sample),
    op("Resize", 10, resize),
    op("Upsample", 7, upsample),
];

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
    let changes = by_scales(call, &x, &axes, &scales, &vec![Transformation::Asymmetric; axes.len()])?;
    resized(call, x, &changes, filter, 0.0)
}

/// A factor for each axis, sizes rounded down.
fn by_scales(
    call: &Call<'_>,
    x: &Tensor,
    axes: &[usize],
    scales: &[f64],
    of: &[Transformation],
) -> Result<Vec<(usize, Axis)>> {
    if scales.len() != axes.len() || scales.iter().any(|scale| !(1e-6..=1e6).contains(scale)) {
        return fail(format!("scales {scales:?} for {} axes of {}", axes.len(), x.shape()));
    }
    let change = |((&axis, &scale), &transformation): ((&usize, &f64), &Transformation)| {
        let old = x.shape()[axis];
        // a factor such as 0.6 is a little more or less, as f32
        let new = ((old as f32) * (scale as f32)).floor() as usize;
        // ONNX's reference measures by the size without rounding; PyTorch, whose model it is, and ONNX Runtime do not
        let is_rounded = call.pass.by_pytorch && transformation == Transformation::AlignCorners;
        let (scale, whole) =
            if is_rounded { (new as f64 / old as f64, new as f64) } else { (scale, scale * old as f64) };
        (axis, Axis { old, new, scale, whole, transformation })
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
    if axes.iter().enumerate().any(|(number, axis)| axes[..number].contains(axis)) {
        return fail(format!("an axis occurs twice in {axes:?}"));
    }
    let mut transformations = vec![transformation; axes.len()];
    if matches!(transformation, Transformation::CropAndResize { .. }) {
        let region = call.host(1)?.to_f64();
        if region.len() != 2 * axes.len() || region.iter().any(|place| !place.is_finite()) {
            return fail(format!("a region of {} numbers for {} axes", region.len(), axes.len()));
        }
        for (number, of) in transformations.iter_mut().enumerate() {
            *of =
                Transformation::CropAndResize { start: region[number] as f32, end: region[number + axes.len()] as f32 };
        }
    }
    let scales = match call.given(if old_version { 1 } else { 2 }) {
        Some(value) if value.shape().numel() > 0 => Some(call.host(if old_version { 1 } else { 2 })?.to_f64()),
        _ => None,
    };
    let changes = match scales {
        Some(scales) => by_scales(call, &x, &axes, &scales, &transformations)?,
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
        let (new, scale, whole) = match one_scale {
            None => (wanted[number], scales[number], wanted[number] as f64),
            Some(scale) => ((scale * old as f64 + 0.5).floor() as usize, scale, scale * old as f64),
        };
        (axis, Axis { old, new, scale, whole, transformation: of[number] })
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
            let out = Tensor::from_slice(&out, shape_along(value.rank(), *axis, change.new), call.device())?;
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
    let (x, grid) = super::checks::alike(call.float(0)?, call.float(1)?)?;
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
