//! The window on the desktop.

use std::sync::Arc;

use eframe::{App, NativeOptions};
use egui::{IconData, ViewportBuilder};

use super::window::{Options, Window};

/// Under what its memory is kept, and what the desktop calls it.
const NAME: &str = "brasa";
/// Points.
const SIZE: [f32; 2] = [1280.0, 800.0];
const LEAST_SIZE: [f32; 2] = [480.0, 360.0];
const ICON: &[u8] = include_bytes!("../../assets/icon.png");

struct Desktop(Window);

impl App for Desktop {
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

/// Opens the window, and returns when it is closed.
///
/// # Errors
/// Why there is none: no display, or nothing that draws on it. The options come back, so that the run can go on without.
pub fn open(options: Options) -> Result<(), (Box<Options>, String)> {
    if !has_display() {
        return Err((Box::new(options), "there is no display".to_owned()));
    }
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
    // kept here until there is a window to give it to
    let waiting = Arc::new(parking_lot::Mutex::new(Some(options)));
    let given = Arc::clone(&waiting);
    let create: eframe::AppCreator<'_> = Box::new(move |creation| {
        let options = given.lock().take().ok_or("a second window")?;
        let settings = creation.storage.and_then(|storage| eframe::get_value(storage, NAME));
        Ok(Box::new(Desktop(Window::new(options, settings.unwrap_or_default()))))
    });
    eframe::run_native(NAME, native, create).or_else(|error| match waiting.lock().take() {
        Some(options) => Err((Box::new(options), error.to_string())),
        // it was open, so whatever trains has been told to save
        None => {
            tracing::error!("the window was closed: {error}");
            Ok(())
        }
    })
}

/// False where it is known that no window can be shown.
fn has_display() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !cfg!(all(unix, not(target_os = "macos"))) || set("DISPLAY") || set("WAYLAND_DISPLAY") || set("WAYLAND_SOCKET")
}
