//! What a step does: traced once for each shape of batches.

use std::sync::Arc;

use crate::autodiff::Gradients;
use crate::data::{Format, Received};
use crate::dtype::DType;
use crate::error::Result;
use crate::nn::{Mode, Module};
use crate::optim::{LossScaler, Optimizer};
use crate::parallel::Part;
use crate::runtime::{Hyper, Step, Var, catch_non_finite, check_finite, never_skip, skip_if};
use crate::stage::Stage;
use crate::tensor::Tensor;

use super::average::Average;
use super::task::{Loss, Question};
use super::{Learner, Numbers};

/// A model that is asked about batches in training.
struct Asked {
    model: Arc<dyn Module>,
    question: Question,
    numbers: Numbers,
    format: Format,
}

impl Asked {
    /// The loss of a batch with these uploads; and what traces how many targets are right, and how many there are.
    fn trace(&self, uploads: &[Tensor]) -> (Loss, impl Fn() -> [Tensor; 2]) {
        let Received { inputs, labels, .. } = self.format.receive(uploads);
        let logits = self.numbers.forward(self.model.as_ref(), &inputs);
        let loss = Stage::Loss.scope(|| self.question.loss(&logits, &labels));
        (loss, move || self.question.correct(&logits, &labels.classes))
    }
}

/// What becomes of gradients: the end of each step, or of each part of one.
struct Ending<R> {
    optimizer: Arc<dyn Optimizer>,
    scaler: Option<Arc<LossScaler>>,
    skipped: Option<Var>,
    follow: Option<Box<dyn Fn() + Send>>,
    /// Else they are added up.
    updates: bool,
    /// What accumulated parts add up to of the number that gradients have to be divided by.
    divisor: Option<Var>,
    record: R,
}

impl<R: Fn([&Tensor; 5])> Ending<R> {
    /// Learns from `gradients`, and puts down the loss, the number of correct targets, that of all, and what these count.
    /// Both are traced here.
    fn trace(&self, gradients: impl FnOnce() -> Gradients, results: impl FnOnce() -> [Tensor; 4]) {
        let Self { optimizer, scaler, skipped, follow, updates, record, .. } = self;
        let apply = |gradients: &_| match (scaler, updates) {
            (None, true) => Some(optimizer.update(gradients)),
            (Some(scaler), true) => Some(scaler.update(optimizer.as_ref(), gradients)),
            (None, false) => {
                optimizer.accumulate(gradients);
                None
            }
            (Some(scaler), false) => {
                scaler.accumulate(optimizer.as_ref(), gradients);
                None
            }
        };
        let learn = || apply(&gradients());
        let mut skipping = None;
        let norm = match skipped {
            None => learn(),
            Some(skipped) => {
                let (norm, bad) = catch_non_finite(learn);
                let bad = bad.expect("a step that is being traced");
                Stage::Update.scope(|| skipped.assign(&(skipped.tensor() + bad.to_dtype(DType::U32))));
                skipping = Some((bad, skipped));
                norm
            }
        };
        follow.iter().for_each(|follow| follow());
        Stage::Log.scope(|| {
            let [loss, correct, all, counted] = &results();
            record([loss, correct, all, counted, &norm.unwrap_or_else(|| loss.zeros_like())]);
        });
        if let Some((bad, skipped)) = skipping {
            // without exceptions: a scaler's factor and its own count stay what they are
            skip_if(&bad, &[]);
            never_skip(std::slice::from_ref(skipped));
        }
    }

    /// Gradients of a part of a step that adds `part` to the divisor: divided by it once all parts are known.
    fn divided(&self, gradients: Gradients, part: Option<Tensor>) -> Gradients {
        let Some(part) = part else { return gradients };
        Stage::Update.scope(|| {
            let factor = match &self.divisor {
                None => inverse(&part),
                Some(divisor) => {
                    let sum = divisor.tensor() + part;
                    if !self.updates {
                        divisor.assign(&sum);
                        return gradients;
                    }
                    divisor.assign(&sum.zeros_like());
                    // a step that is skipped drops all of its parts
                    never_skip(std::slice::from_ref(divisor));
                    let factor = inverse(&sum);
                    self.optimizer.scale_accumulated(&factor);
                    factor
                }
            };
            gradients.map(|gradient| gradient * &factor)
        })
    }
}

impl Learner {
    /// A step that computes gradients, of a share of the loss if there are several parts, and updates, or adds them up.
    pub(super) fn train_step(&self, in_parts: bool, updates: bool) -> Result<Step> {
        let (asked, scaler, share) =
            (self.asked(self.model.clone(), self.question.clone()), self.scaler.clone(), self.share.clone());
        let ending = self.ending(updates);
        Step::new(&self.device, move |inputs| {
            let (loss, correct) = asked.trace(inputs);
            let part = || Stage::Loss.scope(|| loss.part(&share.tensor(loss.mean.device())));
            let (part, divisor) = if in_parts { part() } else { (loss.mean.clone(), None) };
            let results = || {
                let [correct, all] = correct();
                let counted = loss.counted().unwrap_or(&all).clone();
                [loss.mean.clone(), correct, all, counted]
            };
            ending.trace(|| ending.divided(backward(&part, scaler.as_deref()), divisor), results);
            Vec::new()
        })
    }

    /// What a device computes of its part of a batch, which is this share of the loss: gradients, and beside them
    /// [`Learner::values_of_part`].
    pub(super) fn part(
        &self,
        model: Arc<dyn Module>,
        question: Question,
        scaler: Option<Arc<LossScaler>>,
        share: Hyper,
    ) -> impl FnMut(&[Tensor]) -> Part + Send + 'static {
        let asked = self.asked(model, question);
        move |inputs| {
            let (loss, correct) = asked.trace(inputs);
            let (part, divisor) = Stage::Loss.scope(|| loss.part(&share.tensor(loss.mean.device())));
            let gradients = backward(&part, scaler.as_deref());
            let values = Stage::Log.scope(|| {
                let [correct, all] = correct();
                let unlike = divisor.into_iter().chain(loss.counted().cloned());
                let values: Vec<Tensor> = [part.detach(), correct, all].into_iter().chain(unlike).collect();
                Tensor::stack(&values.iter().collect::<Vec<_>>(), 0)
            });
            Part { gradients, values }
        }
    }

    /// The step that computes the part of the first of several devices.
    pub(super) fn part_step(&self, share: Hyper) -> Result<Step> {
        let mut compute = self.part(self.model.clone(), self.question.clone(), self.scaler.clone(), share);
        let (optimizer, skips) = (self.optimizer.clone(), self.skipped.is_some());
        Step::new(&self.device, move |inputs| {
            let part = if skips {
                // shows in the sum of the parts, where it is counted
                let (part, bad) = catch_non_finite(|| compute(inputs));
                skip_if(&bad.expect("a step that is being traced"), &[]);
                part
            } else {
                compute(inputs)
            };
            part.outputs(optimizer.layouts())
        })
    }

    /// The step that updates by the parts of several devices.
    pub(super) fn update_step(&self) -> Result<Step> {
        let (ending, optimizer) = (self.ending(true), self.optimizer.clone());
        let has_divisor = self.question.divides();
        Step::new(&self.device, move |outputs| {
            let Part { gradients, values } = Part::sum(&optimizer.layouts(), outputs);
            let [loss, correct, all] = [0, 1, 2].map(|place| values.select(0, place));
            let divisor = has_divisor.then(|| values.select(0, 3));
            let mean = match &divisor {
                None => loss.clone(),
                Some(divisor) => Stage::Update.scope(|| &loss * inverse(divisor)),
            };
            // there are no further parts
            let counted = if has_divisor { values.select(0, 4) } else { all.clone() };
            let checked = || {
                check_finite(std::slice::from_ref(loss.node()));
                ending.divided(gradients, divisor)
            };
            ending.trace(checked, || [mean, correct, all, counted]);
            Vec::new()
        })
    }

    /// How many values a part has: its share of the loss, the number of correct targets, that of all, and if not all
    /// targets count the same, what it adds to the divisor, and what its own count together.
    pub(super) fn values_of_part(&self) -> usize {
        3 + 2 * usize::from(self.question.divides())
    }

    fn asked(&self, model: Arc<dyn Module>, question: Question) -> Asked {
        Asked { model, question, numbers: self.numbers, format: self.formats[0].clone() }
    }

    fn ending(&self, updates: bool) -> Ending<impl Fn([&Tensor; 5]) + Send + 'static> {
        let follow = self.average.as_ref().filter(|_| updates);
        let follow = follow.map(|average| Box::new(average.follower()) as Box<dyn Fn() + Send>);
        Ending {
            optimizer: self.optimizer.clone(),
            scaler: self.scaler.clone(),
            skipped: self.skipped.clone(),
            follow,
            updates,
            divisor: self.divisor.clone(),
            record: self.metrics.recorder(),
        }
    }

    pub(super) fn evaluate_step(&self) -> Result<Step> {
        let model = self.average.as_ref().map_or(&self.model, Average::model).clone();
        let (evaluation, question, numbers) = (self.evaluation.counters.clone(), self.question.clone(), self.numbers);
        let format = self.formats[1].clone();
        Step::new(&self.device, move |inputs| {
            Stage::Evaluate.scope(|| {
                let Received { inputs, labels, weights } = format.receive(inputs);
                let logits = Mode::Evaluate.scope(|| numbers.forward(model.as_ref(), &inputs));
                evaluation.add(&question.answers(&logits, &labels.classes, &weights));
            });
            Vec::new()
        })
    }
}

/// What divides by `divisor`; 0 if that is 0, as that of a step of which nothing counts.
fn inverse(divisor: &Tensor) -> Tensor {
    divisor.eq(0.0).where_(0.0, divisor.reciprocal())
}

/// Gradients of a loss, by way of its scaled size if there is a scaler.
fn backward(loss: &Tensor, scaler: Option<&LossScaler>) -> Gradients {
    match scaler {
        None => loss.backward(),
        Some(scaler) => scaler.backward(loss),
    }
}
