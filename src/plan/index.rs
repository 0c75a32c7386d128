//! Integer index expressions: how a kernel's coordinates become positions in memory.
//!
//! An [`Ix`] is a sum of atoms with coefficients, kept in a normal form (sorted, no repeats, no zero coefficients), so
//! that equal expressions mostly compare equal. Simplification knows the range of every axis.

use std::fmt;

/// `offset + Σ coefficient · atom`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ix {
    /// (atom, coefficient), sorted by atom.
    pub terms: Vec<(Atom, i64)>,
    /// The constant part.
    pub offset: i64,
}

/// What an index expression is a sum of. What is divided is never negative over the axes it was simplified for
/// ([`Ix::div`] and [`Ix::rem`] add multiples of the divisor), so kernels may divide in unsigned arithmetic.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Atom {
    /// The kernel's coordinate along an axis.
    Axis(usize),
    /// Quotient by a positive constant.
    Div(Box<Ix>, i64),
    /// Remainder by a positive constant.
    Mod(Box<Ix>, i64),
}

/// A condition on coordinates.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cond {
    /// `0 <= value < size`
    InRange(Ix, i64),
    /// `value` is a multiple of the constant
    Multiple(Ix, i64),
}

impl Ix {
    /// A constant.
    pub fn constant(offset: i64) -> Self {
        Self { terms: Vec::new(), offset }
    }

    /// The coordinate along `axis`.
    pub fn axis(axis: usize) -> Self {
        Self { terms: vec![(Atom::Axis(axis), 1)], offset: 0 }
    }

    /// The constant it is, if it is one.
    pub fn as_constant(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.offset)
    }

    /// Sum.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let mut terms = Vec::with_capacity(self.terms.len() + other.terms.len());
        let (mut a, mut b) = (self.terms.iter().peekable(), other.terms.iter().peekable());
        loop {
            match (a.peek(), b.peek()) {
                (Some((x, c)), Some((y, d))) if x == y => {
                    if c + d != 0 {
                        terms.push((x.clone(), c + d));
                    }
                    a.next();
                    b.next();
                }
                (Some(x), Some(y)) if x.0 < y.0 => {
                    terms.push((*x).clone());
                    a.next();
                }
                (_, Some(y)) => {
                    terms.push((*y).clone());
                    b.next();
                }
                (Some(x), None) => {
                    terms.push((*x).clone());
                    a.next();
                }
                (None, None) => break,
            }
        }
        Self { terms, offset: self.offset + other.offset }
    }

    /// Product with a constant.
    #[must_use]
    pub fn times(&self, factor: i64) -> Self {
        if factor == 0 {
            return Self::constant(0);
        }
        Self {
            terms: self.terms.iter().map(|(atom, c)| (atom.clone(), c * factor)).collect(),
            offset: self.offset * factor,
        }
    }

    /// Smallest and largest value over axes of the given sizes (none of them 0).
    pub fn range(&self, axes: &[usize]) -> (i64, i64) {
        let (mut low, mut high) = (self.offset, self.offset);
        for (atom, c) in &self.terms {
            let (a, b) = atom.range(axes);
            low += (a * c).min(b * c);
            high += (a * c).max(b * c);
        }
        (low, high)
    }

    /// Splits into a part divisible by `by` (already divided) and the rest, whose offset lies in `0..by`.
    fn split(&self, by: i64) -> (Self, Self) {
        let (mut whole, mut rest) = (Vec::new(), Vec::new());
        for (atom, c) in &self.terms {
            if c % by == 0 {
                whole.push((atom.clone(), c / by));
            } else {
                rest.push((atom.clone(), *c));
            }
        }
        let quotient = self.offset.div_euclid(by);
        (Self { terms: whole, offset: quotient }, Self { terms: rest, offset: self.offset.rem_euclid(by) })
    }

    /// Quotient by a positive constant, simplified over axes of the given sizes.
    #[must_use]
    pub fn div(&self, by: i64, axes: &[usize]) -> Self {
        if by == 1 {
            return self.clone();
        }
        let (whole, rest) = self.split(by);
        let (low, high) = rest.range(axes);
        if low.div_euclid(by) == high.div_euclid(by) {
            return whole.plus(&Self::constant(low.div_euclid(by)));
        }
        // (x / a + c) / b = (x + a c) / (a b)
        if let [(Atom::Div(inner, first), 1)] = rest.terms.as_slice() {
            let inner = inner.plus(&Self::constant(first * rest.offset));
            return whole.plus(&inner.div(first * by, axes));
        }
        // (x mod a) / b = (x / b) mod (a / b) when b divides a
        if let ([(Atom::Mod(inner, first), 1)], 0) = (rest.terms.as_slice(), rest.offset)
            && first % by == 0
        {
            return whole.plus(&inner.div(by, axes).rem(first / by, axes));
        }
        if let Some((unit, coarse, _)) = rest.coarsen(by, axes) {
            return whole.plus(&coarse.div(by / unit, axes));
        }
        let (added, rest) = rest.not_negative(by, axes);
        whole.plus(&Self { terms: vec![(Atom::Div(Box::new(rest), by), 1)], offset: -added })
    }

    /// Adds the multiple of `by` that it takes to be never negative; which multiple, and the sum.
    fn not_negative(mut self, by: i64, axes: &[usize]) -> (i64, Self) {
        let (low, _) = self.range(axes);
        let added = -low.min(0).div_euclid(by);
        self.offset += added * by;
        (added, self)
    }

    /// Finds `(unit, coarse, fine)` with `self = unit · coarse + fine`, `0 <= fine < unit`, `unit > 1` a divisor of
    /// `by`.
    fn coarsen(&self, by: i64, axes: &[usize]) -> Option<(i64, Self, Self)> {
        let mut units: Vec<i64> = self.terms.iter().map(|(_, c)| gcd(c.abs(), by)).filter(|&unit| unit > 1).collect();
        units.sort_unstable_by(|a, b| b.cmp(a));
        units.dedup();
        units.into_iter().find_map(|unit| {
            let (coarse, fine) = self.split(unit);
            let (low, high) = fine.range(axes);
            (low >= 0 && high < unit).then_some((unit, coarse, fine))
        })
    }

    /// Remainder by a positive constant, simplified over axes of the given sizes.
    #[must_use]
    pub fn rem(&self, by: i64, axes: &[usize]) -> Self {
        if by == 1 {
            return Self::constant(0);
        }
        let (_, rest) = self.split(by);
        let (low, high) = rest.range(axes);
        if low.div_euclid(by) == high.div_euclid(by) {
            return rest.plus(&Self::constant(-by * low.div_euclid(by)));
        }
        // (x mod a) mod b = x mod b when b divides a
        if let ([(Atom::Mod(inner, first), 1)], 0) = (rest.terms.as_slice(), rest.offset)
            && first % by == 0
        {
            return inner.rem(by, axes);
        }
        if let Some((unit, coarse, fine)) = rest.coarsen(by, axes) {
            return coarse.rem(by / unit, axes).times(unit).plus(&fine);
        }
        let (_, rest) = rest.not_negative(by, axes);
        Self { terms: vec![(Atom::Mod(Box::new(rest), by), 1)], offset: 0 }
    }

    /// Replaces axis `i` by `coords[i]`, simplified over axes (of the new coordinates) of the given sizes.
    #[must_use]
    pub fn substitute(&self, coords: &[Self], axes: &[usize]) -> Self {
        let mut sum = Self::constant(self.offset);
        for (atom, c) in &self.terms {
            let value = match atom {
                Atom::Axis(axis) => coords[*axis].clone(),
                Atom::Div(inner, by) => inner.substitute(coords, axes).div(*by, axes),
                Atom::Mod(inner, by) => inner.substitute(coords, axes).rem(*by, axes),
            };
            sum = sum.plus(&value.times(*c));
        }
        sum
    }

    /// Row-major position of `coords` in `shape`.
    pub fn linear(coords: &[Self], shape: &[usize]) -> Self {
        let mut stride = 1i64;
        let mut sum = Self::constant(0);
        for (coord, &size) in coords.iter().zip(shape).rev() {
            sum = sum.plus(&coord.times(stride));
            // beyond all places only where a size is 0
            stride = stride.wrapping_mul(size as i64);
        }
        sum
    }

    /// Coordinates in `shape` of the row-major position `self`, simplified over axes of the given sizes.
    pub fn unravel(&self, shape: &[usize], axes: &[usize]) -> Vec<Self> {
        let mut coords = vec![Self::constant(0); shape.len()];
        let mut stride = 1;
        for (axis, &size) in shape.iter().enumerate().rev() {
            if size > 1 {
                let quotient = self.div(stride, axes);
                let outermost = shape[..axis].iter().all(|&s| s == 1);
                coords[axis] = if outermost { quotient } else { quotient.rem(size as i64, axes) };
            }
            stride = stride.saturating_mul(size.max(1) as i64);
        }
        coords
    }

    /// Calls `f` for every axis it mentions.
    pub fn for_each_axis(&self, f: &mut impl FnMut(usize)) {
        for (atom, _) in &self.terms {
            match atom {
                Atom::Axis(axis) => f(*axis),
                Atom::Div(inner, _) | Atom::Mod(inner, _) => inner.for_each_axis(f),
            }
        }
    }

    /// True if it mentions `axis`.
    pub fn uses(&self, axis: usize) -> bool {
        let mut found = false;
        self.for_each_axis(&mut |a| found |= a == axis);
        found
    }

    /// How many quotients and remainders it has.
    pub fn quotients(&self) -> usize {
        let of = |atom: &Atom| match atom {
            Atom::Axis(_) => 0,
            Atom::Div(inner, _) | Atom::Mod(inner, _) => 1 + inner.quotients(),
        };
        self.terms.iter().map(|(atom, _)| of(atom)).sum()
    }

    /// `(coefficients, offset)` if it is a plain sum over `rank` axes, without quotients and remainders.
    pub fn affine(&self, rank: usize) -> Option<(Vec<i64>, i64)> {
        let mut strides = vec![0; rank];
        for (atom, c) in &self.terms {
            let Atom::Axis(axis) = atom else { return None };
            strides[*axis] = *c;
        }
        Some((strides, self.offset))
    }

    /// The value at a point.
    pub fn eval(&self, point: &[usize]) -> i64 {
        self.offset
            + self
                .terms
                .iter()
                .map(|(atom, c)| {
                    c * match atom {
                        Atom::Axis(axis) => point[*axis] as i64,
                        Atom::Div(inner, by) => inner.eval(point).div_euclid(*by),
                        Atom::Mod(inner, by) => inner.eval(point).rem_euclid(*by),
                    }
                })
                .sum::<i64>()
    }
}

/// The greatest common divisor, which is not negative.
pub(super) fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a.abs() } else { gcd(b, a % b) }
}

impl Atom {
    fn range(&self, axes: &[usize]) -> (i64, i64) {
        match self {
            Self::Axis(axis) => (0, (axes[*axis] as i64 - 1).max(0)),
            Self::Div(inner, by) => {
                let (low, high) = inner.range(axes);
                (low.div_euclid(*by), high.div_euclid(*by))
            }
            Self::Mod(_, by) => (0, by - 1),
        }
    }
}

impl Cond {
    /// `Some(true)` or `Some(false)` if it is the same at every point over axes of the given sizes.
    pub fn known(&self, axes: &[usize]) -> Option<bool> {
        match self {
            Self::InRange(value, size) => {
                let (low, high) = value.range(axes);
                if low >= 0 && high < *size {
                    Some(true)
                } else if high < 0 || low >= *size {
                    Some(false)
                } else {
                    None
                }
            }
            Self::Multiple(value, by) => {
                let rest = value.rem(*by, axes);
                rest.as_constant().map(|rest| rest == 0)
            }
        }
    }

    /// The expression and a rebuilt condition over `f` of it.
    #[must_use]
    pub fn map(&self, f: impl FnOnce(&Ix) -> Ix) -> Self {
        match self {
            Self::InRange(value, size) => Self::InRange(f(value), *size),
            Self::Multiple(value, by) => Self::Multiple(f(value), *by),
        }
    }

    /// The expression it is about.
    pub fn value(&self) -> &Ix {
        match self {
            Self::InRange(value, _) | Self::Multiple(value, _) => value,
        }
    }

    /// Whether it holds at a point.
    pub fn holds(&self, point: &[usize]) -> bool {
        match self {
            Self::InRange(value, size) => (0..*size).contains(&value.eval(point)),
            Self::Multiple(value, by) => value.eval(point).rem_euclid(*by) == 0,
        }
    }
}

impl fmt::Display for Ix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for (atom, c) in &self.terms {
            if !first {
                f.write_str(" + ")?;
            }
            first = false;
            if *c != 1 {
                write!(f, "{c}*")?;
            }
            match atom {
                Atom::Axis(axis) => write!(f, "i{axis}")?,
                Atom::Div(inner, by) => write!(f, "({inner})/{by}")?,
                Atom::Mod(inner, by) => write!(f, "({inner})%{by}")?,
            }
        }
        if first {
            write!(f, "{}", self.offset)
        } else if self.offset != 0 {
            write!(f, " + {}", self.offset)
        } else {
            Ok(())
        }
    }
}

impl fmt::Debug for Ix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for Cond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InRange(value, size) => write!(f, "0<={value}<{size}"),
            Self::Multiple(value, by) => write!(f, "{by}|{value}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const AXES: [usize; 3] = [4, 6, 5];

    fn points() -> impl Iterator<Item = [usize; 3]> {
        (0..4).flat_map(|a| (0..6).flat_map(move |b| (0..5).map(move |c| [a, b, c])))
    }

    /// Panics if something negative is divided at a point.
    fn assert_divides_no_negatives(ix: &Ix, point: &[usize]) {
        for (atom, _) in &ix.terms {
            if let Atom::Div(inner, by) | Atom::Mod(inner, by) = atom {
                assert!(inner.eval(point) >= 0, "({inner}) / {by} at {point:?}");
                assert_divides_no_negatives(inner, point);
            }
        }
    }

    proptest! {
        #[test]
        fn quotient_and_remainder_agree_with_integers(
            c in prop::array::uniform3(-7i64..13), offset in -20i64..40, by in 1i64..31, second in 1i64..13,
        ) {
            let mut sum = Ix::constant(offset);
            for (axis, &factor) in c.iter().enumerate() {
                sum = sum.plus(&Ix::axis(axis).times(factor));
            }
            let (div, rem) = (|ix: &Ix, by| ix.div(by, &AXES), |ix: &Ix, by| ix.rem(by, &AXES));
            for point in points() {
                let plain = sum.eval(&point);
                let (quotient, remainder) = (plain.div_euclid(by), plain.rem_euclid(by));
                for (ix, expected) in [
                    (div(&sum, by), quotient),
                    (rem(&sum, by), remainder),
                    (div(&div(&sum, by), second), quotient.div_euclid(second)),
                    (rem(&rem(&sum, by), second), remainder.rem_euclid(second)),
                    (rem(&div(&sum, by), second), quotient.rem_euclid(second)),
                    (div(&rem(&sum, by), second), remainder.div_euclid(second)),
                ] {
                    prop_assert_eq!(ix.eval(&point), expected);
                    assert_divides_no_negatives(&ix, &point);
                }
            }
        }
    }

    #[test]
    fn unravel_undoes_linear() {
        let coords = [Ix::axis(0), Ix::axis(1), Ix::axis(2)];
        let linear = Ix::linear(&coords, &AXES);
        assert_eq!(linear.unravel(&AXES, &AXES), coords);
        // [4, 6, 5] seen as [2, 2, 30] and back
        let other = linear.unravel(&[2, 2, 30], &AXES);
        assert_eq!(Ix::linear(&other, &[2, 2, 30]).eval(&[3, 4, 2]), 3 * 30 + 4 * 5 + 2);
        assert_eq!(other[2], Ix::axis(1).times(5).plus(&Ix::axis(2)));
    }
}
