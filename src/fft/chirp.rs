//! Transforms of as many points as no kernel has radices for: as a convolution with a chirp.

use crate::device::Device;
use crate::dtype::DType;
use crate::tensor::Tensor;

use super::lines::{Lines, Parts, Side};

/// Bluestein's algorithm: with `2 jk = j² + k² - (k - j)²`, a transform is a convolution, which is a product of
/// transforms of a power of two.
#[track_caller]
pub(super) fn by_convolution(lines: Lines, re: &Tensor, im: Option<&Tensor>) -> Parts {
    let (whole_re, whole_im) = whole(lines, re, im);
    let (read, written) = (whole_re.size(1), lines.to.points());
    let m = (read + written - 1).next_power_of_two();
    let chirp = Chirp::of(read.max(written), lines, re.device());
    let (re_in, im_in) = chirp.times(&whole_re, whole_im.as_ref());
    let there = Lines { n: m, inverse: false, from: Side::Complex(read), to: Side::Complex(m), scale: 1.0 };
    let signal = complex(there.of(&re_in, Some(&im_in)));
    let (filter_re, filter_im) = chirp.filter(read, written, m);
    let filter = complex(Lines { from: Side::Complex(m), ..there }.of(&filter_re, Some(&filter_im)));
    let product_re = &signal.0 * &filter.0 - &signal.1 * &filter.1;
    let product_im = &signal.0 * &filter.1 + &signal.1 * &filter.0;
    let scale = lines.scale / m as f32;
    let back = Lines { inverse: true, from: Side::Complex(m), to: Side::Complex(written), scale, ..there };
    let (re_out, im_out) = complex(back.of(&product_re, Some(&product_im)));
    let (re_out, im_out) = chirp.times(&re_out, Some(&im_out));
    let rule = lines.rule();
    if lines.to.is_real() {
        let re_out =
            re_out.with_gradient(&lines.inputs(re, im), move |_, _, gradient| rule(std::slice::from_ref(gradient)));
        return (re_out, None);
    }
    let both = Tensor::stack(&[&re_out, &im_out], 0).with_gradient(&lines.inputs(re, im), move |_, _, gradient| {
        rule(&[gradient.select(0, 0), gradient.select(0, 1)])
    });
    (both.select(0, 0), Some(both.select(0, 1)))
}

fn complex((re, im): Parts) -> (Tensor, Tensor) {
    (re, im.expect("not only real parts"))
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

/// exp(∓πi j² / n) for the first j, `[1, count, 1]` each.
struct Chirp {
    re: Tensor,
    im: Tensor,
}

impl Chirp {
    #[track_caller]
    fn of(count: usize, lines: Lines, device: &Device) -> Self {
        let turn = 2 * lines.n;
        let number = Tensor::arange(count, device).to_dtype(DType::U32);
        // squares as far as they count, whose angles are then between -π and π
        let square = if count <= 1 << 16 { (&number * &number).remainder(turn) } else { square(&number, count, turn) };
        let square = square.to_dtype(DType::I32);
        let near = square.gt(lines.n).where_(&square - turn, &square);
        let angle = near.to_dtype(DType::F32) * (std::f64::consts::PI / lines.n as f64);
        let (re, im) = (angle.cos().reshape([1, count, 1]), angle.sin().reshape([1, count, 1]));
        Self { re, im: if lines.inverse { im } else { -im } }
    }

    /// The product with the first points.
    #[track_caller]
    fn times(&self, re: &Tensor, im: Option<&Tensor>) -> (Tensor, Tensor) {
        let points = re.size(1);
        let (own_re, own_im) = (self.re.slice(1, 0..points), self.im.slice(1, 0..points));
        match im {
            Some(im) => (re * &own_re - im * &own_im, re * &own_im + im * &own_re),
            None => (re * own_re, re * own_im),
        }
    }

    /// The conjugates around zero, as far as results and points are apart, on a circle of `m`.
    #[track_caller]
    fn filter(&self, read: usize, written: usize, m: usize) -> (Tensor, Tensor) {
        let nothing = Tensor::zeros([1, m + 1 - read - written, 1], self.re.device());
        let around = |part: &Tensor| {
            let (after, before) = (part.slice(1, 0..written), part.slice(1, 1..read).flip(1));
            Tensor::cat(&[&after, &nothing, &before], 1)
        };
        (around(&self.re), -around(&self.im))
    }
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
