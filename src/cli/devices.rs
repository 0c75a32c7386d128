//! `brasa devices`: what is here and what it can do.

use std::fmt::Write as _;
use std::process::ExitCode;

use crate::device::{Device, DeviceInfo, DeviceKind};
use crate::error::Result;
use crate::units::{bytes, thousands};

use super::layout::{hang, width, wrap};

/// Flags of `brasa devices`.
#[derive(clap::Args)]
pub(super) struct DevicesArgs {
    /// Write one JSON object per device, line by line
    #[arg(long)]
    json: bool,
}

/// Names the device that is taken where no flag does.
const VARIABLE: &str = "BRASA_DEVICE";
/// What bounds GPUs alone.
const LIMITS: [&str; 5] = [
    "max_buffer_bytes",
    "max_binding_bytes",
    "max_storage_buffers",
    "max_workgroup_invocations",
    "max_workgroup_bytes",
];

/// Lists the devices, and what brasa makes of each: `+` before what it uses, `-` before what costs.
pub(super) fn run(args: &DevicesArgs) -> Result<ExitCode> {
    let devices = Device::list();
    let named = std::env::var(VARIABLE).ok().filter(|name| !name.trim().is_empty());
    let mut text = String::new();
    for device in &devices {
        if args.json {
            let is_default = named.is_none().then(|| device.selector == unasked(&devices));
            text += &(json(device, is_default) + "\n");
        } else {
            describe(&mut text, device, width());
            text.push('\n');
        }
    }
    if !args.json {
        text += &wrap(&closing(&devices, named.as_deref()), width());
    }
    super::print_result(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// What is known of a device, as JSON.
pub(super) fn value(device: &DeviceInfo) -> serde_json::Value {
    let mut value = serde_json::to_value(device).expect("plain data");
    if device.max_buffer_bytes == u64::MAX {
        // the CPU backend has no such bounds
        for limit in LIMITS {
            value[limit] = serde_json::Value::Null;
        }
    }
    value
}

/// `is_default`: whether it is taken where none is named; `None` where the environment names one.
fn json(device: &DeviceInfo, is_default: Option<bool>) -> String {
    let mut value = value(device);
    value["default"] = is_default.into();
    value["notes"] = serde_json::to_value(device.notes()).expect("plain data");
    value.to_string()
}

/// The device that is taken where none is named.
fn unasked(devices: &[DeviceInfo]) -> &str {
    let known = devices.iter().find(|device| device.kind.is_taken_unasked());
    known.map_or("cpu", |device| &device.selector)
}

/// Which device is taken, and what to do where there is no GPU.
fn closing(devices: &[DeviceInfo], named: Option<&str>) -> String {
    let mut text = match named {
        Some(name) => format!("Without --device, {VARIABLE} decides: {name}.\n"),
        None => format!("Without --device, brasa takes {}.\n", unasked(devices)),
    };
    if devices.iter().any(|device| device.kind != DeviceKind::Cpu) {
        return text;
    }
    let (looked, check) = match std::env::consts::OS {
        "macos" => {
            ("Metal", "Every Mac since 2012 has it: in a virtual machine or over a remote session it may be hidden.")
        }
        "windows" => (
            "DX12 and Vulkan",
            "Install the driver that the maker of the graphics card offers, not the one of Windows' basic display.",
        ),
        _ => (
            "Vulkan",
            "Install its driver (Debian and Ubuntu: mesa-vulkan-drivers for AMD and Intel, the nvidia-driver package for NVIDIA).\n\
             `vulkaninfo --summary` must list the GPU, and in a container /dev/dri or the NVIDIA runtime must be passed in.",
        ),
    };
    let _ = writeln!(text, "A GPU was looked for through {looked}, and none was found.\n{check}");
    text
}

fn describe(text: &mut String, device: &DeviceInfo, width: usize) {
    let _ = writeln!(text, "{}  {}", device.selector, device.name);
    let mut row = |name: &str, value: &str| {
        let name = format!("  {name:<9} ");
        *text += &hang(&format!("{name}{value}"), name.len(), width);
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
        let line = format!("  {} {}: {}", if note.costs { "-" } else { "+" }, note.about, note.text);
        *text += &hang(&line, 4, width);
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
    let half =
        device.f16.then(|| if device.kind == DeviceKind::Cpu { "f16 in memory, computed in f32" } else { "f16" });
    let known = [half.map(str::to_owned), units, subgroups, device.timestamps.then(|| "timestamps".to_owned())];
    let known: Vec<String> = known.into_iter().flatten().collect();
    if known.is_empty() { "none of the optional ones".to_owned() } else { known.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_what_is_taken_and_what_to_do_without_a_gpu() {
        let cpu = Device::cpu().info().clone();
        let alone = closing(std::slice::from_ref(&cpu), None);
        for words in ["brasa takes cpu", "A GPU was looked for through ", "none was found.\n"] {
            assert!(alone.contains(words), "`{words}` is missing in {alone}");
        }
        let software = DeviceInfo { selector: "gpu:0".into(), kind: DeviceKind::Software, ..cpu.clone() };
        let discrete = DeviceInfo { selector: "gpu:1".into(), kind: DeviceKind::Discrete, ..cpu.clone() };
        assert_eq!(closing(&[software.clone(), cpu.clone()], None), "Without --device, brasa takes cpu.\n");
        assert_eq!(unasked(&[software, discrete, cpu.clone()]), "gpu:1");
        assert!(closing(&[cpu], Some("llvm")).starts_with("Without --device, BRASA_DEVICE decides: llvm."));
    }

    #[test]
    fn all_that_is_told_of_a_device_fits_a_terminal() {
        let software = DeviceInfo {
            kind: DeviceKind::Software,
            max_buffer_bytes: 2 << 30,
            max_binding_bytes: 128 << 20,
            max_workgroup_invocations: 1024,
            max_workgroup_bytes: 32 << 10,
            ..Device::cpu().info().clone()
        };
        let mut text = String::new();
        describe(&mut text, &software, 80);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let place = text.lines().position(|line| line.starts_with("  limits    buffer 2")).expect("its limits");
        let next = text.lines().nth(place + 1).expect("the rest of them");
        assert!(next.starts_with(&" ".repeat(12)) && next.ends_with("32 KiB"), "{text}");
    }

    #[test]
    fn the_cpu_is_not_said_to_have_what_it_has_not() {
        let cpu = Device::cpu().info().clone();
        let value: serde_json::Value = serde_json::from_str(&json(&cpu, Some(true))).expect("JSON");
        assert!(LIMITS.iter().all(|limit| value[limit].is_null()) && value["default"] == true, "{value}");
        assert_eq!(features(&cpu), "f16 in memory, computed in f32");
    }
}
