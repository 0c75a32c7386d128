//! What the planner makes of whole training steps: kernels, waves, memory.

mod common;

use brasa::models::{CifarResNet, ModelSpec, create};
use brasa::nn::{Init, Mode, Module};
use brasa::optim::{Adam, AdamOptions, Optimizer};
use brasa::plan::{Plan, PlanOptions};
use brasa::runtime::Step;
use brasa::{DType, Device, Shape, Stage};

use common::devices;

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

/// The devices of this machine, and a GPU that binds 8 storage buffers, as many as WebGPU promises: the fewer, the more
/// kernels. It is planned for without being there.
fn planners() -> Vec<Planner> {
    let own = devices().into_iter().map(|device| Planner { device, options: None });
    own.chain([Planner { device: Device::cpu(), options: Some(PlanOptions::gpu(8)) }]).collect()
}

impl Planner {
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

fn assert_tight_memory(plan: &Plan) {
    let planned = plan.memory_bytes() as f64;
    assert!(planned <= 1.1 * plan.live_peak_bytes as f64, "{}", plan.summary());
}

#[test]
fn the_tutorial_cnn_trains_in_few_kernels() {
    let input = [3, 32, 32];
    for planner in planners() {
        let plan = training_plan(by_name("tutorial-cnn", &input, &planner.device), 4, &input, &planner);
        assert!(plan.kernels.len() <= 40, "{planner:?}\n{plan}");
        assert_tight_memory(&plan);
    }
}

#[test]
fn resnet_trains_in_at_most_sixteen_kernels_per_block() {
    let input = [3, 32, 32];
    for planner in planners() {
        let resnet = |depth| -> Box<dyn Module> {
            Box::new(CifarResNet::new(depth, 3, 10, &Init::new(&planner.device, 1)).expect("memory"))
        };
        let plan = training_plan(resnet(20), 64, &input, &planner);
        // stem, head, loss and update; the update takes more launches where a kernel binds few buffers
        let rest = if planner.options.is_some() { 22 } else { 20 };
        assert!(plan.kernels.len() <= 16 * 9 + rest, "{planner:?} {}\n{plan}", plan.kernels.len());
        assert_tight_memory(&plan);
        // six layers more are one block more in each of the three stages
        let deeper = training_plan(resnet(26), 64, &input, &planner);
        let added = deeper.kernels.len() - plan.kernels.len();
        assert!((1..=16 * 3).contains(&added), "{planner:?}: three blocks add {added} kernels");
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
            let stages: std::collections::BTreeSet<_> = plan.kernels[wave.clone()].iter().map(|k| k.stage).collect();
            assert_eq!(stages.len(), 1);
        }
        assert_eq!(next, plan.kernels.len());
        assert!(plan.kernels.is_sorted_by_key(|kernel| kernel.stage), "{plan}");
        assert_tight_memory(&plan);
    }
}
