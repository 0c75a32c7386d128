//! What callbacks and users ask of a run on its way.

use std::path::Path;
use std::sync::{Arc, Mutex};

use brasa::train::record::{self, Kind, Line, RunState, Status};
use brasa::train::{
    Callback, Config, Context, Control, EpochMetrics, Event, Start, StepMetrics, Summary, Tally, TestMetrics, Trainer,
};
use brasa::{Device, Result};

use crate::common;

use super::{StopAt, file, folder, lines, run, settings, train, weights};

/// Writes down when it is called.
struct Diary(Arc<Mutex<Vec<String>>>);

impl Diary {
    fn note(&self, what: impl Into<String>) -> Result<()> {
        self.0.lock().expect("nobody panicked").push(what.into());
        Ok(())
    }
}

impl Callback for Diary {
    fn on_train_begin(&mut self, _run: &mut Context<'_>, start: &Start) -> Result<()> {
        self.note(format!("begin {}", start.epochs))
    }
    fn on_epoch_begin(&mut self, _run: &mut Context<'_>, epoch: usize) -> Result<()> {
        self.note(format!("epoch {epoch}"))
    }
    fn on_train_batch_begin(&mut self, run: &mut Context<'_>, step: usize) -> Result<()> {
        assert!((run.steps() as usize) < step);
        if step <= 2 { self.note(format!("step {step} begins")) } else { Ok(()) }
    }
    fn on_train_batch_end(&mut self, run: &mut Context<'_>, step: &StepMetrics) -> Result<()> {
        if step.step == 2 {
            run.save();
            run.set_learning_rate_factor(0.5);
        }
        if step.step <= 2 { self.note(format!("step {}", step.step)) } else { Ok(()) }
    }
    fn on_epoch_end(&mut self, _run: &mut Context<'_>, epoch: &EpochMetrics) -> Result<()> {
        self.note(format!("epoch {} ends", epoch.epoch))
    }
    fn on_test_begin(&mut self, _run: &mut Context<'_>) -> Result<()> {
        self.note("test begins")
    }
    fn on_test_batch_begin(&mut self, _run: &mut Context<'_>, batch: usize) -> Result<()> {
        if batch >= 5 { self.note(format!("batch {batch} begins")) } else { Ok(()) }
    }
    fn on_test_batch_end(&mut self, _run: &mut Context<'_>, batch: usize) -> Result<()> {
        if batch >= 5 { self.note(format!("batch {batch}")) } else { Ok(()) }
    }
    fn on_test_end(&mut self, run: &mut Context<'_>, _test: &TestMetrics, _tally: &Tally) -> Result<()> {
        run.stop("the diary is full");
        self.note("test")
    }
    fn on_save(&mut self, _run: &mut Context<'_>, checkpoint: &Path) -> Result<()> {
        assert!(checkpoint.exists());
        self.note("saved")
    }
    fn on_train_end(&mut self, _run: &mut Context<'_>, summary: &Summary) -> Result<()> {
        self.note(format!("end {:?}", summary.stopped))
    }
}

#[test]
fn callbacks_are_called_in_order_and_steer_the_run() {
    let (out, device) = (folder(), Device::cpu());
    let notes = Arc::new(Mutex::new(Vec::new()));
    let config =
        Config { schedule: "constant".parse().expect("a schedule"), lr: Some(0.001), ..settings(&device, out.path()) };
    let mut trainer = Trainer::new(config).expect("good settings");
    trainer.add_callback(Diary(notes.clone()));
    let (summary, events) = train(trainer);
    let expected = [
        "begin 2",
        "epoch 1",
        "step 1 begins",
        "step 1",
        "step 2 begins",
        "step 2",
        "saved",
        "epoch 1 ends",
        "test begins",
        // 359 samples in batches of 64
        "batch 5 begins",
        "batch 5",
        "batch 6 begins",
        "batch 6",
        "test",
        "saved",
        "end Some(\"the diary is full\")",
    ];
    assert_eq!(*notes.lock().expect("nobody panicked"), expected);
    assert_eq!(summary.steps, 23, "it ended after one epoch");
    let rate = |event: &Event| if let Event::Step(step) = event { Some(step.learning_rate) } else { None };
    let rates: Vec<f64> = events.iter().filter_map(rate).collect();
    assert_eq!((rates[0], rates[22]), (0.001, 0.0005));
}

#[test]
fn a_callback_can_end_a_run_at_any_step() {
    let device = Device::cpu();
    // an epoch has 23 steps; with the last one it is complete, and judged
    for (step, is_judged) in [(2, false), (23, true), (25, true)] {
        let out = folder();
        let mut trainer = Trainer::new(settings(&device, out.path())).expect("good settings");
        trainer.add_callback(StopAt(step));
        let summary = train(trainer).0;
        assert_eq!((summary.steps, summary.stopped.as_deref()), (step, Some("it is time")));
        assert_eq!(summary.test.is_some(), is_judged, "stopped at step {step}");
    }
}

/// Asks before this step for a checkpoint and for the end.
struct StopBefore(usize);

impl Callback for StopBefore {
    fn on_train_batch_begin(&mut self, run: &mut Context<'_>, step: usize) -> Result<()> {
        if step == self.0 {
            run.save();
            run.stop("it is time");
        }
        Ok(())
    }
}

#[test]
fn what_is_asked_for_before_a_step_happens_behind_it() {
    for device in common::devices() {
        let out = folder();
        let config = Config { log_every: 10, ..settings(&device, out.path()) };
        let weights = |run: &Summary| std::fs::read(run.folder.join("model.safetensors")).expect("weights");
        let whole = run(config.clone()).0;
        let mut trainer = Trainer::new(config.clone()).expect("good settings");
        trainer.add_callback(StopBefore(14));
        let stopped = train(trainer).0;
        assert_eq!((stopped.steps, stopped.stopped.as_deref()), (14, Some("it is time")), "{device:?}");
        let (resumed, _) = train(Trainer::resume(&stopped.folder, config).expect("a checkpoint"));
        assert_eq!(weights(&resumed), weights(&whole), "{device:?}");
    }
}

/// At this step asks for everything that changes nothing, from another thread than the one that trains.
struct Disturb {
    at: usize,
    control: Control,
    folder: Option<std::path::PathBuf>,
}

impl Callback for Disturb {
    fn on_train_begin(&mut self, run: &mut Context<'_>, _start: &Start) -> Result<()> {
        self.folder = Some(run.folder().to_owned());
        Ok(())
    }
    fn on_train_batch_end(&mut self, _run: &mut Context<'_>, step: &StepMetrics) -> Result<()> {
        if step.step != self.at {
            return Ok(());
        }
        self.control.pause();
        let (control, folder) = (self.control.clone(), self.folder.clone().expect("training has begun"));
        std::thread::spawn(move || {
            let state = |wanted| {
                while file::<Status>(&folder, record::STATUS).state != wanted {
                    std::thread::sleep(std::time::Duration::from_millis(2));
                }
            };
            state(RunState::Paused);
            control.save();
            while !folder.join("model.safetensors").exists() {
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            control.evaluate();
            while !folder.join(record::CONFUSION).exists() {
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            control.resume();
        });
        Ok(())
    }
}

#[test]
fn a_run_that_pauses_saves_and_evaluates_learns_the_same_bits() {
    for device in common::devices() {
        let out = folder();
        let config = Config {
            schedule: "plateau:patience=0".parse().expect("a schedule"),
            patience: Some(50),
            ema: Some(0.9),
            augment: "shift".parse().expect("an augmentation"),
            ..settings(&device, out.path())
        };
        let undisturbed = run(config.clone()).0;
        let mut trainer = Trainer::new(config).expect("good settings");
        let control = Control::default();
        trainer.add_callback(Disturb { at: 7, control: control.clone(), folder: None });
        let mut events = Vec::new();
        let disturbed = trainer.run(&control, &mut |event| events.push(event)).expect("a run");
        assert_eq!(weights(&undisturbed), weights(&disturbed), "{device:?}");
        let position = |wanted: fn(&Event) -> bool| events.iter().position(wanted).expect("it was told");
        let order = [
            position(|event| matches!(event, Event::Paused)),
            position(|event| matches!(event, Event::Saved { .. })),
            position(|event| matches!(event, Event::Evaluated { mid_epoch: true, epoch: 1, step: 7 | 8, .. })),
            position(|event| matches!(event, Event::Resumed)),
            position(|event| matches!(event, Event::Evaluated { mid_epoch: false, epoch: 1, step: 23, .. })),
        ];
        assert!(order.is_sorted(), "{order:?}");
        let (plain, paused) = (lines(&undisturbed.folder), lines(&disturbed.folder));
        let steps = |lines: &[Line]| -> Vec<_> {
            let timeless = |line: &Line| (line.step, line.loss, line.score, line.lr, line.gradient_norm);
            lines.iter().filter(|line| line.kind != Kind::Test).map(timeless).collect()
        };
        assert_eq!(steps(&plain), steps(&paused));
        let tests = |lines: &[Line]| lines.iter().filter(|line| line.kind == Kind::Test).count();
        assert_eq!((tests(&plain), tests(&paused)), (2, 3));
    }
}

/// Asks for something before the third batch of the evaluation of this number, from 1.
struct InEvaluation<F>(usize, F);

impl<F: Fn() + Send> Callback for InEvaluation<F> {
    fn on_test_batch_begin(&mut self, _run: &mut Context<'_>, batch: usize) -> Result<()> {
        self.0 -= usize::from(batch == 3 && self.0 > 0);
        if batch == 3 && self.0 == 0 {
            (self.1)();
            self.0 = usize::MAX;
        }
        Ok(())
    }
}

#[test]
fn a_run_that_is_stopped_in_an_evaluation_begins_it_anew() {
    for device in common::devices() {
        let out = folder();
        let config = |name: &str| Config {
            schedule: "plateau:patience=0".parse().expect("a schedule"),
            patience: Some(50),
            ema: Some(0.9),
            name: Some(name.into()),
            ..settings(&device, out.path())
        };
        let told = |run: &Summary| -> Vec<_> {
            lines(&run.folder).iter().map(|line| (line.kind, line.step, line.loss, line.score, line.lr)).collect()
        };
        let whole = run(config("whole")).0;
        for epoch in [1, 2] {
            let config = || config(&format!("broken in {epoch}"));
            let control = Control::default();
            let mut trainer = Trainer::new(config()).expect("good settings");
            let asked = control.clone();
            trainer.add_callback(InEvaluation(epoch, move || asked.stop()));
            let stopped = trainer.run(&control, &mut |_| {}).expect("a run");
            assert!(!stopped.completed && stopped.steps == 23 * epoch, "{stopped:?}");
            assert_eq!(stopped.test.is_some(), epoch == 2, "that of the epoch before");
            let resumed = train(Trainer::resume(&stopped.folder, config()).expect("a checkpoint")).0;
            assert_eq!(weights(&resumed), weights(&whole), "{device:?}");
            assert_eq!(told(&resumed), told(&whole), "{device:?}");
        }
    }
}

#[test]
fn a_stop_ends_an_evaluation_that_was_asked_for() {
    let (out, device) = (folder(), Device::cpu());
    let control = Control::default();
    let mut trainer = Trainer::new(settings(&device, out.path())).expect("good settings");
    let asked = control.clone();
    trainer.add_callback(InEvaluation(1, move || asked.stop()));
    let asked = control.clone();
    let summary = trainer
        .run(&control, &mut |event| {
            if matches!(event, Event::Step(StepMetrics { step: 5, .. })) {
                asked.evaluate();
            }
        })
        .expect("a run");
    assert!(!summary.completed && summary.test.is_none() && summary.steps < 10, "{summary:?}");
}

/// Wants the end at the end of the first epoch.
struct Enough;

impl Callback for Enough {
    fn on_epoch_end(&mut self, run: &mut Context<'_>, _epoch: &EpochMetrics) -> Result<()> {
        run.stop("enough");
        Ok(())
    }
}

#[test]
fn what_a_callback_has_said_counts_in_an_evaluation_that_is_stopped() {
    let (out, device) = (folder(), Device::cpu());
    let control = Control::default();
    let mut trainer = Trainer::new(settings(&device, out.path())).expect("good settings");
    let asked = control.clone();
    trainer.add_callback(Enough);
    trainer.add_callback(InEvaluation(1, move || asked.stop()));
    let summary = trainer.run(&control, &mut |_| {}).expect("a run");
    assert_eq!((summary.completed, summary.stopped.as_deref(), summary.steps), (true, Some("enough"), 23));
}

#[test]
fn a_run_that_pauses_in_an_evaluation_saves_there_and_learns_the_same_bits() {
    let (out, device) = (folder(), Device::cpu());
    let config = |name: &str| Config { name: Some(name.into()), ..settings(&device, out.path()) };
    let whole = run(config("whole")).0;
    let control = Control::default();
    let mut trainer = Trainer::new(config("paused")).expect("good settings");
    let asked = control.clone();
    trainer.add_callback(InEvaluation(1, move || asked.pause()));
    let (mut events, asked) = (Vec::new(), control.clone());
    let paused = trainer.run(&control, &mut |event| {
        match event {
            Event::Paused => {
                // the one that is under way is what is asked for
                asked.evaluate();
                asked.save();
            }
            Event::Saved { .. } => asked.resume(),
            _ => {}
        }
        events.push(event);
    });
    let paused = paused.expect("a run");
    assert_eq!(weights(&paused), weights(&whole));
    let position = |wanted: fn(&Event) -> bool| events.iter().position(wanted).expect("it was told");
    let order = [
        position(|event| matches!(event, Event::Epoch(_))),
        position(|event| matches!(event, Event::Paused)),
        position(|event| matches!(event, Event::Saved { .. })),
        position(|event| matches!(event, Event::Resumed)),
        position(|event| matches!(event, Event::Evaluated { mid_epoch: false, epoch: 1, .. })),
    ];
    assert!(order.is_sorted(), "{order:?}");
    assert_eq!(events.iter().filter(|event| matches!(event, Event::Evaluated { .. })).count(), 2);
}

#[test]
fn a_paused_run_stops_and_its_pause_is_no_time() {
    let (out, device) = (folder(), Device::cpu());
    let control = Control::default();
    control.pause();
    let trainer = Trainer::new(settings(&device, out.path())).expect("good settings");
    let begun = std::time::Instant::now();
    let (asked, pause) = (control.clone(), std::time::Duration::from_millis(300));
    let summary = trainer
        .run(&control, &mut |event| {
            if matches!(event, Event::Paused) {
                let asked = asked.clone();
                std::thread::spawn(move || {
                    std::thread::sleep(pause);
                    asked.stop();
                });
            }
        })
        .expect("a run");
    assert!(!summary.completed && summary.steps == 1, "{summary:?}");
    assert!(summary.seconds <= (begun.elapsed() - pause).as_secs_f64(), "{summary:?}");
    let status: Status = file(&summary.folder, record::STATUS);
    assert_eq!((status.state, status.step, status.steps), (RunState::Stopped, 1, 46));
}

#[test]
fn a_factor_changes_the_learning_rate_and_a_resumed_run_keeps_it() {
    let (out, device) = (folder(), Device::cpu());
    let schedule = "constant".parse().expect("a schedule");
    let config = Config { schedule, lr: Some(0.001), name: Some("run".into()), ..settings(&device, out.path()) };
    let control = Control::default();
    let trainer = Trainer::new(config.clone()).expect("good settings");
    let asked = control.clone();
    trainer
        .run(&control, &mut |event| {
            if let Event::Step(StepMetrics { step, .. }) = event {
                match step {
                    5 => asked.set_learning_rate_factor(0.25),
                    9 => asked.stop(),
                    _ => {}
                }
            }
        })
        .expect("a run");
    let folder = out.path().join("run");
    let status: Status = file(&folder, record::STATUS);
    assert_eq!((status.learning_rate_factor, status.state), (0.25, RunState::Stopped));
    assert!(status.notices.iter().any(|notice| notice.contains("times 0.25")), "{status:?}");
    train(Trainer::resume(&folder, config).expect("a checkpoint"));
    let rates: Vec<_> = lines(&folder).iter().filter(|line| line.kind == Kind::Train).map(|line| line.lr).collect();
    assert_eq!((rates.len(), rates[4], rates[5], rates[45]), (46, 0.001, 0.00025, 0.00025));
    let status: Status = file(&folder, record::STATUS);
    assert_eq!((status.step, status.state, status.left_s), (46, RunState::Completed, 0.0));
}

#[test]
fn an_epoch_that_ends_in_a_resumed_run_has_the_rate_of_its_last_step() {
    let (out, device) = (folder(), Device::cpu());
    let config = |name: &str| Config { batch_size: 1500, name: Some(name.into()), ..settings(&device, out.path()) };
    let told = |folder: &Path| lines(folder).iter().map(|line| (line.kind, line.step, line.lr)).collect::<Vec<_>>();
    let (whole, _) = run(config("whole"));
    let control = Control::default();
    control.stop();
    let trainer = Trainer::new(config("broken")).expect("good settings");
    let summary = trainer.run(&control, &mut |_| {}).expect("a run");
    assert!(!summary.completed && summary.steps == 1, "{summary:?}");
    let resumed = Trainer::resume(&summary.folder, config("broken")).expect("a checkpoint");
    train(resumed);
    assert_eq!(told(&summary.folder), told(&whole.folder));
}
