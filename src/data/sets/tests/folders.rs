//! Pictures in folders and archives.

use super::*;

/// Ten pictures of each of two classes.
fn tree(prefix: &str) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for number in 0..10 {
        files.push((format!("{prefix}dog/{number}.png"), png(3, 2, number)));
        files.push((format!("{prefix}cat/{number}.png"), png(3, 2, 100 + number)));
    }
    files
}

fn write_all(place: &Path, files: &[(String, Vec<u8>)]) {
    files.iter().for_each(|(name, bytes)| write(&place.join(name), bytes));
}

fn packed(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    tar(&files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect::<Vec<_>>())
}

/// First pixels and classes of all samples, sorted.
fn contents(data: &dyn Dataset) -> Vec<(u8, Target)> {
    let mut all: Vec<_> = (0..data.len()).map(|index| sample(data, index)).map(|s| (bytes(&s)[0], s.target)).collect();
    all.sort_by_key(|(pixel, _)| *pixel);
    all
}

fn expected() -> Vec<(u8, Target)> {
    (0..10).map(|dog| (dog, Target::Class(1))).chain((100..110).map(|cat| (cat, Target::Class(0)))).collect()
}

#[test]
fn a_folder_for_each_class_is_split() {
    let place = temporary();
    write_all(place.path(), &tree(""));
    write(&place.path().join("dog/notes.txt"), b"no picture");
    write(&place.path().join(".cache/x.png"), b"hidden");
    let data = opened(&format!("folder:{}", text(place.path().into())), place.path());
    let description = data.train.description();
    assert_eq!(description.classes, ["cat", "dog"]);
    assert_eq!((data.train.len(), data.test.len(), &description.shape[..]), (16, 4, &[3, 2, 3][..]));
    let mut both = [contents(&*data.train), contents(&*data.test)].concat();
    both.sort_by_key(|(pixel, _)| *pixel);
    assert_eq!(both, expected());
    let classes: Vec<_> = contents(&*data.test).into_iter().map(|(_, class)| class).collect();
    assert_eq!(classes, [1, 1, 0, 0].map(Target::Class), "as many of each");
    let first = sample(&*data.train, 0);
    assert_eq!(bytes(&first)[6..12], [100; 6], "channels lie one after the other");
}

#[test]
fn parts_may_be_folders_or_archives_of_any_kind() {
    let (train, test) = (tree(""), tree("")[..6].to_vec());
    let layouts: [&dyn Fn(&Path) -> PathBuf; 6] = [
        &|place| {
            write_all(&place.join("train"), &train);
            write_all(&place.join("val"), &test);
            place.into()
        },
        &|place| {
            write(&place.join("train.tar"), &packed(&tree("train/")));
            write(&place.join("test.tar"), &packed(&test));
            place.into()
        },
        &|place| {
            write(&place.join("train.tar.gz"), &gzip(&packed(&tree("./train/"))));
            write(&place.join("test.tgz"), &gzip(&packed(&test)));
            // what has another name, or is there in a better form, is left alone
            write(&place.join("trainer.tar"), b"");
            write(&place.join("train-0.tar"), b"");
            place.into()
        },
        &|place| {
            write(&place.join("train-0.tar"), &packed(&train[..10]));
            write(&place.join("train-1.tar"), &packed(&train[10..]));
            write_all(&place.join("test"), &test);
            place.into()
        },
        &|place| {
            let test: Vec<_> = test.iter().map(|(name, bytes)| (format!("pets/test/{name}"), bytes.clone())).collect();
            write(&place.join("pets.tar"), &packed(&[tree("pets/train/"), test].concat()));
            place.join("pets.tar")
        },
        &|place| {
            // longer than a plain header's name may be
            let long = format!("{}/train/", "a-long-name".repeat(20));
            let test: Vec<_> = test.iter().map(|(name, bytes)| (format!("valid/{name}"), bytes.clone())).collect();
            write(&place.join("x.tar"), &packed(&[tree(&long), test].concat()));
            place.join("x.tar")
        },
    ];
    for (number, layout) in layouts.iter().enumerate() {
        let (place, cache) = (temporary(), temporary());
        let path = layout(place.path());
        let name = format!("folder:{}", text(path));
        let data = opened(&name, cache.path());
        assert_eq!(contents(&*data.train), expected(), "layout {number}");
        let mut some = contents(&*data.test);
        some.sort_by_key(|(pixel, _)| *pixel);
        assert_eq!(some, [expected()[..3].to_vec(), expected()[10..13].to_vec()].concat(), "layout {number}");
        assert_eq!(data.train.description().name, name);
        // a compressed archive is unpacked once
        let unpacked = || fs::read_dir(cache.path().join("unpacked")).map_or(0, Iterator::count);
        let before = unpacked();
        assert_eq!(before, if number == 2 { 2 } else { 0 });
        opened(&name, cache.path());
        assert_eq!(unpacked(), before);
    }
}

#[test]
fn beside_a_test_part_there_may_be_one_to_validate_with() {
    let test = tree("")[..6].to_vec();
    let below = |prefix: &str, files: &[(String, Vec<u8>)]| -> Vec<(String, Vec<u8>)> {
        files.iter().map(|(name, bytes)| (format!("{prefix}{name}"), bytes.clone())).collect()
    };
    let all = [tree("pets/train/"), below("pets/valid/", &tree("")[6..10]), below("pets/test/", &test)].concat();
    let layouts: [Layout<'_>; 3] = [
        ("", &|place| {
            write_all(&place.join("train"), &tree(""));
            write_all(&place.join("val"), &tree("")[6..10]);
            write_all(&place.join("test"), &test);
        }),
        ("", &|place| {
            write_all(&place.join("train"), &tree(""));
            write(&place.join("validation-0.tar"), &packed(&tree("")[6..8]));
            write(&place.join("validation-1.tar"), &packed(&tree("")[8..10]));
            write(&place.join("test.tar"), &packed(&test));
        }),
        ("x.tar", &|place| write(&place.join("x.tar"), &packed(&all))),
    ];
    for (number, (file, layout)) in layouts.iter().enumerate() {
        let (place, cache) = (temporary(), temporary());
        layout(place.path());
        let data = opened(&format!("folder:{}", text(place.path().join(file))), cache.path());
        let validation = data.validation.as_ref().expect("there is one");
        let levels = |part: &dyn Dataset| contents(part).into_iter().map(|(level, _)| level).collect::<Vec<_>>();
        assert_eq!(levels(&**validation), [3, 4, 103, 104], "layout {number}");
        assert_eq!(levels(&**data.judged_by()), levels(&**validation), "layout {number}");
        assert_eq!(levels(&*data.test), [0, 1, 2, 100, 101, 102], "layout {number}");
        assert_eq!(contents(&*data.train), expected(), "layout {number}");
    }
    let place = temporary();
    write_all(&place.path().join("train"), &tree(""));
    write_all(&place.path().join("test"), &test);
    write(&place.path().join("val/cow/1.png"), &png(3, 2, 1));
    let words = ["val/cow/1.png", "`cow` is not in the training part"];
    says(&refused(&format!("folder:{}", text(place.path().into())), place.path()), &words);
}

/// What is opened in a folder, and what writes there.
type Layout<'a> = (&'a str, &'a dyn Fn(&Path));

/// As in torchvision's `ImageFolder`.
#[test]
fn the_class_is_the_top_folder_however_deep_pictures_lie() {
    let deep: Vec<(String, Vec<u8>)> = (0..10_u8)
        .flat_map(|number| {
            let place = ["indoor", "outdoor/wet"][usize::from(number) % 2];
            [(format!("cat/{place}/{number}.png"), 100 + number), (format!("dog/{place}/{number}.png"), number)]
        })
        .map(|(name, level)| (name, png(3, 2, level)))
        .collect();
    let below = |prefix: &str, files: &[(String, Vec<u8>)]| -> Vec<(String, Vec<u8>)> {
        files.iter().map(|(name, bytes)| (format!("{prefix}{name}"), bytes.clone())).collect()
    };
    let layouts: [Layout<'_>; 6] = [
        ("", &|place| write_all(place, &deep)),
        ("", &|place| {
            write_all(&place.join("train"), &deep);
            write_all(&place.join("test"), &deep[..6]);
        }),
        // a folder around everything says nothing
        ("x.tar", &|place| write(&place.join("x.tar"), &packed(&below("pets/", &deep)))),
        ("x.tar", &|place| {
            let test = below("pets/v2/val/", &deep[..6]);
            write(&place.join("x.tar"), &packed(&[below("pets/v2/train/", &deep), test].concat()));
        }),
        // nor one of the archive's own name
        ("", &|place| {
            write(&place.join("train-0.tar"), &packed(&below("train-0/", &deep[..9])));
            write(&place.join("train-1.tar"), &packed(&below("train-1/", &deep[9..])));
        }),
        ("", &|place| {
            write_all(place, &deep);
            write(&place.join("cat/loose.png"), &png(3, 2, 99));
            // what is called as a part, in a class
            write(&place.join("cat/indoor/val/old/1.png"), &png(3, 2, 98));
            write(&place.join("dog/train/old/1.png"), &png(3, 2, 40));
            write(&place.join("cat/train/old/1.png"), &png(3, 2, 97));
        }),
    ];
    for (number, (file, layout)) in layouts.iter().enumerate() {
        let (place, cache) = (temporary(), temporary());
        layout(place.path());
        let data = opened(&format!("folder:{}", text(place.path().join(file))), cache.path());
        assert_eq!(data.train.description().classes, ["cat", "dog"], "layout {number}");
        for (level, target) in [contents(&*data.train), contents(&*data.test)].concat() {
            assert_eq!(target, Target::Class(u32::from(level < 50)), "layout {number}");
        }
    }
    // in one class alone
    let place = temporary();
    write_all(place.path(), &deep);
    write(&place.path().join("cat/train/old/1.png"), &png(3, 2, 97));
    let data = opened(&format!("folder:{}", text(place.path().into())), place.path());
    assert_eq!(
        (data.train.len() + data.test.len(), &data.train.description().classes[..]),
        (21, &["cat".into(), "dog".into()][..])
    );
    let place = temporary();
    write(&place.path().join("x.tar"), &packed(&[below("val/", &deep), below("test/", &deep)].concat()));
    says(&refused(&format!("folder:{}", text(place.path().join("x.tar"))), place.path()), &["x.tar", "no `train`"]);
}

#[test]
fn pictures_of_any_kind_and_size_are_read() {
    let place = temporary();
    let formats = [ImageFormat::Png, ImageFormat::Bmp, ImageFormat::WebP, ImageFormat::Gif, ImageFormat::Jpeg];
    for (number, format) in formats.into_iter().enumerate() {
        let ending = format.extensions_str()[0].to_uppercase();
        for class in ["a", "b"] {
            let picture = RgbImage::from_pixel(8 + number as u32, 8, image::Rgb([200, 50, 50]));
            write(&place.path().join(format!("{class}/{number}.{ending}")), &encode(picture, format));
        }
    }
    let data = opened(&format!("folder:{}", text(place.path().into())), place.path());
    assert_eq!(data.train.description().shape, [3, 0, 0], "sizes differ");
    for index in 0..data.train.len() {
        let sample = sample(&*data.train, index);
        let [3, 8, width] = sample.shape[..] else { panic!("{:?}", sample.shape) };
        for (channel, level) in [200_u8, 50, 50].into_iter().enumerate() {
            let plane = &bytes(&sample)[channel * 8 * width..(channel + 1) * 8 * width];
            assert!(plane.iter().all(|pixel| pixel.abs_diff(level) <= 3), "{plane:?}");
        }
    }
}

#[test]
fn grey_pictures_have_one_channel_and_transparency_is_dropped() {
    let place = temporary();
    let grey = image::GrayImage::from_fn(4, 2, |x, y| image::Luma([(10 * y + x) as u8]));
    let transparent = image::RgbaImage::from_pixel(4, 2, image::Rgba([9, 8, 7, 0]));
    for class in ["a", "b"] {
        for number in 0..3 {
            write(&place.path().join(format!("{class}/{number}.png")), &encode(grey.clone(), ImageFormat::Png));
        }
    }
    let name = format!("folder:{}", text(place.path().into()));
    let data = opened(&name, place.path());
    assert_eq!(data.train.description().shape, [1, 2, 4]);
    assert_eq!(bytes(&sample(&*data.train, 0)), [0, 1, 2, 3, 10, 11, 12, 13]);
    // one in colours makes all of them RGB
    write(&place.path().join("a/0.png"), &encode(transparent, ImageFormat::Png));
    let data = opened(&name, place.path());
    assert_eq!(data.train.description().shape, [3, 2, 4]);
    let all: Vec<_> =
        [&data.train, &data.test].into_iter().flat_map(|part| (0..part.len()).map(|i| sample(&**part, i))).collect();
    assert!(all.iter().any(|one| bytes(one) == [[9; 8], [8; 8], [7; 8]].concat()));
    assert!(all.iter().any(|one| bytes(one) == [0, 1, 2, 3, 10, 11, 12, 13].repeat(3)));
}

/// A JPEG with an EXIF note that the camera was turned.
#[test]
fn pictures_are_upright() {
    let place = temporary();
    let left_dark = RgbImage::from_fn(16, 8, |x, _| image::Rgb([if x < 8 { 20 } else { 220 }; 3]));
    let jpeg = encode(left_dark, ImageFormat::Jpeg);
    // orientation 6: the picture is to be turned by 90 degrees clockwise
    let exif = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0";
    let mut turned = jpeg[..2].to_vec();
    turned.extend([0xff, 0xe1, 0, exif.len() as u8 + 2]);
    turned.extend(exif);
    turned.extend(&jpeg[2..]);
    for class in ["a", "b"] {
        (0..3).for_each(|number| write(&place.path().join(format!("{class}/{number}.jpg")), &turned));
    }
    let data = opened(&format!("folder:{}", text(place.path().into())), place.path());
    assert_eq!(data.train.description().shape, [3, 16, 8]);
    let sample = sample(&*data.train, 0);
    let top_and_bottom = (bytes(&sample)[0], bytes(&sample)[127]);
    assert!(top_and_bottom.0 < 40 && top_and_bottom.1 > 200, "{top_and_bottom:?}: what was left is on top");
}

#[test]
fn what_does_not_make_a_data_set_is_told() {
    let refuse = |make: &dyn Fn(&Path), words: &[&str]| {
        let place = temporary();
        write_all(place.path(), &tree(""));
        make(place.path());
        says(&refused(&format!("folder:{}", text(place.path().into())), place.path()), words);
    };
    refuse(&|place| fs::create_dir(place.join("empty")).expect("writable"), &["empty", "no picture", "remove it"]);
    refuse(&|place| write(&place.join("stray.png"), &png(1, 1, 0)), &["stray.png", "lies in no folder"]);
    refuse(&|place| fs::remove_dir_all(place.join("dog")).expect("there"), &["called `cat`", "two or more"]);
    refuse(&|place| write_all(&place.join("test"), &tree("")), &["no `train`"]);
    let parts = |extra: &'static str| {
        move |place: &Path| {
            write_all(&place.join("train"), &tree(""));
            write_all(&place.join("test"), &tree(extra));
        }
    };
    refuse(
        &|place| {
            parts("")(place);
            write(&place.join("test/horse/1.png"), &png(3, 2, 0));
        },
        &["horse/1.png", "`horse` is not in the training part"],
    );
    refuse(
        &|place| {
            fs::remove_dir_all(place.join("dog")).expect("there");
            fs::remove_dir_all(place.join("cat")).expect("there");
            write(&place.join("cat/1.png"), &png(3, 2, 0));
            write(&place.join("dog/1.png"), &png(3, 2, 0));
        },
        &["too few pictures"],
    );
    let place = temporary();
    says(&refused("folder:/nowhere", place.path()), &["/nowhere"]);
    write(&place.path().join("pictures.zip"), b"PK");
    says(
        &refused(&format!("folder:{}", text(place.path().join("pictures.zip"))), place.path()),
        &["neither a folder nor a tar"],
    );
    fs::create_dir(place.path().join("nothing")).expect("writable");
    says(&refused(&format!("folder:{}", text(place.path().join("nothing"))), place.path()), &["nothing", "no picture"]);
}

#[test]
fn broken_pictures_are_told_when_they_are_read() {
    let place = temporary();
    write_all(place.path(), &tree(""));
    let bomb = {
        // a PNG of one pixel whose header says 60,000 x 60,000, with the right checksum
        let mut bytes = png(1, 1, 0);
        bytes[16..20].copy_from_slice(&60_000_u32.to_be_bytes());
        bytes[20..24].copy_from_slice(&60_000_u32.to_be_bytes());
        let mut crc = flate2::Crc::new();
        crc.update(&bytes[12..29]);
        bytes[29..33].copy_from_slice(&crc.sum().to_be_bytes());
        bytes
    };
    let whole = png(3, 2, 0);
    let broken: [(&str, &[u8], &str); 5] = [
        ("0", &whole[..whole.len() - 20], ""),
        ("1", b"text", "no JPEG"),
        ("2", &[], "no JPEG"),
        ("3", &bomb, ""),
        ("4", &png(4, 2, 0), "2x4 pixels high and wide, but other pictures are 2x3"),
    ];
    for (name, bytes, _) in broken {
        write(&place.path().join(format!("cat/{name}.png")), bytes);
    }
    // one that differs in size is among those that are looked at; here it is not to be
    for number in 0..200 {
        write(&place.path().join(format!("dog/x{number}.png")), &png(3, 2, 0));
    }
    let data = opened(&format!("folder:{}", text(place.path().into())), place.path());
    let mut messages = Vec::new();
    for part in [&data.train, &data.test] {
        for index in 0..part.len() {
            messages.extend(part.get(index, &mut Sample::default()).err().map(|error| error.to_string()));
        }
    }
    let sizes_differ = data.train.description().shape[1] == 0;
    assert_eq!(messages.len(), if sizes_differ { 4 } else { 5 }, "{messages:?}");
    for (name, _, words) in &broken[..4] {
        let message = messages.iter().find(|message| message.contains(&format!("cat/{name}.png")));
        says(message.expect("it is broken"), &[words]);
    }
    let bomb = messages.iter().find(|message| message.contains("3.png")).expect("refused");
    assert!(bomb.contains("60000x60000") || bomb.to_lowercase().contains("limit") || bomb.contains("size"), "{bomb}");
}

#[test]
fn pictures_of_any_kind_that_are_cut_off_are_told() {
    let formats = [ImageFormat::Png, ImageFormat::Bmp, ImageFormat::WebP, ImageFormat::Gif, ImageFormat::Jpeg];
    for format in formats {
        let noisy = RgbImage::from_fn(40, 30, |x, y| {
            image::Rgb([(x * x * 7 + y * 13) as u8, (x * y * 5) as u8, (y * y) as u8])
        });
        let whole = encode(noisy, format);
        for quarters in 1..4 {
            let place = temporary();
            for class in ["a", "b"] {
                (0..3).for_each(|number| write(&place.path().join(format!("{class}/{number}.png")), &whole));
            }
            write(&place.path().join("a/0.png"), &whole[..whole.len() * quarters / 4]);
            let data = opened(&format!("folder:{}", text(place.path().into())), place.path());
            let errors: Vec<_> = [&data.train, &data.test]
                .iter()
                .flat_map(|part| (0..part.len()).filter_map(|index| part.get(index, &mut Sample::default()).err()))
                .collect();
            assert_eq!(errors.len(), 1, "{format:?}, {quarters} quarters");
            says(&errors[0].to_string(), &["a/0.png"]);
        }
    }
}

#[test]
fn damaged_archives_are_named() {
    let (place, cache) = (temporary(), temporary());
    let whole = packed(&tree(""));
    let refuse = |name: &str, bytes: &[u8], words: &[&str]| {
        write(&place.path().join(name), bytes);
        let message = refused(&format!("folder:{}", text(place.path().join(name))), cache.path());
        says(&message, &[name]);
        says(&message, words);
    };
    let cut = |bytes: usize| whole[..whole.len() - bytes].to_vec();
    refuse("x.tar", &cut(1024), &["cut off"]);
    refuse("x.tar", &cut(1024 + 512), &["cut off"]);
    refuse("x.tar", &cut(1024 + 600), &["tar archive"]);
    refuse("x.tar", &whole[..200], &["tar archive"]);
    refuse("x.tar", &[], &["cut off"]);
    refuse("x.tar", &[b'x'; 2048], &["tar archive"]);
    refuse("x.tar.gz", &gzip(&cut(1024 + 512)), &["cut off"]);
    refuse("x.tgz", &gzip(&whole)[..400], &["x.tgz"]);
    refuse("y.tar", &tar(&[("cat/", b""), ("dog/1.png", &png(1, 1, 0))]), &["cat", "no picture"]);
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Symlink);
    header.set_size(0);
    builder.append_link(&mut header, "cat/1.png", "/etc/passwd").expect("in memory");
    refuse("y.tar", &builder.into_inner().expect("in memory"), &["cat/1.png", "link"]);
    // a header that says that a name of a gigabyte follows
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::GNULongName);
    header.set_path("long").expect("short");
    header.set_size(1 << 30);
    header.set_cksum();
    refuse("y.tar", &[&header.as_bytes()[..], &[0; 2048]].concat(), &["1073741824 bytes", "damaged"]);
    assert_eq!(fs::read_dir(cache.path().join("unpacked")).expect("made").count(), 0, "nothing damaged is kept");
}

/// Real pictures, where they are: 60,000 in two compressed archives.
#[test]
#[expect(clippy::print_stderr, reason = "a test that does nothing has to say so")]
fn cifar10_as_pictures_is_read() {
    let path = Path::new("../shared/data/cifar10");
    if !path.join("train.tar.gz").is_file() {
        eprintln!("skipped: there is no ../shared/data/cifar10");
        return;
    }
    let cache = temporary();
    let data = opened(&format!("folder:{}", path.display()), cache.path());
    let description = data.train.description();
    assert_eq!((data.train.len(), data.test.len()), (50_000, 10_000));
    assert_eq!((&description.shape[..], description.classes.len()), (&[3, 32, 32][..], 10));
    assert_eq!(description.classes[..3], ["airplane", "automobile", "bird"]);
    let (mut counts, mut sum) = ([0; 10], 0.0);
    for index in (0..50_000).step_by(50) {
        let sample = sample(&*data.train, index);
        let Target::Class(class) = sample.target else { panic!("a class") };
        counts[class as usize] += 1;
        sum += bytes(&sample)[..1024].iter().map(|&pixel| f64::from(pixel)).sum::<f64>();
    }
    assert_eq!(counts, [100; 10]);
    // the mean of all red pixels is 0.4913
    let mean = sum / (1000.0 * 1024.0 * 255.0);
    assert!((mean - 0.4913).abs() < 0.02, "{mean}");
}
