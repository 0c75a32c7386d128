//! What a model is asked: classes of samples, or of their pixels, or numbers.

use crate::data::{Description, Goal, IGNORED, Labels, Normalization};
use crate::device::Device;
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
    /// Of the classes, f32 `[classes]`, if they do not count the same.
    weights: Option<Tensor>,
    loss: LossName,
}

/// The loss of a batch, on the device.
pub(super) struct Loss {
    /// The mean over the targets that count, by what they count, f32 `[]`; 0 if none does.
    pub(super) mean: Tensor,
    /// If not all count the same: the sum over all, and what they count together; f32 `[]` each.
    of_all: Option<[Tensor; 2]>,
    /// How many there are, those that do not count included.
    targets: usize,
}

impl Loss {
    /// What the batch adds to the loss of a larger one, of whose samples it has this share; and to the number by which
    /// that has to be divided, if it is not 1.
    pub(super) fn part(&self, share: &Tensor) -> (Tensor, Option<Tensor>) {
        match &self.of_all {
            None => (&self.mean * share, None),
            Some(of_all) => {
                // for each target that there is: sums of f16 gradients would overflow
                let [sum, counted] = of_all.each_ref().map(|value| value / self.targets as f32);
                (sum * share, Some(counted * share))
            }
        }
    }

    /// What the targets count together, f32 `[]`, if they do not all count the same.
    pub(super) fn counted(&self) -> Option<&Tensor> {
        self.of_all.as_ref().map(|[_, counted]| counted)
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
    pub(super) fn new(of: &Description, config: &Config, device: &Device) -> Result<Self> {
        let (goal, classes, scales) = (of.goal, of.classes.len(), of.scales.clone());
        let weights = match &config.class_weights {
            Some(weights) => Some(Tensor::from_vec(weights.of(of)?, device)?),
            None => None,
        };
        let (label_smoothing, loss) = (config.label_smoothing, config.loss_of(goal));
        Ok(Self { goal, classes, scales, label_smoothing, weights, loss })
    }

    /// The same, to be asked on another device.
    pub(super) fn on(&self, device: &Device) -> Result<Self> {
        let weights = self.weights.as_ref().map(|weights| weights.to_device(device)).transpose()?;
        Ok(Self { weights, ..self.clone() })
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
        let targets = labels.classes.numel();
        if self.regresses() {
            let said = logits.to_dtype(DType::F32);
            let mean = numbers::loss(self.loss, &said, &labels.classes, Reduction::Mean);
            return Loss { mean, of_all: None, targets };
        }
        let options =
            CrossEntropy { label_smoothing: self.label_smoothing, weight: self.weights.clone(), ..self.options() };
        let loss = |options: &CrossEntropy| labels.cross_entropy(&logits.to_dtype(DType::F32), options);
        match self.counted(labels) {
            None => Loss { mean: loss(&options), of_all: None, targets },
            Some(counted) => {
                let sum = loss(&CrossEntropy { reduction: Reduction::Sum, ..options });
                // a mean over nothing is NaN, and so are its gradients
                let nothing = counted.eq(0.0);
                let mean = nothing.where_(0.0, &sum / nothing.where_(1.0, &counted));
                Loss { mean, of_all: Some([sum, counted]), targets }
            }
        }
    }

    /// True if targets do not all count the same: then the mean of a step's losses is divided by what they count.
    pub(super) fn divides(&self) -> bool {
        self.ignored().is_some() || self.weights.is_some()
    }

    /// How much the targets of a batch count together, f32 `[]`, if they do not all count 1.
    fn counted(&self, labels: &Labels) -> Option<Tensor> {
        let classes = &labels.classes;
        let counts = self.ignored().map(|ignored| classes.ne(ignored));
        let Some(weights) = &self.weights else { return Some(counts?.to_dtype(DType::F32).sum()) };
        let of = |classes: &Tensor| weights.index_select(0, &classes.flatten(0, -1)).reshape(classes.shape().clone());
        let each = match (counts, &labels.mixed) {
            // what does not count is none of the classes
            (Some(counts), _) => counts.where_(of(&counts.where_(classes, 0)), 0.0),
            (None, Some((second, share))) => of(classes) * share + of(second) * (1.0 - share),
            (None, None) => of(classes),
        };
        Some(each.sum())
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

#[cfg(test)]
mod tests {
    use super::*;

    /// `-Σ weight · ln softmax` of these labels over the sum of the weights, in f64.
    fn expected(logits: &[[f64; 3]], labels: &[(usize, f64)], weights: [f64; 3]) -> f64 {
        let (mut sum, mut counted) = (0.0, 0.0);
        for (row, &(label, share)) in labels.iter().enumerate() {
            let logits = logits[row % logits.len()];
            let all: f64 = logits.iter().map(|logit| logit.exp()).sum();
            sum += share * weights[label] * (all.ln() - logits[label]);
            counted += share * weights[label];
        }
        sum / counted
    }

    #[test]
    fn weighted_losses_are_divided_by_what_their_labels_weigh() {
        let logits = [[0.5, -1.0, 0.25], [2.0, 0.0, -0.5], [-0.75, 1.5, 1.0], [0.0, 0.125, -2.0]];
        let flat: Vec<f32> = logits.iter().flatten().map(|&logit| logit as f32).collect();
        let question = |goal, device: &Device| {
            let classes = ["a", "b", "c"].map(str::to_owned);
            let shape = if goal == Goal::Segment { vec![1, 2, 2] } else { vec![4] };
            let class_weights = Some("0.5,2,7".parse().expect("weights"));
            let config = Config { class_weights, ..Config::default() };
            Question::new(&Description::new("some", goal, classes, shape), &config, device).expect("memory")
        };
        for device in crate::device::tests::fresh_devices() {
            let of = |labels: &[i32], shape: &[usize]| Tensor::from_slice(labels, shape, &device).expect("memory");
            let near = |what: &str, loss: &Loss, expected: f64| {
                let mean = f64::from(loss.mean.item::<f32>().expect("a value"));
                assert!((mean - expected).abs() < 1e-6, "{what} on {device:?}: {mean} instead of {expected}");
                let [sum, counted] = loss.of_all.as_ref().expect("not all count 1");
                let [sum, counted] = [sum, counted].map(|of| f64::from(of.item::<f32>().expect("a value")));
                assert!((sum / counted - expected).abs() < 1e-6, "{what} on {device:?}");
            };
            let weights = [0.5, 2.0, 7.0];
            let rows = Tensor::from_slice(&flat, [4, 3], &device).expect("memory");
            let plain = Labels { classes: of(&[2, 0, 1, 1], &[4]), mixed: None };
            let loss = question(Goal::Classify, &device).loss(&rows, &plain);
            near("classes", &loss, expected(&logits, &[(2, 1.0), (0, 1.0), (1, 1.0), (1, 1.0)], weights));

            let share = Tensor::from_slice(&[0.25_f32, 1.0, 0.5, 0.75], [4], &device).expect("memory");
            let mixed = Labels { mixed: Some((of(&[0, 1, 1, 2], &[4]), share)), ..plain };
            let loss = question(Goal::Classify, &device).loss(&rows, &mixed);
            let firsts = [(2, 0.25), (0, 1.0), (1, 0.5), (1, 0.75)];
            let seconds = [(0, 0.75), (1, 0.0), (1, 0.5), (2, 0.25)];
            near("mixed", &loss, expected(&logits, &[firsts, seconds].concat(), weights));

            // four pixels of one picture, of which one is not known
            let pixels = rows.t().reshape([1, 3, 2, 2]);
            let ignored = i32::from(IGNORED);
            let mask = Labels { classes: of(&[2, 0, ignored, 1], &[1, 2, 2]), mixed: None };
            let loss = question(Goal::Segment, &device).loss(&pixels, &mask);
            near("masks", &loss, expected(&logits, &[(2, 1.0), (0, 1.0), (1, 0.0), (1, 1.0)], weights));

            // nothing counts: neither NaN nor what smoothing would say
            let nothing = Labels { classes: of(&[ignored; 4], &[1, 2, 2]), mixed: None };
            let loss = question(Goal::Segment, &device).loss(&pixels, &nothing);
            assert_eq!(loss.mean.item::<f32>().expect("a value"), 0.0, "{device:?}");
            let weightless = Question {
                weights: Some(Tensor::from_slice(&[0.0_f32, 1.0, 1.0], [3], &device).expect("memory")),
                label_smoothing: 0.2,
                ..question(Goal::Classify, &device)
            };
            let zeros = Labels { classes: of(&[0; 4], &[4]), mixed: None };
            let loss = weightless.loss(&rows, &zeros);
            let gradient = crate::autodiff::grad(&loss.mean, &[&rows]).remove(0).to_vec::<f32>().expect("values");
            assert_eq!((loss.mean.item::<f32>().expect("a value"), gradient), (0.0, vec![0.0; 12]), "{device:?}");
        }
    }
}
