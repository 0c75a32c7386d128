//! Memory on a device.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::free_list::FreeList;
use crate::{cpu, gpu};

use super::usage::Claim;

/// Memory on a device, shared by its holders; it is given back when the last one drops it.
#[derive(Clone)]
pub struct Storage(Arc<Inner>);

struct Inner {
    bytes: u64,
    capacity: u64,
    memory: StorageMemory,
    /// Where the memory waits for reuse once it is dropped.
    pool: Option<Arc<Pool>>,
    /// Others hold the buffer itself, so it must not be used again.
    handed_out: AtomicBool,
    /// Its entry in the device's ledger.
    claim: Option<Claim>,
}

/// The memory itself.
pub(super) enum StorageMemory {
    /// On the CPU.
    Cpu(cpu::Memory),
    /// On a GPU.
    Gpu(gpu::Buffer),
    /// Not there yet: a plan is made for it, and bound to other memory in its place.
    Planned,
}

/// Buffers of a GPU that wait for reuse. What was given to the GPU before still finds its contents: work is done in
/// order.
#[derive(Debug)]
pub(super) struct Pool(Mutex<FreeList<gpu::Buffer>>);

impl Pool {
    pub(super) fn new(limit_bytes: u64) -> Arc<Self> {
        Arc::new(Self(Mutex::new(FreeList::new(limit_bytes))))
    }

    fn list(&self) -> std::sync::MutexGuard<'_, FreeList<gpu::Buffer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn take(&self, capacity: u64) -> Option<gpu::Buffer> {
        self.list().take(capacity).map(|(_, buffer)| buffer)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.list().bytes()
    }

    /// Gives all of it back to the driver.
    pub(super) fn release(&self) {
        let gone = self.list().drain();
        drop(gone);
    }
}

impl Storage {
    /// Memory that `claim` has put on the device's ledger.
    pub(super) fn new(bytes: u64, capacity: u64, memory: StorageMemory, pool: Option<Arc<Pool>>, claim: Claim) -> Self {
        Self(Arc::new(Inner { bytes, capacity, memory, pool, handed_out: AtomicBool::new(false), claim: Some(claim) }))
    }

    /// The first `bytes` bytes of a buffer that is not brasa's, and not on its ledger.
    pub(crate) fn foreign(bytes: u64, buffer: gpu::Buffer) -> Self {
        let (capacity, handed_out) = (buffer.size(), AtomicBool::new(true));
        let memory = StorageMemory::Gpu(buffer);
        Self(Arc::new(Inner { bytes, capacity, memory, pool: None, handed_out, claim: None }))
    }

    /// Stands for memory of `bytes` bytes in a program that is planned before there is any.
    pub(crate) fn planned(bytes: u64) -> Self {
        let memory = StorageMemory::Planned;
        Self(Arc::new(Inner {
            bytes,
            capacity: bytes,
            memory,
            pool: None,
            handed_out: AtomicBool::new(false),
            claim: None,
        }))
    }

    /// Whether it is an application's buffer.
    pub(crate) fn is_foreign(&self) -> bool {
        self.0.claim.is_none() && matches!(self.0.memory, StorageMemory::Gpu(_))
    }

    /// How many bytes were asked for.
    pub fn bytes(&self) -> u64 {
        self.0.bytes
    }

    /// How many bytes there are, a multiple of 16.
    pub fn capacity(&self) -> u64 {
        self.0.capacity
    }

    /// How many handles there are to it.
    pub(super) fn holders(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    /// Its buffer, for others to hold for as long as they like.
    pub(super) fn hand_out(&self) -> gpu::Buffer {
        self.0.handed_out.store(true, Ordering::Relaxed);
        self.gpu().clone()
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
        let place = match self.0.memory {
            StorageMemory::Cpu(_) => "on the CPU",
            StorageMemory::Gpu(_) => "on a GPU",
            StorageMemory::Planned => "not there yet",
        };
        write!(f, "Storage({} bytes, {place})", self.0.bytes)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let (Some(pool), StorageMemory::Gpu(buffer), false) = (&self.pool, &self.memory, *self.handed_out.get_mut())
        {
            let gone = pool.list().keep(buffer.size(), buffer.clone());
            drop(gone);
        }
    }
}
