//! The bar at the top: name, tabs, and what is about the window itself.

use egui::{Align, Layout, RichText, Ui};

use super::pages;
use super::palette;
use super::settings::{Language, Page};
use super::window::Seen;

/// Draws it.
pub(super) fn top(ui: &mut Ui, seen: &mut Seen<'_>, narrow: bool, list_open: &mut bool) {
    let text = seen.text;
    ui.add_space(4.0);
    ui.horizontal_wrapped(|ui| {
        let toggle = ui.toggle_value(list_open, if *list_open { "«" } else { "»" });
        toggle.accessible_name(text.t("list of runs")).on_hover_text(text.t("Show or hide the list of runs (Ctrl+B)"));
        if !narrow {
            ui.label(RichText::new("brasa").strong().size(18.0).color(palette::readable(ui, palette::EMBER)));
            ui.add_space(6.0);
        }
        for (number, page) in Page::ALL.into_iter().enumerate() {
            let chosen = seen.settings.page == page;
            let tab = ui.selectable_label(chosen, pages::title(page, text));
            let key = if page == Page::About { "F1".to_owned() } else { format!("Ctrl+{}", number + 1) };
            if tab.on_hover_text(key).clicked() {
                seen.settings.page = page;
            }
        }
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            let language = match seen.settings.language {
                Language::English => "EN",
                Language::Portuguese => "PT",
            };
            let button = ui.button(language).accessible_name(text.t("language"));
            if button.on_hover_text(text.t("Speak the other language: English, Portuguese")).clicked() {
                seen.settings.language = match seen.settings.language {
                    Language::English => Language::Portuguese,
                    Language::Portuguese => Language::English,
                };
            }
            let dark = ui.visuals().dark_mode;
            let (word, theme) =
                if dark { (text.t("light"), egui::Theme::Light) } else { (text.t("dark"), egui::Theme::Dark) };
            if ui.button(word).on_hover_text(text.t("Light or dark")).clicked() {
                ui.ctx().set_theme(theme);
            }
        });
    });
    ui.add_space(2.0);
}
