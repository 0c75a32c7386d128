//! What a run's folder tells of it.

use std::sync::Arc;

use brasa::data::{Dataset, IGNORED, Pipeline, Sample, Split, Target, Values};
use brasa::models::{ModelSpec, create};
use brasa::nn::Mode;
use brasa::train::record::{self, Kind, PlanRecord, Predictions, RunRecord, RunState, Status};
use brasa::train::{Callback, Config, Context, Control, ModelName, Precision, Predictor, StepMetrics, Trainer};
use brasa::{DType, Device, Error, MatmulPrecision, Result, Stage, Tensor};

use crate::common;

use super::{Rows, file, folder, lines, run, settings, train};

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
        // results of several steps are read at once, and each step has its own time
        let times: Vec<f64> = of(Kind::Train).map(|line| line.elapsed_s).collect();
        assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "{times:?}");
        assert_eq!(
            of(Kind::Test).next_back().and_then(|line| line.mean),
            summary.test.and_then(|test| Some(test.classification()?.mean))
        );
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
        let data = || Split::new(Pipeline::new(Rows::new(None)), Pipeline::new(Rows::new(None)));
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
        let products = |plan: &PlanRecord| plan.kernels.iter().filter_map(|kernel| kernel.products).collect::<Vec<_>>();
        let highest = (DType::F32, MatmulPrecision::Highest);
        assert!(products(&plan).len() > 3 && products(&plan).iter().all(|&of| of == highest), "{plan:?}");
        if device.info().f16 {
            let summary = run(Config { precision: Precision::F16, ..settings(&device, out.path()) }).0;
            let plan: PlanRecord = file(&summary.folder, record::PLAN);
            assert!(products(&plan).contains(&(DType::F16, MatmulPrecision::Highest)), "{plan:?}");
        }
    }
}

#[test]
fn what_the_model_says_about_the_first_samples_is_what_evaluation_says() {
    let (out, device) = (folder(), Device::cpu());
    let data = || {
        let data = brasa::data::digits().expect("they are bundled");
        let few = |data, count| Pipeline::new(Arc::new(data)).take(count);
        Split::new(few(data.train, 640), few(data.test, 150))
    };
    let summary = train(Trainer::with_data(settings(&device, out.path()), data()).expect("good settings")).0;
    let said: Predictions = file(&summary.folder, record::PREDICTIONS);
    let test = summary.test.expect("an evaluation");
    assert_eq!((said.samples.len(), said.classes.len(), said.step), (150, 10, 20));
    let right = said.samples.iter().filter(|sample| sample.accuracy == 1.0).count();
    assert_eq!(Some(right as u64), test.classification().map(|scores| scores.correct));
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
    let error = predictor.predict_file(&summary.folder.join(record::RUN)).expect_err("it is not a picture").to_string();
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
