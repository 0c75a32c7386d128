//! The meaning of kernels: one point after the other, floats in f64. Slow; what both executors are checked against.

use half::f16;

use crate::dtype::{DType, Scalar};
use crate::graph::{Binary, ReduceOp, Unary};

use crate::plan::{Body, Cond, ContractKernel, Instr, InstrOp, Kernel, Level, LoopKernel, Plan, Store, Tape};

/// Runs one kernel over the contents of the plan's buffers (little-endian, may be padded) and returns the status word.
pub(crate) fn interpret(plan: &Plan, kernel: &Kernel, buffers: &mut [Vec<u8>], uniforms: &[u32]) -> u32 {
    let mut machine = Machine { plan, buffers, uniforms, status: 0 };
    match &kernel.body {
        Body::Loop(kernel) => machine.run_loop(kernel),
        Body::Contract(kernel) => machine.run_contract(kernel),
    }
    machine.status
}

struct Machine<'a> {
    plan: &'a Plan,
    buffers: &'a mut [Vec<u8>],
    uniforms: &'a [u32],
    status: u32,
}

/// Every point of a space, in row-major order.
pub(crate) fn points(sizes: &[usize]) -> impl Iterator<Item = Vec<usize>> {
    let count: usize = sizes.iter().product();
    (0..count).map(|mut position| {
        let mut point = vec![0; sizes.len()];
        for (axis, &size) in sizes.iter().enumerate().rev() {
            point[axis] = position % size;
            position /= size;
        }
        point
    })
}

/// Element `index` as f64.
pub(crate) fn element(bytes: &[u8], dtype: DType, index: usize) -> f64 {
    let size = dtype.size_bytes();
    let at = &bytes[index * size..(index + 1) * size];
    let mut word = [0; 4];
    word[..size].copy_from_slice(at);
    Scalar { dtype, bits: u32::from_le_bytes(word) }.to_f64()
}

fn set_element(bytes: &mut [u8], dtype: DType, index: usize, value: f64) {
    let size = dtype.size_bytes();
    let bits = match dtype {
        DType::U8 => value as u32 & 255,
        dtype => Scalar::new(dtype, value).bits,
    };
    bytes[index * size..(index + 1) * size].copy_from_slice(&bits.to_le_bytes()[..size]);
}

impl Machine<'_> {
    fn run_loop(&mut self, kernel: &LoopKernel) {
        let (outer, inner) = kernel.axes.split_at(kernel.outer);
        for start in points(outer) {
            let mut reduced = Vec::new();
            for phase in &kernel.phases {
                let rows: Vec<Vec<usize>> = match phase.level {
                    Level::Outer => vec![start.clone()],
                    Level::Inner => points(inner).map(|point| [start.clone(), point].concat()).collect(),
                };
                let dtype = |value: usize| phase.tape.instrs[value].dtype;
                let mut totals: Vec<f64> =
                    phase.reductions.iter().map(|&(op, value)| op.identity(dtype(value)).to_f64()).collect();
                for point in &rows {
                    let values = self.tape(&phase.tape, point, &reduced, 0.0);
                    for (total, &(op, value)) in totals.iter_mut().zip(&phase.reductions) {
                        *total = binary(combine(op), dtype(value), *total, values[value]);
                    }
                    self.stores(&phase.stores, point, &values);
                }
                reduced.extend(totals);
            }
        }
    }

    fn run_contract(&mut self, kernel: &ContractKernel) {
        let group = |group: usize| &kernel.axes[kernel.group(group)];
        let [batches, rows, columns, inner] = [0, 1, 2, 3].map(|number| points(group(number)).collect::<Vec<_>>());
        for batch in &batches {
            for row in &rows {
                for column in &columns {
                    let mut sum = 0.0;
                    for k in &inner {
                        let point = [batch.as_slice(), row, column, k].concat();
                        let left = self.tape(&kernel.lhs.0, &point, &[], 0.0)[kernel.lhs.1];
                        let right = self.tape(&kernel.rhs.0, &point, &[], 0.0)[kernel.rhs.1];
                        let product = binary(Binary::Mul, kernel.accumulator, left, right);
                        sum = binary(Binary::Add, kernel.accumulator, sum, product);
                    }
                    let point = [batch.as_slice(), row, column].concat();
                    let values = self.tape(&kernel.epilogue, &point, &[], sum);
                    self.stores(&kernel.stores, &point, &values);
                }
            }
        }
    }

    fn stores(&mut self, stores: &[Store], point: &[usize], values: &[f64]) {
        for store in stores {
            let buffer = &self.plan.buffers[store.buffer];
            let index = usize::try_from(store.index.eval(point)).expect("store indices are not negative");
            assert!(index < buffer.elements, "store outside buffer {}", store.buffer);
            set_element(&mut self.buffers[store.buffer], buffer.dtype, index, values[store.value]);
        }
    }

    fn read(&self, buffer: usize, index: i64) -> f64 {
        let about = &self.plan.buffers[buffer];
        let index = usize::try_from(index).expect("indices of valid loads are not negative");
        assert!(index < about.elements, "load outside buffer {buffer}");
        element(&self.buffers[buffer], about.dtype, index)
    }

    fn tape(&mut self, tape: &Tape, point: &[usize], reduced: &[f64], accumulator: f64) -> Vec<f64> {
        let mut values: Vec<f64> = Vec::with_capacity(tape.instrs.len());
        for instr in &tape.instrs {
            let value = self.instr(tape, instr, point, reduced, accumulator, &values);
            values.push(value);
        }
        values
    }

    fn instr(
        &mut self,
        tape: &Tape,
        instr: &Instr,
        point: &[usize],
        reduced: &[f64],
        accumulator: f64,
        values: &[f64],
    ) -> f64 {
        let holds = |valid: &[Cond]| valid.iter().all(|cond| cond.holds(point));
        let dtype = |value: usize| tape.instrs[value].dtype;
        match &instr.op {
            InstrOp::Const(scalar) => scalar.to_f64(),
            InstrOp::Uniform(n) => bits_as(self.uniforms[*n], instr.dtype),
            InstrOp::Coord(ix) => wrap(ix.eval(point), instr.dtype),
            InstrOp::Valid(valid) => f64::from(holds(valid)),
            InstrOp::Load { buffer, index, valid } if holds(valid) => self.read(*buffer, index.eval(point)),
            InstrOp::Gather { buffer, base, stride, value, valid } if holds(valid) => {
                self.read(*buffer, base.eval(point) + stride * values[*value] as i64)
            }
            InstrOp::Load { .. } | InstrOp::Gather { .. } => 0.0,
            InstrOp::Unary(op, a) => unary(*op, dtype(*a), values[*a]),
            InstrOp::Binary(op, a, b) => binary(*op, dtype(*a), values[*a], values[*b]),
            InstrOp::Select(condition, a, b) => values[if values[*condition] != 0.0 { *a } else { *b }],
            InstrOp::Cast(a) => cast(dtype(*a), instr.dtype, values[*a]),
            InstrOp::Bitcast(a) => bits_as(Scalar::new(dtype(*a), values[*a]).bits, instr.dtype),
            InstrOp::CheckIndex { value, bound, site } => {
                let value = values[*value];
                let last = bound.saturating_sub(1) as f64;
                if value < 0.0 || value > last {
                    self.status = self.status.max(*site);
                }
                value.clamp(0.0, last)
            }
            InstrOp::Random { counter, stream, seed, position } => {
                let counter = counter.eval(point) as u32;
                let words = philox([counter / 4, *stream, values[*position] as u32, 0], [values[*seed] as u32, 0]);
                f64::from(words[counter as usize % 4])
            }
            InstrOp::Reduced(n) => reduced[*n],
            InstrOp::Accumulator => accumulator,
        }
    }
}

fn combine(op: ReduceOp) -> Binary {
    match op {
        ReduceOp::Sum => Binary::Add,
        ReduceOp::Prod => Binary::Mul,
        ReduceOp::Max => Binary::Max,
        ReduceOp::Min => Binary::Min,
    }
}

fn bits_as(bits: u32, dtype: DType) -> f64 {
    let mask = match dtype.size_bytes() {
        1 => 0xff,
        2 => 0xffff,
        _ => u32::MAX,
    };
    let value = Scalar { dtype, bits: bits & mask }.to_f64();
    if dtype == DType::Bool { f64::from(bits != 0) } else { value }
}

/// An integer as the type wraps it.
fn wrap(value: i64, dtype: DType) -> f64 {
    match dtype {
        DType::I32 => f64::from(value as i32),
        DType::U32 => f64::from(value as u32),
        DType::U8 => f64::from(value as u8),
        _ => value as f64,
    }
}

fn cast(from: DType, to: DType, value: f64) -> f64 {
    match to {
        DType::F32 => value,
        DType::F16 => f16::from_f32(value as f32).to_f64(),
        DType::Bool => f64::from(value != 0.0),
        to if from.is_float() => Scalar::new(to, value).to_f64(),
        to => wrap(value as i64, to),
    }
}

fn unary(op: Unary, dtype: DType, x: f64) -> f64 {
    match op {
        Unary::Neg if dtype.is_float() => -x,
        Unary::Neg => wrap(-(x as i64), dtype),
        Unary::Abs if dtype.is_float() => x.abs(),
        Unary::Abs => wrap((x as i64).abs(), dtype),
        Unary::Sign if x == 0.0 || x.is_nan() => x,
        Unary::Sign => x.signum(),
        Unary::Exp => x.exp(),
        Unary::Expm1 => x.exp_m1(),
        Unary::Log1p => x.ln_1p(),
        Unary::Log => x.ln(),
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
        Unary::Not => f64::from(x == 0.0),
        Unary::IsFinite => f64::from(x.is_finite()),
        Unary::IsNan => f64::from(x.is_nan()),
    }
}

fn binary(op: Binary, dtype: DType, a: f64, b: f64) -> f64 {
    match op {
        Binary::Eq => f64::from(a == b),
        Binary::Ne => f64::from(a != b),
        Binary::Lt => f64::from(a < b),
        Binary::Le => f64::from(a <= b),
        Binary::Max if a.is_nan() || b.is_nan() => f64::NAN,
        Binary::Min if a.is_nan() || b.is_nan() => f64::NAN,
        Binary::Max => a.max(b),
        Binary::Min => a.min(b),
        op if dtype.is_float() => match op {
            Binary::Add => a + b,
            Binary::Sub => a - b,
            Binary::Mul => a * b,
            Binary::Div => a / b,
            Binary::Rem => a % b,
            Binary::Pow => a.powf(b),
            Binary::Atan2 => a.atan2(b),
            _ => panic!("{op:?} does not exist for {dtype}"),
        },
        op => {
            let (x, y) = (a as i64, b as i64);
            let value = match op {
                Binary::Add if dtype == DType::Bool => x | y,
                Binary::Add => x + y,
                Binary::Sub => x - y,
                // Wrapping in 64 bits keeps the low 32.
                Binary::Mul => x.wrapping_mul(y),
                Binary::Div => x.checked_div(y).unwrap_or(0),
                Binary::Rem => x.checked_rem(y).unwrap_or(0),
                Binary::And => x & y,
                Binary::Or => x | y,
                Binary::Xor => x ^ y,
                Binary::Shl => x << (y & 31),
                Binary::Shr => x >> (y & 31),
                _ => panic!("{op:?} does not exist for {dtype}"),
            };
            wrap(value, dtype)
        }
    }
}

/// Error function by its Maclaurin series, or for large |x| by the continued fraction of erfc.
fn erf(x: f64) -> f64 {
    let a = x.abs();
    if a.is_nan() {
        return x;
    }
    let value = if a < 2.5 {
        let (mut term, mut sum) = (a, a);
        for n in 1..80 {
            term *= -a * a / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * std::f64::consts::FRAC_2_SQRT_PI
    } else {
        let mut fraction = a;
        for n in (1..60).rev() {
            fraction = a + f64::from(n) / 2.0 / fraction;
        }
        1.0 - (-a * a).exp() / fraction / std::f64::consts::PI.sqrt()
    };
    value.copysign(x)
}

/// Philox 4x32-10.
pub(crate) fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let first = u64::from(counter[0]) * 0xd251_1f53;
        let second = u64::from(counter[2]) * 0xcd9e_8d57;
        counter = [
            (second >> 32) as u32 ^ counter[1] ^ key[0],
            second as u32,
            (first >> 32) as u32 ^ counter[3] ^ key[1],
            first as u32,
        ];
        key = [key[0].wrapping_add(0x9e37_79b9), key[1].wrapping_add(0xbb67_ae85)];
    }
    counter
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn philox_matches_the_published_vectors() {
        // Known answers of the Random123 distribution.
        assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox([u32::MAX; 4], [u32::MAX; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
    }

    #[test]
    fn erf_has_known_values() {
        for (x, y) in [(0.5, 0.520_499_877_813_046_5), (1.0, 0.842_700_792_949_714_9), (3.0, 0.999_977_909_503_001_4)] {
            assert!((erf(x) - y).abs() < 1e-14 && (erf(-x) + y).abs() < 1e-14, "{x}: {}", erf(x));
        }
    }
}
