use serde::Deserialize;

use super::draw::{BOX, ERASE, HUE, Map, NOISE_KEY, PARTNER, SHARE, projection};
use super::*;
use crate::data::{Batch, Dataset, Description, Goal, IGNORED, InMemory, Normalization, Target, Targets, Values};
use crate::data::{Last, On, Pipeline, Random, Sample};
use crate::device::tests::fresh_devices;
use crate::{DType, Device, Tensor};

/// What PyTorch made of a picture; `tests/reference/record_augment.py`.
#[derive(Deserialize)]
struct Case {
    name: String,
    augment: String,
    shape: [usize; 3],
    picture: Vec<u8>,
    parameters: Vec<f32>,
    expected: Vec<f64>,
    mask: Option<Vec<u8>>,
    expected_mask: Option<Vec<u8>>,
}

const FIRST: Turn = Turn { epoch: 0, begins_turned: false };

fn of(text: &str) -> Augment {
    text.parse().expect("good text")
}

/// What the host makes of a picture and its mask.
fn by_host(
    augment: &Augment,
    shape: [usize; 3],
    picture: &[u8],
    mask: Option<&[u8]>,
    parameters: &[f32],
) -> (Vec<u8>, Option<Vec<u8>>) {
    let mut sample = Sample::default();
    sample.set_picture(shape).copy_from_slice(picture);
    if let Some(mask) = mask {
        sample.set_mask(mask.len()).copy_from_slice(mask);
    }
    augment.apply(&mut sample, parameters.try_into().expect("a row"), &mut Scratch::default());
    let Values::U8(pixels) = sample.input else { panic!("a picture stays one") };
    let mask = match sample.target {
        Target::Mask(mask) => Some(mask),
        Target::Class(_) | Target::Numbers(_) => None,
    };
    (pixels, mask)
}

fn tensor(bytes: &[u8], shape: &[usize], device: &Device) -> Tensor {
    Tensor::from_bytes(bytes, shape, DType::U8, device).expect("memory")
}

fn rows(parameters: &[f32], device: &Device) -> Tensor {
    let shape = [parameters.len() / PARAMETERS, PARAMETERS];
    Tensor::from_slice(parameters, shape, device).expect("memory")
}

/// Bytes are the recorded values rounded: half a level off, and what f32 adds to that.
#[track_caller]
fn assert_rounded(got: &[u8], expected: &[f64], what: &str) {
    assert_eq!(got.len(), expected.len());
    for (place, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert!((f64::from(*got) - expected).abs() < 0.502, "{what}, element {place}: {got} instead of {expected}");
    }
}

#[test]
fn both_sides_do_what_pytorch_does() {
    let text = include_str!("../../../tests/reference/augment.json");
    let cases: Vec<Case> = serde_json::from_str(text).expect("a record");
    let devices: Vec<Device> = fresh_devices().collect();
    for Case { name, augment, shape, picture, parameters, expected, mask, expected_mask } in cases {
        let augment = of(&augment);
        let (pixels, moved) = by_host(&augment, shape, &picture, mask.as_deref(), &parameters);
        assert_rounded(&pixels, &expected, &name);
        assert_eq!(moved, expected_mask, "{name}");
        for device in &devices {
            let parameters = rows(&parameters, device);
            let pictures = tensor(&picture, &[&[1], &shape[..]].concat(), device);
            let pixels = augment.apply_on_device(&pictures, &parameters).to_vec::<u8>().expect("values");
            assert_rounded(&pixels, &expected, &format!("{name} on {device:?}"));
            if let Some(mask) = &mask {
                let masks = tensor(mask, &[1, shape[1], shape[2]], device);
                let moved = augment.apply_to_masks(&masks, &parameters).to_vec::<u8>().expect("values");
                assert_eq!(Some(moved), expected_mask, "{name} on {device:?}");
            }
        }
    }
}

/// Pictures with masks, as a hash makes them.
struct Painted(Description, [usize; 3]);

impl Painted {
    fn new(shape: [usize; 3], goal: Goal) -> Self {
        Self(Description::new("painted", goal, ["a", "b", "c"].map(String::from), shape), shape)
    }
}

impl Dataset for Painted {
    fn description(&self) -> &Description {
        &self.0
    }
    fn len(&self) -> usize {
        9
    }
    fn get(&self, index: usize, sample: &mut Sample) -> Result<()> {
        let mut random = Random::new(&[index as u64]);
        sample.set_picture(self.1).fill_with(|| random.bits() as u8);
        sample.target = Target::Class(index as u32 % 3);
        if self.0.goal == Goal::Segment {
            sample.set_mask(self.1[1] * self.1[2]).fill_with(|| random.below(3) as u8);
        }
        Ok(())
    }
}

/// Every change alone, and several at once, drawn and carried out by a pipeline: the host's batches are the device's.
#[test]
fn the_device_does_what_the_host_does() {
    let alone = "flip vertical-flip crop=2 resized-crop rotate=40 translate=0.3 scale=0.5 shear=30 perspective=0.8 brightness=0.6 \
        contrast=0.6 saturation=0.6 hue=0.5 blur=1.5 noise=20 erase=1 cutout=3 mixup=1 cutmix=1 cifar";
    let chains = [
        "flip,crop=3,rotate=30,color=0.5,hue=0.2,blur=0.8,noise=9,erase=0.7,edge=reflect",
        "perspective,vertical-flip,shear=20,cutout=2,edge=border,fill=77",
        "rotate,mixup=0.5,cutmix=2,color",
    ];
    let devices: Vec<Device> = fresh_devices().collect();
    let (mut compared, mut different) = (0, 0);
    for text in alone.split_whitespace().chain(chains) {
        for (shape, goal) in [([3, 7, 5], Goal::Classify), ([1, 6, 9], Goal::Segment)] {
            if of(text).mixes() && goal == Goal::Segment {
                continue;
            }
            let data = std::sync::Arc::new(Painted::new(shape, goal));
            let pipeline = |on| Pipeline::new(data.clone()).shuffle().augment(of(text), on).batch(5, Last::Pad).seed(4);
            let batches = |on| pipeline(on).start().expect("threads").map(|batch| batch.expect("good data"));
            for (by_host, later) in batches(On::Host).zip(batches(On::Device)) {
                let is_grey = shape[0] == 1 && ["saturation=0.6", "hue=0.5"].contains(&text);
                assert_eq!(
                    by_host.inputs == later.inputs,
                    is_grey,
                    "{text} changes something, if there is a colour to change"
                );
                for device in &devices {
                    let uploads: Vec<Tensor> = later
                        .uploads()
                        .into_iter()
                        .map(|(shape, dtype, bytes)| Tensor::from_bytes(bytes, shape, dtype, device).expect("memory"))
                        .collect();
                    let format = pipeline(On::Device).format();
                    let signature: Vec<_> = uploads.iter().map(|x| (x.shape().clone(), x.dtype())).collect();
                    assert_eq!(signature, format.signature(later.rows()));
                    let received = format.receive(&uploads);
                    let levels = (received.inputs * 255.0).round().to_vec::<f32>().expect("values");
                    let most = if of(text).mixes() { 2 } else { 1 };
                    let of_samples = by_host.samples * shape.iter().product::<usize>();
                    for (got, expected) in levels.iter().zip(by_host.inputs.as_bytes()).take(of_samples) {
                        let distance = (*got as i32 - i32::from(*expected)).abs();
                        assert!(distance <= most, "{text} on {device:?}: {got} instead of {expected}");
                        compared += 1;
                        different += usize::from(distance > 0);
                    }
                    if let Targets::Masks(masks) = &by_host.targets {
                        let classes = received.labels.classes.to_dtype(DType::U8).to_vec::<u8>().expect("values");
                        let of_samples = by_host.samples * shape[1] * shape[2];
                        assert_eq!(classes[..of_samples], masks[..of_samples], "{text} on {device:?}");
                    }
                    assert_eq!(received.labels.mixed.is_some(), of(text).mixes());
                }
                if of(text).mixes() {
                    assert_eq!(by_host.targets, later.targets);
                }
            }
        }
    }
    // where a value lies at a half is chance
    assert!(different * 1000 < compared, "{different} of {compared} levels differ");
}

#[test]
fn pictures_are_mixed_as_the_parameters_say() {
    let data = std::sync::Arc::new(Painted::new([2, 6, 5], Goal::Classify));
    for text in ["mixup=1", "cutmix=1", "mixup=0.5,cutmix=0.5"] {
        let pipeline = |on| Pipeline::new(data.clone()).augment(of(text), on).batch(9, Last::Keep).seed(2);
        let first =
            |on| -> Batch { pipeline(on).start().expect("threads").next().expect("a batch").expect("good data") };
        let (mixed, plain) = (first(On::Host), first(On::Device));
        let parameters = plain.parameters.expect("they are for the device");
        let Targets::Mixed { first, second, share } = mixed.targets else { panic!("{text} mixes classes") };
        let mut partners = Vec::new();
        for (row, parameters) in parameters.chunks_exact(PARAMETERS).enumerate() {
            let partner = parameters[PARTNER] as usize;
            partners.push(partner);
            assert_ne!(partner, row);
            assert_eq!((first[row], second[row]), (row as u32 % 3, partner as u32 % 3));
            let [top, left, bottom, right] = [0, 1, 2, 3].map(|side| parameters[BOX + side] as usize);
            let mut kept = 0.0;
            for (place, got) in mixed.inputs.as_bytes()[row * 60..][..60].iter().enumerate() {
                let (y, x) = (place % 30 / 5, place % 5);
                let is_inside = (top..bottom).contains(&y) && (left..right).contains(&x);
                let own_part = if is_inside { 0.0 } else { f64::from(parameters[SHARE]) };
                let of = |row: usize| f64::from(plain.inputs.as_bytes()[row * 60 + place]);
                let expected = of(row) * own_part + of(partner) * (1.0 - own_part);
                assert!((f64::from(*got) - expected).abs() < 0.502, "{text}: {got} instead of {expected}");
                kept += own_part / 60.0;
            }
            assert!(
                (kept - f64::from(share[row])).abs() < 1e-6,
                "{text}: {kept} of the pixels, {} of the class",
                share[row]
            );
        }
        partners.sort_unstable();
        assert_eq!(partners, (0..9).collect::<Vec<_>>(), "each is taken from once");
    }
}

/// Where a map takes a point.
fn moved(parameters: &[f32], [x, y]: [f64; 2]) -> [f64; 2] {
    let row = |row: usize| {
        let at = |column: usize| f64::from(parameters[3 * row + column]);
        at(0) * x + at(1) * y + at(2)
    };
    [row(0) / row(2), row(1) / row(2)]
}

fn drawn(text: &str, shape: [usize; 3]) -> impl Iterator<Item = [f32; PARAMETERS]> {
    let augment = of(text);
    (0..400).map(move |key| augment.draw(&mut Random::new(&[key]), FIRST, &shape))
}

#[test]
fn what_is_drawn_lies_in_its_range() {
    let shape @ [_, height, width] = [3, 11, 17];
    let (h, w) = (height as f64, width as f64);
    let shifts: std::collections::BTreeSet<_> =
        drawn("crop=2", shape).map(|row| [row[2] as i32, row[5] as i32]).collect();
    assert_eq!(shifts.len(), 25, "every shift comes");
    assert!(shifts.iter().flatten().all(|by| by.abs() <= 2));
    let flips = drawn("flip=0.3", shape).filter(|row| row[0] < 0.0).count();
    assert!((80..160).contains(&flips), "{flips} of 400");
    for row in drawn("translate=0.2", shape) {
        assert!(row[2].fract() == 0.0 && f64::from(row[2].abs()) <= (0.2 * w).round());
    }
    for row in drawn("rotate=30", shape) {
        let [a, b, c, d] = [row[0], row[1], row[3], row[4]];
        assert!((a * d - b * c - 1.0).abs() < 1e-6 && a >= 30.0_f32.to_radians().cos() - 1e-6 && a == d && b == -c);
    }
    for row in drawn("resized-crop=0.3", shape) {
        // outer edges of the result lie on whole pixels' edges inside the picture
        let corners = [[-w / 2.0, -h / 2.0], [w / 2.0, h / 2.0]].map(|corner| moved(&row, corner));
        let [[left, top], [right, bottom]] = corners.map(|[x, y]| [x + w / 2.0, y + h / 2.0]);
        let (rows, columns) = (bottom - top, right - left);
        for edge in [left, top, right, bottom] {
            assert!((edge - edge.round()).abs() < 1e-4, "{edge}");
        }
        assert!(left > -1e-4 && top > -1e-4 && right < w + 1e-4 && bottom < h + 1e-4);
        assert!(rows * columns > 0.25 * h * w && (0.6..1.6).contains(&(columns / rows)), "{rows} x {columns}");
    }
    for row in drawn("perspective=0.5", shape) {
        // each corner of the picture is seen inside, at most a quarter of a side from the corner
        let (x, y) = ((w - 1.0) / 2.0, (h - 1.0) / 2.0);
        let map: Map = std::array::from_fn(|line| std::array::from_fn(|column| f64::from(row[3 * line + column])));
        let corners = [[-x, -y], [x, -y], [x, y], [-x, y]];
        let places = corners.map(|corner| moved(&row, corner));
        let back = projection(&places, &corners).expect("no three lie on a line");
        for corner in corners {
            let seen = moved(&back.as_flattened().iter().map(|&value| value as f32).collect::<Vec<_>>(), corner);
            assert!(
                seen[0].abs() < x + 1e-3 && seen[0].abs() > 0.49 * x && seen[0].signum() == corner[0].signum(),
                "{map:?}"
            );
            assert!(seen[1].abs() < y + 1e-3 && seen[1].abs() > 0.49 * y && seen[1].signum() == corner[1].signum());
        }
    }
    for row in drawn("hue=0.2,erase=1,noise", shape) {
        let [top, left, bottom, right] = [0, 1, 2, 3].map(|side| f64::from(row[ERASE + side]));
        let part = (bottom - top) * (right - left) / (h * w);
        assert!(top >= 0.0 && left >= 0.0 && bottom <= h && right <= w && (0.005..0.4).contains(&part), "{part}");
        assert!(row[HUE].abs() <= 0.2 && row[NOISE_KEY].fract() == 0.0);
    }
    for row in drawn("cutout=4", shape) {
        let [top, left, bottom, right] = [0, 1, 2, 3].map(|side| row[ERASE + side] as usize);
        assert!((2..=4).contains(&(bottom - top)) && (2..=4).contains(&(right - left)) && bottom <= 11 && right <= 17);
    }
}

#[test]
fn an_alternating_flip_shows_each_picture_both_ways_round() {
    let is_turned = |text: &str, epoch, begins_turned| {
        of(text).draw(&mut Random::new(&[1]), Turn { epoch, begins_turned }, &[3, 5, 4])[0] < 0.0
    };
    for begins_turned in [false, true] {
        for epoch in 0..6 {
            let other_way = |epochs: u64| (epoch / epochs % 2 == 1) != begins_turned;
            assert_eq!(is_turned("alternate-flip", epoch, begins_turned), !other_way(1), "{epoch}");
            assert_eq!(is_turned("alternate-flip=3", epoch, begins_turned), !other_way(3), "{epoch}");
        }
    }
    assert!("alternate-flip=0.5".parse::<Augment>().is_err());
}

#[test]
fn noise_is_normal_and_its_own_for_each_picture() {
    let augment = of("noise=20");
    let shape = [1, 40, 50];
    let noise = |key| {
        let parameters = augment.draw(&mut Random::new(&[key]), FIRST, &shape);
        let (pixels, _) = by_host(&augment, shape, &[128; 2000], None, &parameters);
        pixels.into_iter().map(|pixel| f64::from(pixel) - 128.0).collect::<Vec<_>>()
    };
    let (first, second) = (noise(1), noise(2));
    let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / 2000.0;
    // within about six standard errors of 2000 values
    assert!(mean(&mut first.iter().copied()).abs() < 2.7);
    assert!((mean(&mut first.iter().map(|x| x * x)).sqrt() - 20.0).abs() < 2.0);
    assert!(mean(&mut first.iter().zip(&second).map(|(a, b)| a * b)).abs() < 400.0 * 0.14);
    assert!(mean(&mut first.iter().zip(&first[1..]).map(|(a, b)| a * b)).abs() < 400.0 * 0.14);
}

#[test]
fn samples_that_are_no_pictures_stay_as_they_are() {
    let augment = of("flip=1,color,erase=1");
    let mut row = Sample { shape: vec![3], input: Values::F32(vec![1.0, 2.0, 3.0]), target: Target::Class(0) };
    let before = row.clone();
    let parameters = augment.draw(&mut Random::new(&[1]), FIRST, &row.shape);
    augment.apply(&mut row, &parameters, &mut Scratch::default());
    assert_eq!(row, before);
    assert_eq!(parameters, identity());
}

/// A picture of one pixel, in every way.
#[test]
fn the_smallest_picture_is_no_exception() {
    let all = "flip=1,crop=2,rotate,resized-crop,perspective,color,hue,blur,noise,erase=1";
    for edge in ["fill", "border", "reflect"] {
        let augment = of(&format!("{all},edge={edge}"));
        for key in 0..20 {
            let parameters = augment.draw(&mut Random::new(&[key]), FIRST, &[3, 1, 1]);
            let (pixels, mask) = by_host(&augment, [3, 1, 1], &[10, 200, 30], Some(&[1]), &parameters);
            assert_eq!(pixels.len(), 3);
            assert!(mask == Some(vec![1]) || mask == Some(vec![IGNORED]));
            for device in fresh_devices().take(1) {
                let got = augment
                    .apply_on_device(&tensor(&[10, 200, 30], &[1, 3, 1, 1], &device), &rows(&parameters, &device));
                let got = got.to_vec::<u8>().expect("values");
                assert!(got.iter().zip(&pixels).all(|(got, pixel)| got.abs_diff(*pixel) <= 1), "{got:?}, {pixels:?}");
            }
        }
    }
}

#[test]
fn what_is_turned_and_moved_may_be_out_of_sight() {
    let (shape, picture) = ([1, 3, 4], (1..=12).collect::<Vec<u8>>());
    let device = fresh_devices().next().expect("there is one");
    for edge in ["fill", "border", "reflect"] {
        let augment = of(&format!("flip=1,crop=9,edge={edge}"));
        let key = |key| augment.draw(&mut Random::new(&[key]), FIRST, &shape);
        let parameters: Vec<[f32; PARAMETERS]> = (0..100).map(key).collect();
        assert!(parameters.iter().any(|row| row[2] < -4.0) && parameters.iter().any(|row| row[2] > 4.0));
        let here: Vec<u8> = parameters.iter().flat_map(|row| by_host(&augment, shape, &picture, None, row).0).collect();
        let pictures = tensor(&picture.repeat(100), &[100, 1, 3, 4], &device);
        let there = augment.apply_on_device(&pictures, &rows(parameters.as_flattened(), &device));
        assert_eq!(there.to_vec::<u8>().expect("values"), here, "{edge}");
    }
}

#[test]
fn a_mixed_loss_is_the_weighted_loss_of_two_classes() {
    let pixels = (0..4 * 4).map(|pixel| pixel * 9).collect();
    let classes = ["a", "b", "c"].map(String::from).to_vec();
    let data = InMemory::new("four", classes, [1, 2, 2], Normalization::default(), pixels, vec![0, 1, 2, 1]);
    let pipeline = Pipeline::new(std::sync::Arc::new(data)).augment(of("mixup=1"), On::Device).batch(4, Last::Keep);
    let batch = pipeline.start().expect("threads").next().expect("a batch").expect("good data");
    let Targets::Mixed { first, second, share } = &batch.targets else { panic!("classes are mixed") };
    let device = Device::cpu();
    let uploads = batch.uploads().into_iter();
    let uploads: Vec<Tensor> = uploads
        .map(|(shape, dtype, bytes)| Tensor::from_bytes(bytes, shape, dtype, &device).expect("memory"))
        .collect();
    let logits: Vec<f32> = (0..12).map(|place| (place * 7 % 5) as f32 * 0.3).collect();
    let labels = pipeline.format().receive(&uploads).labels;
    let tensor = Tensor::from_slice(&logits, [4, 3], &device).expect("memory");
    let loss = labels.cross_entropy(&tensor, &Default::default()).item::<f32>().expect("a value");
    let expected: f32 = (0..4)
        .map(|row| {
            let logits = &logits[row * 3..][..3];
            let sum: f32 = logits.iter().map(|logit| logit.exp()).sum();
            let of = |class: u32| sum.ln() - logits[class as usize];
            share[row] * of(first[row]) + (1.0 - share[row]) * of(second[row])
        })
        .sum::<f32>()
        / 4.0;
    assert!((loss - expected).abs() < 1e-5, "{loss} instead of {expected}");
}
