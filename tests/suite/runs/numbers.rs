//! Runs whose model predicts numbers.

use brasa::data::Random;
use brasa::train::record::Predictions;
use brasa::train::{LossName, Predictor, Residuals, Score};

use super::*;

/// Rows of five numbers with two to predict, of very different sizes.
struct Numbers(Description);

const ROWS: usize = 203;

impl Numbers {
    fn new() -> Arc<Self> {
        let scales = Normalization { mean: vec![5_000.0, 0.02], std: vec![700.0, 0.01] };
        let of = Description::new("numbers", Goal::Regress, ["large", "small"].map(str::to_owned), [5]);
        Arc::new(Self(Description { scales: Some(scales), ..of }))
    }

    fn row(index: usize) -> ([f32; 5], [f32; 2]) {
        let x = std::array::from_fn(|place| ((index * (place + 3) * 37 % 101) as f32 / 50.0 - 1.0) * 1.5);
        let large = 5_000.0 + 500.0 * x[0] - 300.0 * x[1];
        let small = 0.02 + 0.008 * x[2] + 0.004 * x[3] * x[3];
        (x, [large, small])
    }
}

impl Dataset for Numbers {
    fn description(&self) -> &Description {
        &self.0
    }
    fn len(&self) -> usize {
        ROWS
    }
    fn get(&self, index: usize, sample: &mut Sample) -> Result<()> {
        let (row, numbers) = Self::row(index);
        sample.shape = vec![5];
        sample.input = Values::F32(row.to_vec());
        sample.set_numbers(&numbers);
        Ok(())
    }
}

fn data() -> Split<Pipeline> {
    Split::new(Pipeline::new(Numbers::new()), Pipeline::new(Numbers::new()))
}

fn short(device: &Device, out: &Path) -> Config {
    Config { epochs: 12, batch_size: 32, seed: 3, lr: Some(0.01), ..settings(device, out) }
}

fn trainer(config: Config) -> Trainer {
    Trainer::with_data(config, data()).expect("good settings")
}

/// Sums over what a model says, in f64.
fn by_hand(said: &[Vec<f32>]) -> Vec<[f64; 3]> {
    let of = |place: usize| {
        let numbers: Vec<f64> = (0..ROWS).map(|index| Numbers::row(index).1[place].into()).collect();
        let mean = numbers.iter().sum::<f64>() / ROWS as f64;
        let errors: Vec<f64> = numbers.iter().zip(said).map(|(is, said)| f64::from(said[place]) - is).collect();
        let squared: f64 = errors.iter().map(|error| error * error).sum();
        let variation: f64 = numbers.iter().map(|number| (number - mean).powi(2)).sum();
        let absolute: f64 = errors.iter().map(|error| error.abs()).sum();
        [1.0 - squared / variation, (squared / ROWS as f64).sqrt(), absolute / ROWS as f64]
    };
    [0, 1].map(of).to_vec()
}

#[test]
fn numbers_are_learned_and_judged_in_their_own_units() {
    for device in common::devices() {
        let out = folder();
        let (summary, events) = train(trainer(short(&device, out.path())));
        let losses = losses(&events);
        assert!(losses.last() < losses.first(), "{device:?}: {losses:?}");
        let test = summary.test.expect("an evaluation");
        let scores = test.regression().expect("of numbers");
        assert!(
            scores.r2 > 0.9 && test.score() == scores.r2 && test.classification().is_none(),
            "{device:?}: {test:?}"
        );

        // what the saved model says of each row, and what follows from that
        let predictor = Predictor::open(&summary.folder, Some(&device.info().selector)).expect("a run");
        let samples: Vec<Sample> = (0..ROWS)
            .map(|index| {
                let mut sample = Sample::default();
                Numbers::new().get(index, &mut sample).expect("a row");
                sample
            })
            .collect();
        let said = predictor.predict(&samples).expect("answers");
        assert!(said.iter().all(|said| said.numbers.len() == 2 && said.likeliest.is_empty() && said.mask.is_empty()));
        let said: Vec<Vec<f32>> = said.into_iter().map(|said| said.numbers).collect();
        let residuals: Residuals = file(&summary.folder, record::RESIDUALS);
        assert_eq!((residuals.samples(), residuals.numbers()), (ROWS as u64, 2));
        for (place, expected) in by_hand(&said).into_iter().enumerate() {
            let found = residuals.number(place);
            for (found, expected) in [found.r2, found.rmse, found.mae].into_iter().zip(expected) {
                assert!((found - expected).abs() < 1e-3 * expected.abs(), "{device:?}: {found} and {expected}");
            }
        }
        assert_eq!(scores.r2, residuals.means().r2);

        let shown: Predictions = file(&summary.folder, record::PREDICTIONS);
        assert_eq!((shown.samples.len(), &shown.classes[..]), (ROWS, &["large".to_owned(), "small".to_owned()][..]));
        for sample in &shown.samples {
            assert_eq!(sample.target, Numbers::row(sample.index).1);
            common::assert_close("said", &doubles(&sample.predicted), &doubles(&said[sample.index]), 1e-4, 1e-4);
        }
        let last = lines(&summary.folder).pop().expect("lines");
        assert_eq!((last.kind, last.score, last.rmse), (Kind::Test, Score::R2(scores.r2), Some(scores.rmse)));
        assert!(!summary.folder.join(record::CONFUSION).exists());
    }
}

fn doubles(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| value.into()).collect()
}

#[test]
fn what_is_made_small_is_what_the_loss_says() {
    for device in common::devices() {
        for (loss, of) in [
            (LossName::Mse, (|error: f64| error * error) as fn(f64) -> f64),
            (LossName::L1, f64::abs),
            (LossName::Huber, |error| if error.abs() < 1.0 { 0.5 * error * error } else { error.abs() - 0.5 }),
        ] {
            let out = folder();
            let config = Config { epochs: 1, loss: Some(loss), ..short(&device, out.path()) };
            let summary = train(trainer(config)).0;
            let shown: Predictions = file(&summary.folder, record::PREDICTIONS);
            let scales = Numbers::new().0.scales.clone().expect("scales");
            let each = |place: usize, is: f32, said: f32| of(f64::from(said - is) / f64::from(scales.std[place]));
            let losses = shown.samples.iter().map(|sample| {
                (0..2).map(|place| each(place, sample.target[place], sample.predicted[place])).sum::<f64>() / 2.0
            });
            let mean = losses.sum::<f64>() / ROWS as f64;
            let told = summary.test.expect("an evaluation").loss;
            assert!((told - mean).abs() < 1e-3 * mean, "{device:?}, {loss}: {told} and {mean}");
        }
    }
}

#[test]
fn parts_of_a_batch_averages_and_16_bit_floats_learn_numbers_too() {
    for device in common::devices() {
        let out = folder();
        let plain = Config { epochs: 4, ..short(&device, out.path()) };
        let (whole, events) = train(trainer(plain.clone()));
        let (halved, parts) = train(trainer(Config { batch_size: 16, accumulate: 2, ..plain.clone() }));
        let expected = losses(&events);
        common::assert_close("losses", &doubles(&losses(&parts)), &doubles(&expected), 1e-3, 1e-3);
        let test = |summary: &Summary| summary.test.expect("an evaluation");
        assert!((test(&halved).score() - test(&whole).score()).abs() < 1e-2, "{device:?}: {halved:?}");
        for config in [Config { ema: Some(0.5), ..plain.clone() }, Config { precision: Precision::F16, ..plain }] {
            let scored = test(&train(trainer(config.clone())).0).score();
            assert!((scored - test(&whole).score()).abs() < 0.05, "{device:?}: {scored} and {whole:?} of {config:?}");
        }
    }
}

/// What each of two devices has of a batch weighs by its samples.
#[test]
fn two_devices_learn_numbers_together() {
    let (out, devices) = (folder(), common::devices());
    let [first, .., last] = &devices[..] else { return };
    let alone = Config { epochs: 4, ..short(first, out.path()) };
    let names = [first, last].map(|device| device.info().selector.clone()).join(",");
    let together = Config { device: Some(names), ..alone.clone() };
    let [alone, together] = [alone, together].map(|config| doubles(&losses(&train(trainer(config)).1)));
    common::assert_close("losses", &together, &alone, 1e-3, 1e-3);
}

/// The trainer measures them, and the parts have one set of scales, whatever each says.
#[test]
fn scales_are_those_of_the_training_part() {
    let (out, device) = (folder(), Device::cpu());
    let part = |scales| Pipeline::new(Numbers::new()).described(Description { scales, ..Numbers::new().0.clone() });
    let far = Some(Normalization { mean: vec![0.0, 1.0], std: vec![1.0, 1.0] });
    let data = Split::new(part(None), part(far));
    let summary = train(Trainer::with_data(short(&device, out.path()), data).expect("good settings")).0;
    assert!(summary.test.expect("an evaluation").score() > 0.9, "{summary:?}");
    let last = lines(&summary.folder).into_iter().rfind(|line| line.kind == Kind::Epoch).expect("epochs");
    assert!(last.score.value() > 0.9, "{last:?}");
}

#[test]
fn a_run_of_numbers_goes_on_with_the_same_bits() {
    for device in common::devices() {
        let out = folder();
        let config = Config { epochs: 3, ..short(&device, out.path()) };
        let whole = train(trainer(config.clone())).0;
        let mut stopping = trainer(config);
        stopping.add_callback(StopAt(9));
        let stopped = train(stopping).0;
        let settings = Trainer::config_of(&stopped.folder).expect("its settings");
        let resumed = train(Trainer::resume_with_data(&stopped.folder, settings, data()).expect("a checkpoint")).0;
        assert_eq!((resumed.steps, weights(&resumed) == weights(&whole)), (whole.steps, true), "{device:?}");
        assert_eq!(resumed.best, whole.best, "{device:?}");
    }
}

#[test]
fn settings_that_do_not_fit_numbers_are_refused() {
    let (out, device) = (folder(), Device::cpu());
    let refuse = |config: Config, words: &[&str]| {
        let error = Trainer::with_data(config, data()).expect_err("should be refused").to_string();
        words.iter().for_each(|word| assert!(error.contains(word), "{error}"));
    };
    let plain = || short(&device, out.path());
    refuse(Config { loss: Some(LossName::CrossEntropy), ..plain() }, &["loss", "cross-entropy", "mse"]);
    refuse(Config { label_smoothing: 0.1, ..plain() }, &["label-smoothing", "numbers"]);
    refuse(Config { model: ModelName::new("unet").expect("a model"), ..plain() }, &["unet", "numbers", "mlp"]);
    let of_classes = Config { loss: Some(LossName::L1), ..settings(&device, out.path()) };
    let error = Trainer::new(of_classes).expect_err("should be refused").to_string();
    assert!(error.contains("loss: l1") && error.contains("classes"), "{error}");
}

#[test]
fn a_number_that_is_missing_or_not_finite_is_told() {
    type Change = fn(&mut Sample);
    let cases: [(Change, &str); 3] = [
        (|sample| sample.set_numbers(&[1.0]), "sample 7 has 1 number to predict, but the data set names 2"),
        (|sample| sample.set_numbers(&[1.0, f32::NAN]), "sample 7 has NaN to predict"),
        (|sample| sample.target = Target::Class(0), "sample 7 has no numbers to predict, but a class"),
    ];
    for (change, expected) in cases {
        let seventh = Values::F32(Numbers::row(7).0.to_vec());
        let odd = move |sample: &mut Sample, _: &mut Random| {
            if sample.input == seventh {
                change(sample);
            }
            Ok(())
        };
        let pipeline = Pipeline::new(Numbers::new()).map(odd).strict(true);
        let batches: Result<Vec<_>> = pipeline.start().expect("threads").collect();
        let error = batches.expect_err("it is strict").to_string();
        assert!(error.contains(expected), "{error}");
    }
}
