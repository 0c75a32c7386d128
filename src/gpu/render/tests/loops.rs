use super::*;
use crate::error::Error;
use crate::graph::{Binary, ReduceOp, Unary};
use crate::plan::{Level, LoopKernel, Phase};

pub(super) fn map(axes: &[usize], code: Code, stores: Vec<Store>) -> Body {
    let phase = Phase { level: Level::Outer, tape: code.0, reductions: Vec::new(), stores };
    Body::Loop(LoopKernel { axes: axes.to_vec(), outer: axes.len(), phases: vec![phase] })
}

/// Shapes whose rows are whole fours, are not, and whose total is not.
const SHAPES: [&[usize]; 5] = [&[1], &[64], &[67], &[5, 12], &[3, 7, 5]];

#[test]
fn every_type_is_copied_and_cast_to_every_other() {
    for from in DType::ALL {
        for to in DType::ALL {
            for shape in SHAPES {
                let count = shape.iter().product();
                let mut case = Case::new();
                let input = case.data(from, count);
                let output = case.data(to, count);
                let strides: Vec<i64> = crate::Shape::from(shape).strides().iter().map(|&s| s as i64).collect();
                let mut code = Code::default();
                let x = code.load(from, input, affine(&strides, 0));
                let y = code.push(to, InstrOp::Cast(x));
                case.check(map(shape, code, vec![store(output, affine(&strides, 0), y)]));
            }
        }
    }
}

#[test]
fn casts_saturate_and_round_as_rust_does() {
    let values = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        3e9,
        -3e9,
        1e20,
        -0.9,
        0.0,
        255.5,
        300.0,
        65519.9,
        65520.0,
        1e-7,
        6e-8,
        1e-5,
        -2.5,
    ];
    for to in DType::ALL {
        let mut case = Case::new();
        let input = case.buffer(DType::F32, values);
        let output = case.data(to, values.len());
        let mut code = Code::default();
        let x = code.load(DType::F32, input, Ix::axis(0));
        let y = code.push(to, InstrOp::Cast(x));
        case.check(map(&[values.len()], code, vec![store(output, Ix::axis(0), y)]));
    }
}

const FLOATS: [f64; 24] = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 1.5, 3.0, 0.01, -0.01, 0.3, -0.7, 0.39, 0.41, 1.01, 5.0, -5.0, 88.0,
    1e-3, 3.7, 7.0, -88.0,
];
const SPECIAL: [f64; 4] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0];

fn result(op: Binary, dtype: DType) -> DType {
    if op.is_comparison() { DType::Bool } else { dtype }
}

#[test]
fn every_unary_operation() {
    for row in &crate::ops::elementwise::UNARY {
        let (op, names) = (&row.op, row.wgsl);
        for dtype in DType::ALL {
            if names[crate::gpu::render::scalar::Register::of(dtype) as usize].is_empty() {
                continue;
            }
            let exact_only = matches!(op, Unary::Log | Unary::Rsqrt | Unary::Sqrt);
            let values: Vec<f64> = match dtype {
                DType::F32 | DType::F16 => {
                    let positive = FLOATS.iter().copied().filter(|x| !exact_only || *x > 0.0);
                    let special = matches!(
                        op,
                        Unary::Neg
                            | Unary::Abs
                            | Unary::Sign
                            | Unary::IsFinite
                            | Unary::IsNan
                            | Unary::Sqrt
                            | Unary::Tanh
                            | Unary::Sigmoid
                    );
                    let values = positive.filter(|x| *op != Unary::Recip || *x != 0.0);
                    let values =
                        values.filter(|x| dtype == DType::F32 || x.abs() < 10.0 && (x.abs() > 0.1 || *x == 0.0));
                    values.chain(SPECIAL.into_iter().filter(|_| special)).collect()
                }
                DType::I32 => vec![0.0, 1.0, -1.0, 5.0, -2147483648.0, 2147483647.0],
                DType::U32 | DType::U8 => vec![0.0, 1.0, 7.0, 200.0],
                DType::Bool => vec![0.0, 1.0],
            };
            let mut case = Case::new();
            case.tolerance = 1e-4;
            let to = if matches!(op, Unary::IsFinite | Unary::IsNan) { DType::Bool } else { dtype };
            let (input, count) = (case.buffer(dtype, values.iter().copied()), values.len());
            let output = case.data(to, count);
            for axes in [vec![count], vec![count, 1]] {
                let mut code = Code::default();
                let x = code.load(dtype, input, Ix::axis(0));
                let y = code.push(to, InstrOp::Unary(*op, x));
                case.check(map(&axes, code, vec![store(output, Ix::axis(0), y)]));
            }
        }
    }
}

#[test]
fn every_binary_operation() {
    for row in &crate::ops::elementwise::BINARY {
        let (op, names) = (&row.op, row.wgsl);
        for dtype in DType::ALL {
            if names[crate::gpu::render::scalar::Register::of(dtype) as usize].is_empty() {
                continue;
            }
            let (left, right): (Vec<f64>, Vec<f64>) = match (dtype, op) {
                (DType::F32 | DType::F16, Binary::Pow) => {
                    let pairs = [
                        (2.0, 3.0),
                        (2.0, -1.5),
                        (-2.0, 3.0),
                        (-2.0, 2.0),
                        (0.0, 0.0),
                        (0.0, 2.0),
                        (-3.0, 0.0),
                        (9.0, 0.5),
                        (-2.0, 0.5),
                        (1.0, f64::NAN),
                    ];
                    pairs.into_iter().unzip()
                }
                (DType::F32 | DType::F16, _) => {
                    let values = [0.5, -1.5, 2.0, 7.0, -7.5, 0.25];
                    let nan = matches!(op, Binary::Max | Binary::Min);
                    let all: Vec<f64> = values.into_iter().chain(nan.then_some(f64::NAN)).collect();
                    all.iter().flat_map(|&a| all.iter().map(move |&b| (a, b))).unzip()
                }
                (DType::Bool, _) => [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)].into_iter().unzip(),
                (DType::I32, _) => {
                    let all = [0.0, 1.0, -1.0, 3.0, -7.0, 100_000.0, -2147483648.0];
                    all.iter().flat_map(|&a| all.iter().map(move |&b| (a, b))).unzip()
                }
                _ => {
                    let all = [0.0, 1.0, 3.0, 7.0, 250.0, 31.0];
                    all.iter().flat_map(|&a| all.iter().map(move |&b| (a, b))).unzip()
                }
            };
            let count = left.len();
            let mut case = Case::new();
            case.tolerance = 1e-4;
            let (left, right) = (case.buffer(dtype, left), case.buffer(dtype, right));
            let to = result(*op, dtype);
            let output = case.data(to, count);
            for axes in [vec![count], vec![count, 1]] {
                let mut code = Code::default();
                let a = code.load(dtype, left, Ix::axis(0));
                let b = code.load(dtype, right, Ix::axis(0));
                let y = code.push(to, InstrOp::Binary(*op, a, b));
                case.check(map(&axes, code, vec![store(output, Ix::axis(0), y)]));
            }
        }
    }
}

#[test]
fn padding_flipping_dilation_and_reshapes_are_index_maps() {
    for (rows, columns) in [(6usize, 8usize), (5, 9)] {
        let mut case = Case::new();
        let (r, c) = (rows as i64, columns as i64);
        let input = case.data(DType::F32, rows * columns);
        let bytes = case.data(DType::U8, rows * columns);
        let output = case.data(DType::F32, (rows + 3) * (columns + 3));
        let mut code = Code::default();
        // padded by 2 in front
        let (i, j) = (affine(&[1, 0], -2), affine(&[0, 1], -2));
        let inside = vec![Cond::InRange(i.clone(), r), Cond::InRange(j.clone(), c)];
        let padded = code.load_if(DType::F32, input, i.times(c).plus(&j), inside.clone());
        let packed = code.load_if(DType::U8, bytes, i.times(c).plus(&j), inside.clone());
        let packed = code.push(DType::F32, InstrOp::Cast(packed));
        // flipped, and every third row is a row of the input
        let flipped = affine(&[0, -1], c + 2);
        let rare = affine(&[1, 0], -1);
        let dilated = code.load_if(
            DType::F32,
            input,
            rare.div(3, &[rows + 3, columns + 3]).times(c).plus(&flipped),
            vec![
                Cond::Multiple(rare.clone(), 3),
                Cond::InRange(rare.div(3, &[rows + 3, columns + 3]), r),
                Cond::InRange(flipped, c),
            ],
        );
        let inside = code.push(DType::Bool, InstrOp::Valid(inside));
        let coordinate = code.push(DType::I32, InstrOp::Coord(affine(&[3, -2], -4)));
        let coordinate = code.push(DType::F32, InstrOp::Cast(coordinate));
        let zero = code.constant(DType::F32, f64::NEG_INFINITY);
        let sum = code.push(DType::F32, InstrOp::Binary(Binary::Add, padded, dilated));
        let sum = code.push(DType::F32, InstrOp::Binary(Binary::Add, sum, packed));
        let sum = code.push(DType::F32, InstrOp::Binary(Binary::Add, sum, coordinate));
        let y = code.push(DType::F32, InstrOp::Select(inside, sum, zero));
        case.check(map(&[rows + 3, columns + 3], code, vec![store(output, affine(&[c + 3, 1], 0), y)]));
    }
}

#[test]
fn broadcasts_transposes_and_in_place_updates() {
    for (rows, columns) in [(8usize, 12usize), (7, 5)] {
        let mut case = Case::new();
        let (r, c) = (rows as i64, columns as i64);
        let x = case.data(DType::F32, rows * columns);
        let bias = case.data(DType::F16, columns);
        let other = case.data(DType::F32, rows * columns);
        let mask = case.data(DType::Bool, rows * columns);
        let mut code = Code::default();
        let a = code.load(DType::F32, x, affine(&[c, 1], 0));
        let b = code.load(DType::F16, bias, affine(&[0, 1], 0));
        let b = code.push(DType::F32, InstrOp::Cast(b));
        let t = code.load(DType::F32, other, affine(&[1, r], 0));
        let sum = code.push(DType::F32, InstrOp::Binary(Binary::Add, a, b));
        let y = code.push(DType::F32, InstrOp::Binary(Binary::Add, sum, t));
        let positive = code.constant(DType::F32, 0.0);
        let positive = code.push(DType::Bool, InstrOp::Binary(Binary::Lt, positive, y));
        let stores = vec![store(x, affine(&[c, 1], 0), y), store(mask, affine(&[c, 1], 0), positive)];
        case.check(map(&[rows, columns], code, stores));
    }
}

/// Where they are large, what they read along another axis comes through workgroup memory.
#[test]
fn large_transposes_in_tiles() {
    for dtype in [DType::F32, DType::I32, DType::F16] {
        let mut case = Case::new();
        let [batch, rows, columns] = [3usize, 211, 257];
        let (r, c) = (rows as i64, columns as i64);
        let [x, y] = [(); 2].map(|()| case.data(dtype, batch * rows * columns));
        let output = case.data(dtype, batch * rows * columns);
        let mut code = Code::default();
        let turned = code.load(dtype, x, affine(&[r * c, 1, r], 0));
        let straight = code.load(dtype, y, affine(&[r * c, c, 1], 0));
        let again = code.load(dtype, y, affine(&[r * c, 1, r], 0));
        let sum = code.push(dtype, InstrOp::Binary(Binary::Add, turned, straight));
        let sum = code.push(dtype, InstrOp::Binary(Binary::Sub, sum, again));
        let body = map(&[batch, rows, columns], code, vec![store(output, affine(&[r * c, c, 1], 0), sum)]);
        let launches = render(&case.plan, &case.kernel(&body), &capabilities(false, true)).expect("it renders");
        assert_eq!(launches[0].wgsl.contains("tile1["), dtype != DType::F16, "{}", launches[0].wgsl);
        case.check(body);
    }
}

/// Maps that transpose take their points in blocks, some of which reach over the ends.
#[test]
fn transposes_in_blocks() {
    for [batch, rows, columns] in [[1usize, 16, 16], [1, 33, 20], [3, 50, 36], [2, 16, 100]] {
        for dtype in DType::ALL {
            let mut case = Case::new();
            let (r, c) = (rows as i64, columns as i64);
            let x = case.data(dtype, batch * rows * columns);
            let output = case.data(dtype, batch * rows * columns);
            let mut code = Code::default();
            let t = code.load(dtype, x, affine(&[r * c, 1, r], 0));
            let body = map(&[batch, rows, columns], code, vec![store(output, affine(&[r * c, c, 1], 0), t)]);
            let launches = render(&case.plan, &case.kernel(&body), &capabilities(false, false));
            if dtype != DType::F16 {
                let text = &launches.expect("it renders")[0].wgsl;
                assert!(text.contains("let written ="), "{text}");
            }
            case.check(body);
        }
    }
}

#[test]
fn a_piece_of_an_arena_leaves_its_neighbours_alone() {
    for dtype in DType::ALL {
        for offset in [0, 8, 3] {
            let mut case = Case::new();
            let input = case.data(dtype, 13);
            let arena = case.data(dtype, 40);
            let mut code = Code::default();
            let x = code.load(dtype, input, Ix::axis(0));
            case.check(map(&[13], code, vec![store(arena, affine(&[1], offset), x)]));
        }
    }
}

#[test]
fn gathers_clamp_and_report() {
    for columns in [4usize, 3] {
        let mut case = Case::new();
        let table = case.data(DType::F32, 10 * columns);
        let index = case.buffer(DType::I32, [3.0, 9.0, -1.0, 10.0, 0.0]);
        let output = case.data(DType::F32, 5 * columns);
        let mut code = Code::default();
        let raw = code.load(DType::I32, index, affine(&[1, 0], 0));
        let value = code.push(DType::I32, InstrOp::CheckIndex { value: raw, bound: 10, site: 7 });
        let gather = InstrOp::Gather {
            buffer: table,
            base: affine(&[0, 1], 0),
            stride: columns as i64,
            value,
            valid: Vec::new(),
        };
        let y = code.push(DType::F32, gather);
        case.check(map(&[5, columns], code, vec![store(output, affine(&[columns as i64, 1], 0), y)]));
    }
    // Lanes behind the end report nothing: the padding holds no index.
    let mut case = Case::new();
    let index = case.buffer(DType::U32, [3.0, 9.0, 0.0, 1.0, 2.0]);
    let output = case.data(DType::U32, 5);
    let mut code = Code::default();
    let raw = code.load(DType::U32, index, Ix::axis(0));
    let value = code.push(DType::U32, InstrOp::CheckIndex { value: raw, bound: 10, site: 7 });
    case.check(map(&[5], code, vec![store(output, Ix::axis(0), value)]));
}

#[test]
fn random_bits_and_host_values_are_exact() {
    for axes in [vec![50usize], vec![3, 5]] {
        let mut case = Case::new();
        case.uniforms = vec![1, 2, 0xdead_beef, 3, 77, 1.5f32.to_bits()];
        let count = axes.iter().product();
        let output = case.data(DType::U32, count);
        let floats = case.data(DType::F32, count);
        let linear = if axes.len() == 1 { Ix::axis(0) } else { affine(&[5, 1], 0) };
        let mut code = Code::default();
        let seed = code.push(DType::U32, InstrOp::Uniform(2));
        let position = code.push(DType::U32, InstrOp::Uniform(4));
        let y = code.push(DType::U32, InstrOp::Random { counter: linear.clone(), stream: 5, seed, position });
        let z = code
            .push(DType::U32, InstrOp::Random { counter: linear.plus(&Ix::constant(3)), stream: 5, seed, position });
        let y = code.push(DType::U32, InstrOp::Binary(Binary::Xor, y, z));
        let rate = code.push(DType::F32, InstrOp::Uniform(5));
        let bits = code.push(DType::U32, InstrOp::Bitcast(rate));
        let y = code.push(DType::U32, InstrOp::Binary(Binary::Xor, y, bits));
        case.check(map(&axes, code, vec![store(output, linear.clone(), y), store(floats, linear, rate)]));
    }
}

/// Four words are drawn at once, wherever they are written to.
#[test]
fn random_words_that_are_written_turned() {
    for axes in [[7usize, 30], [5, 8], [3, 7]] {
        let mut case = Case::new();
        case.uniforms = vec![9, 4];
        let [rows, columns] = axes.map(|size| size as i64);
        let [linear, turned] = [affine(&[columns, 1], 0), affine(&[1, rows], 0)];
        let outputs = [(); 2].map(|()| case.data(DType::U32, axes.iter().product()));
        let mut code = Code::default();
        let seed = code.push(DType::U32, InstrOp::Uniform(0));
        let position = code.push(DType::U32, InstrOp::Uniform(1));
        let word = code.push(DType::U32, InstrOp::Random { counter: linear.clone(), stream: 2, seed, position });
        let body = map(&axes, code, vec![store(outputs[0], turned, word), store(outputs[1], linear, word)]);
        let launch = &render(&case.plan, &case.kernel(&body), &capabilities(false, false)).expect("it renders")[0];
        assert!(!launch.wgsl.contains("fn random_word"), "{}", launch.wgsl);
        case.check(body);
    }
}

/// `outputs[n] = reduction n of x over the inner axes`, for all reductions that the type has.
fn reduction(case: &mut Case, dtype: DType, axes: &[usize], outer: usize, strides: &[i64]) -> Body {
    let ops: &[ReduceOp] = if dtype.is_float() || dtype == DType::Bool {
        &[ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min]
    } else {
        &[ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min]
    };
    let rows = axes[..outer].iter().product();
    let input = case.data(dtype, axes.iter().product::<usize>().max(1));
    let mut row = Code::default();
    let x = row.load(dtype, input, affine(strides, 0));
    let mut last = Code::default();
    let mut stores = Vec::new();
    let outer_axes: Vec<i64> = crate::Shape::from(&axes[..outer]).strides().iter().map(|&s| s as i64).collect();
    for number in 0..ops.len() {
        let value = last.push(dtype, InstrOp::Reduced(number));
        let output = case.data(dtype, rows);
        stores.push(store(output, affine(&outer_axes, 0), value));
    }
    let reductions = ops.iter().map(|&op| (op, x)).collect();
    let phases = vec![
        Phase { level: Level::Inner, tape: row.0, reductions, stores: Vec::new() },
        Phase { level: Level::Outer, tape: last.0, reductions: Vec::new(), stores },
    ];
    Body::Loop(LoopKernel { axes: axes.to_vec(), outer, phases })
}

#[test]
fn reductions_of_all_types_and_layouts() {
    let reduction = |dtype: DType, axes: &[usize], outer: usize, strides: &[i64]| {
        let mut case = Case::new();
        let body = reduction(&mut case, dtype, axes, outer, strides);
        case.check(body);
    };
    for dtype in DType::ALL {
        // short and long rows, rows along both directions of the matrix, several inner axes, nothing to reduce
        reduction(dtype, &[6, 20], 1, &[20, 1]);
        reduction(dtype, &[8, 30], 1, &[1, 8]);
        reduction(dtype, &[3, 300], 1, &[300, 1]);
        reduction(dtype, &[70, 301], 1, &[301, 1]);
        reduction(dtype, &[80, 100], 1, &[1, 80]);
        reduction(dtype, &[5, 4, 6, 9], 2, &[4 * 54, 54, 9, 1]);
        reduction(dtype, &[5, 4, 25], 1, &[25, 125, 1]);
        reduction(dtype, &[4000], 0, &[1]);
        reduction(dtype, &[3, 0], 1, &[1, 1]);
    }
}

#[test]
fn long_sums_lose_nothing() {
    for (axes, outer) in [(vec![1usize, 1 << 18], 1), (vec![70, 16_384], 1)] {
        let mut case = Case::new();
        let input = case.buffer(DType::F32, (0..axes.iter().product()).map(|_| 1.0));
        let output = case.data(DType::F32, axes[0]);
        let mut row = Code::default();
        let x = row.load(DType::F32, input, affine(&[axes[1] as i64, 1], 0));
        let mut last = Code::default();
        let sum = last.push(DType::F32, InstrOp::Reduced(0));
        let phases = vec![
            Phase { level: Level::Inner, tape: row.0, reductions: vec![(ReduceOp::Sum, x)], stores: Vec::new() },
            Phase {
                level: Level::Outer,
                tape: last.0,
                reductions: Vec::new(),
                stores: vec![store(output, Ix::axis(0), sum)],
            },
        ];
        case.tolerance = 0.0;
        case.check(Body::Loop(LoopKernel { axes, outer, phases }));
    }
}

/// Of rows that a workgroup's threads can keep, each value is read once: in so many steps, written out.
#[test]
fn softmax_is_one_kernel() {
    for (rows, columns, to, read_once) in [
        (5usize, 12usize, DType::F32, None),
        (100, 37, DType::F32, Some(1)),
        (3, 1000, DType::F32, Some(4)),
        (2, 1030, DType::F32, Some(5)),
        (2, 9000, DType::F32, None),
        (100, 200, DType::F16, Some(1)),
        (4, 130, DType::F16, Some(3)),
    ] {
        let mut case = Case::new();
        let (input, output) = (case.data(DType::F32, rows * columns), case.data(to, rows * columns));
        let rows_out = case.data(DType::F32, rows);
        let at = affine(&[columns as i64, 1], 0);
        let f = DType::F32;
        let mut largest = Code::default();
        let x = largest.load(f, input, at.clone());
        let first =
            Phase { level: Level::Inner, tape: largest.0, reductions: vec![(ReduceOp::Max, x)], stores: Vec::new() };
        let shifted = || {
            let mut code = Code::default();
            let x = code.load(f, input, at.clone());
            let m = code.push(f, InstrOp::Reduced(0));
            let d = code.push(f, InstrOp::Binary(Binary::Sub, x, m));
            let e = code.push(f, InstrOp::Unary(Unary::Exp, d));
            (code, e)
        };
        let (sum, e) = shifted();
        let second =
            Phase { level: Level::Inner, tape: sum.0, reductions: vec![(ReduceOp::Sum, e)], stores: Vec::new() };
        let (mut divide, e) = shifted();
        let s = divide.push(f, InstrOp::Reduced(1));
        let y = divide.push(f, InstrOp::Binary(Binary::Div, e, s));
        let y = divide.push(to, InstrOp::Cast(y));
        let third = Phase {
            level: Level::Inner,
            tape: divide.0,
            reductions: Vec::new(),
            stores: vec![store(output, at.clone(), y)],
        };
        let mut log = Code::default();
        let s = log.push(f, InstrOp::Reduced(1));
        let l = log.push(f, InstrOp::Unary(Unary::Log, s));
        let fourth = Phase {
            level: Level::Outer,
            tape: log.0,
            reductions: Vec::new(),
            stores: vec![store(rows_out, Ix::axis(0), l)],
        };
        let phases = vec![first, second, third, fourth];
        let body = Body::Loop(LoopKernel { axes: vec![rows, columns], outer: 1, phases });
        for literal in [true, false] {
            case.plan.literal_sizes = literal;
            let launches = render(&case.plan, &case.kernel(&body), &capabilities(false, true)).expect("it renders");
            let reads = launches[0].wgsl.matches("= load").count();
            let steps = read_once.map_or(3, |steps: usize| if literal { steps } else { steps.next_power_of_two() });
            assert_eq!(reads, steps, "{rows}x{columns}\n{}", launches[0].wgsl);
        }
        case.check(body);
    }
}

#[test]
fn large_buffers_are_cut_into_windows() {
    for dtype in [DType::F32, DType::U8, DType::F16] {
        for axes in [vec![3000usize], vec![30, 100], vec![3, 7, 143]] {
            let count: usize = axes.iter().product();
            let strides: Vec<i64> = crate::Shape::from(axes.as_slice()).strides().iter().map(|&s| s as i64).collect();
            let mut case = Case::new();
            let input = case.data(dtype, count);
            let output = case.data(dtype, count);
            let mut code = Code::default();
            let reversed: Vec<i64> = strides.iter().map(|s| -s).collect();
            let a = code.load(dtype, input, affine(&strides, 0));
            let b = code.load(dtype, input, affine(&reversed, count as i64 - 1));
            let y = code.push(dtype, InstrOp::Binary(Binary::Max, a, b));
            let body = map(&axes, code, vec![store(output, affine(&strides, 0), y)]);
            let caps = Capabilities {
                max_binding_bytes: 1024,
                max_groups: 5,
                max_storage_buffers: 32,
                ..capabilities(true, false)
            };
            case.check_on(&body, &caps);
        }
    }
}

#[test]
fn loops_that_take_too_long_are_cut_with_the_same_bits() {
    let pieces = |axes: &[usize], outer: usize, strides: &[i64]| {
        let mut case = Case::new();
        let body = reduction(&mut case, DType::F32, axes, outer, strides);
        case.check_cut_by_time(&body, &capabilities(false, false))
    };
    assert!(pieces(&[70, 301], 1, &[301, 1]) >= 6, "a workgroup for each row");
    assert!(pieces(&[80, 400], 1, &[400, 1]) >= 6, "a workgroup for each row, in fours");
    assert!(pieces(&[90, 20], 1, &[20, 1]) >= 6, "an invocation for each row");
    // fewer columns would be given to workgroups, which add up in another order
    assert!(pieces(&[20_000, 70], 1, &[1, 20_000]) >= 6, "an invocation for each column, as many as the whole has");

    let mut case = Case::new();
    let (input, output) = (case.data(DType::F32, 3000), case.data(DType::F32, 3000));
    let mut code = Code::default();
    let x = code.load(DType::F32, input, affine(&[-100, -1], 2999));
    let y = code.push(DType::F32, InstrOp::Unary(Unary::Neg, x));
    let body = map(&[30, 100], code, vec![store(output, affine(&[100, 1], 0), y)]);
    assert!(case.check_cut_by_time(&body, &capabilities(false, false)) >= 6);
}

#[test]
fn reads_in_more_parts_than_there_are_bindings_are_an_error() {
    let mut case = Case::new();
    // 20,000 bytes: five windows, beside those of three outputs
    let body = reduction(&mut case, DType::F32, &[5000], 0, &[1]);
    let rendered = |max_storage_buffers| {
        let caps = Capabilities { max_binding_bytes: 4096, max_storage_buffers, ..capabilities(true, true) };
        render(&case.plan, &case.kernel(&body), &caps).map(drop)
    };
    assert!(rendered(8).is_ok());
    let error = rendered(7).expect_err("one binding too few");
    assert!(matches!(error, Error::BindingTooLarge { bytes: 20_000, limit_bytes: 4096, .. }), "{error}");
    assert!(error.to_string().contains("a smaller batch"), "{error}");
}

#[test]
fn the_text_does_not_depend_on_sizes() {
    let text = |rows: usize, columns: usize| {
        let mut case = Case::new();
        let input = case.data(DType::F32, rows * columns);
        let output = case.data(DType::F32, rows * columns);
        let mut code = Code::default();
        let x = code.load(DType::F32, input, affine(&[1, rows as i64], 0));
        let body = map(&[rows, columns], code, vec![store(output, affine(&[columns as i64, 1], 0), x)]);
        render(&case.plan, &case.kernel(&body), &capabilities(true, true)).expect("it renders")[0].wgsl.clone()
    };
    assert_eq!(text(8, 16), text(12, 20));
    assert_eq!(text(32, 32), text(40, 24)); // large enough for blocks
    assert_eq!(text(7, 5), text(11, 33));
}

#[test]
fn names_of_values_are_no_types() {
    // value 32 is a load at indices of its own
    let mut case = Case::new();
    let (source, target) = (case.data(DType::F32, 80), case.data(DType::F32, 40));
    let mut code = Code::default();
    let loads: Vec<ValueId> = (0..34).map(|first| code.load(DType::F32, source, affine(&[1, 2], first))).collect();
    let sum = code.push(DType::F32, InstrOp::Binary(Binary::Add, loads[32], loads[16]));
    case.check(map(&[5, 8], code, vec![store(target, affine(&[8, 1], 0), sum)]));
}
