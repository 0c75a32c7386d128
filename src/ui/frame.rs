//! The window on the desktop.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use eframe::{App, NativeOptions};
use egui::{IconData, ViewportBuilder};
use parking_lot::Mutex;

use crate::error::panic_message;

use super::session::Ended;
use super::window::{Options, Window};

/// Under what its memory is kept, and what the desktop calls it.
const NAME: &str = "brasa";
/// Points.
const SIZE: [f32; 2] = [1280.0, 800.0];
const MIN_SIZE: [f32; 2] = [480.0, 360.0];
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

/// Why the graphics device was lost, if it was.
type Lost = Arc<Mutex<Option<String>>>;

struct Desktop<'a> {
    window: &'a mut Window,
    lost: Lost,
}

impl App for Desktop<'_> {
    fn logic(&mut self, ctx: &egui::Context, _frame: &mut eframe::Frame) {
        self.window.logic(ctx);
    }

    fn ui(&mut self, ui: &mut egui::Ui, _frame: &mut eframe::Frame) {
        if self.lost.lock().is_some() {
            // whatever is drawn on a lost device makes the drawing library panic
            return ui.ctx().send_viewport_cmd(egui::ViewportCommand::Close);
        }
        self.window.ui(ui);
    }

    fn save(&mut self, storage: &mut dyn eframe::Storage) {
        eframe::set_value(storage, NAME, &self.window.settings());
    }

    fn on_exit(&mut self) {
        if self.lost.lock().is_none() {
            self.window.finish();
        }
    }
}

/// Opens the window, and returns when it is closed: how the run ended that was trained in it at last, if any was. A
/// window whose graphics device is lost is opened again; if that cannot be, what trains in it goes on, and this returns
/// when it has ended.
///
/// # Errors
/// Why there is none: no display, or nothing that draws on it. The options come back, so that the run can go on
/// without.
pub fn open(options: Options) -> Result<Option<Ended>, (Box<Options>, String)> {
    if !has_display() {
        return Err((Box::new(options), "there is no display".to_owned()));
    }
    let mut contents = Contents::Waiting(Box::new(options));
    loop {
        let opened = Instant::now();
        // a device that is lost within a frame makes the drawing library panic
        let ended = catch_unwind(AssertUnwindSafe(|| show(&mut contents)));
        let (why, again) = match ended {
            Ok(Ok(None)) => {
                return Ok(match &contents {
                    Contents::Shown(window) => window.ended().cloned(),
                    Contents::Waiting(_) => None,
                });
            }
            Ok(Ok(Some(lost))) => (lost, opened.elapsed() > WORTH_ANOTHER),
            Ok(Err(error)) => (reason(&error), false),
            // after a panic winit shows nothing any more
            Err(panic) => (panic_message(panic.as_ref()).unwrap_or("it did not say why").to_owned(), false),
        };
        match contents {
            Contents::Waiting(options) => return Err((options, why)),
            Contents::Shown(ref mut window) if again => {
                tracing::error!("the window's graphics device was lost, and it is opened again: {why}");
                window.reopened(why);
            }
            Contents::Shown(mut window) => {
                go_on_without(&mut window, &why);
                return Ok(window.ended().cloned());
            }
        }
    }
}

/// Shows the window until it is closed, or its graphics device is lost because of what this returns.
fn show(contents: &mut Contents) -> eframe::Result<Option<String>> {
    let icon = image::load_from_memory(ICON).map(|icon| {
        let icon = icon.to_rgba8();
        IconData { width: icon.width(), height: icon.height(), rgba: icon.into_raw() }
    });
    let viewport = ViewportBuilder::default()
        .with_title(NAME)
        .with_app_id(NAME)
        .with_inner_size(SIZE)
        .with_min_inner_size(MIN_SIZE)
        .with_icon(Arc::new(icon.unwrap_or_default()));
    let native = NativeOptions { viewport, ..NativeOptions::default() };
    let lost = Lost::default();
    let noticed = Arc::clone(&lost);
    let create: eframe::AppCreator<'_> = Box::new(move |creation| {
        #[cfg(all(unix, not(target_os = "macos")))]
        super::lost_display::outlive(creation);
        if let Some(drawing) = &creation.wgpu_render_state {
            watch(&drawing.device, &noticed, &creation.egui_ctx);
        }
        if let Contents::Waiting(options) = contents {
            let settings = creation.storage.and_then(|storage| eframe::get_value(storage, NAME));
            let window = Window::new(*std::mem::take(options), settings.unwrap_or_default());
            *contents = Contents::Shown(Box::new(window));
        }
        match contents {
            Contents::Shown(window) => Ok(Box::new(Desktop { window, lost: noticed })),
            Contents::Waiting(_) => unreachable!("it was made above"),
        }
    });
    eframe::run_native(NAME, native, create)?;
    Ok(lost.lock().take())
}

/// Notices when the device is lost.
fn watch(device: &wgpu::Device, lost: &Lost, context: &egui::Context) {
    let (lost, context) = (Arc::clone(lost), context.clone());
    device.set_device_lost_callback(move |reason, message| {
        // which is how every window ends
        if reason != wgpu::DeviceLostReason::Destroyed {
            *lost.lock() = Some(message);
            context.request_repaint();
        }
    });
    // by default, they are panics
    device.on_uncaptured_error(Arc::new(|error| tracing::error!("the window cannot be drawn: {error}")));
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

/// Why a window could not be opened, in few words.
fn reason(error: &eframe::Error) -> String {
    let said = error.to_string();
    let Some((_, place_and_reason)) = said.split_once("os error at ") else { return said };
    // the place is a line of a library's source
    let reason = place_and_reason.split_once(": ").map_or(place_and_reason, |(_, reason)| reason);
    display().map_or(reason.to_owned(), |display| format!("{reason} ({display})"))
}

/// False where it is known that no window can be shown.
fn has_display() -> bool {
    !cfg!(all(unix, not(target_os = "macos"))) || display().is_some()
}

/// What says which display is to be used, where variables do: the first of these.
fn display() -> Option<String> {
    let set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let name = ["WAYLAND_DISPLAY", "WAYLAND_SOCKET", "DISPLAY"].into_iter().find(set)?;
    Some(format!("{name} is {}", std::env::var_os(name)?.display()))
}
