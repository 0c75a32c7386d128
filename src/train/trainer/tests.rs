//! A run over data with labels that do not exist.

use super::*;
use crate::train::ModelName;

/// A data set of which one sample has a label too large.
struct Mislabelled(Arc<dyn Dataset>);

impl Dataset for Mislabelled {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn classes(&self) -> usize {
        self.0.classes()
    }

    fn sample_shape(&self) -> [usize; 3] {
        self.0.sample_shape()
    }

    fn normalization(&self) -> (f32, f32) {
        self.0.normalization()
    }

    fn get(&self, index: usize, pixels: &mut [u8]) -> Result<u32> {
        let label = self.0.get(index, pixels)?;
        Ok(if index == 7 { self.classes() as u32 } else { label })
    }
}

#[test]
fn what_learned_from_a_wrong_label_is_not_saved_but_what_was_only_tested_on_one_is() {
    for in_training in [true, false] {
        let out = tempfile::tempdir().expect("a temporary folder");
        let model = ModelName::new("mlp").expect("a model of that name");
        let config = Config { model, epochs: 1, device: "cpu".into(), out: out.path().into(), ..Config::default() };
        let mut trainer = Trainer::new(config).expect("good settings");
        let part = if in_training { &mut trainer.data.train } else { &mut trainer.data.test };
        *part = Arc::new(Mislabelled(Arc::clone(part)));
        let weights = trainer.folder.path().join(WEIGHTS);
        let mut told = Vec::new();
        let result = trainer.run(&Control::default(), &mut |event| {
            if let Event::SaveFailed { message } = event {
                told.push(message);
            }
        });
        let error = result.expect_err("there are ten classes");
        assert!(matches!(error, Error::IndexOutOfRange { bound: 10, .. }), "{error}");
        assert_eq!(weights.exists(), !in_training);
        assert_eq!(told.iter().any(|message| message.contains("wrong label")), in_training, "{told:?}");
    }
}
