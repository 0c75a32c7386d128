//! Pictures with masks, in files.

use std::fmt;
use std::path::PathBuf;

use crate::data::files::{MAX_PICTURE_BYTES, decode_picture, picture_header, read_file, read_mask};
use crate::data::{Dataset, Description, Goal, IGNORED, Normalization, Sample, Split, Target};
use crate::error::{Error, Result};

use super::sizes::{check_size, common_shape};

/// What the numbers in masks mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Numbers {
    /// Those of the classes; [`IGNORED`] is none.
    Classes,
    /// 1, 2 and 3 of the Oxford-IIIT Pet trimaps: classes 0, 1 and 2.
    Trimap,
}

impl Numbers {
    /// The classes of a mask in place of its numbers, of which there are `classes`.
    fn translate(self, mask: &mut [u8], classes: usize) -> Result<(), String> {
        let first = match self {
            Self::Classes => 0,
            Self::Trimap => 1,
        };
        for number in mask {
            match number.checked_sub(first) {
                Some(class) if usize::from(class) < classes => *number = class,
                _ if *number == IGNORED && self == Self::Classes => {}
                _ => {
                    let last = usize::from(first) + classes - 1;
                    return Err(format!("a pixel of the mask is {number}, but the classes are {first} to {last}"));
                }
            }
        }
        Ok(())
    }
}

/// Pictures with masks, in files.
pub struct Masked {
    description: Description,
    /// Paths of a picture and its mask.
    files: Vec<[PathBuf; 2]>,
    numbers: Numbers,
}

impl fmt::Debug for Masked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (self as &dyn Dataset).fmt(f)
    }
}

impl Masked {
    /// Files of pictures and masks; `description` lacks the shape, which is found out, and what follows from it.
    pub(super) fn open(
        name: String,
        classes: Vec<String>,
        numbers: Numbers,
        parts: Split<Vec<[PathBuf; 2]>>,
        any_size: bool,
        normalization: fn(usize) -> Normalization,
    ) -> Result<Split<Self>> {
        let all: Vec<&[PathBuf; 2]> = parts.parts().flatten().collect();
        let shape = common_shape(all.len(), any_size, |number| {
            let [picture, _] = all[number];
            let mut bytes = Vec::new();
            read_file(picture, MAX_PICTURE_BYTES, &mut bytes)?;
            picture_header(&bytes).map_err(|reason| Error::format(picture, reason))
        })?;
        let normalization = normalization(shape[0]);
        let description = Description { normalization, ..Description::new(name, Goal::Segment, classes, shape) };
        Ok(parts.map(|files| Self { description: description.clone(), files, numbers }))
    }
}

impl Dataset for Masked {
    fn description(&self) -> &Description {
        &self.description
    }

    fn len(&self) -> usize {
        self.files.len()
    }

    fn get(&self, index: usize, sample: &mut Sample) -> Result<()> {
        let [picture, mask] = &self.files[index];
        let Description { shape, classes, .. } = &self.description;
        let mut bytes = Vec::new();
        read_file(picture, MAX_PICTURE_BYTES, &mut bytes)?;
        decode_picture(&bytes, shape[0], sample)
            .and_then(|()| check_size(sample, shape))
            .map_err(|reason| Error::format(picture, reason))?;
        read_file(mask, MAX_PICTURE_BYTES, &mut bytes)?;
        let wrong = |reason| Error::format(mask, reason);
        sample.set_mask(0);
        let Target::Mask(numbers) = &mut sample.target else { unreachable!("it was just made a mask") };
        let size = read_mask(&bytes, numbers).map_err(wrong)?;
        if size != sample.shape[1..] {
            let (is, picture) = (size, picture.display());
            let should = &sample.shape;
            return Err(wrong(format!(
                "it is {}x{}, but its picture {picture} is {}x{}",
                is[0], is[1], should[1], should[2]
            )));
        }
        self.numbers.translate(numbers, classes.len()).map_err(wrong)
    }
}
