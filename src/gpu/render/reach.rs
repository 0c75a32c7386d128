//! Index arithmetic is unsigned and of 32 bits, and may wrap on the way to an element: only the sum has to be right.
//! What is divided or compared on the way must not wrap, which values that are never in memory could have it do.

use crate::error::{Error, Result};
use crate::plan::{Atom, Body, Cond, InstrOp, Ix};

const MOST: i64 = u32::MAX as i64;

/// Refuses a kernel that divides, compares or counts numbers beyond 32 bits.
pub(super) fn check(label: &str, body: &Body) -> Result<()> {
    let axes = body.axes();
    let of_tapes = body.tapes().into_iter().flat_map(|tape| &tape.instrs).map(|instr| match &instr.op {
        InstrOp::Coord(index) | InstrOp::Random { counter: index, .. } => divided(index, axes),
        InstrOp::Valid(valid) => compared(valid, axes),
        InstrOp::Load { index, valid, .. } | InstrOp::Gather { base: index, valid, .. } => {
            divided(index, axes).max(compared(valid, axes))
        }
        _ => 0,
    });
    let of_stores = body.stores().into_iter().map(|store| divided(&store.index, axes));
    match of_tapes.chain(of_stores).chain([swept(body)]).max() {
        Some(most) if most > MOST => Err(Error::TooManyElements {
            what: format!("kernel `{label}`"),
            elements: usize::try_from(most).unwrap_or(usize::MAX),
        }),
        _ => Ok(()),
    }
}

/// The largest number that is divided.
fn divided(index: &Ix, axes: &[usize]) -> i64 {
    let quotients = index.terms.iter().map(|(atom, _)| match atom {
        Atom::Axis(_) => 0,
        Atom::Div(inner, _) | Atom::Mod(inner, _) => inner.range(axes).1.max(divided(inner, axes)),
    });
    quotients.max().unwrap_or(0)
}

/// The largest number that is compared, by how far it is from 0: a negative one wraps to a large one.
fn compared(conditions: &[Cond], axes: &[usize]) -> i64 {
    let largest = |index: &Ix, than: i64| {
        let (low, high) = index.range(axes);
        // a negative number must not wrap to one that is small enough
        high.max(than).max(than.saturating_sub(low)).max(divided(index, axes))
    };
    let all = conditions.iter().map(|condition| match condition {
        Cond::InRange(index, size) => largest(index, *size),
        Cond::Multiple(index, by) => largest(index, *by),
    });
    all.max().unwrap_or(0)
}

/// Points of a row or of a sum, which one loop may count.
fn swept(body: &Body) -> i64 {
    let inner = match body {
        Body::Loop(kernel) => &kernel.axes[kernel.outer..],
        Body::Contract(kernel) => &kernel.axes[kernel.group(3)],
        Body::Routine(_) => &[],
    };
    inner.iter().fold(1, |points: i64, &size| points.saturating_mul(size as i64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::graph::ReduceOp;
    use crate::plan::{Instr, Level, LoopKernel, Phase, Tape};

    /// A sum over `axes`, the last of which are a row's, of what is read at `index`.
    fn sum(axes: [usize; 2], index: Ix, valid: Vec<Cond>) -> Body {
        let load = Instr { op: InstrOp::Load { buffer: 0, index, valid }, dtype: DType::F32 };
        let tape = Tape { instrs: vec![load] };
        let phase = Phase { level: Level::Inner, tape, reductions: vec![(ReduceOp::Sum, 0)], stores: Vec::new() };
        Body::Loop(LoopKernel { axes: axes.to_vec(), outer: 1, phases: vec![phase] })
    }

    #[test]
    fn what_is_divided_fits_32_bits() {
        // the differences of all pairs of 70,000 points, flattened: their numbers do not fit
        let axes = [78_125, 62_720];
        let number = Ix::axis(0).times(62_720).plus(&Ix::axis(1));
        let row = number.div(70_000, &axes);
        let error = check("far", &sum(axes, row, Vec::new())).expect_err("4.9e9 are divided");
        assert!(error.to_string().contains("`far`"), "{error}");
        let axes = [6_250, 62_720];
        let row = number.div(70_000, &axes);
        check("near", &sum(axes, row, Vec::new())).expect("0.4e9 are");
    }

    #[test]
    fn what_is_compared_fits_and_what_is_only_added_may_wrap() {
        let axes = [78_125, 62_720];
        let number = Ix::axis(0).times(62_720).plus(&Ix::axis(1));
        let inside = |index: Ix, size| vec![Cond::InRange(index, size)];
        let read = || Ix::axis(1);
        assert!(check("far", &sum(axes, read(), inside(number.clone(), 100))).is_err());
        assert!(check("below", &sum(axes, read(), inside(Ix::axis(1).plus(&Ix::constant(-1 << 32)), 100))).is_err());
        check("padded", &sum(axes, read(), inside(Ix::axis(1).plus(&Ix::constant(-3)), 62_717))).expect("it fits");
        check("wraps", &sum(axes, number, Vec::new())).expect("an element's number is right in the end");
    }
}
