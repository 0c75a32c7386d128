//! What is done several times, or not at all, when it could be done once.

use super::Trial;
use super::phases::has_gaps;
use crate::autodiff;
use crate::dtype::DType;
use crate::ops::conv::ConvOptions;
use crate::plan::{Body, Plan};
use crate::runtime::{checkpoint, trace::collect};
use crate::tensor::Tensor;

/// Multiplications of all contractions.
fn products(plan: &Plan) -> usize {
    let bodies = plan.kernels.iter().filter_map(|kernel| match &kernel.body {
        Body::Contract(kernel) => Some(kernel.sizes().iter().product::<usize>()),
        _ => None,
    });
    bodies.sum()
}

/// Quotients and remainders in the longest index.
fn longest_index(plan: &Plan) -> usize {
    let mut longest = 0;
    for kernel in &plan.kernels {
        kernel.body.clone().map_indices(|ix| {
            longest = longest.max(ix.quotients());
            ix.clone()
        });
    }
    longest
}

#[test]
fn views_of_views_have_an_end() {
    let mut trial = Trial::new();
    let x = trial.input([300, 2]);
    let (heads, _) = collect(|| {
        let (mut rest, mut heads) = (x.clone(), Vec::new());
        for _ in 0..290 {
            heads.push(rest.select(0, 0));
            rest = rest.slice(0, 1..);
        }
        heads
    });
    let flipped = (0..300).fold(x.clone(), |x, _| x.flip(0));
    trial.check_all(&[heads[289].clone(), heads[70].clone(), flipped]);
}

#[test]
fn riffled_indices_stay_short() {
    let mut trial = Trial::new();
    let x = trial.input([210]);
    let riffled = |x: &Tensor| x.reshape([2, 105]).t().reshape([210]);
    let moved = (0..30).fold(x.clone(), |x, _| riffled(&x));
    let computed = (0..14).fold(x.clone(), |x, _| riffled(&x) * 0.5 + 0.25);
    let plan = trial.check_all(&[moved, computed]);
    assert!(longest_index(&plan) <= 80, "{}", longest_index(&plan));
}

#[test]
fn sums_over_windows_of_batches_are_not_multiplied_out() {
    let mut trial = Trial::new();
    let (k, v) = (trial.input([16, 6, 5]), trial.input([16, 6, 7]));
    let states = k.transpose(-1, -2).matmul(&v).cumsum(0);
    let plan = trial.check_all(&[states]);
    assert_eq!(products(&plan), 16 * 6 * 5 * 7, "{plan}");
    // a gradient of a convolution that leaves one place of 25
    let (x, w) = (trial.input([2, 3, 5, 5]), trial.input([4, 3, 5, 5]));
    let y = x.conv2d(&w, None, &ConvOptions::default());
    let plan = trial.check_all(&autodiff::grad(&(&y * &y).sum(), &[&x]));
    let of_one = 2 * 3 * 25 * 4;
    assert!(products(&plan) <= 2 * of_one, "{} of {of_one}\n{plan}", products(&plan));
}

#[test]
fn a_reshape_hides_no_repetition() {
    let mut trial = Trial::new();
    let (a, x) = (trial.input([40]), trial.input([40, 40]));
    let dear = a.sin().exp().tanh();
    let sines = |plan: &Plan| {
        let computing = plan.kernels.iter().filter(|kernel| format!("{:?}", kernel.body).contains("Sin"));
        computing.map(|kernel| kernel.body.axes().iter().product::<usize>()).sum::<usize>()
    };
    for spread in [dear.clone(), dear.unsqueeze(0), dear.unsqueeze(1), dear.reshape([1, 40])] {
        let plan = trial.check_all(&[&x * &spread]);
        assert_eq!(sines(&plan), 40, "{plan}");
    }
    let rows = trial.input([8, 6]).sin().exp().tanh().reshape([6, 8]);
    let plan = trial.check_all(&[rows.sum_dim(0), rows.sum_dim(1)]);
    assert_eq!(sines(&plan), 48, "{plan}");
    // cheap ones are computed where they are needed
    let plan = trial.check_all(&[&x * (&a + 1.0).unsqueeze(0)]);
    assert_eq!(plan.kernels.len(), 1, "{plan}");
}

#[test]
fn what_is_gathered_from_is_not_copied() {
    let mut trial = Trial::new();
    let table = trial.input([5, 7]);
    let labels = trial.values([5, 1], DType::I32, vec![6.0, 0.0, 3.0, 3.0, 1.0]);
    let plan = trial.check_all(&[table.gather(1, &labels)]);
    assert_eq!(plan.kernels.len(), 1, "{plan}");
    // computed first, and read as it was reshaped
    let plan = trial.check_all(&[(&table * 2.0).exp().reshape([7, 5]).index_select(0, &labels.reshape([5]))]);
    assert_eq!(plan.kernels.len(), 2, "{plan}");
    // where it lies in another order, it is
    let moved = table.t().reshape([5, 7]);
    trial.check_all(&[moved.index_select(0, &labels.reshape([5]).minimum(4))]);
}

#[test]
fn a_block_that_is_computed_again_reads_its_input_where_it_is() {
    let mut trial = Trial::new();
    let (x, w, v) = (trial.input([4, 6]), trial.input([6, 6]), trial.input([6, 6]));
    let y = checkpoint(|| x.matmul(&w).relu().matmul(&v).tanh());
    let plan = trial.check_all(&autodiff::grad(&(&y * &y).sum(), &[&w, &v]));
    assert_eq!(plan.why_stored("after"), Vec::<String>::new(), "{plan}");
}

#[test]
fn what_is_an_output_is_not_computed_again() {
    let mut trial = Trial::new();
    let x = trial.input([30, 20]);
    let rows = x.square().sum_keepdim(1);
    let plan = trial.check_all(&[rows.clone(), rows.sum()]);
    let loads = plan.kernels.iter().filter(|kernel| kernel.reads.contains(&0)).count();
    assert_eq!(loads, 1, "{plan}");
}

#[test]
fn integers_wrap_when_they_are_cast_before_they_are_known() {
    let trial = Trial::new();
    let device = crate::device::Device::cpu();
    let cast = |value: Tensor, dtype: DType| value.to_dtype(dtype);
    trial.check_all(&[
        cast(Tensor::full([2], -1_i32, &device), DType::U32),
        cast(Tensor::full([2], 300_i32, &device), DType::U8),
        cast(Tensor::full([2], 4_000_000_000_u32, &device), DType::I32),
        cast(Tensor::full([2], -1.5_f32, &device), DType::U32),
        cast(Tensor::full([2], 1e20_f32, &device), DType::I32),
    ]);
}

#[test]
fn steps_are_removed_beside_a_kernel_axis_of_one() {
    let mut trial = Trial::new();
    let (x, w) = (trial.input([2, 3, 8, 9]), trial.input([4, 3, 1, 3]));
    let y = x.conv2d(&w, None, &ConvOptions::default().stride(2));
    let plan = trial.check_all(&autodiff::grad(&(&y * &y).sum(), &[&x]));
    assert!(!has_gaps(&plan), "{plan}");
    let (x, w) = (trial.input([2, 3, 4, 5]), trial.input([3, 4, 1, 4]));
    let plan = trial.check_all(&[x.conv_transpose2d(&w, None, &ConvOptions::default().stride(2))]);
    assert!(!has_gaps(&plan), "{plan}");
}

#[test]
fn a_masked_maximum_is_compared_as_it_is_rounded() {
    let mut trial = Trial::new();
    let (x, a, mask) = (trial.input([6, 5]), trial.input([5]), trial.input([6, 5]));
    let y = &x * &a + 0.25;
    let seen = mask.gt(0.0);
    let most = seen.where_(&y, f64::NEG_INFINITY).max_keepdim(1);
    let plan = trial.check_all(&[y.eq(&most)]);
    assert!(plan.why_stored("add").iter().any(|line| line.contains("compared with its own maximum")), "{plan}");
}

#[test]
fn kernels_have_no_more_reductions_than_workgroups_have_memory() {
    let mut trial = Trial::new();
    let x = trial.input([40, 300]);
    let (sums, _) = collect(|| (0..40).map(|row| x.select(0, row).square().sum()).reduce(|a, b| a + b).expect("rows"));
    let plan = trial.check_all(&[sums]);
    let reductions = |body: &Body| match body {
        Body::Loop(kernel) => kernel.phases.iter().map(|phase| phase.reductions.len()).sum(),
        _ => 0,
    };
    let most = plan.kernels.iter().map(|kernel| reductions(&kernel.body)).max().expect("kernels");
    assert!((2..=16).contains(&most), "{most}\n{plan}");
}
