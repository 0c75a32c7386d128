//! Variables, arenas, steps and what they remember.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use brasa::autodiff::{custom_gradient, grad};
use brasa::device::Fault;
use brasa::optim::{Optimizer, SGD, SGDOptions};
use brasa::runtime::{Arena, Hyper, Step, Var, checkpoint, random_variables};
use brasa::{DType, Device, Error, Tensor};

use crate::common::small::doubling;
use crate::common::{devices, fresh_devices, laid_out, panic_of, read, vector};

fn members(device: &Device) -> (Var, Var, Arena) {
    let variable = |name: &str, value: f32| Var::state(name, &Tensor::full(4, value, device)).expect("memory");
    let (a, b) = (variable("a", 1.0), variable("b", 2.0));
    let arena = Arena::new("arena", &[a.clone(), b.clone()]).expect("memory");
    (a, b, arena)
}

/// Assignments that waited for a reader were not seen by those who read the same memory under another name.
#[test]
fn an_assignment_to_a_member_of_an_arena_was_lost_on_readers_of_the_arena() {
    for device in devices() {
        let (a, b, arena) = members(&device);
        a.assign(&vector(&[3.0; 4], &device));
        assert_eq!(read(&arena.tensor()), laid_out(&arena, &[&[3.0; 4], &[2.0; 4]]), "{device:?}");
        arena.assign(&vector(&laid_out(&arena, &[&[7.0; 4], &[7.0; 4]]), &device));
        assert_eq!(read(&b.tensor()), [7.0; 4], "{device:?}");
    }
}

/// Such as weights that are clipped after the optimizer's update: whichever kernel came last won.
#[test]
fn a_member_assigned_after_its_arena_in_one_step_was_overwritten() {
    for device in devices() {
        let (a, b, arena) = members(&device);
        let (first, second, whole) = (a.clone(), b.clone(), arena.clone());
        let mut step = Step::new(&device, move |_| {
            whole.assign(&(whole.tensor() * 10.0));
            second.assign(&second.tensor().minimum(15.0));
            vec![whole.tensor() * 1.0, first.tensor() * 1.0]
        })
        .expect("a step");
        let outputs = step.run(&[]).expect("a run");
        let expected = laid_out(&arena, &[&[10.0; 4], &[15.0; 4]]);
        assert_eq!((read(&outputs[0]), read(&outputs[1])), (expected.clone(), vec![10.0; 4]), "{device:?}");
        assert_eq!(read(&arena.tensor()), expected, "{device:?}");
    }
}

#[test]
fn an_arena_read_after_its_member_was_assigned_in_one_step_had_the_old_value() {
    for device in devices() {
        let (a, _, arena) = members(&device);
        let (first, whole) = (a.clone(), arena.clone());
        let mut step = Step::new(&device, move |_| {
            first.assign(&(first.tensor() + 4.0));
            let seen = whole.tensor() * 1.0;
            whole.assign(&(whole.tensor() * 2.0));
            vec![seen]
        })
        .expect("a step");
        let outputs = step.run(&[]).expect("a run");
        assert_eq!(read(&outputs[0]), laid_out(&arena, &[&[5.0; 4], &[2.0; 4]]), "{device:?}");
        assert_eq!(read(&arena.tensor()), laid_out(&arena, &[&[10.0; 4], &[4.0; 4]]), "{device:?}");
        assert_eq!(read(&a.tensor()), [10.0; 4], "{device:?}");
    }
}

/// Holders were forgotten before their copy was made; the next run then overwrote them.
#[test]
fn a_snapshot_changed_after_there_was_no_memory_to_copy_it() {
    for device in fresh_devices() {
        let (variable, mut step) = doubling(&device);
        let output = step.run(&[]).expect("a run").remove(0);
        // of the output first, then of the variable
        for snapshot in [None, Some(variable.tensor())] {
            device.inject(Fault::OutOfMemory);
            step.run(&[]).expect_err("no memory for a copy");
            drop(snapshot);
        }
        let snapshot = variable.tensor();
        step.run(&[]).expect("there is memory again");
        assert_eq!((read(&snapshot), read(&output)), (vec![2.0, 4.0], vec![2.0, 4.0]), "{device:?}");
    }
}

/// It waited in the variable, and readers took it for the value.
#[test]
fn a_value_that_could_not_be_set_was_there_nevertheless() {
    for device in fresh_devices() {
        let variable = Var::state("v", &vector(&[1.0, 2.0], &device)).expect("memory");
        let other = vector(&[5.0, 6.0], &device) + 1.0;
        device.inject(Fault::OutOfMemory);
        variable.set(&other).expect_err("no memory for the sum");
        assert_eq!(read(&variable.tensor()), [1.0, 2.0], "{device:?}");
        variable.set(&other).expect("there is memory again");
        assert_eq!(read(&variable.tensor()), [6.0, 7.0], "{device:?}");
    }
}

/// The assignment was dropped with the error.
#[test]
fn an_assignment_was_lost_when_there_was_no_memory_for_a_snapshot() {
    for device in fresh_devices() {
        let variable = Var::state("v", &vector(&[1.0, 2.0], &device)).expect("memory");
        let copy = variable.clone();
        let mut step = Step::new(&device, move |_| vec![copy.tensor() + 1.0]).expect("a step");
        variable.assign(&vector(&[5.0, 6.0], &device));
        drop(step.prepare(&[]));
        let snapshot = variable.tensor();
        variable.assign(&vector(&[7.0, 8.0], &device));
        device.inject(Fault::OutOfMemory);
        step.run(&[]).expect_err("no memory for the snapshot");
        assert_eq!(read(&step.run(&[]).expect("there is memory again")[0]), [8.0, 9.0], "{device:?}");
        assert_eq!(read(&snapshot), [5.0, 6.0], "{device:?}");
    }
}

/// Each variable was to be written before the other one had been read: the planner found a cycle and panicked.
#[test]
fn two_variables_change_places() {
    for device in devices() {
        let var = |name: &str, values: &[f32]| {
            Var::state(name, &Tensor::from_slice(values, [values.len()], &device).expect("memory")).expect("memory")
        };
        let (a, b) = (var("a", &[1.0, 2.0, 3.0]), var("b", &[4.0, 5.0, 6.0]));
        let (x, y) = (a.clone(), b.clone());
        let mut swap = Step::new(&device, move |_| {
            let (before_x, before_y) = (x.tensor(), y.tensor());
            x.assign(&before_y);
            y.assign(&before_x);
            vec![]
        })
        .expect("a step");
        for _ in 0..3 {
            swap.run(&[]).expect("a run");
        }
        assert_eq!(a.tensor().to_vec::<f32>().expect("values"), [4.0, 5.0, 6.0]);
        assert_eq!(b.tensor().to_vec::<f32>().expect("values"), [1.0, 2.0, 3.0]);
    }
}

/// The copy that keeps the old value apart was computed from the variable it protects it from.
#[test]
fn a_variable_becomes_its_own_mirror_image() {
    for device in devices() {
        let values: Vec<f32> = (0..1000).map(|n| n as f32).collect();
        let var = Var::state("v", &Tensor::from_slice(&values, [1000], &device).expect("memory")).expect("memory");
        let cell = var.clone();
        let mut flip = Step::new(&device, move |_| {
            cell.assign(&cell.tensor().flip(0));
            vec![]
        })
        .expect("a step");
        flip.run(&[]).expect("a run");
        let expected: Vec<f32> = values.iter().rev().copied().collect();
        assert_eq!(var.tensor().to_vec::<f32>().expect("values"), expected);
    }
}

/// The generator was made while the step was traced, and the step repeated its initialisation: every run drew the same.
#[test]
fn the_first_draw_of_all_may_be_inside_of_a_step() {
    for device in devices() {
        let fresh = device.reopen().expect("another one");
        let inner = fresh.clone();
        let mut draw = Step::new(&fresh, move |_| vec![Tensor::rand([16], &inner)]).expect("a step");
        let mut run = || draw.run(&[]).expect("a run")[0].to_vec::<f32>().expect("values");
        let (first, second, third) = (run(), run(), run());
        assert!(first != second && second != third && first != third);
    }
}

/// An assignment outside of the step moved a tensor that the step had captured, after the step had been found up to
/// date.
#[test]
fn a_captured_tensor_keeps_its_value_when_its_variable_changes() {
    for device in devices() {
        let one = Tensor::from_slice(&[1.0f32], [1], &device).expect("memory");
        let var = Var::state("w", &one).expect("memory");
        let (frozen, cell) = (var.tensor(), var.clone());
        let mut step = Step::new(&device, move |_| vec![&frozen + &cell.tensor()]).expect("a step");
        let mut run = || step.run(&[]).expect("a run")[0].item::<f32>().expect("a value");
        assert_eq!(run(), 2.0);
        var.assign(&(&one * 10.0));
        assert_eq!(run(), 11.0);
    }
}

/// A loop outside of steps kept every value it had ever computed.
#[test]
fn a_loop_without_gradients_forgets_its_past() {
    let device = Device::cpu().reopen().expect("another one");
    let start = Tensor::from_slice(&[1.0f32; 1024], [1024], &device).expect("memory");
    brasa::no_grad(|| {
        let mut x = start.clone();
        for _ in 0..200 {
            x = &x * 0.99;
            x.realize().expect("a value");
        }
    });
    assert!(device.memory().peak_bytes < 40 * 4096, "{:?}", device.memory());
}

/// The gradient that comes in depends on the same parameter; it was differentiated once more, and that without end.
#[test]
fn checkpointing_a_block_that_reads_a_variable_by_itself_never_ended() {
    for device in devices() {
        let weight = Var::parameter("w", &vector(&[2.0, 3.0], &device)).expect("memory");
        let mut step = Step::new(&device, move |inputs| {
            let first = checkpoint(|| &inputs[0] * weight.tensor());
            let second = checkpoint(|| first.square() * weight.tensor());
            // (x w)² w, summed: 3 x² w²; its square: 6 x⁴ w⁵
            let variable = weight.tensor();
            let once = grad(&second.sum(), &[&variable]).remove(0);
            let squared = grad(&second.square().sum(), &[&variable]).remove(0);
            vec![once, squared]
        })
        .expect("a step");
        let outputs = step.run(&[vector(&[1.0, 2.0], &device)]).expect("a run");
        assert_eq!(read(&outputs[0]), [12.0, 108.0], "{device:?}");
        assert_eq!(read(&outputs[1]), [192.0, 23_328.0], "{device:?}");
    }
}

/// Draws that are computed again moved the position once more.
#[test]
fn checkpointed_dropout_moved_the_random_position_twice_a_step() {
    for device in fresh_devices() {
        let mut step = Step::new(&device, |inputs| {
            let dropped = checkpoint(|| inputs[0].dropout(0.5));
            grad(&dropped.square().sum(), &[&inputs[0]])
        })
        .expect("a step");
        let (_, position) = random_variables(&device).expect("random numbers");
        for expected in 1..4_u32 {
            let gradient = read(&step.run(&[Tensor::ones(64, &device)]).expect("a run")[0]);
            assert_eq!(position.tensor().item::<u32>().expect("a position"), expected, "{device:?}");
            // 2 · (x / 0.5) / 0.5 where kept, as the forward pass chose: nothing between
            assert!(gradient.iter().all(|&g| g == 0.0 || g == 8.0), "{gradient:?}");
        }
    }
}

/// The second arena took the memory, and the first one's updates went nowhere.
#[test]
fn a_variable_belongs_to_one_arena_at_a_time() {
    let device = Device::cpu();
    let (a, b, arena) = members(&device);
    let (message, file, _) = panic_of(|| Arena::new("second", std::slice::from_ref(&a)));
    assert!(message.contains("`a` belongs to an arena already"), "{message}");
    assert!(file.ends_with("memory.rs"), "{file}");
    assert!(panic_of(|| Arena::new("twice", &[b.clone(), b.clone()])).0.contains("already"));
    drop(arena);
    let again = Arena::new("second", &[a, b]).expect("memory");
    assert_eq!(read(&again.tensor()), laid_out(&again, &[&[1.0; 4], &[2.0; 4]]));
}

/// The kernel of the second one would have had to bind the arena for reading in one place and writing in another; the
/// planner panicked.
#[test]
fn a_member_of_an_arena_is_computed_from_another_one() {
    for device in devices() {
        let (a, b, arena) = members(&device);
        let mut step = Step::new(&device, move |inputs| {
            b.assign(&(a.tensor().flip([0]) + &inputs[0]));
            vec![]
        })
        .expect("a step");
        step.run(&[vector(&[1.0, 2.0, 3.0, 4.0], &device)]).expect("a run");
        assert_eq!(read(&arena.tensor()), laid_out(&arena, &[&[1.0; 4], &[2.0, 3.0, 4.0, 5.0]]), "{device:?}");

        let (a, b, arena) = members(&device);
        let mut step = Step::new(&device, move |inputs| {
            let sums = inputs[0].cumsum(0);
            a.assign(&sums);
            b.assign(&sums.flip([0]));
            vec![]
        })
        .expect("a step");
        step.run(&[vector(&[1.0, 2.0, 3.0, 4.0], &device)]).expect("a run");
        let expected = laid_out(&arena, &[&[1.0, 3.0, 6.0, 10.0], &[10.0, 6.0, 3.0, 1.0]]);
        assert_eq!(read(&arena.tensor()), expected, "{device:?}");
    }
}

/// As above, for gradients, which are computed where the arena's optimizer reads them.
#[test]
fn gradients_of_one_group_are_computed_from_each_other() {
    for device in devices() {
        let variable = |name: &str| Var::parameter(name, &Tensor::zeros(4, &device)).expect("memory");
        let parameters: Vec<Var> = ["a", "b", "c", "d"].map(variable).into();
        let options = SGDOptions { learning_rate: 1.0, ..SGDOptions::default() };
        let optimizer = SGD::new(&parameters, options).expect("memory");
        let members = parameters.clone();
        let mut step = Step::new(&device, move |inputs| {
            let members: Vec<Tensor> = members.iter().map(Var::tensor).collect();
            let wrt: Vec<&Tensor> = members.iter().collect();
            let loss = custom_gradient(
                &wrt,
                |_| inputs[0].sum(),
                |_, _, g| {
                    let first = g.expand(4).cumsum(0);
                    let gradients = std::iter::successors(Some(first), |before| Some(before.flip([0]) + 1.0));
                    gradients.take(4).map(Some).collect()
                },
            );
            optimizer.update(&loss.backward());
            vec![]
        })
        .expect("a step");
        step.run(&[vector(&[1.0; 4], &device)]).expect("a run");
        let expected = [[1, 2, 3, 4], [5, 4, 3, 2], [3, 4, 5, 6], [7, 6, 5, 4]];
        for (parameter, expected) in parameters.iter().zip(expected) {
            assert_eq!(read(&parameter.tensor()), expected.map(|value| -value as f32), "{device:?}");
        }
    }
}

/// What came behind them in the order was taken for the cause, and copied for ever.
#[test]
fn two_variables_change_places_and_a_third_one_waits_for_them() {
    for device in devices() {
        let variable = |name: &str, value: f32| Var::state(name, &Tensor::full(4, value, &device)).expect("memory");
        let [a, b, c, d] = [("a", 1.0), ("b", 2.0), ("c", 3.0), ("d", 4.0)].map(|(name, value)| variable(name, value));
        let members = [&a, &b, &c, &d].map(Var::clone);
        let mut step = Step::new(&device, move |_| {
            let [a, b, c, d] = &members;
            let (old_a, old_c) = (a.tensor(), c.tensor());
            // assigned first, and read by what waits for the others
            let new = old_a.cumsum(0);
            d.assign(&(&new + d.tensor().cumsum(0) + old_c.flip([0])));
            c.assign(&(d.tensor() + &old_c));
            a.assign(&(b.tensor() + new.sum()));
            b.assign(&(old_a * 2.0 + a.tensor().sum()));
            vec![]
        })
        .expect("a step");
        step.run(&[]).expect("a run");
        let seen = [&a, &b, &c, &d].map(|variable| read(&variable.tensor()));
        let d = [8.0, 13.0, 18.0, 23.0];
        let expected = [vec![12.0; 4], vec![50.0; 4], d.map(|d| d + 3.0).to_vec(), d.to_vec()];
        assert_eq!(seen, expected, "{device:?}");
    }
}

/// What a new variable began with was a constant of the step afterwards.
#[test]
fn a_variable_made_in_a_step_froze_what_it_was_made_from() {
    for device in devices() {
        let weight = Var::state("weight", &vector(&[0.0, 2.0], &device)).expect("memory");
        // waits to be computed when the step is traced
        weight.assign(&(weight.tensor() + 1.0));
        let (inside, mut kept) = (weight.clone(), None);
        let mut step = Step::new(&device, move |_| {
            let next = inside.tensor() * 2.0;
            let first: &Var = kept.get_or_insert_with(|| Var::state("first", &next).expect("memory"));
            let before: Tensor = Var::state("before", &inside.tensor()).expect("memory").tensor();
            inside.assign(&next);
            vec![first.tensor() * 1.0, before * 1.0]
        })
        .expect("a step");
        for round in 1..4 {
            let outputs = step.run(&[]).expect("a run");
            assert_eq!(read(&outputs[0]), [2.0, 6.0], "{device:?}");
            assert_eq!(read(&outputs[1]), [1.0, 3.0], "{device:?}");
            let power = f32::from(1u8 << round);
            assert_eq!(read(&weight.tensor()), [power, 3.0 * power], "{device:?}");
        }
    }
}

/// Nobody knew any more that it was somebody's.
#[test]
fn a_snapshot_of_an_arena_changed_once_the_arena_was_gone() {
    for device in devices() {
        let (a, b, arena) = members(&device);
        let (snapshot, expected) = (arena.tensor(), laid_out(&arena, &[&[1.0; 4], &[2.0; 4]]));
        drop(arena);
        a.set(&vector(&[5.0; 4], &device)).expect("memory");
        let inside = b.clone();
        let mut step = Step::new(&device, move |_| {
            inside.assign(&(inside.tensor() + 1.0));
            vec![]
        })
        .expect("a step");
        step.run(&[]).expect("a run");
        assert_eq!(read(&snapshot), expected, "{device:?}");
        assert_eq!((read(&a.tensor()), read(&b.tensor())), (vec![5.0; 4], vec![3.0; 4]), "{device:?}");
    }
}

/// A state that is made under `no_grad` from values with a history, and used with gradients again.
#[test]
fn a_recurrent_state_kept_its_past() {
    for device in fresh_devices() {
        let weight = Tensor::ones(10_000, &device);
        let mut state = Tensor::zeros(10_000, &device);
        let mut live = Vec::new();
        for _ in 0..6 {
            let next = &weight + &state;
            state = brasa::no_grad(|| &next * 1.0);
            read(&state);
            live.push(device.memory().live_bytes);
        }
        assert_eq!(read(&state.narrow(0, 0, 1)), [6.0], "{device:?}");
        assert!(live[5] <= live[2], "{device:?}: {live:?}");
    }
}

/// A known value was computed again, from what had changed since.
#[test]
fn a_variable_made_in_a_step_did_not_begin_with_the_value_that_was_given() {
    for device in devices() {
        let rate = Hyper::new(2.0);
        let value = vector(&[1.0, 3.0], &device) * rate.tensor(&device);
        assert_eq!(read(&value), [2.0, 6.0], "{device:?}");
        rate.set(10.0);
        let mut made = None;
        let mut step = Step::new(&device, move |_| {
            let var: &Var = made.get_or_insert_with(|| Var::state("made", &value).expect("memory"));
            vec![var.tensor() * 1.0]
        })
        .expect("a step");
        assert_eq!(read(&step.run(&[]).expect("a run")[0]), [2.0, 6.0], "{device:?}");
    }
}

/// It was taken for the input of the same number of the trace under way, whatever that one's shape and type.
#[test]
fn a_tensor_kept_from_another_trace_read_the_inputs_of_this_one() {
    for device in devices() {
        let kept: Arc<Mutex<Option<(Tensor, u32)>>> = Arc::default();
        let inner = kept.clone();
        let mut step = Step::new(&device, move |inputs| {
            let mut kept = inner.lock().expect("not poisoned");
            let (tensor, _) = kept.get_or_insert_with(|| (inputs[0].exp(), line!()));
            vec![&*tensor * 2.0]
        })
        .expect("a step");
        let zeros = |n: usize| Tensor::zeros(n, &device);
        assert_eq!(read(&step.run(&[zeros(4)]).expect("a run")[0]), [2.0; 4], "{device:?}");
        let (kept, line) = kept.lock().expect("not poisoned").clone().expect("traced once");
        let place = format!("input 0 of another trace at {}:{line}:", file!());
        let check = |error: Error| {
            assert!(matches!(error, Error::Traced { .. }), "{error}");
            assert!(error.to_string().contains(&place), "`{place}` is missing in: {error}");
        };
        for input in [zeros(6), zeros(2), zeros(4).to_dtype(DType::I32)] {
            check(step.run(&[input]).map(drop).expect_err("traced anew"));
        }
        // outside of steps it has no value at all
        check(kept.to_vec::<f32>().expect_err("it was never computed"));
        assert_eq!(read(&step.run(&[zeros(4)]).expect("traced before")[0]), [2.0; 4], "{device:?}");
    }
}

/// Where values lie was looked up, and noted later: what moved in between was read where it had been.
#[test]
fn other_threads_moved_values_while_a_step_was_prepared() {
    for device in fresh_devices() {
        let variable = Var::state("v", &Tensor::zeros(4, &device)).expect("memory");
        let cell = variable.clone();
        let mut writer = Step::new(&device, move |_| {
            cell.assign(&(cell.tensor() + 1.0));
            vec![]
        })
        .expect("a step");
        writer.prepare(&[]).expect("memory");
        let (sender, receiver) = mpsc::channel();
        let written = Arc::new(Mutex::new(receiver));
        let (mut writer, inner, snapshot) = (Some(writer), written.clone(), variable.tensor());
        let mut reader = Step::new(&device, move |_| {
            if let Some(mut writer) = writer.take() {
                let sender = sender.clone();
                std::thread::spawn(move || {
                    writer.run(&[]).expect("a run");
                    sender.send(()).expect("the test waits");
                });
                let early = inner.lock().expect("not poisoned").recv_timeout(Duration::from_millis(100));
                assert!(early.is_err(), "the device is not held while the step is traced");
            }
            vec![&snapshot + 5.0]
        })
        .expect("a step");
        reader.prepare(&[]).expect("memory");
        written.lock().expect("not poisoned").recv_timeout(Duration::from_secs(60)).expect("the other thread goes on");
        assert_eq!(read(&reader.run(&[]).expect("a run")[0]), [5.0; 4], "{device:?}");
        assert_eq!(read(&variable.tensor()), [1.0; 4], "{device:?}");
    }
}
