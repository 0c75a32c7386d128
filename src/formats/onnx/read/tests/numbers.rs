//! Numbers that are easily a little wrong.

use half::f16;
use prost::Message as _;

use crate::device::Device;
use crate::dtype::DType;
use crate::tensor::Tensor;

use super::super::super::proto::{ElementType, GraphProto, ModelProto, NodeProto, TensorProto};
use super::super::Model;
use super::super::resample::{Axis, Transformation};
use super::{cast, check, computed, floats, graph, int, ints, loaded, model, node, refused_with, small, text, with};

fn values(tensor: &Tensor) -> Vec<f32> {
    tensor.to_vec().expect("values")
}

/// A constant of one number.
fn number(name: &str, value: f32) -> TensorProto {
    floats(name, &[], &[value])
}

/// The nearest number of 16 bits.
fn rounded(value: f32) -> f32 {
    f16::from_f32(value).to_f32()
}

#[test]
fn one_number_masks_all_keys() {
    let attention = |mask: TensorProto| graph(vec![node("Attention", &["x", "x", "x", "m"], &["y"])], vec![mask]);
    let x = Tensor::from_slice(&[1.0_f32, 0.0, 0.5, 1.0, -1.0, 2.0], [1, 1, 3, 2], &Device::cpu()).expect("memory");
    let of = |graph| values(&loaded(graph).expect("it is read").run(std::slice::from_ref(&x)).expect("a run")[0]);
    let plain = of(graph(vec![node("Attention", &["x", "x", "x"], &["y"])], Vec::new()));
    // what is added to all of them changes nothing
    let masked = of(attention(number("m", 0.5)));
    assert!(plain.iter().zip(&masked).all(|(a, b)| (a - b).abs() < 1e-6), "{plain:?} or {masked:?}");
    let hidden = TensorProto { dims: Vec::new(), ..small("m", ElementType::Bool, &[0]) };
    assert_eq!(of(attention(hidden)), [0.0; 6]);
    let of_five_axes = attention(floats("m", &[2, 1, 1, 1, 3], &[0.0; 6]));
    check(&refused_with(&[1, 1, 3, 2], of_five_axes), &["Attention", "a mask of shape [2, 1, 1, 1, 3]"]);
}

#[test]
fn means_of_integers_are_exact() {
    let mean = |values: &[i64]| {
        let mean = computed(&[0.0], graph(vec![node("ReduceMean", &["i"], &["y"])], vec![ints("i", values)]));
        mean.to_vec::<i32>().expect("integers")
    };
    assert_eq!(mean(&[1; 41]), [1]);
    assert_eq!(mean(&[(1 << 24) + 1; 3]), [(1 << 24) + 1]);
    assert_eq!(mean(&[-3, -4]), [-3]);
    assert_eq!(mean(&[1_000_000_000; 3]), [1_000_000_000]);
    assert_eq!(mean(&[-2_000_000_000, -2_000_000_000, -2_000_000_001]), [-2_000_000_000]);
    assert_eq!(mean(&[2_000_000_000, -2_000_000_000, -1]), [0]);
}

#[test]
fn dynamic_scales_are_quotients() {
    let of = |outputs: &[&str], more: Vec<NodeProto>| {
        let nodes = [vec![node("DynamicQuantizeLinear", &["x"], outputs)], more].concat();
        values(&computed(&[0.0, 4.5, 765.0], graph(nodes, Vec::new())))
    };
    assert_eq!(of(&["a", "y", "b"], Vec::new()), [3.0]);
    assert_eq!(of(&["a", "b", "c"], vec![cast("a", "y", ElementType::Float)]), [0.0, 2.0, 255.0]);
}

/// 90000 is none of f16's numbers.
#[test]
fn statistics_of_batches_keep_their_type() {
    let graph = |outputs: &[&str], attributes| {
        let norm = with(node("BatchNormalization", &["h", "s", "b", "m", "v"], outputs), attributes);
        let of = |name: &str, value: f32| floats(name, &[1], &[value]);
        let constants = vec![of("s", 1.0), of("b", 0.0), of("m", 0.0), of("v", 90_000.0)];
        graph(vec![cast("x", "h", ElementType::Float16), norm], constants)
    };
    let run = |graph: GraphProto, x: &[f32]| {
        let x = Tensor::from_slice(x, [x.len(), 1], &Device::cpu()).expect("memory");
        loaded(graph).expect("it is read").run(&[x]).expect("a run").remove(0)
    };
    let y = run(graph(&["y"], Vec::new()), &[600.0]);
    assert_eq!((y.dtype(), values(&y.to_dtype(DType::F32))), (DType::F16, vec![2.0]));
    let training = || vec![int("training_mode", 1)];
    let y = run(graph(&["y", "m1", "v1"], training()), &[-600.0, 600.0]);
    assert_eq!((y.dtype(), values(&y.to_dtype(DType::F32))), (DType::F16, vec![-1.0, 1.0]));
    let variance = run(graph(&["y1", "m1", "y"], training()), &[-600.0, 600.0]);
    assert_eq!(variance.dtype(), DType::F32);
    assert!((values(&variance)[0] - 117_000.0).abs() < 0.1, "{variance}");
}

#[test]
fn sizes_that_are_given_are_not_computed_from_scales() {
    let modes =
        |nearest: &str| vec![text("coordinate_transformation_mode", "align_corners"), text("nearest_mode", nearest)];
    let places = |old: u8, new: i64, nearest: &str| {
        let resize = with(node("Resize", &["x", "", "", "s"], &["y"]), modes(nearest));
        let x: Vec<f32> = (0..old).map(f32::from).collect();
        values(&computed(&x, graph(vec![resize], vec![ints("s", &[new])])))
    };
    assert_eq!(places(11, 29, "round_prefer_ceil")[7], 3.0);
    assert_eq!(places(11, 29, "floor")[14], 5.0);
    assert_eq!(places(7, 31, "ceil")[5], 1.0);
    // PyTorch rounds the size that follows from a scale
    let resize = with(node("Resize", &["x", "", "scales"], &["y"]), modes("ceil"));
    let proto = model(graph(vec![resize], vec![floats("scales", &[1], &[4.5])]));
    let proto = ModelProto { producer_name: "pytorch".into(), ..proto };
    let by_pytorch = Model::from_bytes(&proto.encode_to_vec(), None, &Device::cpu()).expect("it is read");
    let x = Tensor::arange(7, &Device::cpu()).to_dtype(DType::F32);
    assert_eq!(values(&by_pytorch.run(&[x]).expect("a run")[0])[5], 1.0);
    let place = |transformation, old: usize, new: usize| {
        Axis { old, new, scale: new as f64 / old as f64, whole: new as f64, transformation }.place(new / 2)
    };
    for (old, new) in (1..60).flat_map(|old| (1..60).map(move |new| (old, new))) {
        let [symmetric, plain] =
            [Transformation::HalfPixelSymmetric, Transformation::HalfPixel].map(|of| place(of, old, new));
        assert_eq!(symmetric, plain, "{old} to {new}");
    }
}

#[test]
fn what_is_dequantised_has_the_type_that_is_told() {
    let half = |name: &str, value: f32| TensorProto {
        dims: Vec::new(),
        ..small(name, ElementType::Float16, &[f16::from_f32(value).to_bits().into()])
    };
    let dequantize = |input: &str, to: ElementType| {
        with(node("DequantizeLinear", &[input, "scale"], &["d"]), vec![int("output_dtype", to as i64)])
    };
    let three = || small("q", ElementType::Int8, &[3]);
    let scale = rounded(0.1);
    let of = |x: &[f32], input: &str, to, scale| {
        // a node that asks for the type that the file has
        let nodes =
            vec![cast("x", "c", ElementType::Int8), dequantize(input, to), node("CastLike", &["d", "d"], &["y"])];
        computed(x, graph(nodes, vec![three(), scale]))
    };
    // one that is made when the model is loaded, and one that is made in each run
    for (input, x) in [("q", 0.0), ("c", 3.0)] {
        let wide = of(&[x], input, ElementType::Float, half("scale", 0.1));
        assert_eq!((wide.dtype(), values(&wide)), (DType::F32, vec![3.0 * scale]));
        let narrow = of(&[x], input, ElementType::Float16, number("scale", 0.1));
        assert_eq!((narrow.dtype(), values(&narrow.to_dtype(DType::F32))), (DType::F16, vec![rounded(0.3)]));
    }
    let whole = vec![dequantize("q", ElementType::Int32), node("Identity", &["d"], &["y"])];
    check(
        &refused_with(&[1], graph(whole, vec![three(), number("scale", 0.1)])),
        &["output_dtype is i32, not a float"],
    );
}

#[test]
fn constants_of_half_precision_are_rounded() {
    use ElementType::{Float, Float16, Int64};
    let of = |nodes: Vec<NodeProto>, a: f32, b: f32| {
        let nodes = [vec![cast("a", "h", Float16), cast("b", "g", Float16)], nodes].concat();
        computed(&[0.0], graph(nodes, vec![number("a", a), number("b", b)]))
    };
    assert_eq!(of(vec![cast("h", "y", Int64)], 2049.0, 0.0).to_vec::<i32>().expect("integers"), [2048]);
    assert_eq!(values(&of(vec![cast("h", "y", Float)], 1e5, 0.0)), [f32::INFINITY]);
    let sum = vec![node("Add", &["h", "g"], &["s"]), cast("s", "y", Float)];
    assert_eq!(values(&of(sum, 2048.0, 1.0)), [2048.0]);
    let root = vec![node("Sqrt", &["h"], &["s"]), cast("s", "y", Float)];
    assert_eq!(values(&of(root, 2.0, 0.0)), [rounded(2.0_f32.sqrt())]);
}

#[test]
fn sums_of_narrow_integers_by_index_and_by_letter_wrap() {
    use ElementType::{Float, Int8, Int16, Uint8, Uint16};
    let cases = [
        (Int8, "add", 100, 100, -56.0),
        (Int8, "mul", 100, 3, 44.0),
        (Int8, "max", 100, 3, 100.0),
        (Int8, "none", 100, 3, 3.0),
        (Uint8, "add", 200, 100, 44.0),
        (Int16, "add", 32767, 1, -32768.0),
        (Uint16, "add", 65535, 2, 1.0),
        (Uint16, "mul", 300, 300, 24464.0),
    ];
    for (element, reduction, a, b, expected) in cases {
        for name in ["ScatterElements", "ScatterND"] {
            let place = TensorProto { dims: if name == "ScatterND" { vec![1, 1] } else { vec![1] }, ..ints("i", &[0]) };
            let put = with(node(name, &["a", "i", "b"], &["c"]), vec![text("reduction", reduction)]);
            let constants = vec![small("a", element, &[a]), small("b", element, &[b]), place];
            let got = computed(&[0.0], graph(vec![put, cast("c", "y", Float)], constants));
            assert_eq!(values(&got), [expected], "{name}, {reduction} of {element:?}");
        }
    }
    for (element, a, b, expected) in [(Int8, 100, 2, -56.0), (Uint8, 200, 2, 144.0), (Int16, 300, 300, 24464.0)] {
        let sum = with(node("Einsum", &["a", "b"], &["c"]), vec![text("equation", "i,i->")]);
        let constants = vec![small("a", element, &[a]), small("b", element, &[b])];
        let sums = computed(&[0.0], graph(vec![sum, cast("c", "y", Float)], constants));
        assert_eq!(values(&sums), [expected], "{element:?}");
    }
}
