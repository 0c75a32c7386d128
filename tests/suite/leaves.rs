//! What gradients are by: a variable, whenever and wherever it was read, and what was assigned to it last.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use brasa::autodiff::{Gradients, grad};
use brasa::nn::{BatchNorm1d, Init, Mode, Module, freeze_statistics};
use brasa::optim::{Momentum, Optimizer, Rprop, RpropOptions, SGD, SGDOptions};
use brasa::runtime::{Hyper, Step, Var, checkpoint};
use brasa::tensor::autocast;
use brasa::{DType, Device, Tensor, no_grad};

use crate::common::{assert_close, devices, panic_of, read, vector};

/// A parameter of one number.
fn parameter(value: f32, device: &Device) -> Var {
    Var::parameter("w", &vector(&[value], device)).expect("memory")
}

/// Descent by 0.1 times the gradient.
fn descent(parameters: &[Var]) -> SGD {
    SGD::new(parameters, SGDOptions { learning_rate: 0.1, ..Default::default() }).expect("memory")
}

/// What `make` gives for a parameter of 3 and its optimizer, and the parameter afterwards, outside of steps and within
/// one, on every device: both times `expected`.
#[track_caller]
fn expect(what: &str, expected: &[f64], make: impl Fn(&Var, &SGD) -> Vec<Tensor> + Clone + Send + 'static) {
    for device in devices() {
        for captured in [false, true] {
            let weight = parameter(3.0, &device);
            let optimizer = descent(std::slice::from_ref(&weight));
            let results = if captured {
                let (weight, make) = (weight.clone(), make.clone());
                let step = Step::new(&device, move |_| make(&weight, &optimizer));
                step.expect("a step").run(&[]).expect("a run")
            } else {
                make(&weight, &optimizer)
            };
            let values: Vec<f64> = results.iter().chain([&weight.tensor()]).flat_map(read).map(f64::from).collect();
            assert_close(&format!("{what} on {device:?}, captured: {captured}"), &values, expected, 1e-6, 0.0);
        }
    }
}

#[test]
fn a_variable_read_first_without_gradients_has_one_for_others() {
    expect("read and kept", &[6.0, 6.0, 2.4], |weight, optimizer| {
        let kept = no_grad(|| weight.tensor());
        let loss = weight.tensor().square().sum();
        let gradients = loss.backward();
        optimizer.update(&gradients);
        vec![grad(&loss, &[&kept]).remove(0), gradients.of(weight).expect("a gradient")]
    });
    expect("used and kept", &[3.0, 6.0, 2.4], |weight, optimizer| {
        let logged = no_grad(|| weight.tensor().abs());
        let gradients = weight.tensor().square().sum().backward();
        optimizer.update(&gradients);
        vec![logged, gradients.of(weight).expect("a gradient")]
    });
}

#[test]
fn a_thread_without_gradients_takes_none_from_another() {
    let device = Device::cpu();
    let weight = parameter(3.0, &device);
    let stop = Arc::new(AtomicBool::new(false));
    let reader = std::thread::spawn({
        let (weight, stop) = (weight.clone(), Arc::clone(&stop));
        move || {
            while !stop.load(Ordering::Relaxed) {
                no_grad(|| read(&(weight.tensor() * 2.0)));
            }
        }
    });
    let learned: Vec<f32> =
        (0..200).map(|_| read(&grad(&weight.tensor().square(), &[&weight.tensor()])[0])[0]).collect();
    stop.store(true, Ordering::Relaxed);
    reader.join().expect("no panic");
    assert_eq!(learned, [6.0; 200]);
}

#[test]
fn what_was_assigned_is_a_leaf_and_passes_nothing_on() {
    // w = 3 becomes 6; by that, the gradient of w² is 12, and by what it was, nothing
    expect("assigned", &[12.0, 0.0, 12.0, 4.8], |weight, optimizer| {
        let before = weight.tensor();
        weight.assign(&(&before * 2.0));
        let loss = weight.tensor().square().sum();
        let by = grad(&loss, &[&weight.tensor(), &before]);
        let gradients = loss.backward();
        optimizer.update(&gradients);
        [by, vec![gradients.of(weight).expect("a gradient")]].concat()
    });
    // a teacher that follows the student passes no gradient to it
    expect("teacher", &[2.0, 2.8], |weight, optimizer| {
        let teacher = Var::state("teacher", &(vector(&[1.0], weight.device()))).expect("memory");
        teacher.assign(&((teacher.tensor() + weight.tensor()) * 0.5));
        let loss = (weight.tensor() - teacher.tensor()).square().sum();
        optimizer.update(&loss.backward());
        vec![teacher.tensor()]
    });
    expect("checkpointed", &[12.0, 6.0], |weight, _| {
        let loss = checkpoint(|| {
            weight.assign(&(weight.tensor() * 2.0));
            weight.tensor().square().sum()
        });
        vec![loss.backward().of(weight).expect("a gradient")]
    });
}

#[test]
fn several_updates_in_one_step_are_as_many_steps() {
    // w ← w - 0.1 · 2w = 0.8 w
    expect("three updates", &[6.0, 4.8, 3.84, 3.0 * 0.512], |weight, optimizer| {
        (0..3).map(|_| optimizer.update(&weight.tensor().square().sum().backward())).collect()
    });
    // as the critic of a WGAN: limited to 1, then updated
    expect("limited before", &[2.0, 0.8], |weight, optimizer| {
        weight.assign(&weight.tensor().clamp(-1.0, 1.0));
        vec![optimizer.update(&weight.tensor().square().sum().backward())]
    });
}

#[test]
fn an_update_follows_whatever_happened_to_its_parameter() {
    // twice the same: 3 - 0.6 - 0.6
    expect("the same gradients twice", &[6.0, 6.0, 1.8], |weight, optimizer| {
        let gradients = weight.tensor().square().sum().backward();
        vec![optimizer.update(&gradients), optimizer.update(&gradients)]
    });
    // the loss and with it the value read is gone
    expect("a loss that is gone", &[2.0, 2.8], |weight, optimizer| {
        let gradients = (weight.tensor() * 2.0).sum().backward();
        vec![optimizer.update(&gradients)]
    });
    // sharpness-aware minimisation: the gradient at 3 + 0.1 · 6 = 3.6, used at 3
    expect("at another point", &[7.2, 2.28], |weight, optimizer| {
        let start = weight.tensor();
        let climb = start.square().sum().backward().of(weight).expect("a gradient");
        weight.assign(&(&start + climb * 0.1));
        let gradients = weight.tensor().square().sum().backward();
        weight.assign(&start);
        vec![optimizer.update(&gradients)]
    });
}

#[test]
fn the_gradient_by_a_variable_is_that_by_its_newest_value() {
    // 3 read before, 6 read after: 2 · 6 by the variable, 2 · 3 by the tensor that was read before
    expect("before and after", &[12.0, 12.0, 6.0, 6.0], |weight, _| {
        let before = weight.tensor();
        weight.assign(&(&before * 2.0));
        let loss = (before.square() + weight.tensor().square()).sum();
        let gradients = loss.backward();
        let of = gradients.of(weight).expect("a gradient");
        vec![of, gradients.get(&before).expect("the same"), grad(&loss, &[&before]).remove(0)]
    });
    // weights that are to stay near those that they began with: 0.8 · 3, then 2 · (2.4 - 3)
    for device in devices() {
        let weight = parameter(3.0, &device);
        let start = weight.tensor();
        let optimizer = descent(std::slice::from_ref(&weight));
        optimizer.update(&weight.tensor().square().sum().backward());
        let penalty = |start: &Tensor, weight: &Var| {
            let gradients = (weight.tensor() - start).square().sum().backward();
            vec![gradients.of(weight).expect("a gradient")]
        };
        let outside = penalty(&start, &weight);
        let (inside, kept) = (weight.clone(), start.clone());
        let mut as_constant = Step::new(&device, move |_| penalty(&kept, &inside)).expect("a step");
        let inside = weight.clone();
        let mut as_input = Step::new(&device, move |inputs| penalty(&inputs[0], &inside)).expect("a step");
        let within = [as_constant.run(&[]).expect("a run"), as_input.run(&[start]).expect("a run")];
        for gradient in [outside].iter().chain(&within) {
            assert_close("towards the start", &[f64::from(read(&gradient[0])[0])], &[-1.2], 1e-6, 0.0);
        }
    }
}

#[test]
fn a_rate_that_is_changed_holds_for_updates_from_then_on() {
    let device = Device::cpu();
    let (sum, rate) = (Var::state("sum", &Tensor::zeros([], &device)).expect("memory"), Hyper::new(0.0));
    for value in [1.0, 10.0, 100.0] {
        rate.set(value);
        sum.assign(&(sum.tensor() + rate.tensor(&device)));
    }
    assert_eq!(sum.tensor().item::<f32>().expect("a number"), 111.0);
    // Rprop keeps the size of its steps, which begins with the rate
    let trained = |reads: bool| {
        let weight = parameter(3.0, &device);
        let optimizer = Rprop::new(std::slice::from_ref(&weight), RpropOptions::default()).expect("memory");
        for rate in [0.1, 0.05, 0.025] {
            optimizer.set_learning_rate(rate);
            optimizer.update(&weight.tensor().sum().backward());
            if reads {
                optimizer.state().iter().for_each(|state| drop(state.tensor().to_dtype(DType::F32).to_vec::<f32>()));
            }
        }
        read(&weight.tensor())
    };
    assert_eq!(trained(false), trained(true));
}

#[test]
fn a_variable_that_is_set_within_a_step_says_that_it_would_happen_once() {
    let device = Device::cpu();
    let (hidden, zero) = (parameter(1.0, &device), vector(&[0.0], &device));
    let inside = hidden.clone();
    let told = Arc::new(Mutex::new(String::new()));
    let said = Arc::clone(&told);
    let function = move |_: &[Tensor]| {
        *said.lock().expect("no panic") = inside.set(&zero).err().map_or_else(String::new, |error| error.to_string());
        vec![]
    };
    Step::new(&device, function).expect("a step").run(&[]).expect("a run");
    let told = told.lock().expect("no panic");
    assert!(
        told.starts_with("setting `w` at ") && told.contains("leaves.rs") && told.ends_with("Var::assign"),
        "{told}"
    );
    assert_eq!(read(&hidden.tensor()), [1.0]);
}

#[test]
fn gradients_are_made_changed_and_added() {
    let device = Device::cpu();
    let (a, b) = (parameter(1.0, &device), parameter(2.0, &device));
    let optimizer = descent(&[a.clone(), b.clone()]);
    let mut gradients = a.tensor().sum().backward() + (a.tensor() * b.tensor()).sum().backward();
    let of = |gradients: &Gradients, var: &Var| gradients.of(var).map(|gradient| read(&gradient)[0]);
    assert_eq!((of(&gradients, &a), of(&gradients, &b)), (Some(3.0), Some(1.0)));
    let was = gradients.insert(&a, &vector(&[-10.0], &device)).expect("there was one");
    assert_eq!(read(&was), [3.0]);
    assert_eq!(gradients.remove(&b).map(|gradient| read(&gradient)[0]), Some(1.0));
    optimizer.update(&gradients);
    assert_eq!((read(&a.tensor()), read(&b.tensor())), (vec![2.0], vec![2.0]));
    let (message, file, _) = panic_of(|| gradients.insert(&a, &Tensor::ones([2], &device)));
    assert_eq!((message.as_str(), file.as_str()), ("insert: a gradient f32 [2] for `w`, f32 [1]", file!()));
}

#[test]
fn an_optimizer_that_would_learn_nothing_says_so() {
    let device = Device::cpu();
    let (own, other) = (parameter(1.0, &device), parameter(1.0, &device));
    let optimizer = descent(std::slice::from_ref(&own)).with_accumulation().expect("memory");
    for loss in [other.tensor().sum(), (own.tensor().detach() * other.tensor()).sum()] {
        let gradients = loss.backward();
        let (message, file, _) = panic_of(|| optimizer.update(&gradients));
        assert!(message.contains("depends on none of the optimizer's parameters"), "{message}");
        assert_eq!(file, file!());
        let (message, ..) = panic_of(|| optimizer.accumulate(&gradients));
        assert!(message.starts_with("accumulate: "), "{message}");
    }
}

#[test]
fn an_update_keeps_momentum_where_updates_share_a_step() {
    let device = Device::cpu();
    let trained = |updates: usize, runs: usize| {
        let weight = parameter(3.0, &device);
        let options = SGDOptions { learning_rate: 0.1, momentum: Momentum::Heavy(0.9), ..Default::default() };
        let optimizer = SGD::new(std::slice::from_ref(&weight), options).expect("memory");
        let inside = weight.clone();
        let function = move |_: &[Tensor]| {
            (0..updates).map(|_| optimizer.update(&inside.tensor().square().sum().backward())).collect()
        };
        let mut step = Step::new(&device, function).expect("a step");
        (0..runs).for_each(|_| drop(step.run(&[]).expect("a run")));
        read(&weight.tensor())
    };
    assert_eq!(trained(4, 1), trained(1, 4));
}

#[test]
fn a_step_runs_in_the_mode_that_holds_around_it() {
    for device in devices() {
        let norm = Arc::new(BatchNorm1d::new(2, &Init::new(&device, 1)).expect("memory"));
        let seen = Arc::clone(&norm);
        let mut step = Step::new(&device, move |inputs| vec![seen.forward(&inputs[0])]).expect("a step");
        let x = Tensor::from_slice(&[1.0_f32, 2.0, 5.0, -4.0], [2, 2], &device).expect("a tensor");
        let mut run = || read(&step.run(std::slice::from_ref(&x)).expect("a run")[0]);
        let tracked = || norm.num_batches_tracked.tensor().item::<i32>().expect("a number");
        let fresh = Mode::Evaluate.scope(&mut run);
        assert_close("statistics of zero and one", &[f64::from(fresh[0])], &[1.0], 1e-4, 0.0);
        assert_eq!((freeze_statistics(&mut run), tracked()), (fresh, 0), "{device:?}");
        let by_batch = run();
        assert!(by_batch[0] < -0.99 && tracked() == 1, "{by_batch:?} on {device:?}");
        assert_ne!(Mode::Evaluate.scope(&mut run), by_batch, "{device:?}");
        assert_eq!((run(), tracked()), (by_batch, 2), "{device:?}");
    }
}

#[test]
fn a_step_has_the_precision_and_the_gradients_that_hold_around_it() {
    let device = Device::cpu();
    let mut product = Step::new(&device, |inputs| vec![inputs[0].matmul(&inputs[0])]).expect("a step");
    let x = Tensor::ones([2, 2], &device);
    let half = autocast(DType::F16, || product.run(std::slice::from_ref(&x))).expect("a run");
    let whole = product.run(std::slice::from_ref(&x)).expect("a run");
    assert_eq!((half[0].dtype(), whole[0].dtype()), (DType::F16, DType::F32));
    let because = product.prepare(&[(x.shape().clone(), DType::F32)]).expect("planned").because;
    assert_eq!(because.as_deref(), Some("products have another type (autocast)"));

    let slope = |inputs: &[Tensor]| vec![grad(&inputs[0].square().sum(), &[&inputs[0]]).remove(0)];
    let mut slope = Step::new(&device, slope).expect("a step");
    let without = no_grad(|| slope.run(std::slice::from_ref(&x))).expect("a run");
    let with = slope.run(std::slice::from_ref(&x)).expect("a run");
    assert_eq!((read(&without[0]), read(&with[0])), (vec![0.0; 4], vec![2.0; 4]));
    let because = slope.prepare(&[(x.shape().clone(), DType::F32)]).expect("planned").because;
    assert_eq!(because.as_deref(), Some("it no longer runs within no_grad; before, it did"));
}
