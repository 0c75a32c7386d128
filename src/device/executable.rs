//! Plans on a device: prepared, bound to memory, replayed.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::{Error, Result};
use crate::plan::{Body, Buffer, Place, Plan};
use crate::shape::MAX_ELEMENTS;
use crate::timing::spans::SpanLog;
use crate::timing::{KernelTime, StageTimes};
use crate::{cpu, gpu};

use super::fault;
use super::storage::StorageMemory;
use super::usage::Claim;
use super::{Backend, CpuState, Device, Purpose, Storage, WeakDevice};

/// A plan whose kernels are ready to run.
#[derive(Debug)]
pub(crate) struct Executable {
    /// Weak, so that a device can keep the plans that ran on it.
    device: WeakDevice,
    plan: Arc<Plan>,
    kind: Prepared,
}

#[derive(Debug)]
enum Prepared {
    Cpu(cpu::Compiled),
    Gpu(Arc<gpu::Program>),
}

/// An executable bound to memory: its own slots and the storages it was given.
#[derive(Debug)]
pub(crate) struct Bound {
    device: Device,
    kind: Replay,
    /// Held so that the memory outlives the replays.
    _externals: Vec<Storage>,
    _slots: Slots,
}

#[derive(Debug)]
enum Replay {
    Cpu(Box<cpu::Bound>),
    Gpu(Box<gpu::Bound>),
}

/// The plan's own memory, on the device's ledger.
#[derive(Debug)]
enum Slots {
    /// Held by the CPU's `Bound`.
    Counted(#[expect(dead_code, reason = "held for its drop")] Vec<Claim>),
    Held(#[expect(dead_code, reason = "held for its drop")] Vec<Storage>),
}

/// Refuses kernels with axes or results that 32 bits cannot count.
pub(super) fn check_sizes(plan: &Plan) -> Result<()> {
    plan.kernels.iter().try_for_each(|kernel| {
        let axes: &[usize] = match &kernel.body {
            Body::Loop(kernel) => &kernel.axes,
            Body::Contract(kernel) => &kernel.axes,
            Body::Routine(_) => &[],
        };
        let written = kernel.writes.iter().map(|&buffer| plan.buffers[buffer].elements);
        match axes.iter().copied().chain(written).max() {
            Some(elements) if elements > MAX_ELEMENTS => {
                Err(Error::TooManyElements { what: format!("kernel `{}`", kernel.label), elements })
            }
            _ => Ok(()),
        }
    })
}

impl Device {
    /// What the CPU backend keeps; for plans that were compiled for it.
    fn cpu_state(&self) -> &CpuState {
        match self.backend() {
            Backend::Cpu(state) => state,
            Backend::Gpu { .. } => unreachable!("a CPU plan is bound on the CPU only"),
        }
    }

    /// Renders and compiles the kernels of a plan for which there is memory now.
    pub(crate) fn prepare(&self, plan: Arc<Plan>) -> Result<Executable> {
        self.check()?;
        check_sizes(&plan)?;
        // compiling may take minutes, and what is too large for memory may have more parts than a kernel can bind
        self.reserve_slots(&plan)?;
        let plan = self.with_fault(plan);
        let kind = match self.backend() {
            Backend::Cpu(_) => Prepared::Cpu(cpu::Compiled::new(Arc::clone(&plan))),
            Backend::Gpu { gpu, .. } => Prepared::Gpu(Arc::new(gpu::Program::new(gpu, Arc::clone(&plan))?)),
        };
        Ok(Executable { device: self.downgrade(), plan, kind })
    }

    /// The plan's slots on the ledger, if it is not known beforehand that there is not so much memory.
    fn reserve_slots(&self, plan: &Plan) -> Result<Vec<Claim>> {
        let slots = plan.slots.iter().zip(slot_purposes(plan));
        slots.map(|(&bytes, purpose)| self.reserve(bytes, &purpose)).collect()
    }

    /// The WGSL text of each kernel of `plan`, where it can be written: of the native CPU backend, what a GPU would
    /// run.
    pub(crate) fn wgsl(&self, plan: &Plan) -> Vec<Option<String>> {
        let caps = match self.backend() {
            Backend::Cpu(_) => &gpu::Capabilities::GENERAL,
            Backend::Gpu { gpu, .. } => &gpu.caps,
        };
        plan.kernels.iter().map(|kernel| gpu::text(plan, kernel, caps).ok()).collect()
    }

    /// The plan, but for a kernel that a test wants wrong.
    fn with_fault(&self, plan: Arc<Plan>) -> Arc<Plan> {
        if self.0.wrong_kernel.load(Ordering::Relaxed)
            && let Some(wrong) = fault::with_wrong_kernel(&plan)
        {
            self.0.wrong_kernel.store(false, Ordering::Relaxed);
            return Arc::new(wrong);
        }
        plan
    }
}

#[cfg(test)]
impl Device {
    /// As `prepare`, with hand-written launches for each kernel.
    pub(crate) fn prepare_launches(&self, plan: Arc<Plan>, launches: Vec<Vec<gpu::Launch>>) -> Result<Executable> {
        let Backend::Gpu { gpu, .. } = self.backend() else { panic!("launches are for GPUs") };
        let program = gpu::Program::from_launches(gpu, Arc::clone(&plan), launches)?;
        Ok(Executable { device: self.downgrade(), plan, kind: Prepared::Gpu(Arc::new(program)) })
    }
}

impl Executable {
    /// Provides memory for the plan's slots and binds them together with `externals`, which lie on the same device.
    pub(crate) fn bind(&self, externals: &[Storage]) -> Result<Bound> {
        let device = self.device_for(externals)?;
        let (kind, slots) = match &self.kind {
            Prepared::Cpu(compiled) => {
                let (bound, claims) = self.bind_cpu(&device, compiled, externals)?;
                (Replay::Cpu(Box::new(bound)), Slots::Counted(claims))
            }
            Prepared::Gpu(program) => self.bind_gpu(&device, program, externals)?,
        };
        Ok(Bound { device, kind, _externals: externals.to_vec(), _slots: slots })
    }

    /// Runs the plan with `externals` and these host values, as [`bind`](Self::bind) and [`Bound::run`] would; nobody
    /// asks for its times, and next time it is bound anew.
    pub(crate) fn run_once(&self, externals: &[Storage], uniforms: &[u32]) -> Result<()> {
        let Prepared::Cpu(compiled) = &self.kind else { return self.bind(externals)?.run(uniforms) };
        let device = self.device_for(externals)?;
        let (mut bound, _claims) = self.bind_cpu(&device, compiled, externals)?;
        bound.run_untimed(uniforms, &device.cpu_state().status);
        Ok(())
    }

    /// The device, if it is still there.
    fn device_for(&self, externals: &[Storage]) -> Result<Device> {
        assert_eq!(externals.len(), self.plan.externals, "one storage for each external of the plan");
        let device = self.device.upgrade().expect("whoever runs a plan holds its device");
        device.check()?;
        Ok(device)
    }

    fn bind_cpu(
        &self,
        device: &Device,
        compiled: &cpu::Compiled,
        externals: &[Storage],
    ) -> Result<(cpu::Bound, Vec<Claim>)> {
        let claims = device.reserve_slots(&self.plan)?;
        match compiled.bind(&device.cpu_state().blocks, externals.iter().map(|storage| storage.cpu().clone())) {
            Some(bound) => Ok((bound, claims)),
            None => {
                drop(claims);
                let bytes = self.plan.slots.iter().sum();
                Err(device.out_of_memory(bytes, &"intermediate results".into()))
            }
        }
    }

    fn bind_gpu(&self, device: &Device, program: &Arc<gpu::Program>, externals: &[Storage]) -> Result<(Replay, Slots)> {
        let slots = slot_purposes(&self.plan).enumerate().map(|(slot, purpose)| self.gpu_slot(device, slot, purpose));
        let slots = slots.collect::<Result<Vec<_>>>()?;
        let place = |place| match place {
            Place::External(number) => externals[number].gpu(),
            Place::Slot(number) => slots[number].gpu(),
        };
        let buffers: Vec<&gpu::Buffer> = self.plan.buffers.iter().map(|buffer| place(buffer.place)).collect();
        let bound = gpu::Bound::new(Arc::clone(program), &buffers)?;
        Ok((Replay::Gpu(Box::new(bound)), Slots::Held(slots)))
    }

    /// Memory for a slot: its own for a captured step, else what is kept for reuse, unless it has to be zero at first.
    fn gpu_slot(&self, device: &Device, slot: usize, purpose: Purpose) -> Result<Storage> {
        let Plan { slots, buffers, zeroed, literal_sizes, .. } = &*self.plan;
        let bytes = slots[slot];
        if *literal_sizes || zeroed.iter().any(|&(buffer, _)| buffers[buffer].place == Place::Slot(slot)) {
            device.alloc(bytes, purpose)
        } else {
            device.alloc_pooled(bytes, purpose)
        }
    }
}

/// What each slot is for: the largest value that lies in it.
fn slot_purposes(plan: &Plan) -> impl Iterator<Item = Purpose> {
    let mut largest: Vec<Option<&Buffer>> = vec![None; plan.slots.len()];
    for buffer in &plan.buffers {
        if let Place::Slot(slot) = buffer.place
            && largest[slot].is_none_or(|other| other.bytes() <= buffer.bytes())
        {
            largest[slot] = Some(buffer);
        }
    }
    let purpose = |buffer: &Buffer| format!("{} {}", buffer.dtype, buffer.label).into();
    largest.into_iter().map(move |buffer| buffer.map_or_else(|| "an intermediate result".into(), purpose))
}

impl Bound {
    /// Runs the plan once more, with these host values, after all work given to the device before.
    ///
    /// On a GPU this returns as soon as the work is queued; it waits only while too many replays are under way.
    pub(crate) fn run(&mut self, uniforms: &[u32]) -> Result<()> {
        self.device.check()?;
        match &mut self.kind {
            Replay::Cpu(bound) => bound.run(uniforms, &self.device.cpu_state().status),
            Replay::Gpu(bound) => bound.run(uniforms)?,
        }
        Ok(())
    }

    /// What each stage took in the replays measured since the last call.
    ///
    /// A GPU's times arrive some replays late, and of short programs not every replay is measured: a stage's time per
    /// replay is its milliseconds divided by its samples.
    pub(crate) fn stage_times(&mut self) -> StageTimes {
        match &mut self.kind {
            Replay::Cpu(bound) => bound.stage_times(),
            Replay::Gpu(bound) => bound.stage_times(),
        }
    }

    /// Notes in `log` when each stage ran, from now on.
    pub(crate) fn note_spans(&mut self, log: &Arc<SpanLog>) {
        match &mut self.kind {
            Replay::Cpu(bound) => bound.note_spans(log),
            Replay::Gpu(bound) => bound.note_spans(log),
        }
    }

    /// Times every kernel by itself from now on (or not).
    pub(crate) fn profile_kernels(&mut self, on: bool) {
        match &mut self.kind {
            Replay::Cpu(bound) => bound.profile_kernels(on),
            Replay::Gpu(bound) => bound.profile_kernels(on),
        }
    }

    /// The GPU's part.
    #[cfg(test)]
    pub(crate) fn gpu_bound(&mut self) -> &mut gpu::Bound {
        match &mut self.kind {
            Replay::Gpu(bound) => bound,
            Replay::Cpu(_) => panic!("bound on the CPU"),
        }
    }

    /// What each kernel took, on average, in the profiled replays measured since the last call.
    pub(crate) fn kernel_times(&mut self) -> Vec<KernelTime> {
        match &mut self.kind {
            Replay::Cpu(bound) => bound.kernel_times(),
            Replay::Gpu(bound) => bound.kernel_times(),
        }
    }
}

impl Storage {
    fn cpu(&self) -> &cpu::Memory {
        match self.memory() {
            StorageMemory::Cpu(memory) => memory,
            StorageMemory::Gpu(_) | StorageMemory::Planned => panic!("{self:?} is used by a plan on the CPU"),
        }
    }

    pub(super) fn gpu(&self) -> &gpu::Buffer {
        match self.memory() {
            StorageMemory::Gpu(buffer) => buffer,
            StorageMemory::Cpu(_) | StorageMemory::Planned => panic!("{self:?} is used by a plan on a GPU"),
        }
    }
}
