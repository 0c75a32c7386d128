//! MNIST and CIFAR in their published layouts, and where files are looked for.

use super::*;

fn idx(sizes: &[u32], values: &[u8]) -> Vec<u8> {
    let sizes_bytes = sizes.iter().flat_map(|size| size.to_be_bytes());
    [0, 0, 8, sizes.len() as u8].into_iter().chain(sizes_bytes).chain(values.iter().copied()).collect()
}

/// Three pictures of 2x3 to train on and one to test with.
fn write_mnist(folder: &Path, compressed: bool) {
    let pixels: Vec<u8> = (0..18).collect();
    let files = [
        ("train-images-idx3-ubyte", idx(&[3, 2, 3], &pixels)),
        ("train-labels-idx1-ubyte", idx(&[3], &[7, 0, 9])),
        ("t10k-images-idx3-ubyte", idx(&[1, 2, 3], &pixels[6..12])),
        ("t10k-labels-idx1-ubyte", idx(&[1], &[4])),
    ];
    for (name, bytes) in files {
        match compressed {
            true => write(&folder.join(format!("{name}.gz")), &gzip(&bytes)),
            false => write(&folder.join(name), &bytes),
        }
    }
}

#[test]
fn mnist_is_read_compressed_or_not() {
    for (name, compressed) in [("mnist", true), ("fashion-mnist", false)] {
        let place = temporary();
        write_mnist(&place.path().join(name), compressed);
        let data = opened(name, place.path());
        assert_eq!((data.train.len(), data.test.len()), (3, 1));
        let description = data.train.description();
        assert_eq!((description.shape.as_slice(), description.classes.len()), (&[1, 2, 3][..], 10));
        assert_eq!(description, data.test.description());
        let last = sample(&*data.train, 2);
        assert_eq!((bytes(&last), &last.target), (&[12, 13, 14, 15, 16, 17][..], &Target::Class(9)));
        assert_eq!(sample(&*data.test, 0).target, Target::Class(4));
    }
}

#[test]
fn damaged_idx_files_are_named() {
    let place = temporary();
    let folder = place.path().join("mnist");
    let refuse = |file: &str, bytes: &[u8], words: &[&str]| {
        write_mnist(&folder, false);
        write(&folder.join(file), bytes);
        let message = refused("mnist", place.path());
        says(&message, &[file]);
        says(&message, words);
    };
    let images = "train-images-idx3-ubyte";
    let labels = "train-labels-idx1-ubyte";
    refuse(images, &[], &["shorter than its header"]);
    refuse(images, &[0, 0, 8, 3, 0], &["shorter than its header"]);
    refuse(images, &idx(&[3], &[1, 2, 3]), &["[00, 00, 08, 01]", "3 axes"]);
    refuse(images, &idx(&[3, 2, 3], &[0; 17]), &["[3, 2, 3]", "18 bytes", "17 follow", "cut off"]);
    refuse(images, &idx(&[3, 2, 3], &[0; 19]), &["goes on behind its end"]);
    refuse(images, &idx(&[3, 0, 3], &[]), &["nothing in it"]);
    refuse(images, &idx(&[u32::MAX; 3], &[0; 9]), &["cut off"]);
    refuse(images, &idx(&[2, 2, 3], &[0; 12]), &["2 pictures"]);
    refuse(labels, &idx(&[3], &[7, 10, 9]), &["label 1 is 10"]);
    refuse("t10k-images-idx3-ubyte", &idx(&[1, 1, 3], &[0; 3]), &["1x3"]);
    // a compressed one that is cut off
    write_mnist(&folder, true);
    fs::remove_file(folder.join(images)).expect("it was written");
    let whole = gzip(&idx(&[3, 2, 3], &[0; 18]));
    write(&folder.join("train-images-idx3-ubyte.gz"), &whole[..whole.len() - 12]);
    says(&refused("mnist", place.path()), &["train-images-idx3-ubyte.gz"]);
}

#[test]
fn a_compressed_bomb_ends_at_the_limit() {
    let place = temporary();
    write_mnist(&place.path().join("mnist"), true);
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let zeros = vec![0; 1 << 20];
    (0..300).for_each(|_| encoder.write_all(&zeros).expect("in memory"));
    let bomb = encoder.finish().expect("in memory");
    write(&place.path().join("mnist/train-images-idx3-ubyte.gz"), &bomb);
    says(&refused("mnist", place.path()), &["train-images-idx3-ubyte.gz", "more than 256 MiB"]);
}

/// A record of CIFAR: the first bytes, and a picture of one level for each channel.
fn record(head: &[u8], level: u8) -> Vec<u8> {
    let mut record = head.to_vec();
    (0..3).for_each(|channel| record.extend([level + channel; 1024]));
    record
}

/// Two pictures in each file; the archive has them in no order.
fn cifar10_files() -> Vec<(String, Vec<u8>)> {
    let batch = |number: u8| [record(&[number], 10 * number), record(&[9 - number], 10 * number + 5)].concat();
    let mut files: Vec<_> =
        (1..=5).map(|number| (format!("cifar-10-batches-bin/data_batch_{number}.bin"), batch(number))).collect();
    files.push(("cifar-10-batches-bin/test_batch.bin".into(), batch(0)));
    files.push(("cifar-10-batches-bin/readme.html".into(), b"<html>".to_vec()));
    files.swap(0, 4);
    files
}

fn archived(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    gzip(&tar(&files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect::<Vec<_>>()))
}

#[test]
fn cifar10_is_read_from_its_archive_or_unpacked() {
    let (packed, unpacked) = (temporary(), temporary());
    write(&packed.path().join("cifar10/cifar-10-binary.tar.gz"), &archived(&cifar10_files()));
    for (name, bytes) in cifar10_files() {
        write(&unpacked.path().join("cifar10").join(name), &bytes);
    }
    let [packed, unpacked] = [packed.path(), unpacked.path()].map(|place| opened("cifar10", place));
    assert_eq!((packed.train.len(), packed.test.len()), (10, 2));
    assert_eq!(packed.train.description().classes[3], "cat");
    for index in 0..10 {
        let read = sample(&*packed.train, index);
        assert_eq!(read, sample(&*unpacked.train, index));
        let batch = index as u8 / 2 + 1;
        let (class, level) = if index % 2 == 0 { (batch, 10 * batch) } else { (9 - batch, 10 * batch + 5) };
        assert_eq!(read.target, Target::Class(class.into()));
        assert_eq!(
            (read.shape.as_slice(), bytes(&read)[1023], bytes(&read)[1024]),
            (&[3, 32, 32][..], level, level + 1)
        );
    }
}

#[test]
fn cifar100_has_fine_classes() {
    let place = temporary();
    let records = [record(&[4, 30], 1), record(&[19, 99], 2)].concat();
    let files = ["train.bin", "test.bin"].map(|name| (format!("cifar-100-binary/{name}"), records.clone()));
    write(&place.path().join("cifar100/cifar-100-binary.tar.gz"), &archived(&files));
    let data = opened("cifar100", place.path());
    let classes = &data.train.description().classes;
    assert_eq!(classes.len(), 100);
    assert!(classes.is_sorted(), "they are published in this order");
    let Target::Class(class) = sample(&*data.train, 0).target else { panic!("a class") };
    assert_eq!(classes[class as usize], "dolphin");
}

#[test]
fn damaged_cifar_files_are_named() {
    let place = temporary();
    let path = place.path().join("cifar10/cifar-10-binary.tar.gz");
    let refuse = |bytes: &[u8], words: &[&str]| {
        write(&path, bytes);
        let message = refused("cifar10", place.path());
        says(&message, &["cifar-10-binary.tar.gz"]);
        says(&message, words);
    };
    let with = |file: usize, contents: Vec<u8>| {
        let mut files = cifar10_files();
        files[file].1 = contents;
        archived(&files)
    };
    refuse(&with(1, record(&[10], 0)), &["data_batch_2.bin", "record 0 has class 10"]);
    refuse(&with(1, vec![0; 3072]), &["data_batch_2.bin", "3072 bytes", "3073"]);
    refuse(&with(5, Vec::new()), &["test_batch.bin", "0 bytes"]);
    refuse(&archived(&cifar10_files()[1..]), &["`data_batch_5.bin` is not in it"]);
    let whole = archived(&cifar10_files());
    refuse(&whole[..whole.len() / 2], &[]);
    refuse(b"not an archive", &["tar"]);
    refuse(&[], &["is not in it"]);
}

#[test]
fn missing_files_are_told_with_their_addresses_and_places() {
    let place = temporary();
    write_mnist(&place.path().join("mnist"), true);
    fs::remove_file(place.path().join("mnist/t10k-labels-idx1-ubyte.gz")).expect("it was written");
    let message = refused("mnist", place.path());
    says(&message, &["brasa data mnist --download", "t10k-labels-idx1-ubyte.gz", &text(place.path().join("mnist"))]);
    assert!(message.contains("https://storage.googleapis.com") && !message.contains("train-images"), "{message}");
    says(&refused("oxford-pets", place.path()), &["/images.tar.gz", "/annotations.tar.gz", "oxford-pets"]);
}

#[test]
fn the_catalogue_is_plausible() {
    let mut names: Vec<_> = PUBLISHED.iter().map(|set| set.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), PUBLISHED.len());
    for set in PUBLISHED {
        assert!(set.variable().chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'));
        for file in set.files {
            assert!(file.sha256.len() == 64 && file.sha256.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f')));
            assert!(set.url(file).starts_with("http") && set.url(file).ends_with(file.name));
        }
    }
}
