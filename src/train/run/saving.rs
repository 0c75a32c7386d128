//! What a run writes that it can go on from.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use crate::error::Result;
use crate::train::checkpoint::{self, Progress};
use crate::train::trainer::Trainer;
use crate::train::{Environment, Event, TestMetrics};

use super::{Run, UnderWay};

/// The weights of the last checkpoint, and those of the best evaluation.
pub(crate) const WEIGHTS: &str = "model.safetensors";
pub(crate) const BEST: &str = "best.safetensors";

/// Weights of the best evaluation that could not be written yet.
pub(super) struct BestDue {
    weights: Vec<u8>,
    /// The evaluation of those that are in their place.
    written: Option<TestMetrics>,
}

impl Run<'_> {
    pub(super) fn save_is_due(&self) -> bool {
        let since = self.steps_handed_over() - self.tried_steps;
        self.trainer.config.save_every.is_due(since, self.saved.elapsed())
    }

    pub(super) fn steps_handed_over(&self) -> u64 {
        self.steps + self.under_way.len() as u64
    }

    /// Saves; a failure is told and not the end of the run, as the disk may have room again when it ends.
    pub(super) fn save_if_possible(&mut self) {
        if let Err(error) = self.beside_the_pass(Self::save) {
            self.tell(Event::SaveFailed { message: error.to_string() });
            // not again at once
            (self.saved, self.tried_steps) = (Instant::now(), self.steps);
        }
    }

    /// Keeps the weights of the best evaluation so far, which is this one, until they are written: now, or with what is
    /// saved next.
    pub(super) fn save_best_if_possible(&mut self, test: TestMetrics) {
        let kept = self.weights().and_then(|weights| {
            self.best_due = Some(BestDue { weights, written: self.best_written() });
            self.best = Some(test);
            self.write_best()
        });
        if let Err(error) = kept {
            self.tell(Event::SaveFailed { message: error.to_string() });
        }
    }

    /// The evaluation whose weights are in their place.
    fn best_written(&self) -> Option<TestMetrics> {
        self.best_due.as_ref().map_or(self.best, |due| due.written)
    }

    /// Writes the weights of the best evaluation, unless they are written.
    fn write_best(&mut self) -> Result<()> {
        if let Some(due) = &self.best_due {
            self.trainer.folder.write(BEST, &due.weights)?;
            (self.best_due, self.unsaved) = (None, true);
        }
        Ok(())
    }

    /// After an error. Behind a step that was not finite the device has what the step before it left, which a
    /// checkpoint can go on from, with other settings: one is written, and those before it are kept, because what
    /// ruined the step may have begun earlier. Other errors leave steps of which nothing is known: the weights are all
    /// that is saved then.
    pub(super) fn save_what_was_learned(&mut self) {
        if let Err(error) = self.write_best() {
            self.tell(Event::SaveFailed { message: error.to_string() });
        }
        let run = self.trainer.folder.path().display().to_string();
        let failed = self.under_way.pop_front().filter(|_| self.halted);
        let mut go_on = format!("a new run can begin with what was learned: --weights {run}/{WEIGHTS}");
        // of a step in several parts, the first ones have left their traces
        if let Some(UnderWay { data, schedule, .. }) = failed.filter(|_| self.trainer.learner.is_between_steps()) {
            self.under_way.clear();
            self.data = data;
            self.trainer.rates.load(schedule, self.steps);
            match self.write_checkpoint() {
                Ok(_) => {
                    let steps = self.steps;
                    go_on = format!(
                        "a checkpoint of step {steps} is saved, and the run can go on from it with other settings: --resume {run}, with \
                         a smaller --lr, or with --on-nan skip if the data are to blame"
                    );
                }
                Err(error) => self.tell(Event::SaveFailed { message: error.to_string() }),
            }
        }
        match self.save_weights() {
            Ok(path) => self.tell(Event::Saved { path }),
            Err(error) => self.tell(Event::SaveFailed { message: error.to_string() }),
        }
        if self.halted {
            self.tell(Event::Notice { message: go_on });
        }
    }

    fn weights(&self) -> Result<Vec<u8>> {
        // an average's running statistics are as old as the last evaluation
        self.trainer.learner.refresh_average()?;
        crate::nn::to_safetensors(self.trainer.learner.model())
    }

    fn save_weights(&self) -> Result<PathBuf> {
        self.trainer.folder.write(WEIGHTS, &self.weights()?)
    }

    /// Writes a checkpoint and the weights, and those of the best evaluation if they are not written yet, and removes
    /// old checkpoints; if that fails, those before are still there.
    pub(super) fn save(&mut self) -> Result<()> {
        self.requests.save = false;
        (self.saved, self.tried_steps) = (Instant::now(), self.steps);
        // first, as the checkpoint says which evaluation they are of; whatever becomes of them, the rest is saved
        let best = self.write_best();
        let is_current = self.saved_steps == Some(self.steps) && self.steps > self.steps_before && !self.unsaved;
        if is_current && !self.weights_due {
            return best;
        }
        let start = Instant::now();
        let checkpoint = (!is_current).then(|| self.write_checkpoint());
        if let Some(Ok(_)) = checkpoint {
            // whatever becomes of the weights, which may need the room
            for (_, old) in
                checkpoint::list(&self.trainer.folder.checkpoints()).into_iter().skip(self.trainer.config.keep)
            {
                // one that cannot be removed is no harm
                let _ = std::fs::remove_file(old);
            }
        }
        let weights = self.save_weights();
        self.weights_due = weights.is_err();
        self.log_took(start);
        match checkpoint {
            Some(Ok(path)) => {
                self.call(|callback, run| callback.on_save(run, &path))?;
                if weights.is_err() {
                    let message = format!("{} is saved, and the weights alone are not", path.display());
                    self.tell(Event::Notice { message });
                }
            }
            Some(Err(error)) => {
                // what was learned is there at least, though nothing to go on from
                if let Ok(path) = weights {
                    self.tell(Event::Saved { path });
                }
                return Err(error);
            }
            None => {}
        }
        self.tell(Event::Saved { path: weights? });
        best
    }

    fn write_checkpoint(&mut self) -> Result<PathBuf> {
        let progress = self.progress()?;
        let folder = self.trainer.folder.checkpoints();
        crate::files::create_folder(&folder)?;
        let path = folder.join(checkpoint::file_name(self.steps));
        // whoever takes the average of a checkpoint for weights wants its running statistics, too
        self.trainer.learner.refresh_average()?;
        checkpoint::save(&path, self.trainer.learner.state()?, &progress)?;
        (self.saved_steps, self.unsaved) = (Some(self.steps), false);
        Ok(path)
    }

    fn progress(&mut self) -> Result<Progress> {
        let metrics_bytes = self.trainer.folder.metrics_bytes()?;
        let Trainer { devices, learner, .. } = &self.trainer;
        let random = crate::runtime::random_state(&devices[0])?.into();
        let random_of_others = learner.random_states_of_others()?.into_iter().map(Into::into).collect();
        let states = self.trainer.callbacks.iter();
        let callbacks: BTreeMap<_, _> =
            states.filter_map(|callback| Some((callback.name().to_owned(), callback.state()?))).collect();
        Ok(Progress {
            steps: self.steps,
            length: Some(self.trainer.length),
            epoch: self.epoch,
            sums: self.sums,
            epoch_told: self.epoch_told,
            data: self.data.clone(),
            scheduler: self.trainer.rates.state(),
            learning_rate: Some(self.learning_rate),
            random,
            random_of_others,
            test: self.test,
            test_mid_epoch: self.test_mid_epoch,
            best: self.best_written(),
            callbacks,
            seconds: self.seconds(),
            joules: self.energy.so_far(),
            metrics_bytes,
            environment: Environment::new(&self.trainer.devices, self.trainer.config.precision),
        })
    }
}
