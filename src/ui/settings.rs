//! What the window remembers from one day to the next.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::bench::{Peak, Report};
use crate::runs::{Recording, XAxis};

use super::selection::Remembered;

/// The languages that the window speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// English.
    English,
    /// Brazilian Portuguese.
    Portuguese,
}

impl Language {
    /// That of the desktop, if it is one of these.
    pub(super) fn of_desktop() -> Self {
        match sys_locale::get_locale() {
            Some(locale) if locale.to_lowercase().starts_with("pt") => Self::Portuguese,
            _ => Self::English,
        }
    }
}

/// The pages of the window.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Page {
    /// What to train, and how.
    Start,
    /// Numbers over time.
    Curves,
    /// Where the time goes.
    Stages,
    /// The plan's kernels.
    Graph,
    /// Weights, gradients and activations.
    Histograms,
    /// Held-out samples, and what the model says.
    Predictions,
    /// What this machine has.
    Devices,
    /// What its devices do, side by side.
    Benchmark,
    /// All runs and their settings.
    Runs,
    /// What this is.
    About,
}

impl Page {
    /// All of them, in the order of their tabs.
    pub const ALL: [Self; 10] = [
        Self::Start,
        Self::Curves,
        Self::Stages,
        Self::Graph,
        Self::Histograms,
        Self::Predictions,
        Self::Devices,
        Self::Benchmark,
        Self::Runs,
        Self::About,
    ];
}

/// How numbers over time are drawn.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct CurveSettings {
    /// What the horizontal axis counts.
    pub(super) axis: XAxis,
    pub(super) log_x: bool,
    pub(super) log_y: bool,
    /// Weight of the past in the moving average, as TensorBoard's slider.
    pub(super) smoothing: f64,
    /// Mean and band over runs that differ in nothing but their seed.
    pub(super) band: bool,
    /// Points from one chart's left edge to the next one's.
    pub(super) chart_width: f32,
    pub(super) filter: String,
}

impl Default for CurveSettings {
    fn default() -> Self {
        let filter = String::new();
        Self { axis: XAxis::Step, log_x: false, log_y: false, smoothing: 0.6, band: false, chart_width: 420.0, filter }
    }
}

/// How histograms are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum HistogramView {
    /// One behind the other.
    #[default]
    Offset,
    /// Quantiles over time.
    Distribution,
    /// The last ones of all runs over each other.
    Overlay,
}

/// The first word of a histogram's tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum HistogramKind {
    #[default]
    All,
    Weights,
    Gradients,
    Activations,
}

/// Which histograms are drawn, and how.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct HistogramSettings {
    pub(super) view: HistogramView,
    pub(super) kind: HistogramKind,
    pub(super) filter: String,
}

/// What runs are sorted by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RunOrder {
    #[default]
    Newest,
    Best,
    Name,
}

/// Which runs are in the table, and what is compared.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct RunSettings {
    pub(super) order: RunOrder,
    pub(super) filter: String,
    /// Settings that are equal as well.
    pub(super) all_settings: bool,
}

/// Everything that is remembered.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Settings {
    pub(super) language: Language,
    pub(super) page: Page,
    /// Whether the list of runs is shown; as there is room for it, until somebody says so.
    pub(super) list_open: Option<bool>,
    pub(super) runs_chosen: Remembered,
    pub(super) curves: CurveSettings,
    pub(super) histograms: HistogramSettings,
    pub(super) runs: RunSettings,
    /// Whether kernels are coloured by their time instead of their stage.
    pub(super) kernels_by_time: bool,
    /// How much of a mask is seen over its picture.
    pub(super) mask_opacity: f32,
    /// What devices were measured to do, by name.
    pub(super) peaks: BTreeMap<String, Peak>,
    /// The last benchmark of this machine.
    pub(super) benchmark: Option<Report>,
}

impl Settings {
    /// What the device of this run was measured to do.
    pub(super) fn peak_of(&self, run: Option<&Recording>) -> Option<Peak> {
        self.peaks.get(&run?.run.as_ref()?.start.device).copied()
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            language: Language::of_desktop(),
            page: Page::Curves,
            list_open: None,
            runs_chosen: Remembered::new(),
            curves: CurveSettings::default(),
            histograms: HistogramSettings::default(),
            runs: RunSettings::default(),
            kernels_by_time: false,
            mask_opacity: 0.5,
            peaks: BTreeMap::new(),
            benchmark: None,
        }
    }
}
