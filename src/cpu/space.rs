//! Iteration spaces as the executor walks them, and index expressions over them as linear forms.
//!
//! A space has *fixed* axes, at one point of which a strip lies, and *walked* axes, along whose row-major order it
//! runs. Making one splits axes so that quotients and remainders vanish where they can, and merges neighbours that all
//! expressions treat as one axis. What is then walked step by step are *rows*: whole innermost axes and a piece of the
//! next one, about a strip together, so that the cost of a step does not depend on how short the innermost axis is.

use crate::plan::{Atom, Ix};

use super::execute::STRIP;
use super::position::{Form, Forms, Position, Quotient, Row, Steps};

/// Most axes of a space; more are never split off. Axes of one point are none here, so there are no more than elements
/// have bits, and two for tiles.
pub(super) const MAX_RANK: usize = 40;
/// An innermost axis of this size is a row by itself; below, a row spans several axes.
const LONG_ROW: usize = 256;

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
    /// The outermost axis that rows run along, how many of its points each row takes (the last one may have fewer), and
    /// the number of points of all axes after it.
    cut: usize,
    chunk: usize,
    inner: usize,
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
fn split_axis(size: usize, axis: usize, expressions: &[&Ix]) -> Vec<usize> {
    let mut found = Vec::new();
    for ix in expressions {
        cuts(ix, axis, &mut found);
    }
    found.sort_unstable();
    found.dedup();
    found.retain(|&cut| cut > 1 && cut < size);
    let chain =
        found.windows(2).all(|pair| pair[1] % pair[0] == 0) && found.iter().all(|cut| size.is_multiple_of(*cut));
    if found.is_empty() || !chain {
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

/// Where a strip begins: the row's first point, and how many of the row's points lie before the strip.
pub(super) struct Start {
    coords: [usize; MAX_RANK],
    first: usize,
}

impl Space {
    /// The space of the axes `fixed` and `walked` (numbers into `axes`), suited to `expressions`.
    pub(super) fn new(axes: &[usize], fixed: &[usize], walked: &[usize], expressions: &[&Ix]) -> Self {
        let mut coords = vec![Ix::constant(0); axes.len()];
        let mut split = Vec::new();
        let mut fixed_split = 0;
        for (position, &axis) in fixed.iter().chain(walked).enumerate() {
            if axes[axis] == 1 {
                continue;
            }
            let mut sizes = split_axis(axes[axis], axis, expressions);
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
        let kept = (0..split.len()).collect();
        let sizes = split.clone();
        let mut space = Self { coords, split, kept, sizes, fixed: fixed_split, cut: 0, chunk: 1, inner: 1 };
        space.cut_at_innermost();
        space.merge(expressions);
        space.choose_rows(expressions);
        space
    }

    fn cut_at_innermost(&mut self) {
        self.cut = self.sizes.len() - 1;
        self.chunk = self.sizes[self.cut];
        self.inner = 1;
    }

    /// Takes as many inner axes into a row as fit a strip.
    fn choose_rows(&mut self, expressions: &[&Ix]) {
        self.cut_at_innermost();
        if self.chunk >= LONG_ROW || self.chunk == 0 {
            return;
        }
        let mut forms = Forms::default();
        for ix in expressions {
            self.position(ix, &mut forms);
        }
        while self.cut > self.fixed && self.chunk == self.sizes[self.cut] && self.sizes[self.cut - 1] > 0 {
            let inner = self.inner * self.chunk;
            let most = STRIP / inner;
            if most < 2 {
                break;
            }
            self.cut -= 1;
            self.inner = inner;
            let rows = self.sizes[self.cut].div_ceil(most);
            self.chunk = self.sizes[self.cut].div_ceil(rows);
        }
        if !forms.0.iter().all(|form| form.fits(&self.sizes[self.cut..])) {
            self.cut_at_innermost();
        }
    }

    /// Merges neighbouring axes that all expressions treat as one.
    fn merge(&mut self, expressions: &[&Ix]) {
        let mut forms = Forms::default();
        for ix in expressions {
            if self.position(ix, &mut forms).is_nested() {
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
        self.chunk * self.inner
    }

    /// True if strips run along a single axis.
    pub(super) fn is_of_rows(&self) -> bool {
        self.sizes.len() == self.fixed + 1
    }

    /// Fixed points from that of `from` on that are one step of the same axis after the other.
    pub(super) fn beside(&self, from: &Start) -> usize {
        self.fixed.checked_sub(1).map_or(1, |last| self.sizes[last] - from.coords[last])
    }

    /// What a step along that axis adds to a form.
    pub(super) fn pitch(&self, form: &Form) -> i64 {
        self.fixed.checked_sub(1).map_or(0, |last| form.strides[last])
    }

    /// Points of a row, if it runs along several axes: strips that begin and end with rows are then of few kinds.
    pub(super) fn unit(&self) -> Option<usize> {
        (self.inner > 1).then(|| self.row())
    }

    /// Points of a strip of whole rows, as far as they fit one.
    pub(super) fn strip(&self) -> usize {
        match self.row() {
            0 => STRIP,
            row if row > STRIP => STRIP,
            row => STRIP / row * row,
        }
    }

    /// How a form changes along a row.
    fn steps(&self, form: &Form) -> Steps {
        Steps::new(&form.strides[self.cut..], &self.sizes[self.cut..], self.row())
    }

    fn form(&self, ix: &Ix) -> Option<Form> {
        let (strides, offset) = ix.affine(self.split.len())?;
        Some(Form { strides: self.kept.iter().map(|&axis| strides[axis]).collect(), offset })
    }

    /// `ix`, one of the expressions the space was made for, with its linear parts added to `forms`.
    pub(super) fn position(&self, ix: &Ix, forms: &mut Forms) -> Position {
        let ix = ix.substitute(&self.coords, &self.split);
        let (plain, rest): (Vec<_>, Vec<_>) =
            ix.terms.iter().cloned().partition(|(atom, _)| matches!(atom, Atom::Axis(_)));
        let linear = self.form(&Ix { terms: plain, offset: ix.offset }).expect("only axes are left in it");
        let steps = self.steps(&linear);
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
            let steps = self.steps(&inner);
            let remainder = matches!(atom, Atom::Mod(..));
            quotients.push(Quotient { coefficient, form: forms.add(inner), by: *by, remainder, steps });
        }
        constant &= nested.is_none();
        Position::new(form, steps, quotients, nested, constant)
    }

    /// Where the strip from walked point `start` on begins, at fixed point number `fixed`.
    #[inline]
    pub(super) fn start(&self, fixed: usize, start: usize) -> Start {
        let mut coords = [0; MAX_RANK];
        unravel(fixed, &self.sizes[..self.fixed], &mut coords[..self.fixed]);
        unravel(start / self.inner, &self.sizes[self.fixed..=self.cut], &mut coords[self.fixed..=self.cut]);
        let skip = coords[self.cut] % self.chunk;
        coords[self.cut] -= skip;
        Start { coords, first: skip * self.inner + start % self.inner }
    }

    /// Calls `f(row, start, len)` for each piece of a row among the `len` walked points from one on; `start` counts from
    /// the strip's beginning. `values` is scratch.
    #[inline]
    pub(super) fn walk(
        &self,
        forms: &Forms,
        (from, len): (&Start, usize),
        values: &mut Vec<i64>,
        mut f: impl FnMut(&Row<'_>, usize, usize),
    ) {
        let tail = &self.sizes[self.cut + 1..];
        values.clear();
        values.extend(forms.0.iter().map(|form| form.at(&from.coords[..=self.cut])));
        // most strips end with the row that they begin in
        let mut later = None;
        let (mut done, mut first) = (0, from.first);
        loop {
            let coords = later.as_ref().unwrap_or(&from.coords);
            let row = self.chunk.min(self.sizes[self.cut] - coords[self.cut]) * self.inner;
            let count = (row - first).min(len - done);
            f(&Row { values, coords: &coords[..=self.cut], tail, first }, done, count);
            done += count;
            if done == len {
                break;
            }
            first = 0;
            let coords = later.get_or_insert(from.coords);
            let mut axis = self.cut;
            let mut step = self.chunk;
            loop {
                coords[axis] += step;
                let wraps = coords[axis] >= self.sizes[axis];
                let steps = if wraps { step as i64 - coords[axis] as i64 } else { step as i64 };
                for (value, form) in values.iter_mut().zip(&forms.0) {
                    *value += form.strides[axis] * steps;
                }
                if !wraps || axis == self.fixed {
                    break;
                }
                coords[axis] = 0;
                axis -= 1;
                step = 1;
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
                    space.walk(&forms, (&space.start(fixed_point, start), len), &mut Vec::new(), |row, at, count| {
                        position.fill(row, &mut values[at..at + count]);
                        if position.straight {
                            let last = position.start(row) + position.stride * (count as i64 - 1);
                            assert_eq!(last, values[at + count - 1]);
                        }
                        if let Some(line) = position.lines() {
                            let mut of_lines = Vec::new();
                            position.for_each_line(row, (count, line), |begin, start, points| {
                                assert_eq!(begin, of_lines.len());
                                of_lines.extend((0..points as i64).map(|point| start + line.stride * point));
                            });
                            assert_eq!(of_lines, values[at..at + count]);
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
        let space = check(&axes, &[], &[0, 1, 2, 3], &[linear.clone(), broadcast.clone()], 11);
        assert_eq!(space.sizes, [24, 5]);
        // a row is two of the first axis and all of the others; lines of all of them, and of one
        let first = Ix::axis(0);
        let space = check(&[40, 6, 5, 16], &[], &[0, 1, 2, 3], &[linear, broadcast, first.clone()], 700);
        let line = |ix: &Ix| space.position(ix, &mut Forms::default()).lines().map(|line| (line.points, line.stride));
        assert_eq!((line(&first), line(&Ix::axis(3))), (Some((480, 0)), Some((16, 1))));
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
