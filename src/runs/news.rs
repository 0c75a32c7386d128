//! What was read, on its way into a recording: it is read without holding a lock, and taken in under one.

use std::collections::BTreeMap;

use crate::train::record::{Kind, Line, PlanRecord, Predictions, RunRecord, Status};
use crate::train::{Confusion, Residuals, Score};

use super::{Point, RecordedHistogram, Recording, Series};

/// Histograms kept of a tag.
const MAX_HISTOGRAMS: usize = 200;

/// What an evaluation tells of a part of the data.
macro_rules! judged {
    ($part:literal) => {
        [
            concat!("loss/", $part),
            concat!("accuracy/", $part),
            concat!("r2/", $part),
            concat!($part, "/top5"),
            concat!($part, "/mean_iou"),
            concat!($part, "/mean_f1"),
            concat!($part, "/mean_precision"),
            concat!($part, "/mean_recall"),
            concat!($part, "/micro_f1"),
            concat!($part, "/perplexity"),
            concat!($part, "/rmse"),
            concat!($part, "/mae"),
        ]
    };
}
const TRAIN: [&str; 7] = [
    "loss/train",
    "accuracy/train",
    "r2/train",
    "learning_rate",
    "samples_per_second",
    "gradient_norm",
    "memory_bytes",
];
const EPOCH: [&str; 6] =
    ["epoch/loss", "epoch/accuracy", "epoch/r2", "epoch/skipped_steps", "epoch/loss_scale", "epoch/joules"];
const VALIDATION: [&str; 12] = judged!("validation");
const TEST: [&str; 12] = judged!("test");
/// What lines of `metrics.jsonl` tell of, by [`Kind`] in its order, with the tags that they have in our event files as well.
const TAGS: [&[&str]; 4] = [&TRAIN, &EPOCH, &VALIDATION, &TEST];

/// What a folder's files say that was not known before.
#[derive(Debug, Default)]
pub(super) struct News {
    /// There may be more to read.
    pub(super) more: bool,
    /// What was read before is void.
    pub(super) restart: bool,
    pub(super) config: Option<toml::Table>,
    pub(super) run: Option<RunRecord>,
    pub(super) status: Option<Status>,
    pub(super) plan: Option<PlanRecord>,
    pub(super) predictions: Option<Predictions>,
    pub(super) confusion: Option<Confusion>,
    /// Of a run that is silent, whether its folder is locked.
    pub(super) held: Option<bool>,
    /// All problems, if they are others than before.
    pub(super) problems: Option<Vec<String>>,
    /// From event files, what was known of this step and later ones is void.
    pub(super) cut: Option<u64>,
    pub(super) residuals: Option<Residuals>,
    /// From lines, in the order of [`TAGS`]; none of a kind of which there was no line.
    pub(super) measured: [Vec<Series>; TAGS.len()],
    /// From event files.
    pub(super) scalars: BTreeMap<String, Series>,
    pub(super) histograms: BTreeMap<String, Vec<RecordedHistogram>>,
}

impl News {
    /// A line of `metrics.jsonl`; `epoch` epochs are done at its step, if that can be told more exactly than by the
    /// line.
    pub(super) fn line(&mut self, line: &Line, epoch: Option<f32>) {
        let passes = line.epoch as f32;
        let epoch = epoch.unwrap_or(if line.kind == Kind::Train { passes - 1.0 } else { passes });
        let mut push = |values: &[Option<f64>]| {
            let series = &mut self.measured[line.kind as usize];
            series.resize_with(TAGS[line.kind as usize].len(), Series::default);
            debug_assert_eq!(values.len(), series.len(), "a value for each tag");
            for (series, value) in series.iter_mut().zip(values) {
                if let Some(value) = *value {
                    series.push(Point { step: line.step, epoch, seconds: line.elapsed_s, value });
                }
            }
        };
        let loss = Some(line.loss);
        let [accuracy, r2] = match line.score {
            Score::Accuracy(part) => [Some(part), None],
            Score::R2(part) => [None, Some(part)],
        };
        match line.kind {
            Kind::Train => {
                let bytes = line.memory_bytes.map(|bytes| bytes as f64);
                push(&[loss, accuracy, r2, Some(line.lr), line.samples_per_second, line.gradient_norm, bytes]);
            }
            Kind::Epoch => {
                let skipped_steps = line.skipped_steps.map(f64::from);
                push(&[loss, accuracy, r2, skipped_steps, line.loss_scale, line.joules]);
            }
            Kind::Validation | Kind::Test => {
                let mean = |of: fn(&crate::train::MeanScores) -> f64| line.mean.as_ref().map(of);
                let judged = [
                    loss,
                    accuracy,
                    r2,
                    line.top5,
                    mean(|mean| mean.iou),
                    mean(|mean| mean.f1),
                    mean(|mean| mean.precision),
                    mean(|mean| mean.recall),
                    line.micro.map(|micro| micro.f1),
                    line.perplexity,
                    line.rmse,
                    line.mae,
                ];
                push(&judged);
            }
        }
    }

    /// A number of an event file.
    pub(super) fn scalar(&mut self, tag: String, point: Point) {
        self.scalars.entry(tag).or_default().push(point);
    }

    /// A histogram of an event file.
    pub(super) fn histogram(&mut self, tag: String, histogram: RecordedHistogram) {
        keep(self.histograms.entry(tag).or_default(), histogram);
    }

    /// What event files said of this step and later ones is void.
    pub(super) fn cut(&mut self, step: u64) {
        self.cut = Some(self.cut.map_or(step, |cut| cut.min(step)));
        self.scalars.values_mut().for_each(|series| series.cut(step));
        self.histograms.values_mut().for_each(|list| list.retain(|histogram| histogram.step < step));
    }
}

impl Recording {
    /// Takes in what was read.
    pub(super) fn apply(&mut self, news: News) {
        let mut changed = news.restart;
        if news.restart {
            let Self { folder, place, name, begun_unix_ms, problems, version, reader, .. } = std::mem::take(self);
            *self = Self { folder, place, name, begun_unix_ms, problems, version, reader, ..Self::default() };
        }
        changed |= set(&mut self.config, news.config);
        changed |= set(&mut self.run, news.run);
        changed |= set(&mut self.status, news.status);
        changed |= set(&mut self.plan, news.plan);
        let predicted = set(&mut self.predictions, news.predictions);
        changed |= predicted;
        changed |= set(&mut self.confusion, news.confusion);
        changed |= set(&mut self.residuals, news.residuals);
        changed |= std::mem::replace(&mut self.held, news.held) != news.held;
        if let Some(problems) = news.problems {
            changed |= self.problems != problems;
            self.problems = problems;
        }
        if let Some(step) = news.cut {
            let others = self.series.iter_mut().filter(|(tag, _)| !self.measured.contains(*tag));
            others.for_each(|(_, series)| series.cut(step));
            self.histograms.values_mut().for_each(|list| list.retain(|histogram| histogram.step < step));
            changed = true;
        }
        let measured = TAGS.into_iter().zip(news.measured).flat_map(|(tags, series)| tags.iter().copied().zip(series));
        for (tag, series) in measured.filter(|(_, series)| !series.is_empty()) {
            changed = true;
            if self.measured.insert(tag.to_owned()) {
                // event files were read first, and say the same
                self.series.remove(tag);
            }
            self.series.entry(tag.to_owned()).or_default().append(series);
        }
        for (tag, series) in news.scalars {
            if !self.measured.contains(&tag) && !series.is_empty() {
                changed = true;
                self.series.entry(tag).or_default().append(series);
            }
        }
        for (tag, list) in news.histograms {
            changed |= !list.is_empty();
            let known = self.histograms.entry(tag).or_default();
            list.into_iter().for_each(|histogram| keep(known, histogram));
        }
        self.version += u64::from(changed);
        if predicted {
            self.predictions_version = self.version;
        }
    }
}

fn set<T>(place: &mut Option<T>, value: Option<T>) -> bool {
    let there = value.is_some();
    if there {
        *place = value;
    }
    there
}

/// Adds a histogram, and drops one if there are too many: the one whose neighbours are nearest to each other, which
/// leaves all about evenly spaced, the first and the last among them.
fn keep(list: &mut Vec<RecordedHistogram>, histogram: RecordedHistogram) {
    list.push(histogram);
    if list.len() > MAX_HISTOGRAMS {
        let gap = |&place: &usize| list[place + 1].step.abs_diff(list[place - 1].step);
        if let Some(place) = (1..list.len() - 1).min_by_key(gap) {
            list.remove(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_thin_out_evenly() {
        let mut list = Vec::new();
        for step in 0..5_000 {
            keep(&mut list, RecordedHistogram { step, seconds: 0.0, buckets: Vec::new() });
        }
        assert_eq!((list.len(), list[0].step, list[199].step), (200, 0, 4_999));
        let gaps: Vec<u64> = list.windows(2).map(|two| two[1].step - two[0].step).collect();
        // 25 would be even; the least of two neighbours together is dropped, so two are no less than 16
        assert!(gaps.windows(2).all(|two| (16..=80).contains(&(two[0] + two[1]))), "{gaps:?}");
    }

    #[test]
    fn each_kind_of_line_fills_its_tags() {
        let line = |kind| Line {
            kind,
            step: 10,
            epoch: 3,
            loss: 1.0,
            score: Score::Accuracy(2.0),
            lr: 3.0,
            elapsed_s: 0.5,
            samples_per_second: Some(4.0),
            gradient_norm: Some(5.0),
            memory_bytes: Some(6),
            top5: Some(7.0),
            perplexity: Some(12.0),
            mean: Some(crate::train::MeanScores { precision: 8.0, recall: 9.0, f1: 10.0, iou: 11.0 }),
            skipped_steps: Some(12),
            loss_scale: Some(13.0),
            joules: Some(14.0),
            micro: Some(crate::train::MicroScores { f1: 13.0, ..Default::default() }),
            rmse: Some(14.0),
            mae: Some(15.0),
        };
        let mut news = News::default();
        news.line(&line(Kind::Train), Some(2.5));
        news.line(&line(Kind::Epoch), None);
        news.line(&line(Kind::Test), None);
        news.line(&Line { step: 11, ..line(Kind::Validation) }, None);
        let mut recording = Recording::default();
        recording.apply(news);
        let value = |tag: &str| recording.series[tag].last().map(|point| (point.step, point.epoch, point.value));
        let train =
            ["loss/train", "accuracy/train", "learning_rate", "samples_per_second", "gradient_norm", "memory_bytes"];
        for (tag, expected) in train.into_iter().zip(1..) {
            assert_eq!(value(tag), Some((10, 2.5, f64::from(expected))), "{tag}");
        }
        let test = [
            ("epoch/loss", 1.0),
            ("epoch/accuracy", 2.0),
            ("epoch/skipped_steps", 12.0),
            ("epoch/loss_scale", 13.0),
            ("epoch/joules", 14.0),
            ("loss/test", 1.0),
            ("accuracy/test", 2.0),
            ("test/top5", 7.0),
            ("test/mean_precision", 8.0),
            ("test/mean_recall", 9.0),
            ("test/mean_f1", 10.0),
            ("test/mean_iou", 11.0),
            ("test/perplexity", 12.0),
            ("test/micro_f1", 13.0),
            ("test/rmse", 14.0),
            ("test/mae", 15.0),
        ];
        for (tag, expected) in test {
            assert_eq!(value(tag), Some((10, 3.0, expected)), "{tag}");
        }
        for (tag, expected) in test.into_iter().filter(|(tag, _)| tag.contains("test")) {
            assert_eq!(value(&tag.replace("test", "validation")), Some((11, 3.0, expected)), "{tag}");
        }
        let of_numbers = ["r2/train", "epoch/r2", "r2/validation", "r2/test"];
        assert_eq!(recording.series.len() + of_numbers.len(), TAGS.iter().map(|tags| tags.len()).sum::<usize>());
        let mut news = News::default();
        for kind in [Kind::Train, Kind::Epoch, Kind::Validation, Kind::Test] {
            news.line(&Line { score: Score::R2(0.5), ..line(kind) }, None);
        }
        let mut recording = Recording::default();
        recording.apply(news);
        for tag in of_numbers {
            assert_eq!(recording.series[tag].last().map(|point| point.value), Some(0.5), "{tag}");
        }
        assert!(!recording.series.keys().any(|tag| tag.contains("accuracy")));
    }
}
