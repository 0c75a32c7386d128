//! Whole training runs through the library: what their settings do.

mod numbers;
mod odd_data;
mod saving;
mod steering;
mod told;
mod weighted;

use std::path::Path;
use std::sync::Arc;

use brasa::data::{Dataset, Description, Goal, IGNORED, Normalization, On, Pipeline, Sample, Split, Target, Values};
use brasa::models::{ModelSpec, create};
use brasa::nn::{LoadOptions, Mode, Module, load_weights};
use brasa::train::record::{self, Kind, Line, RunState, Status};
use brasa::train::{
    Callback, Config, Confusion, Context, Control, Event, HeldOut, ModelName, Precision, StepMetrics, Summary, Trainer,
    evaluate, forecast,
};
use brasa::{DType, Device, Result, Tensor};

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

/// What a file of a run says.
fn file<T: serde::de::DeserializeOwned>(folder: &Path, name: &str) -> T {
    let text = std::fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error} in {text}"))
}

fn lines(folder: &Path) -> Vec<Line> {
    let text = std::fs::read_to_string(folder.join(record::METRICS)).expect("it is there");
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

/// Rows of four numbers, whose sign is the class; one row is not finite.
struct Rows(Description, Option<usize>);

impl Rows {
    fn new(bad: Option<usize>) -> Arc<Self> {
        let classes = ["below", "above"].map(str::to_owned);
        Arc::new(Self(Description::new("rows", Goal::Classify, classes, [4]), bad))
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
        let [mixed, full] = [&summary, &full.0].map(|summary| summary.test.expect("an evaluation").score());
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
        assert!(slow.test.is_some_and(|test| test.score() > 0.7), "{slow:?}");
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
        Split::new(few(data.train, 64), few(data.test, 32))
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

#[test]
fn an_order_that_is_random_already_is_left_as_it_is() {
    let (out, device) = (folder(), Device::cpu());
    let config = Config { batch_size: 8, epochs: 3, ..settings(&device, out.path()) };
    let weights = vec![1.0; Rows::new(None).len()];
    let plain = || Pipeline::new(Rows::new(None));
    for train_part in [plain().interleave(2, 4).shuffle_buffer(8), plain().weighted(&weights)] {
        let data = Split::new(train_part, plain());
        let summary = train(Trainer::with_data(config.clone(), data).expect("good settings")).0;
        assert_eq!((summary.steps, summary.test.map(|test| test.score())), (15, Some(1.0)));
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
        let scores = test.classification().expect("classes of pixels");
        assert!(scores.by_iou && test.score() == scores.mean.iou, "{test:?}");

        // the same count by hand, from the model's answers to each picture
        let judged =
            evaluate(config.clone(), &summary.folder.join("model.safetensors"), HeldOut::Test).expect("weights");
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
        let counted = judged.tally.confusion().expect("classes of pixels");
        let by_hand = Confusion::new(of.classes.len(), counts);
        assert_eq!(by_hand.total(), counted.total(), "{device:?}");
        // logits of a batch and of one picture are added up in other orders: a pixel on the edge may go either way
        let classes = of.classes.len();
        let differing: u64 = (0..classes * classes)
            .map(|at| by_hand.count(at / classes, at % classes).abs_diff(counted.count(at / classes, at % classes)))
            .sum();
        assert!(differing <= 8, "{device:?}: {by_hand:?} and {:?}", counted);
        assert_eq!(
            judged.test.classification().map(|scores| scores.correct),
            Some(scores.correct),
            "{device:?}: what training said"
        );
    }
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
