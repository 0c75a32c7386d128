//! Own kernels: the application's text as it is, bound to whole values.

use crate::custom::{ALIGNMENT, Invocation};
use crate::error::{Error, Result};
use crate::plan::{Plan, Routine, Span};

use super::{Binding, Capabilities, Launch, folded, library};

/// Invocations of a group that writes zeros.
const ZERO_THREADS: u64 = 256;

/// The launches for an own kernel: one for the zeros that its outputs start with, if it wants them, and its own.
pub(super) fn render(
    plan: &Plan,
    label: &str,
    routine: &Routine,
    kernel: &Invocation,
    caps: &Capabilities,
) -> Result<Vec<Launch>> {
    let interface = &kernel.interface;
    check(label, kernel, caps)?;
    let mut launches = Vec::new();
    if kernel.zeroed() && routine.output.elements > 0 {
        // memory comes in such pieces
        let bytes = (routine.output.elements * kernel.dtype().size_bytes()).next_multiple_of(16) as u64;
        launches.push(zero(label, window(plan, label, &routine.output, bytes, true, caps)?, caps));
    }
    let parts = kernel.parts().into_iter().map(|part| Span {
        offset: routine.output.offset + part.start,
        elements: part.len(),
        ..routine.output
    });
    let values = routine.inputs.iter().copied().map(|span| (span, false)).chain(parts.map(|span| (span, true)));
    let bindings = interface.bindings.iter().zip(values).map(|(binding, (span, writable))| {
        let bytes = binding.bound_bytes(span.elements * plan.buffers[span.buffer].dtype.size_bytes());
        window(plan, label, &span, bytes as u64, writable, caps)
    });
    let mut sizes = kernel.params.clone();
    sizes.resize(sizes.len().next_multiple_of(4), 0);
    launches.push(Launch {
        label: label.into(),
        wgsl: interface.wgsl.clone(),
        foreign: Some(interface.entry.clone()),
        bindings: bindings.collect::<Result<_>>()?,
        sizes,
        uniforms: None,
        uses_status: false,
        groups: kernel.groups,
    });
    Ok(launches)
}

/// What the adapter does not allow.
fn check(label: &str, kernel: &Invocation, caps: &Capabilities) -> Result<()> {
    let interface = &kernel.interface;
    let (bound, groups) = (interface.bindings.len(), kernel.groups);
    let problem = if interface.half && !caps.f16 {
        "it needs f16 in shaders, which this adapter has not; an `array<u32>` takes f16 tensors too, two to a word"
            .into()
    } else if bound > caps.max_storage_buffers as usize {
        format!("it binds {bound} tensors, this adapter allows {}", caps.max_storage_buffers)
    } else if interface.workgroup > u64::from(caps.max_workgroup_invocations) {
        let (workgroup, most) = (interface.workgroup, caps.max_workgroup_invocations);
        format!("its workgroups have {workgroup} invocations, this adapter allows {most}")
    } else if interface.workgroup_bytes > u64::from(caps.max_workgroup_bytes) {
        let (bytes, most) = (interface.workgroup_bytes, caps.max_workgroup_bytes);
        format!("its workgroups share {bytes} bytes, this adapter allows {most}")
    } else if groups.iter().any(|&count| count > caps.max_groups) {
        format!("it wants {groups:?} workgroups, this adapter allows {} in each dimension", caps.max_groups)
    } else {
        return Ok(());
    };
    Err(Error::CustomKernel { kernel: label.into(), line: None, message: problem })
}

/// `bytes` bytes from the first element of `span` on.
fn window(plan: &Plan, label: &str, span: &Span, bytes: u64, writable: bool, caps: &Capabilities) -> Result<Binding> {
    if bytes > caps.max_binding_bytes {
        return Err(Error::BindingTooLarge { kernel: label.into(), bytes, limit_bytes: caps.max_binding_bytes });
    }
    let offset_bytes = (span.offset * plan.buffers[span.buffer].dtype.size_bytes()) as u64;
    assert!(offset_bytes.is_multiple_of(ALIGNMENT as u64), "{label}: the planner gives own kernels aligned memory");
    Ok(Binding { buffer: span.buffer, offset_bytes, size_bytes: bytes, writable })
}

fn zero(label: &str, window: Binding, caps: &Capabilities) -> Launch {
    let groups = (window.size_bytes / 4).div_ceil(ZERO_THREADS);
    let [columns, rows] = folded(groups, caps);
    Launch {
        label: format!("{label} zeros"),
        wgsl: library::ZERO.into(),
        foreign: None,
        bindings: vec![window],
        sizes: Vec::new(),
        uniforms: None,
        uses_status: false,
        groups: [columns as u32, rows as u32, 1],
    }
}
