//! Evaluation of uncaptured graphs, through a cache of plans keyed by structure.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::device::{Device, DeviceKind, Executable, Purpose, Storage};
use crate::error::{Error, Result};
use crate::graph::{Memory, Node, NodeRef, Op, Program, Tracer};
use crate::matmul_precision::MatmulPrecision;
use crate::ops::stops_gradient;
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
    readable(first)?;
    let mut left = missing.as_slice();
    while let Some(first) = left.first() {
        let device = first.device.clone();
        let count = left.iter().take_while(|node| node.device == device).count();
        realize_on(&device, &left[..count])?;
        left = &left[count..];
    }
    Ok(())
}

/// An error if a step is being traced, in which there are no values yet.
#[track_caller]
pub(crate) fn readable(node: &Node) -> Result<()> {
    if trace::is_tracing() {
        let here = std::panic::Location::caller();
        return Err(Error::Traced { what: format!("reading a value of {} at {here}", node.shape) });
    }
    Ok(())
}

fn realize_on(device: &Device, nodes: &[&NodeRef]) -> Result<()> {
    let _exclusive = device.exclusive();
    let mut kept = false;
    match compute(device, nodes, Some(&mut kept)) {
        // what is kept has no memory in common with others
        Err(Error::OutOfMemory { .. } | Error::BufferTooLarge { .. }) if kept => compute(device, nodes, None),
        done => done,
    }
}

/// Computes `nodes`, and beside them, where `kept` can be told so, what is worth it.
fn compute(device: &Device, nodes: &[&NodeRef], kept: Option<&mut bool>) -> Result<()> {
    let mut tracer = Tracer::default();
    let numbers = nodes.iter().map(|node| tracer.add(node)).collect::<Result<SmallVec<[usize; 4]>>>()?;
    tracer.program.check_sizes()?;
    // a vector's gaps have to be zero; everything else is written all over
    let has_gaps = tracer.program.nodes.iter().any(|node| matches!(node.op, Op::Pack { .. }));
    let alloc = |node: &Node| {
        node.check_size()?;
        let (bytes, purpose) = (node.shape.bytes(node.dtype), Purpose::node(node));
        if has_gaps { device.alloc(bytes, purpose) } else { device.alloc_pooled(bytes, purpose) }
    };
    let mut results = SmallVec::<[(&NodeRef, usize, Storage); 4]>::new();
    for (node, number) in nodes.iter().zip(numbers) {
        results.push((node, number, alloc(node)?));
    }
    if let Some(kept) = kept {
        for (node, number) in worth_keeping(&tracer, nodes) {
            *kept = true;
            results.push((node, number, alloc(node)?));
        }
    }
    for (node, number, storage) in &results {
        let external = tracer.external(storage, node.dtype);
        tracer.output(*number, external, 0);
    }
    let uniforms: Vec<u32> = tracer.hosts.iter().map(|host| host.get()).collect();
    if crate::debug::validate() {
        let plan = plan::plan(&tracer.program, &one_off_options(device));
        super::validate::run(device, &plan, &tracer.storages, &uniforms)?;
    } else {
        executable(device, &tracer.program)?.run_once(&tracer.storages, &uniforms)?;
    }
    for (node, _, storage) in results {
        node.set_value(Memory::new(storage, 0));
    }
    Ok(())
}

/// Of what is traced for `roots`, values beside those that are kept, because they were computed once before on the way
/// to others, and would be again: the state that a loop carries on from round to round, of which another value is read
/// each time. Only what no gradient passes through, as other values may be many; and together no more than the largest
/// that is in memory anyway, as they may never have been there all at once.
fn worth_keeping<'a>(tracer: &Tracer, roots: &[&'a NodeRef]) -> SmallVec<[(&'a NodeRef, usize); 4]> {
    let again = tracer.computed_again();
    if again.is_empty() {
        return SmallVec::new();
    }
    let bytes = |node: &Node| node.shape.bytes(node.dtype);
    let in_memory = tracer.storages.iter().map(Storage::bytes).chain(roots.iter().map(|root| bytes(root)));
    let mut room = in_memory.max().unwrap_or(0);
    let mut kept = SmallVec::new();
    let (mut seen, mut stack) = (FxHashSet::default(), roots.to_vec());
    while let Some(node) = stack.pop() {
        if node.value().is_some() || !seen.insert(node.id) {
            continue;
        }
        let number = tracer.number(node).filter(|number| again.contains(number));
        let is_root = || roots.iter().any(|root| Arc::ptr_eq(root, node));
        if let Some(number) = number
            && stops_gradient(node)
            && !node.inputs.is_empty()
            && bytes(node) <= room
            && !is_root()
        {
            room -= bytes(node);
            kept.push((node, number));
        }
        stack.extend(&node.inputs);
    }
    kept
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

/// Levels at the end of a long graph that are not evaluated with it, so that its other ends, such as a second state of a
/// loop, have a short way from what is.
const LAST_LEVELS: u32 = 64;
/// Values of which such a graph may be cut off, and bytes of them in any case; of more, it is evaluated as a whole.
const MOST_TIES: usize = 64;
const SMALL_TIES: u64 = 64 << 20;

/// Evaluates what `node` hangs by, if too many nodes wait below it. Errors are left to whoever reads the value.
pub(crate) fn limit_waiting(node: &NodeRef) {
    // every so often only: a device that fails would otherwise be asked at each further node
    if node.waiting() < MAX_WAITING || !node.waiting().is_multiple_of(MAX_WAITING / 4) || trace::is_tracing() {
        return;
    }
    let depths = Depths::below(node, None);
    // others that are as deep may have had computed what is below it, too
    if depths.of(node) < MAX_WAITING {
        return;
    }
    let cut = depths.cut.as_ref().filter(|cut| Depths::below(node, Some(cut.id)).of(node) < MAX_WAITING / 2);
    let ties = cut.map_or_else(|| depths.ties(node), |cut| vec![cut.clone()]);
    if let Err(error) = realize(&ties) {
        tracing::debug!("evaluation of a long graph put off: {error}");
    }
}

/// How deep nodes are, of those that wait by now.
struct Depths {
    by_node: FxHashMap<u64, u32>,
    /// The deepest one below that no gradient passes through: of a loop that carries on what it has detached, what all
    /// else of the rounds so far is behind.
    cut: Option<NodeRef>,
}

impl Depths {
    /// As if the node `known` had a value.
    fn below(root: &NodeRef, known: Option<u64>) -> Self {
        let mut this = Self { by_node: FxHashMap::default(), cut: None };
        let (mut stack, mut deepest) = (vec![(root, false)], 0);
        while let Some((node, inputs_done)) = stack.pop() {
            if node.value().is_some() || Some(node.id) == known || this.by_node.contains_key(&node.id) {
                continue;
            }
            if !inputs_done {
                stack.push((node, true));
                stack.extend(node.inputs.iter().map(|input| (input, false)));
                continue;
            }
            let depth = node.inputs.iter().map(|input| this.of(input) + 1).max().unwrap_or(0);
            this.by_node.insert(node.id, depth);
            let is_cut = node.dtype.is_float() && stops_gradient(node) && !Arc::ptr_eq(node, root);
            if is_cut && depth > deepest {
                (deepest, this.cut) = (depth, Some(node.clone()));
            }
        }
        this
    }

    /// The deep values that the last levels below `root` read, or `root` itself if those are many or large. The others
    /// that they read may be computed again. Where no gradient passes, `root` is evaluated, too: then what reads it drops
    /// its past.
    fn ties(&self, root: &NodeRef) -> Vec<NodeRef> {
        // a graph that is not deeper is not cut
        let level = self.of(root).saturating_sub(LAST_LEVELS);
        let (mut ties, mut whole, mut seen, mut stack) =
            (Vec::new(), FxHashSet::default(), FxHashSet::default(), vec![root]);
        while let Some(node) = stack.pop() {
            for mut input in node.inputs.iter().filter(|input| seen.insert(input.id)) {
                if self.of(input) > level {
                    stack.push(input);
                } else if self.of(input) >= MAX_WAITING / 2 {
                    // parts of one value are that value
                    while input.op.is_move() && self.of(&input.inputs[0]) > 0 {
                        input = &input.inputs[0];
                    }
                    if whole.insert(input.id) {
                        ties.push(input.clone());
                    }
                }
            }
        }
        let bytes: u64 = ties.iter().map(|tie| tie.shape.bytes(tie.dtype)).sum();
        // they may never have been in memory all at once
        let room = root.device.memory().live_bytes.max(SMALL_TIES);
        if ties.len() > MOST_TIES || bytes > room {
            return vec![root.clone()];
        }
        if stops_gradient(root) {
            ties.push(root.clone());
        }
        ties
    }

    /// 0 of what does not wait.
    fn of(&self, node: &Node) -> u32 {
        self.by_node.get(&node.id).copied().unwrap_or(0)
    }
}

impl Node {
    /// Length of the longest chain of nodes without a value that ends here.
    fn waiting(&self) -> u32 {
        if self.value().is_some() { 0 } else { self.depth }
    }
}
