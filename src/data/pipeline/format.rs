//! What a batch uploads, and how the device takes it in.

use super::On;
use crate::data::augment::PARAMETERS;
use crate::data::{Augment, Description, Goal, IGNORED};
use crate::runtime::Signature;
use crate::stage::Stage;
use crate::tensor::{CrossEntropy, Reduction, Tensor};
use crate::{DType, Shape};

/// What the batches of a [`Pipeline`](super::Pipeline) consist of.
#[derive(Clone, PartialEq, Debug)]
pub struct Format {
    /// What the samples in the batches are.
    pub description: Description,
    /// What is done to them.
    pub(super) augment: Augment,
    /// Where that is done.
    pub(super) on: On,
}

/// A batch on the device, as a model wants it.
#[derive(Clone, Debug)]
pub struct Received {
    /// Augmented, if the device does that, and normalized: `[rows, channels, height, width]` or `[rows, features]`,
    /// f32.
    pub inputs: Tensor,
    /// What should be said about them.
    pub labels: Labels,
    /// 1 for rows that count and 0 for padding, `[rows]`, f32.
    pub weights: Tensor,
}

/// Targets on the device.
#[derive(Clone, Debug)]
pub struct Labels {
    /// Classes as i32 `[rows]`, or of each pixel as i32 `[rows, height, width]`, where [`IGNORED`] ones do not count; of
    /// regression what is to be predicted, by its [scales](Description::scales), as f32 `[rows, numbers]`.
    pub classes: Tensor,
    /// Of mixed pictures: the second classes as i32 `[rows]`, and how much the first ones count as f32 `[rows]`.
    pub mixed: Option<(Tensor, Tensor)>,
}

impl Labels {
    /// [`Tensor::cross_entropy_with`], where [`IGNORED`] pixels do not count unless `options` name another class; of
    /// mixed labels `share · loss(first) + (1 - share) · loss(second)`, averaged over the rows as `options` says.
    ///
    /// # Panics
    /// If mixed labels come with weights of classes and a mean: the two means would have weights of their own.
    #[track_caller]
    pub fn cross_entropy(&self, logits: &Tensor, options: &CrossEntropy) -> Tensor {
        let Some((second, share)) = &self.mixed else {
            let is_mask = self.classes.rank() > 1;
            let ignore_index = options.ignore_index.or(is_mask.then_some(i32::from(IGNORED)));
            return logits.cross_entropy_with(&self.classes, &CrossEntropy { ignore_index, ..options.clone() });
        };
        let mean = options.reduction == Reduction::Mean;
        assert!(
            !(mean && options.weight.is_some()),
            "a mean of mixed labels goes over rows, not over weights of classes"
        );
        let each = CrossEntropy { reduction: Reduction::None, ..options.clone() };
        let loss = |labels| logits.cross_entropy_with(labels, &each);
        let losses = loss(&self.classes) * share + loss(second) * (1.0 - share);
        match options.reduction {
            Reduction::Mean => losses.mean(),
            Reduction::Sum => losses.sum(),
            Reduction::None => losses,
        }
    }
}

impl Format {
    /// Shapes and types of what [`Batch::uploads`](crate::data::Batch::uploads) gives for a batch of `rows` rows.
    pub fn signature(&self, rows: usize) -> Signature {
        let mut signature = self.description.signature(rows).to_vec();
        if self.augment.mixes() {
            signature.extend([(Shape::from([rows]), DType::I32), (Shape::from([rows]), DType::F32)]);
        }
        if self.augments() {
            signature.push((Shape::from([rows, PARAMETERS]), DType::F32));
        }
        signature
    }

    /// Makes of the uploads of a batch, as tensors, what a model wants: pictures are augmented, if that is left to the
    /// device, and become numbers. Meant to be called in the function of a [`Step`](crate::runtime::Step).
    ///
    /// # Panics
    /// If there are not as many tensors as a batch has uploads.
    #[track_caller]
    pub fn receive(&self, uploads: &[Tensor]) -> Received {
        let wanted = 3 + if self.augment.mixes() { 2 } else { 0 } + usize::from(self.augments());
        assert_eq!(uploads.len(), wanted, "a batch of {} has {wanted} uploads", self.description.name);
        let (mut inputs, mut classes) = (uploads[0].clone(), uploads[1].clone());
        if self.augments() {
            let parameters = &uploads[wanted - 1];
            Stage::Augment.scope(|| {
                if self.description.goal == Goal::Segment {
                    classes = self.augment.apply_to_masks(&classes, parameters);
                }
                inputs = self.augment.apply_on_device(&inputs, parameters);
            });
        }
        let mixed = self.augment.mixes().then(|| (uploads[3].clone(), uploads[4].clone()));
        let classes = match (self.description.goal, &self.description.scales) {
            (Goal::Regress, Some(scales)) => scales.standardised(&classes),
            (Goal::Regress, None) => classes,
            (Goal::Classify | Goal::Segment, _) => classes.to_dtype(DType::I32),
        };
        Received {
            inputs: self.description.normalization.apply(&inputs),
            labels: Labels { classes, mixed },
            weights: uploads[2].clone(),
        }
    }

    /// True if the device mixes pictures of a batch with each other.
    pub(crate) fn mixes_on_device(&self) -> bool {
        self.augments() && self.augment.mixes()
    }

    /// True if the device augments.
    fn augments(&self) -> bool {
        self.on == On::Device && !self.augment.is_none()
    }
}
