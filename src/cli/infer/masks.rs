//! Masks as files.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use png::{BitDepth, ColorType, Encoder};

use crate::colors::class_color;
use crate::data::Resize;
use crate::error::{Error, Result};
use crate::files::{create_folder, file_in_the_way, write_new};

/// What is said of a mask's name that is taken.
const ALREADY: &str = "there is such a file already, and it stays: name another folder for the masks";

/// A folder of masks.
pub(super) struct Masks {
    folder: PathBuf,
    /// Those of this call.
    written: HashSet<PathBuf>,
}

impl Masks {
    pub(super) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), written: HashSet::new() }
    }

    /// An error if the mask of a picture at one of these places would be written over another file, or there can be no
    /// such folder.
    pub(super) fn check(folder: &Path, places: &[PathBuf]) -> Result<()> {
        if let Some(file) = file_in_the_way(folder) {
            let message = format!("masks: {} is a file; name a folder for them", file.display());
            return Err(Error::Config(message));
        }
        let mut masks = Self::new(folder);
        let mut there = Vec::new();
        for place in places {
            let path = masks.unused(place);
            if path.symlink_metadata().is_ok() {
                there.push(path.clone());
            }
            masks.written.insert(path);
        }
        let Some(first) = there.first() else { return Ok(()) };
        let (count, all) = (there.len(), places.len());
        Err(Error::format(first, format!("{ALREADY} ({count} of {all} masks are there)")))
    }

    /// Writes `mask`, of the size `given` to the model, as an indexed PNG of the `size` (height, width) that the
    /// picture had, under the picture's name; never over another file. Says where it is.
    pub(super) fn write(&mut self, place: &Path, mask: &[u8], given: [usize; 2], size: [usize; 2]) -> Result<PathBuf> {
        let path = self.unused(place);
        let [height, width] = size;
        let png = encoded(&Resize { height, width }.mask(mask, given)?, size);
        let png = png.map_err(|error| Error::format(&path, error.to_string()))?;
        create_folder(path.parent().unwrap_or(&self.folder))?;
        match write_new(&path, &png) {
            Ok(()) => {
                self.written.insert(path.clone());
                Ok(path)
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(Error::format(path, ALREADY)),
            Err(error) => Err(Error::io(path, error)),
        }
    }

    /// What the mask of the picture there is called. Of pictures with one name (`x.jpg` and `x.bmp`, or of folders that
    /// end alike) all but the first get a number.
    fn unused(&self, place: &Path) -> PathBuf {
        let named = if place.as_os_str().is_empty() { Path::new("mask") } else { place };
        let first = self.folder.join(named.with_extension("png"));
        let stem = named.file_stem().unwrap_or_default();
        let numbered = (2..).map(|number: usize| {
            let mut name = stem.to_owned();
            name.push(format!("-{number}.png"));
            first.with_file_name(name)
        });
        let mut names = std::iter::once(first.clone()).chain(numbered);
        names.find(|name| !self.written.contains(name)).expect("there are enough numbers")
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
        let mut masks = Masks::new(folder.path());
        let path = masks.write(Path::new("a/b.jpg"), &[0, 1, 2, 3, 4, 255], [2, 3], [2, 3]).expect("written");
        assert_eq!(path, folder.path().join("a/b.png"));
        let file = std::fs::read(&path).expect("a file");
        let mut numbers = Vec::new();
        assert_eq!(crate::data::read_mask(&file, &mut numbers), Ok([2, 3]));
        assert_eq!(numbers, [0, 1, 2, 3, 4, 255]);
        let one = |masks: &mut Masks| masks.write(Path::new("a/b.bmp"), &[0], [1, 1], [1, 1]);
        for name in ["a/b-2.png", "a/b-3.png"] {
            assert_eq!(one(&mut masks).expect("of another picture"), folder.path().join(name));
        }
        let places = ["a/c.jpg", "a/b.jpg", "a/b.bmp"].map(PathBuf::from);
        assert!(Masks::check(folder.path(), &places[..1]).is_ok());
        let error = Masks::check(folder.path(), &places).expect_err("two of them are there").to_string();
        assert!(error.contains("b.png: ") && error.contains("2 of 3 masks"), "{error}");
        let again = one(&mut Masks::new(folder.path()));
        assert!(again.is_err_and(|error| error.to_string().contains("b.png")));
        assert_eq!(std::fs::read(&path).expect("a file"), file);
    }
}
