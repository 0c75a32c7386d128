//! Devices: listing, choosing, opening; their memory and the plans that run on them.

mod choose;
mod executable;
mod info;
mod storage;
mod usage;

#[cfg(test)]
pub(crate) mod tests;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::error::{Error, Result};
use crate::gpu::{self, AllocError, Gpu, Span};
use crate::{cpu, status};

pub(crate) use executable::{Bound, Executable};
pub use info::{DeviceInfo, DeviceKind};
pub use storage::Storage;
pub use usage::{Counters, MemoryUse};

use storage::StorageMemory;
use usage::Ledger;

/// A handle to a device: a GPU reached through Vulkan, Metal or DX12, or the native CPU backend.
///
/// Cheap to clone. Two handles are equal if they mean the same opened device.
#[derive(Clone)]
pub struct Device(Arc<Inner>);

struct Inner {
    info: DeviceInfo,
    /// Held from looking a value's place up to handing the work over: see [`Device::exclusive`].
    order: parking_lot::ReentrantMutex<()>,
    name: String,
    ledger: Ledger,
    backend: Backend,
    /// A test asked for the next allocation to fail.
    refuse_memory: AtomicBool,
}

/// What carries out the work.
enum Backend {
    Cpu(CpuState),
    Gpu(Arc<Gpu>),
}

/// What the CPU backend keeps between calls.
#[derive(Default)]
struct CpuState {
    /// The largest number of a place that met an index outside its range; 0 for none.
    status: AtomicU32,
    lost: AtomicBool,
}

/// Something that goes wrong on purpose, for tests of what happens then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The next allocation finds no memory.
    OutOfMemory,
    /// The device goes away for good.
    Lost,
}

impl Device {
    fn new_cpu(info: DeviceInfo) -> Self {
        let name = "cpu".into();
        Self::assemble(info, name, Backend::Cpu(CpuState::default()))
    }

    fn new_gpu(adapter: &gpu::Adapter) -> Result<Self> {
        let gpu = Gpu::open(adapter)?;
        Ok(Self::assemble(adapter.info.clone(), gpu::full_name(&adapter.info), Backend::Gpu(gpu)))
    }

    fn assemble(info: DeviceInfo, name: String, backend: Backend) -> Self {
        let ledger = Ledger::default();
        let (order, refuse_memory) = (parking_lot::ReentrantMutex::new(()), AtomicBool::new(false));
        Self(Arc::new(Inner { info, order, name, ledger, backend, refuse_memory }))
    }

    /// Keeps other threads from giving it work. Whoever looks up where a value lies and then has the device read it
    /// holds this in between, or another thread might move the value and reuse its place.
    pub(crate) fn exclusive(&self) -> parking_lot::ReentrantMutexGuard<'_, ()> {
        self.0.order.lock()
    }

    /// What is known about it.
    pub fn info(&self) -> &DeviceInfo {
        &self.0.info
    }

    /// Its name, for people.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// True for the native CPU backend (not for a GPU driver that computes on the CPU).
    pub fn is_cpu(&self) -> bool {
        matches!(self.0.backend, Backend::Cpu(_))
    }

    /// Bytes that brasa holds on it.
    pub fn memory(&self) -> MemoryUse {
        self.0.ledger.get()
    }

    /// How many objects were made on it.
    pub fn counters(&self) -> Counters {
        match self.backend() {
            Backend::Cpu(_) => Counters::default(),
            Backend::Gpu(gpu) => gpu.counters(),
        }
    }

    /// Waits until everything given to it is done.
    pub fn sync(&self) -> Result<()> {
        match self.backend() {
            Backend::Cpu(_) => self.check(),
            Backend::Gpu(gpu) => gpu.sync(),
        }
    }

    /// Makes something go wrong.
    pub fn inject(&self, fault: Fault) {
        match (fault, self.backend()) {
            (Fault::OutOfMemory, _) => self.0.refuse_memory.store(true, Ordering::Relaxed),
            (Fault::Lost, Backend::Cpu(state)) => state.lost.store(true, Ordering::Relaxed),
            (Fault::Lost, Backend::Gpu(gpu)) => gpu.lose(),
        }
    }

    /// Memory of at least `bytes` bytes that reads as zero; `what` it is for goes into the error.
    pub(crate) fn alloc(&self, bytes: u64, what: &str) -> Result<Storage> {
        self.check()?;
        let capacity = bytes.max(1).next_multiple_of(16);
        self.reserve(capacity, what)?;
        let memory = match self.backend() {
            Backend::Cpu(_) => cpu::Memory::new(capacity).map(StorageMemory::Cpu).ok_or(AllocError::OutOfMemory),
            Backend::Gpu(gpu) => gpu.alloc(capacity, what).map(StorageMemory::Gpu),
        };
        match memory {
            Ok(memory) => Ok(Storage::new(self, bytes, capacity, memory)),
            Err(error) => {
                self.ledger().remove(capacity);
                Err(match error {
                    AllocError::OutOfMemory => self.out_of_memory(capacity, what),
                    AllocError::Other(error) => error,
                })
            }
        }
    }

    /// Puts `bytes` into `storage` from byte `offset` on, after the work given to the device before.
    pub(crate) fn write(&self, storage: &Storage, offset: u64, bytes: &[u8]) -> Result<()> {
        self.check()?;
        let end = in_bounds(storage, offset, bytes.len() as u64);
        match (storage.memory(), self.backend()) {
            (StorageMemory::Cpu(memory), _) => memory.write(offset, bytes),
            (StorageMemory::Gpu(buffer), Backend::Gpu(gpu)) => {
                gpu.upload(Span { buffer, offset }, bytes, end == storage.bytes())?;
            }
            (StorageMemory::Gpu(_), Backend::Cpu(_)) => foreign(storage, self),
        }
        Ok(())
    }

    /// The `bytes` bytes of `storage` from byte `offset` on, as they are after the work given to the device before this
    /// call.
    ///
    /// An index outside its range that any kernel met since the last read becomes an error here.
    pub(crate) fn read(
        &self,
        storage: &Storage,
        offset: u64,
        bytes: u64,
    ) -> impl Future<Output = Result<Vec<u8>>> + Send + use<> {
        in_bounds(storage, offset, bytes);
        let begun = match (storage.memory(), self.backend()) {
            (StorageMemory::Cpu(memory), Backend::Cpu(state)) => {
                Begun::Cpu(self.check().and_then(|()| match state.status.swap(0, Ordering::AcqRel) {
                    0 => Ok(memory.read(offset, bytes)),
                    number => Err(status::error(number)),
                }))
            }
            (StorageMemory::Gpu(buffer), Backend::Gpu(gpu)) => {
                Begun::Gpu(Arc::clone(gpu), gpu.begin_read(buffer, offset, bytes))
            }
            _ => foreign(storage, self),
        };
        async move {
            match begun {
                Begun::Cpu(result) => result,
                Begun::Gpu(gpu, read) => gpu.finish_read(read?).await,
            }
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
            (StorageMemory::Gpu(source), StorageMemory::Gpu(target), Backend::Gpu(gpu)) => gpu.copy_bytes(
                Span { buffer: source, offset: from_offset },
                Span { buffer: target, offset: to_offset },
                bytes,
            ),
            _ => foreign(from, self),
        }
    }

    /// The error that happened since the last call, if any.
    fn check(&self) -> Result<()> {
        match self.backend() {
            Backend::Cpu(state) if state.lost.load(Ordering::Relaxed) => {
                Err(Error::DeviceLost { device: self.name().into(), reason: "destroyed".into() })
            }
            Backend::Cpu(_) => Ok(()),
            Backend::Gpu(gpu) => gpu.check(),
        }
    }

    /// The GPU behind it.
    #[cfg(test)]
    pub(crate) fn gpu_backend(&self) -> &Arc<Gpu> {
        match self.backend() {
            Backend::Gpu(gpu) => gpu,
            Backend::Cpu(_) => panic!("{self:?} is no GPU"),
        }
    }

    fn is_lost(&self) -> bool {
        match self.backend() {
            Backend::Cpu(state) => state.lost.load(Ordering::Relaxed),
            Backend::Gpu(gpu) => gpu.is_lost(),
        }
    }

    fn backend(&self) -> &Backend {
        &self.0.backend
    }

    fn ledger(&self) -> &Ledger {
        &self.0.ledger
    }

    /// Puts `bytes` on the ledger, unless it is known beforehand that there is not so much memory. What computes on the
    /// processor would not be refused memory but killed for using it.
    fn reserve(&self, bytes: u64, what: &str) -> Result<()> {
        let refused = self.0.refuse_memory.swap(false, Ordering::Relaxed);
        let on_host = matches!(self.info().kind, DeviceKind::Cpu | DeviceKind::Software);
        let limit = self.info().memory_bytes.filter(|_| on_host).unwrap_or(u64::MAX);
        if refused || self.memory().live_bytes.saturating_add(bytes) > limit {
            return Err(self.out_of_memory(bytes, what));
        }
        self.ledger().add(bytes);
        Ok(())
    }

    fn out_of_memory(&self, bytes: u64, what: &str) -> Error {
        Error::OutOfMemory {
            device: self.name().into(),
            what: what.into(),
            needed_bytes: bytes,
            live_bytes: self.memory().live_bytes,
        }
    }
}

/// A read under way.
enum Begun {
    Cpu(Result<Vec<u8>>),
    Gpu(Arc<Gpu>, Result<gpu::Read>),
}

/// The end of the range, which lies in the storage.
fn in_bounds(storage: &Storage, offset: u64, bytes: u64) -> u64 {
    let end = offset.checked_add(bytes).filter(|&end| end <= storage.capacity());
    end.unwrap_or_else(|| panic!("{bytes} bytes from {offset} on do not lie in {storage:?}"))
}

fn foreign(storage: &Storage, device: &Device) -> ! {
    panic!("{storage:?} is used on {}", device.name())
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Device {}

impl Hash for Device {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.name())
    }
}
