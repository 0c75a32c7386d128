//! When runs began.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::train::record::{RUN, STATUS};

use super::json::{json, read_bytes};

/// When the run in a folder began, in milliseconds since 1970: as it says, or as its last status leads to think, or the
/// time of its folder, and of a folder that tells nothing 0.
pub(super) fn begun(folder: &Path) -> u64 {
    #[derive(Deserialize)]
    struct Run {
        begun_unix_ms: Option<u64>,
    }
    #[derive(Deserialize)]
    struct Status {
        written_unix_ms: u64,
        elapsed_s: f64,
    }
    let recorded = || read::<Run>(&folder.join(RUN))?.begun_unix_ms;
    let estimated = || {
        let Status { written_unix_ms, elapsed_s } = read(&folder.join(STATUS))?;
        Some(written_unix_ms.saturating_sub((1e3 * elapsed_s) as u64))
    };
    recorded().or_else(estimated).or_else(|| made(folder)).unwrap_or(0)
}

fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    json(&read_bytes(path).ok()?).ok()
}

/// When a folder was made; copies keep the time of the last change, if any.
fn made(folder: &Path) -> Option<u64> {
    let metadata = std::fs::metadata(folder).ok()?;
    let times = [metadata.created().ok(), metadata.modified().ok()].into_iter().flatten();
    let since_1970 = |time: SystemTime| Some(time.duration_since(UNIX_EPOCH).ok()?.as_millis() as u64);
    times.filter_map(since_1970).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_says_when_it_began_as_well_as_it_can() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("writable");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as u64;
        assert!(begun(folder.path()).abs_diff(now) < 60_000, "the folder's own time");
        write(STATUS, r#"{"written_unix_ms": 50000, "elapsed_s": 7.5}"#);
        write(RUN, r#"{"name": "of an older version"}"#);
        assert_eq!(begun(folder.path()), 42_500);
        write(RUN, r#"{"begun_unix_ms": 1000}"#);
        assert_eq!(begun(folder.path()), 1000);
        assert_eq!(begun(&folder.path().join("none")), 0);
    }
}
