//! Runs of other processes appear and grow.

use brasa::train::{Config, Control, Trainer};
use brasa::ui::{Options, Page};
use egui_kittest::kittest::Queryable as _;

use crate::{config, wait, window};

#[test]
fn a_run_that_is_being_recorded_appears_and_grows_without_a_click() {
    let out = tempfile::tempdir().expect("a folder");
    let mut seen = window(Options { roots: vec![out.path().into()], ..Options::default() });
    seen.run_steps(3);
    assert!(seen.query_all_by_label_contains("digits-cnn-1").next().is_none());
    let config = Config { epochs: 10_000, ..config(out.path()) };
    let control = Control::default();
    let (steered, trainer) = (control.clone(), Trainer::new(config).expect("good settings"));
    let other = std::thread::spawn(move || trainer.run(&steered, &mut |_| {}));
    wait(&mut seen, "it appears", |seen| seen.query_all_by_label_contains("digits-cnn-1").next().is_some());
    seen.state_mut().open_page(Page::Runs);
    wait(&mut seen, "it is running", |seen| seen.query_all_by_label("running").next().is_some());
    let scored = |seen: &crate::Seen| seen.query_all_by_label_contains(" %").next().is_some();
    wait(&mut seen, "its first evaluation is seen", |seen| scored(seen));
    control.stop();
    wait(&mut seen, "its end is seen", |seen| seen.query_all_by_label("stopped").next().is_some());
    other.join().expect("no panic").expect("it was stopped in good order");
}
