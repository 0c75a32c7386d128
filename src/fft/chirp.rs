//! Transforms of as many points as no kernel has radices for: as a convolution with a chirp.

use crate::device::Device;
use crate::dtype::DType;
use crate::tensor::Tensor;

use super::Complex;
use super::lines::{Lines, Parts, Side};

/// Bluestein's algorithm: with `2 jk = j² + k² - (k - j)²`, a transform is a convolution, which is a product of
/// transforms of a power of two.
#[track_caller]
pub(super) fn by_convolution(lines: Lines, re: &Tensor, im: Option<&Tensor>) -> Parts {
    let (whole_re, whole_im) = whole(lines, re, im);
    let (read, written) = (whole_re.size(1), lines.to.points());
    let m = (read + written - 1).next_power_of_two();
    let chirp = chirp(read.max(written), lines, re.device());
    let there = Lines { n: m, inverse: false, from: Side::Complex(read), to: Side::Complex(m), scale: 1.0 };
    let own = first(&chirp, read);
    let signal = match whole_im {
        Some(whole_im) => Complex::new(whole_re, whole_im) * own,
        None => own * whole_re,
    };
    let signal = transformed(there, &signal);
    let filter = transformed(Lines { from: Side::Complex(m), ..there }, &filter(&chirp, read, written, m));
    let scale = lines.scale / m as f32;
    let back = Lines { inverse: true, from: Side::Complex(m), to: Side::Complex(written), scale, ..there };
    let result = transformed(back, &(signal * filter)) * first(&chirp, written);
    let rule = lines.rule();
    if lines.to.is_real() {
        let inputs = lines.inputs(re, im);
        let re = result.re().with_gradient(&inputs, move |_, _, gradient| rule(std::slice::from_ref(gradient)));
        return (re, None);
    }
    let both = Tensor::stack(&[result.re(), result.im()], 0)
        .with_gradient(&lines.inputs(re, im), move |_, _, gradient| {
            rule(&[gradient.select(0, 0), gradient.select(0, 1)])
        });
    (both.select(0, 0), Some(both.select(0, 1)))
}

#[track_caller]
fn transformed(lines: Lines, z: &Complex) -> Complex {
    let (re, im) = lines.of(z.re(), Some(z.im()));
    Complex::new(re, im.expect("complex results"))
}

/// All points of lines of which half may be there.
#[track_caller]
fn whole(lines: Lines, re: &Tensor, im: Option<&Tensor>) -> Parts {
    let (Side::Half(points), Some(im)) = (lines.from, im) else { return (re.clone(), im.cloned()) };
    // what lies in the middle of an even number is its own conjugate, as is the first one
    let pairs = (lines.n - 1) / 2;
    let missing = (lines.n / 2 + 1 - points) as isize;
    let re = re.pad(&[(0, 0), (0, missing), (0, 0)], 0.0);
    let im = im.pad(&[(0, 0), (0, missing), (0, 0)], 0.0).slice(1, 1..=pairs);
    let ends = |points: usize| Tensor::zeros([re.size(0), points, re.size(2)], re.device());
    let (first, middle) = (ends(1), ends(lines.n - 1 - 2 * pairs));
    let whole = Tensor::cat(&[&re, &re.slice(1, 1..=pairs).flip(1)], 1);
    (whole, Some(Tensor::cat(&[&first, &im, &middle, &-im.flip(1)], 1)))
}

/// exp(∓πi j² / n) for the first j: `[1, count, 1]`.
#[track_caller]
fn chirp(count: usize, lines: Lines, device: &Device) -> Complex {
    let turn = 2 * lines.n;
    let number = Tensor::arange(count, device).to_dtype(DType::U32);
    // squares as far as they count, whose angles are then between -π and π
    let square = if count <= 1 << 16 { (&number * &number).remainder(turn) } else { square(&number, count, turn) };
    let square = square.to_dtype(DType::I32);
    let near = square.gt(lines.n).where_(&square - turn, &square);
    let angle = near.to_dtype(DType::F32) * (std::f64::consts::PI / lines.n as f64);
    let (re, im) = (angle.cos().reshape([1, count, 1]), angle.sin().reshape([1, count, 1]));
    Complex::new(re, if lines.inverse { im } else { -im })
}

#[track_caller]
fn first(chirp: &Complex, points: usize) -> Complex {
    Complex::new(chirp.re().slice(1, 0..points), chirp.im().slice(1, 0..points))
}

/// The chirp's conjugates around zero, as far as results and points are apart, on a circle of `m`.
#[track_caller]
fn filter(chirp: &Complex, read: usize, written: usize, m: usize) -> Complex {
    let nothing = Tensor::zeros([1, m + 1 - read - written, 1], chirp.device());
    let around = |part: &Tensor| {
        let (after, before) = (part.slice(1, 0..written), part.slice(1, 1..read).flip(1));
        Tensor::cat(&[&after, &nothing, &before], 1)
    };
    chirp.conj().map(around)
}

/// Squares modulo `turn`, of numbers below `count` whose squares are too large.
#[track_caller]
fn square(number: &Tensor, count: usize, turn: usize) -> Tensor {
    let mut square = number.zeros_like();
    for bit in (0..count.ilog2() + 1).rev() {
        let set = number.floor_divide(1_usize << bit).remainder(2_usize);
        square = (square * 2_usize + set * number).remainder(turn);
    }
    square
}
