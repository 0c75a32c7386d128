//! Sorting and what follows from it. All sorts are stable; NaN counts as the largest number and -0 as equal to 0.

use crate::dtype::DType;
use crate::graph::{Op, opaque};

use super::Tensor;

/// Bits of f32 without the sign.
const MAGNITUDE: i64 = 0x7fff_ffff;
/// The bits of infinity; those of NaN are larger.
const INFINITY: i64 = 0x7f80_0000;
/// The sign bit.
const SIGN: i64 = 0x8000_0000;
/// All bits.
const ONES: i64 = 0xffff_ffff;

impl Tensor {
    /// u32 keys that compare as the elements do.
    #[track_caller]
    pub(super) fn sort_keys(&self) -> Self {
        let bits = |x: &Self| Self::apply(Op::Bitcast, &[x], x.shape().clone(), DType::U32);
        match self.dtype() {
            DType::U32 | DType::U8 | DType::Bool => self.to_dtype(DType::U32),
            DType::I32 => bits(self).bitwise_xor(SIGN),
            DType::F32 | DType::F16 => {
                let bits = bits(&self.to_dtype(DType::F32));
                let magnitude = bits.bitwise_and(MAGNITUDE);
                // negative numbers run backwards and lie below the others
                let key = bits.ge(SIGN).where_(magnitude.bitwise_xor(ONES) - MAGNITUDE, &magnitude + SIGN);
                magnitude.gt(INFINITY).where_(ONES, key)
            }
        }
    }

    /// The places (u32) along the last axis that put its elements in order.
    #[track_caller]
    fn order(&self, descending: bool) -> Self {
        let count = self.numel();
        if count == 0 {
            return Self::zeros_of(self.shape().clone(), DType::U32, self.device());
        }
        let keys = self.sort_keys();
        let keys = if descending { keys.bitwise_xor(ONES) } else { keys };
        let pairs = keys.sorted_pairs(self.size(-1));
        pairs.narrow(0, count, count).reshape(self.shape())
    }

    /// Elements of the last axis at places that are known to lie in it: `[.., n]` by `[.., k]`.
    #[track_caller]
    fn take(&self, places: &Self) -> Self {
        let (length, count) = (self.size(-1), places.size(-1));
        let rows = places.numel().checked_div(count).unwrap_or(0);
        let row = Self::iota([rows, count], 0, self.device()).to_dtype(DType::U32);
        let element = row * length + places.reshape([rows, count]);
        self.reshape([self.numel()]).at(&element).reshape(places.shape())
    }

    /// The last axis in order, with its places (u32).
    #[track_caller]
    fn sort_last(&self, descending: bool) -> (Self, Self) {
        let (values, places) = opaque(|| {
            let places = self.order(descending);
            (self.take(&places), places)
        });
        // every element is in one place, so that its gradient is found there
        let sorted = values.with_gradient(&[self, &places], |_, inputs, gradient| {
            vec![Some(gradient.take(&inputs[1].order(false))), None]
        });
        (sorted, places)
    }

    /// The elements along `axis` in order, and the index (i32) each had before. Equal elements stay in order.
    #[track_caller]
    #[must_use]
    pub fn sort(&self, axis: isize, descending: bool) -> (Self, Self) {
        self.axis("sort", axis);
        let (values, places) = self.transpose(axis, -1).sort_last(descending);
        (values.transpose(axis, -1), places.to_dtype(DType::I32).transpose(axis, -1))
    }

    /// The indices (i32) that sort `axis`. Equal elements stay in order.
    #[track_caller]
    #[must_use]
    pub fn argsort(&self, axis: isize, descending: bool) -> Self {
        self.axis("argsort", axis);
        let places = opaque(|| self.transpose(axis, -1).order(descending));
        places.to_dtype(DType::I32).transpose(axis, -1)
    }

    /// The `k` largest (or smallest) elements along `axis` in order, and their indices (i32). Of equal elements the
    /// first ones are taken.
    ///
    /// # Panics
    ///
    /// If the axis has fewer elements.
    ///
    /// ```
    /// # use brasa::{Device, Tensor};
    /// let scores = Tensor::from_slice(&[0.1_f32, 0.7, 0.2, 0.7], [4], &Device::cpu())?;
    /// let (best, places) = scores.topk(2, 0, true);
    /// assert_eq!(best.to_vec::<f32>()?, [0.7, 0.7]);
    /// assert_eq!(places.to_vec::<i32>()?, [1, 3]);
    /// # Ok::<(), brasa::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn topk(&self, k: usize, axis: isize, largest: bool) -> (Self, Self) {
        let size = self.axis_size("topk", axis);
        assert!(k <= size, "topk: {k} of the {size} elements along axis {axis}");
        self.at_ranks(axis, largest, |places| places.narrow(-1, 0, k))
    }

    /// Elements along `axis` at some ranks of its order, with their indices (i32).
    #[track_caller]
    fn at_ranks(&self, axis: isize, descending: bool, choose: impl FnOnce(&Self) -> Self) -> (Self, Self) {
        let x = self.transpose(axis, -1);
        let places = opaque(|| choose(&x.order(descending)));
        (x.take(&places).transpose(axis, -1), places.to_dtype(DType::I32).transpose(axis, -1))
    }

    /// The `k`-th smallest element along `axis`, counted from 1, and its index (i32); the axis vanishes.
    ///
    /// # Panics
    ///
    /// If the axis has fewer elements, or `k` is 0.
    #[track_caller]
    #[must_use]
    pub fn kthvalue(&self, k: usize, axis: isize) -> (Self, Self) {
        let size = self.axis_size("kthvalue", axis);
        assert!((1..=size).contains(&k), "kthvalue: number {k} of the {size} elements along axis {axis}");
        let (values, indices) = self.at_ranks(axis, false, |places| places.narrow(-1, k - 1, 1));
        (values.squeeze(axis), indices.squeeze(axis))
    }

    /// The median of all elements, the lower one of two; NaN if any is. Equals share the gradient.
    #[track_caller]
    #[must_use]
    pub fn median(&self) -> Self {
        let x = self.reshape([self.numel()]);
        let (median, index) = x.median_dim(0);
        median.with_gradient(&[&x, &index], |_, inputs, g| {
            let x = &inputs[0];
            // anew, as for [`Tensor::max_dim`]: what was read before may be rounded in another way
            let median = x.at(&inputs[1]);
            let equal = x.eq(&median).logical_or(&x.isnan().logical_and(&median.isnan()));
            let share = g.countable() / equal.sum().to_dtype(DType::F32);
            vec![Some(equal.where_(share.to_dtype(g.dtype()), 0.0)), None]
        })
    }

    /// The medians along `axis` and their indices (i32), the lower one of two; NaN where any is. The axis vanishes.
    #[track_caller]
    #[must_use]
    pub fn median_dim(&self, axis: isize) -> (Self, Self) {
        self.ranked("median", axis, |count, numbers| {
            let middle = (count - 1) / 2;
            // the first NaN comes behind all numbers
            numbers.lt(count).where_(numbers, middle)
        })
    }

    /// The medians along `axis` of what is not NaN, and their indices (i32), the lower one of two; NaN if all are. The
    /// axis vanishes.
    #[track_caller]
    #[must_use]
    pub fn nanmedian_dim(&self, axis: isize) -> (Self, Self) {
        self.ranked("nanmedian", axis, |_, numbers| (numbers.maximum(1) - 1).div_trunc(2))
    }

    /// The element along `axis` whose rank is `rank(elements, numbers among them)`, i32.
    #[track_caller]
    fn ranked(&self, name: &str, axis: isize, rank: impl FnOnce(usize, &Self) -> Self) -> (Self, Self) {
        let count = self.axis_size(name, axis);
        assert!(count > 0, "{name}: axis {axis} of {} has no elements", self.shape());
        let (values, indices) = self.at_ranks(axis, false, |places| {
            let x = self.transpose(axis, -1);
            let numbers = match self.dtype().is_float() {
                true => x.isnan().logical_not().sum_keepdim(-1),
                false => Self::constant(places.shape(), crate::Scalar::new(DType::I32, count as f64), self.device())
                    .narrow(-1, 0, 1),
            };
            places.take(&rank(count, &numbers).to_dtype(DType::U32))
        });
        (values.squeeze(axis), indices.squeeze(axis))
    }

    /// The quantile `q`, 0 to 1, along `axis`, which vanishes: between neighbours linear; NaN where any element is.
    /// Between equal neighbours it is what they are, infinities included (PyTorch: NaN).
    ///
    /// # Panics
    ///
    /// If `q` is outside, the axis is empty or the elements are not floats.
    #[track_caller]
    #[must_use]
    pub fn quantile(&self, q: f64, axis: isize) -> Self {
        let count = self.axis_size("quantile", axis);
        assert!((0.0..=1.0).contains(&q), "quantile: {q} is not in 0..=1");
        assert!(
            self.dtype().is_float() && count > 0,
            "quantile: of {}{} along axis {axis}",
            self.dtype(),
            self.shape()
        );
        let (values, _) = self.sort(axis, false);
        let last = values.narrow(axis, count - 1, 1).squeeze(axis);
        let rank = q * (count - 1) as f64;
        let lower = rank as usize;
        let low = values.narrow(axis, lower, 1).squeeze(axis);
        let high = values.narrow(axis, (lower + 1).min(count - 1), 1).squeeze(axis);
        let weight = rank - lower as f64;
        let between = if weight == 0.0 {
            low
        } else {
            // equal infinities are their own mean
            let value = low.eq(&high).where_(&low, low.lerp(&high, weight));
            value.with_gradient(&[&low, &high], move |_, _, g| vec![Some(g * (1.0 - weight)), Some(g * weight)])
        };
        last.isnan().where_(last, between)
    }

    /// Where each of `values` would be inserted into `self`, whose last axis ascends, to keep the order, as i32: before
    /// equal elements, or behind them if `right`. `self` is `[n]` for values of any shape, or `[.., n]` for `[.., m]`.
    #[track_caller]
    #[must_use]
    pub fn searchsorted(&self, values: &Self, right: bool) -> Self {
        let rank = self.rank();
        let fits = rank == 1 || rank == values.rank() && self.shape()[..rank - 1] == values.shape()[..rank - 1];
        assert!(rank > 0 && fits, "searchsorted: {} into {}", values.shape(), self.shape());
        assert!(self.dtype() == values.dtype(), "searchsorted: {} into {}", values.dtype(), self.dtype());
        let length = self.size(-1);
        if values.numel() == 0 || length == 0 {
            return Self::zeros_of(values.shape().clone(), DType::I32, self.device());
        }
        let per_row = if rank == 1 { values.numel() } else { values.size(-1) };
        let (table, queries) = opaque(|| (self.sort_keys(), values.sort_keys()));
        table.search(length, &queries, per_row, right).to_dtype(DType::I32)
    }

    /// The number of the interval between ascending `boundaries` `[n]` that each element lies in, 0 to n, as i32; a
    /// boundary belongs to the interval below it, or above it if `right`.
    #[track_caller]
    #[must_use]
    pub fn bucketize(&self, boundaries: &Self, right: bool) -> Self {
        assert!(boundaries.rank() == 1, "bucketize: the boundaries are {}, not [n]", boundaries.shape());
        boundaries.searchsorted(self, right)
    }
}
