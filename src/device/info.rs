//! What is known about a device without using it.

use std::fmt;

use crate::sensors::host_memory_bytes;

/// What kind of processor a device is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceKind {
    /// A GPU with memory of its own.
    Discrete,
    /// A GPU that shares the processor's memory.
    Integrated,
    /// A GPU seen through a virtual machine.
    Virtual,
    /// A GPU of unknown kind.
    Other,
    /// A GPU driver that computes on the processor (llvmpipe, WARP).
    Software,
    /// The native CPU backend.
    Cpu,
}

impl DeviceKind {
    /// All of them.
    #[cfg(all(test, feature = "ui"))]
    pub(crate) const ALL: [Self; 6] =
        [Self::Discrete, Self::Integrated, Self::Virtual, Self::Other, Self::Software, Self::Cpu];

    /// The lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Discrete => "discrete GPU",
            Self::Integrated => "integrated GPU",
            Self::Virtual => "virtual GPU",
            Self::Other => "GPU",
            Self::Software => "software GPU",
            Self::Cpu => "CPU",
        }
    }
}

impl DeviceKind {
    /// Whether devices of this kind are taken where none is named: GPUs that are known to be some.
    pub(crate) const fn is_taken_unasked(self) -> bool {
        matches!(self, Self::Discrete | Self::Integrated | Self::Virtual)
    }
}

/// A device, as `brasa devices` lists it.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
pub struct DeviceInfo {
    /// What to give to `--device` to get it: `cpu`, `gpu:0`, …
    pub selector: String,
    /// The adapter's name.
    pub name: String,
    /// What kind of processor it is.
    pub kind: DeviceKind,
    /// The programming interface it is reached through: `Vulkan`, `Metal`, `Dx12` or `native`.
    pub backend: String,
    /// The driver and its version.
    pub driver: String,
    /// Where it is on the PCI bus, such as `0000:03:00.0`, where the driver tells.
    pub pci_bus: Option<String>,
    /// Bytes of its memory, where the system tells.
    pub memory_bytes: Option<u64>,
    /// Bytes of the largest single allocation.
    pub max_buffer_bytes: u64,
    /// Bytes of the largest piece of memory that a kernel sees at once.
    pub max_binding_bytes: u64,
    /// How many pieces of memory a kernel may see.
    pub max_storage_buffers: u32,
    /// Invocations in a workgroup.
    pub max_workgroup_invocations: u32,
    /// Bytes of memory shared by a workgroup.
    pub max_workgroup_bytes: u32,
    /// Smallest and largest number of invocations that run in step, where reductions make use of it.
    pub subgroups: Option<(u32, u32)>,
    /// Whether kernels can read and write 16-bit floats; the CPU computes with them in f32.
    pub f16: bool,
    /// Whether the device's own clock can be read.
    pub timestamps: bool,
    /// Sizes and types of the small matrices that its units (tensor cores, simdgroup matrices) multiply, where they are
    /// used: `16x16 f16`.
    pub cooperative: Option<String>,
}

impl fmt::Display for DeviceInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({}, {})", self.selector, self.name, self.kind.name(), self.backend)
    }
}

/// The entry of the CPU backend.
pub(crate) fn cpu_info() -> DeviceInfo {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    DeviceInfo {
        selector: "cpu".into(),
        name: format!("CPU, {cores} threads"),
        kind: DeviceKind::Cpu,
        backend: "native".into(),
        driver: format!("brasa {}, {}", env!("CARGO_PKG_VERSION"), crate::cpu::vector_instructions()),
        pci_bus: None,
        memory_bytes: host_memory_bytes(),
        max_buffer_bytes: u64::MAX,
        max_binding_bytes: u64::MAX,
        max_storage_buffers: u32::MAX,
        max_workgroup_invocations: 0,
        max_workgroup_bytes: 0,
        subgroups: None,
        f16: true,
        timestamps: false,
        cooperative: None,
    }
}
