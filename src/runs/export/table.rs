//! Series as a table.

use std::io::Write;

use crate::error::{Error, Result};
use crate::runs::Recording;

/// Writes series of some runs as a table with the columns `run`, `tag`, `step`, `epoch`, `seconds`, `value`, a row for
/// each point. What is not known is empty; values that are not finite are `NaN`, `inf` and `-inf`. Runs have no rows of
/// tags that they do not have.
///
/// # Errors
/// If it cannot be written.
pub fn csv(recordings: &[&Recording], tags: &[&str], out: &mut impl Write) -> Result<()> {
    let failed = |error: csv::Error| Error::io("table", std::io::Error::other(error));
    let mut table = csv::Writer::from_writer(out);
    table.write_record(["run", "tag", "step", "epoch", "seconds", "value"]).map_err(failed)?;
    let known = |number: f64, text: String| if number.is_nan() { String::new() } else { text };
    for recording in recordings {
        for tag in tags {
            for point in recording.series.get(*tag).into_iter().flat_map(|series| series.points()) {
                let step = point.step.to_string();
                let epoch = known(point.epoch.into(), point.epoch.to_string());
                let seconds = known(point.seconds, (point.seconds as f32).to_string());
                let value = point.value.to_string();
                table.write_record([&recording.name, *tag, &step, &epoch, &seconds, &value]).map_err(failed)?;
            }
        }
    }
    table.flush().map_err(|error| Error::io("table", error))
}
