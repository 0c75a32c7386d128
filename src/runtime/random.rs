//! Where random numbers come from: a seed and a position per device.
//!
//! A captured step reads position `p` for all its draws, which differ by stream, and leaves `p + 1`; like every other
//! state the position stays as it was if the step does not count. Draws outside of steps use positions of their own,
//! from 2^31 on.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::device::Device;
use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::graph::NodeRef;
use crate::tensor::Tensor;

use super::trace;
use super::var::{Var, host_leaf};

struct Generator {
    seed: Var,
    position: Var,
    /// Draws outside of steps.
    draws: u32,
    seed_value: u32,
}

static GENERATORS: Mutex<Option<HashMap<Device, Generator>>> = Mutex::new(None);

#[expect(clippy::mutable_key_type, reason = "devices are equal and hashed by address")]
fn with<T>(device: &Device, f: impl FnOnce(&mut Generator) -> T) -> Result<T> {
    let mut generators = GENERATORS.lock().unwrap_or_else(PoisonError::into_inner);
    let generators = generators.get_or_insert_default();
    if !generators.contains_key(device) {
        let state = |name: &str| Var::state(name, &Tensor::scalar(0u32, device));
        let generator =
            Generator { seed: state("random.seed")?, position: state("random.position")?, draws: 0, seed_value: 0 };
        generators.insert(device.clone(), generator);
    }
    Ok(f(generators.get_mut(device).expect("it was just inserted")))
}

/// Starts `device`'s random numbers anew.
///
/// # Errors
/// If the device fails.
pub fn seed(device: &Device, seed: u64) -> Result<()> {
    // one word of key: the two halves are mixed by SplitMix64's finaliser (Steele, Lea, Flood 2014)
    let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let word = (mixed ^ (mixed >> 31)) as u32;
    let (seed, position) = with(device, |generator| {
        generator.draws = 0;
        generator.seed_value = word;
        (generator.seed.clone(), generator.position.clone())
    })?;
    seed.set(&Tensor::scalar(word, device))?;
    position.set(&Tensor::scalar(0u32, device))
}

/// The state of `device`'s random numbers, (seed, position), for checkpoints.
///
/// # Errors
/// If the device fails.
pub fn random_state(device: &Device) -> Result<(Var, Var)> {
    with(device, |generator| (generator.seed.clone(), generator.position.clone()))
}

/// Runs `f` with the draws outside of steps counted from `start`, as they were when they had that count.
pub(super) fn repeating<T>(device: &Device, start: u32, f: impl FnOnce() -> T) -> T {
    let now = with(device, |generator| std::mem::replace(&mut generator.draws, start));
    let result = f();
    if let Ok(now) = now {
        // a device that fails says so when the values are computed
        let _ = with(device, |generator| generator.draws = now.max(generator.draws));
    }
    result
}

/// Number of draws outside of steps so far.
pub(super) fn draws(device: &Device) -> u32 {
    with(device, |generator| generator.draws).unwrap_or_default()
}

/// Inputs of a new draw: (seed, position, stream).
#[track_caller]
pub fn random_inputs(device: &Device) -> (NodeRef, NodeRef, u32) {
    let drawn = with(device, |generator| {
        let vars = (generator.seed.clone(), generator.position.clone());
        if !trace::is_tracing() {
            generator.draws = generator.draws.wrapping_add(1);
        }
        (vars, generator.draws, generator.seed_value)
    });
    let ((seed, position), draws, seed_value) = match drawn {
        Ok(drawn) => drawn,
        // the device is lost or full: the draw itself will say so
        Err(_) => {
            let zero = host_leaf(Scalar { dtype: DType::U32, bits: 0 }, device);
            return (zero.clone(), zero, 0);
        }
    };
    let stream = trace::with(|trace| {
        trace.draws += 1;
        trace.draws - 1
    });
    match stream {
        Some(stream) => {
            let before = trace::with(|trace| trace.before(&position.0)).expect("a trace is under way");
            if stream == 0 {
                // from the position before the step: recomputed draws come here again, and the step counts once
                position.assign(&(Tensor::from_node(before.clone()) + 1u32));
            }
            (seed.tensor().node().clone(), before, stream)
        }
        None => {
            let word = |bits: u32| host_leaf(Scalar { dtype: DType::U32, bits }, device);
            (word(seed_value), word(0x8000_0000 | (draws & 0x7fff_ffff)), 0)
        }
    }
}
