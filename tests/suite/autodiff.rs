//! Products with Jacobians and Hessians, custom gradients and the gradient check, against closed forms.

use std::cell::RefCell;

use brasa::autodiff::{
    Gradcheck, Gradients, custom_gradient, grad, gradcheck, hessian, hessian_vector_product, jacobian, jvp, vjp,
};
use brasa::runtime::Var;
use brasa::{DType, Device, Tensor};

use crate::common::{assert_same, devices, matrix, panic_of, read, vector};

#[test]
fn products_with_the_jacobian_of_a_linear_map_are_products_with_its_matrix() {
    for device in devices() {
        let (a, x) = (matrix(1, 3, 5, &device), matrix(2, 5, 1, &device));
        let y = a.matmul(&x);
        let (u, v) = (matrix(3, 3, 1, &device), matrix(4, 5, 1, &device));
        assert_same("jvp", &jvp(&[&y], &[&x], &[&v])[0], &a.matmul(&v));
        assert_same("vjp", &vjp(&[&y], &[&u], &[&x])[0], &a.t().matmul(&u));
        assert_same("jacobian", &jacobian(&y, &x).reshape([3, 5]), &a);
    }
}

#[test]
fn products_agree_with_the_jacobian_of_several_outputs_and_inputs() {
    for device in devices() {
        let (x, w) = (matrix(1, 2, 3, &device), matrix(2, 3, 2, &device));
        let hidden = x.matmul(&w).tanh();
        let outputs = [hidden.softmax(1), (&hidden * &hidden).sum_dim(0) + x.sum()];
        let (v, q) = (matrix(3, 2, 3, &device), matrix(4, 3, 2, &device));
        let moved = jvp(&[&outputs[0], &outputs[1]], &[&x, &w], &[&v, &q]);
        let mut pulled = [x.zeros_like(), w.zeros_like()];
        let cotangents = [matrix(5, 2, 2, &device), matrix(6, 1, 2, &device).reshape([2])];
        for (number, output) in outputs.iter().enumerate() {
            let by_x = jacobian(output, &x).reshape([output.numel(), 6]);
            let by_w = jacobian(output, &w).reshape([output.numel(), 6]);
            let expected = by_x.matmul(&v.reshape([6, 1])) + by_w.matmul(&q.reshape([6, 1]));
            assert_same("jvp", &moved[number].reshape([-1, 1]), &expected);
            let u = cotangents[number].reshape([1, -1]);
            pulled[0] = &pulled[0] + u.matmul(&by_x).reshape([2, 3]);
            pulled[1] = &pulled[1] + u.matmul(&by_w).reshape([3, 2]);
        }
        let got = vjp(&[&outputs[0], &outputs[1]], &[&cotangents[0], &cotangents[1]], &[&x, &w]);
        assert_same("by x", &got[0], &pulled[0]);
        assert_same("by w", &got[1], &pulled[1]);
    }
}

#[test]
fn the_hessian_of_a_quadratic_form_is_its_symmetric_matrix() {
    for device in devices() {
        let (a, x, v) = (matrix(1, 4, 4, &device), matrix(2, 4, 1, &device), matrix(3, 4, 1, &device));
        let y = (x.t().matmul(&a).matmul(&x)).sum();
        let expected = &a + a.t();
        assert_same("hessian", &hessian(&y, &x).reshape([4, 4]), &expected);
        assert_same("product", &hessian_vector_product(&y, &[&x], &[&v])[0], &expected.matmul(&v));
    }
}

#[test]
fn the_hessian_of_a_function_that_mixes_is_the_closed_form() {
    for device in devices() {
        let values = [0.3_f32, -0.7, 1.1];
        let x = vector(&values, &device);
        // y = e^(x0 x1) + sin(x2) x0
        let [a, b, c] = [0, 1, 2].map(|index| x.select(0, index));
        let y = (&a * &b).exp() + c.sin() * &a;
        let [p, q, r] = values.map(f64::from);
        let e = (p * q).exp();
        let expected =
            [q * q * e, (1.0 + p * q) * e, r.cos(), (1.0 + p * q) * e, p * p * e, 0.0, r.cos(), 0.0, -r.sin() * p];
        let expected: Vec<f32> = expected.iter().map(|&value| value as f32).collect();
        assert_same("hessian", &hessian(&y, &x), &vector(&expected, &device).reshape([3, 3]));
    }
}

#[test]
fn products_of_zeros_have_their_second_derivatives() {
    for device in devices() {
        // where i differs from j, the derivative by both is the product of the others
        let x = vector(&[2.0, 0.0, 0.0, 5.0], &device);
        let expected = [0., 0., 0., 0., 0., 0., 10., 0., 0., 10., 0., 0., 0., 0., 0., 0.];
        assert_eq!(read(&hessian(&x.prod(), &x)), expected);
        assert_eq!(read(&hessian(&x.reshape([2, 2]).prod_dim([0, 1]), &x)), expected);
        // a + a b + a b c
        let x = vector(&[2.0, 0.0, 3.0], &device);
        assert_eq!(read(&hessian(&x.cumprod(0).sum(), &x)), [0., 4., 0., 4., 0., 2., 0., 2., 0.]);
        // many factors, along two axes with one between: one zero in the first product, two in the second
        let mut many = vec![1.0; 7 * 2 * 11];
        (many[5], many[22 + 15], many[44 + 12]) = (0.0, 0.0, 0.0);
        let x = vector(&many, &device).reshape([7, 2, 11]);
        let got = read(&grad(&x.prod_dim([0, 2]).sum(), &[&x])[0]);
        let expected: Vec<f32> = (0..many.len()).map(|place| f32::from(u8::from(place == 5))).collect();
        assert_eq!(got, expected);
    }
}

#[test]
fn what_an_output_does_not_depend_on_has_derivatives_of_zero() {
    let device = Device::cpu();
    let (x, other) = (vector(&[1.0, 2.0], &device), vector(&[3.0], &device));
    let y = other.square();
    assert_eq!(read(&jvp(&[&y], &[&x], &[&x])[0]), [0.0]);
    assert_eq!(read(&vjp(&[&y], &[&y], &[&x])[0]), [0.0, 0.0]);
    assert_eq!(read(&hessian_vector_product(&y, &[&x], &[&x])[0]), [0.0, 0.0]);
    assert_eq!(read(&jacobian(&y, &x)), [0.0, 0.0]);
    assert_eq!(*jacobian(&x.narrow(0, 0, 0), &x).shape(), [0, 2].into());
}

#[test]
fn constants_have_gradients_where_they_are_broadcast() {
    let device = Device::cpu();
    let x = vector(&[1.0, 2.0, 3.0], &device);
    let rows = x.reshape([1, 3]).expand([2, 3]);
    let by = |constant: &Tensor, loss: Tensor| read(&grad(&loss.sum(), &[constant])[0]);
    let two = Tensor::scalar(2.0_f32, &device);
    assert_eq!(by(&two, &x * &two), [6.0]);
    let bias = Tensor::zeros([3], &device);
    assert_eq!(by(&bias, &rows * (&rows + &bias)), [2.0, 4.0, 6.0]);
    let ones = Tensor::ones([1, 3], &device);
    assert_eq!(by(&ones, &rows * ones.expand([2, 3])), [2.0, 4.0, 6.0]);
    let weight = Tensor::from_slice(&[1.0_f32, 0.0, 0.0, 0.0, 1.0, 0.0], [2, 3], &device).expect("memory");
    let bias = Tensor::zeros([2], &device);
    assert_eq!(by(&bias, rows.linear(&weight, Some(&bias))), [2.0, 2.0]);
}

#[test]
fn an_output_given_twice_counts_twice() {
    let device = Device::cpu();
    let x = vector(&[3.0], &device);
    let (y, one) = (x.square(), vector(&[1.0], &device));
    assert_eq!(read(&vjp(&[&y, &y], &[&one, &one], &[&x])[0]), [12.0]);
}

#[test]
fn a_custom_gradient_replaces_that_of_the_ops_and_is_differentiated_again() {
    for device in devices() {
        let x = vector(&[0.5, 2.0], &device);
        // x³ that claims to be x⁴/4 + y
        let y = vector(&[1.0, 1.0], &device);
        let z = custom_gradient(
            &[&x, &y],
            |inputs| inputs[0].pow(3),
            |output, inputs, gradient| vec![Some(gradient * output), Some(gradient * inputs[0].ones_like())],
        );
        assert_eq!(read(&z), [0.125, 8.0]);
        let gradients = grad(&z.sum(), &[&x, &y]);
        assert_eq!(read(&gradients[0]), [0.125, 8.0]);
        assert_eq!(read(&gradients[1]), [1.0, 1.0]);
        // the rule's gradient is the output, whose own gradient is the rule's again
        assert_eq!(read(&grad(&gradients[0].sum(), &[&x])[0]), [0.125, 8.0]);
    }
}

#[test]
fn a_rule_that_does_not_fit_says_so() {
    let device = Device::cpu();
    let x = vector(&[0.5, 2.0], &device);
    let none = custom_gradient(&[&x], |inputs| inputs[0].exp(), |_, _, _| Vec::new());
    assert!(panic_of(|| grad(&none, &[&x])).0.contains("0 gradients for 1 inputs"));
    let summed = custom_gradient(&[&x], |inputs| inputs[0].exp(), |_, _, gradient| vec![Some(gradient.sum())]);
    assert!(panic_of(|| grad(&summed, &[&x])).0.contains("a gradient f32 [] for input 0, f32 [2]"));
    let (message, file, _) = panic_of(|| jvp(&[&x], &[&x], &[&x.sum()]));
    assert!(message.contains("the tangent f32 [] is for an input f32 [2]"), "{message}");
    assert_eq!(file, file!());
}

#[test]
fn the_gradient_check_accepts_what_is_right_and_names_what_is_wrong() {
    for device in devices() {
        let x = matrix(7, 3, 4, &device);
        let labels = Tensor::from_slice(&[0, 3, 1], [3], &device).expect("memory");
        let options = Gradcheck::default();
        let loss = |x: &[Tensor]| x[0].log_softmax(1).nll_loss(&x[1], brasa::tensor::Reduction::None);
        gradcheck(loss, &[x.clone(), labels], &options).expect("right");
        gradcheck(|x| grad(&x[0].sigmoid(), &[&x[0]]).remove(0), &[x.to_dtype(DType::F16)], &options).expect("right");

        let wrong = |x: &[Tensor]| {
            custom_gradient(&[&x[0]], |x| x[0].square(), |_, x, gradient| vec![Some(gradient * &x[0] * 2.01)])
        };
        let message = gradcheck(wrong, &[x], &options).expect_err("0.5 % off").to_string();
        assert!(message.contains("output element 0 by element 0 of input 0"), "{message}");
    }
}

#[test]
fn gradients_are_mapped_in_the_order_of_their_leaves() {
    let device = Device::cpu();
    let leaves: Vec<Tensor> = (1..=12).map(|n| vector(&vec![1.0; n], &device)).collect();
    let loss = leaves.iter().map(|leaf| leaf.square().sum()).reduce(|a, b| a + b).expect("twelve");
    let sizes = RefCell::new(Vec::new());
    let gradients = loss.backward().map(|gradient| {
        sizes.borrow_mut().push(gradient.numel());
        gradient * 3.0
    });
    assert_eq!(sizes.into_inner(), (1..=12).collect::<Vec<usize>>());
    assert_eq!(read(&gradients.get(&leaves[1]).expect("a leaf")), [6.0; 2]);
}

#[test]
fn gradients_can_be_counted_and_seen_in_the_order_of_their_leaves() {
    let device = Device::cpu();
    let leaf = vector(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &device);
    let x = leaf.reshape([2, 3]);
    let [a, b] =
        ["a", "b"].map(|name| Var::parameter(name, &Tensor::ones([3], &device)).expect("memory for three numbers"));
    let loss = (x.square() * b.tensor() + a.tensor()).sum();
    let gradients = loss.backward();
    let [twos, column_sums] = [vector(&[2.0; 3], &device), x.square().sum_dim(0)];
    assert_eq!(gradients.len(), 3);
    // those by variables first
    for (got, expected) in gradients.iter().zip([&twos, &column_sums, &(&leaf * 2.0)]) {
        assert_same("iter", got, expected);
    }
    assert_eq!(format!("{gradients:?}"), "Gradients [f32[3], f32[3], f32[6]]");
    assert!(Gradients::new().is_empty() && !gradients.is_empty());
}
