//! Contractions with gaps become dense ones, whatever stride, dilation, padding and size.

use super::Trial;
use crate::autodiff;
use crate::ops::conv::ConvOptions;
use crate::ops::pool::PoolOptions;
use crate::plan::{Atom, Body, Cond, InstrOp, Plan, Tape};

/// True if a contraction loads an operand where a quotient is whole only.
pub(super) fn has_gaps(plan: &Plan) -> bool {
    plan.kernels.iter().any(|kernel| {
        let Body::Contract(kernel) = &kernel.body else { return false };
        [&kernel.lhs.0, &kernel.rhs.0].into_iter().any(|tape| {
            let quotient = |(atom, _): &(Atom, i64)| !matches!(atom, Atom::Axis(_));
            let divides = |op: &InstrOp| matches!(op, InstrOp::Load { index, .. } if index.terms.iter().any(quotient));
            loads_multiples(tape) || tape.instrs.iter().any(|instr| divides(&instr.op))
        })
    })
}

/// True if a reduction does.
fn has_gaps_in_sums(plan: &Plan) -> bool {
    plan.kernels.iter().any(|kernel| {
        let Body::Loop(kernel) = &kernel.body else { return false };
        kernel.phases.iter().any(|phase| !phase.reductions.is_empty() && loads_multiples(&phase.tape))
    })
}

fn loads_multiples(tape: &Tape) -> bool {
    let is_multiple = |condition: &Cond| matches!(condition, Cond::Multiple(..));
    let loads = |op: &InstrOp| matches!(op, InstrOp::Load { valid, .. } if valid.iter().any(is_multiple));
    tape.instrs.iter().any(|instr| loads(&instr.op))
}

#[test]
fn input_gradients_of_strided_convolutions() {
    for (length, kernel, stride, padding, dilation) in [
        (8, 3, 2, 1, 1),
        (9, 3, 2, 1, 1),
        (7, 2, 2, 0, 1),
        (11, 4, 3, 2, 1),
        (10, 5, 3, 0, 1),
        (13, 3, 4, 1, 1),
        (9, 1, 2, 0, 1),
        (12, 3, 2, 2, 2),
        (14, 3, 3, 1, 2),
        (17, 3, 4, 3, 2),
        (19, 3, 6, 4, 4),
        (5, 7, 2, 3, 1),
    ] {
        let mut trial = Trial::new();
        let x = trial.input([2, 3, length]);
        let w = trial.input([4, 3, kernel]);
        let options = ConvOptions::default().stride(stride).padding(padding).dilation(dilation);
        let y = x.conv1d(&w, None, &options);
        let plan = trial.check_all(&autodiff::grad(&(&y * &y).sum(), &[&x]));
        assert!(!has_gaps(&plan), "length {length}, kernel {kernel}, {options:?}\n{plan}");
    }
}

#[test]
fn two_axes_with_groups_and_unequal_windows() {
    let mut trial = Trial::new();
    let x = trial.input([2, 4, 7, 8]);
    let w = trial.input([6, 2, 3, 2]);
    let options = ConvOptions {
        stride: vec![2, 3],
        padding: vec![1, 0],
        dilation: vec![1, 2],
        groups: 2,
        ..ConvOptions::default()
    };
    let y = x.conv2d(&w, None, &options);
    let plan = trial.check_all(&autodiff::grad(&(&y * &y).sum(), &[&x, &w]));
    assert!(!has_gaps(&plan), "{plan}");
}

#[test]
fn transposed_convolutions_and_their_gradients() {
    for (stride, padding) in [(2, 1), (3, 0)] {
        let mut trial = Trial::new();
        let (x, w, b) = (trial.input([2, 3, 4, 5]), trial.input([3, 4, 3, 3]), trial.input([4]));
        let options = ConvOptions::default().stride(stride).padding(padding).output_padding(1);
        let y = x.conv_transpose2d(&w, Some(&b), &options);
        let mut outputs = autodiff::grad(&(&y * &y).sum(), &[&x, &w, &b]);
        outputs.push(y);
        let plan = trial.check_all(&outputs);
        assert!(!has_gaps(&plan), "{plan}");
    }
}

#[test]
fn even_images_are_written_where_they_belong() {
    let mut trial = Trial::new();
    let (x, w) = (trial.input([2, 4, 4, 4]), trial.input([4, 3, 3, 3]));
    let options = ConvOptions::default().stride(2).padding(1).output_padding(1);
    let plan = trial.check_all(&[x.conv_transpose2d(&w, None, &options).relu()]);
    assert_eq!(plan.kernels.len(), 1, "{plan}");
    // 2 × 2 taps and 4 channels for each of 2 × 3 × 8 × 8 results, and the relu
    assert_eq!(plan.kernels[0].flops, (2 * 16 + 1) * 384, "{plan}");
}

#[test]
fn gradients_of_pooling_whose_windows_overlap() {
    for (length, kernel, stride, padding, dilation) in [
        (8, 3, 2, 1, 1),
        (9, 3, 2, 1, 1),
        (12, 3, 2, 0, 1),
        (11, 5, 3, 2, 1),
        (13, 5, 2, 2, 1),
        (13, 2, 3, 0, 1),
        (17, 3, 3, 1, 2),
        (16, 4, 5, 2, 2),
        (9, 7, 2, 3, 1),
    ] {
        let options = PoolOptions::new(kernel).stride(stride).padding(padding);
        let dilated = options.clone().dilation(dilation);
        let mut trial = Trial::new();
        let (x, second) = (trial.input([2, length]), trial.input([2, 11, length]));
        let pooled = x.max_pool1d_with(&dilated);
        let mut outputs = autodiff::grad(&(&pooled * &pooled).sum(), &[&x]);
        let pooled =
            second.max_pool2d_with(&PoolOptions { kernel: vec![3, kernel], padding: vec![1, padding], ..dilated });
        outputs.extend(autodiff::grad(&(&pooled * &pooled).sum(), &[&second]));
        if dilation == 1 {
            let means = second.avg_pool1d_with(&options);
            outputs.extend(autodiff::grad(&(&means * &means).sum(), &[&second]));
        }
        let plan = trial.check_all(&outputs);
        assert!(!has_gaps_in_sums(&plan), "length {length}, {options:?}, dilation {dilation}\n{plan}");
    }
}

#[test]
fn what_is_made_of_a_gradient_of_pooling_is_made_with_it() {
    let mut trial = Trial::new();
    let (x, g) = (trial.input([2, 3, 8, 12]), trial.input([2, 3, 4, 6]));
    let pooled = x.relu().max_pool2d(3, 2, 1);
    let plan = trial.check_all(&autodiff::grad(&(pooled * g).sum(), &[&x]));
    // maxima and where they are; the gradient, with that of the relu
    assert_eq!(plan.kernels.len(), 2, "{plan}");
}
