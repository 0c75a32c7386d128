//! MNIST and its likes: pictures and labels as IDX files, compressed or not.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::data::files::Stream;
use crate::data::{Dataset as _, InMemory, Normalization, Split};
use crate::error::{Error, Result};

use super::Published;

/// The most bytes that are read of a file: five times MNIST.
const MAX_FILE: u64 = 256 << 20;

const FASHION: [&str; 10] =
    ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"];

/// Opens the four files of `set` in `folder`.
pub(super) fn open(set: &Published, folder: &Path) -> Result<Split<InMemory>> {
    let is_fashion = set.name == "fashion-mnist";
    let classes: Vec<String> =
        if is_fashion { FASHION.map(str::to_owned).into() } else { (0..10).map(|digit| digit.to_string()).collect() };
    // mean and standard deviation of the training pictures' pixels
    let (mean, std) = if is_fashion { (0.2860, 0.3530) } else { (0.1307, 0.3081) };
    let normalization = Normalization { mean: vec![mean * 255.0], std: vec![std * 255.0] };
    let part = |part: &str| {
        let (image_file, images) = read(folder, &format!("{part}-images-idx3-ubyte"))?;
        let (label_file, labels) = read(folder, &format!("{part}-labels-idx1-ubyte"))?;
        let ([pictures, height, width], pixels) = parse_idx::<3>(&image_file, &images)?;
        let ([count], labels) = parse_idx::<1>(&label_file, &labels)?;
        if pictures != count {
            let reason = format!("it has {count} labels, but {} has {pictures} pictures", image_file.display());
            return Err(Error::format(label_file, reason));
        }
        if let Some(place) = labels.iter().position(|&label| usize::from(label) >= classes.len()) {
            let reason = format!("label {place} is {}, but there are {} classes", labels[place], classes.len());
            return Err(Error::format(label_file, reason));
        }
        let labels = labels.iter().map(|&label| label.into()).collect();
        let shape = [1, height, width];
        let data = InMemory::new(set.name, classes.clone(), shape, normalization.clone(), pixels.to_vec(), labels);
        Ok((image_file, data))
    };
    let (_, train) = part("train")?;
    let (test_file, test) = part("t10k")?;
    let [is, should] = [&test, &train].map(|part| &part.description().shape);
    if is != should {
        let reason = format!("its pictures are {}x{}, but those to train on {}x{}", is[1], is[2], should[1], should[2]);
        return Err(Error::format(test_file, reason));
    }
    Ok(Split::new(train, test))
}

/// The contents of `name` or `name.gz`, whichever is there.
fn read(folder: &Path, name: &str) -> Result<(PathBuf, Vec<u8>)> {
    let plain = folder.join(name);
    let path = if plain.exists() { plain } else { folder.join(format!("{name}.gz")) };
    let mut bytes = Vec::new();
    Stream::open(&path, MAX_FILE)?.read_to_end(&mut bytes).map_err(|error| Error::io(&path, error))?;
    Ok((path, bytes))
}

/// Reads an IDX file of bytes with `AXES` axes: their lengths, and the bytes, row-major. `path` is for messages.
///
/// The format: two zeros, the type (8 for bytes), the number of axes, the length of each as a big-endian 32-bit number,
/// then the values.
///
/// # Errors
/// If the file is of another type, has no values, or not as many as its header says.
pub fn parse_idx<'a, const AXES: usize>(path: &Path, bytes: &'a [u8]) -> Result<([usize; AXES], &'a [u8])> {
    let wrong = |reason: String| Error::format(path, reason);
    let (magic, rest) = bytes.split_first_chunk::<4>().ok_or_else(|| wrong("it is shorter than its header".into()))?;
    if magic != &[0, 0, 8, AXES as u8] {
        return Err(wrong(format!(
            "it starts with {magic:02x?} instead of [00, 00, 08, {AXES:02x}]: no IDX file of bytes with {AXES} axes"
        )));
    }
    if rest.len() < 4 * AXES {
        return Err(wrong("it is shorter than its header".into()));
    }
    let (lengths, values) = rest.split_at(4 * AXES);
    let mut sizes = [0; AXES];
    let mut expected = 1_u64;
    for (size, length) in sizes.iter_mut().zip(lengths.as_chunks::<4>().0) {
        *size = u32::from_be_bytes(*length) as usize;
        expected = expected.saturating_mul(*size as u64);
    }
    if expected == 0 {
        return Err(wrong(format!("its header says {sizes:?}: there is nothing in it")));
    }
    if expected != values.len() as u64 {
        let state = if expected > values.len() as u64 { "is cut off" } else { "goes on behind its end" };
        return Err(wrong(format!(
            "its header says {sizes:?}, which are {expected} bytes, but {} follow: it {state}",
            values.len()
        )));
    }
    Ok((sizes, values))
}
