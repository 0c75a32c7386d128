//! Contractions with gaps become dense ones, whatever stride, dilation, padding and size.

use super::Trial;
use crate::autodiff;
use crate::ops::conv::ConvOptions;
use crate::plan::{Atom, Body, Cond, InstrOp, Plan};

/// True if a contraction loads an operand where a quotient is whole only.
pub(super) fn has_gaps(plan: &Plan) -> bool {
    plan.kernels.iter().any(|kernel| {
        let Body::Contract(kernel) = &kernel.body else { return false };
        let instrs = kernel.lhs.0.instrs.iter().chain(&kernel.rhs.0.instrs);
        instrs.into_iter().any(|instr| match &instr.op {
            InstrOp::Load { index, valid, .. } => {
                let quotient = |atom: &Atom| !matches!(atom, Atom::Axis(_));
                valid.iter().any(|condition| matches!(condition, Cond::Multiple(..)))
                    || index.terms.iter().any(|(atom, _)| quotient(atom))
            }
            _ => false,
        })
    })
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
