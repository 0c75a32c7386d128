//! Every kernel of the models' training and inference steps is valid WGSL, and SPIR-V, MSL and HLSL can be made of it.

use std::collections::HashSet;

use crate::device::Device;
use crate::dtype::DType;
use crate::models::{
    ConvNeXt, ConvNeXtOptions, MODELS, ModelSpec, ResNet, ResNetOptions, Task, VGG, VGGOptions, VisionTransformer,
    VisionTransformerOptions, create,
};
use crate::nn::{Init, Mode, Module};
use crate::optim::{
    AdadeltaOptions, AdagradOptions, AdamOptions, AdamaxOptions, Grouped, LambOptions, LionOptions, Momentum,
    MuonOptions, NAdamOptions, Optimizer, RAdamOptions, RMSpropOptions, Rule, SGDOptions, WeightDecay,
};
use crate::plan::{Plan, PlanOptions};
use crate::runtime::{Step, Var};
use crate::shape::Shape;
use crate::stage::Stage;
use crate::tensor::{Tensor, autocast};

use super::texts::Texts;
use super::{BUFFERS, capabilities, render};

const BATCH: usize = 3;
const CLASSES: usize = 10;
/// Models that have nothing but more of the blocks of ResNet-20 or ResNet-18. (VGG-16 stays: with three convolutions in
/// a row there are kernels that VGG-11 has not.)
const DEEPER: [&str; 4] = ["resnet32", "resnet56", "resnet110", "resnet34"];

/// The shape of one sample for the model called `name`, large enough for all of its layers to do something.
fn sample(name: &str, task: Task) -> Vec<usize> {
    match (task, name) {
        (Task::Continue, _) => vec![16],
        (Task::Segment, _) => vec![3, 16, 24],
        (_, "mlp" | "cnn") => vec![1, 8, 8],
        _ => vec![3, 32, 32],
    }
}

/// The model called `name`, or one with the same kinds of blocks but fewer of them, narrower where it has many millions
/// of parameters: further blocks repeat the same kernels.
fn model(name: &str, spec: &ModelSpec) -> Box<dyn Module> {
    let init = Init::new(&Device::cpu(), spec.seed);
    let (channels, classes) = (spec.input[0], spec.classes);
    // the second one of a stage has no projection beside it
    let blocks = [2, 1, 1, 1];
    let resnet = |depth| {
        ResNet::new(ResNetOptions { blocks, width: 32, ..ResNetOptions::depth(depth) }, channels, classes, &init)
    };
    let vgg = |depth, batch_norm| {
        VGG::new(VGGOptions { width: 16, hidden: 64, ..VGGOptions::depth(depth, batch_norm) }, channels, classes, &init)
    };
    let boxed: crate::error::Result<Box<dyn Module>> = match name {
        "resnet18" => resnet(18).map(|m| Box::new(m) as _),
        "resnet50" => resnet(50).map(|m| Box::new(m) as _),
        "vgg11" => vgg(11, false).map(|m| Box::new(m) as _),
        "vgg11-bn" => vgg(11, true).map(|m| Box::new(m) as _),
        "vgg16" => vgg(16, false).map(|m| Box::new(m) as _),
        "vgg16-bn" => vgg(16, true).map(|m| Box::new(m) as _),
        "convnext-tiny" => {
            let options = ConvNeXtOptions { blocks, widths: [24, 48, 96, 192], ..ConvNeXtOptions::TINY };
            ConvNeXt::new(options, channels, classes, &init).map(|m| Box::new(m) as _)
        }
        "vit-tiny" => {
            let options = VisionTransformerOptions { patch: 4, layers: 1, ..VisionTransformerOptions::TINY };
            let image = [channels, spec.input[1], spec.input[2]];
            VisionTransformer::new(options, image, classes, &init).map(|m| Box::new(m) as _)
        }
        _ => create(name, spec, &Device::cpu()),
    };
    boxed.expect("a model that fits its samples")
}

type MakeOptimizer = fn(&[Var]) -> Box<dyn Optimizer>;

/// What a step does.
type Function = Box<dyn FnMut(&[Tensor]) -> Vec<Tensor> + Send>;

/// An optimizer with its usual options.
fn usual<R: Rule + Default + 'static>(parameters: &[Var]) -> Box<dyn Optimizer> {
    with(parameters, R::default())
}

fn with<R: Rule + 'static>(parameters: &[Var], options: R) -> Box<dyn Optimizer> {
    Box::new(Grouped::new(parameters, options).expect("memory").with_max_norm(1.0))
}

/// The plans of a step of training and of one of inference.
fn plans(name: &str, task: Task, optimizer: MakeOptimizer) -> [Plan; 2] {
    plans_with(name, task, optimizer, DType::F32)
}

/// The same with products of numbers of type `products`.
fn plans_with(name: &str, task: Task, optimizer: MakeOptimizer, products: DType) -> [Plan; 2] {
    let device = Device::cpu();
    let spec = ModelSpec { input: sample(name, task), classes: CLASSES, seed: 1 };
    let (input_type, labels) = match task {
        Task::Classify => (DType::F32, vec![]),
        Task::Segment => (DType::F32, spec.input[1..].to_vec()),
        Task::Continue => (DType::I32, spec.input.clone()),
    };
    let with_batch = |sizes: &[usize]| Shape::from([&[BATCH], sizes].concat());
    let inputs = [(with_batch(&spec.input), input_type), (with_batch(&labels), DType::I32)];
    let plan = |inputs: &[(Shape, DType)], function: Function| {
        let mut step =
            Step::new(&device, function).expect("a step").with_options(|options| *options = PlanOptions::gpu(BUFFERS));
        Plan::clone(&step.prepare(inputs).expect("a plan").plan)
    };
    let network = model(name, &spec);
    let optimizer = optimizer(&network.parameters());
    let train = move |inputs: &[Tensor]| {
        let logits = Mode::Train.scope(|| autocast(products, || network.forward(&inputs[0])));
        let loss = Stage::Loss.scope(|| logits.to_dtype(DType::F32).cross_entropy(&inputs[1]));
        optimizer.update(&loss.backward());
        vec![loss]
    };
    let network = model(name, &spec);
    let infer =
        move |inputs: &[Tensor]| vec![Mode::Evaluate.scope(|| autocast(products, || network.forward(&inputs[0])))];
    [plan(&inputs, Box::new(train)), plan(&inputs[..1], Box::new(infer))]
}

/// Of all models but the deeper ones every second, from this one on; in parts, so that they share the machine's cores.
fn check_every_second(first: usize) {
    let mut texts = Texts::default();
    let models = MODELS.iter().filter(|entry| !DEEPER.contains(&entry.name));
    for entry in models.skip(first).step_by(2) {
        for plan in plans(entry.name, entry.task, usual::<AdamOptions>) {
            texts.check(entry.name, plan);
        }
    }
    assert!(texts.count() > 100, "{} different kernels", texts.count());
}

#[test]
fn kernels_of_models_are_valid_everywhere() {
    check_every_second(0);
}

#[test]
fn kernels_of_the_other_models_are_valid_everywhere() {
    check_every_second(1);
}

/// Compiling takes a network's first step longer than computing.
#[test]
fn deeper_networks_are_not_more_to_compile() {
    let entry = MODELS.iter().find(|entry| entry.name == "resnet20").expect("a model");
    let different = |name: &str| {
        let [plan, _] = plans(name, entry.task, usual::<AdamOptions>);
        let caps = capabilities(false, true);
        let launches = plan.kernels.iter().flat_map(|kernel| render(&plan, kernel, &caps).expect("it renders"));
        let texts: HashSet<String> = launches.map(|launch| launch.wgsl).collect();
        (plan.kernels.len(), texts.len())
    };
    let [(_, resnet32), (kernels, resnet56)] = ["resnet32", "resnet56"].map(different);
    // how many gradients one kernel sums up depends on how many there are
    assert!(resnet56 <= resnet32 + 3, "{resnet32} different kernels, deeper {resnet56}");
    assert!(4 * resnet56 < kernels, "{resnet56} of {kernels} kernels differ");
}

/// Where `--precision f16` takes them: one model for each kind of layer.
#[test]
fn kernels_in_mixed_precision_are_valid_everywhere() {
    let mut texts = Texts::default();
    for name in ["tutorial-cnn", "resnet20", "mobilenet-v2", "unet", "gpt", "vit-tiny"] {
        let entry = MODELS.iter().find(|entry| entry.name == name).expect("a model");
        for plan in plans_with(name, entry.task, usual::<AdamOptions>, DType::F16) {
            texts.check(name, plan);
        }
    }
    assert!(texts.count() > 100, "{} different kernels", texts.count());
}

/// For the parameters that are matrices, the only ones it is for.
fn muon(parameters: &[Var]) -> Box<dyn Optimizer> {
    let matrices: Vec<Var> = parameters.iter().filter(|parameter| parameter.shape().rank() == 2).cloned().collect();
    usual::<MuonOptions>(&matrices)
}

#[test]
fn kernels_of_optimizers_are_valid_everywhere() {
    let heavy: MakeOptimizer = |all| {
        with(
            all,
            SGDOptions {
                momentum: Momentum::Heavy(0.9),
                weight_decay: WeightDecay::Coupled(0.1),
                ..SGDOptions::default()
            },
        )
    };
    let nesterov: MakeOptimizer =
        |all| with(all, SGDOptions { momentum: Momentum::Nesterov(0.9), ..SGDOptions::default() });
    let optimizers: [(&str, MakeOptimizer); 14] = [
        ("Adadelta", usual::<AdadeltaOptions>),
        ("Adagrad", usual::<AdagradOptions>),
        ("AdamW", |all| with(all, AdamOptions::adamw())),
        ("Adamax", usual::<AdamaxOptions>),
        ("Lamb", usual::<LambOptions>),
        ("Lion", usual::<LionOptions>),
        ("Muon", muon),
        ("NAdam", usual::<NAdamOptions>),
        ("RAdam", usual::<RAdamOptions>),
        ("RMSprop", usual::<RMSpropOptions>),
        ("centred RMSprop", |all| {
            with(all, RMSpropOptions { centered: true, momentum: 0.9, ..RMSpropOptions::default() })
        }),
        ("SGD", usual::<SGDOptions>),
        ("SGD with momentum", heavy),
        ("SGD of Nesterov", nesterov),
    ];
    let mut texts = Texts::default();
    for (name, optimizer) in optimizers {
        let before = texts.count();
        let [training, _] = plans("mlp", Task::Classify, optimizer);
        texts.check(name, training);
        assert!(texts.count() > before, "{name} has the kernels of those before");
    }
}
