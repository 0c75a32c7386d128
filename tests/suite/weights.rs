//! Files of weights: PyTorch's read, ours read by PyTorch, and files that are not what they should be.
//!
//! `BRASA_TORCH_WEIGHTS=FOLDER` also reads whole networks that `reference/record_models.py FOLDER` wrote;
//! `BRASA_SAVE_WEIGHTS=FOLDER` writes some for `reference/check_weights.py FOLDER`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use brasa::error::StateMismatch;
use brasa::models::{ModelSpec, ResNet, ResNetOptions, create, create_with};
use brasa::nn::{
    self, Embedding, Init, Linear, LoadOptions, Mode, Module, Sequential, Variables, load_weights, save_weights,
    to_safetensors, weights_from_bytes,
};
use brasa::{DType, Device, Error, Tensor, variables};
use half::{bf16, f16};
use proptest::prelude::*;
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};

use crate::common::{devices, panic_of, skipped};

const TINY: &[u8] = include_bytes!("../reference/tiny_resnet.safetensors");
const TINY_IO: &[u8] = include_bytes!("../reference/tiny_resnet.io.safetensors");

fn tiny(init: &Init) -> ResNet {
    let options = ResNetOptions { blocks: [1; 4], bottleneck: false, width: 4 };
    ResNet::new(options, 3, 5, init).expect("a model")
}

fn strict() -> LoadOptions {
    LoadOptions::default()
}

/// A tensor of an `io` file.
fn read(io: &[u8], name: &str, device: &Device) -> Tensor {
    let file = SafeTensors::deserialize(io).expect("a file");
    let view = file.tensor(name).expect("a tensor of that name");
    Tensor::from_bytes(view.data(), view.shape(), DType::F32, device).expect("memory")
}

fn logits(model: &dyn Module, input: &Tensor) -> Vec<f32> {
    Mode::Evaluate.scope(|| model.forward(input)).to_vec().expect("logits")
}

/// To 1e-4 of the largest logit, at least 1.
fn assert_logits(what: &str, got: &[f32], expected: &[f32]) {
    let largest = expected.iter().fold(1.0, |largest: f32, value| largest.max(value.abs()));
    for (index, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert!((got - expected).abs() <= 1e-4 * largest, "{what}: logit {index} is {got} instead of {expected}");
    }
}

fn mismatch(error: Error) -> StateMismatch {
    match error {
        Error::State(mismatch) => *mismatch,
        other => panic!("{other}"),
    }
}

fn load(model: &dyn Module, bytes: &[u8], options: &LoadOptions) -> brasa::Result<nn::LoadReport> {
    weights_from_bytes(model, Path::new("some/file.safetensors"), bytes, options)
}

#[test]
fn a_file_from_pytorch_gives_its_logits() {
    for device in devices() {
        let model = tiny(&Init::zeros(&device));
        let report = load(&model, TINY, &strict()).expect("the same model");
        // also the counters of batches, one of which PyTorch's training step has counted
        assert_eq!(report.loaded, nn::state(&model).len());
        assert_eq!(nn::state(&model)["bn1.num_batches_tracked"].item::<i32>().expect("a count"), 1);
        let expected: Vec<f32> = read(TINY_IO, "logits", &device).to_vec().expect("values");
        assert_logits("tiny", &logits(&model, &read(TINY_IO, "input", &device)), &expected);
        // and the way back is the same file, tensor by tensor
        let ours = to_safetensors(&model).expect("bytes");
        let (ours, theirs) = (SafeTensors::deserialize(&ours), SafeTensors::deserialize(TINY));
        let (ours, theirs) = (ours.expect("a file"), theirs.expect("a file"));
        assert_eq!(ours.len(), theirs.len());
        for (name, view) in theirs.iter() {
            let own = ours.tensor(name).expect("the same names");
            assert_eq!((own.dtype(), own.shape(), own.data()), (view.dtype(), view.shape(), view.data()), "{name}");
        }
    }
}

#[test]
fn whole_networks_from_pytorch() {
    let Some(folder) = std::env::var_os("BRASA_TORCH_WEIGHTS").map(PathBuf::from) else {
        skipped("BRASA_TORCH_WEIGHTS names no folder that reference/record_models.py wrote");
        return;
    };
    let device = Device::cpu();
    for (name, side) in [("resnet18", 64), ("mobilenet-v2", 64), ("vit-tiny", 224)] {
        let spec = ModelSpec { input: vec![3, side, side], classes: 1000, seed: 0 };
        let model = create_with(name, &spec, &Init::zeros(&device)).expect("a model");
        load_weights(&*model, folder.join(format!("{name}.safetensors")), &strict()).expect("the same model");
        let io = std::fs::read(folder.join(format!("{name}.io.safetensors"))).expect("a file");
        let expected: Vec<f32> = read(&io, "logits", &device).to_vec().expect("values");
        assert_logits(name, &logits(&*model, &read(&io, "input", &device)), &expected);
    }
}

#[test]
fn pytorch_loads_what_we_save() {
    let Some(folder) = std::env::var_os("BRASA_SAVE_WEIGHTS").map(PathBuf::from) else {
        skipped("BRASA_SAVE_WEIGHTS names no folder to write to for reference/check_weights.py");
        return;
    };
    let device = Device::cpu();
    for (name, side, classes) in [
        ("resnet18", 64, 1000),
        ("resnet20", 32, 10),
        ("mobilenet-v2", 64, 1000),
        ("convnext-tiny", 64, 1000),
        ("vit-tiny", 224, 1000),
    ] {
        let spec = ModelSpec { input: vec![3, side, side], classes, seed: 7 };
        let model = create(name, &spec, &device).expect("a model");
        let input =
            Tensor::from_slice(&crate::common::floats(1, 6 * side * side, -1.0, 1.0), [2, 3, side, side], &device);
        let input = input.expect("memory");
        // running statistics other than the first ones
        model.forward(&input).realize().expect("outputs");
        save_weights(&*model, folder.join(format!("{name}.safetensors"))).expect("written");
        let bytes = [&input, &Mode::Evaluate.scope(|| model.forward(&input))]
            .map(|tensor| (tensor.shape().to_vec(), pollster::block_on(tensor.to_bytes()).expect("bytes")));
        let views = ["input", "logits"].into_iter().zip(&bytes);
        let views = views.map(|(name, (shape, bytes))| (name, view(Dtype::F32, shape, bytes)));
        let io = safetensors::serialize(views, None).expect("bytes");
        std::fs::write(folder.join(format!("{name}.io.safetensors")), io).expect("written");
    }
}

fn view<'a>(dtype: Dtype, shape: &[usize], bytes: &'a [u8]) -> TensorView<'a> {
    TensorView::new(dtype, shape.to_vec(), bytes).expect("bytes of that shape")
}

/// A file with these float tensors.
fn file(tensors: &[(&str, &[usize])]) -> Vec<u8> {
    let bytes: Vec<Vec<u8>> = tensors.iter().map(|(_, shape)| vec![0; 4 * shape.iter().product::<usize>()]).collect();
    let views = tensors.iter().zip(&bytes).map(|((name, shape), bytes)| (*name, view(Dtype::F32, shape, bytes)));
    safetensors::serialize(views, None).expect("bytes")
}

fn two_layers(device: &Device) -> Sequential {
    let init = Init::new(device, 1);
    Sequential::new()
        .push(Linear::new(3, 4, &init.at("body")).expect("memory"))
        .push(Linear::new(4, 2, &init.at("head")).expect("memory"))
}

#[test]
fn all_that_does_not_fit_is_told_at_once_and_nothing_changes() {
    for device in devices() {
        let model = two_layers(&device);
        let before = to_safetensors(&model).expect("bytes");
        let other =
            file(&[("body.weight", &[4, 3]), ("head.weight", &[5, 4]), ("tail.weight", &[1]), ("tail.bias", &[1])]);
        let error = load(&model, &other, &strict()).expect_err("another model");
        let text = error.to_string();
        let problems = mismatch(error);
        assert_eq!(problems.path.as_deref(), Some(Path::new("some/file.safetensors")));
        assert_eq!(problems.missing, ["body.bias", "head.bias"]);
        assert_eq!(problems.unexpected, ["tail.bias", "tail.weight"]);
        assert_eq!(problems.misshaped, [("head.weight".to_owned(), [5, 4].into(), [2, 4].into())]);
        for part in ["some/file.safetensors", "body.bias", "tail.bias", "head.weight [5, 4] instead of [2, 4]"] {
            assert!(text.contains(part), "{text}");
        }
        // a shape that differs is refused in part too, unless it is left out
        mismatch(load(&model, &other, &strict().partial()).expect_err("another shape"));
        assert_eq!(to_safetensors(&model).expect("bytes"), before, "a refused file changed something");
        let report = load(&model, &other, &strict().partial().skip("head.*")).expect("one fits");
        assert_eq!((report.loaded, report.missing.len(), report.unexpected.len()), (1, 3, 2));
        assert_eq!(nn::state(&model)["body.weight"].to_vec::<f32>().expect("values"), [0.0; 12]);
    }
}

#[test]
fn names_are_changed_on_the_way_in() {
    let device = Device::cpu();
    let model = two_layers(&device);
    let shapes: [(&str, &[usize]); 4] = [
        ("module.0.weight", &[4, 3]),
        ("module.0.bias", &[4]),
        ("module.fc.weight", &[2, 4]),
        ("module.fc.bias", &[2]),
    ];
    let options = strict().rename("module.0.", "body.").rename("module.fc.", "head.").rename("module.", "never.");
    assert_eq!(load(&model, &file(&shapes), &options).expect("renamed").loaded, 4);
    assert!(nn::state(&model).values().all(|tensor| tensor.abs().max().item::<f32>().expect("a value") == 0.0));
    let problems = mismatch(load(&model, &file(&shapes), &strict().rename("module.", "")).expect_err("other names"));
    assert!(problems.unexpected.contains(&"fc.bias".to_owned()), "{problems}");
}

#[test]
fn every_type_of_number_is_read() {
    let numbers = [-2.0_f64, 0.0, 1.0, 96.0];
    let positive = [3.0_f64, 0.0, 1.0, 96.0];
    macro_rules! bytes {
        ($numbers:expr, $convert:expr) => {
            $numbers.iter().flat_map(|&number| $convert(number).to_le_bytes()).collect::<Vec<u8>>()
        };
    }
    let files = [
        (Dtype::F64, bytes!(numbers, |x: f64| x), numbers),
        (Dtype::F32, bytes!(numbers, |x| x as f32), numbers),
        (Dtype::F16, bytes!(numbers, f16::from_f64), numbers),
        (Dtype::BF16, bytes!(numbers, bf16::from_f64), numbers),
        (Dtype::I64, bytes!(numbers, |x| x as i64), numbers),
        (Dtype::I32, bytes!(numbers, |x| x as i32), numbers),
        (Dtype::I16, bytes!(numbers, |x| x as i16), numbers),
        (Dtype::I8, bytes!(numbers, |x| x as i8), numbers),
        (Dtype::U64, bytes!(positive, |x| x as u64), positive),
        (Dtype::U32, bytes!(positive, |x| x as u32), positive),
        (Dtype::U16, bytes!(positive, |x| x as u16), positive),
        (Dtype::U8, bytes!(positive, |x| x as u8), positive),
        (Dtype::BOOL, vec![1, 0, 1, 1], [1.0, 0.0, 1.0, 1.0]),
    ];
    for device in devices() {
        let layer = Linear::without_bias(2, 2, &Init::new(&device, 1)).expect("memory");
        for (dtype, bytes, expected) in &files {
            let file = safetensors::serialize([("weight", view(*dtype, &[2, 2], bytes))], None).expect("bytes");
            load(&layer, &file, &strict()).expect("a known type");
            let values: Vec<f32> = layer.weight.tensor().to_vec().expect("values");
            assert_eq!(values, expected.map(|number| number as f32), "{dtype:?} on {device:?}");
        }
        let file = safetensors::serialize([("weight", view(Dtype::F8_E4M3, &[2, 2], &[0; 4]))], None).expect("bytes");
        let error = load(&layer, &file, &strict()).expect_err("no type of ours").to_string();
        assert!(error.contains("weight") && error.contains("F8_E4M3"), "{error}");
    }
}

/// An embedding whose table is also the last layer's weight.
struct Tied {
    table: Embedding,
    head: Linear,
}

impl Tied {
    fn new(seed: u64, device: &Device) -> Self {
        let init = Init::new(device, seed);
        let table = Embedding::new(5, 3, &init.at("table")).expect("memory");
        Self { head: Linear::tied(&table.weight, &init.at("head")), table }
    }
}

variables!(Tied: table, head);

impl Module for Tied {
    fn forward(&self, input: &Tensor) -> Tensor {
        self.head.forward(&self.table.forward(input))
    }
}

#[test]
fn tied_weights_are_one_variable_with_two_names() {
    for device in devices() {
        let (model, other) = (Tied::new(1, &device), Tied::new(2, &device));
        assert_eq!(model.parameters().len(), 1);
        assert_eq!(nn::parameter_count(&model), 15);
        let state = nn::state(&model);
        assert_eq!(state.keys().collect::<Vec<_>>(), ["head.weight", "table.weight"]);
        let bytes = to_safetensors(&model).expect("bytes");
        assert_eq!(load(&other, &bytes, &strict()).expect("the same model").loaded, 1);
        let index = Tensor::arange(5, &device);
        assert_eq!(logits(&model, &index), logits(&other, &index));
        // files without shared tensors have either name
        for name in ["head.weight", "table.weight"] {
            let report = load(&other, &file(&[(name, &[5, 3])]), &strict()).expect("one of the names");
            assert_eq!((report.loaded, logits(&other, &index)), (1, vec![0.0; 25]), "{name}");
            load(&other, &bytes, &strict()).expect("the same model");
        }
    }
}

#[test]
fn a_file_is_written_whole_and_read_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.safetensors");
    let device = Device::cpu();
    let (model, other) = (two_layers(&device), tiny(&Init::zeros(&device)));
    save_weights(&model, &path).expect("written");
    save_weights(&model, &path).expect("written again");
    assert_eq!(load_weights(&model, &path, &strict()).expect("read").loaded, 4);
    let text = load_weights(&other, &path, &strict()).expect_err("another model").to_string();
    assert!(text.contains("model.safetensors") && text.contains("and 54 more"), "{text}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1, "something was left behind");
    let missing = folder.path().join("none.safetensors");
    assert!(matches!(load_weights(&model, &missing, &strict()), Err(Error::Io { path, .. }) if path == missing));
}

/// An error that names the file, says why, and is no panic.
fn assert_refused(what: &str, model: &dyn Module, bytes: &[u8]) {
    match load(model, bytes, &strict()) {
        Err(Error::Format { path, reason }) => {
            assert_eq!(path, Path::new("some/file.safetensors"), "{what}");
            assert!(reason.len() > 20, "{what}: {reason}");
        }
        other => panic!("{what}: {other:?}"),
    }
}

/// A file with this header.
fn with_header(header: &str, data: usize) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &vec![0; data]].concat()
}

#[test]
fn damaged_files_are_refused() {
    let model = two_layers(&Device::cpu());
    let whole = to_safetensors(&model).expect("bytes");
    for length in (0..whole.len()).step_by(7) {
        assert_refused(&format!("the first {length} bytes"), &model, &whole[..length]);
    }
    assert_refused("more than there should be", &model, &[&whole[..], &[0; 5]].concat());
    for length in [u64::MAX, u64::MAX - 7, 1 << 62, 100_000_001, whole.len() as u64, 0, 1] {
        let changed = [&length.to_le_bytes(), &whole[8..]].concat();
        assert_refused(&format!("a header of {length} bytes"), &model, &changed);
    }
    for (what, header, data) in [
        ("no JSON", "body.weight", 0),
        ("no table", "[1, 2]", 0),
        ("no offsets", r#"{"body.weight":{"dtype":"F32","shape":[4,3]}}"#, 48),
        ("offsets backwards", r#"{"body.weight":{"dtype":"F32","shape":[4,3],"data_offsets":[48,0]}}"#, 48),
        ("offsets beyond the end", r#"{"body.weight":{"dtype":"F32","shape":[4,3],"data_offsets":[0,48]}}"#, 40),
        ("offsets of another size", r#"{"body.weight":{"dtype":"F32","shape":[4,3],"data_offsets":[0,44]}}"#, 44),
        ("a hole", r#"{"body.weight":{"dtype":"F32","shape":[4,3],"data_offsets":[4,52]}}"#, 52),
        ("negative sizes", r#"{"body.weight":{"dtype":"F32","shape":[-4,3],"data_offsets":[0,48]}}"#, 48),
        (
            "sizes that overflow",
            r#"{"body.weight":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}"#,
            0,
        ),
        ("an unknown type", r#"{"body.weight":{"dtype":"F99","shape":[4,3],"data_offsets":[0,48]}}"#, 48),
        (
            "one tensor over another",
            r#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}}"#,
            6,
        ),
    ] {
        assert_refused(what, &model, &with_header(header, data));
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), place in 0_usize..400, value: u8) {
        let model = two_layers(&Device::cpu());
        let _refused = load(&model, &bytes, &strict());
        let mut changed = to_safetensors(&model).expect("bytes");
        let place = place % changed.len();
        changed[place] = value;
        // a changed number loads; a changed header does not, or names something else
        let _either = load(&model, &changed, &strict());
    }
}

#[test]
fn two_variables_of_one_path_are_not_saved_as_one() {
    let init = Init::new(&Device::cpu(), 1);
    let twice = Sequential::new()
        .push(Linear::new(2, 2, &init).expect("memory"))
        .push(Linear::new(2, 2, &init).expect("memory"));
    let (message, ..) = panic_of(|| drop(to_safetensors(&twice)));
    assert!(
        message.contains("two variables of the model are called `weight`") && message.contains("Init::at"),
        "{message}"
    );
}

fn floats(tensor: &Tensor) -> Vec<f32> {
    tensor.to_vec().expect("values")
}

#[test]
fn state_moves_to_the_models_device() {
    let devices = devices();
    let layers: Vec<Linear> =
        devices.iter().map(|device| Linear::new(3, 2, &Init::new(device, 5)).expect("memory")).collect();
    for (from, to) in layers.iter().zip(layers.iter().rev()) {
        let doubled = nn::state(from).into_iter().map(|(name, tensor)| (name, tensor * 2.0)).collect();
        nn::load_state(to, &doubled).expect("it fits");
        assert_eq!(floats(&to.weight.tensor()), floats(&doubled["weight"]));
    }
}

#[test]
fn what_torch_save_wrote_is_loaded() {
    let reference = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference");
    for device in devices() {
        let layer = Linear::new(2, 1, &Init::new(&device, 1)).expect("memory");
        let report = load_weights(&layer, reference.join("checkpoint.pth"), &LoadOptions::default()).expect("it fits");
        assert_eq!(report.loaded, 2);
        assert_eq!(floats(&layer.weight.tensor()), [-0.125, 0.0]);
        let tensors = nn::load_tensors(reference.join("state.pth"), &device).expect("a state dict");
        assert_eq!(floats(&tensors["double"]), [-0.125, 0.0, 0.125]);
        assert_eq!(tensors["num_batches_tracked"].item::<i32>().expect("a count"), 7);
        assert_eq!((tensors["half"].dtype(), tensors["bfloat"].dtype()), (DType::F16, DType::F32));
        assert_eq!(tensors["truth"].to_vec::<bool>().expect("values"), [true, false, true]);
    }
    // what nobody asks for need not be read
    let few = Linear::without_bias(2, 1, &Init::new(&Device::cpu(), 1)).expect("memory");
    load_weights(&few, reference.join("others.pth"), &LoadOptions::default().skip("bias")).expect("it fits");
    let options = LoadOptions::default().partial().rename("weight", "w").rename("negative", "weight");
    let message = load_weights(&few, reference.join("others.pth"), &options).expect_err("it is asked for").to_string();
    assert!(message.contains("others.pth") && message.contains("`negative` is a negated"), "{message}");
    let message = nn::load_tensors(reference.join("others.pth"), &Device::cpu()).expect_err("not all").to_string();
    assert!(message.contains("others.pth") && message.contains("`negative`"), "{message}");
    let layer = Linear::new(2, 2, &Init::new(&Device::cpu(), 1)).expect("memory");
    let message = load_weights(&layer, reference.join("checkpoint.pth"), &LoadOptions::default());
    let message = message.expect_err("another shape").to_string();
    assert!(message.contains("checkpoint.pth") && message.contains("weight"), "{message}");
    for bytes in [&b"PK\x03\x04archive/data.pkl and so on"[..], b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."] {
        let error = weights_from_bytes(&layer, Path::new("model.pt"), bytes, &LoadOptions::default());
        let message = error.expect_err("no weights").to_string();
        assert!(message.contains("model.pt"), "{message}");
    }
}

#[test]
fn named_tensors_come_back_as_they_were() {
    let path = std::env::temp_dir().join(format!("brasa-tensors-{}.safetensors", std::process::id()));
    for device in devices() {
        let floats =
            Tensor::from_slice(&[0.5_f32, -2.25, f32::INFINITY, 0.0, 1e-3, 7.0], [2, 3], &device).expect("memory");
        let tensors = BTreeMap::from([
            ("f16".to_owned(), floats.to_dtype(DType::F16)),
            ("mask".to_owned(), floats.gt(0.0)),
            ("numbers".to_owned(), Tensor::from_slice(&[-3_i32, 5], [2], &device).expect("memory")),
            ("nothing".to_owned(), Tensor::zeros([0, 4], &device)),
            ("scalar".to_owned(), Tensor::scalar(3.5_f32, &device)),
            ("x".to_owned(), floats),
        ]);
        nn::save_tensors(&tensors, &path).expect("a folder for temporary files");
        let read = nn::load_tensors(&path, &device).expect("it was written just now");
        assert!(read.keys().eq(tensors.keys()));
        for (name, tensor) in &tensors {
            assert_eq!((read[name].dtype(), read[name].shape()), (tensor.dtype(), tensor.shape()), "{name}");
            let bytes = |tensor: &Tensor| pollster::block_on(tensor.to_bytes()).expect("values");
            assert_eq!(bytes(&read[name]), bytes(tensor), "{name}");
        }
    }
    std::fs::remove_file(&path).expect("it was written just now");
    // what other programs write: wider numbers
    let wide = [
        (Dtype::F64, 1.5_f64.to_le_bytes()),
        (Dtype::I64, (-7_i64).to_le_bytes()),
        (Dtype::U64, u64::MAX.to_le_bytes()),
    ];
    let views = wide
        .iter()
        .map(|(dtype, bytes)| (format!("{dtype:?}"), TensorView::new(*dtype, vec![1], bytes).expect("it fits")));
    std::fs::write(&path, safetensors::serialize(views, None).expect("it fits")).expect("a folder for temporary files");
    let read = nn::load_tensors(&path, &Device::cpu()).expect("all are known");
    assert_eq!(read["F64"].to_vec::<f32>().expect("a value"), [1.5]);
    assert_eq!(read["I64"].to_vec::<i32>().expect("a value"), [-7]);
    assert_eq!(read["U64"].to_vec::<i32>().expect("a value"), [i32::MAX]);
    std::fs::remove_file(&path).expect("it was written just now");
}
