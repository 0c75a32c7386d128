//! How dark and light look, where egui's own themes are hard to read.

use egui::{Color32, Context, Stroke, Theme, Visuals};

/// Makes texts and fields of both themes visible: weak words have a contrast of 4.5 to 1 at least, borders of 3 to 1, as
/// the Web Content Accessibility Guidelines ask for.
pub(super) fn dress(context: &Context) {
    for theme in [Theme::Dark, Theme::Light] {
        context.style_mut_of(theme, |style| legible(&mut style.visuals));
    }
}

fn legible(visuals: &mut Visuals) {
    let [words, weak, border] = if visuals.dark_mode { [170, 140, 108] } else { [70, 100, 135] };
    visuals.widgets.noninteractive.fg_stroke.color = Color32::from_gray(words);
    visuals.weak_text_color = Some(Color32::from_gray(weak));
    visuals.widgets.inactive.bg_stroke = Stroke::new(1.0, Color32::from_gray(border));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::palette::contrast;

    #[test]
    fn words_and_borders_stand_out() {
        for mut visuals in [Visuals::dark(), Visuals::light()] {
            legible(&mut visuals);
            for ground in [visuals.panel_fill, visuals.window_fill, visuals.extreme_bg_color] {
                let of = |color| contrast(color, ground);
                assert!(of(visuals.weak_text_color()) >= 4.5 && of(visuals.text_color()) >= 7.0, "{ground:?}");
                assert!(of(visuals.widgets.inactive.bg_stroke.color) >= 3.0, "{ground:?}");
            }
        }
    }
}
