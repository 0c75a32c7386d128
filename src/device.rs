//! Devices: listing, choosing, opening; their memory and the plans that run on them.

mod choose;
mod executable;
mod fault;
mod info;
mod interop;
mod storage;
mod usage;

#[cfg(test)]
pub(crate) mod tests;

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::error::{Error, LiveMemory, Result};
use crate::free_list::size_class;
use crate::gpu::{self, AllocError, Gpu, Span};
use crate::{cpu, status};

pub(crate) use executable::{Bound, Executable};
pub use fault::Fault;
pub use info::{DeviceInfo, DeviceKind};
pub use storage::Storage;
pub(crate) use usage::Purpose;
pub use usage::{Counters, MemoryUse};

use storage::{Pool, StorageMemory};
use usage::{Claim, Ledger};

/// Most bytes of a GPU's memory that wait for reuse.
const KEPT_BYTES: u64 = 512 << 20;
/// How many of the largest pieces of memory an out-of-memory error names.
const NAMED_PIECES: usize = 5;

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
    /// Which adapter it is on.
    identity: Option<gpu::Identity>,
    ledger: Arc<Ledger>,
    backend: Backend,
    /// A test asked for the next allocation to fail.
    refuse_memory: AtomicBool,
    /// A test asked for the next kernel to be wrong.
    wrong_kernel: AtomicBool,
    /// Bytes that may be in use.
    limit_bytes: AtomicU64,
    /// What others keep for this device, by type: see [`Device::kept`].
    kept: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

/// A device that may be gone by now.
#[derive(Clone, Debug)]
pub(crate) struct WeakDevice(Weak<Inner>);

impl WeakDevice {
    /// The device, if anybody still has it.
    pub(crate) fn upgrade(&self) -> Option<Device> {
        self.0.upgrade().map(Device)
    }
}

/// What carries out the work.
enum Backend {
    Cpu(CpuState),
    Gpu { gpu: Arc<Gpu>, pool: Arc<Pool> },
}

/// What the CPU backend keeps between calls.
#[derive(Default)]
struct CpuState {
    blocks: cpu::Blocks,
    /// The largest number of a place that met an index outside its range; 0 for none.
    status: AtomicU32,
    lost: AtomicBool,
}

impl Device {
    fn new_cpu(info: DeviceInfo) -> Self {
        Self::assemble(info, "cpu".into(), None, Backend::Cpu(CpuState::default()))
    }

    fn new_gpu(adapter: &gpu::Adapter) -> Result<Self> {
        Ok(Self::on_gpu(Gpu::open(adapter)?, adapter.info.clone(), adapter.identity.clone()))
    }

    fn on_gpu(gpu: Arc<Gpu>, info: DeviceInfo, identity: gpu::Identity) -> Self {
        let name = gpu::full_name(&info);
        Self::assemble(info, name, Some(identity), Backend::Gpu { gpu, pool: Pool::new(KEPT_BYTES) })
    }

    /// The adapter it is on, if it is a GPU.
    fn identity(&self) -> Option<&gpu::Identity> {
        self.0.identity.as_ref()
    }

    fn assemble(info: DeviceInfo, name: String, identity: Option<gpu::Identity>, backend: Backend) -> Self {
        // What computes on the processor would not be refused memory but killed for using it.
        let on_host = matches!(info.kind, DeviceKind::Cpu | DeviceKind::Software);
        let limit_bytes = info.memory_bytes.filter(|_| on_host).unwrap_or(u64::MAX);
        Self(Arc::new(Inner {
            info,
            order: parking_lot::ReentrantMutex::new(()),
            name,
            identity,
            ledger: Arc::default(),
            backend,
            refuse_memory: AtomicBool::new(false),
            wrong_kernel: AtomicBool::new(false),
            limit_bytes: limit_bytes.into(),
            kept: Mutex::default(),
        }))
    }

    /// A handle that does not keep it open.
    pub(crate) fn downgrade(&self) -> WeakDevice {
        WeakDevice(Arc::downgrade(&self.0))
    }

    /// What somebody keeps for this device, one value for each type; made when it is first asked for and dropped with the
    /// device. Rule: it holds no [`Device`], or the device would never be dropped.
    pub(crate) fn kept<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        let mut kept = self.0.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let value = kept.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default())).clone();
        value.downcast().unwrap_or_else(|_| unreachable!("values are kept by their type"))
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
        let (live_bytes, peak_bytes) = self.0.ledger.live_and_peak();
        MemoryUse { live_bytes, peak_bytes, cached_bytes: self.cached_bytes() }
    }

    /// The `count` largest pieces of memory in use, largest first.
    pub fn largest_memory(&self, count: usize) -> Vec<LiveMemory> {
        self.0.ledger.largest(count)
    }

    /// Bytes of its memory that nobody uses, where the system tells: on Linux for what computes on the processor. No
    /// graphics interface behind wgpu says it of a GPU.
    pub fn free_memory(&self) -> Option<u64> {
        let on_host = matches!(self.info().kind, DeviceKind::Cpu | DeviceKind::Software);
        on_host.then(info::host_free_bytes).flatten()
    }

    fn cached_bytes(&self) -> u64 {
        match self.backend() {
            Backend::Cpu(state) => state.blocks.kept_bytes(),
            Backend::Gpu { pool, .. } => pool.bytes(),
        }
    }

    /// Gives memory that is kept for reuse back to the system.
    fn release_cached(&self) {
        match self.backend() {
            Backend::Cpu(state) => state.blocks.release(),
            Backend::Gpu { pool, .. } => pool.release(),
        }
    }

    /// How many objects were made on it.
    pub fn counters(&self) -> Counters {
        match self.backend() {
            Backend::Cpu(_) => Counters::default(),
            Backend::Gpu { gpu, .. } => gpu.counters(),
        }
    }

    /// Waits until everything given to it is done.
    pub fn sync(&self) -> Result<()> {
        match self.backend() {
            Backend::Cpu(_) => self.check(),
            Backend::Gpu { gpu, .. } => gpu.sync(),
        }
    }

    /// Makes something go wrong.
    pub fn inject(&self, fault: Fault) {
        match (fault, self.backend()) {
            (Fault::OutOfMemory, _) => self.0.refuse_memory.store(true, Ordering::Relaxed),
            (Fault::WrongKernel, _) => self.0.wrong_kernel.store(true, Ordering::Relaxed),
            (Fault::Lost, Backend::Cpu(state)) => state.lost.store(true, Ordering::Relaxed),
            (Fault::Lost, Backend::Gpu { gpu, .. }) => gpu.lose(),
            (Fault::MemoryLimit(bytes), _) => self.0.limit_bytes.store(bytes, Ordering::Relaxed),
        }
    }

    /// Memory of at least `bytes` bytes that reads as zero, for what lasts: state, and what captured steps work in.
    pub(crate) fn alloc(&self, bytes: u64, purpose: impl Into<Purpose>) -> Result<Storage> {
        let capacity = bytes.max(1).next_multiple_of(16);
        self.provide(bytes, capacity, Contents::Zeros, &purpose.into())
    }

    /// Memory of at least `bytes` bytes with any contents, for what comes and goes: values outside of captured steps. It
    /// is taken from what is kept for reuse, and returns there.
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
            (StorageMemory::Gpu(buffer), Backend::Gpu { gpu, .. }) => {
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
            (StorageMemory::Gpu(source), StorageMemory::Gpu(target), Backend::Gpu { gpu, .. }) => gpu.copy_bytes(
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
            Backend::Gpu { gpu, .. } => gpu.check(),
        }
    }

    /// The GPU behind it.
    #[cfg(test)]
    pub(crate) fn gpu_backend(&self) -> &Arc<Gpu> {
        match self.backend() {
            Backend::Gpu { gpu, .. } => gpu,
            Backend::Cpu(_) => panic!("{self:?} is no GPU"),
        }
    }

    fn is_lost(&self) -> bool {
        match self.backend() {
            Backend::Cpu(state) => state.lost.load(Ordering::Relaxed),
            Backend::Gpu { gpu, .. } => gpu.is_lost(),
        }
    }

    fn backend(&self) -> &Backend {
        &self.0.backend
    }

    /// Puts `bytes` on the ledger, unless it is known beforehand that there is not so much memory.
    fn reserve(&self, bytes: u64, purpose: &Purpose) -> Result<Claim> {
        self.check()?;
        let limit = self.0.limit_bytes.load(Ordering::Relaxed);
        let refused = self.0.refuse_memory.swap(false, Ordering::Relaxed);
        if refused || self.memory().held_bytes().saturating_add(bytes) > limit {
            self.release_cached();
        }
        let claim = if refused { None } else { self.0.ledger.claim(bytes, purpose, limit) };
        claim.ok_or_else(|| self.out_of_memory(bytes, purpose))
    }

    fn out_of_memory(&self, bytes: u64, purpose: &Purpose) -> Error {
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
