//! From a group of nodes to one kernel's code.
//!
//! Everything is pulled from the outputs: a node is emitted at coordinates (index expressions over the kernel's axes);
//! movement ops only change the coordinates, stored nodes become loads, everything else becomes an instruction.

use std::collections::HashMap;

use crate::dtype::{DType, Scalar};
use crate::graph::{Contract, Op, Program, Slot, View};
use crate::shape::Shape;

use super::index::{Cond, Ix};
use super::kernel::{Body, BufferId, ContractKernel, Instr, InstrOp, Level, LoopKernel, Phase, Store, Tape, ValueId};

/// A tape longer than this is not worth one kernel.
const MAX_TAPE: usize = 600;
/// Emission recurses along chains of nodes; this many fit any thread's stack.
const MAX_DEPTH: usize = 256;

/// Where a node's value lies in memory, and in which order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Home {
    pub buffer: BufferId,
    pub offset: usize,
    /// Elements between neighbours along each axis: the physical layout, which the planner chooses.
    pub strides: Vec<i64>,
}

impl Home {
    /// Row-major from element `offset` on.
    pub(super) fn row_major(buffer: BufferId, offset: usize, shape: &Shape) -> Self {
        Self { buffer, offset, strides: shape.strides().into_iter().map(|stride| stride as i64).collect() }
    }

    /// The element at `coords`.
    fn index(&self, coords: &[Ix]) -> Ix {
        let start = Ix::constant(self.offset as i64);
        coords.iter().zip(&self.strides).fold(start, |sum, (coord, &stride)| sum.plus(&coord.times(stride)))
    }
}

/// Why some nodes cannot be one kernel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Refusal {
    /// A value computed in the kernel would be needed at another point than where it is.
    OtherPoint,
    /// The iteration spaces differ.
    OtherSpace,
    /// An output would have to be updated in place, but is read at other points.
    InPlace,
    /// The code would be too long.
    TooLong,
}

/// What the emitter needs to know of the plan so far.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub program: &'a Program,
    /// For each node, its place in memory if it has one.
    pub homes: &'a [Option<Home>],
}

/// The iteration space of a row kernel: runs of merged axes, each reduced or not, in the order of memory.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Runs(pub Vec<(usize, bool)>);

impl Runs {
    /// The space of a reduction of `shape` over `axes`.
    pub(super) fn new(shape: &Shape, axes: &[usize]) -> Self {
        let mut runs: Vec<(usize, bool)> = Vec::new();
        for (axis, &size) in shape.iter().enumerate() {
            if size == 1 {
                continue;
            }
            let inner = axes.contains(&axis);
            match runs.last_mut() {
                Some(run) if run.1 == inner => run.0 *= size,
                _ => runs.push((size, inner)),
            }
        }
        Self(runs)
    }

    /// Elements outside and inside of the reduction.
    pub(super) fn sizes(&self) -> (usize, usize) {
        let product = |inner| self.0.iter().filter(|run| run.1 == inner).map(|run| run.0).product();
        (product(false), product(true))
    }

    /// Kernel axes (outer ones first), and the coordinates of the runs in memory order.
    fn axes(&self) -> (Vec<usize>, usize, Vec<Ix>, Vec<usize>) {
        let outer = self.0.iter().filter(|run| !run.1).count();
        let (mut next_outer, mut next_inner) = (0, outer);
        let mut axes = vec![0; self.0.len()];
        let mut coords = Vec::new();
        for &(size, inner) in &self.0 {
            let next = if inner { &mut next_inner } else { &mut next_outer };
            axes[*next] = size;
            coords.push(Ix::axis(*next));
            *next += 1;
        }
        (axes, outer, coords, self.0.iter().map(|run| run.0).collect())
    }
}

/// The kernel that computes `members` (stored nodes, in topological order) and writes those in `stores`.
pub(super) fn build(context: Context<'_>, members: &[usize], stores: &[usize]) -> Result<Body, Refusal> {
    let program = context.program;
    let contract = members.iter().copied().find(|&node| matches!(program.nodes[node].op, Op::Contract(_)));
    let reduces: Vec<usize> =
        members.iter().copied().filter(|&node| matches!(program.nodes[node].op, Op::Reduce { .. })).collect();
    let body = match contract {
        Some(_) if !reduces.is_empty() => return Err(Refusal::OtherSpace),
        Some(contract) => build_contract(context, contract, members, stores)?,
        None if reduces.is_empty() => build_map(context, members, stores)?,
        None => build_rows(context, &reduces, members, stores)?,
    };
    if updates_in_place_safely(&body) { Ok(body) } else { Err(Refusal::InPlace) }
}

/// Coordinates in `to` at the same row-major position as `coords` in `from`, a space of the same size.
///
/// Coordinates that matter lie within `from` even if `axes` alone do not say so (behind a padded view): first the
/// coordinates are taken for axes of that space, then put in place, which keeps sums free of quotients if any way does.
fn reshaped(coords: &[Ix], from: &[usize], to: &Shape, axes: &[usize]) -> Vec<Ix> {
    if from == to.dims() {
        return coords.iter().zip(from).map(|(c, &size)| if size == 1 { Ix::constant(0) } else { c.clone() }).collect();
    }
    let own: Vec<Ix> =
        from.iter().enumerate().map(|(axis, &size)| if size == 1 { Ix::constant(0) } else { Ix::axis(axis) }).collect();
    let within: Vec<Ix> =
        Ix::linear(&own, from).unravel(to, from).iter().map(|index| index.substitute(coords, axes)).collect();
    if within.iter().all(|index| index.affine(axes.len()).is_some()) {
        return within;
    }
    let direct = Ix::linear(coords, from).unravel(to, axes);
    let quotients = |indices: &[Ix]| indices.iter().map(Ix::quotients).sum::<usize>();
    if quotients(&within) < quotients(&direct) { within } else { direct }
}

fn build_map(context: Context<'_>, members: &[usize], stores: &[usize]) -> Result<Body, Refusal> {
    // the member with most axes: fewest quotients in the index expressions
    let nodes = &context.program.nodes;
    let space = members.iter().map(|&node| &nodes[node].shape).max_by_key(|shape| shape.rank()).expect("not empty");
    let axes = space.to_vec();
    let identity: Vec<Ix> = (0..axes.len()).map(Ix::axis).collect();
    let mut emitter = Emitter::new(context, &axes);
    let mut targets = Vec::new();
    for &member in members {
        if nodes[member].shape.numel() != space.numel() {
            return Err(Refusal::OtherSpace);
        }
        let coords = reshaped(&identity, &axes, &nodes[member].shape, &axes);
        emitter.local.insert(member, Local { coords: coords.clone(), value: LocalValue::Inline });
        targets.push((member, coords));
    }
    let stores = emitter.stores(&targets, stores)?;
    let phase = Phase { level: Level::Outer, tape: emitter.tape, reductions: Vec::new(), stores };
    Ok(Body::Loop(LoopKernel { outer: axes.len(), axes, phases: vec![phase] }))
}

fn build_rows(context: Context<'_>, reduces: &[usize], members: &[usize], stores: &[usize]) -> Result<Body, Refusal> {
    let nodes = &context.program.nodes;
    let runs_of = |node: usize| match &nodes[node].op {
        Op::Reduce { axes, .. } => Runs::new(&nodes[nodes[node].inputs[0]].shape, axes),
        _ => unreachable!("a reduction"),
    };
    let runs = runs_of(reduces[0]);
    if reduces.iter().any(|&reduce| runs_of(reduce) != runs) {
        return Err(Refusal::OtherSpace);
    }
    let (axes, outer, full, full_sizes) = runs.axes();
    let (outer_size, inner_size) = runs.sizes();
    let outer_coords: Vec<Ix> = (0..outer).map(Ix::axis).collect();
    // where each member's value is found: (coordinates, level)
    let mut places: HashMap<usize, (Vec<Ix>, Level)> = HashMap::new();
    for &member in members {
        let shape = &nodes[member].shape;
        let place = if let Op::Reduce { axes: reduced, .. } = &nodes[member].op {
            let source = &nodes[nodes[member].inputs[0]].shape;
            let mut coords = reshaped(&full, &full_sizes, source, &axes);
            for &axis in reduced {
                coords[axis] = Ix::constant(0);
            }
            (coords, Level::Outer)
        } else if shape.numel() == outer_size * inner_size && inner_size != 1 {
            (reshaped(&full, &full_sizes, shape, &axes), Level::Inner)
        } else if shape.numel() == outer_size {
            (reshaped(&outer_coords, &axes[..outer], shape, &axes), Level::Outer)
        } else {
            return Err(Refusal::OtherSpace);
        };
        places.insert(member, place);
    }
    let levels = levels(context.program, context.homes, members);
    let last = levels.values().copied().max().unwrap_or(0);
    let mut phases = Vec::new();
    let mut numbers: HashMap<usize, usize> = HashMap::new();
    for level in 0..=last {
        let mut emitter = Emitter::new(context, &axes);
        emitter.know(&places, &numbers);
        let mut reductions = Vec::new();
        let mut computed = Vec::new();
        for &reduce in reduces.iter().filter(|&reduce| levels[reduce] == level) {
            let Op::Reduce { op, .. } = nodes[reduce].op else { unreachable!("a reduction") };
            let input = nodes[reduce].inputs[0];
            let coords = reshaped(&full, &full_sizes, &nodes[input].shape, &axes);
            reductions.push((op, emitter.emit(input, &coords, &[])?));
            computed.push(reduce);
        }
        let targets: Vec<_> = members
            .iter()
            .filter(|&member| places[member].1 == Level::Inner && levels[member] == level)
            .map(|&member| (member, places[&member].0.clone()))
            .collect();
        let stores = emitter.stores(&targets, stores)?;
        for reduce in computed {
            numbers.insert(reduce, numbers.len());
        }
        if !reductions.is_empty() || !stores.is_empty() {
            phases.push(Phase { level: Level::Inner, tape: emitter.tape, reductions, stores });
        }
    }
    let mut emitter = Emitter::new(context, &axes);
    emitter.know(&places, &numbers);
    let targets: Vec<_> = members
        .iter()
        .filter(|&member| places[member].1 == Level::Outer)
        .map(|&member| (member, places[&member].0.clone()))
        .collect();
    let outer_stores = emitter.stores(&targets, stores)?;
    if !outer_stores.is_empty() {
        phases.push(Phase { level: Level::Outer, tape: emitter.tape, reductions: Vec::new(), stores: outer_stores });
    }
    Ok(Body::Loop(LoopKernel { axes, outer, phases }))
}

/// For each member, how many sweeps over the row must be over before it can be computed (for a reduction: started).
fn levels(program: &Program, homes: &[Option<Home>], members: &[usize]) -> HashMap<usize, usize> {
    let mut levels = HashMap::new();
    for &member in members {
        let mut level = 0;
        let mut seen = std::collections::HashSet::new();
        let mut stack = program.nodes[member].inputs.clone();
        while let Some(node) = stack.pop() {
            if !seen.insert(node) {
                continue;
            }
            if let Some(&known) = levels.get(&node) {
                let reduce = matches!(program.nodes[node].op, Op::Reduce { .. });
                level = level.max(known + usize::from(reduce));
            } else if homes[node].is_none() {
                stack.extend(&program.nodes[node].inputs);
            }
        }
        levels.insert(member, level);
    }
    levels
}

fn build_contract(context: Context<'_>, contract: usize, members: &[usize], stores: &[usize]) -> Result<Body, Refusal> {
    let node = &context.program.nodes[contract];
    let Op::Contract(spec) = &node.op else { unreachable!("a contraction") };
    let (spec, lhs, rhs) = oriented(spec, node.inputs[0], node.inputs[1]);
    let (labels, counts) = axis_order(&spec);
    let size = |label: u8| {
        let of = |labels: &[u8], input: usize| {
            labels.iter().position(|&l| l == label).map(|axis| context.program.nodes[input].shape[axis])
        };
        of(&spec.lhs, lhs).or_else(|| of(&spec.rhs, rhs)).expect("every label is in an operand")
    };
    let axes: Vec<usize> = labels.iter().map(|&label| size(label)).collect();
    let coords = |operand: &[u8]| -> Vec<Ix> {
        operand
            .iter()
            .map(|label| {
                let axis = labels.iter().position(|l| l == label).expect("every label has an axis");
                if axes[axis] == 1 { Ix::constant(0) } else { Ix::axis(axis) }
            })
            .collect()
    };
    let operand = |input: usize, labels: &[u8]| -> Result<(Tape, ValueId), Refusal> {
        let mut emitter = Emitter::new(context, &axes);
        let value = emitter.emit(input, &coords(labels), &[])?;
        Ok((emitter.tape, value))
    };
    let mut emitter = Emitter::new(context, &axes);
    let own = coords(&spec.out);
    let forward = forward_coords(context, contract, &own, members, &axes);
    emitter.local.insert(contract, Local { coords: own.clone(), value: LocalValue::Accumulator });
    let mut targets = vec![(contract, own)];
    for &member in members.iter().filter(|&&member| member != contract) {
        let coords = forward.get(&member).cloned().ok_or(Refusal::OtherSpace)?;
        emitter.local.insert(member, Local { coords: coords.clone(), value: LocalValue::Inline });
        targets.push((member, coords));
    }
    let stores = emitter.stores(&targets, stores)?;
    let epilogue = emitter.tape;
    let accumulator = if node.dtype.is_float() { DType::F32 } else { node.dtype };
    Ok(Body::Contract(ContractKernel {
        lhs: operand(lhs, &spec.lhs)?,
        rhs: operand(rhs, &spec.rhs)?,
        axes,
        counts,
        epilogue,
        stores,
        accumulator,
    }))
}

/// The contraction with its operands exchanged if that puts the output's last axis among the columns.
fn oriented(spec: &Contract, lhs: usize, rhs: usize) -> (Contract, usize, usize) {
    let is_row = |label: &u8| spec.lhs.contains(label) && !spec.rhs.contains(label);
    let own = |label: &&u8| spec.lhs.contains(label) != spec.rhs.contains(label);
    match spec.out.iter().rev().find(own) {
        Some(label) if is_row(label) => {
            (Contract { lhs: spec.rhs.clone(), rhs: spec.lhs.clone(), out: spec.out.clone() }, rhs, lhs)
        }
        _ => (spec.clone(), lhs, rhs),
    }
}

/// Labels in the order batch, m, n, k, and how many of each.
fn axis_order(spec: &Contract) -> (Vec<u8>, [usize; 4]) {
    let in_lhs = |label: &u8| spec.lhs.contains(label);
    let in_rhs = |label: &u8| spec.rhs.contains(label);
    let pick = |from: &[u8], test: &dyn Fn(&u8) -> bool| from.iter().copied().filter(|l| test(l)).collect::<Vec<_>>();
    let groups = [
        pick(&spec.out, &|l| in_lhs(l) && in_rhs(l)),
        pick(&spec.out, &|l| in_lhs(l) && !in_rhs(l)),
        pick(&spec.out, &|l| !in_lhs(l) && in_rhs(l)),
        pick(&spec.rhs, &|l| !spec.out.contains(l)),
    ];
    let counts = [groups[0].len(), groups[1].len(), groups[2].len(), groups[3].len()];
    (groups.concat(), counts)
}

/// Coordinates, in the kernel's axes, of everything between `source` and the members that is a one-to-one image of it.
fn forward_coords(
    context: Context<'_>,
    source: usize,
    own: &[Ix],
    members: &[usize],
    axes: &[usize],
) -> HashMap<usize, Vec<Ix>> {
    let program = context.program;
    let mut coords = HashMap::from([(source, own.to_vec())]);
    // the nodes between: inlined ones and members, found backwards, then visited in topological order
    let mut between = std::collections::BTreeSet::new();
    let mut stack: Vec<usize> = members.iter().copied().filter(|&member| member != source).collect();
    while let Some(node) = stack.pop() {
        if node > source && between.insert(node) {
            let inline = |&&input: &&usize| context.homes[input].is_none() || members.contains(&input);
            stack.extend(program.nodes[node].inputs.iter().filter(inline));
        }
    }
    for number in between {
        let node = &program.nodes[number];
        let image = node.inputs.iter().find_map(|input| {
            let inner = coords.get(input)?;
            let inner_shape = &program.nodes[*input].shape;
            match &node.op {
                Op::Reshape => Some(reshaped(inner, inner_shape, &node.shape, axes)),
                Op::View(view) => permuted(view, inner, inner_shape, &node.shape),
                Op::Unary(_) | Op::Binary(_) | Op::Select | Op::Cast | Op::Bitcast | Op::After => Some(inner.clone()),
                _ => None,
            }
        });
        if let Some(image) = image {
            coords.insert(number, image);
        }
    }
    coords
}

/// Output coordinates of a view that only moves axes (and adds or drops axes of size 1).
fn permuted(view: &View, inner: &[Ix], inner_shape: &Shape, shape: &Shape) -> Option<Vec<Ix>> {
    if shape.numel() != inner_shape.numel() {
        return None;
    }
    let mut coords = vec![Ix::constant(0); shape.rank()];
    for (d, dim) in view.dims.iter().enumerate() {
        if inner_shape[d] == 1 {
            continue;
        }
        match (dim.terms.as_slice(), dim.offset, dim.divisor) {
            (&[(axis, 1)], 0, 1) if shape[axis] == inner_shape[d] => coords[axis].clone_from(&inner[d]),
            _ => return None,
        }
    }
    Some(coords)
}

/// A member's value within the kernel.
struct Local {
    /// The only coordinates at which it is known.
    coords: Vec<Ix>,
    value: LocalValue,
}

enum LocalValue {
    Inline,
    Reduced(usize),
    /// A reduction whose sweep is not over.
    Pending,
    Accumulator,
}

/// Writes one tape.
struct Emitter<'a> {
    context: Context<'a>,
    axes: &'a [usize],
    tape: Tape,
    numbers: HashMap<Instr, ValueId>,
    memo: HashMap<(usize, Vec<Ix>, Vec<Cond>), ValueId>,
    local: HashMap<usize, Local>,
    depth: usize,
}

impl<'a> Emitter<'a> {
    fn new(context: Context<'a>, axes: &'a [usize]) -> Self {
        Self {
            context,
            axes,
            tape: Tape::default(),
            numbers: HashMap::new(),
            memo: HashMap::new(),
            local: HashMap::new(),
            depth: 0,
        }
    }

    /// Makes the members of a row kernel known, with the reductions computed so far.
    fn know(&mut self, places: &HashMap<usize, (Vec<Ix>, Level)>, reduced: &HashMap<usize, usize>) {
        for (&member, (coords, _)) in places {
            let value = match reduced.get(&member) {
                Some(&number) => LocalValue::Reduced(number),
                None if matches!(self.context.program.nodes[member].op, Op::Reduce { .. }) => LocalValue::Pending,
                None => LocalValue::Inline,
            };
            self.local.insert(member, Local { coords: coords.clone(), value });
        }
    }

    fn stores(&mut self, targets: &[(usize, Vec<Ix>)], wanted: &[usize]) -> Result<Vec<Store>, Refusal> {
        let mut stores = Vec::new();
        for (node, coords) in targets.iter().filter(|(node, _)| wanted.contains(node)) {
            let home = self.context.homes[*node].as_ref().expect("a stored node has a place in memory");
            let value = self.emit(*node, coords, &[])?;
            stores.push(Store { buffer: home.buffer, index: home.index(coords), value });
        }
        Ok(stores)
    }

    fn push(&mut self, op: InstrOp, dtype: DType) -> ValueId {
        let instr = Instr { op, dtype };
        if let Some(&known) = self.numbers.get(&instr) {
            return known;
        }
        let number = self.tape.instrs.len();
        self.numbers.insert(instr.clone(), number);
        self.tape.instrs.push(instr);
        number
    }

    /// The value of `node` at `coords`; only points where `valid` holds matter.
    fn emit(&mut self, node: usize, coords: &[Ix], valid: &[Cond]) -> Result<ValueId, Refusal> {
        let key = (node, coords.to_vec(), valid.to_vec());
        if let Some(&known) = self.memo.get(&key) {
            return Ok(known);
        }
        if self.tape.instrs.len() > MAX_TAPE || self.depth > MAX_DEPTH {
            return Err(Refusal::TooLong);
        }
        self.depth += 1;
        let value = match self.local.get(&node) {
            Some(local) => {
                if local.coords != coords {
                    return Err(Refusal::OtherPoint);
                }
                match local.value {
                    LocalValue::Inline => self.compute(node, coords, valid)?,
                    LocalValue::Reduced(number) => {
                        self.push(InstrOp::Reduced(number), self.context.program.nodes[node].dtype)
                    }
                    LocalValue::Accumulator => {
                        let dtype = self.context.program.nodes[node].dtype;
                        let accumulator = if dtype.is_float() { DType::F32 } else { dtype };
                        let value = self.push(InstrOp::Accumulator, accumulator);
                        if accumulator == dtype { value } else { self.push(InstrOp::Cast(value), dtype) }
                    }
                    LocalValue::Pending => return Err(Refusal::OtherPoint),
                }
            }
            None => match &self.context.homes[node] {
                Some(home) => {
                    let load = InstrOp::Load { buffer: home.buffer, index: home.index(coords), valid: valid.to_vec() };
                    self.push(load, self.context.program.nodes[node].dtype)
                }
                None => self.compute(node, coords, valid)?,
            },
        };
        self.depth -= 1;
        self.memo.insert(key, value);
        Ok(value)
    }

    fn compute(&mut self, number: usize, coords: &[Ix], valid: &[Cond]) -> Result<ValueId, Refusal> {
        let node = &self.context.program.nodes[number];
        let dtype = node.dtype;
        let input = |n: usize| node.inputs[n];
        Ok(match &node.op {
            Op::Const(value) => self.push(InstrOp::Const(*value), dtype),
            Op::Uniform => match node.slot {
                Slot::Uniform(slot) => self.push(InstrOp::Uniform(slot), dtype),
                _ => unreachable!("a host value has a slot"),
            },
            Op::Iota { axis } => self.push(InstrOp::Coord(coords[*axis].clone()), dtype),
            Op::Unary(op) => {
                let a = self.emit(input(0), coords, valid)?;
                self.push(InstrOp::Unary(*op, a), dtype)
            }
            Op::Binary(op) => {
                let a = self.emit(input(0), coords, valid)?;
                let b = self.emit(input(1), coords, valid)?;
                let (a, b) = if op.is_commutative() { (a.min(b), a.max(b)) } else { (a, b) };
                self.push(InstrOp::Binary(*op, a, b), dtype)
            }
            Op::Select => {
                let condition = self.emit(input(0), coords, valid)?;
                let a = self.emit(input(1), coords, valid)?;
                let b = self.emit(input(2), coords, valid)?;
                self.push(InstrOp::Select(condition, a, b), dtype)
            }
            Op::Cast => {
                let a = self.emit(input(0), coords, valid)?;
                if self.tape.instrs[a].dtype == dtype { a } else { self.push(InstrOp::Cast(a), dtype) }
            }
            Op::Bitcast => {
                let a = self.emit(input(0), coords, valid)?;
                self.push(InstrOp::Bitcast(a), dtype)
            }
            Op::CheckIndex { bound } => {
                let mut value = self.emit(input(0), coords, valid)?;
                if !valid.is_empty() {
                    // what is computed where nobody looks must not count as out of range
                    let inside = self.push(InstrOp::Valid(valid.to_vec()), DType::Bool);
                    let zero = self.push(InstrOp::Const(Scalar { dtype, bits: 0 }), dtype);
                    value = self.push(InstrOp::Select(inside, value, zero), dtype);
                }
                let site = crate::status::register(
                    node.module.as_ref().map_or_else(|| "index".to_owned(), |module| format!("index in {module}")),
                    node.location,
                    *bound,
                );
                self.push(InstrOp::CheckIndex { value, bound: *bound, site }, dtype)
            }
            Op::Reshape => {
                let inner = reshaped(coords, &node.shape, &self.context.program.nodes[input(0)].shape, self.axes);
                self.emit(input(0), &inner, valid)?
            }
            Op::View(view) => return self.view(input(0), view, coords, valid),
            Op::After => self.emit(input(0), coords, valid)?,
            Op::Gather { axis } => {
                let (axis, index_rank) = (*axis, self.context.program.nodes[input(1)].shape.rank());
                let value = self.emit(input(1), &coords[axis..axis + index_rank], valid)?;
                let home = self.context.homes[input(0)].as_ref().expect("what is gathered from lies in memory");
                let mut source = coords[..axis].to_vec();
                source.push(Ix::constant(0));
                source.extend_from_slice(&coords[axis + index_rank..]);
                let (base, stride) = (home.index(&source), home.strides[axis]);
                let gather = InstrOp::Gather { buffer: home.buffer, base, stride, value, valid: valid.to_vec() };
                self.push(gather, dtype)
            }
            Op::Random { stream } => {
                let seed = self.emit(input(0), &[], valid)?;
                let position = self.emit(input(1), &[], valid)?;
                let counter = Ix::linear(coords, &node.shape);
                self.push(InstrOp::Random { counter, stream: *stream, seed, position }, dtype)
            }
            Op::Leaf | Op::Reduce { .. } | Op::Contract(_) | Op::Pack { .. } | Op::Custom | Op::Detach => {
                unreachable!("{:?} lies in memory", node.op)
            }
        })
    }

    fn view(&mut self, input: usize, view: &View, coords: &[Ix], valid: &[Cond]) -> Result<ValueId, Refusal> {
        let shape = &self.context.program.nodes[input].shape;
        let mut inner = Vec::with_capacity(shape.rank());
        let mut added: Vec<Cond> = Vec::new();
        for (dim, &size) in view.dims.iter().zip(shape.iter()) {
            let mut sum = Ix::constant(dim.offset);
            for &(axis, coefficient) in &dim.terms {
                sum = sum.plus(&coords[axis].times(coefficient));
            }
            // the multiple is judged before the quotient rounds
            let mut conditions = Vec::new();
            if dim.divisor > 1 {
                conditions.push(Cond::Multiple(sum.clone(), dim.divisor));
                sum = sum.div(dim.divisor, self.axes);
            }
            conditions.push(Cond::InRange(sum.clone(), size as i64));
            for condition in conditions {
                match condition.known(self.axes) {
                    Some(true) => {}
                    Some(false) => {
                        let dtype = self.context.program.nodes[input].dtype;
                        return Ok(self.push(InstrOp::Const(view.fill), dtype));
                    }
                    None => added.push(condition),
                }
            }
            inner.push(if size == 1 { Ix::constant(0) } else { sum });
        }
        if added.is_empty() {
            return self.emit(input, &inner, valid);
        }
        let mut all = valid.to_vec();
        all.extend(added.iter().cloned());
        all.sort_unstable();
        all.dedup();
        let value = self.emit(input, &inner, &all)?;
        let zero_outside = matches!(self.tape.instrs[value].op, InstrOp::Load { .. } | InstrOp::Gather { .. });
        if zero_outside && view.fill.bits == 0 {
            return Ok(value);
        }
        let dtype = self.tape.instrs[value].dtype;
        let inside = self.push(InstrOp::Valid(added), DType::Bool);
        let fill = self.push(InstrOp::Const(Scalar { dtype, bits: view.fill.bits }), dtype);
        Ok(self.push(InstrOp::Select(inside, value, fill), dtype))
    }
}

/// True if every buffer that is both read and written is read only at the point that is about to be written.
fn updates_in_place_safely(body: &Body) -> bool {
    let (tapes, stores): (Vec<&Tape>, Vec<&Store>) = match body {
        Body::Loop(kernel) => (
            kernel.phases.iter().map(|phase| &phase.tape).collect(),
            kernel.phases.iter().flat_map(|p| &p.stores).collect(),
        ),
        Body::Contract(kernel) => {
            (vec![&kernel.lhs.0, &kernel.rhs.0, &kernel.epilogue], kernel.stores.iter().collect())
        }
    };
    let in_place_allowed = |tape: &Tape, store: &Store| match body {
        Body::Loop(kernel) => kernel.phases.iter().any(|phase| {
            std::ptr::eq(&phase.tape, tape) && phase.level == Level::Outer && phase.stores.contains(store)
        }),
        Body::Contract(kernel) => std::ptr::eq(&kernel.epilogue, tape),
    };
    let mut written: Vec<BufferId> = stores.iter().map(|store| store.buffer).collect();
    written.sort_unstable();
    written.dedup();
    let single = |buffer: BufferId| stores.iter().filter(|store| store.buffer == buffer).count() == 1;
    tapes.iter().all(|tape| {
        tape.instrs.iter().all(|instr| match &instr.op {
            InstrOp::Load { buffer, index, valid } if written.contains(buffer) => {
                let store = stores.iter().find(|store| store.buffer == *buffer).expect("it is written");
                single(*buffer) && valid.is_empty() && *index == store.index && in_place_allowed(tape, store)
            }
            InstrOp::Gather { buffer, .. } => !written.contains(buffer),
            _ => true,
        })
    })
}
