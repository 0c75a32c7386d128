//! How a plan's launches are cut into compute passes and submissions.
//!
//! A pass is what a pair of timestamps encloses, the consecutive launches of one stage, in a replay that is timed; in
//! others it joins those of its submission. A submission is what the system's watchdog sees: Windows resets a GPU after
//! about 2 s, macOS earlier while a display is active. A launch is never cut here: one that may take longer than
//! [`launch_milliseconds`] was rendered as several.

use std::ops::Range;

use crate::stage::Stage;

use super::features::is_software;

/// Launches that pessimistically take longer are cut before they are compiled: half of what Windows allows. It is more
/// than a submission may take, because nothing measured corrects it later, and pieces that are too small leave a fast
/// GPU idle.
const LAUNCH_MILLISECONDS: f64 = 1000.0;
/// How many times as fast as a slow integrated GPU a graphics card is at least: a GT 710 does 0.37 TFLOP/s of f32 at
/// its peak, of which a kernel that nobody tuned for it reaches perhaps a third, and the system gives it twice as long
/// as is planned.
const CARD: f64 = 8.0;

/// What a launch may take by [`pessimistic_milliseconds`] on an adapter of this type; without end where no watchdog
/// resets it.
pub(super) fn launch_milliseconds(device_type: wgpu::DeviceType) -> f64 {
    match device_type {
        kind if is_software(kind) => f64::INFINITY,
        wgpu::DeviceType::DiscreteGpu => CARD * LAUNCH_MILLISECONDS,
        _ => LAUNCH_MILLISECONDS,
    }
}

/// A launch as far as cutting depends on it.
#[derive(Clone, Debug)]
pub(super) struct Cost {
    /// The kernel it belongs to.
    pub(super) kernel: usize,
    /// Its stage.
    pub(super) stage: Stage,
    /// How long it is thought to take.
    pub(super) milliseconds: f64,
}

/// What may be in one pass and in one submission.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Rules {
    /// A pass for every kernel.
    pub(super) kernel_passes: bool,
    /// A submission for every pass.
    pub(super) pass_submissions: bool,
    /// Upper bound of a submission, launches that exceed it alone excepted.
    pub(super) budget_milliseconds: f64,
}

/// Consecutive launches in one compute pass.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Pass {
    /// The stage of all of them.
    pub(super) stage: Stage,
    /// Their numbers.
    pub(super) launches: Range<usize>,
    /// It is the first of a new submission.
    pub(super) submits_before: bool,
}

/// The passes of one replay that was timed, each with its milliseconds.
pub(super) type Measured = Vec<(Pass, f64)>;

/// The passes of a replay.
pub(super) fn cut(costs: &[Cost], rules: Rules) -> Vec<Pass> {
    let mut passes: Vec<Pass> = Vec::new();
    let mut submitted = 0.0; // milliseconds in the current submission
    for (number, cost) in costs.iter().enumerate() {
        let joins = passes.last().is_some_and(|pass| {
            let same_kernel = costs[pass.launches.start].kernel == cost.kernel;
            pass.stage == cost.stage && (same_kernel || !rules.kernel_passes)
        });
        let over = submitted > 0.0 && submitted + cost.milliseconds > rules.budget_milliseconds;
        let submits = !passes.is_empty() && (over || (rules.pass_submissions && !joins));
        submitted = if submits { cost.milliseconds } else { submitted + cost.milliseconds };
        match passes.last_mut() {
            Some(pass) if joins && !submits => pass.launches.end = number + 1,
            _ => passes.push(Pass { stage: cost.stage, launches: number..number + 1, submits_before: submits }),
        }
    }
    passes
}

/// Into how many launches of at most `limit` milliseconds this work is cut.
pub(super) fn launches(flops: u64, bytes: u64, limit: f64) -> usize {
    (pessimistic_milliseconds(flops, bytes) / limit).ceil().max(1.0) as usize
}

/// How long a launch may take on hardware that is not measured yet, in milliseconds: a slow integrated GPU.
pub(super) fn pessimistic_milliseconds(flops: u64, bytes: u64) -> f64 {
    const FLOPS_PER_MILLISECOND: f64 = 20e6; // 20 GFLOP/s
    const BYTES_PER_MILLISECOND: f64 = 5e6; // 5 GB/s
    0.05 + flops as f64 / FLOPS_PER_MILLISECOND + bytes as f64 / BYTES_PER_MILLISECOND
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules { kernel_passes: false, pass_submissions: false, budget_milliseconds: 100.0 };

    fn costs(list: &[(usize, Stage, f64)]) -> Vec<Cost> {
        list.iter().map(|&(kernel, stage, milliseconds)| Cost { kernel, stage, milliseconds }).collect()
    }

    fn shape(passes: &[Pass]) -> Vec<(Range<usize>, bool)> {
        passes.iter().map(|pass| (pass.launches.clone(), pass.submits_before)).collect()
    }

    #[test]
    fn a_run_of_one_stage_is_one_pass_of_one_submission() {
        use Stage::{Backward, Forward};
        let costs =
            costs(&[(0, Forward, 1.0), (0, Forward, 1.0), (1, Forward, 1.0), (2, Backward, 1.0), (3, Forward, 1.0)]);
        assert_eq!(shape(&cut(&costs, RULES)), [(0..3, false), (3..4, false), (4..5, false)]);
        let by_kernel = Rules { kernel_passes: true, ..RULES };
        assert_eq!(shape(&cut(&costs, by_kernel)), [(0..2, false), (2..3, false), (3..4, false), (4..5, false)]);
        let by_fence = Rules { pass_submissions: true, ..RULES };
        assert_eq!(shape(&cut(&costs, by_fence)), [(0..3, false), (3..4, true), (4..5, true)]);
        assert_eq!(cut(&[], RULES), []);
    }

    #[test]
    fn long_work_is_several_launches() {
        assert_eq!(launches(40_000_000_000, 0, f64::INFINITY), 1);
        assert_eq!(launches(0, 0, 1000.0), 1);
        assert_eq!(launches(19_000_000_000, 0, 1000.0), 1);
        assert_eq!(launches(39_000_000_000, 0, 1000.0), 2);
    }

    #[test]
    fn no_submission_exceeds_the_budget_unless_one_launch_does() {
        use Stage::{Forward, Loss};
        let costs =
            costs(&[(0, Forward, 60.0), (1, Forward, 60.0), (2, Forward, 30.0), (3, Loss, 300.0), (4, Loss, 1.0)]);
        assert_eq!(shape(&cut(&costs, RULES)), [(0..1, false), (1..3, true), (3..4, true), (4..5, true)]);
        let unlimited = Rules { budget_milliseconds: f64::INFINITY, ..RULES };
        assert_eq!(shape(&cut(&costs, unlimited)), [(0..3, false), (3..5, false)]);
    }
}
