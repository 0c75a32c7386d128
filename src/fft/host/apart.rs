//! Lines whose points, or those of their results, lie apart.

use rayon::prelude::*;
use realfft::num_complex::Complex;
use smallvec::SmallVec;

use crate::fft::pass::Pass;

use super::plans::{Plan, Real};
use super::worker::Worker;
use super::{GAP, scales};

/// Adjacent lines, or points of them, of a task: they share what is fetched from memory.
const ADJACENT: usize = 16;

/// Points that are kept between the transforms of strided lines and their places.
const KEPT: usize = 1 << 18;

/// Lines whose points, or results, lie apart: they are kept as lines, and then brought to their places, some columns of
/// `[before, inner]` at a time.
pub(super) fn apart<T: Real>(pass: &Pass, plan: &Plan<T>, input: [&[T]; 2], [re, im]: [&mut [T]; 2]) {
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
            // lines that follow each other
            let run = if width == inner { count * width } else { width };
            kept.par_chunks_mut(run * stride).enumerate().for_each(|(number, kept)| {
                let begin = (start + number) * inner + left;
                let worker = || Worker::new(pass, plan, input, ADJACENT);
                kept.par_chunks_mut(ADJACENT * stride).enumerate().for_each_init(worker, |worker, (group, kept)| {
                    let line = begin + group * ADJACENT;
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
