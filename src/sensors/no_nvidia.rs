//! Where NVIDIA's management library cannot be: a browser.

use crate::device::DeviceInfo;

/// There is none.
pub(crate) enum Nvidia {}

impl Nvidia {
    pub(super) fn of(_: &DeviceInfo) -> Result<Self, String> {
        Err("a browser does not report it".into())
    }

    pub(super) fn millijoules(&self) -> Option<u64> {
        match *self {}
    }

    pub(super) fn utilisation(&self) -> Option<f64> {
        match *self {}
    }

    #[cfg(feature = "ui")]
    pub(super) fn free_bytes(&self) -> Option<u64> {
        match *self {}
    }

    pub(super) fn clock(&self) -> Option<(f64, Option<&'static str>)> {
        match *self {}
    }
}
