//! Windows of a few points as maps: a strip of outer points takes all points of its windows at once, so that no sweep
//! reads or computes again what another one has, and nothing is told to the next phase through memory.

use rustc_hash::FxHashMap;

use crate::dtype::{DType, Scalar};
use crate::graph::ReduceOp;
use crate::plan::{Instr, InstrOp, Ix, Level, LoopKernel, Phase, Store, Tape, ValueId, fold};

/// Points of a window, at most: one of 3x3.
const MAX_POINTS: usize = 9;
/// Instructions, at most. Their values stay in registers of a strip each, of which a few dozen fit the second-level
/// cache.
const MAX_INSTRS: usize = 128;

/// Code without repetitions.
#[derive(Default)]
struct Writer {
    tape: Tape,
    known: FxHashMap<Instr, ValueId>,
}

impl Writer {
    fn constant(&self, value: ValueId) -> Option<Scalar> {
        match self.tape.instrs[value].op {
            InstrOp::Const(scalar) => Some(scalar),
            _ => None,
        }
    }

    /// The number of `instr`'s value.
    fn push(&mut self, mut instr: Instr) -> ValueId {
        if let Some(scalar) = folded(&instr, |value| self.constant(value)) {
            instr.op = InstrOp::Const(scalar);
        }
        let next = self.tape.instrs.len();
        *self.known.entry(instr).or_insert_with_key(|instr| {
            self.tape.instrs.push(instr.clone());
            next
        })
    }
}

/// The constant that a coordinate or what is made of `constant`s is.
pub(super) fn folded(instr: &Instr, constant: impl Fn(ValueId) -> Option<Scalar>) -> Option<Scalar> {
    match &instr.op {
        InstrOp::Coord(index) => Some(Scalar::new(instr.dtype, index.as_constant()? as f64)),
        InstrOp::Binary(op, a, b) => fold::binary(*op, constant(*a)?, constant(*b)?, instr.dtype),
        _ => None,
    }
}

/// `kernel`, whose windows have a few points, as a map over its outer points.
pub(super) fn unrolled_windows(kernel: &LoopKernel) -> Option<LoopKernel> {
    let (outer, inner) = kernel.axes.split_at(kernel.outer);
    let row: usize = inner.iter().product();
    if !(2..=MAX_POINTS).contains(&row) || reads_what_it_wrote(kernel) {
        return None;
    }
    let mut writer = Writer::default();
    let (mut reduced, mut stores) = (Vec::new(), Vec::new());
    for phase in &kernel.phases {
        let mut results: Vec<Option<ValueId>> = vec![None; phase.reductions.len()];
        for point in 0..if phase.level == Level::Inner { row } else { 1 } {
            let coords = coords(kernel, point);
            let mut tape = phase.tape.clone();
            tape.map_indices(&mut |index| index.substitute(&coords, outer));
            let mut numbers: Vec<ValueId> = Vec::with_capacity(tape.instrs.len());
            for mut instr in tape.instrs {
                instr.op.map_values(|value| numbers[value]);
                numbers.push(match instr.op {
                    InstrOp::Reduced(number) => reduced[number],
                    _ => writer.push(instr),
                });
            }
            for (result, &(op, value)) in results.iter_mut().zip(&phase.reductions) {
                let (dtype, value) = (phase.tape.instrs[value].dtype, numbers[value]);
                if matches!(dtype, DType::U8 | DType::Bool) {
                    return None; // registers hold other numbers than the type's
                }
                let joined = |a, b| Instr { op: InstrOp::Binary(op.join(), a, b), dtype };
                *result = Some(match (*result, op) {
                    (Some(so_far), _) => writer.push(joined(so_far, value)),
                    (None, ReduceOp::Max | ReduceOp::Min) => value,
                    // as in a sweep, which begins with the identity: 0 + -0 is 0
                    (None, ReduceOp::Sum | ReduceOp::Prod) => {
                        let identity = writer.push(Instr { op: InstrOp::Const(op.identity(dtype)), dtype });
                        writer.push(joined(identity, value))
                    }
                });
            }
            stores.extend(phase.stores.iter().map(|store| Store {
                index: store.index.substitute(&coords, outer),
                value: numbers[store.value],
                ..store.clone()
            }));
        }
        reduced.extend(results.into_iter().flatten());
        if writer.tape.instrs.len() > MAX_INSTRS {
            return None;
        }
    }
    let phase = Phase { level: Level::Outer, tape: writer.tape, reductions: Vec::new(), stores };
    Some(LoopKernel { axes: outer.to_vec(), outer: outer.len(), phases: vec![phase] })
}

/// The kernel's coordinates at inner point number `point`, in terms of its outer axes.
fn coords(kernel: &LoopKernel, mut point: usize) -> Vec<Ix> {
    let mut coords: Vec<Ix> = (0..kernel.axes.len()).map(Ix::axis).collect();
    for (axis, &size) in kernel.axes.iter().enumerate().skip(kernel.outer).rev() {
        coords[axis] = Ix::constant((point % size) as i64);
        point /= size;
    }
    coords
}

/// True if a phase may read what one before it wrote.
fn reads_what_it_wrote(kernel: &LoopKernel) -> bool {
    let mut written = Vec::new();
    kernel.phases.iter().any(|phase| {
        let reads = phase.tape.loads().any(|buffer| written.contains(&buffer));
        written.extend(phase.stores.iter().map(|store| store.buffer));
        reads
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Binary;

    fn instr(op: InstrOp) -> Instr {
        Instr { op, dtype: DType::F32 }
    }

    /// `x[4 i0 + 2 i1 + i2]`, of rows that two inner axes of 2 run along.
    fn element() -> InstrOp {
        let index = Ix::linear(&[0, 1, 2].map(Ix::axis), &[5, 2, 2]);
        InstrOp::Load { buffer: 0, index, valid: Vec::new() }
    }

    /// A reduction by `op`, then what is left of each element and the result, stored by inner or outer points.
    fn kernel(op: ReduceOp, last: Level) -> LoopKernel {
        let sweep = |instrs: Vec<InstrOp>, reductions, stores| Phase {
            level: Level::Inner,
            tape: Tape { instrs: instrs.into_iter().map(instr).collect() },
            reductions,
            stores,
        };
        let first = sweep(vec![element()], vec![(op, 0)], Vec::new());
        let second = match last {
            Level::Inner => {
                let store = Store { buffer: 1, index: Ix::linear(&[0, 1, 2].map(Ix::axis), &[5, 2, 2]), value: 2 };
                let left = vec![element(), InstrOp::Reduced(0), InstrOp::Binary(Binary::Sub, 0, 1)];
                sweep(left, Vec::new(), vec![store])
            }
            Level::Outer => {
                let store = Store { buffer: 1, index: Ix::axis(0), value: 0 };
                Phase { level: Level::Outer, ..sweep(vec![InstrOp::Reduced(0)], Vec::new(), vec![store]) }
            }
        };
        LoopKernel { axes: vec![5, 2, 2], outer: 1, phases: vec![first, second] }
    }

    fn count(kernel: &LoopKernel, wanted: impl Fn(&InstrOp) -> bool) -> usize {
        kernel.phases[0].tape.instrs.iter().filter(|instr| wanted(&instr.op)).count()
    }

    #[test]
    fn a_window_is_read_once_and_joined_point_by_point() {
        let map = unrolled_windows(&kernel(ReduceOp::Max, Level::Inner)).expect("a window of 4");
        assert_eq!((map.axes.as_slice(), map.outer, map.phases.len()), ([5].as_slice(), 1, 1));
        assert_eq!(count(&map, |op| matches!(op, InstrOp::Load { .. })), 4);
        assert_eq!(count(&map, |op| matches!(op, InstrOp::Binary(Binary::Max, ..))), 3);
        let stores: Vec<i64> = map.phases[0].stores.iter().map(|store| store.index.eval(&[3])).collect();
        assert_eq!(stores, [12, 13, 14, 15]);
    }

    #[test]
    fn sums_begin_with_zero_as_sweeps_do() {
        let map = unrolled_windows(&kernel(ReduceOp::Sum, Level::Outer)).expect("a window of 4");
        assert_eq!(count(&map, |op| matches!(op, InstrOp::Binary(Binary::Add, ..))), 4);
        assert_eq!(map.phases[0].stores.len(), 1);
    }

    #[test]
    fn coordinates_within_a_window_are_constants() {
        let mut places = kernel(ReduceOp::Min, Level::Outer);
        let number = |op| Instr { op, dtype: DType::I32 };
        places.phases[0].tape.instrs = vec![
            number(InstrOp::Coord(Ix::axis(1))),
            number(InstrOp::Const(Scalar::new(DType::I32, 2.0))),
            number(InstrOp::Binary(Binary::Mul, 0, 1)),
            number(InstrOp::Coord(Ix::axis(2))),
            number(InstrOp::Binary(Binary::Add, 2, 3)),
        ];
        places.phases[0].reductions = vec![(ReduceOp::Min, 4)];
        let map = unrolled_windows(&places).expect("a window of 4");
        assert_eq!(
            count(&map, |op| matches!(op, InstrOp::Coord(_) | InstrOp::Binary(Binary::Mul | Binary::Add, ..))),
            0
        );
    }

    #[test]
    fn large_windows_and_rows_that_change_meanwhile_are_left_alone() {
        let mut large = kernel(ReduceOp::Max, Level::Outer);
        large.axes = vec![5, 2, 5];
        assert!(unrolled_windows(&large).is_none());
        let mut changed = kernel(ReduceOp::Max, Level::Inner);
        changed.phases.push(changed.phases[0].clone());
        changed.phases[1].stores[0].buffer = 0;
        assert!(unrolled_windows(&changed).is_none());
    }
}
