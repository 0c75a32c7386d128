//! Reductions of rows that lie side by side, several of which a workgroup shares.

use super::table::plan;
use super::*;
use crate::autodiff::grad;
use crate::graph::{Binary, ReduceOp};
use crate::plan::{Level, LoopKernel, Phase};
use crate::shape::Shape;
use crate::tensor::Tensor;

fn inner(code: Code, reductions: Vec<(ReduceOp, ValueId)>, stores: Vec<Store>) -> Phase {
    Phase { level: Level::Inner, tape: code.0, reductions, stores }
}

fn outer(code: Code, stores: Vec<Store>) -> Phase {
    Phase { level: Level::Outer, tape: code.0, reductions: Vec::new(), stores }
}

/// Rows in memory: sizes of the axes, how many are outer, distances along them.
struct Rows<'a>(&'a [usize], usize, &'a [i64]);

impl Rows<'_> {
    fn index(&self) -> Ix {
        affine(self.2, 0)
    }

    /// The position of an outer point among all.
    fn point(&self) -> Ix {
        let strides: Vec<i64> = Shape::from(&self.0[..self.1]).strides().iter().map(|&stride| stride as i64).collect();
        affine(&strides, 0)
    }

    fn points(&self) -> usize {
        self.0[..self.1].iter().product()
    }

    /// Elements from the first to the last.
    fn elements(&self) -> usize {
        self.index().range(self.0).1 as usize + 1
    }

    fn body(&self, phases: Vec<Phase>) -> Body {
        Body::Loop(LoopKernel { axes: self.0.to_vec(), outer: self.1, phases })
    }
}

/// All reductions in one sweep. Products are of a few numbers that are not 1, so that each of them shows.
fn reductions(case: &mut Case, dtype: DType, rows: &Rows<'_>) -> Body {
    let of_product = |i: usize| match (dtype, i * 7919 % 1009 / 9) {
        (DType::Bool, _) => f64::from(!(i * 7919).is_multiple_of(10_007)),
        (_, 0) => 2.0,
        (DType::F32 | DType::F16 | DType::I32, 1) => -1.0,
        _ => 1.0,
    };
    let summed = case.data(dtype, rows.elements());
    let multiplied = case.buffer(dtype, (0..rows.elements()).map(of_product));
    let mut row = Code::default();
    let [x, y] = [summed, multiplied].map(|buffer| row.load(dtype, buffer, rows.index()));
    let reductions = vec![(ReduceOp::Sum, x), (ReduceOp::Max, x), (ReduceOp::Min, x), (ReduceOp::Prod, y)];
    let mut last = Code::default();
    let stores = (0..reductions.len()).map(|number| {
        let value = last.push(dtype, InstrOp::Reduced(number));
        store(case.data(dtype, rows.points()), rows.point(), value)
    });
    let stores = stores.collect();
    rows.body(vec![inner(row, reductions, Vec::new()), outer(last, stores)])
}

/// How many fours of rows the kernel's workgroups take, and how many threads share one; `None` if it is in no blocks.
fn block(case: &Case, body: &Body, caps: &Capabilities) -> Option<[usize; 2]> {
    let text = &render(&case.plan, &case.kernel(body), caps).expect("it renders")[0].wgsl;
    let number = |name: &str| {
        let after = text.split_once(&format!("const {name}: u32 = "))?.1;
        after[..after.find('u')?].parse().ok()
    };
    Some([number("FOURS")?, number("SHARES")?])
}

/// A real adapter, with and without f16.
fn adapters() -> [Capabilities; 2] {
    [true, false].map(|f16| capabilities(false, f16))
}

#[test]
fn blocks_reduce_all_types() {
    // few and many rows, whole fours and not, in whole blocks and not, of several axes, with gaps between
    let shapes = [
        (Rows(&[4, 71], 1, &[1, 4]), [1, 64]),
        (Rows(&[61, 127], 1, &[1, 64]), [1, 64]),
        (Rows(&[12, 7, 11], 1, &[1, 12, 84]), [1, 64]),
        (Rows(&[3, 20, 129], 2, &[2580, 1, 20]), [1, 128]),
        (Rows(&[68, 1009], 1, &[1, 68]), [1, 256]),
        (Rows(&[260, 131], 1, &[1, 260]), [2, 128]),
        (Rows(&[517, 67], 1, &[1, 520]), [4, 64]),
        // shorter than a workgroup's 64 threads
        (Rows(&[128, 32], 1, &[1, 128]), [1, 64]),
        (Rows(&[400, 20], 1, &[1, 400]), [2, 32]),
    ];
    for dtype in DType::ALL {
        for (rows, expected) in &shapes {
            let mut case = Case::new();
            let body = reductions(&mut case, dtype, rows);
            for caps in adapters() {
                assert_eq!(block(&case, &body, &caps), Some(*expected), "{:?}", rows.0);
                case.check_on(&body, &caps);
            }
        }
    }
}

#[test]
fn many_rows_are_taken_in_wide_blocks() {
    for (rows, expected) in [(Rows(&[4108, 97], 1, &[1, 4108]), [8, 32]), (Rows(&[8206, 67], 1, &[1, 8208]), [16, 16])]
    {
        let mut case = Case::new();
        let body = reductions(&mut case, DType::F32, &rows);
        let caps = capabilities(false, false);
        assert_eq!(block(&case, &body, &caps), Some(expected));
        case.check_on(&body, &caps);
        // more groups than one dimension has
        case.check_on(&body, &Capabilities { max_groups: 100, ..caps });
    }
}

#[test]
fn blocks_fit_into_what_an_adapter_allows() {
    let rows = Rows(&[132, 300], 1, &[1, 132]);
    let mut case = Case::new();
    let body = reductions(&mut case, DType::F32, &rows);
    let with = |change: fn(&mut Capabilities)| {
        let mut caps = capabilities(false, false);
        change(&mut caps);
        caps
    };
    assert_eq!(block(&case, &body, &with(|_| ())), Some([1, 256]));
    for caps in [with(|caps| caps.max_workgroup_invocations = 128), with(|caps| caps.max_workgroup_bytes = 8192)] {
        assert_eq!(block(&case, &body, &caps), Some([1, 128]));
        case.check_on(&body, &caps);
    }
    assert_eq!(block(&case, &body, &with(|caps| caps.max_workgroup_bytes = 4000)), None);
    assert_eq!(block(&case, &body, &with(|caps| caps.software = true)), None);
    // nor are there blocks where rows do not lie side by side
    for rows in [Rows(&[132, 300], 1, &[300, 1]), Rows(&[132, 300], 1, &[600, 2]), Rows(&[133, 300], 1, &[1, 133])] {
        let mut case = Case::new();
        let body = reductions(&mut case, DType::F32, &rows);
        assert_eq!(block(&case, &body, &capabilities(false, false)), None);
    }
}

/// llvmpipe ends loops silently, other drivers may: rows of a broadcast value, as long as they get.
#[test]
fn no_invocation_of_a_block_loops_for_too_long() {
    for sweeps in 1..=4 {
        let length = 1 << 18;
        let mut case = Case::new();
        let (input, output) = (case.data(DType::F32, 8192), case.data(DType::F32, 8192));
        let sweep = || {
            let mut row = Code::default();
            let x = row.load(DType::F32, input, Ix::axis(0));
            inner(row, vec![(ReduceOp::Max, x)], Vec::new())
        };
        let mut phases: Vec<Phase> = (0..sweeps).map(|_| sweep()).collect();
        let mut last = Code::default();
        let most = last.push(DType::F32, InstrOp::Reduced(0));
        phases.push(outer(last, vec![store(output, Ix::axis(0), most)]));
        let body = Rows(&[8192, length], 1, &[1, 0]).body(phases);
        let [fours, shares] = block(&case, &body, &capabilities(false, false)).expect("a block");
        assert!(length / shares * sweeps <= 32_768, "{sweeps} sweeps by {shares} threads");
        assert_eq!(fours, if sweeps <= 2 { 16 } else { 8 });
    }
}

/// `output[point]` = the sum of the row of `input`.
fn sums(rows: &Rows, input: BufferId, output: BufferId) -> Body {
    let mut row = Code::default();
    let x = row.load(DType::F32, input, rows.index());
    let mut last = Code::default();
    let sum = last.push(DType::F32, InstrOp::Reduced(0));
    let stores = vec![store(output, rows.point(), sum)];
    rows.body(vec![inner(row, vec![(ReduceOp::Sum, x)], Vec::new()), outer(last, stores)])
}

#[test]
fn long_sums_in_blocks_lose_nothing() {
    for rows in [Rows(&[4, 1 << 18], 1, &[1, 4]), Rows(&[66, 10_007], 1, &[1, 68]), Rows(&[512, 1023], 1, &[1, 512])] {
        let mut case = Case::new();
        // whole numbers whose sums are exact in any order
        let input = case.buffer(DType::F32, (0..rows.elements()).map(|i| (i * 7919 % 10_007 % 16) as f64));
        let output = case.data(DType::F32, rows.points());
        let body = sums(&rows, input, output);
        case.tolerance = 0.0;
        let caps = capabilities(false, false);
        assert!(block(&case, &body, &caps).is_some());
        case.check_on(&body, &caps);
    }
}

/// Sweeps that use the reductions before them and write where they read, and what is done once for each row between
/// them.
#[test]
fn sweeps_of_a_block_update_in_place() {
    for (dtype, rows) in [DType::F32, DType::F16].into_iter().flat_map(|dtype| {
        [Rows(&[61, 131], 1, &[1, 64]), Rows(&[270, 100], 1, &[1, 272]), Rows(&[5, 12, 77], 2, &[924, 1, 12])]
            .map(|rows| (dtype, rows))
    }) {
        let mut case = Case::new();
        let x = case.data(dtype, rows.elements());
        let (means, running) = (case.data(DType::F32, rows.points()), case.data(dtype, rows.points()));
        let load = |code: &mut Code| code.load(dtype, x, rows.index());
        let f = DType::F32;
        let wide = |code: &mut Code, value| code.push(f, InstrOp::Cast(value));
        let mean_of = |code: &mut Code, number| {
            let sum = code.push(dtype, InstrOp::Reduced(number));
            let sum = wide(code, sum);
            let part = code.constant(f, 1.0 / rows.0[rows.1..].iter().product::<usize>() as f64);
            code.push(f, InstrOp::Binary(Binary::Mul, sum, part))
        };
        let mut sum = Code::default();
        let value = load(&mut sum);
        let first = inner(sum, vec![(ReduceOp::Sum, value)], Vec::new());
        // once for a row: its mean, and the running one
        let mut once = Code::default();
        let mean = mean_of(&mut once, 0);
        let before = once.load(dtype, running, rows.point());
        let before = wide(&mut once, before);
        let both = once.push(f, InstrOp::Binary(Binary::Add, before, mean));
        let both = once.push(dtype, InstrOp::Cast(both));
        let second = outer(once, vec![store(means, rows.point(), mean), store(running, rows.point(), both)]);
        // x - mean in its place, and the largest of them
        let mut shift = Code::default();
        let value = load(&mut shift);
        let value = wide(&mut shift, value);
        let mean = mean_of(&mut shift, 0);
        let shifted = shift.push(f, InstrOp::Binary(Binary::Sub, value, mean));
        let shifted = shift.push(dtype, InstrOp::Cast(shifted));
        let third = inner(shift, vec![(ReduceOp::Max, shifted)], vec![store(x, rows.index(), shifted)]);
        let mut scale = Code::default();
        let value = load(&mut scale);
        let most = scale.push(dtype, InstrOp::Reduced(1));
        let scaled = scale.push(dtype, InstrOp::Binary(Binary::Mul, value, most));
        let fourth = inner(scale, Vec::new(), vec![store(x, rows.index(), scaled)]);
        let body = rows.body(vec![first, second, third, fourth]);
        assert!(block(&case, &body, &capabilities(false, false)).is_some());
        // the values between rows stay what they are, with one invocation for each four rows too
        case.check(body);
    }
}

/// Steps as the planner makes them, kernel after kernel with what the ones before it computed.
#[test]
fn norms_and_softmax_over_the_first_axis() {
    /// How many kernels were in blocks, and how many sweeps the longest of these has.
    fn check(inputs: &[&[usize]], function: impl FnMut(&[Tensor]) -> Vec<Tensor> + Send + 'static) -> [usize; 2] {
        let inputs: Vec<_> = inputs.iter().map(|&shape| (Shape::from(shape), DType::F32)).collect();
        let mut case = Case { plan: plan(&inputs, function), tolerance: 2e-4, ..Case::default() };
        let buffers = std::mem::take(&mut case.plan.buffers);
        buffers.iter().for_each(|buffer| _ = case.data(buffer.dtype, buffer.elements));
        case.uniforms = vec![1.0f32.to_bits(); case.plan.uniforms];
        let mut seen = [0, 0];
        for kernel in case.plan.kernels.clone() {
            let caps = capabilities(false, false);
            if let Body::Loop(body) = &kernel.body
                && block(&case, &kernel.body, &caps).is_some()
            {
                let sweeps = body.phases.iter().filter(|phase| phase.level == Level::Inner).count();
                seen = [seen[0] + 1, seen[1].max(sweeps)];
            }
            case.check_on(&kernel.body, &caps);
            let mut values = case.values(&case.contents);
            interpret(&case.plan, &kernel, &mut values, &case.uniforms, Rounding::Instructions);
            for ((bytes, buffer), values) in case.contents.iter_mut().zip(&case.plan.buffers).zip(values) {
                let bits = values.into_iter().map(|value| Scalar::new(buffer.dtype, value).bits.to_le_bytes());
                *bytes = bits.flat_map(|bits| bits[..buffer.dtype.size_bytes()].to_vec()).collect();
            }
        }
        seen
    }
    for [rows, columns] in [[211, 64], [130, 264]] {
        let matrix: &[usize] = &[rows, columns];
        let row: &[usize] = &[columns];
        assert_eq!(check(&[matrix], |x| vec![x[0].softmax(0)]), [1, 3], "softmax");
        let gradient = |x: &[Tensor]| grad(&(x[0].softmax(0) * &x[1]).sum(), &[&x[0]]);
        assert!(check(&[matrix, matrix], gradient)[0] >= 1, "its gradient");
        let norm = |x: &[Tensor]| {
            let of = x[0].batch_norm(Some(&x[2]), Some(&x[3]), 1e-5);
            let mut all = grad(&(&of.output * &x[1]).sum(), &[&x[0], &x[2], &x[3]]);
            all.extend([of.output, of.mean, of.variance]);
            all
        };
        let [blocks, sweeps] = check(&[matrix, matrix, row, row], norm);
        assert!(blocks >= 2 && sweeps >= 2, "batch norm: {blocks} kernels, {sweeps} sweeps");
        let norm = |x: &[Tensor]| {
            let of = x[0].layer_norm(1, Some(&x[2]), Some(&x[3]), 1e-5);
            grad(&(of * &x[1]).sum(), &[&x[0], &x[2], &x[3]])
        };
        assert!(check(&[matrix, matrix, row, row], norm)[0] >= 1, "layer norm");
    }
}

#[test]
fn pieces_of_kernels_in_blocks_give_the_same_bits() {
    for (rows, expected) in
        [(Rows(&[512, 131], 1, &[1, 512]), [4, 64]), (Rows(&[2, 132, 300], 2, &[39_600, 1, 132]), [2, 128])]
    {
        let mut case = Case::new();
        let input = case.data(DType::F32, rows.elements());
        let output = case.data(DType::F32, rows.points());
        let body = sums(&rows, input, output);
        let caps = capabilities(false, false);
        assert_eq!(block(&case, &body, &caps), Some(expected));
        assert!(case.check_cut_by_time(&body, &caps) >= 5, "{:?}", rows.0);
    }
}
