//! From a kernel of a plan to WGSL.

use crate::error::{Error, Result};
use crate::plan::{BufferId, Kernel, Plan};

/// What the adapter can do, as far as kernels depend on it.
#[derive(Clone, Debug)]
pub(crate) struct Capabilities {
    /// Bytes of the largest storage binding.
    pub(crate) max_binding_bytes: u64,
    /// Storage bindings of one launch, the status word not counted.
    pub(crate) max_storage_buffers: u32,
    /// Invocations of one workgroup.
    pub(crate) max_workgroup_invocations: u32,
    /// Bytes of workgroup memory.
    pub(crate) max_workgroup_bytes: u32,
    /// Workgroups along one axis of the grid.
    pub(crate) max_groups: u32,
    /// Whether WGSL's `f16` can be used.
    pub(crate) f16: bool,
    /// Smallest and largest subgroup, where subgroup operations can be used.
    pub(crate) subgroups: Option<(u32, u32)>,
    /// The adapter computes on the CPU: register tiles without workgroup memory are best.
    pub(crate) software: bool,
}

/// A window of a buffer that a launch sees.
#[derive(Clone, Debug)]
pub(crate) struct Binding {
    /// The buffer.
    pub(crate) buffer: BufferId,
    /// Where the window starts; a multiple of 256.
    pub(crate) offset_bytes: u64,
    /// How long it is.
    pub(crate) size_bytes: u64,
    /// Whether the launch writes to it.
    pub(crate) writable: bool,
}

/// One dispatch of one WGSL module.
///
/// All bindings are in group 0: the storage windows in order, then, each only if used, the sizes (uniform,
/// `array<vec4<u32>, N>`), the host values (uniform, `array<vec4<u32>, N>`) and the status word (storage, atomic).
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    /// For timings and errors.
    pub(crate) label: String,
    /// The module; its entry point is `main`.
    pub(crate) wgsl: String,
    /// Storage windows, in the order of their numbers.
    pub(crate) bindings: Vec<Binding>,
    /// Contents of the sizes uniform; empty: not bound.
    pub(crate) sizes: Vec<u32>,
    /// Whether the host values are bound.
    pub(crate) uses_uniforms: bool,
    /// Whether the status word is bound.
    pub(crate) uses_status: bool,
    /// Workgroups to run.
    pub(crate) groups: [u32; 3],
}

/// The launches that do what `kernel` says.
pub(crate) fn render(_plan: &Plan, kernel: &Kernel, _caps: &Capabilities) -> Result<Vec<Launch>> {
    Err(Error::Kernel { kernel: kernel.label.clone(), message: "there is no renderer in this build".into() })
}
