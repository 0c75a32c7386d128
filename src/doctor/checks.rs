//! What a device must withstand besides computing right.

use std::time::Instant;

use crate::device::{Device, Fault};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::runtime::Step;
use crate::tensor::Tensor;
use crate::timing::TimeSource;
use crate::units::bytes;

use super::{Outcome, products, training};

type Check = fn(&Device) -> Result<Outcome>;

/// Every check with its name. The last ones may leave the device unusable.
pub(super) const ALL: [(&str, Check); 9] = [
    ("large products in f32", products::in_f32),
    ("large products in f16", products::in_f16),
    ("large products at high precision", products::at_high_precision),
    ("training in f32", training::in_f32),
    ("training in f16", training::in_f16),
    ("memory", memory),
    ("timestamps", timestamps),
    ("long work", long_work),
    ("device loss", device_loss),
];

/// Bytes that go there and back.
const MOVED_BYTES: usize = 64 << 20;
/// Larger tensors are not tried: they might be all that the machine has.
const MAX_BYTES: u64 = 1 << 30;

/// What was uploaded comes back, and what is larger than a binding is computed all over.
fn memory(device: &Device) -> Result<Outcome> {
    let words: Vec<u32> = (0..MOVED_BYTES as u32 / 4).map(|number| number.wrapping_mul(0x9E37_79B9)).collect();
    let back: Vec<u32> = Tensor::from_slice(&words, [words.len()], device)?.to_vec()?;
    if let Some(at) = (0..words.len()).find(|&at| back[at] != words[at]) {
        let text =
            format!("word {at} of {} came back as {:#010x} instead of {:#010x}", words.len(), back[at], words[at]);
        return Ok(Outcome::Failed(text));
    }
    drop((words, back));
    let moved = format!("{} there and back unchanged", bytes(MOVED_BYTES as u64));
    let binding = device.info().max_binding_bytes;
    if binding > MAX_BYTES / 2 {
        return Ok(Outcome::Passed(moved));
    }
    // one row more than fits, and a row's number in each of its places
    let columns = 1 << 16;
    let rows = binding as usize / (4 * columns) + 1;
    let numbers = Tensor::arange(rows, device).to_dtype(DType::F32).reshape([rows, 1]);
    let mut spread = Step::new(device, move |inputs| vec![inputs[0].expand([inputs[0].shape()[0], columns]) + 0.0])?;
    let large = spread.run(&[numbers])?.remove(0);
    let sums: Vec<f32> = large.mean_dim(1).to_vec()?;
    match sums.iter().zip(0..).find(|&(&sum, row)| sum != row as f32) {
        None => Ok(Outcome::Passed(format!(
            "{moved}; a tensor of {} over bindings of {}",
            bytes((rows * columns * 4) as u64),
            bytes(binding)
        ))),
        Some((sum, row)) => Ok(Outcome::Failed(format!("row {row} of {rows} over several bindings holds {sum}"))),
    }
}

/// Times from the device's clock are more than nothing, less than the host's, and grow with the work.
fn timestamps(device: &Device) -> Result<Outcome> {
    if device.is_cpu() {
        return Ok(Outcome::NotAvailable("it has no clock of its own: the host's times stages and kernels".into()));
    }
    if !device.info().timestamps {
        return Ok(Outcome::NotAvailable("stages and kernels are timed by fences".into()));
    }
    let timed = |side: usize| -> Result<(f64, f64, TimeSource)> {
        let mut product = Step::new(device, |inputs| vec![inputs[0].matmul(&inputs[1])])?;
        product.profile_kernels(true);
        let matrices = [0.5, 0.25].map(|value| Tensor::full([side, side], value, device));
        product.run(&matrices)?;
        device.sync()?;
        product.kernel_times();
        let start = Instant::now();
        for _ in 0..4 {
            product.run(&matrices)?;
        }
        device.sync()?;
        let wall = start.elapsed().as_secs_f64() * 1e3;
        let times = product.kernel_times();
        let (ours, source) = times.iter().fold((0.0, TimeSource::Timestamp), |(sum, source), time| {
            (sum + time.milliseconds * 4.0, source.max(time.source))
        });
        Ok((ours, wall, source))
    };
    let (small, _, _) = timed(64)?;
    let (large, wall, source) = timed(512)?;
    if source != TimeSource::Timestamp {
        return Ok(Outcome::Degraded(format!("not plausible: times come from the {}", source.name())));
    }
    let text = format!(
        "four products of 512x512 took {large:.2} ms of the {wall:.2} ms that the host saw; 64x64: {small:.3} ms"
    );
    // clocks of two sides may differ a little
    let plausible = large > 0.0 && large <= 1.05 * wall && large > small;
    Ok(if plausible { Outcome::Passed(text) } else { Outcome::Degraded(text) })
}

/// Seconds of work without a pause: systems take a GPU away that does not answer for two.
const LONG_S: f64 = 4.0;
/// Products in a step at most; of a fast device several steps are needed.
const MAX_PRODUCTS: usize = 512;

fn long_work(device: &Device) -> Result<Outcome> {
    let side = 1024;
    let mut product = Step::new(device, |inputs| vec![inputs[0].matmul(&inputs[1])])?;
    let inputs = [Tensor::eye(side, device), Tensor::full([side, side], 0.75_f32, device)];
    product.run(&inputs)?;
    device.sync()?;
    let start = Instant::now();
    product.run(&inputs)?;
    device.sync()?;
    let once = start.elapsed().as_secs_f64();
    let count = (LONG_S / once).ceil().clamp(1.0, 20_000.0) as usize;
    let each = count.min(MAX_PRODUCTS);
    let steps = count.div_ceil(each);
    // each product needs the one before
    let mut chain =
        Step::new(device, move |inputs| vec![(0..each).fold(inputs[1].clone(), |value, _| inputs[0].matmul(&value))])?;
    let start = Instant::now();
    let mut last = chain.run(&inputs)?;
    for _ in 1..steps {
        last = chain.run(&inputs)?;
    }
    let values: Vec<f32> = last[0].to_vec()?;
    let took = start.elapsed().as_secs_f64();
    let text = match steps {
        1 => format!("a step of {each} products of 1024x1024 took {took:.1} s"),
        _ => format!("{steps} steps of {each} products of 1024x1024 took {took:.1} s without a pause"),
    };
    Ok(if values.iter().all(|&value| value == 0.75) {
        Outcome::Passed(text)
    } else {
        Outcome::Failed(format!("{text}, and the last is wrong"))
    })
}

/// A lost device is an error, and neither takes others along nor keeps a new one from being opened.
fn device_loss(device: &Device) -> Result<Outcome> {
    let works = |device: &Device| -> Result<bool> {
        let values: Vec<f32> = (Tensor::full([1000], 2.0_f32, device) * 3.0).to_vec()?;
        Ok(values.iter().all(|&value| value == 6.0))
    };
    let other = device.reopen()?;
    if !works(&other)? {
        return Ok(Outcome::Failed("a second device on the same hardware computes wrong".into()));
    }
    other.inject(Fault::Lost);
    match works(&other) {
        Err(Error::DeviceLost { .. }) => {}
        Err(error) => return Ok(Outcome::Failed(format!("a lost device is reported as: {error}"))),
        Ok(_) => return Ok(Outcome::Failed("a lost device goes on computing".into())),
    }
    let again = other.reopen()?;
    Ok(if works(device)? && works(&again)? {
        Outcome::Passed("it is reported, others go on, and a new one opens".into())
    } else {
        Outcome::Failed("after a loss the others compute wrong".into())
    })
}
