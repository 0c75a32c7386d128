//! The kernels that are tested.

use std::hash::{Hash, Hasher};
use std::sync::LazyLock;

use brasa::custom::{Call, CustomOp, Kernel, Signature};
use brasa::{DType, Scalar, Tensor};

/// `y[r, t] = decay[r] · y[r, t - 1] + x[r, t]` from the left, or with `t + 1` from the right; an invocation has a row.
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct Scan {
    pub(crate) reverse: bool,
}

pub(crate) fn scan(reverse: bool) -> &'static CustomOp<2> {
    static OPS: LazyLock<[CustomOp<2>; 2]> =
        LazyLock::new(|| [false, true].map(|reverse| CustomOp::new(Scan { reverse }).expect("valid WGSL")));
    &OPS[usize::from(reverse)]
}

impl Kernel<2> for Scan {
    fn name(&self) -> &str {
        "scan"
    }

    fn wgsl(&self) -> &str {
        "struct Params { length: u32, reverse: u32 }
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> decay: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(3) var<uniform> params: Params;

@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
    if id.x >= arrayLength(&decay) { return; }
    let first = id.x * params.length;
    var sum = 0.0;
    for (var step = 0u; step < params.length; step++) {
        let t = first + select(step, params.length - 1u - step, params.reverse == 1u);
        sum = decay[id.x] * sum + x[t];
        y[t] = sum;
    }
}"
    }

    fn outputs(&self, [x, decay]: &[Signature; 2]) -> [Signature; 1] {
        assert!(x.shape.rank() == 2 && decay.shape.dims() == &x.shape[..1], "scan: {x:?} and {decay:?}");
        [x.clone()]
    }

    fn groups(&self, call: &Call) -> [u32; 3] {
        [call.inputs[1].shape.numel().div_ceil(64) as u32, 1, 1]
    }

    fn params(&self, call: &Call) -> Vec<Scalar> {
        vec![(call.inputs[0].shape[1] as u32).into(), u32::from(self.reverse).into()]
    }

    fn host(&self, call: &Call, [x, decay]: [&[f64]; 2], [y]: [&mut [f64]; 1]) {
        let length = call.inputs[0].shape[1];
        for (row, decay) in decay.iter().enumerate() {
            let mut sum = 0.0;
            for step in 0..length {
                let t = row * length + if self.reverse { length - 1 - step } else { step };
                sum = decay * sum + x[t];
                y[t] = sum;
            }
        }
    }

    fn gradient(&self, [x, decay]: &[Tensor; 2], [y]: &[Tensor; 1], [gradient]: &[Tensor; 1]) -> [Option<Tensor>; 2] {
        let [by_x] = scan(!self.reverse).call([gradient, decay]);
        let length = x.shape()[1];
        let (mut later, mut earlier) = (1..length, 0..length.max(1) - 1);
        if self.reverse {
            std::mem::swap(&mut later, &mut earlier);
        }
        let by_decay = (by_x.slice(1, later) * y.slice(1, earlier)).sum_dim(1);
        [Some(by_x), Some(by_decay)]
    }
}

/// The mean of each row, and the rows without it.
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct Centre;

impl Kernel<1, 2> for Centre {
    fn name(&self) -> &str {
        "centre"
    }

    fn wgsl(&self) -> &str {
        "@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> mean: array<f32>;
@group(0) @binding(2) var<storage, read_write> rest: array<f32>;
@group(0) @binding(3) var<uniform> width: u32;

@compute @workgroup_size(32) fn rows(@builtin(global_invocation_id) id: vec3u) {
    if id.x >= arrayLength(&mean) { return; }
    var sum = 0.0;
    for (var c = 0u; c < width; c++) { sum += x[id.x * width + c]; }
    mean[id.x] = sum / f32(width);
    for (var c = 0u; c < width; c++) { rest[id.x * width + c] = x[id.x * width + c] - sum / f32(width); }
}"
    }

    fn entry(&self) -> &str {
        "rows"
    }

    fn outputs(&self, [x]: &[Signature; 1]) -> [Signature; 2] {
        [Signature::new(DType::F32, [x.shape[0]]), x.clone()]
    }

    fn groups(&self, call: &Call) -> [u32; 3] {
        [call.outputs[0].shape.numel().div_ceil(32) as u32, 1, 1]
    }

    fn params(&self, call: &Call) -> Vec<Scalar> {
        vec![(call.inputs[0].shape[1] as u32).into()]
    }

    fn host(&self, call: &Call, [x]: [&[f64]; 1], [mean, rest]: [&mut [f64]; 2]) {
        let width = call.inputs[0].shape[1];
        for (row, mean) in mean.iter_mut().enumerate() {
            let row = row * width..(row + 1) * width;
            *mean = x[row.clone()].iter().sum::<f64>() / width as f64;
            rest[row.clone()].iter_mut().zip(&x[row]).for_each(|(rest, x)| *rest = x - *mean);
        }
    }

    fn gradient(&self, [x]: &[Tensor; 1], _: &[Tensor; 2], [mean, rest]: &[Tensor; 2]) -> [Option<Tensor>; 1] {
        let rows = x.shape()[0];
        let of_mean = (mean / x.shape()[1] as f32).reshape([rows, 1]);
        [Some(rest - rest.mean_dim(1).reshape([rows, 1]) + of_mean)]
    }
}

/// `y = rate · x`, where `rate` is a single number.
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct Scale;

impl Kernel<2> for Scale {
    fn name(&self) -> &str {
        "scale"
    }

    fn wgsl(&self) -> &str {
        "@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> rate: f32;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
    if id.x < arrayLength(&y) { y[id.x] = rate * x[id.x]; }
}"
    }

    fn outputs(&self, [x, _]: &[Signature; 2]) -> [Signature; 1] {
        [x.clone()]
    }

    fn groups(&self, call: &Call) -> [u32; 3] {
        [call.inputs[0].shape.numel().div_ceil(64) as u32, 1, 1]
    }

    fn host(&self, _: &Call, [x, rate]: [&[f64]; 2], [y]: [&mut [f64]; 1]) {
        y.iter_mut().zip(x).for_each(|(y, x)| *y = rate[0] * x);
    }
}

/// How many elements have each value below 5.
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct Histogram;

impl Kernel<1> for Histogram {
    fn name(&self) -> &str {
        "histogram"
    }

    fn wgsl(&self) -> &str {
        "@group(0) @binding(0) var<storage, read> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> counts: array<atomic<u32>, 5>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
    if id.x < arrayLength(&x) { atomicAdd(&counts[x[id.x]], 1u); }
}"
    }

    fn outputs(&self, _: &[Signature; 1]) -> [Signature; 1] {
        [Signature::new(DType::U32, [5])]
    }

    fn groups(&self, call: &Call) -> [u32; 3] {
        [call.inputs[0].shape.numel().div_ceil(64) as u32, 1, 1]
    }

    fn zeroed(&self) -> bool {
        true
    }

    fn host(&self, _: &Call, [x]: [&[f64]; 1], [counts]: [&mut [f64]; 1]) {
        x.iter().for_each(|&x| counts[x as usize] += 1.0);
    }
}

/// An elementwise kernel over words or vectors: its text, and what it does to an element.
#[derive(Eq)]
pub(crate) struct Map {
    pub(crate) name: &'static str,
    pub(crate) wgsl: &'static str,
    pub(crate) function: fn(f64) -> f64,
    /// Elements of an invocation.
    pub(crate) lanes: usize,
    pub(crate) dtype: DType,
}

impl PartialEq for Map {
    fn eq(&self, other: &Self) -> bool {
        (self.name, self.wgsl) == (other.name, other.wgsl)
    }
}

impl Hash for Map {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.name, self.wgsl).hash(state);
    }
}

impl Kernel<1> for Map {
    fn name(&self) -> &str {
        self.name
    }

    fn wgsl(&self) -> &str {
        self.wgsl
    }

    fn outputs(&self, [x]: &[Signature; 1]) -> [Signature; 1] {
        [Signature { dtype: self.dtype, ..x.clone() }]
    }

    fn groups(&self, call: &Call) -> [u32; 3] {
        [call.inputs[0].shape.numel().div_ceil(self.lanes).div_ceil(64) as u32, 1, 1]
    }

    fn host(&self, _: &Call, [x]: [&[f64]; 1], [y]: [&mut [f64]; 1]) {
        y.iter_mut().zip(x).for_each(|(y, &x)| *y = (self.function)(x));
    }
}

/// `y = body(x)` over arrays of elements `ty`.
macro_rules! map {
    ($name:literal, $dtype:ident, $enable:literal, $ty:literal, $lanes:literal, $body:literal, $function:expr) => {
        CustomOp::new($crate::custom::kernels::Map {
            name: $name,
            wgsl: concat!(
                $enable,
                "@group(0) @binding(0) var<storage, read> x: array<",
                $ty,
                ">;
@group(0) @binding(1) var<storage, read_write> y: array<",
                $ty,
                ">;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
    if id.x < arrayLength(&y) { let v = x[id.x]; y[id.x] = ",
                $body,
                "; }
}"
            ),
            function: $function,
            lanes: $lanes,
            dtype: DType::$dtype,
        })
        .expect("valid WGSL")
    };
}
pub(crate) use map;
