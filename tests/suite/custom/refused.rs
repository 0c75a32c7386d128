//! What cannot be a kernel, and calls that do not fit.

use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use brasa::custom::{Call, CustomOp, Kernel, Signature};
use brasa::{DType, Error, Scalar, Tensor, wgpu};

use crate::common::{devices, panic_of, vector};

use super::kernels::{Centre, scan};

/// A kernel of one input with whatever text and numbers.
#[derive(Clone)]
struct Odd {
    wgsl: String,
    groups: [u32; 3],
    params: Vec<Scalar>,
}

impl PartialEq for Odd {
    fn eq(&self, other: &Self) -> bool {
        (&self.wgsl, self.groups, &self.params) == (&other.wgsl, other.groups, &other.params)
    }
}

impl Eq for Odd {}

impl Hash for Odd {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.wgsl.hash(state);
    }
}

impl Kernel<1> for Odd {
    fn name(&self) -> &str {
        "odd"
    }
    fn wgsl(&self) -> &str {
        &self.wgsl
    }
    fn outputs(&self, inputs: &[Signature; 1]) -> [Signature; 1] {
        inputs.clone()
    }
    fn groups(&self, _: &Call) -> [u32; 3] {
        self.groups
    }
    fn params(&self, _: &Call) -> Vec<Scalar> {
        self.params.clone()
    }
    fn host(&self, _: &Call, [x]: [&[f64]; 1], [y]: [&mut [f64]; 1]) {
        y.copy_from_slice(x);
    }
}

const INPUT: &str = "@group(0) @binding(0) var<storage, read> x: array<f32>;\n";
const OUTPUT: &str = "@group(0) @binding(1) var<storage, read_write> y: array<f32>;\n";
const MAIN: &str = "@compute @workgroup_size(1) fn main(@builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) groups: vec3u) {
    let n = id.y * groups.x + id.x;
    if n < arrayLength(&y) { y[n] = f32(x[n]); }
}\n";

fn odd(parts: &[&str]) -> Odd {
    Odd { wgsl: parts.concat(), groups: [1, 1, 1], params: Vec::new() }
}

#[test]
fn a_text_that_does_not_fit_is_an_error_with_its_line() {
    let cases: &[(&[&str], Option<u32>, &str)] = &[
        (&[INPUT, OUTPUT, "@compute @workgroup_size(1) fn main() {\n    y[0] = z[0];\n}"], Some(4), "z"),
        (&[INPUT, OUTPUT, "@compute @workgroup_size(1) fn main() { y[0] = x[0] }"], Some(3), "expected"),
        (&[INPUT, OUTPUT, "fn f() -> f32 { return 1u; }\n", MAIN], Some(3), "f"),
        (&[INPUT, OUTPUT, "@compute @workgroup_size(1) fn other() { y[0] = x[0]; }"], None, "[\"other\"]"),
        (&[OUTPUT, "@compute @workgroup_size(1) fn main() { y[0] = 1.0; }"], None, "binding 0 of group 0 is missing"),
        (&[INPUT, "@compute @workgroup_size(1) fn main() { let a = x[0]; }"], None, "`var<storage, read_write>`"),
        (
            &["@group(0) @binding(0) var<storage, read_write> x: array<f32>;\n", OUTPUT, MAIN],
            Some(1),
            "`x` at binding 0 is an input: `var<storage, read>`",
        ),
        (
            &[INPUT, "\n@group(0) @binding(1) var<uniform> y: f32;\n@compute @workgroup_size(1) fn main() {}"],
            Some(3),
            "`y` at binding 1 is an output",
        ),
        (
            &[
                "@group(0) @binding(0) var<storage, read> x: array<vec3f>;\n",
                OUTPUT,
                "@compute @workgroup_size(1) fn main() { y[0] = x[0].x; }",
            ],
            Some(1),
            "`x` is neither of scalars",
        ),
        (
            &[
                "struct P { a: f32 }\n@group(0) @binding(0) var<storage, read> x: array<P>;\n",
                OUTPUT,
                "@compute @workgroup_size(1) fn main() { y[0] = x[0].a; }",
            ],
            Some(2),
            "`x` is neither of scalars",
        ),
        (
            &[INPUT, OUTPUT, "@group(0) @binding(2) var<uniform> p: vec4f;\n", MAIN],
            Some(3),
            "which is neither f32 nor i32 nor u32",
        ),
        (
            &[
                INPUT,
                OUTPUT,
                "@group(1) @binding(0) var<uniform> p: f32;\n",
                "@compute @workgroup_size(1) fn main() { y[0] = x[0] * p; }",
            ],
            Some(3),
            "`p` is bound where nothing is: bindings are 0 to 1",
        ),
        (
            &[
                INPUT,
                OUTPUT,
                "@group(0) @binding(3) var<uniform> p: f32;\n",
                "@compute @workgroup_size(1) fn main() { y[0] = x[0] * p; }",
            ],
            Some(3),
            "`p` is bound where nothing is",
        ),
    ];
    for (parts, expected_line, expected) in cases {
        let Err(error) = CustomOp::new(odd(parts)) else { panic!("{parts:?}") };
        let words = error.to_string();
        let Error::CustomKernel { kernel, line, message } = error else { panic!("{words}") };
        assert_eq!((kernel.as_str(), line), ("odd", *expected_line), "{words}");
        assert!(message.contains(expected), "{words}");
        assert!(words.starts_with("kernel `odd`"), "{words}");
    }
}

#[test]
fn entry_points_of_one_text_may_share_binding_numbers() {
    let other = "@group(0) @binding(1) var<storage, read_write> z: array<u32>;
@compute @workgroup_size(1) fn other() { z[0] = u32(x[0]); }\n";
    for device in devices() {
        let op = CustomOp::new(odd(&[INPUT, other, OUTPUT, MAIN])).expect("`main` uses `y`");
        assert_eq!(op.call([&vector(&[7.0], &device)])[0].to_vec::<f32>().expect("values"), [7.0]);
    }
}

#[test]
fn a_call_that_does_not_fit_is_the_callers_mistake() {
    let device = brasa::Device::cpu();
    let x = vector(&[1.0, 2.0], &device);
    let plain = odd(&[INPUT, OUTPUT, MAIN]);
    let op = CustomOp::new(plain.clone()).expect("valid");
    let (message, file, _) = panic_of(|| op.call([&x.to_dtype(DType::I32)]));
    assert_eq!(message, "odd: binding 0, `x`, of f32 does not take i32[2]");
    assert!(file.ends_with("refused.rs"), "{file}");

    let single = "@group(0) @binding(0) var<storage, read> x: array<f32, 3>;\n";
    let op = CustomOp::new(odd(&[single, OUTPUT, MAIN])).expect("valid");
    let (message, ..) = panic_of(|| op.call([&x]));
    assert_eq!(message, "odd: binding 0, `x`, of f32, takes 12 bytes and not f32[2]");

    let op = CustomOp::new(Odd { groups: [4, 0, 1], ..plain.clone() }).expect("valid");
    let (message, ..) = panic_of(|| op.call([&x]));
    assert!(message.starts_with("odd: groups [4, 0, 1] write nothing of f32[2]"), "{message}");

    let op = CustomOp::new(Odd { params: vec![1_u32.into()], ..plain }).expect("valid");
    let (message, ..) = panic_of(|| op.call([&x]));
    assert_eq!(message, "odd: parameters [1u32] for the uniform's []");
    let uniform = "struct P { a: f32, b: u32 }\n@group(0) @binding(2) var<uniform> p: P;\n";
    let wrong = Odd { params: vec![1_u32.into(); 2], ..odd(&[INPUT, OUTPUT, uniform, MAIN]) };
    let (message, ..) = panic_of(|| CustomOp::new(wrong).expect("valid").call([&x]));
    assert!(message.ends_with("for the uniform's [\"a: f32\", \"b: u32\"]"), "{message}");

    let (message, ..) = panic_of(|| scan(false).call([&x, &x]));
    assert!(message.starts_with("scan: Signature"), "{message}");
    let (message, ..) = panic_of(|| {
        let [y] = CustomOp::new(odd(&[INPUT, OUTPUT, MAIN])).expect("valid").call([&x]);
        brasa::autodiff::grad(&y.sum(), &[&x])
    });
    assert!(message.starts_with("odd has no gradient"), "{message}");
    assert!(CustomOp::new(Centre).is_ok());
}

#[test]
fn more_groups_than_one_dimension_holds_are_spread_by_the_kernel() {
    for device in devices() {
        let count = 70_001;
        let x = vector(&(0..count).map(|n| n as f32).collect::<Vec<_>>(), &device);
        let run = |groups| {
            let op = CustomOp::new(Odd { groups, ..odd(&[INPUT, OUTPUT, MAIN]) }).expect("valid");
            op.call([&x])[0].to_vec::<f32>()
        };
        assert!(run([1000, 71, 1]).expect("values") == x.to_vec::<f32>().expect("values"), "{device:?}");
        if !device.is_cpu() {
            match run([count as u32, 1, 1]) {
                Err(Error::CustomKernel { kernel, message, .. }) => {
                    assert_eq!(kernel, "custom.odd[70001]");
                    assert!(message.contains("[70001, 1, 1] workgroups"), "{message}");
                }
                other => panic!("{:?}", other.map(|values| values.len())),
            }
            assert!(run([1000, 71, 1]).is_ok(), "the device is as it was");
        }
    }
}

#[test]
fn what_a_device_cannot_run_is_its_error_and_not_the_end() {
    for device in devices().into_iter().filter(|device| !device.is_cpu()) {
        let x = vector(&[1.0, 2.0], &device);
        let large = MAIN.replace("workgroup_size(1)", "workgroup_size(64, 64, 64)");
        let wide = MAIN.replace("workgroup_size(1)", "workgroup_size(1, 1, 4096)");
        let memory = format!("var<workgroup> w: array<f32, 10000000>;\n{}", MAIN.replace("f32(x[n])", "w[n] + x[n]"));
        for text in [&large, &wide, &memory] {
            let op = CustomOp::new(odd(&[INPUT, OUTPUT, text])).expect("valid in itself");
            let result = op.call([&x])[0].to_vec::<f32>();
            assert!(matches!(&result, Err(Error::CustomKernel { line: None, .. })), "{result:?}");
        }
        let fine = CustomOp::new(Odd { groups: [2, 1, 1], ..odd(&[INPUT, OUTPUT, MAIN]) }).expect("valid");
        let y: Tensor = fine.call([&x])[0].clone() + 1.0;
        assert!(y.to_vec::<f32>().is_ok());
    }
}

#[test]
fn a_tensor_larger_than_a_binding_is_its_own_error() {
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
    let adapters = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::PRIMARY));
    let Some(adapter) = adapters.into_iter().next() else { return };
    // WebGPU's defaults: 128 MiB
    let opened = pollster::block_on(adapter.request_device(&wgpu::DeviceDescriptor::default()));
    let (device, queue) = opened.expect("opened");
    let limit = device.limits().max_storage_buffer_binding_size;
    let device = brasa::Device::from_wgpu(&adapter, device, queue).expect("good enough");
    let x = Tensor::full([limit as usize / 4 + 1], 1.0_f32, &device);
    let op = CustomOp::new(odd(&[INPUT, OUTPUT, MAIN])).expect("valid");
    let error = op.call([&x])[0].to_vec::<f32>().expect_err("too large");
    let words = error.to_string();
    assert!(
        matches!(error, Error::BindingTooLarge { bytes, limit_bytes, .. } if (bytes, limit_bytes) == (limit + 4, limit)),
        "{words}"
    );
}

/// What the device works on may be what host code would have it change.
#[test]
fn host_code_that_computes_with_tensors_panics() {
    static OTHER: OnceLock<Tensor> = OnceLock::new();

    #[derive(PartialEq, Eq, Hash)]
    struct Reads;

    impl Kernel<1> for Reads {
        fn name(&self) -> &str {
            "reads"
        }
        fn wgsl(&self) -> &str {
            concat!(
                "@group(0) @binding(0) var<storage, read> x: array<f32>;\n",
                "@group(0) @binding(1) var<storage, read_write> y: array<f32>;\n",
                "@compute @workgroup_size(1) fn main() { y[0] = x[0]; }",
            )
        }
        fn outputs(&self, inputs: &[Signature; 1]) -> [Signature; 1] {
            inputs.clone()
        }
        fn groups(&self, _: &Call) -> [u32; 3] {
            [1, 1, 1]
        }
        fn host(&self, _: &Call, [x]: [&[f64]; 1], [y]: [&mut [f64]; 1]) {
            let other = OTHER.get().expect("it is set");
            // in parallel, too
            let read = || f64::from((other + 1.0).item::<f32>().expect("a value"));
            let (a, b) = rayon::join(read, read);
            y[0] = x[0] + a + b;
        }
    }

    let device = brasa::Device::cpu();
    let x = OTHER.get_or_init(|| vector(&[1.0], &device));
    let [y] = CustomOp::new(Reads).expect("valid").call([x]);
    // on a thread of brasa's own
    let panic = catch_unwind(AssertUnwindSafe(|| y.item::<f32>())).expect_err("host code that computes");
    let message = panic.downcast_ref::<&str>().expect("words");
    assert!(message.starts_with("the host code of a custom kernel cannot compute with tensors"), "{message}");
    // and the device works on
    assert_eq!((x + 1.0).item::<f32>().expect("a value"), 2.0);
}
