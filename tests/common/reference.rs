//! The numbers that `reference/record.py` makes from an integer hash, bit for bit.

use brasa::Tensor;
use brasa::runtime::{Var, VarKind};

/// `record.py`'s `hash32`.
pub fn hash32(name: &str, count: usize) -> impl Iterator<Item = u32> {
    let seed = name.bytes().fold(0x811c_9dc5_u32, |seed, byte| (seed ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    (0..count as u32).map(move |index| {
        let x = seed.wrapping_add(index);
        let x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
        let x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
        x ^ (x >> 16)
    })
}

/// `record.py`'s `signed`: in -1..1, exact in f32.
pub fn signed(name: &str, count: usize) -> Vec<f32> {
    hash32(name, count).map(|bits| (bits >> 8) as f32 * (-23.0_f32).exp2() - 1.0).collect()
}

/// `record.py`'s `classes`: below `bound`.
pub fn classes(name: &str, count: usize, bound: u32) -> Vec<i32> {
    hash32(name, count).map(|bits| (bits % bound) as i32).collect()
}

/// `record.py`'s `fill`: matrices and kernels uniform within 1/sqrt(fan in), scales 1 + v/8, biases v/8; and
/// `record_layers.py`'s `fill_buffers`: means v/8, variances 1 + v/8.
pub fn fill(variables: &[Var]) {
    for variable in variables.iter().filter(|variable| variable.dtype().is_float()) {
        let (name, shape) = (variable.name(), variable.shape().clone());
        let mut values = signed(name, shape.numel());
        if variable.kind() == VarKind::Parameter && shape.rank() >= 2 {
            let bound = (1.0 / (shape[1..].iter().product::<usize>() as f64).sqrt()) as f32;
            values.iter_mut().for_each(|value| *value *= bound);
        } else {
            let scale =
                if variable.kind() == VarKind::Parameter { name.ends_with("weight") } else { name.ends_with("var") };
            let centre = if scale { 1.0 } else { 0.0 };
            values.iter_mut().for_each(|value| *value = *value * 0.125 + centre);
        }
        let value = Tensor::from_slice(&values, shape, variable.device()).expect("memory");
        variable.set(&value).expect("the same shape");
    }
}
