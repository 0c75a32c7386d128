//! What was broken once, named after what broke.

mod common;

use brasa::autodiff::grad;
use brasa::device::Fault;
use brasa::runtime::{Arena, Step, Var, checkpoint, random_state};
use brasa::{Device, Tensor};

use common::{devices, fresh_devices, read, vector};

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
        assert_eq!(read(&arena.tensor()), [[3.0; 4], [2.0; 4]].concat(), "{device:?}");
        arena.assign(&vector(&[7.0; 8], &device));
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
        let expected = [[10.0; 4], [15.0; 4]].concat();
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
        assert_eq!(read(&outputs[0]), [[5.0; 4], [2.0; 4]].concat(), "{device:?}");
        assert_eq!(read(&arena.tensor()), [[10.0; 4], [4.0; 4]].concat(), "{device:?}");
        assert_eq!(read(&a.tensor()), [10.0; 4], "{device:?}");
    }
}

/// Holders were forgotten before their copy was made; the next run then overwrote them.
#[test]
fn a_snapshot_changed_after_there_was_no_memory_to_copy_it() {
    for device in fresh_devices() {
        let variable = Var::state("v", &vector(&[1.0, 2.0], &device)).expect("memory");
        let doubled = variable.clone();
        let mut step = Step::new(&device, move |_| {
            doubled.assign(&(doubled.tensor() * 2.0));
            vec![doubled.tensor() * 1.0]
        })
        .expect("a step");
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
        let snapshot = variable.tensor();
        variable.assign(&vector(&[5.0, 6.0], &device));
        drop(step.prepare(&[]));
        variable.assign(&vector(&[7.0, 8.0], &device));
        device.inject(Fault::OutOfMemory);
        step.run(&[]).expect_err("no memory for the snapshot");
        assert_eq!(read(&step.run(&[]).expect("there is memory again")[0]), [8.0, 9.0], "{device:?}");
        assert_eq!(read(&snapshot), [1.0, 2.0], "{device:?}");
    }
}

/// The gradient that comes in depends on the same parameter; it was differentiated once more, and that without end.
#[test]
fn checkpointing_a_block_that_reads_a_variable_by_itself_never_ended() {
    for device in devices() {
        let weight = Var::parameter("w", &vector(&[2.0, 3.0], &device)).expect("memory");
        let mut step = Step::new(&device, move |inputs| {
            let inner = weight.clone();
            let first = checkpoint(&[&inputs[0]], move |inputs| &inputs[0] * inner.tensor());
            let inner = weight.clone();
            let second = checkpoint(&[&first], move |inputs| inputs[0].square() * inner.tensor());
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
            let dropped = checkpoint(&[&inputs[0]], |inputs| inputs[0].dropout(0.5));
            grad(&dropped.square().sum(), &[&inputs[0]])
        })
        .expect("a step");
        let (_, position) = random_state(&device).expect("random numbers");
        for expected in 1..4_u32 {
            let gradient = read(&step.run(&[Tensor::ones(64, &device)]).expect("a run")[0]);
            assert_eq!(position.tensor().item::<u32>().expect("a position"), expected, "{device:?}");
            // 2 · (x / 0.5) / 0.5 where kept, as the forward pass chose: nothing between
            assert!(gradient.iter().all(|&g| g == 0.0 || g == 8.0), "{gradient:?}");
        }
    }
}
