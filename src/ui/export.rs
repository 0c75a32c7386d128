//! Curves as files.

use std::path::{Path, PathBuf};

use crate::runs::Recording;
use crate::runs::export::{Chart, csv};

/// Kinds of files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Format {
    Png,
    Svg,
    Csv,
}

impl Format {
    pub(super) const ALL: [Self; 3] = [Self::Png, Self::Svg, Self::Csv];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Png => "PNG",
            Self::Svg => "SVG",
            Self::Csv => "CSV",
        }
    }
}

/// What is chosen in the dialog, and what came of it.
pub(super) struct Dialog {
    pub(super) family: Option<String>,
    pub(super) folder: String,
    pub(super) result: Option<Result<PathBuf, String>>,
}

impl Dialog {
    pub(super) fn new(family: Option<String>) -> Self {
        let folder = std::env::current_dir().unwrap_or_default().display().to_string();
        Self { family, folder, result: None }
    }
}

/// Writes the chart, or all points of its curves, into `folder`, under its title and a number if that is taken; returns
/// where it is.
pub(super) fn write(
    chart: &Chart<'_>,
    runs: &[&Recording],
    tags: &[&str],
    format: Format,
    folder: &str,
) -> Result<PathBuf, String> {
    let extension = format.name().to_lowercase();
    let name: String = chart.title.chars().map(|sign| if sign.is_alphanumeric() { sign } else { '-' }).collect();
    let path = free(Path::new(folder), &name, &extension);
    let written = match format {
        Format::Png => chart.write_png(&path),
        Format::Svg => chart.to_svg().and_then(|text| crate::files::write_whole(&path, text.as_bytes())),
        Format::Csv => {
            let mut table = Vec::new();
            csv(runs, tags, &mut table).and_then(|()| crate::files::write_whole(&path, &table))
        }
    };
    written.map(|()| path).map_err(|error| error.to_string())
}

/// The first of `name.ext`, `name-2.ext`, ... that is not there.
fn free(folder: &Path, name: &str, extension: &str) -> PathBuf {
    let numbered = |number: u32| match number {
        1 => folder.join(format!("{name}.{extension}")),
        _ => folder.join(format!("{name}-{number}.{extension}")),
    };
    (1..).map(numbered).find(|path| !path.exists()).expect("numbers do not end")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_overwritten() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("loss.csv"), "old").expect("writable");
        assert_eq!(free(folder.path(), "loss", "csv"), folder.path().join("loss-2.csv"));
        assert_eq!(free(folder.path(), "loss", "png"), folder.path().join("loss.png"));
    }
}
