//! Loop kernels: maps, and reductions over rows.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::graph::{Op, Program, ProgramNode};
use crate::plan::index::Ix;
use crate::plan::kernel::{Body, Level, LoopKernel, Phase};
use crate::shape::Shape;

use super::coords::reshaped;
use super::writer::{Local, LocalValue, Writer};
use super::{Context, Home, Refusal, Runs};

/// Reductions of a kernel: each takes up to a KiB of workgroup memory, of which some GPUs have 32, and Metal knows 31
/// variables in it.
const MAX_REDUCTIONS: usize = 16;

/// A kernel of elementwise work over one space.
pub(super) fn build_map(context: Context<'_>, members: &[usize], stores: &[usize]) -> Result<Body, Refusal> {
    // the member with most axes: fewest quotients in the index expressions
    let nodes = &context.program.nodes;
    let space = members.iter().map(|&node| &nodes[node].shape).max_by_key(|shape| shape.rank()).expect("not empty");
    let axes = space.to_vec();
    let identity: Vec<Ix> = (0..axes.len()).map(Ix::axis).collect();
    let mut writer = Writer::new(context, &axes);
    let mut targets = Vec::new();
    for &member in members {
        if nodes[member].shape.numel() != space.numel() {
            return Err(Refusal::OtherSpace);
        }
        let coords = reshaped(&identity, &axes, &nodes[member].shape, &axes);
        writer.local.insert(member, Local { coords: coords.clone(), value: LocalValue::Inline });
        targets.push((member, coords));
    }
    let stores = writer.stores(&targets, stores)?;
    let phase = Phase { level: Level::Outer, tape: writer.tape, reductions: Vec::new(), stores };
    Ok(Body::Loop(LoopKernel { outer: axes.len(), axes, phases: vec![phase] }))
}

/// A kernel of reductions over the same rows, and of elementwise work on the rows and on their results.
pub(super) fn build_rows(
    context: Context<'_>,
    reduces: &[usize],
    members: &[usize],
    stores: &[usize],
) -> Result<Body, Refusal> {
    let nodes = &context.program.nodes;
    let runs_of = |node: usize| match &nodes[node].op {
        Op::Reduce { axes, .. } => Runs::new(&nodes[nodes[node].inputs[0]].shape, axes),
        _ => unreachable!("a reduction"),
    };
    let runs = runs_of(reduces[0]);
    if reduces.iter().any(|&reduce| runs_of(reduce) != runs) {
        return Err(Refusal::OtherSpace);
    }
    if reduces.len() > MAX_REDUCTIONS {
        return Err(Refusal::TooLong);
    }
    let (axes, outer, full, full_sizes) = runs.axes();
    let places = places(nodes, members, &runs)?;
    let levels = levels(context.program, context.homes, members);
    let last = levels.values().copied().max().unwrap_or(0);
    let targets = |are: &dyn Fn(usize) -> bool| -> Vec<(usize, Vec<Ix>)> {
        let targets = members.iter().copied().filter(|&member| are(member));
        targets.map(|member| (member, places[&member].0.clone())).collect()
    };
    let mut phases = Vec::new();
    let mut numbers: FxHashMap<usize, usize> = FxHashMap::default();
    for level in 0..=last {
        let mut writer = Writer::new(context, &axes);
        writer.know(&places, &numbers);
        let mut reductions = Vec::new();
        let mut computed = Vec::new();
        for &reduce in reduces.iter().filter(|&reduce| levels[reduce] == level) {
            let Op::Reduce { op, .. } = nodes[reduce].op else { unreachable!("a reduction") };
            let input = nodes[reduce].inputs[0];
            let coords = reshaped(&full, &full_sizes, &nodes[input].shape, &axes);
            reductions.push((op, writer.emit(input, &coords, &[])?));
            computed.push(reduce);
        }
        let targets = targets(&|member| places[&member].1 == Level::Inner && levels[&member] == level);
        let stores = writer.stores(&targets, stores)?;
        for reduce in computed {
            numbers.insert(reduce, numbers.len());
        }
        if !reductions.is_empty() || !stores.is_empty() {
            phases.push(Phase { level: Level::Inner, tape: writer.tape, reductions, stores });
        }
    }
    let mut writer = Writer::new(context, &axes);
    writer.know(&places, &numbers);
    let targets = targets(&|member| places[&member].1 == Level::Outer);
    let outer_stores = writer.stores(&targets, stores)?;
    if !outer_stores.is_empty() {
        phases.push(Phase { level: Level::Outer, tape: writer.tape, reductions: Vec::new(), stores: outer_stores });
    }
    Ok(Body::Loop(LoopKernel { axes, outer, phases }))
}

/// Where each member's value is found in the space of these runs, by coordinates, and at which level.
fn places(
    nodes: &[ProgramNode],
    members: &[usize],
    runs: &Runs,
) -> Result<FxHashMap<usize, (Vec<Ix>, Level)>, Refusal> {
    let (axes, outer, full, full_sizes) = runs.axes();
    let (outer_size, inner_size) = runs.sizes();
    let outer_coords: Vec<Ix> = (0..outer).map(Ix::axis).collect();
    let of_outer = |shape: &Shape| (reshaped(&outer_coords, &axes[..outer], shape, &axes), Level::Outer);
    let mut places = FxHashMap::default();
    for &member in members {
        let shape = &nodes[member].shape;
        let place = match &nodes[member].op {
            // a place among no elements says nothing of the place among the results
            Op::Reduce { .. } if inner_size == 0 => of_outer(shape),
            Op::Reduce { axes: reduced, .. } => {
                let source = &nodes[nodes[member].inputs[0]].shape;
                let mut coords = reshaped(&full, &full_sizes, source, &axes);
                for &axis in reduced {
                    coords[axis] = Ix::constant(0);
                }
                (coords, Level::Outer)
            }
            _ if shape.numel() == outer_size * inner_size && inner_size != 1 => {
                (reshaped(&full, &full_sizes, shape, &axes), Level::Inner)
            }
            _ if shape.numel() == outer_size => of_outer(shape),
            _ => return Err(Refusal::OtherSpace),
        };
        places.insert(member, place);
    }
    Ok(places)
}

/// For each member, how many sweeps over the row must be over before it can be computed (for a reduction: started).
fn levels(program: &Program, homes: &[Option<Home>], members: &[usize]) -> FxHashMap<usize, usize> {
    let mut levels = FxHashMap::default();
    for &member in members {
        let mut level = 0;
        let mut seen = FxHashSet::default();
        let mut stack = program.nodes[member].inputs.clone();
        while let Some(node) = stack.pop() {
            if !seen.insert(node) {
                continue;
            }
            if let Some(&known) = levels.get(&node) {
                let reduce = matches!(program.nodes[node].op, Op::Reduce { .. });
                level = level.max(known + usize::from(reduce));
            } else if homes[node].is_none() {
                stack.extend_from_slice(&program.nodes[node].inputs);
            }
        }
        levels.insert(member, level);
    }
    levels
}
