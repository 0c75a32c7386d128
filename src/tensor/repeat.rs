//! Elements repeated, rolled and turned.

use crate::dtype::Scalar;
use crate::ops::ok;
use crate::ops::resolve_axes;

use super::{Axes, Tensor};

/// What stands beyond the edges in [`Tensor::pad_mode`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PadMode {
    /// The elements mirrored at the edge, which is not repeated.
    Reflect,
    /// The edge, again and again.
    Replicate,
    /// The elements from the other end.
    Circular,
}

impl Tensor {
    /// The whole tensor again and again: `counts[i]` times along axis `i`; more counts than axes make new axes in
    /// front.
    ///
    /// ```
    /// # use brasa::{Device, Tensor};
    /// let x = Tensor::arange(2, &Device::cpu());
    /// assert_eq!(x.repeat(&[2]).to_vec::<i32>()?, [0, 1, 0, 1]);
    /// assert_eq!(x.repeat_interleave(2, 0).to_vec::<i32>()?, [0, 0, 1, 1]);
    /// # Ok::<(), brasa::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn repeat(&self, counts: &[usize]) -> Self {
        assert!(counts.len() >= self.rank(), "repeat: {} by {counts:?}, too few counts", self.shape());
        let new = counts.len() - self.rank();
        let (mut split, mut wide, mut whole) = (Vec::new(), Vec::new(), Vec::new());
        for (axis, &count) in counts.iter().enumerate() {
            let size = if axis < new { 1 } else { self.shape()[axis - new] };
            split.extend([1, size]);
            wide.extend([count, size]);
            whole.push(count * size);
        }
        self.reshape(split).expand(wide).reshape(whole)
    }

    /// As [`Tensor::repeat`], but missing counts in front are 1.
    #[track_caller]
    #[must_use]
    pub fn tile(&self, counts: &[usize]) -> Self {
        let missing = vec![1; self.rank().saturating_sub(counts.len())];
        self.repeat(&[missing.as_slice(), counts].concat())
    }

    /// Each element along `axis` `count` times.
    #[track_caller]
    #[must_use]
    pub fn repeat_interleave(&self, count: usize, axis: isize) -> Self {
        let axis = self.axis("repeat_interleave", axis);
        let mut wide = self.shape().to_vec();
        wide.insert(axis + 1, count);
        let mut whole = self.shape().to_vec();
        whole[axis] *= count;
        self.unsqueeze(axis.cast_signed() + 1).expand(wide).reshape(whole)
    }

    /// Elements moved by `shifts[i]` places along `axes[i]`; those that leave come in at the other end.
    #[track_caller]
    #[must_use]
    pub fn roll(&self, shifts: impl Axes, axes: impl Axes) -> Self {
        let (shifts, axes) = (shifts.axes(), axes.axes());
        assert!(shifts.len() == axes.len(), "roll: {} shifts for {} axes", shifts.len(), axes.len());
        let mut rolled = self.clone();
        for (&shift, &axis) in shifts.iter().zip(&axes) {
            let size = self.axis_size("roll", axis);
            let shift = if size == 0 { 0 } else { shift.rem_euclid(size.cast_signed()).cast_unsigned() };
            if shift > 0 {
                let (head, tail) = (rolled.narrow(axis, 0, size - shift), rolled.narrow(axis, size - shift, shift));
                rolled = Self::cat(&[&tail, &head], axis);
            }
        }
        rolled
    }

    /// Turned by 90 degrees `times` times, from the first of two axes towards the second.
    #[track_caller]
    #[must_use]
    pub fn rot90(&self, times: isize, axes: [isize; 2]) -> Self {
        ok(resolve_axes("rot90", self.shape(), &axes));
        match times.rem_euclid(4) {
            1 => self.flip(axes[1]).transpose(axes[0], axes[1]),
            2 => self.flip(axes),
            3 => self.flip(axes[0]).transpose(axes[0], axes[1]),
            _ => self.clone(),
        }
    }

    /// Elements from inside added around: (before, after) for each axis, from the first on. PyTorch's `pad` names the
    /// last axis first.
    #[track_caller]
    #[must_use]
    pub fn pad_mode(&self, widths: &[(usize, usize)], mode: PadMode) -> Self {
        assert!(widths.len() == self.rank(), "pad_mode: {} by {widths:?}", self.shape());
        let mut padded = self.clone();
        for (axis, &(before, after)) in widths.iter().enumerate() {
            let size = self.shape()[axis];
            let most = match mode {
                PadMode::Reflect => size.saturating_sub(1),
                PadMode::Replicate => {
                    if size > 0 {
                        usize::MAX
                    } else {
                        0
                    }
                }
                PadMode::Circular => size,
            };
            assert!(before.max(after) <= most, "pad_mode: {mode:?} by {widths:?} is too much for {}", self.shape());
            padded = padded.pad_axis(axis, before, after, mode);
        }
        padded
    }

    #[track_caller]
    fn pad_axis(&self, axis: usize, before: usize, after: usize, mode: PadMode) -> Self {
        let (size, number) = (self.shape()[axis], axis.cast_signed());
        let wide = |count: usize| crate::ops::movement::with_size(self.shape(), axis, count);
        let mut parts = Vec::new();
        if before > 0 {
            parts.push(match mode {
                PadMode::Reflect => self.narrow(number, 1, before).flip(number),
                PadMode::Replicate => self.narrow(number, 0, 1).expand(wide(before)),
                PadMode::Circular => self.narrow(number, size - before, before),
            });
        }
        parts.push(self.clone());
        if after > 0 {
            parts.push(match mode {
                PadMode::Reflect => self.narrow(number, size - 1 - after, after).flip(number),
                PadMode::Replicate => self.narrow(number, size - 1, 1).expand(wide(after)),
                PadMode::Circular => self.narrow(number, 0, after),
            });
        }
        if parts.len() == 1 { self.clone() } else { Self::cat(&parts.iter().collect::<Vec<_>>(), number) }
    }

    /// The elements of a matrix (the last two axes) on and below diagonal number `diagonal`, zero elsewhere.
    #[track_caller]
    #[must_use]
    pub fn tril(&self, diagonal: i32) -> Self {
        self.distance_from_diagonal("tril").le(diagonal).where_(self, self.zeros_like())
    }

    /// The elements of a matrix (the last two axes) on and above diagonal number `diagonal`, zero elsewhere.
    #[track_caller]
    #[must_use]
    pub fn triu(&self, diagonal: i32) -> Self {
        self.distance_from_diagonal("triu").ge(diagonal).where_(self, self.zeros_like())
    }

    /// Column number less row number.
    #[track_caller]
    fn distance_from_diagonal(&self, name: &str) -> Self {
        assert!(self.rank() >= 2, "{name}: {} is not a matrix", self.shape());
        let row = Self::iota(self.shape(), self.rank() - 2, self.device());
        Self::iota(self.shape(), self.rank() - 1, self.device()) - row
    }

    /// The elements where the coordinates along `first` and `second` differ by `offset`, as a new last axis in place of
    /// both.
    #[track_caller]
    #[must_use]
    pub fn diagonal(&self, offset: isize, first: isize, second: isize) -> Self {
        let axes = ok(resolve_axes("diagonal", self.shape(), &[first, second]));
        let (first, second) = (self.axis("diagonal", first), self.axis("diagonal", second));
        let starts = [(-offset).max(0).cast_unsigned(), offset.max(0).cast_unsigned()];
        let room = |axis: usize, start: usize| self.shape()[axis].saturating_sub(start);
        let length = room(first, starts[0]).min(room(second, starts[1]));
        let moved = crate::ops::movement::diagonal(self.shape(), &axes, [first, second], starts, length);
        self.moved(moved, Scalar::new(self.dtype(), 0.0))
    }

    /// The diagonal of a matrix, or the matrix with the vector on its diagonal and zero elsewhere.
    #[track_caller]
    #[must_use]
    pub fn diag(&self, offset: isize) -> Self {
        match self.rank() {
            1 => self.diag_embed(offset),
            2 => self.diagonal(offset, 0, 1),
            _ => panic!("diag: {} is neither a vector nor a matrix", self.shape()),
        }
    }

    /// `[.., n]` → `[.., n + |offset|, n + |offset|]` with the last axis on diagonal number `offset`, zero elsewhere.
    #[track_caller]
    #[must_use]
    pub fn diag_embed(&self, offset: isize) -> Self {
        assert!(self.rank() >= 1, "diag_embed: a number has no axis");
        let mut widths = vec![(0, 0); self.rank()];
        widths[self.rank() - 1] = (offset.max(0), (-offset).max(0));
        let columns = self.pad(&widths, 0).unsqueeze(-2);
        let size = columns.size(-1);
        let square = columns.expand([&self.shape()[..self.rank() - 1], &[size, size]].concat());
        let on = square.distance_from_diagonal("diag_embed").eq(offset as i64);
        on.where_(&square, square.zeros_like())
    }

    /// The sum of a matrix's diagonal.
    #[track_caller]
    #[must_use]
    pub fn trace(&self) -> Self {
        assert!(self.rank() == 2, "trace: {} is not a matrix", self.shape());
        self.diagonal(0, 0, 1).sum()
    }
}
