//! A device's memory: given, filled, read and copied.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::dtype::Element;
use crate::error::{Error, Result};
use crate::free_list::size_class;
use crate::gpu::{self, AllocError, Gpu, Span};
use crate::status;

use super::storage::{Pool, StorageMemory};
use super::usage::Claim;
use super::{Backend, Device, MemoryUse, Purpose, Storage};

/// How many of the largest pieces of memory an out-of-memory error names.
const NAMED_PIECES: usize = 5;

impl Device {
    /// Memory of at least `bytes` bytes that reads as zero, for what lasts: state, and what captured steps work in.
    pub(crate) fn alloc(&self, bytes: u64, purpose: impl Into<Purpose>) -> Result<Storage> {
        let capacity = bytes.max(1).next_multiple_of(16);
        self.provide(bytes, capacity, Contents::Zeros, &purpose.into())
    }

    /// Memory of at least `bytes` bytes with any contents, for what comes and goes: values outside of captured steps.
    /// It is taken from what is kept for reuse, and returns there.
    pub(crate) fn alloc_pooled(&self, bytes: u64, purpose: impl Into<Purpose>) -> Result<Storage> {
        // a class may be larger than what the device allows
        let class = Some(size_class(bytes)).filter(|&class| class <= self.info().max_buffer_bytes);
        let capacity = class.unwrap_or(bytes.next_multiple_of(16));
        self.provide(bytes, capacity, Contents::Any, &purpose.into())
    }

    fn provide(&self, bytes: u64, capacity: u64, contents: Contents, purpose: &Purpose) -> Result<Storage> {
        let claim = self.reserve(capacity, purpose)?;
        let (memory, pool) = match (self.backend(), contents) {
            (Backend::Cpu(state), Contents::Zeros) => (state.blocks.zeroed(capacity).map(StorageMemory::Cpu), None),
            (Backend::Cpu(state), Contents::Any) => (state.blocks.scratch(capacity).map(StorageMemory::Cpu), None),
            (Backend::Gpu { gpu, pool }, contents) => {
                let used = if contents == Contents::Any { pool.take(capacity) } else { None };
                // what is taken from the pool may be somewhat larger
                used.iter().for_each(|buffer| claim.set_bytes(buffer.size()));
                let buffer =
                    used.map_or_else(|| new_buffer(gpu, pool, capacity, &purpose.to_string()), |b| Ok(Some(b)))?;
                (buffer.map(StorageMemory::Gpu), (contents == Contents::Any).then(|| Arc::clone(pool)))
            }
        };
        match memory {
            Some(memory) => Ok(Storage::new(bytes, capacity, memory, pool, claim)),
            None => {
                drop(claim); // so that the error does not count what there is not
                Err(self.out_of_memory(capacity, purpose))
            }
        }
    }

    /// Puts `bytes` into `storage` from byte `offset` on, after the work given to the device before.
    pub(crate) fn write(&self, storage: &Storage, offset: u64, bytes: &[u8]) -> Result<()> {
        self.check()?;
        let end = in_bounds(storage, offset, bytes.len() as u64);
        match (storage.memory(), self.backend()) {
            (StorageMemory::Cpu(memory), _) => memory.write(offset, bytes),
            (StorageMemory::Gpu(buffer), Backend::Gpu { gpu, .. }) => {
                gpu.upload(Span { buffer, offset }, bytes, end == storage.bytes())?;
            }
            (StorageMemory::Gpu(_) | StorageMemory::Planned, _) => foreign(storage, self),
        }
        Ok(())
    }

    /// Begins to read the elements in `bytes` bytes of `storage` from byte `offset` on, as they are after the work
    /// given to the device before this call.
    ///
    /// An index outside its range that any kernel met since the last read becomes an error of this one, and goes
    /// with it if it is dropped.
    pub(crate) fn begin_read<T: Element>(&self, storage: &Storage, offset: u64, bytes: u64) -> Reading<T> {
        in_bounds(storage, offset, bytes);
        match (storage.memory(), self.backend()) {
            (StorageMemory::Cpu(memory), Backend::Cpu(state)) => {
                Reading::Cpu(self.check().and_then(|()| match state.status.swap(0, Ordering::AcqRel) {
                    0 => Ok(memory.read(offset, bytes)),
                    number => Err(status::error(number)),
                }))
            }
            (StorageMemory::Gpu(buffer), Backend::Gpu { gpu, .. }) => {
                Reading::Gpu(Arc::clone(gpu), gpu.begin_read(buffer, offset, bytes))
            }
            _ => foreign(storage, self),
        }
    }

    /// Copies `bytes` bytes on the device, after the work given to it before. The ranges may overlap.
    pub(crate) fn copy(
        &self,
        from: &Storage,
        from_offset: u64,
        to: &Storage,
        to_offset: u64,
        bytes: u64,
    ) -> Result<()> {
        self.check()?;
        in_bounds(from, from_offset, bytes);
        in_bounds(to, to_offset, bytes);
        match (from.memory(), to.memory(), self.backend()) {
            (StorageMemory::Cpu(source), StorageMemory::Cpu(target), Backend::Cpu(_)) => {
                target.copy_from(source, from_offset, to_offset, bytes);
                Ok(())
            }
            (StorageMemory::Gpu(source), StorageMemory::Gpu(target), Backend::Gpu { gpu, .. }) => gpu.copy_bytes(
                Span { buffer: source, offset: from_offset },
                Span { buffer: target, offset: to_offset },
                bytes,
            ),
            _ => foreign(from, self),
        }
    }

    /// Puts `bytes` on the ledger, unless it is known beforehand that there is not so much memory.
    pub(super) fn reserve(&self, bytes: u64, purpose: &Purpose) -> Result<Claim> {
        self.check()?;
        let limit_bytes = self.info().max_buffer_bytes;
        if bytes > limit_bytes {
            let (device, what) = (self.name().into(), purpose.to_string());
            return Err(Error::BufferTooLarge { device, what, needed_bytes: bytes, limit_bytes });
        }
        let limit = self.0.limit_bytes.load(Ordering::Relaxed);
        let refused = self.0.refuse_memory.swap(false, Ordering::Relaxed);
        if refused || self.memory().held_bytes().saturating_add(bytes) > limit {
            self.release_cached();
        }
        let claim = if refused { None } else { self.0.ledger.claim(bytes, purpose, limit) };
        claim.ok_or_else(|| self.out_of_memory(bytes, purpose))
    }

    /// The error that there is no memory on the host for what is to go to this device: the host's is that of the CPU.
    pub(crate) fn out_of_host_memory(&self, bytes: u64, purpose: impl Into<Purpose>) -> Error {
        let purpose = purpose.into();
        if self.is_cpu() { self.out_of_memory(bytes, &purpose) } else { Self::cpu().out_of_memory(bytes, &purpose) }
    }

    pub(super) fn out_of_memory(&self, bytes: u64, purpose: &Purpose) -> Error {
        let MemoryUse { live_bytes, peak_bytes, .. } = self.memory();
        Error::OutOfMemory {
            device: self.name().into(),
            what: purpose.to_string(),
            needed_bytes: bytes,
            live_bytes,
            peak_bytes,
            largest: self.largest_memory(NAMED_PIECES),
        }
    }
}

/// What new memory holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Contents {
    Zeros,
    Any,
}

/// A buffer from the driver, if there is memory once everything that waits for reuse is given back.
fn new_buffer(gpu: &Gpu, pool: &Pool, capacity: u64, label: &str) -> Result<Option<gpu::Buffer>> {
    for attempt in 0..2 {
        match gpu.alloc(capacity, label) {
            Ok(buffer) => return Ok(Some(buffer)),
            Err(AllocError::Other(error)) => return Err(error),
            Err(AllocError::OutOfMemory) if attempt == 0 && pool.bytes() > 0 => pool.release(),
            Err(AllocError::OutOfMemory) => break,
        }
    }
    Ok(None)
}

/// A read under way.
pub(crate) enum Reading<T> {
    Cpu(Result<Vec<T>>),
    Gpu(Arc<Gpu>, Result<gpu::Read>),
}

impl<T: Element> Reading<T> {
    /// The elements, without blocking the thread; the read gets done whether this is polled or not.
    pub(crate) fn watched(self) -> impl Future<Output = Result<Vec<T>>> + Send {
        if let Self::Gpu(gpu, Ok(read)) = &self {
            gpu.watch_read(read);
        }
        async move {
            match self {
                Self::Cpu(result) => result,
                Self::Gpu(gpu, read) => gpu.finish_read(read?).await,
            }
        }
    }

    /// The elements, waited for on this thread.
    pub(crate) fn now(self) -> Result<Vec<T>> {
        match self {
            Self::Cpu(result) => result,
            Self::Gpu(gpu, read) => gpu.finish_read_now(read?),
        }
    }
}

/// The end of the range, which lies in the storage.
fn in_bounds(storage: &Storage, offset: u64, bytes: u64) -> u64 {
    let end = offset.checked_add(bytes).filter(|&end| end <= storage.capacity());
    end.unwrap_or_else(|| panic!("{bytes} bytes from {offset} on do not lie in {storage:?}"))
}

pub(super) fn foreign(storage: &Storage, device: &Device) -> ! {
    panic!("{storage:?} is used on {}", device.name())
}
