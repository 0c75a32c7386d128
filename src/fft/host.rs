//! The same on the processor, by a library: whole lines of any length.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use rayon::prelude::*;
use realfft::num_complex::Complex;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use rustfft::{Fft, FftNum, FftPlanner};

use super::pass::Pass;

/// Points that a task transforms at least.
const AT_ONCE: usize = 1 << 13;

/// Adjacent lines, or points of them, of a task: they share what is fetched from memory.
const ADJACENT: usize = 16;

/// Points that are kept between the transforms of strided lines and their places.
const KEPT: usize = 1 << 21;

/// A type that is transformed in.
pub(super) trait Real: FftNum {
    /// What lengths were planned for before.
    fn planners() -> &'static Mutex<(RealFftPlanner<Self>, FftPlanner<Self>)>;

    fn of(value: f64) -> Self {
        Self::from_f64(value).expect("a float")
    }
}

macro_rules! reals {
    ($($float:ty),*) => {$(
        impl Real for $float {
            fn planners() -> &'static Mutex<(RealFftPlanner<Self>, FftPlanner<Self>)> {
                static PLANNERS: LazyLock<Mutex<(RealFftPlanner<$float>, FftPlanner<$float>)>> =
                    LazyLock::new(|| Mutex::new((RealFftPlanner::new(), FftPlanner::new())));
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
        let alone = pass.whole == n;
        if alone && flags.real && pass.written <= half {
            Self::ToHalf(planners.0.plan_fft_forward(n))
        } else if alone && flags.to_real && !flags.real && pass.read <= half * pass.inner {
            Self::FromHalf(planners.0.plan_fft_inverse(n))
        } else {
            Self::Whole(planners.1.plan_fft_forward(n))
        }
    }

    /// Results of a line.
    fn results(&self, pass: &Pass) -> usize {
        if matches!(self, Self::ToHalf(_)) { pass.n / 2 + 1 } else { pass.n }
    }
}

/// What a thread transforms lines with.
struct Worker<'a, T: FftNum> {
    pass: &'a Pass,
    plan: &'a Plan<T>,
    input: [&'a [T]; 2],
    real: Vec<T>,
    points: Vec<Complex<T>>,
    scratch: Vec<Complex<T>>,
}

impl<'a, T: Real> Worker<'a, T> {
    fn new(pass: &'a Pass, plan: &'a Plan<T>, input: [&'a [T]; 2]) -> Self {
        let zero = Complex::new(T::zero(), T::zero());
        let (real, points, scratch) = match plan {
            Plan::ToHalf(plan) => (pass.n, plan.complex_len(), plan.get_scratch_len()),
            Plan::FromHalf(plan) => (pass.n, plan.complex_len(), plan.get_scratch_len()),
            Plan::Whole(plan) => (0, pass.n, plan.get_inplace_scratch_len()),
        };
        Self {
            pass,
            plan,
            input,
            real: vec![T::zero(); real],
            points: vec![zero; points],
            scratch: vec![zero; scratch],
        }
    }

    /// Transforms a line and hands its results to `write`, one after the other.
    fn transform(&mut self, line: usize, mut write: impl FnMut(usize, Complex<T>)) {
        let Pass { n, flags, .. } = *self.pass;
        match self.plan {
            Plan::ToHalf(plan) => {
                self.read_real(line);
                plan.process_with_scratch(&mut self.real, &mut self.points, &mut self.scratch)
                    .expect("planned lengths");
            }
            Plan::FromHalf(plan) => {
                self.read_complex(line);
                // the plan is for all points; of those that are zeros half of each pair is missing
                let weight = if flags.mirrored { T::one() } else { T::of(0.5) };
                for point in &mut self.points {
                    *point = point.conj() * weight;
                }
                let middle = n.is_multiple_of(2).then_some(n / 2);
                for end in std::iter::once(0).chain(middle) {
                    self.points[end] = Complex::new(self.points[end].re / weight, T::zero());
                }
                plan.process_with_scratch(&mut self.points, &mut self.real, &mut self.scratch)
                    .expect("planned lengths");
                let scale = T::of(self.pass.scale().into());
                for (number, &value) in self.real.iter().enumerate() {
                    write(number, Complex::new(value * scale, T::zero()));
                }
                return;
            }
            Plan::Whole(plan) => {
                if flags.mirrored {
                    (0..n).for_each(|point| self.points[point] = self.mirrored(point, line));
                } else {
                    self.read_complex(line);
                }
                plan.process_with_scratch(&mut self.points, &mut self.scratch);
            }
        }
        let scale = T::of(self.pass.scale().into());
        let twist = line % self.pass.inner / self.pass.split;
        for (number, &value) in self.points.iter().enumerate() {
            let mut result = value * scale;
            if flags.twisted {
                let turn = -std::f64::consts::TAU * (number * twist) as f64 / self.pass.whole as f64;
                result = result * Complex::new(T::of(turn.cos()), T::of(turn.sin()));
            }
            write(number, if flags.inverse { result.conj() } else { result });
        }
    }

    /// The parts of a line's points, as many as there are.
    fn parts(&self, part: usize, line: usize) -> impl Iterator<Item = T> {
        let Pass { inner, read, .. } = *self.pass;
        let there = &self.input[part][line / inner * read..][..read];
        there.iter().skip(line % inner).step_by(inner).copied()
    }

    fn read_real(&mut self, line: usize) {
        let mut real = std::mem::take(&mut self.real);
        real.fill(T::zero());
        real.iter_mut().zip(self.parts(0, line)).for_each(|(to, from)| *to = from);
        self.real = real;
    }

    /// Points, or their conjugates where the transform is inverse.
    fn read_complex(&mut self, line: usize) {
        let mut points = std::mem::take(&mut self.points);
        points.fill(Complex::new(T::zero(), T::zero()));
        points.iter_mut().zip(self.parts(0, line)).for_each(|(to, from)| to.re = from);
        if !self.pass.flags.real {
            let sign = if self.pass.flags.inverse { -T::one() } else { T::one() };
            points.iter_mut().zip(self.parts(1, line)).for_each(|(to, from)| to.im = from * sign);
        }
        self.points = points;
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
}

pub(super) fn run<T: Real>(pass: &Pass, input: [&[T]; 2], output: [&mut [T]; 2]) {
    if output[0].is_empty() {
        return;
    }
    let plan = Plan::of(pass);
    let worker = || Worker::new(pass, &plan, input);
    if pass.inner == 1 && pass.first * pass.second == 1 {
        in_order(pass, worker, output);
    } else {
        apart(pass, plan.results(pass), worker, output);
    }
}

/// Lines whose points follow each other, and those of their results.
fn in_order<'a, T: Real>(pass: &Pass, worker: impl Fn() -> Worker<'a, T> + Sync + Send, [re, im]: [&mut [T]; 2]) {
    let Pass { n, written, .. } = *pass;
    let lines = AT_ONCE.div_ceil(n);
    let re = re.par_chunks_mut(lines * written).enumerate();
    let transform = |worker: &mut Worker<'a, T>, (number, re): (usize, &mut [T]), im: Option<&mut [T]>| {
        let mut im = im;
        for (line, re) in re.chunks_mut(written).enumerate() {
            let mut im = im.as_mut().map(|im| &mut im[line * written..][..written]);
            worker.transform(number * lines + line, |point, value| {
                if point < written {
                    re[point] = value.re;
                    if let Some(im) = &mut im {
                        im[point] = value.im;
                    }
                }
            });
        }
    };
    if pass.flags.to_real {
        re.for_each_init(worker, |worker, re| transform(worker, re, None));
    } else {
        let both = re.zip(im.par_chunks_mut(lines * written));
        both.for_each_init(worker, |worker, (re, im)| transform(worker, re, Some(im)));
    }
}

/// Lines whose points, or results, lie apart: they are kept as lines, and then brought to their places.
fn apart<'a, T: Real>(
    pass: &Pass,
    results: usize,
    worker: impl Fn() -> Worker<'a, T> + Sync + Send,
    [mut re, mut im]: [&mut [T]; 2],
) {
    let Pass { inner, written, first, second, flags, .. } = *pass;
    // lines with whose results rows of the output, `[written, inner]`, are complete
    let lines = first * second * inner;
    let at_once = (KEPT / (lines * results)).max(1) * lines;
    let mut kept = vec![Complex::new(T::zero(), T::zero()); at_once.min(pass.lines()) * results];
    for start in (0..pass.lines()).step_by(at_once) {
        let count = at_once.min(pass.lines() - start);
        let kept = &mut kept[..count * results];
        kept.par_chunks_mut(ADJACENT * results).enumerate().for_each_init(&worker, |worker, (group, kept)| {
            for (line, kept) in kept.chunks_mut(results).enumerate() {
                worker.transform(start + group * ADJACENT + line, |number, value| kept[number] = value);
            }
        });
        let elements = count / lines * written * inner;
        let (re_here, re_rest) = re.split_at_mut(elements);
        let result = |row: usize, index: usize| {
            let (block, number) = (row / written, row % written);
            let (a, rest) = (number % first, number / first);
            let line = ((block * first + a) * second + rest % second) * inner + index;
            kept[line * results + rest / second]
        };
        place(inner, re_here, &|row, index| result(row, index).re);
        re = re_rest;
        if !flags.to_real {
            let (im_here, im_rest) = im.split_at_mut(elements);
            place(inner, im_here, &|row, index| result(row, index).im);
            im = im_rest;
        }
    }
}

/// Writes rows of `inner` elements, some at a time.
fn place<T: Real>(inner: usize, to: &mut [T], value: &(impl Fn(usize, usize) -> T + Sync)) {
    to.par_chunks_mut(ADJACENT * inner).enumerate().for_each(|(group, rows)| {
        let count = rows.len() / inner;
        for index in 0..inner {
            for row in 0..count {
                rows[row * inner + index] = value(group * ADJACENT + row, index);
            }
        }
    });
}
