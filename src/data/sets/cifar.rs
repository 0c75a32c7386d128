//! CIFAR-10 and CIFAR-100 as their binary versions.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::data::files::{Kind, Stream, walk};
use crate::data::{InMemory, Normalization, Split};
use crate::error::{Error, Result};
use crate::units;

const PIXELS: usize = 3 * 32 * 32;
/// The most bytes that are read of one file; the largest published one has 154 MB.
const MAX_FILE: u64 = 256 << 20;
/// The most that may come out of the archive: five times what does.
const MAX_ARCHIVE: u64 = 1 << 30;

/// Which of the two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cifar {
    /// CIFAR-10: a record is a class and a picture.
    Ten,
    /// CIFAR-100: a record is a coarse class, a fine one and a picture; the fine one is what is to be learned.
    Hundred,
}

impl Cifar {
    /// Name, folder in the archive, files to train on, and the file to test with.
    const fn layout(self) -> (&'static str, &'static str, &'static [&'static str], &'static str) {
        match self {
            Self::Ten => (
                "cifar10",
                "cifar-10-batches-bin",
                &["data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"],
                "test_batch.bin",
            ),
            Self::Hundred => ("cifar100", "cifar-100-binary", &["train.bin"], "test.bin"),
        }
    }

    const fn class_count(self) -> u32 {
        match self {
            Self::Ten => 10,
            Self::Hundred => 100,
        }
    }

    /// Names of the classes, in their order.
    pub fn classes(self) -> Vec<String> {
        let names = match self {
            Self::Ten => TEN,
            Self::Hundred => HUNDRED,
        };
        names.split_ascii_whitespace().map(str::to_owned).collect()
    }

    /// Mean and standard deviation of the training pictures' channels.
    fn normalization(self) -> Normalization {
        let (mean, std) = match self {
            Self::Ten => ([0.4914_f32, 0.4822, 0.4465], [0.2470_f32, 0.2435, 0.2616]),
            Self::Hundred => ([0.5071, 0.4865, 0.4409], [0.2673, 0.2564, 0.2762]),
        };
        Normalization { mean: mean.map(|mean| mean * 255.0).into(), std: std.map(|std| std * 255.0).into() }
    }
}

/// Opens the archive in `folder`, or the folder that was unpacked of it.
pub(super) fn open(cifar: Cifar, folder: &Path) -> Result<Split<InMemory>> {
    let (name, unpacked, train_files, test_file) = cifar.layout();
    let names = [train_files, &[test_file]].concat();
    let mut files: Vec<Option<(PathBuf, Vec<u8>)>> = vec![None; names.len()];
    let mut take = |path: &Path, contents: &mut dyn Read| {
        let file = path.file_name().unwrap_or_default();
        let Some(place) = names.iter().position(|name| file == *name) else { return Ok(()) };
        let mut bytes = Vec::new();
        contents.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(|error| Error::io(path, error))?;
        if bytes.len() as u64 > MAX_FILE {
            return Err(Error::format(
                path,
                format!("it is larger than {}, the most that is read", units::bytes(MAX_FILE)),
            ));
        }
        files[place] = Some((path.to_owned(), bytes));
        Ok(())
    };
    let unpacked = folder.join(unpacked);
    let source =
        if unpacked.is_dir() { unpacked } else { folder.join(format!("cifar-{}-binary.tar.gz", cifar.class_count())) };
    if source.is_dir() {
        for name in &names {
            let path = source.join(name);
            take(&path, &mut File::open(&path).map_err(|error| Error::io(&path, error))?)?;
        }
    } else {
        let mut archive = tar::Archive::new(Stream::open(&source, MAX_ARCHIVE)?);
        walk(&source, archive.entries(), &mut |found, contents| match found.kind {
            Kind::File => take(&source.join(found.name), contents),
            _ => Ok(()),
        })?;
    }
    // in the order of the files' names, whatever that in the archive is
    let (mut train, mut test) = ((Vec::new(), Vec::new()), (Vec::new(), Vec::new()));
    for (file, name) in files.into_iter().zip(&names) {
        let (path, bytes) =
            file.ok_or_else(|| Error::format(&source, format!("`{name}` is not in it: fetch it again")))?;
        let (pixels, labels) = if *name == test_file { &mut test } else { &mut train };
        parse_cifar(cifar, &path, &bytes, pixels, labels)?;
    }
    let part =
        |(pixels, labels)| InMemory::new(name, cifar.classes(), [3, 32, 32], cifar.normalization(), pixels, labels);
    Ok(Split::new(part(train), part(test)))
}

/// Reads records of a class (of CIFAR-100 two, of which the second counts) and 3072 pixels, `[3, 32, 32]`, and appends
/// them. `path` is for messages.
///
/// # Errors
/// If there is no record, the last one is not whole, or a class is none.
pub fn parse_cifar(cifar: Cifar, path: &Path, bytes: &[u8], pixels: &mut Vec<u8>, labels: &mut Vec<u32>) -> Result<()> {
    let head = match cifar {
        Cifar::Ten => 1,
        Cifar::Hundred => 2,
    };
    let classes = cifar.class_count();
    let record = head + PIXELS;
    if bytes.is_empty() || !bytes.len().is_multiple_of(record) {
        let reason = format!(
            "it has {} bytes, which are not one or more records of {record}: it is cut off, or another format",
            bytes.len()
        );
        return Err(Error::format(path, reason));
    }
    pixels.reserve_exact(bytes.len() / record * PIXELS);
    for (number, record) in bytes.chunks_exact(record).enumerate() {
        let label = u32::from(record[head - 1]);
        if label >= classes {
            return Err(Error::format(
                path,
                format!("record {number} has class {label}, but classes lie in 0..{classes}"),
            ));
        }
        labels.push(label);
        pixels.extend_from_slice(&record[head..]);
    }
    Ok(())
}

const TEN: &str = "airplane automobile bird cat deer dog frog horse ship truck";

const HUNDRED: &str = "\
    apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can castle \
    caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant flatfish \
    forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle \
    mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine \
    possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel streetcar \
    sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle wardrobe whale willow_tree \
    wolf woman worm";
