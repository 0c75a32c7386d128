//! The same seed gives the same bits: twice, on any number of threads, and of random numbers on every device.

use brasa::graph::{Node, Op};
use brasa::nn::{Init, Initial};
use brasa::runtime::{random_inputs, seed};
use brasa::{DType, Device, Tensor};

use crate::common::small::Training;
use crate::common::{floats, fresh_devices, panic_of, read};

/// Losses and state after `steps` steps, as bits.
fn trained(device: &Device, steps: u64) -> (Vec<u32>, Vec<(String, Vec<u8>)>) {
    let mut training = Training::new(device, 11);
    let losses = (0..steps).map(|number| training.train(number % 4).to_bits()).collect();
    (losses, training.bits())
}

#[test]
fn the_same_seed_trains_to_the_same_bits() {
    for device in fresh_devices() {
        let first = trained(&device, 20);
        assert!(first == trained(&device, 20), "a second run on the same device, {device:?}");
        let again = device.reopen().expect("reopened");
        assert!(first == trained(&again, 20), "a run on the device opened anew, {device:?}");
    }
}

#[test]
fn the_number_of_threads_changes_no_bit_on_the_cpu() {
    let device = Device::cpu().reopen().expect("a CPU");
    // long sums and large products too: those are cut for threads
    let large = || {
        let matrix = Tensor::from_slice(&floats(1, 300 * 500, -1.0, 1.0), [300, 500], &device).expect("memory");
        let product = matrix.matmul(&matrix.t());
        let tall = Tensor::from_slice(&floats(2, 70_000 * 3, -1.0, 1.0), [70_000, 3], &device).expect("memory");
        let images = Tensor::from_slice(&floats(3, 4 * 3 * 40 * 40, -1.0, 1.0), [4, 3, 40, 40], &device).expect("ok");
        let kernel = Tensor::from_slice(&floats(4, 8 * 3 * 9, -1.0, 1.0), [8, 3, 3, 3], &device).expect("memory");
        let convolved = images.conv2d(&kernel, None, &Default::default());
        let weight = brasa::autodiff::grad(&convolved.square().sum(), &[&kernel]).remove(0);
        let norm = convolved.batch_norm(None, None, 1e-5).output;
        [product.softmax(1), tall.sum_dim(0), tall.t().matmul(&tall), tall.exp().mean(), weight, norm]
            .map(|tensor| read(&tensor).into_iter().map(f32::to_bits).collect::<Vec<_>>())
    };
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        pool.install(|| (trained(&device, 6), large()))
    };
    let one = on(1);
    for threads in [2, 3] {
        assert!(one == on(threads), "{threads} threads");
    }
}

/// 32 random bits for each element: what every other draw is made of.
fn bits(count: usize, device: &Device) -> Tensor {
    let (seed, position, stream) = random_inputs(device);
    Tensor::from_node(Node::new(Op::Random { stream }, vec![seed, position], count.into(), DType::U32, device))
}

/// Indices are drawn as often as their weights say, with and without replacement, on every device.
#[test]
fn weights_decide_how_often_an_index_is_drawn() {
    const ROWS: usize = 5_000;
    let weights = [0.0_f32, 3.0, 0.0, 1.0, 4.0];
    for device in fresh_devices() {
        let one = Tensor::from_slice(&weights, [5], &device).expect("memory");
        let rows = one.expand([ROWS, 5]);
        let share = |drawn: &[i32], index: i32| {
            drawn.iter().filter(|&&drawn| drawn == index).count() as f64 / drawn.len() as f64
        };
        let single: Vec<i32> = one.multinomial(ROWS, true).to_vec().expect("indices");
        let each: Vec<i32> = rows.multinomial(2, true).to_vec().expect("indices");
        let ordered: Vec<i32> = rows.multinomial(3, false).to_vec().expect("indices");
        let first: Vec<i32> = ordered.iter().step_by(3).copied().collect();
        for (drawn, how) in [(&single, "one row"), (&each, "rows"), (&first, "first of several")] {
            for (index, weight) in (0..).zip(weights) {
                // six standard errors of the likeliest
                let (got, expected) = (share(drawn, index), f64::from(weight) / 8.0);
                assert!((got - expected).abs() < 6.0 * (0.25 / ROWS as f64).sqrt(), "{how}, {index}: {got}");
                assert!(weight > 0.0 || got == 0.0, "{how}: {index} has no weight");
            }
        }
        for row in ordered.chunks_exact(3) {
            let mut row = row.to_vec();
            row.sort_unstable();
            assert_eq!(row, [1, 3, 4], "each once, and none without weight");
        }
        // of those whose first is 4, the second is 1 three times of four
        let second: Vec<i32> = ordered.chunks_exact(3).filter(|row| row[0] == 4).map(|row| row[1]).collect();
        assert!((share(&second, 1) - 0.75).abs() < 0.06, "{}", share(&second, 1));
        // sums of more than a window, which are rounded differently from place to place
        let many = (0..1000).map(|index| if index % 2 == 0 { 0.0 } else { 0.1 + (index * 7 % 13) as f32 });
        let many = Tensor::from_iter(many, &device).expect("memory");
        let drawn: Vec<i32> = many.multinomial(200_000, true).to_vec().expect("indices");
        assert!(drawn.iter().all(|index| index % 2 == 1 && (0..1000).contains(index)));
        assert_eq!(one.multinomial(0, false).shape().dims(), [0]);
        let (message, ..) = panic_of(|| one.multinomial(6, false));
        assert!(message.contains("6 of 5 weights [5]"), "{message}");
    }
}

#[test]
fn random_numbers_are_those_of_the_other_devices() {
    let count = 10_007;
    let mut all = Vec::new();
    for device in fresh_devices() {
        seed(&device, 0x1234_5678_9abc).expect("a seed");
        let words: Vec<u32> = bits(count, &device).to_vec().expect("bits");
        let uniform: Vec<u32> = read(&Tensor::rand(count, &device)).into_iter().map(f32::to_bits).collect();
        let integers: Vec<i32> = Tensor::randint(-3, 1000, count, &device).to_vec().expect("integers");
        let kept: Vec<bool> = Tensor::full(count, 0.3_f32, &device).bernoulli().to_vec().expect("truth values");
        let normal = read(&Tensor::randn(count, &device));
        let init = Init::new(&device, 3).at("layer");
        let weights = init.parameter("weight", 1001, Initial::pytorch_default(9)).expect("memory").tensor();
        let weights: Vec<u32> = read(&weights).into_iter().map(f32::to_bits).collect();
        all.push((words, uniform, integers, kept, normal, weights));
    }
    let mut distinct = all[0].0.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert!(distinct.len() > count - 5, "{} different words of {count}", distinct.len());
    for other in &all[1..] {
        let first = &all[0];
        assert!(first.0 == other.0, "bits");
        assert!(first.1 == other.1, "uniform numbers");
        assert!(first.2 == other.2, "integers");
        assert!(first.3 == other.3, "truth values");
        assert!(first.5 == other.5, "weights");
        // Logarithm, root and cosine are each device's own, to 4 ulps each. Where the cosine crosses zero its
        // argument's rounding (the same everywhere) is all that is left, so there it is ulps of the radius, at most
        // 5.8.
        for (index, (a, b)) in first.4.iter().zip(&other.4).enumerate() {
            let allowed = 8.0 * f32::EPSILON * a.abs().max(1.0);
            assert!((a - b).abs() <= allowed, "normal number {index}: {a} and {b}");
        }
    }
}

#[test]
fn a_replay_makes_no_buffers_pipelines_or_bind_groups() {
    for device in fresh_devices().into_iter().filter(|device| !device.is_cpu()) {
        let mut training = Training::new(&device, 3);
        let batch = training.batch(0);
        for _ in 0..3 {
            training.step.run(&batch).expect("a run");
        }
        device.sync().expect("done");
        let before = device.counters();
        for _ in 0..20 {
            training.step.run(&batch).expect("a run");
        }
        device.sync().expect("done");
        let after = device.counters();
        let made = |counters: brasa::device::Counters| (counters.buffers, counters.pipelines, counters.bind_groups);
        assert_eq!(made(before), made(after), "{device:?}");
        assert!(after.submissions > before.submissions, "the counters count");
    }
}

/// Ulps of the f32 nearest to `exact` between `got` and `exact`.
fn ulps(got: f32, exact: f64) -> f64 {
    let size = (exact as f32).abs().max(f32::MIN_POSITIVE);
    (f64::from(got) - exact).abs() / f64::from(size.next_up() - size)
}

#[test]
fn what_normal_numbers_are_made_of_is_good_to_four_ulps_on_every_device() {
    type Case = (&'static str, fn(&Tensor) -> Tensor, fn(f64) -> f64, Vec<f32>);
    let uniform = |low: f32, high: f32| (0..20_000).map(|i| low + (high - low) * (i as f32 / 20_000.0)).collect();
    let below_one = (1..20_000).map(|i| 1.0 - i as f32 * f32::EPSILON / 2.0).collect();
    let scales = (-120..120).flat_map(|e| [1.0, 1.3, 1.414, 1.5, 1.9].map(|m| m * (e as f32).exp2())).collect();
    let cases: [Case; 5] = [
        ("log", Tensor::log, f64::ln, uniform(0.1, 3.0)),
        ("log near 1", Tensor::log, f64::ln, below_one),
        ("log of all sizes", Tensor::log, f64::ln, scales),
        ("cos", Tensor::cos, f64::cos, uniform(-10.0, 10.0)),
        ("sin", Tensor::sin, f64::sin, uniform(-10.0, 10.0)),
    ];
    for device in fresh_devices() {
        for (name, function, exact, arguments) in &cases {
            let input = Tensor::from_slice(arguments, arguments.len(), &device).expect("memory");
            for (&x, y) in arguments.iter().zip(read(&function(&input))) {
                let off = ulps(y, exact(f64::from(x)));
                assert!(off <= 4.0, "{name} of {x:e} is {y:e}, {off} ulps off, on {device:?}");
            }
        }
    }
}
