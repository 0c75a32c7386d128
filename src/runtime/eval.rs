//! Evaluation of uncaptured graphs, through a cache of plans keyed by structure.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::device::{Device, DeviceKind, Executable, Purpose, Storage};
use crate::error::{Error, Result};
use crate::graph::{Memory, Node, NodeRef, Op, Program, Tracer};
use crate::matmul_precision::MatmulPrecision;
use crate::plan::{self, PlanOptions};

use super::trace;

/// Plans kept for uncaptured code, on each device.
const CACHED_PLANS: usize = 512;

struct Cached {
    program: Program,
    executable: Arc<Executable>,
    used: u64,
}

/// A device's plans by the key of their program and what they were planned for, kept with it.
#[derive(Default)]
struct PlanCache(Mutex<Plans>);

#[derive(Default)]
struct Plans {
    by_key: FxHashMap<(u64, PlanOptions), Cached>,
    clock: u64,
    stats: PlanCacheStats,
}

impl PlanCache {
    fn plans(&self) -> MutexGuard<'_, Plans> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How often plans were found and made.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct PlanCacheStats {
    /// A plan for the same structure was there.
    pub hits: u64,
    /// A plan had to be made.
    pub misses: u64,
    /// Plans dropped to keep the cache bounded.
    pub evictions: u64,
}

/// How often uncaptured code on `device` found its plan in the cache.
pub fn plan_cache_stats(device: &Device) -> PlanCacheStats {
    device.kept::<PlanCache>().plans().stats
}

/// The planner's options for captured steps on `device`.
pub(crate) fn options_for(device: &Device) -> PlanOptions {
    let info = device.info();
    let options = match info.kind {
        DeviceKind::Cpu => PlanOptions::CPU,
        DeviceKind::Software => PlanOptions::software(info.max_storage_buffers as usize),
        _ => PlanOptions::gpu(info.max_storage_buffers as usize),
    };
    // where it makes no difference, plans are none either
    let matmul_precision = if device.splits_products() { device.matmul_precision() } else { MatmulPrecision::Highest };
    PlanOptions { matmul_precision, ..options }
}

/// The same, for plans that will hardly run twice: kernels do not depend on sizes, so they are rarely compiled.
fn one_off_options(device: &Device) -> PlanOptions {
    PlanOptions { literal_sizes: false, ..options_for(device) }
}

/// Computes the values of `nodes`, as far as they have none.
///
/// # Errors
/// If a step is being traced, a value was made from the inputs of one, or the device fails.
#[track_caller]
pub fn realize(nodes: &[NodeRef]) -> Result<()> {
    let missing: SmallVec<[&NodeRef; 4]> = nodes.iter().filter(|node| node.value().is_none()).collect();
    let Some(first) = missing.first() else { return Ok(()) };
    if trace::is_tracing() {
        let here = std::panic::Location::caller();
        return Err(Error::Traced { what: format!("reading a value of {} at {here}", first.shape) });
    }
    let mut left = missing.as_slice();
    while let Some(first) = left.first() {
        let device = first.device.clone();
        let count = left.iter().take_while(|node| node.device == device).count();
        realize_on(&device, &left[..count])?;
        left = &left[count..];
    }
    Ok(())
}

fn realize_on(device: &Device, nodes: &[&NodeRef]) -> Result<()> {
    let _exclusive = device.exclusive();
    let mut tracer = Tracer::default();
    let numbers = nodes.iter().map(|node| tracer.add(node)).collect::<Result<SmallVec<[usize; 4]>>>()?;
    tracer.program.check_sizes()?;
    // a vector's gaps have to be zero; everything else is written all over
    let has_gaps = tracer.program.nodes.iter().any(|node| matches!(node.op, Op::Pack { .. }));
    let mut results = SmallVec::<[Storage; 4]>::new();
    for (node, number) in nodes.iter().zip(numbers) {
        node.check_size()?;
        let (bytes, purpose) = (node.shape.bytes(node.dtype), Purpose::node(node));
        let storage = if has_gaps { device.alloc(bytes, purpose) } else { device.alloc_pooled(bytes, purpose) }?;
        let external = tracer.external(&storage, node.dtype);
        tracer.output(number, external, 0);
        results.push(storage);
    }
    let uniforms: Vec<u32> = tracer.hosts.iter().map(|host| host.get()).collect();
    if crate::debug::validate() {
        let plan = plan::plan(&tracer.program, &one_off_options(device));
        super::validate::run(device, &plan, &tracer.storages, &uniforms)?;
    } else {
        executable(device, &tracer.program)?.run_once(&tracer.storages, &uniforms)?;
    }
    for (node, storage) in nodes.iter().zip(results) {
        node.set_value(Memory::new(storage, 0));
    }
    Ok(())
}

/// The compiled plan of `program`, from the cache if an equal one was run before.
fn executable(device: &Device, program: &Program) -> Result<Arc<Executable>> {
    let options = one_off_options(device);
    let key = (program.key(), options);
    let cache = device.kept::<PlanCache>();
    let why = {
        let plans = &mut *cache.plans();
        plans.clock += 1;
        if let Some(cached) = plans.by_key.get_mut(&key).filter(|cached| cached.program == *program) {
            cached.used = plans.clock;
            plans.stats.hits += 1;
            return Ok(cached.executable.clone());
        }
        if crate::debug::level() > 0 { plans.why_not_reused(program) } else { None }
    };
    let plan = Arc::new(plan::plan(program, &options));
    crate::debug::plan_made(program, &plan, why.as_deref());
    let executable = Arc::new(device.prepare(plan)?);
    let plans = &mut *cache.plans();
    plans.stats.misses += 1;
    if plans.by_key.len() >= CACHED_PLANS
        && let Some(oldest) = plans.by_key.iter().min_by_key(|(_, cached)| cached.used).map(|(&key, _)| key)
    {
        plans.by_key.remove(&oldest);
        plans.stats.evictions += 1;
    }
    let cached = Cached { program: program.clone(), executable: executable.clone(), used: plans.clock };
    plans.by_key.insert(key, cached);
    Ok(executable)
}

impl Plans {
    /// What keeps `program` from running with the plan, used last, of a program that differs from it in sizes and
    /// constants only.
    fn why_not_reused(&self, program: &Program) -> Option<String> {
        let similar = self.by_key.values().filter(|cached| cached.program.has_form_of(program));
        program.difference(&similar.max_by_key(|cached| cached.used)?.program)
    }
}

/// Graphs deeper than this are evaluated when they grow further, so that memory for waiting nodes stays bounded; their
/// gradients are as many again.
const MAX_WAITING: u32 = 4096;

/// Evaluates `node` if too many nodes wait below it. Errors are left to whoever reads the value.
pub(crate) fn limit_waiting(node: &NodeRef) {
    // every so often only: a device that fails would otherwise be asked at each further node
    if node.waiting() >= MAX_WAITING && node.waiting().is_multiple_of(MAX_WAITING / 4) && !trace::is_tracing() {
        let evaluated = realize(std::slice::from_ref(node));
        if let Err(error) = evaluated {
            tracing::debug!("evaluation of a long graph put off: {error}");
        }
    }
}

impl Node {
    /// Length of the longest chain of nodes without a value that ends here.
    fn waiting(&self) -> u32 {
        if self.value().is_some() { 0 } else { self.depth }
    }
}
