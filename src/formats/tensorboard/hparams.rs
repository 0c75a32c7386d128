//! The settings of a run, for TensorBoard's page that compares runs by them.

use prost::Message as _;

use super::proto::{
    Any, AnyKind, Experiment, HParamInfo, HParams, HParamsData, MetricInfo, MetricName, PluginData, SessionEnd,
    SessionStart, SummaryMetadata, Value,
};

/// The value of a setting.
#[derive(Clone, PartialEq, Debug)]
pub enum Setting {
    /// A number.
    Number(f64),
    /// Words.
    Text(String),
    /// Yes or no.
    Truth(bool),
}

impl Setting {
    fn kind(&self) -> (AnyKind, i32) {
        match self {
            Self::Text(text) => (AnyKind::Text(text.clone()), 1),
            Self::Truth(truth) => (AnyKind::Truth(*truth), 2),
            Self::Number(number) => (AnyKind::Number(*number), 3),
        }
    }
}

/// What there are for settings and metrics, and which settings this run has.
pub(super) fn beginning(settings: &[(String, Setting)], metrics: &[&str], start_time_secs: f64) -> [Value; 2] {
    let info = |(name, setting): &(String, Setting)| HParamInfo { name: name.clone(), data_type: setting.kind().1 };
    let metric = |tag: &&str| MetricInfo { name: Some(MetricName { tag: (*tag).to_owned() }) };
    let experiment = Experiment {
        hparam_infos: settings.iter().map(info).collect(),
        metric_infos: metrics.iter().map(metric).collect(),
    };
    let hparams = settings.iter().map(|(name, value)| (name.clone(), Any { kind: Some(value.kind().0) })).collect();
    let start = SessionStart { hparams, group_name: String::new(), start_time_secs };
    [value("experiment", HParams::Experiment(experiment)), value("session_start_info", HParams::Start(start))]
}

/// That the run is over.
pub(super) fn end(success: bool, end_time_secs: f64) -> Value {
    value("session_end_info", HParams::End(SessionEnd { status: if success { 1 } else { 2 }, end_time_secs }))
}

fn value(tag: &str, data: HParams) -> Value {
    let content = HParamsData { version: 0, data: Some(data) }.encode_to_vec();
    let plugin_data = Some(PluginData { plugin_name: "hparams".into(), content });
    Value { tag: format!("_hparams_/{tag}"), metadata: Some(SummaryMetadata { plugin_data }), value: None }
}
