//! `brasa devices`: what is here and what it can do.

use std::fmt::Write as _;
use std::process::ExitCode;

use crate::device::{Device, DeviceInfo};
use crate::error::Result;
use crate::units::{bytes, thousands};

/// Flags of `brasa devices`.
#[derive(clap::Args)]
pub(super) struct DevicesArgs {
    /// Write one JSON object per device, line by line
    #[arg(long)]
    json: bool,
}

/// Lists the devices, and what brasa makes of each: `+` before what it uses, `-` before what costs.
pub(super) fn run(args: &DevicesArgs) -> Result<ExitCode> {
    let devices = Device::list();
    let mut text = String::new();
    for (number, device) in devices.iter().enumerate() {
        if args.json {
            let mut value = serde_json::to_value(device).expect("plain data");
            value["notes"] = serde_json::to_value(device.notes()).expect("plain data");
            text += &(value.to_string() + "\n");
        } else {
            if number > 0 {
                text.push('\n');
            }
            describe(&mut text, device);
        }
    }
    super::print_result(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn describe(text: &mut String, device: &DeviceInfo) {
    let _ = writeln!(text, "{}  {}", device.selector, device.name);
    let mut row = |name: &str, value: &str| {
        let _ = writeln!(text, "  {name:<9} {value}");
    };
    row("type", device.kind.name());
    row("backend", &device.backend);
    row("driver", &device.driver);
    row("memory", &device.memory_bytes.map_or_else(|| "unknown".to_owned(), bytes));
    let limits = limits(device);
    if !limits.is_empty() {
        row("limits", &limits.join(", "));
    }
    row("features", &features(device));
    for note in device.notes() {
        let _ = writeln!(text, "  {} {}: {}", if note.costs { "-" } else { "+" }, note.about, note.text);
    }
}

/// What bounds kernels; the CPU backend has no such bounds.
pub(super) fn limits(device: &DeviceInfo) -> Vec<String> {
    if device.max_buffer_bytes == u64::MAX {
        return Vec::new();
    }
    vec![
        format!("buffer {}", bytes(device.max_buffer_bytes)),
        format!("binding {}", bytes(device.max_binding_bytes)),
        format!("{} storage buffers", device.max_storage_buffers),
        format!("workgroup {} invocations", thousands(device.max_workgroup_invocations as usize)),
        format!("workgroup memory {}", bytes(device.max_workgroup_bytes.into())),
    ]
}

/// What it has of what not all have.
pub(super) fn features(device: &DeviceInfo) -> String {
    let subgroups = device.subgroups.map(|(least, most)| {
        if least == most { format!("subgroups of {least}") } else { format!("subgroups of {least} to {most}") }
    });
    let units = device.cooperative.as_ref().map(|units| format!("matrix units for {units}"));
    let known =
        [device.f16.then(|| "f16".to_owned()), units, subgroups, device.timestamps.then(|| "timestamps".to_owned())];
    let known: Vec<String> = known.into_iter().flatten().collect();
    if known.is_empty() { "none of the optional ones".to_owned() } else { known.join(", ") }
}
