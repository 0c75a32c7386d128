//! Runs a plan's kernels point by point in f64: slow, and as plain as the meaning of the instructions.

use crate::dtype::{DType, Scalar};
use crate::graph::ReduceOp;
use crate::graph::reference::coordinates;
use crate::ops::elementwise::{binary_value, cast_value, unary_value};
use crate::ops::random;

use super::index::Cond;
use super::kernel::{Body, BufferId, ContractKernel, InstrOp, Kernel, Level, LoopKernel, Plan, Store, Tape};

/// How the results of instructions are kept. Reductions and contractions sum in f64 either way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Precision {
    /// As they are, in f64.
    Exact,
    /// Rounded to f32, as devices do: a value that a kernel computes again compares equal to the one that was stored.
    Single,
}

/// Runs `kernel` over `buffers` (the values of each of the plan's buffers).
pub fn interpret(plan: &Plan, kernel: &Kernel, buffers: &mut [Vec<f64>], uniforms: &[u32], precision: Precision) {
    let mut machine = Machine { plan, buffers, uniforms, precision, reduced: Vec::new(), accumulator: 0.0 };
    match &kernel.body {
        Body::Loop(body) => machine.run_loop(body),
        Body::Contract(body) => machine.run_contract(body),
    }
}

struct Machine<'a> {
    plan: &'a Plan,
    buffers: &'a mut [Vec<f64>],
    uniforms: &'a [u32],
    precision: Precision,
    reduced: Vec<f64>,
    accumulator: f64,
}

impl Machine<'_> {
    fn run_loop(&mut self, kernel: &LoopKernel) {
        for outer in coordinates(&kernel.axes[..kernel.outer]) {
            self.reduced.clear();
            for phase in &kernel.phases {
                let mut point = outer.clone();
                point.resize(kernel.axes.len(), 0);
                if phase.level == Level::Outer {
                    let values = self.evaluate(&phase.tape, &point);
                    self.store(&phase.stores, &values, &point);
                    continue;
                }
                let dtype = |value: usize| phase.tape.instrs[value].dtype;
                let start = phase.reductions.iter().map(|&(op, value)| op.identity(dtype(value)).to_f64());
                let mut sums: Vec<f64> = start.collect();
                for inner in coordinates(&kernel.axes[kernel.outer..]) {
                    point[kernel.outer..].copy_from_slice(&inner);
                    let values = self.evaluate(&phase.tape, &point);
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
        for outer in coordinates(&kernel.axes[..kept]) {
            let mut point = outer.clone();
            point.resize(kernel.axes.len(), 0);
            let mut sum = 0.0;
            for inner in coordinates(&kernel.axes[kept..]) {
                point[kept..].copy_from_slice(&inner);
                let lhs = self.evaluate(&kernel.lhs.0, &point)[kernel.lhs.1];
                let rhs = self.evaluate(&kernel.rhs.0, &point)[kernel.rhs.1];
                sum = combine(ReduceOp::Sum, kernel.accumulator, sum, lhs * rhs);
            }
            self.accumulator = sum;
            let values = self.evaluate(&kernel.epilogue, &point);
            self.store(&kernel.stores, &values, &point);
        }
    }

    fn store(&mut self, stores: &[Store], values: &[f64], point: &[usize]) {
        for store in stores {
            let index = usize::try_from(store.index.eval(point)).expect("a store's index is not negative");
            let dtype = self.plan.buffers[store.buffer].dtype;
            let value = values[store.value];
            self.buffers[store.buffer][index] =
                if dtype == DType::F16 { Scalar::new(dtype, value).to_f64() } else { value };
        }
    }

    fn load(&self, buffer: BufferId, index: i64) -> f64 {
        self.buffers[buffer][usize::try_from(index).expect("a valid load's index is not negative")]
    }

    fn evaluate(&self, tape: &Tape, point: &[usize]) -> Vec<f64> {
        let mut values: Vec<f64> = Vec::with_capacity(tape.instrs.len());
        let holds = |valid: &[Cond]| valid.iter().all(|condition| condition.holds(point));
        for instr in &tape.instrs {
            let dtype_of = |value: usize| tape.instrs[value].dtype;
            let value = match &instr.op {
                InstrOp::Const(value) => value.to_f64(),
                InstrOp::Uniform(slot) => Scalar { dtype: instr.dtype, bits: self.uniforms[*slot] }.to_f64(),
                InstrOp::Coord(index) => index.eval(point) as f64,
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
                InstrOp::CheckIndex { value, bound, .. } => values[*value].clamp(0.0, (bound.max(&1) - 1) as f64),
                InstrOp::Random { counter, stream, seed, position } => {
                    let element = counter.eval(point) as u32;
                    f64::from(random::bits(element, *stream, values[*seed] as u32, values[*position] as u32))
                }
                InstrOp::Reduced(number) => self.reduced[*number],
                InstrOp::Accumulator => self.accumulator,
            };
            let single = self.precision == Precision::Single && instr.dtype.is_float();
            values.push(if single { f64::from(value as f32) } else { value });
        }
        values
    }
}

fn combine(op: ReduceOp, dtype: DType, a: f64, b: f64) -> f64 {
    use crate::graph::Binary;
    let binary = match op {
        ReduceOp::Sum => Binary::Add,
        ReduceOp::Prod => Binary::Mul,
        ReduceOp::Max => Binary::Max,
        ReduceOp::Min => Binary::Min,
    };
    binary_value(binary, dtype, a, b)
}
