//! The same elements elsewhere: reshapes and views, which cost nothing until a kernel reads through them.

use std::fmt::Display;
use std::ops::{Bound, RangeBounds};

use crate::dtype::Scalar;
use crate::graph::{Op, View, refuse};
use crate::ops::movement::{self, Moved};
use crate::ops::{ok, resolve_axes};
use crate::shape::Shape;

use super::{Operand, Tensor};

/// One axis or several; negative ones count from the back.
pub trait Axes {
    /// As a list.
    fn axes(self) -> Vec<isize>;
}

/// Sizes for a reshape, one of which may be -1.
pub trait Dims {
    /// As a list.
    fn dims(self) -> Vec<isize>;
}

macro_rules! integer_lists {
    ($trait:ident, $method:ident: $($integer:ty),*) => {$(
        impl $trait for $integer {
            fn $method(self) -> Vec<isize> {
                vec![self as isize]
            }
        }
        impl<const N: usize> $trait for [$integer; N] {
            fn $method(self) -> Vec<isize> {
                self.map(|value| value as isize).to_vec()
            }
        }
        impl $trait for &[$integer] {
            fn $method(self) -> Vec<isize> {
                self.iter().map(|&value| value as isize).collect()
            }
        }
        impl $trait for Vec<$integer> {
            fn $method(self) -> Vec<isize> {
                self.as_slice().$method()
            }
        }
    )*};
}
integer_lists!(Axes, axes: i32, isize, usize);
integer_lists!(Dims, dims: i32, isize, usize);

impl Dims for &Shape {
    fn dims(self) -> Vec<isize> {
        Dims::dims(Shape::dims(self))
    }
}

impl Dims for Shape {
    fn dims(self) -> Vec<isize> {
        Dims::dims(&self)
    }
}

impl Tensor {
    /// The same elements in row-major order under another shape; one size may be -1.
    ///
    /// ```
    /// # use brasa::{Device, Tensor};
    /// let x = Tensor::arange(6, &Device::cpu()).reshape([2, -1]);
    /// assert_eq!(x.t().flatten(0, -1).to_vec::<i32>()?, [0, 3, 1, 4, 2, 5]);
    /// assert_eq!(x.slice(1, 1..).to_vec::<i32>()?, [1, 2, 4, 5]);
    /// # Ok::<(), brasa::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    #[doc(alias = "view")]
    pub fn reshape(&self, shape: impl Dims) -> Self {
        let shape = ok(movement::reshape(self.shape(), &shape.dims()));
        if shape == *self.shape() { self.clone() } else { Self::apply(Op::Reshape, &[self], shape, self.dtype()) }
    }

    /// The axes from `start` to `end`, both included, as one.
    #[track_caller]
    #[must_use]
    pub fn flatten(&self, start: isize, end: isize) -> Self {
        if self.rank() == 0 {
            return self.reshape([1]);
        }
        let (start, end) = (self.axis("flatten", start), self.axis("flatten", end));
        assert!(start <= end, "flatten: axis {start} comes after {end} in {}", self.shape());
        let merged = self.shape()[start..=end].iter().product();
        self.reshape([&self.shape()[..start], &[merged], &self.shape()[end + 1..]].concat())
    }

    /// `axis` cut into axes of these sizes, one of which may be -1.
    #[track_caller]
    #[must_use]
    pub fn unflatten(&self, axis: isize, sizes: impl Dims) -> Self {
        let axis = self.axis("unflatten", axis);
        let (sizes, size) = (sizes.dims(), self.shape()[axis]);
        let Ok(sizes) = movement::reshape(&size.into(), &sizes) else {
            refuse(format_args!("unflatten: axis {axis} of {} cannot become {sizes:?}", self.shape()))
        };
        self.reshape([&self.shape()[..axis], &sizes, &self.shape()[axis + 1..]].concat())
    }

    /// Output axis `i` is axis `axes[i]`.
    #[track_caller]
    #[must_use]
    pub fn permute(&self, axes: impl Axes) -> Self {
        self.moved_zero(ok(movement::permute(self.shape(), &axes.axes())))
    }

    /// Two axes exchanged.
    #[track_caller]
    #[must_use]
    #[doc(alias = "swapaxes")]
    #[doc(alias = "swapdims")]
    pub fn transpose(&self, first: isize, second: isize) -> Self {
        let mut axes: Vec<usize> = (0..self.rank()).collect();
        axes.swap(self.axis("transpose", first), self.axis("transpose", second));
        self.permute(axes)
    }

    /// The axes `from` moved to the positions `to` of the result; the others keep their order.
    #[track_caller]
    #[must_use]
    #[doc(alias = "moveaxis")]
    pub fn movedim(&self, from: impl Axes, to: impl Axes) -> Self {
        let (from, to) = (from.axes(), to.axes());
        assert!(from.len() == to.len(), "movedim: {from:?} to {to:?} of {}", self.shape());
        let moved = ok(resolve_axes("movedim", self.shape(), &from));
        ok(resolve_axes("movedim", self.shape(), &to));
        let mut others = (0..self.rank()).filter(|axis| !moved.contains(axis));
        let mut axes: Vec<Option<usize>> = vec![None; self.rank()];
        for (&from, &to) in from.iter().zip(&to) {
            axes[self.axis("movedim", to)] = Some(self.axis("movedim", from));
        }
        let axes: Vec<usize> = axes.into_iter().filter_map(|axis| axis.or_else(|| others.next())).collect();
        self.permute(axes)
    }

    /// A matrix transposed; of a vector or number, itself.
    #[track_caller]
    #[must_use]
    pub fn t(&self) -> Self {
        assert!(self.rank() <= 2, "t: {} has more than two axes; use transpose", self.shape());
        if self.rank() < 2 { self.clone() } else { self.transpose(0, 1) }
    }

    /// A new axis of size 1 at position `axis` of the result.
    #[track_caller]
    #[must_use]
    pub fn unsqueeze(&self, axis: isize) -> Self {
        let rank = self.rank().cast_signed() + 1;
        let position = if axis < 0 { axis + rank } else { axis };
        assert!((0..rank).contains(&position), "unsqueeze: no axis {axis} in a result of rank {rank}");
        let mut shape = self.shape().to_vec();
        shape.insert(position.cast_unsigned(), 1);
        self.reshape(shape)
    }

    /// Without these axes where their size is 1.
    #[track_caller]
    #[must_use]
    pub fn squeeze(&self, axes: impl Axes) -> Self {
        let axes = ok(resolve_axes("squeeze", self.shape(), &axes.axes()));
        let kept = self.shape().iter().enumerate().filter(|(axis, size)| **size != 1 || !axes.contains(axis));
        self.reshape(kept.map(|(_, &size)| size).collect::<Vec<_>>())
    }

    /// Without any axis of size 1.
    #[track_caller]
    #[must_use]
    pub fn squeeze_all(&self) -> Self {
        self.reshape(self.shape().iter().copied().filter(|&size| size != 1).collect::<Vec<_>>())
    }

    /// Axes of size 1 repeated, and new ones in front, so that the shape is `shape`.
    #[track_caller]
    #[must_use]
    #[doc(alias = "broadcast_to")]
    #[doc(alias = "expand_as")]
    pub fn expand(&self, shape: impl Into<Shape>) -> Self {
        let shape = shape.into();
        self.moved_zero(ok(movement::expand(self.shape(), &shape)))
    }

    /// `length` elements along `axis`, from `start` on.
    #[track_caller]
    #[must_use]
    pub fn narrow(&self, axis: isize, start: usize, length: usize) -> Self {
        self.stretch("narrow", axis, start, length, format_args!("{length} elements from {start} on"))
    }

    /// `length` elements along `axis` from `start` on, which the method `name` calls `wanted`.
    #[track_caller]
    fn stretch(&self, name: &str, axis: isize, start: usize, length: usize, wanted: impl Display) -> Self {
        self.check_stretch(name, axis, start, length, wanted);
        self.moved_zero(ok(movement::slice(self.shape(), axis, start, length, 1)))
    }

    /// Refuses what is not all there.
    #[track_caller]
    fn check_stretch(&self, name: &str, axis: isize, start: usize, length: usize, wanted: impl Display) {
        let (own, shape) = (self.axis(name, axis), self.shape());
        if length > 0 && start.checked_add(length).is_none_or(|end| end > shape[own]) {
            refuse(format_args!("{name}: {wanted} of axis {axis} of {shape}"));
        }
    }

    /// A range along `axis`, as Rust slices: `x.slice(1, 2..)`. One that ends before it begins is empty.
    #[track_caller]
    #[must_use]
    pub fn slice(&self, axis: isize, range: impl RangeBounds<usize>) -> Self {
        let (start, end) = self.bounds("slice", axis, range);
        self.stretch("slice", axis, start, end.saturating_sub(start), format_args!("{start}..{end}"))
    }

    /// Start and end of a range along `axis`.
    #[track_caller]
    fn bounds(&self, name: &str, axis: isize, range: impl RangeBounds<usize>) -> (usize, usize) {
        let start = match range.start_bound() {
            Bound::Included(&start) => start,
            Bound::Excluded(&start) => start + 1,
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&end) => end + 1,
            Bound::Excluded(&end) => end,
            Bound::Unbounded => self.axis_size(name, axis),
        };
        (start, end)
    }

    /// Every `step`-th element of a range along `axis`; a negative step goes backwards from the range's last element.
    #[track_caller]
    #[must_use]
    pub fn slice_step(&self, axis: isize, range: impl RangeBounds<usize>, step: isize) -> Self {
        let (first, length) = self.steps("slice_step", axis, range, step);
        self.moved_zero(ok(movement::slice(self.shape(), axis, first, length, step)))
    }

    /// The first position of every `step`-th one of a range along `axis`, and how many there are.
    #[track_caller]
    pub(super) fn steps(&self, name: &str, axis: isize, range: impl RangeBounds<usize>, step: isize) -> (usize, usize) {
        let (start, end) = self.bounds(name, axis, range);
        assert!(step != 0, "{name}: the step is 0");
        let size = end.saturating_sub(start);
        self.check_stretch(name, axis, start, size, format_args!("{start}..{end}"));
        let first = if step > 0 { start } else { (start + size).saturating_sub(1) };
        (first, size.div_ceil(step.unsigned_abs()))
    }

    /// Element `index` along `axis`, which vanishes.
    #[track_caller]
    #[must_use]
    pub fn select(&self, axis: isize, index: usize) -> Self {
        self.stretch("select", axis, index, 1, format_args!("index {index}")).squeeze(axis)
    }

    /// The order along these axes reversed.
    #[track_caller]
    #[must_use]
    pub fn flip(&self, axes: impl Axes) -> Self {
        let axes = ok(resolve_axes("flip", self.shape(), &axes.axes()));
        let mut flipped = self.clone();
        for axis in axes.into_iter().filter(|&axis| self.shape()[axis] > 1) {
            let size = self.shape()[axis];
            flipped = flipped.moved_zero(ok(movement::slice(self.shape(), axis.cast_signed(), size - 1, size, -1)));
        }
        flipped
    }

    /// `value` added around: (before, after) for each axis, from the first on; negative widths cut off.
    #[track_caller]
    #[must_use]
    pub fn pad(&self, widths: &[(isize, isize)], value: impl Into<Operand>) -> Self {
        let Some(fill) = value.into().element(self.dtype()) else {
            panic!("pad: the value is a tensor; give a number")
        };
        self.moved(ok(movement::pad(self.shape(), widths)), fill)
    }

    /// Moved elements; `fill` where an index leaves the input.
    #[track_caller]
    pub(crate) fn moved(&self, moved: Moved, fill: Scalar) -> Self {
        if moved.is_identity(self.shape()) {
            return self.clone();
        }
        let Moved { dims, shape } = moved.normalized();
        Self::apply(Op::View(View { dims, fill }), &[self], shape, self.dtype())
    }

    #[track_caller]
    pub(crate) fn moved_zero(&self, moved: Moved) -> Self {
        self.moved(moved, Scalar::new(self.dtype(), 0.0))
    }
}
