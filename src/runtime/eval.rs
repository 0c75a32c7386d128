//! Evaluation of uncaptured graphs, through a cache of plans keyed by structure.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::device::{Device, DeviceKind, Executable};
use crate::error::{Error, Result};
use crate::graph::{Memory, Node, NodeRef, Program, Tracer};
use crate::plan::{self, PlanOptions};

use super::trace;

/// Plans kept for uncaptured code.
const CACHED_PLANS: usize = 512;

struct Cached {
    program: Program,
    executable: Arc<Executable>,
    used: u64,
}

#[derive(Default)]
struct Cache {
    plans: HashMap<(Device, u64), Cached>,
    clock: u64,
    stats: PlanCacheStats,
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

static CACHE: Mutex<Option<Cache>> = Mutex::new(None);

/// How often uncaptured code found its plan in the cache.
pub fn plan_cache_stats() -> PlanCacheStats {
    CACHE.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|cache| cache.stats).unwrap_or_default()
}

/// The planner's options for captured steps on `device`.
pub(crate) fn options_for(device: &Device) -> PlanOptions {
    let info = device.info();
    match info.kind {
        DeviceKind::Cpu => PlanOptions::CPU,
        _ => PlanOptions::gpu(info.max_storage_buffers as usize),
    }
}

/// The same, for plans that will hardly run twice: kernels do not depend on sizes, so they are rarely compiled.
fn one_off_options(device: &Device) -> PlanOptions {
    PlanOptions { literal_sizes: false, ..options_for(device) }
}

/// Computes the values of `nodes`, as far as they have none.
///
/// # Errors
/// If a step is being traced, or the device fails.
pub fn realize(nodes: &[NodeRef]) -> Result<()> {
    let missing: Vec<&NodeRef> = nodes.iter().filter(|node| node.value().is_none()).collect();
    let Some(first) = missing.first() else { return Ok(()) };
    if trace::is_tracing() {
        return Err(Error::Traced { what: format!("reading a value of {} at {}", first.shape, first.location) });
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
    let mut results = Vec::with_capacity(nodes.len());
    for node in nodes {
        let number = tracer.add(node);
        let bytes = (node.shape.numel() * node.dtype.size_bytes()) as u64;
        let storage = device.alloc(bytes, &format!("a {} tensor of shape {}", node.dtype, node.shape))?;
        let external = tracer.external(&storage, node.dtype);
        tracer.output(number, external, 0);
        results.push(storage);
    }
    let uniforms: Vec<u32> = tracer.hosts.iter().map(|host| host.get()).collect();
    if crate::debug::validate() {
        let plan = plan::plan(&tracer.program, &one_off_options(device));
        super::validate::run(device, &plan, &tracer.storages, &uniforms)?;
    } else {
        executable(device, &tracer.program)?.bind(&tracer.storages)?.run(&uniforms)?;
    }
    for (node, storage) in nodes.iter().zip(results) {
        node.set_value(Memory::new(storage, 0));
    }
    Ok(())
}

/// The compiled plan of `program`, from the cache if an equal one was run before.
fn executable(device: &Device, program: &Program) -> Result<Arc<Executable>> {
    let key = (device.clone(), program.key());
    {
        let mut cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
        let cache = cache.get_or_insert_default();
        cache.clock += 1;
        let clock = cache.clock;
        if let Some(cached) = cache.plans.get_mut(&key)
            && cached.program == *program
        {
            cached.used = clock;
            cache.stats.hits += 1;
            return Ok(cached.executable.clone());
        }
    }
    let plan = Arc::new(plan::plan(program, &one_off_options(device)));
    crate::debug::plan_made(program, &plan, None);
    let executable = Arc::new(device.prepare(plan)?);
    let mut cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    let cache = cache.get_or_insert_default();
    cache.stats.misses += 1;
    if cache.plans.len() >= CACHED_PLANS {
        let oldest = cache.plans.iter().min_by_key(|(_, cached)| cached.used).map(|(key, _)| key.clone());
        if let Some(oldest) = oldest {
            cache.plans.remove(&oldest);
            cache.stats.evictions += 1;
        }
    }
    let cached = Cached { program: program.clone(), executable: executable.clone(), used: cache.clock };
    cache.plans.insert(key, cached);
    Ok(executable)
}

/// Graphs deeper than this are evaluated when they grow further: memory for waiting nodes stays bounded.
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
