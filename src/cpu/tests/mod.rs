//! Kernels built by hand, against the plan's interpreter in f64.

mod contracts;
mod elementwise;
mod maps;
mod plain;
mod reductions;
mod routines;
mod speed;
mod windows;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Blocks, Bound, Buffers, Compiled, Memory};
use crate::dtype::{DType, Scalar};
use crate::graph::{Binary, ReduceOp, Unary};
use crate::plan::interpret::{Rounding, interpret};
use crate::plan::*;
use crate::stage::Stage;

/// A tape under construction.
#[derive(Default)]
struct Code(Tape);

impl Code {
    fn push(&mut self, op: InstrOp, dtype: DType) -> ValueId {
        self.0.instrs.push(Instr { op, dtype });
        self.0.instrs.len() - 1
    }
    fn load(&mut self, buffer: BufferId, index: &Ix) -> ValueId {
        self.load_if(buffer, index, &[], DType::F32)
    }
    fn load_if(&mut self, buffer: BufferId, index: &Ix, valid: &[Cond], dtype: DType) -> ValueId {
        self.push(InstrOp::Load { buffer, index: index.clone(), valid: valid.to_vec() }, dtype)
    }
    fn constant(&mut self, value: f64) -> ValueId {
        self.push(InstrOp::Const(Scalar::new(DType::F32, value)), DType::F32)
    }
    fn unary(&mut self, op: Unary, a: ValueId) -> ValueId {
        self.push(InstrOp::Unary(op, a), DType::F32)
    }
    fn binary(&mut self, op: Binary, a: ValueId, b: ValueId) -> ValueId {
        self.push(InstrOp::Binary(op, a, b), DType::F32)
    }
}

/// Row-major position of all of a kernel's axes `which`.
fn linear(axes: &[usize], which: &[usize]) -> Ix {
    let coords: Vec<Ix> = which.iter().map(|&axis| Ix::axis(axis)).collect();
    let sizes: Vec<usize> = which.iter().map(|&axis| axes[axis]).collect();
    Ix::linear(&coords, &sizes)
}

fn store(buffer: BufferId, index: &Ix, value: ValueId) -> Store {
    Store { buffer, index: index.clone(), value }
}

fn outer(code: Code, stores: Vec<Store>) -> Phase {
    Phase { level: Level::Outer, tape: code.0, reductions: Vec::new(), stores }
}

fn inner(code: Code, reductions: &[(ReduceOp, ValueId)], stores: Vec<Store>) -> Phase {
    Phase { level: Level::Inner, tape: code.0, reductions: reductions.to_vec(), stores }
}

fn map(axes: &[usize], code: Code, stores: Vec<Store>) -> Body {
    Body::Loop(LoopKernel { axes: axes.to_vec(), outer: axes.len(), phases: vec![outer(code, stores)] })
}

/// Values of a buffer, and its type.
#[derive(Clone)]
struct Data {
    dtype: DType,
    values: Vec<f64>,
}

impl Data {
    fn new(dtype: DType, values: impl IntoIterator<Item = f64>) -> Self {
        Self { dtype, values: values.into_iter().map(|value| Scalar::new(dtype, value).to_f64()).collect() }
    }
    fn zeros(dtype: DType, len: usize) -> Self {
        Self { dtype, values: vec![0.0; len] }
    }
    /// Reproducible numbers in -2..2, or small integers.
    fn random(dtype: DType, len: usize) -> Self {
        let mut state = len as u64 * 7919 + 12345;
        let values = (0..len).map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let unit = (state >> 40) as f64 / (1u64 << 24) as f64;
            match dtype {
                DType::F32 | DType::F16 => unit * 4.0 - 2.0,
                DType::I32 => (unit * 41.0).floor() - 20.0,
                DType::U32 | DType::U8 => (unit * 41.0).floor(),
                DType::Bool => (unit * 2.0).floor(),
            }
        });
        Self::new(dtype, values)
    }
    fn to_bytes(&self) -> Vec<u8> {
        let bits = self.values.iter().map(|&value| Scalar::new(self.dtype, value).bits);
        bits.flat_map(|bits| bits.to_le_bytes()[..self.dtype.size_bytes()].to_vec()).collect()
    }
    fn from_memory(dtype: DType, memory: &Memory) -> Self {
        let bytes = memory.read::<u8>(0, memory.bytes());
        let size = dtype.size_bytes();
        let values = bytes.chunks_exact(size).map(|chunk| {
            let mut word = [0; 4];
            word[..size].copy_from_slice(chunk);
            Scalar { dtype, bits: u32::from_le_bytes(word) }.to_f64()
        });
        Self { dtype, values: values.collect() }
    }
}

/// A plan of one kernel (or of several, each a wave) whose buffers are all external.
fn plan(bodies: Vec<Body>, data: &[Data]) -> Plan {
    let buffers = data.iter().enumerate().map(|(number, data)| Buffer {
        dtype: data.dtype,
        elements: data.values.len(),
        place: Place::External(number),
        offset_bytes: 0,
        label: format!("b{number}"),
    });
    let kernels: Vec<Kernel> = bodies
        .into_iter()
        .map(|body| Kernel {
            label: "test".into(),
            stage: Stage::Forward,
            body,
            nodes: Vec::new(),
            values: Vec::new(),
            modules: Vec::new(),
            reads: Vec::new(),
            writes: Vec::new(),
            flops: 0,
            bytes: 0,
        })
        .collect();
    Plan {
        buffers: buffers.collect(),
        waves: (0..kernels.len()).map(|kernel| kernel..kernel + 1).collect(),
        kernels,
        externals: data.len(),
        ..Plan::default()
    }
}

/// Memories filled with `data`.
fn memories(blocks: &Blocks, data: &[Data]) -> Vec<Memory> {
    let memory = |data: &Data| {
        let bytes = data.to_bytes();
        let memory = blocks.zeroed(bytes.len() as u64).expect("memory for a test");
        memory.write(0, &bytes);
        memory
    };
    data.iter().map(memory).collect()
}

/// A bound plan and its memories, filled with `data`.
fn bind(plan: &Plan, data: &[Data]) -> (Bound, Vec<Memory>) {
    bind_compiled(&Compiled::new(Arc::new(plan.clone())), data)
}

fn bind_compiled(compiled: &Compiled, data: &[Data]) -> (Bound, Vec<Memory>) {
    let blocks = Blocks::default();
    let memories = memories(&blocks, data);
    (compiled.bind(&blocks, memories.iter().cloned()).expect("memory for a test"), memories)
}

/// Makes a plan ready and runs it natively, with fresh data, on and for several numbers of threads; all results
/// must have the same bits.
fn run(compile: &(dyn Fn() -> Compiled + Sync), data: &[Data], uniforms: &[u32]) -> (Vec<Data>, u32) {
    let status = AtomicU32::new(0);
    let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool of threads");
    let results: Vec<Vec<Vec<u8>>> = [(1, 1), (2, 2), (3, 3), (8, 8), (8, 1)]
        .into_iter()
        .map(|(made_for, threads)| {
            let (mut bound, memories) = bind_compiled(&pool(made_for).install(compile), data);
            pool(threads).install(|| bound.run(uniforms, &status));
            memories.iter().map(|memory| memory.read::<u8>(0, memory.bytes())).collect()
        })
        .collect();
    assert!(results.iter().all(|others| *others == results[0]), "results depend on the number of threads");
    let memories = results[0].iter().map(|bytes| {
        let memory = Blocks::default().zeroed(bytes.len() as u64).expect("memory for a test");
        memory.write(0, bytes);
        memory
    });
    let results = memories.zip(data).map(|(memory, data)| Data::from_memory(data.dtype, &memory)).collect();
    (results, status.load(Ordering::Relaxed))
}

/// Runs `bodies` natively and by the interpreter, and compares every buffer. Returns the results and the status word.
fn check(bodies: Vec<Body>, data: &[Data], tolerance: f64) -> (Vec<Data>, u32) {
    check_with(bodies, data, &[], tolerance)
}

fn check_with(bodies: Vec<Body>, data: &[Data], uniforms: &[u32], tolerance: f64) -> (Vec<Data>, u32) {
    let mut expected: Vec<Vec<f64>> = data.iter().map(|data| data.values.clone()).collect();
    let reference = plan(bodies.clone(), data);
    let kernels = reference.kernels.iter();
    let statuses = kernels.map(|kernel| interpret(&reference, kernel, &mut expected, uniforms, Rounding::None));
    let expected_status = statuses.max().unwrap_or(0);
    // operands of products that the plan only reads are packed beforehand, others piece by piece
    let plan = Arc::new(reference);
    let compile: [&(dyn Fn() -> Compiled + Sync); 2] =
        [&|| Compiled::with(Arc::clone(&plan), Buffers::of(&plan).all_changing()), &|| {
            Compiled::new(Arc::clone(&plan))
        }];
    let [by_pieces, beforehand] = compile.map(|compile| run(compile, data, uniforms));
    let compiled = compile.map(|compile| compile());
    // what would be turned over piece by piece may be summed in another order instead
    let [dots, dots_beforehand] = compiled.each_ref().map(|compiled| -> Vec<bool> {
        let by_dots = |kernel: &super::Kernel| kernel.products().iter().any(|product| product.by_dots);
        compiled.0.kernels.iter().map(by_dots).collect()
    });
    let differs = (0..dots.len()).filter(|&kernel| dots[kernel] != dots_beforehand[kernel]);
    let differs: Vec<BufferId> = differs.flat_map(|kernel| compiled[0].0.plan.kernels[kernel].body.writes()).collect();
    let bits = |(data, _): &(Vec<Data>, u32)| -> Vec<u64> {
        let same = data.iter().enumerate().filter(|(buffer, _)| !differs.contains(buffer));
        same.flat_map(|(_, data)| data.values.iter().map(|value| value.to_bits())).collect()
    };
    assert!(bits(&by_pieces) == bits(&beforehand), "packing beforehand changes bits");
    for (got, status) in [&by_pieces, &beforehand] {
        compare(got, &expected, tolerance);
        assert_eq!(*status, expected_status, "status word");
    }
    beforehand
}

fn compare(got: &[Data], expected: &[Vec<f64>], tolerance: f64) {
    for (number, (got, expected)) in got.iter().zip(expected).enumerate() {
        for (i, (&a, &b)) in got.values.iter().zip(expected).enumerate() {
            let scale = if got.dtype == DType::F16 { 1e-3 } else { tolerance };
            let close = got.dtype.is_float() && (a - b).abs() <= scale * (1.0 + b.abs());
            assert!(a == b || close || (a.is_nan() && b.is_nan()), "buffer {number}[{i}]: {a} instead of {b}");
        }
    }
}
