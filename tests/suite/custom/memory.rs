//! Where own kernels' values lie: parts of storages, packs, zeros, every type.

use brasa::autodiff::grad;
use brasa::custom::CustomOp;
use brasa::optim::{Optimizer, SGD, SGDOptions};
use brasa::runtime::{Step, Var, checkpoint};
use brasa::{DType, Device, Tensor};

use crate::common::{assert_same, devices, floats, matrix, vector};

use super::kernels::{Histogram, map, scan};
use super::scanned;

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
            assert_same("a part", &outputs[0], &part);
            assert_same("joined", &outputs[1], &Tensor::cat(&[&part, &part], 0));
            assert_same("the whole", &outputs[2], &state.reshape([4, 10]));
            assert_same("the variable", &var.tensor(), &state);
        }
    }
}

#[test]
fn gradients_written_into_one_vector_and_recomputed_segments() {
    for device in devices() {
        let x = matrix(8, 6, 9, &device);
        let decay = vector(&floats(9, 6, 0.1, 0.8), &device);
        let plain = grad(&scan(false).call([&x.tanh(), &decay])[0].square().sum(), &[&x, &decay]);
        let output = checkpoint(|| scan(false).call([&x.tanh(), &decay])[0].square());
        for (got, expected) in grad(&output.sum(), &[&x, &decay]).iter().zip(&plain) {
            assert_same("recomputed", got, expected);
        }
        // the optimizer's arena: gradients are packed, the variables are parts of one storage
        let vars = [("x", &x), ("decay", &decay)].map(|(name, start)| Var::parameter(name, start).expect("memory"));
        let optimizer = SGD::new(&vars, SGDOptions { learning_rate: 1.0, ..Default::default() }).expect("memory");
        let [x_var, decay_var] = vars.clone();
        let mut step = Step::new(&device, move |_| {
            let loss = scan(false).call([&x_var.tensor(), &decay_var.tensor()])[0].square().sum();
            optimizer.update(&loss.backward());
            vec![loss]
        })
        .expect("a step");
        let by = grad(&scan(false).call([&x, &decay])[0].square().sum(), &[&x, &decay]);
        step.run(&[]).expect("a run");
        assert_same("x after the step", &vars[0].tensor(), &(&x - &by[0]));
        assert_same("decay after the step", &vars[1].tensor(), &(&decay - &by[1]));
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
            assert_same("packed f16", &twice.call([&half])[0].to_dtype(DType::F32), &expected);
            let vectors = map!("twice", F32, "", "vec4f", 4, "2.0 * v", |x| 2.0 * x);
            assert_same("vectors", &vectors.call([&x])[0], &(&x * 2.0));
            let native = map!("twice", F16, "enable f16;\n", "f16", 1, "2.0h * v", |x| 2.0 * x);
            let result = native.call([&half])[0].to_dtype(DType::F32);
            if device.is_cpu() || device.info().f16 {
                assert_same("f16", &result, &expected);
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
