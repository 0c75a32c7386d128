//! What a model is asked: classes of samples, or of their pixels, or numbers.

use crate::data::{Description, Goal, IGNORED, Labels, Normalization};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::tensor::{CrossEntropy, Reduction, Tensor};

use super::super::config::{Config, LossName};
use super::super::scores::Score;
use super::numbers;

/// How many of the likeliest answers top-5 accuracy looks at.
const TOP: usize = 5;
/// Targets of a batch whose counts f32 adds exactly.
const MAX_TARGETS: usize = 1 << 24;

/// What is asked of a model, and how its logits `[rows, classes, ...]` answer targets `[rows, ...]`, or what it says of
/// numbers, `[rows, numbers]`, those.
#[derive(Clone)]
pub(super) struct Question {
    goal: Goal,
    /// Of classes, or of numbers.
    pub(super) classes: usize,
    /// What numbers were standardised by.
    pub(super) scales: Option<Normalization>,
    label_smoothing: f64,
    loss: LossName,
}

/// The loss of a batch, on the device.
pub(super) struct Loss {
    /// The mean over the targets that count, f32 `[]`; 0 if none does.
    pub(super) mean: Tensor,
    /// If not all count: the sum over those that do, and how many these are, both for each target that there is; f32
    /// `[]` each.
    of_all: Option<[Tensor; 2]>,
}

impl Loss {
    /// What the batch adds to the loss of a larger one, of whose samples it has this share; and to the number by which
    /// that has to be divided, if it is not 1.
    pub(super) fn part(&self, share: &Tensor) -> (Tensor, Option<Tensor>) {
        match &self.of_all {
            None => (&self.mean * share, None),
            Some([sum, counted]) => (sum * share, Some(counted * share)),
        }
    }
}

/// What a batch says about a model, on the device.
pub(super) struct Answers {
    /// Sum of the losses of all targets that count, f32 `[]`.
    pub(super) loss: Tensor,
    pub(super) counts: Counts<Tensor>,
}

/// What is counted of answers.
#[derive(Clone)]
pub(super) enum Counts<T> {
    /// How often each class (row) was taken for each, i32 `[classes, classes]`; and the targets whose class is among the
    /// five likeliest, i32 `[]`.
    Classes { confusion: T, top: T },
    /// [`numbers::sums`].
    Numbers(T),
}

impl Question {
    pub(super) fn new(of: &Description, config: &Config) -> Self {
        let (goal, classes, scales) = (of.goal, of.classes.len(), of.scales.clone());
        Self { goal, classes, scales, label_smoothing: config.label_smoothing, loss: config.loss_of(goal) }
    }

    /// True if numbers are asked for.
    pub(super) fn regresses(&self) -> bool {
        self.goal == Goal::Regress
    }

    /// What the part of the targets is called that [`correct`](Self::correct) counts.
    pub(super) fn score(&self, part: f64) -> Score {
        if self.regresses() { Score::R2(part) } else { Score::Accuracy(part) }
    }

    /// An error if batches of so many rows have more targets than can be counted.
    pub(super) fn check_count(&self, rows: usize, of: &Description) -> Result<()> {
        let pixels: usize = match self.goal {
            Goal::Segment => of.shape[1..].iter().product(),
            Goal::Classify => 1,
            // sums of f32, which nobody counts by
            Goal::Regress => return Ok(()),
        };
        if rows.saturating_mul(pixels) <= MAX_TARGETS {
            return Ok(());
        }
        let message = format!(
            "batch-size is {rows}, which with {pixels} pixels in a picture are more than the {MAX_TARGETS} of a batch that \
             can be counted exactly: use a smaller batch-size or image-size"
        );
        Err(Error::Config(message))
    }

    /// True if five answers are a choice.
    pub(super) fn has_top(&self) -> bool {
        self.goal == Goal::Classify && self.classes > TOP
    }

    /// The loss of a batch.
    pub(super) fn loss(&self, logits: &Tensor, labels: &Labels) -> Loss {
        if self.regresses() {
            let said = logits.to_dtype(DType::F32);
            return Loss { mean: numbers::loss(self.loss, &said, &labels.classes, Reduction::Mean), of_all: None };
        }
        let options = CrossEntropy { label_smoothing: self.label_smoothing, ..self.options() };
        let loss = |options: &CrossEntropy| labels.cross_entropy(&logits.to_dtype(DType::F32), options);
        match self.ignored() {
            None => Loss { mean: loss(&options), of_all: None },
            Some(ignored) => {
                let counted = labels.classes.ne(ignored).to_dtype(DType::F32).sum();
                let sum = loss(&CrossEntropy { reduction: Reduction::Sum, ..options });
                // sums of f16 gradients would overflow
                let of_all = [&sum, &counted].map(|value| value / labels.classes.numel() as f32);
                // a mean over nothing is NaN, and so are its gradients
                Loss { mean: sum / counted.maximum(1.0), of_all: Some(of_all) }
            }
        }
    }

    /// The loss of each number, `[rows, numbers]`.
    pub(super) fn loss_of_numbers(&self, said: &Tensor, numbers: &Tensor) -> Tensor {
        numbers::loss(self.loss, said, numbers, Reduction::None)
    }

    /// How many of the targets that count the model got right, and how many there are: f32 `[]` each. Standardised
    /// numbers vary by 1: what is left of that beside the squared error is explained.
    pub(super) fn correct(&self, logits: &Tensor, labels: &Tensor) -> [Tensor; 2] {
        if self.regresses() {
            let all = Tensor::full([], labels.numel() as f32, logits.device());
            let squared = logits.to_dtype(DType::F32).mse_loss(labels, Reduction::Sum);
            return [&all - squared, all];
        }
        let right = logits.argmax(1).eq(labels);
        match self.ignored() {
            None => {
                let all = labels.numel() as f32;
                [right.to_dtype(DType::F32).sum(), Tensor::full([], all, logits.device())]
            }
            Some(ignored) => {
                let counts = labels.ne(ignored);
                [right.logical_and(&counts), counts].map(|which| which.to_dtype(DType::F32).sum())
            }
        }
    }

    /// What logits `[rows, classes, ...]` say of each pixel, i32 `[rows, ...]`; and for each row the sum of the losses
    /// of the targets that count, how many of them are right, and how many there are: f32 `[rows]` each.
    pub(super) fn by_sample(&self, logits: &Tensor, labels: &Tensor) -> (Tensor, [Tensor; 3]) {
        let said = logits.argmax(1);
        let counts = self.ignored().map_or_else(|| labels.ge(0), |ignored| labels.ne(ignored));
        let losses = logits.cross_entropy_with(labels, &CrossEntropy { reduction: Reduction::None, ..self.options() });
        let right = said.eq(labels).logical_and(&counts).to_dtype(DType::F32);
        let each = [counts.where_(losses, 0.0), right, counts.to_dtype(DType::F32)];
        (said, each.map(|values| values.flatten(1, -1).sum_dim(1)))
    }

    /// Everything evaluation wants to know of a batch whose rows count by `weights` (0 or 1, `[rows]`).
    pub(super) fn answers(&self, logits: &Tensor, labels: &Tensor, weights: &Tensor) -> Answers {
        let logits = &logits.to_dtype(DType::F32);
        if self.regresses() {
            let losses = self.loss_of_numbers(logits, labels);
            let counts = weights.ne(0.0).unsqueeze(1).expand(labels.shape().clone());
            let loss = counts.where_(losses, 0.0).sum();
            return Answers { loss, counts: Counts::Numbers(numbers::sums(logits, labels, weights)) };
        }
        let mut per_row = vec![1; labels.rank()];
        per_row[0] = labels.shape()[0];
        let in_use = weights.reshape(per_row).expand(labels.shape().clone()).ne(0.0);
        let counts = match self.ignored() {
            None => in_use,
            Some(ignored) => in_use.logical_and(&labels.ne(ignored)),
        };
        let losses = logits.cross_entropy_with(labels, &CrossEntropy { reduction: Reduction::None, ..self.options() });
        // a label that does not count is none of the classes
        let flat = [labels.numel()];
        let said = one_hot(&logits.argmax(1).reshape(flat), self.classes);
        let of = one_hot(&counts.where_(labels, -1).reshape(flat), self.classes);
        // whole numbers up to MAX_TARGETS
        let confusion = of.t().matmul(&said).to_dtype(DType::I32);
        let top = self.top(logits, labels, &counts);
        Answers { loss: counts.where_(losses, 0.0).sum(), counts: Counts::Classes { confusion, top } }
    }

    fn top(&self, logits: &Tensor, labels: &Tensor, counts: &Tensor) -> Tensor {
        if !self.has_top() {
            return Tensor::zeros_of([], DType::I32, logits.device());
        }
        let own = logits.gather(1, &labels.unsqueeze(1));
        // what is not smaller, so that NaN is no hit; of equal ones the first is the likeliest
        let class = Tensor::iota(logits.shape(), 1, logits.device());
        let first = logits.eq(&own).logical_and(&class.lt(labels.unsqueeze(1)));
        let larger = logits.le(&own).logical_not().logical_or(&first).to_dtype(DType::I32).sum_dim(1);
        larger.lt(TOP as i32).logical_and(counts).to_dtype(DType::I32).sum()
    }

    fn options(&self) -> CrossEntropy {
        CrossEntropy { ignore_index: self.ignored(), ..CrossEntropy::default() }
    }

    /// The label of targets that do not count.
    pub(super) fn ignored(&self) -> Option<i32> {
        (self.goal == Goal::Segment).then_some(IGNORED.into())
    }
}

/// `[n]` to f32 `[n, classes]`; a row of zeros for what is not a class.
fn one_hot(labels: &Tensor, classes: usize) -> Tensor {
    let position = Tensor::arange(classes, labels.device()).unsqueeze(0);
    labels.unsqueeze(1).eq(position).to_dtype(DType::F32)
}
