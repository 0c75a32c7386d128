//! Elements found through index maps: as slices, padding and transposes where that is what they are, else as gathers.

use crate::dtype::{DType, Scalar};
use crate::error::{Error, Result};
use crate::graph::{Dim, NodeRef, View};

use super::Writer;
use super::builder::{Value, element_type, int};
use super::size::Size;
use super::trace::{depends, resolved, what};

/// More indices than this, and a file would be made of them.
const MAX_INDICES: usize = 1 << 22;
/// Where a slice ends that goes down to the first element.
const BEFORE_FIRST: i64 = i64::MIN + 1;

/// What becomes of one axis of the input.
enum Part {
    /// It stays as it is, as an axis of the output.
    Whole { axis: usize },
    /// `count` elements from `first` on, with `before` and `after` more around them.
    Some { axis: usize, first: i64, step: i64, count: usize, before: usize, after: usize },
    /// One element of it; the axis vanishes.
    One { element: i64 },
}

/// True if a view only adds axes in front and repeats axes of size 1.
pub(super) fn is_expansion(view: &View, node: &NodeRef) -> bool {
    let shape = &node.inputs[0].shape;
    let Some(new) = node.shape.rank().checked_sub(shape.rank()) else { return false };
    view.dims.iter().enumerate().all(|(axis, dim)| {
        *dim == Dim::axis(new + axis) && shape[axis] == node.shape[new + axis]
            || *dim == Dim::constant(0) && shape[axis] == 1
    })
}

/// The axis of the input for each axis of the output, if a view only exchanges axes.
pub(super) fn permutation(view: &View, node: &NodeRef) -> Option<Vec<usize>> {
    let shape = &node.inputs[0].shape;
    // as many axes, each of which is one: none is two of the input's
    let mut order = vec![None; node.shape.rank()];
    if shape.rank() != node.shape.rank() {
        return None;
    }
    for (axis, dim) in view.dims.iter().enumerate() {
        match dim.terms[..] {
            [(out, 1)] if dim.offset == 0 && dim.divisor == 1 && shape[axis] == node.shape[out] => {
                order[out] = Some(axis)
            }
            _ => return None,
        }
    }
    order.into_iter().collect()
}

impl Writer<'_> {
    pub(super) fn view(&mut self, view: &View, node: &NodeRef) -> Result<Value> {
        let value = self.value(&node.inputs[0])?;
        if is_expansion(view, node) {
            return Ok(value);
        }
        let input = resolved(&node.inputs[0]);
        let (sizes, out) = (self.traced.sizes(input), self.traced.sizes(node));
        let mut value = self.to.of_rank(&value, sizes.len())?;
        // an axis that is yet to be repeated may stay so if nothing else becomes of it
        let is_kept = |axis: usize| matches!(part(&view.dims[axis], sizes[axis], &out), Some(Part::Whole { .. }));
        let is_repeated = |axis: usize| value.dims[axis] == Size::ONE && sizes[axis] != Size::ONE;
        if (0..sizes.len()).any(|axis| is_repeated(axis) && !is_kept(axis)) {
            value = self.to.expanded(&value, &sizes)?;
        }
        let mut uses = vec![0; out.len()];
        view.dims.iter().flat_map(|dim| &dim.terms).for_each(|&(axis, _)| uses[axis] += 1);
        if uses.iter().any(|&uses| uses > 1) {
            return self.gathered_all(view, node);
        }
        // of attention there is less than its own value, but all that is looked at
        let size = |axis: usize| if value.dims[axis] == Size::ONE { sizes[axis] } else { value.dims[axis] };
        let parts: Option<Vec<Part>> =
            view.dims.iter().enumerate().map(|(axis, dim)| part(dim, size(axis), &out)).collect();
        match parts {
            Some(parts) => self.sliced(&value, &parts, view.fill, &out),
            None => self.gathered(view, node, &out),
        }
    }

    /// Slices, padding, a transpose and a reshape, as far as each is needed.
    fn sliced(&mut self, value: &Value, parts: &[Part], fill: Scalar, out: &[Size]) -> Result<Value> {
        let mut dims = value.dims.clone();
        let (mut starts, mut ends, mut axes, mut steps) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut pads = [vec![0; parts.len()], vec![0; parts.len()]];
        for (axis, part) in parts.iter().enumerate() {
            let (first, step, count) = match *part {
                Part::Whole { .. } => continue,
                Part::One { .. } if value.dims[axis] == Size::ONE => continue,
                Part::One { element } => (element, 1, 1),
                Part::Some { first, step, count, before, after, .. } => {
                    (pads[0][axis], pads[1][axis]) = (before as i64, after as i64);
                    (first, step, count)
                }
            };
            if value.dims[axis].known() != Some(count) || step != 1 {
                let end = first + step * count as i64;
                starts.push(first);
                ends.push(if end < 0 { BEFORE_FIRST } else { end });
                axes.push(axis as i64);
                steps.push(step);
            }
            dims[axis] = Size::of(count);
        }
        let mut value = value.clone();
        if !axes.is_empty() {
            let lists = [&starts, &ends, &axes, &steps].map(|list| self.to.numbers(list));
            let inputs = [&value.name, &lists[0], &lists[1], &lists[2], &lists[3]].map(String::as_str);
            value = self.to.value("Slice", &inputs, Vec::new(), dims.clone());
        }
        if pads.iter().flatten().any(|&width| width > 0) {
            for (axis, size) in dims.iter_mut().enumerate() {
                size.fixed += pads[0][axis] + pads[1][axis];
            }
            let widths = self.to.numbers(&pads.concat());
            let fill = self.to.scalar(fill);
            value = self.to.value("Pad", &[&value.name, &widths, &fill], Vec::new(), dims.clone());
        }
        let places = parts.iter().map(|part| match *part {
            Part::Whole { axis } | Part::Some { axis, .. } => vec![axis],
            Part::One { .. } => Vec::new(),
        });
        self.arranged(&value, &places.collect::<Vec<_>>(), out)
    }

    /// `value`, whose axes are for each axis of the input those axes of the output (none: one of size 1 that vanishes),
    /// in the order of the output; axes that none of them is are of size 1.
    fn arranged(&mut self, value: &Value, places: &[Vec<usize>], out: &[Size]) -> Result<Value> {
        // where each axis of the value goes to
        let mut targets: Vec<Option<usize>> = Vec::new();
        for place in places {
            if place.is_empty() {
                targets.push(None);
            }
            targets.extend(place.iter().map(|&axis| Some(axis)));
        }
        let mut order: Vec<usize> = (0..targets.len()).collect();
        if !targets.iter().flatten().is_sorted() {
            order.sort_by_key(|&axis| targets[axis].unwrap_or(usize::MAX));
        }
        let value = self.to.transpose(value, &order);
        let mut dims = vec![Size::ONE; out.len()];
        for (&axis, &size) in order.iter().zip(&value.dims) {
            if let Some(target) = targets[axis] {
                dims[target] = size;
            }
        }
        self.to.reshape(&value, &dims)
    }

    /// Each axis of the input taken at places that are worked out here.
    fn gathered(&mut self, view: &View, node: &NodeRef, out: &[Size]) -> Result<Value> {
        let mut value = self.whole(&node.inputs[0])?;
        for (axis, dim) in view.dims.iter().enumerate().rev() {
            if let [(out_axis, 1)] = dim.terms[..]
                && dim.offset == 0
                && dim.divisor == 1
                && value.dims[axis] == out[out_axis]
            {
                continue;
            }
            let Some(size) = value.dims[axis].known() else { return Err(depends(&what(node))) };
            let sizes: Option<Vec<usize>> = dim.terms.iter().map(|&(axis, _)| out[axis].known()).collect();
            let Some(sizes) = sizes else { return Err(depends(&what(node))) };
            let (places, outside) = places(dim, &sizes, size, node)?;
            if outside {
                let mut widths = vec![0; 2 * value.dims.len()];
                widths[value.dims.len() + axis] = 1;
                let (widths, fill) = (self.to.numbers(&widths), self.to.scalar(view.fill));
                let mut dims = value.dims.clone();
                dims[axis].fixed += 1;
                value = self.to.value("Pad", &[&value.name, &widths, &fill], Vec::new(), dims);
            }
            let bytes = places.iter().flat_map(|place| place.to_le_bytes()).collect();
            let index = self.to.constant(&sizes, element_type(DType::U32), bytes);
            let new: Vec<Size> = sizes.iter().map(|&size| Size::of(size)).collect();
            let dims = [&value.dims[..axis], &new, &value.dims[axis + 1..]].concat();
            value = self.to.value("Gather", &[&value.name, &index], vec![int("axis", axis as i64)], dims);
        }
        let mut places: Vec<Vec<usize>> =
            view.dims.iter().map(|dim| dim.terms.iter().map(|&(axis, _)| axis).collect()).collect();
        // a gather of one place by an index without axes leaves none
        places.retain(|place| !place.is_empty());
        self.arranged(&value, &places, out)
    }

    /// Every element of the output by its place in the input as a vector: axes that depend on each other, such as
    /// diagonals.
    fn gathered_all(&mut self, view: &View, node: &NodeRef) -> Result<Value> {
        let (input, shape) = (&node.inputs[0], &node.shape);
        let sizes = self.traced.sizes(node);
        let fixed = sizes.iter().chain(&self.traced.sizes(resolved(input))).all(|size| size.is_fixed());
        if !fixed || shape.numel() > MAX_INDICES {
            return Err(if fixed { too_many(node) } else { depends(&what(node)) });
        }
        let length = input.shape.numel();
        let mut bytes = Vec::with_capacity(8 * shape.numel());
        for point in crate::graph::reference::coordinates(shape) {
            let mut place = Some(0);
            for (dim, &size) in view.dims.iter().zip(input.shape.iter()) {
                let sum = dim.terms.iter().fold(dim.offset, |sum, &(axis, factor)| sum + factor * point[axis] as i64);
                place = place.zip(coordinate(dim, sum, size)).map(|(place, at)| place * size + at);
            }
            bytes.extend_from_slice(&(place.unwrap_or(length) as i64).to_le_bytes());
        }
        let value = self.whole(input)?;
        let flat = self.to.reshape(&value, &[Size::of(length)])?;
        let (widths, fill) = (self.to.numbers(&[0, 1]), self.to.scalar(view.fill));
        let padded = self.to.value("Pad", &[&flat.name, &widths, &fill], Vec::new(), vec![Size::of(length + 1)]);
        let index = self.to.constant(shape, element_type(DType::U32), bytes);
        Ok(self.to.value("Gather", &[&padded.name, &index], vec![int("axis", 0)], sizes))
    }
}

/// What becomes of an axis of size `size`, as a slice with padding; `None` if that is not what it is.
fn part(dim: &Dim, size: Size, out: &[Size]) -> Option<Part> {
    if dim.divisor != 1 {
        return None;
    }
    match dim.terms[..] {
        [] => {
            let inside = (0..size.known().map_or(1, |size| size as i64)).contains(&dim.offset);
            inside.then_some(Part::One { element: dim.offset })
        }
        [(axis, 1)] if dim.offset == 0 && out[axis] == size => Some(Part::Whole { axis }),
        [(axis, step)] => {
            let (size, length) = (size.known()? as i64, out[axis].known()?);
            let at = |number: usize| dim.offset + step * number as i64;
            let inside = |number: &usize| (0..size).contains(&at(*number));
            let before = (0..length).position(|number| inside(&number))?;
            let count = (before..length).take_while(inside).count();
            Some(Part::Some { axis, first: at(before), step, count, before, after: length - before - count })
        }
        _ => None,
    }
}

/// The coordinate that a map's sum stands for, if it is one.
fn coordinate(dim: &Dim, sum: i64, size: usize) -> Option<usize> {
    let whole = sum % dim.divisor == 0;
    usize::try_from(sum / dim.divisor).ok().filter(|&place| whole && sum >= 0 && place < size)
}

/// The coordinates along an axis for all points of a map's own axes, row-major; `size` for those outside, and whether
/// there are such.
fn places(dim: &Dim, sizes: &[usize], size: usize, node: &NodeRef) -> Result<(Vec<i64>, bool)> {
    if sizes.iter().product::<usize>() > MAX_INDICES {
        return Err(too_many(node));
    }
    let mut outside = false;
    let place = |point: Vec<usize>| {
        let terms = dim.terms.iter().zip(&point);
        let sum = terms.fold(dim.offset, |sum, (&(_, factor), &at)| sum + factor * at as i64);
        let place = coordinate(dim, sum, size);
        outside |= place.is_none();
        place.unwrap_or(size) as i64
    };
    Ok((crate::graph::reference::coordinates(sizes).map(place).collect(), outside))
}

fn too_many(node: &NodeRef) -> Error {
    Error::Export(format!("{} would be written as more than {MAX_INDICES} indices", what(node)))
}
