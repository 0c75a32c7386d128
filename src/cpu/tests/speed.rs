//! Measurements: `cargo test --release -- --ignored --nocapture cpu::tests::speed`.
#![expect(clippy::print_stdout, reason = "a measurement is there to be read")]

use std::time::Instant;

use super::contracts::{Convolution, packed};
use super::*;
use crate::matmul_precision::MatmulPrecision;

/// Best milliseconds of several runs of one kernel over buffers of `lens` f32 elements.
fn measure(name: &str, body: Body, lens: &[usize], flops: f64, bytes: f64) {
    let data: Vec<Data> = lens.iter().map(|&len| Data::random(DType::F32, len)).collect();
    let plan = plan(vec![body], &data);
    let (mut bound, _memories) = bind(&plan, &data);
    let status = AtomicU32::new(0);
    let begin = Instant::now();
    let mut best = f64::INFINITY;
    let all_before = busy_milliseconds();
    let mut runs = 0;
    while runs < 5 || begin.elapsed().as_secs_f64() < 0.5 {
        let start = Instant::now();
        bound.run(&[], &status);
        best = best.min(start.elapsed().as_secs_f64() * 1e3);
        runs += 1;
    }
    let busy = (busy_milliseconds() - all_before) / f64::from(runs);
    let (compute, memory) = (flops / best / 1e6, bytes / best / 1e6);
    println!("{name:32} {best:9.4} ms (busy {busy:9.4}) {compute:8.1} GFLOP/s {memory:7.1} GB/s");
}

/// Time that the process's threads spent on a core, which other programs on the machine do not change much.
fn busy_milliseconds() -> f64 {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return f64::NAN };
    let nanoseconds = tasks.flatten().filter_map(|task| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<f64>().ok()
    });
    nanoseconds.sum::<f64>() / 1e6
}

fn gelu(code: &mut Code, x: ValueId) -> ValueId {
    let root = code.constant(std::f64::consts::FRAC_1_SQRT_2);
    let scaled = code.binary(Binary::Mul, x, root);
    let erf = code.unary(Unary::Erf, scaled);
    let one = code.constant(1.0);
    let sum = code.binary(Binary::Add, erf, one);
    let half = code.constant(0.5);
    let halved = code.binary(Binary::Mul, x, half);
    code.binary(Binary::Mul, halved, sum)
}

fn reduce_plain(axes: &[usize], outer_count: usize, layout: &[usize]) -> Body {
    let mut code = Code::default();
    let x = code.load(0, &linear(axes, layout));
    let sum = inner(code, &[(ReduceOp::Sum, x)], Vec::new());
    let mut code = Code::default();
    let result = code.push(InstrOp::Reduced(0), DType::F32);
    let order: Vec<usize> = (0..outer_count).collect();
    let last = outer(code, vec![store(1, &linear(axes, &order), result)]);
    Body::Loop(LoopKernel { axes: axes.to_vec(), outer: outer_count, phases: vec![sum, last] })
}

fn matmul([m, n, k]: [usize; 3], transposed: [bool; 2]) -> Body {
    let axes = [m, n, k];
    let operand = |buffer, order: [usize; 2]| {
        let mut code = Code::default();
        let value = code.load(buffer, &linear(&axes, &order));
        (code.0, value)
    };
    let mut epilogue = Code::default();
    let sum = epilogue.push(InstrOp::Accumulator, DType::F32);
    Body::Contract(ContractKernel {
        axes: axes.to_vec(),
        counts: [0, 1, 1, 1],
        lhs: operand(0, if transposed[0] { [2, 0] } else { [0, 2] }),
        rhs: operand(1, if transposed[1] { [1, 2] } else { [2, 1] }),
        epilogue: epilogue.0,
        stores: vec![store(2, &linear(&axes, &[0, 1]), sum)],
        accumulator: DType::F32,
        precision: MatmulPrecision::Highest,
    })
}

#[test]
#[ignore = "a measurement"]
fn loops() {
    let len = 16 << 20;
    let bytes = 4.0 * len as f64;
    for len in [1 << 10, 1 << 16, 1 << 20, len] {
        let mut code = Code::default();
        let x = code.load(0, &Ix::axis(0));
        let one = code.constant(1.0);
        let sum = code.binary(Binary::Add, x, one);
        let body = map(&[len], code, vec![store(1, &Ix::axis(0), sum)]);
        measure(&format!("x + 1, {len}"), body, &[len, len], len as f64, 8.0 * len as f64);
    }
    let mut code = Code::default();
    let x = code.load(0, &Ix::axis(0));
    let y = gelu(&mut code, x);
    measure("gelu", map(&[len], code, vec![store(1, &Ix::axis(0), y)]), &[len, len], 5.0 * len as f64, 2.0 * bytes);
    measure("sum of all", reduce_plain(&[len], 0, &[0]), &[len, 1], len as f64, bytes);
    measure("row sums 4096x4096", reduce_plain(&[4096, 4096], 1, &[0, 1]), &[len, 4096], len as f64, bytes);
    measure("column sums 4096x4096", reduce_plain(&[4096, 4096], 1, &[1, 0]), &[len, 4096], len as f64, bytes);
    measure("column sums 65536x256", reduce_plain(&[256, 65536], 1, &[1, 0]), &[len, 256], len as f64, bytes);
    let axes = [32, 64, 32, 32];
    let channels = [64, 32, 32, 32];
    measure(
        "channel sums 32x64x32x32",
        reduce_plain(&channels, 1, &[1, 0, 2, 3]),
        &[2 << 20, 64],
        (2 << 20) as f64,
        (8 << 20) as f64,
    );
    let mut code = Code::default();
    let x = code.load(0, &linear(&[4096, 4096], &[1, 0]));
    measure(
        "transpose 4096x4096",
        map(&[4096, 4096], code, vec![store(1, &linear(&[4096, 4096], &[0, 1]), x)]),
        &[len, len],
        0.0,
        2.0 * bytes,
    );
    let rows = [4096, 1024];
    let softmax = reductions::softmax(&rows, 1, &[0, 1]);
    measure("softmax 4096x1024", softmax, &[4 << 20, 4 << 20, 4096], 0.0, bytes / 2.0);
    // 2x2 max pooling
    let pool = [axes[0] * axes[1], 16, 16, 2, 2];
    let mut code = Code::default();
    let y = Ix::axis(1).times(2).plus(&Ix::axis(3));
    let x = Ix::axis(2).times(2).plus(&Ix::axis(4));
    let value = code.load(0, &Ix::linear(&[Ix::axis(0), y, x], &[pool[0], 32, 32]));
    let largest = inner(code, &[(ReduceOp::Max, value)], Vec::new());
    let mut code = Code::default();
    let result = code.push(InstrOp::Reduced(0), DType::F32);
    let last = outer(code, vec![store(1, &linear(&pool, &[0, 1, 2]), result)]);
    let body = Body::Loop(LoopKernel { axes: pool.to_vec(), outer: 3, phases: vec![largest, last] });
    measure("max pool 32x64x32x32", body, &[2 << 20, 1 << 19], 0.0, 10.0 * (1 << 20) as f64);
}

#[test]
#[ignore = "a measurement"]
fn products() {
    for size in [64, 128, 256, 512, 1024, 2048] {
        let lens = [size * size; 3];
        let flops = 2.0 * (size as f64).powi(3);
        measure(&format!("matmul {size}"), matmul([size; 3], [false, false]), &lens, flops, 0.0);
    }
    let flops = 2.0 * 1024f64.powi(3);
    measure("matmul 1024, transposed", matmul([1024; 3], [true, true]), &[1 << 20; 3], flops, 0.0);
    for [m, n, k] in [[70, 70, 30], [128, 512, 784], [128, 10, 512], [1, 4096, 4096]] {
        let flops = 2.0 * (m * n * k) as f64;
        measure(
            &format!("linear {m}x{k} · {k}x{n}"),
            matmul([m, n, k], [false, true]),
            &[m * k, n * k, m * n],
            flops,
            0.0,
        );
    }
}

#[test]
#[ignore = "a measurement"]
fn convolutions() {
    for (name, images, from, to, size) in [("64", 32, 64, 64, 32), ("16", 128, 16, 16, 32), ("3->16", 128, 3, 16, 32)] {
        let c = Convolution { images, from, to, size: [size; 2], window: 3, stride: 1, padding: 1 };
        let [x, weights, y] = c.lens();
        let flops = 2.0 * (y * from * 9) as f64;
        measure(&format!("conv {name}"), c.forward(), &[x, weights, y], flops, 0.0);
        measure(&format!("conv {name} weight gradient"), c.weight_gradient(), &[x, y, weights], flops, 0.0);
        measure(&format!("conv {name} input gradient"), c.input_gradient(), &[weights, y, x], flops, 0.0);
        let c = Convolution { stride: 2, ..c };
        let [x, weights, y] = c.lens();
        let flops = 2.0 * (y * from * 9) as f64;
        measure(&format!("conv {name} stride 2"), c.forward(), &[x, weights, y], flops, 0.0);
        measure(&format!("conv {name} stride 2 weights"), c.weight_gradient(), &[x, y, weights], flops, 0.0);
        measure(&format!("conv {name} stride 2 input"), c.input_gradient(), &[weights, y, x], flops, 0.0);
    }
}

/// Plain operands and, with a condition that always holds, operands that are packed, in turn: medians of the wall clock
/// and of the time on cores.
#[test]
#[ignore = "a measurement"]
fn plain_and_packed() {
    println!("{:38} {:>21} {:>21}", "milliseconds", "plain (busy)", "packed (busy)");
    let squares = [64, 128, 256, 512, 1024, 2048].map(|size| [size; 3]);
    let thin = [
        [1, 4096, 4096],
        [2, 4096, 4096],
        [1, 128, 64],
        [1, 1000, 512],
        [4096, 4096, 1],
        [4096, 1, 4096],
        [100_000, 1, 16],
        [64, 128, 64],
        [64, 10, 128],
        [128, 10, 512],
        [512, 10, 128],
        [10, 512, 128],
        [64, 1024, 784],
        [128, 512, 784],
        [4096, 64, 64],
        [4096, 256, 64],
        [64, 64, 65536],
        [4096, 4096, 8],
    ];
    for sizes in squares.into_iter().chain(thin) {
        let ways: &[[bool; 2]] = match sizes[0] {
            512 | 1024 | 1 | 2 | 64 => &[[false, false], [false, true], [true, false], [true, true]],
            _ => &[[false, true]],
        };
        for &transposed in ways {
            let [m, n, k] = sizes;
            let lens = [m * k, n * k, m * n];
            let data: Vec<Data> = lens.iter().map(|&len| Data::random(DType::F32, len)).collect();
            let Body::Contract(kernel) = matmul(sizes, transposed) else { unreachable!("a product") };
            let mut kernels =
                [kernel.clone(), packed(kernel)].map(|kernel| bind(&plan(vec![Body::Contract(kernel)], &data), &data));
            let status = AtomicU32::new(0);
            let mut times = [const { Vec::new() }; 2];
            let begin = Instant::now();
            let mut rounds = 0;
            while rounds < 9 || begin.elapsed().as_secs_f64() < 1.0 && rounds < 200 {
                for ((bound, _), times) in kernels.iter_mut().zip(&mut times) {
                    let repeat = 1 + 40_000_000 / (m * n * k);
                    let (start, busy) = (Instant::now(), busy_milliseconds());
                    for _ in 0..repeat {
                        bound.run(&[], &status);
                    }
                    let elapsed = start.elapsed().as_secs_f64() * 1e3;
                    times.push((elapsed / repeat as f64, (busy_milliseconds() - busy) / repeat as f64));
                }
                rounds += 1;
            }
            let text = times.map(|mut times| {
                let middle = times.len() / 2;
                let (_, &mut (wall, _), _) = times.select_nth_unstable_by(middle, |a, b| a.0.total_cmp(&b.0));
                let (_, &mut (_, busy), _) = times.select_nth_unstable_by(middle, |a, b| a.1.total_cmp(&b.1));
                format!("{wall:10.4} ({busy:9.4})")
            });
            println!("{:38} {} {}", format!("{sizes:?} {transposed:?}"), text[0], text[1]);
        }
    }
}
