//! What almost every program needs: `use brasa::prelude::*;`.
//!
//! ```
//! use brasa::prelude::*;
//!
//! # fn main() -> Result<()> {
//! let device = Device::cpu();
//! let layer = nn::Linear::new(2, 3, &Init::new(&device, 0))?;
//! assert_eq!(layer.forward(&Tensor::ones([1, 2], &device)).shape().dims(), [1, 3]);
//! # Ok(())
//! # }
//! ```

pub use crate::nn::{Init, Module, Variables};
pub use crate::optim::Optimizer;
pub use crate::runtime::{Step, Var};
pub use crate::{DType, Device, Error, Result, Shape, Tensor, nn, no_grad, optim, variables};
