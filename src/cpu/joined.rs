//! Phases over short rows as one tape: a strip goes through all of them, and what one has computed the next ones need
//! not compute again, such as the exponentials of a softmax.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use crate::plan::{Instr, InstrOp, Phase, Store, Tape, ValueId};

/// The phases' code in one tape.
#[derive(Default)]
pub(super) struct Joined {
    pub(super) tape: Tape,
    /// For each phase.
    pub(super) parts: Vec<Part>,
}

/// A phase in a joined tape.
pub(super) struct Part {
    /// Instructions of the tape up to the phase's last one.
    pub(super) end: usize,
    pub(super) stores: Vec<Store>,
    /// What it reduces.
    pub(super) results: Vec<ValueId>,
}

impl Part {
    /// The phase alone.
    pub(super) fn whole(phase: &Phase) -> Self {
        let results = phase.reductions.iter().map(|&(_, value)| value).collect();
        Self { end: phase.tape.instrs.len(), stores: phase.stores.clone(), results }
    }
}

impl Joined {
    /// Joins `phases`, which run over the same points. What is read from a buffer that they write is read again.
    pub(super) fn new<'a>(phases: impl Iterator<Item = &'a Phase> + Clone) -> Self {
        let written: BTreeSet<usize> =
            phases.clone().flat_map(|phase| phase.stores.iter().map(|store| store.buffer)).collect();
        let mut joined = Self::default();
        let mut known: FxHashMap<Instr, ValueId> = FxHashMap::default();
        for phase in phases {
            let mut numbers: Vec<ValueId> = Vec::new();
            for instr in &phase.tape.instrs {
                let mut instr = instr.clone();
                instr.op.map_values(|value| numbers[value]);
                let changes = match &instr.op {
                    InstrOp::Load { buffer, .. } | InstrOp::Gather { buffer, .. } => written.contains(buffer),
                    _ => false,
                };
                let number = known.get(&instr).copied().filter(|_| !changes).unwrap_or_else(|| {
                    joined.tape.instrs.push(instr.clone());
                    joined.tape.instrs.len() - 1
                });
                known.insert(instr, number);
                numbers.push(number);
            }
            joined.parts.push(Part {
                end: joined.tape.instrs.len(),
                stores: phase.stores.iter().map(|s| Store { value: numbers[s.value], ..s.clone() }).collect(),
                results: phase.reductions.iter().map(|&(_, value)| numbers[value]).collect(),
            });
        }
        joined
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::graph::{Binary, ReduceOp, Unary};
    use crate::plan::{Ix, Level};

    fn phase(ops: Vec<InstrOp>, reductions: &[(ReduceOp, ValueId)], stores: &[(usize, ValueId)]) -> Phase {
        let instrs = ops.into_iter().map(|op| Instr { op, dtype: DType::F32 }).collect();
        let stores = stores.iter().map(|&(buffer, value)| Store { buffer, index: Ix::axis(0), value }).collect();
        Phase { level: Level::Inner, tape: Tape { instrs }, reductions: reductions.to_vec(), stores }
    }

    fn load(buffer: usize) -> InstrOp {
        InstrOp::Load { buffer, index: Ix::axis(0), valid: Vec::new() }
    }

    #[test]
    fn what_was_computed_is_used_again() {
        let phases = [
            phase(vec![load(0), InstrOp::Unary(Unary::Exp, 0)], &[(ReduceOp::Sum, 1)], &[]),
            phase(
                vec![InstrOp::Reduced(0), load(0), InstrOp::Unary(Unary::Exp, 1), InstrOp::Binary(Binary::Div, 2, 0)],
                &[],
                &[(1, 3)],
            ),
        ];
        let joined = Joined::new(phases.iter());
        assert_eq!(joined.tape.instrs.len(), 4);
        assert_eq!(joined.tape.instrs[3].op, InstrOp::Binary(Binary::Div, 1, 2));
        assert_eq!((joined.parts[0].end, &joined.parts[0].results[..]), (2, &[1][..]));
        assert_eq!((joined.parts[1].end, joined.parts[1].stores[0].value), (4, 3));
    }

    #[test]
    fn what_phases_write_is_read_again() {
        let again = phase(vec![load(0), load(2), InstrOp::Binary(Binary::Add, 0, 1)], &[], &[(0, 2)]);
        let joined = Joined::new([again.clone(), again].iter());
        let loads = |wanted: usize| {
            let loads = joined.tape.loads();
            loads.filter(|&buffer| buffer == wanted).count()
        };
        assert_eq!((loads(0), loads(2)), (2, 1));
    }
}
