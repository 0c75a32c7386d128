//! Which kernels must run before which, while kernels are being merged.

use std::collections::BTreeSet;

/// A graph of groups without cycles, and a numbering in which every group comes after those it needs.
///
/// The numbering bounds every search: a path between two groups only passes through numbers between theirs. A merge
/// renumbers no others than those between (Pearce and Kelly, "A dynamic topological sort algorithm", 2006).
pub(super) struct Order {
    before: Vec<BTreeSet<usize>>,
    after: Vec<BTreeSet<usize>>,
    rank: Vec<usize>,
    /// For searches: the last one that met a group.
    met: Vec<u32>,
    searches: u32,
}

impl Order {
    /// `before`: for each group, those that must run before it.
    pub(super) fn new(before: Vec<BTreeSet<usize>>) -> Self {
        let mut after = vec![BTreeSet::new(); before.len()];
        for (number, needed) in before.iter().enumerate() {
            for &first in needed {
                after[first].insert(number);
            }
        }
        let mut waiting: Vec<usize> = before.iter().map(BTreeSet::len).collect();
        let mut ready: Vec<usize> = (0..before.len()).rev().filter(|&number| waiting[number] == 0).collect();
        let mut rank = vec![0; before.len()];
        let mut next = 0;
        while let Some(number) = ready.pop() {
            rank[number] = next;
            next += 1;
            for &follower in after[number].iter().rev() {
                waiting[follower] -= 1;
                if waiting[follower] == 0 {
                    ready.push(follower);
                }
            }
        }
        assert_eq!(next, before.len(), "the graph of kernels has a cycle");
        Self { met: vec![0; before.len()], searches: 0, before, after, rank }
    }

    /// Groups that must run right before `number`.
    pub(super) fn before(&self, number: usize) -> &BTreeSet<usize> {
        &self.before[number]
    }

    fn sorted(&self, a: usize, b: usize) -> (usize, usize) {
        if self.rank[a] < self.rank[b] { (a, b) } else { (b, a) }
    }

    /// True if one of two groups needs the other, directly or not.
    pub(super) fn dependent(&mut self, a: usize, b: usize) -> bool {
        let (first, second) = self.sorted(a, b);
        self.after[first].contains(&second) || self.third_between(a, b)
    }

    /// True if a third group must run after one and before the other.
    pub(super) fn third_between(&mut self, a: usize, b: usize) -> bool {
        let (first, second) = self.sorted(a, b);
        // from the side with fewer neighbours
        if self.before[second].len() < self.after[first].len() {
            let found = self.reached(second, false, self.rank[first]);
            found.iter().any(|&group| self.before[group].contains(&first))
        } else {
            let found = self.reached(first, true, self.rank[second]);
            found.iter().any(|&group| self.after[group].contains(&second))
        }
    }

    /// Groups after (or before) `start` whose rank lies strictly between its own and `limit`.
    fn reached(&mut self, start: usize, forwards: bool, limit: usize) -> Vec<usize> {
        self.searches += 1;
        let edges = if forwards { &self.after } else { &self.before };
        let inside = |rank: usize| if forwards { rank < limit } else { rank > limit };
        let mut found = Vec::new();
        let mut next = 0;
        let mut group = start;
        loop {
            for &neighbour in &edges[group] {
                if inside(self.rank[neighbour]) && self.met[neighbour] != self.searches {
                    self.met[neighbour] = self.searches;
                    found.push(neighbour);
                }
            }
            match found.get(next) {
                Some(&further) => group = further,
                None => return found,
            }
            next += 1;
        }
    }

    /// `b` becomes part of `a`; no third group may lie between them.
    pub(super) fn merge(&mut self, a: usize, b: usize) {
        let (first, second) = self.sorted(a, b);
        let mut later = self.reached(first, true, self.rank[second]);
        let mut earlier = self.reached(second, false, self.rank[first]);
        later.sort_unstable_by_key(|&group| self.rank[group]);
        earlier.sort_unstable_by_key(|&group| self.rank[group]);
        let mut ranks: Vec<usize> =
            earlier.iter().chain(&later).chain([&first, &second]).map(|&group| self.rank[group]).collect();
        ranks.sort_unstable();
        // what comes before moves down, what comes after moves up, one number in the middle becomes free
        for (&group, &rank) in earlier.iter().zip(&ranks) {
            self.rank[group] = rank;
        }
        for (&group, &rank) in later.iter().rev().zip(ranks.iter().rev()) {
            self.rank[group] = rank;
        }
        self.rank[a] = ranks[earlier.len()];
        pass_on(&mut self.before, &mut self.after, a, b);
        pass_on(&mut self.after, &mut self.before, a, b);
    }
}

/// Makes the neighbours of `b` neighbours of `a`.
fn pass_on(edges: &mut [BTreeSet<usize>], back: &mut [BTreeSet<usize>], a: usize, b: usize) {
    for neighbour in std::mem::take(&mut edges[b]) {
        back[neighbour].remove(&b);
        if neighbour != a {
            back[neighbour].insert(a);
            edges[a].insert(neighbour);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The same questions by plain search.
    fn path(before: &[BTreeSet<usize>], from: usize, to: usize, direct: bool) -> bool {
        let mut stack: Vec<usize> = before[to].iter().copied().filter(|&group| direct || group != from).collect();
        while let Some(group) = stack.pop() {
            if group == from {
                return true;
            }
            stack.extend(&before[group]);
        }
        false
    }

    proptest! {
        #[test]
        fn merges_keep_the_order_right(
            edges in prop::collection::vec((0usize..12, 0usize..12), 0..30),
            merges in prop::collection::vec((0usize..12, 0usize..12), 0..12),
        ) {
            let mut before = vec![BTreeSet::new(); 12];
            for (a, b) in edges {
                if a != b {
                    before[a.max(b)].insert(a.min(b));
                }
            }
            let mut order = Order::new(before.clone());
            let mut alive = [true; 12];
            for (a, b) in merges {
                if a == b || !alive[a] || !alive[b] {
                    continue;
                }
                let between = path(&before, a, b, false) || path(&before, b, a, false);
                prop_assert_eq!(order.third_between(a, b), between);
                prop_assert_eq!(order.dependent(a, b), path(&before, a, b, true) || path(&before, b, a, true));
                if between {
                    continue;
                }
                order.merge(a, b);
                alive[b] = false;
                let taken = std::mem::take(&mut before[b]);
                before[a].extend(taken);
                for needed in &mut before {
                    if needed.remove(&b) {
                        needed.insert(a);
                    }
                }
                before[a].remove(&a);
                for (number, needed) in before.iter().enumerate().filter(|(number, _)| alive[*number]) {
                    prop_assert_eq!(needed, order.before(number));
                    prop_assert!(needed.iter().all(|&first| order.rank[first] < order.rank[number]));
                }
            }
        }
    }
}
