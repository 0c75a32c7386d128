//! A trained model inside an application: reads the weights that a run saved and classifies the held-out digits.
//!
//! Train first (`cargo run --release`), then `cargo run --release --example predict [model.safetensors]`.

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::path::PathBuf;

use brasa::data::{Dataset as _, digits};
use brasa::models::{ModelSpec, create_with};
use brasa::nn::{Init, LoadOptions, Mode, load_weights};
use brasa::runtime::Step;
use brasa::{DType, Device, Result, Tensor};

fn main() -> Result<()> {
    let path = std::env::args_os().nth(1).map_or_else(|| "runs/digits-cnn-1/model.safetensors".into(), PathBuf::from);
    let device = Device::best()?;
    let data = digits()?.test;

    let [channels, height, width] = data.sample_shape();
    let spec = ModelSpec { input: vec![channels, height, width], classes: data.classes(), seed: 0 };
    // The model's weights go by PyTorch's names, in the file as in the program.
    let model = create_with("cnn", &spec, &Init::zeros(&device))?;
    load_weights(model.as_ref(), &path, &LoadOptions::default())?;

    let (scale, offset) = data.normalization();
    let mut predict = Step::new(&device, move |inputs| {
        let pixels = inputs[0].to_dtype(DType::F32) * scale + offset;
        let logits = Mode::Evaluate.scope(|| model.forward(&pixels));
        vec![logits.argmax(1), logits.softmax(1).max_dim(1)]
    })?;

    let size = channels * height * width;
    let mut pixels = vec![0; data.len() * size];
    for (number, sample) in pixels.chunks_exact_mut(size).enumerate() {
        data.get(number, sample)?;
    }
    let results =
        predict.run(&[Tensor::from_bytes(&pixels, [data.len(), channels, height, width], DType::U8, &device)?])?;
    let (guesses, certainties) = (results[0].to_vec::<i32>()?, results[1].to_vec::<f32>()?);

    for (number, line) in pixels.chunks_exact(width).take(height).enumerate() {
        let picture: String = line.iter().map(|&pixel| [" .", " +", " #", " #"][usize::from(pixel) / 5]).collect();
        println!(
            "{picture}{}",
            if number == height / 2 { format!("   is a {}, I think", guesses[0]) } else { String::new() }
        );
    }
    let right = guesses.iter().zip(data.labels()).filter(|&(&guess, &label)| guess == label as i32).count();
    println!(
        "\n{right} of {} right; least certain: {:.2}",
        data.len(),
        certainties.iter().copied().fold(1.0, f32::min)
    );
    Ok(())
}
