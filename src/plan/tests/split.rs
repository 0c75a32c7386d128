//! Sums are cut until there is work for all of a GPU's cores, and no further.

use super::Trial;
use crate::plan::{Body, Plan, PlanOptions};

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
