//! Runs on data that a program gives to the trainer.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use brasa::data::{Dataset, DatasetName, Description, InMemory, On, Pipeline, Sample, Split, digits};
use brasa::train::{Config, Control, Event, HeldOut, ModelName, Summary, Trainer, evaluate};
use brasa::{Device, Error, Result};

use crate::common;

fn settings(device: &Device, out: &Path, name: &str) -> Config {
    Config {
        model: ModelName::new("mlp").expect("a model of that name"),
        epochs: 2,
        batch_size: 16,
        device: Some(device.info().selector.clone()),
        out: out.into(),
        name: Some(name.into()),
        augment: "shift".parse().expect("an augmentation"),
        log_every: 1,
        ..Config::default()
    }
}

/// Some of the digits, in an order of their own.
fn data() -> Split<Pipeline> {
    let data = digits().expect("they are bundled");
    let some = |data, count| Pipeline::new(Arc::new(data)).interleave(3, 8).take(count);
    Split::new(some(data.train, 200), some(data.test, 40))
}

/// Runs until this step is known.
fn run_to(trainer: Trainer, last: usize) -> Summary {
    let control = Control::default();
    let asked = control.clone();
    let listen = &mut |event| {
        if matches!(&event, Event::Step(step) if step.step == last) {
            asked.stop();
        }
    };
    trainer.run(&control, listen).expect("a run")
}

#[test]
fn a_run_on_data_of_a_program_goes_on_with_them_and_with_no_others() {
    for device in common::devices() {
        let out = tempfile::tempdir().expect("a temporary folder");
        let begin = |name| Trainer::with_data(settings(&device, out.path(), name), data()).expect("good settings");
        let whole = run_to(begin("whole"), usize::MAX);
        // within the first pass, and within the second
        for (name, last) in [("early", 5), ("late", 20)] {
            let stopped = run_to(begin(name), last);
            // a GPU has one more step under way when this one is known
            assert!(!stopped.completed && (last..=last + 1).contains(&stopped.steps), "{stopped:?}");
            let folder = out.path().join(name);
            let config = Trainer::config_of(&folder).expect("settings");
            assert_eq!(config.dataset, DatasetName::Program("digits".into()));

            let refused = Trainer::resume(&folder, config.clone()).expect_err("these are not known by name");
            let judged =
                evaluate(config.clone(), &folder.join("model.safetensors"), HeldOut::Test).expect_err("nor here");
            for error in [refused, judged] {
                let says = error.to_string();
                assert!(matches!(error, Error::Config(_)) && says.contains("resume_with_data"), "{says}");
            }

            let trainer = Trainer::resume_with_data(&folder, config, data()).expect("a checkpoint");
            let resumed = run_to(trainer, usize::MAX);
            assert_eq!((resumed.steps, resumed.test), (whole.steps, whole.test), "{device:?}");
            let weights = |run: &Summary| std::fs::read(run.folder.join("model.safetensors")).expect("weights");
            assert_eq!(weights(&resumed), weights(&whole), "{device:?}: stopped at step {last}");
        }
    }
}

/// The digits, and how often one was asked for.
struct Counted {
    data: InMemory,
    count: Arc<AtomicUsize>,
}

impl Dataset for Counted {
    fn description(&self) -> &Description {
        self.data.description()
    }

    fn len(&self) -> usize {
        self.data.len()
    }

    fn get(&self, index: usize, sample: &mut Sample) -> Result<()> {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.data.get(index, sample)
    }
}

#[test]
fn cached_samples_are_read_once_and_change_nothing() {
    let (out, device) = (tempfile::tempdir().expect("a temporary folder"), Device::cpu());
    let run = |name: &str, cache: bool| {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = |data, most| Pipeline::new(Arc::new(Counted { data, count: count.clone() })).take(most);
        let data = digits().expect("they are bundled");
        let data = Split::new(counted(data.train, 200), counted(data.test, 40));
        let config = Config { cache, epochs: 3, tensorboard: false, ..settings(&device, out.path(), name) };
        let summary = run_to(Trainer::with_data(config, data).expect("good settings"), usize::MAX);
        let weights = std::fs::read(summary.folder.join("model.safetensors")).expect("weights");
        (weights, count.load(Ordering::Relaxed))
    };
    let ((plain, read), (cached, kept)) = (run("plain", false), run("cached", true));
    assert!(cached == plain, "the cache changed what was learned");
    assert!(read >= 3 * 240, "{read}");
    // two workers may ask for one sample at the same moment
    assert!((240..2 * 240).contains(&kept), "{kept} of {read}");
}

/// Held-out samples are judged as they are, once.
#[test]
fn passes_and_augmentation_of_the_test_part_are_for_the_settings_to_say() {
    let (out, device) = (tempfile::tempdir().expect("a temporary folder"), Device::cpu());
    let tested = |name: &str, change: &dyn Fn(Pipeline) -> Pipeline| {
        let Split { train, test, .. } = data();
        let data = Split::new(train, change(test));
        let trainer = Trainer::with_data(Config { epochs: 1, ..settings(&device, out.path(), name) }, data);
        let summary = run_to(trainer.expect("good settings"), usize::MAX);
        (summary.test, std::fs::read(summary.folder.join("predictions.json")).expect("written"))
    };
    let plain = tested("plain", &|test| test);
    let changed = tested("changed", &|test| test.repeat().augment("erase=1".parse().expect("one"), On::Host));
    assert!(plain == changed, "{plain:?} {changed:?}");
}
