//! How exactly products of f32 are computed.

use serde::{Deserialize, Serialize};

/// How exactly the products of f32 in matrix products and convolutions are computed, their gradients included; set by
/// [`Device::set_matmul_precision`](crate::Device::set_matmul_precision). PyTorch's
/// `torch.set_float32_matmul_precision`.
///
/// # `High`
///
/// Where a GPU has units that multiply small matrices of f16 and sum in f32, but none for f32 (tensor cores, and
/// AMD's), an operand x is the sum of two f16: hi = f16(x) and lo = f16((x − hi) · 2¹¹), which keep 23 of its 24 bits.
/// A result is Σ hi·hi + 2⁻¹¹ · Σ (hi·lo + lo·hi), each product exact and both sums in f32 (Markidis et al. 2018;
/// Ootomo and Yokota 2022, arXiv 2203.03341). Such a device tries the conversions and the units when it is opened.
///
/// **Error.** Of Σ a·b, beside the rounding of the sums, at most
///
/// > Σ (2⁻²¹ · |a·b| + 2⁻³⁵ · (|a| + |b|) + 2⁻⁴⁹).
///
/// The first term alone counts where all operands are 0 or at least 2⁻¹⁴ (6e-5) in size: four times what rounding the
/// operands to f32 does, and a 2048th of what rounding them to f16 does. The others are there because f16 ends at 2⁻²⁴:
/// smaller operands lose relative precision, at 1e-9 about 1 %, so that gradients of a mean over very many elements may
/// want a loss that is scaled up. The order of the sums is the units' own, and NVIDIA's are known to cut off instead of
/// rounding, which costs about 2⁻²³ · Σ |a·b| for each matrix that they add.
///
/// **Range.** An operand that rounds to more than f16's largest number, 65504 (from 65520 on), or that is infinite or
/// NaN, makes the results that it takes part in NaN. They are not clamped, so that a training finds them
/// ([`check_finite`](crate::runtime::check_finite)), as it finds an overflow.
///
/// **Speed.** Three products take the place of one, so it pays where units for f16 are many times as fast as plain f32,
/// as in data centres, and not on GeForce cards, where they are twice as fast when they sum in f32. Its speed has not
/// been measured on any GPU yet; `brasa bench matmul` tells.
///
/// **Elsewhere** it changes nothing, not a bit: on the CPU, on GPUs without such units or with units for f32 (Apple),
/// in products of few rows or columns, in attention without its own mask (which is one kernel), and in f16.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum MatmulPrecision {
    /// Products of 32-bit floats as they are
    #[default]
    Highest,
    /// Sums of products of 16-bit floats, good to 21 bits, where a GPU's matrix units multiply only those; elsewhere as
    /// highest
    High,
}

impl MatmulPrecision {
    /// Products of f16 in the place of one, where it makes a difference.
    pub(crate) const fn products(self) -> usize {
        match self {
            Self::Highest => 1,
            Self::High => 3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::autodiff::grad;
    use crate::device::Device;
    use crate::device::tests::fresh_devices;
    use crate::ops::conv::ConvOptions;
    use crate::runtime::{Step, plan_cache_stats};
    use crate::shape::Shape;
    use crate::tensor::Tensor;

    /// Numbers that f16 would round.
    fn numbers(shape: impl Into<Shape>, seed: usize, device: &Device) -> Tensor {
        let shape = shape.into();
        let value = |at: usize| ((at + seed) * 7919 % 9973) as f32 / 9973.0 - 0.5;
        let values: Vec<f32> = (0..shape.numel()).map(value).collect();
        Tensor::from_slice(&values, shape, device).expect("as many as there should be")
    }

    fn values(tensors: &[Tensor]) -> Vec<Vec<f32>> {
        tensors.iter().map(|tensor| tensor.to_vec().expect("a value")).collect()
    }

    /// Largest difference as a part of the largest value.
    fn difference(a: &[f32], b: &[f32]) -> f32 {
        let largest =
            |values: &mut dyn Iterator<Item = f32>| values.fold(0.0, |most: f32, value| most.max(value.abs()));
        largest(&mut a.iter().zip(b).map(|(a, b)| a - b)) / largest(&mut b.iter().copied())
    }

    /// Both are off by what sums round, and by more if only one term counts: 2⁻¹² at the least.
    fn is_near(a: &[f32], b: &[f32]) -> bool {
        difference(a, b) < 2f32.powi(-18)
    }

    fn says_if_nothing_changes(device: &Device) {
        if !device.splits_products() {
            use std::io::Write as _;
            let what = "highest precision is all there is";
            let _unseen = writeln!(std::io::stderr(), "{what} on {}, which has no units for f16 alone", device.name());
        }
    }

    #[test]
    fn switching_gives_other_kernels_and_the_first_ones_again() {
        for device in fresh_devices() {
            says_if_nothing_changes(&device);
            // of fewer products, invocations would share sums instead
            let [a, b] = [numbers([301, 131], 0, &device), numbers([131, 290], 5, &device)];
            let product = || values(&[a.matmul(&b)]).remove(0);
            let step = || {
                let (a, b) = (a.clone(), b.clone());
                Step::new(&device, move |_| vec![a.matmul(&b)]).expect("a step")
            };
            let ran = |step: &mut Step| values(&step.run(&[]).expect("it runs")).remove(0);
            let (highest, mut first) = (product(), step());
            let captured = ran(&mut first);
            let misses = plan_cache_stats(&device).misses;
            device.set_matmul_precision(MatmulPrecision::High);
            assert_eq!(device.matmul_precision(), MatmulPrecision::High);
            let (high, mut second) = (product(), step());
            assert_eq!(ran(&mut second), high);
            assert_eq!(ran(&mut first), captured, "a step keeps what it was made with");
            assert_eq!(high != highest, device.splits_products());
            assert_eq!(plan_cache_stats(&device).misses > misses, device.splits_products());
            assert!(is_near(&high, &highest), "{}", difference(&high, &highest));
            device.set_matmul_precision(MatmulPrecision::Highest);
            assert_eq!(product(), highest);
            assert_eq!(ran(&mut second), high, "a step keeps what it was made with");
        }
    }

    #[test]
    fn convolutions_and_their_gradients_follow() {
        for device in fresh_devices() {
            says_if_nothing_changes(&device);
            let results = [MatmulPrecision::Highest, MatmulPrecision::High].map(|precision| {
                device.set_matmul_precision(precision);
                let [x, w] = [numbers([4, 33, 8, 8], 0, &device), numbers([130, 33, 3, 3], 3, &device)];
                let bias = numbers([130], 7, &device);
                let mut step = Step::new(&device, move |_| {
                    let y = x.conv2d(&w, Some(&bias), &ConvOptions::default().padding(1)).relu();
                    let gradients = grad(&y.square().sum(), &[&x, &w]);
                    [vec![y], gradients].concat()
                })
                .expect("a step");
                let info = step.prepare(&[]).expect("it compiles");
                let split =
                    device.wgsl(&info.plan).iter().flatten().filter(|text| text.contains("sum_of_terms(")).count();
                (values(&step.run(&[]).expect("it runs")), split)
            });
            let [(highest, none), (high, split)] = results;
            assert_eq!((none, split), (0, if device.splits_products() { 3 } else { 0 }));
            for (name, (high, highest)) in ["result", "by x", "by w"].iter().zip(high.iter().zip(&highest)) {
                assert_eq!(high != highest, device.splits_products(), "{name}");
                assert!(is_near(high, highest), "{name}: {}", difference(high, highest));
            }
        }
    }
}
