//! Code that is not captured: loops that carry values on, long graphs, and what a driver's compiler must leave alone.

use brasa::autodiff::grad;
use brasa::nn::{Init, LSTM, Module, RecurrentOptions};
use brasa::optim::{Optimizer, SGD, SGDOptions};
use brasa::runtime::{Step, Var, plan_cache_stats};
use brasa::{DType, Device, Tensor, no_grad};

use crate::common::{devices, fresh_devices, panic_of, read, vector};

/// Numbers, where NaN is equal to NaN and zeros are one.
#[track_caller]
fn assert_same(what: &str, device: &Device, got: &[f32], expected: &[f32]) {
    let same = got.len() == expected.len()
        && got.iter().zip(expected).all(|(got, want)| got == want || got.is_nan() && want.is_nan());
    assert!(same, "{what} on {}: {got:?}, not {expected:?}", device.name());
}

#[test]
fn what_is_not_finite_stays_so() {
    const NAN: f32 = f32::NAN;
    const INF: f32 = f32::INFINITY;
    let all = |x: &Tensor, z: &Tensor| -> Vec<(&str, Tensor, [f32; 3])> {
        let (mask, again) = (z.eq(0.0).to_dtype(DType::F32), &x.clone());
        vec![
            ("z / 0", z / 0.0, [NAN, INF, -INF]),
            ("z / (z * 0)", z / (z * 0.0), [NAN, INF, INF]),
            ("0 / z", z.zeros_like() / z, [NAN, 0.0, 0.0]),
            ("x - x", x - again, [NAN, 0.0, NAN]),
            ("x / x", x / again, [NAN, 1.0, NAN]),
            ("x * (1 / x)", x * x.reciprocal(), [NAN, 1.0, NAN]),
            ("x * (2 / x)", x * (x.full_like(2.0) / x), [NAN, 2.0, NAN]),
            ("x * 0", x * 0.0, [NAN, 0.0, NAN]),
            ("0 * x", x.zeros_like() * x, [NAN, 0.0, NAN]),
            ("x * mask", x * mask, [INF, 0.0, NAN]),
            ("z / -0", z / -0.0, [NAN, -INF, INF]),
            ("is finite", (x - again).isfinite().to_dtype(DType::F32), [0.0, 1.0, 0.0]),
        ]
    };
    for device in devices() {
        let (x, z) = (vector(&[INF, 2.0, NAN], &device), vector(&[0.0, 1.0, -3.0], &device));
        for (what, got, expected) in all(&x, &z) {
            assert_same(what, &device, &read(&got), &expected);
        }
        let step = move |inputs: &[Tensor]| all(&inputs[0], &inputs[1]).into_iter().map(|(_, got, _)| got).collect();
        let mut step = Step::new(&device, step).expect("a step");
        let captured = step.run(&[x.clone(), z.clone()]).expect("a run");
        for ((what, _, expected), got) in all(&x, &z).into_iter().zip(captured) {
            assert_same(what, &device, &read(&got), &expected);
        }
    }
}

#[test]
fn a_mean_of_nothing_is_no_number() {
    for device in devices() {
        let nothing = Tensor::zeros([0, 3], &device);
        let labels = Tensor::from_slice::<i32>(&[], [0], &device).expect("no labels");
        for (what, got) in [
            ("mean", nothing.mean().reshape([1])),
            ("mean of exp", nothing.exp().mean().reshape([1])),
            ("mean of a step", nothing.mean_dim(0).slice(0, ..1)),
            ("var", nothing.var().reshape([1])),
            ("cross-entropy", nothing.cross_entropy(&labels).reshape([1])),
        ] {
            assert_same(what, &device, &read(&got), &[f32::NAN]);
        }
    }
}

#[test]
fn a_loop_may_detach_what_it_carries_on() {
    for device in fresh_devices() {
        let weight = Var::parameter("w", &vector(&[0.5, -0.25], &device)).expect("memory");
        let options = SGDOptions { learning_rate: 0.1, ..SGDOptions::default() };
        let optimizer = SGD::new(std::slice::from_ref(&weight), options).expect("an optimizer");
        let mut carried = vector(&[0.1, 0.2], &device);
        let (mut state, mut expected) = (vec![0.1_f64, 0.2], vec![0.5_f64, -0.25]);
        let mut after_three = 0;
        for step in 0..12 {
            let next = (&carried * weight.tensor() + 0.5).tanh();
            let loss = next.square().sum();
            carried = next.detach();
            optimizer.update(&loss.backward());
            assert!(loss.item::<f32>().expect("a loss").is_finite());
            carried.realize().expect("memory");
            for (h, w) in state.iter_mut().zip(&mut expected) {
                let t = (*h * *w + 0.5).tanh();
                *w -= 0.1 * 2.0 * t * (1.0 - t * t) * *h;
                *h = t;
            }
            if step == 2 {
                after_three = plan_cache_stats(&device).misses;
            }
        }
        assert_eq!(plan_cache_stats(&device).misses, after_three, "a step is planned anew on {}", device.name());
        for (got, want) in [(read(&carried), state), (read(&weight.tensor()), expected)] {
            assert!(
                got.iter().zip(&want).all(|(got, want)| (f64::from(*got) - want).abs() < 1e-5),
                "{got:?}, {want:?}"
            );
        }
    }
}

#[test]
fn a_detached_value_has_no_past_once_it_is_known() {
    for device in fresh_devices() {
        let step = Tensor::ones([1 << 18], &device);
        step.realize().expect("memory");
        let mut sum = step.clone();
        for _ in 0..30 {
            sum = (&sum * 0.5 + &step).detach();
            sum.realize().expect("memory");
        }
        let live = device.memory().live_bytes;
        assert!(live <= 6 << 20, "{live} bytes are kept of 1 MiB each on {}", device.name());
        // it is still the tensor that it was
        let square = sum.square().sum();
        assert_eq!(read(&grad(&square, &[&sum])[0])[0], 2.0 * read(&sum)[0]);
    }
}

/// As of a network that recurs, of whose state another value is read in each round.
#[test]
fn a_state_of_which_others_are_read_is_computed_once_a_round() {
    for device in fresh_devices() {
        let weight = Tensor::from_slice(&[0.9_f32, 0.3, -0.4, 0.8], [2, 2], &device).expect("memory");
        let rounds = |realized: bool| -> Vec<f32> {
            let mut state = Tensor::from_slice(&[0.1_f32, -0.2], [1, 2], &device).expect("memory");
            let round = |_| {
                state = no_grad(|| (state.matmul(&weight) + 0.25).tanh());
                if realized {
                    state.realize().expect("memory");
                }
                state.square().sum().item::<f32>().expect("a number")
            };
            (0..200).map(round).collect()
        };
        let before = plan_cache_stats(&device).misses;
        let carried = rounds(false);
        let made = plan_cache_stats(&device).misses - before;
        // of the first round, of the second one, which keeps the first state, and of all others
        assert!(made <= 4, "{made} plans of {}", device.name());
        assert_eq!(carried, rounds(true), "{}", device.name());
    }
}

#[test]
fn what_is_computed_again_is_not_kept_if_it_is_larger_than_all_else_or_has_gradients() {
    for device in fresh_devices() {
        let x = Tensor::ones([1 << 10], &device);
        x.realize().expect("memory");
        let read_twice = |table: &Tensor| {
            let live = device.memory().live_bytes;
            for expected in [1 << 21, 1 << 22, 1 << 23] {
                let sum = (table * (expected as f32 / (1 << 20) as f32)).sum().item::<f32>().expect("a number");
                assert_eq!(sum, expected as f32, "{}", device.name());
            }
            device.memory().live_bytes - live
        };
        // a million sums of two, which are never in memory
        let pairs = no_grad(|| (x.unsqueeze(1) + x.unsqueeze(0)) * 0.5);
        assert!(read_twice(&pairs) < 1 << 20, "{}", device.name());
        let y = &x * 2.0;
        let before = device.memory().live_bytes;
        for _ in 0..3 {
            y.sum().item::<f32>().expect("a number");
        }
        assert_eq!(device.memory().live_bytes, before, "a gradient may be asked for on {}", device.name());
    }
}

/// Rounds that carry on what they have detached, each of which is a wide graph with gradients, and of which nothing is
/// read until the end.
#[test]
fn a_long_wide_graph_is_evaluated_a_few_times_only() {
    for device in fresh_devices() {
        let weights: Vec<Tensor> = (0..6).map(|key| vector(&[0.5 + 0.05 * key as f32, -0.3], &device)).collect();
        let energy = |x: &Tensor| {
            let layer = |x: Tensor, weight: &Tensor| (&x * weight).tanh() + (x * 0.5).sin() * weight;
            weights.iter().fold(x.clone(), layer).square().sum()
        };
        let rounds = |realized: bool| {
            let mut x = vector(&[0.4, -0.7], &device);
            for _ in 0..400 {
                let gradient = grad(&energy(&x), &[&x]).remove(0);
                x = (&x + gradient * 1e-2).detach();
                if realized {
                    x.realize().expect("memory");
                }
            }
            read(&x)
        };
        let before = plan_cache_stats(&device).misses;
        let waited = rounds(false);
        let made = plan_cache_stats(&device).misses - before;
        assert!(made <= 12, "{made} plans of {}", device.name());
        let expected = rounds(true);
        assert!(
            waited.iter().zip(&expected).all(|(got, want)| (got - want).abs() < 1e-4),
            "{waited:?}, {expected:?} on {}",
            device.name()
        );
    }
}

/// Two states that go on together, and parts of one that are put together anew in each round: the end of each hangs by
/// all that was before, and so do others that are not at its end.
#[test]
fn a_long_graph_of_several_states_is_evaluated_a_few_times_only() {
    for device in fresh_devices() {
        let rounds = |realized: bool| {
            let (mut x, mut speed) = (vector(&[0.4, -0.7, 0.1, 0.9], &device), vector(&[0.0; 4], &device));
            for _ in 0..1500 {
                speed = &speed * 0.9 - x.sin() * 0.1;
                let moved = &x + &speed * 0.1;
                x = Tensor::cat(&[&moved.slice(0, 1..), &moved.slice(0, 0..1)], 0);
                if realized {
                    x.realize().expect("memory");
                    speed.realize().expect("memory");
                }
            }
            [read(&x), read(&speed)]
        };
        let before = plan_cache_stats(&device).misses;
        let waited = rounds(false);
        let made = plan_cache_stats(&device).misses - before;
        assert!(made <= 6, "{made} plans of {}", device.name());
        let expected = rounds(true);
        for (got, want) in waited.iter().flatten().zip(expected.iter().flatten()) {
            assert!((got - want).abs() < 1e-4, "{waited:?}, {expected:?} on {}", device.name());
        }
    }
}

#[test]
fn gradients_of_a_long_graph_are_not_computed_while_they_are_written_down() {
    let device = fresh_devices().remove(0);
    let start = vector(&[0.5, -0.5], &device);
    let mut x = start.clone();
    for _ in 0..3000 {
        x = (&x * 1.0001).sin() + 0.1;
    }
    let before = plan_cache_stats(&device);
    let gradients = x.backward();
    assert_eq!(plan_cache_stats(&device), before);
    let expected = [0.5_f64, -0.5].map(|mut x| {
        let mut slope = 1.0;
        for _ in 0..3000 {
            slope *= 1.0001 * (x * 1.0001).cos();
            x = (x * 1.0001).sin() + 0.1;
        }
        slope
    });
    let got = read(&gradients.get(&start).expect("x depends on it"));
    assert!(
        got.iter().zip(expected).all(|(got, want)| (f64::from(*got) - want).abs() <= 1e-3 * want.abs() + 1e-30),
        "{got:?}"
    );
    // a recurrent network of many steps
    let lstm = LSTM::new(3, 4, RecurrentOptions::default(), &Init::new(&device, 1)).expect("memory");
    let loss = lstm.forward(&Tensor::rand([300, 2, 3], &device)).square().mean();
    let before = plan_cache_stats(&device);
    let gradients = loss.backward();
    assert_eq!(plan_cache_stats(&device), before);
    drop(gradients);
}

#[test]
fn a_recurrent_network_takes_no_samples_but_not_no_time() {
    for device in devices() {
        let lstm = LSTM::new(3, 4, RecurrentOptions::default(), &Init::new(&device, 1)).expect("memory");
        let (outputs, (hidden, _)) = lstm.run(&Tensor::zeros([2, 0, 3], &device), None);
        assert_eq!((outputs.shape().dims(), hidden.shape().dims()), (&[2, 0, 4][..], &[1, 0, 4][..]));
        assert!(read(&outputs).is_empty());
        let (message, ..) = panic_of(|| drop(lstm.forward(&Tensor::zeros([0, 2, 3], &device))));
        assert!(message.contains("lstm: input [0, 2, 3] is of no time at all"), "{message}");
    }
}
