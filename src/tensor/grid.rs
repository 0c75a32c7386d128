//! Pictures sampled at places that are data.

use crate::dtype::DType;
use crate::graph::at_callers_line;
use crate::shape::Shape;

use super::{Operand, Tensor};

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
    /// `[batch, channels, height, width]` at `grid`, `[batch, rows, columns, 2]`, whose (x, y) run from -1 to 1 over
    /// the picture → `[batch, channels, rows, columns]`. Between elements it is bilinear, or with `nearest` the nearest
    /// one (ties to even), which leaves the grid without a gradient. With `aligned`, -1 and 1 are the outer elements'
    /// centres, else their outer edges.
    ///
    /// With one more axis, `[batch, channels, depth, height, width]` at `[batch, planes, rows, columns, 3]`, (x, y, z),
    /// it is trilinear.
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
        let rank = self.rank();
        assert!(
            (rank == 4 || rank == 5)
                && grid.rank() == rank
                && grid.size(-1) == rank - 2
                && self.shape()[0] == grid.shape()[0],
            "grid_sample: {} at {}, not [batch, channels, height, width] at [batch, rows, columns, 2], or with one more axis",
            self.shape(),
            grid.shape()
        );
        let is_empty = self.shape()[2..].contains(&0);
        assert!(!is_empty || grid.numel() == 0, "grid_sample: {} has no elements to be sampled", self.shape());
        let (x, grid) =
            if nearest { (self.clone(), grid.clone()) } else { Self::pair(Operand::from(self), Operand::from(grid)) };
        assert!(
            grid.dtype().is_float() && (nearest || x.dtype() == grid.dtype()),
            "grid_sample: {} at a grid of {}; cast one with to_dtype",
            x.dtype(),
            grid.dtype()
        );
        at_callers_line(|| x.sampled(&grid, nearest, outside, aligned))
    }

    fn sampled(&self, grid: &Self, nearest: bool, outside: Outside, aligned: bool) -> Self {
        let sizes = &self.shape()[2..];
        // x, the last axis, comes first in the grid
        let place =
            |(axis, &size): (usize, &usize)| grid.select(-1, sizes.len() - 1 - axis).place(size, outside, aligned);
        self.at_places(&sizes.iter().enumerate().map(place).collect::<Vec<_>>(), nearest)
    }

    /// The elements at these places along each axis but the first two, `[batch, rows..]`, counted in elements: between
    /// them bilinear (trilinear) or the nearest one, and zero outside.
    #[track_caller]
    pub(crate) fn at_places(&self, places: &[Self], nearest: bool) -> Self {
        let sizes = &self.shape()[2..];
        if nearest {
            return self.picked(&places.iter().map(Self::round).collect::<Vec<_>>());
        }
        let below: Vec<Self> = places.iter().map(Self::floor).collect();
        let above: Vec<Self> = below.iter().map(|below| below + 1.0).collect();
        let far: Vec<Self> = places.iter().zip(&below).map(|(place, below)| (place - below).unsqueeze(1)).collect();
        let near: Vec<Self> = far.iter().map(|part| 1.0 - part).collect();
        // bit `axis` of a corner's number says whether it lies above
        let corner = |corner: usize| {
            let chosen = |above: &[Self], below: &[Self]| -> Vec<Self> {
                let pick =
                    |axis: usize| if corner >> axis & 1 == 1 { above[axis].clone() } else { below[axis].clone() };
                (0..sizes.len()).map(pick).collect()
            };
            let weight = chosen(&far, &near).into_iter().reduce(|product, part| product * part).expect("an axis");
            self.picked(&chosen(&above, &below)) * weight
        };
        (0..1 << sizes.len()).map(corner).reduce(|sum, term| sum + term).expect("a corner")
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
                // back and forth over the span: a triangle of twice its length
                let (distance, period) = ((place - low).abs(), 2.0 * span);
                let along = &distance - (&distance / period).floor() * period;
                (span + low - (span - along).abs()).clamp(0.0, last)
            }
        }
    }

    /// The elements at whole places along each axis, `[batch, rows..]`; zero outside.
    #[track_caller]
    fn picked(&self, places: &[Self]) -> Self {
        let (shape, sizes) = (places[0].shape(), &self.shape()[2..]);
        let mut number = Self::iota(shape, 0, self.device());
        let mut inside: Option<Self> = None;
        for (place, &size) in places.iter().zip(sizes) {
            number = number * size as i64 + place.to_dtype(DType::I32).maximum(0).minimum(size as i64 - 1);
            let here = place.ge(0.0).logical_and(&place.le(size as f64 - 1.0));
            inside = Some(inside.map_or_else(|| here.clone(), |inside| inside.logical_and(&here)));
        }
        let rows = self.shape()[0] * sizes.iter().product::<usize>();
        let table = self.movedim(1, -1).reshape([rows, self.shape()[1]]);
        let values = table.index_select(0, &number).movedim(-1, 1);
        let nothing = values.zeros_like();
        inside.expect("an axis").unsqueeze(1).expand(values.shape()).where_(values, nothing)
    }

    /// The grid of affine maps for [`Tensor::grid_sample`]: `[batch, 2, 3]` → `[batch, rows, columns, 2]` for a size of
    /// rows and columns, `[batch, 3, 4]` → `[batch, planes, rows, columns, 3]` for one of planes, rows and columns.
    #[track_caller]
    #[must_use]
    pub fn affine_grid(&self, size: impl Into<Shape>, aligned: bool) -> Self {
        let size = size.into();
        self.assert_float("affine_grid");
        let axes = size.rank();
        let &[batch, outputs, inputs] = self.shape().dims() else { panic!("affine_grid: {} for {size}", self.shape()) };
        let known = axes == 2 || axes == 3;
        assert!(known, "affine_grid: the size is {size}, not [rows, columns] or [planes, rows, columns]");
        let fits = outputs == axes && inputs == axes + 1;
        assert!(fits, "affine_grid: {} is not [batch, {axes}, {}]", self.shape(), axes + 1);
        let coordinate = |axis: usize| {
            let (mut shape, size) = (vec![1; axes + 2], size[axis]);
            shape[axis + 1] = size;
            let number = Self::iota(shape, axis + 1, self.device()).to_dtype(self.dtype());
            if aligned {
                number * (2.0 / size.saturating_sub(1).max(1) as f64) - if size > 1 { 1.0 } else { 0.0 }
            } else {
                (number * 2.0 + 1.0) * (1.0 / size as f64) - 1.0
            }
        };
        // column `n` of the maps belongs to the axis that is `n`th from the last
        let column = |number: usize| {
            let ones = vec![1; axes];
            self.select(2, number).reshape([&[batch], ones.as_slice(), &[axes]].concat())
        };
        at_callers_line(|| {
            let terms = (0..axes).map(|number| column(number) * coordinate(axes - 1 - number));
            terms.reduce(|sum, term| sum + term).expect("an axis") + column(axes)
        })
    }
}
