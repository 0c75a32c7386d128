//! The meaning of a plan, point by point in f64.

use crate::cpu::philox;
use crate::dtype::DType;
use crate::graph::{Binary, ReduceOp, Unary};
use crate::plan::*;

use super::round_half;

struct Machine<'a> {
    buffers: &'a mut Vec<Vec<f64>>,
    dtypes: Vec<DType>,
    uniforms: &'a [u32],
    status: u32,
}

/// Runs all kernels over `buffers`; returns the status word.
pub(super) fn interpret(plan: &Plan, buffers: &mut Vec<Vec<f64>>, uniforms: &[u32]) -> u32 {
    let dtypes = plan.buffers.iter().map(|buffer| buffer.dtype).collect();
    let mut machine = Machine { buffers, dtypes, uniforms, status: 0 };
    for kernel in &plan.kernels {
        match &kernel.body {
            Body::Loop(kernel) => machine.run_loop(kernel),
            Body::Contract(kernel) => machine.run_contract(kernel),
        }
    }
    machine.status
}

/// All points of a space of these sizes.
fn points(sizes: &[usize]) -> impl Iterator<Item = Vec<usize>> {
    (0..sizes.iter().product::<usize>()).map(move |mut flat| {
        let mut point = vec![0; sizes.len()];
        for axis in (0..sizes.len()).rev() {
            point[axis] = flat % sizes[axis];
            flat /= sizes[axis];
        }
        point
    })
}

/// What a register of `dtype` keeps of an integer result.
fn wrap(value: i64, dtype: DType) -> f64 {
    match dtype {
        DType::I32 => f64::from(value as i32),
        _ => f64::from(value as u32),
    }
}

fn reduce(op: ReduceOp, dtype: DType, a: f64, b: f64) -> f64 {
    let op = match (op, dtype) {
        (ReduceOp::Sum | ReduceOp::Max, DType::Bool) => Binary::Or,
        (ReduceOp::Prod | ReduceOp::Min, DType::Bool) => Binary::And,
        (ReduceOp::Sum, _) => Binary::Add,
        (ReduceOp::Prod, _) => Binary::Mul,
        (ReduceOp::Max, _) => Binary::Max,
        (ReduceOp::Min, _) => Binary::Min,
    };
    binary(op, dtype, a, b)
}

fn binary(op: Binary, dtype: DType, a: f64, b: f64) -> f64 {
    let truth = |holds: bool| f64::from(u8::from(holds));
    match op {
        Binary::Eq => return truth(a == b),
        Binary::Ne => return truth(a != b),
        Binary::Lt => return truth(a < b),
        Binary::Le => return truth(a <= b),
        _ => {}
    }
    if dtype.is_float() {
        return match op {
            Binary::Add => a + b,
            Binary::Sub => a - b,
            Binary::Mul => a * b,
            Binary::Div => a / b,
            Binary::Rem => a % b,
            Binary::Pow => a.powf(b),
            Binary::Atan2 => a.atan2(b),
            Binary::Max | Binary::Min if a.is_nan() || b.is_nan() => f64::NAN,
            Binary::Max => a.max(b),
            Binary::Min => a.min(b),
            _ => unreachable!("{op:?} of floats"),
        };
    }
    let op = match (dtype, op) {
        (DType::Bool, Binary::Add | Binary::Max) => Binary::Or,
        (DType::Bool, Binary::Mul | Binary::Min) => Binary::And,
        (DType::Bool, Binary::Sub) => Binary::Xor,
        _ => op,
    };
    let (a, b) = (a as i64, b as i64);
    let value = match op {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a.wrapping_mul(b),
        Binary::Div => a.checked_div(b).unwrap_or(0),
        Binary::Rem => a.checked_rem(b).unwrap_or(0),
        Binary::Max => a.max(b),
        Binary::Min => a.min(b),
        Binary::And => a & b,
        Binary::Or => a | b,
        Binary::Xor => a ^ b,
        Binary::Shl => a << (b & 31),
        Binary::Shr => a >> (b & 31),
        _ => unreachable!("{op:?} of integers"),
    };
    wrap(value, dtype)
}

fn unary(op: Unary, dtype: DType, x: f64) -> f64 {
    let truth = |holds: bool| f64::from(u8::from(holds));
    match op {
        Unary::Neg if dtype.is_float() => -x,
        Unary::Neg => wrap(-(x as i64), dtype),
        Unary::Abs => x.abs(),
        Unary::Sign if x == 0.0 || x.is_nan() => x,
        Unary::Sign => x.signum(),
        Unary::Exp => x.exp(),
        Unary::Expm1 => x.exp_m1(),
        Unary::Log => x.ln(),
        Unary::Log1p => x.ln_1p(),
        Unary::Sqrt => x.sqrt(),
        Unary::Rsqrt => 1.0 / x.sqrt(),
        Unary::Recip => 1.0 / x,
        Unary::Sin => x.sin(),
        Unary::Cos => x.cos(),
        Unary::Tanh => x.tanh(),
        Unary::Erf => erf(x),
        Unary::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Unary::Floor => x.floor(),
        Unary::Ceil => x.ceil(),
        Unary::Round => x.round_ties_even(),
        Unary::Not => truth(x == 0.0),
        Unary::IsFinite => truth(x.is_finite()),
        Unary::IsNan => truth(x.is_nan()),
    }
}

/// By its Taylor series, for |x| < 3.
fn erf(x: f64) -> f64 {
    let (mut term, mut sum) = (x, x);
    for n in 1..100 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * std::f64::consts::FRAC_2_SQRT_PI
}

fn cast(from: DType, to: DType, x: f64) -> f64 {
    match to {
        DType::F32 => f64::from(x as f32),
        DType::F16 => round_half(x),
        DType::Bool => f64::from(u8::from(x != 0.0)),
        _ if from.is_float() => match to {
            DType::I32 => f64::from(x as i32),
            DType::U32 => f64::from(x as u32),
            _ => f64::from(x as u8),
        },
        DType::U8 => f64::from(x as i64 as u8),
        _ => wrap(x as i64, to),
    }
}

fn bits(dtype: DType, x: f64) -> u32 {
    match dtype {
        DType::F32 | DType::F16 => (x as f32).to_bits(),
        DType::I32 => (x as i32).cast_unsigned(),
        _ => x as u32,
    }
}

fn from_bits(dtype: DType, bits: u32) -> f64 {
    match dtype {
        DType::F32 | DType::F16 => f64::from(f32::from_bits(bits)),
        DType::I32 => f64::from(bits.cast_signed()),
        _ => f64::from(bits),
    }
}

impl Machine<'_> {
    fn eval(&mut self, tape: &Tape, point: &[usize], reduced: &[f64], accumulator: f64) -> Vec<f64> {
        let mut values: Vec<f64> = Vec::new();
        let holds = |conditions: &[Cond]| conditions.iter().all(|condition| condition.holds(point));
        for instr in &tape.instrs {
            let dtype_of = |value: ValueId| tape.instrs[value].dtype;
            let value = match &instr.op {
                InstrOp::Const(scalar) => scalar.to_f64(),
                InstrOp::Uniform(number) => from_bits(instr.dtype, self.uniforms[*number]),
                InstrOp::Coord(ix) => ix.eval(point) as f64,
                InstrOp::Valid(conditions) => f64::from(u8::from(holds(conditions))),
                InstrOp::Load { buffer, index, valid } => {
                    if holds(valid) {
                        self.buffers[*buffer][index.eval(point) as usize]
                    } else {
                        0.0
                    }
                }
                InstrOp::Gather { buffer, base, stride, value, valid } => {
                    let index = || base.eval(point) + stride * values[*value] as i64;
                    if holds(valid) { self.buffers[*buffer][index() as usize] } else { 0.0 }
                }
                InstrOp::Unary(op, a) => unary(*op, dtype_of(*a), values[*a]),
                InstrOp::Binary(op, a, b) => binary(*op, dtype_of(*a), values[*a], values[*b]),
                InstrOp::Select(c, a, b) => values[if values[*c] != 0.0 { *a } else { *b }],
                InstrOp::Cast(a) => cast(dtype_of(*a), instr.dtype, values[*a]),
                InstrOp::Bitcast(a) => from_bits(instr.dtype, bits(dtype_of(*a), values[*a])),
                InstrOp::CheckIndex { value, bound, site } => {
                    let value = values[*value];
                    if value < 0.0 || value >= *bound as f64 {
                        self.status = self.status.max(*site);
                    }
                    value.clamp(0.0, *bound as f64 - 1.0)
                }
                InstrOp::Random { counter, stream, seed, position } => {
                    let mut word = [0];
                    let (position, seed) = (values[*position] as u32, values[*seed] as u32);
                    philox::fill_at(&[counter.eval(point)], *stream, position, seed, &mut word);
                    f64::from(word[0])
                }
                InstrOp::Reduced(number) => reduced[*number],
                InstrOp::Accumulator => accumulator,
            };
            values.push(value);
        }
        values
    }

    fn store(&mut self, stores: &[Store], values: &[f64], point: &[usize]) {
        for store in stores {
            let value = match self.dtypes[store.buffer] {
                DType::F16 => round_half(values[store.value]),
                DType::U8 => f64::from(values[store.value] as i64 as u8),
                _ => values[store.value],
            };
            self.buffers[store.buffer][store.index.eval(point) as usize] = value;
        }
    }

    fn run_loop(&mut self, kernel: &LoopKernel) {
        for outer in points(&kernel.axes[..kernel.outer]) {
            let mut reduced = Vec::new();
            for phase in &kernel.phases {
                let first = reduced.len();
                for &(op, value) in &phase.reductions {
                    reduced.push(op.identity(phase.tape.instrs[value].dtype).to_f64());
                }
                let inner_axes = if phase.level == Level::Inner { &kernel.axes[kernel.outer..] } else { &[] };
                for inner in points(inner_axes) {
                    let mut point = [outer.clone(), inner].concat();
                    point.resize(kernel.axes.len(), 0);
                    let values = self.eval(&phase.tape, &point, &reduced, 0.0);
                    for (number, &(op, value)) in phase.reductions.iter().enumerate() {
                        let result = &mut reduced[first + number];
                        *result = reduce(op, phase.tape.instrs[value].dtype, *result, values[value]);
                    }
                    self.store(&phase.stores, &values, &point);
                }
            }
        }
    }

    fn run_contract(&mut self, kernel: &ContractKernel) {
        let summed = kernel.group(3);
        for free in points(&kernel.axes[..summed.start]) {
            let mut sum = 0.0;
            for k in points(&kernel.axes[summed.clone()]) {
                let point = [free.clone(), k].concat();
                let a = self.eval(&kernel.lhs.0, &point, &[], 0.0)[kernel.lhs.1];
                let b = self.eval(&kernel.rhs.0, &point, &[], 0.0)[kernel.rhs.1];
                sum = if kernel.accumulator.is_float() {
                    sum + a * b
                } else {
                    binary(Binary::Add, kernel.accumulator, sum, binary(Binary::Mul, kernel.accumulator, a, b))
                };
            }
            let mut point = free.clone();
            point.resize(kernel.axes.len(), 0);
            let values = self.eval(&kernel.epilogue, &point, &[], sum);
            self.store(&kernel.stores, &values, &point);
        }
    }
}
