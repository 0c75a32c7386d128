//! Kernels in the making.

use std::collections::BTreeSet;

use rustc_hash::FxHashSet;
use smallvec::smallvec;

use crate::graph::{Inputs, Op, Program};
use crate::plan::emit::{Home, Runs};
use crate::plan::kernel::Body;
use crate::stage::Stage;

/// Which nodes are computed together.
#[derive(Clone, Debug)]
pub(in crate::plan) struct Group {
    /// Stored nodes, ascending.
    pub members: Vec<usize>,
    /// Those whose value is needed outside of the group, and that are not empty.
    pub stores: Vec<usize>,
    /// Nodes in memory that the members read, ascending.
    pub reads: Vec<usize>,
    /// Nodes that must be computed before, without being read.
    pub after: Vec<usize>,
    pub stage: Stage,
    /// The code, if it is of more than one member.
    pub body: Option<Body>,
    pub(super) kind: Kind,
}

/// What gives a kernel its form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Elementwise work only.
    Map,
    /// Reductions over these rows.
    Rows(Runs),
    Contract,
}

impl Group {
    /// One stored node, and what is computed inside.
    pub(super) fn new(program: &Program, homes: &[Option<Home>], number: usize) -> Self {
        let node = &program.nodes[number];
        let (reads, after) = reads_of(program, homes, number);
        let kind = match &node.op {
            Op::Contract(_) => Kind::Contract,
            Op::Reduce { axes, .. } => Kind::Rows(Runs::new(&program.nodes[node.inputs[0]].shape, axes)),
            _ => Kind::Map,
        };
        Self {
            members: vec![number],
            stores: Vec::new(),
            reads: reads.into_iter().collect(),
            after: after.into_iter().collect(),
            stage: node.stage,
            body: None,
            kind,
        }
    }

    /// Both as one, without stores and code.
    pub(super) fn union(&self, other: &Self) -> Self {
        let join = |x: &[usize], y: &[usize]| -> Vec<usize> {
            x.iter().chain(y).copied().collect::<BTreeSet<_>>().into_iter().collect()
        };
        let members = join(&self.members, &other.members);
        let outside = |node: &usize| members.binary_search(node).is_err();
        let mut reads = join(&self.reads, &other.reads);
        reads.retain(outside);
        let mut after = join(&self.after, &other.after);
        after.retain(outside);
        let kind = match (&self.kind, &other.kind) {
            (Kind::Map, kind) | (kind @ Kind::Contract, _) => kind.clone(),
            (_, Kind::Contract) => Kind::Contract,
            (kind, _) => kind.clone(),
        };
        Self { members, stores: Vec::new(), reads, after, stage: self.stage, body: None, kind }
    }

    /// The row space of a group with reductions.
    pub(super) fn runs(&self) -> Option<&Runs> {
        match &self.kind {
            Kind::Rows(runs) => Some(runs),
            Kind::Map | Kind::Contract => None,
        }
    }
}

/// Nodes in memory that computing `node` reads, and those it only has to wait for.
fn reads_of(program: &Program, homes: &[Option<Home>], node: usize) -> (BTreeSet<usize>, BTreeSet<usize>) {
    let (mut reads, mut after) = (BTreeSet::new(), BTreeSet::new());
    let mut seen = FxHashSet::default();
    let mut stack = vec![(node, false)];
    while let Some((number, waiting)) = stack.pop() {
        let inputs = &program.nodes[number].inputs;
        let waits_for = matches!(program.nodes[number].op, Op::After);
        for (position, &input) in inputs.iter().enumerate() {
            let waiting = waiting || (waits_for && position == 1);
            if homes[input].is_some() {
                if waiting {
                    after.insert(input)
                } else {
                    reads.insert(input)
                };
            } else if seen.insert((input, waiting)) {
                stack.push((input, waiting));
            }
        }
    }
    (reads, after)
}

/// The nodes that write `node`'s memory: itself, or a pack's inputs.
pub(in crate::plan) fn producers(program: &Program, node: usize) -> Inputs {
    match program.nodes[node].op {
        Op::Pack { .. } => program.nodes[node].inputs.clone(),
        _ => smallvec![node],
    }
}
