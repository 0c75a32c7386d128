//! From a plan's kernels to WGSL: text and numbers only, nothing here knows wgpu.
//!
//! A kernel's module is a family file from `shaders/` whose slots are filled with code generated from the kernel's
//! tapes. `space` turns index expressions into WGSL, `tape` instructions, `module` declares buffers and numbers,
//! `loops` and `contract` choose variants, `routine`, `attention` and `custom` are no tapes, `rewrite` cuts kernels
//! whose writes exceed a binding or that may take too long.
//!
//! The text is the key of the pipeline cache: with [`Plan::literal_sizes`] off it is the same for sizes of a structure
//! that are multiples of the same numbers (vectors, tiles) and take the same tile. Shaders are compiled unchecked:
//! every index is in bounds by construction, or clamped where it depends on what memory holds.

mod attention;
mod contract;
mod custom;
mod library;
mod loops;
mod module;
mod reach;
mod rewrite;
mod routine;
mod scalar;
mod space;
mod tape;
#[cfg(test)]
mod tests;
mod tree;
mod windows;

use std::sync::Arc;

use crate::error::Result;
use crate::plan::{Body, BufferId, Kernel, Plan, Routine, RoutineKind};

#[cfg(test)]
pub(crate) use contract::Tile;
pub(crate) use contract::{Tuned, Units, Variant, identity, lanes_probe_text, probe_terms_text, probe_text, variants};
pub(crate) use library::{MOVE_BYTES, TALLY};
use module::Module;
pub(crate) use tree::probe_text as subgroup_probe_text;

/// Workgroups that keep a GPU busy. No adapter tells how many cores it has; large ones have some 130 (H100: 132).
pub(crate) const BUSY_GROUPS: usize = 128;

/// What the renderer has to know about an adapter.
#[derive(Clone, Debug)]
pub(crate) struct Capabilities {
    /// Bytes of the largest storage binding.
    pub max_binding_bytes: u64,
    /// Storage buffers that one kernel may bind beside the status word.
    pub max_storage_buffers: u32,
    /// Host values that a uniform holds; of more, all are read from storage.
    pub max_uniforms: usize,
    /// Invocations in the smallest workgroup whose barriers can be relied upon.
    pub least_threads: u32,
    /// Invocations in the largest workgroup.
    pub max_workgroup_invocations: u32,
    /// Bytes of workgroup memory.
    pub max_workgroup_bytes: u32,
    /// Workgroups in one dimension of a dispatch.
    pub max_groups: u32,
    /// Whether shaders may use f16.
    pub f16: bool,
    /// A launch that may pessimistically take longer is cut; infinite where no watchdog resets the adapter.
    pub launch_milliseconds: f64,
    /// Workgroups that keep all of its cores busy: for a CPU-type adapter, its threads.
    pub busy_groups: usize,
    /// True for CPU-type adapters such as llvmpipe, where workgroup memory is slow.
    pub software: bool,
    /// Whether several invocations may share a sum of a contraction with few results.
    pub shares_sums: bool,
    /// The smallest and the largest number of lanes that a subgroup may have, powers of two, if kernels use subgroups.
    pub subgroups: Option<[usize; 2]>,
    /// What multiplies small matrices.
    pub cooperative: Option<Units>,
    /// Which variants of contractions were measured to be the fastest.
    pub tuned: Option<Arc<Tuned>>,
}

/// How a launch binds the host values, all of which are one buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Uniforms {
    /// As a uniform.
    Uniform,
    /// As storage: they are too many for a uniform.
    Storage,
}

/// A window of a buffer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Binding {
    /// Which buffer of the plan.
    pub buffer: BufferId,
    /// Its first byte, a multiple of 256.
    pub offset_bytes: u64,
    /// Its bytes, a multiple of 16; may reach into the buffer's padding.
    pub size_bytes: u64,
    /// Whether the kernel writes it.
    pub writable: bool,
}

impl Capabilities {
    /// Of no adapter in particular: for showing what kernels look like.
    pub(crate) const GENERAL: Self = Self {
        max_binding_bytes: 1 << 31,
        max_storage_buffers: 64,
        max_uniforms: 1 << 14,
        least_threads: 1,
        max_workgroup_invocations: 256,
        max_workgroup_bytes: 16 << 10,
        max_groups: 65_535,
        f16: true,
        launch_milliseconds: f64::INFINITY,
        busy_groups: BUSY_GROUPS,
        software: false,
        shares_sums: true,
        subgroups: None,
        cooperative: None,
        tuned: None,
    };
}

/// One dispatch. Bindings of group 0 are the storage windows in order, then, each only if used: the sizes (uniform),
/// the host values (uniform), the status word (storage, atomic).
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    /// The kernel's label.
    pub label: String,
    /// The module; its entry point is `main`.
    pub wgsl: String,
    /// The entry point of a module that is not ours: it is compiled with all checks.
    pub foreign: Option<String>,
    /// The storage windows.
    pub bindings: Vec<Binding>,
    /// Contents of the sizes uniform, whole vectors of four; empty if it is not bound.
    pub sizes: Vec<u32>,
    /// Whether the host values are bound.
    pub uniforms: Option<Uniforms>,
    /// Whether the status word is bound.
    pub uses_status: bool,
    /// Workgroups in each dimension.
    pub groups: [u32; 3],
}

/// The dispatches that do what `kernel` says, to be run in order; none if there is nothing to compute.
pub(crate) fn render(plan: &Plan, kernel: &Kernel, caps: &Capabilities) -> Result<Vec<Launch>> {
    render_as(plan, kernel, caps, tuned(plan, kernel, caps))
}

/// The variant that was measured to be faster than that of the rule. Kernels that other sizes share were never
/// measured.
pub(crate) fn tuned(plan: &Plan, kernel: &Kernel, caps: &Capabilities) -> Option<Variant> {
    let (Some(tuned), Body::Contract(contraction)) = (&caps.tuned, &kernel.body) else { return None };
    if tuned.is_empty() || !plan.literal_sizes {
        return None;
    }
    let variant = *tuned.get(&identity(contraction))?;
    // a file may say anything
    variants(caps, contraction).contains(&variant).then_some(variant)
}

/// The dispatches with this variant of a contraction, or that of the rule.
pub(crate) fn render_as(
    plan: &Plan,
    kernel: &Kernel,
    caps: &Capabilities,
    variant: Option<Variant>,
) -> Result<Vec<Launch>> {
    if let Body::Routine(routine @ Routine { kind: RoutineKind::Custom(invocation), .. }) = &kernel.body {
        return custom::render(plan, &kernel.label, routine, invocation, caps);
    }
    if let Body::Routine(routine @ Routine { kind: RoutineKind::Attention(of), .. }) = &kernel.body {
        return attention::render(plan, kernel, routine, of, caps);
    }
    reach::check(&kernel.label, &kernel.body)?;
    let mut launches = Vec::new();
    for mut body in rewrite::pieces(plan, kernel, caps) {
        let storages = windows::bind(plan, kernel, &mut body, caps);
        let module = Module::new(plan, caps, &kernel.label, storages);
        module.check_windows()?;
        launches.extend(match &body {
            Body::Loop(piece) => loops::render(module, piece, rewrite::independent_points(&kernel.body))?,
            Body::Contract(piece) => {
                let Body::Contract(whole) = &kernel.body else { unreachable!("pieces are of its kind") };
                contract::render(module, piece, whole, variant)?
            }
            Body::Routine(piece) => Some(routine::render(module, piece)?),
        });
    }
    Ok(launches)
}

/// The different modules of a kernel's dispatches, as one text.
pub(crate) fn text(plan: &Plan, kernel: &Kernel, caps: &Capabilities) -> Result<String> {
    let mut texts: Vec<String> = render(plan, kernel, caps)?.into_iter().map(|launch| launch.wgsl).collect();
    texts.dedup();
    Ok(texts.join("\n// ---\n\n"))
}

/// The columns and rows of a grid of `groups` workgroups, with as few left over as rows of one length allow.
fn folded(groups: u64, caps: &Capabilities) -> [u64; 2] {
    let rows = groups.div_ceil(u64::from(caps.max_groups)).max(1);
    [groups.div_ceil(rows), rows]
}

/// The `grid` slot and the workgroups for `work` invocations in groups of `threads`.
fn grid(module: &mut Module<'_>, work: usize, threads: usize) -> Result<(String, [u32; 3])> {
    let (text, groups) = grid_of_groups(module, work, threads)?;
    Ok((format!("const THREADS: u32 = {threads}u;\n\n{text}"), groups))
}

/// The same where a workgroup takes `each` pieces of `work`, whatever its threads are; more groups than fit into one
/// dimension fold into the second.
fn grid_of_groups(module: &mut Module<'_>, work: usize, each: usize) -> Result<(String, [u32; 3])> {
    let [columns, rows] = folded(work.div_ceil(each) as u64, module.caps);
    if rows > u64::from(module.caps.max_groups) || work as u64 > u64::from(u32::MAX) {
        return Err(module.error(format!("it has {work} pieces of work, more than this adapter can count")));
    }
    let (work, columns_text) = (module.number(work as u64), module.number(columns));
    let text = format!(
        "fn work_count() -> u32 {{\n    return {work};\n}}\n\nfn groups_x() -> u32 {{\n    return {columns_text};\n}}\n"
    );
    Ok((text, [columns as u32, rows as u32, 1]))
}
