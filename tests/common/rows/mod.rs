//! One row per op: its name, sample inputs and how to call it; one file for each family.

mod activations;
mod composed;
mod elementwise;
mod functions;
mod indexing;
mod linear;
mod movement;
mod pictures;
mod reductions;
mod sorting;
mod windows;

use brasa::{DType, Tensor};

/// A sample input.
#[derive(Clone, Debug)]
pub struct Input {
    pub shape: Vec<usize>,
    pub low: f64,
    pub high: f64,
    pub dtype: DType,
}

/// An op with its samples.
pub struct Row {
    pub name: &'static str,
    pub call: fn(&[Tensor]) -> Tensor,
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
type Family = fn() -> Vec<Row>;

/// Every family with its rows.
pub const FAMILIES: [(&str, Family); 11] = [
    ("activations", activations::rows),
    ("composed", composed::rows),
    ("elementwise", elementwise::rows),
    ("functions", functions::rows),
    ("indexing", indexing::rows),
    ("linear", linear::rows),
    ("movement", movement::rows),
    ("pictures", pictures::rows),
    ("reductions", reductions::rows),
    ("sorting", sorting::rows),
    ("windows", windows::rows),
];

/// The rows of one family.
pub fn family(name: &str) -> Vec<Row> {
    let (_, rows) = FAMILIES.into_iter().find(|family| family.0 == name).expect("a family of that name");
    rows()
}
