//! Ready networks: outputs, names and sizes as PyTorch's of the same definition (`reference/record_models.py`),
//! published numbers, the registry, the summary, and text from a GPT.

use std::collections::BTreeMap;
use std::sync::Arc;

use brasa::models::{
    CifarResNet, ConvNeXt, ConvNeXtOptions, Generator, Gpt, GptOptions, MODELS, MobileNetV2, ModelSpec, ResNet,
    ResNetOptions, Sampling, Shortcut, Task, UNet, VGG, VGGOptions, VisionTransformer, VisionTransformerOptions,
    create_with, find,
};
use brasa::nn::{self, Init, Mode, Module, Variables, parameter_count, summary};
use brasa::runtime::{Step, Var, VarKind};
use brasa::tensor::autocast;
use brasa::{DType, Device, Result, Tensor, autodiff};

use crate::common::reference::{fill, signed};
use crate::common::{devices, doubles, fresh_devices};

#[derive(serde::Deserialize)]
struct Record {
    small: BTreeMap<String, Vec<f64>>,
    whole: BTreeMap<String, Vec<f64>>,
    full: BTreeMap<String, Full>,
}

#[derive(serde::Deserialize)]
struct Full {
    parameters: usize,
    state: String,
}

fn record() -> Record {
    serde_json::from_str(include_str!("../reference/models.json")).expect("a record")
}

/// `record_models.py`'s `fill_network`.
fn fill_network(model: &dyn Module) {
    fill(&model.variables());
    for kernel in model.parameters().iter().filter(|parameter| parameter.shape().rank() == 4) {
        kernel.set(&(kernel.tensor() * 2.5)).expect("memory");
    }
}

/// Logits of two images with sides of `side`, the first `count` of each.
fn logits(model: &dyn Module, side: usize, count: usize, device: &Device) -> Vec<f64> {
    fill_network(model);
    let input = Tensor::from_slice(&signed("input", 6 * side * side), [2, 3, side, side], device).expect("memory");
    let output = Mode::Evaluate.scope(|| model.forward(&input)).narrow(1, 0, count);
    output.to_vec::<f32>().expect("logits").into_iter().map(f64::from).collect()
}

/// To 1e-4 of the largest logit: float32 through tens of layers.
fn assert_logits(what: &str, got: &[f64], expected: &[f64]) {
    let largest = expected.iter().fold(0.0, |largest: f64, value| largest.max(value.abs()));
    crate::common::assert_close(what, got, expected, 0.0, 1e-4 * largest);
}

fn small(name: &str, init: &Init) -> Result<(Box<dyn Module>, usize)> {
    let resnet = |bottleneck, blocks| ResNet::new(ResNetOptions { blocks, bottleneck, width: 4 }, 3, 7, init);
    let vgg =
        |batch_norm, convolutions| VGG::new(VGGOptions { convolutions, batch_norm, width: 4, hidden: 16 }, 3, 7, init);
    let convnext = ConvNeXtOptions { blocks: [1, 1, 2, 1], widths: [4, 8, 8, 16], stochastic_depth: 0.1 };
    let vit = VisionTransformerOptions { patch: 4, width: 12, heads: 3, layers: 2 };
    Ok(match name {
        "resnet basic" => (Box::new(resnet(false, [2, 1, 1, 1])?), 32),
        "resnet bottleneck" => (Box::new(resnet(true, [1, 2, 1, 1])?), 32),
        "resnet cifar padded" => (Box::new(CifarResNet::with_shortcut(14, Shortcut::Padded, 3, 7, init)?), 16),
        "vgg" => (Box::new(vgg(false, [1, 1, 2, 1, 1])?), 32),
        "vgg bn" => (Box::new(vgg(true, [1, 2, 1, 1, 1])?), 32),
        "mobilenet" => (Box::new(MobileNetV2::new(0.25, 3, 7, init)?), 32),
        "convnext" => (Box::new(ConvNeXt::new(convnext, 3, 7, init)?), 32),
        "vit" => (Box::new(VisionTransformer::new(vit, [3, 16, 16], 7, init)?), 16),
        other => panic!("no small network `{other}`"),
    })
}

fn spec(input: &[usize], classes: usize) -> ModelSpec {
    ModelSpec { input: input.to_vec(), classes, seed: 1 }
}

/// A classifier of ImageNet, or of CIFAR, with zeros for weights.
fn published(name: &str, side: usize) -> Box<dyn Module> {
    let classes = if ["resnet20", "resnet32", "resnet56", "resnet110"].contains(&name) { 10 } else { 1000 };
    create_with(name, &spec(&[3, side, side], classes), &Init::zeros(&Device::cpu())).expect("a model")
}

#[test]
fn small_networks_compute_what_pytorch_does() {
    for device in devices() {
        for (name, expected) in record().small {
            let (model, side) = small(&name, &Init::new(&device, 1)).expect("a model");
            assert_logits(&format!("{name} on {device:?}"), &logits(&*model, side, 7, &device), &expected);
        }
    }
}

#[test]
fn whole_networks_compute_what_pytorch_does() {
    let device = Device::cpu();
    for (name, expected) in record().whole {
        let side = if name == "vit-tiny" { 224 } else { 64 };
        assert_logits(&name, &logits(&*published(&name, side), side, 50, &device), &expected);
    }
}

/// Gradients of a network for some images, then its running statistics, and the bytes of activations that a step for
/// them plans; with its blocks computed again, or kept.
fn gradients(name: &str, again: bool, device: &Device) -> (Vec<Vec<f64>>, u64) {
    brasa::runtime::seed(device, 7).expect("a seed");
    let (model, side) = match name {
        "unet" => {
            (Box::new(UNet::new(3, &[4, 8, 8], 7, &Init::new(device, 1)).expect("memory")) as Box<dyn Module>, 16)
        }
        _ => small(name, &Init::new(device, 1)).expect("a model"),
    };
    fill_network(&*model);
    let model: Arc<dyn Module> = model.into();
    let inner = model.clone();
    let mut step = Step::new(device, move |inputs| {
        let forward = || inner.forward(&inputs[0]);
        let output = if again { nn::checkpoint_blocks(forward) } else { forward() };
        let parameters: Vec<Tensor> = inner.parameters().iter().map(Var::tensor).collect();
        let noise = Tensor::rand(output.shape(), output.device());
        autodiff::grad(&(output * noise).sum(), &parameters.iter().collect::<Vec<_>>())
    })
    .expect("a step");
    // enough for batch norms over what is one pixel in the end: with two they divide by small differences; and such that
    // no activation is as near to a kink of ReLU6 as rounding goes
    let input = Tensor::from_slice(&signed("inputs", 24 * side * side), [8, 3, side, side], device).expect("memory");
    let forecast = step.forecast(&[vec![(input.shape().clone(), input.dtype())]]).expect("a plan");
    let outputs = step.run(&[input]).expect("a run");
    let buffers = model.variables().into_iter().filter(|var| var.kind() == VarKind::Buffer).map(|var| var.tensor());
    (outputs.into_iter().chain(buffers).map(|tensor| doubles(&tensor)).collect(), forecast.activation_bytes)
}

#[test]
fn blocks_computed_again_give_the_same_gradients_and_statistics_with_less_memory() {
    let names: Vec<String> = record().small.into_keys().chain(["unet".to_owned()]).collect();
    // random numbers are a device's, and nobody else must draw some between
    let devices = fresh_devices();
    for (device, name) in devices.iter().flat_map(|device| names.iter().map(move |name| (device, name))) {
        let (plain, kept) = gradients(name, false, device);
        let (again, less) = gradients(name, true, device);
        assert!(less < kept, "{name} on {device:?}: {less} of {kept} bytes");
        let most = |values: &[f64]| values.iter().fold(0.0, |largest: f64, value| largest.max(value.abs()));
        let overall = plain.iter().map(|values| most(values)).fold(0.0, f64::max);
        for (number, (got, expected)) in again.iter().zip(&plain).enumerate() {
            // some are sums that cancel to nothing
            let largest = most(expected) + 1e-2 * overall;
            let what = format!("{name}: tensor {number} on {device:?}");
            // kernels are cut elsewhere: sums of float32 in another order through tens of layers
            crate::common::assert_close(&what, got, expected, 0.0, 1e-4 * largest);
        }
    }
}

/// The outputs' error in mixed precision, as a part of the largest, and the cosine between the gradients of both
/// precisions.
fn mixed_precision(model: &Arc<dyn Module>, input: &Tensor) -> (f64, f64) {
    let run = |dtype: DType| {
        let model = model.clone();
        let mut step = Step::new(input.device(), move |inputs| {
            let output = Mode::Evaluate.scope(|| autocast(dtype, || model.forward(&inputs[0]))).to_dtype(DType::F32);
            let weights = signed("weights", output.numel());
            let weights = Tensor::from_slice(&weights, output.shape().clone(), output.device()).expect("memory");
            let parameters: Vec<Tensor> = model.parameters().iter().map(Var::tensor).collect();
            let gradients = autodiff::grad(&(&output * weights).sum(), &parameters.iter().collect::<Vec<_>>());
            [vec![output], gradients].concat()
        })
        .expect("a step");
        let values = step.run(std::slice::from_ref(input)).expect("a run");
        (doubles(&values[0]), values[1..].iter().flat_map(doubles).collect::<Vec<f64>>())
    };
    let ((full, slopes), (half, half_slopes)) = (run(DType::F32), run(DType::F16));
    let largest = full.iter().fold(0.0, |largest: f64, value| largest.max(value.abs()));
    let error = full.iter().zip(&half).map(|(full, half)| (full - half).abs()).fold(0.0, f64::max);
    assert!(error > 0.0, "nothing is computed in f16");
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let cosine = dot(&slopes, &half_slopes) / (dot(&slopes, &slopes) * dot(&half_slopes, &half_slopes)).sqrt();
    (error / largest, cosine)
}

#[test]
fn mixed_precision_is_near_to_full_precision_in_every_kind_of_network() {
    for device in devices() {
        let check = |name: &str, model: Box<dyn Module>, input: &Tensor| {
            fill_network(&*model);
            let (error, cosine) = mixed_precision(&model.into(), input);
            // Each product rounds its operands and its result by 2^-11; a score of them, some summed up.
            assert!(error < 1e-2, "{name} on {device:?}: outputs differ by {error} of the largest");
            // Where rounding takes a value across a corner of ReLU6 its slope is another: 0.99 in MobileNet.
            let least = if name == "mobilenet" { 0.98 } else { 0.998 };
            assert!(cosine > least, "{name} on {device:?}: the cosine of the gradients is {cosine}");
        };
        let init = Init::new(&device, 1);
        let image = |side: usize| {
            Tensor::from_slice(&signed("input", 6 * side * side), [2, 3, side, side], &device).expect("memory")
        };
        // What a software GPU compiles for all of them takes minutes: there one for each kind of product.
        for name in
            record().small.into_keys().filter(|name| device.is_cpu() || ["resnet basic", "vit"].contains(&&**name))
        {
            let (model, side) = small(&name, &init).expect("a model");
            check(&name, model, &image(side));
        }
        if device.is_cpu() {
            check("unet", Box::new(UNet::new(3, &[4, 8, 8], 7, &init).expect("memory")), &image(16));
        }
        let options = GptOptions { vocabulary: 13, sequence: 9, width: 16, heads: 2, layers: 2 };
        let tokens: Vec<i32> = (0..18).map(|position| position * 5 % 13).collect();
        let tokens = Tensor::from_slice(&tokens, [2, 9], &device).expect("memory");
        check("gpt", Box::new(Gpt::new(options, &init).expect("a model")), &tokens);
    }
}

/// FNV-1a of a line for each tensor, as in `record_models.py`.
fn signature(model: &dyn Module) -> String {
    let lines = nn::state(model).into_iter().map(|(name, tensor)| format!("{name} {}\n", tensor.shape()));
    let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hashed = lines.fold(0xcbf2_9ce4_8422_2325, |value, line| line.bytes().fold(value, hash));
    format!("{hashed:016x}")
}

#[test]
fn names_shapes_and_sizes_are_those_of_pytorchs_networks() {
    for (name, full) in record().full {
        let model = published(&name, 224);
        assert_eq!(parameter_count(&*model), full.parameters, "{name}");
        assert_eq!(signature(&*model), full.state, "names and shapes of {name}");
    }
}

#[test]
fn networks_have_the_published_numbers_of_parameters() {
    // torchvision's tables of models (`num_params` in the metadata of their weights); timm's for ViT
    for (name, parameters) in [
        ("resnet18", 11_689_512),
        ("resnet34", 21_797_672),
        ("resnet50", 25_557_032),
        ("vgg11", 132_863_336),
        ("vgg11-bn", 132_868_840),
        ("vgg16", 138_357_544),
        ("vgg16-bn", 138_365_992),
        ("mobilenet-v2", 3_504_872),
        ("convnext-tiny", 28_589_128),
        ("vit-tiny", 5_717_416),
    ] {
        assert_eq!(parameter_count(&*published(name, 224)), parameters, "{name}");
    }
    // table 6 of He et al. 2016, in millions
    for (depth, millions) in [(20, 0.27), (32, 0.46), (44, 0.66), (56, 0.85), (110, 1.7)] {
        let init = Init::zeros(&Device::cpu());
        let model = CifarResNet::with_shortcut(depth, Shortcut::Padded, 3, 10, &init).expect("a model");
        let count = parameter_count(&model) as f64 / 1e6;
        let rounded = if millions > 1.0 { (count * 10.0).round() / 10.0 } else { (count * 100.0).round() / 100.0 };
        assert_eq!(rounded, millions, "{depth} layers");
        let with_projections = CifarResNet::new(depth, 3, 10, &init).expect("a model");
        assert_eq!(parameter_count(&with_projections) - parameter_count(&model), 2_752);
    }
}

#[test]
fn summaries_add_up() {
    let device = Device::cpu();
    let cnn = create_with("tutorial-cnn", &spec(&[3, 32, 32], 10), &Init::zeros(&device)).expect("a model");
    let table = summary(&*cnn, [4, 3, 32, 32], DType::F32).expect("a summary");
    let layers: Vec<_> = table
        .layers
        .iter()
        .map(|layer| {
            let output = layer.output.as_ref().expect("used").to_vec();
            (layer.path.as_str(), layer.kind, output, layer.parameters, layer.multiply_adds)
        })
        .collect();
    // by hand: outputs x inputs of each output
    let expected = [
        ("conv1", "Conv2d", vec![4, 6, 28, 28], 456, 4 * 28 * 28 * 6 * 75),
        ("conv2", "Conv2d", vec![4, 16, 10, 10], 2_416, 4 * 10 * 10 * 16 * 150),
        ("fc1", "Linear", vec![4, 120], 48_120, 4 * 120 * 400),
        ("fc2", "Linear", vec![4, 84], 10_164, 4 * 84 * 120),
        ("fc3", "Linear", vec![4, 10], 850, 4 * 10 * 84),
    ];
    assert_eq!(layers, expected);
    assert_eq!((table.parameters, table.buffers, table.multiply_adds), (62_006, 0, 4 * 651_720));
    // each of the ten variables in memory of a multiple of 16 bytes
    assert!((62_006 * 4..62_006 * 4 + 160).contains(&(table.memory.model_bytes as usize)), "{:?}", table.memory);
    assert_eq!(table.memory.input_output_bytes, 4 * 4 * (3_072 + 10));
    let text = table.to_string();
    let widths: Vec<usize> = text.lines().filter(|line| line.contains("  ")).map(str::len).collect();
    assert!(text.contains("2,606,880") && text.contains("62,006"), "{text}");
    assert!(widths[..7].iter().all(|width| *width == widths[0]), "columns are not aligned:\n{text}");

    // torchvision's table gives 1.814 GMAC: stem, four stages, linear layer, by hand
    let stage = 14 * 14 * 256 * (128 * 9 + 3 * 256 * 9 + 128);
    let first = 4 * 56 * 56 * 64 * 64 * 9;
    let total = 112 * 112 * 64 * 147 + first + 3 * stage + 512 * 1000;
    assert_eq!(total, 1_814_073_344);
    let table = summary(&*published("resnet18", 224), [1, 3, 224, 224], DType::F32).expect("a summary");
    assert_eq!((table.multiply_adds, table.parameters), (total, 11_689_512));
    // running means and variances of 4,800 channels, and twenty counters
    assert_eq!(table.buffers, 2 * 4_800 + 20);
    assert_eq!(table.layers.len(), 41, "twenty convolutions, twenty norms, one linear layer");
}

#[test]
fn every_entry_makes_a_model_of_its_task() {
    for entry in MODELS {
        let (input, dtype): (&[usize], _) = match entry.task {
            Task::Continue => (&[12], DType::I32),
            _ => (&[3, 32, 32], DType::F32),
        };
        let model = create_with(entry.name, &spec(input, 10), &Init::zeros(&Device::cpu())).expect(entry.name);
        let table = summary(&*model, [&[2], input].concat(), dtype).expect(entry.name);
        let expected: &[usize] = match entry.task {
            Task::Classify => &[2, 10],
            Task::Segment => &[2, 10, 32, 32],
            Task::Continue => &[2, 10, 12],
        };
        assert_eq!(table.output.dims(), expected, "{}", entry.name);
        let operations: u64 = table.layers.iter().map(|layer| layer.multiply_adds).sum();
        assert_eq!(operations, table.multiply_adds, "{}: every product belongs to a layer", entry.name);
        assert_eq!(
            table.layers.iter().map(|layer| layer.parameters).sum::<usize>(),
            table.parameters,
            "{}",
            entry.name
        );
    }
    let error = find("resnet1000").expect_err("no such model").to_string();
    assert!(error.contains("mobilenet-v2, ") && error.contains("resnet1000"), "{error}");
}

/// The likeliest tokens after `prompt`, without keys and values kept: everything anew for each.
fn continued(model: &Gpt, prompt: &[i32], count: usize) -> Vec<i32> {
    let mut text = prompt.to_vec();
    for _ in 0..count {
        let input = Tensor::from_slice(&text, [1, text.len()], model.variables()[0].device()).expect("memory");
        let logits = Mode::Evaluate.scope(|| model.forward(&input)).select(2, text.len() - 1);
        text.push(logits.argmax(1).to_vec::<i32>().expect("a token")[0]);
    }
    text.split_off(prompt.len())
}

#[test]
fn a_long_prompt_is_read_as_a_short_one_is() {
    for device in devices() {
        let options = GptOptions { vocabulary: 13, sequence: 90, width: 16, heads: 2, layers: 2 };
        let model = Arc::new(Gpt::new(options, &Init::new(&device, 3)).expect("a model"));
        let mut generator = Generator::new(&model).expect("memory");
        let prompt: Vec<i32> = (0..80).map(|n| n * n % 13).collect();
        // less than a chunk, one, one and a part, two and a part
        for prompt in [31, 32, 33, 80].map(|length| &prompt[..length]) {
            let text = generator.generate(prompt, 3, Sampling::GREEDY).expect("tokens");
            assert_eq!(text, continued(&model, prompt, 3), "after {} tokens on {device:?}", prompt.len());
        }
    }
}

#[test]
fn a_generator_continues_as_the_model_says() {
    for device in devices() {
        let options = GptOptions { vocabulary: 13, sequence: 9, width: 16, heads: 2, layers: 2 };
        let model = Arc::new(Gpt::new(options, &Init::new(&device, 3)).expect("a model"));
        let mut generator = Generator::new(&model).expect("memory");
        let prompt = [3, 1, 4];
        let text = generator.generate(&prompt, 7, Sampling::GREEDY).expect("tokens");
        assert_eq!(text, continued(&model, &prompt, 7), "on {device:?}");
        // a second text does not see the first
        assert_eq!(generator.generate(&prompt, 7, Sampling::GREEDY).expect("tokens"), text);
        let drawn = Sampling { temperature: 2.0, top_k: Some(8), seed: 5 };
        let first = generator.generate(&prompt, 7, drawn).expect("tokens");
        assert_eq!(generator.generate(&prompt, 7, drawn).expect("tokens"), first);
        let others = (6..12).map(|seed| generator.generate(&prompt, 7, Sampling { seed, ..drawn }).expect("tokens"));
        assert!(others.into_iter().any(|other| other != first), "every seed draws the same");
        for (prompt, count) in [(&[][..], 1), (&[1, 2, 3], 8), (&[13], 1), (&[-1], 1)] {
            generator.generate(prompt, count, Sampling::GREEDY).expect_err("refused");
        }
    }
}
