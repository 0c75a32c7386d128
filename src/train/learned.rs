//! Samples as those that a model has learned from, wherever they come from.

use crate::data::{Columns, Description, Normalization, Pipeline, Sample, Values};
use crate::error::{Error, Result};

use super::pictures;
use super::record::InputRecord;

/// How much red, green and blue count in grey (ITU-R BT.709), as where pictures are decoded without colour.
const GREY: [u32; 3] = [2126, 7152, 722];

impl InputRecord {
    /// What the model sees of the samples that it has learned from.
    pub(super) fn normalization(&self) -> Normalization {
        Normalization { mean: self.mean.clone(), std: self.std.clone() }
    }

    /// The columns of the table that the model has learned from. Runs from before their scales were written, and those of
    /// a program's own data, do not tell.
    pub(super) fn columns(&self) -> Option<Columns> {
        let scales = self.normalization();
        (self.shape == [scales.mean.len()] && scales != Normalization::default())
            .then(|| Columns { names: self.columns.clone(), scales })
    }

    /// The samples of `pipeline` with the size, the channels and the levels of those that the model has learned from,
    /// which it will see as it saw those. Tables have been standardised by the columns that it has learned from.
    pub(super) fn applied(&self, pipeline: Pipeline) -> Result<Pipeline> {
        let of = pipeline.description().clone();
        let normalization = self.normalization();
        if of.shape == self.shape && of.normalization == normalization {
            return Ok(pipeline);
        }
        match (&of.shape[..], &self.shape[..]) {
            (&[1 | 3, ..], &[channels @ (1 | 3), height, width]) if of.shape.len() == 3 => {
                let factor = levels(&normalization) / levels(&of.normalization);
                let shape = vec![channels, of.shape[1], of.shape[2]];
                Ok(pipeline
                    .map(move |sample, _| {
                        change_channels(sample, channels);
                        change_levels(sample, factor);
                        Ok(())
                    })
                    .described(Description { shape, normalization, ..of })
                    .resize(height, width))
            }
            (&[own], &[learned]) if own == learned => Ok(pipeline.described(Description { normalization, ..of })),
            (own, learned) => {
                let name = of.name;
                let message = format!("samples of `{name}` are {own:?}, but the model has learned from {learned:?}");
                Err(Error::Config(message))
            }
        }
    }
}

/// The largest level of pictures with few, as the digits have 16: what becomes 1 of a range that begins with 0.
pub(super) fn few_levels(normalization: &Normalization) -> Option<f32> {
    match (&normalization.mean[..], &normalization.std[..]) {
        (&[mean], &[std]) if mean == 0.0 && std < f32::from(pictures::FEW) => Some(std),
        _ => None,
    }
}

/// The largest level that pictures have.
pub(super) fn levels(normalization: &Normalization) -> f32 {
    few_levels(normalization).unwrap_or(255.0)
}

/// Brings a picture to as many levels, times `factor`.
pub(super) fn change_levels(sample: &mut Sample, factor: f32) {
    if let Values::U8(planes) = &mut sample.input
        && factor != 1.0
    {
        planes.iter_mut().for_each(|level| *level = (f32::from(*level) * factor).round().min(255.0) as u8);
    }
}

/// From grey to three equal channels, or from three to grey.
fn change_channels(sample: &mut Sample, channels: usize) {
    let Values::U8(planes) = &mut sample.input else { return };
    match (sample.shape[0], channels) {
        (1, 3) => *planes = planes.repeat(3),
        (3, 1) => {
            let points = planes.len() / 3;
            for point in 0..points {
                let parts = GREY.iter().enumerate().map(|(c, part)| part * u32::from(planes[c * points + point]));
                planes[point] = (parts.sum::<u32>() / GREY.iter().sum::<u32>()) as u8;
            }
            planes.truncate(points);
        }
        _ => return,
    }
    sample.shape[0] = channels;
}
