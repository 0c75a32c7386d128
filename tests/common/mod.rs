//! What the integration tests share: devices, sample values, comparisons, and panics caught with their place.

#![allow(dead_code, unreachable_pub, reason = "each test crate uses its own part")]

pub mod reference;
pub mod small;

use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

pub use brasa::doctor::rows::values;
use brasa::graph::reference::decode;
use brasa::runtime::Arena;
use brasa::{Device, Tensor};

/// The same as f32.
pub fn floats(seed: u64, count: usize, low: f64, high: f64) -> Vec<f32> {
    values(seed, count, low, high).into_iter().map(|value| value as f32).collect()
}

/// The devices to sweep over: the CPU backend and the first GPU.
///
/// Without a GPU its rows are left out, counted and told on standard error; `BRASA_REQUIRE_GPU=1` makes that a failure.
pub fn devices() -> Vec<Device> {
    static SKIPPED: AtomicUsize = AtomicUsize::new(0);
    let mut devices = vec![Device::cpu()];
    match Device::gpu(0) {
        Ok(device) => devices.push(device),
        Err(error) => {
            assert!(std::env::var_os("BRASA_REQUIRE_GPU").is_none_or(|value| value != "1"), "{error}");
            let number = SKIPPED.fetch_add(1, Ordering::Relaxed) + 1;
            skipped(&format!("GPU rows, as there is no adapter: {number} so far"));
        }
    }
    devices
}

/// Tells on standard error, also where tests pass, that something had nothing to do.
pub fn skipped(why: &str) {
    // Not `eprintln!`: what that writes is shown for failing tests only.
    let _unseen = writeln!(std::io::stderr(), "skipped: {why}");
}

/// Panics unless all pairs differ by at most `absolute + relative · |expected|`; NaN equals NaN.
#[track_caller]
pub fn assert_close(what: &str, got: &[f64], expected: &[f64], relative: f64, absolute: f64) {
    assert_eq!(got.len(), expected.len(), "{what}: number of elements");
    for (index, (&got, &expected)) in got.iter().zip(expected).enumerate() {
        let same = got == expected || got.is_nan() && expected.is_nan();
        assert!(
            same || (got - expected).abs() <= absolute + relative * expected.abs(),
            "{what}: element {index} is {got} instead of {expected}"
        );
    }
}

/// Panics unless two tensors have one shape, and values that differ by at most 1e-5, absolute and relative.
#[track_caller]
pub fn assert_same(what: &str, got: &Tensor, expected: &Tensor) {
    assert_eq!(got.shape(), expected.shape(), "{what}");
    assert_close(what, &doubles(got), &doubles(expected), 1e-5, 1e-5);
}

/// What a panic said, and where: (message, file, line).
pub type Panic = (String, String, u32);

/// Runs `f`; a panic is an error, with a backtrace if `RUST_BACKTRACE` asks for one, and is not printed.
pub fn caught<T>(f: impl FnOnce() -> T) -> Result<T, (Panic, Backtrace)> {
    thread_local! {
        static CAUGHT: RefCell<Option<(Panic, Backtrace)>> = const { RefCell::new(None) };
        static CATCHING: Cell<bool> = const { Cell::new(false) };
    }
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !CATCHING.get() {
                return usual(info);
            }
            let message = info.payload_as_str().unwrap_or_default().to_owned();
            let place = info.location().expect("panics have a place");
            CAUGHT.set(Some(((message, place.file().to_owned(), place.line()), Backtrace::capture())));
        }));
    });
    CATCHING.set(true);
    let result = catch_unwind(AssertUnwindSafe(f));
    CATCHING.set(false);
    result.map_err(|_| CAUGHT.take().expect("the hook has seen it"))
}

/// What `f` panics with, which it must.
#[track_caller]
pub fn panic_of<T>(f: impl FnOnce() -> T) -> Panic {
    caught(f).map(drop).expect_err("no panic").0
}

/// The same devices opened anew, shared with no other test: for what counts objects or breaks a device.
pub fn fresh_devices() -> Vec<Device> {
    devices().iter().map(|device| device.reopen().expect("a device that opens opens twice")).collect()
}

/// The elements of an f32 tensor.
#[track_caller]
pub fn read(tensor: &Tensor) -> Vec<f32> {
    tensor.to_vec().expect("values")
}

/// The elements of a tensor of any type.
#[track_caller]
pub fn doubles(tensor: &Tensor) -> Vec<f64> {
    decode(tensor.dtype(), &pollster::block_on(tensor.to_bytes()).expect("values"))
}

/// A matrix on `device` of numbers in -1..1.
#[track_caller]
pub fn matrix(seed: u64, rows: usize, columns: usize, device: &Device) -> Tensor {
    vector(&floats(seed, rows * columns, -1.0, 1.0), device).reshape([rows, columns])
}

/// A vector on `device`.
#[track_caller]
pub fn vector(values: &[f32], device: &Device) -> Tensor {
    Tensor::from_slice(values, values.len(), device).expect("a small tensor fits")
}

/// An arena's vector with these values of its members, in their order, and zeros in the gaps.
pub fn laid_out(arena: &Arena, members: &[&[f32]]) -> Vec<f32> {
    let mut whole = vec![0.0; arena.numel()];
    for (&offset, values) in arena.offsets().iter().zip(members) {
        whole[offset..][..values.len()].copy_from_slice(values);
    }
    whole
}

/// Names of a run's checkpoints, and of anything else beside them.
pub fn checkpoints(run: &std::path::Path) -> Vec<String> {
    let files = std::fs::read_dir(run.join("checkpoints")).expect("a folder").flatten();
    let mut names: Vec<String> = files.map(|file| file.file_name().into_string().expect("UTF-8")).collect();
    names.sort();
    names
}
