//! What variables hold at first: PyTorch's `torch.nn.init`.

use crate::hash::fnv_1a;
use crate::shape::Shape;

use super::matrix;

/// How a variable's first value is drawn. Each has the formula of the PyTorch function of its name.
///
/// ```
/// use brasa::Device;
/// use brasa::nn::{Init, Initial, Nonlinearity, fans};
///
/// # fn main() -> brasa::Result<()> {
/// let init = Init::new(&Device::cpu(), 42);
/// let (fan_in, fan_out) = fans(&[64, 32, 3, 3].into());
/// assert_eq!((fan_in, fan_out), (288, 576));
/// let for_tanh = Initial::xavier_normal(fan_in, fan_out).scaled(Nonlinearity::Tanh.gain());
/// init.parameter("conv.weight", [64, 32, 3, 3], for_tanh)?;
/// init.parameter("recurrent.weight", [16, 16], Initial::Orthogonal { gain: 1.0 })?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Initial {
    /// The same value everywhere.
    Constant(f32),
    /// Uniform in `-bound..bound`.
    Uniform {
        /// Half the width.
        bound: f32,
    },
    /// Normal around zero.
    Normal {
        /// The standard deviation.
        deviation: f32,
    },
    /// Normal around zero, drawn again where it falls outside of `low..=high`.
    TruncatedNormal {
        /// The standard deviation before it is cut.
        deviation: f32,
        /// The smallest value.
        low: f32,
        /// The largest value.
        high: f32,
    },
    /// Rows (or columns, if there are fewer) at right angles and of length `gain`, uniform among such matrices (Saxe et
    /// al., arXiv 1312.6120). Axes behind the first count as one.
    Orthogonal {
        /// Their length.
        gain: f32,
    },
    /// A matrix with ones on its diagonal, zeros elsewhere.
    Eye,
    /// A convolution's kernel `[outputs, inputs, ...]` that hands channels on: in each of `groups` groups of outputs,
    /// the centre of the kernel from input n to output n is 1.
    Dirac {
        /// Groups of outputs.
        groups: usize,
    },
    /// A matrix that is normal around zero, with a part of each column set to zero (Martens 2010).
    Sparse {
        /// The part of each column, rounded up, that is zero.
        sparsity: f32,
        /// The standard deviation of the rest.
        deviation: f32,
    },
}

/// What follows a layer: by how much its weights should be larger than for nothing, to keep the signal's size.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Nonlinearity {
    /// Nothing.
    Linear,
    /// The sigmoid.
    Sigmoid,
    /// The hyperbolic tangent.
    Tanh,
    /// Max with 0.
    Relu,
    /// `slope · x` where negative.
    LeakyRelu(f32),
    /// SELU.
    Selu,
}

impl Nonlinearity {
    /// The factor, as PyTorch's `calculate_gain`.
    pub fn gain(self) -> f32 {
        match self {
            Self::Linear | Self::Sigmoid => 1.0,
            Self::Tanh => 5.0 / 3.0,
            Self::Relu => std::f32::consts::SQRT_2,
            Self::LeakyRelu(slope) => (2.0 / (1.0 + slope * slope)).sqrt(),
            Self::Selu => 0.75,
        }
    }
}

/// (fan in, fan out) of a weight `[outputs, inputs, kernel...]`: how many inputs an output sums, and the other way
/// round.
///
/// # Panics
///
/// If there are fewer than two axes.
#[track_caller]
pub fn fans(shape: &Shape) -> (usize, usize) {
    assert!(shape.rank() >= 2, "fans: {shape} is not [outputs, inputs, ...]");
    let kernel: usize = shape[2..].iter().product();
    (shape[1] * kernel, shape[0] * kernel)
}

impl Initial {
    /// Uniform with the bound sqrt(6 / ((1 + slope²) · fan_in)), He et al. 2015 (arXiv 1502.01852), for a leaky ReLU of
    /// this negative slope.
    pub fn kaiming_uniform(fan_in: usize, slope: f32) -> Self {
        Self::Uniform { bound: (6.0 / ((1.0 + slope * slope) * fan_in.max(1) as f32)).sqrt() }
    }

    /// Normal with the deviation sqrt(2 / fan_in), He et al. 2015, for ReLU.
    pub fn kaiming_normal(fan_in: usize) -> Self {
        Self::Normal { deviation: (2.0 / fan_in.max(1) as f32).sqrt() }
    }

    /// Uniform with the bound sqrt(6 / (fan_in + fan_out)), Glorot and Bengio 2010.
    pub fn xavier_uniform(fan_in: usize, fan_out: usize) -> Self {
        Self::Uniform { bound: (6.0 / (fan_in + fan_out).max(1) as f32).sqrt() }
    }

    /// Normal with the deviation sqrt(2 / (fan_in + fan_out)), Glorot and Bengio 2010.
    pub fn xavier_normal(fan_in: usize, fan_out: usize) -> Self {
        Self::Normal { deviation: (2.0 / (fan_in + fan_out).max(1) as f32).sqrt() }
    }

    /// What PyTorch draws the weights and biases of linear layers and convolutions from: `kaiming_uniform` with slope
    /// √5, which is uniform within 1/√fan_in (`reset_parameters` in its `torch/nn/modules/linear.py` and `conv.py`).
    pub fn pytorch_default(fan_in: usize) -> Self {
        Self::kaiming_uniform(fan_in, 5.0_f32.sqrt())
    }

    /// The same times `gain`.
    ///
    /// # Panics
    ///
    /// For [`Initial::Eye`] and [`Initial::Dirac`], which have no size to scale.
    #[must_use]
    #[track_caller]
    pub fn scaled(self, gain: f32) -> Self {
        match self {
            Self::Constant(value) => Self::Constant(value * gain),
            Self::Uniform { bound } => Self::Uniform { bound: bound * gain },
            Self::Normal { deviation } => Self::Normal { deviation: deviation * gain },
            Self::TruncatedNormal { deviation, low, high } => {
                Self::TruncatedNormal { deviation: deviation * gain, low: low * gain, high: high * gain }
            }
            Self::Orthogonal { gain: own } => Self::Orthogonal { gain: own * gain },
            Self::Sparse { sparsity, deviation } => Self::Sparse { sparsity, deviation: deviation * gain },
            Self::Eye | Self::Dirac { .. } => panic!("scaled: {self:?} has no size to scale"),
        }
    }

    /// Draws the variable at `path` into `values`, which are empty and have room.
    #[track_caller]
    pub(super) fn draw(
        self,
        path: &str,
        shape: &Shape,
        mut values: Vec<f32>,
        generator: &mut Generator,
    ) -> Result<Vec<f32>, NoRoom> {
        let mut fill = |mut sample: Box<dyn FnMut(&mut Generator) -> f32>| {
            values.extend((0..shape.numel()).map(|_| sample(generator)));
        };
        match self {
            Self::Constant(value) => values.resize(shape.numel(), value),
            Self::Uniform { bound } => fill(Box::new(move |g| bound * (2.0 * g.uniform() - 1.0) as f32)),
            Self::Normal { deviation } => fill(Box::new(move |g| deviation * g.normal() as f32)),
            Self::TruncatedNormal { deviation, low, high } => {
                assert!(low < high && deviation > 0.0, "{path}: {self:?} has no room");
                fill(Box::new(move |g| g.truncated(deviation.into(), low.into(), high.into()) as f32))
            }
            Self::Orthogonal { gain } => matrix::orthogonal(path, shape, gain, &mut values, generator)?,
            Self::Eye => matrix::eye(path, shape, &mut values),
            Self::Dirac { groups } => matrix::dirac(path, shape, groups, &mut values),
            Self::Sparse { sparsity, deviation } => {
                matrix::sparse(path, shape, sparsity, deviation, &mut values, generator)?;
            }
        }
        Ok(values)
    }
}

/// The host has no memory for so many bytes.
#[derive(Debug)]
pub(super) struct NoRoom {
    pub(super) bytes: u64,
}

/// An empty vector with room for `count` elements; without it, one that is too long would end the process.
pub(super) fn room<T>(count: usize) -> Result<Vec<T>, NoRoom> {
    let mut values = Vec::new();
    let bytes = count.saturating_mul(size_of::<T>()) as u64;
    values.try_reserve_exact(count).map_err(|_| NoRoom { bytes })?;
    Ok(values)
}

/// SplitMix64 (Steele, Lea, Flood 2014): small, and more than good enough for first weights.
pub(crate) struct Generator(u64);

impl Generator {
    pub(crate) fn new(seed: u64, path: &str) -> Self {
        let mut generator = Self(seed);
        // layers draw from streams of their own
        generator.0 = generator.next() ^ fnv_1a(path.bytes());
        generator
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// In (0, 1): never 0, so that its logarithm is finite.
    pub(crate) fn uniform(&mut self) -> f64 {
        ((self.next() >> 12) as f64 + 0.5) * (-52.0_f64).exp2()
    }

    /// Standard normal (Box and Muller 1958).
    pub(super) fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Normal, given that it is in `low..=high`: drawn until accepted, from the normal distribution where the interval
    /// is wide and holds much of it, else evenly.
    fn truncated(&mut self, deviation: f64, low: f64, high: f64) -> f64 {
        let wide = high - low > 2.5 * deviation && low < deviation && high > -deviation;
        // of a tail only where there is anything: beyond, the density is e^-40 of the largest
        let reach = |from: f64| 40.0 * deviation * deviation / from.max(deviation);
        let (low, high) = match () {
            () if low > 0.0 => (low, high.min(low + reach(low))),
            () if high < 0.0 => (low.max(high - reach(-high)), high),
            () => (low, high),
        };
        // where the density is largest
        let top = 0.0_f64.clamp(low, high);
        loop {
            if wide {
                let value = deviation * self.normal();
                if (low..=high).contains(&value) {
                    return value;
                }
            } else {
                let value = low + (high - low) * self.uniform();
                let density = ((top * top - value * value) / (2.0 * deviation * deviation)).exp();
                if self.uniform() < density {
                    return value;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: usize = 20_000;

    fn draw(initial: Initial, shape: impl Into<Shape>) -> Vec<f64> {
        let values = initial.draw("layer.weight", &shape.into(), Vec::new(), &mut Generator::new(1, "layer.weight"));
        values.expect("memory").into_iter().map(f64::from).collect()
    }

    fn moments(values: &[f64]) -> (f64, f64) {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let square = values.iter().map(|value| value * value).sum::<f64>() / values.len() as f64;
        (mean, (square - mean * mean).sqrt())
    }

    /// Kolmogorov and Smirnov: the largest distance from a distribution function stays below 1.95 / √n in 999 of 1,000
    /// draws.
    fn assert_distributed(what: &str, mut values: Vec<f64>, distribution: impl Fn(f64) -> f64) {
        values.sort_by(f64::total_cmp);
        let count = values.len() as f64;
        let distances = values.iter().enumerate().map(|(rank, &value)| {
            let expected = distribution(value);
            (expected - rank as f64 / count).abs().max(((rank + 1) as f64 / count - expected).abs())
        });
        let largest = distances.fold(0.0, f64::max);
        assert!(largest < 1.95 / count.sqrt(), "{what}: {largest} from its distribution");
    }

    /// Abramowitz and Stegun 7.1.26, to 1.5e-7.
    fn normal_distribution(x: f64) -> f64 {
        let z = x.abs() / std::f64::consts::SQRT_2;
        let t = 1.0 / (1.0 + 0.327_591_1 * z);
        let series = [1.061_405_429, -1.453_152_027, 1.421_413_741, -0.284_496_736, 0.254_829_592];
        let erf = 1.0 - series.iter().fold(0.0, |sum, factor| (sum + factor) * t) * (-z * z).exp();
        0.5 * (1.0 + erf.copysign(x))
    }

    #[test]
    fn draws_follow_their_distributions() {
        assert_distributed("uniform", draw(Initial::Uniform { bound: 3.0 }, COUNT), |x| (x + 3.0) / 6.0);
        assert_distributed("normal", draw(Initial::Normal { deviation: 2.0 }, COUNT), |x| normal_distribution(x / 2.0));
        // wide, cut on one side, narrow, and in the tail
        for (low, high) in [(-2.0, 2.0), (-0.5, 5.0), (-0.3, 0.4), (2.5, 9.0)] {
            let initial = Initial::TruncatedNormal { deviation: 1.0, low, high };
            let (low, high) = (f64::from(low), f64::from(high));
            let [below, above] = [low, high].map(normal_distribution);
            let values = draw(initial, COUNT);
            assert!(values.iter().all(|value| (low..=high).contains(value)), "{initial:?}");
            let part = |x: f64| (normal_distribution(x) - below) / (above - below);
            assert_distributed(&format!("{initial:?}"), values, part);
        }
    }

    #[test]
    fn the_test_of_distributions_sees_a_wrong_one() {
        let wider = draw(Initial::Normal { deviation: 1.05 }, COUNT);
        let seen = std::panic::catch_unwind(|| assert_distributed("wider", wider, normal_distribution));
        assert!(seen.is_err(), "five percent more deviation went unnoticed");
    }

    #[test]
    fn bounds_and_deviations_are_the_formulas() {
        let uniform = |initial| match initial {
            Initial::Uniform { bound } => f64::from(bound),
            other => panic!("{other:?}"),
        };
        let normal = |initial| match initial {
            Initial::Normal { deviation } => f64::from(deviation),
            other => panic!("{other:?}"),
        };
        // torch.nn.init._calculate_fan_in_and_fan_out and calculate_gain, by hand
        assert_eq!(fans(&[8, 3, 5, 2].into()), (30, 80));
        for (got, expected) in [
            (uniform(Initial::pytorch_default(400)), 0.05),
            (uniform(Initial::kaiming_uniform(24, 0.0)), 0.5),
            (normal(Initial::kaiming_normal(32)), 0.25),
            (uniform(Initial::xavier_uniform(10, 14)), 0.5),
            (normal(Initial::xavier_normal(10, 22)), 0.25),
            (normal(Initial::xavier_normal(10, 22).scaled(Nonlinearity::Tanh.gain())), 5.0 / 12.0),
            (f64::from(Nonlinearity::LeakyRelu(0.2).gain()), (2.0_f64 / 1.04).sqrt()),
        ] {
            assert!((got - expected).abs() < 1e-7, "{got} instead of {expected}");
        }
    }

    #[test]
    fn orthogonal_rows_or_columns_have_their_length_and_no_favourite_direction() {
        for shape in [vec![7, 7], vec![3, 2, 5], vec![11, 4]] {
            let values = draw(Initial::Orthogonal { gain: 1.5 }, shape.clone());
            let (rows, columns) = (shape[0], shape[1..].iter().product::<usize>());
            let at = |row: usize, column: usize| values[row * columns + column];
            let (count, along) = (rows.min(columns), rows.max(columns));
            let get = |which: usize, place: usize| if rows <= columns { at(which, place) } else { at(place, which) };
            for a in 0..count {
                for b in 0..count {
                    let product: f64 = (0..along).map(|place| get(a, place) * get(b, place)).sum();
                    let expected = if a == b { 2.25 } else { 0.0 };
                    assert!((product - expected).abs() < 1e-5, "{shape:?}: {a}, {b}: {product}");
                }
            }
        }
        // each element of a uniform 2x2 one is the cosine of a uniform angle
        let mut firsts = Vec::new();
        for number in 0..2_000 {
            let mut generator = Generator::new(number, "w");
            let values = Initial::Orthogonal { gain: 1.0 }.draw("w", &[2, 2].into(), Vec::new(), &mut generator);
            firsts.push(f64::from(values.expect("memory")[0]));
        }
        assert_distributed("orthogonal", firsts, |x| 1.0 - x.clamp(-1.0, 1.0).acos() / std::f64::consts::PI);
    }

    #[test]
    fn identities_hand_on_what_they_get() {
        assert_eq!(draw(Initial::Eye, [2, 3]), [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
        // from torch.nn.init.dirac_(torch.empty(4, 2, 3), groups=2)
        let one = |output: usize, input: usize| (output * 2 + input) * 3 + 1;
        let kernel = draw(Initial::Dirac { groups: 2 }, [4, 2, 3]);
        let ones: Vec<usize> = (0..kernel.len()).filter(|&index| kernel[index] == 1.0).collect();
        assert_eq!(ones, [one(0, 0), one(1, 1), one(2, 0), one(3, 1)]);
        assert_eq!(kernel.iter().sum::<f64>(), 4.0);
    }

    #[test]
    fn a_tail_without_end_is_drawn_from() {
        for (low, high) in [(2.0, f32::INFINITY), (f32::NEG_INFINITY, -2.0), (3.0, 1e30)] {
            let values = draw(Initial::TruncatedNormal { deviation: 1.0, low, high }, [500]);
            assert!(values.iter().all(|&value| (f64::from(low)..=f64::from(high)).contains(&value)), "{low} {high}");
            // of the tail beyond 2 the mean is 2.37, beyond 3 it is 3.28; the deviation of 500 means is 0.015
            let mean = values.iter().map(|value| value.abs()).sum::<f64>() / 500.0;
            assert!((2.2..3.5).contains(&mean), "{mean}");
        }
    }

    #[test]
    fn a_sparse_matrix_has_the_stated_zeros_in_each_column_and_is_normal_elsewhere() {
        let (rows, columns) = (50, 300);
        let values = draw(Initial::Sparse { sparsity: 0.11, deviation: 0.5 }, [rows, columns]);
        let mut by_row = vec![0; rows];
        for column in 0..columns {
            let zeros: Vec<usize> = (0..rows).filter(|row| values[row * columns + column] == 0.0).collect();
            assert_eq!(zeros.len(), 6, "column {column}"); // 5.5, rounded up
            zeros.iter().for_each(|&row| by_row[row] += 1);
        }
        // binomial, mean 36, deviation 5.6: five of them
        assert!(by_row.iter().all(|&count| (8..=64).contains(&count)), "{by_row:?}");
        let tenth = draw(Initial::Sparse { sparsity: 0.1, deviation: 0.5 }, [10, 3]);
        assert_eq!(
            tenth.iter().filter(|&&value| value == 0.0).count(),
            3,
            "one of ten, though f32's tenth is a little more"
        );
        let rest: Vec<f64> = values.into_iter().filter(|&value| value != 0.0).collect();
        let (mean, deviation) = moments(&rest);
        // standard errors of 13,200 draws: 0.0044 and 0.0031; five of them
        assert!(mean.abs() < 0.022 && (deviation - 0.5).abs() < 0.016, "{mean} {deviation}");
        assert_distributed("sparse", rest, |x| normal_distribution(2.0 * x));
    }

    #[test]
    fn streams_depend_on_seed_and_path() {
        let first = |seed, path| Generator::new(seed, path).next();
        assert_eq!(first(1, "a.weight"), first(1, "a.weight"));
        assert_ne!(first(1, "a.weight"), first(2, "a.weight"));
        assert_ne!(first(1, "a.weight"), first(1, "b.weight"));
    }
}
