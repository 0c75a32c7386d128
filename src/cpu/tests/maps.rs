//! Ways of reading and writing memory.

use super::*;
use proptest::prelude::*;

#[test]
fn strided_broadcast_and_permuted_reads() {
    for axes in [[3, 5, 7], [2, 33, 65], [1, 1, 4099], [70, 1, 40], [40, 70, 3], [64, 3, 96]] {
        let len: usize = axes.iter().product();
        let mut code = Code::default();
        let x = code.load(0, &linear(&axes, &[2, 0, 1]));
        let row = code.load(1, &Ix::axis(2));
        let column = code.load(2, &Ix::axis(1).times(3));
        let reversed = Ix::constant(axes[2] as i64 - 1).plus(&Ix::axis(2).times(-1));
        let flipped = code.load(1, &reversed);
        let sum = code.binary(Binary::Add, x, row);
        let sum = code.binary(Binary::Mul, sum, column);
        let sum = code.binary(Binary::Sub, sum, flipped);
        let all = linear(&axes, &[0, 1, 2]);
        let transposed = linear(&axes, &[1, 2, 0]);
        let body = map(&axes, code, vec![store(3, &all, sum), store(4, &transposed, row)]);
        let data = [
            Data::random(DType::F32, len),
            Data::random(DType::F32, axes[2]),
            Data::random(DType::F32, 3 * axes[1]),
            Data::zeros(DType::F32, len),
            Data::zeros(DType::F32, len),
        ];
        check(vec![body], &data, 1e-6);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Padding, windows, dilation and their adjoints: any affine index under any ranges and divisibilities.
    #[test]
    fn masked_reads(
        sizes in prop::array::uniform3(1usize..40), c in prop::array::uniform3(-3i64..4), offset in -20i64..20,
        low in 1i64..50, by in 1i64..4, d in prop::array::uniform3(-2i64..3), shift in -9i64..9,
    ) {
        let sum = |c: [i64; 3], offset| (0..3).fold(Ix::constant(offset), |sum, i| sum.plus(&Ix::axis(i).times(c[i])));
        let (index, other) = (sum(c, offset), sum(d, shift));
        let valid = [Cond::InRange(index.clone(), low), Cond::InRange(other.clone(), 17), Cond::Multiple(index.clone(), by)];
        let mut code = Code::default();
        let x = code.load_if(0, &index, &valid, DType::F32);
        let strided = code.load_if(0, &index.div(by, &sizes), &valid, DType::F32);
        let holds = code.push(InstrOp::Valid(valid.to_vec()), DType::Bool);
        let coordinate = code.push(InstrOp::Coord(other.plus(&Ix::constant(100))), DType::I32);
        let all = linear(&sizes, &[0, 1, 2]);
        let stores = [x, strided, holds, coordinate].into_iter().enumerate();
        let body = map(&sizes, code, stores.map(|(i, value)| store(1 + i, &all, value)).collect());
        let len: usize = sizes.iter().product();
        let mut data = vec![Data::random(DType::F32, 50)];
        data.extend([DType::F32, DType::F32, DType::Bool, DType::I32].map(|dtype| Data::zeros(dtype, len)));
        check(vec![body], &data, 0.0);
    }
}

#[test]
fn reshaped_reads() {
    // [8, 9, 40] seen through a permutation to [9, 40, 8] and a reshape to [36, 80]
    let axes = [36, 80];
    let flat = linear(&axes, &[0, 1]);
    let coords = flat.unravel(&[9, 40, 8], &axes);
    let index = Ix::linear(&[coords[2].clone(), coords[0].clone(), coords[1].clone()], &[8, 9, 40]);
    let mut code = Code::default();
    let x = code.load(0, &index);
    let body = map(&axes, code, vec![store(1, &flat, x)]);
    check(vec![body], &[Data::random(DType::F32, 2880), Data::zeros(DType::F32, 2880)], 0.0);
}

#[test]
fn checked_indices_and_gathers() {
    let axes = [50, 30];
    for (dtype, wrong) in [(DType::I32, -3.0), (DType::U32, 12.0)] {
        let mut labels = Data::new(dtype, (0..50).map(|i| f64::from(i % 12)));
        for expected in [0, 77] {
            let mut code = Code::default();
            let label = code.load_if(1, &Ix::axis(0), &[], dtype);
            let label = code.push(InstrOp::CheckIndex { value: label, bound: 12, site: 77 }, dtype);
            let valid = vec![Cond::InRange(Ix::axis(1).plus(&Ix::constant(-2)), 25)];
            let gather = InstrOp::Gather { buffer: 0, base: Ix::axis(1), stride: 30, value: label, valid };
            let value = code.push(gather, DType::F32);
            let body = map(&axes, code, vec![store(2, &linear(&axes, &[0, 1]), value)]);
            let data = [Data::random(DType::F32, 360), labels.clone(), Data::zeros(DType::F32, 1500)];
            assert_eq!(check(vec![body], &data, 0.0).1, expected);
            labels.values[17] = wrong;
        }
    }
}

#[test]
fn random_bits_do_not_depend_on_how_they_are_walked() {
    let axes = [33, 70];
    let mut code = Code::default();
    let seed = code.load_if(0, &Ix::constant(0), &[], DType::U32);
    let position = code.push(InstrOp::Uniform(0), DType::U32);
    let random = |counter: Ix| InstrOp::Random { counter, stream: 5, seed, position };
    let plain = code.push(random(linear(&axes, &[0, 1])), DType::U32);
    let transposed = code.push(random(linear(&axes, &[1, 0])), DType::U32);
    let all = linear(&axes, &[0, 1]);
    let body = map(&axes, code, vec![store(1, &all, plain), store(2, &all, transposed)]);
    let data = [Data::new(DType::U32, [42.0]), Data::zeros(DType::U32, 2310), Data::zeros(DType::U32, 2310)];
    let (results, _) = check_with(vec![body], &data, &[7], 0.0);
    assert_eq!(results[1].values[1], results[2].values[70]);
}

#[test]
fn transposes_of_sides_that_no_tile_divides() {
    for axes in [[307, 263], [59, 1300], [2048, 37], [30, 2999]] {
        let len = axes[0] * axes[1];
        let mut code = Code::default();
        let x = code.load(0, &linear(&axes, &[1, 0]));
        let number = code.push(InstrOp::Coord(Ix::axis(0).plus(&Ix::axis(1).times(3))), DType::U32);
        let number = code.push(InstrOp::Cast(number), DType::F32);
        let sum = code.binary(Binary::Add, x, number);
        let all = linear(&axes, &[0, 1]);
        let data = [Data::random(DType::F32, len), Data::zeros(DType::F32, len)];
        check(vec![map(&axes, code, vec![store(1, &all, sum)])], &data, 1e-6);
    }
}

#[test]
fn updates_in_place_read_before_they_write() {
    let len = 5000;
    let mut code = Code::default();
    let (p, m) = (code.load(0, &Ix::axis(0)), code.load(1, &Ix::axis(0)));
    let g = code.load(2, &Ix::axis(0));
    let sum = code.binary(Binary::Add, m, g);
    let new = code.binary(Binary::Sub, p, sum);
    let ix = Ix::axis(0);
    let body = map(&[len], code, vec![store(0, &ix, new), store(1, &ix, sum), store(3, &ix, p)]);
    let mut data: Vec<Data> = (0..3).map(|i| Data::random(DType::F32, len + i)).collect();
    data.push(Data::zeros(DType::F32, len));
    check(vec![body], &data, 1e-6);
}

#[test]
fn all_storage_types_strided_and_masked() {
    let axes = [19, 23];
    for dtype in DType::ALL {
        let mut code = Code::default();
        let plain = code.load_if(0, &linear(&axes, &[0, 1]), &[], dtype);
        let transposed = code.load_if(0, &linear(&axes, &[1, 0]), &[], dtype);
        let shifted = Ix::axis(1).plus(&Ix::constant(-4));
        let masked = code.load_if(0, &shifted, &[Cond::InRange(shifted.clone(), 15)], dtype);
        let all = linear(&axes, &[0, 1]);
        let across = linear(&axes, &[1, 0]);
        let body = map(&axes, code, vec![store(1, &all, transposed), store(2, &across, plain), store(3, &all, masked)]);
        let mut data = vec![Data::random(dtype, 437)];
        data.extend((0..3).map(|_| Data::zeros(dtype, 437)));
        check(vec![body], &data, 0.0);
    }
}

#[test]
fn empty_spaces_do_nothing() {
    let mut code = Code::default();
    let x = code.load(0, &linear(&[3, 0], &[0, 1]));
    let body = map(&[3, 0], code, vec![store(0, &linear(&[3, 0], &[0, 1]), x)]);
    check(vec![body], &[Data::zeros(DType::F32, 0)], 0.0);
}
