//! First values that depend on an element's place.

use crate::shape::Shape;

use super::initial::Generator;

/// Gram and Schmidt in f64 over normal vectors: the Q of a QR decomposition whose R has a positive diagonal, which makes it
/// uniform (Mezzadri, arXiv math-ph/0609050).
#[track_caller]
pub(super) fn orthogonal(shape: &Shape, gain: f32, generator: &mut Generator) -> Vec<f32> {
    assert!(shape.rank() >= 2, "Orthogonal: {shape} is no matrix");
    let (rows, columns) = (shape[0], shape[1..].iter().product::<usize>());
    let (count, length) = (rows.min(columns), rows.max(columns));
    let mut vectors: Vec<Vec<f64>> = Vec::with_capacity(count);
    for _ in 0..count {
        let mut vector: Vec<f64> = (0..length).map(|_| generator.normal()).collect();
        // twice, as the first time leaves rounding errors in the direction of the others
        for _ in 0..2 {
            for other in &vectors {
                let along = dot(&vector, other);
                vector.iter_mut().zip(other).for_each(|(value, other)| *value -= along * other);
            }
        }
        let norm = dot(&vector, &vector).sqrt();
        vector.iter_mut().for_each(|value| *value /= norm);
        vectors.push(vector);
    }
    let at = |row: usize, column: usize| if rows <= columns { vectors[row][column] } else { vectors[column][row] };
    let places = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
    places.map(|(row, column)| (f64::from(gain) * at(row, column)) as f32).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[track_caller]
pub(super) fn eye(shape: &Shape) -> Vec<f32> {
    assert!(shape.rank() == 2, "Eye: {shape} is no matrix");
    let mut values = vec![0.0; shape.numel()];
    (0..shape[0].min(shape[1])).for_each(|place| values[place * shape[1] + place] = 1.0);
    values
}

#[track_caller]
pub(super) fn dirac(shape: &Shape, groups: usize) -> Vec<f32> {
    assert!(shape.rank() >= 3, "Dirac: {shape} is no kernel [outputs, inputs, ...]");
    let (outputs, inputs) = (shape[0], shape[1]);
    assert!(groups > 0 && outputs.is_multiple_of(groups), "Dirac: {outputs} outputs in {groups} groups");
    let kernel = &shape[2..];
    let size: usize = kernel.iter().product();
    let centre = kernel.iter().fold(0, |number, &size| number * size + size / 2);
    let in_group = outputs / groups;
    let mut values = vec![0.0; shape.numel()];
    for group in 0..groups {
        for channel in 0..in_group.min(inputs) {
            values[((group * in_group + channel) * inputs + channel) * size + centre] = 1.0;
        }
    }
    values
}

#[track_caller]
pub(super) fn sparse(shape: &Shape, sparsity: f32, deviation: f32, generator: &mut Generator) -> Vec<f32> {
    assert!(shape.rank() == 2, "Sparse: {shape} is no matrix");
    assert!((0.0..=1.0).contains(&sparsity), "Sparse: sparsity {sparsity} is not in 0..=1");
    let (rows, columns) = (shape[0], shape[1]);
    // in f32: a tenth is a little more in f64
    let zeros = (sparsity * rows as f32).ceil() as usize;
    let mut values: Vec<f32> = (0..shape.numel()).map(|_| deviation * generator.normal() as f32).collect();
    for column in 0..columns {
        // the first places of a shuffle (Fisher and Yates)
        let mut order: Vec<usize> = (0..rows).collect();
        for place in 0..zeros.min(rows) {
            let other = place + (generator.uniform() * (rows - place) as f64) as usize;
            order.swap(place, other);
            values[order[place] * columns + column] = 0.0;
        }
    }
    values
}
