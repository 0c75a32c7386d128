//! What the integration tests share: devices, sample values, comparisons, and panics caught with their place.

#![allow(dead_code, unreachable_pub, reason = "each test crate uses its own part")]

pub mod reference;
pub mod rows;
pub mod small;

use std::cell::RefCell;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

use brasa::{Device, Tensor};

/// Sample values without a generator's state: a number in [0, 1) for each (seed, element).
pub fn unit(seed: u64, element: usize) -> f64 {
    let mut bits = (seed << 32).wrapping_add(element as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    for (shift, factor) in [(30, 0xBF58_476D_1CE4_E5B9_u64), (27, 0x94D0_49BB_1331_11EB)] {
        bits = (bits ^ (bits >> shift)).wrapping_mul(factor);
    }
    (bits >> 40) as f64 / (1_u64 << 24) as f64
}

/// `count` numbers in `low..high`, exact in f32.
pub fn values(seed: u64, count: usize, low: f64, high: f64) -> Vec<f64> {
    (0..count).map(|element| f64::from((low + (high - low) * unit(seed, element)) as f32)).collect()
}

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
            // Not `eprintln!`: what that writes is shown for failing tests only.
            let _unseen = writeln!(std::io::stderr(), "GPU rows skipped, as there is no adapter: {number} so far");
        }
    }
    devices
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

/// What a panic said, and where: (message, file, line).
pub type Panic = (String, String, u32);

/// Runs `f`, which must panic.
#[track_caller]
pub fn panic_of<T>(f: impl FnOnce() -> T) -> Panic {
    thread_local! {
        static CAUGHT: RefCell<Option<Panic>> = const { RefCell::new(None) };
        static CATCHING: RefCell<bool> = const { RefCell::new(false) };
    }
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !CATCHING.with_borrow(|catching| *catching) {
                return usual(info);
            }
            let message = info.payload_as_str().unwrap_or_default().to_owned();
            let place = info.location().expect("panics have a place");
            CAUGHT.set(Some((message, place.file().to_owned(), place.line())));
        }));
    });
    CATCHING.set(true);
    let result = catch_unwind(AssertUnwindSafe(f));
    CATCHING.set(false);
    assert!(result.is_err(), "no panic");
    CAUGHT.take().expect("the hook has seen it")
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

/// A vector on `device`.
#[track_caller]
pub fn vector(values: &[f32], device: &Device) -> Tensor {
    Tensor::from_slice(values, values.len(), device).expect("a small tensor fits")
}
