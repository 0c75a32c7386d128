//! Plans on a device: prepared, bound to memory, replayed.

use std::sync::Arc;

use crate::error::Result;
use crate::plan::{Place, Plan};
use crate::timing::{KernelTime, StageTimes};
use crate::{cpu, gpu};

use super::storage::StorageMemory;
use super::{Backend, Device, Storage};

/// A plan whose kernels are ready to run.
#[derive(Debug)]
pub(crate) struct Executable {
    device: Device,
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
    /// Held by the CPU's `Bound`; this many bytes.
    Counted(Device, u64),
    Held(#[expect(dead_code, reason = "held for its drop")] Vec<Storage>),
}

impl Drop for Slots {
    fn drop(&mut self) {
        if let Self::Counted(device, bytes) = self {
            device.ledger().remove(*bytes);
        }
    }
}

impl Device {
    /// Renders and compiles the kernels of a plan.
    pub(crate) fn prepare(&self, plan: Arc<Plan>) -> Result<Executable> {
        self.check()?;
        let kind = match self.backend() {
            Backend::Cpu(_) => Prepared::Cpu(cpu::Compiled::new(Arc::clone(&plan))),
            Backend::Gpu(gpu) => Prepared::Gpu(Arc::new(gpu::Program::new(gpu, Arc::clone(&plan))?)),
        };
        Ok(Executable { device: self.clone(), plan, kind })
    }
}

#[cfg(test)]
impl Device {
    /// As `prepare`, with hand-written launches for each kernel.
    pub(crate) fn prepare_launches(&self, plan: Arc<Plan>, launches: Vec<Vec<gpu::Launch>>) -> Result<Executable> {
        let Backend::Gpu(gpu) = self.backend() else { panic!("launches are for GPUs") };
        let program = gpu::Program::from_launches(gpu, Arc::clone(&plan), launches)?;
        Ok(Executable { device: self.clone(), plan, kind: Prepared::Gpu(Arc::new(program)) })
    }
}

impl Executable {
    /// Provides memory for the plan's slots and binds them together with `externals`, which lie on the same device.
    pub(crate) fn bind(&self, externals: &[Storage]) -> Result<Bound> {
        assert_eq!(externals.len(), self.plan.externals, "one storage for each external of the plan");
        self.device.check()?;
        let (kind, slots) = match &self.kind {
            Prepared::Cpu(compiled) => self.bind_cpu(compiled, externals)?,
            Prepared::Gpu(program) => self.bind_gpu(program, externals)?,
        };
        Ok(Bound { device: self.device.clone(), kind, _externals: externals.to_vec(), _slots: slots })
    }

    fn bind_cpu(&self, compiled: &cpu::Compiled, externals: &[Storage]) -> Result<(Replay, Slots)> {
        let bytes: u64 = self.plan.slots.iter().sum();
        let memories: Vec<cpu::Memory> = externals.iter().map(|storage| storage.cpu().clone()).collect();
        self.device.reserve(bytes, "intermediate results")?;
        let slots = Slots::Counted(self.device.clone(), bytes);
        let bound = compiled.bind(&memories);
        let bound = bound.ok_or_else(|| self.device.out_of_memory(bytes, "intermediate results"))?;
        Ok((Replay::Cpu(Box::new(bound)), slots))
    }

    fn bind_gpu(&self, program: &Arc<gpu::Program>, externals: &[Storage]) -> Result<(Replay, Slots)> {
        let what = |slot| self.plan.buffers.iter().find(|buffer| buffer.place == Place::Slot(slot));
        let slots: Vec<Storage> = (0..)
            .zip(&self.plan.slots)
            .map(|(slot, &bytes)| self.device.alloc(bytes, what(slot).map_or("slot", |buffer| &buffer.label)))
            .collect::<Result<_>>()?;
        let place = |place| match place {
            Place::External(number) => externals[number].gpu(),
            Place::Slot(number) => slots[number].gpu(),
        };
        let buffers: Vec<&gpu::Buffer> = self.plan.buffers.iter().map(|buffer| place(buffer.place)).collect();
        let bound = gpu::Bound::new(Arc::clone(program), &buffers)?;
        Ok((Replay::Gpu(Box::new(bound)), Slots::Held(slots)))
    }
}

impl Bound {
    /// Runs the plan once more, with these host values, after all work given to the device before.
    ///
    /// On a GPU this returns as soon as the work is queued; it waits only while too many replays are under way.
    pub(crate) fn run(&mut self, uniforms: &[u32]) -> Result<()> {
        self.device.check()?;
        match (&mut self.kind, self.device.backend()) {
            (Replay::Cpu(bound), Backend::Cpu(state)) => bound.run(uniforms, &state.status),
            (Replay::Gpu(bound), _) => bound.run(uniforms)?,
            (Replay::Cpu(_), Backend::Gpu(_)) => unreachable!("a CPU plan is bound on the CPU only"),
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
            StorageMemory::Gpu(_) => panic!("{self:?} is used by a plan on the CPU"),
        }
    }

    fn gpu(&self) -> &gpu::Buffer {
        match self.memory() {
            StorageMemory::Gpu(buffer) => buffer,
            StorageMemory::Cpu(_) => panic!("{self:?} is used by a plan on a GPU"),
        }
    }
}
