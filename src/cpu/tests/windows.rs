//! Windows without a filter of many channels: convolutions channel by channel, pools; and loops over joined values.

use super::*;
use crate::matmul_precision::MatmulPrecision;

/// Sizes: planes (of images and channels), height and width, window, stride, padding.
#[derive(Clone, Copy)]
struct Planes {
    planes: usize,
    size: [usize; 2],
    window: usize,
    stride: usize,
    padding: usize,
}

impl Planes {
    fn out(&self) -> [usize; 2] {
        self.size.map(|size| (size + 2 * self.padding - self.window) / self.stride + 1)
    }

    /// `x` at axis 0 and the places of two windows, of which axes `at` count places and points.
    fn input(&self, code: &mut Code, at: [[usize; 2]; 2]) -> (ValueId, Vec<Cond>) {
        let coords = [0, 1].map(|side| {
            let [place, point] = at[side].map(Ix::axis);
            place.times(self.stride as i64).plus(&point).plus(&Ix::constant(-(self.padding as i64)))
        });
        let valid: Vec<Cond> =
            coords.iter().zip(self.size).map(|(coord, size)| Cond::InRange(coord.clone(), size as i64)).collect();
        let valid = if self.padding > 0 { valid } else { Vec::new() };
        let [y, x] = coords;
        let index = Ix::linear(&[Ix::axis(0), y, x], &[self.planes, self.size[0], self.size[1]]);
        (code.load_if(0, &index, &valid, DType::F32), valid)
    }

    /// `op` over the windows; padding never is the result of a maximum or minimum.
    fn pool(&self, op: ReduceOp) -> Body {
        let ([h, w], mut code) = (self.out(), Code::default());
        let axes = [self.planes, h, w, self.window, self.window];
        let (mut value, valid) = self.input(&mut code, [[1, 3], [2, 4]]);
        if op != ReduceOp::Sum && !valid.is_empty() {
            let inside = code.push(InstrOp::Valid(valid), DType::Bool);
            let identity = code.push(InstrOp::Const(op.identity(DType::F32)), DType::F32);
            value = code.push(InstrOp::Select(inside, value, identity), DType::F32);
        }
        let sweep = inner(code, &[(op, value)], Vec::new());
        let mut code = Code::default();
        let result = code.push(InstrOp::Reduced(0), DType::F32);
        let half = code.constant(0.5);
        let halved = code.binary(Binary::Mul, result, half);
        let last = outer(code, vec![store(1, &linear(&axes, &[0, 1, 2]), halved)]);
        Body::Loop(LoopKernel { axes: axes.to_vec(), outer: 3, phases: vec![sweep, last] })
    }

    /// Each plane with a window of its own: the convolution, and the gradient of its weights.
    fn convolution(&self) -> [Body; 2] {
        let ([h, w], side) = (self.out(), self.window);
        let body = |axes: &[usize], at: [[usize; 2]; 2], other: &[usize], out: &[usize], buffers: [usize; 2]| {
            let (mut input, mut code, mut epilogue) = (Code::default(), Code::default(), Code::default());
            let (x, _) = self.input(&mut input, at);
            let value = code.load(buffers[0], &linear(axes, other));
            let sum = epilogue.push(InstrOp::Accumulator, DType::F32);
            Body::Contract(ContractKernel {
                axes: axes.to_vec(),
                counts: [1, 0, 2, 2],
                lhs: (code.0, value),
                rhs: (input.0, x),
                epilogue: epilogue.0,
                stores: vec![store(buffers[1], &linear(axes, out), sum)],
                accumulator: DType::F32,
                precision: MatmulPrecision::Highest,
            })
        };
        let forward = body(&[self.planes, h, w, side, side], [[1, 3], [2, 4]], &[0, 3, 4], &[0, 1, 2], [1, 2]);
        let backward = body(&[self.planes, side, side, h, w], [[3, 1], [4, 2]], &[0, 3, 4], &[0, 1, 2], [2, 1]);
        [forward, backward]
    }
}

#[test]
fn planes_with_windows_of_their_own_and_pools() {
    let plain = Planes { planes: 5, size: [14, 14], window: 3, stride: 1, padding: 1 };
    for planes in [
        plain,
        Planes { size: [7, 7], window: 5, padding: 2, planes: 19, ..plain },
        Planes { size: [4, 4], planes: 101, ..plain },
        Planes { size: [2, 2], planes: 30, ..plain },
        Planes { size: [5, 9], padding: 0, planes: 67, ..plain },
        Planes { size: [31, 43], window: 5, padding: 2, ..plain },
        Planes { size: [6, 90], window: 5, padding: 1, planes: 9, ..plain },
        Planes { size: [23, 11], window: 7, padding: 3, ..plain },
        Planes { size: [13, 70], padding: 0, ..plain },
        Planes { size: [9, 9], stride: 2, planes: 50, ..plain },
        Planes { size: [33, 41], window: 7, padding: 3, ..plain },
        Planes { size: [57, 56], stride: 2, ..plain },
        Planes { size: [56, 57], stride: 2, padding: 0, ..plain },
        Planes { size: [31, 43], window: 5, stride: 2, padding: 2, ..plain },
        Planes { size: [31, 44], window: 7, stride: 3, padding: 0, ..plain },
        Planes { size: [21, 50], window: 9, stride: 4, padding: 4, ..plain },
        Planes { size: [3, 600], window: 3, stride: 2, ..plain },
        Planes { size: [11, 3], planes: 200, ..plain },
        Planes { size: [60, 64], window: 25, padding: 0, planes: 2, ..plain }, // sums too long to be added one by one
        Planes { size: [55, 55], planes: 64, stride: 2, padding: 0, ..plain },
    ] {
        let [h, w] = planes.out();
        let lens = [planes.size[0] * planes.size[1], planes.window * planes.window, h * w];
        let [x, weights, y] = lens.map(|len| Data::random(DType::F32, planes.planes * len));
        let zeros = |data: &Data| Data::zeros(DType::F32, data.values.len());
        let [forward, gradient] = planes.convolution();
        check(vec![forward], &[x.clone(), weights.clone(), zeros(&y)], 3e-5);
        check(vec![gradient], &[x.clone(), zeros(&weights), y.clone()], 1e-4);
        let Body::Contract(mut with_epilogue) = planes.convolution().into_iter().next().expect("two") else {
            panic!("a convolution is a contraction")
        };
        let [store] = with_epilogue.stores.as_mut_slice() else { panic!("it has one store") };
        let mut code = Code(with_epilogue.epilogue);
        let residual = code.load(3, &store.index);
        let sum = code.binary(Binary::Add, store.value, residual);
        let zero = code.constant(0.0);
        store.value = code.binary(Binary::Max, sum, zero);
        with_epilogue.epilogue = code.0;
        let residual = Data::random(DType::F32, y.values.len());
        check(vec![Body::Contract(with_epilogue)], &[x.clone(), weights.clone(), zeros(&y), residual], 3e-5);
        for op in [ReduceOp::Max, ReduceOp::Min, ReduceOp::Sum] {
            check(vec![planes.pool(op)], &[x.clone(), zeros(&y)], 3e-5);
        }
    }
}

#[test]
fn pools_keep_what_is_no_number() {
    let planes = Planes { planes: 3, size: [20, 20], window: 3, stride: 2, padding: 1 };
    let mut x = Data::random(DType::F32, 1200);
    (x.values[47], x.values[399], x.values[800]) = (f64::NAN, f64::NAN, f64::INFINITY);
    for op in [ReduceOp::Max, ReduceOp::Min, ReduceOp::Sum] {
        let (results, _) = check(vec![planes.pool(op)], &[x.clone(), Data::zeros(DType::F32, 300)], 3e-5);
        assert_eq!(results[1].values.iter().filter(|value| value.is_nan()).count(), 3, "{op:?}");
    }
}

/// Values of `parts` buffers joined along axis 0, each of `size` rows; buffer `parts` gets them times a vector of
/// columns.
fn joined(parts: usize, size: usize, columns: usize) -> Body {
    let axes = [parts * size, columns];
    let mut code = Code::default();
    let mut sum = None;
    for part in 0..parts {
        let row = Ix::axis(0).plus(&Ix::constant(-((part * size) as i64)));
        let valid = [Cond::InRange(row.clone(), size as i64)];
        let value = code.load_if(part, &Ix::linear(&[row, Ix::axis(1)], &[size, columns]), &valid, DType::F32);
        let inside = code.push(InstrOp::Valid(valid.to_vec()), DType::Bool);
        let nothing = code.constant(-0.0);
        let value = code.push(InstrOp::Select(inside, value, nothing), DType::F32);
        sum = Some(sum.map_or(value, |sum| code.binary(Binary::Add, sum, value)));
    }
    let scale = code.load(parts + 1, &Ix::axis(1));
    let value = code.binary(Binary::Mul, sum.expect("there are parts"), scale);
    map(&axes, code, vec![store(parts, &linear(&axes, &[0, 1]), value)])
}

#[test]
fn joined_values_are_read_where_they_are() {
    for (parts, size, columns) in [(2, 100, 50), (7, 13, 100), (5, 3, 1000), (3, 1, 5000)] {
        let body = joined(parts, size, columns);
        let Body::Loop(kernel) = &body else { unreachable!("a map") };
        let segments = crate::cpu::segments::segmented(kernel).expect("each part reads one buffer");
        let reads: Vec<usize> = segments.iter().map(|segment| segment.phases[0].tape.loads().count()).collect();
        assert_eq!(reads, vec![2; parts], "a part and the scales");
        let mut data = vec![Data::random(DType::F32, size * columns); parts];
        data[0].values[3] = -0.0;
        data.extend([Data::zeros(DType::F32, parts * size * columns), Data::random(DType::F32, columns)]);
        check(vec![body], &data, 1e-6);
    }
}
