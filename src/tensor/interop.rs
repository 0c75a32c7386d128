//! Tensors in an application's own wgpu buffers, and buffers for it: see [`Device::from_wgpu`].

use crate::device::{Device, Storage};
use crate::dtype::DType;
use crate::error::Result;
use crate::gpu::wgpu;
use crate::graph::{Memory, Node, Source};
use crate::runtime;
use crate::shape::Shape;

use super::Tensor;

impl Tensor {
    /// The contents of a buffer as a tensor, without a copy: row-major elements from byte 0 on, as
    /// [`Tensor::from_bytes`] takes them.
    ///
    /// Brasa never writes to it. The tensor is what the buffer holds when something is computed from it, so what the
    /// application submits later shows in what is computed later; it must not be mapped meanwhile.
    ///
    /// # Panics
    /// If `device` is no GPU, or the buffer is not of a multiple of 16 bytes that the shape fits in, or lacks one of
    /// the usages `STORAGE`, `COPY_SRC` and `COPY_DST`. A buffer of another wgpu device is an error of the next call.
    #[track_caller]
    pub fn from_wgpu_buffer(buffer: &wgpu::Buffer, shape: impl Into<Shape>, dtype: DType, device: &Device) -> Self {
        let shape = shape.into().in_memory("from_wgpu_buffer");
        let bytes = shape.bytes(dtype);
        assert!(!device.is_cpu(), "from_wgpu_buffer: {} does not use wgpu", device.name());
        assert!(
            buffer.size() >= bytes && buffer.size().is_multiple_of(16) && buffer.size() > 0,
            "from_wgpu_buffer: a buffer of {} bytes for {dtype}{shape}, which takes {} in multiples of 16",
            buffer.size(),
            bytes.max(1).next_multiple_of(16),
        );
        let needed = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        let lacking = needed - buffer.usage();
        assert!(lacking.is_empty(), "from_wgpu_buffer: the buffer lacks the usages {lacking:?}");
        let storage = Storage::foreign(bytes, buffer.clone());
        Self::from_node(Node::leaf(Source::Memory(Memory::new(storage, 0)), shape, dtype, device))
    }

    /// A buffer with its value: row-major elements from byte 0 on, with zeros or nothing of meaning behind them.
    ///
    /// What the application submits to the device's queue from now on reads the value, and no later work of brasa's
    /// changes it, for as long as the buffer is held. To be sure of that, the values of variables and the outputs of
    /// steps, whose memory is written again, are copied on the device; everything else is handed out as it is. The
    /// application must not write to it while tensors are computed from this one.
    ///
    /// # Errors
    /// If the value cannot be computed or there is no memory.
    ///
    /// # Panics
    /// If it is on the CPU.
    #[track_caller]
    pub fn wgpu_buffer(&self) -> Result<wgpu::Buffer> {
        let device = self.device();
        assert!(!device.is_cpu(), "wgpu_buffer: {} does not use wgpu", device.name());
        let _exclusive = device.exclusive();
        runtime::realize(std::slice::from_ref(self.node()))?;
        let (storage, offset) = self.node().value().expect("it was just computed").get();
        let start = (offset * self.dtype().size_bytes()) as u64;
        device.hand_out(storage, start, self.shape().bytes(self.dtype()))
    }
}
