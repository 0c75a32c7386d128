//! Colours that mean something.

use egui::Color32;

use crate::stage::Stage;

/// Colours of runs and of classes: Okabe and Ito's (2008), which most colour-blind people tell apart, then further
/// ones.
pub(super) const COLORS: [Color32; 10] = [
    Color32::from_rgb(0, 114, 178),
    Color32::from_rgb(230, 159, 0),
    Color32::from_rgb(0, 158, 115),
    Color32::from_rgb(213, 94, 0),
    Color32::from_rgb(204, 121, 167),
    Color32::from_rgb(86, 180, 233),
    Color32::from_rgb(160, 130, 20),
    Color32::from_rgb(140, 86, 190),
    Color32::from_rgb(150, 150, 150),
    Color32::from_rgb(190, 60, 60),
];

/// Good news, bad news, and neither.
pub(super) const GOOD: Color32 = Color32::from_rgb(40, 165, 90);
pub(super) const BAD: Color32 = Color32::from_rgb(214, 64, 52);
pub(super) const WARN: Color32 = Color32::from_rgb(214, 150, 20);
/// The colour of an ember.
pub(super) const EMBER: Color32 = Color32::from_rgb(232, 96, 36);

/// The `number`th colour, again from the start after ten.
pub(crate) fn color(number: usize) -> Color32 {
    COLORS[number % COLORS.len()]
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
