//! Rows, columns, cut rows, several phases.

use super::*;

/// `out[outer] = op over inner of x`, where x lies with its axes in the order `layout`.
fn reduce(axes: &[usize], outer_count: usize, layout: &[usize], op: ReduceOp, dtype: DType) -> Body {
    let mut code = Code::default();
    let x = code.load_if(0, &linear(axes, layout), &[], dtype);
    let sum = inner(code, &[(op, x)], Vec::new());
    let mut code = Code::default();
    let result = code.push(InstrOp::Reduced(0), dtype);
    let order: Vec<usize> = (0..outer_count).collect();
    let last = outer(code, vec![store(1, &linear(axes, &order), result)]);
    Body::Loop(LoopKernel { axes: axes.to_vec(), outer: outer_count, phases: vec![sum, last] })
}

fn check_reduce(axes: &[usize], outer_count: usize, layout: &[usize], op: ReduceOp, dtype: DType) {
    let points = axes[..outer_count].iter().product();
    let data = [Data::random(dtype, axes.iter().product()), Data::zeros(dtype, points)];
    check(vec![reduce(axes, outer_count, layout, op, dtype)], &data, 1e-4);
}

#[test]
fn rows_columns_and_cut_rows() {
    let shapes: [(&[usize], usize); 14] = [
        (&[1, 5000], 1),
        (&[3, 2051], 1),
        (&[15, 70_003], 1),
        (&[7, 5], 1),
        (&[300, 3], 1),
        (&[50, 64], 1),
        (&[9, 1000], 1),
        (&[5, 1500], 1),
        (&[3, 40_000], 1),
        (&[70_001], 0),
        (&[64, 3000], 1),
        (&[700, 200], 1),
        (&[1100, 80], 1),
        (&[4, 16, 3, 50], 2),
    ];
    for (axes, count) in shapes {
        let rank = axes.len();
        let rows: Vec<usize> = (0..rank).collect();
        let columns: Vec<usize> = (count..rank).chain(0..count).collect();
        check_reduce(axes, count, &rows, ReduceOp::Sum, DType::F32);
        check_reduce(axes, count, &columns, ReduceOp::Sum, DType::F32);
        check_reduce(axes, count, &columns, ReduceOp::Max, DType::F32);
    }
}

#[test]
fn what_is_the_same_everywhere_is_summed_beside_what_is_not() {
    for axes in [[1, 5000], [3, 5000], [3, 70]] {
        let row = Ix::axis(0);
        let mut code = Code::default();
        let [x, same] = [code.load(0, &linear(&axes, &[0, 1])), code.load(1, &Ix::constant(1))];
        let literal = code.constant(2.0);
        let sums = inner(code, &[(ReduceOp::Sum, x), (ReduceOp::Sum, same), (ReduceOp::Sum, literal)], Vec::new());
        let mut code = Code::default();
        let stores = (0..3).map(|number| {
            let sum = code.push(InstrOp::Reduced(number), DType::F32);
            store(2, &row.times(3).plus(&Ix::constant(number as i64)), sum)
        });
        let stores = stores.collect();
        let last = outer(code, stores);
        let body = Body::Loop(LoopKernel { axes: axes.to_vec(), outer: 1, phases: vec![sums, last] });
        let data = [
            Data::random(DType::F32, axes[0] * axes[1]),
            Data::random(DType::F32, 2),
            Data::zeros(DType::F32, 3 * axes[0]),
        ];
        check(vec![body], &data, 1e-4);
    }
}

#[test]
fn every_operation_on_every_type() {
    for dtype in DType::ALL {
        for op in [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min, ReduceOp::Prod] {
            check_reduce(&[31, 17], 1, &[0, 1], op, dtype);
            check_reduce(&[31, 17], 1, &[1, 0], op, dtype);
            if !(dtype.is_float() && op == ReduceOp::Prod) {
                check_reduce(&[3, 2000], 1, &[0, 1], op, dtype);
            }
        }
    }
}

#[test]
fn nothing_to_reduce_gives_the_identity() {
    for op in [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min, ReduceOp::Prod] {
        check_reduce(&[40, 0], 1, &[0, 1], op, DType::F32);
        check_reduce(&[40, 0], 1, &[0, 1], op, DType::I32);
        check_reduce(&[0, 40], 1, &[0, 1], op, DType::F32);
    }
}

#[test]
fn nan_wins_in_extrema() {
    let mut data = Data::random(DType::F32, 3000);
    data.values[1234] = f64::NAN;
    for op in [ReduceOp::Max, ReduceOp::Min] {
        let body = reduce(&[3000], 0, &[0], op, DType::F32);
        let data = [data.clone(), Data::zeros(DType::F32, 1)];
        let plan = Arc::new(plan(vec![body], &data));
        let (results, _) = run(&|| Compiled::new(Arc::clone(&plan)), &data, &[]);
        assert!(results[1].values[0].is_nan());
    }
}

#[test]
fn sixteen_million_ones_are_counted_exactly() {
    let len = 16 << 20;
    let data = [Data { dtype: DType::F32, values: vec![1.0; len] }, Data::zeros(DType::F32, 1)];
    let plan = plan(vec![reduce(&[len], 0, &[0], ReduceOp::Sum, DType::F32)], &data);
    let (mut bound, memories) = bind(&plan, &data);
    bound.run(&[], &AtomicU32::new(0));
    assert_eq!(Data::from_memory(DType::F32, &memories[1]).values, [len as f64]);
}

/// Softmax over the inner axes, with the row's extremum stored too.
pub(super) fn softmax(axes: &[usize], outer_count: usize, layout: &[usize]) -> Body {
    let at = linear(axes, layout);
    let mut code = Code::default();
    let x = code.load(0, &at);
    let maximum = inner(code, &[(ReduceOp::Max, x)], Vec::new());
    let shifted = |code: &mut Code| {
        let x = code.load(0, &at);
        let maximum = code.push(InstrOp::Reduced(0), DType::F32);
        let difference = code.binary(Binary::Sub, x, maximum);
        code.unary(Unary::Exp, difference)
    };
    let mut code = Code::default();
    let e = shifted(&mut code);
    let sum = inner(code, &[(ReduceOp::Sum, e)], Vec::new());
    let mut code = Code::default();
    let e = shifted(&mut code);
    let sum_value = code.push(InstrOp::Reduced(1), DType::F32);
    let quotient = code.binary(Binary::Div, e, sum_value);
    let last = inner(code, &[], vec![store(1, &at, quotient)]);
    let mut code = Code::default();
    let maximum_value = code.push(InstrOp::Reduced(0), DType::F32);
    let order: Vec<usize> = (0..outer_count).collect();
    let extremum = outer(code, vec![store(2, &linear(axes, &order), maximum_value)]);
    Body::Loop(LoopKernel { axes: axes.to_vec(), outer: outer_count, phases: vec![maximum, sum, last, extremum] })
}

#[test]
fn softmax_over_rows_and_columns() {
    let shapes: [(&[usize], usize); 8] = [
        (&[13, 10], 1),
        (&[40, 64], 1),
        (&[3, 1024], 1),
        (&[5, 1500], 1),
        (&[2, 50_000], 1),
        (&[100, 400], 1),
        (&[1200, 33], 1),
        (&[6, 20, 9], 2),
    ];
    for (axes, count) in shapes {
        let rank = axes.len();
        let rows: Vec<usize> = (0..rank).collect();
        let columns: Vec<usize> = (count..rank).chain(0..count).collect();
        for layout in [rows, columns] {
            let len: usize = axes.iter().product();
            let points = axes[..count].iter().product();
            let data = [Data::random(DType::F32, len), Data::zeros(DType::F32, len), Data::zeros(DType::F32, points)];
            check(vec![softmax(axes, count, &layout)], &data, 1e-6);
        }
    }
}

#[test]
fn a_wave_of_large_kernels_runs_side_by_side() {
    let axes = [400, 500];
    let data = [Data::random(DType::F32, 200_000), Data::zeros(DType::F32, 400), Data::zeros(DType::F32, 400)];
    let mut second = reduce(&axes, 1, &[1, 0], ReduceOp::Max, DType::F32);
    let Body::Loop(kernel) = &mut second else { unreachable!("it is a loop") };
    kernel.phases[1].stores[0].buffer = 2;
    let mut plan = plan(vec![reduce(&axes, 1, &[0, 1], ReduceOp::Sum, DType::F32), second], &data);
    let run = |plan: &Plan| {
        let (mut bound, memories) = bind(plan, &data);
        bound.profile_kernels(true);
        bound.run(&[], &AtomicU32::new(0));
        let kernels = bound.kernel_times();
        assert!(kernels.len() == 2 && kernels.iter().all(|kernel| kernel.milliseconds > 0.0), "{kernels:?}");
        assert!(bound.kernel_times().is_empty(), "they were taken");
        assert!(bound.stage_times().get(Stage::Forward).is_some_and(|time| time.milliseconds > 0.0));
        memories.iter().map(|memory| memory.read::<u8>(0, memory.bytes())).collect::<Vec<_>>()
    };
    let one_by_one = run(&plan);
    plan.waves = std::iter::once(0..2).collect();
    assert!(run(&plan) == one_by_one);
}
