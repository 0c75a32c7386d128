//! Brightness, contrast, saturation and hue on the host, as in torchvision; levels are floats from 0 to 255.

use super::warp::floor;

/// How much each of three channels counts in grey (ITU-R BT.601, rounded as in torchvision).
pub(super) const GREY: [f32; 3] = [0.2989, 0.587, 0.114];

/// Like [`blended`] with black.
pub(super) fn brighten(levels: &mut [f32], factor: f32) {
    levels.iter_mut().for_each(|level| *level = blended(*level, 0.0, factor));
}

/// Changes the distance from the mean grey of the picture, of `channels` channels.
pub(super) fn contrast(levels: &mut [f32], channels: usize, factor: f32) {
    let size = levels.len() / channels;
    let weight = |channel: usize| if channels == 3 { GREY[channel] } else { 1.0 / channels as f32 };
    // in f64, as the mean of a large picture must not depend on the order of the sum
    let sum = |channel: &[f32]| channel.iter().map(|&level| f64::from(level)).sum::<f64>() / size as f64;
    let mean = levels.chunks_exact(size).enumerate().map(|(number, channel)| sum(channel) * f64::from(weight(number)));
    let mean = mean.sum::<f64>() as f32;
    levels.iter_mut().for_each(|level| *level = blended(*level, mean, factor));
}

/// Changes the distance of each pixel from its grey, of pictures with three channels.
pub(super) fn saturate(levels: &mut [f32], factor: f32) {
    each_color(levels, |color| {
        let grey: f32 = color.iter().zip(GREY).map(|(level, weight)| level * weight).sum();
        color.map(|level| blended(level, grey, factor))
    });
}

/// Turns the hue of each pixel by a part of a whole turn, of pictures with three channels.
pub(super) fn turn_hue(levels: &mut [f32], turns: f32) {
    each_color(levels, |color| {
        let [hue, saturation, value] = to_hsv(color);
        from_hsv([hue + turns, saturation, value])
    });
}

/// `factor` of a level and the rest of another one, from 0 to 255.
fn blended(level: f32, with: f32, factor: f32) -> f32 {
    (level * factor + with * (1.0 - factor)).clamp(0.0, 255.0)
}

fn each_color(levels: &mut [f32], change: impl Fn([f32; 3]) -> [f32; 3]) {
    let size = levels.len() / 3;
    let (red, rest) = levels.split_at_mut(size);
    let (green, blue) = rest.split_at_mut(size);
    for ((red, green), blue) in red.iter_mut().zip(green).zip(blue) {
        [*red, *green, *blue] = change([*red, *green, *blue]);
    }
}

/// Hue in turns, saturation from 0 to 1, and the largest level.
fn to_hsv([red, green, blue]: [f32; 3]) -> [f32; 3] {
    let (most, least) = (red.max(green).max(blue), red.min(green).min(blue));
    let range = most - least;
    if range == 0.0 {
        return [0.0, 0.0, most];
    }
    let sixths = if most == red {
        (green - blue) / range
    } else if most == green {
        2.0 + (blue - red) / range
    } else {
        4.0 + (red - green) / range
    };
    [sixths / 6.0, range / most, most]
}

/// Each channel is the largest level but for its part of the circle.
fn from_hsv([hue, saturation, value]: [f32; 3]) -> [f32; 3] {
    [5.0_f32, 3.0, 1.0].map(|offset| {
        let sixths = offset + hue * 6.0;
        let sixths = sixths - floor(sixths * (1.0 / 6.0)) as f32 * 6.0;
        value - value * saturation * sixths.min(4.0 - sixths).clamp(0.0, 1.0)
    })
}

/// A level rounded to a byte, halves to even ones as the device does.
pub(super) fn to_byte(level: f32) -> u8 {
    // at this size the last bit of a float counts ones, so the sum is rounded there, and its low bits are the number
    const ROUND: f32 = 12_582_912.0;
    ((level.clamp(0.0, 255.0) + ROUND).to_bits() & 0xff) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_rounded_to_even() {
        for step in -100..2700 {
            let level = step as f32 / 10.0;
            assert_eq!(to_byte(level), level.clamp(0.0, 255.0).round_ties_even() as u8, "{level}");
        }
        assert_eq!([0.5, 1.5, 2.5, 254.5, 0.500_001].map(to_byte), [0, 2, 2, 254, 1]);
        assert_eq!(to_byte(f32::INFINITY), 255);
    }

    #[test]
    fn floors_are_floors() {
        for step in -40..40 {
            let value = step as f32 / 8.0;
            assert_eq!(floor(value), value.floor() as i32, "{value}");
        }
    }
}
