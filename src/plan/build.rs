//! Puts a plan together: program → stored values → groups → kernels → order → memory.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::graph::{Op, Output, Program, ProgramNode, Slot, op_name};
use crate::status;

use super::emit::{self, Context, Home};
use super::fuse::{self, Group};
use super::kernel::{Body, Buffer, BufferId, Kernel, Level, Place, Plan};
use super::memory::{self, Life};
use super::order::{self, Item};
use super::{PlanOptions, axes, compared, layout, overwrite, simplify, split, store};

/// The plan of `program` for a device with these options.
pub fn plan(program: &Program, options: &PlanOptions) -> Plan {
    let key = program.key();
    let mut program = split::split(&simplify::simplify(program), options);
    copy_shared_outputs(&mut program);
    // what is copied to where it belongs must be complete before
    let mut forced = Vec::new();
    let mut compared = compared::compared(&program);
    let (why, (homes, buffers, zeroed)) = loop {
        let why = store::choose_stored(&program, options, &forced, &compared);
        let stored: Vec<bool> = why.iter().map(Option::is_some).collect();
        let places = place_values(&program, &stored);
        let Some(output) =
            overwrite::unsafe_output(Context { program: &program, homes: &places.0, compared: &compared })
        else {
            break (why, places);
        };
        forced.push(program.outputs[output].node);
        copy_output(&mut program, output);
        compared.push(false);
    };
    let context = Context { program: &program, homes: &homes, compared: &compared };
    let mut kept: HashSet<usize> = program.outputs.iter().map(|output| output.node).collect();
    for node in &program.nodes {
        if matches!(node.op, Op::Pack { .. }) {
            kept.extend(&node.inputs);
        }
    }
    let readers_first = overwrite::readers_first(&program, &homes);
    let (groups, apart) = fuse::fuse(context, options, &kept, &readers_first);
    let mut kernels: Vec<Kernel> = groups.iter().map(|group| kernel(context, &buffers, group)).collect();
    let order = order::order(&items(&program, &groups, &kernels, &buffers, &readers_first), buffers.len());
    let mut position = vec![0; order.len()];
    for (place, &number) in order.iter().enumerate() {
        position[number] = place;
    }
    let mut numbered: Vec<(usize, Kernel)> = kernels.drain(..).enumerate().map(|(n, k)| (position[n], k)).collect();
    numbered.sort_by_key(|(place, _)| *place);
    let kernels: Vec<Kernel> =
        numbered.into_iter().map(|(_, kernel)| kernel).filter(|kernel| !kernel.writes.is_empty()).collect();
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
        key,
        apart: apart.iter().map(|a| (label(a.first), label(a.second), a.reason)).collect(),
        stored,
    };
    update_in_place(&mut plan);
    drop_unused_buffers(&mut plan);
    place_buffers(&mut plan);
    plan.waves = order::waves(&plan.kernels, |buffer| match plan.buffers[buffer].place {
        Place::External(n) => (0, n),
        Place::Slot(n) => (1, n),
    });
    plan
}

/// A node that is a copy of `node`, in its own memory.
fn copy_of(program: &mut Program, node: usize) -> usize {
    let original = &program.nodes[node];
    let copy = ProgramNode { op: Op::Cast, inputs: vec![node], slot: Slot::None, ..original.clone() };
    program.nodes.push(copy);
    program.nodes.len() - 1
}

fn copy_output(program: &mut Program, output: usize) {
    let copy = copy_of(program, program.outputs[output].node);
    program.outputs[output].node = copy;
}

/// Every output and every input of a pack gets a node of its own, which can lie where it has to.
fn copy_shared_outputs(program: &mut Program) {
    let mut claimed = HashSet::new();
    for output in 0..program.outputs.len() {
        let node = program.outputs[output].node;
        let movable = !matches!(program.nodes[node].op, Op::Leaf);
        if !movable || !claimed.insert(node) {
            copy_output(program, output);
        }
    }
    // Copies have to come before the pack: the program is rebuilt in order.
    if !program.nodes.iter().any(|node| matches!(node.op, Op::Pack { .. })) {
        return;
    }
    let old = std::mem::take(&mut program.nodes);
    let mut map = Vec::with_capacity(old.len());
    for (number, mut node) in old.iter().cloned().enumerate() {
        for input in &mut node.inputs {
            *input = map[*input];
        }
        if matches!(node.op, Op::Pack { .. }) {
            for position in 0..node.inputs.len() {
                let original = old[number].inputs[position];
                let movable = !matches!(old[original].op, Op::Leaf | Op::Pack { .. });
                if !movable || !claimed.insert(original) {
                    node.inputs[position] = copy_of(program, node.inputs[position]);
                }
            }
        }
        map.push(program.nodes.len());
        program.nodes.push(node);
    }
    for output in &mut program.outputs {
        output.node = map[output.node];
    }
}

type Places = (Vec<Option<Home>>, Vec<Buffer>, Vec<BufferId>);

/// A place in memory for every stored node: externals first, then one buffer each.
fn place_values(program: &Program, stored: &[bool]) -> Places {
    let mut homes: Vec<Option<Home>> = vec![None; program.nodes.len()];
    let mut zeroed = Vec::new();
    let users = program.users();
    let mut buffers: Vec<Buffer> = program
        .externals
        .iter()
        .enumerate()
        .map(|(number, external)| Buffer {
            dtype: external.dtype,
            elements: external.elements,
            place: Place::External(number),
            label: format!("external {number}"),
        })
        .collect();
    for &Output { node, external, offset } in &program.outputs {
        homes[node] = Some(Home::row_major(external, offset, &program.nodes[node].shape));
    }
    // packs before their inputs
    for (number, node) in program.nodes.iter().enumerate().rev() {
        let Op::Pack { offsets, len } = &node.op else { continue };
        let home = homes[number].get_or_insert_with(|| {
            zeroed.push(buffers.len());
            buffers.push(Buffer { dtype: node.dtype, elements: *len, place: Place::Slot(0), label: node.describe() });
            Home::row_major(buffers.len() - 1, 0, &node.shape)
        });
        let (buffer, start) = (home.buffer, home.offset);
        for (&input, &offset) in node.inputs.iter().zip(offsets) {
            homes[input] = Some(Home::row_major(buffer, start + offset, &program.nodes[input].shape));
        }
    }
    for (number, node) in program.nodes.iter().enumerate() {
        match node.slot {
            Slot::External { external, offset } => {
                homes[number] = Some(Home::row_major(external, offset, &node.shape));
            }
            _ if stored[number] && homes[number].is_none() => {
                let strides = layout::strides(program, &users[number], stored, number);
                homes[number] = Some(Home { buffer: buffers.len(), offset: 0, strides });
                let elements = node.shape.numel();
                buffers.push(Buffer { dtype: node.dtype, elements, place: Place::Slot(0), label: node.describe() });
            }
            _ => {}
        }
    }
    (homes, buffers, zeroed)
}

fn kernel(context: Context<'_>, buffers: &[Buffer], group: &Group) -> Kernel {
    let program = context.program;
    let built = || emit::build(context, &group.members, &group.stores).expect("a node can be computed by itself");
    let mut body = group.body.clone().unwrap_or_else(built);
    body.map_sites(|node| {
        let node = &program.nodes[node as usize];
        let Op::CheckIndex { name, bound } = node.op else { unreachable!("only indices are checked") };
        let op = node.module.as_ref().map_or_else(|| name.to_owned(), |module| format!("{name} in {module}"));
        status::register(op, node.location, bound)
    });
    axes::canonicalize(&mut body);
    let (reads, writes) = (body.reads(), body.writes());
    let bytes_of = |node: &usize| (program.nodes[*node].shape.numel() * program.nodes[*node].dtype.size_bytes()) as u64;
    let touched: u64 = group.reads.iter().chain(&group.stores).map(bytes_of).sum();
    debug_assert!(reads.iter().chain(&writes).all(|&buffer| buffer < buffers.len()));
    Kernel {
        label: label(program, group, &body),
        stage: group.stage,
        flops: flops(&body),
        nodes: group.stores.clone(),
        reads: reads.into_iter().collect(),
        writes: writes.into_iter().collect(),
        bytes: touched,
        body,
    }
}

/// `family.op[shape]`: the op that gives the kernel its form, and the last one in it.
fn label(program: &Program, group: &Group, body: &Body) -> String {
    let last = *group.members.last().expect("not empty");
    let root = group
        .members
        .iter()
        .copied()
        .find(|&node| matches!(program.nodes[node].op, Op::Reduce { .. } | Op::Contract(_)));
    let family = match body {
        Body::Contract(_) => "contract",
        Body::Routine(_) => "routine",
        Body::Loop(kernel) if kernel.phases.iter().filter(|phase| phase.level == Level::Inner).count() > 1 => "rows",
        Body::Loop(kernel) if kernel.outer < kernel.axes.len() => "reduce",
        Body::Loop(_) if root.is_some() => "reduce",
        Body::Loop(_) => "map",
    };
    let mut name = String::new();
    for node in root.into_iter().chain((root != Some(last)).then_some(last)) {
        let op = match &program.nodes[node].op {
            Op::Contract(_) => continue,
            Op::Reduce { op, .. } => format!("{op:?}").to_lowercase(),
            _ => op_name(&program.nodes[node].op),
        };
        if !name.is_empty() {
            name.push('+');
        }
        name.push_str(&op);
    }
    let separator = if name.is_empty() { "" } else { "." };
    format!("{family}{separator}{name}{}", program.nodes[last].shape)
}

/// Arithmetic operations of a kernel: instructions that compute, times the points they run at.
fn flops(body: &Body) -> u64 {
    use super::kernel::InstrOp;
    let work = |tape: &super::kernel::Tape| {
        let arithmetic = |op: &InstrOp| {
            matches!(op, InstrOp::Unary(..) | InstrOp::Binary(..) | InstrOp::Select(..) | InstrOp::Random { .. })
        };
        tape.instrs.iter().filter(|instr| arithmetic(&instr.op)).count() as u64
    };
    match body {
        Body::Loop(kernel) => {
            let outer: usize = kernel.axes[..kernel.outer].iter().product();
            let all: usize = kernel.axes.iter().product();
            kernel
                .phases
                .iter()
                .map(|phase| {
                    let points = if phase.level == Level::Outer { outer } else { all };
                    (work(&phase.tape) + phase.reductions.len() as u64) * points as u64
                })
                .sum()
        }
        Body::Contract(kernel) => {
            let [batch, m, n, k] = kernel.sizes().map(|size| size as u64);
            2 * batch * m * n * k + batch * m * n * work(&kernel.epilogue)
        }
        Body::Routine(routine) => routine.operations(),
    }
}

fn items(
    program: &Program,
    groups: &[Group],
    kernels: &[Kernel],
    buffers: &[Buffer],
    readers_first: &[(usize, usize)],
) -> Vec<Item> {
    let mut owner = HashMap::new();
    for (number, group) in groups.iter().enumerate() {
        for &member in &group.members {
            owner.insert(member, number);
        }
    }
    let owned = |list: &[BufferId]| -> Vec<(BufferId, u64)> {
        let own = list.iter().filter(|&&buffer| matches!(buffers[buffer].place, Place::Slot(_)));
        own.map(|&buffer| (buffer, (buffers[buffer].elements * buffers[buffer].dtype.size_bytes()) as u64)).collect()
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
    // An early stage may need a later one's result (a graph traced out of order): then it belongs to the later one.
    let mut changed = true;
    while changed {
        changed = false;
        for number in 0..items.len() {
            let latest = items[number].before.iter().map(|&before| items[before].stage).max();
            if let Some(latest) = latest
                && latest > items[number].stage
            {
                items[number].stage = latest;
                changed = true;
            }
        }
    }
    items
}

/// An elementwise kernel's output takes the place of an input that nobody needs afterwards.
fn update_in_place(plan: &mut Plan) {
    let lives = lives(plan);
    let mut renamed: Vec<BufferId> = (0..plan.buffers.len()).collect();
    let mut last: Vec<usize> = lives.iter().map(|life| life.map_or(0, |life| life.last)).collect();
    for number in 0..plan.kernels.len() {
        let names = renamed.clone();
        plan.kernels[number].body.map_buffers(|buffer| names[buffer]);
        let kernel = &plan.kernels[number];
        let (Body::Loop(super::kernel::LoopKernel { phases, .. }), 1) = (&kernel.body, kernel.writes.len()) else {
            continue;
        };
        let [phase] = phases.as_slice() else { continue };
        if phase.level != Level::Outer {
            continue;
        }
        let [store] = phase.stores.as_slice() else { continue };
        let target = store.buffer;
        if !matches!(plan.buffers[target].place, Place::Slot(_)) || plan.zeroed.contains(&target) {
            continue;
        }
        let same_point = |buffer: BufferId| {
            phase.tape.instrs.iter().all(|instr| match &instr.op {
                super::kernel::InstrOp::Load { buffer: b, index, valid } if *b == buffer => {
                    valid.is_empty() && *index == store.index
                }
                super::kernel::InstrOp::Gather { buffer: b, .. } => *b != buffer,
                _ => true,
            })
        };
        let fits = |buffer: BufferId| {
            let (from, to) = (&plan.buffers[buffer], &plan.buffers[target]);
            matches!(from.place, Place::Slot(_))
                && !plan.zeroed.contains(&buffer)
                && buffer != target
                && from.dtype == to.dtype
                && from.elements == to.elements
                && last[buffer] == number
                && same_point(buffer)
        };
        let loads: BTreeSet<BufferId> = phase.tape.loads().collect();
        if let Some(source) = loads.into_iter().find(|&buffer| fits(buffer)) {
            renamed[target] = source;
            last[source] = last[target];
            for name in &mut renamed {
                if *name == target {
                    *name = source;
                }
            }
            let names = renamed.clone();
            plan.kernels[number].body.map_buffers(|buffer| names[buffer]);
        }
    }
    for kernel in &mut plan.kernels {
        for list in [&mut kernel.reads, &mut kernel.writes] {
            let names: BTreeSet<BufferId> = list.iter().map(|&buffer| renamed[buffer]).collect();
            *list = names.into_iter().collect();
        }
    }
}

/// Renumbers the buffers so that every plan-owned one is used.
fn drop_unused_buffers(plan: &mut Plan) {
    let mut used = vec![false; plan.buffers.len()];
    used[..plan.externals].fill(true);
    for kernel in &plan.kernels {
        for &buffer in kernel.reads.iter().chain(&kernel.writes) {
            used[buffer] = true;
        }
    }
    let mut names = vec![usize::MAX; used.len()];
    let mut kept = Vec::new();
    for (number, buffer) in std::mem::take(&mut plan.buffers).into_iter().enumerate() {
        if used[number] {
            names[number] = kept.len();
            kept.push(buffer);
        }
    }
    plan.buffers = kept;
    for kernel in &mut plan.kernels {
        kernel.body.map_buffers(|buffer| names[buffer]);
        for buffer in kernel.reads.iter_mut().chain(&mut kernel.writes) {
            *buffer = names[*buffer];
        }
    }
    plan.zeroed = plan.zeroed.iter().map(|&buffer| names[buffer]).filter(|&name| name != usize::MAX).collect();
}

/// First and last kernel that touches each plan-owned buffer.
fn lives(plan: &Plan) -> Vec<Option<Life>> {
    let mut lives: Vec<Option<Life>> = vec![None; plan.buffers.len()];
    for (number, kernel) in plan.kernels.iter().enumerate() {
        for &buffer in kernel.reads.iter().chain(&kernel.writes) {
            let Buffer { place: Place::Slot(_), elements, dtype, .. } = plan.buffers[buffer] else { continue };
            let bytes = ((elements * dtype.size_bytes()) as u64).next_multiple_of(16).max(16);
            lives[buffer].get_or_insert(Life { first: number, last: number, bytes }).last = number;
        }
    }
    // what must keep its zeros is never shared
    for &buffer in &plan.zeroed {
        if let Some(life) = &mut lives[buffer] {
            (life.first, life.last) = (0, plan.kernels.len());
        }
    }
    lives
}

fn place_buffers(plan: &mut Plan) {
    let lives = lives(plan);
    let owned: Vec<BufferId> = (0..lives.len()).filter(|&buffer| lives[buffer].is_some()).collect();
    let lives: Vec<Life> = lives.into_iter().flatten().collect();
    let (slots, places) = memory::place(&lives);
    for (&buffer, &slot) in owned.iter().zip(&places) {
        plan.buffers[buffer].place = Place::Slot(slot);
    }
    plan.live_peak_bytes = memory::live_peak(&lives);
    plan.slots = slots;
}
