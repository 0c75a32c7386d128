//! A report as spreadsheets read it.

use crate::bench::{Measured, Report};
use crate::error::{Error, Result};

/// A line for each case and device, and one for each device that failed.
pub(super) fn lines(report: &Report) -> Result<String> {
    let wrong = |error: csv::Error| Error::Config(error.to_string());
    let mut writer = csv::Writer::from_writer(Vec::new());
    let header = [
        "suite",
        "case",
        "device",
        "median_s",
        "low_s",
        "high_s",
        "least_s",
        "p95_s",
        "p99_s",
        "runs",
        "source",
        "joules",
        "utilisation",
        "memory_bytes",
        "first_run_s",
        "in_kernels_s",
        "in_kernels_source",
        "flops",
        "bytes",
        "samples",
        "left_out",
        "what",
    ];
    writer.write_record(header).map_err(wrong)?;
    let place = |name: &str| header.iter().position(|column| *column == name).expect("a column");
    for device in &report.devices {
        if let Some(failure) = &device.failure {
            let mut record = vec![""; header.len()];
            record[place("device")] = &device.selector;
            record[place("left_out")] = failure;
            writer.write_record(record).map_err(wrong)?;
        }
        for row in &device.rows {
            let of = |get: &dyn Fn(&Measured) -> String| row.measured.as_ref().map(get).unwrap_or_default();
            let told = |value: Option<String>| value.unwrap_or_default();
            let record = [
                row.suite.name().to_owned(),
                row.name.clone(),
                device.selector.clone(),
                of(&|measured| measured.median_s.to_string()),
                of(&|measured| measured.range_s[0].to_string()),
                of(&|measured| measured.range_s[1].to_string()),
                of(&|measured| measured.least_s.to_string()),
                of(&|measured| told(measured.tail_s.map(|tail| tail[0].to_string()))),
                of(&|measured| told(measured.tail_s.map(|tail| tail[1].to_string()))),
                of(&|measured| measured.runs.to_string()),
                of(&|measured| measured.source.name().to_owned()),
                of(&|measured| told(measured.joules.map(|joules| joules.to_string()))),
                of(&|measured| told(measured.utilisation.map(|part| part.to_string()))),
                of(&|measured| told(measured.memory_bytes.map(|bytes| bytes.to_string()))),
                of(&|measured| measured.first_s.to_string()),
                of(&|measured| told(measured.in_kernels.map(|(seconds, _)| seconds.to_string()))),
                of(&|measured| told(measured.in_kernels.map(|(_, source)| source.name().to_owned()))),
                row.flops.to_string(),
                row.bytes.to_string(),
                row.samples.to_string(),
                row.left_out.clone().unwrap_or_default(),
                row.what.clone(),
            ];
            writer.write_record(record).map_err(wrong)?;
        }
        for stage in device.stages.iter().filter(|stage| stage.source.is_some()) {
            let mut record = vec![String::new(); header.len()];
            let source = stage.source.map_or("", |source| source.name());
            let told = ["stages", stage.stage.name(), &device.selector, &(1e-3 * stage.busy_ms).to_string()];
            told.iter().zip(&mut record).for_each(|(from, to)| (*from).clone_into(to));
            source.clone_into(&mut record[place("source")]);
            record[place("what")] = format!("work of one training step, on {}", stage.place);
            writer.write_record(record).map_err(wrong)?;
        }
    }
    let bytes = writer.into_inner().map_err(|error| Error::Config(error.to_string()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
