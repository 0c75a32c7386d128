//! Whole training runs through the library: what their settings do.

use std::path::Path;
use std::sync::{Arc, Mutex};

use brasa::data::{Dataset, Description, Goal, IGNORED, Normalization, On, Pipeline, Sample, Split, Target, Values};
use brasa::models::{ModelSpec, create};
use brasa::nn::{LoadOptions, Mode, Module, load_weights};
use brasa::train::{
    Callback, Config, Confusion, Context, Control, EpochMetrics, Event, ModelName, OnNan, Precision, Start,
    StepMetrics, Summary, TestMetrics, Trainer, evaluate,
};
use brasa::{DType, Device, Error, Result, Tensor};

use crate::common;

/// A short run of a small network on the digits, on this device.
fn settings(device: &Device, out: &Path) -> Config {
    Config {
        model: ModelName::new("mlp").expect("a model of that name"),
        epochs: 2,
        batch_size: 64,
        device: Some(device.info().selector.clone()),
        out: out.into(),
        log_every: 1,
        ..Config::default()
    }
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn run(config: Config) -> (Summary, Vec<Event>) {
    train(Trainer::new(config).expect("good settings"))
}

fn train(trainer: Trainer) -> (Summary, Vec<Event>) {
    let mut events = Vec::new();
    let summary = trainer.run(&Control::default(), &mut |event| events.push(event)).expect("a run");
    (summary, events)
}

fn losses(events: &[Event]) -> Vec<f32> {
    let loss = |event: &Event| if let Event::Step(step) = event { Some(step.loss) } else { None };
    events.iter().filter_map(loss).collect()
}

fn weights(summary: &Summary) -> Vec<u8> {
    std::fs::read(summary.folder.join("model.safetensors")).expect("weights")
}

/// The model with the weights that a run saved.
fn saved(summary: &Summary, name: &str, spec: &ModelSpec, device: &Device) -> Box<dyn Module> {
    let model = create(name, spec, device).expect("a model");
    load_weights(model.as_ref(), summary.folder.join("model.safetensors"), &LoadOptions::default()).expect("weights");
    model
}

#[test]
fn recipes_are_good_settings() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/recipes");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("recipes").flatten() {
        let config = Config::load(&entry.path()).and_then(Config::resolve);
        assert!(config.is_ok(), "{:?}", config.err());
        count += 1;
    }
    assert!(count >= 4);
}

#[test]
fn parts_of_a_batch_are_worth_the_batch() {
    for device in common::devices() {
        let out = folder();
        let whole = Config { epochs: 1, ..settings(&device, out.path()) };
        let parts = Config { batch_size: 16, accumulate: 4, ..whole.clone() };
        let (whole, parts) = (run(whole), run(parts));
        assert_eq!(whole.0.steps, parts.0.steps);
        // the sums of gradients are rounded in another order, which Adam's first steps magnify
        for (step, (a, b)) in losses(&whole.1).iter().zip(losses(&parts.1)).enumerate() {
            assert!((a - b).abs() < 1e-3 * a, "{device:?} step {}: {a} and {b}", step + 1);
        }
    }
}

#[test]
fn mixed_precision_learns_as_well() {
    for device in common::devices() {
        let out = folder();
        let config = Config { epochs: 4, precision: Precision::F16, ..settings(&device, out.path()) };
        let (summary, events) = run(config.clone());
        let full = run(Config { precision: Precision::F32, ..config });
        let [mixed, full] = [&summary, &full.0].map(|summary| summary.test.expect("an evaluation").accuracy);
        assert!(mixed > full - 0.02, "{device:?}: {mixed} and {full}");
        let last =
            events.iter().rev().find_map(|event| if let Event::Epoch(epoch) = event { Some(*epoch) } else { None });
        let last = last.expect("an epoch");
        // 65536 times the first losses overflows nothing in f16 products of this network, or is halved a few times
        assert!(last.loss_scale.is_some_and(|scale| scale >= 1024.0), "{last:?}");
        assert!(last.skipped_steps <= 6, "{last:?}");
    }
}

#[test]
fn an_average_that_forgets_at_once_is_the_model() {
    for device in common::devices() {
        let out = folder();
        let plain = run(settings(&device, out.path())).0;
        let forgetful = run(Config { ema: Some(0.0), ..settings(&device, out.path()) }).0;
        let slow = run(Config { ema: Some(0.99), ..settings(&device, out.path()) }).0;
        assert_eq!(weights(&plain), weights(&forgetful), "{device:?}");
        assert_ne!(weights(&plain), weights(&slow), "{device:?}");
        assert!(slow.test.is_some_and(|test| test.accuracy > 0.7), "{slow:?}");
    }
}

#[test]
fn what_is_frozen_stays_and_the_rest_learns() {
    // what is chosen here is chosen on the host, so one device will do
    let (device, out) = (Device::cpu(), folder());
    let model = ModelName::new("resnet20").expect("a model of that name");
    let few = Config { model, epochs: 1, batch_size: 32, ..settings(&device, out.path()) };
    let data = || {
        let data = brasa::data::digits().expect("they are bundled");
        let few = |data, count| Pipeline::new(Arc::new(data)).take(count);
        Split { train: few(data.train, 64), test: few(data.test, 32) }
    };
    let first = train(Trainer::with_data(few.clone(), data()).expect("good settings")).0;
    let loaded = Some(first.folder.join("model.safetensors"));
    let frozen = Config { weights: loaded, freeze: vec!["conv1.*".into(), "layer*".into()], ..few };
    let spec = ModelSpec { input: vec![1, 8, 8], classes: 10, seed: 0 };
    let before = saved(&first, "resnet20", &spec, &device);
    for freeze_statistics in [false, true] {
        let config = Config { freeze_statistics, ..frozen.clone() };
        let second = train(Trainer::with_data(config, data()).expect("good settings")).0;
        let after = saved(&second, "resnet20", &spec, &device);
        for (old, new) in before.variables().iter().zip(after.variables()) {
            let [old_values, new_values] =
                [old, &new].map(|variable| variable.tensor().to_dtype(DType::F32).to_vec::<f32>().expect("values"));
            let name = new.name();
            let is_statistic = name.contains("running_") || name.contains("num_batches");
            let stays =
                if is_statistic { freeze_statistics } else { name.starts_with("conv1") || name.starts_with("layer") };
            assert_eq!(old_values == new_values, stays, "{device:?} {name}, statistics frozen: {freeze_statistics}");
        }
    }
}

/// Rows of four numbers, whose sign is the class; one row is not finite.
struct Rows(Description, Option<usize>);

impl Rows {
    fn new(bad: Option<usize>) -> Arc<Self> {
        let classes = vec!["below".into(), "above".into()];
        let (name, shape, normalization) = ("rows".into(), vec![4], Normalization::default());
        Arc::new(Self(Description { name, goal: Goal::Classify, classes, shape, normalization }, bad))
    }
}

impl Dataset for Rows {
    fn description(&self) -> &Description {
        &self.0
    }
    fn len(&self) -> usize {
        40
    }
    fn get(&self, index: usize, sample: &mut Sample) -> Result<()> {
        let sign = if index.is_multiple_of(2) { 1.0 } else { -1.0 };
        let value = if self.1 == Some(index) { f32::NAN } else { sign * (1.0 + index as f32 / 40.0) };
        sample.shape = vec![4];
        sample.input = Values::F32(vec![value; 4]);
        sample.target = Target::Class((sign > 0.0).into());
        Ok(())
    }
}

#[test]
fn a_step_that_is_not_finite_ends_the_run_or_is_skipped() {
    for device in common::devices() {
        let out = folder();
        let data = |bad| Split { train: Pipeline::new(Rows::new(bad)), test: Pipeline::new(Rows::new(None)) };
        let config = Config { batch_size: 4, epochs: 5, ..settings(&device, out.path()) };
        let stopped = Trainer::with_data(config.clone(), data(Some(11))).expect("good settings");
        let error = stopped.run(&Control::default(), &mut |_| {}).expect_err("a NaN");
        assert!(matches!(error, Error::NonFinite { step: 1..=10, .. }), "{error}");
        let skipping = Config { on_nan: OnNan::Skip, ..config };
        let (summary, events) = train(Trainer::with_data(skipping, data(Some(11))).expect("good settings"));
        let skipped = |event: &Event| if let Event::Epoch(epoch) = event { Some(epoch.skipped_steps) } else { None };
        assert_eq!(events.iter().filter_map(skipped).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        assert_eq!(summary.test.map(|test| test.accuracy), Some(1.0), "{device:?}: the others taught it");
    }
}

/// Writes down when it is called.
struct Diary(Arc<Mutex<Vec<String>>>);

impl Diary {
    fn note(&self, what: impl Into<String>) -> Result<()> {
        self.0.lock().expect("nobody panicked").push(what.into());
        Ok(())
    }
}

impl Callback for Diary {
    fn on_train_begin(&mut self, _run: &mut Context<'_>, start: &Start) -> Result<()> {
        self.note(format!("begin {}", start.epochs))
    }
    fn on_epoch_begin(&mut self, _run: &mut Context<'_>, epoch: usize) -> Result<()> {
        self.note(format!("epoch {epoch}"))
    }
    fn on_train_batch_end(&mut self, run: &mut Context<'_>, step: &StepMetrics) -> Result<()> {
        if step.step == 2 {
            run.save();
            run.set_learning_rate_factor(0.5);
        }
        if step.step <= 2 { self.note(format!("step {}", step.step)) } else { Ok(()) }
    }
    fn on_epoch_end(&mut self, _run: &mut Context<'_>, epoch: &EpochMetrics) -> Result<()> {
        self.note(format!("epoch {} ends", epoch.epoch))
    }
    fn on_test_end(&mut self, run: &mut Context<'_>, _test: &TestMetrics, _confusion: &Confusion) -> Result<()> {
        run.stop("the diary is full");
        self.note("test")
    }
    fn on_save(&mut self, _run: &mut Context<'_>, checkpoint: &Path) -> Result<()> {
        assert!(checkpoint.exists());
        self.note("saved")
    }
    fn on_train_end(&mut self, _run: &mut Context<'_>, summary: &Summary) -> Result<()> {
        self.note(format!("end {:?}", summary.stopped))
    }
}

#[test]
fn callbacks_are_called_in_order_and_steer_the_run() {
    let (out, device) = (folder(), Device::cpu());
    let notes = Arc::new(Mutex::new(Vec::new()));
    let config =
        Config { schedule: "constant".parse().expect("a schedule"), lr: Some(0.001), ..settings(&device, out.path()) };
    let mut trainer = Trainer::new(config).expect("good settings");
    trainer.add_callback(Diary(notes.clone()));
    let (summary, events) = train(trainer);
    let expected = [
        "begin 2",
        "epoch 1",
        "step 1",
        "step 2",
        "saved",
        "epoch 1 ends",
        "test",
        "saved",
        "end Some(\"the diary is full\")",
    ];
    assert_eq!(*notes.lock().expect("nobody panicked"), expected);
    assert_eq!(summary.steps, 23, "it ended after one epoch");
    let rate = |event: &Event| if let Event::Step(step) = event { Some(step.learning_rate) } else { None };
    let rates: Vec<f64> = events.iter().filter_map(rate).collect();
    assert_eq!((rates[0], rates[22]), (0.001, 0.0005));
}

/// Asks for the end when this step is done.
struct StopAt(usize);

impl Callback for StopAt {
    fn on_train_batch_end(&mut self, run: &mut Context<'_>, step: &StepMetrics) -> Result<()> {
        if step.step == self.0 {
            run.stop("it is time");
        }
        Ok(())
    }
}

#[test]
fn a_callback_can_end_a_run_at_any_step() {
    let device = Device::cpu();
    // an epoch has 23 steps; with the last one it is complete, and judged
    for (step, is_judged) in [(2, false), (23, true), (25, true)] {
        let out = folder();
        let mut trainer = Trainer::new(settings(&device, out.path())).expect("good settings");
        trainer.add_callback(StopAt(step));
        let summary = train(trainer).0;
        assert_eq!((summary.steps, summary.stopped.as_deref()), (step, Some("it is time")));
        assert_eq!(summary.test.is_some(), is_judged, "stopped at step {step}");
    }
}

#[test]
fn patience_ends_a_run_that_does_not_get_better() {
    let (out, device) = (folder(), Device::cpu());
    // so small that the loss stays as it is, up to rounding, and so large that it grows
    let config = Config { epochs: 50, patience: Some(2), lr: Some(10.0), ..settings(&device, out.path()) };
    let summary = run(config).0;
    assert!(summary.stopped.as_deref().is_some_and(|reason| reason.contains("test loss")), "{summary:?}");
    assert!(summary.steps < 50 * 23 && summary.completed);
}

#[test]
fn pixels_are_learned_and_counted_one_by_one() {
    for device in common::devices() {
        let out = folder();
        let config = Config {
            dataset: "shapes:n=24,size=16".parse().expect("a data set"),
            model: ModelName::new("unet").expect("a model of that name"),
            batch_size: 5,
            epochs: 2,
            augment: "flip,crop=2".parse().expect("an augmentation"),
            augment_on: if device.is_cpu() { On::Host } else { On::Device },
            ..settings(&device, out.path())
        };
        let (summary, events) = run(config.clone());
        let losses = losses(&events);
        assert!(losses.last() < losses.first(), "{device:?}: {losses:?}");
        let test = summary.test.expect("an evaluation");
        assert!(test.by_iou && test.score() == test.mean.iou, "{test:?}");

        // the same count by hand, from the model's answers to each picture
        let judged = evaluate(config.clone(), &summary.folder.join("model.safetensors")).expect("weights");
        let data = brasa::data::open(&config.dataset, &config.open_options()).expect("they are drawn").test;
        let of = data.description().clone();
        let spec = ModelSpec { input: of.shape.clone(), classes: of.classes.len(), seed: 0 };
        let model = saved(&summary, "unet", &spec, &device);
        let (mut counts, mut sample) = (vec![0; of.classes.len() * of.classes.len()], Sample::default());
        for index in 0..data.len() {
            data.get(index, &mut sample).expect("a picture");
            let shape = [&[1], of.shape.as_slice()].concat();
            let picture = Tensor::from_bytes(sample.input.as_bytes(), shape, DType::U8, &device).expect("memory");
            let logits = Mode::Evaluate.scope(|| model.forward(&of.normalization.apply(&picture)));
            let said = logits.argmax(1).to_vec::<i32>().expect("classes");
            let Target::Mask(mask) = &sample.target else { panic!("a mask") };
            for (&is, said) in mask.iter().zip(said).filter(|(is, _)| **is != IGNORED) {
                counts[usize::from(is) * of.classes.len() + said as usize] += 1_u64;
            }
        }
        let by_hand = Confusion::new(of.classes.len(), counts);
        assert_eq!(by_hand.total(), judged.confusion.total(), "{device:?}");
        // logits of a batch and of one picture are added up in other orders: a pixel on the edge may go either way
        let classes = of.classes.len();
        let differing: u64 = (0..classes * classes)
            .map(|at| {
                by_hand.count(at / classes, at % classes).abs_diff(judged.confusion.count(at / classes, at % classes))
            })
            .sum();
        assert!(differing <= 8, "{device:?}: {by_hand:?} and {:?}", judged.confusion);
        assert_eq!(judged.test.correct, test.correct, "{device:?}: what training said");
    }
}
