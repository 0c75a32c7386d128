//! Fourier transforms, and what frames of signals are multiplied by.

use crate::dtype::DType;
use crate::error::Result;
use crate::fft::{self, Complex};
use crate::tensor::Tensor;

use super::super::proto::ElementType;
use super::call::{Call, Outputs, fail, one};
use super::checks;
use super::table::{Operator, op};

pub(super) const OPERATORS: &[Operator] = &[
    op("DFT", 17, transform),
    op("STFT", 17, frames),
    op("HannWindow", 17, |call| window(call, &[0.5, -0.5])),
    op("HammingWindow", 17, |call| window(call, &[25.0 / 46.0, -21.0 / 46.0])),
    op("BlackmanWindow", 17, |call| window(call, &[0.42, -0.5, 0.08])),
    op("MelWeightMatrix", 17, mel_weights),
];

/// A signal whose last axis is one of real parts, or of pairs.
fn signal(signal: &Tensor) -> Result<(Tensor, Option<Tensor>)> {
    let shape = signal.shape();
    match shape.last() {
        Some(1) if shape.rank() > 1 => Ok((signal.select(-1, 0), None)),
        Some(2) if shape.rank() > 1 => Ok((signal.select(-1, 0), Some(signal.select(-1, 1)))),
        _ => fail(format!("the last axis of {shape} is neither of real numbers, 1, nor of complex ones, 2")),
    }
}

fn transform(call: &Call<'_>) -> Outputs {
    let x = call.float(0)?;
    let (re, im) = signal(&x)?;
    let whole = x.shape();
    let number = match call.opset() {
        ..20 => call.int("axis", 1)?,
        _ => match call.given(2) {
            None => -2,
            Some(_) => call.scalar_int(2)?,
        },
    };
    let axis = checks::axis(number, whole.rank(), whole)?;
    if axis == re.rank() {
        return fail(format!("axis {number} of {whole} is that of the parts"));
    }
    let (inverse, half) = (call.flag("inverse")?, call.flag("onesided")?);
    let there = re.shape()[axis];
    let n = match call.given(1) {
        None if inverse && half => 2 * there.max(1) - 2,
        None => there,
        Some(_) => checks::sizes(&[call.scalar_int(1)?], "the length")?[0],
    };
    if n == 0 || there == 0 || n > fft::MOST {
        return fail(format!("a transform of {n} points of {there}"));
    }
    let mut sizes = whole.to_vec();
    (sizes[axis], sizes[re.rank()]) = (n, 2);
    call.shape(&sizes)?;
    let axis = axis.cast_signed();
    let z = match &im {
        Some(im) => Complex::new(re.clone(), im.clone()),
        None if inverse => Complex::real(&re),
        None if half => return one(fft::rfft(&re, n, axis).to_pairs()),
        None => return one(fft::whole_of_real(&re, n, axis).to_pairs()),
    };
    match (inverse, half) {
        (true, true) => one(fft::irfft(&z, n, axis).unsqueeze(-1)),
        (true, false) => one(fft::ifft(&z, n, axis).to_pairs()),
        (false, half) => {
            let z = fft::fft(&z, n, axis);
            one(if half { z.map(|part| part.slice(axis, ..=n / 2)) } else { z }.to_pairs())
        }
    }
}

fn frames(call: &Call<'_>) -> Outputs {
    let x = call.float(0)?;
    // PyTorch leaves the axis of parts out
    let (re, im) = if x.rank() == 2 { (x.clone(), None) } else { signal(&x)? };
    if re.rank() != 2 {
        return fail(format!("{} is not [batch, points, 1 or 2]", x.shape()));
    }
    let window = call.optional_float(2)?;
    let told = call.given(3).map(|_| call.scalar_int(3)).transpose()?;
    let size = match (told, &window) {
        (Some(size), _) => checks::sizes(&[size], "the frame's length")?[0],
        (None, Some(window)) => window.numel(),
        (None, None) => return fail("has neither a window nor a frame's length"),
    };
    let step = checks::sizes(&[call.scalar_int(1)?], "the step")?[0];
    let there = re.shape()[1];
    if size == 0 || step == 0 || size > there.min(fft::MOST) {
        return fail(format!("frames of {size} points, one every {step}, of a signal of {there}"));
    }
    if let Some(window) = window.as_ref().filter(|window| *window.shape() != [size].into()) {
        return fail(format!("a window {} for frames of {size} points", window.shape()));
    }
    call.shape(&[re.shape()[0], (there - size) / step + 1, size, 2])?;
    let framed = |part: &Tensor| {
        let frames = part.unfold(-1, size, step);
        match &window {
            Some(window) => frames * window.to_dtype(part.dtype()),
            None => frames,
        }
    };
    let half = call.int("onesided", 1)? != 0;
    one(match (im, half) {
        (None, true) => fft::rfft(&framed(&re), None, -1).to_pairs(),
        (None, false) => fft::whole_of_real(&framed(&re), size, -1).to_pairs(),
        (Some(im), false) => fft::fft(&Complex::new(framed(&re), framed(&im)), None, -1).to_pairs(),
        (Some(_), true) => return fail("complex signals have no spectra of one side"),
    })
}

/// The type that attribute `output_datatype` asks for.
fn type_of(call: &Call<'_>) -> Result<DType> {
    let number = call.int("output_datatype", 1)?;
    ElementType::of(i32::try_from(number).unwrap_or(0))?.dtype()
}

fn window(call: &Call<'_>, cosines: &[f64]) -> Outputs {
    let size = checks::sizes(&[call.scalar_int(0)?], "the size")?[0];
    call.shape(&[size])?;
    let periodic = call.int("periodic", 1)? != 0;
    one(fft::cosines(cosines, size, periodic, call.device()).to_dtype(type_of(call)?))
}

/// Triangles between points of a spectrum, whose corners are rounded down to points.
fn mel_weights(call: &Call<'_>) -> Outputs {
    let [bands, n] = [call.scalar_int(0)?, call.scalar_int(1)?];
    let [bands, n] = [checks::sizes(&[bands], "the bands")?[0], checks::sizes(&[n], "the length")?[0]];
    let [rate, low, high] = [call.scalar(2)?, call.scalar(3)?, call.scalar(4)?];
    let points = n / 2 + 1;
    call.shape(&[points, bands + 2])?;
    let lowest = fft::mel(low);
    let step = (fft::mel(high) - lowest) / (bands + 2) as f64;
    let corner = |number: usize| {
        let hertz = 700.0 * (10.0_f64.powf((lowest + step * number as f64) / 2595.0) - 1.0);
        ((n + 1) as f64 * hertz / rate).floor()
    };
    let corners: Vec<f64> = (0..bands + 2).map(corner).collect();
    if !corners.iter().all(|&corner| corner >= 0.0 && corner < points as f64) {
        return fail(format!("bands from {low} to {high} Hz at {rate} Hz, outside of {points} points"));
    }
    let mut weights = vec![0.0_f32; points * bands];
    for (band, corner) in corners.windows(3).enumerate() {
        let [left, middle, right] = [corner[0], corner[1], corner[2]];
        let mut set = |point: f64, weight: f64| weights[point as usize * bands + band] = weight as f32;
        for point in left as usize..=middle as usize {
            let weight = if middle > left { (point as f64 - left) / (middle - left) } else { 1.0 };
            set(point as f64, weight);
        }
        for point in middle as usize..right as usize {
            set(point as f64, (right - point as f64) / (right - middle));
        }
    }
    one(Tensor::from_slice(&weights, [points, bands], call.device())?.to_dtype(type_of(call)?))
}
