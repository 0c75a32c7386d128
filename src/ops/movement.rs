//! Movement: the same elements elsewhere, as affine index maps.

use crate::error::Result;
use crate::graph::reference::{coordinates, ravel};
use crate::graph::{Dim, Node, NodeRef, View};
use crate::shape::Shape;
use crate::tensor::Tensor;

use super::{adjoint, resolve_axis, shape_error};

/// An index map with its output shape.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Moved {
    /// One for each input axis.
    pub dims: Vec<Dim>,
    /// The output's shape.
    pub shape: Shape,
}

/// The shape with the one size -1 inferred.
///
/// # Errors
///
/// If the number of elements differs or cannot be made equal.
pub fn reshape(shape: &Shape, to: &[isize]) -> Result<Shape> {
    let wrong = || shape_error(format!("reshape: {shape} has {} elements and cannot become {to:?}", shape.numel()));
    let known = to.iter().filter(|&&size| size >= 0).map(|size| size.cast_unsigned()).collect::<Shape>().numel();
    let unknown = to.iter().filter(|&&size| size < 0).count();
    let inferred = match unknown {
        0 => 0,
        1 if known > 0 && shape.numel().is_multiple_of(known) => shape.numel() / known,
        _ => return wrong(),
    };
    let size = |&size: &isize| if size == -1 { Some(inferred) } else { usize::try_from(size).ok() };
    match to.iter().map(size).collect::<Option<Vec<_>>>().map(Shape::from) {
        Some(result) if result.numel() == shape.numel() => Ok(result),
        _ => wrong(),
    }
}

/// Output axis `i` is input axis `axes[i]`.
///
/// # Errors
///
/// If `axes` is not a permutation of the input's axes.
pub fn permute(shape: &Shape, axes: &[isize]) -> Result<Moved> {
    let mut dims = vec![None; shape.rank()];
    let mut sizes = Vec::with_capacity(axes.len());
    for (out, &axis) in axes.iter().enumerate() {
        let axis = resolve_axis("permute", shape, axis)?;
        dims[axis] = Some(Dim::axis(out));
        sizes.push(shape[axis]);
    }
    match dims.into_iter().collect::<Option<Vec<_>>>() {
        Some(dims) if axes.len() == dims.len() => Ok(Moved { dims, shape: sizes.into() }),
        _ => shape_error(format!("permute: {axes:?} is not an order of the axes of {shape}")),
    }
}

/// New axes in front, and axes of size 1 repeated.
///
/// # Errors
///
/// If `shape` does not broadcast to `to`.
pub fn expand(shape: &Shape, to: &Shape) -> Result<Moved> {
    if shape.broadcast(to).as_ref() != Some(to) {
        return shape_error(format!("expand: {shape} does not broadcast to {to}"));
    }
    let new = to.rank() - shape.rank();
    let dim = |(axis, &size): (usize, &usize)| {
        if size == 1 && to[new + axis] != 1 { Dim::constant(0) } else { Dim::axis(new + axis) }
    };
    Ok(Moved { dims: shape.iter().enumerate().map(dim).collect(), shape: to.clone() })
}

/// `len` elements along `axis`, the first at `start`, `step` apart (negative: backwards).
///
/// # Errors
///
/// If an element lies outside or `step` is 0.
pub fn slice(shape: &Shape, axis: isize, start: usize, len: usize, step: isize) -> Result<Moved> {
    let axis = resolve_axis("slice", shape, axis)?;
    let last = start.cast_signed() + step * (len.cast_signed() - 1);
    let inside = |position: isize| (0..shape[axis].cast_signed()).contains(&position);
    if step == 0 || (len > 0 && !(inside(start.cast_signed()) && inside(last))) {
        return shape_error(format!("slice: {len} elements from {start} by {step} leave axis {axis} of {shape}"));
    }
    let mut moved = identity(shape);
    moved.dims[axis] =
        Dim { terms: vec![(axis, step as i64)], offset: if len > 0 { start as i64 } else { 0 }, divisor: 1 };
    moved.shape = with_size(shape, axis, len);
    Ok(moved)
}

/// The inverse of [`slice()`](fn@slice): `part` put back to where it was along `axis` of `size` elements, and nothing elsewhere.
pub(crate) fn unslice(part: &Shape, axis: usize, start: usize, step: isize, size: usize) -> Moved {
    let mut moved = identity(part);
    let sign = step.signum() as i64;
    moved.dims[axis] =
        Dim { terms: vec![(axis, sign)], offset: -sign * start as i64, divisor: step.unsigned_abs() as i64 };
    moved.shape = with_size(part, axis, size);
    moved
}

/// (before, after) elements added along each axis; negative ones are removed.
///
/// # Errors
///
/// If there is not one pair for each axis or a size becomes negative.
pub fn pad(shape: &Shape, widths: &[(isize, isize)]) -> Result<Moved> {
    let wrong = || shape_error(format!("pad: {shape} by {widths:?}"));
    if widths.len() != shape.rank() {
        return wrong();
    }
    let mut sizes = Vec::with_capacity(shape.rank());
    let mut moved = identity(shape);
    for (axis, &(before, after)) in widths.iter().enumerate() {
        let size = shape[axis].cast_signed().checked_add(before).and_then(|size| size.checked_add(after));
        let Some(size) = size.and_then(|size| usize::try_from(size).ok()) else { return wrong() };
        moved.dims[axis].offset = -(before as i64);
        sizes.push(size);
    }
    moved.shape = sizes.into();
    Ok(moved)
}

/// Sliding windows along one axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// Elements in a window.
    pub kernel: usize,
    /// From one window to the next.
    pub stride: usize,
    /// Added at both ends.
    pub padding: usize,
    /// From one element of a window to the next, at least 1.
    pub dilation: usize,
}

impl Window {
    /// Number of windows along an axis of `size` elements; `None` if not even one fits.
    pub fn count(&self, size: usize) -> Option<usize> {
        let room = self.padded(size)?.checked_sub(self.span()?)?;
        room.checked_div(self.stride)?.checked_add(1)
    }

    /// Elements from the first that a window reads to its last; `None` with dilation 0, where a window would read one
    /// element several times: gradients are not made for that.
    pub(crate) fn span(&self) -> Option<usize> {
        if self.dilation == 0 {
            return None;
        }
        self.dilation.checked_mul(self.kernel.checked_sub(1)?)?.checked_add(1)
    }

    /// An error that says so if one of its numbers is 0 that may not be.
    pub(super) fn check(&self, name: &str) -> Result<()> {
        let numbers = [("kernel", self.kernel), ("stride", self.stride), ("dilation", self.dilation)];
        match numbers.iter().find(|(_, number)| *number == 0) {
            Some((what, _)) => shape_error(format!("{name}: {what} 0, which is to be at least 1")),
            None => Ok(()),
        }
    }

    /// An axis with its padding.
    pub(crate) fn padded(&self, size: usize) -> Option<usize> {
        self.padding.checked_mul(2)?.checked_add(size)
    }

    /// Elements along an axis from whose windows `count` results are spread by a transposed convolution.
    pub fn transposed_size(&self, count: usize, output_padding: usize) -> Option<usize> {
        let begins = count.checked_sub(1)?.checked_mul(self.stride)?;
        let end = begins.checked_add(self.span()?)?.checked_add(output_padding)?;
        end.checked_sub(self.padding.checked_mul(2)?)
    }
}

/// Windows over the last axes, one `Window` each: `[.., size..]` becomes `[.., count.., kernel..]`.
///
/// # Errors
///
/// If no window fits.
pub fn windows(name: &str, shape: &Shape, windows: &[Window]) -> Result<Moved> {
    let Some(first) = shape.rank().checked_sub(windows.len()) else {
        return shape_error(format!("{name}: {shape} has fewer than {} axes", windows.len()));
    };
    let mut counts = Vec::new();
    for (axis, window) in windows.iter().enumerate() {
        window.check(name)?;
        match window.count(shape[first + axis]) {
            Some(count) => counts.push(count),
            None => return shape_error(format!("{name}: a window of {window:?} does not fit into {shape}")),
        }
    }
    Ok(counted_windows(shape, windows, &counts))
}

/// As [`windows`], so many along each axis; the last ones may lie outside.
pub(crate) fn counted_windows(shape: &Shape, windows: &[Window], counts: &[usize]) -> Moved {
    let first = shape.rank() - windows.len();
    let mut sizes = [&shape[..first], counts].concat();
    sizes.extend(windows.iter().map(|window| window.kernel));
    let mut dims: Vec<Dim> = (0..first).map(Dim::axis).collect();
    dims.extend(windows.iter().enumerate().map(|(axis, window)| Dim {
        terms: vec![(first + axis, window.stride as i64), (first + windows.len() + axis, window.dilation as i64)],
        offset: -(window.padding as i64),
        divisor: 1,
    }));
    Moved { dims, shape: sizes.into() }
}

/// The positions from which a transposed convolution gathers: `[.., count..]` becomes `[.., size.., kernel..]`, where
/// the element for (position, k) is window number `(position + padding - dilation k) / stride`.
pub fn transposed_windows(shape: &Shape, windows: &[Window], sizes: &[usize]) -> Moved {
    let first = shape.rank() - windows.len();
    let mut out = [&shape[..first], sizes].concat();
    out.extend(windows.iter().map(|window| window.kernel));
    let mut dims: Vec<Dim> = (0..first).map(Dim::axis).collect();
    dims.extend(windows.iter().enumerate().map(|(axis, window)| Dim {
        terms: vec![(first + axis, 1), (first + windows.len() + axis, -(window.dilation as i64))],
        offset: window.padding as i64,
        divisor: window.stride as i64,
    }));
    Moved { dims, shape: out.into() }
}

/// `length` elements with both coordinates growing from `starts` along two axes, as a new last axis; `axes` are the
/// two, ascending.
pub(crate) fn diagonal(shape: &Shape, axes: &[usize], pair: [usize; 2], starts: [usize; 2], length: usize) -> Moved {
    let mut sizes: Vec<usize> = Vec::new();
    let mut dims = vec![Dim::constant(0); shape.rank()];
    for axis in (0..shape.rank()).filter(|axis| !axes.contains(axis)) {
        dims[axis] = Dim::axis(sizes.len());
        sizes.push(shape[axis]);
    }
    for (axis, start) in pair.into_iter().zip(starts) {
        // an empty diagonal may start outside
        dims[axis] = Dim { offset: if length > 0 { start as i64 } else { 0 }, ..Dim::axis(sizes.len()) };
    }
    sizes.push(length);
    Moved { dims, shape: sizes.into() }
}

/// `shape` with another size along `axis`.
pub fn with_size(shape: &Shape, axis: usize, size: usize) -> Shape {
    let mut dims = shape.to_vec();
    dims[axis] = size;
    dims.into()
}

/// Every element where it is.
pub(crate) fn identity(shape: &Shape) -> Moved {
    Moved { dims: (0..shape.rank()).map(Dim::axis).collect(), shape: shape.clone() }
}

impl Moved {
    /// True if every element stays where it is.
    pub fn is_identity(&self, shape: &Shape) -> bool {
        *self == identity(shape)
    }

    /// Drops terms of output axes of size 1, whose coordinate is always 0, but for the last term of each dimension.
    #[must_use]
    pub fn normalized(mut self) -> Self {
        for dim in &mut self.dims {
            dim.terms.sort_by_key(|&(axis, _)| self.shape[axis] == 1);
            let significant = dim.terms.iter().filter(|&&(axis, _)| self.shape[axis] != 1).count();
            dim.terms.truncate(significant.max(1));
        }
        self
    }
}

pub(super) fn reshape_gradient(node: &NodeRef, g: &Tensor) -> Tensor {
    g.reshape(&node.inputs[0].shape)
}

pub(super) fn view_gradient(view: &View, node: &NodeRef, g: &Tensor) -> Tensor {
    adjoint::adjoint(&view.dims, &node.inputs[0].shape, g)
}

pub(super) fn pack_gradient(offsets: &[usize], node: &NodeRef, g: &Tensor) -> Vec<Option<Tensor>> {
    let part =
        |(input, &offset): (&NodeRef, &usize)| Some(g.narrow(0, offset, input.shape.numel()).reshape(&input.shape));
    node.inputs.iter().zip(offsets).map(part).collect()
}

pub(super) fn view_reference(view: &View, node: &Node, inputs: &[&[f64]]) -> Vec<f64> {
    let shape = &node.inputs[0].shape;
    let source = |point: &[usize]| {
        let mut source = Vec::with_capacity(shape.rank());
        for (dim, &size) in view.dims.iter().zip(shape.iter()) {
            let sum = dim.terms.iter().fold(dim.offset, |sum, &(axis, factor)| sum + factor * point[axis] as i64);
            let coordinate = usize::try_from(sum / dim.divisor).ok()?;
            if sum % dim.divisor != 0 || sum < 0 || coordinate >= size {
                return None;
            }
            source.push(coordinate);
        }
        Some(ravel(&source, shape))
    };
    coordinates(&node.shape)
        .map(|point| source(&point).map_or(view.fill.to_f64(), |number| inputs[0][number]))
        .collect()
}

pub(super) fn pack_reference(offsets: &[usize], len: usize, inputs: &[&[f64]]) -> Vec<f64> {
    let mut out = vec![0.0; len];
    for (input, &offset) in inputs.iter().zip(offsets) {
        out[offset..offset + input.len()].copy_from_slice(input);
    }
    out
}
