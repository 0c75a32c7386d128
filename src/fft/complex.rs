//! Complex numbers as pairs of tensors.

use std::ops::{Add, Div, Mul, Neg, Sub};

use crate::device::Device;
use crate::dtype::DType;
use crate::graph::refuse;
use crate::shape::Shape;
use crate::tensor::{Axes, Tensor};

/// What is linear in each of two complex numbers. A closure would not know who called.
macro_rules! product {
    ($a:expr, $b:expr, |$x:ident, $y:ident| $product:expr) => {{
        let [own, other] = [[&$a.re, &$a.im], [&$b.re, &$b.im]];
        macro_rules! of {
            ($i:literal, $j:literal) => {{
                let ($x, $y) = (own[$i], other[$j]);
                $product
            }};
        }
        Complex::new(of!(0, 0) - of!(1, 1), of!(0, 1) + of!(1, 0))
    }};
}

/// A tensor of complex numbers: real and imaginary parts, which are ordinary tensors of one shape and type, with
/// gradients as such.
///
/// Both parts are computed with at once, in fused kernels like any others. What does not change numbers, such as a
/// reshape, is done with [`map`](Self::map).
///
/// ```
/// use brasa::fft::Complex;
/// use brasa::{Device, Tensor};
///
/// let device = Device::cpu();
/// let z = Complex::new(Tensor::scalar(3.0_f32, &device), Tensor::scalar(4.0_f32, &device));
/// assert_eq!(z.abs().item::<f32>()?, 5.0);
/// let square = &z * &z;
/// assert_eq!((square.re().item::<f32>()?, square.im().item::<f32>()?), (-7.0, 24.0));
/// # Ok::<(), brasa::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Complex {
    re: Tensor,
    im: Tensor,
}

impl Complex {
    /// Numbers with these parts. PyTorch's `torch.complex`.
    ///
    /// # Panics
    ///
    /// If the parts differ in shape or type, or are no floats.
    #[track_caller]
    #[must_use]
    pub fn new(re: Tensor, im: Tensor) -> Self {
        if (re.shape(), re.dtype()) != (im.shape(), im.dtype()) || !re.dtype().is_float() {
            let parts = [&re, &im].map(|part| format!("{} {}", part.dtype(), part.shape()));
            refuse(format_args!("Complex: real parts {} and imaginary parts {}", parts[0], parts[1]));
        }
        Self { re, im }
    }

    /// Numbers without imaginary parts.
    #[track_caller]
    #[must_use]
    pub fn real(re: &Tensor) -> Self {
        let re = re.floats();
        let im = re.zeros_like();
        Self { re, im }
    }

    /// Numbers of this absolute value and angle, in radians. PyTorch's `torch.polar`.
    #[track_caller]
    #[must_use]
    pub fn polar(abs: &Tensor, angle: &Tensor) -> Self {
        Self::new(abs * angle.cos(), abs * angle.sin())
    }

    /// Numbers whose parts lie side by side: `[..., 2]` → `[...]`. PyTorch's `view_as_complex`.
    ///
    /// # Panics
    ///
    /// If the last axis has another size than 2.
    #[track_caller]
    #[must_use]
    pub fn from_pairs(pairs: &Tensor) -> Self {
        if pairs.rank() == 0 || pairs.size(-1) != 2 {
            refuse(format_args!("Complex::from_pairs: {} has no pairs along its last axis", pairs.shape()));
        }
        let pairs = pairs.floats();
        Self::new(pairs.select(-1, 0), pairs.select(-1, 1))
    }

    /// The parts side by side: `[...]` → `[..., 2]`. PyTorch's `view_as_real`.
    #[track_caller]
    #[must_use]
    pub fn to_pairs(&self) -> Tensor {
        Tensor::stack(&[&self.re, &self.im], -1)
    }

    /// The real parts.
    pub fn re(&self) -> &Tensor {
        &self.re
    }

    /// The imaginary parts.
    pub fn im(&self) -> &Tensor {
        &self.im
    }

    /// The shape.
    pub fn shape(&self) -> &Shape {
        self.re.shape()
    }

    /// The type of the parts.
    pub fn dtype(&self) -> DType {
        self.re.dtype()
    }

    /// The device.
    pub fn device(&self) -> &Device {
        self.re.device()
    }

    /// Both parts changed in the same way.
    ///
    /// ```
    /// use brasa::fft::Complex;
    /// use brasa::{Device, Tensor};
    ///
    /// let z = Complex::real(&Tensor::zeros([2, 3], &Device::cpu()));
    /// assert_eq!(z.map(|part| part.transpose(0, 1).slice(0, 1..)).shape().dims(), [2, 2]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the parts come to differ in shape or type.
    #[track_caller]
    #[must_use]
    pub fn map(&self, change: impl Fn(&Tensor) -> Tensor) -> Self {
        Self::new(change(&self.re), change(&self.im))
    }

    /// With imaginary parts of the other sign.
    #[track_caller]
    #[must_use]
    pub fn conj(&self) -> Self {
        Self { re: self.re.clone(), im: -&self.im }
    }

    /// The sums of the parts' squares.
    #[track_caller]
    #[must_use]
    pub fn norm_sqr(&self) -> Tensor {
        self.re.square() + self.im.square()
    }

    /// Absolute values, finite also where squares would not be. The gradient is zero where the number is.
    #[track_caller]
    #[must_use]
    pub fn abs(&self) -> Tensor {
        self.re.hypot(&self.im).with_gradient(&[&self.re, &self.im], |y, parts, gradient| {
            let zero = y.eq(0.0);
            let slope = gradient / zero.where_(f64::INFINITY, y);
            vec![Some(&parts[0] * &slope), Some(&parts[1] * slope)]
        })
    }

    /// Angles in radians, from -π to π.
    #[track_caller]
    #[must_use]
    pub fn angle(&self) -> Tensor {
        self.im.atan2(&self.re)
    }

    /// The exponential function.
    #[track_caller]
    #[must_use]
    pub fn exp(&self) -> Self {
        Self::polar(&self.re.exp(), &self.im)
    }

    /// Sums along these axes.
    #[track_caller]
    #[must_use]
    pub fn sum_dim(&self, axes: impl Axes + Clone) -> Self {
        Self::new(self.re.sum_dim(axes.clone()), self.im.sum_dim(axes))
    }

    /// The matrix product, as [`Tensor::matmul`] has it.
    #[track_caller]
    #[must_use]
    pub fn matmul(&self, other: &Self) -> Self {
        product!(self, other, |a, b| a.matmul(b))
    }

    /// Sums of products of two, as [`Tensor::einsum`] writes them: `"bik,iok->bok"` mixes channels, each frequency for
    /// itself.
    #[track_caller]
    #[must_use]
    pub fn einsum(equation: &str, a: &Self, b: &Self) -> Self {
        product!(a, b, |a, b| Tensor::einsum(equation, &[a, b]))
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident ($a:ident, $b:ident) $complex:expr, $real:expr;)*) => {$(
        impl $trait<&Complex> for &Complex {
            type Output = Complex;

            #[track_caller]
            fn $method(self, other: &Complex) -> Complex {
                let ($a, $b) = (self, other);
                $complex
            }
        }

        impl $trait<&Tensor> for &Complex {
            type Output = Complex;

            #[track_caller]
            fn $method(self, other: &Tensor) -> Complex {
                let ($a, $b) = (self, other);
                $real
            }
        }

        impl $trait<f32> for &Complex {
            type Output = Complex;

            #[track_caller]
            fn $method(self, other: f32) -> Complex {
                let ($a, $b) = (self, other);
                $real
            }
        }

        impl $trait<f32> for Complex {
            type Output = Complex;

            #[track_caller]
            fn $method(self, other: f32) -> Complex {
                (&self).$method(other)
            }
        }

        operators!(owned $trait $method Complex);
        operators!(owned $trait $method Tensor);
    )*};
    (owned $trait:ident $method:ident $other:ty) => {
        impl $trait<$other> for Complex {
            type Output = Complex;

            #[track_caller]
            fn $method(self, other: $other) -> Complex {
                (&self).$method(&other)
            }
        }

        impl $trait<&$other> for Complex {
            type Output = Complex;

            #[track_caller]
            fn $method(self, other: &$other) -> Complex {
                (&self).$method(other)
            }
        }

        impl $trait<$other> for &Complex {
            type Output = Complex;

            #[track_caller]
            fn $method(self, other: $other) -> Complex {
                self.$method(&other)
            }
        }
    };
}

operators! {
    Add add (a, b) Complex::new(&a.re + &b.re, &a.im + &b.im), shifted(&a.re + b, &a.im);
    Sub sub (a, b) Complex::new(&a.re - &b.re, &a.im - &b.im), shifted(&a.re - b, &a.im);
    Mul mul (a, b) product!(a, b, |a, b| a * b), Complex::new(&a.re * b, &a.im * b);
    Div div (a, b) quotient(a, b), Complex::new(&a.re / b, &a.im / b);
}

impl Neg for &Complex {
    type Output = Complex;

    #[track_caller]
    fn neg(self) -> Complex {
        Complex { re: -&self.re, im: -&self.im }
    }
}

impl Neg for Complex {
    type Output = Self;

    #[track_caller]
    fn neg(self) -> Self {
        -&self
    }
}

/// Real parts that may have been broadcast, and imaginary parts as they were.
#[track_caller]
fn shifted(re: Tensor, im: &Tensor) -> Complex {
    let im = im.expand(re.shape());
    Complex::new(re, im)
}

/// Both are divided by the larger part of the divisor, whose square may not be finite.
#[track_caller]
fn quotient(a: &Complex, b: &Complex) -> Complex {
    let size = b.re.abs().maximum(b.im.abs()).detach();
    let b = b / &size;
    let product = a * b.conj();
    product / b.norm_sqr() / size
}
