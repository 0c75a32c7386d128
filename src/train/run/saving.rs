//! What a run writes that it can go on from.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use crate::error::Result;
use crate::train::checkpoint::{self, Progress};
use crate::train::{Environment, Event};

use super::Run;

/// The weights of the last checkpoint, and those of the best evaluation.
pub(in crate::train) const WEIGHTS: &str = "model.safetensors";
pub(in crate::train) const BEST: &str = "best.safetensors";

impl Run<'_> {
    pub(super) fn save_is_due(&self) -> bool {
        let since = self.steps_handed_over() - self.tried_steps;
        self.trainer.config.save_every.is_due(since, self.saved.elapsed())
    }

    pub(super) fn steps_handed_over(&self) -> u64 {
        self.steps + self.rates.len() as u64
    }

    /// Saves; a failure is told and not the end of the run, as the disk may have room again when it ends.
    pub(super) fn save_if_possible(&mut self) {
        if let Err(error) = self.save() {
            self.tell(Event::SaveFailed { message: error.to_string() });
            // not again at once
            (self.saved, self.tried_steps) = (Instant::now(), self.steps);
        }
    }

    pub(super) fn save_best_if_possible(&mut self) {
        if let Err(error) = self.save_weights(BEST) {
            self.tell(Event::SaveFailed { message: error.to_string() });
        }
    }

    pub(super) fn save_weights_if_possible(&mut self) {
        match self.save_weights(WEIGHTS) {
            Ok(path) => self.tell(Event::Saved { path }),
            Err(error) => self.tell(Event::SaveFailed { message: error.to_string() }),
        }
    }

    fn save_weights(&self, name: &str) -> Result<PathBuf> {
        // an average's running statistics are as old as the last evaluation
        self.trainer.learner.refresh_average()?;
        let weights = crate::nn::to_safetensors(self.trainer.learner.model())?;
        self.trainer.folder.write(name, &weights)
    }

    /// Writes a checkpoint and the weights, and removes old checkpoints; if that fails, those before are still there.
    pub(super) fn save(&mut self) -> Result<()> {
        self.requests.save = false;
        (self.saved, self.tried_steps) = (Instant::now(), self.steps);
        if self.saved_steps == Some(self.steps) && self.steps > self.steps_before && !self.unsaved {
            return Ok(());
        }
        let start = Instant::now();
        let progress = self.progress()?;
        let folder = self.trainer.folder.checkpoints();
        crate::files::create_folder(&folder)?;
        let path = folder.join(checkpoint::file_name(self.steps));
        checkpoint::save(&path, self.trainer.learner.state()?, &progress)?;
        let weights = self.save_weights(WEIGHTS)?;
        (self.saved_steps, self.unsaved) = (Some(self.steps), false);
        for (_, old) in checkpoint::list(&folder).into_iter().skip(self.trainer.config.keep) {
            // one that cannot be removed is no harm
            let _ = std::fs::remove_file(old);
        }
        self.log_took(start);
        self.call(|callback, run| callback.on_save(run, &path))?;
        self.tell(Event::Saved { path: weights });
        Ok(())
    }

    fn progress(&mut self) -> Result<Progress> {
        let metrics_bytes = self.trainer.folder.metrics_bytes()?;
        let device = &self.trainer.device;
        let random = crate::runtime::random_state(device)?;
        let states = self.trainer.callbacks.iter();
        let callbacks: BTreeMap<_, _> =
            states.filter_map(|callback| Some((callback.name().to_owned(), callback.state()?))).collect();
        Ok(Progress {
            steps: self.steps,
            epoch: self.epoch,
            sums: self.sums,
            data: self.data.clone(),
            scheduler: self.trainer.rates.state(),
            random: [random.seed, random.position, random.draws],
            test: self.test,
            best: self.best,
            callbacks,
            seconds: self.seconds(),
            joules: self.energy.so_far(),
            metrics_bytes,
            environment: Environment::new(device, self.trainer.config.precision),
        })
    }
}
