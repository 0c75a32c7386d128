//! What a run does beside its steps: checkpoints, the weights of the best evaluation, evaluations that are asked for.

use std::path::Path;
use std::time::Duration;

use brasa::train::{
    Callback, Config, Context, Control, Event, ModelName, StepMetrics, Summary, Tally, TestMetrics, Trainer,
};
use brasa::{Error, Result};

use crate::common::checkpoints;

/// A short run of a small network on the digits, of 23 steps in a pass.
fn settings(out: &Path, name: &str) -> Config {
    Config {
        model: ModelName::new("mlp").expect("a model of that name"),
        epochs: 2,
        batch_size: 64,
        device: Some("cpu".into()),
        out: out.into(),
        name: Some(name.into()),
        log_every: 1,
        ..Config::default()
    }
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

#[test]
fn a_checkpoint_that_is_due_at_the_last_step_of_a_pass_is_written_behind_it() {
    let out = folder();
    let every = "45".parse().expect("steps");
    let config = Config { batch_size: 32, epochs: 4, keep: 20, save_every: every, ..settings(out.path(), "run") };
    Trainer::new(config).expect("good settings").run(&Control::default(), &mut |_| {}).expect("a run");
    let expected = [45, 90, 135, 180].map(|step| format!("step-{step:08}.safetensors"));
    assert_eq!(checkpoints(&out.path().join("run")), expected);
}

/// Learns nothing more after the first pass; `between` is called behind its evaluation.
fn best_of_first_pass(config: Config, mut between: impl FnMut(&Path)) -> (Result<Summary>, Vec<Event>) {
    let run = config.out.join(config.name.as_deref().expect("a name"));
    let control = Control::default();
    let (asked, mut events) = (control.clone(), Vec::new());
    let summary = Trainer::new(config).expect("good settings").run(&control, &mut |event| {
        match &event {
            Event::Started(_) if run.ends_with("hindered") || run.ends_with("stuck") => {
                std::fs::create_dir_all(run.join("best.safetensors/in the way")).expect("writable");
            }
            Event::Evaluated { epoch: 1, .. } => {
                asked.set_learning_rate_factor(1e3);
                between(&run);
            }
            _ => {}
        }
        events.push(event);
    });
    (summary, events)
}

#[test]
fn weights_of_the_best_evaluation_that_could_not_be_written_are_written_later() {
    let out = folder();
    let best = |name: &str| std::fs::read(out.path().join(name).join("best.safetensors")).expect("weights");
    let clear = |run: &Path| std::fs::remove_dir_all(run.join("best.safetensors")).expect("it is there");
    let failures = |events: &[Event]| {
        let of_best =
            |event: &&Event| matches!(event, Event::SaveFailed { message } if message.contains("best.safetensors"));
        events.iter().filter(of_best).count()
    };

    let (plain, events) = best_of_first_pass(settings(out.path(), "plain"), |_| {});
    let scores = plain.map(|summary| [summary.best, summary.test].map(|test| test.expect("evaluated").score()));
    assert!(scores.as_ref().is_ok_and(|[best, last]| best > last), "the second pass is no better: {scores:?}");
    assert_eq!(failures(&events), 0);
    let (hindered, events) = best_of_first_pass(settings(out.path(), "hindered"), clear);
    assert!(hindered.is_ok() && failures(&events) == 1, "{hindered:?}: {events:?}");
    assert!(best("hindered") == best("plain"), "the weights are those of the best evaluation");

    // what never could be written is an error in the end, behind everything else; the run that goes on knows of no best
    // one
    let (stuck, events) = best_of_first_pass(settings(out.path(), "stuck"), |_| {});
    let error = stuck.expect_err("no weights").to_string();
    assert!(error.contains("best.safetensors") && failures(&events) == 1, "{error}: {events:?}");
    let run = out.path().join("stuck");
    assert_eq!(checkpoints(&run), ["step-00000046.safetensors"]);
    assert!(run.join("model.safetensors").is_file());
    clear(&run);
    let config = Config { epochs: 3, ..settings(out.path(), "stuck") };
    let resumed = Trainer::resume(&run, config).expect("a checkpoint").run(&Control::default(), &mut |_| {});
    let summary = resumed.expect("a run");
    assert_eq!(summary.best.map(|test| test.loss), summary.test.map(|test| test.loss));
    assert!(best("stuck") == std::fs::read(run.join("model.safetensors")).expect("weights"));
}

/// Asks for an evaluation and a checkpoint at the third step, both of which take long.
struct Slow {
    control: Control,
    takes: Duration,
}

impl Callback for Slow {
    fn on_train_batch_end(&mut self, _run: &mut Context<'_>, step: &StepMetrics) -> Result<()> {
        if step.step == 3 {
            self.control.evaluate();
            self.control.save();
        }
        Ok(())
    }
    fn on_test_end(&mut self, run: &mut Context<'_>, _test: &TestMetrics, _tally: &Tally) -> Result<()> {
        if run.mid_epoch() {
            std::thread::sleep(self.takes);
        }
        Ok(())
    }
    fn on_save(&mut self, _run: &mut Context<'_>, checkpoint: &Path) -> Result<()> {
        std::thread::sleep(self.takes);
        if checkpoint.exists() { Ok(()) } else { Err(Error::Config("it is told before it is there".into())) }
    }
}

#[test]
fn what_is_asked_for_within_a_pass_does_not_make_it_slower() {
    let out = folder();
    let (control, takes) = (Control::default(), Duration::from_secs(2));
    let mut trainer = Trainer::new(Config { epochs: 1, ..settings(out.path(), "run") }).expect("good settings");
    trainer.add_callback(Slow { control: control.clone(), takes });
    let (mut evaluated, mut speeds) = (0, Vec::new());
    let summary = trainer.run(&control, &mut |event| match event {
        Event::Evaluated { mid_epoch: true, .. } => evaluated += 1,
        Event::Step(step) => speeds.push((step.step * 64, step.samples_per_second)),
        Event::Epoch(epoch) => speeds.push((1438, epoch.samples_per_second)),
        _ => {}
    });
    assert_eq!(evaluated, 1);
    assert!(summary.expect("a run").seconds > 3.0 * takes.as_secs_f64(), "of the run, they are part");
    for (samples, speed) in speeds {
        let seconds = samples as f64 / speed;
        assert!(seconds < takes.as_secs_f64(), "{samples} samples in {seconds} s");
    }
}

#[test]
fn it_is_told_when_the_last_evaluation_was() {
    let out = folder();
    let config = settings(out.path(), "run");
    // evaluates behind the first of these steps, and stops behind the second
    let run = |trainer: Trainer, [evaluate, stop]: [usize; 2]| {
        let control = Control::default();
        let asked = control.clone();
        let summary = trainer.run(&control, &mut |event| match event {
            Event::Step(step) if step.step == evaluate => asked.evaluate(),
            Event::Step(step) if step.step == stop => asked.stop(),
            _ => {}
        });
        let summary = summary.expect("a run");
        assert!(summary.test.is_some());
        (summary.completed, summary.test_mid_epoch.is_some_and(|step| step < 10), summary.test_mid_epoch)
    };
    let (completed, is_early, first) = run(Trainer::new(config.clone()).expect("good settings"), [3, 12]);
    assert!(!completed && is_early, "{first:?}");
    let resumed = || Trainer::resume(&out.path().join("run"), config.clone()).expect("a checkpoint");
    assert_eq!(run(resumed(), [0, 16]), (false, true, first), "the run that goes on knows it");
    assert_eq!(run(resumed(), [0, 30]), (false, false, None), "behind a whole pass");
    assert_eq!(run(resumed(), [35, 0]), (true, false, None));
}
