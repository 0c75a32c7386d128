//! Devices: listing, choosing, opening.

/// A handle to a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Device;

/// Memory on a device, shared by its holders.
#[derive(Clone, Debug)]
pub struct Storage;

impl Device {
    /// The CPU backend.
    pub fn cpu() -> Self {
        Self
    }
}
