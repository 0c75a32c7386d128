//! The same on the processor, by a library: whole lines of any length.

mod apart;
mod plans;
mod worker;

use rayon::prelude::*;

use super::pass::Pass;
use plans::{Plan, Real};
use worker::Worker;

/// Points that a task transforms, at least.
const AT_ONCE: usize = 1 << 13;

/// Elements between lines of a power of two points, which would else share a few lines of a cache.
const GAP: usize = 8;

pub(super) fn run<T: Real>(pass: &Pass, input: [&[T]; 2], output: [&mut [T]; 2]) {
    if output[0].is_empty() {
        return;
    }
    let plan = Plan::of(pass);
    if pass.inner == 1 && pass.first * pass.second == 1 {
        in_order(pass, &plan, input, output);
    } else {
        apart::apart(pass, &plan, input, output);
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
