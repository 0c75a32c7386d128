use super::runner::Gpu;
use super::*;
use crate::gpu::render::{Tuned, Units, Variant, identity, render_as, variants};
use crate::graph::{Binary, Unary};
use crate::matmul_precision::MatmulPrecision;
use crate::plan::ContractKernel;

/// A matrix product of `[b, m, k]` and `[b, k, n]` with strides given for (b, m, k), (b, k, n) and (b, m, n).
pub(super) struct Product {
    sizes: [usize; 4],
    left: [i64; 3],
    right: [i64; 3],
    out: [i64; 3],
    dtype: DType,
    to: DType,
}

impl Product {
    fn plain(b: usize, m: usize, n: usize, k: usize) -> Self {
        let [mi, ni, ki] = [m, n, k].map(|size| size as i64);
        Self {
            sizes: [b, m, n, k],
            left: [mi * ki, ki, 1],
            right: [ki * ni, ni, 1],
            out: [mi * ni, ni, 1],
            dtype: DType::F32,
            to: DType::F32,
        }
    }

    pub(super) fn build(&self, case: &mut Case) -> Body {
        let [b, m, n, k] = self.sizes;
        let left = case.data(self.dtype, b * m * k.max(1));
        let right = case.data(self.dtype, b * n * k.max(1));
        let bias = case.data(DType::F32, n);
        let out = case.data(self.to, b * m * n);
        let accumulator = if self.dtype.is_float() { DType::F32 } else { self.dtype };
        let [l, r, o] = [self.left, self.right, self.out];
        let mut lhs = Code::default();
        let a = lhs.load(self.dtype, left, affine(&[l[0], l[1], 0, l[2]], 0));
        let mut rhs = Code::default();
        let c = rhs.load(self.dtype, right, affine(&[r[0], 0, r[2], r[1]], 0));
        let mut epilogue = Code::default();
        let sum = epilogue.push(accumulator, InstrOp::Accumulator);
        let value = epilogue.push(DType::F32, InstrOp::Cast(sum));
        let shift = epilogue.load(DType::F32, bias, affine(&[0, 0, 1], 0));
        let value = epilogue.push(DType::F32, InstrOp::Binary(Binary::Add, value, shift));
        let value = epilogue.push(DType::F32, InstrOp::Unary(Unary::Neg, value));
        let value = epilogue.push(self.to, InstrOp::Cast(value));
        Body::Contract(ContractKernel {
            axes: vec![b, m, n, k],
            counts: [1, 1, 1, 1],
            lhs: (lhs.0, a),
            rhs: (rhs.0, c),
            epilogue: epilogue.0,
            stores: vec![store(out, affine(&o, 0), value)],
            accumulator,
            precision: MatmulPrecision::Highest,
        })
    }

    fn check(&self) {
        let mut case = Case::new();
        let body = self.build(&mut case);
        case.check(body);
    }
}

/// A product of which the left operand, the right one and the result lie transposed.
pub(super) fn product_turned([b, m, n, k]: [usize; 4], [left, right, out]: [bool; 3], dtype: DType) -> Product {
    let mut product = Product { dtype, ..Product::plain(b, m, n, k) };
    let [m, n, k] = [m, n, k].map(|size| size as i64);
    if left {
        product.left = [m * k, 1, m];
    }
    if right {
        product.right = [k * n, 1, k];
    }
    if out {
        product.out = [m * n, 1, m];
    }
    product
}

#[test]
fn products_of_all_shapes() {
    for [b, m, n, k] in [
        [1, 1, 1, 1],
        [1, 5, 7, 3],
        [2, 16, 16, 16],
        [1, 33, 20, 17],
        [3, 64, 1, 40],
        [1, 1, 64, 40],
        [1, 70, 130, 33],
        [2, 128, 132, 64],
        [1, 200, 150, 50],
        [1, 4, 4, 0],
    ] {
        Product::plain(b, m, n, k).check();
    }
}

#[test]
fn transposed_operands_and_results() {
    for [m, n, k] in [[64usize, 96, 32], [130, 70, 50], [12, 20, 8]] {
        for (left_turned, right_turned, out_turned) in
            [(true, false, false), (false, true, false), (true, true, false), (false, false, true), (true, true, true)]
        {
            product_turned([2, m, n, k], [left_turned, right_turned, out_turned], DType::F32).check();
        }
    }
}

#[test]
fn products_of_all_types() {
    for dtype in [DType::F32, DType::F16, DType::I32, DType::U32] {
        for to in DType::ALL {
            for [m, n, k] in [[9usize, 10, 8], [128, 140, 16]] {
                let product = Product { dtype, to, ..Product::plain(1, m, n, k) };
                // Results that are cast to unsigned types saturate at 0 everywhere but for a few.
                product.check();
            }
        }
    }
}

/// 3x3 convolution, NCHW, padding 1, as out[o, (b y x)] = Σ weight[o, (c kh kw)] · input.
fn convolution(batch: usize, channels: usize, filters: usize, height: usize, width: usize, stride: i64) {
    let mut case = Case::new();
    let body = convolved(&mut case, DType::F32, [batch, channels, filters, height, width], stride);
    case.check(body);
}

pub(super) fn convolved(
    case: &mut Case,
    dtype: DType,
    [batch, channels, filters, height, width]: [usize; 5],
    stride: i64,
) -> Body {
    let input = case.data(dtype, batch * channels * height * width);
    let weight = case.data(dtype, filters * channels * 9);
    let (oh, ow) = ((height - 1) / stride as usize + 1, (width - 1) / stride as usize + 1);
    let output = case.data(DType::F32, batch * filters * oh * ow);
    // axes: m = o; n = b, y, x; k = c, kh, kw
    let axes = vec![filters, batch, oh, ow, channels, 3, 3];
    let (c, h, w) = (channels as i64, height as i64, width as i64);
    let mut lhs = Code::default();
    let a = lhs.load(dtype, weight, affine(&[c * 9, 0, 0, 0, 9, 3, 1], 0));
    let y = affine(&[0, 0, stride, 0, 0, 1, 0], -1);
    let x = affine(&[0, 0, 0, stride, 0, 0, 1], -1);
    let mut rhs = Code::default();
    let at = affine(&[0, c * h * w, 0, 0, h * w], 0).plus(&y.times(w)).plus(&x);
    let b = rhs.load_if(dtype, input, at, vec![Cond::InRange(y, h), Cond::InRange(x, w)]);
    let place = affine(&[(oh * ow) as i64, (filters * oh * ow) as i64, ow as i64, 1], 0);
    sums(axes, [0, 1, 3, 3], [(lhs.0, a), (rhs.0, b)], (output, place))
}

/// The contraction of these operands, whose sums are stored as they are.
fn sums(
    axes: Vec<usize>,
    counts: [usize; 4],
    [lhs, rhs]: [(Tape, ValueId); 2],
    (output, place): (BufferId, Ix),
) -> Body {
    let mut epilogue = Code::default();
    let sum = epilogue.push(DType::F32, InstrOp::Accumulator);
    Body::Contract(ContractKernel {
        axes,
        counts,
        lhs,
        rhs,
        epilogue: epilogue.0,
        stores: vec![store(output, place, sum)],
        accumulator: DType::F32,
        precision: MatmulPrecision::Highest,
    })
}

#[test]
fn convolutions_are_contractions_over_index_maps() {
    convolution(2, 3, 8, 8, 8, 1);
    convolution(1, 4, 5, 7, 9, 1);
    convolution(2, 3, 40, 16, 16, 1);
    convolution(2, 5, 33, 11, 12, 2);
}

/// A convolution along lines of `width` results with windows of `taps` places, which later places read further on or,
/// as the gradient of one does, further back; `border` zeros stand before each line.
fn along_lines(case: &mut Case, dtype: DType, [width, taps]: [usize; 2], backwards: bool, border: usize) -> Body {
    let (rows, batch, channels) = (11, 3, 5);
    let length = width + taps - 1 - border;
    let input = case.data(dtype, batch * channels * length);
    let weight = case.data(dtype, rows * channels * taps);
    let output = case.data(DType::F32, rows * batch * width);
    // axes: m; n = b, x; k = c, place
    let axes = vec![rows, batch, width, channels, taps];
    let (c, l, t, w) = (channels as i64, length as i64, taps as i64, width as i64);
    let mut lhs = Code::default();
    let a = lhs.load(dtype, weight, affine(&[c * t, 0, 0, t, 1], 0));
    let (step, first) = if backwards { (-1, t - 1) } else { (1, 0) };
    let x = affine(&[0, 0, 1, 0, step], first - border as i64);
    let at = affine(&[0, c * l, 0, l], 0).plus(&x);
    let valid = if border > 0 { vec![Cond::InRange(x, l)] } else { Vec::new() };
    let mut rhs = Code::default();
    let b = rhs.load_if(dtype, input, at, valid);
    sums(axes, [0, 1, 2, 2], [(lhs.0, a), (rhs.0, b)], (output, affine(&[w, 11 * w, 1], 0)))
}

/// What neighbouring results share is read once, in lines that end anywhere, whole fours of which can be read at once
/// or not.
#[test]
fn windows_slide_along_lines() {
    let whole = [[4, 2], [4, 3], [8, 3], [12, 5], [20, 4], [28, 5], [32, 7], [36, 11]];
    let ragged = [[3, 2], [6, 3], [7, 4], [10, 5], [13, 3], [15, 7], [31, 3], [33, 9]];
    for [width, taps] in whole.into_iter().chain(ragged) {
        for (backwards, border) in [(false, 0), (false, taps / 2), (true, 0), (true, taps / 2)] {
            for dtype in [DType::F32, DType::F16] {
                let mut case = Case::new();
                let body = along_lines(&mut case, dtype, [width, taps], backwards, border);
                let launches = render(&case.plan, &case.kernel(&body), &capabilities(true, true)).expect("it renders");
                assert!(launches[0].wgsl.contains("let r0_0v = "), "slides:\n{}", launches[0].wgsl);
                case.check(body);
            }
        }
    }
}

/// A tile of two runs whose second one is behind the last column: it repeats the last one, as what is further on is no
/// memory.
#[test]
fn a_run_behind_the_last_column_reads_what_is_there() {
    let mut case = Case::new();
    case.plan.literal_sizes = true;
    let body = along_lines(&mut case, DType::F32, [24, 3], false, 0);
    let tile = Variant::Registers { rows: 16, columns: 16, threads: 8 };
    let launches = render_as(&case.plan, &case.kernel(&body), &capabilities(true, false), Some(tile));
    let text = &launches.expect("it renders")[0].wgsl;
    assert!(text.contains("min(column + 0u, 64u)") && text.contains("min(column + 8u, 64u)"), "{text}");
}

#[test]
fn operands_may_be_mixed_expressions() {
    // k is split into (k / 3, k % 3) by a reshape that no axis follows, and the operand is a product of two loads.
    let mut case = Case::new();
    let (m, n, k) = (40usize, 36usize, 24usize);
    let left = case.data(DType::F32, m * k);
    let scale = case.data(DType::F32, m);
    let right = case.data(DType::F32, n * k);
    let out = case.data(DType::F32, m * n);
    let axes = vec![m, n, k];
    let mixed = affine(&[24, 0, 1], 0);
    let turned = mixed.div(3, &axes).plus(&mixed.rem(3, &axes).times((m * k / 3) as i64));
    let mut lhs = Code::default();
    let a = lhs.load(DType::F32, left, turned);
    let s = lhs.load(DType::F32, scale, affine(&[1, 0, 0], 0));
    let a = lhs.push(DType::F32, InstrOp::Binary(Binary::Mul, a, s));
    let mut rhs = Code::default();
    let b = rhs.load(DType::F32, right, affine(&[0, 24, 1], 0));
    case.check(sums(axes, [0, 1, 1, 1], [(lhs.0, a), (rhs.0, b)], (out, affine(&[36, 1], 0))));
}

/// Workgroups with several blocks of results for each thread: where there are enough of them, and few results outside.
#[test]
fn large_tiles() {
    for ([b, m, n, k], tile) in [
        ([1usize, 127, 125, 17], "64x128"),
        ([2, 64, 128, 36], "64x128"),
        ([3, 121, 61, 16], "128x64"),
        ([1, 250, 120, 33], "64x128"),
        ([1, 130, 140, 20], "32x32"),
    ] {
        for turned in [false, true] {
            let mut case = Case::new();
            let product = product_turned([b, m, n, k], [turned, turned, false], DType::F32);
            let body = product.build(&mut case);
            let caps = Capabilities { busy_groups: 1, ..capabilities(false, false) };
            case.check_on(&body, &caps);
            let launches = render(&case.plan, &case.kernel(&body), &caps).expect("it renders");
            let (rows, columns) = tile.split_once('x').expect("two numbers");
            // the operands may have been exchanged
            let either = [(rows, columns), (columns, rows)];
            let used = either.iter().any(|(rows, columns)| {
                launches[0].wgsl.contains(&format!("ROWS: u32 = {rows}u;\nconst COLUMNS: u32 = {columns}u;"))
            });
            assert!(used, "{tile} for {b}x{m}x{n}x{k}\n{}", launches[0].wgsl);
        }
    }
}

/// Long sums with few rows or columns, such as gradients of small filters and products of small batches.
#[test]
fn narrow_tiles() {
    for ([b, m, n, k], tile) in [
        ([2usize, 16, 144, 1024], Some([16, 64])),
        ([1, 27, 41, 1030], Some([32, 64])),
        ([1, 61, 11, 1024], Some([64, 16])),
        ([1, 32, 17, 1025], Some([32, 32])),
        ([4, 32, 72, 48], Some([32, 32])),
        ([1, 8, 144, 1024], Some([16, 64])),
        ([2, 4, 200, 256], Some([16, 64])),
        ([1, 8, 144, 255], None),
        ([1, 3, 300, 1024], None),
        ([1, 16, 144, 48], None),
    ] {
        for turned in [false, true] {
            let mut case = Case { tolerance: 1e-5, ..Case::new() };
            let body = product_turned([b, m, n, k], [turned, turned, false], DType::F32).build(&mut case);
            let caps = Capabilities { busy_groups: 1, ..capabilities(false, false) };
            case.check_on(&body, &caps);
            let text = &render(&case.plan, &case.kernel(&body), &caps).expect("it renders")[0].wgsl;
            let used = tile.is_some_and(|[rows, columns]| {
                // the operands may have been exchanged
                [[rows, columns], [columns, rows]].iter().any(|[rows, columns]| {
                    text.contains(&format!("ROWS: u32 = {rows}u;\nconst COLUMNS: u32 = {columns}u;"))
                })
            });
            assert_eq!(used, text.contains("left_tile"), "{b}x{m}x{n}x{k}\n{text}");
            assert_eq!(used, tile.is_some(), "{tile:?} for {b}x{m}x{n}x{k}\n{text}");
        }
    }
}

/// Units of an adapter for the widest of the types that it has, or, to look at the texts only, those of GPUs that are
/// made.
fn units() -> Vec<Units> {
    match runner::gpu() {
        Some(Gpu { units: Some(units), .. }) => vec![*units],
        _ => {
            let nvidia = Units { subgroups: [32, 32], f16: Some(16), f32: None, terms: true };
            vec![nvidia, Units { f16: Some(8), f32: Some(8), ..nvidia }, Units { subgroups: [32, 64], ..nvidia }]
        }
    }
}

/// On adapters without units for small matrices only the texts are checked.
#[test]
fn matrix_units() {
    let plain = [false, false, false];
    let turnings = [plain, [true, true, false], [true, false, true], [false, true, true]];
    let round = turnings.map(|turned| ([4usize, 64, 64, 16], turned));
    let odd = [([1, 250, 120, 33], plain), ([1, 121, 101, 70], turnings[1]), ([1, 130, 140, 64], turnings[3])];
    for units in units() {
        for (dtype, size) in [(DType::F16, units.f16), (DType::F32, units.f32)] {
            if size.is_none() {
                continue;
            }
            let mut tiles = [64, 128].map(|tile| (format!("ROWS: u32 = {tile}u"), false));
            for (sizes, turned) in round.iter().chain(&odd) {
                let mut case = Case { tolerance: 2e-5, ..Case::new() };
                let body = product_turned(*sizes, *turned, dtype).build(&mut case);
                let caps = Capabilities {
                    busy_groups: 1,
                    max_workgroup_bytes: 48 << 10,
                    cooperative: Some(units),
                    ..capabilities(false, true)
                };
                let launches = render(&case.plan, &case.kernel(&body), &caps).expect("it renders");
                launches.iter().for_each(validate);
                let text = &launches[0].wgsl;
                assert!(text.contains("coopMultiplyAdd"), "{text}");
                tiles.iter_mut().for_each(|(tile, seen)| *seen |= text.contains(tile.as_str()));
                if runner::gpu().is_some_and(|gpu| gpu.units == Some(units)) {
                    case.check_on(&body, &caps);
                }
            }
            // parts of large tiles do not fit where a subgroup may have 64 invocations and a workgroup no more than 256
            assert!(tiles[0].1 && (tiles[1].1 || units.subgroups[1] > 32), "small and large tiles");
        }
    }
}

#[test]
fn tiles_of_all_sizes_give_the_same_bits() {
    let Some(gpu) = runner::gpu() else { return };
    let mut case = Case::new();
    let body = Product::plain(1, 128, 256, 45).build(&mut case);
    for bytes in &mut case.contents {
        let values = decode(DType::F32, bytes).into_iter().map(|value| value as f32 * 0.1);
        *bytes = values.flat_map(f32::to_le_bytes).collect();
    }
    let results = [(1, false), (3, false), (usize::MAX, false), (1, true)].map(|(busy_groups, software)| {
        let caps = Capabilities { busy_groups, ..capabilities(software, false) };
        let launches = render(&case.plan, &case.kernel(&body), &caps).expect("it renders");
        let mut contents = case.contents.clone();
        gpu.run(&launches, &mut contents, &case.uniforms);
        (launches[0].wgsl.clone(), contents)
    });
    for (number, (text, contents)) in results.iter().enumerate() {
        assert!(contents == &results[0].1, "other bits");
        assert!(results[..number].iter().all(|(other, _)| other != text), "four kinds of tiles");
    }
}

/// Few results: several invocations share a sum, in fours of the summed points where these lie so.
#[test]
fn sums_of_few_results_are_shared() {
    let caps = Capabilities { shares_sums: true, ..capabilities(false, true) };
    for ([b, m, n, k], shares) in [
        ([1usize, 1, 120, 400], 64),
        ([1, 120, 1, 401], 64),
        ([2, 16, 100, 150], 32),
        ([3, 7, 11, 9], 2),
        ([1, 5, 3, 7], 1),
        ([1, 256, 256, 130], 1),
        ([1, 128, 130, 75], 8),
    ] {
        for (turned, dtype) in [(false, DType::F32), (true, DType::F32), (false, DType::F16), (true, DType::I32)] {
            let mut case = Case { tolerance: 1e-5, ..Case::new() };
            let body = product_turned([b, m, n, k], [turned, !turned, false], dtype).build(&mut case);
            case.check_on(&body, &caps);
            let text = &render(&case.plan, &case.kernel(&body), &caps).expect("it renders")[0].wgsl;
            let has = text.contains(&format!("SHARES: u32 = {shares}u;"));
            assert_eq!(has, shares > 1, "{shares} for {b}x{m}x{n}x{k}\n{text}");
        }
    }
    let mut case = Case::new();
    let body = convolved(&mut case, DType::F32, [2, 5, 19, 11, 13], 1);
    case.check_on(&body, &caps);
}

/// Units do not take what invocations share, as plans do not cut those sums, and no other kernel may add them up.
#[test]
fn units_leave_shared_sums_alone() {
    for units in units() {
        let caps = Capabilities {
            shares_sums: true,
            cooperative: Some(units),
            max_workgroup_bytes: 48 << 10,
            ..capabilities(false, true)
        };
        for (sizes, is_shared) in [([4usize, 64, 64, 16], true), ([1, 256, 256, 130], false)] {
            let mut case = Case { tolerance: 2e-5, ..Case::new() };
            let dtype = if units.f16.is_some() { DType::F16 } else { DType::F32 };
            let body = product_turned(sizes, [false; 3], dtype).build(&mut case);
            let launches = render(&case.plan, &case.kernel(&body), &caps).expect("it renders");
            launches.iter().for_each(validate);
            let text = &launches[0].wgsl;
            assert_eq!(text.contains("const SHARES"), is_shared, "{text}");
            assert_eq!(text.contains("coopMultiplyAdd"), !is_shared, "{text}");
            let Body::Contract(contraction) = &body else { unreachable!("it is one") };
            assert_eq!(variants(&caps, contraction).is_empty(), !is_shared, "what tuning may choose");
            if is_shared || runner::gpu().is_some_and(|gpu| gpu.units == Some(units)) {
                case.check_on(&body, &caps);
            }
        }
    }
}

/// Metal's kernels need 64 invocations in a workgroup for what they share in its memory.
#[test]
fn sums_are_shared_in_workgroups_of_so_many_at_the_least() {
    let caps = Capabilities { shares_sums: true, least_threads: 64, ..capabilities(false, true) };
    let mut case = Case::new();
    let body = Product::plain(1, 16, 100, 9).build(&mut case);
    let Body::Contract(contraction) = &body else { unreachable!("it is one") };
    let all = variants(&caps, contraction);
    assert!(all.len() > 2 && all.iter().all(|variant| matches!(variant, Variant::Registers { threads: 64.., .. })));
    assert_ne!(all.len(), variants(&Capabilities { least_threads: 1, ..caps.clone() }, contraction).len());
    for variant in all {
        case.check_as(&body, &caps, Some(variant));
    }
}

/// Odd and prime sizes, operands that lie either way, a convolution, an epilogue; what tuning chooses among.
#[test]
fn all_variants_give_the_same_bits() {
    let plain = [false, false, false];
    let product = |sizes, turned, dtype| move |case: &mut Case| product_turned(sizes, turned, dtype).build(case);
    let convolution = |dtype| move |case: &mut Case| convolved(case, dtype, [2, 5, 19, 11, 13], 1);
    type Build = Box<dyn Fn(&mut Case) -> Body>;
    let line = |width, backwards| move |case: &mut Case| along_lines(case, DType::F32, [width, 3], backwards, 1);
    let cases: [(&str, Build); 12] = [
        ("whole tiles", Box::new(product([1, 64, 48, 44], plain, DType::F32))),
        ("whole columns of tiles", Box::new(product([2, 33, 32, 45], [true, false, false], DType::F32))),
        ("primes", Box::new(product([1, 31, 37, 43], plain, DType::F32))),
        ("whole vectors, turned", Box::new(product([2, 36, 20, 52], [true, true, false], DType::F32))),
        ("a result that lies turned", Box::new(product([1, 33, 17, 64], [false, true, true], DType::F32))),
        ("halves", Box::new(product([1, 29, 35, 68], [false, true, false], DType::F16))),
        ("few rows", Box::new(product([3, 2, 41, 31], plain, DType::F32))),
        ("a convolution", Box::new(convolution(DType::F32))),
        ("a convolution of halves", Box::new(convolution(DType::F16))),
        ("a window that slides", Box::new(line(24, false))),
        ("a window that slides back", Box::new(line(24, true))),
        ("a window that slides along a ragged line", Box::new(line(23, false))),
    ];
    for (name, build) in cases {
        for (software, shares_sums, together) in
            [(true, false, false), (true, false, true), (false, false, false), (false, true, false)]
        {
            let mut case = Case::new();
            let body = build(&mut case);
            // with tenths the order of a sum shows
            for (bytes, buffer) in case.contents.iter_mut().zip(&case.plan.buffers) {
                let tenths = decode(buffer.dtype, bytes).into_iter().map(|value| value as f32 * 0.1);
                *bytes = match buffer.dtype {
                    DType::F16 => tenths.flat_map(|value| half::f16::from_f32(value).to_le_bytes()).collect(),
                    _ => tenths.flat_map(f32::to_le_bytes).collect(),
                };
            }
            // and with products that underflow, what is added behind the last one: zeros of either sign
            let least = |value: f64| if value < 0.0 { -1e-30f32 } else { 1e-30 };
            let underflowing = case.plan.buffers.iter().all(|buffer| buffer.dtype == DType::F32).then(|| {
                let of_f32 = |bytes: &Vec<u8>| decode(DType::F32, bytes).into_iter().map(least).collect::<Vec<f32>>();
                case.contents.iter().map(|bytes| bytemuck::cast_slice(&of_f32(bytes)).to_vec()).collect::<Vec<_>>()
            });
            let rounds: Vec<Vec<Vec<u8>>> = std::iter::once(case.contents.clone()).chain(underflowing).collect();
            case.plan.literal_sizes = true;
            let f16 = runner::gpu().is_some_and(|gpu| gpu.f16);
            let subgroups = if together { reading_together().subgroups } else { None };
            let caps = Capabilities { shares_sums, subgroups, ..capabilities(software, f16) };
            let Body::Contract(contraction) = &body else { unreachable!("it is one") };
            let mut all = variants(&caps, contraction);
            let rule = all.len();
            // what larger products take
            all.extend(software.then_some(Variant::Registers { rows: 16, columns: 16, threads: 8 }));
            if together {
                // the others are those of before
                all.truncate(1);
                let tiles = [[1, 4, 2], [2, 8, 8], [4, 4, 4], [8, 16, 8], [16, 8, 4], [32, 4, 8]];
                let tiles = tiles.map(|[rows, columns, sharing]| Variant::Subgroups { rows, columns, sharing });
                let rule = all[0];
                let lanes = if together { software_lanes(&caps) } else { 1 };
                let possible = |tile: Variant| tile != rule && tile.sharing() <= lanes;
                all.extend(tiles.into_iter().filter(|&tile| possible(tile)));
            }
            let kernel = case.kernel(&body);
            let by_rule = render(&case.plan, &kernel, &caps).expect("it renders");
            let text = |launches: &[Launch]| launches[0].wgsl.clone();
            let mut texts = Vec::new();
            let mut firsts: Vec<Option<Vec<Vec<u8>>>> = vec![None; rounds.len()];
            for &variant in &all {
                let launches = render_as(&case.plan, &kernel, &caps, Some(variant)).expect("it renders");
                launches.iter().for_each(validate);
                texts.push(text(&launches));
                let Some(gpu) = runner::gpu().filter(|gpu| subgroups.is_none_or(|sizes| gpu.has(sizes))) else {
                    continue;
                };
                for (round, first) in rounds.iter().zip(&mut firsts) {
                    let mut contents = round.clone();
                    gpu.run(&launches, &mut contents, &case.uniforms);
                    assert_ne!(contents, *round, "something is computed");
                    let first = first.get_or_insert_with(|| contents.clone());
                    assert!(*first == contents, "{name}: {variant} gives other bits than {}", all[0]);
                }
            }
            assert_eq!(texts[0], text(&by_rule), "{name}: the rule's comes first");
            let different: std::collections::BTreeSet<&String> = texts.iter().collect();
            assert!(rule >= 4 && different.len() == all.len(), "{name}: {all:?}");
        }
    }
}

/// What compiles quickly takes larger tiles for less work; these read one step at a time.
#[test]
fn large_tiles_are_for_plain_products_of_a_software_adapter() {
    let caps = capabilities(true, false);
    let text = |side: usize, right_turned: bool, with_bias: bool| {
        let mut case = Case::new();
        let mut body = product_turned([1, side, side, 256], [false, right_turned, false], DType::F32).build(&mut case);
        let Body::Contract(kernel) = &mut body else { unreachable!("it is one") };
        if !with_bias {
            kernel.epilogue.instrs.truncate(1);
            kernel.stores[0].value = 0;
        }
        render(&case.plan, &case.kernel(&body), &caps).expect("it renders")[0].wgsl.clone()
    };
    let is_large = |text: &str| text.contains("row_tile * 16u");
    let large = text(256, false, false);
    assert!(is_large(&large) && !large.contains("l0v0.x"), "{large}");
    for (side, turned, with_bias) in [(240, false, false), (256, true, false), (256, false, true)] {
        assert!(!is_large(&text(side, turned, with_bias)), "{side} {turned} {with_bias}");
    }
}

#[test]
fn a_remembered_variant_is_rendered_where_the_kernel_has_it() {
    let mut case = Case::new();
    let body = Product::plain(1, 31, 37, 43).build(&mut case);
    case.plan.literal_sizes = true;
    let (kernel, plain) = (case.kernel(&body), capabilities(false, false));
    let Body::Contract(contraction) = &body else { unreachable!("it is one") };
    let all = variants(&plain, contraction);
    let by_rule = render(&case.plan, &kernel, &plain).expect("it renders");
    let with = |variant| {
        let tuned = std::sync::Arc::new(Tuned::from([(identity(contraction), variant)]));
        Capabilities { tuned: Some(tuned), ..plain.clone() }
    };
    let text = |caps: &Capabilities, plan: &Plan| render(plan, &kernel, caps).expect("it renders")[0].wgsl.clone();
    let other = render_as(&case.plan, &kernel, &plain, Some(all[2])).expect("it renders")[0].wgsl.clone();
    assert_eq!(text(&with(all[2]), &case.plan), other);
    assert_ne!(other, by_rule[0].wgsl);
    // what no list has is not rendered, whatever a file says
    let absurd = Variant::Registers { rows: 3, columns: 5, threads: 0 };
    assert_eq!(text(&with(absurd), &case.plan), by_rule[0].wgsl);
    case.plan.literal_sizes = false;
    assert_eq!(text(&with(all[2]), &case.plan), text(&plain, &case.plan), "shared kernels are as they are");
}

#[test]
fn where_a_contraction_s_values_lie_is_no_part_of_what_it_is_known_by() {
    let mut case = Case::new();
    let _other = case.data(DType::F32, 4);
    let number = |case: &mut Case, sizes: [usize; 4], start: i64| {
        let Body::Contract(mut kernel) = (Product { sizes, ..Product::plain(1, 31, 37, 43) }).build(case) else {
            unreachable!("it is one")
        };
        kernel.stores[0].index.offset += start;
        identity(&kernel)
    };
    let first = number(&mut Case::new(), [1, 31, 37, 43], 0);
    assert_eq!(number(&mut case, [1, 31, 37, 43], 0), first, "other buffers");
    assert_eq!(number(&mut case, [1, 31, 37, 43], 64), first, "further on");
    assert_ne!(number(&mut case, [1, 31, 37, 43], 65), first, "aligned in another way");
    assert_ne!(number(&mut case, [1, 32, 37, 43], 0), first, "another size");
}

#[test]
fn what_sums_in_another_order_is_no_variant() {
    let mut case = Case::new();
    let body = Product::plain(1, 256, 256, 64).build(&mut case);
    let Body::Contract(contraction) = &body else { unreachable!("it is one") };
    let units = Units { subgroups: [32, 32], f16: Some(16), f32: Some(8), terms: true };
    let caps = Capabilities { cooperative: Some(units), max_workgroup_bytes: 48 << 10, ..capabilities(false, true) };
    let by_rule = render(&case.plan, &case.kernel(&body), &caps).expect("it renders");
    assert!(by_rule[0].wgsl.contains("coopMultiplyAdd"));
    assert_eq!(variants(&caps, contraction), []);
}

#[test]
fn results_larger_than_a_binding_are_cut() {
    for turned in [false, true] {
        let mut case = Case::new();
        let mut product = Product::plain(1, 70, 130, 20);
        if turned {
            product.out = [70 * 130, 1, 70];
        }
        let body = product.build(&mut case);
        for software in [true, false] {
            let caps = Capabilities {
                max_binding_bytes: 8192,
                max_groups: 15,
                max_storage_buffers: 32,
                ..capabilities(software, true)
            };
            case.check_on(&body, &caps);
        }
    }
}

/// More workgroups than fit into one dimension fold into the second, which may leave one without work: what that stored
/// would be added twice.
#[test]
fn a_workgroup_too_many_stores_nothing() {
    let caps = reading_together();
    let lanes = software_lanes(&caps);
    let mut case = Case::new();
    let mut body = Product::plain(1, 17, 4 * lanes, 8).build(&mut case);
    let Body::Contract(kernel) = &mut body else { unreachable!("it is one") };
    let Store { buffer, index, value } = kernel.stores[0].clone();
    let mut epilogue = Code(kernel.epilogue.clone());
    let before = epilogue.load(DType::F32, buffer, index);
    kernel.stores[0].value = epilogue.push(DType::F32, InstrOp::Binary(Binary::Add, before, value));
    kernel.epilogue = epilogue.0;
    let apart = Variant::Registers { rows: 1, columns: 4, threads: lanes };
    let together = Variant::Subgroups { rows: 1, columns: 4, sharing: lanes };
    for (max_groups, groups) in [(65_535, [17, 1, 1]), (15, [9, 2, 1])] {
        let caps = Capabilities { max_groups, ..caps.clone() };
        for variant in [apart, together] {
            case.check_as(&body, &caps, Some(variant));
            let launch = &render_as(&case.plan, &case.kernel(&body), &caps, Some(variant)).expect("it renders")[0];
            assert_eq!(launch.groups, groups, "{variant}");
        }
    }
}

#[test]
fn products_that_take_too_long_are_cut_with_the_same_bits() {
    for sizes in [[1, 70, 130, 37], [1, 256, 192, 64], [5, 3, 7, 301]] {
        for (software, shares_sums) in [(true, false), (false, false), (false, true)] {
            for literal in [true, false] {
                let mut case = Case::new();
                let [b, m, n, k] = sizes;
                let body = Product::plain(b, m, n, k).build(&mut case);
                case.plan.literal_sizes = literal;
                let caps = Capabilities { shares_sums, ..capabilities(software, false) };
                assert!(case.check_cut_by_time(&body, &caps) >= 6, "{sizes:?}");
            }
        }
    }
}

#[test]
fn the_lecture_s_product_fits_bindings_of_128_mib() {
    let (m, n, k) = (7000, 7000, 3000);
    let mut case = Case::new();
    for elements in [m * k, k * n, n, m * n] {
        case.buffer(DType::F32, []);
        case.plan.buffers.last_mut().expect("just pushed").elements = elements;
    }
    let mut other = Case::new();
    let body = Product::plain(1, 4, 4, 4).build(&mut other);
    let Body::Contract(mut kernel) = body else { unreachable!("it builds a contraction") };
    kernel.axes = vec![1, m, n, k];
    for (code, strides) in [(&mut kernel.lhs.0, [0, k as i64, 0, 1]), (&mut kernel.rhs.0, [0, 0, 1, n as i64])] {
        let InstrOp::Load { index, .. } = &mut code.instrs[0].op else { unreachable!("operands are loads") };
        *index = affine(&strides, 0);
    }
    kernel.stores[0].index = affine(&[0, n as i64, 1], 0);
    let body = Body::Contract(kernel);
    for software in [true, false] {
        let launches = render(&case.plan, &case.kernel(&body), &capabilities(software, false)).expect("it renders");
        assert_eq!(launches.len(), 2);
        for launch in &launches {
            validate(launch);
            assert!(launch.bindings.iter().all(|b| b.size_bytes <= 128 << 20 && b.offset_bytes.is_multiple_of(256)));
        }
        let windows: Vec<_> =
            launches.iter().flat_map(|launch| launch.bindings.iter().filter(|b| b.writable)).collect();
        assert!(windows[0].offset_bytes == 0 && windows[1].offset_bytes + windows[1].size_bytes == (m * n * 4) as u64);
    }
}

/// Times products on this machine's adapter: `cargo test --lib measure_products -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn measure_products() {
    let gpu = runner::gpu().expect("an adapter");
    let size = 1024;
    for (name, left_turned, right_turned) in [("A B", false, false), ("A Bt", false, true), ("At B", true, false)] {
        let mut product = Product::plain(1, size, size, size);
        let side = size as i64;
        if left_turned {
            product.left = [0, 1, side];
        }
        if right_turned {
            product.right = [0, 1, side];
        }
        let mut case = Case::new();
        let body = product.build(&mut case);
        for literal in [true, false] {
            case.plan.literal_sizes = literal;
            let launches = render(&case.plan, &case.kernel(&body), &capabilities(true, true)).expect("it renders");
            let seconds = gpu.time(&launches, &case.contents);
            eprintln!("{name} literal {literal}: {:.1} GFLOP/s", 2.0 * (size as f64).powi(3) / seconds / 1e9);
        }
    }
}
