//! Where random numbers come from: a seed and a position per device.
//!
//! A captured step reads position `p` for all its draws, which differ by stream, and leaves `p + 1`; like every other
//! state the position stays as it was if the step does not count. Draws outside of steps use positions of their own,
//! from 2^31 on.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::device::{Device, Storage};
use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::graph::{Memory, Node, NodeRef, Source};
use crate::shape::Shape;
use crate::tensor::Tensor;

use super::cell::VarCell;
use super::hyper::host_leaf;
use super::trace;
use super::var::Var;

/// A device's random numbers, kept with it.
#[derive(Default)]
struct Generator(Mutex<State>);

#[derive(Default)]
struct State {
    seed: Word,
    position: Word,
    /// Draws outside of steps.
    draws: u32,
    seed_value: u32,
}

/// What a device's random numbers depend on: see [`random_state`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RandomState {
    /// The key, mixed from what [`seed`] was given.
    pub seed: u32,
    /// Steps with draws so far that counted.
    pub position: u32,
    /// Draws outside of steps so far.
    pub draws: u32,
}

impl From<[u32; 3]> for RandomState {
    fn from([seed, position, draws]: [u32; 3]) -> Self {
        Self { seed, position, draws }
    }
}

/// As checkpoints keep it.
impl From<RandomState> for [u32; 3] {
    fn from(RandomState { seed, position, draws }: RandomState) -> Self {
        [seed, position, draws]
    }
}

/// One number on the device. Whoever uses its variable holds it; what stays with the device is the memory, as a
/// variable holds its device.
#[derive(Default)]
struct Word {
    cell: Weak<VarCell>,
    storage: Option<Storage>,
}

impl Word {
    /// Its variable; a new one with a copy of the memory if nobody holds the last one any more, because somebody may
    /// still hold what was read from that.
    fn var(&mut self, name: &str, device: &Device) -> Result<Var> {
        if let Some(cell) = self.cell.upgrade() {
            return Ok(Var(cell));
        }
        let value = match &self.storage {
            None => Tensor::scalar(0u32, device),
            Some(storage) => {
                let source = Source::Memory(Memory::new(storage.clone(), 0));
                Tensor::from_node(Node::leaf(source, Shape::default(), DType::U32, device))
            }
        };
        let var = Var::state(name, &value)?;
        (self.cell, self.storage) = (Arc::downgrade(&var.0), Some(var.0.memory().get().0));
        Ok(var)
    }
}

impl Generator {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// (seed, position) for captured steps.
    fn vars(&mut self, device: &Device) -> Result<(Var, Var)> {
        Ok((self.seed.var("random.seed", device)?, self.position.var("random.position", device)?))
    }
}

fn with<T>(device: &Device, f: impl FnOnce(&mut State) -> T) -> T {
    f(&mut device.kept::<Generator>().state())
}

/// What `f` does with the variables, too. They are computed while the generator is held, so the device is taken before
/// it: a step that is being traced holds the device when it comes here.
fn with_variables<T>(device: &Device, f: impl FnOnce(&mut State) -> T) -> T {
    let _exclusive = device.exclusive();
    with(device, f)
}

/// Starts `device`'s random numbers anew.
///
/// # Errors
/// If the device fails, or a step is being traced ([`Error::SetInStep`](crate::Error::SetInStep)).
pub fn seed(device: &Device, seed: u64) -> Result<()> {
    // one word of key: the two halves are mixed by SplitMix64's finaliser (Steele, Lea, Flood 2014)
    let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let word = (mixed ^ (mixed >> 31)) as u32;
    set_random_state(device, RandomState { seed: word, position: 0, draws: 0 })
}

/// What `device`'s random numbers continue from, for checkpoints: given back to [`set_random_state`], every draw comes
/// as it came after this. Waits for the device.
///
/// # Errors
/// If the device fails, or a step is being traced.
pub fn random_state(device: &Device) -> Result<RandomState> {
    let (seed, position) = random_variables(device)?;
    let (seed, position) = (seed.tensor().item()?, position.tensor().item()?);
    Ok(RandomState { seed, position, draws: draws(device) })
}

/// Lets `device`'s random numbers continue from `state`.
///
/// # Errors
/// If the device fails, or a step is being traced ([`Error::SetInStep`](crate::Error::SetInStep)).
pub fn set_random_state(device: &Device, state: RandomState) -> Result<()> {
    let (seed, position) = with_variables(device, |generator| {
        generator.draws = state.draws;
        generator.seed_value = state.seed;
        generator.vars(device)
    })?;
    seed.set(&Tensor::scalar(state.seed, device))?;
    position.set(&Tensor::scalar(state.position, device))
}

/// The part of the state that captured steps use, as variables on `device`: (seed, position).
///
/// # Errors
/// If the device fails.
pub fn random_variables(device: &Device) -> Result<(Var, Var)> {
    with_variables(device, |generator| generator.vars(device))
}

/// Number of draws outside of steps so far.
pub(super) fn draws(device: &Device) -> u32 {
    with(device, |generator| generator.draws)
}

/// Inputs of a new draw: (seed, position, stream).
#[track_caller]
pub fn random_inputs(device: &Device) -> (NodeRef, NodeRef, u32) {
    let word = |bits: u32| host_leaf(Scalar { dtype: DType::U32, bits }, device);
    let stream = trace::with(|trace| {
        trace.draws += 1;
        trace.draws - 1
    });
    let Some(stream) = stream else {
        let (seed_value, draws) = with(device, |generator| {
            generator.draws = generator.draws.wrapping_add(1);
            (generator.seed_value, generator.draws)
        });
        return (word(seed_value), word(0x8000_0000 | (draws & 0x7fff_ffff)), 0);
    };
    let Ok((seed, position)) = random_variables(device) else {
        // the device is lost or full: the draw itself will say so
        return (word(0), word(0), stream);
    };
    let before = trace::with(|trace| trace.before(&position.0)).expect("a trace is under way");
    if stream == 0 {
        // from the position before the step: recomputed draws come here again, and the step counts once
        position.assign(&(Tensor::from_node(before.clone()) + 1u32));
    }
    (seed.tensor().node().clone(), before, stream)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::tests::fresh_devices;
    use crate::runtime::Step;

    const SIZE: usize = 5;

    #[test]
    fn nothing_keeps_a_device_open_that_nobody_holds() {
        for device in fresh_devices() {
            let weak = device.downgrade();
            seed(&device, 3).expect("a seed");
            let drawn = Tensor::rand([SIZE], &device).to_vec::<f32>().expect("values");
            assert_eq!(drawn.len(), SIZE);
            let mut step =
                Step::new(&device, move |inputs| vec![Tensor::rand([SIZE], inputs[0].device()) + &inputs[0]])
                    .expect("a step");
            let outputs = step.run(&[Tensor::ones([SIZE], &device)]).expect("a run");
            outputs[0].to_vec::<f32>().expect("values");
            drop((device, step));
            assert!(weak.upgrade().is_some(), "a tensor holds it");
            drop(outputs);
            assert!(weak.upgrade().is_none());
        }
    }

    #[test]
    fn a_step_is_traced_while_another_thread_asks_for_the_state() {
        let device = Device::cpu().reopen().expect("the CPU opens");
        let (done, all_done) = std::sync::mpsc::channel();
        let work: [fn(&Device); 2] = [
            |device| {
                random_state(device).expect("words");
            },
            |device| {
                let mut step =
                    Step::new(device, |inputs| vec![Tensor::rand([SIZE], inputs[0].device())]).expect("a step");
                step.run(&[Tensor::ones([SIZE], device)]).expect("a run");
            },
        ];
        for work in work {
            let (device, done) = (device.clone(), done.clone());
            std::thread::spawn(move || {
                (0..3000).for_each(|_| work(&device));
                done.send(()).expect("somebody waits");
            });
        }
        for _ in work {
            let waited = all_done.recv_timeout(std::time::Duration::from_secs(60));
            waited.expect("neither thread waits for what the other one holds");
        }
    }

    #[test]
    fn what_is_restored_draws_as_it_did_in_steps_and_outside() {
        for device in fresh_devices() {
            seed(&device, 3).expect("a seed");
            let mut step = Step::new(&device, |inputs| vec![Tensor::rand([SIZE], inputs[0].device())]).expect("a step");
            let input = Tensor::ones([SIZE], &device);
            let mut draw = || {
                let outside = Tensor::rand([SIZE], &device).to_vec::<f32>().expect("values");
                let inside = step.run(std::slice::from_ref(&input)).expect("a run").remove(0);
                (outside, inside.to_vec::<f32>().expect("values"))
            };
            let first = draw();
            let kept = random_state(&device).expect("words");
            assert_eq!((kept.position, kept.draws), (1, 1));
            let (second, third) = (draw(), draw());
            assert!(first.0 != second.0 && first.1 != second.1 && second.0 != third.0 && second.1 != third.1);
            // another run in between, with a seed of its own
            seed(&device, 4).expect("a seed");
            assert_ne!(draw(), first);
            set_random_state(&device, kept).expect("words");
            assert_eq!(random_state(&device).expect("words"), kept);
            assert_eq!((draw(), draw()), (second, third), "{device:?}");
        }
    }

    #[test]
    fn the_position_goes_on_when_nobody_held_it_meanwhile() {
        for device in fresh_devices() {
            let draw = || {
                let mut step =
                    Step::new(&device, |inputs| vec![Tensor::rand([SIZE], inputs[0].device())]).expect("a step");
                let outputs = step.run(&[Tensor::ones([SIZE], &device)]).expect("a run");
                outputs[0].to_vec::<f32>().expect("values")
            };
            seed(&device, 3).expect("a seed");
            let (first, second) = (draw(), draw());
            assert_ne!(first, second);
            let kept = random_variables(&device).expect("words").1.tensor();
            assert_ne!(draw(), second);
            assert_eq!(kept.item::<u32>().expect("a position"), 2, "a snapshot keeps its value");
            seed(&device, 3).expect("a seed");
            assert_eq!((draw(), draw()), (first, second));
        }
    }
}
