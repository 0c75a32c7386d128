//! Random changes to training pictures, on the host or on the device.
//!
//! An [`Augment`] is a list of changes, written as text: `flip,crop=4,color=0.2,erase=0.25,mixup=0.2`. What is random
//! in it is drawn on the host, sample by sample, as one row of [`PARAMETERS`] numbers; what these numbers say is then
//! done to the picture, either by the host or, as ordinary tensor ops, by the device. Both give the same picture, but
//! for one level of a byte where a value lies so close to a half that two ways of rounding a float decide; mixing takes
//! bytes, and can make two levels of two such values.
//!
//! | change | what it does, and what its number is | default |
//! | --- | --- | --- |
//! | `flip`, `vertical-flip` | left and right, or top and bottom, change places; the probability | 0.5 |
//! | `alternate-flip=N` | left and right change places in every second epoch, of half of the pictures in the first; with `N` epochs between | 1 |
//! | `crop=N` | moves by up to `N` whole pixels in each direction (a crop of the picture padded by `N`) | 4 |
//! | `resized-crop=A` | a part of `A` to 1 of the area, 3:4 to 4:3 in proportions, in full size | 0.08 |
//! | `rotate=D` | by up to `D` degrees to either side | 15 |
//! | `translate=F` | by up to `F` of its sides, in whole pixels | 0.1 |
//! | `scale=F` | enlarges to `1 - F` to `1 + F` of its size | 0.1 |
//! | `shear=D` | moves rows sideways, by up to `D` degrees | 10 |
//! | `perspective=F` | moves each corner inwards by up to `F` of half a side; every second picture | 0.3 |
//! | `brightness=F` | times `1 - F` to `1 + F` | 0.2 |
//! | `contrast=F` | the distance from the mean grey times `1 - F` to `1 + F` | 0.2 |
//! | `saturation=F` | the distance from each pixel's grey times `1 - F` to `1 + F` | 0.2 |
//! | `hue=F` | turns the hue by up to `F` of a whole turn, at most 0.5 | 0.1 |
//! | `color=F` | short for brightness, contrast and saturation | 0.2 |
//! | `blur=S` | Gaussian, of a standard deviation of 0.1 to `S` pixels | 1 |
//! | `noise=S` | normal noise of a standard deviation of `S` of 255 levels | 8 |
//! | `erase=P` | fills a rectangle of 2 to 33 % of the area, 3:10 to 10:3; the probability | 0.25 |
//! | `cutout=N` | fills a square of `N` pixels around any pixel | 8 |
//! | `mixup=A` | a weighted mean with another picture of the batch; the weight is of Beta(`A`, `A`) | 0.2 |
//! | `cutmix=A` | a rectangle comes from another picture of the batch; what is left is of Beta(`A`, `A`) | 1 |
//!
//! Changes of place are put together and resampled once, in the order they are written in; then come brightness,
//! contrast, saturation, hue, blur, noise, the filled rectangle and the mix, in this order wherever they are written.
//! With both mixup and cutmix each row has either. The formulas and the defaults of their ranges are torchvision's; of
//! cutout, mixup and CutMix those of DeVries and Taylor (2017), Zhang et al. (2018) and Yun et al. (2019), the
//! alternating flip is that of Jordan (2024, arXiv 2404.00498): two epochs show each picture both ways round.
//!
//! `fill=N` (0) is the level of what was outside of the picture and of filled rectangles. With `edge=border` or
//! `edge=reflect` what was outside is the nearest pixel of the edge or the picture mirrored at it.
//! Masks go through the changes of place, with the nearest class; what was outside or is filled is
//! [`IGNORED`](super::IGNORED).
//!
//! Presets: `none`; `shift` is `crop=1`; `cifar` is `crop=4,flip`.

mod color;
mod device;
mod draw;
mod filter;
mod host;
mod mix;
mod text;
mod warp;

#[cfg(test)]
mod tests;

use crate::error::{Error, Result};
use crate::tensor::Outside;

pub use draw::PARAMETERS;
pub(super) use draw::{Turn, identity};
pub(super) use host::Scratch;
pub(super) use mix::Mixer;

/// A kind of change; see the [table](self).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[expect(missing_docs, reason = "the module's table says what each does")]
pub enum Change {
    Flip,
    VerticalFlip,
    AlternateFlip,
    Crop,
    ResizedCrop,
    Rotate,
    Translate,
    Scale,
    Shear,
    Perspective,
    Brightness,
    Contrast,
    Saturation,
    Hue,
    Blur,
    Noise,
    Erase,
    Cutout,
    Mixup,
    CutMix,
}

/// A list of changes, each with its amount; see the [module](self).
///
/// ```
/// use brasa::data::Augment;
/// use brasa::data::augment::Change;
///
/// let augment: Augment = "cifar".parse()?;
/// assert_eq!(augment, Augment::new(&[(Change::Crop, 4.0), (Change::Flip, 0.5)])?);
/// assert_eq!(augment.to_string(), "crop=4,flip=0.5");
/// # Ok::<(), brasa::Error>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Augment {
    changes: Vec<(Change, f64)>,
    edge: Outside,
    fill: u8,
}

impl Default for Augment {
    /// No change.
    fn default() -> Self {
        Self { changes: Vec::new(), edge: Outside::Zeros, fill: 0 }
    }
}

impl Augment {
    /// These changes, each at most once.
    ///
    /// # Errors
    /// If an amount is out of its range, or a change stands there twice.
    pub fn new(changes: &[(Change, f64)]) -> Result<Self> {
        for (place, &(change, amount)) in changes.iter().enumerate() {
            change.check(amount)?;
            let same = |other: Change| {
                other == change
                    || [other, change] == [Change::Erase, Change::Cutout]
                    || [change, other] == [Change::Erase, Change::Cutout]
            };
            if let Some((other, _)) = changes[..place].iter().find(|(other, _)| same(*other)) {
                return Err(Error::Config(format!("augmentation: there can be only one of {other} and {change}")));
            }
        }
        Ok(Self { changes: changes.to_vec(), ..Self::default() })
    }

    /// With this outside of the picture instead of `fill`.
    #[must_use]
    pub fn with_edge(mut self, edge: Outside) -> Self {
        self.edge = edge;
        self
    }

    /// With this level, instead of 0, outside of the picture and in filled rectangles.
    #[must_use]
    pub fn with_fill(mut self, fill: u8) -> Self {
        self.fill = fill;
        self
    }

    /// The changes, in order, with their amounts.
    pub fn changes(&self) -> &[(Change, f64)] {
        &self.changes
    }

    /// True if there is no change.
    pub fn is_none(&self) -> bool {
        self.changes.is_empty()
    }

    /// True if pictures of a batch are mixed, so that each has two classes.
    pub fn mixes(&self) -> bool {
        self.amount(Change::Mixup).or(self.amount(Change::CutMix)).is_some()
    }

    /// The amount of a change, if it is there.
    fn amount(&self, change: Change) -> Option<f64> {
        self.changes.iter().find(|(other, _)| *other == change).map(|(_, amount)| *amount)
    }

    fn has(&self, changes: &[Change]) -> bool {
        self.changes.iter().any(|(change, _)| changes.contains(change))
    }

    /// True if pixels change their places.
    fn moves(&self) -> bool {
        self.has(&[Change::Flip, Change::VerticalFlip, Change::AlternateFlip, Change::Crop, Change::Translate])
            || !self.moves_exactly()
    }

    /// True if pixels that change their places move by whole pixels only.
    fn moves_exactly(&self) -> bool {
        !self.has(&[Change::ResizedCrop, Change::Rotate, Change::Scale, Change::Shear, Change::Perspective])
    }

    /// Taps of the blur to each side.
    fn blur_radius(&self) -> Option<usize> {
        self.amount(Change::Blur).map(|deviation| (3.0 * deviation).ceil() as usize)
    }
}
