//! What the planner makes of whole training steps: kernels, waves, memory.

mod common;

use brasa::models::{ModelSpec, create};
use brasa::nn::Mode;
use brasa::optim::{Adam, AdamOptions, Optimizer};
use brasa::plan::Plan;
use brasa::runtime::Step;
use brasa::{DType, Device, Shape, Stage};

use common::devices;

fn signature(batch: usize, input: &[usize]) -> Vec<(Shape, DType)> {
    let mut shape = vec![batch];
    shape.extend(input);
    vec![(Shape::from(shape), DType::F32), (Shape::from(batch), DType::I32)]
}

fn training_plan(model: &str, batch: usize, input: &[usize], device: &Device) -> Plan {
    let spec = ModelSpec { input: input.to_vec(), classes: 10, seed: 1 };
    let model = create(model, &spec, device).expect("a known model");
    let optimizer = Adam::new(&model.parameters(), AdamOptions::default()).expect("memory for moments");
    let mut step = Step::new(device, move |inputs| {
        let logits = Mode::Train.scope(|| model.forward(&inputs[0]));
        let loss = Stage::Loss.scope(|| logits.cross_entropy(&inputs[1]));
        let gradients = loss.backward();
        optimizer.update(&gradients);
        vec![loss]
    })
    .expect("a step");
    Plan::clone(&step.prepare(&signature(batch, input)).expect("a plan").plan)
}

fn inference_plan(model: &str, batch: usize, input: &[usize], device: &Device) -> Plan {
    let spec = ModelSpec { input: input.to_vec(), classes: 10, seed: 1 };
    let model = create(model, &spec, device).expect("a known model");
    let mut step =
        Step::new(device, move |inputs| vec![Mode::Evaluate.scope(|| model.forward(&inputs[0]))]).expect("a step");
    Plan::clone(&step.prepare(&signature(batch, input)[..1]).expect("a plan").plan)
}

fn assert_tight_memory(plan: &Plan) {
    let planned = plan.memory_bytes() as f64;
    assert!(planned <= 1.1 * plan.live_peak_bytes as f64, "{}", plan.summary());
}

#[test]
fn the_tutorial_cnn_trains_in_few_kernels() {
    for device in devices() {
        let plan = training_plan("tutorial-cnn", 4, &[3, 32, 32], &device);
        assert!(plan.kernels.len() <= 40, "{device:?}\n{plan}");
        assert_tight_memory(&plan);
    }
}

#[test]
fn resnet_trains_in_at_most_sixteen_kernels_per_block() {
    for device in devices() {
        let plan = training_plan("resnet20", 64, &[3, 32, 32], &device);
        // what a block adds: the kernels of everything labelled with its module and its share of the updates
        assert!(plan.kernels.len() <= 16 * 9 + 20, "{device:?} {}\n{plan}", plan.kernels.len());
        assert_tight_memory(&plan);
        let inference = inference_plan("resnet20", 64, &[3, 32, 32], &device);
        assert!(inference.memory_bytes() * 2 <= plan.memory_bytes(), "{} {}", inference.summary(), plan.summary());
    }
}

#[test]
fn waves_cover_the_plan_in_order_and_stages_do_not_mix() {
    for device in devices() {
        let plan = training_plan("mlp", 8, &[1, 8, 8], &device);
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
