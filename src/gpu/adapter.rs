//! The adapters of this machine.

use std::sync::OnceLock;

use crate::debug;
use crate::device::{DeviceInfo, DeviceKind};

use super::render::Capabilities;

/// An adapter that can be opened.
pub(crate) struct Adapter {
    /// wgpu's handle.
    pub(super) raw: wgpu::Adapter,
    /// What is known about it.
    pub(crate) info: DeviceInfo,
}

/// All adapters, the most capable kind first; `gpu:n` counts them in this order. They are looked for once.
pub(crate) fn adapters() -> &'static [Adapter] {
    static ADAPTERS: OnceLock<Vec<Adapter>> = OnceLock::new();
    ADAPTERS.get_or_init(|| {
        let mut found = pollster::block_on(instance().enumerate_adapters(wgpu::Backends::PRIMARY));
        found.sort_by_key(|adapter| kind(adapter.get_info().device_type));
        (0..).zip(found).map(|(number, raw)| Adapter { info: describe(&raw, number), raw }).collect()
    })
}

/// What is requested of an adapter that has it.
pub(super) fn wanted_features() -> wgpu::Features {
    wgpu::Features::SHADER_F16 | wgpu::Features::SUBGROUP | wgpu::Features::TIMESTAMP_QUERY
}

/// What kernels may rely on.
pub(super) fn capabilities(raw: &wgpu::Adapter) -> Capabilities {
    let (limits, info) = (raw.limits(), raw.get_info());
    let features = raw.features() & wanted_features();
    Capabilities {
        max_binding_bytes: limits.max_storage_buffer_binding_size & !255,
        max_storage_buffers: max_storage_buffers(&limits),
        max_workgroup_invocations: limits.max_compute_invocations_per_workgroup,
        max_workgroup_bytes: limits.max_compute_workgroup_storage_size,
        max_groups: limits.max_compute_workgroups_per_dimension,
        f16: features.contains(wgpu::Features::SHADER_F16),
        subgroups: subgroups(features, &info),
        software: info.device_type == wgpu::DeviceType::Cpu,
    }
}

fn describe(raw: &wgpu::Adapter, number: usize) -> DeviceInfo {
    let (limits, info) = (raw.limits(), raw.get_info());
    let features = raw.features() & wanted_features();
    DeviceInfo {
        selector: format!("gpu:{number}"),
        driver: format!("{} {}", info.driver, info.driver_info).trim().to_owned(),
        kind: kind(info.device_type),
        backend: format!("{:?}", info.backend),
        memory_bytes: memory_bytes(raw),
        max_buffer_bytes: limits.max_buffer_size,
        max_binding_bytes: limits.max_storage_buffer_binding_size,
        max_storage_buffers: max_storage_buffers(&limits),
        max_workgroup_invocations: limits.max_compute_invocations_per_workgroup,
        max_workgroup_bytes: limits.max_compute_workgroup_storage_size,
        subgroups: subgroups(features, &info),
        f16: features.contains(wgpu::Features::SHADER_F16),
        timestamps: features.contains(wgpu::Features::TIMESTAMP_QUERY),
        name: info.name,
    }
}

/// Memory that a kernel may see besides the status word.
fn max_storage_buffers(limits: &wgpu::Limits) -> u32 {
    limits.max_storage_buffers_per_shader_stage - 1
}

fn kind(device_type: wgpu::DeviceType) -> DeviceKind {
    match device_type {
        wgpu::DeviceType::DiscreteGpu => DeviceKind::Discrete,
        wgpu::DeviceType::IntegratedGpu => DeviceKind::Integrated,
        wgpu::DeviceType::VirtualGpu => DeviceKind::Virtual,
        wgpu::DeviceType::Cpu => DeviceKind::Software,
        wgpu::DeviceType::Other => DeviceKind::Other,
    }
}

fn subgroups(features: wgpu::Features, info: &wgpu::AdapterInfo) -> Option<(u32, u32)> {
    features.contains(wgpu::Features::SUBGROUP).then_some((info.subgroup_min_size, info.subgroup_max_size))
}

fn instance() -> wgpu::Instance {
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    // The validation layers cost more than the kernels; wgpu's own validation is always on.
    descriptor.flags = match debug::level() {
        0..=2 => wgpu::InstanceFlags::empty(),
        _ => wgpu::InstanceFlags::debugging(),
    };
    wgpu::Instance::new(descriptor)
}

/// Bytes of the adapter's own memory: the largest heap that its driver calls local to it.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "windows", target_os = "freebsd"))]
fn memory_bytes(raw: &wgpu::Adapter) -> Option<u64> {
    const DEVICE_LOCAL: u32 = 1; // VK_MEMORY_HEAP_DEVICE_LOCAL_BIT
    #[expect(unsafe_code, reason = "wgpu tells no memory sizes; Vulkan does")]
    // SAFETY: the adapter is alive while its raw handle is used, and only properties are read.
    let properties = unsafe {
        let adapter = raw.as_hal::<wgpu::hal::api::Vulkan>()?;
        let instance = adapter.shared_instance().raw_instance();
        instance.get_physical_device_memory_properties(adapter.raw_physical_device())
    };
    let heaps = properties.memory_heaps.iter().take(properties.memory_heap_count as usize);
    heaps.filter(|heap| heap.flags.as_raw() & DEVICE_LOCAL != 0).map(|heap| heap.size).max()
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "windows", target_os = "freebsd")))]
fn memory_bytes(_raw: &wgpu::Adapter) -> Option<u64> {
    None
}
