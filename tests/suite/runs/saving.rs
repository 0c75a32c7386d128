//! Checkpoints and weights that cannot be written, or were left out.

use brasa::train::{Callback, Config, Context, Control, Event, Start, Trainer};
use brasa::{Device, Error, Result};

use super::{StopAt, folder, run, settings, train, weights};

/// Puts something in the way of the weights, or of checkpoints.
enum Obstacle {
    Weights,
    Checkpoints,
}

impl Callback for Obstacle {
    fn on_train_begin(&mut self, run: &mut Context<'_>, _start: &Start) -> Result<()> {
        let path = run.folder().join(match self {
            Self::Weights => "model.safetensors/full",
            Self::Checkpoints => "checkpoints",
        });
        match self {
            Self::Weights => std::fs::create_dir_all(&path),
            Self::Checkpoints => std::fs::write(&path, "no folder"),
        }
        .map_err(|error| Error::io(path, error))
    }
}

#[test]
fn a_checkpoint_that_cannot_be_written_leaves_the_weights() {
    let (out, device) = (folder(), Device::cpu());
    let config = Config { name: Some("run".into()), epochs: 1, ..settings(&device, out.path()) };
    let mut trainer = Trainer::new(config.clone()).expect("good settings");
    trainer.add_callback(Obstacle::Checkpoints);
    let error = trainer.run(&Control::default(), &mut |_| {}).expect_err("no checkpoint").to_string();
    assert!(error.contains("checkpoints"), "{error}");
    let (whole, _) = run(Config { name: Some("whole".into()), ..config });
    let saved = std::fs::read(out.path().join("run/model.safetensors")).expect("they are there");
    assert!(saved == weights(&whole), "and those of the last step");
}

#[test]
fn weights_that_cannot_be_written_leave_checkpoints_which_do_not_pile_up() {
    let (out, device) = (folder(), Device::cpu());
    let every = "5".parse().expect("steps");
    let config = Config { save_every: every, name: Some("run".into()), epochs: 1, ..settings(&device, out.path()) };
    let mut trainer = Trainer::new(config.clone()).expect("good settings");
    trainer.add_callback(Obstacle::Weights);
    let mut events = Vec::new();
    let error = trainer.run(&Control::default(), &mut |event| events.push(event)).expect_err("no weights").to_string();
    assert!(error.contains("model.safetensors"), "{error}");
    let run = out.path().join("run");
    let mut names: Vec<_> = std::fs::read_dir(run.join("checkpoints")).expect("a folder").flatten().collect();
    names.sort_by_key(std::fs::DirEntry::file_name);
    let names: Vec<_> = names.iter().map(|entry| entry.file_name().into_string().expect("UTF-8")).collect();
    assert_eq!(names, ["step-00000020.safetensors", "step-00000023.safetensors"]);
    let is_told = |event: &&Event| matches!(event, Event::Notice { message } if message.ends_with("is saved, and the weights alone are not"));
    assert_eq!(events.iter().filter(is_told).count(), 5, "{events:?}");
    assert!(!events.iter().any(|event| matches!(event, Event::Saved { .. })), "{events:?}");
    std::fs::remove_dir_all(run.join("model.safetensors")).expect("it is there");
    let (summary, _) = train(Trainer::resume(&run, config).expect("a checkpoint"));
    assert!(!weights(&summary).is_empty(), "a run that goes on writes them");
}

#[test]
fn checkpoints_that_were_left_out_do_not_count() {
    let (out, device) = (folder(), Device::cpu());
    let every = Config { save_every: "5".parse().expect("steps"), keep: 2, ..settings(&device, out.path()) };
    let mut trainer = Trainer::new(Config { keep: 9, ..every.clone() }).expect("good settings");
    trainer.add_callback(StopAt(22));
    let run = train(trainer).0.folder;
    let path = |step: usize| run.join(format!("checkpoints/step-{step:08}.safetensors"));
    for step in [20, 22] {
        std::fs::write(path(step), "damaged").expect("writable");
    }
    let mut trainer = Trainer::resume(&run, every).expect("an earlier one");
    trainer.add_callback(StopAt(18));
    let (summary, events) = train(trainer);
    let is_told = |event: &Event| matches!(event, Event::Notice { message } if message.contains("left out"));
    assert_eq!((summary.steps, events.iter().filter(|event| is_told(event)).count()), (18, 2));
    assert!(path(15).exists() && path(18).exists() && !path(10).exists(), "the two newest of this run");
    for step in [20, 22] {
        let aside = path(step).with_extension("safetensors.left-out");
        assert!(!path(step).exists() && std::fs::read(aside).is_ok_and(|bytes| bytes == b"damaged"));
    }
}
