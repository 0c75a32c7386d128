//! Mixed precision: products in f16, everything that needs its digits in f32.

use crate::dtype::DType;
use crate::graph::Scopes;

use super::Tensor;

/// Runs `f` with products (matrix products, convolutions, attention, linear layers) of floats computed from operands of
/// type `dtype`, and with results of that type; their sums are f32 all the same. Normalisation and softmax of what
/// comes out of them are computed in f32, and so is what has operands of both types, element by element or side by
/// side. Parameters stay as they are: a cast is part of the kernel that reads them, and its gradient comes back in the
/// parameter's own type. PyTorch's `torch.autocast`.
///
/// Together with [`LossScaler`](crate::optim::LossScaler) this is the mixed precision of Micikevicius et al. 2018
/// (arXiv 1710.03740).
///
/// ```
/// use brasa::tensor::autocast;
/// use brasa::{DType, Device, Tensor};
///
/// let x = Tensor::ones([2, 2], &Device::cpu());
/// assert_eq!(autocast(DType::F16, || x.matmul(&x)).dtype(), DType::F16);
/// assert_eq!(x.matmul(&x).dtype(), DType::F32);
/// let residual = autocast(DType::F16, || &x + x.matmul(&x));
/// assert_eq!((residual.dtype(), residual.to_vec::<f32>()?), (DType::F32, vec![3.0; 4]));
/// assert_eq!(autocast(DType::F16, || Tensor::cat(&[&x, &x.matmul(&x)], 0)).dtype(), DType::F32);
/// # Ok::<(), brasa::Error>(())
/// ```
///
/// # Panics
/// If `dtype` is not a float.
#[track_caller]
pub fn autocast<T>(dtype: DType, f: impl FnOnce() -> T) -> T {
    assert!(dtype.is_float(), "autocast: {dtype} is not a float");
    Scopes::with(|scopes| scopes.products = Some(dtype), f)
}

impl Tensor {
    /// An operand of a product, as the [`autocast`] under way has it.
    #[track_caller]
    pub(super) fn operand_of_product(&self) -> Self {
        match Scopes::current().products {
            Some(dtype) if self.dtype().is_float() => self.to_dtype(dtype),
            _ => self.clone(),
        }
    }

    /// Under an [`autocast`]: in f32, if it is a float.
    #[track_caller]
    pub(crate) fn full_precision(&self) -> Self {
        if Scopes::current().products.is_some() && self.dtype().is_float() {
            self.to_dtype(DType::F32)
        } else {
            self.clone()
        }
    }

    /// What was computed of `input` in [full precision](Self::full_precision), in its type again.
    #[track_caller]
    pub(crate) fn in_type_of(&self, input: &Self) -> Self {
        if Scopes::current().products.is_some() { self.to_dtype(input.dtype()) } else { self.clone() }
    }
}
