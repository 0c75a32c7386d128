//! The rounds of merging: elementwise work joins the contraction or reduction that feeds it; reductions and elementwise
//! work over the same rows join; kernels that read the same data over the same space join; small independent kernels
//! over the same space join, or small ones beside the rows of others.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use crate::plan::emit::Runs;
use crate::stage::Stage;

use super::Fuser;
use super::group::Kind;

/// Independent kernels with at most this many points may share a launch.
const SMALL: usize = 1 << 16;
/// What more kernels than this read (the learning rate) is no reason to join them.
const MAX_READERS: usize = 40;
/// How many earlier small kernels a small one may join: others are far away in the order, and would keep much memory
/// alive.
const RECENT: usize = 4;

impl Fuser<'_> {
    /// Elementwise work joins the contraction or reduction whose result it reads, as its epilogue.
    pub(super) fn merge_consumers(&mut self) {
        for number in self.living() {
            if self.groups[number].as_ref().is_none_or(|group| group.kind == Kind::Map) {
                continue;
            }
            while self.consumers(number).into_iter().any(|consumer| {
                self.group(consumer).kind == Kind::Map
                    && self.numel(consumer) == self.numel(number)
                    && self.try_merge(number, consumer)
            }) {}
        }
    }

    /// Reductions and elementwise work over the same rows: softmax, norms.
    pub(super) fn merge_rows(&mut self) {
        let mut changed = true;
        while changed {
            changed = false;
            for number in self.living() {
                while self.groups[number].is_some() && self.extend_rows(number) {
                    changed = true;
                }
            }
        }
    }

    /// Joins one more group to a reduction, or the reduction to another group; says whether it did.
    fn extend_rows(&mut self, number: usize) -> bool {
        let Some(runs) = self.group(number).runs().cloned() else { return false };
        let (outer, inner) = runs.sizes();
        let whole_rows = inner <= self.options.fused_row;
        for consumer in self.consumers(number) {
            let fits = match &self.group(consumer).kind {
                Kind::Rows(other) => *other == runs,
                Kind::Contract => false,
                Kind::Map => whole_rows && self.numel(consumer) == outer * inner,
            };
            if fits && self.try_merge(number, consumer) {
                return true;
            }
        }
        // elementwise work that feeds the rows and is needed elsewhere too
        let feeding: BTreeSet<usize> =
            self.group(number).reads.iter().filter_map(|read| self.owner.get(read).copied()).collect();
        feeding.into_iter().any(|producer| {
            producer != number
                && whole_rows
                && self.group(producer).kind == Kind::Map
                && self.numel(producer) == outer * inner
                && self.try_merge(producer, number)
        })
    }

    /// Kernels of one kind over one space that read the same data, or one of which reads the other's result.
    pub(super) fn merge_siblings(&mut self) {
        let mut changed = true;
        while changed {
            changed = false;
            let mut readers: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
            for number in self.living() {
                let group = self.group(number);
                for &node in group.reads.iter().chain(&group.members) {
                    readers.entry(node).or_default().push(number);
                }
            }
            for groups in readers.values().filter(|groups| groups.len() <= MAX_READERS) {
                for (position, &a) in groups.iter().enumerate() {
                    for &b in &groups[position + 1..] {
                        changed |= self.same_space(a, b) && self.try_merge(a, b);
                    }
                }
            }
        }
    }

    fn same_space(&self, a: usize, b: usize) -> bool {
        let (Some(first), Some(second)) = (&self.groups[a], &self.groups[b]) else { return false };
        match (&first.kind, &second.kind) {
            (Kind::Rows(first), Kind::Rows(second)) => first == second,
            (Kind::Map, Kind::Map) => self.numel(a) == self.numel(b),
            _ => false,
        }
    }

    /// Small elementwise work joins reductions that have as many rows as it has points, and do not depend on it: what
    /// counts steps or draws, running means.
    pub(super) fn merge_beside_rows(&mut self) {
        let mut rows: FxHashMap<(Stage, usize), Vec<usize>> = FxHashMap::default();
        for number in self.living() {
            if let Some(runs) = self.group(number).runs() {
                rows.entry((self.group(number).stage, runs.sizes().0)).or_default().push(number);
            }
        }
        for number in self.living() {
            let points = self.numel(number);
            if self.group(number).kind != Kind::Map || points > SMALL {
                continue;
            }
            let Some(beside) = rows.get(&(self.group(number).stage, points)) else { continue };
            let nearest = beside.partition_point(|&other| other < number);
            let near = &beside[nearest.saturating_sub(RECENT)..(nearest + RECENT).min(beside.len())];
            near.iter().any(|&other| !self.order.dependent(number, other) && self.try_merge(other, number));
        }
    }

    /// Small independent kernels over one space share a launch: a launch costs more than their work.
    pub(super) fn merge_small(&mut self) {
        let mut spaces: FxHashMap<(Stage, bool, Runs), Vec<usize>> = FxHashMap::default();
        for number in self.living() {
            let (rows, runs) = match &self.group(number).kind {
                Kind::Contract => continue,
                Kind::Rows(runs) => (true, runs.clone()),
                Kind::Map => (false, Runs(vec![(self.numel(number), false)])),
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
                let mut recent = open.iter().rev().take(RECENT);
                if !recent.any(|&other| !self.order.dependent(number, other) && self.try_merge(other, number)) {
                    open.push(number);
                }
            }
        }
    }
}
