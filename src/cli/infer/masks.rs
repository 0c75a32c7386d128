//! Masks as files.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use png::{BitDepth, ColorType, Encoder};

use crate::data::Resize;
use crate::error::{Error, Result};
use crate::files::{create_folder, write_new};
use crate::train::class_color;

/// Writes `mask`, of the size `given` to the model, as an indexed PNG of the `size` (height, width) that the picture
/// had, under the picture's name into `folder`; never over another file. Says where it is.
pub(super) fn write(folder: &Path, place: &Path, mask: &[u8], given: [usize; 2], size: [usize; 2]) -> Result<PathBuf> {
    let named = if place.as_os_str().is_empty() { Path::new("mask") } else { place };
    let path = folder.join(named.with_extension("png"));
    let [height, width] = size;
    let png = encoded(&Resize { height, width }.mask(mask, given)?, size);
    let png = png.map_err(|error| Error::format(&path, error.to_string()))?;
    create_folder(path.parent().unwrap_or(folder))?;
    match write_new(&path, &png) {
        Ok(()) => Ok(path),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let reason = "there is such a file already, and it stays: name another folder for the masks";
            Err(Error::format(path, reason))
        }
        Err(error) => Err(Error::io(path, error)),
    }
}

fn encoded(classes: &[u8], [height, width]: [usize; 2]) -> Result<Vec<u8>, png::EncodingError> {
    let mut file = Vec::new();
    let mut encoder = Encoder::new(&mut file, width as u32, height as u32);
    encoder.set_color(ColorType::Indexed);
    encoder.set_depth(BitDepth::Eight);
    encoder.set_palette((0..=255).flat_map(class_color).collect::<Vec<u8>>());
    let mut writer = encoder.write_header()?;
    writer.write_image_data(classes)?;
    writer.finish()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_have_the_class_of_the_nearest() {
        let mask = [1, 2, 3, 4];
        let in_size = |[height, width]: [usize; 2]| Resize { height, width }.mask(&mask, [2, 2]).expect("a mask");
        assert_eq!(in_size([2, 2]), mask);
        assert_eq!(in_size([3, 4]), [1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4]);
        assert_eq!(in_size([1, 1]), [4]);
    }

    #[test]
    fn masks_are_read_as_they_were_written_and_never_over_others() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = write(folder.path(), Path::new("a/b.jpg"), &[0, 1, 2, 3, 4, 255], [2, 3], [2, 3]).expect("written");
        assert_eq!(path, folder.path().join("a/b.png"));
        let file = std::fs::read(&path).expect("a file");
        let mut numbers = Vec::new();
        assert_eq!(crate::data::read_mask(&file, &mut numbers), Ok([2, 3]));
        assert_eq!(numbers, [0, 1, 2, 3, 4, 255]);
        let again = write(folder.path(), Path::new("a/b.bmp"), &[0], [1, 1], [1, 1]);
        assert!(again.is_err_and(|error| error.to_string().contains("b.png")));
        assert_eq!(std::fs::read(&path).expect("a file"), file);
    }
}
