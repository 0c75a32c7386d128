//! The table of ops: a row for each, with its name, sample inputs and how to call it; a file for each family.
//!
//! `brasa doctor` holds a driver against it, and the tests hold the ops' rules, the kernels and both backends against
//! it.

mod activations;
mod composed;
mod elementwise;
mod fft;
mod functions;
mod indexing;
mod large;
mod linalg;
mod linear;
mod movement;
mod pictures;
mod reductions;
mod sorting;
mod windows;

use crate::{DType, Device, Result, Scalar, Tensor};

/// A sample input.
#[derive(Clone, Debug)]
pub struct Input {
    /// Its shape.
    pub shape: Vec<usize>,
    /// No value is less.
    pub low: f64,
    /// Every value is less.
    pub high: f64,
    /// Its type.
    pub dtype: DType,
}

impl Input {
    /// Values within its bounds, the same ones for the same seed, exact in its type.
    pub fn sample(&self, seed: u64) -> Vec<f64> {
        let count = self.shape.iter().product();
        let round = |value: f64| if self.dtype == DType::Bool { value.floor() } else { value };
        let values = values(seed, count, self.low, self.high).into_iter();
        values.map(|value| Scalar::new(self.dtype, round(value)).to_f64()).collect()
    }

    /// A leaf with these values.
    ///
    /// # Errors
    /// If the device has no memory for it.
    pub fn leaf(&self, values: &[f64], device: &Device) -> Result<Tensor> {
        let mut bytes = Vec::new();
        for &value in values {
            bytes.extend_from_slice(&Scalar::new(self.dtype, value).bits.to_le_bytes()[..self.dtype.size_bytes()]);
        }
        Tensor::from_bytes(&bytes, self.shape.as_slice(), self.dtype, device)
    }
}

/// A number in [0, 1) for each element of each seed, without a generator's state.
pub fn unit(seed: u64, element: usize) -> f64 {
    let mut bits = (seed << 32).wrapping_add(element as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    for (shift, factor) in [(30, 0xBF58_476D_1CE4_E5B9_u64), (27, 0x94D0_49BB_1331_11EB)] {
        bits = (bits ^ (bits >> shift)).wrapping_mul(factor);
    }
    (bits >> 40) as f64 / (1_u64 << 24) as f64
}

/// `count` numbers in `low..high`, exact in f32.
pub fn values(seed: u64, count: usize, low: f64, high: f64) -> Vec<f64> {
    (0..count).map(|element| f64::from((low + (high - low) * unit(seed, element)) as f32)).collect()
}

/// An op with its samples.
#[derive(Debug)]
pub struct Row {
    /// What it is called: the method, or what it is tried with.
    pub name: &'static str,
    /// Applies it.
    pub call: fn(&[Tensor]) -> Tensor,
    /// The inputs of each case.
    pub cases: Vec<Vec<Input>>,
    /// Allowed error on devices, in units of f32's rounding times the size of the values.
    pub tolerance: f64,
}

impl Row {
    /// One more case: floats in -2..2 of these shapes.
    fn on<const N: usize>(self, shapes: [&[usize]; N]) -> Self {
        self.within(-2.0, 2.0, shapes)
    }

    /// One more case: floats in `low..high` of these shapes.
    fn within<const N: usize>(self, low: f64, high: f64, shapes: [&[usize]; N]) -> Self {
        let inputs = shapes.map(|shape| Input { shape: shape.to_vec(), low, high, dtype: DType::F32 });
        self.case(inputs.to_vec())
    }

    /// One more case: floats in -2..2, then integers in `0..bound`.
    fn indexed<const N: usize>(self, floats: [&[usize]; N], bound: usize, index: &[usize]) -> Self {
        let mut inputs: Vec<Input> = floats
            .iter()
            .map(|shape| Input { shape: shape.to_vec(), low: -2.0, high: 2.0, dtype: DType::F32 })
            .collect();
        inputs.push(Input { shape: index.to_vec(), low: 0.0, high: bound as f64, dtype: DType::I32 });
        self.case(inputs)
    }

    /// One more case: values of one type in `low..high`.
    fn typed<const N: usize>(self, dtype: DType, low: f64, high: f64, shapes: [&[usize]; N]) -> Self {
        let inputs = shapes.map(|shape| Input { shape: shape.to_vec(), low, high, dtype });
        self.case(inputs.to_vec())
    }

    fn case(mut self, inputs: Vec<Input>) -> Self {
        self.cases.push(inputs);
        self
    }

    /// With a larger error allowed on devices.
    fn loose(mut self, tolerance: f64) -> Self {
        self.tolerance = tolerance;
        self
    }
}

fn row(name: &'static str, call: fn(&[Tensor]) -> Tensor) -> Row {
    Row { name, call, cases: Vec::new(), tolerance: 16.0 }
}

/// A unary op over the usual shapes: rank 0, size 1, a prime, an empty axis.
fn unary(name: &'static str, low: f64, high: f64, call: fn(&[Tensor]) -> Tensor) -> Row {
    let row = row(name, call);
    row.within(low, high, [&[]]).within(low, high, [&[1, 7]]).within(low, high, [&[3, 5]]).within(low, high, [&[0, 3]])
}

/// A binary op over broadcasts.
fn binary(name: &'static str, low: f64, high: f64, call: fn(&[Tensor]) -> Tensor) -> Row {
    row(name, call)
        .within(low, high, [&[2, 3], &[2, 3]])
        .within(low, high, [&[2, 1, 3], &[5, 1]])
        .within(low, high, [&[], &[4]])
        .within(low, high, [&[0, 3], &[3]])
}

/// A reduction over no, one and several axes.
fn reduction(name: &'static str, call: fn(&[Tensor]) -> Tensor) -> Row {
    row(name, call).on([&[3, 5, 2]]).on([&[1, 7, 1]])
}

/// The rows of one kind of ops.
pub type Family = fn() -> Vec<Row>;

/// Every family with its rows.
pub const FAMILIES: [(&str, Family); 13] = [
    ("activations", activations::rows),
    ("composed", composed::rows),
    ("elementwise", elementwise::rows),
    ("fft", fft::rows),
    ("functions", functions::rows),
    ("indexing", indexing::rows),
    ("linalg", linalg::rows),
    ("linear", linear::rows),
    ("movement", movement::rows),
    ("pictures", pictures::rows),
    ("reductions", reductions::rows),
    ("sorting", sorting::rows),
    ("windows", windows::rows),
];

/// All families' rows, and samples of sizes at which kernels have other forms.
pub fn all() -> impl Iterator<Item = Row> {
    FAMILIES.iter().flat_map(|(_, family)| family()).chain(large::rows())
}

/// The rows of one family.
///
/// # Panics
/// If there is none of that name.
pub fn family(name: &str) -> Vec<Row> {
    let (_, rows) = FAMILIES.into_iter().find(|family| family.0 == name).expect("a family of that name");
    rows()
}
