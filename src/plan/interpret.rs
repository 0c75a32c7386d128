//! Runs a plan's kernels point by point in f64: slow, and as plain as the meaning of the instructions. Both executors
//! are checked against it.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use rayon::prelude::*;

use rustc_hash::FxHashMap;

use crate::dtype::{DType, Scalar};
use crate::graph::reference::{coordinates, unravel};
use crate::graph::{Binary, ReduceOp};
use crate::ops::elementwise::{binary_value, cast_value, unary_value};
use crate::ops::random;
use crate::pool;

use super::index::Cond;
use super::kernel::{
    Body, Buffer, BufferId, ContractKernel, InstrOp, Kernel, Level, LoopKernel, Place, Plan, Store, Tape,
};

/// What is rounded besides what is cast to, or stored as, a narrower type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rounding {
    /// Nothing: for comparing with the graph's f64 reference.
    None,
    /// Each float to f32 when it is computed, but not the partial results of sums: for comparing with a device. A value
    /// computed again must be equal to the one that was stored, or comparisons of the two (`argmax`) go wrong.
    Instructions,
}

/// Runs all of `plan`, unrounded, in memory as a device has it: a kernel that writes a buffer leaves NaN in others that
/// lie in the same part of a slot. `externals` are the values of the first external storages; what is not given is NaN,
/// but for the plan's zeros. Returns what each external holds in the end, and the largest of the kernels' status words.
pub fn interpret_plan(plan: &Plan, externals: &[Vec<f64>], uniforms: &[u32]) -> (Vec<Vec<f64>>, u32) {
    let mut values: Vec<Vec<f64>> = plan.buffers.iter().map(|buffer| vec![f64::NAN; buffer.elements]).collect();
    for (buffer, gap) in &plan.zeroed {
        values[*buffer][gap.clone()].fill(0.0);
    }
    for (values, given) in values.iter_mut().zip(externals) {
        values.clone_from(given);
    }
    let mut together: FxHashMap<Place, Vec<BufferId>> = FxHashMap::default();
    for (number, buffer) in plan.buffers.iter().enumerate() {
        together.entry(buffer.place).or_default().push(number);
    }
    let mut status = 0;
    for kernel in &plan.kernels {
        for &written in &kernel.writes {
            let buffer = &plan.buffers[written];
            for bytes in kernel.body.written(written).into_iter().map(|part| buffer.bytes_of(part)) {
                for &other in together[&buffer.place].iter().filter(|&&other| other != written) {
                    overwrite(&mut values[other], &plan.buffers[other], bytes.clone());
                }
            }
        }
        status = interpret(plan, kernel, &mut values, uniforms, Rounding::None).max(status);
    }
    // they come first
    values.truncate(plan.externals);
    (values, status)
}

/// Loses those `values` of a buffer that lie in `range`.
fn overwrite(values: &mut [f64], buffer: &Buffer, range: Range<u64>) {
    let (own, size) = (buffer.range(), buffer.dtype.size_bytes());
    let at = |byte: u64| (byte.clamp(own.start, own.end) - own.start) as usize;
    values[at(range.start) / size..at(range.end).div_ceil(size)].fill(f64::NAN);
}

/// Runs `kernel` over `buffers` (the values of each of the plan's buffers); returns the status word.
pub fn interpret(plan: &Plan, kernel: &Kernel, buffers: &mut [Vec<f64>], uniforms: &[u32], rounding: Rounding) -> u32 {
    let status = AtomicU32::new(0);
    let mut machine = Machine { plan, buffers, uniforms, rounding, reduced: Vec::new(), status: &status };
    match &kernel.body {
        Body::Loop(body) => machine.run_loop(body),
        Body::Contract(body) => machine.run_contract(body),
        Body::Routine(body) => {
            let inputs: Vec<&[f64]> =
                body.inputs.iter().map(|span| &machine.buffers[span.buffer][span.range()]).collect();
            let mut output = machine.buffers[body.output.buffer][body.output.range()].to_vec();
            body.evaluate(&inputs, &mut output);
            machine.buffers[body.output.buffer][body.output.range()].copy_from_slice(&output);
        }
    }
    status.into_inner()
}

struct Machine<'a> {
    plan: &'a Plan,
    buffers: &'a mut [Vec<f64>],
    uniforms: &'a [u32],
    rounding: Rounding,
    reduced: Vec<f64>,
    status: &'a AtomicU32,
}

impl Machine<'_> {
    fn run_loop(&mut self, kernel: &LoopKernel) {
        let mut values = Vec::new();
        for outer in coordinates(&kernel.axes[..kernel.outer]) {
            self.reduced.clear();
            for phase in &kernel.phases {
                let mut point = outer.clone();
                point.resize(kernel.axes.len(), 0);
                if phase.level == Level::Outer {
                    self.evaluate(&phase.tape, &point, 0.0, &mut values);
                    self.store(&phase.stores, &values, &point);
                    continue;
                }
                let dtype = |value: usize| phase.tape.instrs[value].dtype;
                let start = phase.reductions.iter().map(|&(op, value)| op.identity(dtype(value)).to_f64());
                let mut sums: Vec<f64> = start.collect();
                for inner in coordinates(&kernel.axes[kernel.outer..]) {
                    point[kernel.outer..].copy_from_slice(&inner);
                    self.evaluate(&phase.tape, &point, 0.0, &mut values);
                    for (sum, &(op, value)) in sums.iter_mut().zip(&phase.reductions) {
                        *sum = combine(op, dtype(value), *sum, values[value]);
                    }
                    self.store(&phase.stores, &values, &point);
                }
                self.reduced.extend(sums);
            }
        }
    }

    fn run_contract(&mut self, kernel: &ContractKernel) {
        let kept = kernel.group(3).start;
        let (outer, inner) = kernel.axes.split_at(kept);
        let count: usize = outer.iter().product();
        let sum = |number| self.sum(kernel, kept, unravel(number, outer));
        let sums: Vec<f64> = pool::run(|| (0..count).into_par_iter().map(sum).collect());
        let mut values = Vec::new();
        for (mut point, sum) in coordinates(outer).zip(sums) {
            point.resize(kept + inner.len(), 0);
            self.evaluate(&kernel.epilogue, &point, sum, &mut values);
            self.store(&kernel.stores, &values, &point);
        }
    }

    /// The sum of products at the point whose first `kept` coordinates are given.
    fn sum(&self, kernel: &ContractKernel, kept: usize, mut point: Vec<usize>) -> f64 {
        let summed = &kernel.axes[kept..];
        point.resize(kernel.axes.len(), 0);
        let (mut lhs, mut rhs) = (Vec::new(), Vec::new());
        let mut sum = 0.0;
        for _ in 0..summed.iter().product() {
            self.evaluate(&kernel.lhs.0, &point, 0.0, &mut lhs);
            self.evaluate(&kernel.rhs.0, &point, 0.0, &mut rhs);
            let product = binary_value(Binary::Mul, kernel.accumulator, lhs[kernel.lhs.1], rhs[kernel.rhs.1]);
            sum = combine(ReduceOp::Sum, kernel.accumulator, sum, product);
            // the next point, the last coordinate moving first
            for (coordinate, &size) in point[kept..].iter_mut().zip(summed).rev() {
                *coordinate += 1;
                if *coordinate < size {
                    break;
                }
                *coordinate = 0;
            }
        }
        sum
    }

    fn store(&mut self, stores: &[Store], values: &[f64], point: &[usize]) {
        for store in stores {
            let index = usize::try_from(store.index.eval(point)).expect("a store's index is not negative");
            let dtype = self.plan.buffers[store.buffer].dtype;
            let value = values[store.value];
            self.buffers[store.buffer][index] = match dtype {
                DType::F16 => Scalar::new(dtype, value).to_f64(),
                // in registers it has 32 bits
                DType::U8 => f64::from(value as i64 as u8),
                DType::F32 | DType::I32 | DType::U32 | DType::Bool => value,
            };
        }
    }

    fn load(&self, buffer: BufferId, index: i64) -> f64 {
        self.buffers[buffer][usize::try_from(index).expect("a valid load's index is not negative")]
    }

    /// The values of all instructions of `tape` at `point`.
    fn evaluate(&self, tape: &Tape, point: &[usize], accumulator: f64, values: &mut Vec<f64>) {
        values.clear();
        let holds = |valid: &[Cond]| valid.iter().all(|condition| condition.holds(point));
        for instr in &tape.instrs {
            let dtype_of = |value: usize| tape.instrs[value].dtype;
            let value = match &instr.op {
                InstrOp::Const(value) => value.to_f64(),
                InstrOp::Uniform(slot) => Scalar { dtype: instr.dtype, bits: self.uniforms[*slot] }.to_f64(),
                InstrOp::Coord(index) => cast_value(DType::I32, instr.dtype, index.eval(point) as f64),
                InstrOp::Valid(valid) => f64::from(u8::from(holds(valid))),
                InstrOp::Load { buffer, index, valid } => {
                    if holds(valid) {
                        self.load(*buffer, index.eval(point))
                    } else {
                        0.0
                    }
                }
                InstrOp::Gather { buffer, base, stride, value, valid } => {
                    if holds(valid) {
                        self.load(*buffer, base.eval(point) + stride * values[*value] as i64)
                    } else {
                        0.0
                    }
                }
                InstrOp::Unary(op, a) => unary_value(*op, dtype_of(*a), values[*a]),
                InstrOp::Binary(op, a, b) => binary_value(*op, dtype_of(*a), values[*a], values[*b]),
                InstrOp::Select(c, a, b) => {
                    if values[*c] != 0.0 {
                        values[*a]
                    } else {
                        values[*b]
                    }
                }
                InstrOp::Cast(a) => cast_value(dtype_of(*a), instr.dtype, values[*a]),
                InstrOp::Bitcast(a) => {
                    let bits = Scalar::new(dtype_of(*a), values[*a]).bits;
                    Scalar { dtype: instr.dtype, bits }.to_f64()
                }
                InstrOp::CheckIndex { value, bound, site } => {
                    let (value, last) = (values[*value], (bound.max(&1) - 1) as f64);
                    if value < 0.0 || value > last {
                        self.status.fetch_max(*site, Ordering::Relaxed);
                    }
                    value.clamp(0.0, last)
                }
                InstrOp::Random { counter, stream, seed, position } => {
                    let element = counter.eval(point) as u32;
                    f64::from(random::bits(element, *stream, values[*seed] as u32, values[*position] as u32))
                }
                InstrOp::Reduced(number) => self.reduced[*number],
                InstrOp::Accumulator => accumulator,
            };
            let rounded = self.rounding == Rounding::Instructions && instr.dtype.is_float();
            values.push(if rounded { f64::from(value as f32) } else { value });
        }
    }
}

fn combine(op: ReduceOp, dtype: DType, a: f64, b: f64) -> f64 {
    binary_value(op.join(), dtype, a, b)
}
