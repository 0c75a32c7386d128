//! The window, driven by its real widgets: found by the names that a screen reader says.

mod broken;
#[path = "../common/mod.rs"]
mod common;
mod control;
mod numbers;
mod pages;
mod snapshots;
mod viewing;

use std::path::Path;
use std::time::{Duration, Instant};

use brasa::train::{Config, Control, Summary, Trainer};
use brasa::ui::{Language, Options, SavedSettings, Window};
use egui::accesskit::Role;
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable as _;

/// What takes longer than this has failed.
const PATIENCE: Duration = Duration::from_secs(120);
const SIZE: [f32; 2] = [1280.0, 800.0];

type Seen = Harness<'static, Window>;

/// A window on no screen, in English.
fn window(options: Options) -> Seen {
    sized(options, SIZE)
}

fn sized(options: Options, size: [f32; 2]) -> Seen {
    let mut window = Window::new(options, SavedSettings::default());
    window.speak(Language::English);
    Harness::builder().with_size(size).with_max_steps(8).build_ui_state(|ui, window: &mut Window| window.ui(ui), window)
}

/// A short run on the digits.
fn config(out: &Path) -> Config {
    Config { epochs: 1, device: Some("cpu".into()), out: out.into(), ..Config::default() }
}

/// Trains without any window.
fn trained(config: Config) -> Summary {
    let mut trainer = Trainer::new(config).expect("good settings");
    trainer.add_tensorboard();
    trainer.run(&Control::default(), &mut |_| {}).expect("it trains")
}

/// Types a value into a field.
fn fill(seen: &mut Seen, field: &str, value: &str) {
    seen.get_by_role_and_label(Role::TextInput, field).focus();
    seen.step();
    seen.key_press_modifiers(egui::Modifiers::COMMAND, egui::Key::A);
    seen.get_by_role_and_label(Role::TextInput, field).type_text(value);
    seen.run_steps(3);
}

/// Draws frames until `done` says so.
#[track_caller]
fn wait(seen: &mut Seen, what: &str, mut done: impl FnMut(&mut Seen) -> bool) {
    let start = Instant::now();
    loop {
        seen.step();
        if done(seen) {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
