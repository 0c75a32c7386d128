//! Sharing a GPU with an application that uses wgpu itself.
//!
//! The application opens the device, best with [`Device::wgpu_descriptor`], and gives it to [`Device::from_wgpu`]. Both
//! then use one queue, so that each sees what the other has submitted before, without waiting and without copies. The
//! version of wgpu has to be brasa's, which is re-exported as [`crate::wgpu`].

use crate::dtype::DType;
use crate::error::Result;
use crate::gpu::{self, Gpu, wgpu};
use crate::graph::{Memory, Node, Source};
use crate::runtime;
use crate::shape::Shape;
use crate::tensor::Tensor;

use super::{Backend, Device, Storage};

impl Device {
    /// What brasa would like a device on `adapter` to be opened with; applications add what they need themselves.
    ///
    /// These are all limits of the adapter and, where it has them, the features `SHADER_F16` (without it f16 is stored
    /// but computed in f32) and `TIMESTAMP_QUERY` (without it stages are timed by fences, at a submission for each).
    /// A device with less works too, as long as its limits for buffers and compute shaders are no lower than
    /// WebGPU's defaults: tensors can then be no longer than `max_buffer_size`, and kernels over more than
    /// `max_storage_buffers_per_shader_stage` tensors or `max_storage_buffer_binding_size` bytes are split.
    pub fn wgpu_descriptor(adapter: &wgpu::Adapter) -> wgpu::DeviceDescriptor<'static> {
        gpu::wanted(adapter)
    }

    /// Works on a device that the application has opened on `adapter`, through the same queue.
    ///
    /// The device's callbacks for uncaptured errors and for its loss become brasa's: both parties' errors are returned by
    /// brasa's next call on it. An application that sets its own afterwards keeps brasa from learning of them, so it
    /// then has to stop using brasa on this device when it fails.
    ///
    /// # Errors
    /// If the device's limits for buffers or compute shaders are below WebGPU's defaults, naming them, or it is lost.
    pub fn from_wgpu(adapter: &wgpu::Adapter, device: wgpu::Device, queue: wgpu::Queue) -> Result<Self> {
        let (gpu, info) = Gpu::adopt(adapter, device, queue)?;
        Ok(Self::on_gpu(gpu, info, gpu::identity(adapter)))
    }

    /// wgpu's device and queue, for work of the application's own; `None` on the CPU.
    pub fn wgpu(&self) -> Option<(&wgpu::Device, &wgpu::Queue)> {
        match self.backend() {
            Backend::Cpu(_) => None,
            Backend::Gpu { gpu, .. } => Some(gpu.raw()),
        }
    }
}

impl Tensor {
    /// The contents of a buffer as a tensor, without a copy: row-major elements from byte 0 on, as
    /// [`Tensor::from_bytes`] takes them.
    ///
    /// Brasa never writes to it. The tensor is what the buffer holds when something is computed from it, so what the
    /// application submits later shows in what is computed later; it must not be mapped meanwhile.
    ///
    /// # Panics
    /// If `device` is no GPU, or the buffer is not of a multiple of 16 bytes that the shape fits in, or lacks one of the
    /// usages `STORAGE`, `COPY_SRC` and `COPY_DST`. A buffer of another wgpu device is an error of the next call.
    #[track_caller]
    pub fn from_wgpu_buffer(buffer: &wgpu::Buffer, shape: impl Into<Shape>, dtype: DType, device: &Device) -> Self {
        let shape = shape.into();
        let bytes = (shape.numel() * dtype.size_bytes()) as u64;
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
        let Backend::Gpu { gpu, .. } = device.backend() else {
            panic!("wgpu_buffer: {} does not use wgpu", device.name())
        };
        let _exclusive = device.exclusive();
        runtime::realize(std::slice::from_ref(self.node()))?;
        let (storage, offset) = self.node().value().expect("it was just computed").get();
        let size = self.dtype().size_bytes();
        let bytes = (self.shape().numel() * size) as u64;
        let own = if storage.holders() <= HOLDERS_OF_A_VALUE && offset == 0 {
            storage
        } else {
            let copy = device.alloc(bytes, "a tensor's buffer")?;
            device.copy(&storage, (offset * size) as u64, &copy, 0, bytes)?;
            copy
        };
        gpu.flush()?;
        Ok(own.hand_out())
    }
}

/// The tensor's node, and whoever asks.
const HOLDERS_OF_A_VALUE: usize = 2;
