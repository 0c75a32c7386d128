//! First values that depend on an element's place.

use crate::shape::Shape;

use super::initial::{Generator, NoRoom, room};

/// Gram and Schmidt in f64 over normal vectors: the Q of a QR decomposition whose R has a positive diagonal, which
/// makes it uniform (Mezzadri, arXiv math-ph/0609050).
#[track_caller]
pub(super) fn orthogonal(
    path: &str,
    shape: &Shape,
    gain: f32,
    values: &mut Vec<f32>,
    generator: &mut Generator,
) -> Result<(), NoRoom> {
    assert!(shape.rank() >= 2, "{path}: Orthogonal, but {shape} is not a matrix");
    let (rows, columns) = (shape[0], shape[1..].iter().product::<usize>());
    let (count, length) = (rows.min(columns), rows.max(columns));
    // one behind the other
    let mut vectors: Vec<f64> = room(shape.numel())?;
    for number in 0..count {
        vectors.extend((0..length).map(|_| generator.normal()));
        let (others, vector) = vectors.split_at_mut(number * length);
        // twice, as the first time leaves rounding errors in the direction of the others
        for _ in 0..2 {
            for other in others.chunks_exact(length) {
                let along = dot(vector, other);
                vector.iter_mut().zip(other).for_each(|(value, other)| *value -= along * other);
            }
        }
        let norm = dot(vector, vector).sqrt();
        vector.iter_mut().for_each(|value| *value /= norm);
    }
    let at = |row: usize, column: usize| {
        vectors[if rows <= columns { row * length + column } else { column * length + row }]
    };
    let places = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
    values.extend(places.map(|(row, column)| (f64::from(gain) * at(row, column)) as f32));
    Ok(())
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[track_caller]
pub(super) fn eye(path: &str, shape: &Shape, values: &mut Vec<f32>) {
    assert!(shape.rank() == 2, "{path}: Eye, but {shape} is not a matrix");
    values.resize(shape.numel(), 0.0);
    (0..shape[0].min(shape[1])).for_each(|place| values[place * shape[1] + place] = 1.0);
}

#[track_caller]
pub(super) fn dirac(path: &str, shape: &Shape, groups: usize, values: &mut Vec<f32>) {
    assert!(shape.rank() >= 3, "{path}: Dirac, but {shape} is not a kernel [outputs, inputs, ...]");
    let (outputs, inputs) = (shape[0], shape[1]);
    assert!(
        groups > 0 && outputs.is_multiple_of(groups),
        "{path}: Dirac, but {shape} has {outputs} outputs in {groups} groups"
    );
    let kernel = &shape[2..];
    let size: usize = kernel.iter().product();
    let centre = kernel.iter().fold(0, |number, &size| number * size + size / 2);
    let in_group = outputs / groups;
    values.resize(shape.numel(), 0.0);
    for group in 0..groups {
        for channel in 0..in_group.min(inputs) {
            values[((group * in_group + channel) * inputs + channel) * size + centre] = 1.0;
        }
    }
}

#[track_caller]
pub(super) fn sparse(
    path: &str,
    shape: &Shape,
    sparsity: f32,
    deviation: f32,
    values: &mut Vec<f32>,
    generator: &mut Generator,
) -> Result<(), NoRoom> {
    assert!(shape.rank() == 2, "{path}: Sparse, but {shape} is not a matrix");
    assert!((0.0..=1.0).contains(&sparsity), "{path}: Sparse, but the sparsity {sparsity} is not in 0..=1");
    let (rows, columns) = (shape[0], shape[1]);
    // in f32: a tenth is a little more in f64
    let zeros = (sparsity * rows as f32).ceil() as usize;
    let mut order: Vec<usize> = room(rows)?;
    values.extend((0..shape.numel()).map(|_| deviation * generator.normal() as f32));
    for column in 0..columns {
        // the first places of a shuffle (Fisher and Yates)
        order.clear();
        order.extend(0..rows);
        for place in 0..zeros.min(rows) {
            let other = place + (generator.uniform() * (rows - place) as f64) as usize;
            order.swap(place, other);
            values[order[place] * columns + column] = 0.0;
        }
    }
    Ok(())
}
