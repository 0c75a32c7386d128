//! Decides which stored values share a kernel.
//!
//! Every stored node starts as a kernel of its own, with all unstored nodes below it computed inside. Then kernels are
//! merged, in five rounds (`rounds.rs`). A merge must keep the graph of kernels acyclic, stay within one stage and
//! within the number of buffers a kernel may name, and the emitter must be able to write it.

mod group;
mod order;
mod reasons;
mod rounds;

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::graph::Op;

use super::PlanOptions;
use super::emit::{self, Context};

pub(super) use group::{Group, producers};
use order::Order;
pub(super) use reasons::Apart;
use reasons::Reason;

/// Kernels being merged.
struct Fuser<'a> {
    context: Context<'a>,
    options: &'a PlanOptions,
    groups: Vec<Option<Group>>,
    order: Order,
    /// For each stored node, its group.
    owner: FxHashMap<usize, usize>,
    /// For each node, nodes in memory that need it.
    users: Vec<Vec<usize>>,
    kept: FxHashSet<usize>,
    /// How often each group has grown.
    grown: Vec<usize>,
    /// Pairs that were refused, with what `grown` was then: asking again would give the same answer.
    refused: FxHashSet<[usize; 4]>,
    /// The last refusal between two nodes' groups.
    apart: BTreeMap<(usize, usize), Reason>,
}

/// Merges the stored nodes of `context` into groups, in no particular order.
///
/// `kept` are nodes whose value must be in memory at the end; `readers_first` are pairs (reader, writer) of stored
/// nodes: the writer overwrites external memory that the reader reads.
pub(super) fn fuse(
    context: Context<'_>,
    options: &PlanOptions,
    kept: &FxHashSet<usize>,
    readers_first: &[(usize, usize)],
) -> (Vec<Group>, Vec<Apart>) {
    let mut fuser = Fuser::new(context, options, kept, readers_first);
    if options.fuse {
        fuser.merge_consumers();
        fuser.merge_rows();
        fuser.merge_siblings();
        fuser.merge_small();
        fuser.merge_beside_rows();
    }
    let apart = fuser.reasons();
    let mut groups: Vec<Group> = std::mem::take(&mut fuser.groups).into_iter().flatten().collect();
    for group in &mut groups {
        group.stores = fuser.stores(&group.members);
    }
    (groups, apart)
}

impl<'a> Fuser<'a> {
    fn new(
        context: Context<'a>,
        options: &'a PlanOptions,
        kept: &FxHashSet<usize>,
        readers_first: &[(usize, usize)],
    ) -> Self {
        let program = context.program;
        let mut groups = Vec::new();
        let mut owner = FxHashMap::default();
        let mut users = vec![Vec::new(); program.nodes.len()];
        for (number, node) in program.nodes.iter().enumerate() {
            if context.homes[number].is_none() || matches!(node.op, Op::Leaf | Op::Pack { .. }) {
                continue;
            }
            let group = Group::new(program, context.homes, number);
            for &read in &group.reads {
                users[read].push(number);
            }
            owner.insert(number, groups.len());
            groups.push(group);
        }
        let mut before: Vec<BTreeSet<usize>> = groups
            .iter()
            .enumerate()
            .map(|(number, group)| {
                let needed = group.reads.iter().chain(&group.after).flat_map(|&read| producers(program, read));
                needed.filter_map(|node| owner.get(&node).copied()).filter(|&needed| needed != number).collect()
            })
            .collect();
        for (reader, writer) in readers_first {
            let (reader, writer) = (owner[reader], owner[writer]);
            if reader != writer {
                before[writer].insert(reader);
            }
        }
        Self {
            context,
            options,
            grown: vec![0; groups.len()],
            groups: groups.into_iter().map(Some).collect(),
            order: Order::new(before),
            owner,
            users,
            kept: kept.clone(),
            refused: FxHashSet::default(),
            apart: BTreeMap::new(),
        }
    }

    fn group(&self, number: usize) -> &Group {
        self.groups[number].as_ref().expect("a living group")
    }

    fn living(&self) -> Vec<usize> {
        (0..self.groups.len()).filter(|&number| self.groups[number].is_some()).collect()
    }

    /// Members of a group-to-be that must be in memory; empty ones need none.
    fn stores(&self, members: &[usize]) -> Vec<usize> {
        let outside = |user: &usize| members.binary_search(user).is_err();
        let needed = |member: &usize| self.kept.contains(member) || self.users[*member].iter().any(outside);
        let empty = |member: &usize| self.context.program.nodes[*member].shape.numel() == 0;
        members.iter().copied().filter(|member| needed(member) && !empty(member)).collect()
    }

    /// Makes `b` part of `a` if that is possible; says whether it did.
    fn try_merge(&mut self, a: usize, b: usize) -> bool {
        let key = [a, b, self.grown[a], self.grown[b]];
        if self.refused.contains(&key) {
            return false;
        }
        let merged = match self.merged(a, b) {
            Ok(merged) => merged,
            Err(reason) => {
                self.refused.insert(key);
                let (first, second) = (self.group(a).members[0], self.group(b).members[0]);
                self.apart.insert((first.min(second), first.max(second)), reason);
                return false;
            }
        };
        self.order.merge(a, b);
        let second = self.groups[b].take().expect("a living group");
        for &member in &second.members {
            self.owner.insert(member, a);
        }
        self.groups[a] = Some(merged);
        self.grown[a] += 1;
        true
    }

    /// Both groups as one, with its code.
    fn merged(&mut self, a: usize, b: usize) -> Result<Group, Reason> {
        let (first, second) = (self.group(a), self.group(b));
        if first.stage != second.stage {
            return Err(Reason::Stages);
        }
        let mut merged = first.union(second);
        let stores = self.stores(&merged.members);
        let home = |&node: &usize| self.context.homes[node].as_ref().expect("it is in memory").buffer;
        let buffers: BTreeSet<usize> = merged.reads.iter().chain(&stores).map(home).collect();
        if buffers.len() > self.options.max_buffers {
            return Err(Reason::Buffers);
        }
        if self.order.third_between(a, b) {
            return Err(Reason::ThirdBetween);
        }
        merged.body = Some(emit::build(self.context, &merged.members, &stores).map_err(Reason::Code)?);
        Ok(merged)
    }

    /// Groups that read a member of `number`, in order of their first node.
    fn consumers(&self, number: usize) -> Vec<usize> {
        let users = self.group(number).members.iter().flat_map(|&member| &self.users[member]);
        let groups: BTreeSet<usize> =
            users.filter_map(|user| self.owner.get(user).copied()).filter(|&owner| owner != number).collect();
        let mut groups: Vec<usize> = groups.into_iter().collect();
        groups.sort_unstable_by_key(|&group| self.group(group).members[0]);
        groups
    }

    fn numel(&self, number: usize) -> usize {
        self.context.program.nodes[self.group(number).members[0]].shape.numel()
    }
}
