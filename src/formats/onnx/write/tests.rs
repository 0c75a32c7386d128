//! Which operators layers are written as, and what cannot be written. That they compute the same is seen where they are
//! read again (`tests/suite/onnx`), and by onnxruntime (`tests/reference/check_onnx.py`).

use prost::Message as _;

use super::super::proto::{GraphProto, ModelProto, NodeProto, Size as ProtoSize};
use super::*;
use crate::doctor::rows::values;
use crate::formats::onnx::Model;
use crate::nn::{Init, Linear};
use crate::ops::conv::ConvOptions;
use crate::ops::pool::PoolOptions;
use crate::tensor::Mask;

/// A tensor in memory.
fn tensor(shape: &[usize]) -> Tensor {
    let count = shape.iter().product();
    let numbers: Vec<f32> = values(1, count, -1.0, 1.0).into_iter().map(|value| value as f32).collect();
    Tensor::from_slice(&numbers, shape, &Device::cpu()).expect("a small tensor")
}

fn graph_of_bytes(bytes: &[u8]) -> GraphProto {
    ModelProto::decode(bytes).expect("a model").graph.expect("with a graph")
}

fn written(shape: &[usize], function: impl Fn(&Tensor) -> Tensor) -> Result<Vec<u8>> {
    let inputs = [Input::new("x", shape, DType::F32)];
    export_function(&Device::cpu(), &inputs, &["y"], &ExportOptions::default(), |inputs| vec![function(&inputs[0])])
}

/// The graph of a function of one input with samples of this shape, in batches of any size.
fn graph_of(shape: &[usize], function: impl Fn(&Tensor) -> Tensor) -> GraphProto {
    graph_of_bytes(&written(shape, function).expect("it can be written"))
}

/// The operators that a function is written as, in their order.
fn operators(shape: &[usize], function: impl Fn(&Tensor) -> Tensor) -> Vec<String> {
    graph_of(shape, function).node.into_iter().map(|node| node.op_type).collect()
}

fn ints<'a>(node: &'a NodeProto, name: &str) -> &'a [i64] {
    &node.attribute.iter().find(|attribute| attribute.name == name).expect("an attribute of that name").ints
}

fn refusal(written: Result<Vec<u8>>) -> String {
    written.expect_err("it cannot be written").to_string()
}

#[test]
fn convolutions_are_one_operator_with_their_bias() {
    let (weight, bias) = (tensor(&[6, 2, 3, 3]), tensor(&[6]));
    let options = ConvOptions::default().stride(2).padding(1).groups(2);
    let graph = graph_of(&[4, 9, 8], |x| x.conv2d(&weight, Some(&bias), &options));
    let [convolution] = &graph.node[..] else { panic!("{:?}", graph.node) };
    assert_eq!((convolution.op_type.as_str(), convolution.input.len()), ("Conv", 3));
    assert_eq!(ints(convolution, "strides"), [2, 2]);
    // the last of 8 columns needs no padding behind it
    assert_eq!(ints(convolution, "pads"), [1, 1, 1, 0]);
    let (weight, options) = (tensor(&[4, 3, 3]), ConvOptions::default().stride(2).padding(1).output_padding(1));
    let graph = graph_of(&[4, 5], |x| x.conv_transpose1d(&weight, None, &options));
    let [node] = &graph.node[..] else { panic!("{:?}", graph.node) };
    assert_eq!((node.op_type.as_str(), ints(node, "output_padding")), ("ConvTranspose", &[1][..]));
    // a vector along what is no channel is added as it is
    let (kernel, lines) = (tensor(&[2, 4, 1, 1]), tensor(&[12]));
    let by_line = |x: &Tensor| x.conv2d(&kernel, None, &ConvOptions::default()).flatten(1, 2) + lines.unsqueeze(-1);
    assert_eq!(operators(&[4, 6, 5], by_line), ["Conv", "Reshape", "Reshape", "Add"]);
    assert_eq!(operators(&[4, 5], |x| x.conv1d(&tensor(&[2, 4, 1]), None, &ConvOptions::default())), ["Conv"]);
}

#[test]
fn layers_have_their_names() {
    let (four, image) = (tensor(&[4]), [4, 6, 6]);
    let by_channel = |x: &Tensor| x.batch_norm_eval(&four, &four.abs(), Some(&four), Some(&four), 1e-5);
    assert_eq!(operators(&image, by_channel), ["Abs", "BatchNormalization"]);
    let by_row = |x: &Tensor| x.layer_norm(1, Some(&four), Some(&four), 1e-5);
    assert_eq!(operators(&[3, 4], by_row), ["LayerNormalization"]);
    assert_eq!(operators(&[4], |x| x.linear(&tensor(&[5, 4]), Some(&tensor(&[5])))), ["Gemm"]);
    assert_eq!(operators(&[3, 4], |x| x.matmul(&tensor(&[4, 5]))), ["MatMul"]);
    assert_eq!(operators(&[4], |x| x.softmax(-1)), ["Softmax"]);
    assert_eq!(operators(&[4], |x| x.log_softmax(-1)), ["LogSoftmax"]);
    assert_eq!(operators(&image, Tensor::relu), ["Relu"]);
    assert_eq!(operators(&image, |x| x.clamp(0.0, 6.0)), ["Clip"]);
    assert_eq!(operators(&image, |x| x.max_pool2d(3, 2, 1)), ["MaxPool"]);
    assert_eq!(operators(&image, |x| x.avg_pool2d_with(&PoolOptions::new(2))), ["AveragePool"]);
    assert_eq!(operators(&image, |x| x.mean_dim([2, 3])), ["GlobalAveragePool", "Reshape"]);
    assert_eq!(operators(&image, |x| x.mean_keepdim(1)), ["ReduceMean"]);
    assert_eq!(operators(&image, |x| x.upsample_nearest2d([2, 3])), ["Resize"]);
    assert_eq!(operators(&image, |x| Tensor::cat(&[x, &x.relu()], 1)), ["Relu", "Concat"]);
    assert_eq!(operators(&image, |x| x.narrow(1, 1, 2)), ["Slice"]);
    assert_eq!(operators(&image, |x| x.pad(&[(0, 0), (0, 0), (1, 2), (0, 0)], 3.0)), ["Pad"]);
    assert_eq!(operators(&[40], |x| x.cumsum(1)), ["CumSum"]);
    assert_eq!(operators(&image, |x| x.permute([0, 2, 3, 1])), ["Transpose"]);
    assert_eq!(operators(&image, |x| x.flatten(1, -1)), ["Reshape"]);
    assert_eq!(operators(&image, |x| x.atan()), ["Atan"]);
}

#[test]
fn attention_is_products_and_a_softmax() {
    let names = operators(&[2, 16, 8], |x| x.scaled_dot_product_attention(x, x, Mask::Causal));
    let count = |wanted: &str| names.iter().filter(|name| *name == wanted).count();
    assert_eq!((count("MatMul"), count("Softmax"), count("Where")), (2, 1, 1), "{names:?}");
}

#[test]
fn the_batch_is_left_open_or_fixed() {
    let function = |x: &Tensor| x.reshape([-1, 2, 3]).transpose(1, 2).flatten(1, -1);
    let sizes = |graph: &GraphProto| -> Vec<Option<ProtoSize>> {
        let info = graph.output[0].r#type.as_ref().and_then(|info| info.tensor_type.as_ref());
        info.and_then(|info| info.shape.as_ref()).expect("a shape").dim.iter().map(|dim| dim.value.clone()).collect()
    };
    let open = graph_of(&[6], function);
    assert_eq!(sizes(&open), [Some(ProtoSize::Named("batch".into())), Some(ProtoSize::Fixed(6))]);
    let options = ExportOptions { batch: Batch::Fixed(7), ..ExportOptions::default() };
    let inputs = [Input::new("x", [6], DType::F32)];
    let fixed = export_function(&Device::cpu(), &inputs, &["y"], &options, |inputs| vec![function(&inputs[0])]);
    assert_eq!(sizes(&graph_of_bytes(&fixed.expect("written"))), [7, 6].map(|size| Some(ProtoSize::Fixed(size))));
    // as many as there are samples
    let by_batch = written(&[6], |x| x.sum_dim(0) * x.shape()[0] as f64);
    assert!(refusal(by_batch).contains("depends on the size of the batch"));
}

#[test]
fn what_only_looks_like_a_layer_is_none() {
    // half of a sum is the mean of two samples only
    assert_eq!(operators(&[4], |x| x.sum_dim(0) * 0.5), ["ReduceSum", "Reshape", "Mul"]);
    // the mean of rows, taken from columns
    let weight = tensor(&[4]);
    let turned = |x: &Tensor| {
        let centered = x - x.mean_dim(2).unsqueeze(1);
        let spread = centered.square().mean_dim(2).unsqueeze(1) + 1e-5;
        centered * spread.rsqrt() * &weight + &weight
    };
    assert!(!operators(&[4, 4], turned).contains(&"LayerNormalization".to_owned()));
    // doubling a sum doubles what there is to look through
    let doubled = |x: &Tensor| (0..40).fold(x.pad(&[(0, 0), (1, 1)], -0.0), |sum, _| &sum + &sum);
    assert_eq!(operators(&[3], doubled).len(), 41);
}

#[test]
fn what_depends_on_the_batch_otherwise_is_refused() {
    let square = |x: &Tensor| Tensor::cat(&[x, &tensor(&[4]).expand([x.size(0) * x.size(0), 4])], 0);
    let numbers = |x: &Tensor| x * Tensor::from_slice(&[1.0 / x.size(0) as f32], [1], &Device::cpu()).expect("memory");
    for refused in [written(&[4], square), written(&[4], numbers)] {
        assert!(refusal(refused).contains("depends on the size of the batch"));
    }
    let counted = |x: &Tensor| Tensor::iota(x.shape(), 0, x.device()).to_dtype(DType::F32) + x;
    assert_eq!(operators(&[4], counted), ["Shape", "Reshape", "Range", "Cast", "Reshape", "Cast", "Add"]);
    let options = ExportOptions::default();
    let twice = export_function(&Device::cpu(), &[Input::new("x", [4], DType::F32)], &["x"], &options, <[_]>::to_vec);
    assert!(refusal(twice).contains("`x`"));
}

#[test]
fn weights_have_the_names_of_their_variables_once() {
    let device = Device::cpu();
    let layer = Linear::new(4, 4, &Init::new(&device, 0).at("head")).expect("a layer");
    let bytes =
        export_function(&device, &[Input::new("x", [4], DType::F32)], &["y"], &ExportOptions::default(), |inputs| {
            vec![layer.forward(&layer.forward(&inputs[0]))]
        });
    let mut names: Vec<String> =
        graph_of_bytes(&bytes.expect("written")).initializer.into_iter().map(|tensor| tensor.name).collect();
    names.sort_unstable();
    assert_eq!(names, ["head.bias", "head.weight"]);
}

#[test]
fn what_cannot_be_written_is_told_with_its_line() {
    let sorted = refusal(written(&[5], |x| x.sort(-1, false).0));
    assert!(sorted.contains("no operator of ONNX for") && sorted.contains("write/tests.rs:"), "{sorted}");
    let state = Var::state("count", &tensor(&[2])).expect("memory");
    let assigning = refusal(written(&[2], |x| {
        state.assign(&(state.tensor() + 1.0));
        x + 1.0
    }));
    assert!(assigning.contains("`count`"), "{assigning}");
}

/// What a function makes of one sample, and what the model that it is written as does.
fn both(x: &[f32], function: impl Fn(&Tensor) -> Tensor) -> [Vec<f32>; 2] {
    let bytes = written(&[x.len()], &function).expect("it can be written");
    let model = Model::from_bytes(&bytes, None, &Device::cpu()).expect("it is read");
    let x = Tensor::from_slice(x, [1, x.len()], &Device::cpu()).expect("a small tensor");
    let read = model.run(std::slice::from_ref(&x)).expect("a run").remove(0);
    [function(&x), read].map(|y| y.to_dtype(DType::F32).to_vec::<f32>().expect("values"))
}

#[test]
fn integers_are_cut_off_where_other_programs_leave_it_open() {
    let bytes = |x: &Tensor| x.to_dtype(DType::U8);
    let clipped = ["IsNaN", "Where", "Clip", "Cast"];
    assert_eq!(operators(&[4], bytes), clipped);
    let whole = |x: &Tensor| x.to_dtype(DType::I32);
    assert_eq!(operators(&[4], whole), [&clipped[..], &["GreaterOrEqual", "Where"]].concat());
    let words = |x: &Tensor| x.to_dtype(DType::U32) + 1;
    let beyond = ["GreaterOrEqual", "Cast", "Sub", "Add", "BitwiseAnd"];
    assert_eq!(operators(&[4], words), [&clipped[..], &beyond].concat());
    let signed = operators(&[4], |x| x.gt(0.0).to_dtype(DType::I32).to_dtype(DType::U32));
    assert_eq!(signed.last().map(String::as_str), Some("BitwiseAnd"));
    let edges = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 3e9, -3e9, 2.7, -2.7, 300.0];
    for function in [bytes as fn(&Tensor) -> Tensor, whole] {
        let [expected, read] = both(&edges, function);
        assert_eq!(read, expected);
    }
    let [expected, read] = both(&edges[5..], words);
    assert_eq!(read, expected);
}

#[test]
fn angles_on_the_axis_have_the_sign_of_the_height() {
    let zeros = Tensor::from_slice(&[-0.0_f32, -0.0, 0.0, 0.0], [4], &Device::cpu()).expect("a small tensor");
    let [expected, read] = both(&[1.0, -1.0, 1.0, -1.0], |y| y.atan2(&zeros));
    for (angles, what) in [(expected, "here"), (read, "read")] {
        let is_quarter = |(angle, sign): (&f32, f32)| (angle - sign * std::f32::consts::FRAC_PI_2).abs() < 1e-6;
        assert!(angles.iter().zip([1.0, -1.0, 1.0, -1.0]).all(is_quarter), "{what}: {angles:?}");
    }
}
