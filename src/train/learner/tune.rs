//! Tuning of the steps that a training takes.

use std::time::Instant;

use crate::device::{TuneOptions, TuneProgress};
use crate::error::Result;
use crate::train::TunedStep;

use super::Learner;

impl Learner {
    /// Tunes training with batches of so many rows, evaluation, and then training with the last, smaller batch, as far
    /// as the time goes.
    pub(in crate::train) fn tune(
        &mut self,
        train_rows: &[usize],
        evaluate_rows: usize,
        options: &TuneOptions,
        tell: &mut dyn FnMut(TuneProgress),
    ) -> Result<Vec<TunedStep>> {
        let begun = Instant::now();
        let mut steps = Vec::new();
        let evaluate = self.evaluate_signature(evaluate_rows);
        for (number, &rows) in train_rows.iter().enumerate() {
            let signature = self.train_signature(self.parts(rows)[0]);
            let mut parts = vec![(format!("training, batch {rows}"), &mut self.train, &signature)];
            if let Some(accumulate) = &mut self.accumulate {
                parts.push((format!("gradients that are added up, batch {rows}"), accumulate, &signature));
            }
            if number == 0 {
                parts.push((format!("evaluation, batch {evaluate_rows}"), &mut self.evaluate, &evaluate));
            }
            for (step, captured, signature) in parts {
                let left = TuneOptions { budget: options.budget.saturating_sub(begun.elapsed()) };
                let report = captured.tune(signature, &left, tell)?;
                steps.push(TunedStep { step, is_last: number > 0, report });
            }
        }
        Ok(steps)
    }
}
