//! `predictions.json`: what the model says about the first held-out samples, and pictures of them.

use std::time::Instant;

use crate::device::DeviceKind;
use crate::error::Result;
use crate::stage::Stage;
use crate::timing::TimeSource;
use crate::train::Event;
use crate::train::learner::Prediction;
use crate::train::pictures;
use crate::train::record::{PREDICTIONS, Predictions, Sample, Sheet};
use crate::train::shown::Shown;

use super::Run;

const PICTURES: &str = "pictures.png";
const MASKS: [&str; 2] = ["masks-true.png", "masks-said.png"];

impl Run<'_> {
    /// Reads the samples, and writes what does not change.
    pub(super) fn read_shown(&mut self) {
        let start = Instant::now();
        self.shown = Shown::read(self.trainer.data.judged_by());
        if self.shown.are_pictures() {
            let channels = self.shown.batches[0].shape[1];
            let sheet = self.shown.sheet(PICTURES);
            self.pictures = sheet.and_then(|sheet| self.draw(sheet, &self.shown.pixels(), channels));
            let masks = self.shown.masks();
            if !masks.is_empty() {
                self.masks = self.shown.sheet(MASKS[0]).and_then(|sheet| self.draw(sheet, &masks, 1));
            }
        }
        self.log_took(start);
    }

    /// Asks the model about the samples, and writes down what it says.
    pub(super) fn predict(&mut self) {
        self.predictions.clear();
        let start = Instant::now();
        let said: Result<Vec<_>> = self.shown.batches.iter().map(|batch| self.trainer.learner.predict(batch)).collect();
        let took = start.elapsed();
        let info = self.trainer.device().info();
        let source = if info.kind == DeviceKind::Cpu { TimeSource::WallClock } else { TimeSource::Fence };
        self.clock.add(Stage::Evaluate, took, took, &info.selector, source);
        let start = Instant::now();
        match said {
            Ok(said) => self.predictions = said.into_iter().flatten().collect(),
            // as for want of memory
            Err(error) => self.tell(Event::Notice { message: format!("what the model says cannot be shown: {error}") }),
        }
        if self.predictions.is_empty() {
            return;
        }
        let said: Vec<u8> = self.predictions.iter().flat_map(|said| said.mask.iter().copied()).collect();
        let masks = match (self.masks.clone(), self.shown.sheet(MASKS[1])) {
            (Some(of), Some(sheet)) => self.draw(sheet, &said, 1).map(|said| [of, said]),
            _ => None,
        };
        let (labels, numbers) = (self.shown.labels(), self.shown.numbers());
        let sample = |(number, (index, said)): (usize, (usize, &Prediction))| Sample {
            index,
            label: labels.get(number).copied(),
            likeliest: said.likeliest.clone(),
            target: numbers.get(number).cloned().unwrap_or_default(),
            predicted: said.numbers.clone(),
            loss: said.loss,
            accuracy: said.accuracy,
        };
        let record = Predictions {
            step: self.steps,
            classes: self.trainer.data.train.description().classes.clone(),
            samples: self.shown.indices().zip(&self.predictions).enumerate().map(sample).collect(),
            pictures: self.pictures.clone(),
            masks,
        };
        self.show(PREDICTIONS, &serde_json::to_vec(&record).expect("plain data"));
        self.log_took(start);
    }

    /// Writes a sheet of pictures with so many channels; `None` if there is no such PNG.
    fn draw(&self, sheet: Sheet, pixels: &[u8], channels: usize) -> Option<Sheet> {
        let size = matches!(channels, 1 | 3).then_some([sheet.height, sheet.width, channels])?;
        let drawn = pictures::sheet(pixels, size, sheet.columns).ok()?;
        // what cannot be written is not shown
        self.trainer.folder.replace(&sheet.file, &drawn).ok()?;
        Some(sheet)
    }
}
