//! Data that cannot be learned from, or not all of them, and what becomes of the run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use brasa::data::{Dataset, Description, Goal, IGNORED, Pipeline, Random, Sample, Split, Target, Values};
use brasa::train::record::Kind;
use brasa::train::{Config, Control, Event, ModelName, OnNan, OptimizerName, Precision, Trainer};
use brasa::{Device, Error, Result};

use crate::common::{self, assert_close};

use super::{Rows, StopAt, folder, lines, settings, train, weights};

#[test]
fn a_step_that_is_not_finite_ends_the_run_or_is_skipped() {
    for device in common::devices() {
        let out = folder();
        let data = |bad| Split::new(Pipeline::new(Rows::new(bad)), Pipeline::new(Rows::new(None)));
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
        assert_eq!(summary.test.map(|test| test.score()), Some(1.0), "{device:?}: the others taught it");
    }
}

/// A loss that is not finite is none of the scale's doing: it stays, and the step is counted once.
#[test]
fn a_skipped_step_leaves_the_loss_scale_alone() {
    for device in common::devices() {
        let out = folder();
        let data = Split::new(Pipeline::new(Rows::new(Some(11))), Pipeline::new(Rows::new(None)));
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
        let data = Split::new(part(train), part(test));
        let error = Trainer::with_data(settings(&device, out.path()), data).expect_err("an empty part").to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn a_run_that_a_step_ended_goes_on_from_the_step_before() {
    for device in common::devices() {
        let out = folder();
        let data = |bad| Split::new(Pipeline::new(Rows::new(bad)), Pipeline::new(Rows::new(None)));
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
        // what the first part of a step has left in statistics is not a place to go on from
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
    let data = Split::new(Pipeline::new(data), Pipeline::new(Rows::new(None)));
    let config = Config { batch_size: 4, epochs: 1, on_nan: OnNan::Skip, ..settings(&device, out.path()) };
    let (summary, events) = train(Trainer::with_data(config, data).expect("good settings"));
    assert_eq!(summary.skipped_steps, 2);
    let epoch = |event: &Event| if let Event::Epoch(epoch) = event { Some(*epoch) } else { None };
    let epoch = events.iter().find_map(epoch).expect("a pass");
    assert!(epoch.loss.is_nan() && epoch.score.value().is_nan(), "{epoch:?}");
    let text = std::fs::read_to_string(summary.folder.join("metrics.jsonl")).expect("written");
    let line = text.lines().find(|line| line.contains(r#""kind":"epoch""#)).expect("a pass");
    assert!(line.contains(r#""loss":null,"accuracy":null"#), "{line}");
    let of_pass = lines(&summary.folder).into_iter().find(|line| line.kind == Kind::Epoch).expect("a pass");
    assert!(of_pass.loss.is_nan() && of_pass.score.value().is_nan());
}

#[test]
fn a_last_batch_of_one_sample_is_left_out_and_told() {
    let (out, device) = (folder(), Device::cpu());
    let digits = || brasa::data::digits().expect("they are bundled");
    let data = |count: usize| {
        Split::new(Pipeline::new(Arc::new(digits().train)).take(count), Pipeline::new(Arc::new(digits().test)).take(4))
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
        let error = Trainer::with_data(config, data(count)).expect_err("no variance").to_string();
        assert!(error.starts_with("batch-size") && error.contains("bn"), "{error}");
    }
    let frozen = Config { batch_size: 1, epochs: 1, freeze_statistics: true, ..config };
    assert_eq!(train(Trainer::with_data(frozen, data(3)).expect("these need none")).0.steps, 3);
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
        Split::new(Pipeline::new(Arc::new(fading)), Pipeline::new(Rows::new(None)))
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

/// Pictures that are brighter on the right, where their masks are of the second class. All pixels of a mask have a class,
/// or those of nine columns, or of one; of the first mask none has.
struct Sparse(Description);

impl Sparse {
    const SIDE: usize = 16;

    fn pipeline() -> Pipeline {
        let classes = ["left", "right"].map(str::to_owned);
        Pipeline::new(Arc::new(Self(Description::new("sparse", Goal::Segment, classes, [1, Self::SIDE, Self::SIDE]))))
    }
}

impl Dataset for Sparse {
    fn description(&self) -> &Description {
        &self.0
    }
    fn len(&self) -> usize {
        24
    }
    fn get(&self, index: usize, sample: &mut Sample) -> Result<()> {
        let columns = |of: &dyn Fn(usize) -> u8| (0..Self::SIDE * Self::SIDE).map(|at| of(at % Self::SIDE)).collect();
        sample.shape.clone_from(&self.0.shape);
        sample.input = Values::U8(columns(&|column| (10 * column + 3 * index) as u8));
        let counted = if index == 0 { 0 } else { [Self::SIDE, 1, 9][index % 3] };
        let class = |column| if column < counted { (column >= Self::SIDE / 2).into() } else { IGNORED };
        sample.target = Target::Mask(columns(&class));
        Ok(())
    }
}

#[test]
fn parts_of_a_batch_count_by_the_pixels_that_have_a_class() {
    let out = folder();
    let run = |devices: &[Device], batch_size, accumulate| {
        let selectors: Vec<&str> = devices.iter().map(|device| device.info().selector.as_str()).collect();
        let config = Config {
            model: ModelName::new("unet").expect("a model of that name"),
            optimizer: OptimizerName::SGD,
            batch_size,
            accumulate,
            // else they differ from part to part
            freeze_statistics: true,
            device: Some(selectors.join(",")),
            ..settings(&devices[0], out.path())
        };
        let data = Split::new(Sparse::pipeline(), Sparse::pipeline());
        let (_, events) = train(Trainer::with_data(config, data).expect("good settings"));
        let of_event = |event: &Event| match event {
            Event::Step(step) => Some(f64::from(step.loss)),
            Event::Epoch(epoch) => Some(epoch.loss),
            _ => None,
        };
        events.iter().filter_map(of_event).collect::<Vec<_>>()
    };
    let expected = run(&[Device::cpu()], 8, 1);
    assert_eq!(expected.len(), 8, "three steps in each of two epochs, and these");
    let all = common::devices();
    for device in &all {
        assert_close(&format!("{device:?}"), &run(std::slice::from_ref(device), 2, 4), &expected, 1e-4, 0.0);
    }
    if all.len() > 1 {
        assert_close("together", &run(&all[..2], 8, 1), &expected, 1e-4, 0.0);
        assert_close("together, in parts", &run(&all[..2], 4, 2), &expected, 1e-4, 0.0);
    }
}

#[test]
fn a_run_does_not_go_on_with_other_classes() {
    let (out, device) = (folder(), Device::cpu());
    let config = Config { batch_size: 4, epochs: 1, name: Some("run".into()), ..settings(&device, out.path()) };
    let data = || Split::new(Pipeline::new(Rows::new(None)), Pipeline::new(Rows::new(None)));
    train(Trainer::with_data(config.clone(), data()).expect("good settings"));
    let description =
        Description { classes: vec!["above".into(), "zero".into()], ..Rows::new(None).description().clone() };
    let others = data().map(|part| part.described(description.clone()));
    let (folder, longer) = (out.path().join("run"), Config { epochs: 2, ..config });
    let before = std::fs::read(folder.join("run.json")).expect("it is there");
    let error = Trainer::resume_with_data(&folder, longer.clone(), others).expect_err("other classes").to_string();
    assert!(error.contains("the run has learned below") && error.contains("zero"), "{error}");
    assert_eq!(std::fs::read(folder.join("run.json")).expect("it is there"), before);
    assert_eq!(train(Trainer::resume_with_data(&folder, longer, data()).expect("the same classes")).0.steps, 20);
}

#[test]
fn a_target_of_another_kind_than_the_data_set_has_is_told() {
    let class = |sample: &mut Sample, _: &mut Random| {
        sample.target = Target::Class(0);
        Ok(())
    };
    let batches: Result<Vec<_>> = Sparse::pipeline().map(class).strict(true).start().expect("threads").collect();
    let error = batches.expect_err("it is strict").to_string();
    assert!(error.contains("sample 0 has a class, but the data set has a mask for each sample"), "{error}");
}
