//! The gradient of any view. It is the one place where gradients are summed over broadcast axes.
//!
//! An input coordinate `i` was read at the output coordinates `o` with `Σ c·o + offset = divisor·i`. For each input
//! axis that equation is solved for one output axis, its *pivot*: of those that no other equation mentions the first that
//! is hardly smaller than the largest (which of windows are the places, not the taps), or the only one, whose solution is
//! then put into the other equations. All other output axes are summed. An equation without such an axis becomes a
//! condition: its gradient gets an axis of size 1 whose coordinate is the difference of both sides.

use std::collections::BTreeMap;

use crate::dtype::Scalar;
use crate::graph::Dim;
use crate::shape::Shape;
use crate::tensor::Tensor;

use super::movement::Moved;

/// The gradient of the input of a view with these `dims`: each input element sums `g` over the output elements it went
/// to.
#[track_caller]
pub(crate) fn adjoint(dims: &[Dim], input: &Shape, g: &Tensor) -> Tensor {
    if g.numel() == 0 {
        return Tensor::zeros_of(input.clone(), g.dtype(), g.device());
    }
    if let Some(result) = untile(dims, input, g) {
        return result;
    }
    let mut sizes = g.shape().to_vec();
    let pivots = choose_pivots(dims, &sizes);
    let is_pivot =
        |axis: usize| dims.iter().zip(&pivots).any(|(dim, pivot)| pivot.is_some_and(|p| dim.terms[p].0 == axis));
    let summed: Vec<usize> = (0..sizes.len()).filter(|&axis| sizes[axis] != 1 && !is_pivot(axis)).collect();

    let mut inverse = vec![Dim::constant(0); sizes.len()];
    for (number, &axis) in summed.iter().enumerate() {
        inverse[axis] = Dim::axis(input.rank() + number);
    }
    for (axis, (dim, &pivot)) in dims.iter().zip(&pivots).enumerate() {
        // divisor·i - offset - Σ c·o over all but the pivot
        let mut rest = Sum { terms: BTreeMap::from([(axis, dim.divisor)]), offset: -dim.offset };
        for (term, &(output, factor)) in dim.terms.iter().enumerate() {
            if Some(term) != pivot {
                rest.add(&coordinate(output, dims, &pivots, &summed, input.rank()), -factor);
            }
        }
        if let Some(pivot) = pivot {
            let (output, factor) = dim.terms[pivot];
            inverse[output] = rest.over(factor);
        } else if !(dim.terms.is_empty() && input[axis] == 1) {
            sizes.push(1);
            inverse.push(rest.over(1));
        }
    }
    let mut shape = input.to_vec();
    shape.extend(summed.iter().map(|&axis| g.shape()[axis]));
    let axes: Vec<usize> = (input.rank()..shape.len()).collect();
    let zero = Scalar::new(g.dtype(), 0.0);
    g.reshape(sizes).moved(Moved { dims: inverse, shape: shape.into() }, zero).sum_dim(axes)
}

/// The adjoint of a view that cuts axes into tiles which lie side by side (pooling with a stride of its kernel's size):
/// the tiles are put together again, and nothing has to be summed. `None` for other views.
fn untile(dims: &[Dim], input: &Shape, g: &Tensor) -> Option<Tensor> {
    let sizes = g.shape();
    let (mut order, mut joined, mut tiled) = (Vec::new(), Vec::new(), false);
    for dim in dims {
        if dim.offset != 0 || dim.divisor != 1 {
            return None;
        }
        match dim.terms.as_slice() {
            &[(axis, 1)] => {
                order.push(axis);
                joined.push(sizes[axis]);
            }
            &[(tile, step), (within, 1)] | &[(within, 1), (tile, step)] if step > 1 && sizes[within] as i64 == step => {
                order.extend([tile, within]);
                joined.push(sizes[tile] * sizes[within]);
                tiled = true;
            }
            _ => return None,
        }
    }
    let mut used = order.clone();
    used.sort_unstable();
    let once = used.iter().copied().eq(0..sizes.rank());
    if !once || !tiled || joined.iter().zip(input.iter()).any(|(&have, &size)| have > size) {
        return None;
    }
    let order: Vec<isize> = order.into_iter().map(usize::cast_signed).collect();
    let whole = g.permute(order).reshape(joined.clone());
    // what no tile covers has no gradient
    let dims = joined.iter().enumerate().map(|(axis, _)| Dim::axis(axis)).collect();
    Some(whole.moved(Moved { dims, shape: input.clone() }, Scalar::new(g.dtype(), 0.0)))
}

/// For each input axis, the number of the term it is solved for.
fn choose_pivots(dims: &[Dim], sizes: &[usize]) -> Vec<Option<usize>> {
    let mentions = |axis: usize| dims.iter().filter(|dim| dim.terms.iter().any(|term| term.0 == axis)).count();
    let mut taken: Vec<usize> = Vec::new();
    let mut pivots = Vec::with_capacity(dims.len());
    for dim in dims {
        let only = matches!(dim.terms.as_slice(), [(_, 1 | -1)]);
        let usable = |&term: &usize| {
            let axis = dim.terms[term].0;
            !taken.contains(&axis) && (only || mentions(axis) == 1)
        };
        let size = |term: usize| sizes[dim.terms[term].0];
        let largest = (0..dim.terms.len()).filter(usable).map(size).max().unwrap_or(0);
        // a sum over somewhat more taps is a convolution, one over few places reads the filters here and there
        let pivot = (0..dim.terms.len()).filter(usable).find(|&term| 3 * size(term) >= 2 * largest);
        taken.extend(pivot.map(|term| dim.terms[term].0));
        pivots.push(pivot);
    }
    pivots
}

/// An output coordinate in terms of the coordinates of the gradient's sum: input axes, then summed axes.
fn coordinate(output: usize, dims: &[Dim], pivots: &[Option<usize>], summed: &[usize], rank: usize) -> Sum {
    if let Some(number) = summed.iter().position(|&axis| axis == output) {
        return Sum { terms: BTreeMap::from([(rank + number, 1)]), offset: 0 };
    }
    let solved = dims.iter().zip(pivots).position(|(dim, pivot)| pivot.is_some_and(|p| dim.terms[p].0 == output));
    match solved {
        Some(axis) => {
            let (dim, sign) = (&dims[axis], dims[axis].terms[0].1);
            Sum { terms: BTreeMap::from([(axis, sign * dim.divisor)]), offset: -sign * dim.offset }
        }
        // its size is 1
        None => Sum { terms: BTreeMap::new(), offset: 0 },
    }
}

/// `offset + Σ factor · axis`
struct Sum {
    terms: BTreeMap<usize, i64>,
    offset: i64,
}

impl Sum {
    fn add(&mut self, other: &Self, factor: i64) {
        for (&axis, &other) in &other.terms {
            *self.terms.entry(axis).or_insert(0) += factor * other;
        }
        self.offset += factor * other.offset;
    }

    /// Its quotient by `factor`, as an index.
    fn over(self, factor: i64) -> Dim {
        let sign = factor.signum();
        let terms = self.terms.into_iter().filter(|term| term.1 != 0).map(|(axis, c)| (axis, sign * c)).collect();
        Dim { terms, offset: sign * self.offset, divisor: factor.abs() }
    }
}
