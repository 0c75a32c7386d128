//! Values back on the host.

use crate::device::Reading;
use crate::dtype::{DType, Element, Scalar};
use crate::error::Result;
use crate::graph::{Memory, Op};

use super::Tensor;

impl Tensor {
    /// Computes the value now, if it is not computed yet.
    ///
    /// # Errors
    ///
    /// If the device fails, or in a captured step.
    #[track_caller]
    pub fn realize(&self) -> Result<()> {
        self.memory().map(drop)
    }

    #[track_caller]
    fn memory(&self) -> Result<Memory> {
        if let Some(memory) = self.node.value() {
            return Ok(memory);
        }
        crate::runtime::realize(std::slice::from_ref(&self.node))?;
        Ok(self.node.value().expect("realize computes the value"))
    }

    /// All elements in row-major order; computes them and waits.
    ///
    /// # Errors
    ///
    /// If the device fails, or in a captured step.
    ///
    /// # Panics
    ///
    /// If the elements are of another type.
    #[track_caller]
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        self.assert_type::<T>("to_vec");
        self.elements_blocking()
    }

    /// All elements in row-major order, without blocking the thread.
    ///
    /// # Errors
    ///
    /// If the device fails, or in a captured step.
    ///
    /// # Panics
    ///
    /// If the elements are of another type.
    #[track_caller]
    pub fn to_vec_async<T: Element>(&self) -> impl Future<Output = Result<Vec<T>>> {
        self.assert_type::<T>("to_vec_async");
        self.elements()
    }

    /// The only element; computes it and waits.
    ///
    /// # Errors
    ///
    /// If the device fails, or in a captured step.
    ///
    /// # Panics
    ///
    /// If there is not exactly one element, or it is of another type.
    #[track_caller]
    pub fn item<T: Element>(&self) -> Result<T> {
        assert!(self.numel() == 1, "item: {} has {} elements; use to_vec", self.shape(), self.numel());
        self.assert_type::<T>("item");
        Ok(self.elements_blocking()?[0])
    }

    /// All elements as they lie in memory, in row-major order, without blocking the thread.
    ///
    /// # Errors
    ///
    /// If the device fails, or in a captured step.
    pub async fn to_bytes(&self) -> Result<Vec<u8>> {
        self.elements().await
    }

    async fn elements<T: Element>(&self) -> Result<Vec<T>> {
        if self.is_constant() {
            return Ok(T::from_bytes(&self.constant_bytes()));
        }
        self.reading()?.watched().await
    }

    /// Has the device copy the elements now, behind the work that it was given before, to be waited for later.
    #[track_caller]
    pub(crate) fn begin_read<T: Element>(&self) -> Result<impl Future<Output = Result<Vec<T>>> + Send + use<T>> {
        Ok(self.reading()?.watched())
    }

    #[track_caller]
    fn reading<T: Element>(&self) -> Result<Reading<T>> {
        let _exclusive = self.device().exclusive();
        let (storage, first) = self.memory()?.get();
        let size = self.dtype().size_bytes();
        Ok(self.device().begin_read(&storage, (first * size) as u64, (self.numel() * size) as u64))
    }

    #[track_caller]
    fn elements_blocking<T: Element>(&self) -> Result<Vec<T>> {
        if self.is_constant() {
            return Ok(T::from_bytes(&self.constant_bytes()));
        }
        self.reading()?.now()
    }

    /// True if no device is needed.
    fn is_constant(&self) -> bool {
        self.numel() == 0 || matches!(self.node.op, Op::Const(_))
    }

    fn constant_bytes(&self) -> Vec<u8> {
        match self.node.op {
            Op::Const(Scalar { bits, .. }) => bits.to_le_bytes()[..self.dtype().size_bytes()].repeat(self.numel()),
            _ => Vec::new(),
        }
    }

    /// All elements as f64, whatever their type.
    #[track_caller]
    pub(crate) fn to_f64_vec(&self) -> Result<Vec<f64>> {
        Ok(crate::graph::reference::decode(self.dtype(), &self.elements_blocking::<u8>()?))
    }

    #[track_caller]
    fn assert_type<T: Element>(&self, name: &str) {
        let wanted: DType = T::DTYPE;
        assert!(self.dtype() == wanted, "{name}: the elements are {}, not {wanted}; cast with to_dtype", self.dtype());
    }
}
