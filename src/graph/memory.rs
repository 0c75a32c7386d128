//! Where values lie: on a device, or on the host as words that plans read.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::device::Storage;

/// Elements on a device: a storage and the first element's number in it.
///
/// Shared by all who hold the value. When a replay is about to overwrite the storage, it moves the holders to a copy.
#[derive(Clone)]
pub struct Memory(Arc<Mutex<(Storage, usize)>>);

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (storage, offset) = self.get();
        write!(f, "{storage:?} from {offset} on")
    }
}

impl Memory {
    /// Elements of `storage` from number `offset` on.
    pub fn new(storage: Storage, offset: usize) -> Self {
        Self(Arc::new(Mutex::new((storage, offset))))
    }

    /// The storage and offset now.
    pub fn get(&self) -> (Storage, usize) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether it is there now.
    pub fn is_at(&self, storage: &Storage, offset: usize) -> bool {
        let place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        place.0 == *storage && place.1 == offset
    }

    /// Moves all holders to other memory with the same contents.
    pub fn relocate(&self, storage: Storage, offset: usize) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (storage, offset);
    }

    /// A reference that does not keep the memory.
    pub fn downgrade(&self) -> WeakMemory {
        WeakMemory(Arc::downgrade(&self.0))
    }
}

/// A reference to [`Memory`] that does not keep it: how those who will overwrite a storage know who still reads it.
#[derive(Clone, Debug)]
pub struct WeakMemory(Weak<Mutex<(Storage, usize)>>);

impl WeakMemory {
    /// The memory, if someone still holds it.
    pub fn upgrade(&self) -> Option<Memory> {
        self.0.upgrade().map(Memory)
    }

    /// Whether someone still holds it.
    pub fn is_held(&self) -> bool {
        self.0.strong_count() > 0
    }
}

/// A 32-bit host value that plans read when they run: a learning rate, a step number, a seed.
#[derive(Debug)]
pub struct HostValue(AtomicU32);

impl HostValue {
    /// A value with these bits.
    pub fn new(bits: u32) -> Self {
        Self(bits.into())
    }
    /// Its bits.
    pub fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
    /// Sets its bits.
    pub fn set(&self, bits: u32) {
        self.0.store(bits, Ordering::Relaxed);
    }
}
