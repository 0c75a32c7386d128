//! Sharing a GPU with an application that uses wgpu itself.
//!
//! The application opens the device, best with [`Device::wgpu_descriptor`], and gives it to [`Device::from_wgpu`]. Both
//! then use one queue, so that each sees what the other has submitted before, without waiting and without copies. The
//! version of wgpu has to be brasa's, which is re-exported as [`crate::wgpu`].

use crate::error::Result;
use crate::gpu::{self, Gpu, wgpu};

use super::memory::foreign;
use super::{Backend, Device, Storage};

/// The tensor's node, and whoever asks.
const HOLDERS_OF_A_VALUE: usize = 2;

impl Device {
    /// What brasa would like a device on `adapter` to be opened with; applications add what they need themselves.
    ///
    /// These are all limits of the adapter and, where it has them, the features `SHADER_F16` (without it f16 is stored
    /// but computed in f32), `TIMESTAMP_QUERY` (without it stages are timed by fences, at a submission for each) and
    /// `PIPELINE_CACHE` (without it each process compiles its kernels anew, unless the driver has a cache of its own).
    /// A device with less works too, as long as its limits for buffers and compute shaders are no lower than
    /// WebGPU's defaults: tensors can then be no longer than `max_buffer_size`, and kernels over more than
    /// `max_storage_buffers_per_shader_stage` tensors or `max_storage_buffer_binding_size` bytes are split.
    pub fn wgpu_descriptor(adapter: &wgpu::Adapter) -> wgpu::DeviceDescriptor<'static> {
        gpu::wanted(adapter)
    }

    /// Works on a device that the application has opened on `adapter`, through the same queue.
    ///
    /// The device's callbacks for uncaptured errors and for its loss become brasa's: both parties' errors are returned
    /// by brasa's next call on it. An application that sets its own afterwards keeps brasa from learning of them, so it
    /// then has to stop using brasa on this device when it fails. Its callbacks of finished work and of mapped buffers
    /// run in whatever brasa submits and waits for: they must not call brasa, and if one panics the device is lost.
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

    /// Submits what is recorded: what the application submits from now on comes after it.
    pub(crate) fn submit(&self) -> Result<()> {
        match self.backend() {
            Backend::Cpu(_) => Ok(()),
            Backend::Gpu { gpu, .. } => gpu.flush(),
        }
    }

    /// A buffer that has `bytes` bytes of `storage`, from byte `offset` on, at its start, and that no later work
    /// changes: its own, where it holds nothing but a tensor's value, else a copy.
    pub(crate) fn hand_out(&self, storage: Storage, offset: u64, bytes: u64) -> Result<wgpu::Buffer> {
        let Backend::Gpu { gpu, .. } = self.backend() else { foreign(&storage, self) };
        let own = if storage.holders() <= HOLDERS_OF_A_VALUE && offset == 0 {
            storage
        } else {
            let copy = self.alloc(bytes, "a tensor's buffer")?;
            self.copy(&storage, offset, &copy, 0, bytes)?;
            copy
        };
        gpu.flush()?;
        Ok(own.hand_out())
    }
}
