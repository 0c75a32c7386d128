//! What brasa makes of what a device has, and what it costs where something is missing.

use serde::Serialize;

use super::{DeviceInfo, DeviceKind};
use crate::units::bytes;

/// Tensors and slots are rarely larger, so that a smaller binding is in the way at times.
const ROOMY_BINDING_BYTES: u64 = 1 << 30;
/// Products take tiles of workgroup memory from these on.
const TILE_INVOCATIONS: u32 = 256;
const TILE_BYTES: u32 = 8 << 10;
/// The largest tiles need these.
const LARGE_TILE_BYTES: u32 = 16 << 10;
/// With more, fusion is hardly ever stopped by the number of buffers.
const MANY_BUFFERS: u32 = 16;

/// One thing about a device.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Note {
    /// What it is about.
    pub about: &'static str,
    /// Whether something is missing, and costs.
    pub costs: bool,
    /// What brasa does with it, or without it.
    pub text: String,
}

impl DeviceInfo {
    /// What brasa uses of it, and what it costs where something is missing.
    pub fn notes(&self) -> Vec<Note> {
        let note = |about, costs, text: &str| Note { about, costs, text: text.into() };
        let mut notes = Vec::new();
        match self.kind {
            DeviceKind::Cpu => {
                let text = "always there; all its threads, and the widest vector instructions it has";
                let half = "--precision f16 saves memory, but computes in f32 and converts, which takes longer";
                return vec![note("type", false, text), note("f16", false, half)];
            }
            DeviceKind::Software => {
                let text = "computes on the processor, where the device cpu does the same several times faster: only used when named";
                notes.push(note("type", true, text));
            }
            DeviceKind::Other => {
                notes.push(note("type", true, "of a kind that the system does not report: only used when named"));
            }
            DeviceKind::Discrete | DeviceKind::Integrated | DeviceKind::Virtual => {}
        }
        notes.push(if self.f16 {
            note("f16", false, "--precision f16 computes with 16-bit floats")
        } else {
            note("f16", true, "none: --precision f16 halves memory and traffic, but computes in f32")
        });
        notes.push(if self.timestamps {
            note("timestamps", false, "stages and kernels are timed by the device's own clock")
        } else {
            note("timestamps", true, "none: stages are timed by fences, less exactly, and kernels one by one")
        });
        if self.max_binding_bytes < ROOMY_BINDING_BYTES {
            let text = format!(
                "kernels see {} at a time: larger tensors are computed in parts",
                bytes(self.max_binding_bytes)
            );
            notes.push(Note { about: "bindings", costs: true, text });
        }
        if self.max_storage_buffers < MANY_BUFFERS {
            let text = format!(
                "a kernel sees {} pieces of memory: fewer ops fit into one (ResNet-20's step has 175 kernels with 7, else 147)",
                self.max_storage_buffers
            );
            notes.push(Note { about: "buffers", costs: true, text });
        }
        let (invocations, memory) = (self.max_workgroup_invocations, self.max_workgroup_bytes);
        notes.push(if self.kind == DeviceKind::Software {
            note(
                "workgroups",
                false,
                "not used for products: shared memory is no faster than other memory on a processor",
            )
        } else if invocations < TILE_INVOCATIONS || memory < TILE_BYTES {
            note(
                "workgroups",
                true,
                "their shared memory is too small for products, which read everything from the device's memory: slower",
            )
        } else if memory < LARGE_TILE_BYTES {
            note("workgroups", true, "products in tiles of 64x64 results; for 128x128 the memory is too small")
        } else {
            note("workgroups", false, "products in tiles of up to 128x128 results")
        });
        if self.kind != DeviceKind::Software || self.cooperative.is_some() {
            notes.push(match &self.cooperative {
                Some(units) => {
                    let text = format!("products and convolutions by its units for matrices of {units}, summed in f32");
                    Note { about: "matrix units", costs: false, text }
                }
                None => note("matrix units", false, "none that can be reached: products by its ordinary arithmetic"),
            });
        }
        notes.push(match self.subgroups {
            Some(_) => {
                note("subgroups", false, "the last steps of long rows' sums are made in them, with the same bits")
            }
            None => note("subgroups", false, "none that are used: sums of long rows go through workgroup memory"),
        });
        if self.memory_bytes.is_none() {
            let text = "the system does not report how much there is: a forecast of memory cannot be compared with it";
            notes.push(note("memory", true, text));
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told_with_its_cost() {
        let mut info = super::super::info::cpu_info();
        assert!(info.notes().iter().all(|note| !note.costs));
        info.kind = DeviceKind::Discrete;
        (info.f16, info.timestamps, info.max_storage_buffers) = (true, true, 64);
        (info.max_workgroup_invocations, info.max_workgroup_bytes, info.memory_bytes) = (1024, 32 << 10, Some(8 << 30));
        let costs = |info: &DeviceInfo| -> Vec<&str> {
            info.notes().iter().filter(|note| note.costs).map(|note| note.about).collect()
        };
        assert_eq!(costs(&info), [""; 0]);
        let poor = DeviceInfo {
            f16: false,
            timestamps: false,
            max_storage_buffers: 7,
            max_binding_bytes: 128 << 20,
            max_workgroup_bytes: 4 << 10,
            memory_bytes: None,
            kind: DeviceKind::Other,
            ..info
        };
        assert_eq!(costs(&poor), ["type", "f16", "timestamps", "bindings", "buffers", "workgroups", "memory"]);
    }
}
