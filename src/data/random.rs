//! Random numbers for one sample.

use super::permutation::{hash, mix};

/// Random numbers that are a function of a key, such as (seed, epoch, sample, operation): who draws them, and when,
/// changes nothing. SplitMix64 (Steele, Lea and Flood, 2014) from a hashed key; not for secrets.
///
/// ```
/// use brasa::data::Random;
///
/// let draw = |key| Random::new(&[1, key]).uniform();
/// assert_eq!(draw(5), draw(5));
/// assert_ne!(draw(5), draw(6));
/// ```
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Those of this key.
    pub fn new(key: &[u64]) -> Self {
        Self { state: hash(key) }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// A number in `[0, 1)`, a multiple of 2⁻⁵³.
    pub fn uniform(&mut self) -> f64 {
        unit(self.bits())
    }

    /// A number between `low` and `high`.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// A whole number in `0..bound`; small ones are likelier by at most `bound / 2⁶⁴`.
    ///
    /// # Panics
    /// If `bound` is 0.
    #[track_caller]
    pub fn below(&mut self, bound: usize) -> usize {
        assert!(bound > 0, "there is no number below 0");
        ((u128::from(self.bits()) * bound as u128) >> 64) as usize
    }

    /// True with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.uniform() < probability
    }

    /// A normal number of mean 0 and variance 1 (Box and Muller's method).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// A number of the distribution Beta(alpha, alpha): a quotient of two numbers of a Gamma distribution.
    pub fn beta(&mut self, alpha: f64) -> f64 {
        let (first, second) = (self.gamma(alpha), self.gamma(alpha));
        // both underflow to 0 only for an alpha so small that the distribution is 0 or 1
        if first + second > 0.0 { first / (first + second) } else { f64::from(u8::from(self.chance(0.5))) }
    }

    /// Marsaglia and Tsang (2000), "A simple method for generating gamma variables"; below a shape of 1 with their
    /// boost.
    fn gamma(&mut self, shape: f64) -> f64 {
        if shape < 1.0 {
            let boost = (1.0 - self.uniform()).powf(shape.recip());
            return self.gamma(shape + 1.0) * boost;
        }
        let d = shape - 1.0 / 3.0;
        let c = (9.0 * d).sqrt().recip();
        loop {
            let normal = self.normal();
            let v = (1.0 + c * normal).powi(3);
            if v > 0.0 && (1.0 - self.uniform()).ln() < 0.5 * normal * normal + d - d * v + d * v.ln() {
                return d * v;
            }
        }
    }
}

/// These bits as a number in `[0, 1)`.
pub(super) fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 * 2.0_f64.powi(-53)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean and variance of many draws.
    fn moments(mut draw: impl FnMut(&mut Random) -> f64) -> (f64, f64) {
        const COUNT: usize = 40_000;
        let mut random = Random::new(&[3]);
        let values: Vec<f64> = (0..COUNT).map(|_| draw(&mut random)).collect();
        let mean = values.iter().sum::<f64>() / COUNT as f64;
        (mean, values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / COUNT as f64)
    }

    /// Means and variances of the distributions, within about six standard errors.
    #[test]
    fn moments_are_those_of_the_distributions() {
        let near = |(mean, variance): (f64, f64), expected: (f64, f64)| {
            let bound = 6.0 * (expected.1 / 40_000.0).sqrt();
            assert!((mean - expected.0).abs() < bound, "mean {mean}, not {}", expected.0);
            assert!((variance / expected.1 - 1.0).abs() < 0.06, "variance {variance}, not {}", expected.1);
        };
        near(moments(Random::uniform), (0.5, 1.0 / 12.0));
        near(moments(|random| random.between(-2.0, 4.0)), (1.0, 3.0));
        near(moments(|random| random.below(5) as f64), (2.0, 2.0));
        near(moments(Random::normal), (0.0, 1.0));
        for alpha in [0.2, 1.0, 2.5] {
            near(moments(|random| random.beta(alpha)), (0.5, 1.0 / (4.0 * (2.0 * alpha + 1.0))));
        }
        let (chance, _) = moments(|random| f64::from(u8::from(random.chance(0.3))));
        assert!((chance - 0.3).abs() < 0.015, "{chance}");
    }
}
