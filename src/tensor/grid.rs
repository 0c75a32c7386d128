//! Pictures sampled at places that are data.

use crate::dtype::DType;
use crate::graph::at_callers_line;

use super::Tensor;

/// What [`Tensor::grid_sample`] finds outside of the picture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outside {
    /// Zeros.
    Zeros,
    /// The nearest element of the edge.
    Border,
    /// The picture mirrored at its edges.
    Reflection,
}

impl Tensor {
    /// `[batch, channels, height, width]` at `grid`, `[batch, rows, columns, 2]`, whose (x, y) run from -1 to 1 over the
    /// picture → `[batch, channels, rows, columns]`. Between elements it is bilinear, or with `nearest` the nearest one
    /// (ties to even), which leaves the grid without a gradient. With `aligned`, -1 and 1 are the outer elements' centres,
    /// else their outer edges.
    ///
    /// ```
    /// # use brasa::{Device, Tensor, tensor::Outside};
    /// let device = Device::cpu();
    /// let x = Tensor::from_slice(&[0.0_f32, 1.0, 2.0, 3.0], [1, 1, 2, 2], &device)?;
    /// let middle = Tensor::zeros([1, 1, 1, 2], &device);
    /// assert_eq!(x.grid_sample(&middle, false, Outside::Zeros, false).to_vec::<f32>()?, [1.5]);
    /// # Ok::<(), brasa::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn grid_sample(&self, grid: &Self, nearest: bool, outside: Outside, aligned: bool) -> Self {
        assert!(
            self.rank() == 4 && grid.rank() == 4 && grid.size(-1) == 2 && self.shape()[0] == grid.shape()[0],
            "grid_sample: {} at {}, not [batch, channels, height, width] at [batch, rows, columns, 2]",
            self.shape(),
            grid.shape()
        );
        at_callers_line(|| self.sampled(grid, nearest, outside, aligned))
    }

    fn sampled(&self, grid: &Self, nearest: bool, outside: Outside, aligned: bool) -> Self {
        let (height, width) = (self.shape()[2], self.shape()[3]);
        let x = grid.select(3, 0).place(width, outside, aligned);
        let y = grid.select(3, 1).place(height, outside, aligned);
        if nearest {
            return self.picked(&y.round(), &x.round());
        }
        let (left, top) = (x.floor(), y.floor());
        let (right_part, bottom_part) = ((&x - &left).unsqueeze(1), (&y - &top).unsqueeze(1));
        let (left_part, top_part) = (1.0 - &right_part, 1.0 - &bottom_part);
        let (right, bottom) = (&left + 1.0, &top + 1.0);
        let upper = self.picked(&top, &left) * (&left_part * &top_part);
        let upper = upper + self.picked(&top, &right) * (&right_part * top_part);
        let lower = self.picked(&bottom, &left) * (left_part * &bottom_part);
        upper + lower + self.picked(&bottom, &right) * (right_part * bottom_part)
    }

    /// Coordinates in -1..1 as places of elements.
    #[track_caller]
    fn place(&self, size: usize, outside: Outside, aligned: bool) -> Self {
        let last = size as f64 - 1.0;
        let place = if aligned { (self + 1.0) * (last / 2.0) } else { ((self + 1.0) * size as f64 - 1.0) * 0.5 };
        match outside {
            Outside::Zeros => place,
            Outside::Border => place.clamp(0.0, last),
            Outside::Reflection if aligned && size == 1 => place * 0.0,
            Outside::Reflection => {
                let (low, span) = if aligned { (0.0, last) } else { (-0.5, size as f64) };
                let distance = (place - low).abs();
                let rest = distance.fmod(span);
                let even = (distance / span).floor().fmod(2.0).eq(0.0);
                even.where_(&rest + low, (span + low) - rest).clamp(0.0, last)
            }
        }
    }

    /// The elements at whole places `[batch, rows, columns]`; zero outside.
    #[track_caller]
    fn picked(&self, row: &Self, column: &Self) -> Self {
        let &[batch, channels, height, width] = self.shape().dims() else { unreachable!("four axes") };
        let inside = |place: &Self, size: usize| place.ge(0.0).logical_and(&place.le(size as f64 - 1.0));
        let index = |place: &Self, size: usize| place.to_dtype(DType::I32).maximum(0).minimum(size as i64 - 1);
        let picture = Self::iota(row.shape(), 0, self.device()) * (height * width) as i64;
        let number = picture + index(row, height) * width as i64 + index(column, width);
        let table = self.permute([0, 2, 3, 1]).reshape([batch * height * width, channels]);
        let values = table.index_select(0, &number).permute([0, 3, 1, 2]);
        let inside = inside(row, height).logical_and(&inside(column, width)).unsqueeze(1).expand(values.shape());
        inside.where_(values, 0.0)
    }

    /// The grid of an affine map for [`Tensor::grid_sample`]: `[batch, 2, 3]` → `[batch, rows, columns, 2]`.
    #[track_caller]
    #[must_use]
    pub fn affine_grid(&self, rows: usize, columns: usize, aligned: bool) -> Self {
        let &[batch, 2, 3] = self.shape().dims() else { panic!("affine_grid: {} is not [batch, 2, 3]", self.shape()) };
        let coordinate = |axis: usize, size: usize| {
            let mut shape = [1; 4];
            shape[axis] = size;
            let number = Self::iota(shape, axis, self.device()).to_dtype(self.dtype());
            if aligned {
                number * (2.0 / size.saturating_sub(1).max(1) as f64) - if size > 1 { 1.0 } else { 0.0 }
            } else {
                (number * 2.0 + 1.0) * (1.0 / size as f64) - 1.0
            }
        };
        let column = |number: usize| self.select(2, number).reshape([batch, 1, 1, 2]);
        at_callers_line(|| column(0) * coordinate(2, columns) + column(1) * coordinate(1, rows) + column(2))
    }
}
