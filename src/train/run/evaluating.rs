//! Judging by the held-out samples, after each epoch and when it is asked for.

use std::sync::Arc;
use std::time::Instant;

use crate::error::Result;
use crate::train::learner::Learner;
use crate::train::record::{CONFUSION, Line, RESIDUALS};
use crate::train::{
    ClassificationScores, Control, Event, HeldOut, RegressionScores, Score, Scores, Tally, TestMetrics,
};

use super::Run;
use super::timeline::Part;

impl Run<'_> {
    /// Judges what was learned; the same bits are learned with and without it. What is done `mid_epoch` does not count
    /// for what goes by epochs: a schedule that waits for a plateau, and the end of a run for want of progress. False if
    /// the run is to end before it is done: then nothing has come of it, and a run that goes on begins it anew.
    pub(super) fn evaluate(&mut self, mid_epoch: bool, control: &Control) -> Result<bool> {
        self.evaluating = true;
        let is_done = self.evaluate_until(mid_epoch, control);
        self.evaluating = false;
        is_done
    }

    fn evaluate_until(&mut self, mid_epoch: bool, control: &Control) -> Result<bool> {
        self.call_in(mid_epoch, |callback, run| callback.on_test_begin(run))?;
        self.trainer.learner.refresh_average()?;
        let data = &self.trainer.data;
        let part = HeldOut::of(data);
        let mut batches = data.judged_by().start()?;
        let mut samples = 0;
        for number in 1.. {
            self.call_in(mid_epoch, |callback, run| callback.on_test_batch_begin(run, number))?;
            self.handed_over[Part::Test as usize] += 1;
            let batch = self.next_batch(&mut batches, Part::Test)?;
            samples += batch.samples;
            self.begin(Part::Test);
            self.on_device(|learner| learner.evaluate(&batch))?;
            self.call_in(mid_epoch, |callback, run| callback.on_test_batch_end(run, number))?;
            let is_last = batch.last;
            batches.recycle(batch);
            self.report();
            if is_last {
                break;
            }
            // what was asked for in a pause is done in it
            let ends = if mid_epoch { control.stopping() } else { control.is_heard() && self.obey(control)? };
            if ends {
                self.on_device(Learner::read_evaluation)?;
                return Ok(false);
            }
        }
        self.tell_broken(Part::Test, batches.skipped());
        let evaluated = self.on_device(Learner::read_evaluation)?;
        let start = Instant::now();
        let test = TestMetrics::new(part, &evaluated, samples, self.trainer.learner.segments());
        let tally = Arc::new(evaluated.tally);
        self.write_down(&self.judged_line(&test))?;
        self.write_tally(&tally);
        if !mid_epoch {
            self.trainer.rates.evaluated(test.loss);
        }
        (self.test, self.unsaved) = (Some(test), true);
        self.test_mid_epoch = mid_epoch.then_some(self.steps);
        if self.best.is_none_or(|best| test.is_better_than(&best)) {
            self.save_best_if_possible(test);
        }
        self.log_took(start);
        self.predict();
        let start = Instant::now();
        self.call_in(mid_epoch, |callback, run| callback.on_test_end(run, &test, &tally))?;
        let (epoch, step) = (self.epoch + 1, self.steps as usize);
        self.tell(Event::Evaluated { epoch, step, mid_epoch, test, tally });
        self.log_took(start);
        Ok(true)
    }

    fn judged_line(&self, test: &TestMetrics) -> Line {
        let line = |score| self.line(test.part.into(), test.loss, score);
        match test.scores {
            Scores::Classification(ClassificationScores { perplexity, accuracy, top5, mean, micro, .. }) => {
                let (perplexity, mean, micro) = (Some(perplexity), Some(mean), Some(micro));
                Line { perplexity, top5, mean, micro, ..line(Score::Accuracy(accuracy)) }
            }
            Scores::Regression(RegressionScores { r2, rmse, mae }) => {
                Line { rmse: Some(rmse), mae: Some(mae), ..line(Score::R2(r2)) }
            }
        }
    }

    fn write_tally(&mut self, tally: &Tally) {
        let (file, json) = match tally {
            Tally::Confusion(confusion) => (CONFUSION, serde_json::to_vec(confusion)),
            Tally::Residuals(residuals) => (RESIDUALS, serde_json::to_vec(residuals)),
        };
        if let Err(error) = self.trainer.folder.write(file, &json.expect("plain numbers")) {
            self.tell(Event::SaveFailed { message: error.to_string() });
        }
    }
}
