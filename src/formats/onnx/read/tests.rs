//! What is wrong with a file is told with its node; what may be is read.

use std::path::Path;

use prost::Message as _;

use crate::device::Device;
use crate::dtype::DType;
use crate::error::Error;
use crate::nn::Variables as _;
use crate::tensor::Tensor;

use super::super::proto::{
    AttributeProto, AttributeType, ElementType, GraphProto, ModelProto, NodeProto, OperatorSetId, StringStringEntry,
    TensorProto, TensorType, TypeProto, ValueInfo,
};
use super::Model;
use super::call::{MAX_COMPARISONS, MAX_STEPS, Pass};

mod numbers;

fn node(kind: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    NodeProto { op_type: kind.into(), input: names(inputs), output: names(outputs), ..NodeProto::default() }
}

fn value(name: &str) -> ValueInfo {
    let tensor_type = TensorType { elem_type: ElementType::Float as i32, shape: None };
    let r#type = Some(TypeProto { tensor_type: Some(tensor_type) });
    ValueInfo { name: name.into(), r#type, ..ValueInfo::default() }
}

fn floats(name: &str, dims: &[i64], values: &[f32]) -> TensorProto {
    let (dims, float_data) = (dims.to_vec(), values.to_vec());
    TensorProto { name: name.into(), dims, float_data, data_type: ElementType::Float as i32, ..TensorProto::default() }
}

fn ints(name: &str, values: &[i64]) -> TensorProto {
    let (dims, int64_data) = (vec![values.len() as i64], values.to_vec());
    TensorProto { name: name.into(), dims, int64_data, data_type: ElementType::Int64 as i32, ..TensorProto::default() }
}

/// From `x` to `y`.
fn graph(nodes: Vec<NodeProto>, initializer: Vec<TensorProto>) -> GraphProto {
    let (input, output) = (vec![value("x")], vec![value("y")]);
    GraphProto { node: nodes, initializer, input, output, ..GraphProto::default() }
}

fn model(graph: GraphProto) -> ModelProto {
    let opset_import = vec![OperatorSetId { domain: String::new(), version: 23 }];
    ModelProto { ir_version: 10, graph: Some(graph), opset_import, ..ModelProto::default() }
}

fn loaded(graph: GraphProto) -> crate::Result<Model> {
    Model::from_bytes(&model(graph).encode_to_vec(), None, &Device::cpu())
}

/// What a model that is not read says.
#[track_caller]
fn refused(graph: GraphProto) -> String {
    loaded(graph).expect_err("it is refused").to_string()
}

/// What a model says of an input of this shape.
#[track_caller]
fn refused_with(shape: &[usize], graph: GraphProto) -> String {
    let x = Tensor::ones(shape, &Device::cpu());
    loaded(graph).expect("it is read").run(&[x]).expect_err("it does not fit").to_string()
}

#[track_caller]
fn check(message: &str, parts: &[&str]) {
    parts.iter().for_each(|part| assert!(message.contains(part), "`{part}` is not in: {message}"));
}

#[test]
fn all_unsupported_operators_are_named_at_once() {
    let mut within = node("If", &["x"], &["a"]);
    let branch = graph(vec![node("Optional", &["x"], &["y"])], Vec::new());
    within.attribute = vec![AttributeProto {
        name: "then_branch".into(),
        g: Some(branch),
        r#type: AttributeType::Graph as i32,
        ..AttributeProto::default()
    }];
    let mut foreign = node("Secret", &["a"], &["b"]);
    foreign.domain = "acme".into();
    let nodes = vec![within, foreign, node("Loop", &["b"], &["y"]), node("Relu", &["x"], &["c"])];
    let message = refused(graph(nodes, Vec::new()));
    check(&message, &["ONNX model: it has operators that are not supported: Loop, Optional, acme.Secret"]);
}

#[test]
fn names_must_be_defined_once_and_without_cycles() {
    let of = |nodes| refused(graph(nodes, Vec::new()));
    check(&of(vec![node("Relu", &["z"], &["y"])]), &["Relu \"#0\": nothing computes `z`"]);
    check(&of(vec![node("Relu", &["x"], &["z"])]), &["the graph's outputs: nothing computes `y`"]);
    let twice = vec![node("Relu", &["x"], &["y"]), node("Exp", &["x"], &["y"])];
    check(&of(twice), &["Exp \"#1\": there are two values named `y`"]);
    let cycle = vec![node("Add", &["x", "b"], &["a"]), node("Relu", &["a"], &["b"]), node("Exp", &["a"], &["y"])];
    check(&of(cycle), &["Add \"#0\" waits for its own output: there is a cycle"]);
    let old = ModelProto {
        opset_import: vec![OperatorSetId { domain: String::new(), version: 6 }],
        ..model(graph(vec![node("Add", &["x", "x"], &["y"])], Vec::new()))
    };
    let message = Model::from_bytes(&old.encode_to_vec(), None, &Device::cpu()).expect_err("too old").to_string();
    check(&message, &["Add \"#0\": is of version 6", "since version 7", "onnx.version_converter"]);
}

#[test]
fn nodes_may_come_in_any_order() {
    let nodes = vec![node("Exp", &["b"], &["y"]), node("Neg", &["a"], &["b"]), node("Relu", &["x"], &["a"])];
    let model = loaded(graph(nodes, Vec::new())).expect("it is sorted");
    let x = Tensor::zeros([2], &Device::cpu());
    assert_eq!(model.run(&[x]).expect("a run")[0].to_vec::<f32>().expect("values"), [1.0; 2]);
}

#[test]
fn shapes_that_do_not_fit_are_told_with_the_node() {
    let mut conv = node("Conv", &["x", "w"], &["y"]);
    conv.name = "/layer1/conv".into();
    let weight = floats("w", &[1, 2, 1, 1], &[1.0, 2.0]);
    let message = refused_with(&[1, 3, 4, 4], graph(vec![conv], vec![weight]));
    check(&message, &["Conv \"/layer1/conv\"", "[1, 3, 4, 4] x [1, 2, 1, 1]", "3 channels != 2 x 1 groups"]);
    let product = graph(vec![node("MatMul", &["x", "w"], &["y"])], vec![floats("w", &[3, 1], &[1.0; 3])]);
    check(&refused_with(&[2, 2], product), &["MatMul \"#0\"", "[2, 2] x [3, 1]", "inner 2 != 3"]);
    let shape = graph(vec![node("Reshape", &["x", "s"], &["y"])], vec![ints("s", &[4, -1])]);
    check(&refused_with(&[6], shape), &["Reshape \"#0\": [6] has 6 elements and cannot become [4, -1]"]);
    let gather = graph(vec![node("Gather", &["x", "i"], &["y"])], vec![ints("i", &[1, -4])]);
    check(&refused_with(&[3], gather), &["Gather \"#0\": index -4 into an axis of 3"]);
    let add = graph(vec![node("Add", &["x", "w"], &["y"])], vec![floats("w", &[3], &[1.0; 3])]);
    check(&refused_with(&[2], add), &["Add \"#0\": shapes [2] and [3] do not broadcast"]);
    let mixed = graph(vec![node("Add", &["x", "i"], &["y"])], vec![ints("i", &[1, 2])]);
    check(&refused_with(&[2], mixed), &["Add \"#0\": f32[2] and i32[2] do not mix"]);
}

#[test]
fn transforms_that_do_not_fit_are_told() {
    let scalar = |name: &str, value: i64| TensorProto { dims: Vec::new(), ..ints(name, &[value]) };
    let transform =
        |inputs: &[&str], attributes, numbers| graph(vec![with(node("DFT", inputs, &["y"]), attributes)], numbers);
    let plain = || transform(&["x"], Vec::new(), Vec::new());
    check(
        &refused_with(&[2, 6], plain()),
        &["DFT \"#0\"", "[2, 6]", "neither of real numbers, 1, nor of complex ones, 2"],
    );
    check(&refused_with(&[2, 0, 1], plain()), &["DFT \"#0\": a transform of 0 points of 0"]);
    let length = |n| transform(&["x", "n"], Vec::new(), vec![scalar("n", n)]);
    check(&refused_with(&[2, 6, 1], length(0)), &["a transform of 0 points of 6"]);
    check(&refused_with(&[2, 6, 1], length(-1)), &["the length [-1] are no sizes"]);
    check(&refused_with(&[2, 6, 1], length(1 << 29)), &["a transform of 536870912 points of 6"]);
    let along = |axis| transform(&["x", "", "a"], Vec::new(), vec![scalar("a", axis)]);
    check(&refused_with(&[2, 6, 1], along(2)), &["axis 2 of [2, 6, 1] is that of the parts"]);
    check(&refused_with(&[2, 6, 1], along(7)), &["there is no axis 7 in [2, 6, 1]"]);

    let frames = |step, window: &[f32], attributes| {
        let numbers = vec![scalar("s", step), floats("w", &[window.len() as i64], window), scalar("l", 4)];
        graph(vec![with(node("STFT", &["x", "s", "w", "l"], &["y"]), attributes)], numbers)
    };
    check(
        &refused_with(&[2, 6, 1], frames(0, &[1.0; 4], Vec::new())),
        &["frames of 4 points, one every 0, of a signal of 6"],
    );
    check(&refused_with(&[2, 3, 1], frames(1, &[1.0; 4], Vec::new())), &["frames of 4 points", "of a signal of 3"]);
    check(&refused_with(&[2, 6, 1], frames(1, &[1.0; 3], Vec::new())), &["a window [3] for frames of 4 points"]);
    check(
        &refused_with(&[2, 6, 2], frames(1, &[1.0; 4], Vec::new())),
        &["complex signals have no spectra of one side"],
    );
    check(&refused_with(&[6], frames(1, &[1.0; 4], Vec::new())), &["STFT", "[6]"]);
    // as PyTorch writes it, without an axis of parts
    let spectra = loaded(frames(2, &[1.0; 4], Vec::new())).expect("read").run(&[Tensor::ones([1, 8], &Device::cpu())]);
    let spectra = spectra.expect("it fits").remove(0);
    assert_eq!(spectra.shape().dims(), [1, 3, 3, 2]);
    assert_eq!(spectra.select(-1, 0).select(-1, 0).to_vec::<f32>().expect("values"), [4.0; 3]);

    let bands = |low: f32, high: f32| {
        let numbers = vec![
            scalar("m", 3),
            scalar("n", 16),
            scalar("r", 100),
            floats("a", &[], &[low]),
            floats("b", &[], &[high]),
        ];
        let weights = node("MelWeightMatrix", &["m", "n", "r", "a", "b"], &["z"]);
        graph(vec![weights, node("MatMul", &["x", "z"], &["y"])], numbers)
    };
    check(&refused_with(&[2, 9], bands(0.0, 900.0)), &["bands from 0 to 900 Hz at 100 Hz, outside of 9 points"]);
    check(&refused_with(&[2, 9], bands(f32::NAN, 50.0)), &["bands from NaN"]);
}

#[test]
fn no_small_file_makes_large_values() {
    let expand = graph(vec![node("Expand", &["x", "s"], &["y"])], vec![ints("s", &[1 << 20, 1 << 20])]);
    check(&refused_with(&[1], expand), &["Expand \"#0\": a value of shape [1048576, 1048576] is refused"]);
    let huge = TensorProto { dims: vec![1 << 30, 1 << 30], ..floats("w", &[], &[]) };
    let message = refused(graph(vec![node("Add", &["x", "w"], &["y"])], vec![huge]));
    check(&message, &["initializer `w`", "more elements than indices of 32 bits reach"]);
    let short = graph(vec![node("Add", &["x", "w"], &["y"])], vec![floats("w", &[4], &[1.0; 3])]);
    check(&refused(short), &["initializer `w`: it has 12 bytes for 4 elements of float32, shape [4]"]);
    let large = graph(vec![node("Identity", &["w"], &["y"])], vec![ints("w", &[1 << 40])]);
    check(&refused_with(&[1], large), &["output `y`: 1099511627776 does not fit into i32"]);
    // masks are widened to the number of keys
    let nodes = vec![node("Expand", &["zero", "s"], &["m"]), node("Attention", &["x", "x", "x", "m"], &["y"])];
    let mask = graph(nodes, vec![floats("zero", &[], &[0.0]), ints("s", &[1 << 23, 2])]);
    check(&refused_with(&[1, 1, 1024, 1], mask), &["Attention \"#1\": a value of shape [8388608, 1024] is refused"]);
}

/// What is empty has no elements in memory, but numbers of other axes are counted, and multiplied.
#[test]
fn empty_values_have_no_huge_sizes() {
    let large = i64::from(i32::MAX);
    for dims in [vec![large, 0], vec![large, large, large, 0], vec![0, 1 << 25]] {
        let empty = TensorProto { dims, ..floats("w", &[], &[]) };
        let unique = with(node("Unique", &["w"], &["y"]), vec![int("axis", 0)]);
        check(&refused(graph(vec![unique], vec![empty])), &["initializer `w`", "has no elements", "beside the 0"]);
    }
    let none = TensorProto { dims: vec![0, 1 << 10], ..floats("w", &[], &[]) };
    loaded(graph(vec![node("Identity", &["w"], &["y"])], vec![none])).expect("it is small");
    let flatten = || graph(vec![node("Flatten", &["x"], &["y"])], Vec::new());
    let large = i32::MAX as usize;
    check(&refused_with(&[large, large, large, 0], flatten()), &["input `x`: a value of shape", "is refused"]);
    let product = graph(
        vec![with(node("Einsum", &["x", "x", "x", "x"], &["y"]), vec![text("equation", "ak,bk,ac,bc->c")])],
        Vec::new(),
    );
    check(&refused_with(&[40_000, 1], product), &["Einsum", "a value of shape [40000, 40000] is refused"]);
}

#[test]
fn weights_in_other_files_stay_in_the_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let bytes: Vec<u8> = [0.0_f32, 1.5, -2.0, 4.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    std::fs::write(folder.path().join("weights.bin"), bytes).expect("it is written");
    let entry = |key: &str, value: &str| StringStringEntry { key: key.into(), value: value.into() };
    let with = |location: &str, offset: &str, length: &str| {
        let external_data = vec![entry("location", location), entry("offset", offset), entry("length", length)];
        let weight = TensorProto { external_data, data_location: 1, ..floats("w", &[2], &[]) };
        let bytes = model(graph(vec![node("Add", &["x", "w"], &["y"])], vec![weight])).encode_to_vec();
        std::fs::write(folder.path().join("model.onnx"), bytes).expect("it is written");
        Model::load(folder.path().join("model.onnx"), &Device::cpu())
    };
    let good = with("weights.bin", "4", "8").expect("it is there");
    assert_eq!(good.variables()[0].tensor().to_vec::<f32>().expect("values"), [1.5, -2.0]);
    let refused = |location, offset, length| with(location, offset, length).expect_err("it is refused").to_string();
    check(&refused("../weights.bin", "0", "8"), &["`../weights.bin`, which is not in the model's folder"]);
    check(&refused("/etc/passwd", "0", "8"), &["model.onnx", "initializer `w`", "`/etc/passwd`"]);
    check(&refused("weights.bin", "12", "8"), &["weights.bin: 8 bytes from byte 12 on are asked for, and it has 16"]);
    check(&refused("weights.bin", "0", "12"), &["it has 12 bytes in `weights.bin`, not 8"]);
    check(&refused("weights.bin", "18446744073709551615", "8"), &["asked for"]);
    check(&refused(".", "0", "8"), &["asked for"]);
    check(&refused("none.bin", "0", "8"), &["none.bin"]);
}

#[test]
fn a_small_file_is_not_read_without_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let size = 1 << 22;
    std::fs::File::create(folder.path().join("w.bin")).and_then(|file| file.set_len(size)).expect("it is written");
    let of = |count: usize| {
        let weight = |number: usize| TensorProto {
            // two names for one file
            external_data: vec![StringStringEntry {
                key: "location".into(),
                value: if number.is_multiple_of(2) { "w.bin".into() } else { "./w.bin".into() },
            }],
            data_location: 1,
            data_type: ElementType::Uint8 as i32,
            ..floats(&format!("w{number}"), &[size.cast_signed()], &[])
        };
        let graph = graph(vec![node("Relu", &["x"], &["y"])], (0..count).map(weight).collect());
        Model::from_bytes(&model(graph).encode_to_vec(), Some(folder.path()), &Device::cpu())
    };
    // four times its size, and as much as any model may have
    of(8).expect("that is little");
    let message = of(9).expect_err("it is refused").to_string();
    check(&message, &["initializer `w8`", "37748736 bytes are read of files that have 4194304"]);
}

#[test]
fn types_that_there_are_no_tensors_of_become_others() {
    let stored = |element: ElementType, raw_data: Vec<u8>| {
        let weight = TensorProto { data_type: element as i32, raw_data, ..floats("w", &[2], &[]) };
        let model = loaded(graph(vec![node("Identity", &["w"], &["y"])], vec![weight])).expect("it is read");
        model.run(&[Tensor::zeros([1], &Device::cpu())]).expect("a run").remove(0)
    };
    let doubles = stored(ElementType::Double, [1.5_f64, -3.0].iter().flat_map(|value| value.to_le_bytes()).collect());
    assert_eq!(doubles.to_vec::<f32>().expect("values"), [1.5, -3.0]);
    let short = stored(ElementType::Bfloat16, vec![0xc0, 0x3f, 0x40, 0xc0]);
    assert_eq!(short.to_vec::<f32>().expect("values"), [1.5, -3.0]);
    let small = stored(ElementType::Int8, vec![0xff, 5]);
    assert_eq!(small.to_vec::<i32>().expect("values"), [-1, 5]);
    assert_eq!(stored(ElementType::Uint16, vec![0xff, 0xff, 1, 0]).to_vec::<u32>().expect("values"), [65535, 1]);
    assert_eq!(stored(ElementType::Bool, vec![0, 3]).dtype(), DType::Bool);
}

#[test]
fn masks_and_single_numbers_are_no_parameters() {
    let initializers = vec![
        floats("mask", &[2], &[0.0, f32::NEG_INFINITY]),
        floats("weight", &[2], &[1.0, 2.0]),
        floats("number", &[], &[3.0]),
        floats("unused", &[2], &[1.0, 2.0]),
    ];
    let nodes = vec![
        node("Add", &["x", "mask"], &["a"]),
        node("Mul", &["a", "weight"], &["b"]),
        node("Mul", &["b", "number"], &["y"]),
    ];
    let proto = ModelProto {
        metadata_props: vec![StringStringEntry { key: "author".into(), value: "somebody".into() }],
        ..model(graph(nodes, initializers))
    };
    let model = Model::from_bytes(&proto.encode_to_vec(), Some(Path::new("")), &Device::cpu()).expect("it is read");
    let names: Vec<String> = model.variables().iter().map(|variable| variable.name().to_owned()).collect();
    assert_eq!(names, ["weight"]);
    assert_eq!(model.metadata()["author"], "somebody");
    assert_eq!(model.outputs()[0].to_string(), "y: float32 of any shape");
}

fn with(mut node: NodeProto, attributes: Vec<AttributeProto>) -> NodeProto {
    node.attribute.extend(attributes);
    node
}

fn int(name: &str, i: i64) -> AttributeProto {
    AttributeProto { name: name.into(), i, r#type: AttributeType::Int as i32, ..AttributeProto::default() }
}

fn text(name: &str, s: &str) -> AttributeProto {
    let r#type = AttributeType::String as i32;
    AttributeProto { name: name.into(), s: s.as_bytes().to_vec(), r#type, ..AttributeProto::default() }
}

fn list(name: &str, ints: &[i64]) -> AttributeProto {
    let r#type = AttributeType::Ints as i32;
    AttributeProto { name: name.into(), ints: ints.to_vec(), r#type, ..AttributeProto::default() }
}

/// Integers of a type of up to 32 bits.
fn small(name: &str, element: ElementType, values: &[i32]) -> TensorProto {
    let (dims, int32_data) = (vec![values.len() as i64], values.to_vec());
    TensorProto { name: name.into(), dims, int32_data, data_type: element as i32, ..TensorProto::default() }
}

fn cast(from: &str, to: &str, element: ElementType) -> NodeProto {
    with(node("Cast", &[from], &[to]), vec![int("to", element as i64)])
}

/// What a graph makes of these numbers.
#[track_caller]
fn computed(x: &[f32], graph: GraphProto) -> Tensor {
    let x = Tensor::from_slice(x, [x.len()], &Device::cpu()).expect("a small tensor");
    loaded(graph).expect("it is read").run(&[x]).expect("a run").remove(0)
}

#[test]
fn narrow_integers_wrap_at_their_own_width() {
    use ElementType::{Float, Int8, Int16, Int32, Uint8, Uint16};
    let cases = [
        (Uint8, "Sub", 0, 1, 255.0),
        (Uint8, "Mul", 250, 3, 238.0),
        (Uint8, "Add", 200, 200, 144.0),
        (Uint16, "Sub", 0, 1, 65535.0),
        (Int8, "Add", 127, 1, -128.0),
        (Int16, "Mul", 300, 300, 24464.0),
        (Int32, "Add", i32::MAX, i32::MAX, -2.0),
        (Int32, "Mul", i32::MIN, -1, -2_147_483_648.0),
    ];
    for (element, name, a, b, expected) in cases {
        let nodes = |a: &str| vec![node(name, &[a, "b"], &["c"]), cast("c", "y", Float)];
        let constants = vec![small("a", element, &[a]), small("b", element, &[b])];
        let on_host = computed(&[0.0], graph(nodes("a"), constants.clone()));
        assert_eq!(on_host.to_vec::<f32>().expect("values"), [expected], "{name} of {element:?} on the host");
        // that of 32 bits is a device's own, and no float of 32 bits is its largest number
        if element != Int32 {
            // the type goes through what moves elements
            let moved = vec![cast("x", "d", element), node("Identity", &["d"], &["e"])];
            let on_device = computed(&[a as f32], graph([moved, nodes("e")].concat(), constants));
            assert_eq!(on_device.to_vec::<f32>().expect("values"), [expected], "{name} of {element:?}");
        }
    }
}

#[test]
fn a_constant_tells_what_is_quantised_to() {
    let zero = AttributeProto {
        name: "value".into(),
        t: Some(small("", ElementType::Int16, &[0])),
        r#type: AttributeType::Tensor as i32,
        ..AttributeProto::default()
    };
    let nodes = vec![
        with(node("Constant", &[], &["zero"]), vec![zero]),
        node("QuantizeLinear", &["x", "scale", "zero"], &["q"]),
        cast("q", "y", ElementType::Float),
    ];
    let values = computed(&[1000.0, -1e6], graph(nodes, vec![floats("scale", &[], &[1.0])]));
    assert_eq!(values.to_vec::<f32>().expect("values"), [1000.0, -32768.0]);
}

#[test]
fn integers_that_floats_would_merge_differ_and_no_extremum_hides_what_is_no_number() {
    let unique = node("Unique", &["values"], &["u"]);
    let nodes = vec![unique, node("Size", &["u"], &["s"]), cast("s", "y", ElementType::Float)];
    let values = computed(&[0.0], graph(nodes, vec![ints("values", &[(1 << 53) + 1, 1 << 53])]));
    assert_eq!(values.to_vec::<f32>().expect("values"), [2.0]);
    for name in ["Max", "Min"] {
        let pair = vec![floats("a", &[1], &[f32::NAN]), floats("b", &[1], &[1.0])];
        for (first, second) in [("a", "b"), ("b", "a")] {
            let values = computed(&[0.0], graph(vec![node(name, &[first, second], &["y"])], pair.clone()));
            assert!(values.to_vec::<f32>().expect("values")[0].is_nan(), "{name} of {first} and {second}");
        }
    }
}

#[test]
fn powers_of_integers_are_exact() {
    let base = || cast("x", "b", ElementType::Int32);
    let nodes = vec![base(), node("Pow", &["b", "e"], &["y"])];
    let values = computed(&[3.0, -3.0], graph(nodes, vec![ints("e", &[19])]));
    assert_eq!(values.to_vec::<i32>().expect("values"), [1_162_261_467, -1_162_261_467]);
    let nodes = vec![base(), node("Pow", &["b", "b"], &["y"])];
    let values = computed(&[9.0, 0.0, -2.0], graph(nodes, Vec::new()));
    assert_eq!(values.to_vec::<i32>().expect("values"), [387_420_489, 1, 0]);
}

#[test]
fn slices_may_begin_far_in_front() {
    let back = |x: &[f32]| {
        let constants = vec![ints("s", &[-9]), ints("e", &[-100]), ints("a", &[0]), ints("d", &[-1])];
        computed(x, graph(vec![node("Slice", &["x", "s", "e", "a", "d"], &["y"])], constants))
    };
    assert_eq!(back(&[1.0, 2.0, 3.0, 4.0, 5.0]).to_vec::<f32>().expect("values"), [1.0]);
    assert_eq!(back(&[]).shape().dims(), [0]);
}

#[test]
fn nothing_may_be_normalised() {
    let norm = with(node("LRN", &["x"], &["y"]), vec![int("size", 3)]);
    let x = Tensor::zeros([1, 0, 2], &Device::cpu());
    let y = loaded(graph(vec![norm], Vec::new())).expect("it is read").run(&[x]).expect("a run").remove(0);
    assert_eq!(y.shape().dims(), [1, 0, 2]);
}

#[test]
fn transposed_convolutions_have_the_shape_that_is_asked_for() {
    let attributes = vec![text("auto_pad", "VALID"), list("strides", &[2]), list("output_shape", &[3])];
    let convolution = with(node("ConvTranspose", &["x", "w"], &["y"]), attributes);
    let model = loaded(graph(vec![convolution], vec![floats("w", &[1, 1, 2], &[1.0, 2.0])])).expect("it is read");
    let y = model.run(&[Tensor::ones([1, 1, 2], &Device::cpu())]).expect("a run").remove(0);
    assert_eq!(y.to_vec::<f32>().expect("values"), [2.0, 1.0, 2.0]);
}

#[test]
fn long_recurrent_layers_are_computed_in_parts() {
    let layer =
        |input: &str, output: &str| with(node("GRU", &[input, "w", "r"], &[output]), vec![int("hidden_size", 1)]);
    let nodes = vec![layer("x", "a"), node("Squeeze", &["a", "one"], &["b"]), layer("b", "y")];
    let weights = [0.3, -0.2, 0.9];
    let constants = vec![floats("w", &[1, 3, 1], &weights), floats("r", &[1, 3, 1], &weights), ints("one", &[1])];
    let model = loaded(graph(nodes, constants)).expect("it is read");
    let x: Vec<f32> = (0..100_u8).map(|time| f32::from(time % 7) - 3.0).collect();
    let x = [Tensor::from_slice(&x, [100, 1, 1], &Device::cpu()).expect("a small tensor")];
    let traced = model.forward(&x).expect("a pass").remove(0);
    // 200 steps are ten times as many nodes one below another
    assert!(traced.node().depth < 1000, "{} nodes wait", traced.node().depth);
    let captured = model.run(&x).expect("a run").remove(0);
    let [traced, captured] = [traced, captured].map(|tensor| tensor.to_vec::<f32>().expect("values"));
    assert!(traced.iter().zip(&captured).all(|(a, b)| (a - b).abs() < 1e-6), "{traced:?} or {captured:?}");
}

#[test]
fn the_steps_of_a_pass_are_limited() {
    let device = Device::cpu();
    let pass = Pass::new(&device, 1, false);
    assert_eq!(pass.take_steps(MAX_STEPS).expect("not too many"), 0);
    let message = pass.take_steps(1).expect_err("one too many").to_string();
    check(&message, &["take 16385 steps, more than 16384 in one pass: cut the sequence into shorter ones"]);
}

#[test]
fn comparisons_of_boxes_in_a_pass_are_limited() {
    let device = Device::cpu();
    let pass = Pass::new(&device, 1, false);
    pass.take_comparisons(MAX_COMPARISONS).expect("not too many");
    let message = pass.take_comparisons(1).expect_err("one too many").to_string();
    check(&message, &["pairs of boxes", "score_threshold"]);
}

#[test]
fn arithmetic_of_truth_values_is_refused() {
    let truth = |name: &str| TensorProto {
        name: name.into(),
        dims: vec![1],
        int32_data: vec![1],
        data_type: ElementType::Bool as i32,
        ..TensorProto::default()
    };
    let nodes = vec![node("Add", &["a", "b"], &["c"]), node("Identity", &["x"], &["y"])];
    check(&refused_with(&[1], graph(nodes, vec![truth("a"), truth("b")])), &["Add", "is not defined for bool"]);
}

/// The file is as it should be: what is given to it is not.
#[test]
fn inputs_that_are_not_what_the_file_says_are_no_fault_of_the_file() {
    let loaded = loaded(graph(vec![node("Relu", &["x"], &["y"])], Vec::new())).expect("it is read");
    let device = Device::cpu();
    let wrong = Tensor::zeros_of([2], DType::I32, &device);
    // once more when it is captured
    for _ in 0..2 {
        let error = loaded.run(std::slice::from_ref(&wrong)).expect_err("of another type");
        assert!(matches!(error, Error::Shape(_)), "{error:?}");
        check(&error.to_string(), &["ONNX model: input x", "i32[2] does not fit"]);
        assert!(matches!(loaded.forward(&[]), Err(Error::Shape(_))));
        loaded.run(&[Tensor::zeros([2], &device)]).expect("that fits");
    }
    let axis = with(node("Softmax", &["x"], &["y"]), vec![int("axis", 3)]);
    let error = self::loaded(graph(vec![axis], Vec::new())).expect("it is read").run(&[Tensor::zeros([2], &device)]);
    assert!(matches!(error, Err(Error::Format { .. })), "what a node asks for is the file's: {error:?}");
}

/// What both a value that is read and later ones come from is computed once.
#[test]
fn what_is_used_later_is_computed_with_what_is_read() {
    let mut graph = graph(
        vec![
            node("Exp", &["x"], &["shared"]),
            node("Relu", &["shared"], &["later"]),
            node("Neg", &["shared"], &["nobodys"]),
            node("NonZero", &["shared"], &["places"]),
            node("Add", &["later", "later"], &["y"]),
        ],
        Vec::new(),
    );
    graph.output = vec![value("y"), value("shared"), value("nobodys")];
    let model = loaded(graph).expect("it is read");
    let outputs = model.forward(&[Tensor::ones([3], &Device::cpu())]).expect("it runs");
    let is_computed = |tensor: &Tensor| tensor.node().value().is_some();
    assert_eq!([0, 1, 2].map(|number| is_computed(&outputs[number])), [false, true, true]);
    assert!(outputs[0].node().inputs.iter().all(|input| input.value().is_some()), "`later` is kept");
}

/// In f32 the sums would be rounded from 2^24 on.
#[test]
fn sums_of_products_of_bytes_are_exact() {
    let count = 2002;
    let weight = |row: usize, column: usize| if column == 0 { 127 } else { (row * 7 % 251) as i32 - 125 };
    let weights: Vec<i32> = (0..count).flat_map(|row| [weight(row, 0), weight(row, 1)]).collect();
    let weights = TensorProto { dims: vec![count as i64, 2], ..small("w", ElementType::Int8, &weights) };
    let zero = small("zero", ElementType::Uint8, &[0]);
    let zero = TensorProto { dims: Vec::new(), ..zero };
    let nodes = vec![
        node("QuantizeLinear", &["x", "one", "zero"], &["bytes"]),
        node("MatMulInteger", &["bytes", "w", "zero"], &["sums"]),
        cast("sums", "y", ElementType::Int32),
    ];
    let x: Vec<f32> = (0..count).map(|row| (255 - row % 3) as f32).collect();
    let sum = |column: usize| (0..count).map(|row| (255 - row % 3) as i32 * weight(row, column)).sum::<i32>();
    let model = loaded(graph(nodes, vec![floats("one", &[], &[1.0]), weights, zero])).expect("it is read");
    let given = Tensor::from_slice(&x, [1, count], &Device::cpu()).expect("memory");
    let got = model.run(&[given]).expect("it fits")[0].to_vec::<i32>().expect("integers");
    assert_eq!(got, [sum(0), sum(1)]);
    assert!(sum(0) > 3 << 24 && sum(0) % 2 == 1);
}

#[test]
fn constants_that_are_dequantised_are_what_inputs_would_be() {
    let weights = TensorProto { dims: vec![2, 3], ..small("w", ElementType::Int8, &[1, -128, 3, 127, 0, -7]) };
    let zeros = small("zeros", ElementType::Int8, &[2, -3]);
    let axis = || vec![int("axis", 0)];
    let nodes = vec![
        with(node("DequantizeLinear", &["w", "scales", "zeros"], &["floats"]), axis()),
        node("Mul", &["x", "floats"], &["y"]),
    ];
    let scales = || floats("scales", &[2], &[0.5, 0.25]);
    let got = computed(&[1.0], graph(nodes, vec![weights, scales(), zeros])).to_vec::<f32>().expect("floats");
    assert_eq!(got, [-0.5, -65.0, 0.5, 32.5, 0.75, -1.0]);
    // what does not fit is told when the model runs
    let wrong = vec![
        with(node("DequantizeLinear", &["w", "scales"], &["floats"]), axis()),
        node("Mul", &["x", "floats"], &["y"]),
    ];
    let weights = TensorProto { dims: vec![3], ..small("w", ElementType::Int8, &[1, 2, 3]) };
    check(&refused_with(&[1], graph(wrong, vec![weights, scales()])), &["DequantizeLinear \"#0\"", "[2]", "[3]"]);
}
