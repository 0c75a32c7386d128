//! ONNX models: what ONNX Runtime and ONNX's own reference computed for them, what is told of files that are wrong, and
//! files damaged in thousands of ways.

mod backend;
mod recorded;

use brasa::{DType, Device, Tensor};

use crate::common::doubles;

/// A tensor as a file has it: numbers of any type.
pub(crate) struct Numbers {
    pub(crate) shape: Vec<usize>,
    pub(crate) values: Vec<f64>,
    /// Compared with a tolerance, which is at least this one for types of few bits; none for integers.
    pub(crate) rounding: Option<f64>,
}

impl Numbers {
    /// On a device, in the type that a model takes.
    pub(crate) fn to_tensor(&self, dtype: DType, device: &Device) -> Tensor {
        let bits = self.values.iter().map(|&value| brasa::Scalar::new(dtype, value).bits.to_le_bytes());
        let bytes: Vec<u8> = bits.flat_map(|bits| bits.into_iter().take(dtype.size_bytes())).collect();
        Tensor::from_bytes(&bytes, self.shape.as_slice(), dtype, device).expect("memory")
    }

    /// What differs in a tensor, if anything does.
    pub(crate) fn difference(&self, got: &Tensor, relative: f64, absolute: f64) -> Option<String> {
        if got.shape().dims() != self.shape {
            return Some(format!("shape {} instead of {:?}", got.shape(), self.shape));
        }
        let got = doubles(got);
        let wrong = |(got, expected): (&f64, &f64)| {
            let same = got == expected || got.is_nan() && expected.is_nan();
            let allowed = self.rounding.map_or(0.0, |least| absolute + relative.max(least) * expected.abs());
            // NaN is near nothing
            let is_near = (got - expected).abs() <= allowed;
            !same && !is_near
        };
        let wrong: Vec<usize> = (0..got.len()).filter(|&at| wrong((&got[at], &self.values[at]))).collect();
        let first = *wrong.first()?;
        Some(format!(
            "{} of {} elements, number {first} is {} instead of {}",
            wrong.len(),
            got.len(),
            got[first],
            self.values[first]
        ))
    }
}
