//! Own kernels on both devices: values, gradients, captured steps, plans.

mod kernels;
mod memory;
mod refused;

use brasa::autodiff::{Gradcheck, grad, gradcheck};
use brasa::custom::CustomOp;
use brasa::optim::{Adam, AdamOptions, Optimizer};
use brasa::runtime::{Hyper, Step, Var};
use brasa::{DType, Stage, Tensor};

use crate::common::{assert_close, assert_same, devices, doubles, floats, fresh_devices, matrix, read, vector};
use kernels::{Centre, Scale, map, scan};

/// The recurrence as tensor ops, one column after the other.
fn scanned(x: &Tensor, decay: &Tensor) -> Tensor {
    let mut columns = vec![x.slice(1, 0..1)];
    for t in 1..x.shape()[1] {
        columns.push(decay.reshape([-1, 1]) * &columns[t - 1] + x.slice(1, t..t + 1));
    }
    Tensor::cat(&columns.iter().collect::<Vec<_>>(), 1)
}

#[test]
fn values_and_gradients_are_those_of_the_same_in_tensor_ops() {
    for device in devices() {
        for (rows, columns) in [(1, 1), (3, 7), (65, 5), (2, 33)] {
            let x = matrix(1, rows, columns, &device);
            let decay = vector(&floats(2, rows, 0.2, 0.9), &device);
            // around the kernel: a view and a fused chain before it, one after it
            let own = |x: &Tensor, decay: &Tensor| scan(false).call([&(x.tanh() * 2.0), decay])[0].square();
            let ops = |x: &Tensor, decay: &Tensor| scanned(&(x.tanh() * 2.0), decay).square();
            let (y, expected) = (own(&x, &decay), ops(&x, &decay));
            assert_same("values", &y, &expected);
            let gradients = grad(&y, &[&x, &decay]).into_iter().zip(grad(&expected, &[&x, &decay]));
            gradients.for_each(|(got, expected)| assert_same("gradients", &got, &expected));
            assert_same("transposed", &own(&x.t().exp().t(), &decay), &ops(&x.exp(), &decay));
        }
    }
}

#[test]
fn gradients_and_their_gradients_are_those_of_differences() {
    for device in devices() {
        let inputs = [matrix(3, 3, 5, &device), vector(&floats(4, 3, 0.2, 0.9), &device)];
        for reverse in [false, true] {
            let function = |x: &[Tensor]| scan(reverse).call([&x[0], &x[1]])[0].square();
            gradcheck(function, &inputs, &Gradcheck::default()).expect("the first derivative");
            for input in 0..2 {
                let first = |x: &[Tensor]| grad(&function(x).sum(), &[&x[input]]).remove(0);
                gradcheck(first, &inputs, &Gradcheck::default()).expect("the second derivative");
            }
        }
        let centre = CustomOp::new(Centre).expect("valid");
        let both = |x: &[Tensor]| {
            let [mean, rest] = centre.call([&x[0]]);
            rest.square() * mean.exp().reshape([-1, 1])
        };
        let one = |x: &[Tensor]| centre.call([&x[0]])[0].square();
        gradcheck(both, &inputs[..1], &Gradcheck::default()).expect("of both outputs");
        gradcheck(one, &inputs[..1], &Gradcheck::default()).expect("of one output");
    }
}

#[test]
fn several_outputs_are_tensors_of_their_own() {
    for device in devices() {
        let centre = CustomOp::new(Centre).expect("valid");
        for (rows, columns) in [(1, 1), (7, 3), (130, 2), (0, 4)] {
            let x = matrix(5, rows, columns, &device);
            let [mean, rest] = centre.call([&x]);
            let expected = x.mean_dim(1);
            assert_same("mean", &mean, &expected);
            assert_same("rest", &rest, &(&x - expected.reshape([rows, 1])));
        }
    }
}

fn scale() -> CustomOp<2> {
    CustomOp::new(Scale).expect("valid")
}

#[test]
fn a_captured_step_trains_through_it_and_reads_host_values_anew() {
    for device in fresh_devices() {
        let x = matrix(6, 33, 20, &device);
        let wanted = vector(&[0.5; 33], &device);
        let [target] = scan(false).call([&x, &wanted]);
        target.to_vec::<f32>().expect("values");
        let decay = Var::parameter("decay", &vector(&[0.1; 33], &device)).expect("memory");
        let optimizer =
            Adam::new(std::slice::from_ref(&decay), AdamOptions { learning_rate: 0.02, ..Default::default() })
                .expect("memory");
        let (hyper, inner) = (Hyper::new(0.0), decay.clone());
        let rate = hyper.clone();
        let mut step = Step::new(&device, move |inputs| {
            let ones = Tensor::full([5], 1.0_f32, inputs[0].device());
            let [shift] = scale().call([&ones, &rate.tensor(inputs[0].device())]);
            let [y] = Stage::Forward.scope(|| scan(false).call([&inputs[0], &inner.tensor()]));
            let loss = Stage::Loss.scope(|| (y - &inputs[1]).square().mean());
            optimizer.update(&loss.backward());
            vec![loss + shift.mean()]
        })
        .expect("a step");
        let mut run = || read(&step.run(&[x.clone(), target.clone()]).expect("a run")[0])[0];
        let first = run();
        let compiled = device.counters().pipelines;
        let last = (0..150).map(|_| run()).last().expect("runs");
        assert!(last < 1e-3 * first, "{first} to {last} on {device:?}");
        hyper.set(2.0);
        let shifted = run();
        assert!((shifted - 2.0).abs() < 0.01, "{shifted}");
        assert_eq!(device.counters().pipelines, compiled, "nothing is compiled again");
        assert_close("what it learnt", &doubles(&decay.tensor()), &[0.5; 33], 1e-2, 0.0);
    }
}

#[test]
fn it_is_planned_like_any_other_op() {
    for device in devices() {
        let decay = Var::state("decay", &vector(&[0.5, 0.25, 0.5], &device)).expect("memory");
        let mut step = Step::new(&device, move |inputs| {
            let [y] = scan(false).call([&(&inputs[0] + 1.0), &decay.tensor()]);
            let [again] = scan(false).call([&(&inputs[0] + 1.0), &decay.tensor()]);
            vec![(y + again).sum()]
        })
        .expect("a step");
        let plan = step.prepare(&[([3, 4].into(), DType::F32)]).expect("a plan").plan.clone();
        let text = plan.to_string();
        let own = plan.kernels.iter().filter(|kernel| kernel.label == "custom.scan[3, 4]");
        assert_eq!(own.count(), 1, "equal calls are one: {text}");
        assert!(text.contains("scan(f32[3, 4], f32[3]) -> f32[3, 4] by [1, 1, 1] with [4, 0]"), "{text}");
        assert!(plan.kernels.len() <= 3, "{text}");
        assert!(plan.why_stored("scan").iter().any(|line| line.contains("a kernel starts or ends")), "{text}");
        assert!(plan.why_stored("add").iter().any(|line| line.contains("a routine reads it")), "{text}");
    }
}

#[test]
fn equal_texts_share_a_pipeline_whatever_the_sizes_and_ops() {
    for device in fresh_devices() {
        let run = |rows: usize, reverse: bool| {
            let (x, decay) = (matrix(1, rows, 4, &device), vector(&vec![0.5; rows], &device));
            drop(CustomOp::new(kernels::Scan { reverse }).expect("valid").call([&x, &decay])[0].to_vec::<f32>());
        };
        run(3, false);
        let made = device.counters().pipelines;
        run(3, true);
        run(200, false);
        assert_eq!(device.counters().pipelines, made, "{device:?}");
    }
}

#[test]
fn a_value_that_is_not_finite_is_traced_to_it() {
    for device in fresh_devices() {
        let decay = Var::parameter("decay", &vector(&[0.5], &device)).expect("memory");
        let inner = decay.clone();
        let optimizer = Adam::new(std::slice::from_ref(&decay), AdamOptions::default()).expect("memory");
        let root = || map!("root", F32, "", "f32", 1, "sqrt(v)", f64::sqrt);
        let mut step = Step::new(&device, move |inputs| {
            let [y] = scan(false).call([&root().call([&inputs[0]])[0].detach(), &inner.tensor()]);
            let loss = y.mean();
            optimizer.update(&loss.backward());
            vec![loss]
        })
        .expect("a step");
        let bad = vector(&[1.0, -1.0, 4.0], &device).reshape([1, 3]);
        step.run(std::slice::from_ref(&bad)).expect("a run");
        assert!(step.halted().expect("a word"), "{device:?}");
        assert_eq!(read(&decay.tensor()), [0.5]);
        let words = step.diagnose(&[bad]).expect("a diagnosis").expect("a culprit");
        assert!(words.contains("root"), "{words}");
    }
}
