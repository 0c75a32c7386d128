//! Pictures brought to one size.

use std::cell::RefCell;

use fast_image_resize::images::{TypedImage, TypedImageRef};
use fast_image_resize::pixels::U8;
use fast_image_resize::{FilterType, ResizeAlg, ResizeOptions, Resizer};

use crate::data::{Sample, Target, Values};
use crate::error::{Error, Result};

/// Most bytes that a thread keeps for its next picture, beyond what is in use.
const MAX_KEPT: usize = 16 << 20;

thread_local! {
    /// Tables and memory that the next picture uses again.
    static TOOLS: RefCell<Tools> = RefCell::new(Tools::default());
}

#[derive(Default)]
struct Tools {
    resizer: Resizer,
    from: Vec<u8>,
}

/// Brings pictures, and their masks, to one size, whatever their proportions were.
///
/// Pictures are resampled bilinearly, over as many pixels as fall into one when they shrink (antialiased, as Pillow and
/// torchvision do); of masks the nearest class is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resize {
    /// Rows of the result.
    pub height: usize,
    /// Columns of the result.
    pub width: usize,
}

impl Resize {
    /// Changes `sample` in place.
    ///
    /// # Errors
    /// If it is not a picture with a side of at least one pixel.
    pub fn apply(&self, sample: &mut Sample) -> Result<()> {
        let (&[channels, height, width], Values::U8(pixels)) = (&sample.shape[..], &mut sample.input) else {
            return Err(Error::Shape(format!("resize: {:?} is not a picture", sample.shape)));
        };
        if (height, width) == (self.height, self.width) {
            return Ok(());
        }
        let planes = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::Bilinear));
        TOOLS.with_borrow_mut(|tools| {
            std::mem::swap(&mut tools.from, pixels);
            let size = self.height * self.width;
            pixels.clear();
            pixels.resize(channels * size, 0);
            let sources = tools.from.chunks_exact((height * width).max(1));
            for (source, target) in sources.zip(pixels.chunks_exact_mut(size)) {
                self.plane(source, [height, width], target, &planes, &mut tools.resizer)?;
            }
            if let Target::Mask(mask) = &mut sample.target {
                tools.from.clear();
                tools.from.extend_from_slice(mask);
                mask.resize(size, 0);
                let nearest = ResizeOptions::new().resize_alg(ResizeAlg::Nearest);
                self.plane(&tools.from, [height, width], mask, &nearest, &mut tools.resizer)?;
            }
            sample.shape[1..].copy_from_slice(&[self.height, self.width]);
            tools.from.clear();
            for memory in [&mut tools.from, pixels] {
                // a large picture is rare, and what it took is not kept by every thread
                if memory.capacity() > MAX_KEPT {
                    memory.shrink_to(MAX_KEPT);
                }
            }
            Ok(())
        })
    }

    /// The classes of a mask, `[height, width]`, in this size: of each pixel that of the nearest one.
    ///
    /// # Errors
    /// If a side has no pixel.
    #[cfg(feature = "cli")]
    pub(crate) fn mask(&self, mask: &[u8], size: [usize; 2]) -> Result<Vec<u8>> {
        let (mut resized, nearest) =
            (vec![0; self.height * self.width], ResizeOptions::new().resize_alg(ResizeAlg::Nearest));
        self.plane(mask, size, &mut resized, &nearest, &mut Resizer::new())?;
        Ok(resized)
    }

    /// One channel, or a mask.
    fn plane(
        &self,
        source: &[u8],
        [height, width]: [usize; 2],
        target: &mut [u8],
        options: &ResizeOptions,
        resizer: &mut Resizer,
    ) -> Result<()> {
        let wrong = |error: &dyn std::fmt::Display| Error::Shape(format!("resize of [{height}, {width}]: {error}"));
        // Images whose kind of pixel is known at run time only would bring the code for all of them.
        let source = TypedImageRef::<U8>::from_buffer(width as u32, height as u32, source);
        let result = TypedImage::<U8>::from_buffer(self.width as u32, self.height as u32, target);
        let (source, mut result) = (source.map_err(|error| wrong(&error))?, result.map_err(|error| wrong(&error))?);
        resizer.resize_typed(&source, &mut result, options).map_err(|error| wrong(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Random;

    /// One line resampled with a triangle as wide as a pixel of the result, or of the picture if that is wider.
    fn line(from: &[f64], size: usize) -> Vec<f64> {
        let scale = from.len() as f64 / size as f64;
        let width = scale.max(1.0);
        let at = |position: usize| {
            let middle = (position as f64 + 0.5) * scale;
            let weight = |place: usize| (1.0 - ((place as f64 + 0.5 - middle) / width).abs()).max(0.0);
            let sum: f64 = (0..from.len()).map(weight).sum();
            (0..from.len()).map(|place| weight(place) * from[place]).sum::<f64>() / sum
        };
        (0..size).map(at).collect()
    }

    #[test]
    fn pictures_are_antialiased_and_masks_take_the_nearest() {
        let mut random = Random::new(&[8]);
        for (from, to) in [([7, 5], [3, 9]), ([4, 11], [4, 4]), ([1, 1], [3, 2]), ([13, 2], [5, 1]), ([6, 6], [6, 6])] {
            let ([height, width], [rows, columns]) = (from, to);
            let mut sample = Sample::default();
            sample.set_picture([2, height, width]).fill_with(|| random.bits() as u8);
            sample.set_mask(height * width).fill_with(|| random.bits() as u8);
            let before = sample.clone();
            Resize { height: rows, width: columns }.apply(&mut sample).expect("a picture");
            assert_eq!(sample.shape, [2, rows, columns]);
            let planes = |sample: &Sample, size: usize| -> Vec<Vec<u8>> {
                sample.input.as_bytes().chunks(size).map(<[u8]>::to_vec).collect()
            };
            for (before, after) in planes(&before, height * width).iter().zip(planes(&sample, rows * columns)) {
                let wide: Vec<Vec<f64>> = before
                    .chunks(width)
                    .map(|row| line(&row.iter().map(|&pixel| f64::from(pixel)).collect::<Vec<_>>(), columns))
                    .collect();
                for column in 0..columns {
                    let expected = line(&wide.iter().map(|row| row[column]).collect::<Vec<_>>(), rows);
                    for (row, expected) in expected.iter().enumerate() {
                        let got = f64::from(after[row * columns + column]);
                        // rounded to bytes after each of two passes
                        assert!((got - expected).abs() < 1.05, "{from:?} to {to:?}: {got} instead of {expected}");
                    }
                }
            }
            let (Target::Mask(before), Target::Mask(after)) = (&before.target, &sample.target) else {
                panic!("masks stay masks")
            };
            for (place, got) in after.iter().enumerate() {
                let nearest = |position: usize, from: usize, to: usize| (2 * position + 1) * from / (2 * to);
                let (y, x) = (nearest(place / columns, height, rows), nearest(place % columns, width, columns));
                assert_eq!(*got, before[y * width + x], "{from:?} to {to:?}");
            }
        }
        let mut row = Sample { shape: vec![2], input: Values::F32(vec![0.0; 2]), target: Target::Class(0) };
        assert!(matches!(Resize { height: 1, width: 1 }.apply(&mut row), Err(Error::Shape(_))));
    }
}
