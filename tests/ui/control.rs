//! One's own run: started, paused, changed, stopped, resumed.

use std::path::{Path, PathBuf};

use brasa::device::Fault;
use brasa::train::Config;
use brasa::train::record::{Line, METRICS, RunState, STATUS, Status};
use brasa::ui::{Closer, Options, Page, SavedSettings, Window};
use egui::accesskit::Role;
use egui::{ViewportCommand, ViewportEvent, ViewportId};
use egui_kittest::kittest::{NodeT as _, Queryable as _};

use crate::{Seen, common, config, fill, wait, window};

fn status(run: &Path) -> Option<Status> {
    serde_json::from_slice(&std::fs::read(run.join(STATUS)).ok()?).ok()
}

fn lines(run: &Path) -> Vec<Line> {
    let text = std::fs::read_to_string(run.join(METRICS)).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The only run in `out`, once there is one.
fn only_run(out: &Path) -> Option<PathBuf> {
    std::fs::read_dir(out).ok()?.flatten().map(|entry| entry.path()).find(|path| path.join(STATUS).exists())
}

fn start(out: &Path, config: Config) -> (Seen, PathBuf) {
    let mut seen = window(Options { train: Some(Box::new(config)), ..Options::default() });
    wait(&mut seen, "the run begins", |_| only_run(out).is_some_and(|run| !lines(&run).is_empty()));
    let run = only_run(out).expect("it was just there");
    (seen, run)
}

/// Changes the factor for the learning rate.
fn set_factor(seen: &mut Seen, factor: f64) {
    seen.get_by_role_and_label(Role::SpinButton, "Learning rate ×").set_value_accesskit(factor);
    seen.step();
}

/// The factor that the bar shows.
fn factor(seen: &Seen) -> Option<f64> {
    let field = seen.query_by_role_and_label(Role::SpinButton, "Learning rate ×")?;
    field.accesskit_node().numeric_value()
}

#[test]
fn a_run_is_paused_changed_stopped_and_resumed() {
    let out = tempfile::tempdir().expect("a folder");
    let long = Config { epochs: 10_000, log_every: 1, ..config(out.path()) };
    let (mut seen, run) = start(out.path(), long.clone());
    wait(&mut seen, "its buttons are there", |seen| seen.query_by_label("Pause").is_some());

    seen.get_by_label("Pause").click();
    wait(&mut seen, "it pauses", |_| status(&run).is_some_and(|status| status.state == RunState::Paused));
    let paused = lines(&run).len();
    seen.run_steps(20);
    assert_eq!(lines(&run).len(), paused, "a paused run does no steps");

    set_factor(&mut seen, 0.5);
    let before = seen.get_by_label("Resume").rect();
    wait(&mut seen, "it is told", |seen| seen.query_all_by_label_contains("times 0.5").next().is_some());
    seen.run_steps(3);
    assert_eq!(seen.get_by_label("Resume").rect(), before, "what is said moves no button");
    let shown = |status: Option<Status>| status.expect("it is there").timeline;
    let timeline = shown(status(&run));
    let written = || status(&run).expect("it is there").written_unix_ms;
    let first = written();
    wait(&mut seen, "it says once more that it waits", |_| written() > first + 1500);
    assert_eq!(shown(status(&run)), timeline, "nothing happens in a pause");
    let place = |seen: &Seen, label: &str| seen.get_by_label(label).rect();
    let stop = place(&seen, "Stop");
    seen.get_by_label("Resume").click();
    wait(&mut seen, "it goes on", |seen| seen.query_by_label("Pause").is_some());
    assert_eq!((place(&seen, "Stop"), place(&seen, "Pause")), (stop, before), "the button is as wide with either word");
    wait(&mut seen, "it goes on", |_| lines(&run).len() > paused + 5);
    let after = status(&run).expect("it is running");
    wait(&mut seen, "the factor arrives", |_| status(&run).is_some_and(|status| status.learning_rate_factor == 0.5));
    assert_eq!(after.state, RunState::Running);

    let evaluations = || lines(&run).iter().filter(|line| line.kind == brasa::train::record::Kind::Test).count();
    let before = evaluations();
    seen.get_by_label("Evaluate").click();
    wait(&mut seen, "it evaluates", |_| evaluations() > before);
    let says = |seen: &Seen, words: &str| seen.query_all_by_label_contains(words).next().is_some();
    wait(&mut seen, "it says so", |seen| says(seen, "evaluated after step "));
    seen.get_by_label("Save").click();
    wait(&mut seen, "it saves, and says so", |seen| says(seen, "saved step "));

    seen.get_by_label("Stop").click();
    wait(&mut seen, "it stops", |seen| !seen.state().is_training());
    assert_eq!(status(&run).expect("written at the end").state, RunState::Stopped);
    assert!(run.join("model.safetensors").exists(), "what was learned is saved");

    let done = lines(&run).len();
    drop(seen);
    let resumed = Config { name: run.file_name().map(|name| name.to_string_lossy().into_owned()), ..long };
    let options = Options { train: Some(Box::new(resumed)), resume: Some(run.clone()), ..Options::default() };
    let mut seen = window(options);
    wait(&mut seen, "it goes on where it was", |_| lines(&run).len() > done + 5);
    wait(&mut seen, "its factor is said", |seen| factor(seen) == Some(0.5));
    seen.state_mut().finish();
    assert!(!seen.state().is_training());
}

#[test]
fn a_run_is_followed_where_no_others_are_looked_for() {
    let out = tempfile::tempdir().expect("a folder");
    let config = Config { epochs: 10_000, name: Some(".hidden".into()), ..config(out.path()) };
    let (mut seen, _) = start(out.path(), config);
    wait(&mut seen, "it is listed", |seen| seen.query_by_label("Draw .hidden").is_some());
    wait(&mut seen, "its steps are told", |seen| seen.query_all_by_label_contains("of 10,000, step").next().is_some());
    seen.state_mut().finish();
}

/// Starts a run of so many epochs as the form has it otherwise, and says where it will be.
fn start_from_form(seen: &mut Seen, epochs: &str, out: &Path) -> PathBuf {
    seen.state_mut().open_page(Page::Start);
    seen.run_steps(2);
    for (flag, value) in [("epochs", epochs), ("device", "cpu"), ("out", &out.display().to_string())] {
        fill(seen, flag, value);
    }
    seen.get_by_label("Start training").click();
    out.join("digits-cnn-1")
}

#[test]
fn a_run_is_started_from_the_form() {
    let out = tempfile::tempdir().expect("a folder");
    let mut seen = window(Options::default());
    let run = start_from_form(&mut seen, "1", out.path());
    wait(&mut seen, "it trains to the end", |_| status(&run).is_some_and(|status| status.state == RunState::Completed));
    assert_eq!(seen.state().page(), Page::Curves);
    wait(&mut seen, "its end is told", |seen| seen.query_all_by_label_contains("Done. Test score").next().is_some());
}

#[test]
fn closing_while_a_run_goes_on_asks_and_saves() {
    let out = tempfile::tempdir().expect("a folder");
    let (mut seen, run) = start(out.path(), Config { epochs: 10_000, ..config(out.path()) });
    let close = |seen: &mut Seen| {
        let root = seen.input_mut().viewports.entry(ViewportId::ROOT).or_default();
        root.events.push(ViewportEvent::Close);
        seen.step();
    };
    let told = |seen: &Seen, command: ViewportCommand| {
        seen.output().viewport_output[&ViewportId::ROOT].commands.contains(&command)
    };
    close(&mut seen);
    assert!(told(&seen, ViewportCommand::CancelClose));
    seen.run_steps(2);
    seen.get_by_label("Go on training").click();
    seen.run_steps(3);
    assert!(seen.query_by_label("Save and close").is_none() && seen.state().is_training());
    close(&mut seen);
    seen.run_steps(2);
    close(&mut seen);
    assert!(told(&seen, ViewportCommand::CancelClose), "whoever asks twice has not answered");
    seen.run_steps(2);
    assert!(seen.state().is_training());
    seen.get_by_label("Save and close").click();
    wait(&mut seen, "it closes", |seen| told(seen, ViewportCommand::Close));
    assert!(!seen.state().is_training());
    assert_eq!(status(&run).expect("written at the end").state, RunState::Stopped);
    assert!(run.join("model.safetensors").exists(), "what was learned is saved");
}

#[test]
fn a_window_that_waits_for_an_answer_closes_when_the_run_ends() {
    let out = tempfile::tempdir().expect("a folder");
    let (mut seen, run) = start(out.path(), Config { epochs: 10_000, ..config(out.path()) });
    let told = |seen: &Seen, command: ViewportCommand| {
        seen.output().viewport_output[&ViewportId::ROOT].commands.contains(&command)
    };
    seen.get_by_label("Stop").click();
    let root = seen.input_mut().viewports.entry(ViewportId::ROOT).or_default();
    root.events.push(ViewportEvent::Close);
    seen.step();
    wait(&mut seen, "it closes", |seen| told(seen, ViewportCommand::Close));
    assert!(!seen.state().is_training() && seen.query_by_label("Save and close").is_none());
    assert_eq!(status(&run).expect("written at the end").state, RunState::Stopped);
}

#[test]
fn a_window_that_a_signal_closes_says_how_its_run_ended() {
    let out = tempfile::tempdir().expect("a folder");
    let closer = Closer::default();
    let config = Config { epochs: 10_000, ..config(out.path()) };
    let options = Options { train: Some(Box::new(config)), closer: closer.clone(), ..Options::default() };
    let mut seen = window(options);
    wait(&mut seen, "the run begins", |_| only_run(out.path()).is_some_and(|run| !lines(&run).is_empty()));
    assert!(seen.state().ended().is_none());
    closer.close();
    wait(&mut seen, "it ends", |seen| !seen.state().is_training());
    let summary = seen.state().ended().expect("it was trained").as_ref().expect("nothing failed");
    assert!(!summary.completed && Some(&summary.folder) == only_run(out.path()).as_ref(), "{summary:?}");
}

#[test]
fn a_run_that_was_started_in_the_window_is_saved_when_a_signal_closes_it() {
    let out = tempfile::tempdir().expect("a folder");
    let closer = Closer::default();
    let mut seen = window(Options { closer: closer.clone(), ..Options::default() });
    let run = start_from_form(&mut seen, "10000", out.path());
    wait(&mut seen, "it trains", |_| lines(&run).len() > 5);
    closer.close();
    wait(&mut seen, "it ends", |seen| !seen.state().is_training());
    assert_eq!(status(&run).expect("written at the end").state, RunState::Stopped);
    assert!(run.join("checkpoints").read_dir().expect("a folder").next().is_some(), "what was learned is saved");
    let summary = seen.state().ended().expect("it was trained").as_ref().expect("nothing failed");
    assert!(!summary.completed && summary.folder == run, "{summary:?}");
}

#[test]
fn only_a_run_with_a_checkpoint_may_go_on() {
    let out = tempfile::tempdir().expect("a folder");
    let (mut seen, run) = start(out.path(), Config { epochs: 10_000, ..config(out.path()) });
    seen.state_mut().finish();
    drop(seen);
    let shown = || {
        let mut seen = window(Options { roots: vec![out.path().into()], ..Options::default() });
        wait(&mut seen, "it is read", |seen| seen.query_all_by_label("stopped").next().is_some());
        seen.run_steps(3);
        seen
    };
    assert!(shown().query_by_label("Go on with digits-cnn-1").is_some());
    std::fs::remove_dir_all(run.join("checkpoints")).expect("removable");
    assert!(shown().query_by_label("Go on with digits-cnn-1").is_none());
}

#[test]
fn a_window_that_trains_opens_where_that_is_seen() {
    let out = tempfile::tempdir().expect("a folder");
    let left: SavedSettings = serde_json::from_value(serde_json::json!({ "page": "start" })).expect("settings");
    let options = Options { train: Some(Box::new(config(out.path()))), ..Options::default() };
    let mut window = Window::new(options, left);
    assert_eq!(window.page(), Page::Curves);
    window.finish();
}

#[test]
fn a_picture_is_judged_by_a_run_that_goes_on() {
    let out = tempfile::tempdir().expect("a folder");
    let (mut seen, run) = start(out.path(), Config { epochs: 10_000, ..config(out.path()) });
    let picture = out.path().join("mine.png");
    image::GrayImage::new(20, 30).save(&picture).expect("writable");
    seen.state_mut().open_page(Page::Predictions);
    wait(&mut seen, "the page is there", |seen| seen.query_by_label("pictures of your own").is_some());
    seen.get_by_label("pictures of your own").click();
    seen.run_steps(2);
    fill(&mut seen, "path of a picture", &picture.display().to_string());
    seen.get_by_label("Open").click();
    wait(&mut seen, "it is judged", |seen| seen.query_by_label("by digits-cnn-1").is_some());
    assert!(run.join("model.safetensors").exists(), "the run has saved for it");
    assert!(seen.query_all_by_label_contains(" %").count() > 1);
    seen.state_mut().finish();
}

#[test]
fn a_run_is_replaced_from_the_form() {
    let out = tempfile::tempdir().expect("a folder");
    let (mut seen, first) = start(out.path(), Config { epochs: 10_000, ..config(out.path()) });
    wait(&mut seen, "its buttons are there", |seen| seen.query_by_label("Pause").is_some());
    set_factor(&mut seen, 0.5);
    wait(&mut seen, "the factor arrives", |_| status(&first).is_some_and(|status| status.learning_rate_factor == 0.5));
    seen.state_mut().open_page(Page::Start);
    seen.step();
    fill(&mut seen, "epochs", "nonsense");
    assert!(seen.query_all_by_label("a whole number").next().is_some(), "mistakes are said at once");
    fill(&mut seen, "epochs", "1");
    assert!(seen.query_all_by_label_contains("a whole number").next().is_none());
    seen.get_by_label("Stop the run and start this one").click();
    let second = out.path().join("digits-cnn-2");
    wait(&mut seen, "the other run ends", |_| {
        status(&second).is_some_and(|status| status.state == RunState::Completed)
    });
    assert_eq!(status(&first).expect("it was stopped").state, RunState::Stopped);
    wait(&mut seen, "the factor is that of the new run", |seen| factor(seen) == Some(1.0));
}

#[test]
fn a_run_whose_device_is_lost_says_so_and_goes_on_when_asked() {
    let Some(gpu) = common::devices().into_iter().nth(1) else { return };
    let out = tempfile::tempdir().expect("a folder");
    let save_every = "5".parse().expect("steps");
    let (mut seen, run) = start(
        out.path(),
        Config { epochs: 10_000, device: Some("gpu".into()), save_every, log_every: 1, ..config(out.path()) },
    );
    wait(&mut seen, "there is a checkpoint", |_| lines(&run).len() > 10);
    gpu.inject(Fault::Lost);
    wait(&mut seen, "it ends", |seen| !seen.state().is_training());
    wait(&mut seen, "it says why", |seen| seen.query_all_by_label_contains("The run failed").next().is_some());
    assert_eq!(status(&run).expect("it was written").state, RunState::Failed);
    for page in Page::ALL {
        seen.state_mut().open_page(page);
        seen.run_steps(3);
    }
    wait(&mut seen, "it may go on", |seen| seen.query_by_label("Go on with digits-cnn-1").is_some());
    seen.run_steps(3);
    seen.get_by_label("Go on with digits-cnn-1").click();
    let is_running = |run: &Path| status(run).is_some_and(|status| status.state == RunState::Running);
    wait(&mut seen, "it goes on", |_| is_running(&run));
    let first = status(&run).expect("it runs").step;
    wait(&mut seen, "it learns", |_| status(&run).is_some_and(|status| status.step > first));
    seen.state_mut().finish();
}

#[test]
fn what_goes_wrong_is_said_and_the_window_stays() {
    let out = tempfile::tempdir().expect("a folder");
    let bad = Config { dataset: "folder:/nowhere/at/all".parse().expect("a path"), ..config(out.path()) };
    let mut seen = window(Options { train: Some(Box::new(bad)), ..Options::default() });
    wait(&mut seen, "it says so", |seen| seen.query_all_by_label_contains("/nowhere/at/all").next().is_some());
    seen.get_by_label("Devices").click();
    seen.run_steps(3);
    assert_eq!(seen.state().page(), Page::Devices);
}

#[test]
fn devices_are_measured_side_by_side() {
    let mut seen = window(Options::default());
    seen.state_mut().open_page(Page::Benchmark);
    seen.run_steps(3);
    // all of them take a minute
    for suite in ["matmul", "ops", "stages", "train", "infer"] {
        seen.get_by_label(suite).click();
        seen.run_steps(2);
    }
    seen.get_by_label("Measure all devices").click();
    wait(&mut seen, "it is measured", |seen| seen.query_by_label("round_trip").is_some());
    assert!(seen.query_by_label("upload_64mib").is_some() && seen.query_by_label("matmul_64").is_none());
    assert!(seen.query_all_by_label_contains("gpu:0 against cpu").next().is_some() || common::devices().len() < 2);
}

/// What was measured until then stays on the page, if there is any.
#[test]
fn a_measurement_can_be_stopped() {
    let mut seen = window(Options::default());
    seen.state_mut().open_page(Page::Benchmark);
    seen.run_steps(3);
    assert!(seen.query_by_label("Stop").is_none());
    seen.get_by_label("Measure all devices").click();
    wait(&mut seen, "it measures", |seen| seen.query_by_label("Stop").is_some());
    seen.get_by_label("Stop").click();
    wait(&mut seen, "it ends", |seen| seen.query_by_label("Stop").is_none());
    let is_kept = seen.query_all_by_label_contains("what comes after it was stopped on").next().is_some();
    assert!(is_kept || seen.query_by_label("Nothing was measured yet").is_some());
}
