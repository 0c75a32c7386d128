//! What a step does: traced once for each shape of batches.

use crate::data::Received;
use crate::dtype::DType;
use crate::error::Result;
use crate::nn::Mode;
use crate::runtime::{Step, catch_non_finite, never_skip, skip_if};
use crate::stage::Stage;

use super::Learner;
use super::average::Average;

impl Learner {
    /// A step that computes gradients, of a share of the loss if there are several parts, and updates, or adds them up.
    pub(super) fn train_step(&self, in_parts: bool, updates: bool) -> Result<Step> {
        let (model, optimizer, scaler) = (self.model.clone(), self.optimizer.clone(), self.scaler.clone());
        let (question, numbers, record) = (self.question.clone(), self.numbers, self.metrics.recorder());
        let (format, share) = (self.formats[0].clone(), self.share.clone());
        let skipped = self.skipped.clone();
        let follow = self.average.as_ref().filter(|_| updates).map(|average| average.follower(optimizer.clone()));
        Step::new(&self.device, move |inputs| {
            let Received { inputs, labels, .. } = format.receive(inputs);
            let logits = numbers.forward(model.as_ref(), &inputs);
            let loss = Stage::Loss.scope(|| question.loss(&logits, &labels));
            let part = if in_parts { &loss * share.tensor(loss.device()) } else { loss.clone() };
            let apply = |gradients: &_| match (&scaler, updates) {
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
            let learn = || match &scaler {
                None => apply(&part.backward()),
                Some(scaler) => apply(&scaler.backward(&part)),
            };
            let mut counted = None;
            let norm = match &skipped {
                None => learn(),
                Some(skipped) => {
                    let (norm, bad) = catch_non_finite(learn);
                    let bad = bad.expect("a step that is being traced");
                    Stage::Update.scope(|| skipped.assign(&(skipped.tensor() + bad.to_dtype(DType::U32))));
                    counted = Some((bad, skipped));
                    norm
                }
            };
            follow.iter().for_each(|follow| follow());
            Stage::Log.scope(|| {
                let [correct, all] = question.correct(&logits, &labels.classes);
                record([&loss, &correct, &all, &norm.unwrap_or_else(|| loss.zeros_like())]);
            });
            if let Some((bad, skipped)) = counted {
                // without exceptions: a scaler's factor and its own count stay what they are
                skip_if(&bad, &[]);
                never_skip(std::slice::from_ref(skipped));
            }
            Vec::new()
        })
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
