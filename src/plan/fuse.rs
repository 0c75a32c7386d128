//! Decides which stored values share a kernel.
//!
//! Every stored node starts as a kernel of its own, with all unstored nodes below it computed inside. Then kernels are
//! merged, in four rounds: elementwise work joins the contraction or reduction that feeds it; reductions and
//! elementwise work over the same rows join; kernels that read the same data over the same space join; small
//! independent kernels over the same space join. A merge must keep the graph of kernels acyclic, stay within one stage
//! and within the number of buffers a kernel may name.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::graph::{Op, Program};
use crate::stage::Stage;

use super::PlanOptions;
use super::emit::{self, Context, Home, Refusal, Runs};

/// Independent kernels with at most this many points may share a launch.
const SMALL: usize = 1 << 16;

/// Which nodes are computed together.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// Stored nodes, ascending.
    pub members: Vec<usize>,
    /// Those whose value is needed outside of the group.
    pub stores: Vec<usize>,
    /// Nodes in memory that the members read, ascending.
    pub reads: Vec<usize>,
    /// Nodes that must be computed before, without being read.
    pub after: Vec<usize>,
    pub stage: Stage,
}

/// Why two groups did not become one.
#[derive(Clone, Debug)]
pub(super) struct Apart {
    pub first: usize,
    pub second: usize,
    pub reason: &'static str,
}

/// Nodes in memory that computing `node` reads, and those it only has to wait for.
fn reads_of(program: &Program, homes: &[Option<Home>], node: usize) -> (BTreeSet<usize>, BTreeSet<usize>) {
    let (mut reads, mut after) = (BTreeSet::new(), BTreeSet::new());
    let mut seen = HashSet::new();
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

/// Kernels being merged.
pub(super) struct Fuser<'a> {
    context: Context<'a>,
    options: &'a PlanOptions,
    groups: Vec<Option<Group>>,
    /// For each stored node, its group.
    owner: HashMap<usize, usize>,
    /// For each node, nodes in memory (and outputs, as `None`) that need it.
    users: Vec<Vec<usize>>,
    kept: HashSet<usize>,
    /// Groups that must run before a group because it overwrites what they read.
    overwritten_by: HashMap<usize, BTreeSet<usize>>,
    apart: Vec<Apart>,
}

/// Merges the stored nodes of `context` into groups, in no particular order.
///
/// `kept` are nodes whose value must be in memory at the end; `readers_first` are pairs (reader, writer) of stored nodes:
/// the writer overwrites external memory that the reader reads.
pub(super) fn fuse(
    context: Context<'_>,
    options: &PlanOptions,
    kept: &HashSet<usize>,
    readers_first: &[(usize, usize)],
) -> (Vec<Group>, Vec<Apart>) {
    let mut fuser = Fuser::new(context, options, kept, readers_first);
    if options.fuse {
        fuser.merge_consumers();
        fuser.merge_rows();
        fuser.merge_siblings();
        fuser.merge_small();
    }
    let groups = (0..fuser.groups.len()).filter_map(|number| {
        let mut group = fuser.groups[number].clone()?;
        group.stores = fuser.stores(&group.members);
        Some(group)
    });
    let groups = groups.collect();
    (groups, fuser.apart)
}

impl<'a> Fuser<'a> {
    fn new(
        context: Context<'a>,
        options: &'a PlanOptions,
        kept: &HashSet<usize>,
        readers_first: &[(usize, usize)],
    ) -> Self {
        let program = context.program;
        let mut groups = Vec::new();
        let mut owner = HashMap::new();
        let mut users = vec![Vec::new(); program.nodes.len()];
        for (number, node) in program.nodes.iter().enumerate() {
            let in_memory = context.homes[number].is_some();
            if !in_memory || matches!(node.op, Op::Leaf) {
                continue;
            }
            if matches!(node.op, Op::Pack { .. }) {
                continue;
            }
            let (reads, after) = reads_of(program, context.homes, number);
            for &read in &reads {
                users[read].push(number);
            }
            owner.insert(number, groups.len());
            groups.push(Some(Group {
                members: vec![number],
                stores: Vec::new(),
                reads: reads.into_iter().collect(),
                after: after.into_iter().collect(),
                stage: node.stage,
            }));
        }
        let mut fuser = Self {
            context,
            options,
            groups,
            owner,
            users,
            kept: kept.clone(),
            overwritten_by: HashMap::new(),
            apart: Vec::new(),
        };
        for &(reader, writer) in readers_first {
            let (reader, writer) = (fuser.owner[&reader], fuser.owner[&writer]);
            if reader != writer {
                fuser.overwritten_by.entry(writer).or_default().insert(reader);
            }
        }
        fuser
    }

    fn group(&self, number: usize) -> &Group {
        self.groups[number].as_ref().expect("a living group")
    }

    fn living(&self) -> Vec<usize> {
        (0..self.groups.len()).filter(|&number| self.groups[number].is_some()).collect()
    }

    /// Groups that must run before `number`.
    fn before(&self, number: usize) -> BTreeSet<usize> {
        let group = self.group(number);
        let mut result: BTreeSet<usize> = BTreeSet::new();
        for &read in group.reads.iter().chain(&group.after) {
            for producer in producers(self.context.program, read) {
                if let Some(&owner) = self.owner.get(&producer)
                    && owner != number
                {
                    result.insert(owner);
                }
            }
        }
        if let Some(readers) = self.overwritten_by.get(&number) {
            result.extend(readers.iter().filter(|&&reader| reader != number));
        }
        result
    }

    /// True if `from` must run before `to` because of some third group.
    fn indirectly_before(&self, from: usize, to: usize) -> bool {
        let mut seen = HashSet::new();
        let mut stack: Vec<usize> = self.before(to).into_iter().filter(|&group| group != from).collect();
        while let Some(group) = stack.pop() {
            if group == from {
                return true;
            }
            if seen.insert(group) {
                stack.extend(self.before(group));
            }
        }
        false
    }

    fn depends(&self, later: usize, earlier: usize) -> bool {
        self.before(later).contains(&earlier) || self.indirectly_before(earlier, later)
    }

    /// Members of a group-to-be that must be in memory.
    fn stores(&self, members: &[usize]) -> Vec<usize> {
        members
            .iter()
            .copied()
            .filter(|member| {
                self.kept.contains(member) || self.users[*member].iter().any(|user| !members.contains(user))
            })
            .collect()
    }

    /// Makes two groups one if that is possible; says whether it did.
    fn try_merge(&mut self, a: usize, b: usize) -> bool {
        let refusal = self.merge_refusal(a, b);
        if let Err(reason) = refusal {
            let (first, second) = (self.group(a).members[0], self.group(b).members[0]);
            self.apart.push(Apart { first, second, reason });
            return false;
        }
        let second = self.groups[b].take().expect("a living group");
        let first = self.groups[a].as_mut().expect("a living group");
        *first = union(first, &second);
        for &member in &second.members {
            self.owner.insert(member, a);
        }
        for readers in self.overwritten_by.values_mut() {
            if readers.remove(&b) {
                readers.insert(a);
            }
        }
        if let Some(readers) = self.overwritten_by.remove(&b) {
            self.overwritten_by.entry(a).or_default().extend(readers);
        }
        if let Some(readers) = self.overwritten_by.get_mut(&a) {
            readers.remove(&a);
        }
        true
    }

    fn merge_refusal(&self, a: usize, b: usize) -> Result<(), &'static str> {
        let (first, second) = (self.group(a), self.group(b));
        if first.stage != second.stage {
            return Err("they belong to different stages");
        }
        let merged = union(first, second);
        let stores = self.stores(&merged.members);
        let buffers: BTreeSet<usize> = merged
            .reads
            .iter()
            .chain(&stores)
            .map(|&node| self.context.homes[node].as_ref().expect("it is in memory").buffer)
            .collect();
        if buffers.len() > self.options.max_buffers {
            return Err("one kernel may not name so many buffers");
        }
        if self.indirectly_before(a, b) || self.indirectly_before(b, a) {
            return Err("another kernel has to run between them");
        }
        match emit::build(self.context, &merged.members, &stores) {
            Ok(_) => Ok(()),
            Err(Refusal::OtherPoint) => Err("one needs the other's values at other points than its own"),
            Err(Refusal::OtherSpace) => Err("they run over different spaces"),
            Err(Refusal::InPlace) => Err("an update in place would overwrite what is still read"),
            Err(Refusal::TooLong) => Err("the kernel would be too long"),
        }
    }

    /// Groups that read a member of `number`, in order of their first node.
    fn consumers(&self, number: usize) -> Vec<usize> {
        let members = &self.group(number).members;
        let groups: BTreeSet<usize> = members
            .iter()
            .flat_map(|&member| &self.users[member])
            .filter_map(|user| self.owner.get(user).copied())
            .filter(|&owner| owner != number)
            .collect();
        let mut groups: Vec<usize> = groups.into_iter().collect();
        groups.sort_unstable_by_key(|&group| self.group(group).members[0]);
        groups
    }

    fn is_map(&self, number: usize) -> bool {
        self.group(number)
            .members
            .iter()
            .all(|&node| !matches!(self.context.program.nodes[node].op, Op::Reduce { .. } | Op::Contract(_)))
    }

    /// The row space of a group with reductions.
    fn runs(&self, number: usize) -> Option<Runs> {
        self.group(number).members.iter().find_map(|&node| match &self.context.program.nodes[node].op {
            Op::Reduce { axes, .. } => {
                let input = self.context.program.nodes[node].inputs[0];
                Some(Runs::new(&self.context.program.nodes[input].shape, axes))
            }
            _ => None,
        })
    }

    fn numel(&self, number: usize) -> usize {
        self.context.program.nodes[self.group(number).members[0]].shape.numel()
    }

    fn has_contract(&self, number: usize) -> bool {
        self.group(number).members.iter().any(|&node| matches!(self.context.program.nodes[node].op, Op::Contract(_)))
    }

    /// Elementwise work joins the contraction or reduction whose result it reads, as its epilogue.
    fn merge_consumers(&mut self) {
        for number in self.living() {
            if self.groups[number].is_none() || self.is_map(number) {
                continue;
            }
            let mut merged = true;
            while merged {
                merged = false;
                for consumer in self.consumers(number) {
                    let results = self.numel(number);
                    if self.is_map(consumer) && self.numel(consumer) == results && self.try_merge(number, consumer) {
                        merged = true;
                        break;
                    }
                }
            }
        }
    }

    /// Reductions and elementwise work over the same rows: softmax, norms.
    fn merge_rows(&mut self) {
        let mut changed = true;
        while changed {
            changed = false;
            for number in self.living() {
                let Some(runs) = self.groups[number].as_ref().and_then(|_| self.runs(number)) else { continue };
                let (outer, inner) = runs.sizes();
                let whole_rows = inner <= self.options.fused_row;
                for consumer in self.consumers(number) {
                    let fits = match self.runs(consumer) {
                        Some(other) => other == runs,
                        None if self.has_contract(consumer) => false,
                        None => whole_rows && self.numel(consumer) == outer * inner,
                    };
                    if fits && self.try_merge(number, consumer) {
                        changed = true;
                        break;
                    }
                }
                // elementwise work that feeds the rows and is needed elsewhere too
                let feeding: BTreeSet<usize> = match &self.groups[number] {
                    Some(group) => group.reads.iter().filter_map(|read| self.owner.get(read).copied()).collect(),
                    None => continue,
                };
                for producer in feeding {
                    let fits = producer != number
                        && whole_rows
                        && self.groups[producer].is_some()
                        && self.is_map(producer)
                        && self.numel(producer) == outer * inner;
                    if fits && self.try_merge(producer, number) {
                        changed = true;
                        break;
                    }
                }
            }
        }
    }

    /// Kernels of one kind over one space that read the same data, or one of which reads the other's result.
    fn merge_siblings(&mut self) {
        let mut changed = true;
        while changed {
            changed = false;
            let mut readers: HashMap<usize, Vec<usize>> = HashMap::new();
            for number in self.living() {
                for &read in &self.group(number).reads {
                    readers.entry(read).or_default().push(number);
                }
                for &member in &self.group(number).members {
                    readers.entry(member).or_default().push(number);
                }
            }
            let mut keys: Vec<usize> = readers.keys().copied().collect();
            keys.sort_unstable();
            'pairs: for key in keys {
                let groups = &readers[&key];
                if groups.len() > 40 {
                    continue;
                }
                for (position, &a) in groups.iter().enumerate() {
                    for &b in &groups[position + 1..] {
                        if a != b && self.same_space(a, b) && self.try_merge(a, b) {
                            changed = true;
                            break 'pairs;
                        }
                    }
                }
            }
        }
    }

    fn same_space(&self, a: usize, b: usize) -> bool {
        if self.groups[a].is_none() || self.groups[b].is_none() || self.has_contract(a) || self.has_contract(b) {
            return false;
        }
        match (self.runs(a), self.runs(b)) {
            (Some(first), Some(second)) => first == second,
            (None, None) => self.numel(a) == self.numel(b),
            _ => false,
        }
    }

    /// Small independent kernels over one space share a launch: a launch costs more than their work.
    fn merge_small(&mut self) {
        let mut spaces: HashMap<(Stage, bool, Runs), Vec<usize>> = HashMap::new();
        for number in self.living() {
            if self.has_contract(number) {
                continue;
            }
            let (rows, runs) = match self.runs(number) {
                Some(runs) => (true, runs),
                None => (false, Runs(vec![(self.numel(number), false)])),
            };
            let (outer, inner) = runs.sizes();
            if outer.saturating_mul(inner) <= SMALL {
                spaces.entry((self.group(number).stage, rows, runs)).or_default().push(number);
            }
        }
        let mut families: Vec<Vec<usize>> = spaces.into_values().filter(|family| family.len() > 1).collect();
        families.sort_unstable();
        for family in families {
            let mut open: Vec<usize> = Vec::new();
            for number in family {
                // the most recent kernels only: others are far away in the order, and would keep much memory alive
                let partner = open.iter().rev().take(4).copied().find(|&candidate| {
                    !self.depends(number, candidate)
                        && !self.depends(candidate, number)
                        && self.merge_refusal(candidate, number).is_ok()
                });
                match partner {
                    Some(candidate) => {
                        self.try_merge(candidate, number);
                    }
                    None => open.push(number),
                }
            }
        }
    }
}

/// The nodes that write `node`'s memory: itself, or a pack's inputs.
pub(super) fn producers(program: &Program, node: usize) -> Vec<usize> {
    match program.nodes[node].op {
        Op::Pack { .. } => program.nodes[node].inputs.clone(),
        _ => vec![node],
    }
}

fn union(a: &Group, b: &Group) -> Group {
    let join = |x: &[usize], y: &[usize]| -> Vec<usize> {
        x.iter().chain(y).copied().collect::<BTreeSet<_>>().into_iter().collect()
    };
    let members = join(&a.members, &b.members);
    let mut reads = join(&a.reads, &b.reads);
    reads.retain(|read| !members.contains(read));
    let mut after = join(&a.after, &b.after);
    after.retain(|node| !members.contains(node));
    Group { members, stores: Vec::new(), reads, after, stage: a.stage }
}
