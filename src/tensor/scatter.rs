//! Writing to places that are data. Where several elements go to one place, the order of their positions decides: the
//! last one is kept, and sums run from the first to the last, so that results have the same bits in every run.

use crate::dtype::DType;
use crate::graph::{Op, ReduceOp, at_callers_line, opaque};
use crate::ops::elementwise::Domain;
use crate::ops::indexing::index_add;
use crate::ops::movement::with_size;
use crate::ops::{elementwise, ok};
use crate::shape::Shape;

use super::{Groups, Operand, Tensor};

/// How [`Tensor::scatter_reduce`] joins what goes to one place.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ScatterOp {
    /// Sum.
    Sum,
    /// Product.
    Prod,
    /// Sum over number.
    Mean,
    /// Largest; NaN if any is. PyTorch's `amax`: equals share the gradient.
    Max,
    /// Smallest; NaN if any is. PyTorch's `amin`.
    Min,
}

/// What goes where, flattened.
struct Scattered {
    /// Position in `self`, row-major, u32: `[n]`.
    places: Tensor,
    /// `[n]`
    source: Tensor,
}

impl Tensor {
    /// The row-major position (u32) in `self` that each element of `index` names: its own coordinates, but for `axis`.
    #[track_caller]
    pub(super) fn positions(&self, name: &'static str, axis: usize, index: &Self) -> Self {
        self.assert_indexable(name, axis, index);
        let strides = self.shape().strides();
        let mut sum = index.checked_index(name, self.shape()[axis]).to_dtype(DType::U32) * strides[axis];
        for other in (0..self.rank()).filter(|&other| other != axis && index.shape()[other] > 1) {
            let coordinate = Self::iota(index.shape().clone(), other, self.device()).to_dtype(DType::U32);
            sum += coordinate * strides[other];
        }
        sum
    }

    /// Panics unless the index has as many axes, and none but `axis` is longer.
    #[track_caller]
    pub(super) fn assert_indexable(&self, name: &str, axis: usize, index: &Self) {
        let fits = self.rank() == index.rank()
            && self.shape().iter().zip(index.shape().iter()).enumerate().all(|(a, (x, i))| a == axis || i <= x);
        assert!(fits, "{name}: {} by {} along axis {axis}", self.shape(), index.shape());
    }

    #[track_caller]
    fn scattered(&self, name: &'static str, axis: isize, index: &Self, source: Operand) -> Scattered {
        let axis = self.axis(name, axis);
        let source = self.used(name, index, source);
        let count = index.numel();
        Scattered { places: self.positions(name, axis, index).reshape([count]), source: source.reshape([count]) }
    }

    /// What of `source` has an index.
    #[track_caller]
    fn used(&self, name: &str, index: &Self, source: Operand) -> Self {
        let source = source.into_tensor(index.shape(), self.dtype(), self.device());
        let fits =
            source.rank() == index.rank() && index.shape().iter().zip(source.shape().iter()).all(|(i, s)| i <= s);
        assert!(fits, "{name}: {} at {} into {}", source.shape(), index.shape(), self.shape());
        assert!(source.dtype() == self.dtype(), "{name}: {} into {}", source.dtype(), self.dtype());
        let mut used = source;
        for (axis, &size) in index.shape().iter().enumerate() {
            used = used.narrow(axis.cast_signed(), 0, size);
        }
        used
    }

    /// `self` with `self[.., index[.., i, ..], ..] = source[.., i, ..]` along `axis`. Of several elements for one place
    /// the last one in row-major order is kept. `index` may be smaller than `source` and `self`, as in PyTorch.
    #[track_caller]
    #[must_use]
    pub fn scatter(&self, axis: isize, index: &Self, source: impl Into<Operand>) -> Self {
        let Scattered { places, source } = self.scattered("scatter", axis, index, source.into());
        self.flat().put_rows(&places, &source).reshape(self.shape())
    }

    /// `self` with `source[.., i, ..]` added to `self[.., index[.., i, ..], ..]` along `axis`, in row-major order.
    ///
    /// ```
    /// # use brasa::{Device, Tensor};
    /// let device = Device::cpu();
    /// let votes = Tensor::from_slice(&[2_i32, 0, 2, 2], [4], &device)?;
    /// let weights = Tensor::from_slice(&[0.5_f32, 1.0, 0.25, 0.25], [4], &device)?;
    /// assert_eq!(Tensor::zeros([3], &device).scatter_add(0, &votes, &weights).to_vec::<f32>()?, [1.0, 0.0, 1.0]);
    /// # Ok::<(), brasa::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn scatter_add(&self, axis: isize, index: &Self, source: impl Into<Operand>) -> Self {
        let axis = self.axis("scatter_add", axis);
        let source = self.used("scatter_add", index, source.into());
        self.assert_addable("scatter_add", source.dtype());
        self.assert_indexable("scatter_add", axis, index);
        let index = index.checked_index("scatter_add", self.shape()[axis]);
        if self.rank() == 1 {
            return self.add_rows(&index, &source);
        }
        self + source.spread(&index, axis, self.shape()[axis], false).padded_to(self.shape())
    }

    /// Zeros behind the elements along each axis, up to `shape`.
    #[track_caller]
    pub(super) fn padded_to(&self, shape: &Shape) -> Self {
        let missing = |(whole, part): (&usize, &usize)| (0, (whole - part).cast_signed());
        let widths: Vec<_> = shape.iter().zip(self.shape().iter()).map(missing).collect();
        self.pad(&widths, 0)
    }

    /// `self` with what goes to each place joined by `op`, together with the element that was there if `include_self`.
    /// Places that nothing goes to stay as they are.
    #[track_caller]
    #[must_use]
    pub fn scatter_reduce(
        &self,
        axis: isize,
        index: &Self,
        source: impl Into<Operand>,
        op: ScatterOp,
        include_self: bool,
    ) -> Self {
        let defined = match op {
            ScatterOp::Sum | ScatterOp::Mean => Domain::Number,
            ScatterOp::Prod => Domain::NumberOrBool,
            ScatterOp::Max | ScatterOp::Min => Domain::Any,
        };
        let dtype = self.dtype();
        assert!(defined.contains(dtype), "scatter_reduce: {op:?} is not defined for {dtype}; cast with to_dtype");
        let scattered = self.scattered("scatter_reduce", axis, index, source.into());
        if index.numel() == 0 || self.numel() == 0 {
            return self.clone();
        }
        at_callers_line(|| self.flat().joined(&scattered, op, include_self)).reshape(self.shape())
    }

    /// What [`Tensor::scatter_reduce`] does, of a vector.
    fn joined(&self, scattered: &Scattered, op: ScatterOp, include_self: bool) -> Self {
        let Scattered { places, source } = scattered;
        let counts = opaque(|| Groups::new(places, self.numel()).counts());
        let hit = counts.gt(0);
        // where what was there does not count, it is what changes nothing
        let start = |op: ReduceOp| {
            let identity = Self::constant(self.shape().clone(), op.identity(self.dtype()), self.device());
            if include_self { self.clone() } else { hit.where_(identity, self) }
        };
        let counted = if include_self { hit.ones_like() } else { hit.logical_not() };
        match op {
            ScatterOp::Sum => start(ReduceOp::Sum).add_rows(places, source),
            ScatterOp::Mean => {
                let sum = start(ReduceOp::Sum).add_rows(places, source);
                let number = (counts + i32::from(include_self)).maximum(1);
                let mean = match self.dtype().is_float() {
                    true => (sum.countable() / number.to_dtype(DType::F32)).to_dtype(self.dtype()),
                    false => sum.floor_divide(number.to_dtype(self.dtype())),
                };
                hit.where_(mean, sum)
            }
            ScatterOp::Max => start(ReduceOp::Max).extremum(ReduceOp::Max, scattered, &counted),
            ScatterOp::Min => start(ReduceOp::Min).extremum(ReduceOp::Min, scattered, &counted),
            ScatterOp::Prod => start(ReduceOp::Prod).product(scattered),
        }
    }

    /// [`grouped_extremum`](Self::grouped_extremum), of which equals share the gradient, own elements only where they are
    /// `counted`.
    #[track_caller]
    fn extremum(&self, op: ReduceOp, scattered: &Scattered, counted: &Self) -> Self {
        let Scattered { places, source } = scattered;
        let result = opaque(|| self.grouped_extremum(op, places, source));
        result.with_gradient(&[self, source, places, counted], move |_, inputs, gradient| {
            let [x, source, places, counted] = inputs else { unreachable!("four inputs") };
            // anew, as for [`Tensor::max_dim`]: what was read before may be rounded in another way
            let result = x.grouped_extremum(op, places, source);
            let (own, winner) = (x.eq(&result).logical_and(counted), source.eq(result.at(places)));
            let winners = own.to_dtype(x.dtype()).add_rows(places, &winner.to_dtype(x.dtype()));
            let share = gradient / winners.maximum(1);
            vec![Some(own.where_(&share, 0)), Some(winner.where_(share.at(places), 0)), None, None]
        })
    }

    /// The larger (or smaller) of each element and what goes to its place.
    #[track_caller]
    fn grouped_extremum(&self, op: ReduceOp, places: &Self, source: &Self) -> Self {
        let groups = Groups::new(places, self.numel()).reduce(op, source, 1, self.shape().clone());
        if op == ReduceOp::Max { self.maximum(groups) } else { self.minimum(groups) }
    }

    /// Each element times what goes to its place.
    #[track_caller]
    fn product(&self, scattered: &Scattered) -> Self {
        let Scattered { places, source } = scattered;
        let result =
            opaque(|| self * Groups::new(places, self.numel()).reduce(ReduceOp::Prod, source, 1, self.shape().clone()));
        result.with_gradient(&[self, source, places], |_, inputs, gradient| {
            let [x, source, places] = inputs else { unreachable!("three inputs") };
            // the product of the others, also where one of them is zero
            let (own, other) = (x.eq(0), source.eq(0));
            let zeros = own.to_dtype(DType::I32).add_rows(places, &other.to_dtype(DType::I32));
            let (nonzero, others) = (own.where_(1, x), other.where_(1, source));
            let scattered = Scattered { places: places.clone(), source: others.clone() };
            let whole = gradient * nonzero.product(&scattered);
            let part = |zero: &Self, zeros: &Self, whole: &Self, factor: &Self| {
                zero.where_(zeros.eq(1).where_(whole, 0), zeros.eq(0).where_(whole / factor, 0))
            };
            let own = part(&own, &zeros, &whole, &nonzero);
            let other = part(&other, &zeros.at(places), &whole.at(places), &others);
            vec![Some(own), Some(other), None]
        })
    }

    /// `self` with rows of `source` at `index` along `axis`: `index` is `[n]`, and `source` has size `n` along `axis`.
    /// Of several rows for one place the last one is kept.
    #[track_caller]
    #[must_use]
    pub fn index_copy(&self, axis: isize, index: &Self, source: &Self) -> Self {
        let axis = self.axis("index_copy", axis);
        let fits = index.rank() == 1 && *source.shape() == with_size(self.shape(), axis, index.numel());
        assert!(fits, "index_copy: {} at {} into {} along axis {axis}", source.shape(), index.shape(), self.shape());
        assert!(source.dtype() == self.dtype(), "index_copy: {} into {}", source.dtype(), self.dtype());
        let index = index.checked_index("index_copy", self.shape()[axis]);
        let last = axis.cast_signed();
        self.transpose(0, last).put_rows(&index, &source.transpose(0, last)).transpose(0, last)
    }

    /// `self` with `values` put at `self[indices[0], indices[1], ..]`, or added there if `accumulate`. The indices are
    /// broadcast to each other, `values` to their shape followed by the axes that are not indexed. Of several values
    /// for one place the last one in row-major order is kept.
    ///
    /// # Panics
    ///
    /// If there is no index or more than axes, or shapes do not fit.
    #[track_caller]
    #[must_use]
    pub fn index_put(&self, indices: &[&Self], values: impl Into<Operand>, accumulate: bool) -> Self {
        let indexed = indices.len();
        assert!((1..=self.rank()).contains(&indexed), "index_put: {indexed} indices into {}", self.shape());
        let mut shape = Shape::from([]);
        for index in indices {
            shape = ok(elementwise::broadcast("index_put", &shape, index.shape()));
        }
        let (leading, rest) = self.shape().split_at(indexed);
        let count = shape.numel();
        let mut places = Self::zeros_of(shape.clone(), DType::U32, self.device());
        for (index, &size) in indices.iter().zip(leading) {
            let index = index.checked_index("index_put", size).to_dtype(DType::U32);
            places = places * size + index.expand(&shape);
        }
        let places = places.reshape([count]);
        let all = Shape::from([shape.dims(), rest].concat());
        let values = values.into().into_tensor(&all, self.dtype(), self.device());
        assert!(values.dtype() == self.dtype(), "index_put: {} into {}", values.dtype(), self.dtype());
        assert!(values.shape().broadcast(&all).as_ref() == Some(&all), "index_put: {} into {all}", values.shape());
        if accumulate {
            self.assert_addable("index_put", values.dtype());
        }
        let rows = [&[leading.iter().product()], rest].concat();
        let values = values.expand(all).reshape([&[count], rest].concat());
        let x = self.reshape(rows);
        let result = if accumulate { x.add_rows(&places, &values) } else { x.put_rows(&places, &values) };
        result.reshape(self.shape())
    }

    /// Rows of `source` in place of those of `self` with these numbers, which are known to be rows; the last one stays.
    #[track_caller]
    fn put_rows(&self, places: &Self, source: &Self) -> Self {
        let size = self.size(0);
        if places.numel() == 0 || self.numel() == 0 {
            return self.clone();
        }
        let (found, last) = opaque(|| Groups::new(places, size).last());
        let rows = Self::apply(Op::Gather { axis: 0 }, &[source, &last], self.shape().clone(), self.dtype());
        let ones = vec![1; self.rank() - 1];
        found.reshape([&[size], ones.as_slice()].concat()).where_(rows, self)
    }

    /// Rows of `source` added to those of `self` with these numbers, which are known to be rows.
    #[track_caller]
    fn add_rows(&self, places: &Self, source: &Self) -> Self {
        self + index_add(source, places, 0, self.size(0))
    }

    /// As one vector.
    #[track_caller]
    fn flat(&self) -> Self {
        self.reshape([self.numel()])
    }
}
