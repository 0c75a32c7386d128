//! Lines, read and transformed.

use std::ops::Range;

use realfft::num_complex::Complex;
use rustfft::FftNum;

use crate::fft::pass::Pass;

use super::GAP;
use super::plans::{Plan, Real};

impl Pass {
    /// From one line to the next where points are brought together.
    fn staged(&self) -> usize {
        self.read.div_ceil(self.inner) + GAP
    }
}

/// What a thread transforms lines with, some at a time.
pub(super) struct Worker<'a, T: FftNum> {
    pass: &'a Pass,
    plan: &'a Plan<T>,
    input: [&'a [T]; 2],
    /// Real and imaginary parts of lines whose points lie apart, as they are read.
    staged: [Vec<T>; 2],
    /// A line of real points, or the results of all lines where those are real.
    pub(super) real: Vec<T>,
    /// Points of all lines, and their results.
    pub(super) points: Vec<Complex<T>>,
    scratch: Vec<Complex<T>>,
}

impl<'a, T: Real> Worker<'a, T> {
    pub(super) fn new(pass: &'a Pass, plan: &'a Plan<T>, input: [&'a [T]; 2], lines: usize) -> Self {
        let (real, points, scratch) = match plan {
            Plan::ToHalf(plan) => (pass.n, lines * plan.complex_len(), plan.get_scratch_len()),
            Plan::FromHalf(plan) => (lines * pass.n, plan.complex_len(), plan.get_scratch_len()),
            Plan::Whole(plan) => (0, lines * pass.n, plan.get_inplace_scratch_len()),
        };
        let zeros = |count| vec![Complex::new(T::zero(), T::zero()); count];
        let staged = if pass.inner > 1 { lines * pass.staged() } else { 0 };
        let staged = [staged, if pass.flags.real { 0 } else { staged }].map(|count| vec![T::zero(); count]);
        Self { pass, plan, input, staged, real: vec![T::zero(); real], points: zeros(points), scratch: zeros(scratch) }
    }

    /// Transforms lines, into `real` or into `points`: without the scale, and into conjugates where the transform is
    /// inverse.
    pub(super) fn transform(&mut self, lines: Range<usize>) {
        let n = self.pass.n;
        if self.pass.inner > 1 {
            self.stage(lines.clone());
        }
        match self.plan {
            Plan::ToHalf(plan) => {
                for (number, line) in lines.enumerate() {
                    let there = line_of(self.pass, self.input[0], &self.staged[0], number, line);
                    let (real, rest) = self.real.split_at_mut(there.len());
                    real.copy_from_slice(there);
                    rest.fill(T::zero());
                    let points = &mut self.points[number * plan.complex_len()..][..plan.complex_len()];
                    plan.process_with_scratch(&mut self.real, points, &mut self.scratch).expect("planned lengths");
                }
            }
            Plan::FromHalf(plan) => {
                // the plan is for all points; of those that are zeros half of each pair is missing
                let weight = if self.pass.flags.mirrored { T::one() } else { T::of(0.5) };
                let middle = n.is_multiple_of(2).then_some(n / 2);
                for (number, line) in lines.enumerate() {
                    self.read(0, number, line);
                    // it is of an inverse transform
                    self.points.iter_mut().for_each(|point| *point = point.conj() * weight);
                    for end in std::iter::once(0).chain(middle) {
                        self.points[end] = Complex::new(self.points[end].re / weight, T::zero());
                    }
                    let real = &mut self.real[number * n..][..n];
                    plan.process_with_scratch(&mut self.points, real, &mut self.scratch).expect("planned lengths");
                }
            }
            Plan::Whole(plan) => {
                for (number, line) in lines.clone().enumerate() {
                    self.read(number * n, number, line);
                }
                plan.process_with_scratch(&mut self.points[..lines.len() * n], &mut self.scratch);
                if self.pass.flags.twisted {
                    for (number, line) in lines.enumerate() {
                        self.twist(number * n, line);
                    }
                }
            }
        }
    }

    /// Copies the results of the lines that were transformed.
    pub(super) fn keep(&self, to: &mut [Complex<T>], stride: usize) {
        let results = self.plan.results(self.pass);
        for (number, to) in to.chunks_mut(stride).enumerate() {
            let from = number * results..(number + 1) * results;
            if let Plan::FromHalf(_) = self.plan {
                to.iter_mut().zip(&self.real[from]).for_each(|(to, &real)| to.re = real);
            } else {
                to[..results].copy_from_slice(&self.points[from]);
            }
        }
    }

    /// Reads lines that lie beside each other, row by row.
    fn stage(&mut self, lines: Range<usize>) {
        let Pass { inner, read, .. } = *self.pass;
        let stride = self.pass.staged();
        for (staged, input) in self.staged.iter_mut().zip(self.input).filter(|(staged, _)| !staged.is_empty()) {
            let mut line = lines.start;
            while line < lines.end {
                let index = line % inner;
                let count = (inner - index).min(lines.end - line);
                let to = &mut staged[(line - lines.start) * stride..];
                for (point, row) in input[line / inner * read..][..read].chunks(inner).enumerate() {
                    for (number, &value) in row.iter().skip(index).take(count).enumerate() {
                        to[number * stride + point] = value;
                    }
                }
                line += count;
            }
        }
    }

    /// Brings the points of a line, or their conjugates where the transform is inverse, to `start`.
    fn read(&mut self, start: usize, number: usize, line: usize) {
        let (n, flags) = (self.pass.n, self.pass.flags);
        if flags.mirrored && matches!(self.plan, Plan::Whole(_)) {
            (0..n).for_each(|point| self.points[start + point] = self.mirrored(point, line));
            return;
        }
        let part = |part: usize| line_of(self.pass, self.input[part], &self.staged[part], number, line);
        let re = part(0);
        let end = self.points.len().min(start + n);
        let (points, rest) = self.points[start..end].split_at_mut(re.len());
        rest.fill(Complex::new(T::zero(), T::zero()));
        if flags.real {
            points.iter_mut().zip(re).for_each(|(to, &re)| *to = Complex::new(re, T::zero()));
            return;
        }
        let both = points.iter_mut().zip(re).zip(part(1));
        if flags.inverse {
            both.for_each(|((to, &re), &im)| *to = Complex::new(re, -im));
        } else {
            both.for_each(|((to, &re), &im)| *to = Complex::new(re, im));
        }
    }

    /// A point of the first of several passes, of which the conjugate may be what there is.
    fn mirrored(&self, point: usize, line: usize) -> Complex<T> {
        let Pass { inner, whole, split, read, flags, .. } = *self.pass;
        let offset = point * inner + line % inner;
        let number = offset / split;
        let conjugate = 2 * number > whole;
        let offset = if conjugate { offset + whole * split - 2 * number * split } else { offset };
        if offset >= read {
            return Complex::new(T::zero(), T::zero());
        }
        let at = line / inner * read + offset;
        let end = number == 0 || 2 * number == whole;
        let im = if end { T::zero() } else { self.input[1][at] };
        Complex::new(self.input[0][at], if conjugate == flags.inverse { im } else { -im })
    }

    /// Multiplies by the roots between two passes.
    fn twist(&mut self, start: usize, line: usize) {
        let Pass { n, inner, split, whole, .. } = *self.pass;
        let twist = line % inner / split;
        for (number, point) in self.points[start..][..n].iter_mut().enumerate() {
            let turn = -std::f64::consts::TAU * (number * twist) as f64 / whole as f64;
            *point = *point * Complex::new(T::of(turn.cos()), T::of(turn.sin()));
        }
    }
}

/// The real or the imaginary parts of what there is of a line's points, where they follow each other.
fn line_of<'a, T>(pass: &Pass, input: &'a [T], staged: &'a [T], number: usize, line: usize) -> &'a [T] {
    let Pass { n, inner, read, .. } = *pass;
    if inner == 1 {
        return &input[line * read..][..read.min(n)];
    }
    let count = (read - (line % inner).min(read)).div_ceil(inner);
    &staged[number * pass.staged()..][..count]
}
