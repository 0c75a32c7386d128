//! Puts a plan together: program → stored values → groups → kernels → order → memory.

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::graph::{Op, Program};
use crate::status;

use super::emit::{self, Context, Refusal};
use super::fuse::{self, Group};
use super::kernel::{Body, Buffer, BufferId, Kernel, Place, Plan};
use super::order::{self, Item};
use super::{PlanOptions, axes, compared, copies, describe, overwrite, place, reuse, simplify, split, store, whole};

/// The plan of `program` for a device with these options.
pub fn plan(program: &Program, options: &PlanOptions) -> Plan {
    let key = program.key();
    let mut program = split::split(&simplify::simplify(program, options), options);
    copies::copy_shared(&mut program);
    whole::separate(&mut program);
    // what is copied to where it belongs must be complete before
    let mut forced = Vec::new();
    // each round moves other values
    for _ in 0..=program.nodes.len() {
        match attempt(&program, options, &forced) {
            Ok(plan) => return Plan { key, ..plan },
            Err(Misplaced(nodes)) => {
                let names = copies::copy_placed(&mut program, &nodes);
                forced = forced.iter().chain(&nodes).map(|&node| names[node]).collect();
            }
        }
    }
    unreachable!("a copy reads memory that nobody else writes")
}

/// Values that cannot be computed where they belong, because their kernels read the same memory elsewhere.
struct Misplaced(BTreeSet<usize>);

fn attempt(program: &Program, options: &PlanOptions, forced: &[usize]) -> Result<Plan, Misplaced> {
    let compared = compared::compared(program);
    let why = store::choose_stored(program, options, forced, &compared);
    let stored: Vec<bool> = why.iter().map(Option::is_some).collect();
    let (homes, buffers, zeroed) = place::place_values(program, &stored);
    let precision = options.matmul_precision;
    let context = Context { program, homes: &homes, compared: &compared, precision };
    let misplaced = overwrite::unsafe_outputs(context);
    if !misplaced.is_empty() {
        return Err(Misplaced(misplaced));
    }
    let mut kept: FxHashSet<usize> = program.outputs.iter().map(|output| output.node).collect();
    for node in &program.nodes {
        if matches!(node.op, Op::Pack { .. }) {
            kept.extend(&node.inputs);
        }
    }
    let readers_first = overwrite::readers_first(program, &homes);
    let (groups, apart) = fuse::fuse(context, options, &kept, &readers_first);
    let bodies = bodies(context, &groups)?;
    let mut made: Vec<Kernel> = groups.iter().zip(bodies).map(|(group, body)| kernel(program, group, body)).collect();
    let mut items = items(program, &groups, &made, &buffers, &readers_first);
    order::raise_stages(&mut items);
    for (kernel, item) in made.iter_mut().zip(&items) {
        kernel.stage = item.stage;
    }
    let order = order::order(&items, buffers.len());
    let mut made: Vec<Option<Kernel>> = made.into_iter().map(Some).collect();
    let ordered = order.iter().filter_map(|&number| made[number].take());
    let kernels: Vec<Kernel> = ordered.filter(|kernel| !kernel.writes.is_empty()).collect();
    let label = |node: usize| program.nodes[node].describe();
    let written = kernels.iter().flat_map(|kernel| &kernel.nodes);
    let stored = written.filter_map(|&node| Some((label(node), why[node]?.to_string()))).collect();
    let mut plan = Plan {
        buffers,
        kernels,
        waves: Vec::new(),
        slots: Vec::new(),
        externals: program.externals.len(),
        uniforms: program.uniforms,
        live_peak_bytes: 0,
        literal_sizes: options.literal_sizes,
        zeroed,
        key: 0,
        apart: apart.iter().map(|a| (label(a.first), label(a.second), a.reason)).collect(),
        stored,
    };
    reuse::update_in_place(&mut plan);
    reuse::drop_unused_buffers(&mut plan);
    reuse::place_buffers(&mut plan, options.mixed_slots);
    plan.waves = order::waves(&plan.kernels, &plan.buffers);
    Ok(plan)
}

/// The code of each group.
fn bodies(context: Context<'_>, groups: &[Group]) -> Result<Vec<Body>, Misplaced> {
    let mut misplaced = BTreeSet::new();
    let mut bodies = Vec::with_capacity(groups.len());
    for group in groups {
        let body = group.body.clone().map_or_else(|| emit::build(context, &group.members, &group.stores), Ok);
        match body {
            Ok(body) => bodies.push(body),
            // where what it reads moves away, it may stay
            Err(Refusal::InPlace) if group.reads.iter().any(|read| misplaced.contains(read)) => {}
            Err(Refusal::InPlace) => misplaced.extend(&group.stores),
            Err(refusal) => unreachable!("a node can be computed by itself: {refusal:?}"),
        }
    }
    if misplaced.is_empty() { Ok(bodies) } else { Err(Misplaced(misplaced)) }
}

fn kernel(program: &Program, group: &Group, mut body: Body) -> Kernel {
    body.map_sites(|node| {
        let node = &program.nodes[node as usize];
        let Op::CheckIndex { name, bound } = node.op else { unreachable!("only indices are checked") };
        let op = node.module.as_ref().map_or_else(|| name.to_owned(), |module| format!("{name} in {module}"));
        status::register(op, node.location, bound)
    });
    axes::canonicalize(&mut body);
    let (reads, writes) = (body.reads(), body.writes());
    let bytes_of = |node: &usize| program.nodes[*node].shape.bytes(program.nodes[*node].dtype);
    let mut modules = Vec::new();
    for module in group.members.iter().filter_map(|&member| program.nodes[member].module.as_ref()) {
        if !modules.contains(module) {
            modules.push(Arc::clone(module));
        }
    }
    let value = |&node: &usize| (program.nodes[node].dtype, program.nodes[node].shape.clone());
    let touched: u64 = group.reads.iter().chain(&group.stores).map(bytes_of).sum();
    Kernel {
        label: describe::label(program, group, &body),
        stage: group.stage,
        flops: describe::flops(&body),
        nodes: group.stores.clone(),
        values: group.stores.iter().map(value).collect(),
        modules,
        reads: reads.into_iter().collect(),
        writes: writes.into_iter().collect(),
        bytes: touched,
        body,
    }
}

fn items(
    program: &Program,
    groups: &[Group],
    kernels: &[Kernel],
    buffers: &[Buffer],
    readers_first: &[(usize, usize)],
) -> Vec<Item> {
    let mut owner = FxHashMap::default();
    for (number, group) in groups.iter().enumerate() {
        for &member in &group.members {
            owner.insert(member, number);
        }
    }
    let owned = |list: &[BufferId]| -> Vec<(BufferId, u64)> {
        let own = list.iter().filter(|&&buffer| matches!(buffers[buffer].place, Place::Slot(_)));
        own.map(|&buffer| (buffer, buffers[buffer].bytes())).collect()
    };
    let mut items: Vec<Item> = groups
        .iter()
        .zip(kernels)
        .enumerate()
        .map(|(number, (group, kernel))| {
            let needed = group.reads.iter().chain(&group.after);
            let before = needed
                .flat_map(|&read| fuse::producers(program, read))
                .filter_map(|producer| owner.get(&producer).copied())
                .filter(|&producer| producer != number)
                .collect();
            Item {
                before,
                reads: owned(&kernel.reads),
                writes: owned(&kernel.writes),
                stage: group.stage,
                position: group.members[0],
            }
        })
        .collect();
    for (reader, writer) in readers_first {
        let (reader, writer) = (owner[reader], owner[writer]);
        if reader != writer {
            items[writer].before.insert(reader);
        }
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;
    use crate::dtype::DType;
    use crate::runtime::Var;
    use crate::runtime::traced::Traced;
    use crate::stage::Stage;
    use crate::tensor::Tensor;

    /// Their times would else be told of a stage that was over when they ran.
    #[test]
    fn what_needs_a_later_stage_belongs_to_it() {
        let device = Device::cpu();
        let traced = Traced::new(&device, &vec![([4, 5].into(), DType::F32)], |inputs| {
            let late = Stage::Update.scope(|| inputs[0].exp().sum_dim([1]));
            // a sum of sums of sums, each of which is a kernel
            let after = late.softmax(0).cumsum(0).exp().sum();
            vec![inputs[0].sin(), after]
        });
        let plan = plan(&traced.expect("memory").program, &PlanOptions::CPU);
        let stages: Vec<Stage> = plan.kernels.iter().map(|kernel| kernel.stage).collect();
        let (first, others) = stages.split_first().expect("several kernels");
        assert!(others.len() > 1 && *first == Stage::Forward, "{plan}");
        assert!(others.iter().all(|&stage| stage == Stage::Update), "{plan}");
    }

    /// Planning took a round for each of them, and so the square of their number.
    #[test]
    fn variables_that_are_in_each_others_way_are_moved_in_one_round() {
        let device = Device::cpu();
        let variable = |n: usize| Var::state(&format!("v{n}"), &Tensor::ones(5, &device)).expect("memory");
        let variables: Vec<Var> = (0..11).map(variable).collect();
        let traced = Traced::new(&device, &Vec::new(), |_| {
            let (mirrored, exchanged) = variables.split_at(5);
            for variable in mirrored {
                variable.assign(&variable.tensor().flip([0]));
            }
            for pair in exchanged.chunks(2) {
                let (first, second) = (pair[0].tensor(), pair[1].tensor());
                pair[0].assign(&second);
                pair[1].assign(&first);
            }
            Vec::new()
        });
        let mut program = simplify::simplify(&traced.expect("memory").program, &PlanOptions::CPU);
        copies::copy_shared(&mut program);
        let (mut forced, mut moved) = (Vec::new(), Vec::new());
        while let Err(Misplaced(nodes)) = attempt(&program, &PlanOptions::CPU, &forced) {
            moved.push(nodes.len());
            let names = copies::copy_placed(&mut program, &nodes);
            forced = forced.iter().chain(&nodes).map(|&node| names[node]).collect();
        }
        assert_eq!(moved, [5, 3], "first those that read themselves, then one of each pair");
    }
}
