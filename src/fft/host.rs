//! The same on the processor, by a library: whole lines of any length.

use std::ops::Range;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use rayon::prelude::*;
use realfft::num_complex::Complex;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use rustc_hash::FxHashSet;
use rustfft::{Fft, FftNum, FftPlanner};
use smallvec::SmallVec;

use super::pass::Pass;

/// Points that a task transforms, at least.
const AT_ONCE: usize = 1 << 13;

/// Adjacent lines, or points of them, of a task: they share what is fetched from memory.
const ADJACENT: usize = 16;

/// Points that are kept between the transforms of strided lines and their places.
const KEPT: usize = 1 << 18;

/// Elements between lines of a power of two points, which would else share a few lines of a cache.
const GAP: usize = 8;

/// Points that are planned for, in all lengths together: a plan has a root for each, or a few.
const PLANNED: usize = 1 << 22;

/// What lengths were planned for before.
pub(super) struct Planners<T: FftNum> {
    real: RealFftPlanner<T>,
    complex: FftPlanner<T>,
    lengths: FxHashSet<usize>,
}

impl<T: FftNum> Planners<T> {
    fn new() -> Mutex<Self> {
        Mutex::new(Self { real: RealFftPlanner::new(), complex: FftPlanner::new(), lengths: FxHashSet::default() })
    }

    /// The planners, without what they know if that has become too much.
    fn with(&mut self, n: usize) -> &mut Self {
        if self.lengths.insert(n) && self.lengths.iter().sum::<usize>() > PLANNED {
            (self.real, self.complex) = (RealFftPlanner::new(), FftPlanner::new());
            self.lengths = std::iter::once(n).collect();
        }
        self
    }
}

/// A type that is transformed in.
pub(super) trait Real: FftNum {
    fn planners() -> &'static Mutex<Planners<Self>>;

    fn of(value: f64) -> Self {
        Self::from_f64(value).expect("a float")
    }
}

macro_rules! reals {
    ($($float:ty),*) => {$(
        impl Real for $float {
            fn planners() -> &'static Mutex<Planners<Self>> {
                static PLANNERS: LazyLock<Mutex<Planners<$float>>> = LazyLock::new(Planners::new);
                &PLANNERS
            }
        }
    )*};
}
reals!(f32, f64);

/// How the lines of a pass are transformed.
enum Plan<T: FftNum> {
    /// Real points, of which the first half of the results is wanted.
    ToHalf(Arc<dyn RealToComplex<T>>),
    /// Half of the points, the rest of which are conjugates or zeros, to real results.
    FromHalf(Arc<dyn ComplexToReal<T>>),
    Whole(Arc<dyn Fft<T>>),
}

impl<T: Real> Plan<T> {
    fn of(pass: &Pass) -> Self {
        let mut planners = T::planners().lock().unwrap_or_else(PoisonError::into_inner);
        let (n, half, flags) = (pass.n, pass.n / 2 + 1, pass.flags);
        let Planners { real, complex, .. } = planners.with(n);
        let alone = pass.whole == n;
        if alone && flags.real && pass.written <= half {
            Self::ToHalf(real.plan_fft_forward(n))
        } else if alone && flags.to_real && !flags.real && pass.read <= half * pass.inner {
            Self::FromHalf(real.plan_fft_inverse(n))
        } else {
            Self::Whole(complex.plan_fft_forward(n))
        }
    }

    /// Results of a line.
    fn results(&self, pass: &Pass) -> usize {
        if matches!(self, Self::ToHalf(_)) { pass.n / 2 + 1 } else { pass.n }
    }
}

impl Pass {
    /// From one line to the next where points are brought together.
    fn staged(&self) -> usize {
        self.read.div_ceil(self.inner) + GAP
    }
}

/// What a thread transforms lines with, some at a time.
struct Worker<'a, T: FftNum> {
    pass: &'a Pass,
    plan: &'a Plan<T>,
    input: [&'a [T]; 2],
    /// Real and imaginary parts of lines whose points lie apart, as they are read.
    staged: [Vec<T>; 2],
    /// A line of real points, or the results of all lines where those are real.
    real: Vec<T>,
    /// Points of all lines, and their results.
    points: Vec<Complex<T>>,
    scratch: Vec<Complex<T>>,
}

impl<'a, T: Real> Worker<'a, T> {
    fn new(pass: &'a Pass, plan: &'a Plan<T>, input: [&'a [T]; 2], lines: usize) -> Self {
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
    fn transform(&mut self, lines: Range<usize>) {
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
    fn keep(&self, to: &mut [Complex<T>], stride: usize) {
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

pub(super) fn run<T: Real>(pass: &Pass, input: [&[T]; 2], output: [&mut [T]; 2]) {
    if output[0].is_empty() {
        return;
    }
    let plan = Plan::of(pass);
    if pass.inner == 1 && pass.first * pass.second == 1 {
        in_order(pass, &plan, input, output);
    } else {
        apart(pass, &plan, input, output);
    }
}

/// What results are multiplied by: real and imaginary parts.
fn scales<T: Real>(pass: &Pass) -> [T; 2] {
    let scale = T::of(pass.scale().into());
    [scale, if pass.flags.inverse { -scale } else { scale }]
}

/// Lines whose points follow each other, and those of their results.
fn in_order<T: Real>(pass: &Pass, plan: &Plan<T>, input: [&[T]; 2], [re, im]: [&mut [T]; 2]) {
    let Pass { n, written, .. } = *pass;
    let (at_once, results) = (AT_ONCE.div_ceil(n), plan.results(pass));
    let [scale, im_scale] = scales::<T>(pass);
    let transform = |worker: &mut Worker<'_, T>, number: usize, re: &mut [T], im: &mut [T]| {
        let count = re.len() / written;
        worker.transform(number * at_once..number * at_once + count);
        if let Plan::FromHalf(_) = plan {
            for (re, real) in re.chunks_mut(written).zip(worker.real.chunks(n)) {
                re.iter_mut().zip(real).for_each(|(re, &real)| *re = real * scale);
            }
            return;
        }
        for (re, points) in re.chunks_mut(written).zip(worker.points.chunks(results)) {
            re.iter_mut().zip(points).for_each(|(re, point)| *re = point.re * scale);
        }
        for (im, points) in im.chunks_mut(written).zip(worker.points.chunks(results)) {
            im.iter_mut().zip(points).for_each(|(im, point)| *im = point.im * im_scale);
        }
    };
    let worker = || Worker::new(pass, plan, input, at_once);
    let re = re.par_chunks_mut(at_once * written).enumerate();
    if pass.flags.to_real {
        re.for_each_init(worker, |worker, (number, re)| transform(worker, number, re, &mut []));
    } else {
        let both = re.zip(im.par_chunks_mut(at_once * written));
        both.for_each_init(worker, |worker, ((number, re), im)| transform(worker, number, re, im));
    }
}

/// Lines whose points, or results, lie apart: they are kept as lines, and then brought to their places, some columns of
/// `[before, inner]` at a time.
fn apart<T: Real>(pass: &Pass, plan: &Plan<T>, input: [&[T]; 2], [re, im]: [&mut [T]; 2]) {
    let Pass { before, inner, written, first, second, flags, .. } = *pass;
    let results = plan.results(pass);
    let stride = results + GAP;
    // with whose results rows of the output, `[written, inner]`, are complete
    let least = first * second;
    let width = (KEPT / (least * stride)).clamp(ADJACENT, inner.max(ADJACENT)).min(inner);
    let at_once = (KEPT / (least * width * stride)).max(1) * least;
    let [scale, im_scale] = scales::<T>(pass);
    let mut kept = vec![Complex::new(T::zero(), T::zero()); at_once.min(before) * width * stride];
    for start in (0..before).step_by(at_once) {
        let count = at_once.min(before - start);
        let out = start / least * written * inner..(start + count) / least * written * inner;
        for left in (0..inner).step_by(width) {
            let width = width.min(inner - left);
            let kept = &mut kept[..count * width * stride];
            kept.par_chunks_mut(width * stride).enumerate().for_each(|(number, kept)| {
                let worker = || Worker::new(pass, plan, input, ADJACENT);
                kept.par_chunks_mut(ADJACENT * stride).enumerate().for_each_init(worker, |worker, (group, kept)| {
                    let line = (start + number) * inner + left + group * ADJACENT;
                    worker.transform(line..line + kept.len() / stride);
                    worker.keep(kept, stride);
                });
            });
            let columns = Columns { pass, kept, stride, left, width };
            columns.bring(&mut re[out.clone()], |point| point.re * scale);
            if !flags.to_real {
                columns.bring(&mut im[out.clone()], |point| point.im * im_scale);
            }
        }
    }
}

/// Results of lines, by columns of the output.
struct Columns<'a, T> {
    pass: &'a Pass,
    /// `[lines, width, stride]`
    kept: &'a [Complex<T>],
    stride: usize,
    /// The first column.
    left: usize,
    width: usize,
}

impl<T: Real> Columns<'_, T> {
    /// Fills these columns of rows, squares of them at a time.
    fn bring(&self, to: &mut [T], part: impl Fn(Complex<T>) -> T + Sync) {
        let Self { pass: &Pass { inner, .. }, kept, stride, left, width } = *self;
        to.par_chunks_mut(ADJACENT * inner).enumerate().for_each(|(group, rows)| {
            let places = (0..rows.len() / inner).map(|row| self.place(group * ADJACENT + row));
            let places: SmallVec<[usize; ADJACENT]> = places.collect();
            for start in (0..width).step_by(ADJACENT) {
                let end = width.min(start + ADJACENT);
                for (row, &place) in rows.chunks_mut(inner).zip(&places) {
                    for (number, element) in row[left + start..left + end].iter_mut().enumerate() {
                        *element = part(kept[(start + number) * stride + place]);
                    }
                }
            }
        });
    }

    /// Where the results of a row's first column are.
    fn place(&self, row: usize) -> usize {
        let Pass { written, first, second, .. } = *self.pass;
        let (block, number) = (row / written, row % written);
        let (a, rest) = (number % first, number / first);
        ((block * first + a) * second + rest % second) * self.width * self.stride + rest / second
    }
}
