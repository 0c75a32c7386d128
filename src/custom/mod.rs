//! Own kernels: WGSL of the application's as an op like any other.
//!
//! A type that implements [`Kernel`] has everything that an op consists of: the WGSL, the shapes of its outputs, how
//! many workgroups to start, the same computation on the host, and its gradient. [`CustomOp::new`] checks the WGSL, and
//! [`CustomOp::call`] puts it into the graph, eagerly or in a captured step.
//!
//! ```
//! use brasa::custom::{Call, CustomOp, Kernel, Signature};
//! use brasa::{Device, Result, Tensor};
//!
//! /// `y = x · sigmoid(x)`, element by element.
//! #[derive(PartialEq, Eq, Hash)]
//! struct Swish;
//!
//! impl Kernel<1> for Swish {
//!     fn name(&self) -> &str {
//!         "swish"
//!     }
//!
//!     fn wgsl(&self) -> &str {
//!         "@group(0) @binding(0) var<storage, read> x: array<f32>;
//!          @group(0) @binding(1) var<storage, read_write> y: array<f32>;
//!          @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
//!              if id.x < arrayLength(&y) { y[id.x] = x[id.x] / (1.0 + exp(-x[id.x])); }
//!          }"
//!     }
//!
//!     fn outputs(&self, inputs: &[Signature; 1]) -> [Signature; 1] {
//!         [inputs[0].clone()]
//!     }
//!
//!     fn groups(&self, call: &Call) -> [u32; 3] {
//!         [call.outputs[0].shape.numel().div_ceil(64) as u32, 1, 1]
//!     }
//!
//!     fn host(&self, _: &Call, [x]: [&[f64]; 1], [y]: [&mut [f64]; 1]) {
//!         y.iter_mut().zip(x).for_each(|(y, x)| *y = x / (1.0 + (-x).exp()));
//!     }
//!
//!     fn gradient(&self, [x]: &[Tensor; 1], [y]: &[Tensor; 1], [gradient]: &[Tensor; 1]) -> [Option<Tensor>; 1] {
//!         [Some(gradient * (y + x.sigmoid() * (1.0 - y)))]
//!     }
//! }
//!
//! # fn main() -> Result<()> {
//! let swish = CustomOp::new(Swish)?;
//! let x = Tensor::from_slice(&[-1.0_f32, 0.0, 2.0], [3], &Device::best()?)?;
//! let [y] = swish.call([&x]);
//! let slope = brasa::autodiff::grad(&y.sum(), &[&x]);
//! assert!((y.to_vec::<f32>()?[2] - 1.7616).abs() < 1e-4);
//! assert!((slope[0].to_vec::<f32>()?[2] - 1.0908).abs() < 1e-4);
//! # Ok(())
//! # }
//! ```
//!
//! `examples/custom_kernel.rs` trains through a recurrence that tensor ops cannot express well.
//!
//! # What the WGSL sees
//!
//! Bindings are those of group 0, in this order and without gaps: the inputs (`var<storage, read>`), the outputs
//! (`var<storage, read_write>`), and, if the kernel has parameters, one `var<uniform>`. Tensors are row-major. A
//! binding is an array of scalars or of vectors of 2 or 4, or a single one of these, or (outputs) of `atomic<u32>` or
//! `atomic<i32>`, and its type decides which tensors it takes:
//!
//! | tensor | in WGSL |
//! | --- | --- |
//! | f32, i32, u32 | `f32`, `i32`, `u32` |
//! | f16 | `f16` (with `enable f16;`, on adapters that have it), or `u32`: two to a word, the first in the low half, as `unpack2x16float` takes them |
//! | u8, bool | `u32`: four to a word, the first in the lowest byte; a bool is 0 or 1 |
//!
//! `arrayLength` is the tensor's: elements, or vectors and words rounded up, whose last one may have elements of no
//! meaning behind the tensor's own; an empty tensor is bound as one such. What else depends on sizes goes into the
//! uniform: a struct of f32, i32 and u32 members that [`Kernel::params`] fills. So all sizes share one compiled kernel,
//! as do all ops with the same text. Values that change between replays of a captured step, such as a
//! [`Hyper`](crate::runtime::Hyper)'s tensor, are inputs: `var<storage, read> rate: f32` takes a tensor of shape `[]`.
//!
//! Outputs hold anything when the kernel starts and have to be written completely, unless [`Kernel::zeroed`] says
//! otherwise. There is no order among workgroups. The kernel is compiled with bounds checks and cleared workgroup
//! memory, as wgpu compiles an application's shaders: a wrong index stays inside the bindings. How a row is divided
//! among invocations, and with it the order of sums, is the kernel's own; so is whether every device gives the same
//! bits. Mesa's llvmpipe silently ends an invocation's loops after 65,535 steps in all.
//!
//! # What it is in the graph
//!
//! One node (a long call of a [batched](Kernel::is_batched) kernel may be several), which reads and writes whole
//! values: what makes its inputs and what takes its outputs are kernels of their own. Its output lies in a slot of the
//! plan, is checked with `BRASA_VALIDATE=1` against [`Kernel::host`], recomputed in a checkpoint, gated, timed and
//! printed like any other. It has to be a function of its inputs and of `self`: a second call on the same tensors may
//! be the first one's result.
//!
//! The CPU runs [`Kernel::host`], in f64, or [`Kernel::host_f32`] where there is one, on one thread unless it starts
//! others itself.

mod host;
mod interface;
mod invocation;
mod op;

use std::fmt;
use std::hash::Hash;

use crate::dtype::{DType, Scalar};
use crate::shape::Shape;
use crate::tensor::Tensor;

pub(crate) use host::assert_outside;
pub(crate) use interface::Interface;
pub(crate) use invocation::ALIGNMENT;
pub use invocation::Invocation;
pub use op::CustomOp;

/// Type and shape of an input or output.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Signature {
    /// The elements' type.
    pub dtype: DType,
    /// The sizes of the axes.
    pub shape: Shape,
}

impl Signature {
    /// A value of this type and shape.
    pub fn new(dtype: DType, shape: impl Into<Shape>) -> Self {
        Self { dtype, shape: shape.into() }
    }
}

impl fmt::Display for Signature {
    /// As in `f32[3, 4]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.dtype, self.shape)
    }
}

/// What a kernel is called with.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Call {
    /// The inputs, in the order of their bindings.
    pub inputs: Vec<Signature>,
    /// The outputs, as [`Kernel::outputs`] has them.
    pub outputs: Vec<Signature>,
}

/// Workgroups of one dimension; adapters allow twice as many, nearly.
const GROUPS: usize = 1 << 15;

/// So many workgroups.
pub(crate) fn folded(groups: usize) -> [u32; 3] {
    let across = groups.min(GROUPS);
    [across as u32, groups.div_ceil(across.max(1)) as u32, 1]
}

/// An own kernel: what [`CustomOp`] makes an op of. The module's documentation has an example.
///
/// `Eq` and `Hash` say which kernels are the same to the plan cache: two that are equal compute the same, so what the
/// kernel depends on (variants, constants, the text if it is generated) has to take part.
pub trait Kernel<const INPUTS: usize, const OUTPUTS: usize = 1>: Eq + Hash + Send + Sync + 'static {
    /// The op's name in errors, plans and timings, in snake case.
    fn name(&self) -> &str;

    /// The WGSL; the module's documentation says what it binds.
    fn wgsl(&self) -> &str;

    /// The name of the compute entry point.
    fn entry(&self) -> &str {
        "main"
    }

    /// Types and shapes of the outputs; several outputs have one type. Asserts what it needs of the inputs' shapes.
    fn outputs(&self, inputs: &[Signature; INPUTS]) -> [Signature; OUTPUTS];

    /// Workgroups in each dimension, each at most 65,535 on most adapters; none only if there is nothing to write, or
    /// if zeros are to stay.
    fn groups(&self, call: &Call) -> [u32; 3];

    /// The members of the uniform, in order.
    fn params(&self, call: &Call) -> Vec<Scalar> {
        let _ = call;
        Vec::new()
    }

    /// True if the outputs have to be zero when the kernel starts, because it only adds to them: costs one more launch.
    fn zeroed(&self) -> bool {
        false
    }

    /// Sums and products of a call, about. A system ends what keeps its GPU busy for seconds: by this a call of a
    /// [batched](Self::is_batched) kernel is made as several, and what is handed over at once is kept short. Unless
    /// implemented, one for each element of inputs and outputs.
    fn flops(&self, call: &Call) -> u64 {
        call.inputs.iter().chain(&call.outputs).map(|signature| signature.shape.numel() as u64).sum()
    }

    /// True if what stands at each index of the first axis, which all inputs and outputs have alike, is computed of
    /// nothing else, so that a long call may be made as several shorter ones.
    fn is_batched(&self) -> bool {
        false
    }

    /// The same computation on the host: what the CPU runs, and what the kernel is checked against. Elements are
    /// row-major, a bool is 0 or 1; outputs are zero before and are rounded to their types after. It runs on a thread of
    /// brasa's own, and so does what it does in parallel by rayon. The device waits for it: computing with tensors there
    /// panics (and on threads of yet others it would wait for ever).
    fn host(&self, call: &Call, inputs: [&[f64]; INPUTS], outputs: [&mut [f64]; OUTPUTS]);

    /// The same in f32, for a kernel of which speed on the CPU is asked: called instead of [`host`](Self::host) where all
    /// inputs and outputs are f32, with the values as they lie in memory. Outputs hold anything before, unless
    /// [`zeroed`](Self::zeroed) says otherwise. The default returns false, which says that there is no such form of this
    /// call; then nothing may have been written.
    fn host_f32(&self, call: &Call, inputs: [&[f32]; INPUTS], outputs: [&mut [f32]; OUTPUTS]) -> bool {
        let _ = (call, inputs, outputs);
        false
    }

    /// The gradients of the inputs, each of its input's shape, from those of the outputs; `None` for an input that has
    /// none. Written in tensor methods and ops of the same kind, it can be differentiated again.
    ///
    /// # Panics
    ///
    /// Unless implemented: the op has no gradient.
    fn gradient(
        &self,
        inputs: &[Tensor; INPUTS],
        outputs: &[Tensor; OUTPUTS],
        gradients: &[Tensor; OUTPUTS],
    ) -> [Option<Tensor>; INPUTS] {
        let _ = (inputs, outputs, gradients);
        panic!("{} has no gradient: implement `Kernel::gradient`, or detach its inputs", self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::folded;

    #[test]
    fn workgroups_are_spread_over_two_dimensions() {
        assert_eq!(folded(0), [0, 0, 1]);
        assert_eq!(folded(70_000), [32_768, 3, 1]);
    }
}
