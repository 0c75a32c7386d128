//! What was broken once, named after what broke.

mod common;

use brasa::runtime::{Arena, Step, Var};
use brasa::{Device, Tensor};

use common::{devices, read, vector};

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
