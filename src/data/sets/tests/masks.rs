//! Pictures with masks.

use super::*;
use crate::data::IGNORED;

/// A grey or indexed PNG of so many bits with these numbers.
fn mask(width: u32, numbers: &[u8], bits: png::BitDepth, indexed: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    let height = numbers.len() as u32 / width;
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_depth(bits);
    encoder.set_color(if indexed { png::ColorType::Indexed } else { png::ColorType::Grayscale });
    if indexed {
        encoder.set_palette(
            (0..=255).flat_map(|number| [255 - number, number, 77]).take(3 << (bits as u8)).collect::<Vec<u8>>(),
        );
    }
    let bits = bits as usize;
    let mut packed = Vec::new();
    for row in numbers.chunks(width as usize) {
        for several in row.chunks(8 / bits) {
            let byte =
                several.iter().enumerate().fold(0, |byte, (place, number)| byte | number << (8 - bits * (place + 1)));
            packed.push(byte);
        }
    }
    encoder.write_header().expect("in memory").write_image_data(&packed).expect("in memory");
    bytes
}

fn eight(width: u32, numbers: &[u8]) -> Vec<u8> {
    mask(width, numbers, png::BitDepth::Eight, false)
}

/// Names of pictures in the lists, and pictures of different sizes with masks of a trimap.
fn write_pets(folder: &Path) {
    let mut lines = Vec::new();
    for (number, name) in ["Abyssinian_1", "Abyssinian_2", "pug_7", "pug_10"].iter().enumerate() {
        let width = 3 + number as u32;
        let trimap: Vec<u8> = (0..2 * width as u8).map(|place| place % 3 + 1).collect();
        let picture = if number == 3 { png(width, 2, 9) } else { encode(rgb(width, 2, 9), ImageFormat::Jpeg) };
        write(&folder.join(format!("images/{name}.jpg")), &picture);
        write(&folder.join(format!("annotations/trimaps/{name}.png")), &eight(width, &trimap));
        write(&folder.join(format!("annotations/trimaps/._{name}.png")), b"left behind by the publishers' system");
        lines.push(format!("{name} {} 1 1\n", number / 2 + 1));
    }
    write(
        &folder.join("annotations/list.txt"),
        ("#Image CLASS-ID SPECIES BREED ID\n".to_owned() + &lines.concat()).as_bytes(),
    );
    write(&folder.join("annotations/trainval.txt"), lines[..3].concat().as_bytes());
    write(&folder.join("annotations/test.txt"), lines[3..].concat().as_bytes());
}

#[test]
fn pets_are_read_as_published() {
    let place = temporary();
    write_pets(&place.path().join("oxford-pets"));
    let data = opened("oxford-pets", place.path());
    let description = data.train.description();
    assert_eq!((description.goal, &description.shape[..]), (Goal::Segment, &[3, 0, 0][..]));
    assert_eq!(description.classes, ["animal", "background", "border"]);
    assert_eq!((data.train.len(), data.test.len()), (3, 1));
    let second = sample(&*data.train, 1);
    assert_eq!(second.shape, [3, 2, 4]);
    assert_eq!(second.target, Target::Mask(vec![0, 1, 2, 0, 1, 2, 0, 1]));
    // what is called JPEG may be something else
    assert_eq!(sample(&*data.test, 0).shape, [3, 2, 6]);
}

#[test]
fn pets_are_unpacked_from_their_archives() {
    let (made, place) = (temporary(), temporary());
    write_pets(made.path());
    let pack = |folder: &str| {
        let mut builder = tar::Builder::new(Vec::new());
        builder.append_dir_all(folder, made.path().join(folder)).expect("in memory");
        gzip(&builder.into_inner().expect("in memory"))
    };
    let folder = place.path().join("oxford-pets");
    write(&folder.join("images.tar.gz"), &pack("images"));
    write(&folder.join("annotations.tar.gz"), &pack("annotations"));
    let data = opened("oxford-pets", place.path());
    assert_eq!((data.train.len(), data.test.len()), (3, 1));
    let mut names: Vec<_> =
        fs::read_dir(&folder).expect("there").map(|entry| entry.expect("one").file_name()).collect();
    names.sort();
    assert_eq!(names, ["annotations", "annotations.tar.gz", "images", "images.tar.gz"], "what was put there stays");
    // once they are unpacked, nothing else is read
    fs::remove_file(folder.join("images.tar.gz")).expect("there");
    fs::remove_file(folder.join("annotations.tar.gz")).expect("there");
    assert_eq!(opened("oxford-pets", place.path()).train.len(), 3);
}

#[test]
fn archives_that_reach_out_are_refused() {
    use tar::EntryType::{Block, Link, Regular, Symlink};
    let member = |name, kind| gzip(&raw_tar(name, kind));
    let wrong = [
        (member("../evil.txt", Regular), "`..`"),
        (member("images/../../evil.txt", Regular), "`..`"),
        (member("/tmp/evil.txt", Regular), "absolute"),
        (member("images\\..\\evil.txt", Regular), "not safe"),
        (member("C:evil.txt", Regular), "not safe"),
        (member("images/link", Symlink), "link"),
        (member("images/link", Link), "link"),
        (member("images/disk", Block), "device"),
        (gzip(&tar(&[("other/x.jpg", b"x")])), "no folder `images`"),
        (gzip(&tar(&[("images/x.jpg", b"x"), ("images/x.jpg", b"y")])), "exists"),
        (gzip(&tar(&[("images/x.jpg", &[7; 5000])])[..3000]), "images"),
        (gzip(&tar(&[("images/x.jpg", &[7; 5000])]))[..60].to_vec(), "images.tar.gz"),
        (b"no archive".to_vec(), "images.tar.gz"),
    ];
    for (archive, words) in wrong {
        let place = temporary();
        let folder = place.path().join("oxford-pets");
        write(&folder.join("images.tar.gz"), &archive);
        write(&folder.join("annotations.tar.gz"), &gzip(&tar(&[("annotations/x", b"")])));
        says(&refused("oxford-pets", place.path()), &[words]);
        let left: Vec<_> = fs::read_dir(&folder).expect("there").map(|entry| entry.expect("one").file_name()).collect();
        assert_eq!(left.len(), 2, "nothing was unpacked: {left:?}");
        assert_eq!(fs::read_dir(place.path()).expect("there").count(), 1);
    }
}

#[test]
fn damaged_pets_are_named() {
    let refuse = |file: &str, contents: Option<&[u8]>, words: &[&str]| {
        let place = temporary();
        let folder = place.path().join("oxford-pets");
        write_pets(&folder);
        match contents {
            Some(bytes) => write(&folder.join(file), bytes),
            None => fs::remove_file(folder.join(file)).expect("there"),
        }
        says(&refused("oxford-pets", place.path()), words);
    };
    refuse("images/pug_7.jpg", None, &["trainval.txt", "line 3 names `pug_7`", "pug_7.jpg"]);
    refuse("annotations/trimaps/pug_10.png", None, &["test.txt", "line 1", "pug_10.png"]);
    refuse("annotations/test.txt", None, &["test.txt"]);
    refuse("annotations/test.txt", Some(b""), &["test.txt", "no picture"]);
    refuse("annotations/test.txt", Some(b"pug_10\n"), &["line 1", "breed"]);
    refuse("annotations/test.txt", Some(b"../pug_10 1 1 1\n"), &["line 1", "not the name"]);
    refuse("annotations/test.txt", Some(b"\xff\xfe"), &["test.txt", "UTF-8"]);
    // what is wrong with one picture is told when it is read
    let broken = |file: &str, bytes: &[u8], words: &[&str]| {
        let place = temporary();
        write_pets(&place.path().join("oxford-pets"));
        write(&place.path().join("oxford-pets").join(file), bytes);
        let error = opened("oxford-pets", place.path()).train.get(0, &mut Sample::default()).expect_err("it is broken");
        says(&error.to_string(), words);
    };
    broken("images/Abyssinian_1.jpg", b"", &["Abyssinian_1.jpg", "no JPEG"]);
    let trimap = "annotations/trimaps/Abyssinian_1.png";
    broken(trimap, b"", &["Abyssinian_1.png"]);
    broken(trimap, &eight(3, &[1, 2, 3, 4, 1, 1]), &["Abyssinian_1.png", "a pixel of the mask is 4", "1 to 3"]);
    broken(trimap, &eight(3, &[1, 2, 3, 0, 1, 1]), &["a pixel of the mask is 0"]);
    broken(trimap, &eight(2, &[1, 2, 3, 1]), &["is 2x2", "2x3"]);
    broken(trimap, &png(3, 2, 0), &["Rgb", "indexed or grey"]);
}

#[test]
fn without_parts_the_list_is_split() {
    let place = temporary();
    let folder = place.path().join("oxford-pets");
    write_pets(&folder);
    let mut lines = String::new();
    for number in 0..5 {
        for (breed, name) in ["pug", "boxer"].iter().enumerate() {
            write(&folder.join(format!("images/{name}_{number}.jpg")), &png(3, 2, 0));
            write(&folder.join(format!("annotations/trimaps/{name}_{number}.png")), &eight(3, &[1; 6]));
            lines += &format!("{name}_{number} {} 2 1\n", breed + 1);
        }
    }
    write(&folder.join("annotations/list.txt"), lines.as_bytes());
    fs::remove_file(folder.join("annotations/trainval.txt")).expect("there");
    fs::remove_file(folder.join("annotations/test.txt")).expect("there");
    let data = opened("oxford-pets", place.path());
    assert_eq!((data.train.len(), data.test.len()), (8, 2));
}

#[test]
fn pairs_have_masks_of_any_depth() {
    use png::BitDepth::{Eight, Four, One, Two};
    let place = temporary();
    for (number, bits) in [One, Two, Four, Eight, Eight].into_iter().enumerate() {
        let numbers: Vec<u8> = (0..10).map(|place: u8| place % (1 << (bits as u8).min(3))).collect();
        write(&place.path().join(format!("images/{number}.jpg")), &encode(rgb(5, 2, 0), ImageFormat::Jpeg));
        write(&place.path().join(format!("masks/{number}.png")), &mask(5, &numbers, bits, number % 2 == 0));
    }
    let [images, masks] = ["images", "masks"].map(|name| text(place.path().join(name)));
    let data = opened(&format!("pairs:{images},{masks}"), place.path());
    let description = data.train.description();
    assert_eq!(
        (description.goal, &description.shape[..], description.classes.len()),
        (Goal::Segment, &[3, 2, 5][..], 8)
    );
    let mut found: Vec<Target> = Vec::new();
    for part in [&data.train, &data.test] {
        found.extend((0..part.len()).map(|index| sample(&**part, index).target));
    }
    for modulus in [2, 4, 8] {
        let expected = (0..10).map(|place| place % modulus).collect();
        assert!(found.contains(&Target::Mask(expected)), "modulo {modulus}");
    }
}

#[test]
fn pairs_may_have_parts_names_and_unknown_pixels() {
    let place = temporary();
    for (part, numbers) in [("train", [0, 1, IGNORED, 2]), ("val", [2, 2, 2, 0])] {
        write(&place.path().join(format!("images/{part}/one.png")), &png(2, 2, 0));
        write(&place.path().join(format!("masks/{part}/one.png")), &eight(2, &numbers));
    }
    let [images, masks] = ["images", "masks"].map(|name| text(place.path().join(name)));
    let name = format!("pairs:{images},{masks}");
    let data = opened(&name, place.path());
    assert_eq!(data.train.description().classes, ["class 0", "class 1", "class 2"]);
    assert_eq!(sample(&*data.train, 0).target, Target::Mask(vec![0, 1, IGNORED, 2]));
    write(&place.path().join("masks/classes.txt"), b"sky\nroad\n");
    let data = opened(&name, place.path());
    assert_eq!(data.train.description().classes, ["sky", "road"]);
    let error = data.train.get(0, &mut Sample::default()).expect_err("there is a class 2").to_string();
    says(&error, &["masks/train/one.png", "is 2", "0 to 1"]);
}

#[test]
fn pairs_may_have_a_part_to_validate_with() {
    let place = temporary();
    for (part, first) in [("train", 0), ("validation", 50), ("test", 100)] {
        write(&place.path().join(format!("images/{part}/one.png")), &png(2, 2, first));
        write(&place.path().join(format!("masks/{part}/one.png")), &eight(2, &[0, 1, 1, 0]));
    }
    let [images, masks] = ["images", "masks"].map(|name| text(place.path().join(name)));
    let data = opened(&format!("pairs:{images},{masks}"), place.path());
    let first = |part: &dyn Dataset| (part.len(), bytes(&sample(part, 0))[0]);
    assert_eq!(data.parts().map(|part| first(&**part)).collect::<Vec<_>>(), [(1, 0), (1, 50), (1, 100)]);
}

#[test]
fn pairs_with_a_part_to_train_on_alone_are_split() {
    let place = temporary();
    for number in 0..10 {
        write(&place.path().join(format!("images/train/{number}.png")), &png(2, 2, 0));
        write(&place.path().join(format!("masks/train/{number}.png")), &eight(2, &[0, 1, 1, 0]));
    }
    let [images, masks] = ["images", "masks"].map(|name| text(place.path().join(name)));
    let data = opened(&format!("pairs:{images},{masks}"), place.path());
    assert_eq!((data.train.len(), data.test.len()), (8, 2));
}

#[test]
fn pairs_that_are_none_are_told() {
    let refuse = |make: &dyn Fn(&Path), words: &[&str]| {
        let place = temporary();
        for name in ["a", "b", "c"] {
            write(&place.path().join(format!("images/{name}.png")), &png(2, 2, 0));
            write(&place.path().join(format!("masks/{name}.png")), &eight(2, &[0, 1, 0, 1]));
        }
        make(place.path());
        let [images, masks] = ["images", "masks"].map(|name| text(place.path().join(name)));
        says(&refused(&format!("pairs:{images},{masks}"), place.path()), words);
    };
    refuse(&|place| fs::remove_file(place.join("masks/b.png")).expect("there"), &["images/b.png", "no mask `b.png`"]);
    refuse(&|place| fs::remove_file(place.join("images/b.png")).expect("there"), &["masks/b.png", "no picture"]);
    refuse(&|place| write(&place.join("images/b.jpg"), b""), &["b.jpg", "same name"]);
    refuse(&|place| write(&place.join("masks/b.png"), b"text"), &["masks/b.png"]);
    refuse(&|place| write(&place.join("masks/classes.txt"), b"a\n\nb\n"), &["classes.txt", "empty"]);
    let black_and_white = |place: &Path| {
        for name in ["a", "b", "c"] {
            write(&place.join(format!("masks/{name}.png")), &eight(2, &[0, 255, 0, 255]));
        }
    };
    refuse(&black_and_white, &["masks/", "255", "from 1 on"]);
    refuse(
        &|place| {
            ["b", "c"].iter().for_each(|name| {
                fs::remove_file(place.join(format!("images/{name}.png"))).expect("there");
                fs::remove_file(place.join(format!("masks/{name}.png"))).expect("there");
            })
        },
        &["too few pictures"],
    );
}
