//! A bad step changes nothing: not the parameters, not the moments, not the statistics, not the random numbers.

use std::sync::Arc;

use brasa::graph::in_module;
use brasa::optim::{LossScaleOptions, LossScaler, SGD, SGDOptions};
use brasa::runtime::{Step, Var, check_finite};
use brasa::{DType, Device, Error, Tensor};

use crate::common::small::Training;
use crate::common::{devices, floats, fresh_devices, panic_of, read, vector};

/// A batch of which one number is bad.
fn bad_batch(training: &Training, bad: f32) -> [Tensor; 2] {
    let mut values = floats(77, 8 * 72, -1.0, 1.0);
    values[300] = bad;
    training.samples(&values, &[0; 8])
}

#[test]
fn a_nan_leaves_every_bit_as_it_was_until_the_step_is_resumed() {
    for device in fresh_devices() {
        let mut training = Training::new(&device, 5);
        for number in 0..3 {
            training.train(number);
        }
        assert!(!training.step.halted().expect("a word"));
        let before = training.bits();
        for bad in [f32::NAN, f32::INFINITY] {
            let batch = bad_batch(&training, bad);
            let loss: f32 = training.step.run(&batch).expect("a run")[0].item().expect("a loss");
            assert!(!loss.is_finite(), "{loss}");
            assert!(training.step.halted().expect("a word"));
            assert!(training.bits() == before, "the bad step changed something on {device:?}");
            assert!(training.train(3).is_finite());
            assert!(training.bits() == before, "a good step after the bad one changed something on {device:?}");
            training.step.resume().expect("resumed");
            assert!(!training.step.halted().expect("a word"));
        }
        let losses: Vec<f32> = (3..6).map(|number| training.train(number)).collect();
        let (names, after) = (before.iter().map(|(name, _)| name), training.bits());
        for ((name, old), (_, new)) in names.zip(before.iter().map(|(_, bytes)| bytes)).zip(&after) {
            assert!(old != new || name == "random.seed", "{name} stood still after resuming on {device:?}");
        }
        // as if the bad batches had never been
        let mut undisturbed = Training::new(&device, 5);
        let expected: Vec<f32> = (0..6).map(|number| undisturbed.train(number)).collect();
        assert_eq!(losses, expected[3..], "{device:?}");
        assert!(after == undisturbed.bits(), "{device:?}");
    }
}

#[test]
fn diagnosis_names_the_layer_where_a_bad_input_arrives_and_changes_nothing() {
    for device in fresh_devices() {
        let mut training = Training::new(&device, 6);
        training.train(0);
        let before = training.bits();
        let (good, bad) = (training.batch(1), bad_batch(&training, f32::NAN));
        assert_eq!(training.step.diagnose(&good).expect("a diagnosis"), None, "{device:?}");
        let words = training.step.diagnose(&bad).expect("a diagnosis").expect("there is a NaN");
        assert!(words.contains("in module `conv`"), "{words}");
        assert!(training.bits() == before, "{device:?}");
    }
}

/// Bad data are the commonest cause of a NaN, and no op's.
#[test]
fn diagnosis_names_the_input_or_variable_that_is_bad_already() {
    for device in fresh_devices() {
        let mut training = Training::new(&device, 6);
        let bad = bad_batch(&training, f32::NEG_INFINITY);
        let words = training.step.diagnose(&bad).expect("a diagnosis").expect("an infinity");
        for part in ["input 0 is -inf already, at element 300 of [8, ", "; of what is computed, the first", "`conv`"] {
            assert!(words.contains(part), "`{part}` is missing in: {words}");
        }
        // an input that is checked as it is, of f16, from which nothing is computed
        let count = Var::state("count", &vector(&[0.0], &device)).expect("memory");
        let counter = count.clone();
        let mut step = Step::new(&device, move |inputs| {
            check_finite(&[inputs[1].node().clone()]);
            counter.assign(&(counter.tensor() + 1.0));
            vec![]
        })
        .expect("a step");
        let input = |value| vector(&[1.0, value], &device);
        let half = input(f32::NAN).to_dtype(DType::F16);
        let words = step.diagnose(&[input(f32::NAN), half]).expect("a diagnosis").expect("a NaN");
        assert_eq!(words, "input 1 is NaN already, at element 1 of [2]", "the other one is not read: {device:?}");
        let words = step.diagnose(&[input(2.0), input(2.0).to_dtype(DType::F16)]).expect("a diagnosis");
        assert_eq!(words, None, "{device:?}");
        count.set(&vector(&[f32::NAN], &device)).expect("memory");
        let words = step.diagnose(&[input(2.0), input(2.0)]).expect("a diagnosis").expect("a NaN");
        assert!(words.starts_with("the variable `count` is NaN already, at element 0 of [1]"), "{words}");
    }
}

/// Members of an arena lie within it, and are named all the same.
#[test]
fn diagnosis_names_the_parameter_that_is_bad_already() {
    for device in fresh_devices() {
        let mut training = Training::new(&device, 6);
        let batch = training.batch(0);
        training.train(0);
        let weight = training.state.iter().find(|parameter| parameter.name() == "conv.weight").expect("it has one");
        let mut values = read(&weight.tensor());
        values[5] = f32::INFINITY;
        let bad = Tensor::from_slice(&values, weight.shape().clone(), &device).expect("memory");
        weight.set(&bad).expect("memory");
        let words = training.step.diagnose(&batch).expect("a diagnosis").expect("an infinity");
        assert!(words.starts_with("the variable `conv.weight` is inf already, at element 5 of ["), "{words}");
    }
}

#[test]
fn diagnosis_names_op_module_and_line() {
    for device in devices() {
        let weight = Var::parameter("weight", &vector(&[2.0, 3.0, 4.0], &device)).expect("memory");
        let line = line!() + 4;
        let mut step = Step::new(&device, move |inputs| {
            in_module("decoder.head", || {
                let shifted = weight.tensor() - &inputs[0];
                let loss = shifted.log().sum();
                let _gradients = loss.backward();
                vec![loss]
            })
        })
        .expect("a step");
        let input = [vector(&[0.5, 0.5, 9.0], &device)];
        step.run(&input).expect("a run");
        assert!(step.halted().expect("a word"), "{device:?}");
        let words = step.diagnose(&input).expect("a diagnosis").expect("the logarithm of -5");
        for part in ["element 2 of log [3]", "in module `decoder.head`", &format!("{}:{line}", file!())] {
            assert!(words.contains(part), "`{part}` is missing in: {words}");
        }
    }
}

#[test]
fn every_bit_pattern_that_is_no_number_halts() {
    for device in devices() {
        let count = Var::state("count", &vector(&[0.0], &device)).expect("memory");
        let counter = count.clone();
        let mut step = Step::new(&device, move |inputs| {
            check_finite(&[inputs[0].node().clone()]);
            counter.assign(&(counter.tensor() + 1.0));
            vec![]
        })
        .expect("a step");
        let mut expected = 0.0;
        for bits in [0x7f80_0000, 0xff80_0000, 0x7fc0_0000, 0xffc0_0000, 0x7f80_0001, 0xffff_ffff, 0x7f7f_ffff, 1] {
            let value = f32::from_bits(bits);
            step.run(&[vector(&[0.0, value, 1.0], &device)]).expect("a run");
            assert_eq!(step.halted().expect("a word"), !value.is_finite(), "{bits:x} on {device:?}");
            expected += if value.is_finite() { 1.0 } else { 0.0 };
            assert_eq!(read(&count.tensor()), [expected], "{bits:x} on {device:?}");
            step.resume().expect("resumed");
        }
    }
}

/// In which run the NaN was, is not known when somebody asks.
#[test]
fn a_step_that_stands_still_says_so_however_late_it_is_asked() {
    for device in fresh_devices() {
        let mut training = Training::new(&device, 5);
        training.train(0);
        training.step.ensure_finite().expect("it is finite");
        let batch = bad_batch(&training, f32::NAN);
        training.step.run(&batch).expect("a run");
        training.train(1);
        training.train(2);
        let error = training.step.ensure_finite().expect_err("a NaN");
        assert!(matches!(error, Error::Halted { runs: 4 }), "{error}");
        let words = error.to_string();
        assert!(words.contains("in run 4 of the step or before") && !words.contains("step 4"), "{words}");
        training.step.resume().expect("resumed");
        training.step.ensure_finite().expect("it goes on");
    }
}

#[test]
fn steps_that_halt_together_are_joined_before_anything_is_traced() {
    let device = Device::cpu();
    let step = || Step::new(&device, |inputs| vec![inputs[0].sum()]).expect("memory");
    let (input, signature) = ([vector(&[1.0], &device)], vec![([1].into(), DType::F32)]);
    let uses: [&dyn Fn(&mut Step); 3] = [
        &|step| drop(step.run(&input).expect("a run")),
        &|step| drop(step.prepare(&signature).expect("a plan")),
        &|step| assert!(step.forecast(std::slice::from_ref(&signature)).is_ok()),
    ];
    for use_it in uses {
        let (mut late, other) = (step(), step());
        use_it(&mut late);
        let (words, file, _) = panic_of(|| drop(late.halting_with(&other)));
        assert!(words.contains("traced already") && file.ends_with("gate.rs"), "{words} at {file}");
    }
    drop(step().halting_with(&step()));
}

fn scaler(device: &Device, options: LossScaleOptions) -> Arc<LossScaler> {
    Arc::new(LossScaler::new(device, options).expect("memory"))
}

/// (factor, skipped steps)
fn scale(scaler: &LossScaler) -> (f32, u32) {
    (scaler.scale().expect("a factor"), scaler.skipped_steps().expect("a count"))
}

/// A factor that is a power of two changes no bit of a result, as long as nothing overflows or vanishes.
#[test]
fn training_with_a_scaled_loss_is_training_without() {
    for device in fresh_devices() {
        let mut plain = Training::new(&device, 5);
        let losses: Vec<f32> = (0..5).map(|number| plain.train(number)).collect();
        let bits = plain.bits();
        let scaler = scaler(&device, LossScaleOptions::default());
        let mut scaled = Training::scaled(&device, 5, &scaler, 1.0);
        assert_eq!((0..5).map(|number| scaled.train(number)).collect::<Vec<_>>(), losses, "{device:?}");
        assert!(scaled.bits() == bits, "{device:?}");
        assert_eq!(scale(&scaler), (65536.0, 0), "{device:?}");
    }
}

#[test]
fn gradients_that_overflow_skip_the_step_and_shrink_the_factor_without_a_halt() {
    for device in fresh_devices() {
        let (initial, weight) = (2.0_f32.powi(126), 2.0_f32.powi(20));
        let with = |initial| scaler(&device, LossScaleOptions { initial, ..LossScaleOptions::default() });
        let scaler = with(initial);
        let mut training = Training::scaled(&device, 6, &scaler, weight);
        let before = training.bits();
        let mut factor = initial;
        let mut skipped = 0;
        while training.bits() == before {
            assert!(skipped < 40, "it never went on, on {device:?}");
            assert!(training.train(skipped.into()).is_finite(), "the loss itself is none of the factor's doing");
            assert!(!training.step.halted().expect("a word"), "{device:?}");
            if training.bits() == before {
                (factor, skipped) = (factor * 0.5, skipped + 1);
            }
            assert_eq!(scale(&scaler), (factor, skipped), "{device:?}");
        }
        assert!(skipped > 0, "2^126 * 2^20 times a gradient of more than 2^-18 overflows");
        // as if the skipped batches had never been: parameters, moments, statistics, random numbers
        let after = training.bits();
        let mut undisturbed = Training::scaled(&device, 6, &with(factor), weight);
        undisturbed.train(skipped.into());
        assert!(after == undisturbed.bits(), "{device:?}");
    }
}

#[test]
fn a_loss_that_is_no_number_halts_and_leaves_the_factor_alone() {
    for device in fresh_devices() {
        let scaler = scaler(&device, LossScaleOptions::default());
        let mut training = Training::scaled(&device, 7, &scaler, 1.0);
        training.train(0);
        let before = training.bits();
        let batch = bad_batch(&training, f32::NAN);
        training.step.run(&batch).expect("a run");
        assert!(training.step.halted().expect("a word"), "{device:?}");
        assert!(training.bits() == before && scale(&scaler) == (65536.0, 0), "{device:?}");
        assert!(training.step.diagnose(&batch).expect("a diagnosis").is_some_and(|words| words.contains("conv")));
        training.step.resume().expect("resumed");
        assert!(training.train(1).is_finite());
        assert!(training.bits() != before, "{device:?}");
    }
}

#[test]
fn the_factor_grows_after_good_steps_in_a_row_and_stays_finite() {
    for device in devices() {
        let options = LossScaleOptions { initial: 8.0, growth_interval: 3, ..LossScaleOptions::default() };
        let scaler = scaler(&device, options);
        let weight = Var::parameter("w", &vector(&[1.0, 2.0], &device)).expect("memory");
        let optimizer = SGD::new(std::slice::from_ref(&weight), SGDOptions::default()).expect("memory");
        let own = scaler.clone();
        let step = Step::new(&device, move |inputs| {
            // the gradient by w passes through f16, which ends at 65504
            let weight = weight.tensor().to_dtype(DType::F16).to_dtype(DType::F32);
            let loss = (weight * &inputs[0]).sum() * 1e-3;
            own.update(&optimizer, &own.backward(&loss));
            vec![]
        });
        let mut step = step.expect("a step");
        let mut run = |value: f32| {
            step.run(&[vector(&[value, value], &device)]).expect("a run");
            assert!(!step.halted().expect("a word"));
            scale(&scaler)
        };
        let factors: Vec<_> = (0..5).map(|_| run(1.0)).collect();
        assert_eq!(factors, [(8.0, 0), (8.0, 0), (16.0, 0), (16.0, 0), (16.0, 0)], "{device:?}");
        // 16 * 1e-3 * 60,000 = 960 is fine
        assert_eq!(run(60_000.0), (32.0, 0), "{device:?}");
        let mut last = (32.0, 0);
        while last.0 < 1024.0 {
            last = run(60_000.0);
            assert!(last.1 == 0, "{last:?}");
        }
        // 1024 * 1e-3 * 60,000 = 61,440 is the last that f16 holds; three such, then one overflows
        let factors: Vec<_> = (0..5).map(|_| run(60_000.0)).collect();
        let expected = [(1024.0, 0), (1024.0, 0), (2048.0, 0), (1024.0, 1), (1024.0, 1)];
        assert_eq!(factors, expected, "{device:?}");
    }
}

#[test]
fn a_factor_that_is_of_no_help_any_more_halts() {
    for device in devices() {
        let options = LossScaleOptions { initial: 1.0, ..LossScaleOptions::default() };
        let scaler = scaler(&device, options);
        let weight = Var::parameter("w", &vector(&[1.0, 2.0], &device)).expect("memory");
        let optimizer = SGD::new(std::slice::from_ref(&weight), SGDOptions::default()).expect("memory");
        let own = scaler.clone();
        let mut step = Step::new(&device, move |inputs| {
            // the loss is 0, and the gradient of the root there is infinite whatever it is multiplied by
            let loss = (weight.tensor() * &inputs[0]).sqrt().sum();
            own.update(&optimizer, &own.backward(&loss));
            vec![]
        })
        .expect("a step");
        let mut steps = 0;
        while !step.halted().expect("a word") {
            assert!(steps < 40, "it skips for ever, on {device:?}");
            step.run(&[vector(&[0.0, 0.0], &device)]).expect("a run");
            steps += 1;
        }
        assert_eq!((steps, scale(&scaler)), (15, (options.least, 14)), "{device:?}");
    }
}
