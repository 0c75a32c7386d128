//! Tables as pictures.

use std::path::Path;

use crate::bench::{Crossover, Report, Suite};
use crate::error::{Error, Result};
use crate::runs::export::{Chart, ChartLine};

const SIZE: (u32, u32) = (960, 600);
/// Okabe and Ito's colours, which most eyes tell apart (2008, "Color Universal Design").
const COLORS: [[u8; 3]; 6] =
    [[0, 114, 178], [213, 94, 0], [0, 158, 115], [204, 121, 167], [230, 159, 0], [86, 180, 233]];

/// The rates of products of square matrices, a line for each device.
pub(super) fn products(report: &Report, path: &Path) -> Result<()> {
    let side = |name: &str| name.strip_prefix("matmul_")?.parse::<f64>().ok();
    let mut lines = Vec::new();
    for (device, color) in report.devices.iter().zip(COLORS.iter().cycle()) {
        let rows = device.rows.iter().filter(|row| row.suite == Suite::Matmul);
        let points =
            rows.filter_map(|row| Some([side(&row.name)?, row.flops / row.measured.as_ref()?.median_s * 1e-9]));
        let points: Vec<[f64; 2]> = points.collect();
        lines.push(ChartLine { label: device.selector.clone(), color: *color, points, faint: None });
    }
    if lines.iter().all(|line| line.points.is_empty()) {
        return Err(Error::Config("there is nothing to plot: no product of square matrices was measured".into()));
    }
    let title = "Products of two n x n matrices";
    write(&Chart { title, x: "n", y: "GFLOP/s", log_x: true, log_y: true, low_legend: true, lines, size: SIZE }, path)
}

/// How many times as fast as the reference each device is, by the size, and where it is even.
pub(super) fn crossovers(found: &[Crossover], path: &Path) -> Result<()> {
    let mut lines = Vec::new();
    for (search, color) in found.iter().zip(COLORS.iter().cycle()) {
        let ratio = |point: &crate::bench::Crossing| [point.size as f64, point.seconds[0] / point.seconds[1]];
        let points: Vec<[f64; 2]> = search.points.iter().map(ratio).collect();
        let label = format!("{} on {}", search.family.name(), search.devices[1]);
        lines.push(ChartLine { label, color: *color, points, faint: None });
    }
    let all = || found.iter().flat_map(|search| &search.points).map(|point| point.size as f64);
    let (least, most) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
    let reference = found.first().map_or("", |search| &search.devices[0]);
    let even = vec![[least, 1.0], [most, 1.0]];
    lines.push(ChartLine { label: format!("as fast as {reference}"), color: [90; 3], points: even, faint: None });
    let title = "From which size on is it worth it?";
    let y = format!("times as fast as {reference}");
    write(&Chart { title, x: "n", y: &y, log_x: true, log_y: true, low_legend: true, lines, size: SIZE }, path)
}

fn write(chart: &Chart<'_>, path: &Path) -> Result<()> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("png") => chart.write_png(path),
        Some("svg") => crate::files::write_whole(path, chart.to_svg()?.as_bytes()),
        _ => Err(Error::Config(format!("{}: a plot's name ends with .png or .svg", path.display()))),
    }
}
