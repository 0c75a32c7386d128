//! Decides which values are stored in memory, and which are computed wherever they are needed.

use std::collections::BTreeSet;

use crate::graph::{Binary, Op, Program, ProgramNode, Unary};

use super::PlanOptions;

/// A value whose computation costs more than this (see [`cost`]) is stored even if used once: drivers' compilers take
/// their time with long kernels.
const MAX_COST: u32 = 220;
/// The longest chain of nodes computed in one go: writing a kernel's code recurses along it.
const MAX_DEPTH: u32 = 64;
/// A kernel that reads more than this leaves no room for its outputs and for merging.
const MAX_READS: usize = 10;

/// Which nodes get a place in memory; `forced` ones do in any case.
pub(super) fn choose_stored(program: &Program, options: &PlanOptions, forced: &[usize]) -> Vec<bool> {
    let mut chooser = Chooser {
        program,
        stored: program.nodes.iter().map(|node| !inlinable(&node.op)).collect(),
        inline: Vec::with_capacity(program.nodes.len()),
        max_reads: options.max_buffers.saturating_sub(2).clamp(1, MAX_READS),
    };
    for output in &program.outputs {
        chooser.stored[output.node] = true;
    }
    for &number in forced {
        chooser.stored[number] = true;
    }
    let users = program.users();
    for (number, users) in users.iter().enumerate() {
        chooser.store_inputs(number, options);
        let inline = chooser.measure_within_limits(number);
        let repeated = users.len() > 1 && inline.cost > options.recompute_cost;
        let spread = inline.cost > options.prologue_cost && users.iter().any(|&user| chooser.spreads(number, user));
        chooser.inline.push(inline);
        if (repeated || spread) && !chooser.is_free(number) {
            chooser.stored[number] = true;
        }
    }
    chooser.stored
}

/// What it takes to compute one element of a node from what is stored.
#[derive(Clone, Default)]
struct Inline {
    /// In units of a cheap instruction; a load counts as 4.
    cost: u32,
    depth: u32,
    /// Stored nodes it reads.
    reads: BTreeSet<usize>,
}

struct Chooser<'a> {
    program: &'a Program,
    stored: Vec<bool>,
    /// For each node so far.
    inline: Vec<Inline>,
    max_reads: usize,
}

impl Chooser<'_> {
    /// Stores what this node needs to find in memory.
    fn store_inputs(&mut self, number: usize, options: &PlanOptions) {
        let node = &self.program.nodes[number];
        match node.op {
            Op::Gather { .. } => self.stored[node.inputs[0]] = true,
            Op::Pack { .. } => node.inputs.iter().for_each(|&input| self.stored[input] = true),
            // what a contraction loads again and again should be cheap
            Op::Contract(_) => {
                for &input in &node.inputs {
                    let below = through_views(self.program, input);
                    let inline = &self.inline[below];
                    let dear = inline.cost > options.prologue_cost || inline.reads.len() > 1;
                    if dear && inlinable(&self.program.nodes[below].op) {
                        self.store(below);
                    }
                }
            }
            _ => {}
        }
        if !options.fuse && !self.is_free(number) {
            self.stored[number] = true;
        }
    }

    /// The cost of `number`, after storing inputs until it is within the limits.
    fn measure_within_limits(&mut self, number: usize) -> Inline {
        let mut inline = self.measure(number);
        while inline.reads.len() > self.max_reads || inline.cost > MAX_COST || inline.depth > MAX_DEPTH {
            let inputs = self.program.nodes[number].inputs.iter().map(|&input| through_views(self.program, input));
            let candidates = inputs.filter(|&input| !self.stored[input] && !self.is_free(input));
            let Some(dearest) = candidates.max_by_key(|&input| {
                let inline = &self.inline[input];
                (inline.reads.len(), inline.cost, inline.depth)
            }) else {
                break;
            };
            self.store(dearest);
            inline = self.measure(number);
        }
        inline
    }

    /// Stores a node after all, and measures again what was to be computed through it.
    fn store(&mut self, number: usize) {
        self.stored[number] = true;
        for later in number + 1..self.inline.len() {
            if !self.stored[later] && self.program.nodes[later].inputs.iter().any(|&input| input >= number) {
                self.inline[later] = self.measure(later);
            }
        }
    }

    fn measure(&self, number: usize) -> Inline {
        let node = &self.program.nodes[number];
        let mut result = Inline { cost: cost(node), depth: 0, reads: BTreeSet::new() };
        for &input in &node.inputs {
            if self.stored[input] {
                result.cost += if self.program.nodes[input].shape.numel() == 1 { 1 } else { 4 };
                result.reads.insert(input);
            } else {
                let inner = &self.inline[input];
                result.cost = result.cost.saturating_add(inner.cost);
                result.depth = result.depth.max(inner.depth + 1);
                result.reads.extend(&inner.reads);
            }
        }
        result
    }

    /// True for nodes that are never worth memory: moved values, constants, and what is made of host scalars only.
    fn is_free(&self, number: usize) -> bool {
        let node = &self.program.nodes[number];
        let constant = |op: &Op| matches!(op, Op::Const(_) | Op::Uniform | Op::Iota { .. });
        constant(&node.op)
            || matches!(node.op, Op::View(_) | Op::Reshape)
            || (!node.inputs.is_empty() && node.inputs.iter().all(|&input| constant(&self.program.nodes[input].op)))
    }

    /// True if `user` spreads the value of `number` over a much larger space, and so would compute it many times.
    fn spreads(&self, number: usize, user: usize) -> bool {
        let (small, large) = (&self.program.nodes[number].shape, &self.program.nodes[user]);
        let Op::View(view) = &large.op else { return false };
        // where a coordinate is no whole number, nothing is computed
        let holes: usize = view.dims.iter().map(|dim| usize::try_from(dim.divisor).unwrap_or(1)).product();
        large.shape.numel() / holes >= 4 * small.numel().max(1)
    }
}

/// Cost of computing one element again, in units of a cheap instruction.
fn cost(node: &ProgramNode) -> u32 {
    match &node.op {
        Op::Const(_) | Op::Uniform | Op::Reshape | Op::After | Op::Iota { .. } => 0,
        Op::Unary(
            Unary::Exp
            | Unary::Expm1
            | Unary::Log
            | Unary::Log1p
            | Unary::Tanh
            | Unary::Sigmoid
            | Unary::Sin
            | Unary::Cos,
        ) => 8,
        Op::Unary(Unary::Erf) => 12,
        Op::Binary(Binary::Pow | Binary::Atan2) => 16,
        Op::Unary(Unary::Sqrt | Unary::Rsqrt | Unary::Recip) | Op::Binary(Binary::Div) => 3,
        Op::Random { .. } => 30,
        Op::Gather { .. } => 5,
        _ => 1,
    }
}

/// True for nodes that are computed where they are needed unless someone decides to store them.
fn inlinable(op: &Op) -> bool {
    !matches!(op, Op::Leaf | Op::Reduce { .. } | Op::Contract(_) | Op::Pack { .. })
}

/// The node below any views and reshapes.
fn through_views(program: &Program, mut number: usize) -> usize {
    while matches!(program.nodes[number].op, Op::View(_) | Op::Reshape) {
        number = program.nodes[number].inputs[0];
    }
    number
}
