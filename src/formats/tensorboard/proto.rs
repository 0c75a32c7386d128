//! The messages of event files, as far as they are written and read here: field numbers and types are those of
//! TensorFlow's `event.proto`, `summary.proto`, `histogram.proto`, `graph.proto` and of TensorBoard's `hparams` plugin.

use std::collections::BTreeMap;

use prost::{Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub(super) struct Event {
    /// Seconds since 1970.
    #[prost(double, tag = "1")]
    pub wall_time: f64,
    #[prost(int64, tag = "2")]
    pub step: i64,
    #[prost(oneof = "What", tags = "3, 4, 5, 7")]
    pub what: Option<What>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum What {
    #[prost(string, tag = "3")]
    FileVersion(String),
    /// An encoded [`GraphDef`].
    #[prost(bytes, tag = "4")]
    GraphDef(Vec<u8>),
    #[prost(message, tag = "5")]
    Summary(Summary),
    #[prost(message, tag = "7")]
    SessionLog(SessionLog),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SessionLog {
    /// 1 is the start of a session: TensorBoard drops what an earlier one wrote for this step and later ones.
    #[prost(int32, tag = "1")]
    pub status: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Summary {
    #[prost(message, repeated, tag = "1")]
    pub value: Vec<Value>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Value {
    #[prost(string, tag = "1")]
    pub tag: String,
    #[prost(message, optional, tag = "9")]
    pub metadata: Option<SummaryMetadata>,
    #[prost(oneof = "ValueKind", tags = "2, 4, 5")]
    pub value: Option<ValueKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum ValueKind {
    #[prost(float, tag = "2")]
    Simple(f32),
    #[prost(message, tag = "4")]
    Image(Image),
    #[prost(message, tag = "5")]
    Histogram(HistogramProto),
}

/// What is read of an [`Event`]; all else is passed over.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ReadEvent {
    #[prost(double, tag = "1")]
    pub wall_time: f64,
    #[prost(int64, tag = "2")]
    pub step: i64,
    /// A [`Summary`], whose values are taken one by one.
    #[prost(bytes = "vec", tag = "5")]
    pub summary: Vec<u8>,
    #[prost(message, optional, tag = "7")]
    pub session_log: Option<SessionLog>,
}

/// What is read of a [`Value`].
#[derive(Clone, PartialEq, Message)]
pub(super) struct ReadValue {
    #[prost(string, tag = "1")]
    pub tag: String,
    #[prost(float, optional, tag = "2")]
    pub simple: Option<f32>,
    #[prost(message, optional, tag = "5")]
    pub histogram: Option<HistogramProto>,
    #[prost(message, optional, tag = "8")]
    pub tensor: Option<TensorProto>,
    #[prost(message, optional, tag = "9")]
    pub metadata: Option<SummaryMetadata>,
}

/// A tensor of numbers.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TensorProto {
    /// 1 is f32, 2 is f64.
    #[prost(int32, tag = "1")]
    pub dtype: i32,
    /// The numbers as they lie in memory, little endian, if they are not in one of the lists.
    #[prost(bytes = "vec", tag = "4")]
    pub content: Vec<u8>,
    #[prost(float, repeated, tag = "5")]
    pub floats: Vec<f32>,
    #[prost(double, repeated, tag = "6")]
    pub doubles: Vec<f64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SummaryMetadata {
    #[prost(message, optional, tag = "1")]
    pub plugin_data: Option<PluginData>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PluginData {
    #[prost(string, tag = "1")]
    pub plugin_name: String,
    #[prost(bytes = "vec", tag = "2")]
    pub content: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Image {
    #[prost(int32, tag = "1")]
    pub height: i32,
    #[prost(int32, tag = "2")]
    pub width: i32,
    /// 1 is grey, 3 is RGB.
    #[prost(int32, tag = "3")]
    pub colorspace: i32,
    #[prost(bytes = "vec", tag = "4")]
    pub encoded: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct HistogramProto {
    #[prost(double, tag = "1")]
    pub min: f64,
    #[prost(double, tag = "2")]
    pub max: f64,
    #[prost(double, tag = "3")]
    pub num: f64,
    #[prost(double, tag = "4")]
    pub sum: f64,
    #[prost(double, tag = "5")]
    pub sum_squares: f64,
    #[prost(double, repeated, tag = "6")]
    pub bucket_limit: Vec<f64>,
    #[prost(double, repeated, tag = "7")]
    pub bucket: Vec<f64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct GraphDef {
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<NodeDef>,
    #[prost(message, optional, tag = "4")]
    pub versions: Option<VersionDef>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct VersionDef {
    #[prost(int32, tag = "1")]
    pub producer: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct NodeDef {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub op: String,
    #[prost(string, repeated, tag = "3")]
    pub input: Vec<String>,
    #[prost(string, tag = "4")]
    pub device: String,
    #[prost(btree_map = "string, message", tag = "5")]
    pub attr: BTreeMap<String, AttrValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AttrValue {
    #[prost(oneof = "Attr", tags = "1, 2")]
    pub value: Option<Attr>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Attr {
    #[prost(message, tag = "1")]
    List(ListValue),
    #[prost(bytes, tag = "2")]
    Text(Vec<u8>),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ListValue {
    #[prost(message, repeated, tag = "7")]
    pub shape: Vec<TensorShape>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TensorShape {
    #[prost(message, repeated, tag = "2")]
    pub dim: Vec<Dim>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Dim {
    #[prost(int64, tag = "1")]
    pub size: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct HParamsData {
    #[prost(int32, tag = "1")]
    pub version: i32,
    #[prost(oneof = "HParams", tags = "2, 3, 4")]
    pub data: Option<HParams>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum HParams {
    #[prost(message, tag = "2")]
    Experiment(Experiment),
    #[prost(message, tag = "3")]
    Start(SessionStart),
    #[prost(message, tag = "4")]
    End(SessionEnd),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Experiment {
    #[prost(message, repeated, tag = "5")]
    pub hparam_infos: Vec<HParamInfo>,
    #[prost(message, repeated, tag = "6")]
    pub metric_infos: Vec<MetricInfo>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct HParamInfo {
    #[prost(string, tag = "1")]
    pub name: String,
    /// 1 is text, 2 a truth value, 3 a number.
    #[prost(int32, tag = "4")]
    pub data_type: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct MetricInfo {
    #[prost(message, optional, tag = "1")]
    pub name: Option<MetricName>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct MetricName {
    #[prost(string, tag = "2")]
    pub tag: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SessionStart {
    #[prost(btree_map = "string, message", tag = "1")]
    pub hparams: BTreeMap<String, Any>,
    #[prost(string, tag = "4")]
    pub group_name: String,
    #[prost(double, tag = "5")]
    pub start_time_secs: f64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SessionEnd {
    /// 1 is success, 2 failure.
    #[prost(int32, tag = "1")]
    pub status: i32,
    #[prost(double, tag = "2")]
    pub end_time_secs: f64,
}

/// `google.protobuf.Value`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Any {
    #[prost(oneof = "AnyKind", tags = "2, 3, 4")]
    pub kind: Option<AnyKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum AnyKind {
    #[prost(double, tag = "2")]
    Number(f64),
    #[prost(string, tag = "3")]
    Text(String),
    #[prost(bool, tag = "4")]
    Truth(bool),
}
