//! Losses against PyTorch's values and gradients (`reference/record_losses.py`), and at extremes.

use brasa::autodiff::grad;
use brasa::tensor::{BinaryCrossEntropy, CTCLoss, CrossEntropy, NLLLoss, Reduction, TripletMargin};
use brasa::{Device, Tensor};
use serde_json::Value;

use crate::common::{assert_close, devices, doubles, panic_of, read, vector};

#[derive(serde::Deserialize)]
struct Case {
    loss: String,
    options: Value,
    inputs: Vec<Input>,
    value: Vec<f64>,
}

#[derive(serde::Deserialize)]
struct Input {
    shape: Vec<usize>,
    values: Vec<f64>,
    integer: bool,
    gradient: Option<Vec<f64>>,
}

impl Input {
    fn tensor(&self, device: &Device) -> Tensor {
        let tensor = if self.integer {
            let values: Vec<i32> = self.values.iter().map(|&value| value as i32).collect();
            Tensor::from_slice(&values, self.shape.as_slice(), device)
        } else {
            let values: Vec<f32> = self.values.iter().map(|&value| value as f32).collect();
            Tensor::from_slice(&values, self.shape.as_slice(), device)
        };
        tensor.expect("memory")
    }
}

impl Case {
    fn number(&self, name: &str) -> f64 {
        self.options[name].as_f64().unwrap_or_else(|| panic!("{}: no number {name}", self.loss))
    }

    fn flag(&self, name: &str) -> bool {
        self.options[name].as_bool().unwrap_or_else(|| panic!("{}: no flag {name}", self.loss))
    }

    fn reduction(&self) -> Reduction {
        match self.options["reduction"].as_str() {
            Some("none") => Reduction::None,
            Some("mean") => Reduction::Mean,
            Some("sum") => Reduction::Sum,
            other => panic!("{}: reduction {other:?}", self.loss),
        }
    }

    fn ignore(&self) -> Option<i32> {
        self.options["ignore"].as_i64().map(|index| index as i32)
    }

    fn value(&self, x: &[Tensor]) -> Tensor {
        let reduction = self.reduction();
        let entropy = |weight: Option<&Tensor>| CrossEntropy {
            weight: weight.cloned(),
            ignore_index: self.ignore(),
            label_smoothing: self.number("smoothing"),
            reduction,
        };
        let binary = |weight: Option<&Tensor>, pos_weight: Option<&Tensor>| BinaryCrossEntropy {
            weight: weight.cloned(),
            pos_weight: pos_weight.cloned(),
            reduction,
        };
        match self.loss.as_str() {
            "cross_entropy" => x[0].cross_entropy_with(&x[1], &entropy(x.get(2))),
            "cross_entropy_soft" => x[0].cross_entropy_soft_with(&x[1], &entropy(x.get(2))),
            "nll_loss" => {
                let options = NLLLoss { weight: x.get(2).cloned(), ignore_index: self.ignore(), reduction };
                x[0].nll_loss_with(&x[1], &options)
            }
            "multi_margin_loss" => {
                x[0].multi_margin_loss(&x[1], self.number("p") as u32, self.number("margin"), x.get(2), reduction)
            }
            "mse_loss" => x[0].mse_loss(&x[1], reduction),
            "l1_loss" => x[0].l1_loss(&x[1], reduction),
            "smooth_l1_loss" => x[0].smooth_l1_loss(&x[1], self.number("size"), reduction),
            "huber_loss" => x[0].huber_loss(&x[1], self.number("size"), reduction),
            "bce_logits" => x[0].binary_cross_entropy_with_logits_with(&x[1], &binary(x.get(2), x.get(3))),
            "bce" => x[0].binary_cross_entropy_with(&x[1], &binary(x.get(2), None)),
            "soft_margin_loss" => x[0].soft_margin_loss(&x[1], reduction),
            "focal" => x[0].sigmoid_focal_loss(&x[1], self.number("alpha"), self.number("gamma"), reduction),
            "kl_div" => x[0].kl_div(&x[1], self.flag("log_target"), reduction),
            "hinge_embedding_loss" => x[0].hinge_embedding_loss(&x[1], self.number("margin"), reduction),
            "margin_ranking_loss" => x[0].margin_ranking_loss(&x[1], &x[2], self.number("margin"), reduction),
            "cosine_embedding_loss" => x[0].cosine_embedding_loss(&x[1], &x[2], self.number("margin"), reduction),
            "triplet_margin_loss" => {
                let (margin, p, swap) = (self.number("margin"), self.number("p"), self.flag("swap"));
                let options = TripletMargin { margin, p, swap, reduction, ..TripletMargin::default() };
                x[0].triplet_margin_loss(&x[1], &x[2], &options)
            }
            "poisson_nll_loss" => {
                x[0].poisson_nll_loss(&x[1], self.flag("log_input"), self.flag("full"), 1e-8, reduction)
            }
            "gaussian_nll_loss" => x[0].gaussian_nll_loss(&x[1], &x[2], self.flag("full"), 1e-6, reduction),
            "dice_loss" => x[0].dice_loss(&x[1], self.number("epsilon"), reduction),
            "dice_loss_classes" => x[0].dice_loss_classes(&x[1], self.number("epsilon"), reduction),
            "ctc_loss" => {
                let (blank, zero_infinity) = (self.number("blank") as usize, self.flag("zero_infinity"));
                let options = CTCLoss { blank, zero_infinity, reduction };
                x[0].log_softmax(2).ctc_loss(&x[1], &x[2], &x[3], &options)
            }
            other => panic!("unknown loss {other}"),
        }
    }
}

fn check(wanted: impl Fn(&str) -> bool) {
    let cases: Vec<Case> = serde_json::from_str(include_str!("../reference/losses.json")).expect("a record");
    for device in devices() {
        for case in cases.iter().filter(|case| wanted(&case.loss)) {
            let inputs: Vec<Tensor> = case.inputs.iter().map(|input| input.tensor(&device)).collect();
            let value = case.value(&inputs);
            let weights: Vec<f32> = (0..value.numel()).map(|number| (number as f64).cos() as f32).collect();
            let weighted = &value * vector(&weights, &device).reshape(value.shape());
            let (wrt, expected): (Vec<&Tensor>, Vec<&Vec<f64>>) =
                inputs.iter().zip(&case.inputs).filter_map(|(x, input)| Some((x, input.gradient.as_ref()?))).unzip();
            let gradients = grad(&weighted.sum(), &wrt);
            let what = format!("{} {} on {device:?}", case.loss, case.options);
            // f32's rounding of values and of exp and log, a few times
            let close = |what: &str, got: &Tensor, expected: &[f64]| {
                let got: Vec<f64> = read(got).into_iter().map(f64::from).collect();
                assert_close(what, &got, expected, 2e-5, 2e-6);
            };
            close(&what, &value, &case.value);
            for (number, (gradient, expected)) in gradients.iter().zip(expected).enumerate() {
                close(&format!("{what}: gradient {number}"), gradient, expected);
            }
        }
    }
}

#[test]
fn losses_of_labels_are_pytorchs() {
    check(|loss| loss.starts_with("cross_entropy") || loss == "nll_loss" || loss == "multi_margin_loss");
}

#[test]
fn losses_of_yes_and_no_are_pytorchs() {
    check(|loss| loss.starts_with("bce") || loss == "focal" || loss == "soft_margin_loss");
}

#[test]
fn losses_of_distances_are_pytorchs() {
    let ranking = ["margin_ranking_loss", "cosine_embedding_loss", "triplet_margin_loss", "hinge_embedding_loss"];
    check(|loss| ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"].contains(&loss) || ranking.contains(&loss));
}

#[test]
fn losses_of_distributions_are_pytorchs() {
    check(|loss| loss.ends_with("nll_loss") && loss != "nll_loss" || loss == "kl_div" || loss.starts_with("dice"));
}

#[test]
fn connectionist_temporal_classification_is_pytorchs() {
    check(|loss| loss == "ctc_loss");
}

#[test]
fn small_losses_of_large_logits_keep_their_digits() {
    for device in devices() {
        let close = |what: &str, got: Tensor, expected: f64| {
            assert_close(what, &[f64::from(read(&got)[0])], &[expected], 1e-5, 0.0);
        };
        let (logit, yes) = (vector(&[20.0], &device), vector(&[1.0], &device));
        // ln(1 + e^-20)
        close("yes", logit.binary_cross_entropy_with_logits(&yes, Reduction::Sum), 2.061_153_620_314_381e-9);
        let logits = vector(&[10_000.0, 9_999.0, -10_000.0], &device).reshape([1, 3]);
        let label = Tensor::from_slice(&[0], [1], &device).expect("memory");
        // ln(1 + e^-1)
        close("class", logits.cross_entropy(&label), 0.313_261_687_518_222_8);
        let focal = (-&logit).sigmoid_focal_loss(&vector(&[0.0], &device), -1.0, 2.0, Reduction::Sum);
        // σ(-20)² · ln(1 + e^-20): e^-60
        close("focal", focal, 8.756_510_671e-27);
    }
}

#[test]
fn a_nan_is_not_hidden_by_a_margin() {
    let device = Device::cpu();
    let (x, y) = (vector(&[f32::NAN], &device), vector(&[-1.0], &device));
    assert!(read(&x.hinge_embedding_loss(&y, 1.0, Reduction::Sum))[0].is_nan());
    assert!(read(&x.margin_ranking_loss(&x, &y, 1.0, Reduction::Sum))[0].is_nan());
    // the largest difference: 2 and 5
    let rows = |values: [f32; 2]| Tensor::from_slice(&values, [1, 2], &device).expect("memory");
    let options = TripletMargin { p: f64::INFINITY, epsilon: 0.0, ..TripletMargin::default() };
    let loss = rows([0.0, 0.0]).triplet_margin_loss(&rows([1.0, 5.0]), &rows([2.0, 1.0]), &options);
    assert_eq!(read(&loss), [5.0 - 2.0 + 1.0]);
    // at the margin itself, as PyTorch 2.15 has it
    let (one, zero) = (Tensor::ones([1], &device), Tensor::zeros([1], &device));
    let gradient = |loss: Tensor, of: &Tensor| read(&grad(&loss, &[of])[0]);
    assert_eq!(gradient(one.margin_ranking_loss(&one.clone(), &one, 0.0, Reduction::Sum), &one), [0.0]);
    let scores = Tensor::from_slice(&[1.0_f32, 0.0], [1, 2], &device).expect("memory");
    let label = zero.to_dtype(brasa::DType::I32);
    assert_eq!(gradient(scores.multi_margin_loss(&label, 1, 1.0, None, Reduction::Sum), &scores), [0.0, 0.0]);
}

#[test]
fn all_ignored_is_no_number_on_average_and_nothing_in_sum() {
    for device in devices() {
        let logits = vector(&[1.0, 2.0], &device).reshape([1, 2]);
        let labels = Tensor::from_slice(&[7], [1], &device).expect("memory");
        let loss = |reduction| {
            let options = CrossEntropy { ignore_index: Some(7), reduction, ..CrossEntropy::default() };
            logits.cross_entropy_with(&labels, &options)
        };
        assert!(read(&loss(Reduction::Mean))[0].is_nan());
        assert_eq!(read(&loss(Reduction::Sum)), [0.0]);
        assert_eq!(read(&grad(&loss(Reduction::Sum), &[&logits])[0]), [0.0, 0.0]);
    }
}

#[test]
fn a_negative_label_to_ignore_is_none_of_unsigned_ones() {
    for device in devices() {
        let logits = vector(&[1.0, 2.0, 0.5, -1.0], &device).reshape([2, 2]);
        let options = CrossEntropy { ignore_index: Some(-100), ..CrossEntropy::default() };
        let signed = Tensor::from_slice(&[0, 1], [2], &device).expect("memory");
        let unsigned = Tensor::from_slice(&[0_u32, 1], [2], &device).expect("memory");
        let expected = read(&logits.cross_entropy(&signed));
        assert_close(
            "u32",
            &[read(&logits.cross_entropy_with(&unsigned, &options))[0].into()],
            &[expected[0].into()],
            1e-6,
            0.0,
        );
    }
}

#[test]
fn shapes_that_do_not_fit_are_named() {
    let device = Device::cpu();
    let (matrix, column) = (Tensor::ones([3, 4], &device), Tensor::ones([3, 1], &device));
    let labels = Tensor::from_slice(&[0, 1, 2], [3], &device).expect("memory");
    let message = |f: &dyn Fn() -> Tensor| panic_of(f).0;
    let mean = Reduction::Mean;
    let weighted = CrossEntropy { weight: Some(Tensor::ones([3], &device)), ..CrossEntropy::default() };
    for (message, expected) in [
        (message(&|| matrix.huber_loss(&column, 1.0, mean)), "huber_loss: [3, 4] with target [3, 1]"),
        (message(&|| matrix.cross_entropy_with(&labels, &weighted)), "cross_entropy: weights [3] for 4 classes"),
        (message(&|| matrix.cosine_embedding_loss(&matrix, &column, 0.0, mean)), "[3, 4] with target [3, 1]"),
        (message(&|| matrix.multi_margin_loss(&labels, 3, 1.0, None, mean)), "p is 3"),
        (message(&|| matrix.ctc_loss(&matrix, &labels, &labels, &CTCLoss::default())), "[time, batch, classes]"),
    ] {
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn weights_and_variances_never_enlarge_the_losses() {
    for device in devices() {
        let column = Tensor::ones([4, 1], &device);
        let (x, t) = (vector(&[0.5, -1.0, 2.0, 0.0], &device), vector(&[1.0, 0.0, 1.0, 0.0], &device));
        for options in [
            BinaryCrossEntropy { weight: Some(column.clone()), ..BinaryCrossEntropy::default() },
            BinaryCrossEntropy { pos_weight: Some(column.clone()), ..BinaryCrossEntropy::default() },
        ] {
            let (message, ..) = panic_of(|| x.binary_cross_entropy_with_logits_with(&t, &options));
            assert!(message.contains("[4, 1]") && message.contains("[4]"), "{message}");
        }
        let (message, ..) = panic_of(|| x.gaussian_nll_loss(&t, &column, false, 1e-6, Reduction::Mean));
        assert_eq!(message, "gaussian_nll_loss: variances [4, 1] for [4]");
        // one for each row, though it fits columns as well
        let (zeros, twos) = (Tensor::zeros([2, 2], &device), Tensor::full([2, 2], 2.0, &device));
        let losses = zeros.gaussian_nll_loss(&twos, &vector(&[1.0, 4.0], &device), false, 1e-6, Reduction::None);
        let second = 0.5 * (4f64.ln() + 1.0);
        assert_close("rows", &doubles(&losses), &[2.0, 2.0, second, second], 1e-6, 1e-6);
    }
}

#[test]
fn a_triplet_at_no_distance_has_a_gradient() {
    for device in devices() {
        let [anchor, negative] = [[1.0, 2.0], [2.0, 2.0]].map(|row| vector(&row, &device).reshape([1, 2]));
        let options = TripletMargin { margin: 2.0, epsilon: 0.0, ..TripletMargin::default() };
        let loss = anchor.triplet_margin_loss(&anchor.detach(), &negative, &options);
        assert_eq!(read(&grad(&loss, &[&anchor]).remove(0)), [1.0, 0.0], "{device:?}: that of the negative alone");
    }
}
