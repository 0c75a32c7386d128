//! Environment variables that the GPU executor looks at.

use std::path::PathBuf;

/// `BRASA_CHECKED=1`: kernels are compiled with bounds checks and bounded loops.
pub(super) fn checked() -> bool {
    std::env::var("BRASA_CHECKED").is_ok_and(|value| value == "1")
}

/// `BRASA_DEBUG=n`: from 2 on, every kernel is timed by itself; from 3 on, the driver's validation layers are on.
pub(super) fn debug_level() -> u32 {
    std::env::var("BRASA_DEBUG").ok().and_then(|value| value.parse().ok()).unwrap_or(0)
}

/// `BRASA_DUMP=folder`: every kernel's WGSL is written there.
pub(super) fn dump_folder() -> Option<PathBuf> {
    std::env::var_os("BRASA_DUMP").filter(|value| !value.is_empty()).map(PathBuf::from)
}
