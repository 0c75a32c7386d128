//! Colours that mean something.

use egui::{Color32, Ui, Visuals};

use crate::colors::COLORS;
use crate::stage::Stage;

/// Good news, bad news, and neither.
pub(super) const GOOD: Color32 = Color32::from_rgb(40, 165, 90);
pub(super) const BAD: Color32 = Color32::from_rgb(214, 64, 52);
pub(super) const WARN: Color32 = Color32::from_rgb(214, 150, 20);
/// The colour of an ember.
pub(super) const EMBER: Color32 = Color32::from_rgb(232, 96, 36);

/// How many colours of runs there are.
pub(super) const COUNT: usize = COLORS.len();

/// The `number`th colour of a run, again from the start after ten.
pub(crate) fn color(number: usize) -> Color32 {
    rgb(COLORS[number % COLORS.len()])
}

/// A colour from its parts.
pub(super) const fn rgb([red, green, blue]: [u8; 3]) -> Color32 {
    Color32::from_rgb(red, green, blue)
}

/// A stage's colour: feeding in blues, the model in warm colours, the rest grey to green.
pub(super) fn of_stage(stage: Stage) -> Color32 {
    match stage {
        Stage::Load => Color32::from_rgb(58, 112, 196),
        Stage::Augment => Color32::from_rgb(92, 150, 226),
        Stage::Batch => Color32::from_rgb(144, 192, 240),
        Stage::Upload => Color32::from_rgb(86, 196, 214),
        Stage::Forward => Color32::from_rgb(240, 170, 50),
        Stage::Loss => Color32::from_rgb(244, 208, 90),
        Stage::Backward => Color32::from_rgb(226, 96, 44),
        Stage::Update => Color32::from_rgb(176, 62, 88),
        Stage::Evaluate => Color32::from_rgb(70, 160, 96),
        Stage::Log => Color32::from_rgb(140, 140, 140),
    }
}

/// From cold (0) to hot (1).
pub(super) fn heat(part: f32) -> Color32 {
    let stops = [[30.0, 44.0, 92.0], [70.0, 120.0, 170.0], [222.0, 190.0, 110.0], [236.0, 98.0, 36.0]];
    let place = part.clamp(0.0, 1.0) * (stops.len() - 1) as f32;
    let low = (place as usize).min(stops.len() - 2);
    let part = place - low as f32;
    let mixed = [0, 1, 2].map(|at: usize| (stops[low][at] + (stops[low + 1][at] - stops[low][at]) * part) as u8);
    Color32::from_rgb(mixed[0], mixed[1], mixed[2])
}

/// Black or white, whichever is read better on `background`.
pub(super) fn ink_on(background: Color32) -> Color32 {
    let [r, g, b, _] = background.to_array().map(f32::from);
    if 0.299 * r + 0.587 * g + 0.114 * b > 140.0 { Color32::BLACK } else { Color32::WHITE }
}

/// The colour, so far from the ground that words in it can be read.
pub(super) fn readable(ui: &Ui, color: Color32) -> Color32 {
    readable_in(ui.visuals(), color)
}

fn readable_in(visuals: &Visuals, color: Color32) -> Color32 {
    /// Of the Web Content Accessibility Guidelines, and a little for striped grounds.
    const LEAST: f32 = 4.8;
    let away = if visuals.dark_mode { Color32::WHITE } else { Color32::BLACK };
    let mixed = (0..=20_u8).map(|part| color.lerp_to_gamma(away, f32::from(part) / 20.0));
    mixed.into_iter().find(|mixed| contrast(*mixed, visuals.panel_fill) >= LEAST).unwrap_or(away)
}

/// How far two colours are from each other, from 1 to 21, as the Web Content Accessibility Guidelines have it.
pub(super) fn contrast(one: Color32, other: Color32) -> f32 {
    let luminance = |color: Color32| {
        let [r, g, b, _] = egui::Rgba::from(color).to_array();
        0.2126 * r + 0.7152 * g + 0.0722 * b
    };
    let [one, other] = [one, other].map(luminance);
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_in_any_colour_can_be_read() {
        assert!((contrast(Color32::WHITE, Color32::BLACK) - 21.0).abs() < 0.01);
        for visuals in [Visuals::dark(), Visuals::light()] {
            for color in COLORS.map(rgb).into_iter().chain([GOOD, BAD, WARN, EMBER]).chain(Stage::ALL.map(of_stage)) {
                assert!(contrast(readable_in(&visuals, color), visuals.panel_fill) >= 4.5, "{color:?}");
            }
        }
        let dark = Visuals::dark();
        assert_eq!(readable_in(&dark, color(1)), color(1), "what can be read stays");
    }
}
