//! New tensors.

use crate::device::{Device, Purpose};
use crate::dtype::{DType, Element, Scalar};
use crate::error::Result;
use crate::graph::{Memory, Node, Op, Source};
use crate::shape::Shape;

use super::{Operand, Tensor};

impl Tensor {
    /// Zeros of type f32.
    #[track_caller]
    pub fn zeros(shape: impl Into<Shape>, device: &Device) -> Self {
        Self::zeros_of(shape, DType::F32, device)
    }

    /// Zeros of any type.
    #[track_caller]
    pub fn zeros_of(shape: impl Into<Shape>, dtype: DType, device: &Device) -> Self {
        Self::constant(shape.into().in_memory("zeros"), Scalar::new(dtype, 0.0), device)
    }

    /// Ones of type f32.
    #[track_caller]
    pub fn ones(shape: impl Into<Shape>, device: &Device) -> Self {
        Self::ones_of(shape, DType::F32, device)
    }

    /// Ones of any type.
    #[track_caller]
    pub fn ones_of(shape: impl Into<Shape>, dtype: DType, device: &Device) -> Self {
        Self::constant(shape.into().in_memory("ones"), Scalar::new(dtype, 1.0), device)
    }

    /// The same value everywhere; it takes no memory.
    #[track_caller]
    pub fn full<T: Element>(shape: impl Into<Shape>, value: T, device: &Device) -> Self {
        let mut bits = [0; 4];
        let value = [value];
        let bytes = T::to_bytes(&value);
        bits[..bytes.len()].copy_from_slice(&bytes);
        let shape = shape.into().in_memory("full");
        Self::constant(shape, Scalar { dtype: T::DTYPE, bits: u32::from_le_bytes(bits) }, device)
    }

    /// One number, of shape `[]`.
    #[track_caller]
    pub fn scalar<T: Element>(value: T, device: &Device) -> Self {
        Self::full([], value, device)
    }

    /// A value of shape, type and device of `self`.
    #[track_caller]
    #[must_use]
    pub fn full_like(&self, value: impl Into<Operand>) -> Self {
        value.into().into_tensor(self.shape(), self.dtype(), self.device())
    }

    /// Zeros of shape, type and device of `self`.
    #[track_caller]
    #[must_use]
    pub fn zeros_like(&self) -> Self {
        self.full_like(0)
    }

    /// Ones of shape, type and device of `self`.
    #[track_caller]
    #[must_use]
    pub fn ones_like(&self) -> Self {
        self.full_like(1)
    }

    /// The integers from 0 up to `end`, not included, as i32.
    #[track_caller]
    pub fn arange(end: usize, device: &Device) -> Self {
        Self::iota(Shape::from(end).in_memory("arange"), 0, device)
    }

    /// The numbers `start + i · step` up to `end`, not included, as f32.
    #[track_caller]
    pub fn arange_step(start: f64, end: f64, step: f64, device: &Device) -> Self {
        let count = ((end - start) / step).ceil();
        assert!(step != 0.0 && count >= 0.0, "arange_step: from {start} to {end} by {step}");
        Self::arange(count as usize, device).to_dtype(DType::F32) * step + start
    }

    /// `steps` numbers from `start` to `end`, both included, equally far apart, as f32. Both ends are exact.
    ///
    /// ```
    /// # use brasa::{Device, Tensor};
    /// let device = Device::cpu();
    /// assert_eq!(Tensor::linspace(0.0, 1.0, 5, &device).to_vec::<f32>()?, [0.0, 0.25, 0.5, 0.75, 1.0]);
    /// assert_eq!(Tensor::eye(2, &device).to_vec::<f32>()?, [1.0, 0.0, 0.0, 1.0]);
    /// assert_eq!(Tensor::from_iter((0..3).map(|i| i * i), &device)?.to_vec::<i32>()?, [0, 1, 4]);
    /// # Ok::<(), brasa::Error>(())
    /// ```
    #[track_caller]
    pub fn linspace(start: f64, end: f64, steps: usize, device: &Device) -> Self {
        let last = steps.saturating_sub(1);
        let step = if last > 0 { (end - start) / last as f64 } else { 0.0 };
        let number = Self::arange(steps, device);
        let up = number.to_dtype(DType::F32) * step;
        let down = (last as i32 - &number).to_dtype(DType::F32) * step;
        number.lt(steps.div_ceil(2) as i64).where_(up + start, end - down)
    }

    /// `base` to the powers of [`Tensor::linspace`].
    #[track_caller]
    pub fn logspace(start: f64, end: f64, steps: usize, base: f64, device: &Device) -> Self {
        let exponent = Self::linspace(start, end, steps, device);
        exponent.full_like(base).pow(exponent)
    }

    /// `[size, size]`, one on the diagonal and zero elsewhere, as f32.
    #[track_caller]
    pub fn eye(size: usize, device: &Device) -> Self {
        Self::identity([size, size], device)
    }

    /// The same with other numbers of rows and columns.
    #[track_caller]
    pub(crate) fn identity(shape: [usize; 2], device: &Device) -> Self {
        let shape = Shape::from(shape).in_memory("eye");
        Self::iota(&shape, 0, device).eq(Self::iota(&shape, 1, device)).to_dtype(DType::F32)
    }

    /// The elements of a slice, in row-major order, copied to the device.
    ///
    /// # Errors
    ///
    /// If the device has no memory left or is lost.
    ///
    /// # Panics
    ///
    /// If the shape has another number of elements.
    #[track_caller]
    pub fn from_slice<T: Element>(values: &[T], shape: impl Into<Shape>, device: &Device) -> Result<Self> {
        let shape = shape.into();
        assert!(shape.numel() == values.len(), "from_slice: {} elements for shape {shape}", values.len());
        Self::from_bytes(&T::to_bytes(values), shape, T::DTYPE, device)
    }

    /// The elements of a vector, as an axis of their number, copied to the device.
    ///
    /// # Errors
    ///
    /// If the device has no memory left or is lost.
    #[track_caller]
    pub fn from_vec<T: Element>(values: Vec<T>, device: &Device) -> Result<Self> {
        Self::from_slice(&values, [values.len()], device)
    }

    /// The elements of an iterator, as an axis of their number, copied to the device.
    ///
    /// # Errors
    ///
    /// If the device has no memory left or is lost.
    #[track_caller]
    pub fn from_iter<T: Element>(values: impl IntoIterator<Item = T>, device: &Device) -> Result<Self> {
        Self::from_vec(values.into_iter().collect(), device)
    }

    /// Elements as they lie in memory, in row-major order, copied to the device. Any byte but 0 is a `true`.
    ///
    /// # Errors
    ///
    /// If the device has no memory left or is lost.
    ///
    /// # Panics
    ///
    /// If the number of bytes is not that of the shape's elements.
    #[track_caller]
    pub fn from_bytes(bytes: &[u8], shape: impl Into<Shape>, dtype: DType, device: &Device) -> Result<Self> {
        let shape = shape.into().in_memory("from_bytes");
        let expected = shape.numel() * dtype.size_bytes();
        assert!(
            bytes.len() == expected,
            "from_bytes: {} bytes for {dtype}{shape}, which takes {expected}",
            bytes.len()
        );
        let purpose = Purpose::value("a tensor", dtype, &shape, std::panic::Location::caller());
        let storage = device.alloc_pooled(expected as u64, purpose)?;
        device.write(&storage, 0, &dtype.canonical(bytes))?;
        Ok(Self::from_node(Node::leaf(Source::Memory(Memory::new(storage, 0)), shape, dtype, device)))
    }

    /// The coordinate along `axis`, as i32.
    #[track_caller]
    pub(crate) fn iota(shape: impl Into<Shape>, axis: usize, device: &Device) -> Self {
        Self::from_node(Node::new(Op::Iota { axis }, Vec::new(), shape.into(), DType::I32, device))
    }

    /// The same element everywhere.
    #[track_caller]
    pub(crate) fn constant(shape: impl Into<Shape>, value: Scalar, device: &Device) -> Self {
        Self::from_node(Node::new(Op::Const(value), Vec::new(), shape.into(), value.dtype, device))
    }
}
