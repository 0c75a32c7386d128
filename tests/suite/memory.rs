//! Memory: what is kept for reuse, what is foreseen, and what a step gives back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use brasa::device::Fault;
use brasa::nn::{Init, Linear, Module, Variables};
use brasa::optim::{Adam, AdamOptions, Optimizer};
use brasa::runtime::{Arena, Forecast, Step, Var};
use brasa::{DType, Device, Shape, Tensor, no_grad};

use crate::common::{fresh_devices, read};

#[test]
fn a_loop_without_gradients_takes_the_same_memory_again_and_again() {
    for device in fresh_devices() {
        let mut value = Tensor::from_slice(&vec![1.0_f32; 50_000], 50_000, &device).expect("memory");
        let mut round = || {
            value = no_grad(|| (&value * 0.5 + 0.5) * value.mean());
            value.realize().expect("memory");
            device.memory()
        };
        for _ in 0..3 {
            round();
        }
        let (settled, counters) = (device.memory(), device.counters());
        for _ in 0..50 {
            round();
        }
        let now = device.memory();
        assert_eq!((now.held_bytes(), now.peak_bytes), (settled.held_bytes(), settled.peak_bytes), "{device:?}");
        // the value, the one before, and the one in the making
        assert!(now.held_bytes() <= 3 * 220_000, "{now:?} on {device:?}");
        // small ones for sizes and bindings, but none for values
        let buffers = device.counters().buffers - counters.buffers;
        assert!(buffers <= 50, "{buffers} in 50 rounds on {device:?}");
        assert_eq!(read(&value)[49_999], 1.0);
    }
}

/// What was assigned before was computed again from the start in every round.
#[test]
fn a_loop_of_assignments_outside_of_steps_keeps_nothing_of_its_past() {
    for device in fresh_devices() {
        let weight = Var::state("w", &Tensor::ones(50_000, &device)).expect("memory");
        let mut nodes = Vec::new();
        for _ in 0..20 {
            let value = weight.tensor();
            let gradient = value.square().sum().backward().get(&value).expect("it depends on it");
            weight.assign(&(&value - gradient * 0.25));
            nodes.push(weight.tensor().node().inputs.len());
        }
        assert_eq!(nodes, [0; 20], "each value is a leaf on {device:?}");
        assert_eq!(read(&weight.tensor())[7], 0.5_f32.powi(20), "{device:?}");
        let memory = device.memory();
        assert!(memory.peak_bytes <= 8 * 50_000 * 4, "{memory:?} on {device:?}");
    }
}

#[test]
fn what_is_kept_for_reuse_is_given_back_before_memory_is_refused() {
    for device in fresh_devices() {
        let tensor = |elements: usize| Tensor::from_slice(&vec![1.0_f32; elements], elements, &device);
        drop((tensor(100_000).expect("memory"), tensor(300_000).expect("memory")));
        let kept = device.memory();
        assert!(kept.cached_bytes >= 1_600_000 && kept.live_bytes < 1000, "{kept:?} on {device:?}");
        device.inject(Fault::MemoryLimit(kept.live_bytes + 1_750_000));
        // fits only where the others were
        let large = tensor(400_000).expect("what is kept makes room");
        assert_eq!(device.memory().cached_bytes, 0, "{device:?}");
        assert!(tensor(100_000).is_err(), "this one does not fit beside it");
        drop(large);
        assert!(device.memory().cached_bytes > 0);
        tensor(500_000).expect_err("never fits");
        assert_eq!(device.memory().cached_bytes, 0, "given back, to no avail, on {device:?}");
    }
}

#[test]
fn what_is_kept_for_reuse_is_bounded() {
    let device = Device::cpu().reopen().expect("the CPU opens");
    let tensors: Vec<Tensor> = (0..40_usize)
        .map(|number| {
            // pages that are never touched take no memory of the machine
            let half = Tensor::zeros([(32 << 20) / 4 + number], &device);
            half.realize().expect("memory");
            half
        })
        .collect();
    drop(tensors);
    let memory = device.memory();
    assert!(memory.cached_bytes <= 1 << 30 && memory.cached_bytes > 900 << 20, "{memory:?}");
}

/// Memory that had other contents before must not shine through.
#[test]
fn used_memory_gives_the_same_results_as_fresh_memory() {
    for device in fresh_devices() {
        let mut results = Vec::new();
        for _ in 0..3 {
            let x = Tensor::arange(70_000, &device).to_dtype(DType::F32).reshape([700, 100]);
            let softmax = (x.sin() * 3.0).softmax(1);
            let small = softmax.narrow(0, 3, 5).narrow(1, 7, 3).to_dtype(DType::F16).to_dtype(DType::F32);
            let flags = softmax.gt(0.01).to_dtype(DType::U8).sum_dim(0);
            let sums = read(&softmax.sum_dim(0));
            results.push((sums, read(&small), flags.to_vec::<i32>().expect("values")));
            // dirties what the next round gets
            let junk = Tensor::full([70_000], f32::NAN, &device) * Tensor::ones([70_000], &device);
            junk.realize().expect("memory");
        }
        assert!(results[0] == results[1] && results[1] == results[2], "{device:?}");
        assert!(results[0].0.iter().all(|sum| sum.is_finite()));
    }
}

/// A step that trains a small network, and its signatures for batches of these sizes.
fn training(device: &Device) -> Step {
    let init = Init::new(device, 1);
    let first = Linear::new(30, 50, &init.at("first")).expect("memory");
    let second = Linear::new(50, 3, &init.at("second")).expect("memory");
    let parameters = [first.parameters(), second.parameters()].concat();
    let optimizer = Adam::new(&parameters, AdamOptions::default()).expect("memory");
    Step::new(device, move |inputs| {
        let loss = second.forward(&first.forward(&inputs[0]).relu()).cross_entropy(&inputs[1]);
        optimizer.update(&loss.backward());
        vec![loss]
    })
    .expect("a step")
}

fn signature(rows: usize) -> Vec<(Shape, DType)> {
    vec![([rows, 30].into(), DType::F32), ([rows].into(), DType::I32)]
}

#[test]
fn a_forecast_is_what_the_step_takes() {
    for device in fresh_devices() {
        let mut step = training(&device);
        let before = device.memory().live_bytes;
        let forecast = step.forecast(&[signature(64), signature(20)]).expect("a forecast");
        assert_eq!(device.memory().live_bytes, before, "a forecast takes no memory on {device:?}");
        let Forecast { model_bytes, state_bytes, constant_bytes, activation_bytes, input_output_bytes } = forecast;
        // each variable starts at a multiple of 256 bytes
        let parameters: u64 =
            [30 * 50, 50, 50 * 3, 3].map(|elements: u64| (4 * elements).next_multiple_of(256)).iter().sum();
        assert_eq!(model_bytes, parameters, "{forecast:?}");
        // two moments, two corrections, the halt word
        assert_eq!(state_bytes, 2 * parameters + 3 * 16, "{forecast:?}");
        assert_eq!(constant_bytes, 0, "{forecast:?}");
        assert_eq!(input_output_bytes, (64 + 20) * 31 * 4 + 2 * 16, "{forecast:?}");
        assert!(activation_bytes >= (64 + 20) * 50 * 4, "{forecast:?}");
        for rows in [64, 20] {
            step.prepare(&signature(rows)).expect("memory");
        }
        assert_eq!(device.memory().live_bytes - before, forecast.new_bytes(), "{forecast:?} on {device:?}");
        assert!(device.memory().live_bytes >= forecast.total_bytes());
        // the same afterwards, when all of it is there
        assert_eq!(step.forecast(&[signature(64), signature(20)]).expect("a forecast"), forecast);
    }
}

#[test]
fn a_forecast_counts_constants_and_is_kept_for_the_capture() {
    for device in fresh_devices() {
        let traced = Arc::new(AtomicUsize::new(0));
        let (counter, table) = (traced.clone(), Tensor::from_slice(&[2.0_f32; 100], 100, &device).expect("memory"));
        let mut step = Step::new(&device, move |inputs| {
            counter.fetch_add(1, Ordering::Relaxed);
            vec![&inputs[0] * &table]
        })
        .expect("a step");
        let signature = vec![(Shape::from(100), DType::F32)];
        let forecast = step.forecast(std::slice::from_ref(&signature)).expect("a forecast");
        let expected = Forecast { constant_bytes: 416, input_output_bytes: 800, ..Forecast::default() };
        assert_eq!(forecast, expected, "{device:?}");
        let output = step.run(&[Tensor::ones(100, &device)]).expect("a run").remove(0);
        assert_eq!((read(&output), traced.load(Ordering::Relaxed)), (vec![2.0; 100], 1), "{device:?}");
    }
}

#[test]
fn a_variable_assigned_between_forecast_and_run_has_its_new_value() {
    for device in fresh_devices() {
        let variable = Var::state("v", &Tensor::ones(3, &device)).expect("memory");
        let (copy, old) = (variable.clone(), variable.tensor());
        let mut step = Step::new(&device, move |_| vec![copy.tensor() * 10.0 + &old]).expect("a step");
        step.forecast(&[vec![]]).expect("a forecast");
        variable.assign(&(variable.tensor() + 1.0));
        assert_eq!(read(&step.run(&[]).expect("a run")[0]), [21.0; 3], "{device:?}");
        // and before the step is traced at all
        let copy = variable.clone();
        let mut step = Step::new(&device, move |_| vec![copy.tensor() * 10.0]).expect("a step");
        variable.assign(&(variable.tensor() + 1.0));
        assert_eq!(read(&step.run(&[]).expect("a run")[0]), [30.0; 3], "{device:?}");
    }
}

#[test]
fn a_step_forgets_the_signature_used_longest_ago_and_gives_its_memory_back() {
    for device in fresh_devices() {
        let traced = Arc::new(AtomicUsize::new(0));
        let counter = traced.clone();
        let step = Step::new(&device, move |inputs| {
            counter.fetch_add(1, Ordering::Relaxed);
            vec![inputs[0].matmul(&inputs[0].t()).sum()]
        });
        let mut step = step.expect("a step").with_signature_limit(2);
        let mut live = |rows: usize, expected_traces: usize| {
            let input = Tensor::ones([rows, 10], &device);
            let sum: f32 = step.run(&[input]).expect("a run")[0].item().expect("a sum");
            assert_eq!(sum, (rows * rows * 10) as f32, "{device:?}");
            assert_eq!(traced.load(Ordering::Relaxed), expected_traces, "{rows} rows on {device:?}");
            device.memory().live_bytes
        };
        let one = live(100, 1);
        let two = live(200, 2);
        assert!(two > one);
        live(100, 2);
        let other_two = live(300, 3); // forgets 200
        live(100, 3);
        live(200, 4); // forgets 300
        let again = live(100, 4);
        assert_eq!(again, two, "{device:?}");
        assert!(other_two > two, "{device:?}");
        assert_eq!(step.runs(), 7);
    }
}

/// Each forecast kept its trace and its plan for good.
#[test]
fn plans_of_forecasts_are_kept_for_as_many_signatures_as_are_captured() {
    let device = Device::cpu();
    let traced = Arc::new(AtomicUsize::new(0));
    let counter = traced.clone();
    let step = Step::new(&device, move |inputs| {
        counter.fetch_add(1, Ordering::Relaxed);
        vec![inputs[0].exp()]
    });
    let mut step = step.expect("a step").with_signature_limit(2);
    // 4 replaces 3, which was asked for before 2
    for (rows, expected_traces) in [(2, 1), (3, 2), (2, 2), (4, 3), (2, 3), (4, 3), (3, 4)] {
        let signature = vec![(Shape::from(rows), DType::F32)];
        step.forecast(&[signature]).expect("a forecast");
        assert_eq!(traced.load(Ordering::Relaxed), expected_traces, "{rows} rows");
    }
}

#[test]
fn a_signature_planned_anew_says_which_input_changed() {
    let device = Device::cpu();
    let mut step = Step::new(&device, |inputs| vec![inputs[0].sum() + inputs[1].sum()]).expect("a step");
    let mut because = |first: usize, second: &[usize]| {
        let inputs = [(Shape::from(first), DType::F32), (Shape::from(second), DType::F32)];
        step.prepare(&inputs).expect("memory").because
    };
    assert_eq!(because(4, &[2, 2]), None);
    assert_eq!(because(7, &[2, 2]).as_deref(), Some("input 0 is f32 [7] instead of f32 [4]"));
    assert_eq!(because(7, &[3]).as_deref(), Some("input 1 is f32 [3] instead of f32 [2, 2]"));
    assert_eq!(because(4, &[2, 2]), None, "captured before");
}

#[test]
fn a_step_planned_anew_names_the_variable_that_moved() {
    let device = Device::cpu();
    let ones = Tensor::ones(64, &device); // as many as an arena has for it
    let [weight, bias] = ["weight", "bias"].map(|name| Var::parameter(name, &ones).expect("memory"));
    let (read_weight, read_bias) = (weight.clone(), bias.clone());
    let mut step = Step::new(&device, move |_| vec![read_weight.tensor() + read_bias.tensor()]).expect("a step");
    assert_eq!(step.prepare(&[]).expect("memory").because, None);
    let arena = Arena::new("arena", &[weight]).expect("memory");
    let because = step.prepare(&[]).expect("memory").because;
    assert_eq!(because.as_deref(), Some("the variable `weight` has moved in memory"));
    drop(arena);
}

/// Shown with `BRASA_DEBUG=1`, which only a new process sees.
#[test]
fn plans_made_anew_outside_of_steps_say_what_changed() {
    if std::env::var_os("BRASA_DEBUG").is_some() {
        let device = Device::cpu();
        for size in [4, 5] {
            let input = Tensor::from_slice(&vec![1.0_f32; size], size, &device).expect("memory");
            for factor in [2.0, 3.0] {
                assert_eq!(read(&(&input * factor).exp()).len(), size);
            }
        }
        return;
    }
    let output = std::process::Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "memory::plans_made_anew_outside_of_steps_say_what_changed", "--nocapture"])
        .env("BRASA_DEBUG", "1")
        .output()
        .expect("it starts");
    let text = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(output.status.success(), "{text}");
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("compiled again because")).collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines[0].contains("const") && lines[0].contains("memory.rs"), "{}", lines[0]);
    assert!(lines[1].contains("[4]") && lines[1].contains("is now") && lines[1].contains("[5]"), "{}", lines[1]);
}
