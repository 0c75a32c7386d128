//! Activations as modules, under PyTorch's names and with its defaults; each calls the method of [`Tensor`] that says
//! more.

use crate::error::Result;
use crate::runtime::Var;
use crate::tensor::Tensor;
use crate::variables;

use super::module::Scope;
use super::{Init, Initial, Mode, Module};

/// Modules without variables or options.
macro_rules! plain {
    ($($(#[$doc:meta])* $name:ident = $method:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct $name;

        variables!($name);

        impl Module for $name {
            #[track_caller]
            fn forward(&self, input: &Tensor) -> Tensor {
                input.$method()
            }
        }
    )*};
}

plain! {
    /// [`Tensor::relu`]: `max(x, 0)`.
    ReLU = relu;
    /// [`Tensor::relu6`]: `min(max(x, 0), 6)`.
    ReLU6 = relu6;
    /// [`Tensor::gelu`], exact: `x · Φ(x)`.
    GELU = gelu;
    /// [`Tensor::gelu_tanh`]: PyTorch's `GELU(approximate="tanh")`.
    GELUTanh = gelu_tanh;
    /// [`Tensor::silu`]: `x · sigmoid(x)`.
    SiLU = silu;
    /// [`Tensor::mish`]: `x · tanh(softplus(x))`.
    Mish = mish;
    /// [`Tensor::selu`]: ELU scaled so that mean and variance stay.
    SELU = selu;
    /// [`Tensor::sigmoid`]: `1 / (1 + e^-x)`.
    Sigmoid = sigmoid;
    /// [`Tensor::log_sigmoid`]: the logarithm of the sigmoid.
    LogSigmoid = log_sigmoid;
    /// [`Tensor::tanh`]: the hyperbolic tangent.
    Tanh = tanh;
    /// [`Tensor::tanhshrink`]: `x - tanh(x)`.
    Tanhshrink = tanhshrink;
    /// [`Tensor::softsign`]: `x / (1 + |x|)`.
    Softsign = softsign;
    /// [`Tensor::hardsigmoid`]: `min(max(x / 6 + 1/2, 0), 1)`.
    Hardsigmoid = hardsigmoid;
    /// [`Tensor::hardswish`]: `x · hardsigmoid(x)`.
    Hardswish = hardswish;
}

/// Modules without variables that have options, public fields with PyTorch's defaults.
macro_rules! with_options {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty = $default:expr),* } = $method:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Debug)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type),*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default),* }
            }
        }

        variables!($name);

        impl Module for $name {
            #[track_caller]
            fn forward(&self, input: &Tensor) -> Tensor {
                input.$method($(self.$field),*)
            }
        }
    )*};
}

with_options! {
    /// [`Tensor::leaky_relu`]: `x` where positive, else `slope · x`.
    LeakyReLU {
        /// The slope of the negative side.
        slope: f64 = 0.01
    } = leaky_relu;
    /// [`Tensor::elu`]: `x` where positive, else `alpha · (e^x - 1)`.
    ELU {
        /// Minus the limit at negative infinity.
        alpha: f64 = 1.0
    } = elu;
    /// [`Tensor::celu`]: `x` where positive, else `alpha · (e^(x / alpha) - 1)`.
    CELU {
        /// Minus the limit at negative infinity.
        alpha: f64 = 1.0
    } = celu;
    /// [`Tensor::softplus_with`]: `ln(1 + e^(beta x)) / beta`, `x` where `beta x` is above the threshold.
    Softplus {
        /// How sharp the bend is.
        beta: f64 = 1.0,
        /// From where on it is linear.
        threshold: f64 = 20.0
    } = softplus_with;
    /// [`Tensor::hardtanh`]: `x` limited to `low..high`.
    Hardtanh {
        /// The least value.
        low: f64 = -1.0,
        /// The largest value.
        high: f64 = 1.0
    } = hardtanh;
    /// [`Tensor::softshrink`]: `x` moved towards 0 by `width`.
    Softshrink {
        /// By how much.
        width: f64 = 0.5
    } = softshrink;
    /// [`Tensor::hardshrink`]: `x`, 0 where nearer to it than `width`.
    Hardshrink {
        /// From where on values stay.
        width: f64 = 0.5
    } = hardshrink;
    /// [`Tensor::glu`]: the first half along `axis` times the sigmoid of the second.
    GLU {
        /// The axis that is halved.
        axis: isize = -1
    } = glu;
    /// [`Tensor::softmax`] along `axis`, the last unless set.
    Softmax {
        /// The axis that sums to 1.
        axis: isize = -1
    } = softmax;
    /// [`Tensor::softmin`] along `axis`, the last unless set.
    Softmin {
        /// The axis that sums to 1.
        axis: isize = -1
    } = softmin;
    /// [`Tensor::log_softmax`] along `axis`, the last unless set.
    LogSoftmax {
        /// The axis whose exponentials sum to 1.
        axis: isize = -1
    } = log_softmax;
}

/// [`Tensor::prelu`]: `x` where positive, else `weight · x` (He et al., arXiv 1502.01852).
#[derive(Debug)]
pub struct PReLU {
    /// `[1]`, or `[channels]` (axis 1).
    pub weight: Var,
    scope: Scope,
}

impl PReLU {
    /// One slope, or one for each of `count` channels; a quarter at first.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    pub fn new(count: usize, init: &Init) -> Result<Self> {
        Ok(Self {
            weight: init.parameter("weight", count, Initial::Constant(0.25))?,
            scope: Scope::new("PReLU", init.path()),
        })
    }
}

variables!(PReLU: weight);

impl Module for PReLU {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        let _scope = self.scope.enter();
        input.prelu(&self.weight.tensor())
    }
}

/// `x` where positive, else `slope · x`; in training a slope drawn for each element between the two, in use their mean
/// (Xu et al., arXiv 1505.00853).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RReLU {
    /// The least slope.
    pub lower: f64,
    /// The largest slope.
    pub upper: f64,
}

impl Default for RReLU {
    fn default() -> Self {
        Self { lower: 1.0 / 8.0, upper: 1.0 / 3.0 }
    }
}

variables!(RReLU);

impl Module for RReLU {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        let Self { lower, upper } = *self;
        if Mode::current() == Mode::Evaluate {
            return input.leaky_relu((lower + upper) / 2.0);
        }
        let slope = Tensor::rand(input.shape(), input.device()).to_dtype(input.dtype()) * (upper - lower) + lower;
        input.le(0.0).where_(input * slope, input)
    }
}
