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
            Ok(values) => Shown::new(self, &values),
            Err(error) => return write!(f, "tensor({}{}: {error})", self.dtype(), self.shape()),
        };
        f.write_str("tensor(")?;
        shown.axis(f, 0, 0)?;
        if self.numel() == 0 {
            write!(f, ", shape={}", self.shape())?;
        }
        if self.dtype() != DType::F32 {
            write!(f, ", {}", self.dtype())?;
        }
        f.write_str(")")
    }
}

struct Shown {
    cells: Vec<String>,
    width: usize,
    shape: Vec<usize>,
    strides: Vec<usize>,
    shorten: bool,
}

impl Shown {
    fn new(tensor: &Tensor, values: &[f64]) -> Self {
        let shape = tensor.shape();
        let shorten = tensor.numel() > FULL_ELEMENTS;
        let whole = values.iter().all(|value| !value.is_finite() || value.fract() == 0.0);
        let finite = values.iter().map(|value| value.abs()).filter(|value| value.is_finite() && *value > 0.0);
        let (low, high) = finite.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        let scientific = high > 0.0 && (high >= 1e8 || low < 1e-4 || high / low > 1e3 && !whole && low < 1e-3);
        let cell = |&value: &f64| match tensor.dtype() {
            DType::Bool => (value != 0.0).to_string(),
            dtype if !dtype.is_float() => value.to_string(),
            _ if value.is_nan() => "nan".into(),
            _ if value.is_infinite() => value.to_string(),
            _ if scientific => format!("{value:.4e}"),
            _ if whole => format!("{value:.0}."),
            _ => format!("{value:.4}"),
        };
        let cells: Vec<String> = values.iter().map(cell).collect();
        let width = cells.iter().map(String::len).max().unwrap_or(0);
        Self { cells, width, shape: shape.to_vec(), strides: shape.strides(), shorten }
    }

    fn axis(&self, f: &mut fmt::Formatter<'_>, axis: usize, first: usize) -> fmt::Result {
        let Some(&size) = self.shape.get(axis) else {
            return if self.shape.is_empty() {
                f.write_str(&self.cells[first])
            } else {
                write!(f, "{:>width$}", self.cells[first], width = self.width)
            };
        };
        f.write_str("[")?;
        let last_axis = axis + 1 == self.shape.len();
        let mut position = 0;
        while position < size {
            if position > 0 {
                self.separator(f, axis, last_axis)?;
            }
            if self.shorten && size > 2 * EDGE && position == EDGE {
                f.write_str("...")?;
                position = size - EDGE;
                self.separator(f, axis, last_axis)?;
            }
            self.axis(f, axis + 1, first + position * self.strides[axis])?;
            position += 1;
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
