//! Printing: `Debug` says what a tensor is, `Display` computes and shows its elements.

use std::fmt;

use crate::dtype::DType;

use super::Tensor;

/// Axes longer than this are shortened once a tensor has more than [`FULL_ELEMENTS`].
const EDGE: usize = 3;
const FULL_ELEMENTS: usize = 1000;

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor {}{} on {:?}", self.dtype(), self.shape(), self.device())
    }
}

impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = match self.to_f64_vec() {
            Ok(values) => Shown::new(self, values),
            Err(error) => return write!(f, "tensor({}{}: {error})", self.dtype(), self.shape()),
        };
        f.write_str("tensor(")?;
        match self.numel() {
            0 => write!(f, "[], shape={}", self.shape())?,
            _ => shown.axis(f, 0, 0)?,
        }
        if self.dtype() != DType::F32 {
            write!(f, ", {}", self.dtype())?;
        }
        f.write_str(")")
    }
}

struct Shown {
    values: Vec<f64>,
    dtype: DType,
    /// All are whole numbers.
    whole: bool,
    scientific: bool,
    width: usize,
    shape: Vec<usize>,
    strides: Vec<usize>,
    shorten: bool,
}

impl Shown {
    fn new(tensor: &Tensor, values: Vec<f64>) -> Self {
        let shape = tensor.shape();
        let shorten = tensor.numel() > FULL_ELEMENTS;
        let whole = values.iter().all(|value| !value.is_finite() || value.fract() == 0.0);
        let finite = values.iter().map(|value| value.abs()).filter(|value| value.is_finite() && *value > 0.0);
        let (low, high) = finite.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        let scientific = high > 0.0 && (high >= 1e8 || low < 1e-4 || high / low > 1e3 && !whole && low < 1e-3);
        let (dtype, strides) = (tensor.dtype(), shape.strides());
        let mut shown = Self { values, dtype, whole, scientific, width: 0, shape: shape.to_vec(), strides, shorten };
        if tensor.numel() > 0 {
            shown.width = shown.widest(0, 0);
        }
        shown
    }

    fn cell(&self, element: usize) -> String {
        let value = self.values[element];
        match self.dtype {
            DType::Bool => (value != 0.0).to_string(),
            dtype if !dtype.is_float() => value.to_string(),
            _ if value.is_nan() => "nan".into(),
            _ if value.is_infinite() => value.to_string(),
            _ if self.scientific => format!("{value:.4e}"),
            _ if self.whole => format!("{value:.0}."),
            _ => format!("{value:.4}"),
        }
    }

    /// The places along an axis that are shown.
    fn places(&self, size: usize) -> impl Iterator<Item = usize> + use<> {
        let left_out = if self.shorten && size > 2 * EDGE { EDGE..size - EDGE } else { size..size };
        (0..left_out.start).chain(left_out.end..size)
    }

    /// The most characters of a shown element from `first` on.
    fn widest(&self, axis: usize, first: usize) -> usize {
        match self.shape.get(axis) {
            None => self.cell(first).len(),
            Some(&size) => {
                let places = self.places(size);
                places.map(|place| self.widest(axis + 1, first + place * self.strides[axis])).max().unwrap_or(0)
            }
        }
    }

    fn axis(&self, f: &mut fmt::Formatter<'_>, axis: usize, first: usize) -> fmt::Result {
        let Some(&size) = self.shape.get(axis) else {
            let width = if self.shape.is_empty() { 0 } else { self.width };
            return write!(f, "{:>width$}", self.cell(first));
        };
        f.write_str("[")?;
        let last_axis = axis + 1 == self.shape.len();
        let mut next = 0;
        for place in self.places(size) {
            if place > 0 {
                self.separator(f, axis, last_axis)?;
            }
            if place != next {
                f.write_str("...")?;
                self.separator(f, axis, last_axis)?;
            }
            self.axis(f, axis + 1, first + place * self.strides[axis])?;
            next = place + 1;
        }
        f.write_str("]")
    }

    fn separator(&self, f: &mut fmt::Formatter<'_>, axis: usize, last_axis: bool) -> fmt::Result {
        if last_axis {
            return f.write_str(", ");
        }
        f.write_str(",")?;
        f.write_str(&"\n".repeat(self.shape.len() - axis - 1))?;
        f.write_str(&" ".repeat("tensor(".len() + axis + 1))
    }
}
