//! Runs that end because they get no better.

use std::path::Path;

use brasa::train::{Config, Control, EarlyStopping, ModelName, Monitor, Summary, Trainer};

/// A run at a constant learning rate, so that its first epochs are those of any longer one.
fn settings(name: &str, out: &Path, epochs: usize, ema: Option<f64>) -> Config {
    settings_of("mlp", name, out, epochs, ema)
}

fn settings_of(model: &str, name: &str, out: &Path, epochs: usize, ema: Option<f64>) -> Config {
    Config {
        model: ModelName::new(model).expect("a model of that name"),
        schedule: "constant".parse().expect("a schedule"),
        batch_size: 64,
        device: Some("cpu".into()),
        out: out.into(),
        name: Some(name.into()),
        epochs,
        ema,
        ..Config::default()
    }
}

fn run(trainer: Trainer) -> Summary {
    trainer.run(&Control::default(), &mut |_| {}).expect("a run")
}

fn stopped_by(callback: EarlyStopping, config: Config) -> Summary {
    let mut trainer = Trainer::new(config).expect("good settings");
    trainer.add_callback(callback);
    run(trainer)
}

fn weights(run: &Summary) -> Vec<u8> {
    std::fs::read(run.folder.join("model.safetensors")).expect("weights")
}

#[test]
fn what_is_better_is_for_the_options_to_say() {
    let out = tempfile::tempdir().expect("a temporary folder");
    let steps = 1438_usize.div_ceil(64);
    // the loss falls in each of the first epochs, the accuracy rises, and neither does by this much
    let cases = [
        ("loss", EarlyStopping::new(2), 4, None),
        ("delta", EarlyStopping::new(2).min_delta(1e3), 3, Some("the test loss has not become better for 2 epochs")),
        ("accuracy", EarlyStopping::new(1).monitor(Monitor::Accuracy).min_delta(0.99), 2, Some("test accuracy")),
        ("iou", EarlyStopping::new(1).monitor(Monitor::MeanIou).min_delta(0.99), 2, Some("test mean IoU")),
        ("f1", EarlyStopping::new(1).monitor(Monitor::MeanF1).min_delta(0.99), 2, Some("test mean F1")),
    ];
    for (name, callback, epochs, reason) in cases {
        let summary = stopped_by(callback, settings(name, out.path(), 4, None));
        assert_eq!(summary.steps, epochs * steps, "{name}");
        let stopped = summary.stopped.as_deref();
        assert!(
            reason.map_or(stopped.is_none(), |reason| stopped.is_some_and(|told| told.contains(reason))),
            "{stopped:?}"
        );
    }
}

#[test]
fn the_weights_of_the_best_evaluation_come_back() {
    // a residual network has running statistics, which an average takes from the model that learns
    for (model, ema) in [("mlp", None), ("mlp", Some(0.9)), ("resnet20", Some(0.9))] {
        let out = tempfile::tempdir().expect("a temporary folder");
        let settings = |name: &str, epochs: usize| settings_of(model, name, out.path(), epochs, ema);
        let first = run(Trainer::new(settings("first", 1)).expect("good settings"));
        let never_better = || EarlyStopping::new(2).min_delta(1e3);
        let last = stopped_by(never_better(), settings("last", 9));
        let best = stopped_by(never_better().restore_best(), settings("best", 9));
        assert_eq!((last.steps, best.steps), (3 * first.steps, 3 * first.steps));
        assert!(best.stopped.as_deref().is_some_and(|reason| reason.contains("are back")), "{best:?}");
        assert_eq!(weights(&best), weights(&first), "those of the first epoch");
        assert_ne!(weights(&last), weights(&first));
    }
}

#[test]
fn two_that_go_by_different_measures_go_on_where_they_stood() {
    let out = tempfile::tempdir().expect("a temporary folder");
    let settings = |name: &str, epochs| settings(name, out.path(), epochs, None);
    // the one counts evaluations that are no better, the other one meets better ones only
    let add = |trainer: &mut Trainer| {
        trainer.add_callback(EarlyStopping::new(3).min_delta(1e3));
        trainer.add_callback(EarlyStopping::new(3).monitor(Monitor::Accuracy));
    };
    let train = |mut trainer: Trainer| {
        add(&mut trainer);
        run(trainer)
    };
    let whole = train(Trainer::new(settings("whole", 9)).expect("good settings"));
    let first = train(Trainer::new(settings("parts", 2)).expect("good settings"));
    assert_eq!(first.stopped, None);
    let rest = train(Trainer::resume(&first.folder, settings("parts", 9)).expect("a checkpoint"));
    assert_eq!((rest.steps, &rest.stopped), (whole.steps, &whole.stopped));
    assert_eq!(whole.stopped.as_deref(), Some("the test loss has not become better for 3 epochs"));
}
