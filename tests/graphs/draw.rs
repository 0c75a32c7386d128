//! What a row draws: numbers, and values that fit.

use brasa::{DType, Tensor};

use super::pool::Pool;
use super::state::State;

/// The numbers of one choice, and the values there are.
pub(crate) struct Draw<'a, 'b> {
    pool: &'a mut Pool<'b>,
    bytes: &'a [u8],
}

/// The elements of `tensor`, which has some, repeated or cut to `shape`.
pub(crate) fn fit(tensor: &Tensor, shape: &[usize]) -> Tensor {
    if tensor.shape().dims() == shape {
        return tensor.clone();
    }
    let (have, want) = (tensor.numel(), shape.iter().product::<usize>());
    let mut flat = tensor.reshape([have]);
    if have < want {
        flat = flat.repeat(&[want.div_ceil(have)]);
    }
    flat.narrow(0, 0, want).reshape(shape)
}

impl<'a, 'b> Draw<'a, 'b> {
    pub(crate) fn new(pool: &'a mut Pool<'b>, bytes: &'a [u8]) -> Self {
        Self { pool, bytes }
    }

    /// A number below `bound`, 0 if that is 0.
    pub(crate) fn number(&mut self, bound: usize) -> usize {
        let Some((&first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        usize::from(first) % bound.max(1)
    }

    /// A number from `low` to `high`.
    pub(crate) fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.number(high - low + 1)
    }

    pub(crate) fn flag(&mut self) -> bool {
        self.number(2) == 1
    }

    /// One of several.
    pub(crate) fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.number(all.len())]
    }

    /// `rank` sizes from 1 to `most`.
    pub(crate) fn sizes(&mut self, rank: usize, most: usize) -> Vec<usize> {
        (0..rank).map(|_| self.between(1, most)).collect()
    }

    /// A value for which `test` holds: a new one more often than an old one, so that graphs are deep rather than wide.
    pub(crate) fn value(&mut self, test: impl Fn(&Tensor) -> bool) -> Tensor {
        let fitting: Vec<&Tensor> = self.pool.values.iter().rev().filter(|value| test(value)).collect();
        let count = fitting.len();
        let Some((&first, rest)) = self.bytes.split_first() else { return self.take(0, test) };
        self.bytes = rest;
        let place = usize::from(first);
        self.take((place * place * count) >> 16, test)
    }

    fn take(&mut self, number: usize, test: impl Fn(&Tensor) -> bool) -> Tensor {
        let value = self.pool.values.iter().rev().filter(|value| test(value)).nth(number);
        let value = value.expect("every pool has inputs of each type").clone();
        self.pool.use_up(&value);
        value
    }

    pub(crate) fn any(&mut self) -> Tensor {
        self.value(|_| true)
    }

    /// An f32 value, which may be empty.
    pub(crate) fn float(&mut self) -> Tensor {
        self.value(|value| value.dtype() == DType::F32)
    }

    /// An f32 or f16 value, which may be empty.
    pub(crate) fn real(&mut self) -> Tensor {
        self.value(|value| value.dtype().is_float())
    }

    /// An f32 value with elements.
    pub(crate) fn solid(&mut self) -> Tensor {
        self.value(|value| value.dtype() == DType::F32 && value.numel() > 0)
    }

    /// An f32 value with elements and `low` to `high` axes: one reshaped, if need be.
    pub(crate) fn ranked(&mut self, low: usize, high: usize) -> Tensor {
        let value = self.solid();
        let shape = value.shape().to_vec();
        if shape.len() < low {
            let mut longer = vec![1; low - shape.len()];
            longer.extend(shape);
            return value.reshape(longer);
        }
        if shape.len() > high {
            let mut shorter = shape[..high].to_vec();
            if high > 0 {
                shorter[high - 1] = shape[high - 1..].iter().product();
            }
            return if high > 0 { value.reshape(shorter) } else { value.reshape([value.numel()]).select(0, 0) };
        }
        value
    }

    /// An f32 value in this shape.
    pub(crate) fn shaped(&mut self, shape: &[usize]) -> Tensor {
        let value = self.solid();
        fit(&value, shape)
    }

    /// `value` as it is if all its elements lie between `low` and `high`, else pressed in between.
    pub(crate) fn pressed(&mut self, value: &Tensor, low: f64, high: f64) -> Tensor {
        if self.pool.is_within(value, low, high) {
            return value.clone();
        }
        value.sigmoid() * (high - low) + low
    }

    /// An f32 value in this shape, with elements between `low` and `high`.
    pub(crate) fn within(&mut self, low: f64, high: f64, shape: &[usize]) -> Tensor {
        let value = self.shaped(shape);
        self.pressed(&value, low, high)
    }

    /// A shape that broadcasts with `shape`: the same, its last axes, or with axes of size 1.
    fn partner_shape(&mut self, shape: &[usize]) -> Vec<usize> {
        match self.number(4) {
            0 | 1 => shape.to_vec(),
            2 => shape[self.number(shape.len() + 1)..].to_vec(),
            _ => {
                let ones = self.number(256);
                shape.iter().enumerate().map(|(axis, &size)| if ones >> axis & 1 == 1 { 1 } else { size }).collect()
            }
        }
    }

    /// A value of the same type that broadcasts with `value`.
    pub(crate) fn partner(&mut self, value: &Tensor) -> Tensor {
        let shape = value.shape().clone();
        let dtype = value.dtype();
        let as_it_is = self.value(|other| other.dtype() == dtype);
        if as_it_is.shape().broadcast(&shape).is_some_and(|both| both.numel() <= 400) {
            return as_it_is;
        }
        let shape = self.partner_shape(&shape);
        if as_it_is.numel() > 0 {
            return fit(&as_it_is, &shape);
        }
        self.shaped(&shape).to_dtype(dtype)
    }

    /// An i32 or u32 value.
    pub(crate) fn integer(&mut self) -> Tensor {
        self.value(|value| matches!(value.dtype(), DType::I32 | DType::U32))
    }

    /// Numbers below `bound` in this shape, most often i32.
    pub(crate) fn index(&mut self, bound: usize, shape: &[usize]) -> Tensor {
        let value = self.value(|value| {
            matches!(value.dtype(), DType::I32 | DType::U32) && value.numel() > 0
                || value.dtype() == DType::F32 && value.numel() > 0
        });
        let value = fit(&value, shape);
        let value = if value.dtype().is_float() { (value * 7.0).floor().to_dtype(DType::I32) } else { value };
        value.remainder(bound.max(1) as i64)
    }

    /// Truth values in this shape.
    pub(crate) fn truth(&mut self, shape: &[usize]) -> Tensor {
        let value = self.value(|value| value.numel() > 0 && matches!(value.dtype(), DType::Bool | DType::F32));
        let value = fit(&value, shape);
        if value.dtype() == DType::Bool { value } else { value.gt(0.1) }
    }

    /// One of the axes of `value`, which has some; counted from either side.
    pub(crate) fn axis(&mut self, value: &Tensor) -> isize {
        let rank = value.rank();
        let axis = self.number(2 * rank).cast_signed();
        axis - if axis >= rank.cast_signed() { 2 * rank.cast_signed() } else { 0 }
    }

    /// One or more axes of `value`, which has some.
    pub(crate) fn axes(&mut self, value: &Tensor) -> Vec<isize> {
        let chosen = self.number(256);
        let axes: Vec<isize> =
            (0..value.rank()).filter(|axis| chosen >> axis & 1 == 1).map(usize::cast_signed).collect();
        if axes.is_empty() { vec![self.axis(value)] } else { axes }
    }

    /// The axes of `value` in some order.
    pub(crate) fn order(&mut self, value: &Tensor) -> Vec<usize> {
        let mut left: Vec<usize> = (0..value.rank()).collect();
        let mut order = Vec::new();
        while !left.is_empty() {
            order.push(left.remove(self.number(left.len())));
        }
        order
    }

    pub(crate) fn has_half(&self) -> bool {
        self.pool.has_half()
    }

    pub(crate) fn state(&self) -> Option<&'b State> {
        self.pool.state
    }
}
