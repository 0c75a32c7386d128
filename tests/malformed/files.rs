//! A small data set for each reader, and the file of it that is damaged.

use std::fs;
use std::io::{Cursor, Write as _};
use std::path::{Path, PathBuf};

use image::{DynamicImage, GrayImage, ImageFormat, Luma, Rgb, RgbImage};

/// A data set with a file that is to be damaged.
pub(crate) struct Case {
    pub(crate) label: String,
    /// How often it is damaged.
    pub(crate) rounds: usize,
    /// The name of the set whose files are in a folder.
    pub(crate) name: fn(&Path) -> String,
    /// The other files, by path.
    others: Vec<(String, Vec<u8>)>,
    /// Path of the file.
    pub(crate) file: String,
    /// What is damaged.
    pub(crate) bytes: Vec<u8>,
    /// How much of it are headers.
    pub(crate) lengths: usize,
    /// What is made of it before it is written.
    pub(crate) finish: fn(&[u8]) -> Vec<u8>,
    /// Whether opening the set leaves files there, so that each round needs a folder of its own.
    pub(crate) anew: bool,
}

impl Case {
    /// Writes the whole set.
    pub(crate) fn write(&self, folder: &Path) {
        self.others.iter().for_each(|(name, bytes)| write(&folder.join(name), bytes));
        self.write_damaged(folder, &(self.finish)(&self.bytes));
    }

    /// Writes the file with other contents.
    pub(crate) fn write_damaged(&self, folder: &Path, bytes: &[u8]) {
        write(&folder.join(&self.file), bytes);
    }
}

fn write(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().expect("it is in a folder")).expect("writable");
    // a file that is written over is brought to the disk at once by some file systems, a new one is not
    let _ = fs::remove_file(path);
    fs::write(path, bytes).expect("writable");
}

fn as_it_is(bytes: &[u8]) -> Vec<u8> {
    bytes.to_vec()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("in memory");
    encoder.finish().expect("in memory")
}

fn tar(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, bytes.as_slice()).expect("in memory");
    }
    builder.into_inner().expect("in memory")
}

/// Makes the checksums of all headers right again, as far as headers can be told, so that what they say is believed.
fn right_tar(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for block in bytes.chunks_exact_mut(512).filter(|block| block[257..262] == *b"ustar") {
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
    bytes
}

/// Makes the checksums of all chunks right again, as far as chunks can be told.
fn right_png(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mut at = 8;
    while let Some(length) = bytes.get(at..at + 4) {
        let length = u32::from_be_bytes(length.try_into().expect("four bytes")) as usize;
        let Some(end) = (at + 8).checked_add(length).filter(|end| end + 4 <= bytes.len()) else { break };
        let mut crc = flate2::Crc::new();
        crc.update(&bytes[at + 4..end]);
        bytes[end..end + 4].copy_from_slice(&crc.sum().to_be_bytes());
        at = end + 4;
    }
    bytes
}

fn encode(picture: impl Into<DynamicImage>, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    picture.into().write_to(&mut bytes, format).expect("in memory");
    bytes.into_inner()
}

/// A picture with something to see on it.
fn picture(format: ImageFormat) -> Vec<u8> {
    encode(RgbImage::from_fn(16, 12, |x, y| Rgb([(x * 16) as u8, (y * 20) as u8, ((x * y) % 7 * 30) as u8])), format)
}

fn mask() -> Vec<u8> {
    encode(GrayImage::from_fn(16, 12, |x, y| Luma([((x / 4 + y / 4) % 3 + 1) as u8])), ImageFormat::Png)
}

fn idx(sizes: &[u32], values: &[u8]) -> Vec<u8> {
    let sizes_bytes = sizes.iter().flat_map(|size| size.to_be_bytes());
    [0, 0, 8, sizes.len() as u8].into_iter().chain(sizes_bytes).chain(values.iter().copied()).collect()
}

fn mnist() -> Vec<(String, Vec<u8>)> {
    let files = [
        ("mnist/t10k-images-idx3-ubyte", idx(&[2, 4, 4], &[9; 32])),
        ("mnist/t10k-labels-idx1-ubyte", idx(&[2], &[1, 2])),
        ("mnist/train-labels-idx1-ubyte", idx(&[4], &[1, 2, 3, 4])),
        ("mnist/train-images-idx3-ubyte", idx(&[4, 4, 4], &[9; 64])),
    ];
    files.map(|(name, bytes)| (name.to_owned(), bytes)).into()
}

fn cifar10() -> Vec<(String, Vec<u8>)> {
    let record = |class: u8| [&[class][..], &[77; 3072]].concat();
    let mut files: Vec<_> =
        (1..=5).map(|number| (format!("cifar-10-batches-bin/data_batch_{number}.bin"), record(number))).collect();
    files.push(("cifar-10-batches-bin/test_batch.bin".into(), record(0)));
    files
}

/// Two labels, and the pixels.
fn cifar100() -> Vec<(String, Vec<u8>)> {
    let record = |class: u8| [&[class / 5, class][..], &[77; 3072]].concat();
    let train = (0..4).flat_map(|number| record(20 * number)).collect();
    vec![("cifar-100-binary/test.bin".into(), record(99)), ("cifar-100-binary/train.bin".into(), train)]
}

/// Three pictures of each of two classes.
fn classes(format: ImageFormat) -> Vec<(String, Vec<u8>)> {
    let bytes = picture(format);
    let ending = format.extensions_str()[0];
    (0..6).map(|number| (format!("{}/{number}.{ending}", ["cat", "dog"][number % 2]), bytes.clone())).collect()
}

/// Below `oxford-pets`, or in the archives there.
fn pets() -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for name in ["pug_1", "pug_2", "boxer_1"] {
        files.push((format!("images/{name}.jpg"), picture(ImageFormat::Jpeg)));
        files.push((format!("annotations/trimaps/{name}.png"), mask()));
    }
    files.push(("annotations/test.txt".into(), b"boxer_1 2 1 1\n".to_vec()));
    files.push((
        "annotations/trainval.txt".into(),
        b"#Image CLASS-ID SPECIES BREED ID\npug_1 1 1 1\npug_2 1 1 1\n".to_vec(),
    ));
    files
}

fn below(folder: &str, files: Vec<(String, Vec<u8>)>) -> Vec<(String, Vec<u8>)> {
    files.into_iter().map(|(name, bytes)| (format!("{folder}/{name}"), bytes)).collect()
}

fn path(path: PathBuf) -> String {
    path.into_os_string().into_string().expect("UTF-8")
}

/// The last of the files is damaged.
fn last(
    label: &str,
    rounds: usize,
    name: fn(&Path) -> String,
    mut files: Vec<(String, Vec<u8>)>,
    lengths: usize,
    finish: fn(&[u8]) -> Vec<u8>,
) -> Case {
    let (file, bytes) = files.pop().expect("there are some");
    Case { label: label.into(), rounds, name, others: files, file, bytes, lengths, finish, anew: false }
}

/// All of them.
pub(crate) fn cases() -> Vec<Case> {
    let folder = |place: &Path| format!("folder:{}", path(place.join("set")));
    let archive = |place: &Path| format!("folder:{}", path(place.join("x.tar")));
    let compressed = |place: &Path| format!("folder:{}", path(place.join("x.tar.gz")));
    let pets_name = |_: &Path| "oxford-pets".to_owned();
    let whole = |name: &str, bytes: Vec<u8>| vec![(name.to_owned(), bytes)];

    let mut labels = mnist();
    labels.swap(2, 3);
    let compressed_mnist = |finish_bytes: bool| {
        let mut files = mnist();
        let (name, bytes) = files.pop().expect("the pictures");
        files.push((format!("{name}.gz"), if finish_bytes { gzip(&bytes) } else { bytes }));
        files
    };
    let lists = below("oxford-pets", pets());
    let list = lists.len() - 1;
    let mut trimaps = lists.clone();
    trimaps.swap(1, list);
    let mut photos = lists.clone();
    photos.swap(0, list);
    let pair = |place: &Path| format!("pairs:{},{}", path(place.join("images")), path(place.join("masks")));
    let pairs = || -> Vec<(String, Vec<u8>)> {
        let files = (0..4)
            .map(|n| [(format!("images/{n}.png"), picture(ImageFormat::Png)), (format!("masks/{n}.png"), mask())]);
        files.flatten().collect()
    };
    let mut named_pairs = pairs();
    named_pairs.push(("masks/classes.txt".into(), b"none\nsky\nroad\nhouse\n".to_vec()));
    let table = "height,width,kind\n1.5,2,rose\n2.5,1e3,aster\n3,-4,rose\n1,2,\"aster\"\n1,7,rose\n2,2,aster\n";

    let mut cases = vec![
        last("IDX pictures", 3000, |_| "mnist".into(), mnist(), 16, as_it_is),
        last("IDX labels", 1000, |_| "mnist".into(), labels, 8, as_it_is),
        last("IDX, damaged gzip", 1000, |_| "mnist".into(), compressed_mnist(true), 20, as_it_is),
        last("IDX, damaged in gzip", 500, |_| "mnist".into(), compressed_mnist(false), 16, gzip),
        last(
            "CIFAR archive, damaged gzip",
            500,
            |_| "cifar10".into(),
            whole("cifar10/cifar-10-binary.tar.gz", gzip(&tar(&cifar10()))),
            400,
            as_it_is,
        ),
        last(
            "CIFAR archive, damaged in gzip",
            500,
            |_| "cifar10".into(),
            whole("cifar10/cifar-10-binary.tar.gz", tar(&cifar10())),
            512,
            |bytes| gzip(&right_tar(bytes)),
        ),
        last("CIFAR batch", 300, |_| "cifar10".into(), below("cifar10", cifar10()), 1, as_it_is),
        last(
            "CIFAR-100 archive, damaged in gzip",
            500,
            |_| "cifar100".into(),
            whole("cifar100/cifar-100-binary.tar.gz", tar(&cifar100())),
            512,
            |bytes| gzip(&right_tar(bytes)),
        ),
        last("CIFAR-100 batch", 300, |_| "cifar100".into(), below("cifar100", cifar100()), 2, as_it_is),
        last("tar of pictures", 3000, archive, whole("x.tar", tar(&classes(ImageFormat::Png))), 512, right_tar),
        last(
            "tar of pictures, checksums damaged",
            1000,
            archive,
            whole("x.tar", tar(&classes(ImageFormat::Png))),
            512,
            as_it_is,
        ),
        last("pets, list", 2000, pets_name, lists, 60, as_it_is),
        last("pets, trimap", 1000, pets_name, trimaps, 60, right_png),
        last("pets, photograph", 500, pets_name, photos, 200, as_it_is),
        last("pair, mask", 1000, pair, pairs(), 60, right_png),
        last("pair, classes", 1000, pair, named_pairs, 20, as_it_is),
        last(
            "table",
            3000,
            |place| format!("csv:{}", path(place.join("t.csv"))),
            whole("t.csv", table.into()),
            30,
            as_it_is,
        ),
    ];
    let formats = [
        (ImageFormat::Png, right_png as fn(&[u8]) -> Vec<u8>, 1500),
        (ImageFormat::Png, as_it_is, 500),
        (ImageFormat::Jpeg, as_it_is, 3000),
        (ImageFormat::Bmp, as_it_is, 2000),
        (ImageFormat::WebP, as_it_is, 2000),
        (ImageFormat::Gif, as_it_is, 2000),
    ];
    for (format, finish, rounds) in formats {
        let heads = if format == ImageFormat::Jpeg { 200 } else { 60 };
        cases.push(last(&format!("picture, {format:?}"), rounds, folder, below("set", classes(format)), heads, finish));
    }
    // what is unpacked stays where it is put
    let of = |folder: &str| pets().into_iter().filter(|(name, _)| name.starts_with(folder)).collect::<Vec<_>>();
    let archives = |damaged: Vec<u8>| {
        vec![
            ("oxford-pets/annotations.tar.gz".to_owned(), gzip(&tar(&of("annotations")))),
            ("oxford-pets/images.tar.gz".to_owned(), damaged),
        ]
    };
    let images = tar(&of("images"));
    cases.extend([
        Case {
            anew: true,
            ..last("pets, archive", 400, pets_name, archives(images), 512, |bytes| gzip(&right_tar(bytes)))
        },
        Case {
            anew: true,
            ..last(
                "compressed tar of pictures",
                400,
                compressed,
                whole("x.tar.gz", tar(&classes(ImageFormat::Png))),
                512,
                |bytes| gzip(&right_tar(bytes)),
            )
        },
    ]);
    cases
}
