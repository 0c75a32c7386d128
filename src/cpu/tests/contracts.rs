//! Matrix products and convolutions.

use super::*;
use crate::matmul_precision::MatmulPrecision;

/// A contraction of plain loads: operands and output by the axes they have, in memory order.
pub(super) fn contract(
    axes: &[usize],
    counts: [usize; 4],
    lhs: &[usize],
    rhs: &[usize],
    out: &[usize],
) -> ContractKernel {
    let operand = |buffer, order: &[usize]| {
        let mut code = Code::default();
        let value = code.load(buffer, &linear(axes, order));
        (code.0, value)
    };
    let mut epilogue = Code::default();
    let sum = epilogue.push(InstrOp::Accumulator, DType::F32);
    ContractKernel {
        axes: axes.to_vec(),
        counts,
        lhs: operand(0, lhs),
        rhs: operand(1, rhs),
        epilogue: epilogue.0,
        stores: vec![store(2, &linear(axes, out), sum)],
        accumulator: DType::F32,
        precision: MatmulPrecision::Highest,
    }
}

/// `kernel`, a product of plain matrices, with conditions on its loads that always hold, so that it is packed.
pub(super) fn packed(mut kernel: ContractKernel) -> ContractKernel {
    let axis = kernel.group(3).start;
    let always = Cond::InRange(Ix::axis(axis), kernel.axes[axis] as i64);
    for tape in [&mut kernel.lhs.0, &mut kernel.rhs.0] {
        let InstrOp::Load { valid, .. } = &mut tape.instrs[0].op else { panic!("a plain operand is a load") };
        valid.push(always.clone());
    }
    kernel
}

fn check_plain(kernel: ContractKernel, lhs: &[usize], rhs: &[usize], out: &[usize]) {
    let len = |order: &[usize]| order.iter().map(|&axis| kernel.axes[axis]).product::<usize>();
    let data =
        [Data::random(DType::F32, len(lhs)), Data::random(DType::F32, len(rhs)), Data::zeros(DType::F32, len(out))];
    // Rounding grows as the sum's length does, by about its root.
    let tolerance = 1e-5 + 2e-6 * (kernel.sizes()[3] as f64).sqrt();
    check(vec![Body::Contract(packed(kernel.clone()))], &data, tolerance);
    check(vec![Body::Contract(kernel)], &data, tolerance);
}

#[test]
fn matrix_products_of_all_orders() {
    let shapes = [
        [1, 1, 1, 1],
        [1, 7, 5, 3],
        [3, 33, 17, 65],
        [1, 300, 70, 40],
        [2, 5, 90, 700],
        [1, 13, 1100, 30],
        [1, 1, 40, 9],
        [1, 70, 130, 40], // two halves of its rows
    ];
    for axes in shapes {
        for (lhs, rhs, out) in [
            ([0, 1, 3], [0, 3, 2], [0, 1, 2]),
            ([0, 3, 1], [0, 2, 3], [0, 1, 2]),
            ([0, 1, 3], [0, 2, 3], [0, 2, 1]),
            ([3, 1, 0], [3, 0, 2], [1, 0, 2]),
        ] {
            check_plain(contract(&axes, [1, 1, 1, 1], &lhs, &rhs, &out), &lhs, &rhs, &out);
        }
    }
}

#[test]
fn images_that_lie_apart_are_products_of_their_own() {
    for axes in [[40, 3, 49, 24], [13, 5, 130, 17], [33, 2, 9, 65], [3, 4, 5, 2]] {
        let dtypes = [DType::F32; 3];
        // filters, images, places, channels: as a 1x1 convolution, its operands in either order
        let kernel = contract(&axes, [0, 1, 2, 1], &[0, 3], &[1, 3, 2], &[1, 0, 2]);
        let batched = crate::cpu::reshape::batched_contract(&kernel, &dtypes);
        assert_eq!(batched.map(|kernel| kernel.counts), (axes[3] > 2).then_some([1, 1, 1, 1]), "{axes:?}");
        check_plain(kernel, &[0, 3], &[1, 3, 2], &[1, 0, 2]);
        let [filters, images, places, channels] = axes;
        let swapped = [images, places, filters, channels];
        let kernel = contract(&swapped, [0, 2, 1, 1], &[0, 3, 1], &[2, 3], &[0, 2, 1]);
        check_plain(kernel, &[0, 3, 1], &[2, 3], &[0, 2, 1]);
    }
    // so few places that the filters would be turned over for longer than they are multiplied
    for (axes, apart) in
        [([64, 3, 4, 100], false), ([64, 3, 5, 100], true), ([64, 3, 16, 1024], false), ([64, 3, 16, 1000], true)]
    {
        let kernel = contract(&axes, [0, 1, 2, 1], &[0, 3], &[1, 3, 2], &[1, 0, 2]);
        let batched = crate::cpu::reshape::batched_contract(&kernel, &[DType::F32; 3]);
        assert_eq!(batched.is_some(), apart, "{axes:?}");
        check_plain(kernel, &[0, 3], &[1, 3, 2], &[1, 0, 2]);
    }
    // one matrix for all images, turned over once
    let axes = [3, 600, 20, 30];
    for out in [[0, 2, 1], [0, 1, 2]] {
        check_plain(contract(&axes, [0, 2, 1, 1], &[0, 3, 1], &[2, 3], &out), &[0, 3, 1], &[2, 3], &out);
    }
}

#[test]
fn long_sums_are_cut() {
    let axes = [12, 20, 9000];
    check_plain(contract(&axes, [0, 1, 1, 1], &[0, 2], &[1, 2], &[0, 1]), &[0, 2], &[1, 2], &[0, 1]);
    check_plain(contract(&axes, [0, 1, 1, 1], &[2, 0], &[2, 1], &[0, 1]), &[2, 0], &[2, 1], &[0, 1]);
}

#[test]
fn nothing_to_sum_gives_zero() {
    let axes = [3, 4, 0];
    let kernel = contract(&axes, [0, 1, 1, 1], &[0, 2], &[2, 1], &[0, 1]);
    let data = [Data::zeros(DType::F32, 0), Data::zeros(DType::F32, 0), Data::random(DType::F32, 12)];
    let (results, _) = check(vec![Body::Contract(kernel)], &data, 0.0);
    assert!(results[2].values.iter().all(|&value| value == 0.0));
    let kernel = contract(&[0, 4, 3], [0, 1, 1, 1], &[0, 2], &[2, 1], &[0, 1]);
    check(
        vec![Body::Contract(kernel)],
        &[Data::zeros(DType::F32, 0), Data::random(DType::F32, 12), Data::zeros(DType::F32, 0)],
        0.0,
    );
}

#[test]
fn epilogues_with_bias_residual_and_activation() {
    for axes in [[30, 50, 20], [90, 1300, 7], [67, 128, 64]] {
        let mut kernel = contract(&axes, [0, 1, 1, 1], &[0, 2], &[2, 1], &[0, 1]);
        let mut code = Code::default();
        let sum = code.push(InstrOp::Accumulator, DType::F32);
        let bias = code.load(3, &Ix::axis(1));
        let with_bias = code.binary(Binary::Add, sum, bias);
        let zero = code.constant(0.0);
        let activated = code.binary(Binary::Max, with_bias, zero);
        let residual = code.load(2, &linear(&axes, &[0, 1]));
        let result = code.binary(Binary::Add, activated, residual);
        kernel.epilogue = code.0;
        kernel.stores = vec![store(2, &linear(&axes, &[0, 1]), result), store(4, &linear(&axes, &[1, 0]), with_bias)];
        let [m, n, k] = axes;
        let data = [
            Data::random(DType::F32, m * k),
            Data::random(DType::F32, k * n),
            Data::random(DType::F32, m * n),
            Data::random(DType::F32, n),
            Data::zeros(DType::F32, m * n),
        ];
        check(vec![Body::Contract(kernel)], &data, 2e-5);
    }
}

/// Several rows of results at once: constants, words for each row and each column, residuals of both lengths of words,
/// what is stored as it is and what is rounded.
#[test]
fn epilogues_take_several_rows_at_once() {
    for axes in [[1, 37, 131, 20], [3, 130, 64, 9], [2, 5, 200, 33], [1, 100, 1024, 3], [2, 9, 700, 1], [1, 3, 63, 5]] {
        let [batch, m, n, k] = axes;
        let mut kernel = contract(&axes, [1, 1, 1, 1], &[0, 1, 3], &[0, 3, 2], &[0, 1, 2]);
        let place = linear(&axes, &[0, 1, 2]);
        let mut code = Code::default();
        let sum = code.push(InstrOp::Accumulator, DType::F32);
        let scale = code.load(3, &Ix::axis(1));
        let half = code.constant(0.5);
        let scaled = code.binary(Binary::Mul, scale, half);
        let of_row = code.binary(Binary::Mul, sum, scaled);
        let bias = code.load(4, &Ix::axis(2));
        let with_bias = code.binary(Binary::Add, of_row, bias);
        let short = code.load_if(5, &place, &[], DType::F16);
        let short = code.push(InstrOp::Cast(short), DType::F32);
        let with_short = code.binary(Binary::Sub, with_bias, short);
        let residual = code.load(2, &place);
        let result = code.binary(Binary::Add, with_short, residual);
        let wave = code.unary(Unary::Sin, with_bias);
        let small = code.load_if(8, &place, &[], DType::U8);
        let small = code.push(InstrOp::Cast(small), DType::F32);
        let wave = code.binary(Binary::Mul, wave, small);
        let result = code.binary(Binary::Add, result, wave);
        let zero = code.constant(0.0);
        let result = code.binary(Binary::Max, result, zero);
        let kept = code.push(InstrOp::Cast(with_bias), DType::F16);
        kernel.epilogue = code.0;
        let stores = [(6, with_short), (7, kept), (2, result)];
        for count in 1..=stores.len() {
            kernel.stores =
                stores[stores.len() - count..].iter().map(|&(buffer, value)| store(buffer, &place, value)).collect();
            let data = [
                Data::random(DType::F32, batch * m * k),
                Data::random(DType::F32, batch * k * n),
                Data::random(DType::F32, batch * m * n),
                Data::random(DType::F32, m),
                Data::random(DType::F32, n),
                Data::random(DType::F16, batch * m * n),
                Data::zeros(DType::F32, batch * m * n),
                Data::zeros(DType::F16, batch * m * n),
                Data::random(DType::U8, batch * m * n),
            ];
            // one rounding of halves
            check(vec![Body::Contract(kernel.clone())], &data, 2e-3);
        }
    }
}

#[test]
fn integers_and_half_precision() {
    for dtype in [DType::I32, DType::U32, DType::F16] {
        let axes = [20, 35, 300];
        let mut kernel = contract(&axes, [0, 1, 1, 1], &[0, 2], &[2, 1], &[0, 1]);
        for tape in [&mut kernel.lhs.0, &mut kernel.rhs.0, &mut kernel.epilogue] {
            tape.instrs[0].dtype = dtype;
        }
        kernel.accumulator = if dtype == DType::F16 { DType::F32 } else { dtype };
        let data = [Data::random(dtype, 6000), Data::random(dtype, 10_500), Data::zeros(dtype, 700)];
        check(vec![Body::Contract(kernel)], &data, 1e-3);
    }
}

/// Sizes of a convolution: images, input and output channels, height and width, kernel, stride, padding.
#[derive(Clone, Copy)]
pub(super) struct Convolution {
    pub(super) images: usize,
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) size: [usize; 2],
    pub(super) window: usize,
    pub(super) stride: usize,
    pub(super) padding: usize,
}

impl Convolution {
    pub(super) fn out(&self) -> [usize; 2] {
        self.size.map(|size| (size + 2 * self.padding - self.window) / self.stride + 1)
    }

    /// Input coordinate of output coordinate `out` and window coordinate `window`, with its condition.
    fn input(&self, out: &Ix, window: &Ix, size: usize) -> (Ix, Cond) {
        let position = out.times(self.stride as i64).plus(window).plus(&Ix::constant(-(self.padding as i64)));
        (position.clone(), Cond::InRange(position, size as i64))
    }

    fn kernel(&self, axes: &[usize], counts: [usize; 4], lhs: (Code, ValueId), rhs: (Code, ValueId), out: &Ix) -> Body {
        let mut epilogue = Code::default();
        let sum = epilogue.push(InstrOp::Accumulator, DType::F32);
        Body::Contract(ContractKernel {
            axes: axes.to_vec(),
            counts,
            lhs: (lhs.0.0, lhs.1),
            rhs: (rhs.0.0, rhs.1),
            epilogue: epilogue.0,
            stores: vec![store(2, out, sum)],
            accumulator: DType::F32,
            precision: MatmulPrecision::Highest,
        })
    }

    /// y[n, o, h, w] of x (buffer 0) and the weights (buffer 1); m = (n, h, w), n = o, k = (c, i, j).
    pub(super) fn forward(&self) -> Body {
        let [h, w] = self.out();
        let axes = [self.images, h, w, self.to, self.from, self.window, self.window];
        let (y, valid_y) = self.input(&Ix::axis(1), &Ix::axis(5), self.size[0]);
        let (x, valid_x) = self.input(&Ix::axis(2), &Ix::axis(6), self.size[1]);
        let mut input = Code::default();
        let index =
            Ix::linear(&[Ix::axis(0), Ix::axis(4), y, x], &[self.images, self.from, self.size[0], self.size[1]]);
        let value = input.load_if(0, &index, &[valid_y, valid_x], DType::F32);
        let mut weights = Code::default();
        let weight = weights.load(1, &linear(&axes, &[3, 4, 5, 6]));
        self.kernel(&axes, [0, 3, 1, 3], (input, value), (weights, weight), &linear(&axes, &[0, 3, 1, 2]))
    }

    /// The weights' gradient [o, c, i, j] from x (buffer 0) and dy (buffer 1); k = (n, h, w).
    pub(super) fn weight_gradient(&self) -> Body {
        let [h, w] = self.out();
        let axes = [self.to, self.from, self.window, self.window, self.images, h, w];
        let (y, valid_y) = self.input(&Ix::axis(5), &Ix::axis(2), self.size[0]);
        let (x, valid_x) = self.input(&Ix::axis(6), &Ix::axis(3), self.size[1]);
        let mut input = Code::default();
        let index =
            Ix::linear(&[Ix::axis(4), Ix::axis(1), y, x], &[self.images, self.from, self.size[0], self.size[1]]);
        let value = input.load_if(0, &index, &[valid_y, valid_x], DType::F32);
        let mut gradient = Code::default();
        let dy = gradient.load(1, &linear(&axes, &[4, 0, 5, 6]));
        self.kernel(&axes, [0, 1, 3, 3], (gradient, dy), (input, value), &linear(&axes, &[0, 1, 2, 3]))
    }

    /// x's gradient from the weights (buffer 0) and dy (buffer 1); m = c, n = (n, y, x), k = (o, i, j).
    pub(super) fn input_gradient(&self) -> Body {
        let [h, w] = self.out();
        let axes = [self.from, self.images, self.size[0], self.size[1], self.to, self.window, self.window];
        let output = |at: usize, window: usize, size: usize| {
            let position = Ix::axis(at).plus(&Ix::axis(window).times(-1)).plus(&Ix::constant(self.padding as i64));
            let conditions = [
                Cond::InRange(position.clone(), (size * self.stride) as i64),
                Cond::Multiple(position.clone(), self.stride as i64),
            ];
            (position.div(self.stride as i64, &axes), conditions)
        };
        let ((y, valid_y), (x, valid_x)) = (output(2, 5, h), output(3, 6, w));
        let mut gradient = Code::default();
        let index = Ix::linear(&[Ix::axis(1), Ix::axis(4), y, x], &[self.images, self.to, h, w]);
        let dy = gradient.load_if(1, &index, &[valid_y, valid_x].concat(), DType::F32);
        let mut weights = Code::default();
        let weight = weights.load(0, &linear(&axes, &[4, 0, 5, 6]));
        self.kernel(&axes, [0, 1, 3, 3], (weights, weight), (gradient, dy), &linear(&axes, &[1, 0, 2, 3]))
    }

    /// The same of 3x3 windows at steps of 2 with a border of 1, as plans write it: m = (c, phase, phase), n = (n, y / 2, x /
    /// 2), k = (o, i, j) with two taps along each side.
    fn input_gradient_by_phases(&self) -> ContractKernel {
        assert_eq!((self.window, self.stride, self.padding), (3, 2, 1), "its taps are written down");
        let [h, w] = self.out();
        let axes = [self.from, 2, 2, self.images, h, w, self.to, 2, 2];
        let tap = |phase: usize, tap: usize| {
            let tap = Ix::axis(phase).plus(&Ix::axis(tap).times(2)).plus(&Ix::constant(-1));
            (tap.clone(), Cond::InRange(tap, 3))
        };
        let place = |place: usize, tap: usize, size: usize| {
            let place = Ix::axis(place).plus(&Ix::axis(tap).times(-1)).plus(&Ix::constant(1));
            (place.clone(), Cond::InRange(place, size as i64))
        };
        let ((i, valid_i), (j, valid_j)) = (tap(1, 7), tap(2, 8));
        let ((y, valid_y), (x, valid_x)) = (place(4, 7, h), place(5, 8, w));
        let (mut weights, mut gradient) = (Code::default(), Code::default());
        let index = Ix::linear(&[Ix::axis(6), Ix::axis(0), i, j], &[self.to, self.from, 3, 3]);
        let weight = weights.load_if(0, &index, &[valid_i, valid_j], DType::F32);
        let index = Ix::linear(&[Ix::axis(3), Ix::axis(6), y, x], &[self.images, self.to, h, w]);
        let dy = gradient.load_if(1, &index, &[valid_y, valid_x], DType::F32);
        let out = linear(&axes, &[3, 0, 4, 1, 5, 2]);
        let Body::Contract(kernel) = self.kernel(&axes, [0, 3, 3, 3], (weights, weight), (gradient, dy), &out) else {
            unreachable!("a contraction")
        };
        kernel
    }

    /// Elements of x, the weights and y.
    pub(super) fn lens(&self) -> [usize; 3] {
        let area = |size: [usize; 2]| size[0] * size[1];
        [
            self.images * self.from * area(self.size),
            self.to * self.from * self.window * self.window,
            self.images * self.to * area(self.out()),
        ]
    }
}

#[test]
fn convolutions_and_their_gradients() {
    let plain = Convolution { images: 2, from: 3, to: 5, size: [9, 11], window: 3, stride: 1, padding: 1 };
    for c in [
        plain,
        Convolution { stride: 2, ..plain },
        Convolution { window: 1, padding: 0, from: 17, ..plain },
        Convolution { stride: 3, padding: 2, window: 5, ..plain },
        Convolution { images: 3, from: 20, to: 16, size: [16, 16], ..plain },
        // Places as lanes: whole vectors, vectors over each other, lines shorter than one, several images to a block.
        Convolution { images: 5, from: 3, to: 6, size: [32, 32], window: 5, padding: 0, ..plain },
        Convolution { images: 7, from: 6, to: 7, size: [14, 14], window: 5, padding: 2, ..plain },
        Convolution { images: 3, from: 5, to: 13, size: [11, 37], ..plain },
        Convolution { images: 2, from: 9, to: 2, size: [3, 80], window: 3, ..plain },
        Convolution { images: 1, from: 2, to: 3, size: [70, 64], ..plain },
        Convolution { images: 2, from: 3, to: 4, size: [40, 33], stride: 2, ..plain },
        // Tiles of 2x2 places: few and many images to a block, blocks of some lines, panels that are not full, no
        // border.
        Convolution { images: 11, from: 37, to: 35, size: [8, 16], ..plain },
        Convolution { images: 2, from: 33, to: 16, size: [64, 48], ..plain },
        Convolution { images: 7, from: 32, to: 41, size: [12, 20], padding: 0, ..plain },
        Convolution { images: 7, from: 70, to: 33, size: [6, 18], padding: 2, ..plain },
        // More images than pieces that are wanted, but fewer than two for each: with tiles, without, in steps.
        Convolution { images: 1, from: 40, to: 24, size: [14, 14], ..plain },
        Convolution { images: 1, from: 50, to: 70, size: [7, 7], ..plain },
        Convolution { images: 3, from: 300, to: 40, size: [4, 4], ..plain },
        Convolution { images: 1, from: 260, to: 64, size: [14, 14], stride: 2, ..plain },
        Convolution { images: 10, from: 32, to: 16, size: [16, 16], ..plain },
        Convolution { images: 10, from: 16, to: 24, size: [16, 16], ..plain },
        Convolution { images: 10, from: 16, to: 32, size: [32, 32], stride: 2, ..plain },
        // Short lines and many filters, which are packed.
        Convolution { images: 4, from: 20, to: 130, size: [4, 4], ..plain },
        Convolution { images: 3, from: 70, to: 64, size: [2, 2], ..plain },
        Convolution { images: 2, from: 16, to: 128, size: [8, 8], stride: 2, ..plain },
        // Images larger than a block, of lines that have no even part.
        Convolution { images: 2, from: 5, to: 24, size: [37, 37], window: 5, padding: 2, ..plain },
        Convolution { images: 1, from: 32, to: 16, size: [61, 41], window: 3, ..plain },
        Convolution { images: 2, from: 3, to: 4, size: [75, 70], stride: 2, ..plain },
        // One image in several pieces: its lines, with tiles and without, and its filters.
        Convolution { images: 1, from: 32, to: 33, size: [32, 34], ..plain },
        Convolution { images: 1, from: 16, to: 17, size: [36, 33], ..plain },
        Convolution { images: 1, from: 64, to: 67, size: [8, 9], ..plain },
    ] {
        let [x, weights, y] = c.lens().map(|len| Data::random(DType::F32, len));
        let zeros = |data: &Data| Data::zeros(DType::F32, data.values.len());
        check(vec![c.forward()], &[x.clone(), weights.clone(), zeros(&y)], 3e-5);
        // sums over all places of all images, thousands of terms that cancel
        check(vec![c.weight_gradient()], &[x.clone(), y.clone(), zeros(&weights)], 1e-4);
        check(vec![c.input_gradient()], &[weights, y, zeros(&x)], 3e-5);
    }
}

#[test]
fn phases_of_an_input_gradient_are_products_of_their_own() {
    let plain = Convolution { images: 2, from: 70, to: 9, size: [6, 10], window: 3, stride: 2, padding: 1 };
    for (c, parts) in [
        (plain, 4),
        (Convolution { images: 3, from: 129, size: [4, 4], to: 33, ..plain }, 4),
        (Convolution { images: 1, from: 64, size: [34, 22], to: 70, ..plain }, 4),
        (Convolution { from: 40, ..plain }, 2),
        (Convolution { from: 5, ..plain }, 1),
    ] {
        let kernel = c.input_gradient_by_phases();
        let found = crate::cpu::phases::phases(&kernel).unwrap_or_else(|| vec![kernel.clone()]);
        assert_eq!(found.len(), parts, "{} channels", c.from);
        if parts == 4 {
            let terms: Vec<usize> = found.iter().map(|part| part.sizes()[3] / c.to).collect();
            assert_eq!(terms, [1, 2, 2, 4]);
            assert!(found.iter().all(|part| matches!(&part.lhs.0.instrs[..], [Instr { op: InstrOp::Load { valid, .. }, .. }] if valid.is_empty())));
        }
        let [x, weights, y] = c.lens().map(|len| Data::random(DType::F32, len));
        let data = [weights, y, Data::zeros(DType::F32, x.values.len())];
        let (by_phases, _) = check(vec![Body::Contract(kernel)], &data, 3e-5);
        let (results, _) = check(vec![c.input_gradient()], &data, 3e-5);
        compare(&by_phases[2..], &[results[2].values.clone()], 3e-5);
    }
}

#[test]
fn terms_that_are_not_zero_in_a_padding_stay() {
    let c = Convolution { images: 2, from: 70, to: 9, size: [6, 10], window: 3, stride: 2, padding: 1 };
    let with = |op: fn(ValueId) -> InstrOp| {
        let mut kernel = c.input_gradient_by_phases();
        let (tape, value) = &mut kernel.lhs;
        tape.instrs.push(Instr { op: InstrOp::Const(Scalar::new(DType::F32, 1.0)), dtype: DType::F32 });
        tape.instrs.push(Instr { op: op(*value), dtype: DType::F32 });
        *value = tape.instrs.len() - 1;
        crate::cpu::phases::phases(&kernel).map(|parts| parts.len())
    };
    assert_eq!(with(|value| InstrOp::Unary(Unary::Neg, value)), Some(4));
    assert_eq!(with(InstrOp::Cast), Some(4));
    assert_eq!(with(|value| InstrOp::Binary(Binary::Add, value, value + 1)), None);
    assert_eq!(with(|value| InstrOp::Unary(Unary::Cos, value)), None);
    // the other operand reads each element once: what is not finite there shows
    let mut kernel = c.input_gradient_by_phases();
    let InstrOp::Load { index, .. } = &mut kernel.rhs.0.instrs[0].op else { panic!("a load") };
    *index = Ix::axis(6);
    assert!(crate::cpu::phases::phases(&kernel).is_none());
}

#[test]
fn convolutions_along_one_axis() {
    // blocks of whole vectors, the last one shorter; lines that are shared among threads; a prime
    for [images, from, to, length, window] in [[1, 4, 16, 2049, 3], [1, 128, 64, 572, 3], [2, 5, 7, 2041, 5]] {
        let places = length - window + 1;
        let axes = [images, places, to, from, window];
        let place = Ix::axis(1).plus(&Ix::axis(4));
        let (mut input, mut weights, mut epilogue) = (Code::default(), Code::default(), Code::default());
        let x = input.load(0, &Ix::linear(&[Ix::axis(0), Ix::axis(3), place], &[images, from, length]));
        let w = weights.load(1, &linear(&axes, &[2, 3, 4]));
        let sum = epilogue.push(InstrOp::Accumulator, DType::F32);
        let body = Body::Contract(ContractKernel {
            axes: axes.to_vec(),
            counts: [0, 2, 1, 2],
            lhs: (input.0, x),
            rhs: (weights.0, w),
            epilogue: epilogue.0,
            stores: vec![store(2, &linear(&axes, &[0, 2, 1]), sum)],
            accumulator: DType::F32,
            precision: MatmulPrecision::Highest,
        });
        let lens = [images * from * length, to * from * window].map(|len| Data::random(DType::F32, len));
        let [x, w] = lens;
        check(vec![body], &[x, w, Data::zeros(DType::F32, images * to * places)], 3e-5);
    }
}

#[test]
fn prologues_are_computed_while_packing() {
    let axes = [40, 50, 60];
    let mut kernel = contract(&axes, [0, 1, 1, 1], &[0, 2], &[2, 1], &[0, 1]);
    let mut code = Code::default();
    let x = code.load(0, &linear(&axes, &[0, 2]));
    let scale = code.load(3, &Ix::axis(2));
    let scaled = code.binary(Binary::Mul, x, scale);
    let value = code.unary(Unary::Tanh, scaled);
    kernel.lhs = (code.0, value);
    let data = [
        Data::random(DType::F32, 2400),
        Data::random(DType::F32, 3000),
        Data::zeros(DType::F32, 2000),
        Data::random(DType::F32, 60),
    ];
    check(vec![Body::Contract(kernel)], &data, 2e-5);
}

/// A linear layer, `y = x · wᵀ`, of 20 rows, 150 results and 40 terms, and a 3x3 convolution; buffers are input, weights
/// and result.
fn with_weights() -> [(Body, [usize; 3]); 2] {
    let layer = contract(&[20, 150, 40], [0, 1, 1, 1], &[0, 2], &[1, 2], &[0, 1]);
    let convolution = Convolution { images: 1, from: 40, to: 24, size: [14, 14], window: 3, stride: 1, padding: 1 };
    [(Body::Contract(layer), [800, 6000, 3000]), (convolution.forward(), convolution.lens())]
}

#[test]
fn weights_are_packed_anew_only_when_they_have_changed() {
    for (body, lens) in with_weights() {
        let mut data = lens.map(|len| Data::random(DType::F32, len));
        let plan = plan(vec![body], &data);
        let compiled = Compiled::new(Arc::new(plan.clone()));
        let (blocks, status) = (Blocks::default(), AtomicU32::new(0));
        let memories = memories(&blocks, &data);
        let bind = || compiled.bind(&blocks, memories.iter().cloned()).expect("memory for a test");
        let expect = |data: &[Data]| {
            let mut expected: Vec<Vec<f64>> = data.iter().map(|data| data.values.clone()).collect();
            interpret(&plan, &plan.kernels[0], &mut expected, &[], Rounding::None);
            compare(&[Data::from_memory(DType::F32, &memories[2])], &expected[2..], 3e-5);
        };
        let (mut bound, mut other) = (bind(), bind());
        for round in 0..3 {
            for bound in [&mut bound, &mut other, &mut bind()] {
                memories[2].write(0, &data[2].to_bytes());
                bound.run(&[], &status);
                expect(&data);
            }
            assert_eq!(bound.packed[0].version(), Some(memories[1].version()));
            let version = memories[1].version();
            bound.run(&[], &status);
            assert_eq!(memories[1].version(), version, "the plan only reads them");
            // from the second time on there is one copy for all
            assert!(memories[1].packed(&compiled.0.packings[0].packing).is_some(), "round {round}");
            data[1] = Data::random(DType::F32, lens[1]);
            data[1].values[0] += f64::from(round) + 1.0;
            memories[1].write(0, &data[1].to_bytes());
            assert!(memories[1].packed(&compiled.0.packings[0].packing).is_none(), "what they were is forgotten");
        }
    }
}

#[test]
fn weights_that_another_plan_writes_have_changed() {
    let (body, lens) = with_weights().into_iter().next().expect("a layer");
    let data = lens.map(|len| Data::random(DType::F32, len));
    let doubled = {
        let mut code = Code::default();
        let weight = code.load(1, &Ix::axis(0));
        let two = code.constant(2.0);
        let value = code.binary(Binary::Mul, weight, two);
        map(&[lens[1]], code, vec![store(1, &Ix::axis(0), value)])
    };
    let (blocks, status) = (Blocks::default(), AtomicU32::new(0));
    let memories = memories(&blocks, &data);
    let bind = |bodies: Vec<Body>| {
        let compiled = Compiled::new(Arc::new(plan(bodies, &data)));
        (compiled.0.packings.len(), compiled.bind(&blocks, memories.iter().cloned()).expect("memory for a test"))
    };
    let (packed, mut layer) = bind(vec![body.clone()]);
    let (packed_and_written, _) = bind(vec![body, doubled.clone()]);
    assert_eq!((packed, packed_and_written), (1, 0), "what a plan writes itself it does not pack beforehand");
    layer.run(&[], &status);
    let before = Data::from_memory(DType::F32, &memories[2]);
    bind(vec![doubled]).1.run(&[], &status);
    layer.run(&[], &status);
    let after = Data::from_memory(DType::F32, &memories[2]);
    assert!(before.values.iter().zip(&after.values).all(|(before, after)| 2.0 * before == *after));
}

#[test]
fn weights_of_several_kernels_are_packed_once() {
    let layer = contract(&[20, 150, 40], [0, 1, 1, 1], &[0, 2], &[1, 2], &[0, 1]);
    let mut layers = [layer.clone(), layer];
    layers[1].stores[0].buffer = 3;
    let data = [800, 6000, 3000, 3000].map(|len| Data::random(DType::F32, len));
    let bodies: Vec<Body> = layers.into_iter().map(Body::Contract).collect();
    let compiled = Compiled::new(Arc::new(plan(bodies.clone(), &data)));
    assert_eq!(compiled.0.packings.len(), 1);
    check(bodies, &data, 3e-5);
}
