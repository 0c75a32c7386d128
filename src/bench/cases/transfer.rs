//! To the device and back, and what it costs to ask it for anything at all.

use crate::device::Device;
use crate::error::Result;
use crate::runtime::Step;
use crate::tensor::Tensor;

use super::super::Suite;
use super::super::method::Work;
use super::{Call, Case, compute};

/// Elements of 64 MiB.
const MANY: usize = 16 << 20;
const BYTES: f64 = 4.0 * MANY as f64;

pub(super) fn cases() -> Vec<Case> {
    let upload = |device: &Device| -> Result<Box<dyn Work>> {
        let (values, device) = (vec![1.0_f32; MANY], device.clone());
        Ok(Box::new(Call(move || {
            Tensor::from_slice(&values, [MANY], &device)?.realize()?;
            device.sync()
        })))
    };
    let download = |device: &Device| -> Result<Box<dyn Work>> {
        let tensor = Tensor::rand([MANY], device);
        tensor.realize()?;
        Ok(Box::new(Call(move || tensor.to_vec::<f32>().map(drop))))
    };
    let launch = |device: &Device| compute(device, vec![Tensor::rand([1], device)], |inputs| vec![&inputs[0] + 1.0]);
    let round_trip = |device: &Device| -> Result<Box<dyn Work>> {
        let mut step = Step::new(device, |inputs| vec![&inputs[0] + 1.0])?;
        let device = device.clone();
        Ok(Box::new(Call(move || {
            let sent = Tensor::from_slice(&[1.0_f32], [1], &device)?;
            step.run(&[sent])?.remove(0).item::<f32>().map(drop)
        })))
    };
    let case =
        |name: &str, make: fn(&Device) -> Result<Box<dyn Work>>| Case::new(Suite::Transfer, name, make).quick(true);
    vec![
        case("upload_64mib", upload).what("64 MiB from the program to the device").bytes(BYTES),
        case("download_64mib", download).what("64 MiB from the device to the program").bytes(BYTES),
        case("launch_and_wait", launch).what("a kernel that adds 1 to one number, waited for"),
        case("round_trip", round_trip).what("one number to the device, 1 added there, and back"),
    ]
}
