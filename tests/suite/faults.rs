//! What the world does wrong: memory runs out, a device goes away, data holds impossible indices.

use std::process::Command;

use brasa::device::Fault;
use brasa::models::{Gpt, GptOptions, ModelSpec, create};
use brasa::nn::{Init, Mode, Module, Variables};
use brasa::optim::{Adam, AdamOptions, Optimizer};
use brasa::runtime::{Step, Var};
use brasa::tensor::autocast;
use brasa::train::{Config, Control, Event, ModelName, Trainer};
use brasa::{DType, Error, Result, Tensor};

use crate::common::small::{Training, doubling};
use crate::common::{fresh_devices, read, vector};

#[track_caller]
fn assert_lost<T>(result: Result<T>) {
    let error = result.err().expect("the device is lost");
    assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
}

/// Runs the test again in a process of its own with `BRASA_VALIDATE=1` and these features, which are read once; true in
/// that process.
fn is_validating(test: &str, features: &str) -> bool {
    if brasa::debug::validate() {
        return true;
    }
    let program = std::env::current_exe().expect("its path");
    let mut command = Command::new(program);
    command.args(["--exact", test]).env("BRASA_VALIDATE", "1").env("BRASA_FEATURES", features);
    let output = command.output();
    let output = output.expect("it starts");
    let words = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && words.contains("1 passed"), "{words}");
    false
}

#[test]
fn a_wrong_kernel_is_found_when_kernels_are_checked() {
    if !is_validating("faults::a_wrong_kernel_is_found_when_kernels_are_checked", "") {
        return;
    }
    for device in fresh_devices() {
        let found = |result: Result<Vec<f32>>| match result.expect_err("a kernel is wrong") {
            Error::Validation { kernel, device: named, index, got, expected } => {
                assert!(named.contains(&device.info().name), "{named}");
                (kernel, index, got, expected)
            }
            error => panic!("{error}"),
        };
        let values = vector(&[0.5, 2.0, 3.0], &device);
        let doubled = || (&values + &values).to_vec::<f32>();
        assert_eq!(doubled().expect("right"), [1.0, 4.0, 6.0]);
        device.inject(Fault::WrongKernel);
        let (kernel, index, got, expected) = found(doubled());
        assert!(kernel.contains("add") && (index, got, expected) == (0, 2.0, 1.0), "{kernel} {index} {got} {expected}");
        assert_eq!(doubled().expect("right again"), [1.0, 4.0, 6.0], "{device:?}");
        // a product in a step, and a truth value
        let mut step = Step::new(&device, |inputs| vec![inputs[0].matmul(&inputs[0])]).expect("a step");
        let matrix = Tensor::full([5, 5], 0.5, &device);
        let mut product = || step.run(std::slice::from_ref(&matrix))?[0].to_vec::<f32>();
        assert_eq!(product().expect("right"), [1.25; 25]);
        device.inject(Fault::WrongKernel);
        let (kernel, index, got, expected) = found(product());
        assert_eq!((index, got, expected), (0, 2.25, 1.25), "{kernel} on {device:?}");
        assert_eq!(product().expect("right again"), [1.25; 25]);
        device.inject(Fault::WrongKernel);
        let is_large = values.gt(1.0).to_vec::<bool>().map(|values| values.into_iter().map(f32::from).collect());
        assert_eq!(found(is_large).2, 1.0, "{device:?}");
        // an index out of range is the data's fault, and not the kernel's
        let logits = Tensor::from_slice(&[0.5_f32; 5], [1, 5], &device).expect("memory");
        let label = Tensor::from_slice(&[5], 1, &device).expect("memory");
        let error = logits.cross_entropy(&label).item::<f32>().expect_err("there are five classes");
        assert!(matches!(error, Error::IndexOutOfRange { bound: 5, .. }), "{error}");
        assert_eq!(doubled().expect("the status was cleared"), [1.0, 4.0, 6.0]);
    }
}

/// Runs a step twice, with all of its kernels checked.
#[track_caller]
fn assert_right(step: &mut Step, inputs: &[Tensor]) {
    for _ in 0..2 {
        let loss = step.run(inputs).expect("all kernels are right");
        assert!(loss[0].item::<f32>().is_ok_and(|loss| loss > 0.0));
    }
}

/// With the plans and kernels of GPUs, whatever the adapter is: sums cut for many cores, tiles in workgroup memory, and
/// a vector of gradients whose parts are not alive yet.
#[test]
fn every_kernel_of_a_training_step_is_right() {
    if !is_validating("faults::every_kernel_of_a_training_step_is_right", "-software") {
        return;
    }
    for device in fresh_devices() {
        let values = |count: usize| (0..count).map(|n| ((n * 37) % 101) as f32 / 50.5 - 0.97).collect::<Vec<_>>();
        let images = Tensor::from_vec(values(3 * 3 * 32 * 32), &device).expect("memory").reshape([3, 3, 32, 32]);
        let labels = Tensor::from_slice(&[7, 0, 3], 3, &device).expect("memory");
        let spec = ModelSpec { input: vec![3, 32, 32], classes: 10, seed: 1 };
        let model = create("tutorial-cnn", &spec, &device).expect("a known model");
        let optimizer = Adam::new(&model.parameters(), AdamOptions::default()).expect("memory for moments");
        let mut step = Step::new(&device, move |inputs| {
            let loss = Mode::Train.scope(|| model.forward(&inputs[0])).cross_entropy(&inputs[1]);
            optimizer.update(&loss.backward());
            vec![loss]
        })
        .expect("a step");
        assert_right(&mut step, &[images, labels]);
    }
}

/// The same for attention, norms of rows, lookups and products of f16.
#[test]
fn every_kernel_of_a_transformer_s_step_is_right() {
    if !is_validating("faults::every_kernel_of_a_transformer_s_step_is_right", "-software") {
        return;
    }
    for device in fresh_devices() {
        let tokens = |shift: usize| (0..2 * 24).map(|n| ((n * n + shift) % 11) as i32).collect::<Vec<_>>();
        let [inputs, targets] =
            [0, 3].map(|shift| Tensor::from_vec(tokens(shift), &device).expect("memory").reshape([2, 24]));
        let options = GptOptions { width: 32, heads: 2, layers: 1, ..GptOptions::new(11, 24) };
        let model = Gpt::new(options, &Init::new(&device, 1)).expect("memory for parameters");
        let optimizer = Adam::new(&model.parameters(), AdamOptions::default()).expect("memory for moments");
        let mut step = Step::new(&device, move |inputs| {
            let logits = Mode::Train.scope(|| autocast(DType::F16, || model.forward(&inputs[0])));
            let loss = logits.to_dtype(DType::F32).cross_entropy(&inputs[1]);
            optimizer.update(&loss.backward());
            vec![loss]
        })
        .expect("a step");
        assert_right(&mut step, &[inputs, targets]);
    }
}

#[test]
fn a_diagnosis_does_with_the_memory_there_is() {
    const SIZE: usize = 16_384; // 64 KiB
    for device in fresh_devices() {
        let mut step = Step::new(&device, |inputs| {
            let mut value = inputs[0].clone();
            for _ in 0..12 {
                value *= &inputs[0];
            }
            value = (value - 2.0).log();
            for _ in 0..12 {
                value *= &inputs[0];
            }
            vec![value.sum()]
        })
        .expect("a step");
        let input = [Tensor::full([SIZE], 0.5, &device)];
        step.run(&input).expect("memory");
        let live = device.memory().live_bytes;
        // all values at once; some at a time; one and what is stored on the way to it; one, with what is on the way
        // fused; not even one
        for (values, is_enough) in [(100.0, true), (6.5, true), (2.5, true), (1.5, true), (0.5, false)] {
            device.inject(Fault::MemoryLimit(live + (values * (4 * SIZE) as f64) as u64));
            match step.diagnose(&input) {
                Ok(found) => {
                    let words = found.expect("the logarithm of less than zero");
                    assert!(is_enough && words.contains("element 0 of log [16384]"), "{values}: {words}");
                }
                Err(error) => {
                    assert!(!is_enough && matches!(error, Error::OutOfMemory { .. }), "{values}: {error}");
                }
            }
            assert_eq!(device.memory().live_bytes, live, "{device:?}");
        }
    }
}

#[test]
fn a_device_destroyed_in_mid_run_is_an_error_of_everything_that_follows() {
    for device in fresh_devices() {
        let mut training = Training::new(&device, 1);
        let batch = training.batch(0);
        let mut loss = None;
        for _ in 0..5 {
            loss = Some(training.step.run(&batch).expect("a run").remove(0));
        }
        let lazy = &batch[0] + 1.0;
        let spare = Var::parameter("spare", &Tensor::zeros(3, &device)).expect("memory");
        device.inject(Fault::Lost);
        for _ in 0..2 {
            assert_lost(training.step.run(&batch));
            assert_lost(training.step.diagnose(&batch));
            assert_lost(training.step.halted());
            assert_lost(training.step.resume());
            assert_lost(loss.as_ref().expect("it ran").item::<f32>());
            assert_lost(lazy.to_vec::<f32>());
            assert_lost(training.state[0].tensor().to_vec::<f32>());
            assert_lost(training.state[0].set(&Tensor::zeros(training.state[0].shape(), &device)));
            assert_lost(Tensor::rand([3], &device).to_vec::<f32>());
            assert_lost(Tensor::from_slice(&[1.0_f32], 1, &device));
            assert_lost(Var::state("v", &Tensor::zeros(3, &device)));
            assert_lost(Adam::new(std::slice::from_ref(&spare), AdamOptions::default()));
            assert_lost(device.sync());
        }
        let _times = training.step.stage_times(); // neither hangs nor panics
        drop(training);
        // the hardware itself is as good as before
        let again = device.reopen().expect("reopened");
        assert!(Training::new(&again, 1).train(0).is_finite());
    }
}

#[test]
fn a_device_lost_while_another_thread_works_stops_that_thread_with_an_error() {
    for device in fresh_devices() {
        let victim = device.clone();
        let worker = std::thread::spawn(move || {
            let mut step = Step::new(&victim, |inputs| vec![inputs[0].matmul(&inputs[0])])?;
            let mut value = Tensor::eye(64, &victim);
            loop {
                value = step.run(&[value])?.remove(0);
                value.to_vec::<f32>()?;
            }
            #[expect(unreachable_code, reason = "names the closure's error type")]
            Ok::<(), Error>(())
        });
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert!(!worker.is_finished());
        device.inject(Fault::Lost);
        assert_lost(worker.join().expect("no panic"));
    }
}

#[test]
fn out_of_memory_names_what_for_and_the_work_goes_on() {
    for device in fresh_devices() {
        let mut training = Training::new(&device, 2);
        training.train(0);
        let before = training.bits();
        let input = vector(&[1.0, 2.0], &device);
        let check = |error: Error, wanted: &str| {
            let Error::OutOfMemory { what, live_bytes, peak_bytes, needed_bytes, .. } = &error else {
                panic!("{error}")
            };
            assert!(what.contains(wanted), "`{wanted}` is missing in: {error}");
            let memory = device.memory();
            assert!(
                *needed_bytes > 0 && (*live_bytes, *peak_bytes) == (memory.live_bytes, memory.peak_bytes),
                "{error}"
            );
            let (live, decimals) = (*live_bytes as f64 / 1024.0, usize::from(!live_bytes.is_multiple_of(1024)));
            assert!(error.to_string().contains(&format!(" while {live:.decimals$} KiB are in use")), "{error}");
        };
        device.inject(Fault::OutOfMemory);
        check(Tensor::from_slice(&[0.0_f32; 6], [2, 3], &device).expect_err("refused"), "f32 [2, 3]");
        device.inject(Fault::OutOfMemory);
        let sum = &input + 1.0;
        check(sum.to_vec::<f32>().expect_err("refused"), "[2]");
        assert_eq!(read(&sum), [2.0, 3.0], "the same tensor, asked again, on {device:?}");
        device.inject(Fault::OutOfMemory);
        check(Var::state("moments", &input).expect_err("refused"), "moments");
        // a step that has to be captured for another signature
        let batch = training.batch(0).map(|tensor| tensor.narrow(0, 0, 4));
        batch.iter().for_each(|tensor| tensor.realize().expect("memory"));
        device.inject(Fault::OutOfMemory);
        assert!(matches!(training.step.run(&batch).map(drop), Err(Error::OutOfMemory { .. })), "{device:?}");
        assert!(training.bits() == before, "a step that did not run changed something on {device:?}");
        assert!(training.step.run(&batch).expect("memory")[0].item::<f32>().expect("a loss").is_finite());
        assert!(training.train(1).is_finite());
        assert!(training.bits() != before);
    }
}

#[test]
fn out_of_memory_is_told_before_kernels_are_compiled() {
    for device in fresh_devices() {
        let mut step = Step::new(&device, |inputs| vec![inputs[0].matmul(&inputs[0]).relu().sum()]).expect("a step");
        let input = [Tensor::full([256, 256], 0.5, &device)];
        input[0].realize().expect("memory");
        let (live, before) = (device.memory().live_bytes, device.counters().pipelines);
        device.inject(Fault::MemoryLimit(live + (256 << 10) + 1000));
        let error = step.run(&input).expect_err("the copy of the input has room, the product has not");
        assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
        assert_eq!(device.counters().pipelines, before, "{device:?}");
        device.inject(Fault::MemoryLimit(u64::MAX));
        assert_eq!(step.run(&input).expect("memory")[0].item::<f32>().expect("a sum"), 64.0 * 65_536.0);
    }
}

#[test]
fn out_of_memory_lists_what_takes_most_with_shape_type_and_line() {
    for device in fresh_devices() {
        drop(Tensor::from_slice(&[0.0_f32; 20_000], 20_000, &device).expect("memory"));
        let weight = Var::parameter("encoder.weight", &Tensor::ones([100, 40], &device)).expect("memory");
        let (table, table_line) = (Tensor::from_slice(&[1_i32; 3000], [3000], &device).expect("memory"), line!());
        let (product, product_line) = (weight.tensor().exp().to_dtype(DType::F16), line!());
        product.realize().expect("memory");
        let before = device.memory();
        device.inject(Fault::MemoryLimit(before.live_bytes + 1000));
        let (sum, line) = (&table + 1, line!());
        let error = sum.realize().expect_err("12,000 bytes where 1,000 are left");
        let Error::OutOfMemory { what, needed_bytes, live_bytes, peak_bytes, largest, .. } = &error else {
            panic!("{error}")
        };
        assert!(what.starts_with(&format!("add i32 [3000] at {}:{line}:", file!())), "{error}");
        assert!((12_000..13_600).contains(needed_bytes), "{error}");
        assert_eq!((*live_bytes, *peak_bytes), (before.live_bytes, before.peak_bytes), "{device:?}");
        assert!(*peak_bytes >= 80_000 && *live_bytes < 80_000, "{error}");
        let named: Vec<String> = largest.iter().take(3).map(ToString::to_string).collect();
        assert!(named[0].starts_with("encoder.weight f32 [100, 40] at "), "{named:?}");
        assert!(named[1].starts_with(&format!("a tensor i32 [3000] at {}:{table_line}:", file!())), "{named:?}");
        assert!(named[2].starts_with(&format!("cast f16 [100, 40] at {}:{product_line}:", file!())), "{named:?}");
        assert!(largest.is_sorted_by_key(|live| std::cmp::Reverse(live.bytes)), "{largest:?}");
        assert!(error.to_string().contains(&format!("15.6 KiB for {}", named[0])), "{error}");
        device.inject(Fault::MemoryLimit(u64::MAX));
        assert_eq!(sum.to_vec::<i32>().expect("there is memory again"), [2; 3000]);
    }
}

#[test]
fn out_of_memory_for_a_snapshot_leaves_the_step_as_it_was() {
    for device in fresh_devices() {
        let (variable, mut step) = doubling(&device);
        let output = step.run(&[]).expect("a run").remove(0);
        let snapshot = variable.tensor();
        for _ in 0..2 {
            device.inject(Fault::OutOfMemory);
            assert!(matches!(step.run(&[]).map(drop), Err(Error::OutOfMemory { .. })), "{device:?}");
        }
        assert_eq!(read(&variable.tensor()), [2.0, 4.0], "{device:?}");
        step.run(&[]).expect("there is memory again");
        assert_eq!(read(&snapshot), [2.0, 4.0], "{device:?}");
        assert_eq!(read(&output), [2.0, 4.0], "{device:?}");
        assert_eq!(read(&variable.tensor()), [4.0, 8.0], "{device:?}");
    }
}

#[test]
fn a_label_out_of_range_is_an_error_with_op_line_and_bound() {
    for device in fresh_devices() {
        for bad in [5, -1, i32::MAX, i32::MIN] {
            let logits = Tensor::from_slice(&[0.5_f32; 15], [3, 5], &device).expect("memory");
            let labels = Tensor::from_slice(&[0, bad, 4], 3, &device).expect("memory");
            let (loss, line) = (logits.cross_entropy(&labels), line!());
            let error = loss.item::<f32>().expect_err("the label is impossible");
            let Error::IndexOutOfRange { op, location, bound } = &error else { panic!("{error}") };
            assert_eq!(*bound, 5, "{error}");
            assert!(op == "cross_entropy" && location.contains(&format!("{}:{line}", file!())), "{error}");
            // said once; what comes after is not tainted
            let good = Tensor::from_slice(&[0, 1, 4], 3, &device).expect("memory");
            let loss: f32 = logits.cross_entropy(&good).item().expect("the status was cleared");
            assert!((loss - 5.0_f32.ln()).abs() < 1e-6, "{loss} on {device:?}");
        }
    }
}

#[test]
fn indices_of_embeddings_and_steps_are_checked_too() {
    for device in fresh_devices() {
        let table = Var::parameter("table", &Tensor::ones([7, 2], &device)).expect("memory");
        let line = line!() + 2;
        let mut step = Step::new(&device, move |inputs| {
            let rows = table.tensor().embedding(&inputs[0]);
            vec![rows.sum()]
        })
        .expect("a step");
        let mut run = |index: [i32; 3]| {
            let index = Tensor::from_slice(&index, 3, &device).expect("memory");
            step.run(&[index]).and_then(|outputs| outputs[0].item::<f32>())
        };
        for _ in 0..2 {
            let error = run([0, 7, 6]).expect_err("there are seven rows");
            let Error::IndexOutOfRange { location, bound, .. } = &error else { panic!("{error}") };
            assert!(*bound == 7 && location.contains(&format!("{}:{line}", file!())), "{error}");
            assert_eq!(run([0, 6, 6]).expect("cleared"), 6.0, "{device:?}");
        }
    }
}

/// A folder of the weights' name stands in their way, also for those who may do everything.
#[test]
fn weights_that_cannot_be_saved_are_told_of_and_hide_no_other_error() {
    let out = tempfile::tempdir().expect("a temporary folder");
    for (lr, is_good) in [(0.01, true), (1e30, false)] {
        let config = Config {
            model: ModelName::new("mlp").expect("a model of that name"),
            epochs: 1,
            batch_size: 64,
            device: Some("cpu".into()),
            lr: Some(lr),
            out: out.path().into(),
            ..Config::default()
        };
        let trainer = Trainer::new(config).expect("good settings");
        let (mut failures, mut weights) = (Vec::new(), None);
        let result = trainer.run(&Control::default(), &mut |event| match event {
            Event::Started(start) => {
                let path = start.folder.join("model.safetensors");
                std::fs::create_dir(&path).expect("writable");
                std::fs::write(path.join("earlier"), "kept").expect("writable");
                weights = Some(path);
            }
            Event::SaveFailed { message } => failures.push(message),
            Event::Saved { path } => panic!("{} was not saved", path.display()),
            _ => {}
        });
        let weights = weights.expect("it started");
        let error = result.expect_err("nothing could be saved");
        if is_good {
            assert!(matches!(&error, Error::Io { path, .. } if *path == weights), "{error}");
        } else {
            assert!(matches!(error, Error::NonFinite { step: 2, .. }), "{error}");
            assert!(failures.len() == 1 && failures[0].contains("model.safetensors"), "{failures:?}");
        }
        assert_eq!(std::fs::read_to_string(weights.join("earlier")).expect("it is still there"), "kept");
    }
}
