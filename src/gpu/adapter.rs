//! The adapters of this machine.

use std::sync::{Arc, Mutex, PoisonError};

use crate::debug;
use crate::device::{DeviceInfo, DeviceKind};

use super::features;
use super::passes::launch_milliseconds;
use super::render::{BUSY_GROUPS, Capabilities};

/// An adapter that can be opened.
pub(crate) struct Adapter {
    /// wgpu's handle.
    pub(super) raw: wgpu::Adapter,
    /// What is known about it.
    pub(crate) info: DeviceInfo,
    /// What tells it from the others, in whichever order they are listed.
    pub(crate) identity: Identity,
}

/// An adapter's vendor, place on the bus, interface and name, and which one it is of those alike.
pub(crate) type Identity = (String, usize);

/// The adapters in the order of their numbers.
pub(crate) type Adapters = Arc<[Arc<Adapter>]>;

static LISTED: Mutex<Option<Adapters>> = Mutex::new(None);

/// All adapters, the most capable kind first; `gpu:n` counts them in this order. They are looked for once, and again
/// by [`look_again`].
pub(crate) fn adapters() -> Adapters {
    let mut listed = LISTED.lock().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(listed.get_or_insert_with(enumerate))
}

/// All adapters that there are now: a GPU may have been plugged in, or its driver started anew.
pub(crate) fn look_again() -> Adapters {
    let now = enumerate();
    *LISTED.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&now));
    now
}

fn enumerate() -> Adapters {
    let mut found = pollster::block_on(instance().enumerate_adapters(wgpu::Backends::PRIMARY));
    found.sort_by_key(|adapter| kind(adapter.get_info().device_type));
    let mut list: Vec<Arc<Adapter>> = Vec::with_capacity(found.len());
    for (number, raw) in found.into_iter().enumerate() {
        let mut identity = identity(&raw);
        identity.1 = list.iter().filter(|other| other.identity.0 == identity.0).count();
        let info = describe(format!("gpu:{number}"), &raw, &raw.limits(), raw.features() & features::wanted());
        list.push(Arc::new(Adapter { raw, info, identity }));
    }
    list.into()
}

/// What is best requested of an adapter: all its limits, and those of our features that it has.
pub(crate) fn wanted(raw: &wgpu::Adapter) -> wgpu::DeviceDescriptor<'static> {
    #[expect(unsafe_code, reason = "wgpu asks for consent to features that may still have errors of its own")]
    // SAFETY: the kernels that use cooperative matrices are held against the f64 reference like all others.
    let experimental_features = unsafe { wgpu::ExperimentalFeatures::enabled() };
    wgpu::DeviceDescriptor {
        label: Some("brasa"),
        required_features: raw.features() & features::wanted(),
        experimental_features,
        required_limits: raw.limits(),
        memory_hints: wgpu::MemoryHints::Performance,
        ..Default::default()
    }
}

/// What kernels may rely on.
pub(super) fn capabilities(adapter: &wgpu::Adapter, device: &wgpu::Device) -> Capabilities {
    let limits = device.limits();
    let software = features::is_software(device.adapter_info().device_type);
    Capabilities {
        max_binding_bytes: limits.max_storage_buffer_binding_size & !255,
        max_storage_buffers: max_storage_buffers(&limits),
        max_uniforms: (limits.max_uniform_buffer_binding_size / 4) as usize,
        // Apple's compiler leaves barriers out where a workgroup has no more than a SIMD group's 32 (MoltenVK issue
        // 2711)
        least_threads: if adapter.get_info().backend == wgpu::Backend::Metal { 64 } else { 1 },
        max_workgroup_invocations: limits.max_compute_invocations_per_workgroup,
        max_workgroup_bytes: limits.max_compute_workgroup_storage_size,
        max_groups: limits.max_compute_workgroups_per_dimension,
        f16: device.features().contains(wgpu::Features::SHADER_F16),
        launch_milliseconds: launch_milliseconds(device.adapter_info().device_type),
        busy_groups: if software { rayon::current_num_threads() } else { BUSY_GROUPS },
        software,
        shares_sums: !software,
        subgroups: features::subgroups(&adapter.get_info(), device.features())
            .map(|sizes| sizes.map(|size| size as usize)),
        cooperative: features::units(adapter, device.features()),
        tuned: None,
    }
}

/// What is known about an adapter of which these limits and features are used.
pub(super) fn describe(
    selector: String,
    raw: &wgpu::Adapter,
    limits: &wgpu::Limits,
    features: wgpu::Features,
) -> DeviceInfo {
    let info = raw.get_info();
    let bus = info.device_pci_bus_id.clone();
    DeviceInfo {
        selector,
        driver: format!("{} {}", info.driver, info.driver_info).trim().to_owned(),
        kind: kind(info.device_type),
        backend: format!("{:?}", info.backend),
        pci_bus: Some(bus).filter(|bus| !bus.is_empty()),
        memory_bytes: memory_bytes(raw),
        max_buffer_bytes: limits.max_buffer_size,
        max_binding_bytes: limits.max_storage_buffer_binding_size,
        max_storage_buffers: max_storage_buffers(limits),
        max_workgroup_invocations: limits.max_compute_invocations_per_workgroup,
        max_workgroup_bytes: limits.max_compute_workgroup_storage_size,
        subgroups: features::subgroups(&info, features).map(Into::into),
        f16: features.contains(wgpu::Features::SHADER_F16),
        timestamps: features.contains(wgpu::Features::TIMESTAMP_QUERY),
        cooperative: features::units(raw, features).map(|units| units.to_string()),
        name: info.name,
    }
}

/// Memory that a kernel may see besides the status word. Metal counts the uniform buffers, sizes and host values, as
/// well.
fn max_storage_buffers(limits: &wgpu::Limits) -> u32 {
    let all = limits.max_buffers_and_acceleration_structures_per_shader_stage;
    (limits.max_storage_buffers_per_shader_stage - 1).min(all.saturating_sub(3))
}

/// What tells an adapter from others, the first of those alike.
pub(crate) fn identity(raw: &wgpu::Adapter) -> Identity {
    let info = raw.get_info();
    let (vendor, device, bus, backend) = (info.vendor, info.device, info.device_pci_bus_id, info.backend);
    (format!("{vendor:04x}:{device:04x} {bus} {backend:?} {}", info.name), 0)
}

fn kind(device_type: wgpu::DeviceType) -> DeviceKind {
    match device_type {
        wgpu::DeviceType::DiscreteGpu => DeviceKind::Discrete,
        wgpu::DeviceType::IntegratedGpu => DeviceKind::Integrated,
        wgpu::DeviceType::VirtualGpu => DeviceKind::Virtual,
        kind if features::is_software(kind) => DeviceKind::Software,
        wgpu::DeviceType::Cpu | wgpu::DeviceType::Other => DeviceKind::Other,
    }
}

fn instance() -> wgpu::Instance {
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    // The validation layers cost more than the kernels; wgpu's own validation is always on.
    descriptor.flags = match debug::level() {
        0..=2 => wgpu::InstanceFlags::empty(),
        _ => wgpu::InstanceFlags::debugging(),
    };
    // wgpu's own variables, such as the one that lets drivers in which call themselves not conformant (WSL's)
    wgpu::Instance::new(descriptor.with_env())
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
