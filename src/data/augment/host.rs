//! Augmentation by the host.

use super::draw::{BLUR, BRIGHTNESS, CONTRAST, ERASE, HUE, NOISE, NOISE_KEY, PARAMETERS, SATURATION};
use super::{Augment, Change, color, filter, warp};
use crate::data::{IGNORED, Sample, Target, Values};

/// Memory that is used for one picture after the other.
#[derive(Default)]
pub(in crate::data) struct Scratch {
    bytes: Vec<u8>,
    levels: Vec<f32>,
    blurred: Vec<f32>,
}

impl Augment {
    /// Does to a picture, and its mask, what the parameters say, but for the mix. The pipeline lets only pictures of
    /// bytes come here.
    pub(in crate::data) fn apply(&self, sample: &mut Sample, parameters: &[f32; PARAMETERS], scratch: &mut Scratch) {
        let (&[channels, height, width], Values::U8(pixels)) = (&sample.shape[..], &mut sample.input) else { return };
        let sides = [height, width];
        if pixels.is_empty() {
            return;
        }
        let outside = (self.edge, self.fill);
        let moves = self.moves();
        if moves {
            scratch.bytes.clear();
            scratch.bytes.extend_from_slice(pixels);
        }
        let Scratch { bytes, levels, .. } = scratch;
        if moves && self.moves_exactly() {
            for (from, to) in bytes.chunks_exact(height * width).zip(pixels.chunks_exact_mut(height * width)) {
                warp::move_exactly(from, to, sides, parameters, outside);
            }
        }
        let resamples = !self.moves_exactly();
        if resamples || self.recolors() {
            levels.clear();
            if resamples {
                levels.resize(pixels.len(), 0.0);
                warp::resample(bytes, levels, sides, parameters, outside);
            } else {
                levels.extend(pixels.iter().map(|&pixel| f32::from(pixel)));
            }
            self.recolor(parameters, [channels, height, width], scratch);
            pixels.iter_mut().zip(&scratch.levels).for_each(|(pixel, level)| *pixel = color::to_byte(*level));
        }
        let rectangle = erased(parameters);
        for channel in pixels.chunks_exact_mut(height * width) {
            fill(channel, width, rectangle, self.fill);
        }
        let Target::Mask(mask) = &mut sample.target else { return };
        if moves {
            let from = &mut scratch.bytes;
            from.clear();
            from.extend_from_slice(mask);
            if self.moves_exactly() {
                warp::move_exactly(from, mask, sides, parameters, (self.edge, IGNORED));
            } else {
                warp::resample_mask(from, mask, sides, parameters, self.edge);
            }
        }
        fill(mask, width, rectangle, IGNORED);
    }

    /// True if pixels change their levels.
    fn recolors(&self) -> bool {
        use Change::{Blur, Brightness, Contrast, Hue, Noise, Saturation};
        self.has(&[Brightness, Contrast, Saturation, Hue, Blur, Noise])
    }

    /// All that changes the levels, in its fixed order.
    fn recolor(&self, parameters: &[f32; PARAMETERS], [channels, height, width]: [usize; 3], scratch: &mut Scratch) {
        let levels = &mut scratch.levels;
        if self.has(&[Change::Brightness]) {
            color::brighten(levels, parameters[BRIGHTNESS]);
        }
        if self.has(&[Change::Contrast]) {
            color::contrast(levels, channels, parameters[CONTRAST]);
        }
        if self.has(&[Change::Saturation]) && channels == 3 {
            color::saturate(levels, parameters[SATURATION]);
        }
        if self.has(&[Change::Hue]) && channels == 3 {
            color::turn_hue(levels, parameters[HUE]);
        }
        if let Some(radius) = self.blur_radius() {
            for channel in levels.chunks_exact_mut(height * width) {
                filter::blur(channel, [height, width], parameters[BLUR], radius, &mut scratch.blurred);
            }
        }
        if self.has(&[Change::Noise]) {
            let (deviation, key) = (parameters[NOISE], parameters[NOISE_KEY] as u32);
            for (element, level) in levels.iter_mut().enumerate() {
                *level += deviation * filter::normal(key, element as u32);
            }
        }
    }
}

/// Top, left, bottom and right of what is filled.
fn erased(parameters: &[f32; PARAMETERS]) -> [usize; 4] {
    std::array::from_fn(|side| parameters[ERASE + side] as usize)
}

fn fill(plane: &mut [u8], width: usize, [top, left, bottom, right]: [usize; 4], value: u8) {
    for row in top..bottom {
        plane[row * width + left..row * width + right.max(left)].fill(value);
    }
}
