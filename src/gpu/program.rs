//! A plan with compiled kernels.

use std::sync::Arc;

use rayon::prelude::*;

use crate::error::Result;
use crate::plan::Plan;
use crate::pool;

use super::context::Gpu;
use super::passes::{Cost, pessimistic_milliseconds};
use super::pipeline::Pipeline;
use super::render::{Binding, Capabilities, Launch, render};

/// A plan, ready to be bound to memory.
#[derive(Debug)]
pub(crate) struct Program {
    /// Where it runs.
    pub(super) gpu: Arc<Gpu>,
    /// What it runs.
    pub(super) plan: Arc<Plan>,
    /// Its launches in order.
    pub(super) launches: Vec<Prepared>,
    /// How long the launches are thought to take before they are measured.
    pub(super) costs: Vec<Cost>,
    /// The sizes of all launches.
    pub(super) sizes: wgpu::Buffer,
    /// A launch can raise the device's status.
    pub(super) may_raise: bool,
}

/// A launch with its compiled kernel.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) pipeline: Arc<Pipeline>,
    pub(super) bindings: Vec<Binding>,
    /// Where its sizes lie: (first byte, bytes).
    pub(super) sizes: Option<(u64, u64)>,
    pub(super) uses_uniforms: bool,
    pub(super) uses_status: bool,
    pub(super) groups: [u32; 3],
}

impl Program {
    /// Renders and compiles all kernels of a plan.
    pub(crate) fn new(gpu: &Arc<Gpu>, plan: Arc<Plan>) -> Result<Self> {
        Self::with_capabilities(gpu, plan, &gpu.caps)
    }

    /// The same, rendered for an adapter that can do this.
    pub(super) fn with_capabilities(gpu: &Arc<Gpu>, plan: Arc<Plan>, caps: &Capabilities) -> Result<Self> {
        let rendered: Vec<Vec<Launch>> =
            pool::run(|| plan.kernels.par_iter().map(|kernel| render(&plan, kernel, caps)).collect::<Result<_>>())?;
        Self::from_launches(gpu, plan, rendered)
    }

    /// Compiles launches, given for each kernel of the plan.
    pub(crate) fn from_launches(gpu: &Arc<Gpu>, plan: Arc<Plan>, rendered: Vec<Vec<Launch>>) -> Result<Self> {
        gpu.check()?;
        let mut flat = Vec::new();
        let mut kernels = Vec::new(); // for each launch: the number of its kernel, and how many launches that has
        for (kernel, mut launches) in rendered.into_iter().enumerate() {
            launches.retain(|launch| !launch.groups.contains(&0));
            kernels.extend(std::iter::repeat_n((kernel, launches.len() as u64), launches.len()));
            flat.append(&mut launches);
        }
        let pipelines = gpu.pipelines(&flat.iter().collect::<Vec<_>>())?;
        let alignment = gpu.device.limits().min_uniform_buffer_offset_alignment as usize / size_of::<u32>();
        let mut sizes = Vec::new();
        let mut costs = Vec::new();
        let mut launches = Vec::new();
        for ((launch, pipeline), (kernel, parts)) in flat.into_iter().zip(pipelines).zip(kernels) {
            let body = &plan.kernels[kernel];
            let milliseconds = pessimistic_milliseconds(body.flops / parts, body.bytes / parts);
            costs.push(Cost { kernel, stage: body.stage, milliseconds });
            launches.push(Prepared {
                pipeline,
                sizes: append_sizes(&mut sizes, &launch.sizes, alignment),
                bindings: launch.bindings,
                uses_uniforms: launch.uniforms.is_some(),
                uses_status: launch.uses_status,
                groups: launch.groups,
            });
        }
        let sizes = gpu.uniform_buffer("sizes", &sizes);
        let may_raise = launches.iter().any(|launch| launch.uses_status);
        gpu.check()?;
        Ok(Self { gpu: Arc::clone(gpu), plan, launches, costs, sizes, may_raise })
    }
}

/// Puts a launch's sizes behind the others, where a binding may start, and says where.
fn append_sizes(all: &mut Vec<u32>, own: &[u32], alignment: usize) -> Option<(u64, u64)> {
    if own.is_empty() {
        return None;
    }
    all.resize(all.len().next_multiple_of(alignment), 0);
    let first = all.len();
    all.extend_from_slice(own);
    all.resize(all.len().next_multiple_of(4), 0); // whole vec4s
    Some((first as u64 * 4, (all.len() - first) as u64 * 4))
}
