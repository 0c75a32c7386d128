//! Own kernels on both devices: values, gradients, captured steps, memory, types.

#[path = "../common/mod.rs"]
mod common;
mod kernels;
mod refused;

use brasa::autodiff::{Gradcheck, grad, gradcheck};
use brasa::custom::CustomOp;
use brasa::optim::{Adam, AdamOptions, Optimizer};
use brasa::runtime::{Hyper, Step, Var, checkpoint};
use brasa::{DType, Device, Stage, Tensor};

use common::{assert_close, devices, floats, fresh_devices, read, vector};
use kernels::{Centre, Histogram, Scale, scan};

fn matrix(seed: u64, rows: usize, columns: usize, device: &Device) -> Tensor {
    vector(&floats(seed, rows * columns, -1.0, 1.0), device).reshape([rows, columns])
}

/// The recurrence as tensor ops, one column after the other.
fn scanned(x: &Tensor, decay: &Tensor) -> Tensor {
    let mut columns = vec![x.slice(1, 0..1)];
    for t in 1..x.shape()[1] {
        columns.push(decay.reshape([-1, 1]) * &columns[t - 1] + x.slice(1, t..t + 1));
    }
    Tensor::cat(&columns.iter().collect::<Vec<_>>(), 1)
}

#[track_caller]
fn close(what: &str, got: &Tensor, expected: &Tensor) {
    assert_eq!(got.shape(), expected.shape(), "{what}");
    let [got, expected] = [got, expected].map(|x| read(x).into_iter().map(f64::from).collect::<Vec<_>>());
    assert_close(what, &got, &expected, 1e-5, 1e-5);
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
            close("values", &y, &expected);
            let gradients = grad(&y, &[&x, &decay]).into_iter().zip(grad(&expected, &[&x, &decay]));
            gradients.for_each(|(got, expected)| close("gradients", &got, &expected));
            close("transposed", &own(&x.t().exp().t(), &decay), &ops(&x.exp(), &decay));
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
            close("mean", &mean, &expected);
            close("rest", &rest, &(&x - expected.reshape([rows, 1])));
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
        let learnt: Vec<f64> = read(&decay.tensor()).into_iter().map(f64::from).collect();
        assert_close("what it learnt", &learnt, &[0.5; 33], 1e-2, 0.0);
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
fn values_lie_where_bindings_may_start() {
    for device in devices() {
        // parts of a variable that start anywhere; the variable itself is overwritten by what is computed from it
        let start = floats(7, 40, -1.0, 1.0);
        let var = Var::state("rows", &vector(&start, &device)).expect("memory");
        let inner = var.clone();
        let mut step = Step::new(&device, move |inputs| {
            let all = inner.tensor();
            let [part] = scan(false).call([&all.slice(0, 3..13).reshape([2, 5]), &all.slice(0, 1..3)]);
            let [whole] = scan(false).call([&all.reshape([4, 10]), &inputs[0]]);
            inner.assign(&whole.reshape([40]));
            vec![part.clone(), Tensor::cat(&[&part, &part], 0), whole]
        })
        .expect("a step");
        let decay = vector(&[0.5, 0.1, 0.9, 0.0], &device);
        let host = vector(&start, &Device::cpu());
        let mut state = host;
        for _ in 0..2 {
            let outputs = step.run(std::slice::from_ref(&decay)).expect("a run");
            let part = scanned(&state.slice(0, 3..13).reshape([2, 5]), &state.slice(0, 1..3));
            state = scanned(&state.reshape([4, 10]), &decay.to_device(&Device::cpu()).expect("moved")).reshape([40]);
            close("a part", &outputs[0], &part);
            close("joined", &outputs[1], &Tensor::cat(&[&part, &part], 0));
            close("the whole", &outputs[2], &state.reshape([4, 10]));
            close("the variable", &var.tensor(), &state);
        }
    }
}

#[test]
fn gradients_written_into_one_vector_and_recomputed_segments() {
    for device in devices() {
        let x = matrix(8, 6, 9, &device);
        let decay = vector(&floats(9, 6, 0.1, 0.8), &device);
        let plain = grad(&scan(false).call([&x.tanh(), &decay])[0].square().sum(), &[&x, &decay]);
        let output = checkpoint(&[&x, &decay], |inputs| scan(false).call([&inputs[0].tanh(), &inputs[1]])[0].square());
        for (got, expected) in grad(&output.sum(), &[&x, &decay]).iter().zip(&plain) {
            close("recomputed", got, expected);
        }
        // the optimizer's arena: gradients are packed, the variables are parts of one storage
        let vars = [("x", &x), ("decay", &decay)].map(|(name, start)| Var::parameter(name, start).expect("memory"));
        let optimizer =
            brasa::optim::Sgd::new(&vars, brasa::optim::SgdOptions { learning_rate: 1.0, ..Default::default() })
                .expect("memory");
        let [x_var, decay_var] = vars.clone();
        let mut step = Step::new(&device, move |_| {
            let loss = scan(false).call([&x_var.tensor(), &decay_var.tensor()])[0].square().sum();
            optimizer.update(&loss.backward());
            vec![loss]
        })
        .expect("a step");
        let by = grad(&scan(false).call([&x, &decay])[0].square().sum(), &[&x, &decay]);
        step.run(&[]).expect("a run");
        close("x after the step", &vars[0].tensor(), &(&x - &by[0]));
        close("decay after the step", &vars[1].tensor(), &(&decay - &by[1]));
    }
}

#[test]
fn outputs_may_start_as_zeros() {
    for device in devices() {
        let histogram = CustomOp::new(Histogram).expect("valid");
        for count in [0, 1, 1001] {
            let values: Vec<u32> = (0..count).map(|n| n * n % 5).collect();
            let x = Tensor::from_vec(values.clone(), &device).expect("memory");
            let mut step = Step::new(&device, {
                let histogram = histogram.clone();
                move |inputs| vec![&histogram.call([&inputs[0]])[0] + 0_u32]
            })
            .expect("a step");
            let expected: Vec<u32> = (0..5).map(|v| values.iter().filter(|&&x| x == v).count() as u32).collect();
            for _ in 0..2 {
                let counts = step.run(std::slice::from_ref(&x)).expect("a run");
                assert_eq!(counts[0].to_vec::<u32>().expect("values"), expected, "{device:?}");
            }
        }
    }
}

#[test]
fn every_type_lies_as_documented() {
    for device in devices() {
        for count in [1, 3, 8, 130] {
            let bytes: Vec<u8> = (0..count).map(|n| (n * 37 % 251) as u8).collect();
            let x = Tensor::from_vec(bytes.clone(), &device).expect("memory");
            let [y] = map!("complement", U8, "", "u32", 4, "~v", |x| 255.0 - x).call([&x]);
            assert_eq!(y.to_vec::<u8>().expect("values"), bytes.iter().map(|b| !b).collect::<Vec<_>>());
            let truths: Vec<bool> = bytes.iter().map(|b| b % 2 == 0).collect();
            let x = Tensor::from_vec(truths.clone(), &device).expect("memory");
            let [y] = map!("negate", Bool, "", "vec2u", 8, "v ^ vec2u(0x01010101u)", |x| 1.0 - x).call([&x]);
            assert_eq!(y.to_vec::<bool>().expect("values"), truths.iter().map(|b| !b).collect::<Vec<_>>());
            let x = vector(&floats(10, count, -4.0, 4.0), &device);
            let half = x.to_dtype(DType::F16);
            let twice = map!("twice", F16, "", "u32", 2, "pack2x16float(2.0 * unpack2x16float(v))", |x| 2.0 * x);
            let expected = (&half * 2.0).to_dtype(DType::F32);
            close("packed f16", &twice.call([&half])[0].to_dtype(DType::F32), &expected);
            let vectors = map!("twice", F32, "", "vec4f", 4, "2.0 * v", |x| 2.0 * x);
            close("vectors", &vectors.call([&x])[0], &(&x * 2.0));
            let native = map!("twice", F16, "enable f16;\n", "f16", 1, "2.0h * v", |x| 2.0 * x);
            let result = native.call([&half])[0].to_dtype(DType::F32);
            if device.is_cpu() || device.info().f16 {
                close("f16", &result, &expected);
            } else {
                let error = result.to_vec::<f32>().expect_err("no f16 in shaders").to_string();
                assert!(error.contains("f16"), "{error}");
            }
            let whole = Tensor::from_vec((0..count as i32).collect::<Vec<_>>(), &device).expect("memory");
            let [y] = map!("opposite", I32, "", "i32", 1, "-v", |x| -x).call([&whole]);
            assert_eq!(y.to_vec::<i32>().expect("values"), (0..count as i32).map(|n| -n).collect::<Vec<_>>());
        }
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
