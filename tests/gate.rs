//! A bad step changes nothing: not the parameters, not the moments, not the statistics, not the random numbers.

mod common;

use brasa::Tensor;
use brasa::graph::in_module;
use brasa::runtime::{Step, Var, check_finite};

use common::small::Training;
use common::{devices, floats, fresh_devices, read, vector};

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
