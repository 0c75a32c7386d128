//! What training and evaluation count on the device, until somebody reads it.

use std::collections::VecDeque;
use std::pin::Pin;
use std::time::{Duration, Instant};

use crate::data::{Batch, Targets};
use crate::device::Device;
use crate::dtype::DType;
use crate::error::Result;
use crate::runtime::{Var, never_skip};
use crate::tensor::Tensor;

use super::super::scores::{Confusion, Tally};
use super::super::spread::Spread;
use super::numbers;
use super::task::{Answers, Counts, Question};

/// Most parts of steps that are asked for together; a single step may have more.
const MAX_ASKED: usize = 32;

/// Where steps take longer than this, they are asked for one by one.
const PROMPT: Duration = Duration::from_millis(250);

/// Numbers that a part of a step puts down.
const VALUES: usize = 5;

/// What one training step gave.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub(in crate::train) struct StepResult {
    /// Mean loss over the targets that count.
    pub loss: f32,
    /// Targets (samples, or pixels) that were classified correctly; of numbers, what was explained of as many variances.
    pub correct: f64,
    /// Targets that count.
    pub targets: f64,
    /// What they count together, which is what the loss is a mean by: as many, unless classes have weights.
    pub counted: f64,
    /// Euclidean norm of all gradients together, before anything limits it.
    pub gradient_norm: f32,
    /// Samples in the batch.
    pub samples: usize,
}

impl StepResult {
    /// The part of the targets that was classified correctly, or explained.
    pub(in crate::train) fn part(&self) -> f64 {
        self.correct / self.targets.max(1.0)
    }

    /// This and a further part of the same step; a part that was not finite was left out.
    fn with(self, part: Self) -> Self {
        let (samples, targets) = (self.samples + part.samples, self.targets + part.targets);
        match [self.loss, part.loss].map(f32::is_finite) {
            [true, true] => {}
            [true, false] => return Self { gradient_norm: part.gradient_norm, samples, ..self },
            [false, _] => return Self { samples, ..part },
        }
        let counted = self.counted + part.counted;
        let sum = f64::from(self.loss) * self.counted + f64::from(part.loss) * part.counted;
        Self {
            loss: if counted == 0.0 { 0.0 } else { (sum / counted) as f32 },
            correct: self.correct + part.correct,
            targets,
            counted,
            // of the sum of gradients, which the last part has
            gradient_norm: part.gradient_norm,
            samples,
        }
    }
}

/// A part of a step whose results are on the device.
struct Unread {
    /// Kept for finding what went wrong in it; several if they were learned from as one.
    batches: Vec<Batch>,
    ends_step: bool,
}

/// What says that a step was skipped because something in it was not finite.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Watched {
    /// Its loss.
    Loss,
    /// Its loss, or the norm of its gradients.
    LossAndGradients,
}

/// What the device hands over once it has come so far.
struct Asked {
    values: Pin<Box<dyn Future<Output = Result<Vec<f32>>> + Send>>,
    /// Parts of steps that were handed to the device before.
    parts: usize,
}

/// Metrics of the last steps, kept on the device so that a step need not wait for them. A step of several parts
/// (gradient accumulation) has an entry for each.
///
/// They are asked for block by block, or one by one where steps are slow, and waited for when the next block, or step,
/// has been handed over: the device always has work.
pub(super) struct Ring {
    /// Loss, correct targets, targets that count, what these count, and norm of the gradients: `[entries + 1, 5]`. The
    /// last row begins
    /// with `position`, so that one read tells both.
    values: Var,
    /// Where the next part puts its own. It stays where it is from a step on that halts.
    position: Var,
    unread: VecDeque<Unread>,
    asked: Option<Asked>,
    /// When it was asked the last time.
    asked_at: Instant,
    /// Parts that are asked for together.
    block: usize,
    /// Batches whose results were read, to be used again.
    spent: Vec<Batch>,
    /// Which results say that a step was skipped, until there was one.
    watched: Option<Watched>,
    /// The number of the first step that was skipped, and its batches.
    skipped: Option<(u64, Vec<Batch>)>,
    /// Entries read so far.
    read: usize,
    /// Steps read so far.
    steps: u64,
    /// The parts that were read of a step whose last part was not.
    open: StepResult,
    len: usize,
}

/// Targets that the counts of a device hold without overflow, even if all are of one kind.
const MAX_COUNTED: u64 = i32::MAX as u64;

/// Sums over held-out samples, on the device.
#[derive(Clone)]
pub(super) struct Counters {
    loss: Var,
    counts: Counts<Var>,
    has_top: bool,
}

/// Sums over the held-out samples: those on the device, and what was read of it before its counts could overflow.
pub(super) struct Evaluation {
    pub(super) counters: Counters,
    question: Question,
    /// Of the numbers of the held-out samples themselves, which the host knows.
    truth: Spread,
    loss: f64,
    /// What [`Counts`] has first, flat.
    counts: Vec<f64>,
    top: u64,
    /// Targets that were handed over since it was read.
    unread: u64,
    /// Targets after which it is read.
    pub(super) most_unread: u64,
}

/// What evaluation found.
pub(in crate::train) struct Evaluated {
    /// Mean loss over all targets that count.
    pub loss: f64,
    /// What was taken for what, or by how much numbers were missed.
    pub tally: Tally,
    /// The part of the targets whose class is among the five likeliest, if there are more than five.
    pub top5: Option<f64>,
}

impl Ring {
    /// To be asked after this many steps of so many parts, or as many as there may be.
    pub(super) fn new(steps: usize, parts: usize, device: &Device) -> Result<Self> {
        let block = steps.saturating_mul(parts).min(MAX_ASKED).max(parts);
        // the block that was asked for and the one under way, each with the rest of a step; one entry tells full from
        // empty
        let len = 2 * (block + parts - 1) + 1;
        Ok(Self {
            values: Var::state("metrics.values", &Tensor::zeros([len + 1, VALUES], device))?,
            position: Var::state("metrics.position", &Tensor::scalar(0_i32, device))?,
            unread: VecDeque::new(),
            asked: None,
            asked_at: Instant::now(),
            block,
            spent: Vec::new(),
            watched: None,
            skipped: None,
            read: 0,
            steps: 0,
            open: StepResult::default(),
            len,
        })
    }

    /// True if there are parts that nobody has asked for.
    pub(super) fn has_news(&self) -> bool {
        self.unread.len() > self.parts_asked()
    }

    /// True if so many were handed over since the last time, or it was so long ago, that it is time to ask.
    pub(super) fn is_due(&self) -> bool {
        self.unread.len() >= self.parts_asked() + self.block || self.has_news() && self.asked_at.elapsed() >= PROMPT
    }

    fn parts_asked(&self) -> usize {
        self.asked.as_ref().map_or(0, |asked| asked.parts)
    }

    /// Asks for the results of all parts so far; waits for nothing.
    pub(super) fn ask(&mut self) -> Result<()> {
        debug_assert!(self.asked.is_none(), "one question at a time");
        let values = Box::pin(self.values.tensor().begin_read()?);
        self.asked = Some(Asked { values, parts: self.unread.len() });
        self.asked_at = Instant::now();
        Ok(())
    }

    /// The results that were asked for, put together to steps, and true if all of them counted: else the next one is
    /// that of the step that halted. Waits until the device has come so far.
    pub(super) fn answer(&mut self) -> Result<(Vec<StepResult>, bool)> {
        let Some(Asked { values, parts }) = self.asked.take() else { return Ok((Vec::new(), true)) };
        let values = pollster::block_on(values)?;
        let position = values[self.len * VALUES] as usize;
        let counted = (position + self.len - self.read % self.len) % self.len;
        Ok((self.take(&values, counted), counted == parts))
    }

    /// So many steps were done before.
    pub(super) fn set_steps(&mut self, steps: u64) {
        self.steps = steps;
    }

    /// A part of a step was handed to the device with these batches.
    pub(super) fn handed_over(&mut self, batches: Vec<Batch>, ends_step: bool) {
        debug_assert!(self.unread.len() + 1 < self.len, "metrics must be read before they are overwritten");
        self.unread.push_back(Unread { batches, ends_step });
    }

    /// Once those that counted are read: the number of the step that did not, and its batches.
    pub(super) fn take_stopped(&mut self) -> Option<(u64, Vec<Batch>)> {
        Some((self.steps + 1, self.unread.pop_front()?.batches))
    }

    /// What a traced step calls to put down its loss, its number of correct targets, its number of targets, and the
    /// norm of its gradients.
    pub(super) fn recorder(&self) -> impl Fn([&Tensor; VALUES]) + Send + 'static {
        let (values, position, len) = (self.values.clone(), self.position.clone(), self.len);
        move |results| {
            let now = position.tensor();
            let next = &now + 1;
            let next = next.eq(len as i32).where_(now.zeros_like(), &next);
            let row = Tensor::arange(len + 1, position.device()).unsqueeze(1).expand([len + 1, VALUES]);
            // chosen by column, which needs no memory of its own, as a stack would
            let column = Tensor::arange(VALUES, position.device()).unsqueeze(0).expand([len + 1, VALUES]);
            let [first, others @ ..] = results.map(|value| value.detach().expand([len + 1, VALUES]));
            let results = (1..).zip(others).fold(first, |before, (at, value)| column.ge(at).where_(&value, before));
            let kept = row.eq(len as i32).where_(next.to_dtype(DType::F32), values.tensor());
            values.assign(&row.eq(&now).where_(&results, kept));
            position.assign(&next);
            // what is skipped has results, too
            never_skip(&[values.clone(), position.clone()]);
        }
    }

    /// The results of the first `count` parts that were not read yet, put together to steps.
    fn take(&mut self, values: &[f32], count: usize) -> Vec<StepResult> {
        let first = self.read;
        self.read += count;
        let mut steps = Vec::new();
        for (number, Unread { batches, ends_step }) in self.unread.drain(..count).enumerate() {
            let at = (first + number) % self.len * VALUES;
            let [loss, correct, targets, counted, gradient_norm] = [0, 1, 2, 3, 4].map(|value| values[at + value]);
            let [correct, targets, counted] = [correct, targets, counted].map(f64::from);
            let samples = batches.iter().map(|batch| batch.samples).sum();
            let part = StepResult { loss, correct, targets, counted, gradient_norm, samples };
            let is_bad = match self.watched {
                None => false,
                Some(Watched::Loss) => !loss.is_finite(),
                Some(Watched::LossAndGradients) => !(loss.is_finite() && gradient_norm.is_finite()),
            };
            if is_bad {
                (self.watched, self.skipped) = (None, Some((self.steps + 1, batches)));
            } else {
                self.spent.extend(batches);
            }
            self.open = if self.open.samples == 0 { part } else { self.open.with(part) };
            if ends_step {
                self.steps += 1;
                let step = std::mem::take(&mut self.open);
                // with its last part all of it is skipped
                steps.push(if loss.is_finite() { step } else { StepResult { loss, ..step } });
            }
        }
        steps
    }

    /// Has the batches of the first step kept that was skipped, as its results say.
    pub(super) fn watch(&mut self, results: Watched) {
        self.watched = Some(results);
    }

    /// The number of that step and its batches, once.
    pub(super) fn take_skipped(&mut self) -> Option<(u64, Vec<Batch>)> {
        self.skipped.take()
    }

    /// True if no step was read in part.
    pub(super) fn is_between_steps(&self) -> bool {
        self.open.samples == 0
    }

    /// The batches whose results were read since the last call.
    pub(super) fn take_spent(&mut self) -> Vec<Batch> {
        std::mem::take(&mut self.spent)
    }
}

impl Counters {
    fn new(question: &Question, device: &Device) -> Result<Self> {
        let zeros = |name, shape: &[usize], dtype| Var::state(name, &Tensor::zeros_of(shape, dtype, device));
        let classes = question.classes;
        Ok(Self {
            loss: zeros("evaluation.loss", &[], DType::F32)?,
            counts: if question.regresses() {
                Counts::Numbers(zeros("evaluation.errors", &[numbers::SUMS, classes], DType::F32)?)
            } else {
                Counts::Classes {
                    confusion: zeros("evaluation.confusion", &[classes; 2], DType::I32)?,
                    top: zeros("evaluation.top5", &[], DType::I32)?,
                }
            },
            has_top: question.has_top(),
        })
    }

    /// Adds what a batch says, in a step that is being traced.
    pub(super) fn add(&self, answers: &Answers) {
        let add = |sum: &Var, more: &Tensor| sum.assign(&(sum.tensor() + more));
        add(&self.loss, &answers.loss);
        match (&self.counts, &answers.counts) {
            (Counts::Classes { confusion, top }, Counts::Classes { confusion: more, top: more_top }) => {
                add(confusion, more);
                if self.has_top {
                    add(top, more_top);
                }
            }
            (Counts::Numbers(sums), Counts::Numbers(more)) => add(sums, more),
            _ => unreachable!("one question has answers of one kind"),
        }
    }
}

impl Evaluation {
    pub(super) fn new(question: &Question, device: &Device) -> Result<Self> {
        let rows = if question.regresses() { numbers::SUMS } else { question.classes };
        Ok(Self {
            counters: Counters::new(question, device)?,
            loss: 0.0,
            counts: vec![0.0; rows * question.classes],
            top: 0,
            unread: 0,
            most_unread: MAX_COUNTED,
            question: question.clone(),
            truth: Spread::default(),
        })
    }

    /// To be called before this batch is handed over. Waits for the device if its counts might overflow.
    pub(super) fn make_room(&mut self, batch: &Batch) -> Result<()> {
        let targets = batch.targets.len() as u64;
        if self.unread + targets > self.most_unread {
            self.read()?;
        }
        self.unread += targets;
        if let Targets::Numbers(numbers) = &batch.targets {
            self.truth.add(numbers, self.question.classes, batch.samples);
        }
        Ok(())
    }

    /// The sums since the last call; waits for the device.
    pub(super) fn take(&mut self) -> Result<Evaluated> {
        self.read()?;
        let empty = vec![0.0; self.counts.len()];
        let counts = std::mem::replace(&mut self.counts, empty);
        let (loss, top) = (std::mem::take(&mut self.loss), std::mem::take(&mut self.top));
        if self.question.regresses() {
            let truth = std::mem::take(&mut self.truth);
            let residuals = numbers::residuals(&counts, &truth, self.question.scales.as_ref());
            let targets = (residuals.samples() * residuals.numbers() as u64).max(1) as f64;
            return Ok(Evaluated { loss: loss / targets, top5: None, tally: Tally::Residuals(residuals) });
        }
        // below 2^53
        let counts = counts.into_iter().map(|count| count as u64).collect();
        let confusion = Confusion::new(self.question.classes, counts);
        let targets = confusion.total().max(1) as f64;
        let top5 = self.counters.has_top.then(|| top as f64 / targets);
        Ok(Evaluated { loss: loss / targets, top5, tally: Tally::Confusion(confusion) })
    }

    /// Adds up what the device has counted, which counts from 0 on again.
    fn read(&mut self) -> Result<()> {
        let clear = |var: &Var| var.set(&Tensor::zeros_of(var.shape().clone(), var.dtype(), var.device()));
        let Counters { loss, counts, .. } = &self.counters;
        self.loss += f64::from(loss.tensor().item::<f32>()?);
        clear(loss)?;
        let more: Vec<f64> = match counts {
            Counts::Classes { confusion, top } => {
                self.top += u64::from(top.tensor().item::<i32>()?.unsigned_abs());
                clear(top)?;
                let counts = confusion.tensor().to_vec::<i32>()?;
                clear(confusion)?;
                counts.into_iter().map(|count| f64::from(count.unsigned_abs())).collect()
            }
            Counts::Numbers(sums) => {
                let values = sums.tensor().to_vec::<f32>()?;
                clear(sums)?;
                values.into_iter().map(f64::from).collect()
            }
        };
        self.counts.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        self.unread = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_was_left_out_says_nothing_of_its_step() {
        let part = |loss: f32, correct: f64| StepResult {
            loss,
            correct,
            targets: 4.0,
            counted: 2.0,
            gradient_norm: loss,
            samples: 4,
        };
        let all = part(1.0, 1.0).with(part(2.0, 3.0));
        assert_eq!((all.loss, all.correct, all.targets, all.counted, all.samples), (1.5, 4.0, 8.0, 4.0, 8));
        for [first, second] in [[f32::NAN, 2.0], [2.0, f32::INFINITY]] {
            let good = part(first, 3.0).with(part(second, 3.0));
            assert_eq!((good.loss, good.correct, good.targets, good.counted, good.samples), (2.0, 3.0, 4.0, 2.0, 8));
        }
        assert!(part(f32::NAN, 0.0).with(part(f32::NAN, 0.0)).loss.is_nan());
    }
}
