//! Layers that no recorded training run covers.

mod common;

use brasa::models::Mlp;
use brasa::nn::{Attention, BatchNorm2d, Dropout, Init, Linear, Mode, Module, MultiheadAttention, Sequential};
use brasa::tensor::Tensor;
use common::devices;

fn ramp(count: usize, device: &brasa::Device) -> Tensor {
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
