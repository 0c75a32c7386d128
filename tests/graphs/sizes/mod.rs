//! Single workloads of random sizes, large enough for the kernels that small graphs never reach: tiles and what is left
//! beside them, work shared among threads, sums in several passes, blocks of convolutions, views that no axis of
//! follows.

mod table;
mod workload;

use std::sync::{Arc, Mutex};

use brasa::runtime::Step;
use brasa::{Device, Tensor};

use super::common::{caught, devices, doubles};
use super::expected::{Expected, first_difference};
use super::outcome::number;
use table::WORKLOADS;
use workload::{Notes, Workload};

/// How far f32 may be from f64 relative to the largest element: sums have up to some ten thousand terms (relative 1e4^½
/// · 6e-8), and gradients come through several; f16 rounds at 5e-4, before and behind.
fn tolerance(half: bool) -> f64 {
    if half { 2e-2 } else { 5e-4 }
}

/// What a workload computes, and what that should be.
struct Made {
    outputs: Vec<Tensor>,
    expected: Expected,
    half: bool,
}

/// Builds the workload of this number.
fn made(seed: u64, device: &Device, notes: &Notes) -> Made {
    let mut workload = Workload::new(seed, device, notes);
    let outputs = WORKLOADS[(seed % WORKLOADS.len() as u64) as usize].1(&mut workload);
    let expected = workload.expected(&outputs);
    Made { outputs, expected, half: workload.half }
}

/// How a workload turned out.
enum Found {
    Same,
    /// A change in the last bits of some values changes others a lot.
    Unsteady,
    Wrong(String),
}

/// Runs the workload of this number.
fn run(seed: u64, device: &Device) -> Found {
    let notes = Notes::default();
    let result = caught(|| {
        let alternate = (seed / WORKLOADS.len() as u64).is_multiple_of(2);
        let (made, got) = if alternate { together(seed, device, &notes) } else { alone(seed, device, &notes) };
        let allowed = tolerance(made.half);
        for (number, (got, expected)) in got.iter().zip(&made.expected.values()).enumerate() {
            if let Some(index) = first_difference(&doubles(got), expected, allowed) {
                // rounding decides which of two equal elements is the largest, or on which side of a step one is
                if !made.expected.is_steady(if made.half { 1e-3 } else { 1e-6 }, allowed / 2.0) {
                    return Found::Unsteady;
                }
                let (got, want, node) = (doubles(got)[index], expected[index], made.outputs[number].node());
                return Found::Wrong(format!("output {number}, {node:?}, at {index}: {got} instead of {want}"));
            }
        }
        Found::Same
    });
    let wrong = match result {
        Ok(Found::Wrong(wrong)) => wrong,
        Ok(found) => return found,
        Err(((message, file, line), trace)) => format!("panic at {file}:{line}: {message}\n{trace}"),
    };
    let name = WORKLOADS[(seed % WORKLOADS.len() as u64) as usize].0;
    Found::Wrong(format!("seed {seed} on {device:?}: {name} {}: {wrong}", notes.lock().expect("no panic").join(" ")))
}

/// Each output computed when it is read.
fn alone(seed: u64, device: &Device, notes: &Notes) -> (Made, Vec<Tensor>) {
    let made = made(seed, device, notes);
    let outputs = made.outputs.clone();
    (made, outputs)
}

/// All of them computed by one step.
fn together(seed: u64, device: &Device, notes: &Notes) -> (Made, Vec<Tensor>) {
    let slot = Arc::new(Mutex::new(None));
    let (filled, own_device, own_notes) = (slot.clone(), device.clone(), notes.clone());
    let mut step = Step::new(device, move |_| {
        let made = made(seed, &own_device, &own_notes);
        let outputs = made.outputs.clone();
        *filled.lock().expect("no panic") = Some(made);
        outputs
    })
    .expect("a step");
    let got = step.run(&[]).expect("a run");
    let made = slot.lock().expect("no panic").take().expect("it was traced");
    (made, got)
}

/// Runs the workloads of these numbers, and calls `told` for each that is wrong.
fn sweep(seeds: std::ops::Range<u64>, device: &Device, told: &mut dyn FnMut(String)) {
    let (mut same, mut unsteady) = (0, 0);
    for seed in seeds {
        match run(seed, device) {
            Found::Same => same += 1,
            Found::Unsteady => unsteady += 1,
            Found::Wrong(failure) => told(failure),
        }
    }
    assert!(unsteady * 10 <= same, "{unsteady} decided by rounding, {same} not");
}

/// Panics unless the workloads of these numbers compute what they should.
fn assert_all(seeds: std::ops::Range<u64>, device: &Device) {
    let mut failures = Vec::new();
    sweep(seeds, device, &mut |failure| failures.push(failure));
    assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn the_cpu_computes_middle_sizes() {
    assert_all(0..84, &Device::cpu());
}

#[test]
fn gpus_compute_middle_sizes() {
    devices().iter().filter(|device| !device.is_cpu()).for_each(|device| assert_all(0..42, device));
}

#[test]
#[ignore = "takes minutes; see the head of main.rs"]
#[expect(clippy::print_stdout, reason = "a long test shows what it finds")]
fn many_middle_sizes() {
    let (first, count) = (number("BRASA_FIRST_GRAPH", 1_000_000), number("BRASA_GRAPHS", 10_000));
    let mut wrong = 0;
    for device in devices().iter().skip(number("BRASA_SKIP_DEVICES", 0) as usize) {
        sweep(first..first + count, device, &mut |failure| {
            wrong += 1;
            println!("{failure}");
        });
    }
    assert_eq!(wrong, 0);
}
