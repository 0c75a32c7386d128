//! Every operation on every type it is for.

use super::*;
use crate::cpu::ahead::Ahead;
use crate::cpu::elementwise::{self, Arg, Kind, Target, are_pair};

/// `out[i] = f(x[i], y[i])` over `len` elements.
fn apply(dtype: DType, out: DType, values: [Data; 2], f: impl FnOnce(&mut Code, ValueId, ValueId) -> ValueId) {
    let len = values[0].values.len();
    let axes = [len];
    let mut code = Code::default();
    let x = code.load_if(0, &Ix::axis(0), &[], dtype);
    let y = code.load_if(1, &Ix::axis(0), &[], dtype);
    let value = f(&mut code, x, y);
    let [x, y] = values;
    check(vec![map(&axes, code, vec![store(2, &Ix::axis(0), value)])], &[x, y, Data::zeros(out, len)], 2e-6);
}

/// Values worth trying, and ordinary ones.
fn samples(dtype: DType, shift: usize) -> Data {
    let mut data = Data::random(dtype, 1337);
    let special: &[f64] = match dtype {
        DType::F32 | DType::F16 => &[0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY],
        DType::I32 => &[0.0, 1.0, -1.0, 31.0, 2_147_483_647.0, -2_147_483_648.0],
        DType::U32 => &[0.0, 1.0, 31.0, 33.0, 4_294_967_295.0],
        DType::U8 => &[0.0, 1.0, 255.0],
        DType::Bool => &[0.0, 1.0],
    };
    for i in 0..special.len() * special.len() {
        data.values[i] = special[if shift == 0 { i / special.len() } else { i % special.len() }];
    }
    data
}

#[test]
fn unary_operations() {
    use Unary as U;
    let floats = [
        U::Neg,
        U::Abs,
        U::Sign,
        U::Exp,
        U::Expm1,
        U::Log,
        U::Log1p,
        U::Sqrt,
        U::Rsqrt,
        U::Recip,
        U::Sin,
        U::Cos,
        U::Tanh,
        U::Erf,
        U::Sigmoid,
        U::Floor,
        U::Ceil,
        U::Round,
    ];
    for dtype in [DType::F32, DType::F16] {
        for op in floats {
            let mut data = samples(dtype, 0);
            if op == Unary::Erf || op == Unary::Sin || op == Unary::Cos {
                data.values.iter_mut().filter(|value| value.is_infinite()).for_each(|value| *value = 0.25);
            }
            apply(dtype, dtype, [data.clone(), data], |code, x, _| code.push(InstrOp::Unary(op, x), dtype));
        }
        for op in [U::IsFinite, U::IsNan] {
            let data = samples(dtype, 0);
            apply(dtype, DType::Bool, [data.clone(), data], |code, x, _| code.push(InstrOp::Unary(op, x), DType::Bool));
        }
    }
    for dtype in [DType::I32, DType::U32] {
        for op in [U::Neg, U::Sign, U::Floor] {
            let data = samples(dtype, 0);
            apply(dtype, dtype, [data.clone(), data], |code, x, _| code.push(InstrOp::Unary(op, x), dtype));
        }
    }
    let data = Data::random(DType::Bool, 200);
    apply(DType::Bool, DType::Bool, [data.clone(), data], |code, x, _| {
        code.push(InstrOp::Unary(Unary::Not, x), DType::Bool)
    });
}

#[test]
fn large_arguments_of_sine_and_cosine() {
    let data = Data::new(DType::F32, [1e5, 3e6, -1e9, 7e20]);
    for op in [Unary::Sin, Unary::Cos] {
        apply(DType::F32, DType::F32, [data.clone(), data.clone()], |code, x, _| code.unary(op, x));
    }
}

#[test]
fn binary_operations() {
    use Binary as B;
    let comparisons = [B::Eq, B::Ne, B::Lt, B::Le];
    for dtype in DType::ALL {
        let ops: &[B] = match dtype {
            DType::F32 | DType::F16 => &[B::Add, B::Sub, B::Mul, B::Div, B::Rem, B::Pow, B::Atan2, B::Max, B::Min],
            DType::Bool => &[B::Add, B::Mul, B::Max, B::Min, B::And, B::Or, B::Xor],
            _ => &[B::Add, B::Sub, B::Mul, B::Div, B::Rem, B::Max, B::Min, B::And, B::Or, B::Xor, B::Shl, B::Shr],
        };
        for &op in ops.iter().chain(&comparisons) {
            let out = if op.is_comparison() { DType::Bool } else { dtype };
            let (mut a, mut b) = (samples(dtype, 0), samples(dtype, 1));
            if op == B::Pow {
                a.values.iter_mut().for_each(|value| *value = value.abs());
            }
            if dtype == DType::I32 && matches!(op, B::Div | B::Rem) {
                // i32::MIN / -1 overflows: wraps here, and is whatever it is elsewhere.
                b.values.iter_mut().filter(|value| **value == -1.0).for_each(|value| *value = 2.0);
            }
            if op == B::Shl || op == B::Shr {
                b.values.iter_mut().for_each(|value| *value = value.abs() % 32.0);
            }
            apply(dtype, out, [a, b], |code, x, y| code.push(InstrOp::Binary(op, x, y), out));
        }
    }
}

#[test]
fn casts_between_all_types() {
    for from in DType::ALL {
        for to in DType::ALL {
            let mut data = samples(from, 0);
            if from.is_float() {
                data.values.extend([3e9, -3e9, 300.0, -5.0, 1e-30].map(|value| Scalar::new(from, value).to_f64()));
            }
            apply(from, to, [data.clone(), data], |code, x, _| code.push(InstrOp::Cast(x), to));
        }
    }
}

#[test]
fn select_bitcast_and_host_values() {
    let (a, b) = (samples(DType::F32, 0), samples(DType::F32, 1));
    apply(DType::F32, DType::F32, [a.clone(), b.clone()], |code, x, y| {
        let c = code.push(InstrOp::Binary(Binary::Lt, x, y), DType::Bool);
        code.push(InstrOp::Select(c, x, y), DType::F32)
    });
    apply(DType::F32, DType::U32, [a, b], |code, x, _| {
        let nan = code.push(InstrOp::Unary(Unary::IsNan, x), DType::Bool);
        let zero = code.constant(0.0);
        let x = code.push(InstrOp::Select(nan, zero, x), DType::F32);
        code.push(InstrOp::Bitcast(x), DType::U32)
    });
    let mut code = Code::default();
    let x = code.load(0, &Ix::axis(0));
    let rate = code.push(InstrOp::Uniform(1), DType::F32);
    let product = code.binary(Binary::Mul, x, rate);
    let body = map(&[77], code, vec![store(0, &Ix::axis(0), product)]);
    check_with(vec![body], &[Data::random(DType::F32, 77)], &[9, 0.25_f32.to_bits()], 1e-6);
}

#[test]
fn pairs_have_the_bits_of_one_after_the_other() {
    let special = [0.0, -0.0, 1.0, -1.5, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MIN_POSITIVE, 3e38];
    let ops = [Binary::Add, Binary::Sub, Binary::Mul, Binary::Max, Binary::Min, Binary::Div];
    let mut tried = 0;
    // no whole chunks among them; all triples of special values
    for len in [64, 65, 1000] {
        let words = |every: usize| -> Vec<u32> {
            (0..len).map(|i| special[i / every % special.len()] + (i / 729) as f32 * 0.37).map(f32::to_bits).collect()
        };
        let [a, b, c] = [1, 9, 81].map(words);
        fn arg(words: &[u32]) -> Arg<'_> {
            Arg::Words(words, 0)
        }
        for (first, second) in ops.into_iter().flat_map(|first| ops.map(|second| (first, second))) {
            for swapped in [false, true].into_iter().filter(|_| are_pair(first, second)) {
                let [mut between, mut expected, mut found] = [(); 3].map(|()| vec![0; len]);
                let (arch, mut ahead) = (pulp::Arch::new(), Ahead::default());
                fn target(words: &mut [u32]) -> Target<'_> {
                    let len = words.len();
                    Target::Words { words, rows: 1, len, pitch: 0 }
                }
                elementwise::binary(
                    arch,
                    (first, Kind::Float),
                    &mut target(&mut between),
                    [arg(&a), arg(&b)],
                    &mut ahead,
                );
                let (x, y) = if swapped { (&c, &between) } else { (&between, &c) };
                elementwise::binary(
                    arch,
                    (second, Kind::Float),
                    &mut target(&mut expected),
                    [arg(x), arg(y)],
                    &mut ahead,
                );
                let operands = [&a, &b, &c].map(|words| arg(words));
                elementwise::pair(arch, ([first, second], swapped), &mut target(&mut found), operands);
                let same = |(&a, &b): (&u32, &u32)| a == b || [a, b].iter().all(|&bits| f32::from_bits(bits).is_nan());
                assert!(expected.iter().zip(&found).all(same), "{first:?} {second:?} {swapped} {len}");
                tried += 1;
            }
        }
    }
    assert_eq!(tried, 3 * 2 * (3 * 4 + 1));
}

#[test]
fn what_is_overwritten_is_changed_once() {
    // the last chunk of a strip is computed twice
    for len in [1, 63, 64, 100, 1000, 1337, 2100] {
        let mut code = Code::default();
        let x = code.load(0, &Ix::axis(0));
        let two = code.constant(2.0);
        let one = code.constant(1.0);
        let doubled = code.binary(Binary::Mul, x, two);
        let value = code.binary(Binary::Add, doubled, one);
        let mut other = Code::default();
        let x_again = other.load(0, &Ix::axis(0));
        let root = other.unary(Unary::Exp, x_again);
        let less = other.binary(Binary::Sub, x_again, root);
        let bodies = vec![
            map(&[len], code, vec![store(0, &Ix::axis(0), value)]),
            map(&[len], other, vec![store(0, &Ix::axis(0), less)]),
        ];
        check(bodies, &[Data::random(DType::F32, len)], 2e-5);
    }
}
