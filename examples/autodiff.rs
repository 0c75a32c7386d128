//! Gradients: asked for after the fact, of anything, as often as one likes.
//!
//! `cargo run --release --example autodiff`

#![expect(clippy::print_stdout, reason = "an example prints")]

use brasa::autodiff::{grad, hessian_vector_product};
use brasa::runtime::Var;
use brasa::{Device, Result, Tensor, no_grad};

fn main() -> Result<()> {
    let device = Device::best()?;

    // y = x², dy/dx = 2x: by every leaf that y depends on, or by those that are named.
    let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0], [3], &device)?;
    let y = x.square().sum();
    let dx = y.backward().get(&x).expect("y depends on x");
    println!("the gradient of x squared at {x} is {dx}");

    // A gradient is a tensor like any other, so it has gradients, too.
    let slope = grad(&x.pow(3.0).sum(), &[&x]).remove(0);
    let curvature = grad(&slope.sum(), &[&x]).remove(0);
    println!("of x cubed: {slope}, and once more: {curvature}");

    // Products with second derivatives, without the matrix of all of them.
    let direction = Tensor::from_slice(&[1.0_f32, 0.0, 0.0], [3], &device)?;
    let product = hessian_vector_product(&(&x * x.sin()).sum(), &[&x], &[&direction]).remove(0);
    println!("the Hessian of x sin x along the first axis: {product}");

    // What should not have a gradient is detached, or computed without.
    let mean = no_grad(|| x.mean());
    let centred = grad(&(&x - mean).square().sum(), &[&x]).remove(0);
    println!("with the mean as a constant: {centred}");

    // Going downhill by hand: the square root of 2, as the least of (w² - 2)².
    let w = Var::parameter("w", &Tensor::scalar(1.0_f32, &device))?;
    for step in 0..8 {
        let value = w.tensor();
        let loss = (value.square() - 2.0).square();
        let slope = grad(&loss, &[&value]).remove(0);
        w.assign(&(&value - slope * 0.06));
        println!("step {step}: w = {:.6}, loss = {:.2e}", w.tensor().item::<f32>()?, loss.item::<f32>()?);
    }
    Ok(())
}
