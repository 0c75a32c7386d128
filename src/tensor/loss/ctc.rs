//! Sequences of labels without their places in time.

use super::{Reduction, Tensor};
use crate::dtype::DType;

/// What [`Tensor::ctc_loss`] goes by; defaults are PyTorch's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CTCLoss {
    /// The class that stands for no label.
    pub blank: usize,
    /// Sequences that cannot be aligned (more labels than steps) have loss 0 instead of infinity.
    pub zero_infinity: bool,
    /// A mean is over the batch, of losses that are divided by the number of labels.
    pub reduction: Reduction,
}

/// The logarithm of a probability of nothing: finite, so that differences are numbers.
const NEVER: f64 = -1e30;

impl Tensor {
    /// Connectionist temporal classification (Graves et al. 2006): the negative logarithm of the probability of all
    /// ways to say `labels` with blanks and repetitions. `self` holds logarithms of probabilities `[time, batch,
    /// classes]`, `labels` is `[batch, longest]` as i32, and `times` and `lengths` (`[batch]`, i32) say how much of
    /// each counts.
    ///
    /// The forward recursion is composed step by step over time, in log space, in f32: graph and launches grow with
    /// `time`. No gradient flows from a sequence that cannot be aligned. A time or a length beyond what there is becomes
    /// an error of the device.
    ///
    /// The gradient by the logarithms of probabilities is the true derivative, where PyTorch's already has the softmax's
    /// behind it: behind a `log_softmax` both are the same.
    #[track_caller]
    #[must_use]
    pub fn ctc_loss(&self, labels: &Self, times: &Self, lengths: &Self, options: &CTCLoss) -> Self {
        let (&[time, batch, classes], &[_, longest]) = (self.shape().dims(), labels.shape().dims()) else {
            panic!(
                "ctc_loss: {} is not [time, batch, classes], or {} not [batch, longest]",
                self.shape(),
                labels.shape()
            )
        };
        let fits = labels.shape()[0] == batch && *times.shape() == [batch].into() && *lengths.shape() == [batch].into();
        assert!(
            fits && time > 0 && options.blank < classes,
            "ctc_loss: {} with labels {}, times {} and lengths {}, blank {}",
            self.shape(),
            labels.shape(),
            times.shape(),
            lengths.shape(),
            options.blank
        );
        let (times, lengths) =
            (times.checked_index("ctc_loss", time + 1), lengths.checked_index("ctc_loss", longest + 1));
        let (states, device) = (2 * longest + 1, self.device());
        let blanks = Self::full([batch, longest], options.blank as i32, device);
        let position = Self::iota([batch, longest], 1, device);
        let labels = position.lt(lengths.unsqueeze(1)).where_(labels.to_dtype(DType::I32), &blanks);
        // blank, label, blank, ..., label, blank
        let path = Self::stack(&[&blanks, &labels], 2).reshape([batch, states - 1]);
        let path = path.pad(&[(0, 0), (0, 1)], options.blank as i64);
        // a label may follow another one without a blank between
        let may_skip =
            path.ne(path.pad(&[(0, 0), (2, -2)], options.blank as i64)).logical_and(&path.ne(options.blank as i64));

        let emitted = self.to_dtype(DType::F32).gather(2, &path.unsqueeze(0).expand([time, batch, states]));
        let emitted = emitted.maximum(NEVER);
        let state = Self::iota([batch, states], 1, device);
        let mut forward = state.lt(2).where_(emitted.select(0, 0), NEVER);
        // of no time at all, nothing has been said
        let silence = state.eq(0).where_(0.0, forward.full_like(NEVER));
        forward = times.gt(0).unsqueeze(1).where_(&forward, silence);
        for step in 1..time {
            let stepped = forward.pad(&[(0, 0), (1, -1)], NEVER);
            let skipped = may_skip.where_(forward.pad(&[(0, 0), (2, -2)], NEVER), NEVER);
            let next = log_add(&[&forward, &stepped, &skipped]) + emitted.select(0, step);
            let counts = times.gt(step as i64).unsqueeze(1);
            forward = counts.where_(next, &forward);
        }
        // the last label or the blank after it
        let last = (lengths.to_dtype(DType::I32) * 2).unsqueeze(1);
        let is_end = state.eq(&last).logical_or(&state.eq(last - 1));
        let ends = is_end.where_(forward, NEVER);
        let largest = ends.max_keepdim(1).detach();
        let losses = -((&ends - &largest).exp().sum_dim(1).log() + largest.squeeze(1));
        let impossible = losses.gt(-0.5 * NEVER);
        let losses = impossible.where_(if options.zero_infinity { 0.0 } else { f64::INFINITY }, losses);
        match options.reduction {
            Reduction::Mean => (losses / lengths.maximum(1).to_dtype(DType::F32)).mean(),
            other => other.apply(&losses),
        }
    }
}

/// `ln Σ e^x` over terms of the same shape.
#[track_caller]
fn log_add(terms: &[&Tensor; 3]) -> Tensor {
    let largest = terms[0].maximum(terms[1]).maximum(terms[2]).detach();
    let [a, b, c] = terms.map(|term| (term - &largest).exp());
    (a + b + c).log() + largest
}
