//! Layers: each against PyTorch (`reference/record_layers.py`), and through one check of what all have in common; what
//! depends on chance or on the mode, by itself.

#[path = "../common/layer_rows.rs"]
mod layer_rows;

use std::collections::BTreeSet;

use brasa::autodiff::grad;
use brasa::models::Mlp;
use brasa::nn::{
    self, AlphaDropout, Attention, AttentionMasks, BatchNorm2d, Dropout, Dropout2d, Init, Linear, Mode, Module,
    MultiheadAttention, Residual, Sequential, StochasticDepth, Variables, freeze_statistics,
};
use brasa::runtime::{VarKind, realize};
use brasa::tensor::Mask;
use brasa::{Device, Tensor};
use layer_rows::{Layer, Row, rows};
use safetensors::SafeTensors;

use crate::common::reference::{fill, signed};
use crate::common::{assert_close, devices};

const RECORD: &[u8] = include_bytes!("../reference/layers.safetensors");

/// Rounding alone: float32 against float64, over sums of at most a few dozen products, of the largest element.
const TOLERANCE: f64 = 1e-5;

#[track_caller]
fn assert_same(what: &str, got: &Tensor, expected: &[f64]) {
    let got: Vec<f64> = match got.dtype() {
        brasa::DType::I32 => got.to_vec::<i32>().expect("values").into_iter().map(f64::from).collect(),
        _ => got.to_vec::<f32>().expect("values").into_iter().map(f64::from).collect(),
    };
    let largest = expected.iter().fold(1.0, |largest: f64, value| largest.max(value.abs()));
    assert_close(what, &got, expected, 0.0, TOLERANCE * largest);
}

/// All tensors of a row by what follows its name.
fn recorded<'a>(file: &SafeTensors<'a>, row: &str) -> Vec<(String, Vec<usize>, Vec<f64>)> {
    let of_row = |(name, view): (&str, safetensors::tensor::TensorView<'a>)| {
        let name = name.strip_prefix(row)?.strip_prefix('/')?.to_owned();
        let values = bytemuck::pod_collect_to_vec::<u8, f32>(view.data());
        Some((name, view.shape().to_vec(), values.into_iter().map(f64::from).collect()))
    };
    file.iter().filter_map(of_row).collect()
}

/// Outputs, gradients by inputs and parameters, and buffers are PyTorch's, and so are the names.
fn check_against_pytorch(row: &Row, file: &SafeTensors<'_>, device: &Device) {
    let what = |part: &str| format!("{} {part} on {device:?}", row.name);
    let layer = (row.make)(&Init::new(device, 1)).expect("a layer");
    fill(&layer.variables());
    let inputs: Vec<Tensor> = row.inputs.iter().enumerate().map(|(k, input)| input.tensor(k, device)).collect();
    // held, so that the layer reads these very leaves
    let parameters = layer.parameters();
    let leaves: Vec<Tensor> = parameters.iter().map(|parameter| parameter.tensor()).collect();
    let outputs = row.mode.scope(|| (layer.call)(&inputs));
    let mut loss = Tensor::zeros([], device);
    for (k, output) in outputs.iter().enumerate() {
        let weight = signed(&format!("weight{k}"), output.numel());
        loss += (output * Tensor::from_slice(&weight, output.shape(), device).expect("memory")).sum();
    }
    let wanted: Vec<&Tensor> = inputs.iter().filter(|input| input.dtype().is_float()).chain(&leaves).collect();
    let gradients = grad(&loss, &wanted);
    let nodes: Vec<_> = outputs.iter().chain(&gradients).map(|tensor| tensor.node().clone()).collect();
    realize(&nodes).expect("values");
    let mut found = Vec::new();
    for (k, output) in outputs.into_iter().enumerate() {
        found.push((format!("out{k}"), output));
    }
    let floats = row.inputs.iter().enumerate().filter(|(_, input)| matches!(input, layer_rows::Input::Floats(_)));
    let names = floats.map(|(k, _)| format!("in{k}"));
    found.extend(names.chain(parameters.iter().map(|parameter| format!("grad/{}", parameter.name()))).zip(gradients));
    let buffers = layer.variables().into_iter().filter(|variable| variable.kind() == VarKind::Buffer);
    found.extend(buffers.map(|buffer| (format!("buffer/{}", buffer.name()), buffer.tensor())));
    let expected = recorded(file, row.name);
    let names = |parts: &mut dyn Iterator<Item = &String>| parts.cloned().collect::<BTreeSet<_>>();
    let ours = names(&mut found.iter().map(|(name, _)| name));
    assert_eq!(ours, names(&mut expected.iter().map(|(name, ..)| name)), "{}", what("names"));
    for (name, got) in &found {
        let (_, shape, values) = expected.iter().find(|(expected, ..)| expected == name).expect("the names are equal");
        assert_eq!(got.shape().dims(), shape, "{}", what(name));
        assert_same(&what(name), got, values);
    }
}

/// The state survives a file, and a step down the gradient lowers a loss.
fn check_in_general(row: &Row, device: &Device) {
    let make = |seed| (row.make)(&Init::new(device, seed)).expect("a layer");
    let (layer, other) = (make(1), make(2));
    let inputs: Vec<Tensor> = row.inputs.iter().enumerate().map(|(k, input)| input.tensor(k, device)).collect();
    let outputs = |layer: &Layer| {
        let outputs = Mode::Evaluate.scope(|| (layer.call)(&inputs));
        outputs.iter().map(floats).collect::<Vec<_>>()
    };
    let file = nn::to_safetensors(&layer).expect("bytes");
    let report = nn::weights_from_bytes(&other, "layer".as_ref(), &file, &nn::LoadOptions::default());
    assert_eq!(report.expect("the same layer").loaded, layer.variables().len(), "{}", row.name);
    assert_eq!(outputs(&layer), outputs(&other), "{} from a file", row.name);
    let parameters = layer.parameters();
    if parameters.is_empty() {
        return;
    }
    let loss = || {
        let outputs = row.mode.scope(|| (layer.call)(&inputs));
        outputs.iter().map(|output| (output - 0.5).square().mean()).reduce(|sum, loss| sum + loss).expect("an output")
    };
    let leaves: Vec<Tensor> = parameters.iter().map(|parameter| parameter.tensor()).collect();
    let before = loss();
    let gradients = grad(&before, &leaves.iter().collect::<Vec<_>>());
    let before: f32 = before.item().expect("a loss");
    let squares = gradients.iter().map(|gradient| gradient.square().sum().item::<f32>().expect("a norm"));
    let length = squares.sum::<f32>().sqrt();
    for ((parameter, leaf), gradient) in parameters.iter().zip(&leaves).zip(&gradients) {
        parameter.set(&(leaf - gradient * f64::from(0.01 / length))).expect("memory");
    }
    drop(leaves);
    let after: f32 = loss().item().expect("a loss");
    // to first order a hundredth of the slope
    assert!(after < before - 0.005 * length * 0.5, "{}: {before} became {after}, slope {length}", row.name);
}

#[test]
fn every_record_has_its_row() {
    let file = SafeTensors::deserialize(RECORD).expect("a record");
    let known: BTreeSet<String> =
        file.names().iter().filter_map(|name| Some(name.split_once('/')?.0.to_owned())).collect();
    assert_eq!(rows().iter().map(|row| row.name.to_owned()).collect::<BTreeSet<_>>(), known);
}

/// Part `part` of four, so that they run side by side: a GPU's driver compiles for each row.
fn follow_pytorch(part: usize) {
    let file = SafeTensors::deserialize(RECORD).expect("a record");
    for device in devices() {
        for row in rows().iter().skip(part).step_by(4) {
            check_against_pytorch(row, &file, &device);
        }
    }
}

#[test]
fn layers_follow_pytorch_first_part() {
    follow_pytorch(0);
}

#[test]
fn layers_follow_pytorch_second_part() {
    follow_pytorch(1);
}

#[test]
fn layers_follow_pytorch_third_part() {
    follow_pytorch(2);
}

#[test]
fn layers_follow_pytorch_fourth_part() {
    follow_pytorch(3);
}

#[test]
fn layers_go_through_files_and_learn() {
    let device = Device::cpu();
    rows().iter().for_each(|row| check_in_general(row, &device));
}

#[test]
fn statistics_and_parameters_are_frozen_apart() {
    for device in devices() {
        let model = Sequential::new()
            .push(Linear::new(3, 4, &Init::new(&device, 1).at(0)).expect("memory"))
            .push(nn::BatchNorm1d::new(4, &Init::new(&device, 1).at(1)).expect("memory"));
        let trained = nn::trainable(&model, &["0.*"]).expect("parameters");
        assert_eq!(trained.iter().map(|variable| variable.name()).collect::<Vec<_>>(), ["1.weight", "1.bias"]);
        assert!(nn::trainable(&model, &["2.*"]).expect_err("none").to_string().contains("2.*"));
        let input = ramp(15, &device).reshape([5, 3]);
        let mean = || {
            let state = nn::state(&model);
            floats(&state["1.running_mean"])
        };
        let frozen = freeze_statistics(|| model.forward(&input));
        let used = Mode::Evaluate.scope(|| model.forward(&input));
        assert_eq!(floats(&frozen), floats(&used));
        assert_eq!(mean(), [0.0; 4], "frozen statistics moved");
        model.forward(&input).realize().expect("outputs");
        assert!(mean().iter().any(|&mean| mean != 0.0), "they follow though the parameters do not");
        assert_eq!(nn::state(&model)["1.num_batches_tracked"].item::<i32>().expect("a count"), 1);
    }
}

#[test]
fn dropout_of_channels_and_samples_drops_them_whole() {
    for device in devices() {
        let ones = Tensor::ones([40, 25, 3, 3], &device);
        for (dropped, whole) in
            [(floats(&Dropout2d::new(0.5).forward(&ones)), 9), (floats(&StochasticDepth::new(0.5).forward(&ones)), 225)]
        {
            let kept = dropped.chunks(whole).filter(|part| part.iter().all(|&value| value == 2.0)).count();
            let gone = dropped.chunks(whole).filter(|part| part.iter().all(|&value| value == 0.0)).count();
            let parts = dropped.len() / whole;
            assert_eq!(kept + gone, parts, "a part was cut");
            // five standard deviations
            let spread = 2.5 * (parts as f64).sqrt();
            assert!((kept as f64 - parts as f64 / 2.0).abs() < spread, "{kept} of {parts} kept");
        }
        assert_eq!(floats(&Dropout::new(1.0).forward(&ones)), [0.0; 9000]);
    }
}

#[test]
fn alpha_dropout_keeps_mean_and_variance() {
    for device in devices() {
        let input =
            Tensor::from_slice(&crate::common::floats(3, 40_000, -3.0_f64.sqrt(), 3.0_f64.sqrt()), 40_000, &device);
        let dropped = floats(&AlphaDropout::new(0.2).forward(&input.expect("memory")));
        let count = dropped.len() as f64;
        let mean = dropped.iter().map(|&value| f64::from(value)).sum::<f64>() / count;
        let variance = dropped.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>() / count - mean * mean;
        // standard errors 0.005 and about 0.006; five of them
        assert!(mean.abs() < 0.025 && (variance - 1.0).abs() < 0.03, "{mean} {variance}");
    }
}

#[test]
fn a_residual_adds_its_input() {
    let device = Device::cpu();
    let layer = Residual(Linear::new(4, 4, &Init::zeros(&device)).expect("memory"));
    let input = ramp(8, &device).reshape([2, 4]);
    assert_eq!(floats(&layer.forward(&input)), floats(&input));
    assert_eq!(layer.variables()[0].name(), "weight");
}

fn ramp(count: usize, device: &Device) -> Tensor {
    let values: Vec<f32> = (0..count).map(|index| (index as f32 * 0.37).sin()).collect();
    Tensor::from_slice(&values, count, device).expect("memory")
}

fn floats(tensor: &Tensor) -> Vec<f32> {
    tensor.to_vec().expect("values")
}

#[test]
fn a_sequence_counts_functions_as_pytorch_does() {
    for device in devices() {
        let init = Init::new(&device, 3);
        let sequence = Sequential::new()
            .push(Linear::new(8, 6, &init.at(0)).expect("memory"))
            .then(Tensor::relu)
            .push(Linear::new(6, 4, &init.at(2)).expect("memory"));
        let names: Vec<_> = sequence.variables().iter().map(|variable| variable.name().to_owned()).collect();
        assert_eq!(names, ["0.weight", "0.bias", "2.weight", "2.bias"]);
        // The same paths and seed: the same weights as in a model of the same definition.
        let model = Mlp::new(&[8, 6, 4], &init).expect("memory");
        let input = ramp(16, &device).reshape([2, 8]);
        assert_eq!(floats(&sequence.forward(&input)), floats(&model.forward(&input)));
    }
}

#[test]
fn dropout_keeps_the_mean_in_training_and_everything_in_evaluation() {
    for device in devices() {
        let (dropout, ones) = (Dropout::new(0.25), Tensor::ones([100, 100], &device));
        let dropped = floats(&dropout.forward(&ones));
        let kept = dropped.iter().filter(|&&value| value != 0.0).count();
        // 10,000 draws: the standard deviation of the share is 0.0043; five of them.
        assert!((kept as f64 / 1e4 - 0.75).abs() < 0.022, "{kept} of 10,000 kept");
        assert!(dropped.iter().all(|&value| value == 0.0 || (value - 4.0 / 3.0).abs() < 1e-6));
        let evaluated = Mode::Evaluate.scope(|| dropout.forward(&ones));
        assert!(floats(&evaluated).iter().all(|&value| value == 1.0));
    }
}

#[test]
fn running_statistics_move_by_a_tenth_of_the_batchs() {
    for device in devices() {
        let norm = BatchNorm2d::new(1, &Init::new(&device, 0)).expect("memory");
        let input = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 6.0], [2, 1, 1, 2], &device).expect("memory");
        norm.forward(&input).realize().expect("outputs");
        // Mean 3, variance with Bessel's correction 14/3: 0.9 · 0 + 0.1 · 3 and 0.9 · 1 + 0.1 · 14/3.
        let (mean, variance) = (floats(&norm.running_mean.tensor())[0], floats(&norm.running_var.tensor())[0]);
        assert!((mean - 0.3).abs() < 1e-6 && (variance - (0.9 + 1.4 / 3.0)).abs() < 1e-6, "{mean} {variance}");
    }
}

#[test]
fn channels_of_lines_are_dropped_as_those_of_pictures() {
    for device in devices() {
        let dropped = Mode::Train.scope(|| Dropout2d::new(0.5).forward(&Tensor::ones([8, 16, 10], &device)));
        let kept: Vec<bool> = floats(&dropped)
            .chunks(10)
            .map(|line| {
                assert!(line.iter().all(|&value| value == line[0] && (value == 0.0 || value == 2.0)), "{line:?}");
                line[0] == 2.0
            })
            .collect();
        assert!(kept.chunks(16).any(|sample| sample.contains(&true) && sample.contains(&false)), "{kept:?}");
    }
}

#[test]
fn a_causal_position_sees_only_what_came_before() {
    for device in devices() {
        let changed = |attention| {
            let layer = MultiheadAttention::new(8, 2, attention, &Init::new(&device, 5)).expect("memory");
            let input = ramp(32, &device).reshape([1, 4, 8]);
            let last = Tensor::arange(4, &device).reshape([1, 4, 1]).eq(3);
            let other = last.where_(&input + 1.0, &input);
            let (before, after) = (floats(&layer.forward(&input)), floats(&layer.forward(&other)));
            before.chunks(8).zip(after.chunks(8)).map(|(before, after)| before != after).collect::<Vec<_>>()
        };
        assert_eq!(changed(Attention::Causal), [false, false, false, true]);
        assert_eq!(changed(Attention::Full), [true; 4]);
    }
}

#[test]
fn a_query_that_sees_no_key_answers_zero_and_teaches_nothing() {
    for device in devices() {
        let wave = |count: usize, shift: f64| ((ramp(count, &device) + shift) * 1.7).sin();
        let (query, key, value) = (wave(12, 0.0), wave(20, 0.5), wave(10, 0.9));
        let (query, key, value) = (query.reshape([1, 3, 4]), key.reshape([1, 5, 4]), value.reshape([1, 5, 2]));
        // the second of three queries sees nothing, whatever the mask's kind
        let allowed = Tensor::arange(3, &device).ne(1).unsqueeze(1);
        let added = allowed.where_(0.0, f64::NEG_INFINITY).expand([3, 5]);
        let results = |query: &Tensor, mask: Mask<'_>, row_weights: &Tensor| {
            let answer = query.scaled_dot_product_attention(&key, &value, mask);
            let gradients = grad(&(&answer * row_weights).sum(), &[query, &key, &value]);
            [answer].into_iter().chain(gradients).map(|tensor| floats(&tensor)).collect::<Vec<_>>()
        };
        let row_weights = ramp(6, &device).reshape([1, 3, 2]) + 1.0;
        let others = |tensor: &Tensor| Tensor::cat(&[&tensor.narrow(1, 0, 1), &tensor.narrow(1, 2, 1)], 1);
        let expected = results(&others(&query), Mask::None, &others(&row_weights));
        for mask in [Mask::Allowed(&allowed), Mask::Added(&added)] {
            let mut got = results(&query, mask, &row_weights);
            // rows of the answer, and of the gradient by the queries
            for (place, width) in [(0, 2), (1, 4)] {
                let hidden: Vec<f32> = got[place].drain(width..2 * width).collect();
                assert_eq!(hidden, vec![0.0; width], "{mask:?} on {device:?}");
            }
            for (got, expected) in got.iter().zip(&expected) {
                let [got, expected] = [got, expected].map(|of| of.iter().copied().map(f64::from).collect::<Vec<_>>());
                assert_close(&format!("{mask:?} on {device:?}"), &got, &expected, 1e-5, 1e-6);
            }
        }
        let nothing = Tensor::full([], false, &device);
        let answer = query.scaled_dot_product_attention(&key, &value, Mask::Allowed(&nothing));
        assert_eq!(floats(&answer), [0.0; 6], "{device:?}");

        let layer = MultiheadAttention::new(4, 2, Attention::Full, &Init::new(&device, 5)).expect("memory");
        let masks = AttentionMasks { attn: Some(&allowed.logical_not().expand([3, 3])), ..AttentionMasks::default() };
        let (answer, weights) = layer.attend_with_weights(&query, &query, &query, masks, true);
        assert_eq!(floats(&weights.select(1, 1)), [0.0; 3], "{device:?}");
        let alone = floats(&layer.attend(&query, &query, &query, masks));
        assert!(floats(&answer).iter().zip(alone).all(|(a, b)| (a - b).abs() < 1e-5), "{device:?}");
    }
}
