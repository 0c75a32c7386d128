//! How exactly products of f32 are computed.

use serde::{Deserialize, Serialize};

/// How exactly the products of f32 in matrix products and convolutions are computed, their gradients included; to be set with
/// [`Device::set_matmul_precision`](crate::Device::set_matmul_precision). PyTorch's
/// `torch.set_float32_matmul_precision`.
///
/// # `High`
///
/// Where a GPU has units that multiply small matrices of f16 and sum in f32, but none for f32 (tensor cores, and AMD's), an
/// operand x is the sum of two f16: hi = f16(x) and lo = f16((x − hi) · 2¹¹), which keep 22 of its 24 bits. A result is
/// Σ hi·hi + 2⁻¹¹ · Σ (hi·lo + lo·hi), each product exact and both sums in f32 (Markidis et al. 2018; Ootomo and Yokota 2022,
/// arXiv 2203.03341). Such a device tries the conversions and the units when it is opened.
///
/// **Error.** Of Σ a·b, beside the rounding of the sums, at most
///
/// > Σ (2⁻²¹ · |a·b| + 2⁻³⁵ · (|a| + |b|) + 2⁻⁴⁹).
///
/// The first term alone counts where all operands are 0 or at least 2⁻¹⁴ (6e-5) in size: four times what rounding the operands
/// to f32 does, and a 512th of what rounding them to f16 does. The others are there because f16 ends at 2⁻²⁴: smaller operands lose relative precision, at 1e-9
/// to about 1 %. So gradients of a mean over very many elements may want a loss that is scaled up. The order of the sums is
/// the units' own, and NVIDIA's are known to cut off instead of rounding, which costs up to 2⁻²³ · Σ |a·b| for each matrix
/// they add.
///
/// **Range.** An operand that rounds to more than f16's largest number, 65504 (from 65520 on), or that is infinite or NaN,
/// makes the results that it takes part in NaN. They are not clamped, so that a training finds them
/// ([`check_finite`](crate::runtime::check_finite)), as it finds an overflow.
///
/// **Elsewhere** it changes nothing, not a bit: on the CPU, on GPUs without such units or with units for f32 (Apple), in
/// products of few rows or columns, in attention without its own mask (which is one kernel), and in f16.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum MatmulPrecision {
    /// Products of 32-bit floats as they are
    #[default]
    Highest,
    /// Sums of products of 16-bit floats, good to 21 bits, where a GPU's matrix units multiply only those; elsewhere as highest
    High,
}
