//! What the planner makes of whole training steps: kernels, waves, memory.

use std::collections::BTreeSet;
use std::ops::Range;

use brasa::models::{CifarResNet, ModelSpec, create};
use brasa::nn::{BatchNorm2d, Conv2d, Init, Linear, Mode, Module};
use brasa::ops::conv::ConvOptions;
use brasa::optim::{Adam, AdamOptions, Optimizer};
use brasa::plan::{Plan, PlanOptions};
use brasa::runtime::Step;
use brasa::{DType, Device, Result, Shape, Stage, Tensor, variables};

use crate::common::devices;

fn signature(batch: usize, input: &[usize]) -> Vec<(Shape, DType)> {
    let mut shape = vec![batch];
    shape.extend(input);
    vec![(Shape::from(shape), DType::F32), (Shape::from(batch), DType::I32)]
}

/// A device, and the options to plan with where they are not its own.
#[derive(Debug)]
struct Planner {
    device: Device,
    options: Option<PlanOptions>,
}

/// The devices of this machine, and two GPUs that are planned for without being there: one that binds 8 storage
/// buffers, as many as WebGPU promises, which are 7 beside the status word, and a graphics card. The fewer, the more
/// kernels.
fn planners() -> Vec<Planner> {
    let own = devices().into_iter().map(|device| Planner { device, options: None });
    let planned = [7, 63].map(|buffers| Planner { device: Device::cpu(), options: Some(PlanOptions::gpu(buffers)) });
    own.chain(planned).collect()
}

impl Planner {
    fn is_native(&self) -> bool {
        self.device.is_cpu() && self.options.is_none()
    }

    fn apply(&self, step: Step) -> Step {
        match self.options {
            Some(options) => step.with_options(|of_device| *of_device = options),
            None => step,
        }
    }
}

fn by_name(model: &str, input: &[usize], device: &Device) -> Box<dyn Module> {
    let spec = ModelSpec { input: input.to_vec(), classes: 10, seed: 1 };
    create(model, &spec, device).expect("a known model")
}

fn training_plan(model: Box<dyn Module>, batch: usize, input: &[usize], planner: &Planner) -> Plan {
    let device = &planner.device;
    let optimizer = Adam::new(&model.parameters(), AdamOptions::default()).expect("memory for moments");
    let step = Step::new(device, move |inputs| {
        let logits = Mode::Train.scope(|| model.forward(&inputs[0]));
        let loss = Stage::Loss.scope(|| logits.cross_entropy(&inputs[1]));
        let gradients = loss.backward();
        optimizer.update(&gradients);
        vec![loss]
    })
    .expect("a step");
    Plan::clone(&planner.apply(step).prepare(&signature(batch, input)).expect("a plan").plan)
}

fn inference_plan(model: Box<dyn Module>, batch: usize, input: &[usize], planner: &Planner) -> Plan {
    let step = Step::new(&planner.device, move |inputs| vec![Mode::Evaluate.scope(|| model.forward(&inputs[0]))])
        .expect("a step");
    Plan::clone(&planner.apply(step).prepare(&signature(batch, input)[..1]).expect("a plan").plan)
}

/// Little memory is lost, gaps that read as zero are nobody else's, and GPUs bind each slot in one way at a time.
fn assert_tight_memory(plan: &Plan, planner: &Planner) {
    // what a GPU's kernels read while they write gradients lies in no slot with these
    let gradients = plan.zeroed.iter().map(|(buffer, _)| *buffer).collect::<BTreeSet<_>>();
    let lost: u64 = gradients.into_iter().map(|buffer| plan.buffers[buffer].bytes()).sum();
    let needed = plan.live_peak_bytes + if planner.is_native() { 0 } else { lost };
    assert!(plan.memory_bytes() as f64 <= 1.1 * needed as f64, "{}", plan.summary());
    let meet = |a: &Range<u64>, b: &Range<u64>| a.start < b.end && b.start < a.end;
    let touched = |kernel: usize| {
        let kernel = &plan.kernels[kernel];
        kernel.reads.iter().chain(&kernel.writes).copied().collect::<BTreeSet<_>>()
    };
    for (number, kernel) in plan.kernels.iter().enumerate() {
        let touched = touched(number);
        let only_read = |buffer: usize| !kernel.writes.contains(&buffer);
        for (&a, &b) in touched.iter().flat_map(|a| touched.range(..a).map(move |b| (a, b))) {
            let [one, other] = [a, b].map(|buffer| plan.buffers[buffer].place);
            let bound_in_two_ways = !planner.is_native() && only_read(a) != only_read(b) && one == other;
            assert!(!bound_in_two_ways, "b{a} and b{b} in kernel {number}\n{plan}");
        }
    }
    for (buffer, gap) in &plan.zeroed {
        let place = plan.buffers[*buffer].place;
        let gap = plan.buffers[*buffer].bytes_of(gap.clone());
        let mut others = plan.buffers.iter().enumerate().filter(|(other, _)| other != buffer);
        assert!(!others.any(|(_, other)| other.place == place && meet(&other.range(), &gap)), "b{buffer}\n{plan}");
    }
}

#[test]
fn the_tutorial_cnn_trains_in_few_kernels() {
    let input = [3, 32, 32];
    for planner in planners() {
        let plan = training_plan(by_name("tutorial-cnn", &input, &planner.device), 4, &input, &planner);
        assert!(plan.kernels.len() <= 40, "{planner:?}\n{plan}");
        assert_tight_memory(&plan, &planner);
    }
}

/// ResNet-20 without its blocks.
struct StemAndHead {
    conv: Conv2d,
    norm: BatchNorm2d,
    linear: Linear,
}

impl StemAndHead {
    fn new(init: &Init) -> Result<Self> {
        let options = ConvOptions::default().padding(1);
        Ok(Self {
            conv: Conv2d::without_bias(3, 16, 3, options, &init.at("conv"))?,
            norm: BatchNorm2d::new(16, &init.at("norm"))?,
            linear: Linear::new(16, 10, &init.at("linear"))?,
        })
    }
}

variables!(StemAndHead: conv, norm, linear);

impl Module for StemAndHead {
    fn forward(&self, input: &Tensor) -> Tensor {
        self.linear.forward(&self.norm.forward(&self.conv.forward(input)).relu().mean_dim([2, 3]))
    }
}

/// Kernels of the forward and the backward stage.
fn kernels_of_network(plan: &Plan) -> usize {
    plan.kernels.iter().filter(|kernel| matches!(kernel.stage, Stage::Forward | Stage::Backward)).count()
}

#[test]
fn resnet_trains_in_few_kernels_per_block() {
    let input = [3, 32, 32];
    for planner in planners() {
        let init = Init::new(&planner.device, 1);
        let resnet = |depth| -> Box<dyn Module> { Box::new(CifarResNet::new(depth, 3, 10, &init).expect("a model")) };
        let plan = training_plan(resnet(20), 64, &input, &planner);
        let ends = training_plan(Box::new(StemAndHead::new(&init).expect("a model")), 64, &input, &planner);
        let (whole, ends) = (kernels_of_network(&plan), kernels_of_network(&ends));
        let updating = plan.kernels.iter().filter(|kernel| kernel.stage == Stage::Update).count();
        // The blocks, stem and head, and the update, as many as they are today; there are nine blocks. Where kernels
        // bind few buffers, less fits into each; the running statistics of all batch norms alone are written by 18
        // kernels. Where there are many cores, eleven more gradients of weights are cut and summed up again, and so
        // are those of 65,536 points, of the seven batch norms with 16 channels and their gradients.
        let most = match (planner.is_native(), planner.options) {
            (true, _) => [120, 14, 6],
            (false, Some(PlanOptions { max_buffers: 7, .. })) => [162, 15, 22],
            (false, _) => [150, 15, 22],
        };
        let counts = [whole - ends, ends, updating];
        assert!(counts.iter().zip(most).all(|(&count, most)| count <= most), "{planner:?}: {counts:?}\n{plan}");
        assert_eq!(plan.kernels.len(), whole + updating + 2, "two for the loss\n{plan}");
        assert_tight_memory(&plan, &planner);
        // six layers more are one block more in each of the three stages; of the first, both batch norms and their
        // gradients are in parts
        let deeper = training_plan(resnet(26), 64, &input, &planner);
        let added = kernels_of_network(&deeper) - whole;
        assert!((1..=16 * 3 + 4).contains(&added), "{planner:?}: three blocks add {added} kernels");
        let inference = inference_plan(resnet(20), 64, &input, &planner);
        assert!(inference.memory_bytes() * 2 <= plan.memory_bytes(), "{} {}", inference.summary(), plan.summary());
    }
}

#[test]
fn waves_cover_the_plan_in_order_and_stages_do_not_mix() {
    let input = [1, 8, 8];
    for planner in planners() {
        let plan = training_plan(by_name("mlp", &input, &planner.device), 8, &input, &planner);
        let mut next = 0;
        for wave in &plan.waves {
            assert_eq!(wave.start, next);
            next = wave.end;
            let stages: BTreeSet<_> = plan.kernels[wave.clone()].iter().map(|k| k.stage).collect();
            assert_eq!(stages.len(), 1);
        }
        assert_eq!(next, plan.kernels.len());
        assert!(plan.kernels.is_sorted_by_key(|kernel| kernel.stage), "{plan}");
        assert_tight_memory(&plan, &planner);
    }
}
