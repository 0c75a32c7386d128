//! Pooling to a given size: part `i` of `count` runs from `⌊i n / count⌋` to `⌈(i + 1) n / count⌉`.

use crate::dtype::{DType, Scalar};
use crate::graph::ReduceOp;
use crate::ops::ok;
use crate::ops::shape_error;
use crate::shape::Shape;

use super::Tensor;

/// Parts of different lengths, at most: the square of their number is an i32.
const MAX_UNEVEN: usize = 46_340;

impl Tensor {
    /// Means over `size` parts of `[batch, channels, length]`.
    #[track_caller]
    #[must_use]
    pub fn adaptive_avg_pool1d(&self, size: impl Into<Shape>) -> Self {
        self.adaptive_avg("adaptive_avg_pool1d", 1, &size.into())
    }

    /// Means over `size` (one number or two) parts of `[batch, channels, height, width]`:
    /// `[batch, channels, size, size]`.
    #[track_caller]
    #[must_use]
    pub fn adaptive_avg_pool2d(&self, size: impl Into<Shape>) -> Self {
        self.adaptive_avg("adaptive_avg_pool2d", 2, &size.into())
    }

    /// As [`Tensor::adaptive_avg_pool2d`] over three axes.
    #[track_caller]
    #[must_use]
    pub fn adaptive_avg_pool3d(&self, size: impl Into<Shape>) -> Self {
        self.adaptive_avg("adaptive_avg_pool3d", 3, &size.into())
    }

    /// The largest element of each of `size` parts of `[batch, channels, length]`; the first one takes the gradient.
    #[track_caller]
    #[must_use]
    pub fn adaptive_max_pool1d(&self, size: impl Into<Shape>) -> Self {
        self.adaptive_max("adaptive_max_pool1d", 1, &size.into())
    }

    /// The largest element of each part of `[batch, channels, height, width]`, as [`Tensor::adaptive_avg_pool2d`].
    #[track_caller]
    #[must_use]
    pub fn adaptive_max_pool2d(&self, size: impl Into<Shape>) -> Self {
        self.adaptive_max("adaptive_max_pool2d", 2, &size.into())
    }

    /// As [`Tensor::adaptive_max_pool2d`] over three axes.
    #[track_caller]
    #[must_use]
    pub fn adaptive_max_pool3d(&self, size: impl Into<Shape>) -> Self {
        self.adaptive_max("adaptive_max_pool3d", 3, &size.into())
    }

    #[track_caller]
    fn adaptive_avg(&self, name: &str, spatial: usize, counts: &Shape) -> Self {
        self.assert_float(name);
        let counts = self.part_counts(name, spatial, counts);
        let first = self.rank() - spatial;
        let sizes = &self.shape()[first..];
        if sizes.iter().zip(&counts).all(|(size, &count)| size.is_multiple_of(count)) {
            // equal parts: one reduction
            let mut cut = self.shape()[..first].to_vec();
            cut.extend(sizes.iter().zip(&counts).flat_map(|(size, &count)| [count, size / count]));
            let within: Vec<usize> = (0..spatial).map(|axis| first + 2 * axis + 1).collect();
            return self.reshape(cut).mean_dim(within);
        }
        let mut value = self.clone();
        for (axis, &count) in (first..).zip(&counts) {
            value = value.averaged(axis, count);
        }
        value
    }

    /// Means over `count` parts along `axis`.
    #[track_caller]
    pub(super) fn averaged(&self, axis: usize, count: usize) -> Self {
        let (parts, lengths) = self.parts(axis, count, Scalar::new(self.dtype(), 0.0));
        let mut along = vec![1; self.rank()];
        along[axis] = count;
        let sums = parts.countable().sum_dim(axis + 1);
        (sums / lengths.to_dtype(DType::F32).reshape(along)).to_dtype(self.dtype())
    }

    #[track_caller]
    fn adaptive_max(&self, name: &str, spatial: usize, counts: &Shape) -> Self {
        let counts = self.part_counts(name, spatial, counts);
        let first = self.rank() - spatial;
        let nothing = ReduceOp::Max.identity(self.dtype());
        let mut value = self.clone();
        // from the last axis on, so that the first of equals in row-major order is found
        for (axis, &count) in (first..self.rank()).zip(&counts).rev() {
            value = value.parts(axis, count, nothing).0.max_with_index(axis.cast_signed() + 1).0;
        }
        value
    }

    #[track_caller]
    fn part_counts(&self, name: &str, spatial: usize, counts: &Shape) -> Vec<usize> {
        let fits = self.rank() == spatial + 1 || self.rank() == spatial + 2;
        let counts = match counts.dims() {
            [one] => vec![*one; spatial],
            several => several.to_vec(),
        };
        if !fits || counts.len() != spatial || counts.contains(&0) {
            ok(shape_error::<()>(format!("{name}: {} in {counts:?} parts", self.shape())));
        }
        counts
    }

    /// The parts along `axis`, `[.., count, longest, ..]` with `fill` where a part is shorter, and their lengths.
    #[track_caller]
    fn parts(&self, axis: usize, count: usize, fill: Scalar) -> (Self, Self) {
        let size = self.shape()[axis];
        let start = |part: usize| part * size / count;
        let longest = (0..count).map(|part| ((part + 1) * size).div_ceil(count) - start(part)).max().unwrap_or(0);
        let part = Self::iota([count, longest], 0, self.device());
        // part * size / count, without the product, which may not fit 32 bits
        let (whole, rest) = (size / count, size % count);
        assert!(
            rest == 0 || count <= MAX_UNEVEN,
            "{size} elements in {count} parts: at most {MAX_UNEVEN} may be uneven"
        );
        let [whole, rest, divisor] = [whole, rest, count].map(|number| number as i64);
        let start = &part * whole + (&part * rest).div_trunc(divisor);
        let next = part + 1;
        let end = &next * whole + (next * rest + (divisor - 1)).div_trunc(divisor);
        let place = &start + Self::iota([count, longest], 1, self.device());
        let parts = self.index_select(axis.cast_signed(), &place.minimum(size as i64 - 1));
        let mut along = vec![1; parts.rank()];
        along[axis] = count;
        along[axis + 1] = longest;
        let inside = place.lt(&end).reshape(along).expand(parts.shape());
        let fill = Self::constant(parts.shape(), fill, self.device());
        (inside.where_(parts, fill), (end - start).narrow(1, 0, 1).reshape([count]))
    }
}
