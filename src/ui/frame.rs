//! The window on the desktop.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use eframe::{App, NativeOptions};
use egui::{IconData, ViewportBuilder};

use crate::error::panic_message;

use super::window::{Options, Window};

/// Under what its memory is kept, and what the desktop calls it.
const NAME: &str = "brasa";
/// Points.
const SIZE: [f32; 2] = [1280.0, 800.0];
const LEAST_SIZE: [f32; 2] = [480.0, 360.0];
const ICON: &[u8] = include_bytes!("../../assets/icon.png");

/// How long a window must have lived to be opened again after its graphics device was lost.
const WORTH_ANOTHER: Duration = Duration::from_secs(5);
/// How often a run without its window looks whether it shall end.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What the desktop shows; it outlives the desktop's window.
enum Contents {
    /// Nothing was opened yet.
    Waiting(Box<Options>),
    Shown(Box<Window>),
}

struct Desktop<'a>(&'a mut Window);

impl App for Desktop<'_> {
    fn logic(&mut self, ctx: &egui::Context, _frame: &mut eframe::Frame) {
        self.0.logic(ctx);
    }

    fn ui(&mut self, ui: &mut egui::Ui, _frame: &mut eframe::Frame) {
        self.0.ui(ui);
    }

    fn save(&mut self, storage: &mut dyn eframe::Storage) {
        eframe::set_value(storage, NAME, &self.0.settings());
    }

    fn on_exit(&mut self) {
        self.0.finish();
    }
}

/// Opens the window, and returns when it is closed. A window that fails, as when the graphics device is lost, is opened again;
/// if that cannot be, what trains in it goes on, and this returns when it has ended.
///
/// # Errors
/// Why there is none: no display, or nothing that draws on it. The options come back, so that the run can go on without.
pub fn open(options: Options) -> Result<(), (Box<Options>, String)> {
    if !has_display() {
        return Err((Box::new(options), "there is no display".to_owned()));
    }
    let mut contents = Contents::Waiting(Box::new(options));
    loop {
        let opened = Instant::now();
        // a lost device makes the drawing library panic
        let ended = catch_unwind(AssertUnwindSafe(|| show(&mut contents)));
        let why = match ended {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => error.to_string(),
            Err(panic) => panic_message(panic.as_ref()).unwrap_or("it did not say why").to_owned(),
        };
        match contents {
            Contents::Waiting(options) => return Err((options, why)),
            Contents::Shown(mut window) if opened.elapsed() < WORTH_ANOTHER => {
                go_on_without(&mut window, &why);
                return Ok(());
            }
            Contents::Shown(ref mut window) => {
                tracing::error!("the window failed and is opened again: {why}");
                window.reopened(why);
            }
        }
    }
}

/// Shows the window until it is closed or fails.
fn show(contents: &mut Contents) -> eframe::Result {
    let icon = image::load_from_memory(ICON).map(|icon| {
        let icon = icon.to_rgba8();
        IconData { width: icon.width(), height: icon.height(), rgba: icon.into_raw() }
    });
    let viewport = ViewportBuilder::default()
        .with_title(NAME)
        .with_app_id(NAME)
        .with_inner_size(SIZE)
        .with_min_inner_size(LEAST_SIZE)
        .with_icon(Arc::new(icon.unwrap_or_default()));
    let native = NativeOptions { viewport, ..NativeOptions::default() };
    let create: eframe::AppCreator<'_> = Box::new(move |creation| {
        if let Contents::Waiting(options) = contents {
            let settings = creation.storage.and_then(|storage| eframe::get_value(storage, NAME));
            let window = Window::new(*std::mem::take(options), settings.unwrap_or_default());
            *contents = Contents::Shown(Box::new(window));
        }
        match contents {
            Contents::Shown(window) => Ok(Box::new(Desktop(window))),
            Contents::Waiting(_) => unreachable!("it was made above"),
        }
    });
    eframe::run_native(NAME, native, create)
}

/// Waits for the end of the run whose window cannot be shown any more.
fn go_on_without(window: &mut Window, why: &str) {
    if window.is_training() {
        tracing::error!("the window is lost: {why}; training goes on without it, Ctrl-C ends and saves it");
    } else {
        tracing::error!("the window is lost: {why}");
    }
    while window.is_training() && !window.is_asked_to_close() {
        std::thread::sleep(LOOK_EVERY);
    }
    window.finish();
}

/// False where it is known that no window can be shown.
fn has_display() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !cfg!(all(unix, not(target_os = "macos"))) || set("DISPLAY") || set("WAYLAND_DISPLAY") || set("WAYLAND_SOCKET")
}
