//! `BRASA_VALIDATE=1`: every kernel runs alone, and what it wrote is compared with the interpreter's f64 values.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::device::{Device, Storage};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::reference::decode;
use crate::plan::{
    BufferId, Kernel, Place, Plan,
    interpret::{Rounding, interpret},
};

/// Runs `plan` kernel by kernel, and stops at the first value that differs from the interpreter's.
pub(super) fn run(device: &Device, plan: &Plan, externals: &[Storage], uniforms: &[u32]) -> Result<()> {
    let slots = plan.slots.iter().map(|&bytes| device.alloc(bytes, "a slot of the plan being validated"));
    let slots: Vec<Storage> = slots.collect::<Result<_>>()?;
    let storage = |buffer: BufferId| match plan.buffers[buffer].place {
        Place::External(number) => &externals[number],
        Place::Slot(number) => &slots[number],
    };
    for kernel in &plan.kernels {
        let used: BTreeSet<BufferId> = kernel.reads.iter().chain(&kernel.writes).copied().collect();
        let mut values = vec![Vec::new(); plan.buffers.len()];
        for &buffer in &used {
            values[buffer] = read(device, plan, buffer, storage(buffer))?;
        }
        interpret(plan, kernel, &mut values, uniforms, Rounding::Instructions);
        let used: Vec<BufferId> = used.into_iter().collect();
        let storages: Vec<Storage> = used.iter().map(|&buffer| storage(buffer).clone()).collect();
        device.prepare(Arc::new(alone(plan, kernel, &used)))?.bind(&storages)?.run(uniforms)?;
        for &buffer in &kernel.writes {
            let got = read(device, plan, buffer, storage(buffer))?;
            compare(device, plan, kernel, buffer, &got, &values[buffer])?;
        }
    }
    Ok(())
}

fn read(device: &Device, plan: &Plan, buffer: BufferId, storage: &Storage) -> Result<Vec<f64>> {
    let Plan { buffers, .. } = plan;
    let bytes = (buffers[buffer].elements * buffers[buffer].dtype.size_bytes()) as u64;
    let bytes = pollster::block_on(device.read(storage, 0, bytes))?;
    Ok(decode(buffers[buffer].dtype, &bytes))
}

/// A plan of `kernel` only, over `used` buffers as externals.
fn alone(plan: &Plan, kernel: &Kernel, used: &[BufferId]) -> Plan {
    let names: HashMap<BufferId, usize> = used.iter().enumerate().map(|(name, &buffer)| (buffer, name)).collect();
    let mut kernel = kernel.clone();
    kernel.body.map_buffers(|buffer| names[&buffer]);
    for buffer in kernel.reads.iter_mut().chain(&mut kernel.writes) {
        *buffer = names[buffer];
    }
    let buffers = used.iter().enumerate().map(|(name, &buffer)| {
        let mut buffer = plan.buffers[buffer].clone();
        buffer.place = Place::External(name);
        buffer
    });
    #[expect(clippy::single_range_in_vec_init, reason = "one wave of one kernel")]
    Plan {
        buffers: buffers.collect(),
        kernels: vec![kernel],
        waves: vec![0..1],
        externals: used.len(),
        uniforms: plan.uniforms,
        literal_sizes: plan.literal_sizes,
        key: plan.key,
        ..Plan::default()
    }
}

/// Sums of many terms in f32 differ from f64 by more than one element's rounding: the tolerance is relative to the
/// largest value written (a thousandth; f16: a hundredth). Integers and truth values must agree exactly.
fn compare(
    device: &Device,
    plan: &Plan,
    kernel: &Kernel,
    buffer: BufferId,
    got: &[f64],
    expected: &[f64],
) -> Result<()> {
    let largest = expected.iter().filter(|value| value.is_finite()).fold(0f64, |max, value| max.max(value.abs()));
    let tolerance = match plan.buffers[buffer].dtype {
        DType::F32 => 1e-3 * largest + 1e-6,
        DType::F16 => 1e-2 * largest + 1e-3,
        DType::I32 | DType::U32 | DType::U8 | DType::Bool => 0.0,
    };
    // f32 overflows where f64 does not
    let same = |a: f64, b: f64| {
        a == b || (a - b).abs() <= tolerance || (!a.is_finite() && (!b.is_finite() || b.abs() > f64::from(f32::MAX)))
    };
    match got.iter().zip(expected).position(|(&a, &b)| !same(a, b)) {
        None => Ok(()),
        Some(index) => Err(Error::Validation {
            kernel: format!("{} ({})", kernel.label, plan.buffers[buffer].label),
            device: format!("{}, driver {}", device.info(), device.info().driver),
            index,
            got: got[index],
            expected: expected[index],
        }),
    }
}
