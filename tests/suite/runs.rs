//! Whole training runs through the library: what their settings do.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use brasa::data::{Dataset, Description, Goal, IGNORED, Normalization, On, Pipeline, Sample, Split, Target, Values};
use brasa::models::{ModelSpec, create};
use brasa::nn::{LoadOptions, Mode, Module, load_weights};
use brasa::train::record::{self, Kind, Line, PlanRecord, Predictions, RunRecord, RunState, Status};
use brasa::train::{
    Callback, Config, Confusion, Context, Control, EpochMetrics, Event, ModelName, OnNan, Precision, Predictor, Start,
    StepMetrics, Summary, TestMetrics, Trainer, evaluate, forecast,
};
use brasa::{DType, Device, Error, Result, Stage, Tensor};

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
fn an_average_that_is_saved_within_a_pass_has_the_statistics_of_that_moment() {
    let (out, device) = (folder(), Device::cpu());
    let stopped = |ema| {
        let model = ModelName::new("resnet20").expect("a model of that name");
        let trainer = Trainer::new(Config { ema, model, ..settings(&device, out.path()) }).expect("good settings");
        let control = Control::default();
        let asked = control.clone();
        let summary = trainer.run(&control, &mut |event| {
            if matches!(event, Event::Step(StepMetrics { step: 3, .. })) {
                asked.stop();
            }
        });
        let summary = summary.expect("a run");
        assert!(!summary.completed && summary.test.is_none(), "{summary:?}");
        weights(&summary)
    };
    assert_eq!(stopped(None), stopped(Some(0.0)), "an average that forgets at once is the model");
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
        let is_told = |event: &&Event| matches!(event, Event::Notice { message } if message.contains("was skipped"));
        let told: Vec<_> = events.iter().filter(is_told).map(|event| format!("{event:?}")).collect();
        assert_eq!(told.len(), 1, "{device:?}: {told:?}");
        for words in ["contract", "src/models/mlp.rs:", "module `", "counted only"] {
            assert!(told[0].contains(words), "{device:?}: `{words}` is missing in {}", told[0]);
        }
        let skipped = |event: &Event| if let Event::Epoch(epoch) = event { Some(epoch.skipped_steps) } else { None };
        assert_eq!(events.iter().filter_map(skipped).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        assert_eq!(summary.test.map(|test| test.accuracy), Some(1.0), "{device:?}: the others taught it");
    }
}

/// A loss that is not finite is none of the scale's doing: it stays, and the step is counted once.
#[test]
fn a_skipped_step_leaves_the_loss_scale_alone() {
    for device in common::devices() {
        let out = folder();
        let data = Split { train: Pipeline::new(Rows::new(Some(11))), test: Pipeline::new(Rows::new(None)) };
        let config = Config {
            batch_size: 4,
            epochs: 3,
            precision: Precision::F16,
            on_nan: OnNan::Skip,
            ..settings(&device, out.path())
        };
        let (_, events) = train(Trainer::with_data(config, data).expect("good settings"));
        let told = |event: &Event| match event {
            Event::Epoch(epoch) => Some((epoch.skipped_steps, epoch.loss_scale)),
            _ => None,
        };
        let told: Vec<_> = events.iter().filter_map(told).collect();
        let scale = told[0].1.expect("one of f16");
        assert_eq!(told, [(1, Some(scale)), (2, Some(scale)), (3, Some(scale))], "{device:?}");
        assert_eq!(scale, 65_536.0, "{device:?}: as it was at first");
    }
}

#[test]
fn a_part_without_samples_is_refused_before_anything_is_trained() {
    let (out, device) = (folder(), Device::cpu());
    let part = |count: usize| Pipeline::new(Rows::new(None)).take(count);
    for (train, test, words) in [(8, 0, "no sample for testing"), (0, 8, "no sample for training")] {
        let data = Split { train: part(train), test: part(test) };
        let error = Trainer::with_data(settings(&device, out.path()), data).err().expect("an empty part").to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn a_run_that_a_step_ended_goes_on_from_the_step_before() {
    for device in common::devices() {
        let out = folder();
        let data = |bad| Split { train: Pipeline::new(Rows::new(bad)), test: Pipeline::new(Rows::new(None)) };
        let config = |name: &str| Config {
            batch_size: 4,
            epochs: 3,
            seed: 3,
            ema: Some(0.9),
            schedule: "onecycle".parse().expect("a schedule"),
            name: Some(name.into()),
            ..settings(&device, out.path())
        };
        let (whole, _) = train(Trainer::with_data(config("whole"), data(None)).expect("good settings"));
        // before any checkpoint was written, in the first step as in a later one
        for bad in [0, 11, 25, 38] {
            let name = format!("stopped-{bad}");
            let stopped = Trainer::with_data(config(&name), data(Some(bad))).expect("good settings");
            let mut events = Vec::new();
            let error = stopped.run(&Control::default(), &mut |event| events.push(event)).expect_err("a NaN");
            let Error::NonFinite { step, .. } = error else { panic!("{error}") };
            let is_told = |event: &Event| {
                let Event::Notice { message } = event else { return false };
                message.contains(&format!("step {} is saved", step - 1)) && message.contains("--on-nan skip")
            };
            assert!(events.iter().any(is_told), "{events:?}");
            let trainer = Trainer::resume_with_data(&out.path().join(&name), config(&name), data(None));
            let (resumed, _) = train(trainer.expect("a checkpoint"));
            assert_eq!((resumed.steps, resumed.test), (whole.steps, whole.test), "{device:?}: step {step}");
            assert!(weights(&resumed) == weights(&whole), "{device:?}: step {step}");
            // and with the data as they are, if such steps are skipped from then on
            let skipping = Config { on_nan: OnNan::Skip, epochs: 4, ..config(&name) };
            let trainer = Trainer::resume_with_data(&out.path().join(&name), skipping, data(Some(bad)));
            let (skipped, _) = train(trainer.expect("a checkpoint"));
            assert_eq!((skipped.steps, skipped.skipped_steps), (40, 1), "{device:?}");
        }
        // what the first part of a step has left in statistics is no place to go on from
        let parts = Config { accumulate: 5, ..config("parts") };
        let mut events = Vec::new();
        let trainer = Trainer::with_data(parts, data(Some(11))).expect("good settings");
        let ended = trainer.run(&Control::default(), &mut |event| events.push(event));
        assert!(matches!(ended, Err(Error::NonFinite { .. })));
        let checkpoints = std::fs::read_dir(out.path().join("parts/checkpoints")).map_or(0, Iterator::count);
        let says = |words: &str| {
            events.iter().any(|event| matches!(event, Event::Notice { message } if message.contains(words)))
        };
        assert_eq!(says("is saved, and the run can go on"), checkpoints == 1, "{events:?}");
        assert_eq!(says("--weights"), checkpoints == 0, "{events:?}");
    }
}

/// Rows of which none is finite.
struct Nothing(Description);

impl Dataset for Nothing {
    fn description(&self) -> &Description {
        &self.0
    }
    fn len(&self) -> usize {
        8
    }
    fn get(&self, _index: usize, sample: &mut Sample) -> Result<()> {
        sample.shape = vec![4];
        sample.input = Values::F32(vec![f32::INFINITY; 4]);
        sample.target = Target::Class(0);
        Ok(())
    }
}

#[test]
fn a_pass_of_skipped_steps_has_no_loss() {
    let (out, device) = (folder(), Device::cpu());
    let data = Arc::new(Nothing(Rows::new(None).description().clone()));
    let data = Split { train: Pipeline::new(data), test: Pipeline::new(Rows::new(None)) };
    let config = Config { batch_size: 4, epochs: 1, on_nan: OnNan::Skip, ..settings(&device, out.path()) };
    let (summary, events) = train(Trainer::with_data(config, data).expect("good settings"));
    assert_eq!(summary.skipped_steps, 2);
    let epoch = |event: &Event| if let Event::Epoch(epoch) = event { Some(*epoch) } else { None };
    let epoch = events.iter().find_map(epoch).expect("a pass");
    assert!(epoch.loss.is_nan() && epoch.accuracy.is_nan(), "{epoch:?}");
    let text = std::fs::read_to_string(summary.folder.join("metrics.jsonl")).expect("written");
    let line = text.lines().find(|line| line.contains(r#""kind":"epoch""#)).expect("a pass");
    assert!(line.contains(r#""loss":null,"accuracy":null"#), "{line}");
    let of_pass = lines(&summary.folder).into_iter().find(|line| line.kind == Kind::Epoch).expect("a pass");
    assert!(of_pass.loss.is_nan() && of_pass.accuracy.is_nan());
}

#[test]
fn a_last_batch_of_one_sample_is_left_out_and_told() {
    let (out, device) = (folder(), Device::cpu());
    let digits = || brasa::data::digits().expect("they are bundled");
    let data = |count: usize| Split {
        train: Pipeline::new(Arc::new(digits().train)).take(count),
        test: Pipeline::new(Arc::new(digits().test)).take(4),
    };
    // of 8x8 pixels its last layers have one for each channel
    let model = ModelName::new("resnet18").expect("a model of that name");
    let config = Config { model, batch_size: 3, tensorboard: false, ..settings(&device, out.path()) };
    let (summary, events) = train(Trainer::with_data(config.clone(), data(7)).expect("good settings"));
    let told = |event: &&Event| matches!(event, Event::Notice { message } if message.contains("leave a single one"));
    assert_eq!((summary.steps, events.iter().filter(told).count()), (4, 1));
    let (_, events) =
        train(Trainer::with_data(Config { epochs: 1, ..config.clone() }, data(6)).expect("good settings"));
    assert_eq!(events.iter().filter(told).count(), 0);
    // where nothing is left, that is an error
    for (config, count) in [(Config { batch_size: 1, ..config.clone() }, 4), (config.clone(), 1)] {
        let error = Trainer::with_data(config, data(count)).err().expect("no variance").to_string();
        assert!(error.starts_with("batch-size") && error.contains("bn"), "{error}");
    }
    let frozen = Config { batch_size: 1, epochs: 1, freeze_statistics: true, ..config };
    assert_eq!(train(Trainer::with_data(frozen, data(3)).expect("these need none")).0.steps, 3);
}

/// Puts something in the way of the weights, or of checkpoints.
enum Obstacle {
    Weights,
    Checkpoints,
}

impl Callback for Obstacle {
    fn on_train_begin(&mut self, run: &mut Context<'_>, _start: &Start) -> Result<()> {
        let path = run.folder().join(match self {
            Self::Weights => "model.safetensors/full",
            Self::Checkpoints => "checkpoints",
        });
        match self {
            Self::Weights => std::fs::create_dir_all(&path),
            Self::Checkpoints => std::fs::write(&path, "no folder"),
        }
        .map_err(|error| Error::io(path, error))
    }
}

#[test]
fn a_checkpoint_that_cannot_be_written_leaves_the_weights() {
    let (out, device) = (folder(), Device::cpu());
    let config = Config { name: Some("run".into()), epochs: 1, ..settings(&device, out.path()) };
    let mut trainer = Trainer::new(config.clone()).expect("good settings");
    trainer.add_callback(Obstacle::Checkpoints);
    let error = trainer.run(&Control::default(), &mut |_| {}).expect_err("no checkpoint").to_string();
    assert!(error.contains("checkpoints"), "{error}");
    let (whole, _) = run(Config { name: Some("whole".into()), ..config });
    let saved = std::fs::read(out.path().join("run/model.safetensors")).expect("they are there");
    assert!(saved == weights(&whole), "and those of the last step");
}

#[test]
fn weights_that_cannot_be_written_leave_checkpoints_which_do_not_pile_up() {
    let (out, device) = (folder(), Device::cpu());
    let every = "5".parse().expect("steps");
    let config = Config { save_every: every, name: Some("run".into()), epochs: 1, ..settings(&device, out.path()) };
    let mut trainer = Trainer::new(config.clone()).expect("good settings");
    trainer.add_callback(Obstacle::Weights);
    let mut events = Vec::new();
    let error = trainer.run(&Control::default(), &mut |event| events.push(event)).expect_err("no weights").to_string();
    assert!(error.contains("model.safetensors"), "{error}");
    let run = out.path().join("run");
    let mut names: Vec<_> = std::fs::read_dir(run.join("checkpoints")).expect("a folder").flatten().collect();
    names.sort_by_key(std::fs::DirEntry::file_name);
    let names: Vec<_> = names.iter().map(|entry| entry.file_name().into_string().expect("UTF-8")).collect();
    assert_eq!(names, ["step-00000020.safetensors", "step-00000023.safetensors"]);
    let is_told = |event: &&Event| matches!(event, Event::Notice { message } if message.ends_with("is saved, and the weights alone are not"));
    assert_eq!(events.iter().filter(is_told).count(), 5, "{events:?}");
    assert!(!events.iter().any(|event| matches!(event, Event::Saved { .. })), "{events:?}");
    std::fs::remove_dir_all(run.join("model.safetensors")).expect("it is there");
    let (summary, _) = train(Trainer::resume(&run, config).expect("a checkpoint"));
    assert!(!weights(&summary).is_empty(), "a run that goes on writes them");
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
    fn on_train_batch_begin(&mut self, run: &mut Context<'_>, step: usize) -> Result<()> {
        assert!((run.steps() as usize) < step);
        if step <= 2 { self.note(format!("step {step} begins")) } else { Ok(()) }
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
    fn on_test_begin(&mut self, _run: &mut Context<'_>) -> Result<()> {
        self.note("test begins")
    }
    fn on_test_batch_begin(&mut self, _run: &mut Context<'_>, batch: usize) -> Result<()> {
        if batch >= 5 { self.note(format!("batch {batch} begins")) } else { Ok(()) }
    }
    fn on_test_batch_end(&mut self, _run: &mut Context<'_>, batch: usize) -> Result<()> {
        if batch >= 5 { self.note(format!("batch {batch}")) } else { Ok(()) }
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
        "step 1 begins",
        "step 1",
        "step 2 begins",
        "step 2",
        "saved",
        "epoch 1 ends",
        "test begins",
        // 359 samples in batches of 64
        "batch 5 begins",
        "batch 5",
        "batch 6 begins",
        "batch 6",
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

/// Asks before this step for a checkpoint and for the end.
struct StopBefore(usize);

impl Callback for StopBefore {
    fn on_train_batch_begin(&mut self, run: &mut Context<'_>, step: usize) -> Result<()> {
        if step == self.0 {
            run.save();
            run.stop("it is time");
        }
        Ok(())
    }
}

#[test]
fn what_is_asked_for_before_a_step_happens_behind_it() {
    for device in common::devices() {
        let out = folder();
        let config = Config { log_every: 10, ..settings(&device, out.path()) };
        let weights = |run: &Summary| std::fs::read(run.folder.join("model.safetensors")).expect("weights");
        let whole = run(config.clone()).0;
        let mut trainer = Trainer::new(config.clone()).expect("good settings");
        trainer.add_callback(StopBefore(14));
        let stopped = train(trainer).0;
        assert_eq!((stopped.steps, stopped.stopped.as_deref()), (14, Some("it is time")), "{device:?}");
        let (resumed, _) = train(Trainer::resume(&stopped.folder, config).expect("a checkpoint"));
        assert_eq!(weights(&resumed), weights(&whole), "{device:?}");
    }
}

#[test]
fn checkpoints_that_were_left_out_do_not_count() {
    let (out, device) = (folder(), Device::cpu());
    let every = Config { save_every: "5".parse().expect("steps"), keep: 2, ..settings(&device, out.path()) };
    let mut trainer = Trainer::new(Config { keep: 9, ..every.clone() }).expect("good settings");
    trainer.add_callback(StopAt(22));
    let run = train(trainer).0.folder;
    let path = |step: usize| run.join(format!("checkpoints/step-{step:08}.safetensors"));
    for step in [20, 22] {
        std::fs::write(path(step), "damaged").expect("writable");
    }
    let mut trainer = Trainer::resume(&run, every).expect("an earlier one");
    trainer.add_callback(StopAt(18));
    let (summary, events) = train(trainer);
    let is_told = |event: &Event| matches!(event, Event::Notice { message } if message.contains("left out"));
    assert_eq!((summary.steps, events.iter().filter(|event| is_told(event)).count()), (18, 2));
    assert!(path(15).exists() && path(18).exists() && !path(10).exists(), "the two newest of this run");
    for step in [20, 22] {
        let aside = path(step).with_extension("safetensors.left-out");
        assert!(!path(step).exists() && std::fs::read(aside).is_ok_and(|bytes| bytes == b"damaged"));
    }
}

#[test]
fn an_order_that_is_random_already_is_left_as_it_is() {
    let (out, device) = (folder(), Device::cpu());
    let config = Config { batch_size: 8, epochs: 3, ..settings(&device, out.path()) };
    let weights = vec![1.0; Rows::new(None).len()];
    let plain = || Pipeline::new(Rows::new(None));
    for train_part in [plain().interleave(2, 4).shuffle_buffer(8), plain().weighted(&weights)] {
        let data = Split { train: train_part, test: plain() };
        let summary = train(Trainer::with_data(config.clone(), data).expect("good settings")).0;
        assert_eq!((summary.steps, summary.test.map(|test| test.accuracy)), (15, Some(1.0)));
    }
}

/// Rows that may become unreadable.
struct Fading(Arc<Rows>, Arc<AtomicBool>);

impl Dataset for Fading {
    fn description(&self) -> &Description {
        self.0.description()
    }
    fn len(&self) -> usize {
        self.0.len()
    }
    fn get(&self, index: usize, sample: &mut Sample) -> Result<()> {
        match self.1.load(Ordering::Relaxed) {
            false => self.0.get(index, sample),
            true => Err(Error::format(format!("{index}.txt"), "it is gone")),
        }
    }
}

#[test]
fn a_pass_whose_rest_cannot_be_read_is_over() {
    let (out, device) = (folder(), Device::cpu());
    let are_gone = Arc::new(AtomicBool::new(false));
    let data = || {
        let fading = Fading(Rows::new(None), are_gone.clone());
        Split { train: Pipeline::new(Arc::new(fading)), test: Pipeline::new(Rows::new(None)) }
    };
    let config = Config { batch_size: 4, epochs: 1, log_every: 1, ..settings(&device, out.path()) };
    let mut trainer = Trainer::with_data(config.clone(), data()).expect("good settings");
    trainer.add_callback(StopAt(6));
    let stopped = train(trainer).0;
    are_gone.store(true, Ordering::Relaxed);
    let resume = |config| Trainer::resume_with_data(&stopped.folder, config, data()).expect("a checkpoint");
    let (summary, _) = train(resume(config.clone()));
    assert_eq!((summary.steps, summary.completed, summary.test.map(|test| test.samples)), (6, true, Some(40)));
    // and the next one, when they are there again, is a whole one
    are_gone.store(false, Ordering::Relaxed);
    let (summary, _) = train(resume(Config { epochs: 2, ..config }));
    assert_eq!(summary.steps, 16);
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

/// What a file of a run says.
fn file<T: serde::de::DeserializeOwned>(folder: &Path, name: &str) -> T {
    let text = std::fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error} in {text}"))
}

fn lines(folder: &Path) -> Vec<Line> {
    let text = std::fs::read_to_string(folder.join(record::METRICS)).expect("it is there");
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

/// At this step asks for everything that changes nothing, from another thread than the one that trains.
struct Disturb {
    at: usize,
    control: Control,
    folder: Option<std::path::PathBuf>,
}

impl Callback for Disturb {
    fn on_train_begin(&mut self, run: &mut Context<'_>, _start: &Start) -> Result<()> {
        self.folder = Some(run.folder().to_owned());
        Ok(())
    }
    fn on_train_batch_end(&mut self, _run: &mut Context<'_>, step: &StepMetrics) -> Result<()> {
        if step.step != self.at {
            return Ok(());
        }
        self.control.pause();
        let (control, folder) = (self.control.clone(), self.folder.clone().expect("training has begun"));
        std::thread::spawn(move || {
            let state = |wanted| {
                while file::<Status>(&folder, record::STATUS).state != wanted {
                    std::thread::sleep(std::time::Duration::from_millis(2));
                }
            };
            state(RunState::Paused);
            control.save();
            while !folder.join("model.safetensors").exists() {
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            control.evaluate();
            while !folder.join(record::CONFUSION).exists() {
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            control.resume();
        });
        Ok(())
    }
}

#[test]
fn a_run_that_pauses_saves_and_evaluates_learns_the_same_bits() {
    for device in common::devices() {
        let out = folder();
        let config = Config {
            schedule: "plateau:patience=0".parse().expect("a schedule"),
            patience: Some(50),
            ema: Some(0.9),
            augment: "shift".parse().expect("an augmentation"),
            ..settings(&device, out.path())
        };
        let undisturbed = run(config.clone()).0;
        let mut trainer = Trainer::new(config).expect("good settings");
        let control = Control::default();
        trainer.add_callback(Disturb { at: 7, control: control.clone(), folder: None });
        let mut events = Vec::new();
        let disturbed = trainer.run(&control, &mut |event| events.push(event)).expect("a run");
        assert_eq!(weights(&undisturbed), weights(&disturbed), "{device:?}");
        let position = |wanted: fn(&Event) -> bool| events.iter().position(wanted).expect("it was told");
        let order = [
            position(|event| matches!(event, Event::Paused)),
            position(|event| matches!(event, Event::Saved { .. })),
            position(|event| matches!(event, Event::Evaluated { mid_epoch: true, epoch: 1, step: 7 | 8, .. })),
            position(|event| matches!(event, Event::Resumed)),
            position(|event| matches!(event, Event::Evaluated { mid_epoch: false, epoch: 1, step: 23, .. })),
        ];
        assert!(order.is_sorted(), "{order:?}");
        let (plain, paused) = (lines(&undisturbed.folder), lines(&disturbed.folder));
        let steps = |lines: &[Line]| -> Vec<_> {
            let timeless = |line: &Line| (line.step, line.loss, line.accuracy, line.lr, line.gradient_norm);
            lines.iter().filter(|line| line.kind != Kind::Test).map(timeless).collect()
        };
        assert_eq!(steps(&plain), steps(&paused));
        let tests = |lines: &[Line]| lines.iter().filter(|line| line.kind == Kind::Test).count();
        assert_eq!((tests(&plain), tests(&paused)), (2, 3));
    }
}

#[test]
fn a_paused_run_stops_and_its_pause_is_no_time() {
    let (out, device) = (folder(), Device::cpu());
    let control = Control::default();
    control.pause();
    let trainer = Trainer::new(settings(&device, out.path())).expect("good settings");
    let begun = std::time::Instant::now();
    let (asked, pause) = (control.clone(), std::time::Duration::from_millis(300));
    let summary = trainer
        .run(&control, &mut |event| {
            if matches!(event, Event::Paused) {
                let asked = asked.clone();
                std::thread::spawn(move || {
                    std::thread::sleep(pause);
                    asked.stop();
                });
            }
        })
        .expect("a run");
    assert!(!summary.completed && summary.steps == 1, "{summary:?}");
    assert!(summary.seconds <= (begun.elapsed() - pause).as_secs_f64(), "{summary:?}");
    let status: Status = file(&summary.folder, record::STATUS);
    assert_eq!((status.state, status.step, status.steps), (RunState::Stopped, 1, 46));
}

#[test]
fn a_factor_changes_the_learning_rate_and_a_resumed_run_keeps_it() {
    let (out, device) = (folder(), Device::cpu());
    let schedule = "constant".parse().expect("a schedule");
    let config = Config { schedule, lr: Some(0.001), name: Some("run".into()), ..settings(&device, out.path()) };
    let control = Control::default();
    let trainer = Trainer::new(config.clone()).expect("good settings");
    let asked = control.clone();
    trainer
        .run(&control, &mut |event| {
            if let Event::Step(StepMetrics { step, .. }) = event {
                match step {
                    5 => asked.set_learning_rate_factor(0.25),
                    9 => asked.stop(),
                    _ => {}
                }
            }
        })
        .expect("a run");
    let folder = out.path().join("run");
    let status: Status = file(&folder, record::STATUS);
    assert_eq!((status.learning_rate_factor, status.state), (0.25, RunState::Stopped));
    assert!(status.notices.iter().any(|notice| notice.contains("times 0.25")), "{status:?}");
    train(Trainer::resume(&folder, config).expect("a checkpoint"));
    let rates: Vec<_> = lines(&folder).iter().filter(|line| line.kind == Kind::Train).map(|line| line.lr).collect();
    assert_eq!((rates.len(), rates[4], rates[5], rates[45]), (46, 0.001, 0.00025, 0.00025));
    let status: Status = file(&folder, record::STATUS);
    assert_eq!((status.step, status.state, status.left_s), (46, RunState::Completed, 0.0));
}

/// A schedule ends with the run, also if it goes on with steps of another size.
#[test]
fn a_run_may_go_on_with_other_batches() {
    let (out, device) = (folder(), Device::cpu());
    let schedule = "cosine".parse().expect("a schedule");
    let config = Config { schedule, lr: Some(0.001), name: Some("run".into()), ..settings(&device, out.path()) };
    let stop_at = |trainer: Trainer, last: usize| {
        let control = Control::default();
        let asked = control.clone();
        let stop = &mut |event| match event {
            Event::Step(StepMetrics { step, .. }) if step == last => asked.stop(),
            _ => {}
        };
        trainer.run(&control, stop).expect("a run")
    };
    stop_at(Trainer::new(config.clone()).expect("good settings"), 30);
    let folder = out.path().join("run");
    let stopped: Status = file(&folder, record::STATUS);
    // of 1438 samples those of the steps that were under way are done, too
    let in_second_pass = stopped.step as usize - 23;
    let config = Config { batch_size: 128, epochs: 3, ..config };
    let steps = stopped.step as usize + (1438 - 64 * in_second_pass).div_ceil(128) + 12;
    stop_at(Trainer::resume(&folder, config.clone()).expect("a checkpoint"), stopped.step as usize + 2);
    let status: Status = file(&folder, record::STATUS);
    assert_eq!((status.steps as usize, status.state), (steps, RunState::Stopped));
    let (_, events) = train(Trainer::resume(&folder, config).expect("a checkpoint"));
    assert!(matches!(&events[0], Event::Started(start) if start.steps == steps), "{:?}", events[0]);
    let status: Status = file(&folder, record::STATUS);
    assert_eq!((status.step as usize, status.steps as usize, status.left_s), (steps, steps, 0.0));
    let lines: Vec<Line> = lines(&folder).into_iter().filter(|line| line.kind == Kind::Train).collect();
    let rates: Vec<f64> = lines.iter().map(|line| line.lr).collect();
    let (before, behind) = rates.split_at(stopped.step as usize);
    for part in [before, behind] {
        assert!(part.windows(2).all(|pair| pair[1] < pair[0]), "{rates:?}");
    }
    let (first, last) = (behind[0], rates[steps - 1]);
    assert!((0.0001..0.0009).contains(&first) && (0.0..0.00001).contains(&last), "{first} {last}");
    assert_eq!(lines.last().map(|line| line.epoch), Some(3));
}

/// Goes wrong at a step.
struct Fail(fn() -> Error);

impl Callback for Fail {
    fn on_train_batch_end(&mut self, _run: &mut Context<'_>, step: &StepMetrics) -> Result<()> {
        if step.step == 3 { Err((self.0)()) } else { Ok(()) }
    }
}

#[test]
fn a_run_that_fails_says_so_in_its_folder() {
    let device = Device::cpu();
    let failures: [fn() -> Error; 2] = [|| Error::Config("no more".into()), || panic!("no more")];
    for failure in failures {
        let out = folder();
        let mut trainer =
            Trainer::new(Config { name: Some("run".into()), ..settings(&device, out.path()) }).expect("good settings");
        trainer.add_callback(Fail(failure));
        let run = std::panic::AssertUnwindSafe(|| trainer.run(&Control::default(), &mut |_| {}));
        let ended = std::panic::catch_unwind(run);
        assert!(!matches!(ended, Ok(Ok(_))));
        let status: Status = file(&out.path().join("run"), record::STATUS);
        assert_eq!((status.state, status.step), (RunState::Failed, 3));
        assert!(status.message.as_deref().is_some_and(|message| message.contains("no more")), "{status:?}");
    }
}

#[test]
fn a_run_writes_what_it_is_and_how_it_goes() {
    for device in common::devices() {
        let out = folder();
        let summary = run(settings(&device, out.path())).0;
        let run: RunRecord = file(&summary.folder, record::RUN);
        assert_eq!((run.start.parameters, run.start.steps_per_epoch, run.classes.len()), (17_226, 23, 10));
        assert!(run.memory.training.model_bytes >= 4 * 17_226, "{run:?}");
        let lines = lines(&summary.folder);
        let of = |kind| lines.iter().filter(move |line| line.kind == kind);
        assert_eq!([Kind::Train, Kind::Epoch, Kind::Test].map(|kind| of(kind).count()), [46, 2, 2]);
        for line in of(Kind::Train) {
            assert!(
                line.gradient_norm.is_some_and(|norm| norm > 0.0) && line.memory_bytes > Some(4 * 17_226),
                "{line:?}"
            );
            assert!(line.samples_per_second.is_some_and(|speed| speed > 0.0), "{line:?}");
        }
        assert_eq!(of(Kind::Test).next_back().and_then(|line| line.mean), summary.test.map(|test| test.mean));
        let status: Status = file(&summary.folder, record::STATUS);
        assert_eq!((status.state, status.step, status.epoch), (RunState::Completed, 46, 2));
        assert_eq!(status.process, std::process::id());
        assert!(status.memory_peak_bytes >= status.memory_bytes && status.memory_bytes > 4 * 17_226, "{status:?}");
    }
}

#[test]
fn the_norm_of_the_gradients_is_that_of_autograd() {
    for device in common::devices() {
        let out = folder();
        let data = || Split { train: Pipeline::new(Rows::new(None)), test: Pipeline::new(Rows::new(None)) };
        let plain = Config { batch_size: 40, epochs: 1, clip_norm: Some(1e-3), ..settings(&device, out.path()) };
        let halves = Config { batch_size: 20, accumulate: 2, ..plain.clone() };
        let model = create("mlp", &ModelSpec { input: vec![4], classes: 2, seed: 1 }, &device).expect("a model");
        let (mut inputs, mut labels, mut sample) = (Vec::<f32>::new(), Vec::new(), Sample::default());
        for index in 0..40 {
            Rows::new(None).get(index, &mut sample).expect("a row");
            let (Values::F32(row), Target::Class(class)) = (&sample.input, &sample.target) else { panic!("a row") };
            inputs.extend(row);
            labels.push(*class as i32);
        }
        let inputs = Tensor::from_slice(&inputs, [40, 4], &device).expect("memory");
        let labels = Tensor::from_slice(&labels, [40], &device).expect("memory");
        let gradients = Mode::Train.scope(|| model.forward(&inputs)).cross_entropy(&labels).backward();
        let square = |gradient: Tensor| -> f64 {
            let values = gradient.to_vec::<f32>().expect("values");
            values.iter().map(|&value| f64::from(value) * f64::from(value)).sum()
        };
        let parameters = model.parameters();
        let by_hand: f64 =
            parameters.iter().map(|parameter| square(gradients.get(&parameter.tensor()).expect("it counts"))).sum();
        for config in [plain, halves] {
            let trainer = Trainer::with_data(Config { seed: 1, ..config }, data()).expect("good settings");
            let norm = lines(&train(trainer).0.folder)[0].gradient_norm.expect("it is told");
            assert!((norm - by_hand.sqrt()).abs() < 1e-4 * norm, "{device:?}: {norm} and {}", by_hand.sqrt());
        }
    }
}

#[test]
fn the_timeline_has_what_worked_beside_each_other() {
    for device in common::devices() {
        let out = folder();
        let config =
            Config { workers: 2, augment: "shift".parse().expect("an augmentation"), ..settings(&device, out.path()) };
        let summary = run(config).0;
        let status: Status = file(&summary.folder, record::STATUS);
        let lane = |name: &str| {
            let lane = status.timeline.lanes.iter().find(|lane| lane.name == name);
            lane.unwrap_or_else(|| panic!("no lane {name} in {:?}", status.timeline))
        };
        let own = device.info().selector.clone();
        let expected =
            [("batches", Stage::Batch), ("upload", Stage::Upload), (&own, Stage::Backward), ("host", Stage::Log)];
        for (name, stage) in expected {
            let spans = &lane(name).spans;
            assert!(spans.iter().any(|span| span.stage == stage), "{name}: {spans:?}");
        }
        assert!(status.timeline.lanes.iter().any(|lane| lane.name.starts_with("loader ")), "{:?}", status.timeline);
        for lane in &status.timeline.lanes {
            let ordered = |pair: &[record::Span]| pair[0].start_ms <= pair[1].start_ms + 1e-3;
            assert!(lane.spans.iter().all(|span| span.start_ms <= span.end_ms), "{lane:?}");
            assert!(lane.name == "host" || lane.spans.windows(2).all(ordered), "{lane:?}");
            assert!(lane.spans.iter().all(|span| span.end_ms <= 1e3 * summary.seconds + 100.0), "{lane:?}");
        }
        // the last steps and the evaluation behind them
        let steps: Vec<u64> =
            lane(&own).spans.iter().filter(|span| span.stage == Stage::Backward).map(|span| span.step).collect();
        assert!(steps.len() > 10 && steps.is_sorted() && steps.last() == Some(&46), "{steps:?}");
        let exposed = |stage: Stage| status.stages[stage as usize].exposed_ms;
        assert!(exposed(Stage::Forward) > 0.0 && exposed(Stage::Evaluate) > 0.0, "{:?}", status.stages);
    }
}

#[test]
fn the_plan_says_which_kernels_a_step_has_and_what_they_take() {
    for device in common::devices() {
        let out = folder();
        let summary = run(settings(&device, out.path())).0;
        let plan: PlanRecord = file(&summary.folder, record::PLAN);
        assert!(plan.kernels.len() > 10 && plan.bytes > 0);
        for (number, kernel) in plan.kernels.iter().enumerate() {
            assert!(kernel.after.iter().all(|&before| plan.kernels[before].wave < kernel.wave), "{number}: {kernel:?}");
            assert!(kernel.wgsl.contains("fn main"), "{number}: {kernel:?}");
            assert!(!kernel.writes.is_empty(), "{number}: {kernel:?}");
            assert!(kernel.milliseconds.is_some_and(|took| took > 0.0), "{number}: {kernel:?}");
        }
        let of = |stage: Stage, module: &str| {
            let here = |path: &String| path == module;
            plan.kernels.iter().any(|kernel| kernel.stage == stage && kernel.modules.iter().any(here))
        };
        assert!(of(Stage::Forward, "0") && of(Stage::Backward, "0") && !of(Stage::Forward, "7"), "{plan:?}");
        let update = plan.kernels.iter().position(|kernel| kernel.stage == Stage::Update).expect("an update");
        assert!(!plan.kernels[update].after.is_empty());
    }
}

#[test]
fn what_the_model_says_about_the_first_samples_is_what_evaluation_says() {
    let (out, device) = (folder(), Device::cpu());
    let data = || {
        let data = brasa::data::digits().expect("they are bundled");
        let few = |data, count| Pipeline::new(Arc::new(data)).take(count);
        Split { train: few(data.train, 640), test: few(data.test, 150) }
    };
    let summary = train(Trainer::with_data(settings(&device, out.path()), data()).expect("good settings")).0;
    let said: Predictions = file(&summary.folder, record::PREDICTIONS);
    let test = summary.test.expect("an evaluation");
    assert_eq!((said.samples.len(), said.classes.len(), said.step), (150, 10, 20));
    let right = said.samples.iter().filter(|sample| sample.accuracy == 1.0).count();
    assert_eq!(right as u64, test.correct);
    let loss = said.samples.iter().map(|sample| f64::from(sample.loss)).sum::<f64>() / 150.0;
    assert!((loss - test.loss).abs() < 1e-4, "{loss} {test:?}");
    let predictor = Predictor::open(&summary.folder, Some("cpu")).expect("weights");
    let sheet = said.pictures.expect("they are pictures");
    assert_eq!((sheet.height, sheet.width, sheet.columns), (8, 8, 16));
    let sheet = image::open(summary.folder.join(&sheet.file)).expect("a picture").into_luma8();
    assert_eq!(sheet.dimensions(), (128, 80));
    for (number, sample) in said.samples.iter().enumerate() {
        assert_eq!(sample.likeliest.len(), 5);
        assert!(sample.likeliest.is_sorted_by(|a, b| a.1 >= b.1), "{sample:?}");
        assert_eq!(sample.accuracy == 1.0, sample.label == Some(sample.likeliest[0].0), "{sample:?}");
        // the picture by itself, as somebody might have saved it
        let (left, top) = (number as u32 % 16 * 8, number as u32 / 16 * 8);
        let path = out.path().join("digit.png");
        image::imageops::crop_imm(&sheet, left, top, 8, 8).to_image().save(&path).expect("writable");
        let alone = predictor.predict_file(&path).expect("a picture");
        assert_eq!(alone.prediction.likeliest[0].0, sample.likeliest[0].0, "{sample:?} {alone:?}");
        assert!((alone.prediction.likeliest[0].1 - sample.likeliest[0].1).abs() < 1e-4, "{sample:?} {alone:?}");
    }
    let error = predictor.predict_file(&summary.folder.join(record::RUN)).expect_err("it is no picture").to_string();
    assert!(error.contains("run.json"), "{error}");
}

#[test]
fn masks_are_shown_beside_what_the_model_says() {
    for device in common::devices() {
        let out = folder();
        let config = Config {
            dataset: "shapes:n=24,size=16".parse().expect("a data set"),
            model: ModelName::new("unet").expect("a model of that name"),
            batch_size: 4,
            epochs: 1,
            ..settings(&device, out.path())
        };
        let summary = run(config.clone()).0;
        let said: Predictions = file(&summary.folder, record::PREDICTIONS);
        let test = brasa::data::open(&config.dataset, &config.open_options()).expect("they are drawn").test;
        let masks = said.masks.expect("it segments").map(|sheet| {
            let picture = image::open(summary.folder.join(&sheet.file)).expect("a picture").into_luma8();
            (sheet, picture)
        });
        let mut sample = Sample::default();
        for (number, shown) in said.samples.iter().enumerate() {
            test.get(shown.index, &mut sample).expect("a picture");
            let Target::Mask(mask) = &sample.target else { panic!("a mask") };
            let part = |(sheet, picture): &(record::Sheet, image::GrayImage)| {
                let [left, top] = [number % sheet.columns * 16, number / sheet.columns * 16];
                image::imageops::crop_imm(picture, left as u32, top as u32, 16, 16).to_image().into_raw()
            };
            let [of, answer] = masks.each_ref().map(part);
            assert_eq!(of, *mask);
            let counts = mask.iter().filter(|&&class| class != IGNORED).count();
            let right = mask.iter().zip(&answer).filter(|(is, said)| **is != IGNORED && is == said).count();
            assert!((shown.accuracy - right as f32 / counts as f32).abs() < 1e-6, "{shown:?}");
            assert!(shown.likeliest.is_empty() && shown.label.is_none() && shown.loss > 0.0, "{shown:?}");
        }
    }
}

#[test]
fn a_forecast_of_fewer_batches_than_were_counted_ends() {
    let out = folder();
    let data = out.path().join("data");
    for (part, class, pictures) in [("train", "a", 17), ("train", "b", 17), ("test", "a", 1), ("test", "b", 1)] {
        let class = data.join(part).join(class);
        std::fs::create_dir_all(&class).expect("writable");
        for number in 0..pictures {
            image::RgbImage::new(8, 8).save(class.join(format!("{number}.png"))).expect("writable");
        }
    }
    for broken in ["train/a/3.png", "train/b/5.png"] {
        std::fs::write(data.join(broken), "no picture").expect("writable");
    }
    let config = Config {
        dataset: format!("folder:{}", data.display()).parse().expect("a data set"),
        epochs: 15,
        batch_size: 32,
        ..settings(&Device::cpu(), &out.path().join("runs"))
    };
    let told = forecast(config, &Control::default()).expect("memory");
    assert_eq!(told.steps, 30, "34 samples are two batches; without the broken ones they are one");
    assert!(told.step_ms.is_some(), "{told:?}");
}

#[test]
fn a_forecast_takes_no_folder_and_can_be_stopped() {
    for device in common::devices() {
        let out = folder();
        let config = settings(&device, &out.path().join("runs"));
        let told = forecast(config.clone(), &Control::default()).expect("memory");
        assert_eq!(told.steps, 46);
        assert!(told.step_ms > Some(0.0) && told.seconds > Some(0.0), "{told:?}");
        let stopped = Control::default();
        stopped.stop();
        assert_eq!(forecast(config.clone(), &stopped).expect("memory").step_ms, None);
        assert!(!config.out.exists(), "no run was begun");
    }
}
