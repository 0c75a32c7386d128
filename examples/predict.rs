//! A trained model inside an application: reads the weights that a run saved and classifies the held-out digits.
//!
//! Train first (`cargo run --release`), then `cargo run --release --example predict [model.safetensors]`.

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::path::PathBuf;

use brasa::data::{Dataset as _, Sample, digits};
use brasa::models::{ModelSpec, create_with};
use brasa::nn::{Init, LoadOptions, Mode, load_weights};
use brasa::runtime::Step;
use brasa::{Device, Result, Tensor};

fn main() -> Result<()> {
    let path = std::env::args_os().nth(1).map_or_else(|| "runs/digits-cnn-1/model.safetensors".into(), PathBuf::from);
    let device = Device::best()?;
    let data = digits()?.test;

    let of = data.description().clone();
    let spec = ModelSpec { input: of.shape.clone(), classes: of.classes.len(), seed: 0 };
    // The model's weights go by PyTorch's names, in the file as in the program.
    let model = create_with("cnn", &spec, &Init::zeros(&device))?;
    load_weights(model.as_ref(), &path, &LoadOptions::default())?;

    let mut predict = Step::new(&device, move |inputs| {
        let logits = Mode::Evaluate.scope(|| model.forward(&of.normalization.apply(&inputs[0])));
        vec![logits.argmax(1), logits.softmax(1).max_dim(1)]
    })?;

    let mut sample = Sample::default();
    let mut pixels = Vec::new();
    for number in 0..data.len() {
        data.get(number, &mut sample)?;
        pixels.extend_from_slice(sample.input.as_bytes());
    }
    let [(shape, dtype), ..] = data.description().signature(data.len());
    let results = predict.run(&[Tensor::from_bytes(&pixels, shape, dtype, &device)?])?;
    let (guesses, certainties) = (results[0].to_vec::<i32>()?, results[1].to_vec::<f32>()?);

    for (number, line) in pixels.chunks_exact(8).take(8).enumerate() {
        let picture: String = line.iter().map(|&pixel| [" .", " +", " #", " #"][usize::from(pixel) / 5]).collect();
        println!("{picture}{}", if number == 4 { format!("   is a {}, I think", guesses[0]) } else { String::new() });
    }
    let right = guesses.iter().zip(data.labels()).filter(|&(&guess, &label)| guess == label as i32).count();
    println!(
        "\n{right} of {} right; least certain: {:.2}",
        data.len(),
        certainties.iter().copied().fold(1.0, f32::min)
    );
    Ok(())
}
