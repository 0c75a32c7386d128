//! Pictures brought to one size.

use std::cell::RefCell;

use fast_image_resize::images::{Image, ImageRef};
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};

use crate::data::{Sample, Target, Values};
use crate::error::{Error, Result};

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
    /// If it is no picture with a side of at least one pixel.
    pub fn apply(&self, sample: &mut Sample) -> Result<()> {
        let (&[channels, height, width], Values::U8(pixels)) = (&sample.shape[..], &mut sample.input) else {
            return Err(Error::Shape(format!("resize: {:?} is no picture", sample.shape)));
        };
        if (height, width) == (self.height, self.width) {
            return Ok(());
        }
        let planes = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::Bilinear));
        TOOLS.with_borrow_mut(|tools| {
            tools.from.clear();
            tools.from.extend_from_slice(pixels);
            let size = self.height * self.width;
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
            Ok(())
        })
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
        let source =
            ImageRef::new(width as u32, height as u32, source, PixelType::U8).map_err(|error| wrong(&error))?;
        let mut result = Image::from_slice_u8(self.width as u32, self.height as u32, target, PixelType::U8)
            .map_err(|error| wrong(&error))?;
        resizer.resize(&source, &mut result, options).map_err(|error| wrong(&error))
    }
}
