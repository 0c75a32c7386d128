//! Memory on a device.

use std::fmt;
use std::sync::Arc;

use crate::{cpu, gpu};

use super::Device;

/// Memory on a device, shared by its holders; it is given back when the last one drops it.
#[derive(Clone)]
pub struct Storage(Arc<Inner>);

struct Inner {
    device: Device,
    bytes: u64,
    capacity: u64,
    memory: StorageMemory,
}

/// The memory itself.
pub(super) enum StorageMemory {
    /// On the CPU.
    Cpu(cpu::Memory),
    /// On a GPU.
    Gpu(gpu::Buffer),
}

impl Storage {
    /// Takes memory whose bytes are already in the device's ledger.
    pub(super) fn new(device: &Device, bytes: u64, capacity: u64, memory: StorageMemory) -> Self {
        Self(Arc::new(Inner { device: device.clone(), bytes, capacity, memory }))
    }

    /// Where it is.
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// How many bytes were asked for.
    pub fn bytes(&self) -> u64 {
        self.0.bytes
    }

    /// How many bytes there are, a multiple of 16.
    pub fn capacity(&self) -> u64 {
        self.0.capacity
    }

    pub(super) fn memory(&self) -> &StorageMemory {
        &self.0.memory
    }
}

impl PartialEq for Storage {
    /// True for the same memory, not for the same contents.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Storage {}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Storage({} bytes on {})", self.0.bytes, self.0.device.name())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.device.ledger().remove(self.capacity);
    }
}
