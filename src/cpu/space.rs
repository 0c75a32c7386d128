//! Iteration spaces as the executor walks them, and index expressions over them as linear forms.
//!
//! A space has *fixed* axes, at one point of which a strip lies, and *walked* axes, along whose row-major order it runs.
//! Making one splits axes so that quotients and remainders vanish where they can, and merges neighbours that all
//! expressions treat as one axis, so that rows are long.

use crate::plan::{Atom, Ix};

/// Most axes of a space; more are never split off.
const MAX_RANK: usize = 24;
/// The innermost axis is not split into rows shorter than this: many short rows cost more than quotients do.
const SHORTEST_ROW: usize = 16;

/// An iteration space.
#[derive(Clone, Debug)]
pub(super) struct Space {
    /// For each of the kernel's axes: its coordinate in terms of the split axes.
    coords: Vec<Ix>,
    /// Sizes of the split axes, before merging.
    split: Vec<usize>,
    /// The split axis that each remaining axis ends in: its strides are that axis's.
    kept: Vec<usize>,
    /// Sizes of the remaining axes, fixed ones first; at least one is walked.
    sizes: Vec<usize>,
    /// How many of `sizes` are fixed.
    fixed: usize,
}

/// `offset + Σ stride · coordinate` over the axes of a [`Space`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Form {
    strides: Vec<i64>,
    offset: i64,
}

/// The linear forms that an instruction needs at each row, evaluated together.
#[derive(Clone, Default, Debug)]
pub(super) struct Forms(Vec<Form>);

/// An index expression over a space.
#[derive(Clone, Debug)]
pub(super) struct Position {
    /// Number of the linear part in [`Forms`].
    form: usize,
    quotients: Vec<Quotient>,
    /// The whole expression, where quotients are nested; the other parts are unused then.
    nested: Option<Ix>,
    /// What one step along a row adds to the linear part.
    pub(super) stride: i64,
    /// True if a row's values are `start + stride · j`.
    pub(super) straight: bool,
    /// True if it is the same at all walked points.
    pub(super) constant: bool,
}

/// `coefficient · (form / by)` or `coefficient · (form % by)`.
#[derive(Clone, Debug)]
struct Quotient {
    coefficient: i64,
    form: usize,
    by: i64,
    remainder: bool,
    /// What one step along a row adds to the form.
    stride: i64,
}

/// Where a row begins: the forms' values there, and its coordinates.
pub(super) struct Row<'a> {
    pub(super) values: &'a [i64],
    coords: &'a [usize],
}

/// Sizes at which `ix` cuts `axis` by itself: the products of divisors in quotients and remainders of the bare axis.
fn cuts(ix: &Ix, axis: usize, found: &mut Vec<usize>) {
    for (atom, _) in &ix.terms {
        if let Atom::Div(inner, by) | Atom::Mod(inner, by) = atom {
            match inner.terms.as_slice() {
                [(Atom::Axis(a), 1)] if *a == axis && inner.offset == 0 => found.push(*by as usize),
                [(Atom::Div(x, first), 1)] if inner.offset == 0 && **x == Ix::axis(axis) => {
                    found.push(*first as usize);
                    found.push((first * by) as usize);
                }
                _ => cuts(inner, axis, found),
            }
        }
    }
}

/// The sizes that `axis` is split into, outermost first.
fn split_axis(size: usize, axis: usize, expressions: &[&Ix], innermost: bool) -> Vec<usize> {
    let mut found = Vec::new();
    for ix in expressions {
        cuts(ix, axis, &mut found);
    }
    found.sort_unstable();
    found.dedup();
    found.retain(|&cut| cut > 1 && cut < size);
    let chain =
        found.windows(2).all(|pair| pair[1] % pair[0] == 0) && found.iter().all(|cut| size.is_multiple_of(*cut));
    if found.is_empty() || !chain || (innermost && found[0] < SHORTEST_ROW) {
        return vec![size];
    }
    let mut sizes = Vec::new();
    let mut below = 1;
    for cut in found.into_iter().chain([size]) {
        sizes.push(cut / below);
        below = cut;
    }
    sizes.reverse();
    sizes
}

impl Space {
    /// The space of the axes `fixed` and `walked` (numbers into `axes`), suited to `expressions`.
    pub(super) fn new(axes: &[usize], fixed: &[usize], walked: &[usize], expressions: &[&Ix]) -> Self {
        let mut coords = vec![Ix::constant(0); axes.len()];
        let mut split = Vec::new();
        let mut fixed_split = 0;
        let innermost = walked.iter().rev().copied().find(|&axis| axes[axis] != 1);
        for (position, &axis) in fixed.iter().chain(walked).enumerate() {
            if axes[axis] == 1 {
                continue;
            }
            let mut sizes = split_axis(axes[axis], axis, expressions, Some(axis) == innermost);
            if split.len() + sizes.len() + axes.len() > MAX_RANK {
                sizes = vec![axes[axis]];
            }
            let numbers: Vec<Ix> = (0..sizes.len()).map(|i| Ix::axis(split.len() + i)).collect();
            coords[axis] = Ix::linear(&numbers, &sizes);
            split.extend(sizes);
            if position < fixed.len() {
                fixed_split = split.len();
            }
        }
        if split.len() == fixed_split {
            split.push(1);
        }
        assert!(split.len() <= MAX_RANK, "a kernel of {} axes", split.len());
        let mut space =
            Self { coords, kept: (0..split.len()).collect(), sizes: split.clone(), split, fixed: fixed_split };
        space.merge(expressions);
        space
    }

    /// Merges neighbouring axes that all expressions treat as one.
    fn merge(&mut self, expressions: &[&Ix]) {
        let mut forms = Forms::default();
        for ix in expressions {
            if self.position(ix, &mut forms).nested.is_some() {
                return;
            }
        }
        let mut axis = self.sizes.len() - 1;
        while axis > 0 {
            let size = self.sizes[axis] as i64;
            let same_group = axis != self.fixed;
            if same_group && forms.0.iter().all(|form| form.strides[axis - 1] == form.strides[axis] * size) {
                self.sizes[axis] *= self.sizes[axis - 1];
                self.sizes.remove(axis - 1);
                self.kept.remove(axis - 1);
                if axis < self.fixed {
                    self.fixed -= 1;
                }
                for form in &mut forms.0 {
                    form.strides.remove(axis - 1);
                }
            }
            axis -= 1;
        }
    }

    /// Points of a row.
    pub(super) fn row(&self) -> usize {
        self.sizes[self.sizes.len() - 1]
    }

    fn form(&self, ix: &Ix) -> Option<Form> {
        let (strides, offset) = ix.affine(self.split.len())?;
        Some(Form { strides: self.kept.iter().map(|&axis| strides[axis]).collect(), offset })
    }

    /// `ix`, one of the expressions the space was made for, with its linear parts added to `forms`.
    pub(super) fn position(&self, ix: &Ix, forms: &mut Forms) -> Position {
        let ix = ix.substitute(&self.coords, &self.split);
        let last = self.sizes.len() - 1;
        let (plain, rest): (Vec<_>, Vec<_>) =
            ix.terms.iter().cloned().partition(|(atom, _)| matches!(atom, Atom::Axis(_)));
        let linear = self.form(&Ix { terms: plain, offset: ix.offset }).expect("only axes are left in it");
        let stride = linear.strides[last];
        let mut constant = linear.strides[self.fixed..].iter().all(|&stride| stride == 0);
        let form = forms.add(linear);
        let mut quotients = Vec::new();
        let mut nested = None;
        for (atom, coefficient) in rest {
            let (Atom::Div(inner, by) | Atom::Mod(inner, by)) = &atom else { unreachable!("axes are set apart above") };
            let Some(inner) = self.form(inner) else {
                nested = Some(ix.clone());
                continue;
            };
            constant &= inner.strides[self.fixed..].iter().all(|&stride| stride == 0);
            let stride = inner.strides[last];
            let remainder = matches!(atom, Atom::Mod(..));
            quotients.push(Quotient { coefficient, form: forms.add(inner), by: *by, remainder, stride });
        }
        let straight = nested.is_none() && quotients.iter().all(|quotient| quotient.stride == 0);
        constant &= nested.is_none();
        Position { form, quotients, nested, stride, straight, constant }
    }

    /// The coordinates of a walked point at a fixed point, and the forms' `values` there.
    #[inline]
    pub(super) fn begin(
        &self,
        forms: &Forms,
        (fixed, start): (usize, usize),
        values: &mut Vec<i64>,
    ) -> [usize; MAX_RANK] {
        let mut coords = [0; MAX_RANK];
        let rank = self.sizes.len();
        unravel(fixed, &self.sizes[..self.fixed], &mut coords[..self.fixed]);
        unravel(start, &self.sizes[self.fixed..], &mut coords[self.fixed..rank]);
        values.clear();
        values.extend(forms.0.iter().map(|form| form.at(&coords[..rank])));
        coords
    }

    /// Calls `f(row, start, len)` for each piece of a row among the `len` walked points from `start` on, at fixed point
    /// number `fixed`; `start` counts from the strip's beginning. `values` is scratch.
    #[inline]
    pub(super) fn walk(
        &self,
        forms: &Forms,
        (fixed, start, len): (usize, usize, usize),
        values: &mut Vec<i64>,
        mut f: impl FnMut(&Row<'_>, usize, usize),
    ) {
        let rank = self.sizes.len();
        let last = rank - 1;
        let mut coords = self.begin(forms, (fixed, start), values);
        let mut done = 0;
        while done < len {
            let count = (self.sizes[last] - coords[last]).min(len - done);
            f(&Row { values, coords: &coords[..rank] }, done, count);
            done += count;
            if done == len {
                break;
            }
            let mut axis = last;
            for (value, form) in values.iter_mut().zip(&forms.0) {
                *value -= form.strides[last] * coords[last] as i64;
            }
            coords[last] = 0;
            while axis > self.fixed {
                axis -= 1;
                coords[axis] += 1;
                let wraps = coords[axis] == self.sizes[axis];
                let steps = if wraps { 1 - self.sizes[axis] as i64 } else { 1 };
                for (value, form) in values.iter_mut().zip(&forms.0) {
                    *value += form.strides[axis] * steps;
                }
                if !wraps {
                    break;
                }
                coords[axis] = 0;
            }
        }
    }
}

/// Coordinates of row-major position `flat`.
fn unravel(mut flat: usize, sizes: &[usize], coords: &mut [usize]) {
    for (coord, &size) in coords.iter_mut().zip(sizes).rev() {
        if flat == 0 {
            *coord = 0;
        } else {
            *coord = flat % size;
            flat /= size;
        }
    }
}

impl Form {
    fn at(&self, coords: &[usize]) -> i64 {
        self.strides.iter().zip(coords).map(|(stride, &coord)| stride * coord as i64).sum::<i64>() + self.offset
    }
}

impl Forms {
    fn add(&mut self, form: Form) -> usize {
        self.0.iter().position(|known| *known == form).unwrap_or_else(|| {
            self.0.push(form);
            self.0.len() - 1
        })
    }
}

impl Position {
    /// Number of the linear part among the forms.
    pub(super) fn linear(&self) -> usize {
        self.form
    }

    /// Numbers of the forms that quotients look at; `None` if there are nested quotients.
    pub(super) fn quotient_forms(&self) -> Option<impl Iterator<Item = usize>> {
        self.nested.is_none().then(|| self.quotients.iter().map(|quotient| quotient.form))
    }

    /// The value at the row's beginning.
    #[inline]
    pub(super) fn start(&self, row: &Row<'_>) -> i64 {
        if let Some(nested) = &self.nested {
            return nested.eval(row.coords);
        }
        let quotients: i64 = self.quotients.iter().map(|quotient| quotient.coefficient * quotient.value(row)).sum();
        row.values[self.form] + quotients
    }

    /// The values along the row.
    pub(super) fn fill(&self, row: &Row<'_>, target: &mut [i64]) {
        if let Some(nested) = &self.nested {
            let mut coords = [0; MAX_RANK];
            let rank = row.coords.len();
            coords[..rank].copy_from_slice(row.coords);
            for value in target {
                *value = nested.eval(&coords[..rank]);
                coords[rank - 1] += 1;
            }
            return;
        }
        let start = row.values[self.form];
        for (j, value) in target.iter_mut().enumerate() {
            *value = start + self.stride * j as i64;
        }
        for quotient in &self.quotients {
            quotient.add(row, target);
        }
    }
}

impl Quotient {
    fn value(&self, row: &Row<'_>) -> i64 {
        let inner = row.values[self.form];
        if self.remainder { inner.rem_euclid(self.by) } else { inner.div_euclid(self.by) }
    }

    /// Adds its part to the values along a row, without a division per element.
    fn add(&self, row: &Row<'_>, target: &mut [i64]) {
        let inner = row.values[self.form];
        let (mut whole, mut rest) = (inner.div_euclid(self.by), inner.rem_euclid(self.by));
        let (whole_step, rest_step) = (self.stride.div_euclid(self.by), self.stride.rem_euclid(self.by));
        for value in target {
            *value += self.coefficient * if self.remainder { rest } else { whole };
            whole += whole_step;
            rest += rest_step;
            if rest >= self.by {
                rest -= self.by;
                whole += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Space {
        /// Number of fixed points.
        fn fixed_points(&self) -> usize {
            self.sizes[..self.fixed].iter().product()
        }

        /// Number of walked points.
        fn walked_points(&self) -> usize {
            self.sizes[self.fixed..].iter().product()
        }
    }

    /// Walks everything in strips of `strip` and compares with `Ix::eval`.
    fn check(axes: &[usize], fixed: &[usize], walked: &[usize], expressions: &[Ix], strip: usize) -> Space {
        let all: Vec<&Ix> = expressions.iter().collect();
        let space = Space::new(axes, fixed, walked, &all);
        for ix in expressions {
            let mut forms = Forms::default();
            let position = space.position(ix, &mut forms);
            let (mut got, mut expected) = (Vec::new(), Vec::new());
            for fixed_point in 0..space.fixed_points() {
                for start in (0..space.walked_points()).step_by(strip) {
                    let len = strip.min(space.walked_points() - start);
                    let mut values = vec![0; len];
                    space.walk(&forms, (fixed_point, start, len), &mut Vec::new(), |row, at, count| {
                        position.fill(row, &mut values[at..at + count]);
                        if position.straight {
                            assert_eq!(
                                position.start(row) + position.stride * (count as i64 - 1),
                                values[at + count - 1]
                            );
                        }
                    });
                    got.extend(values);
                }
            }
            let order: Vec<usize> = fixed.iter().chain(walked).copied().collect();
            let sizes: Vec<usize> = order.iter().map(|&axis| axes[axis]).collect();
            for flat in 0..sizes.iter().product() {
                let mut at = vec![0; sizes.len()];
                unravel(flat, &sizes, &mut at);
                let mut point = vec![0; axes.len()];
                for (&axis, coord) in order.iter().zip(at) {
                    point[axis] = coord;
                }
                expected.push(ix.eval(&point));
            }
            assert_eq!(got, expected, "{ix}");
        }
        space
    }

    #[test]
    fn contiguous_axes_become_one() {
        let axes = [4, 1, 6, 5];
        let linear = Ix::axis(0).times(30).plus(&Ix::axis(2).times(5)).plus(&Ix::axis(3));
        let space = check(&axes, &[], &[0, 1, 2, 3], std::slice::from_ref(&linear), 7);
        assert_eq!(space.sizes, [120]);
        let space = check(&axes, &[0], &[1, 2, 3], std::slice::from_ref(&linear), 7);
        assert_eq!((space.sizes.as_slice(), space.fixed), (&[4, 30][..], 1));
        let broadcast = Ix::axis(3);
        let space = check(&axes, &[], &[0, 1, 2, 3], &[linear, broadcast], 11);
        assert_eq!(space.sizes, [24, 5]);
    }

    #[test]
    fn quotients_in_a_chain_are_split_away() {
        let axes = [3, 96];
        let flat = Ix::axis(1);
        let permuted = flat.div(24, &axes).plus(&flat.rem(24, &axes).times(4)).plus(&Ix::axis(0).times(96));
        let space = check(&axes, &[], &[0, 1], &[permuted], 10);
        assert_eq!(space.split, [3, 4, 24]);
    }

    #[test]
    fn other_quotients_are_followed_step_by_step() {
        let axes = [5, 7, 12];
        let by_two = Ix::axis(2).plus(&Ix::constant(3)).div(2, &axes).plus(&Ix::axis(0));
        let mixed = Ix::axis(1).times(7).plus(&Ix::axis(2).times(-3)).plus(&Ix::constant(40)).rem(9, &axes);
        let nested = mixed.times(5).plus(&Ix::axis(0).times(3)).div(4, &axes);
        check(&axes, &[0], &[1, 2], &[by_two.clone(), mixed.clone()], 9);
        check(&axes, &[2], &[1, 0], &[by_two.clone(), mixed.clone()], 4);
        check(&axes, &[], &[0, 1, 2], &[by_two, mixed, nested], 13);
    }

    #[test]
    fn a_space_without_axes_has_one_point() {
        let space = check(&[], &[], &[], &[Ix::constant(7)], 1);
        assert_eq!((space.fixed_points(), space.walked_points()), (1, 1));
    }
}
