//! `BRASA_VALIDATE=1`: every kernel runs alone, and what it wrote is compared with the plan's interpreter in f64. That
//! finds wrong kernels and drivers, not errors of the planner: both sides carry out the same plan.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use crate::device::{Device, Storage};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::reference::{coordinates, decode};
use crate::plan::{
    Body, Buffer, BufferId, Kernel, Level, Place, Plan, Store,
    interpret::{Rounding, interpret},
};
use crate::status;

/// Runs `plan` kernel by kernel, and stops at the first value that differs from the interpreter's.
pub(super) fn run(device: &Device, plan: &Plan, externals: &[Storage], uniforms: &[u32]) -> Result<()> {
    let slots = plan.slots.iter().map(|&bytes| device.alloc(bytes, "a slot of the plan being validated"));
    let slots: Vec<Storage> = slots.collect::<Result<_>>()?;
    let storage = |place: Place| match place {
        Place::External(number) => &externals[number],
        Place::Slot(number) => &slots[number],
    };
    let read = |buffer: BufferId| read(device, &plan.buffers[buffer], storage(plan.buffers[buffer].place));
    for kernel in &plan.kernels {
        let used: BTreeSet<BufferId> = kernel.reads.iter().chain(&kernel.writes).copied().collect();
        let mut values = vec![Vec::new(); plan.buffers.len()];
        for &buffer in &used {
            values[buffer] = read(buffer)?;
        }
        let status = interpret(plan, kernel, &mut values, uniforms, Rounding::Instructions);
        let used: Vec<BufferId> = used.into_iter().collect();
        let (alone, places) = alone(plan, kernel, &used);
        let storages: Vec<Storage> = places.into_iter().map(|place| storage(place).clone()).collect();
        device.prepare(Arc::new(alone))?.bind(&storages)?.run(uniforms)?;
        let check = Check { device, plan, kernel };
        check.status(found_status(read(used[0]))?, status)?;
        for &buffer in &kernel.writes {
            check.values(buffer, &read(buffer)?, &values[buffer])?;
        }
        if status != 0 {
            return Err(status::error(status));
        }
    }
    Ok(())
}

/// The status word that came with a read.
fn found_status(read: Result<Vec<f64>>) -> Result<u32> {
    match read {
        Ok(_) => Ok(0),
        Err(error) => Some(status::number(&error)).filter(|&number| number != 0).ok_or(error),
    }
}

fn read(device: &Device, buffer: &Buffer, storage: &Storage) -> Result<Vec<f64>> {
    let bytes = device.begin_read::<u8>(storage, buffer.offset_bytes, buffer.bytes()).now()?;
    Ok(decode(buffer.dtype, &bytes))
}

/// A plan of `kernel` only, over `used` buffers, and what its externals are: what these lie in.
fn alone(plan: &Plan, kernel: &Kernel, used: &[BufferId]) -> (Plan, Vec<Place>) {
    let names: HashMap<BufferId, usize> = used.iter().enumerate().map(|(name, &buffer)| (buffer, name)).collect();
    let mut kernel = kernel.clone();
    kernel.body.map_buffers(|buffer| names[&buffer]);
    for buffer in kernel.reads.iter_mut().chain(&mut kernel.writes) {
        *buffer = names[buffer];
    }
    let mut places: Vec<Place> = Vec::new();
    let mut buffers: Vec<Buffer> = used.iter().map(|&buffer| plan.buffers[buffer].clone()).collect();
    for buffer in &mut buffers {
        let known = places.iter().position(|place| *place == buffer.place);
        let number = known.unwrap_or(places.len());
        if known.is_none() {
            places.push(buffer.place);
        }
        buffer.place = Place::External(number);
    }
    #[expect(clippy::single_range_in_vec_init, reason = "one wave of one kernel")]
    let plan = Plan {
        buffers,
        kernels: vec![kernel],
        waves: vec![0..1],
        externals: places.len(),
        uniforms: plan.uniforms,
        literal_sizes: plan.literal_sizes,
        key: plan.key,
        ..Plan::default()
    };
    (plan, places)
}

/// What a kernel left, against what the interpreter makes of it.
struct Check<'a> {
    device: &'a Device,
    plan: &'a Plan,
    kernel: &'a Kernel,
}

impl Check<'_> {
    fn status(&self, got: u32, expected: u32) -> Result<()> {
        if got == expected { Ok(()) } else { Err(self.error("status word", 0, got.into(), expected.into())) }
    }

    /// Sums of many terms in f32 differ from f64 by more than one element's rounding: the tolerance is a thousandth
    /// (f16: a hundredth) of the largest value that the same store writes, because a vector of gradients has pieces of
    /// very different sizes. To that comes a millionth (f16: a hundred thousandth) of the largest value, or of 1, for
    /// sums whose terms cancel. Integers, truth values and what the kernel does not write must agree exactly, but for
    /// places where it writes another buffer: parts of a vector of gradients that are not alive yet lie where others
    /// are.
    fn values(&self, buffer: BufferId, got: &[f64], expected: &[f64]) -> Result<()> {
        let (relative, absolute) = match self.plan.buffers[buffer].dtype {
            DType::F32 => (1e-3, 1e-6),
            DType::F16 => (1e-2, 1e-5),
            DType::I32 | DType::U32 | DType::U8 | DType::Bool => (0.0, 0.0),
        };
        let mut tolerances = vec![0.0; expected.len()];
        for shared in self.shared(buffer) {
            tolerances[shared].fill(f64::INFINITY);
        }
        let pieces = pieces(self.kernel, buffer);
        pieces.iter().flatten().for_each(|&index| tolerances[index] = 0.0);
        if relative > 0.0 {
            let floor = absolute * largest(pieces.iter().flatten().map(|&index| expected[index])).max(1.0);
            for piece in pieces {
                let tolerance = relative * largest(piece.iter().map(|&index| expected[index])) + floor;
                piece.into_iter().for_each(|index| tolerances[index] = tolerance);
            }
        }
        let dtype = self.plan.buffers[buffer].dtype;
        let same = |a: f64, b: f64, tolerance: f64| {
            tolerance == f64::INFINITY || (a - b).abs() <= tolerance || dtype.same_or_overflown(a, b)
        };
        match (0..expected.len()).find(|&index| !same(got[index], expected[index], tolerances[index])) {
            None => Ok(()),
            Some(index) => Err(self.error(&self.plan.buffers[buffer].label, index, got[index], expected[index])),
        }
    }

    /// The elements of `buffer` that have bytes in common with other buffers that the kernel writes.
    fn shared(&self, buffer: BufferId) -> impl Iterator<Item = Range<usize>> {
        let own = &self.plan.buffers[buffer];
        let (whole, size) = (own.range(), own.dtype.size_bytes() as u64);
        let others = self.kernel.writes.iter().filter(move |&&other| other != buffer);
        let others = others.map(|&other| &self.plan.buffers[other]).filter(|other| other.place == own.place);
        others.filter_map(move |other| {
            let other = other.range();
            let common = other.start.max(whole.start)..other.end.min(whole.end);
            (!common.is_empty()).then(|| {
                let [first, end] = [common.start - whole.start, (common.end - whole.start).next_multiple_of(size)];
                (first / size) as usize..((end / size) as usize).min(own.elements)
            })
        })
    }

    fn error(&self, what: &str, index: usize, got: f64, expected: f64) -> Error {
        let info = self.device.info();
        Error::Validation {
            kernel: format!("{} ({what})", self.kernel.label),
            device: format!("{info}, driver {}", info.driver),
            index,
            got,
            expected,
        }
    }
}

fn largest(values: impl Iterator<Item = f64>) -> f64 {
    values.filter(|value| value.is_finite()).fold(0.0, |max, value| value.abs().max(max))
}

/// The elements of `buffer` that each store of `kernel` writes.
fn pieces(kernel: &Kernel, buffer: BufferId) -> Vec<Vec<usize>> {
    let at = |stores: &[Store], axes: &[usize], rank: usize| -> Vec<Vec<usize>> {
        let here = stores.iter().filter(|store| store.buffer == buffer);
        let points = || {
            coordinates(axes).map(|mut point| {
                point.resize(rank, 0);
                point
            })
        };
        here.map(|store| points().map(|point| store.index.eval(&point) as usize).collect()).collect()
    };
    match &kernel.body {
        Body::Loop(body) => {
            let axes = |level| if level == Level::Outer { &body.axes[..body.outer] } else { &body.axes[..] };
            body.phases.iter().flat_map(|phase| at(&phase.stores, axes(phase.level), body.axes.len())).collect()
        }
        Body::Contract(body) => at(&body.stores, &body.axes[..body.group(3).start], body.axes.len()),
        Body::Routine(body) if body.output.buffer == buffer => {
            body.written().into_iter().map(Iterator::collect).collect()
        }
        Body::Routine(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Instr, InstrOp, Ix, LoopKernel, Phase, Tape};
    use crate::stage::Stage;

    /// A kernel that stores `sizes[0]` and `sizes[1]` elements one behind the other, and leaves one more alone.
    fn two_pieces(dtype: DType, sizes: [usize; 2]) -> Plan {
        let phase = |offset: usize, level| Phase {
            level,
            tape: Tape { instrs: vec![Instr { op: InstrOp::Coord(Ix::axis(0)), dtype }] },
            reductions: Vec::new(),
            stores: vec![Store {
                buffer: 0,
                index: Ix::axis(usize::from(level == Level::Inner)).plus(&Ix::constant(offset as i64)),
                value: 0,
            }],
        };
        let phases = vec![phase(0, Level::Outer), phase(sizes[0], Level::Inner)];
        let body = Body::Loop(LoopKernel { axes: sizes.to_vec(), outer: 1, phases });
        let (label, nodes, reads, writes) = ("map.test".into(), Vec::new(), Vec::new(), vec![0]);
        let (values, modules) = (Vec::new(), Vec::new());
        let kernel =
            Kernel { label, stage: Stage::Forward, body, nodes, values, modules, reads, writes, flops: 0, bytes: 0 };
        let elements = sizes[0] + sizes[1] + 1;
        let buffer = Buffer { dtype, elements, place: Place::External(0), offset_bytes: 0, label: "gradients".into() };
        Plan { buffers: vec![buffer], kernels: vec![kernel], ..Plan::default() }
    }

    fn check(dtype: DType, got: &[f64], expected: &[f64]) -> Option<(usize, f64, f64)> {
        let plan = two_pieces(dtype, [1, 2]);
        let device = Device::cpu();
        let checked = Check { device: &device, plan: &plan, kernel: &plan.kernels[0] }.values(0, got, expected);
        let error = checked.err()?;
        let words = error.to_string();
        let Error::Validation { kernel, device: named, index, got, expected } = error else { panic!("{words}") };
        assert_eq!(kernel, "map.test (gradients)");
        assert!(named.contains(&device.info().name) && named.contains("driver"), "{named}");
        for part in [&kernel, &named, &index.to_string(), &got.to_string(), &expected.to_string()] {
            assert!(words.contains(part.as_str()), "`{part}` is missing in: {words}");
        }
        Some((index, got, expected))
    }

    #[test]
    fn a_wrong_value_is_told_with_its_place_and_a_rounded_one_is_not() {
        use DType::{Bool, F16, F32, I32};
        let expected = [1000.0, 0.25, 0.5, 7.0];
        for dtype in [F32, F16, I32] {
            assert_eq!(check(dtype, &expected, &expected), None, "{dtype}");
        }
        assert_eq!(check(F32, &[1000.1, 0.2501, 0.4999, 7.0], &expected), None);
        assert_eq!(check(F16, &[1004.0, 0.252, 0.498, 7.0], &expected), None);
        assert_eq!(check(F32, &[1002.5, 0.25, 0.5, 7.0], &expected), Some((0, 1002.5, 1000.0)));
        // small ones beside large ones
        assert_eq!(check(F32, &[1000.0, 0.25, 0.51, 7.0], &expected), Some((2, 0.51, 0.5)));
        assert_eq!(check(F16, &[1000.0, 0.2, 0.5, 7.0], &expected), Some((1, 0.2, 0.25)));
        // what belongs to nobody
        assert_eq!(check(F32, &[1000.0, 0.25, 0.5, 7.0001], &expected), Some((3, 7.0001, 7.0)));
        let whole = [1000.0, 2.0, 3.0, 7.0];
        assert_eq!(check(I32, &[1000.0, 2.0, 4.0, 7.0], &whole), Some((2, 4.0, 3.0)));
        assert_eq!(check(Bool, &[1.0, 0.0, 0.0, 0.0], &[1.0, 1.0, 0.0, 0.0]), Some((1, 0.0, 1.0)));
    }

    #[test]
    fn memory_that_two_written_buffers_share_is_what_is_stored_there() {
        let mut plan = two_pieces(DType::F32, [1, 2]);
        let other = Buffer { elements: 2, offset_bytes: 8, ..plan.buffers[0].clone() };
        plan.buffers.push(other);
        let device = Device::cpu();
        let check = |plan: &Plan, got: [f64; 4]| {
            Check { device: &device, plan, kernel: &plan.kernels[0] }.values(0, &got, &[1.0, 2.0, 3.0, 7.0]).is_ok()
        };
        assert!(!check(&plan, [1.0, 2.0, 3.0, 5.0]), "nothing else is written");
        plan.kernels[0].writes.push(1);
        assert!(check(&plan, [1.0, 2.0, 3.0, 5.0]));
        assert!(!check(&plan, [1.0, 2.0, 4.0, 5.0]), "this one the kernel has stored itself");
        plan.buffers[1].place = Place::External(1);
        assert!(!check(&plan, [1.0, 2.0, 3.0, 5.0]));
    }

    #[test]
    fn values_that_are_not_finite_must_not_be_where_the_reference_is() {
        let (nan, infinity) = (f64::NAN, f64::INFINITY);
        assert_eq!(check(DType::F32, &[infinity, nan, 1.0, nan], &[1e39, nan, 1.0, nan]), None);
        assert_eq!(check(DType::F32, &[1.0, nan, 1.0, 0.0], &[1.0, 2.0, 1.0, 0.0]).map(|found| found.0), Some(1));
        assert_eq!(check(DType::F32, &[1.0, 2.0, 1.0, 0.0], &[1.0, nan, 1.0, 0.0]).map(|found| found.0), Some(1));
    }

    #[test]
    fn the_status_word_is_compared() {
        let (device, plan) = (Device::cpu(), two_pieces(DType::F32, [1, 2]));
        let check = Check { device: &device, plan: &plan, kernel: &plan.kernels[0] };
        assert!(check.status(3, 3).is_ok());
        for (got, expected) in [(0, 3), (3, 0), (2, 3)] {
            let error = check.status(got, expected).expect_err("they differ").to_string();
            assert!(error.contains("map.test (status word)"), "{error}");
        }
        let site = status::register("gather".into(), std::panic::Location::caller(), 9);
        assert_eq!(found_status(Ok(Vec::new())).expect("no error"), 0);
        assert_eq!(found_status(Err(status::error(site))).expect("a status word"), site);
        assert!(matches!(found_status(Err(Error::NoAdapter)), Err(Error::NoAdapter)));
    }
}
