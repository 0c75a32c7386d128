//! Why two kernels did not become one.

use crate::plan::emit::Refusal;

use super::Fuser;
use super::group::Kind;

/// Why two groups did not become one.
#[derive(Clone, Debug)]
pub(in crate::plan) struct Apart {
    /// A node of one.
    pub first: usize,
    /// A node of the other.
    pub second: usize,
    pub reason: &'static str,
}

/// What stood in the way of a merge that was tried.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reason {
    Stages,
    Buffers,
    ThirdBetween,
    Code(Refusal),
}

impl Reason {
    fn text(self) -> &'static str {
        match self {
            Self::Stages => "they belong to different stages",
            Self::Buffers => "one kernel may not name so many buffers",
            Self::ThirdBetween => "another kernel has to run between them",
            Self::Code(Refusal::OtherPoint) => "one needs the other's values at other points than its own",
            Self::Code(Refusal::OtherSpace) => "they run over different spaces",
            Self::Code(Refusal::InPlace) => "an update in place would overwrite what is still read",
            Self::Code(Refusal::Compared) => {
                "what is compared with its own maximum or minimum is read back, as it is rounded"
            }
            Self::Code(Refusal::TooLong) => "the kernel would be too long",
        }
    }
}

impl Fuser<'_> {
    /// The reasons between groups that stayed apart: those of merges that were tried, and for kernels of which one
    /// reads the other's result also why nothing was tried.
    pub(super) fn reasons(&self) -> Vec<Apart> {
        let mut reasons: Vec<Apart> = self
            .apart
            .iter()
            .filter(|((first, second), _)| self.owner[first] != self.owner[second])
            .map(|(&(first, second), reason)| Apart { first, second, reason: reason.text() })
            .collect();
        if !self.options.fuse {
            return reasons;
        }
        for consumer in self.living() {
            for &producer in self.order.before(consumer) {
                let (first, second) = (self.group(producer).members[0], self.group(consumer).members[0]);
                if !self.apart.contains_key(&(first.min(second), first.max(second))) {
                    reasons.push(Apart { first, second, reason: self.untried(producer, consumer) });
                }
            }
        }
        reasons
    }

    /// Why no round wanted to merge two groups of which `consumer` needs `producer`.
    fn untried(&self, producer: usize, consumer: usize) -> &'static str {
        let (from, to) = (self.group(producer), self.group(consumer));
        if from.stage != to.stage {
            return Reason::Stages.text();
        }
        match (&from.kind, &to.kind) {
            (Kind::Contract, Kind::Contract) => "a kernel has one contraction",
            (_, Kind::Contract) => "a contraction loads its operands many times, so they are complete before it starts",
            (Kind::Contract, Kind::Rows(_)) => "a reduction needs all results of the contraction",
            (Kind::Rows(first), Kind::Rows(second)) if first != second => "they reduce over different rows",
            (Kind::Rows(runs), _) | (_, Kind::Rows(runs)) if runs.sizes().1 > self.options.fused_row => {
                "the rows are too long to stay in cache between two sweeps"
            }
            _ => "they run over different spaces",
        }
    }
}
