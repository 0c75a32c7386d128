//! What the time of a run goes to, and what to try.

use std::fmt;

use crate::stage::Stage;

use super::StageReport;

/// Loading, augmenting, batching and uploading should cost a step nothing, as they run ahead of it, and logging little;
/// this part of the time is where that is no longer so.
const TOO_MUCH: f64 = 0.05;
const FEEDING: [Stage; 4] = [Stage::Load, Stage::Augment, Stage::Batch, Stage::Upload];

/// Of what training waits for its data, that much is work at the least; else the loader's threads wait, too.
const MIN_WORK: f64 = 0.25;
const CROWDED: &str = "fewer programs beside it: the loader's threads wait for a processor that is free";

const WAITING: &str = "training waits for its data {} of the time, most for {}";
const TRAINING: &str = "the device is busy with training, {} of the time with {}";
const BESIDE: &str = "training waits {} of the time for {}";

/// What binds a run. As text: one sentence.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Binding {
    /// What is so, with `{}` for the share and for the stage.
    pub said: &'static str,
    /// Part of the time.
    pub share: f64,
    /// What it goes to.
    pub stage: Stage,
    /// What to try.
    pub advice: &'static str,
}

impl Binding {
    /// What is so and what to try if this stage binds. Advice costs no exactness that its user would not be told of.
    fn texts(stage: Stage) -> (&'static str, &'static str) {
        match stage {
            Stage::Load | Stage::Batch => (WAITING, "more --workers, --cache if memory allows, or smaller pictures"),
            Stage::Augment => (WAITING, "more --workers, or --augment-on device"),
            Stage::Upload => (WAITING, "smaller pictures, or a larger --batch-size"),
            Stage::Forward | Stage::Backward => (
                TRAINING,
                "another --device, --precision f16 where the device computes in it, or a larger --batch-size if memory allows",
            ),
            Stage::Loss => (TRAINING, "a larger --batch-size, which gives its small kernels more to do"),
            Stage::Update => (TRAINING, "a larger --batch-size, which needs fewer updates, or --optimizer sgd"),
            Stage::Evaluate => {
                (BESIDE, "fewer --epochs, as each of them ends with an evaluation, or fewer held-out samples")
            }
            Stage::Log => (BESIDE, "--tensorboard=false, or a larger --log-every"),
        }
    }

    /// All that may be said, for those who translate it.
    #[cfg(all(test, feature = "ui"))]
    pub(crate) fn all_texts() -> impl Iterator<Item = &'static str> {
        Stage::ALL.into_iter().map(Self::texts).flat_map(|(said, advice)| [said, advice]).chain([CROWDED])
    }

    /// The share as people read it.
    pub fn percent(&self) -> String {
        format!("{:.0} %", 100.0 * self.share)
    }
}

impl fmt::Display for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = self.said.replacen("{}", &self.percent(), 1).replacen("{}", self.stage.name(), 1);
        write!(f, "{said}: try {}", self.advice)
    }
}

/// What the time of a run went to, and what to try; `None` if nothing was run.
pub fn what_binds(stages: &[StageReport]) -> Option<Binding> {
    let largest = |of: &[Stage]| {
        let of = of.iter().filter_map(|stage| stages.iter().find(|report| report.stage == *stage));
        of.max_by(|a, b| a.share.total_cmp(&b.share)).filter(|report| report.share > 0.0)
    };
    let feeding = || stages.iter().filter(|report| FEEDING.contains(&report.stage));
    let fed: f64 = feeding().map(|report| report.share).sum();
    let [worked, waited] = [|report: &StageReport| report.busy_ms, |report: &StageReport| report.exposed_ms]
        .map(|of| feeding().map(of).sum::<f64>());
    let logged = largest(&[Stage::Log]).map_or(0.0, |report| report.share);
    let is_waiting = fed >= TOO_MUCH && fed >= logged;
    let most = match () {
        () if is_waiting => largest(&FEEDING),
        () if logged >= TOO_MUCH => largest(&[Stage::Log]),
        () => largest(&Stage::ALL),
    }?;
    let (said, advice) = match Binding::texts(most.stage) {
        (said, _) if is_waiting && worked < MIN_WORK * waited => (said, CROWDED),
        texts => texts,
    };
    Some(Binding { said, share: if is_waiting { fed } else { most.share }, stage: most.stage, advice })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binds(stage: Stage, part: f64) -> Binding {
        let report = |of: Stage| {
            let share = if of == stage { part } else { 0.0 };
            let share = if of == Stage::Forward { share + 1.0 - part } else { share };
            StageReport { stage: of, busy_ms: share, exposed_ms: share, share, device: String::new(), source: None }
        };
        what_binds(&Stage::ALL.map(report)).expect("something was run")
    }

    #[test]
    fn what_binds_is_named_with_what_to_try() {
        let said = binds(Stage::Augment, 0.25).to_string();
        assert!(said.contains("25 % of the time, most for augment: try more --workers"), "{said}");
        let said = binds(Stage::Load, 0.01).to_string();
        assert!(said.contains("99 % of the time with forward: try another --device"), "{said}");
        let said = binds(Stage::Log, 0.06).to_string();
        assert!(said.contains("6 % of the time for log"), "{said}");
        assert!(binds(Stage::Log, 1.0).advice.contains("--log-every"));
        assert_eq!(binds(Stage::Evaluate, 0.6).stage, Stage::Evaluate);
        let mut stages = [(Stage::Load, 0.06), (Stage::Forward, 0.5), (Stage::Log, 0.44)].map(|(stage, share)| {
            StageReport { stage, busy_ms: share, exposed_ms: share, share, device: String::new(), source: None }
        });
        assert_eq!(
            what_binds(&stages).map(|binding| binding.stage),
            Some(Stage::Log),
            "the larger of both that hold it up"
        );
        stages[0].share = 0.45;
        assert_eq!(what_binds(&stages).map(|binding| binding.stage), Some(Stage::Load));
        stages[0].busy_ms = 0.001;
        assert_eq!(what_binds(&stages).map(|binding| binding.advice), Some(CROWDED), "more threads would wait as well");
        assert_eq!(what_binds(&[]), None);
        assert!(Stage::ALL.map(Binding::texts).iter().all(|(said, _)| said.matches("{}").count() == 2));
    }
}
