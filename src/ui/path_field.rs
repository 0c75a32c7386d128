//! A field for a path: not every desktop lets files be dropped.

use std::path::PathBuf;

use egui::{Key, TextEdit, Ui};

use super::palette;
use super::text::Text;

/// What is typed.
#[derive(Default)]
pub(super) struct PathField {
    path: String,
    /// It is not there.
    missing: bool,
}

impl PathField {
    /// Draws the field, called `name`; returns the path once it is to be opened, and is there.
    pub(super) fn ui(&mut self, ui: &mut Ui, text: Text, name: &str) -> Option<PathBuf> {
        let width = (ui.available_width() - 70.0).clamp(80.0, 260.0);
        let hint = text.f("path of a {}", &[&name]);
        let edit = TextEdit::singleline(&mut self.path).desired_width(width).hint_text(hint.as_str());
        let field = ui.add(edit).accessible_name(hint);
        if field.changed() {
            self.missing = false;
        }
        let entered = field.lost_focus() && ui.input(|input| input.key_pressed(Key::Enter));
        let open = ui.button(text.t("Open")).on_hover_text(text.f("Open the {} at this path", &[&name]));
        let mut found = None;
        if (open.clicked() || entered) && !self.path.trim().is_empty() {
            let path = PathBuf::from(self.path.trim());
            self.missing = !path.exists();
            found = path.exists().then_some(path);
        }
        if self.missing {
            ui.colored_label(palette::readable(ui, palette::BAD), text.t("nothing is there"));
        }
        found
    }
}
