//! Every op of the table: gradients and second derivatives against central differences in f64 (which proves the rules),
//! and every device against the f64 reference (which proves the kernels).

use std::collections::{HashMap, HashSet};

use brasa::autodiff::grad;
use brasa::doctor::rows::{FAMILIES, Input, Row, family};
use brasa::graph::{NodeRef, reference};
use brasa::ops::conv::ConvOptions;
use brasa::ops::pool::PoolOptions;
use brasa::runtime::realize;
use brasa::tensor::{Interpolation, Outside, ScatterOp, autocast};
use brasa::{DType, Device, Tensor};

use crate::common::{assert_close, devices, floats, panic_of, values};

/// A leaf with these values, which fits.
fn leaf(values: &[f64], shape: &[usize], dtype: DType, device: &Device) -> Tensor {
    let input = Input { shape: shape.to_vec(), low: 0.0, high: 0.0, dtype };
    input.leaf(values, device).expect("a small tensor fits")
}

/// One case of a row with its inputs as leaves.
struct Sample {
    label: String,
    call: fn(&[Tensor]) -> Tensor,
    inputs: Vec<Tensor>,
    values: Vec<Vec<f64>>,
}

impl Sample {
    fn new(row: &Row, case: &[Input], device: &Device) -> Self {
        let values: Vec<Vec<f64>> = case.iter().zip(1..).map(|(input, seed)| input.sample(seed)).collect();
        let leaves = case.iter().zip(&values);
        let inputs = leaves.map(|(input, values)| leaf(values, &input.shape, input.dtype, device)).collect();
        let shapes: Vec<_> = case.iter().map(|input| &input.shape).collect();
        Self { label: format!("{} {shapes:?}", row.name), call: row.call, inputs, values }
    }

    fn floats(&self) -> Vec<&Tensor> {
        self.inputs.iter().filter(|input| input.dtype().is_float()).collect()
    }

    /// The sum of `roots` weighted by fixed numbers, with the float inputs moved by `step` along a fixed direction.
    fn moved(&self, roots: &[NodeRef], step: f64) -> f64 {
        let mut leaves = HashMap::new();
        for (input, (start, seed)) in self.inputs.iter().zip(self.values.iter().zip(100..)) {
            let mut moved = start.clone();
            if input.dtype().is_float() {
                let direction = values(seed, moved.len(), -1.0, 1.0);
                moved.iter_mut().zip(direction).for_each(|(value, direction)| *value += step * direction);
            }
            leaves.insert(input.node().id, moved);
        }
        weighted(&reference::evaluate(roots, &leaves))
    }

    /// The inputs' derivative of [`Self::moved`] by `step`, from a graph.
    fn along(&self, gradients: &[Tensor]) -> f64 {
        let leaves: HashMap<u64, Vec<f64>> =
            self.inputs.iter().map(|input| input.node().id).zip(self.values.iter().cloned()).collect();
        let gradients: Vec<NodeRef> = gradients.iter().map(|gradient| gradient.node().clone()).collect();
        let seeds = self.inputs.iter().zip(100..).filter(|(input, _)| input.dtype().is_float()).map(|(_, seed)| seed);
        reference::evaluate(&gradients, &leaves)
            .iter()
            .zip(seeds)
            .flat_map(|(gradient, seed)| gradient.iter().copied().zip(values(seed, gradient.len(), -1.0, 1.0)))
            .map(|(gradient, direction)| gradient * direction)
            .sum()
    }
}

fn weights(root: usize, count: usize) -> Vec<f64> {
    values(200 + root as u64, count, -1.0, 1.0)
}

fn weighted(roots: &[Vec<f64>]) -> f64 {
    let products = roots.iter().enumerate().flat_map(|(number, root)| root.iter().zip(weights(number, root.len())));
    products.map(|(value, weight)| value * weight).sum()
}

/// The tensor that [`weighted`] computes.
fn weighted_sum(roots: &[Tensor]) -> Tensor {
    let term = |(number, root): (usize, &Tensor)| {
        let weights: Vec<f32> = weights(number, root.numel()).into_iter().map(|weight| weight as f32).collect();
        (root * Tensor::from_slice(&weights, root.shape(), root.device()).expect("a small tensor fits")).sum()
    };
    let mut terms = roots.iter().enumerate().map(term);
    let first = terms.next().expect("there is an output");
    terms.fold(first, |sum, term| sum + term)
}

fn assert_derivative(what: &str, sample: &Sample, roots: &[Tensor], gradients: &[Tensor]) {
    let step = 1e-5;
    let nodes: Vec<NodeRef> = roots.iter().map(|root| root.node().clone()).collect();
    let difference = (sample.moved(&nodes, step) - sample.moved(&nodes, -step)) / (2.0 * step);
    let derivative = sample.along(gradients);
    // constants in the graph are rounded to f32
    let allowed = 2e-6 * (1.0 + difference.abs());
    assert!(
        (derivative - difference).abs() <= allowed,
        "{what} of {}: {derivative} instead of {difference}",
        sample.label
    );
}

fn gradients_agree_with_central_differences(rows: &[Row]) {
    for row in rows {
        for case in &row.cases {
            let sample = Sample::new(row, case, &Device::cpu());
            let output = (sample.call)(&sample.inputs);
            if sample.floats().is_empty() || !output.dtype().is_float() {
                continue;
            }
            let gradients = grad(&weighted_sum(std::slice::from_ref(&output)), &sample.floats());
            for (gradient, input) in gradients.iter().zip(sample.floats()) {
                assert_eq!((gradient.shape(), gradient.dtype()), (input.shape(), input.dtype()), "{}", sample.label);
            }
            assert_derivative("gradient", &sample, &[output], &gradients);
        }
    }
}

fn second_derivatives_agree_with_central_differences(rows: &[Row]) {
    for row in rows {
        for case in &row.cases {
            let sample = Sample::new(row, case, &Device::cpu());
            let output = (sample.call)(&sample.inputs);
            if sample.floats().is_empty() || !output.dtype().is_float() {
                continue;
            }
            let first = grad(&weighted_sum(&[output]), &sample.floats());
            let second = grad(&weighted_sum(&first), &sample.floats());
            assert_derivative("second derivative", &sample, &first, &second);
        }
    }
}

fn every_node_points_at_the_line_that_asked_for_it(rows: &[Row]) {
    for row in rows {
        for case in &row.cases {
            let sample = Sample::new(row, case, &Device::cpu());
            let output = (sample.call)(&sample.inputs);
            let mut roots = vec![output.clone()];
            if output.dtype().is_float() {
                roots.extend(grad(&output, &sample.floats()));
            }
            let mut stack: Vec<NodeRef> = roots.iter().map(|root| root.node().clone()).collect();
            let mut seen = HashSet::new();
            while let Some(node) = stack.pop() {
                if !seen.insert(node.id) {
                    continue;
                }
                let file = node.location.file();
                let random = file.contains("runtime");
                assert!(
                    file.starts_with("src/doctor/rows/") || file.starts_with("tests/") || random,
                    "{}: {node:?} points at {}",
                    sample.label,
                    node.location
                );
                stack.extend(node.inputs.iter().cloned());
            }
        }
    }
}

/// How far a device may be from the reference.
fn assert_agrees(label: &str, got: &Tensor, expected: &[f64], tolerance: f64) {
    let bytes = pollster::block_on(got.to_bytes()).unwrap_or_else(|error| panic!("{label}: {error}"));
    let got_values = reference::decode(got.dtype(), &bytes);
    let exact = !got.dtype().is_float();
    let scale = expected.iter().filter(|value| value.is_finite()).fold(1.0_f64, |scale, value| scale.max(value.abs()));
    let allowed = if exact { 0.0 } else { tolerance * f64::from(f32::EPSILON) };
    assert_close(label, &got_values, expected, allowed, allowed * scale);
}

/// The same values stored otherwise: with reversed axes, or one in every three elements of a longer tensor.
fn stored_otherwise(values: &[f64], input: &Input, device: &Device) -> Vec<Tensor> {
    let rank = input.shape.len();
    let reversed: Vec<usize> = (0..rank).rev().collect();
    let straight = leaf(values, &input.shape, input.dtype, device);
    let turned = straight.permute(reversed.as_slice());
    let turned_values = reference::evaluate(&[turned.node().clone()], &HashMap::new()).remove(0);
    let turned_back = leaf(&turned_values, turned.shape(), input.dtype, device).permute(reversed.as_slice());
    let spread: Vec<f64> = values.iter().flat_map(|&value| [0.0, value, 0.0]).collect();
    let every_third =
        leaf(&spread, &[spread.len()], input.dtype, device).slice_step(0, 1.., 3).reshape(input.shape.as_slice());
    vec![turned_back, every_third]
}

fn devices_agree_with_the_reference(rows: &[Row]) {
    for device in devices() {
        for row in rows {
            for case in &row.cases {
                let sample = Sample::new(row, case, &device);
                let variants: Vec<Vec<Tensor>> = case
                    .iter()
                    .zip(&sample.values)
                    .map(|(input, values)| stored_otherwise(values, input, &device))
                    .collect();
                let mut arguments = vec![sample.inputs.clone()];
                arguments.extend((0..2).map(|number| variants.iter().map(|variant| variant[number].clone()).collect()));
                for (number, inputs) in arguments.iter().enumerate() {
                    let output = (sample.call)(inputs);
                    let mut roots = vec![output.clone()];
                    if output.dtype().is_float() {
                        let wrt: Vec<&Tensor> = inputs.iter().filter(|input| input.dtype().is_float()).collect();
                        roots.extend(grad(&output.square(), &wrt));
                    }
                    let nodes: Vec<NodeRef> = roots.iter().map(|root| root.node().clone()).collect();
                    let expected = reference::evaluate(&nodes, &HashMap::new());
                    if number > 0 {
                        // in one plan; else one after the other
                        realize(&nodes).unwrap_or_else(|error| panic!("{}: {error}", sample.label));
                    }
                    for (which, (root, expected)) in roots.iter().zip(&expected).enumerate() {
                        let label = format!("{device:?}, {}, stored {number}, result {which}", sample.label);
                        assert_agrees(&label, root, expected, row.tolerance);
                    }
                }
            }
        }
    }
}

/// The sweep over each family, as a module of its name: `cargo test --test suite ops::movement` runs one.
macro_rules! families {
    ($($family:ident)*) => {
        $(mod $family {
            fn rows() -> Vec<super::Row> {
                super::family(stringify!($family))
            }

            #[test]
            fn gradients_agree_with_central_differences() {
                super::gradients_agree_with_central_differences(&rows());
            }

            #[test]
            fn second_derivatives_agree_with_central_differences() {
                super::second_derivatives_agree_with_central_differences(&rows());
            }

            #[test]
            fn every_node_points_at_the_line_that_asked_for_it() {
                super::every_node_points_at_the_line_that_asked_for_it(&rows());
            }

            #[test]
            fn devices_agree_with_the_reference() {
                super::devices_agree_with_the_reference(&rows());
            }
        })*

        #[test]
        fn every_family_is_swept() {
            assert_eq!(FAMILIES.map(|family| family.0), [$(stringify!($family)),*]);
        }
    };
}
families!(activations composed elementwise fft functions indexing linalg linear movement pictures reductions sorting windows);

#[test]
fn wrong_inputs_panic_at_the_callers_line() {
    let device = Device::cpu();
    let tensor = |shape: &[usize]| Tensor::zeros(shape, &device);
    let a = tensor(&[3, 4]);
    let b = tensor(&[5, 6]);
    let ints = a.to_dtype(DType::I32);
    type Call = fn(&Tensor, &Tensor, &Tensor) -> Tensor;
    let cases: Vec<(Call, &str)> = vec![
        (|a, b, _| a.matmul(b), "matmul: [3, 4] x [5, 6], inner 4 != 5"),
        (|a, b, _| a + b, "add: [3, 4] and [5, 6] do not broadcast"),
        (|a, _, ints| a * ints, "mul: f32 and i32 do not mix; cast one with to_dtype"),
        (|a, b, _| a.reshape([5, -1]) + b, "reshape: [3, 4] has 12 elements and cannot become [5, -1]"),
        (|a, b, _| a.expand(b.shape()), "expand: [3, 4] does not broadcast to [5, 6]"),
        (|a, _, _| a.sum_dim(2), "sum: [3, 4] has no axis 2"),
        (|a, _, _| a.sum_dim([0, -2]), "sum: an axis of [3, 4] occurs twice in [0, -2]"),
        (|a, _, _| a.permute([0, 0]), "permute: [0, 0] is not an order of the axes of [3, 4]"),
        (|a, _, _| a.narrow(1, 3, 2), "narrow: 2 elements from 3 on of axis 1 of [3, 4]"),
        (
            |a, b, _| a.linear(b, None),
            "linear: [3, 4] x [5, 6], last axes differ or the weight is not [outputs, inputs]",
        ),
        (|_, _, ints| ints.mean(), "mean: not defined for i32; cast with to_dtype"),
        (|_, b, ints| ints.bitwise_and(b), "bitwise_and: i32 and f32 do not mix; cast one with to_dtype"),
        (|a, _, ints| a.cross_entropy(ints), "cross_entropy: [3, 4] with labels [3, 4]"),
        (
            |a, _, ints| a.narrow(0, 0, 0).index_select(0, &ints.flatten(0, -1)),
            "index_select: an index of shape [12] into an axis of size 0",
        ),
        (|a, b, _| a.mse_loss(b, Default::default()), "mse_loss: [3, 4] with target [5, 6]"),
        (|a, b, _| Tensor::cat(&[a, b], 0), "cat: f32[3, 4] and f32[5, 6] along axis 0"),
        (|a, b, _| a.conv2d(b, None, &Default::default()), "conv2d: [3, 4] x [5, 6], both need 4 axes"),
        (
            |a, _, _| {
                let [x, w] = [[1, 1, 3], [1, 1, 2]]
                    .map(|shape: [usize; 3]| a.flatten(0, 1).narrow(0, 0, shape[2]).reshape(shape));
                x.conv_transpose1d(&w, None, &ConvOptions::default().same())
            },
            "conv_transpose1d: `same` is for convolutions; say padding and output_padding",
        ),
        (|a, b, _| Tensor::einsum("ij,jk", &[a, b]), "einsum `ij,jk`: `j` has sizes 4 and 5"),
        (|a, _, _| Tensor::einsum("ijk->i", &[a]), "einsum `ijk->i`: `ijk` has more letters than [3, 4] has axes"),
        (|a, _, _| Tensor::einsum("i->i", &[a]), "einsum `i->i`: `i` has fewer letters than [3, 4] has axes"),
        (|a, _, _| Tensor::einsum("ij->k", &[a]), "einsum `ij->k`: `k` is in no operand"),
        (|a, _, _| Tensor::einsum("ij->ii", &[a]), "einsum `ij->ii`: a letter occurs twice in the output"),
        (|a, _, _| Tensor::einsum("i1->i", &[a]), "einsum `i1->i`: `i1` has something else than letters and one `...`"),
        (|a, b, _| Tensor::einsum("ij", &[a, b]), "einsum `ij`: 2 operands for 1 terms"),
        (|a, b, _| a.bmm(b), "bmm: [3, 4] x [5, 6], ranks are not 3 and 3"),
        (|a, b, _| a.prelu(b), "prelu: [3, 4] with weights [5, 6], neither one nor [channels]"),
        (|a, _, _| a.glu(0), "glu: axis 0 of [3, 4] has no two halves"),
        (|a, _, _| a.unfold(1, 5, 1), "unfold: 5 elements by 1 along axis 1 of [3, 4]"),
        (|a, _, _| a.max_pool2d(2, 2, 2), "max_pool2d: [3, 4] is not [batch, channels, 2 axes]"),
        (|a, _, _| a.roll([1, 2], 0), "roll: 2 shifts for 1 axes"),
        (
            |a, b, _| a.layer_norm(1, Some(b), None, 1e-5),
            "layer_norm: [3, 4] over its last 1 axes with weight or bias [5, 6]",
        ),
        (|a, _, _| a.movedim(5, 0), "movedim: [3, 4] has no axis 5"),
        (
            |a, _, _| a.reshape([1_isize << 40, 1 << 40]),
            "reshape: [3, 4] has 12 elements and cannot become [1099511627776, 1099511627776]",
        ),
        (
            |a, _, ints| {
                let index = ints.flatten(0, -1);
                a.index_put(&[&index.narrow(0, 0, 2), &index.narrow(0, 0, 3)], 0.0, false)
            },
            "index_put: [2] and [3] do not broadcast",
        ),
        (|a, _, ints| a.masked_select(ints).expect("values"), "masked_select: the mask is i32, not bool"),
        (|a, b, _| a.masked_select(&b.gt(0.0)).expect("values"), "masked_select: [3, 4] and [5, 6] do not broadcast"),
        (
            |a, _, _| Tensor::einsum("iii->i", &[&a.flatten(0, -1).narrow(0, 0, 3).reshape([1, 1, 3])]),
            "einsum `iii->i`: `i` has sizes 1 and 3",
        ),
    ];
    for (call, expected) in cases {
        let (message, file, _) = panic_of(|| call(&a, &b, &ints));
        assert_eq!(message, expected);
        assert_eq!(file, file!(), "{expected}");
    }
    let (message, _, line) = panic_of(|| a.matmul(&b));
    assert_eq!((message.as_str(), line), ("matmul: [3, 4] x [5, 6], inner 4 != 5", line!() - 1));
    let (message, file, _) = panic_of(|| drop(ints.to_vec_async::<f32>()));
    assert_eq!(message, "to_vec_async: the elements are i32, not f32; cast with to_dtype");
    assert_eq!(file, file!());
}

/// Each with the name of the op that was called, not of one that it is made of.
#[test]
fn wrong_types_and_windows_panic_at_the_callers_line() {
    let device = Device::cpu();
    let picture = Tensor::zeros([1, 3, 4], &device);
    let ints = picture.to_dtype(DType::I32);
    type Call = fn(&Tensor, &Tensor) -> Tensor;
    let cases: Vec<(Call, &str)> = vec![
        (
            |x, _| x.conv1d(x, None, &ConvOptions::default().dilation(0)),
            "conv1d: dilation 0, which is to be at least 1",
        ),
        (
            |x, _| x.conv1d(x, None, &ConvOptions::default().dilation(0).same()),
            "conv1d: dilation 0, which is to be at least 1",
        ),
        (
            |x, _| x.conv_transpose1d(&x.transpose(0, 1), None, &ConvOptions::default().dilation(0)),
            "conv_transpose1d: dilation 0, which is to be at least 1",
        ),
        (
            |x, _| x.max_pool1d_with(&PoolOptions::new(2).dilation(0)),
            "max_pool1d: dilation 0, which is to be at least 1",
        ),
        (|_, ints| ints.interpolate(3, Interpolation::Linear), "interpolate: not defined for i32; cast with to_dtype"),
        (
            |_, ints| ints.interpolate_scale(2.0, Interpolation::Area),
            "interpolate_scale: not defined for i32; cast with to_dtype",
        ),
        (
            |_, ints| ints.narrow(1, 0, 2).narrow(2, 0, 3).affine_grid([2, 2], false),
            "affine_grid: not defined for i32; cast with to_dtype",
        ),
        (
            |x, _| {
                let grid = x.narrow(1, 0, 1).narrow(2, 0, 2).unsqueeze(0);
                x.narrow(2, 0, 0).unsqueeze(0).grid_sample(&grid, false, Outside::Zeros, false)
            },
            "grid_sample: [1, 1, 3, 0] has no elements to be sampled",
        ),
        (
            |x, ints| {
                let grid = x.narrow(1, 0, 1).narrow(2, 0, 2).unsqueeze(0);
                ints.unsqueeze(0).grid_sample(&grid, false, Outside::Zeros, false)
            },
            "grid_sample: i32 at a grid of f32; cast one with to_dtype",
        ),
        (
            |_, ints| {
                let bytes = ints.to_dtype(DType::U8);
                bytes.scatter_reduce(0, ints, &bytes, ScatterOp::Sum, true)
            },
            "scatter_reduce: Sum is not defined for u8; cast with to_dtype",
        ),
        (|_, ints| ints.adaptive_avg_pool1d(2), "adaptive_avg_pool1d: not defined for i32; cast with to_dtype"),
        (|_, ints| ints.adaptive_avg_pool1d(3), "adaptive_avg_pool1d: not defined for i32; cast with to_dtype"),
        (
            |_, ints| ints.pad(&[(0, 0), (0, 0), (1, 1)], 0.5),
            "0.5 is not representable as i32, the tensor's type; cast the tensor with `to_dtype`",
        ),
        (
            |_, ints| ints.to_dtype(DType::U8).pad(&[(0, 0), (0, 0), (1, 1)], -1),
            "-1 is not representable as u8, the tensor's type; cast the tensor with `to_dtype`",
        ),
        (
            |_, ints| ints.full_like(f64::NAN),
            "NaN is not representable as i32, the tensor's type; cast the tensor with `to_dtype`",
        ),
    ];
    for (call, expected) in cases {
        let (message, file, _) = panic_of(|| call(&picture, &ints));
        assert_eq!(message, expected);
        assert_eq!(file, file!(), "{expected}");
    }
}

#[test]
fn what_is_joined_from_many_points_at_the_line_that_joins() {
    let parts: Vec<Tensor> = (0..9).map(|number| Tensor::full([2], number as f32, &Device::cpu())).collect();
    let halves = Tensor::ones([2], &Device::cpu()).to_dtype(DType::F16);
    let line = line!() + 1;
    let many = Tensor::cat(&parts.iter().collect::<Vec<_>>(), 0);
    let mixed = autocast(DType::F16, || Tensor::cat(&[&parts[0], &halves], 0));
    for (joined, least) in [(many, line), (mixed, line + 1)] {
        let mut stack = vec![joined.node().clone()];
        while let Some(node) = stack.pop() {
            let (file, line) = (node.location.file(), node.location.line());
            assert!(file == file!() && line <= least, "{node:?} points at {}", node.location);
            stack.extend(node.inputs.iter().cloned());
        }
    }
}

#[test]
fn gradients_carry_the_forward_line_and_the_backward_stage() {
    let x = Tensor::from_vec(floats(1, 4, -1.0, 1.0), &Device::cpu()).expect("a small tensor fits");
    let line = line!() + 1;
    let y = x.exp();
    let gradient = grad(&y, &[&x]).remove(0);
    assert_eq!(gradient.node().location.line(), line);
    assert_eq!(gradient.node().stage, brasa::Stage::Backward);
}

#[test]
fn long_chains_neither_overflow_the_stack_nor_the_patience() {
    let x = Tensor::scalar(0.5_f32, &Device::cpu());
    let mut y = Tensor::from_vec(vec![0.5_f32], &Device::cpu()).expect("a small tensor fits");
    let start = y.clone();
    for _ in 0..50_000 {
        y = (&y + &x).relu();
    }
    let gradient = grad(&y, &[&start]).remove(0);
    let values = reference::evaluate(&[y.node().clone(), gradient.node().clone()], &HashMap::new());
    assert_eq!(values, [[25_000.5], [1.0]]);
}

#[test]
fn detach_and_no_grad_stop_gradients() {
    let x = Tensor::from_vec(vec![3.0_f32], &Device::cpu()).expect("a small tensor fits");
    let value = |tensor: &Tensor| reference::evaluate(&[tensor.node().clone()], &HashMap::new())[0][0];
    assert_eq!(value(&grad(&(&x * x.detach()), &[&x])[0]), 3.0);
    assert_eq!(value(&grad(&(&x * brasa::no_grad(|| x.square())), &[&x])[0]), 9.0);
    assert_eq!(value(&grad(&x.square().detach(), &[&x])[0]), 0.0);
    let gradients = (&x * &x).backward();
    assert_eq!(gradients.get(&x).map(|gradient| value(&gradient)), Some(6.0));
}
