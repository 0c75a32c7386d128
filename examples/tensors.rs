//! Tensors: what they are, how they are made, and what can be done with them.
//!
//! `cargo run --release --example tensors`

#![expect(clippy::print_stdout, reason = "an example prints")]

use brasa::{DType, Device, Result, Tensor};

fn main() -> Result<()> {
    // The best device there is; everything below is the same on any other.
    let device = Device::best()?;
    println!("on {}\n", device.info().name);

    // A tensor is a box of numbers of one type with any number of axes. None at all: a single number.
    let number = Tensor::scalar(2.5_f32, &device);
    // One axis: a row of numbers. Two: a table. A picture has three (channels, height, width), a batch of pictures
    // four.
    let row = Tensor::from_slice(&[1.0_f32, 2.0, 3.0], [3], &device)?;
    let table = Tensor::arange(6, &device).reshape([2, 3]);
    let pictures = Tensor::zeros([8, 3, 32, 32], &device);
    for tensor in [&number, &row, &table, &pictures] {
        println!("{} of {} axes, {} elements, {}", tensor.shape(), tensor.rank(), tensor.numel(), tensor.dtype());
    }
    println!("\n{table}\n");

    // Elementwise operations; a smaller tensor is repeated along the axes it lacks.
    let table = table.to_dtype(DType::F32);
    println!("{}\n", &table * 10.0 + &row);

    // Views cost nothing: they are other ways to look at the same numbers.
    println!("transposed {}, first column {}\n", table.t(), table.select(1, 0));

    // Sums over axes, and products of matrices: [2, 3] times [3, 2] is [2, 2].
    println!("sums of columns {}", table.sum_dim(0));
    println!("{}\n", table.matmul(&table.t()));

    // Nothing was computed before it was printed, and then as few kernels as possible were: this is one.
    let one_kernel = ((&table - table.mean()) / 2.0).tanh().square().sum();
    println!("one number comes back to the host: {}", one_kernel.item::<f32>()?);
    println!("or all of them: {:?}", table.to_vec::<f32>()?);
    Ok(())
}
