//! Reductions that end in shuffles: the bits of those that go through workgroup memory alone.

use super::*;
use crate::device::tests::fresh_gpus_with_and_without_subgroups;
use crate::graph::ReduceOp;
use crate::plan::{Level, LoopKernel, Phase};
use crate::tensor::Tensor;

/// Around the sizes of workgroups, primes, several shares of a thread.
const LENGTHS: [usize; 9] = [1, 3, 63, 67, 128, 257, 1000, 1009, 4097];

/// Sizes of subgroups, those of this machine's adapter and others', whose kernels are checked and not run.
fn sizes() -> Vec<[usize; 2]> {
    let mut sizes = vec![[32, 32], [64, 64], [8, 32], [4, 64]];
    if let Some([least, most]) = runner::gpu().and_then(|gpu| gpu.subgroups) {
        // those of fewer lanes do in parts what the adapter's do
        sizes.extend((2..=least.ilog2()).map(|lanes| [1 << lanes, most]));
    }
    sizes
}

/// All reductions of `outer` rows of `length`, in one sweep. Sums and products of floats show the order in which they
/// were made.
fn reductions(case: &mut Case, dtype: DType, outer: &[usize], length: usize) -> Body {
    let rows: usize = outer.iter().product();
    let value = |i: usize| match dtype {
        DType::F32 | DType::F16 => 0.9 + (i * 7919 % 1009) as f64 / 5000.0,
        DType::Bool => (i * 7919 % 1009 % 2) as f64,
        _ => (i * 7919 % 13) as f64,
    };
    let input = case.buffer(dtype, (0..rows * length).map(value));
    let axes = [outer, &[length]].concat();
    let strides = |shape: &[usize]| crate::Shape::from(shape).strides().iter().map(|&s| s as i64).collect::<Vec<_>>();
    let mut row = Code::default();
    let x = row.load(dtype, input, affine(&strides(&axes), 0));
    let ops = [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min];
    let ops = if dtype == DType::Bool { &ops[..2] } else { &ops[..] };
    let mut last = Code::default();
    let mut stores = Vec::new();
    for number in 0..ops.len() {
        let value = last.push(dtype, InstrOp::Reduced(number));
        let output = case.data(dtype, rows);
        stores.push(store(output, affine(&strides(outer), 0), value));
    }
    let reductions = ops.iter().map(|&op| (op, x)).collect();
    let phases = vec![
        Phase { level: Level::Inner, tape: row.0, reductions, stores: Vec::new() },
        Phase { level: Level::Outer, tape: last.0, reductions: Vec::new(), stores },
    ];
    Body::Loop(LoopKernel { axes, outer: outer.len(), phases })
}

/// The buffers after the launches have run.
fn results(case: &Case, gpu: &runner::Gpu, launches: &[Launch]) -> Vec<Vec<u8>> {
    let mut contents = case.contents.clone();
    gpu.run(launches, &mut contents, &case.uniforms);
    contents
}

#[test]
fn shuffles_are_valid_everywhere_and_sum_up() {
    for dtype in DType::ALL {
        for length in LENGTHS {
            let mut case = Case::new();
            case.tolerance = 1e-4;
            let body = reductions(&mut case, dtype, &[3], length);
            for sizes in sizes() {
                case.check_on(&body, &Capabilities { subgroups: Some(sizes), ..capabilities(false, false) });
            }
        }
    }
}

#[test]
fn shuffles_give_the_bits_of_workgroup_memory() {
    let Some(gpu) = runner::gpu() else { return };
    let Some(of_adapter) = gpu.subgroups else {
        eprintln!("skipped, as the adapter has no subgroups");
        return;
    };
    let mut seen = 0;
    for dtype in DType::ALL {
        let lengths = if dtype == DType::F32 { &LENGTHS[..] } else { &[67, 1000] };
        for (&length, outer) in lengths.iter().flat_map(|length| [(length, &[7][..]), (length, &[2, 20])]) {
            let mut case = Case::new();
            let body = reductions(&mut case, dtype, outer, length);
            let rendered = |subgroups| {
                let caps = Capabilities { subgroups, ..capabilities(false, gpu.f16) };
                render(&case.plan, &case.kernel(&body), &caps).expect("it renders")
            };
            let expected = results(&case, gpu, &rendered(None));
            for lanes in (2..=of_adapter[0].ilog2()).map(|lanes| 1 << lanes) {
                let mut launches = rendered(Some([lanes, of_adapter[1]]));
                let text = launches[0].wgsl.clone();
                assert_eq!(text.contains("subgroupShuffleXor"), length > 16, "{text}");
                assert!(results(&case, gpu, &launches) == expected, "{outer:?} rows of {length} {dtype}\n{text}");
                if dtype == DType::F32 && text.contains("subgroupShuffleXor") {
                    // the last two levels exchanged
                    let exchanged = text.replace("_part, 2u)", "_part, last)").replace("_part, 1u)", "_part, 2u)");
                    launches[0].wgsl = exchanged.replace("_part, last)", "_part, 1u)");
                    seen += usize::from(results(&case, gpu, &launches) != expected);
                }
            }
        }
    }
    assert!(seen > 5, "another order shows in {seen} cases");
}

#[test]
fn networks_layers_have_the_same_bits_with_and_without_subgroups() {
    let Some(devices) = fresh_gpus_with_and_without_subgroups() else {
        eprintln!("skipped, as there is no adapter with subgroups");
        return;
    };
    for (rows, columns) in [(5, 67), (3, 1000), (7, 4097), (33, 257)] {
        let count = rows * columns;
        let values: Vec<f32> = (0..count).map(|i| (i * 7919 % 10_007) as f32 / 1000.0 - 5.0).collect();
        let labels: Vec<u32> = (0..rows).map(|row| (row * 31 % columns) as u32).collect();
        let bits = |device| {
            let x = Tensor::from_slice(&values, [rows, columns], device).expect("memory");
            let labels = Tensor::from_vec(labels.clone(), device).expect("memory");
            let loss = x.cross_entropy(&labels);
            let slopes = crate::autodiff::grad(&loss, &[&x]).remove(0);
            let norm = x.layer_norm(1, None, None, 1e-5);
            let norm_slopes = crate::autodiff::grad(&(&norm * &x.sin()).sum(), &[&x]).remove(0);
            let soft = x.softmax(1);
            let nearly_one = &soft + 1.0;
            let half = x.to_dtype(DType::F16).sum_dim(1).to_dtype(DType::F32);
            let places = x.argmax(1).to_dtype(DType::F32);
            let all =
                [&soft, &loss, &slopes, &norm, &norm_slopes, &x.var_dim(1, 1), &nearly_one.prod_dim(1), &half, &places];
            all.map(|tensor| tensor.to_vec::<f32>().expect("read").into_iter().map(f32::to_bits).collect::<Vec<_>>())
        };
        let [with, without] = devices.each_ref().map(bits);
        for (number, (with, without)) in with.iter().zip(&without).enumerate() {
            assert!(with == without, "result {number} of {rows} rows of {columns}");
        }
    }
}
