//! Coordinates of one node from those of another.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use crate::graph::{Op, View};
use crate::plan::index::Ix;
use crate::plan::simplify::permutation;
use crate::shape::Shape;

use super::Context;

/// Coordinates in `to` at the same row-major position as `coords` in `from`, a space of the same size.
///
/// Coordinates that matter lie within `from` even if `axes` alone do not say so (behind a padded view): first the
/// coordinates are taken for axes of that space, then put in place, which keeps sums free of quotients if any way does.
pub(super) fn reshaped(coords: &[Ix], from: &[usize], to: &Shape, axes: &[usize]) -> Vec<Ix> {
    if from == to.dims() {
        return coords.iter().zip(from).map(|(c, &size)| if size == 1 { Ix::constant(0) } else { c.clone() }).collect();
    }
    let own: Vec<Ix> =
        from.iter().enumerate().map(|(axis, &size)| if size == 1 { Ix::constant(0) } else { Ix::axis(axis) }).collect();
    let within: Vec<Ix> =
        Ix::linear(&own, from).unravel(to, from).iter().map(|index| index.substitute(coords, axes)).collect();
    if within.iter().all(|index| index.affine(axes.len()).is_some()) {
        return within;
    }
    let direct = Ix::linear(coords, from).unravel(to, axes);
    let quotients = |indices: &[Ix]| indices.iter().map(Ix::quotients).sum::<usize>();
    if quotients(&within) < quotients(&direct) { within } else { direct }
}

/// Coordinates, in the kernel's axes, of everything between `source` and the members that is a one-to-one image of it.
pub(super) fn forward_coords(
    context: Context<'_>,
    source: usize,
    own: &[Ix],
    members: &[usize],
    axes: &[usize],
) -> FxHashMap<usize, Vec<Ix>> {
    let program = context.program;
    let mut coords = FxHashMap::from_iter([(source, own.to_vec())]);
    // the nodes between: inlined ones and members, found backwards, then visited in topological order
    let mut between = BTreeSet::new();
    let mut stack: Vec<usize> = members.iter().copied().filter(|&member| member != source).collect();
    while let Some(node) = stack.pop() {
        if node > source && between.insert(node) {
            let inline = |&&input: &&usize| context.homes[input].is_none() || members.contains(&input);
            stack.extend(program.nodes[node].inputs.iter().filter(inline));
        }
    }
    for number in between {
        let node = &program.nodes[number];
        let image = node.inputs.iter().find_map(|input| {
            let inner = coords.get(input)?;
            let inner_shape = &program.nodes[*input].shape;
            match &node.op {
                Op::Reshape => Some(reshaped(inner, inner_shape, &node.shape, axes)),
                Op::View(view) => permuted(view, inner, inner_shape, &node.shape),
                Op::Unary(_) | Op::Binary(_) | Op::Select | Op::Cast | Op::Bitcast | Op::After => Some(inner.clone()),
                _ => None,
            }
        });
        if let Some(image) = image {
            coords.insert(number, image);
        }
    }
    coords
}

/// Output coordinates of a view that only moves axes (and adds or drops axes of size 1).
fn permuted(view: &View, inner: &[Ix], inner_shape: &Shape, shape: &Shape) -> Option<Vec<Ix>> {
    let from = permutation(view, inner_shape, shape)?;
    let coord = |source: Option<usize>| match source {
        Some(source) if inner_shape[source] != 1 => inner[source].clone(),
        _ => Ix::constant(0),
    };
    Some(from.into_iter().map(coord).collect())
}
