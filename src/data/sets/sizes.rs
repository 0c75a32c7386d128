//! What the pictures of a data set have in common.

use crate::data::files::PictureHeader;
use crate::data::{Normalization, Sample};
use crate::error::Result;

/// How many pictures are looked at.
const LOOKED_AT: usize = 64;

/// Shape of a data set's pictures, by a few that are spread over all: one channel if all of these are grey, else three;
/// height and width are 0 if theirs differ, or if `any_size` says that they may.
///
/// # Errors
/// If none of those can be read: that of the first. One that is broken is told when it is read.
pub(super) fn common_shape(
    count: usize,
    any_size: bool,
    header: impl Fn(usize) -> Result<PictureHeader>,
) -> Result<Vec<usize>> {
    let looked_at = count.min(LOOKED_AT);
    let (mut grey, mut size, mut failed) = (true, None, None);
    let mut differ = any_size;
    for number in 0..looked_at {
        match header(number * count / looked_at) {
            Ok(header) => {
                grey &= header.grey;
                differ |= *size.get_or_insert(header.size) != header.size;
            }
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    let [height, width] = match (size, failed) {
        (Some(_), _) if differ => [0, 0],
        (Some(size), _) => size,
        (None, Some(error)) => return Err(error),
        (None, None) => [0, 0],
    };
    Ok(vec![if grey { 1 } else { 3 }, height, width])
}

/// Whether a picture is as the description says.
pub(super) fn check_size(sample: &Sample, shape: &[usize]) -> Result<(), String> {
    if shape[1] == 0 || sample.shape == shape {
        return Ok(());
    }
    let (is, should) = (&sample.shape, shape);
    Err(format!(
        "it is {}x{} pixels high and wide, but other pictures are {}x{}: pictures that differ have to be resized",
        is[1], is[2], should[1], should[2]
    ))
}

/// For photographs nothing else is known of: the mean and standard deviation of ImageNet's channels, with which most
/// pretrained networks were trained; for grey pictures, their means.
pub(super) fn of_photographs(channels: usize) -> Normalization {
    let of = |values: [f32; 3]| match channels {
        1 => vec![values.iter().sum::<f32>() / 3.0 * 255.0],
        _ => values.map(|value| value * 255.0).into(),
    };
    Normalization { mean: of([0.485, 0.456, 0.406]), std: of([0.229, 0.224, 0.225]) }
}
