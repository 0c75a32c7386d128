//! Sums are cut until there is work for all of a GPU's cores, and no further.

use super::Trial;
use crate::plan::{Body, Kernel, Plan, PlanOptions};
use crate::tensor::Tensor;

/// The contraction's batch, rows, columns and summed points.
fn contraction(plan: &Plan) -> [usize; 4] {
    let sizes = |body: &Body| if let Body::Contract(kernel) = body { Some(kernel.sizes()) } else { None };
    plan.kernels.iter().find_map(|kernel| sizes(&kernel.body)).expect("a contraction")
}

/// Of a GPU none of whose invocations share a sum.
const UNSHARED: PlanOptions = PlanOptions { shared_steps: 0, ..PlanOptions::gpu(7) };

#[test]
fn products_of_few_results_are_cut() {
    let mut trial = Trial::new();
    let (x, y) = (trial.input([20, 2048]), trial.input([2048, 12]));
    for (options, expected) in [
        (UNSHARED, [8, 20, 12, 256]),
        (PlanOptions::software(7), [8, 20, 12, 256]),
        (PlanOptions { wanted_groups: 2, ..UNSHARED }, [2, 20, 12, 1024]),
        // 32 steps of each of the 64 that share a sum
        (PlanOptions::gpu(7), [1, 20, 12, 2048]),
        (PlanOptions { shared_steps: 31, ..PlanOptions::gpu(7) }, [8, 20, 12, 256]),
        (PlanOptions::CPU, [1, 20, 12, 2048]),
    ] {
        let plan = trial.check(&[x.matmul(&y)], &options);
        assert_eq!(contraction(&plan), expected, "{plan}");
    }
}

#[test]
fn products_with_work_for_all_are_whole() {
    let mut trial = Trial::new();
    let (x, y) = (trial.input([40, 520]), trial.input([520, 41]));
    let plan = |trial: &Trial, options| trial.check(&[x.matmul(&y)], &options);
    // one square of 64, or 5 times 6 of 8
    assert_eq!(contraction(&plan(&trial, UNSHARED)), [2, 40, 41, 260]);
    assert_eq!(contraction(&plan(&trial, PlanOptions { group_tile: 8, ..UNSHARED })), [2, 40, 41, 260]);
    let busy = PlanOptions { group_tile: 8, wanted_groups: 30, ..UNSHARED };
    assert_eq!(contraction(&plan(&trial, busy)), [1, 40, 41, 520]);
}

#[test]
fn long_rows_are_cut_where_there_are_few() {
    let mut trial = Trial::new();
    let x = trial.input([1, 1 << 17]);
    for (options, kernels) in [(PlanOptions::gpu(7), 2), (PlanOptions::CPU, 1)] {
        let plan = trial.check(&[x.sum_dim(1)], &options);
        assert_eq!(plan.kernels.len(), kernels, "{plan}");
    }
    // as long, but the rows are enough
    let many = PlanOptions { wanted_groups: 3, ..PlanOptions::gpu(7) };
    let plan = trial.check(&[x.sum_dim(1)], &many);
    assert_eq!(plan.kernels.len(), 1, "{plan}");
}

#[test]
fn long_columns_are_cut_where_few_share_a_workgroup() {
    let mut trial = Trial::new();
    let (narrow, wide) = (trial.input([8192, 64]), trial.input([8192, 300]));
    for (x, options, kernels) in [
        (&narrow, PlanOptions::gpu(7), 2),
        // 19 workgroups want fewer than 8 parts
        (&wide, PlanOptions::gpu(7), 1),
        (&narrow, PlanOptions::software(7), 1),
        (&narrow, PlanOptions::CPU, 1),
    ] {
        let plan = trial.check(&[x.sum_dim(0)], &options);
        assert_eq!(plan.kernels.len(), kernels, "{plan}");
    }
}

#[test]
fn scans_of_few_rows_are_cut_into_blocks() {
    let mut trial = Trial::new();
    let options = PlanOptions { wanted_groups: 8, ..PlanOptions::gpu(7) };
    for (shape, axis, kernels) in [
        // read for what blocks come to, their scan, what comes before each, all of it
        (&[2, 9000][..], 1, 4),
        (&[5000, 3], 0, 4),
        (&[8, 9000], 1, 1),
        (&[5000, 250], 0, 1),
        (&[2, 3000], 1, 1),
    ] {
        let x = trial.input(shape);
        let plan = trial.check(&[x.cumsum(axis)], &options);
        assert_eq!(plan.kernels.len(), kernels, "{plan}");
        assert_eq!(trial.check(&[x.cumsum(axis)], &PlanOptions::CPU).kernels.len(), 1);
    }
    let x = trial.input([9000]);
    let weights = x.flip([0]);
    let gradient = crate::autodiff::grad(&(x.cumsum(0) * weights).sum(), &[&x]).remove(0);
    let columns = trial.input([5000, 3]);
    let weights = columns.flip([0]);
    let of_columns = crate::autodiff::grad(&(columns.cumsum(0) * weights).sum(), &[&columns]).remove(0);
    trial.check(&[of_columns], &options);
    trial.check(&[gradient, x.cummax(0).0, (&x * 9.0).to_dtype(crate::DType::I32).cummin(0).0], &options);
}

/// Kernels that read an input of so many elements.
fn readers(plan: &Plan, elements: usize) -> usize {
    let reads = |kernel: &&Kernel| kernel.reads.iter().any(|&buffer| plan.buffers[buffer].elements == elements);
    plan.kernels.iter().filter(reads).count()
}

#[test]
fn parts_are_read_once_for_their_mean_and_their_variance() {
    // few rows; rows that are too long, and prime in one axis; columns
    for (shape, axes) in [
        (&[8, 3, 64, 64][..], &[0, 2, 3][..]),
        (&[13, 2, 128, 128], &[0, 2, 3]),
        (&[1, 3, 256, 128], &[0, 2, 3]),
        (&[1, 3, 256, 128], &[2, 3]),
        (&[8192, 3], &[0]),
    ] {
        let mut trial = Trial::new();
        let x = trial.input(shape);
        let plan = trial.check(&[x.mean_dim(axes), x.var_dim(axes, 1)], &PlanOptions::gpu(7));
        assert_eq!((plan.kernels.len(), readers(&plan, x.numel())), (2, 1), "{plan}");
    }
    // on the CPU strips of a row pass through its cache once more
    let mut trial = Trial::new();
    let x = trial.input([8, 1 << 17]);
    let plan = trial.check(&[x.mean_dim(1), x.var_dim(1, 1)], &PlanOptions::CPU);
    assert_eq!(plan.buffers.iter().filter(|buffer| buffer.elements > 8).count(), 1, "no parts: {plan}");
    // primes have no even parts, so the mean is known before distances from it are summed
    let mut trial = Trial::new();
    let x = trial.input([509, 67]);
    let plan = trial.check(&[x.mean(), x.var()], &PlanOptions::gpu(7));
    assert_eq!(readers(&plan, x.numel()), 2, "{plan}");
}

#[test]
fn distances_from_what_is_no_mean_are_summed_as_they_are() {
    let mut trial = Trial::new();
    let (x, other) = (trial.input([2, 1 << 16]), trial.input([2, 1 << 16]));
    for center in [x.narrow(1, 7, 1), other.mean_keepdim(1), x.max_keepdim(1)] {
        let center = center.detach();
        let plan = trial.check(&[(&x - &center).square().sum_dim(1)], &PlanOptions::gpu(7));
        // by way of a part's own mean a kernel would have more sums than one
        assert!(!plan.to_string().contains("Reduced(1)"), "{plan}");
    }
}

#[test]
fn rows_without_even_parts_stay_together_where_there_are_enough() {
    let mut trial = Trial::new();
    // 8209 is a prime
    for (length, kernels) in [(8209, 1), (8208, 2)] {
        let x = trial.input([256, length]);
        let options = PlanOptions { fused_row: 1 << 12, row_part: 1 << 12, ..PlanOptions::gpu(7) };
        let plan = trial.check(&[x.var_dim(1, 1)], &options);
        assert_eq!(plan.kernels.len(), kernels, "{plan}");
    }
}

#[test]
fn a_batch_norm_of_many_elements_reads_them_twice() {
    // enough channels for all cores
    let mut trial = Trial::new();
    let x = trial.input([16, 128, 32, 32]);
    let outputs = |x: &Tensor| {
        let norm = x.batch_norm(None, None, 1e-5);
        [norm.output, norm.mean, norm.variance]
    };
    let plan = trial.check(&outputs(&x), &PlanOptions { fused_row: 1 << 13, ..PlanOptions::gpu(7) });
    assert_eq!((plan.kernels.len(), readers(&plan, x.numel())), (3, 2), "{plan}");
    // rows that one kernel sweeps over as often as it likes
    let plan = trial.check(&outputs(&x), &PlanOptions::gpu(7));
    assert_eq!(plan.kernels.len(), 1, "{plan}");
}

#[test]
fn parts_are_of_what_lies_side_by_side() {
    let mut trial = Trial::new();
    let x = trial.input([512, 512]);
    let plan = trial.check(&[x.sum()], &PlanOptions::gpu(7));
    let Body::Loop(kernel) = &plan.kernels[0].body else { panic!("a reduction: {plan}") };
    // 32 parts of 16 rows each, which are one axis of the memory
    assert_eq!((&kernel.axes[..], kernel.outer), (&[32, 8192][..], 1), "{plan}");
}
