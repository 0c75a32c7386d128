//! Devices: listing, choosing, opening.

use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Result;

/// A handle to a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Device;

/// Memory on a device, shared by its holders.
#[derive(Clone, Debug)]
pub struct Storage(Arc<Mutex<Vec<u8>>>);

impl Device {
    /// The CPU backend.
    pub fn cpu() -> Self {
        Self
    }

    pub(crate) fn alloc(&self, bytes: u64, _what: &str) -> Result<Storage> {
        Ok(Storage(Arc::new(Mutex::new(vec![0; bytes as usize]))))
    }

    pub(crate) fn write(&self, storage: &Storage, offset: u64, bytes: &[u8]) -> Result<()> {
        let start = offset as usize;
        storage.0.lock().unwrap_or_else(PoisonError::into_inner)[start..start + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    #[expect(clippy::unused_async, reason = "a stand-in for reading from a GPU")]
    pub(crate) async fn read(&self, storage: &Storage, offset: u64, bytes: u64) -> Result<Vec<u8>> {
        let start = offset as usize;
        Ok(storage.0.lock().unwrap_or_else(PoisonError::into_inner)[start..start + bytes as usize].to_vec())
    }
}
