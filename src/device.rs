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

impl PartialEq for Storage {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Storage {
    /// Its size.
    pub fn bytes(&self) -> u64 {
        0
    }
}

/// Places where indices are checked.
pub mod status {
    /// Registers a place; returns its number.
    pub fn register(_op: String, _location: &'static std::panic::Location<'static>, _bound: usize) -> u32 {
        1
    }
}
