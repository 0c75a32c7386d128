//! The held-out samples that are shown with what the model says about them.

use crate::data::{Batch, Goal, Last, Pipeline, Targets, Values};

use super::pictures;
use super::record::Sheet;

/// Samples of classification, and of segmentation, that are shown: the first ones.
const CLASSIFIED: usize = 256;
const SEGMENTED: usize = 16;
/// Longest side of a sheet of pictures, which has to fit into one texture of a GPU.
const SHEET_SIDE: usize = 4096;
/// Pictures in a row, unless they are too wide.
const COLUMNS: usize = 16;

/// The first samples of the held-out part, in batches as they are judged.
#[derive(Default)]
pub(super) struct Shown {
    pub(super) batches: Vec<Batch>,
}

impl Shown {
    /// Reads them. If one cannot be read there are none: whoever needs all samples says what is wrong.
    pub(super) fn read(data: &Pipeline) -> Self {
        let of = data.description();
        let most = if of.goal == Goal::Segment { SEGMENTED } else { CLASSIFIED };
        let fits = match of.shape[..] {
            [_, height, width] => columns(width) * (SHEET_SIDE / height.max(1)).max(1),
            _ => most,
        };
        let first = data.clone().take(most.min(fits)).batch(data.batch_size(), Last::Keep).workers(1).start();
        let batches = first.and_then(Iterator::collect);
        Self { batches: batches.unwrap_or_default() }
    }

    /// True if they are pictures.
    pub(super) fn are_pictures(&self) -> bool {
        self.batches.iter().all(|batch| batch.shape.len() == 4 && matches!(batch.inputs, Values::U8(_)))
            && !self.batches.is_empty()
    }

    /// Their numbers in the data set.
    pub(super) fn indices(&self) -> impl Iterator<Item = usize> + '_ {
        self.batches.iter().flat_map(|batch| batch.indices.iter().copied())
    }

    /// Their classes, if samples have any.
    pub(super) fn labels(&self) -> Vec<u32> {
        let classes = self.batches.iter().filter_map(|batch| match &batch.targets {
            Targets::Classes(classes) | Targets::Mixed { first: classes, .. } => Some(classes),
            Targets::Masks(_) | Targets::Numbers(_) => None,
        });
        classes.flatten().copied().collect()
    }

    /// Their numbers, in regression.
    pub(super) fn numbers(&self) -> Vec<Vec<f32>> {
        let of = |batch: &Batch| match &batch.targets {
            Targets::Numbers(numbers) => {
                let rows = numbers.chunks_exact((numbers.len() / batch.rows().max(1)).max(1));
                rows.take(batch.samples).map(<[f32]>::to_vec).collect()
            }
            _ => Vec::new(),
        };
        self.batches.iter().flat_map(of).collect()
    }

    /// Their masks, one after the other, if they have any.
    pub(super) fn masks(&self) -> Vec<u8> {
        let masks = self.batches.iter().filter_map(|batch| match &batch.targets {
            Targets::Masks(masks) => Some(masks),
            _ => None,
        });
        masks.flatten().copied().collect()
    }

    /// A sheet of this name for their pictures.
    pub(super) fn sheet(&self, file: &str) -> Option<Sheet> {
        let [_, _, height, width] = self.batches.first()?.shape[..] else { return None };
        Some(Sheet { file: file.into(), height, width, columns: columns(width) })
    }

    /// The pictures as they are given to the model, `[samples, height, width, channels]`, brightened if they have few
    /// levels.
    pub(super) fn pixels(&self) -> Vec<u8> {
        let largest = self.batches.iter().map(|batch| pictures::largest(batch.inputs.as_bytes())).max().unwrap_or(255);
        let mut all = Vec::new();
        for batch in &self.batches {
            let channels = batch.shape[1];
            let planes = batch.inputs.as_bytes().chunks_exact(batch.shape[1..].iter().product::<usize>().max(1));
            planes.for_each(|planes| all.extend(pictures::interleaved(planes, channels, largest)));
        }
        all
    }
}

fn columns(width: usize) -> usize {
    COLUMNS.min(SHEET_SIDE / width.max(1)).max(1)
}
