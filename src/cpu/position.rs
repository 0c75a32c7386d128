//! Index expressions over a [`Space`](super::space::Space): linear forms, their steps along a row, quotients.

use std::sync::Arc;

use pulp::Arch;

use crate::plan::Ix;

use super::space::MAX_RANK;

/// `offset + Σ stride · coordinate` over the axes of a space.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Form {
    pub(super) strides: Vec<i64>,
    pub(super) offset: i64,
}

/// The linear forms that an instruction needs at each row, evaluated together.
#[derive(Clone, Default, Debug)]
pub(super) struct Forms(pub(super) Vec<Form>);

/// What the points of a row add to a form's value at its first point.
#[derive(Clone, Debug)]
pub(super) enum Steps {
    /// The same from each to the next.
    Even(i64),
    /// For each point; and the lines that these are made of.
    Table(Arc<[i32]>, Line),
}

/// Points along the innermost axes of a row, as many as have the same step from each to the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub(super) points: usize,
    /// What each adds to the one before.
    pub(super) stride: i64,
}

/// An index expression over a space.
#[derive(Clone, Debug)]
pub(super) struct Position {
    /// Number of the linear part in [`Forms`].
    form: usize,
    steps: Steps,
    pub(super) quotients: Vec<Quotient>,
    /// The whole expression, where quotients are nested; the other parts are unused then.
    nested: Option<Ix>,
    /// What one step along a row adds, if it is `straight`.
    pub(super) stride: i64,
    /// True if a row's values are `start + stride · j`.
    pub(super) straight: bool,
    /// True if it is the same at all walked points.
    pub(super) constant: bool,
}

/// `coefficient · (form / by)` or `coefficient · (form % by)`.
#[derive(Clone, Debug)]
pub(super) struct Quotient {
    pub(super) coefficient: i64,
    pub(super) form: usize,
    pub(super) by: i64,
    pub(super) remainder: bool,
    pub(super) steps: Steps,
}

/// A piece of a row.
pub(super) struct Row<'a> {
    /// The forms at the row's first point.
    pub(super) values: &'a [i64],
    /// Its coordinates; those of axes that it runs along as a whole are left out, being 0.
    pub(super) coords: &'a [usize],
    /// The sizes of the axes left out.
    pub(super) tail: &'a [usize],
    /// The piece's first point, counted from the row's.
    pub(super) first: usize,
}

impl Form {
    /// The value at `coords`, where the missing last ones are 0.
    pub(super) fn at(&self, coords: &[usize]) -> i64 {
        self.strides.iter().zip(coords).map(|(stride, &coord)| stride * coord as i64).sum::<i64>() + self.offset
    }

    /// True if the steps along the last axes, of these sizes, fit a table.
    pub(super) fn fits(&self, sizes: &[usize]) -> bool {
        let strides = &self.strides[self.strides.len() - sizes.len()..];
        let reach = strides.iter().zip(sizes).map(|(stride, &size)| i128::from(stride.unsigned_abs()) * size as i128);
        reach.sum::<i128>() < i128::from(i32::MAX)
    }
}

impl Forms {
    /// The number of `form`, which is added if it is new.
    pub(super) fn add(&mut self, form: Form) -> usize {
        self.0.iter().position(|known| *known == form).unwrap_or_else(|| {
            self.0.push(form);
            self.0.len() - 1
        })
    }
}

impl Steps {
    /// The steps along a row of `len` points over axes with these strides and sizes.
    pub(super) fn new(strides: &[i64], sizes: &[usize], len: usize) -> Self {
        let last = sizes.len() - 1;
        let even = (0..last).all(|axis| strides[axis] == strides[axis + 1] * sizes[axis + 1] as i64);
        if even {
            return Self::Even(strides[last]);
        }
        let mut table = vec![0];
        for axis in (0..=last).rev() {
            let inner = table.len();
            let size = if axis == 0 { len / inner } else { sizes[axis] };
            for coord in 1..size {
                let step = strides[axis] * coord as i64;
                table.extend_from_within(..inner);
                // Cannot overflow: the space made sure that it fits.
                table[coord * inner..].iter_mut().for_each(|value| *value += step as i32);
            }
        }
        let mut line = Line { points: sizes[last], stride: strides[last] };
        for axis in (0..last).rev().take_while(|&axis| strides[axis] == strides[axis + 1] * sizes[axis + 1] as i64) {
            line.points *= sizes[axis];
        }
        Self::Table(table.into(), line)
    }

    /// The least and the largest step of a row of `len` points.
    pub(super) fn range(&self, len: usize) -> (i64, i64) {
        match self {
            Self::Even(stride) => {
                let last = stride * (len as i64 - 1);
                (last.min(0), last.max(0))
            }
            Self::Table(table, _) => {
                let (low, high) = table.iter().fold((0, 0), |(low, high), &step| (step.min(low), step.max(high)));
                (i64::from(low), i64::from(high))
            }
        }
    }

    /// Runs of consecutive or equal values in a row of `len` points.
    pub(super) fn runs(&self, len: usize) -> usize {
        match self {
            Self::Even(0 | 1) => 1,
            Self::Even(_) => len,
            Self::Table(table, _) => {
                1 + table.windows(2).filter(|pair| !(0..=1).contains(&(pair[1] - pair[0]))).count()
            }
        }
    }
}

impl Position {
    pub(super) fn new(form: usize, steps: Steps, quotients: Vec<Quotient>, nested: Option<Ix>, constant: bool) -> Self {
        let stride = if let Steps::Even(stride) = steps { Some(stride) } else { None };
        let flat = quotients.iter().all(|quotient| matches!(quotient.steps, Steps::Even(0)));
        let straight = nested.is_none() && stride.is_some() && flat;
        Self { form, steps, quotients, nested, stride: stride.unwrap_or(0), straight, constant }
    }

    /// Number of the linear part among the forms.
    pub(super) fn form(&self) -> usize {
        self.form
    }

    /// How the linear part changes along a row.
    pub(super) fn steps(&self) -> &Steps {
        &self.steps
    }

    /// True if there are quotients of quotients.
    pub(super) fn is_nested(&self) -> bool {
        self.nested.is_some()
    }

    /// The value at the piece's first point, of a straight position.
    #[inline]
    pub(super) fn start(&self, row: &Row<'_>) -> i64 {
        let quotients: i64 = self.quotients.iter().map(|quotient| quotient.value(row)).sum();
        row.values[self.form] + self.stride * row.first as i64 + quotients
    }

    /// The lines that rows consist of, if these have no more to them.
    pub(super) fn lines(&self) -> Option<Line> {
        match self.steps {
            Steps::Table(_, line) if self.nested.is_none() && self.quotients.is_empty() => Some(line),
            _ => None,
        }
    }

    /// Calls `f(begin, start, count)` for each of the [`lines`](Self::lines) of a piece of `count` points, or the part of
    /// it that belongs to the piece: the value at its first point, and where that is in the piece.
    #[inline]
    pub(super) fn for_each_line(
        &self,
        row: &Row<'_>,
        (count, line): (usize, Line),
        mut f: impl FnMut(usize, i64, usize),
    ) {
        let Steps::Table(table, _) = &self.steps else { unreachable!("only tables have lines") };
        let (mut begin, mut left) = (0, line.points - row.first % line.points);
        while begin < count {
            let points = left.min(count - begin);
            f(begin, row.values[self.form] + i64::from(table[row.first + begin]), points);
            (begin, left) = (begin + points, line.points);
        }
    }

    /// The values along the piece.
    pub(super) fn fill(&self, row: &Row<'_>, target: &mut [i64]) {
        if let Some(nested) = &self.nested {
            return fill_nested(nested, row, target);
        }
        let start = row.values[self.form];
        match &self.steps {
            Steps::Even(stride) => {
                let start = start + stride * row.first as i64;
                for (j, value) in target.iter_mut().enumerate() {
                    *value = start + stride * j as i64;
                }
            }
            Steps::Table(table, _) => {
                for (value, &step) in target.iter_mut().zip(&table[row.first..]) {
                    *value = start + i64::from(step);
                }
            }
        }
        for quotient in &self.quotients {
            quotient.add(row, target);
        }
    }
}

impl Position {
    /// The values along the piece, as words; `indices` are for keeping them in between.
    pub(super) fn fill_words(&self, arch: Arch, row: &Row<'_>, indices: &mut [i64], words: &mut [u32]) {
        if self.nested.is_some() || !self.quotients.is_empty() {
            self.fill(row, indices);
            words.iter_mut().zip(indices).for_each(|(word, index)| *word = *index as u32);
            return;
        }
        let start = row.values[self.form] as u32;
        match &self.steps {
            Steps::Even(stride) => {
                let (stride, start) = (*stride as u32, start.wrapping_add((stride * row.first as i64) as u32));
                arch.dispatch(|| {
                    for (word, j) in words.iter_mut().zip(0_u32..) {
                        *word = start.wrapping_add(stride.wrapping_mul(j));
                    }
                });
            }
            Steps::Table(table, _) => arch.dispatch(|| {
                for (word, &step) in words.iter_mut().zip(&table[row.first..]) {
                    *word = start.wrapping_add(step.cast_unsigned());
                }
            }),
        }
    }
}

fn fill_nested(ix: &Ix, row: &Row<'_>, target: &mut [i64]) {
    let mut coords = [0; MAX_RANK];
    let cut = row.coords.len() - 1;
    for (j, value) in target.iter_mut().enumerate() {
        let mut point = row.first + j;
        coords[..=cut].copy_from_slice(row.coords);
        for (coord, &size) in coords[cut + 1..].iter_mut().zip(row.tail).rev() {
            *coord = point % size;
            point /= size;
        }
        coords[cut] += point;
        *value = ix.eval(&coords[..=cut + row.tail.len()]);
    }
}

impl Quotient {
    /// Of a row along which it does not change.
    fn value(&self, row: &Row<'_>) -> i64 {
        let inner = row.values[self.form];
        self.coefficient * if self.remainder { inner.rem_euclid(self.by) } else { inner.div_euclid(self.by) }
    }

    /// Adds its part to the values along a piece of a row, without a division per element.
    fn add(&self, row: &Row<'_>, target: &mut [i64]) {
        let inner = row.values[self.form];
        let stride = match &self.steps {
            Steps::Even(stride) => *stride,
            Steps::Table(table, _) => {
                // Half a step off every whole number, the product with the reciprocal cannot be rounded across one.
                let reciprocal = 1.0 / self.by as f64;
                for (value, &step) in target.iter_mut().zip(&table[row.first..]) {
                    let inner = inner + i64::from(step);
                    let whole = ((inner as f64 + 0.5) * reciprocal) as i64 - i64::from(inner < 0);
                    *value += self.coefficient * if self.remainder { inner - whole * self.by } else { whole };
                }
                return;
            }
        };
        let inner = inner + stride * row.first as i64;
        let (mut whole, mut rest) = (inner.div_euclid(self.by), inner.rem_euclid(self.by));
        let (whole_step, rest_step) = (stride.div_euclid(self.by), stride.rem_euclid(self.by));
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
