//! State: variables, their snapshots, arenas, and what a captured step keeps between replays.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use brasa::autodiff::grad;
use brasa::device::TuneOptions;
use brasa::runtime::{Arena, Hyper, Step, Var};
use brasa::{DType, Device, Error, Shape, Tensor};

use crate::common::{devices, fresh_devices, laid_out, panic_of, read, vector};

fn variable(name: &str, values: &[f32], device: &Device) -> Var {
    Var::state(name, &vector(values, device)).expect("memory")
}

/// A step of no inputs.
fn step(device: &Device, function: impl FnMut() -> Vec<Tensor> + Send + 'static) -> Step {
    let mut function = function;
    Step::new(device, move |_| function()).expect("a step")
}

#[track_caller]
fn run(step: &mut Step) -> Vec<Tensor> {
    step.run(&[]).expect("a run")
}

#[test]
fn a_handle_keeps_its_value_when_a_step_overwrites_the_variable() {
    for device in devices() {
        let variable = variable("v", &[1.0, 2.0, 3.0], &device);
        let doubled = variable.clone();
        let mut step = step(&device, move || {
            doubled.assign(&(doubled.tensor() * 2.0));
            vec![]
        });
        let first = variable.tensor();
        let lazy = &first + 0.5; // computed only after the variable has changed
        run(&mut step);
        let second = variable.tensor();
        run(&mut step);
        assert_eq!(read(&variable.tensor()), [4.0, 8.0, 12.0], "{device:?}");
        assert_eq!(read(&second), [2.0, 4.0, 6.0], "{device:?}");
        assert_eq!(read(&first), [1.0, 2.0, 3.0], "{device:?}");
        assert_eq!(read(&lazy), [1.5, 2.5, 3.5], "{device:?}");
    }
}

#[test]
fn handles_of_an_arena_and_of_its_members_keep_their_values() {
    for device in devices() {
        let a = variable("a", &[1.0, 2.0, 3.0], &device);
        let b = variable("b", &[10.0, 20.0], &device);
        let before_the_move = a.tensor();
        let arena = Arena::new("arena", &[a.clone(), b.clone()]).expect("memory");
        assert_eq!(arena.offsets(), [0, 64], "members start at multiples of 256 bytes");
        let old = [a.tensor(), b.tensor(), arena.tensor()];
        let whole = arena.clone();
        let mut all = step(&device, move || {
            whole.assign(&(whole.tensor() * 2.0));
            vec![]
        });
        run(&mut all);
        let middle = [a.tensor(), b.tensor(), arena.tensor()];
        let member = b.clone();
        let mut one = step(&device, move || {
            member.assign(&(member.tensor() + 1.0));
            vec![]
        });
        run(&mut one);
        let values = |handles: &[Tensor]| handles.iter().map(read).collect::<Vec<_>>();
        let expected = |a: &[f32], b: &[f32]| [a.to_vec(), b.to_vec(), laid_out(&arena, &[a, b])];
        let last = values(&[a.tensor(), b.tensor(), arena.tensor()]);
        assert_eq!(last, expected(&[2.0, 4.0, 6.0], &[21.0, 41.0]), "{device:?}");
        assert_eq!(values(&middle), expected(&[2.0, 4.0, 6.0], &[20.0, 40.0]), "{device:?}");
        assert_eq!(values(&old), expected(&[1.0, 2.0, 3.0], &[10.0, 20.0]), "{device:?}");
        assert_eq!(read(&before_the_move), [1.0, 2.0, 3.0], "{device:?}");
    }
}

#[test]
fn assignments_outside_of_steps_are_seen_by_readers_and_by_steps() {
    for device in devices() {
        let variable = variable("v", &[1.0, 2.0], &device);
        let copy = variable.clone();
        let mut step = step(&device, move || vec![copy.tensor() * 10.0]);
        assert_eq!(read(&run(&mut step)[0]), [10.0, 20.0]);
        let old = variable.tensor();
        variable.assign(&(variable.tensor() * 3.0));
        assert_eq!(read(&variable.tensor()), [3.0, 6.0], "{device:?}");
        variable.assign(&(variable.tensor() + 1.0));
        assert_eq!(read(&run(&mut step)[0]), [40.0, 70.0], "{device:?}");
        assert_eq!(read(&old), [1.0, 2.0], "{device:?}");
        variable.set(&vector(&[5.0, 6.0], &device)).expect("a value");
        assert_eq!(read(&run(&mut step)[0]), [50.0, 60.0], "{device:?}");
    }
}

#[test]
fn an_assignment_to_a_member_is_one_to_the_arena_and_the_reverse() {
    for device in devices() {
        let (a, b) = (variable("a", &[1.0; 4], &device), variable("b", &[2.0; 4], &device));
        let arena = Arena::new("arena", &[a.clone(), b.clone()]).expect("memory");
        let whole = arena.clone();
        let mut step = step(&device, move || vec![whole.tensor() * 1.0]);
        a.assign(&vector(&[3.0; 4], &device));
        assert_eq!(read(&run(&mut step)[0]), laid_out(&arena, &[&[3.0; 4], &[2.0; 4]]), "in a step, {device:?}");
        b.assign(&vector(&[4.0; 4], &device));
        assert_eq!(read(&arena.tensor()), laid_out(&arena, &[&[3.0; 4], &[4.0; 4]]), "outside, {device:?}");
        arena.assign(&vector(&laid_out(&arena, &[&[7.0; 4], &[7.0; 4]]), &device));
        assert_eq!(read(&a.tensor()), [7.0; 4], "a member, {device:?}");
        arena.assign(&vector(&laid_out(&arena, &[&[8.0; 4], &[8.0; 4]]), &device));
        a.assign(&vector(&[9.0; 4], &device));
        assert_eq!(read(&a.tensor()), [9.0; 4], "the later one counts, {device:?}");
        assert_eq!(read(&b.tensor()), [8.0; 4], "{device:?}");
    }
}

/// What it gives would be a constant of the outer one, and it would not run again: refused, captured before or not.
#[test]
fn a_step_within_a_step_is_refused() {
    for device in devices() {
        for is_captured in [false, true] {
            let count = variable("count", &[0.0], &device);
            let counter = count.clone();
            let mut inner = step(&device, move || {
                counter.assign(&(counter.tensor() + 1.0));
                vec![counter.tensor() * 2.0]
            });
            if is_captured {
                run(&mut inner);
            }
            let errors = Arc::new(Mutex::new(Vec::new()));
            let noted = errors.clone();
            let line = line!() + 4;
            let mut outer = step(&device, move || {
                let none: [(Shape, DType, &[u8]); 0] = [];
                let results = [
                    inner.run(&[]).err(),
                    inner.run_bytes(&none).err(),
                    inner.prepare(&[]).err(),
                    inner.diagnose(&[]).err(),
                    inner.tune(&[], &TuneOptions::default(), &mut |_| {}).err(),
                    inner.forecast(&[vec![]]).err(),
                ];
                noted.lock().expect("no panic").extend(results);
                vec![]
            });
            run(&mut outer);
            let errors = errors.lock().expect("no panic");
            for (number, error) in errors.iter().enumerate() {
                let Some(Error::StepInStep { location }) = error else { panic!("{number}: {error:?}") };
                assert!(location.starts_with(&format!("{}:{}:", file!(), line + number as u32)), "{location}");
            }
            assert_eq!(
                (errors.len(), read(&count.tensor())),
                (6, vec![f32::from(u8::from(is_captured))]),
                "{device:?}"
            );
        }
    }
}

/// Whoever shows them would else see another order in each process.
#[test]
fn times_of_kernels_come_in_the_order_of_signatures() {
    let device = Device::cpu();
    let mut step = Step::new(&device, |inputs| vec![inputs[0].exp().sum(), inputs[0].sin()]).expect("a step");
    step.profile_kernels(true);
    let sizes = [7, 3, 11, 2, 5, 13, 4];
    for size in sizes {
        step.run(&[vector(&vec![1.0; size], &device)]).expect("a run");
    }
    let labels: Vec<String> = step.kernel_times().into_iter().map(|kernel| kernel.label).collect();
    let maps = labels.iter().filter(|label| label.contains("sin"));
    assert_eq!(maps.collect::<Vec<_>>(), sizes.map(|size| format!("map.sin[{size}]")).iter().collect::<Vec<_>>());
}

#[test]
fn within_a_step_a_reader_sees_what_was_assigned_before_it() {
    for device in devices() {
        let (a, b) = (variable("a", &[1.0, 2.0], &device), variable("b", &[3.0, 4.0], &device));
        let (x, y) = (a.clone(), b.clone());
        let mut swap = step(&device, move || {
            let (old_x, old_y) = (x.tensor(), y.tensor());
            x.assign(&old_y);
            y.assign(&old_x);
            let swapped = x.tensor() * 1.0;
            x.assign(&(x.tensor() + 100.0));
            vec![swapped, x.tensor() * 1.0, old_x]
        });
        let outputs = run(&mut swap);
        let values: Vec<_> = outputs.iter().map(read).collect();
        assert_eq!(values, [[3.0, 4.0], [103.0, 104.0], [1.0, 2.0]], "{device:?}");
        assert_eq!((read(&a.tensor()), read(&b.tensor())), (vec![103.0, 104.0], vec![1.0, 2.0]), "{device:?}");
        run(&mut swap);
        assert_eq!((read(&a.tensor()), read(&b.tensor())), (vec![101.0, 102.0], vec![103.0, 104.0]), "{device:?}");
    }
}

#[test]
fn within_a_step_members_see_the_arenas_new_value() {
    for device in devices() {
        let (a, b) = (variable("a", &[1.0; 3], &device), variable("b", &[2.0; 2], &device));
        let arena = Arena::new("arena", &[a.clone(), b.clone()]).expect("memory");
        let mut step = step(&device, move || {
            let before = b.tensor() * 1.0;
            arena.assign(&(arena.tensor() * 5.0));
            vec![before, b.tensor() * 1.0, a.tensor() * 1.0]
        });
        let values = |outputs: Vec<Tensor>| outputs.iter().map(read).collect::<Vec<_>>();
        assert_eq!(values(run(&mut step)), [vec![2.0; 2], vec![10.0; 2], vec![5.0; 3]], "{device:?}");
        assert_eq!(values(run(&mut step)), [vec![10.0; 2], vec![50.0; 2], vec![25.0; 3]], "{device:?}");
    }
}

#[test]
fn outputs_of_a_step_stay_when_it_runs_again() {
    for device in devices() {
        let counter = variable("counter", &[0.0; 5], &device);
        let mut step = step(&device, move || {
            let next = counter.tensor() + 1.0;
            counter.assign(&next);
            vec![&next * 2.0, next]
        });
        let kept: Vec<Vec<Tensor>> = (0..10).map(|_| run(&mut step)).collect();
        for (number, outputs) in kept.iter().enumerate() {
            let expected = number as f32 + 1.0;
            assert_eq!(read(&outputs[0]), [2.0 * expected; 5], "{device:?}");
            assert_eq!(read(&outputs[1]), [expected; 5], "{device:?}");
        }
    }
}

#[test]
fn an_output_may_be_the_next_input() {
    for device in devices() {
        let mut step = Step::new(&device, |inputs| vec![&inputs[0] * 2.0]).expect("a step");
        let mut value = vector(&[1.0, 3.0], &device);
        for _ in 0..5 {
            value = step.run(&[value]).expect("a run").remove(0);
        }
        assert_eq!(read(&value), [32.0, 96.0], "{device:?}");
    }
}

#[test]
fn gradients_accumulated_over_steps_are_those_of_the_whole_batch() {
    for device in devices() {
        // small integers: every order of summation is exact
        let weight = variable("weight", &[1.0, -2.0, 3.0], &device);
        let sum = variable("sum", &[0.0; 3], &device);
        let rows: Vec<f32> = (0..24).map(|index| ((index * 7) % 5) as f32 - 2.0).collect();
        let loss = |weight: &Tensor, rows: &Tensor| rows.matmul(&weight.reshape([3, 1])).square().sum();

        let (w, s) = (weight.clone(), sum.clone());
        let mut micro = Step::new(&device, move |inputs| {
            let weight = w.tensor();
            let gradient = grad(&loss(&weight, &inputs[0]), &[&weight]).remove(0);
            s.assign(&(s.tensor() + gradient));
            vec![]
        })
        .expect("a step");
        let (w, s) = (weight.clone(), sum.clone());
        let mut update = step(&device, move || {
            w.assign(&(w.tensor() - s.tensor() * 0.125));
            s.assign(&s.tensor().zeros_like());
            vec![]
        });

        let whole = Tensor::from_slice(&rows, [8, 3], &device).expect("memory");
        let start = weight.tensor();
        let gradient = read(&grad(&loss(&start, &whole), &[&start])[0]);
        let expected: Vec<f32> = read(&start).iter().zip(&gradient).map(|(w, g)| w - g * 0.125).collect();
        for part in rows.chunks(6) {
            micro.run(&[Tensor::from_slice(part, [2, 3], &device).expect("memory")]).expect("a run");
        }
        assert_eq!(read(&sum.tensor()), gradient, "{device:?}");
        run(&mut update);
        assert_eq!(read(&weight.tensor()), expected, "{device:?}");
        assert_eq!(read(&sum.tensor()), [0.0; 3], "{device:?}");
    }
}

#[test]
fn a_running_mean_is_a_variable() {
    for device in devices() {
        let mean = Var::state("mean", &Tensor::scalar(0.0_f32, &device)).expect("memory");
        let count = Var::state("count", &Tensor::scalar(0.0_f32, &device)).expect("memory");
        let (m, n) = (mean.clone(), count.clone());
        let mut step = Step::new(&device, move |inputs| {
            let seen = n.tensor() + 1.0;
            m.assign(&(m.tensor() + (inputs[0].mean() - m.tensor()) / &seen));
            n.assign(&seen);
            vec![]
        })
        .expect("a step");
        for batch in [[1.0_f32, 3.0], [5.0, 7.0], [0.0, 8.0]] {
            step.run(&[vector(&batch, &device)]).expect("a run");
        }
        let (mean, count): (f32, f32) = (mean.tensor().item().expect("mean"), count.tensor().item().expect("count"));
        assert!((mean - 4.0).abs() < 1e-6 && count == 3.0, "{mean} {count} on {device:?}");
    }
}

#[test]
fn reading_a_value_inside_a_step_is_an_error_with_the_line() {
    for device in devices() {
        let seen = Arc::new(Mutex::new(None));
        let keep = seen.clone();
        let mut step = Step::new(&device, move |inputs| {
            let sum = inputs[0].sum();
            let of_sum = (sum.item::<f32>().map(drop), line!());
            let of_input = (inputs[0].to_vec::<f32>().map(drop), line!());
            let of_places = (inputs[0].nonzero().map(drop), line!());
            let of_kinds = (inputs[0].unique().map(drop), line!());
            let of_chosen = (inputs[0].masked_select(&inputs[0].gt(0.0)).map(drop), line!());
            *keep.lock().expect("not poisoned") = Some([of_sum, of_input, of_places, of_kinds, of_chosen]);
            vec![&inputs[0] + 1.0]
        })
        .expect("a step");
        let outputs = step.run(&[vector(&[1.0, 2.0], &device)]).expect("the rest of the step runs");
        assert_eq!(read(&outputs[0]), [2.0, 3.0]);
        for (result, line) in seen.lock().expect("not poisoned").take().expect("the step was traced") {
            let error = result.expect_err("no value while tracing");
            assert!(matches!(error, Error::Traced { .. }), "{error}");
            let place = format!("{}:{line}", file!());
            assert!(error.to_string().contains(&place), "`{place}` is missing in: {error}");
        }
    }
}

#[test]
fn each_signature_is_traced_once() {
    for device in devices() {
        let traced = Arc::new(AtomicUsize::new(0));
        let counter = traced.clone();
        let mut step = Step::new(&device, move |inputs| {
            counter.fetch_add(1, Ordering::Relaxed);
            vec![inputs[0].sum()]
        })
        .expect("a step");
        for (size, expected) in [(4, 1), (4, 1), (7, 2), (4, 2), (7, 2), (4, 2)] {
            let sum: f32 = step.run(&[Tensor::ones(size, &device)]).expect("a run")[0].item().expect("a sum");
            assert_eq!((sum, traced.load(Ordering::Relaxed)), (size as f32, expected), "{device:?}");
        }
    }
}

#[test]
fn a_host_value_changes_without_another_plan() {
    for device in fresh_devices() {
        let rate = Hyper::new(0.5);
        let (traced, hyper, target) = (Arc::new(AtomicUsize::new(0)), rate.clone(), device.clone());
        let counter = traced.clone();
        let mut step = Step::new(&device, move |inputs| {
            counter.fetch_add(1, Ordering::Relaxed);
            vec![&inputs[0] * hyper.tensor(&target)]
        })
        .expect("a step");
        let input = vector(&[2.0, 4.0], &device);
        let run = |step: &mut Step| step.run(std::slice::from_ref(&input)).expect("a run").remove(0);
        let first = run(&mut step);
        let made = device.counters().pipelines;
        rate.set(0.25);
        let second = run(&mut step);
        rate.set(4.0);
        assert_eq!((read(&first), read(&second)), (vec![1.0, 2.0], vec![0.5, 1.0]), "{device:?}");
        assert_eq!((traced.load(Ordering::Relaxed), device.counters().pipelines), (1, made), "{device:?}");
    }
}

#[test]
fn a_step_captured_before_an_arena_took_its_variables_stays_right() {
    for device in devices() {
        let (a, b) = (variable("a", &[1.0; 3], &device), variable("b", &[5.0; 6], &device));
        let (x, y) = (a.clone(), b.clone());
        let mut step = step(&device, move || {
            x.assign(&(x.tensor() + 1.0));
            vec![x.tensor() + y.tensor().sum()]
        });
        run(&mut step);
        let arena = Arena::new("arena", &[b.clone(), a.clone()]).expect("memory");
        assert_eq!(read(&run(&mut step)[0]), [33.0; 3], "{device:?}");
        assert_eq!(read(&a.tensor()), [3.0; 3], "{device:?}");
        arena.assign(&(arena.tensor() * 2.0));
        assert_eq!(read(&run(&mut step)[0]), [67.0; 3], "{device:?}");
        assert_eq!(read(&arena.tensor()), laid_out(&arena, &[&[10.0; 6], &[7.0; 3]]), "{device:?}");
    }
}

#[test]
fn a_value_of_another_shape_is_refused_at_the_callers_line() {
    let device = Device::cpu();
    let variable = variable("layer.weight", &[1.0, 2.0], &device);
    let (message, file, line) = panic_of(|| variable.assign(&Tensor::zeros(3, &device)));
    assert_eq!((file.as_str(), line), (file!(), line!() - 1));
    assert_eq!(message, "assign to `layer.weight`: f32 [3] instead of f32 [2]");
    assert_eq!(read(&variable.tensor()), [1.0, 2.0]);
}
