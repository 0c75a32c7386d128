//! Tables as pictures.

use std::path::{Path, PathBuf};

use crate::bench::{Crossover, Report, Suite};
use crate::error::{Error, Result};
use crate::runs::export::{Chart, ChartLine};
use crate::ui::palette;

const SIZE: (u32, u32) = (960, 600);

/// The name of a picture, as a flag has it: what is wrong with it is told before anything is measured.
pub(super) fn path(name: &str) -> std::result::Result<PathBuf, String> {
    let path = PathBuf::from(name);
    let known = path.extension().is_some_and(|extension| extension == "png" || extension == "svg");
    if known { Ok(path) } else { Err("a plot's name ends with .png or .svg".into()) }
}

/// Whether [`products`] draws this case.
pub(super) fn is_drawn(suite: Suite, name: &str) -> bool {
    suite == Suite::Matmul && side(name).is_some()
}

fn side(name: &str) -> Option<f64> {
    name.strip_prefix("matmul_")?.parse().ok()
}

/// The rates of products of square matrices, a line for each device.
pub(super) fn products(report: &Report, path: &Path) -> Result<()> {
    let mut lines = Vec::new();
    for (number, device) in report.devices.iter().enumerate() {
        let rows = device.rows.iter().filter(|row| row.suite == Suite::Matmul);
        let points =
            rows.filter_map(|row| Some([side(&row.name)?, row.flops / row.measured.as_ref()?.median_s * 1e-9]));
        let points: Vec<[f64; 2]> = points.collect();
        lines.push(line(number, device.selector.clone(), points));
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
    for (number, search) in found.iter().enumerate() {
        let ratio = |point: &crate::bench::Crossing| [point.size as f64, point.seconds[0] / point.seconds[1]];
        let points: Vec<[f64; 2]> = search.points.iter().map(ratio).collect();
        let label = format!("{} on {}", search.family.name(), search.devices[1]);
        lines.push(line(number, label, points));
    }
    let all = || found.iter().flat_map(|search| &search.points).map(|point| point.size as f64);
    let (least, most) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
    let reference = found.first().map_or("", |search| &search.devices[0]);
    let even = vec![[least, 1.0], [most, 1.0]];
    lines.push(ChartLine {
        label: format!("as fast as {reference}"),
        color: [90; 3],
        points: even,
        ..Default::default()
    });
    let title = "From which size on is it worth it?";
    let y = format!("times as fast as {reference}");
    write(&Chart { title, x: "n", y: &y, log_x: true, log_y: true, low_legend: true, lines, size: SIZE }, path)
}

/// A line in the colour that the window would give it.
fn line(number: usize, label: String, points: Vec<[f64; 2]>) -> ChartLine {
    let [r, g, b, _] = palette::color(number).to_array();
    ChartLine { label, color: [r, g, b], points, ..Default::default() }
}

fn write(chart: &Chart<'_>, path: &Path) -> Result<()> {
    if path.extension().is_some_and(|extension| extension == "png") {
        chart.write_png(path)
    } else {
        crate::files::write_whole(path, chart.to_svg()?.as_bytes())
    }
}
