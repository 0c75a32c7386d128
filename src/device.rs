//! Devices: listing, choosing, opening; their memory and the plans that run on them.

mod choose;
mod executable;
mod fault;
mod info;
mod interop;
mod memory;
mod notes;
mod storage;
mod tune;
mod usage;

#[cfg(test)]
pub(crate) mod tests;

use std::any::{Any, TypeId};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustc_hash::FxHashMap;

use crate::cpu;
use crate::custom;
use crate::error::{Error, LiveMemory, Result};
use crate::gpu::{self, Gpu};
use crate::matmul_precision::MatmulPrecision;

pub(crate) use executable::{Bound, Executable};
#[doc(hidden)]
pub use fault::Fault;
pub use info::{DeviceInfo, DeviceKind};
pub(crate) use memory::Reading;
pub use notes::Note;
pub use storage::Storage;
pub use tune::{TuneOptions, TuneProgress, TuneReport, TunedKernel};
pub(crate) use usage::Purpose;
pub use usage::{Counters, MemoryUse};

use storage::Pool;
use usage::Ledger;

/// Most bytes of a GPU's memory that wait for reuse.
const KEPT_BYTES: u64 = 512 << 20;

/// A handle to a device: a GPU reached through Vulkan, Metal or DX12, or the native CPU backend.
///
/// Cheap to clone. Two handles are equal if they mean the same opened device. Tensors are made on a device and stay
/// there; what is computed of them is computed there, and tensors of two devices do not mix.
///
/// ```
/// use brasa::{Device, Tensor};
///
/// # fn main() -> brasa::Result<()> {
/// for info in Device::list() {
///     println!("{}: {:?}", info.name, info.kind);
/// }
/// // A GPU if there is one, else the CPU; `Device::named` takes what `--device` does.
/// let device = Device::best()?;
/// let sum = Tensor::ones([1000, 1000], &device).sum();
/// assert_eq!(sum.item::<f32>()?, 1e6); // waits for the value
/// println!("{} B in use", device.memory().live_bytes);
/// # Ok(())
/// # }
/// ```
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
    /// Products of f32 need not be exact.
    high_precision: AtomicBool,
    /// What others keep for this device, by type: see [`Device::kept`].
    kept: Mutex<FxHashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
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
        // those that gave what they should when the device was opened
        let cooperative = gpu.caps.cooperative.map(|units| units.to_string());
        let info =
            DeviceInfo { cooperative, subgroups: info.subgroups.filter(|_| gpu.caps.subgroups.is_some()), ..info };
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
            high_precision: AtomicBool::new(false),
            kept: Mutex::default(),
        }))
    }

    /// A handle that does not keep it open.
    pub(crate) fn downgrade(&self) -> WeakDevice {
        WeakDevice(Arc::downgrade(&self.0))
    }

    /// What somebody keeps for this device, one value for each type; made when it is first asked for and dropped with
    /// the device. Rule: it holds no [`Device`], or the device would never be dropped.
    pub(crate) fn kept<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        let mut kept = self.0.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let value = kept.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default())).clone();
        value.downcast().unwrap_or_else(|_| unreachable!("values are kept by their type"))
    }

    /// Keeps other threads from giving it work. Whoever looks up where a value lies and then has the device read it
    /// holds this in between, or another thread might move the value and reuse its place.
    ///
    /// # Panics
    /// In the host code of a custom kernel.
    #[track_caller]
    pub(crate) fn exclusive(&self) -> parking_lot::ReentrantMutexGuard<'_, ()> {
        custom::assert_outside();
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

    /// Into how many launches work is cut that can be, so that no watchdog of the system ends one.
    pub(crate) fn launches(&self, flops: u64, bytes: u64) -> usize {
        match self.backend() {
            Backend::Cpu(_) => 1,
            Backend::Gpu { gpu, .. } => gpu.launches(flops, bytes),
        }
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

    /// Bytes of its memory that nobody uses, where the system tells: for what computes on the processor, of which a
    /// driver may give less than is free. No graphics interface behind wgpu says it of a GPU.
    pub fn free_memory(&self) -> Option<u64> {
        let on_host = matches!(self.info().kind, DeviceKind::Cpu | DeviceKind::Software);
        let free = on_host.then(crate::sensors::host_free_bytes).flatten()?;
        let given = self.info().memory_bytes.unwrap_or(u64::MAX);
        Some(free.min(given.saturating_sub(self.memory().live_bytes)))
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
    ///
    /// # Errors
    /// If the device is lost, or reported an error since it was last asked.
    pub fn sync(&self) -> Result<()> {
        match self.backend() {
            Backend::Cpu(_) => self.check(),
            Backend::Gpu { gpu, .. } => gpu.sync(),
        }
    }

    /// Says whether this device draws a window as well, from now on: what waits on it is then kept short (two
    /// submissions of at most 8 ms, as far as launches can be cut), so that the window and the desktop do not stutter.
    /// Results are the same. Means nothing on the CPU.
    pub fn set_beside_display(&self, on: bool) {
        if let Backend::Gpu { gpu, .. } = self.backend() {
            gpu.set_beside_display(on);
        }
    }

    /// Says how exactly products of f32 are computed on it from now on; [`MatmulPrecision::Highest`] unless said. A
    /// [`Step`](crate::runtime::Step) keeps the precision that its device had when it was made. A training, an
    /// evaluation and a [`Predictor`](crate::train::Predictor) set that of their settings.
    ///
    /// ```
    /// use brasa::{Device, MatmulPrecision, Tensor};
    ///
    /// let device = Device::cpu(); // where it changes nothing
    /// let x = Tensor::full([2, 2], 0.1, &device);
    /// let highest = x.matmul(&x).to_vec::<f32>()?;
    /// device.set_matmul_precision(MatmulPrecision::High);
    /// assert_eq!(x.matmul(&x).to_vec::<f32>()?, highest);
    /// # device.set_matmul_precision(MatmulPrecision::Highest);
    /// # Ok::<(), brasa::Error>(())
    /// ```
    pub fn set_matmul_precision(&self, precision: MatmulPrecision) {
        self.0.high_precision.store(precision == MatmulPrecision::High, Ordering::Relaxed);
    }

    /// How exactly products of f32 are to be computed on it.
    pub fn matmul_precision(&self) -> MatmulPrecision {
        if self.0.high_precision.load(Ordering::Relaxed) { MatmulPrecision::High } else { MatmulPrecision::Highest }
    }

    /// What `f` gives while products of f32 are computed at `precision`, by all threads that use the device.
    pub(crate) fn at_matmul_precision<T>(&self, precision: MatmulPrecision, f: impl FnOnce() -> T) -> T {
        /// Sets it back, though `f` panic.
        struct Before<'d>(&'d Device, MatmulPrecision);
        impl Drop for Before<'_> {
            fn drop(&mut self) {
                self.0.set_matmul_precision(self.1);
            }
        }
        let _before = Before(self, self.matmul_precision());
        self.set_matmul_precision(precision);
        f()
    }

    /// Whether anything is computed in another way at [`MatmulPrecision::High`].
    pub(crate) fn splits_products(&self) -> bool {
        match self.backend() {
            Backend::Cpu(_) => false,
            Backend::Gpu { gpu, .. } => gpu.caps.cooperative.is_some_and(gpu::Units::splits),
        }
    }

    /// Makes something go wrong: for tests.
    #[doc(hidden)]
    pub fn inject(&self, fault: Fault) {
        match (fault, self.backend()) {
            (Fault::OutOfMemory, _) => self.0.refuse_memory.store(true, Ordering::Relaxed),
            (Fault::WrongKernel, _) => self.0.wrong_kernel.store(true, Ordering::Relaxed),
            (Fault::Lost, Backend::Cpu(state)) => state.lost.store(true, Ordering::Relaxed),
            (Fault::Lost, Backend::Gpu { gpu, .. }) => gpu.lose(),
            (Fault::MemoryLimit(bytes), _) => self.0.limit_bytes.store(bytes, Ordering::Relaxed),
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
