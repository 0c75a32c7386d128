//! What detectors do with boxes: which of them to keep, and the features inside of each.

use crate::dtype::DType;
use crate::error::Result;
use crate::tensor::Tensor;

use super::call::{Call, Outputs, fail, one};
use super::table::{Operator, op};
use super::value::HostTensor;

pub(super) const OPERATORS: &[Operator] =
    &[op("NonMaxSuppression", 10, non_max_suppression), op("RoiAlign", 10, roi_align)];

/// A box by its corners, the smaller coordinates first.
#[derive(Clone, Copy)]
struct Corners {
    low: [f64; 2],
    high: [f64; 2],
}

impl Corners {
    /// Of two opposite corners, or of the centre and the sizes.
    fn new(numbers: &[f64], by_centre: bool) -> Self {
        let &[a, b, c, d] = numbers else { unreachable!("four numbers") };
        if by_centre {
            let (half_width, half_height) = (c / 2.0, d / 2.0);
            return Self { low: [a - half_width, b - half_height], high: [a + half_width, b + half_height] };
        }
        Self { low: [a.min(c), b.min(d)], high: [a.max(c), b.max(d)] }
    }

    fn area(&self) -> f64 {
        (self.high[0] - self.low[0]) * (self.high[1] - self.low[1])
    }

    /// Whether the part that both share is larger than `threshold` of what they cover together.
    fn overlaps(&self, other: &Self, threshold: f64) -> bool {
        let side = |axis: usize| self.high[axis].min(other.high[axis]) - self.low[axis].max(other.low[axis]);
        let (width, height) = (side(0), side(1));
        if width <= 0.0 || height <= 0.0 {
            return false;
        }
        let shared = width * height;
        shared > threshold * (self.area() + other.area() - shared)
    }
}

/// Of boxes `[batch, boxes, 4]` with scores `[batch, classes, boxes]` those of each class that overlap no better one:
/// rows of batch, class and box. Both are read: how many there are depends on them.
fn non_max_suppression(call: &Call<'_>) -> Outputs {
    let (boxes, scores) = (call.read(0)?, call.read(1)?);
    let (&[batch, count, 4], &[of_scores, classes, scored]) = (boxes.shape.dims(), scores.shape.dims()) else {
        let (boxes, scores) = (&boxes.shape, &scores.shape);
        return fail(format!(
            "boxes {boxes} and scores {scores} are not [batch, boxes, 4] and [batch, classes, boxes]"
        ));
    };
    if (of_scores, scored) != (batch, count) {
        return fail(format!("boxes {} and scores {} do not belong together", boxes.shape, scores.shape));
    }
    let most = match call.given(2) {
        Some(_) => usize::try_from(call.scalar_int(2)?).unwrap_or(0),
        None => 0,
    };
    let threshold = call.given(3).map_or(Ok(0.0), |_| call.scalar(3))?;
    let least = call.given(4).map_or(Ok(f64::NEG_INFINITY), |_| call.scalar(4))?;
    let by_centre = call.flag("center_point_box")?;
    let corners: Vec<Corners> =
        boxes.to_f64().chunks_exact(4).map(|numbers| Corners::new(numbers, by_centre)).collect();
    let mut found = Vec::new();
    for (row, scores) in scores.to_f64().chunks_exact(count.max(1)).enumerate().take(batch * classes) {
        let (sample, class) = (row / classes, row % classes);
        let boxes = &corners[sample * count..][..count];
        let mut order: Vec<usize> = (0..count).filter(|&number| scores[number] > least).collect();
        order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
        let mut kept: Vec<usize> = Vec::new();
        for number in order {
            if kept.len() >= most {
                break;
            }
            let better = kept.iter().position(|&better| boxes[number].overlaps(&boxes[better], threshold));
            call.pass.take_comparisons(better.map_or(kept.len(), |place| place + 1))?;
            if better.is_none() {
                kept.push(number);
            }
        }
        found.extend(kept.into_iter().flat_map(|number| [sample, class, number].map(|part| part as i64)));
    }
    one(HostTensor::ints([found.len() / 3, 3], found))
}

/// The samples of all boxes along one axis.
struct Samples {
    /// Positions on either side of each sample, `[boxes, bins, samples]` both.
    places: [Tensor; 2],
    /// Their weights; 0 for both where a sample lies outside, or is none of this box.
    weights: [Tensor; 2],
    /// Whether it is one of this box, which may have fewer than another one.
    is_own: Tensor,
    /// Samples of each bin, `[boxes]`.
    counts: Tensor,
}

/// How boxes are sampled along one axis of `size` positions.
struct Axis {
    size: usize,
    bins: usize,
    /// Samples of a bin; 0 for as many as there are positions in it.
    ratio: usize,
    /// Where boxes start and end, `[boxes]`.
    start: Tensor,
    end: Tensor,
    /// Whether boxes are one position long at least.
    at_least_one: bool,
}

impl Axis {
    fn samples(&self, call: &Call<'_>) -> Result<Samples> {
        let Self { size, bins, ratio, start, .. } = self;
        let mut length = &self.end - start;
        if self.at_least_one {
            length = length.maximum(1.0);
        }
        let counts = if *ratio > 0 { length.full_like(*ratio as f64) } else { (&length / *bins as f64).ceil() };
        let most = if *ratio > 0 { *ratio } else { largest(call, &counts)? };
        let boxes = start.numel();
        let shape = call.shape(&[boxes, *bins, most.max(1)])?;
        let along = |x: &Tensor| x.reshape([boxes, 1, 1]);
        let number = |axis| Tensor::iota(&shape, axis, start.device()).to_dtype(DType::F32);
        let (bin, sample, own) = (number(1), number(2), along(&counts));
        let part = along(&(&length / *bins as f64));
        let at = along(start) + &bin * &part + (&sample + 0.5) * &part / own.maximum(1.0);
        let is_own = sample.lt(&own).expand(&shape);
        let is_inside = at.ge(-1.0).logical_and(&at.le(*size as f64)).logical_and(&is_own);
        let last = size.saturating_sub(1) as f64;
        let at = at.clamp(0.0, last);
        let low = at.floor();
        let high = (&low + 1.0).minimum(last);
        let behind = &at - &low;
        let weights = [is_inside.where_(1.0 - &behind, 0.0), is_inside.where_(&behind, 0.0)];
        Ok(Samples { places: [low, high].map(|place| place.to_dtype(DType::I32)), weights, is_own, counts })
    }
}

/// The largest of some counts.
fn largest(call: &Call<'_>, counts: &Tensor) -> Result<usize> {
    let counts = call.read_tensor(counts)?.to_f64();
    // what is too large is refused with the shape that it belongs to
    Ok(counts.into_iter().fold(0.0, f64::max) as usize)
}

/// The mean (or the largest) of bilinear samples in each bin of each box: `[boxes, channels, height, width]`.
fn roi_align(call: &Call<'_>) -> Outputs {
    let (x, boxes, of) = (call.float(0)?, call.float(1)?, call.index(2)?);
    let (&[batch, channels, height, width], &[count, 4]) = (x.shape().dims(), boxes.shape().dims()) else {
        return fail(format!("{} and {} are not [batch, channels, ..] and [boxes, 4]", x.shape(), boxes.shape()));
    };
    if *of.shape() != [count].into() || batch * height * width == 0 {
        return fail(format!("{count} boxes in pictures {} by indices {}", x.shape(), of.shape()));
    }
    let size = |name: &str| match usize::try_from(call.int(name, 1)?) {
        Ok(size) if size > 0 => Ok(size),
        _ => fail(format!("attribute `{name}` is not positive")),
    };
    let bins = [size("output_height")?, size("output_width")?];
    let ratio = usize::try_from(call.int("sampling_ratio", 0)?).unwrap_or(0);
    let is_half = match &call.text("coordinate_transformation_mode", "half_pixel")?[..] {
        "half_pixel" => call.opset() >= 16,
        "output_half_pixel" => false,
        other => return fail(format!("coordinate_transformation_mode `{other}` is not known here")),
    };
    let is_mean = match &call.text("mode", "avg")?[..] {
        "avg" => true,
        "max" => false,
        other => return fail(format!("mode `{other}` is not known here")),
    };
    let whole = call.shape(&[count, channels, bins[0], bins[1]])?;
    if whole.numel() == 0 {
        return one(Tensor::zeros_of(whole, x.dtype(), call.device()));
    }
    let boxes =
        boxes.to_dtype(DType::F32) * call.number_attribute("spatial_scale", 1.0)? - if is_half { 0.5 } else { 0.0 };
    let axis = |number: usize, size: usize, bins: usize| {
        let (start, end) = (boxes.select(1, number), boxes.select(1, number + 2));
        Axis { size, bins, ratio, start, end, at_least_one: !is_half }.samples(call)
    };
    let (rows, columns) = (axis(1, height, bins[0])?, axis(0, width, bins[1])?);
    let samples = [rows.weights[0].size(2), columns.weights[0].size(2)];
    // boxes, bins of rows, their samples, bins of columns, their samples; channels come last, as they lie together
    let shape = call.shape(&[count, bins[0], samples[0], bins[1], samples[1], channels])?;
    let down = |x: &Tensor| x.reshape([count, bins[0], samples[0], 1, 1]);
    let across = |x: &Tensor| x.reshape([count, 1, 1, bins[1], samples[1]]);
    let picture = of.checked_index("RoiAlign", batch).reshape([count, 1, 1, 1, 1]) * (height * width) as i64;
    let table = x.to_dtype(DType::F32).permute([0, 2, 3, 1]).reshape([batch * height * width, channels]);
    let mut corners = Vec::new();
    for row in 0..2 {
        for column in 0..2 {
            let place = &picture + down(&rows.places[row]) * width as i64 + across(&columns.places[column]);
            let weight = down(&rows.weights[row]) * across(&columns.weights[column]);
            let places = place.expand(&shape.dims()[..5]);
            corners.push(table.index_select(0, &places) * weight.unsqueeze(-1));
        }
    }
    let result = if is_mean {
        let sum = corners.into_iter().reduce(|sum, corner| sum + corner).expect("four");
        let counts = (rows.counts * columns.counts).maximum(1.0);
        sum.sum_dim([2, 4]) / counts.reshape([count, 1, 1, 1])
    } else {
        // as the reference has it: the largest of all weighted corners, not of the samples
        let largest = corners.into_iter().reduce(|most, corner| most.maximum(corner)).expect("four");
        let is_own = down(&rows.is_own).logical_and(&across(&columns.is_own)).unsqueeze(-1);
        let found = is_own.where_(largest, f64::NEG_INFINITY).max_dim([2, 4]);
        // a box without samples
        found.isinf().where_(0.0, &found)
    };
    one(result.permute([0, 3, 1, 2]).to_dtype(x.dtype()))
}
