//! ONNX models, damaged as bytes and as messages: fields changed, left out, doubled and exchanged, with the lengths
//! around them right.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use brasa::formats::onnx::{Dimension, Model, TensorInfo};
use brasa::{DType, Device, Scalar, Tensor};
use safetensors::tensor::SafeTensors;
use stats_alloc::Region;

use super::damage::{Random, damage};
use super::{ALLOCATOR, ALONE};

/// The most that a small model may take from the allocator in all, to be read, traced and computed: some values of the
/// largest size there is for it, 16 million elements.
const MAX_BYTES: usize = 2 << 30;
/// The most time of one.
const LONGEST: Duration = Duration::from_secs(20);

/// A message, as its fields.
#[derive(Clone)]
struct Message(Vec<(u64, Field)>);

#[derive(Clone)]
enum Field {
    Varint(u64),
    Fixed64([u8; 8]),
    Bytes(Vec<u8>),
    Nested(Message),
    Fixed32([u8; 4]),
}

/// A number in base 128, and what follows it.
fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (place, &byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f).checked_shl(7 * place as u32)?;
        if byte < 0x80 {
            return Some((value, &bytes[place + 1..]));
        }
    }
    None
}

fn put_varint(mut value: u64, bytes: &mut Vec<u8>) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

impl Message {
    /// `None` if the bytes are none. What might be text or a message counts as a message.
    fn parse(mut bytes: &[u8]) -> Option<Self> {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let (key, rest) = varint(bytes)?;
            let (number, kind) = (key >> 3, key & 7);
            let field;
            (field, bytes) = match kind {
                0 => varint(rest).map(|(value, rest)| (Field::Varint(value), rest))?,
                1 => (Field::Fixed64(*rest.first_chunk()?), &rest[8..]),
                2 => {
                    let (length, rest) = varint(rest)?;
                    let (own, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
                    let nested = Self::parse(own).filter(|message| !message.0.is_empty());
                    (nested.map_or(Field::Bytes(own.to_vec()), Field::Nested), rest)
                }
                5 => (Field::Fixed32(*rest.first_chunk()?), &rest[4..]),
                _ => return None,
            };
            if number == 0 || number > 64 {
                return None;
            }
            fields.push((number, field));
        }
        Some(Self(fields))
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (number, field) in &self.0 {
            let mut put = |kind: u64, value: &[u8]| {
                put_varint(number << 3 | kind, &mut bytes);
                if kind == 2 {
                    put_varint(value.len() as u64, &mut bytes);
                }
                bytes.extend_from_slice(value);
            };
            match field {
                Field::Varint(value) => {
                    let mut digits = Vec::new();
                    put_varint(*value, &mut digits);
                    put(0, &digits);
                }
                Field::Fixed64(value) => put(1, value),
                Field::Bytes(value) => put(2, value),
                Field::Nested(message) => put(2, &message.bytes()),
                Field::Fixed32(value) => put(5, value),
            }
        }
        bytes
    }

    /// The texts in it.
    fn texts(&self, texts: &mut BTreeSet<Vec<u8>>) {
        for (_, field) in &self.0 {
            match field {
                Field::Bytes(bytes) if bytes.len() < 40 => drop(texts.insert(bytes.clone())),
                Field::Nested(message) => message.texts(texts),
                _ => {}
            }
        }
    }

    /// One change somewhere within.
    fn change(&mut self, texts: &[Vec<u8>], random: &mut Random) {
        if self.0.is_empty() {
            return;
        }
        let at = random.below(self.0.len());
        match random.below(24) {
            0 => drop(self.0.remove(at)),
            1 => self.0.push(self.0[at].clone()),
            2 => {
                let other = random.below(self.0.len());
                self.0.swap(at, other);
            }
            3 => self.0[at].0 = 1 + random.below(20) as u64,
            _ => match &mut self.0[at].1 {
                // deeper, mostly
                Field::Nested(message) => message.change(texts, random),
                Field::Varint(value) => *value = number(*value, random),
                Field::Fixed32(value) => {
                    *value = [0.0, -1.0, 1e30, f32::NAN, f32::INFINITY, 0.5, 1e-30, 2.0][random.below(8)].to_le_bytes();
                }
                Field::Fixed64(value) => *value = random.next().to_le_bytes(),
                Field::Bytes(bytes) => match random.below(4) {
                    0 if !texts.is_empty() => *bytes = texts[random.below(texts.len())].clone(),
                    // packed integers and raw data of 64 bits
                    1 if bytes.len() >= 8 => {
                        let at = random.below(bytes.len() / 8) * 8;
                        bytes[at..at + 8].copy_from_slice(&number(1, random).to_le_bytes());
                    }
                    2 => bytes.truncate(random.below(bytes.len())),
                    _ => {
                        let changed = if bytes.is_empty() { 0 } else { random.below(bytes.len()) };
                        match bytes.get_mut(changed) {
                            Some(byte) => *byte = number(u64::from(*byte), random) as u8 & 0x7f,
                            None => bytes.push(1),
                        }
                    }
                },
            },
        }
    }
}

/// Another number: small, extreme, negative, or next to it.
fn number(value: u64, random: &mut Random) -> u64 {
    let extremes = [
        0,
        1,
        2,
        3,
        7,
        100,
        5000,
        1 << 20,
        1 << 31,
        1 << 33,
        1 << 62,
        i64::MAX as u64,
        i64::MIN as u64,
        u64::MAX,
        u64::MAX - 1,
        (-3_i64) as u64,
        (-100_000_i64) as u64,
    ];
    match random.below(4) {
        0 => value.wrapping_add(1),
        1 => value.wrapping_sub(1),
        _ => extremes[random.below(extremes.len())],
    }
}

/// A recorded model with shapes of inputs.
struct Case {
    name: String,
    bytes: Vec<u8>,
    shapes: Vec<Vec<usize>>,
}

fn cases() -> Vec<Case> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/reference/onnx_cases.safetensors");
    let recording = std::fs::read(path).expect("the recording lies beside the test");
    let file = SafeTensors::deserialize(&recording).expect("a recording");
    let mut names: Vec<String> =
        file.names().iter().filter_map(|name| name.strip_suffix("/model")).map(str::to_owned).collect();
    names.sort();
    let case = |name: String| {
        let bytes = file.tensor(&format!("{name}/model")).expect("a model").data().to_vec();
        let input = |number: usize| file.tensor(&format!("{name}/in/{number}")).ok();
        let shapes = (0..).map_while(input).map(|view| view.shape().to_vec()).collect();
        Case { name, bytes, shapes }
    };
    names.into_iter().map(case).collect()
}

/// Reads, traces and computes a model: `None` if all went well, else the error.
fn outcome(bytes: &[u8], shapes: &[Vec<usize>], device: &Device) -> Option<String> {
    let model = match Model::from_bytes(bytes, None, device) {
        Ok(model) => model,
        Err(error) => return Some(error.to_string()),
    };
    let input = |(number, info): (usize, &TensorInfo)| {
        let dtype = info.dtype.unwrap_or(DType::F32);
        // what the file says, if that is little, else what it said before
        let told = info.dimensions.as_ref().and_then(|sizes| {
            let size = |size: &Dimension| match size {
                Dimension::Fixed(size) => Some(*size),
                Dimension::Named(_) | Dimension::Unknown => None,
            };
            sizes.iter().map(size).collect::<Option<Vec<usize>>>()
        });
        let is_small = |shape: &Vec<usize>| {
            shape.len() < 12
                && shape
                    .iter()
                    .try_fold(1_usize, |whole, &size| whole.checked_mul(size))
                    .is_some_and(|whole| whole < 4096)
        };
        let recorded = || shapes.get(number).cloned().unwrap_or_else(|| vec![1]);
        let shape = told.filter(is_small).unwrap_or_else(recorded);
        let count: usize = shape.iter().product();
        let bytes: Vec<u8> = (0..count)
            .flat_map(|place| {
                let value = if dtype.is_float() { (place % 7) as f64 * 0.3 - 0.8 } else { (place % 3) as f64 };
                Scalar::new(dtype, value).bits.to_le_bytes().into_iter().take(dtype.size_bytes())
            })
            .collect();
        Tensor::from_bytes(&bytes, shape.as_slice(), dtype, device).expect("memory")
    };
    let inputs: Vec<Tensor> = model.inputs().iter().enumerate().map(input).collect();
    let outputs = match model.run(&inputs) {
        Ok(outputs) => outputs,
        Err(error) => return Some(error.to_string()),
    };
    outputs.iter().find_map(|output| pollster::block_on(output.to_bytes()).err().map(|error| error.to_string()))
}

#[test]
fn damaged_models_are_refused_or_run() {
    let _alone = ALONE.lock().expect("no test panicked before");
    let rounds: u64 = std::env::var("BRASA_ONNX_ROUNDS").map_or(40, |rounds| rounds.parse().expect("a number"));
    let device = Device::cpu();
    let (mut refused, mut ran) = (0, 0);
    for (seed, case) in cases().iter().enumerate() {
        let whole = outcome(&case.bytes, &case.shapes, &device);
        // indices that are inputs may lie outside
        assert!(whole.as_ref().is_none_or(|error| error.contains("index")), "{}: {whole:?}", case.name);
        let message = Message::parse(&case.bytes).expect("a message");
        assert_eq!(message.bytes(), case.bytes, "{}", case.name);
        let mut texts = BTreeSet::new();
        message.texts(&mut texts);
        let texts: Vec<Vec<u8>> = texts.into_iter().collect();
        let mut random = Random(seed as u64 + 1);
        for round in 0..rounds {
            let bytes = if round % 4 == 0 {
                damage(&case.bytes, case.bytes.len(), &mut random)
            } else {
                let mut changed = message.clone();
                (0..=random.below(3)).for_each(|_| changed.change(&texts, &mut random));
                changed.bytes()
            };
            let (region, start) = (Region::new(ALLOCATOR), Instant::now());
            let result = catch_unwind(AssertUnwindSafe(|| outcome(&bytes, &case.shapes, &device)));
            let (taken, time) = (region.change().bytes_allocated, start.elapsed());
            let place = || {
                let path = std::env::temp_dir().join("damaged.onnx");
                std::fs::write(&path, &bytes).expect("a folder for it");
                format!("{}, round {round}, which is now {}", case.name, path.display())
            };
            assert!(result.is_ok(), "a panic: {}", place());
            assert!(taken < MAX_BYTES, "{taken} bytes were taken: {}", place());
            assert!(time < LONGEST, "it took {time:?}: {}", place());
            *(if matches!(result, Ok(None)) { &mut ran } else { &mut refused }) += 1;
        }
    }
    assert!(refused > ran / 4 && ran > 0, "{refused} refused, {ran} ran: are they damaged at all?");
}

fn text(value: &str) -> Field {
    Field::Bytes(value.as_bytes().to_vec())
}

fn nested(fields: Vec<(u64, Field)>) -> Field {
    Field::Nested(Message(fields))
}

/// A constant of integers, of one axis.
fn integers(name: &str, values: &[i64]) -> (u64, Field) {
    let data = values.iter().map(|&value| (7, Field::Varint(value as u64)));
    let head = [(1, Field::Varint(values.len() as u64)), (2, Field::Varint(7)), (8, text(name))];
    (5, nested(head.into_iter().chain(data).collect()))
}

fn node(kind: &str, inputs: &[&str], output: &str) -> (u64, Field) {
    let inputs = inputs.iter().map(|input| (1, text(input)));
    (1, nested(inputs.chain([(2, text(output)), (4, text(kind))]).collect()))
}

/// An input (field 11) or output (12) of the graph, of a type of elements.
fn tensor(field: u64, name: &str, element: u64) -> (u64, Field) {
    let of = nested(vec![(1, nested(vec![(1, Field::Varint(element))]))]);
    (field, nested(vec![(1, text(name)), (2, of)]))
}

/// A box and a score that are expanded to very many: each is compared with all that were kept.
#[test]
fn boxes_without_end_are_not_compared_without_end() {
    let _alone = ALONE.lock().expect("no test panicked before");
    let one = [
        (1, Field::Varint(1)),
        (2, Field::Varint(1)),
        (8, text("overlap")),
        (4, Field::Fixed32(1.0_f32.to_le_bytes())),
    ];
    let graph = vec![
        node("Expand", &["corners", "of_boxes"], "boxes"),
        node("Expand", &["score", "of_scores"], "scores"),
        node("NonMaxSuppression", &["boxes", "scores", "most", "overlap"], "kept"),
        integers("of_boxes", &[1, 1 << 17, 4]),
        integers("of_scores", &[1, 1, 1 << 17]),
        integers("most", &[i64::MAX]),
        (5, nested(one.to_vec())),
        tensor(11, "corners", 1),
        tensor(11, "score", 1),
        tensor(12, "kept", 7),
    ];
    let opset = nested(vec![(2, Field::Varint(21))]);
    let bytes = Message(vec![(1, Field::Varint(10)), (7, nested(graph)), (8, opset)]).bytes();
    let start = Instant::now();
    let error = outcome(&bytes, &[vec![1, 1, 4], vec![1, 1, 1]], &Device::cpu()).expect("it is refused");
    assert!(error.contains("NonMaxSuppression") && error.contains("pairs of boxes"), "{error}");
    assert!(start.elapsed() < LONGEST, "it took {:?}", start.elapsed());
}

#[test]
fn a_model_that_is_cut_off_is_refused() {
    let _alone = ALONE.lock().expect("no test panicked before");
    let device = Device::cpu();
    for case in cases().iter().filter(|case| case.name.starts_with("torch_") || case.name == "Conv") {
        for end in (0..case.bytes.len()).step_by(1 + case.bytes.len() / 200) {
            // a message may end after any field
            let _ = outcome(&case.bytes[..end], &case.shapes, &device);
        }
    }
}
