//! The tensor: a cheap handle to a node of the lazy graph.
//!
//! Methods have PyTorch's names and shapes. They check shapes and types at the call and panic at the caller's line; the
//! same rules are in [`crate::ops`] as functions that return an error. Nothing is computed before a value is read.
//!
//! [`crate::semantics`] says on one page what they mean in doubtful cases: types, integers, NaN, gradients at
//! kinks, empty tensors, threads.

mod activation;
mod adaptive;
mod assign;
mod attention;
mod autocast;
mod conv;
mod create;
mod cumulative;
mod display;
mod distance;
mod einsum;
mod extrema;
mod functions;
mod grid;
mod histogram;
mod index;
mod interop;
mod interpolate;
mod join;
mod linear;
mod loss;
mod math;
mod movement;
mod norm;
mod operand;
mod piecewise;
mod pool;
mod random;
mod readback;
mod reduce;
mod repeat;
mod rounding;
mod scatter;
mod segment;
mod softmax;
mod sort;
mod unique;
mod unpool;
mod variance;
mod vector_norm;
mod windows;

use crate::device::Device;
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::{Node, NodeRef, Op, without_gradient};
use crate::shape::Shape;

pub use attention::Mask;
pub use autocast::autocast;
pub use grid::Outside;
pub use interpolate::Interpolation;
pub use loss::{BinaryCrossEntropy, CTCLoss, CrossEntropy, NLLLoss, Reduction, TripletMargin};
pub use movement::{Axes, Dims};
pub use norm::BatchNorm;
pub use operand::Operand;
pub use repeat::PadMode;
pub use scatter::ScatterOp;
pub(crate) use segment::Groups;
pub use unique::Unique;

/// Words that a routine, which writes one binding, writes on every adapter: WebGPU promises 128 MiB.
const MAX_IN_A_BINDING: usize = 1 << 25;

/// A multi-dimensional array on a device, computed when it is needed.
///
/// Its methods are PyTorch's, and do not change it. It is a handle: cheap to clone, and what it was computed from is
/// kept as long as a gradient may be asked for ([`no_grad`]). Reading a value ([`to_vec`](Self::to_vec),
/// [`item`](Self::item)) computes it with all that it needs, fused into few kernels, by a plan that is kept for the
/// next time. Shapes and numbers are part of plans, so what changes from round to round is better a tensor than a
/// number ([`scalar`](Self::scalar)); a loop over the same shapes is faster as a [`Step`](crate::runtime::Step), which
/// is planned once. Shapes that do not fit panic at the caller's line.
///
/// ```
/// use brasa::{Device, Tensor};
///
/// # fn main() -> brasa::Result<()> {
/// let device = Device::cpu();
/// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3], &device)?;
/// let centred = &x - x.mean_keepdim(0); // [2, 3] - [1, 3]
/// assert_eq!(centred.to_vec::<f32>()?, [-1.5, -1.5, -1.5, 1.5, 1.5, 1.5]);
///
/// let loss = centred.square().sum();
/// let gradients = loss.backward();
/// assert_eq!(gradients.get(&x).expect("it depends on x").shape(), x.shape());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Tensor {
    node: NodeRef,
}

impl Tensor {
    /// The tensor a node stands for.
    pub fn from_node(node: NodeRef) -> Self {
        Self { node }
    }

    /// The node it stands for.
    pub fn node(&self) -> &NodeRef {
        &self.node
    }

    /// Sizes of its axes.
    pub fn shape(&self) -> &Shape {
        &self.node.shape
    }

    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.shape().rank()
    }

    /// Number of elements.
    pub fn numel(&self) -> usize {
        self.shape().numel()
    }

    /// Size of one axis; negative ones count from the back.
    #[track_caller]
    pub fn size(&self, axis: isize) -> usize {
        self.axis_size("size", axis)
    }

    /// [`Tensor::size`] for the method `name`.
    #[track_caller]
    fn axis_size(&self, name: &str, axis: isize) -> usize {
        self.shape()[self.axis(name, axis)]
    }

    /// The elements' type.
    pub fn dtype(&self) -> DType {
        self.node.dtype
    }

    /// Where it lives.
    pub fn device(&self) -> &Device {
        &self.node.device
    }

    /// The same values; no gradient passes through. What is made of it once it is computed keeps nothing of what it was
    /// made of itself: a loop that carries a state on, as truncated backpropagation through time does, calls
    /// `state.detach()` in each round, and [`realize`](Self::realize), without which the state of the round before is
    /// computed twice.
    #[track_caller]
    #[must_use]
    pub fn detach(&self) -> Self {
        Self::apply(Op::Detach, &[self], self.shape().clone(), self.dtype())
    }

    /// The same values on another device, through the host, from where no gradient comes back; itself if it is there
    /// already.
    ///
    /// # Errors
    ///
    /// If a device fails, or in a captured step.
    #[track_caller]
    pub fn to_device(&self, device: &Device) -> Result<Self> {
        if self.device() == device {
            return Ok(self.clone());
        }
        let bytes = pollster::block_on(self.to_bytes())?;
        Self::from_bytes(&bytes, self.shape().clone(), self.dtype(), device)
    }

    /// A new node on the inputs' device, of which there is at least one.
    #[track_caller]
    pub(crate) fn apply(op: Op, inputs: &[&Self], shape: Shape, dtype: DType) -> Self {
        let device = inputs[0].device();
        for input in inputs {
            assert!(
                input.device() == device,
                "tensors are on different devices, {device:?} and {:?}: move one with to_device",
                input.device()
            );
        }
        let inputs = inputs.iter().map(|input| input.node.clone()).collect();
        Self { node: Node::new(op, inputs, shape, dtype, device) }
    }

    /// `self` with a gradient rule of its own: `rule` gets (this tensor, the inputs, its gradient) and returns the
    /// inputs' gradients.
    #[track_caller]
    pub(crate) fn with_gradient(
        &self,
        inputs: &[&Self],
        rule: impl Fn(&Self, &[Self], &Self) -> Vec<Option<Self>> + Send + Sync + 'static,
    ) -> Self {
        let mut nodes = vec![self.node.clone()];
        nodes.extend(inputs.iter().map(|input| input.node.clone()));
        let rule = move |node: &NodeRef, gradient: &NodeRef| {
            let inputs: Vec<Self> = node.inputs[1..].iter().cloned().map(Self::from_node).collect();
            let gradients = rule(&Self::from_node(node.clone()), &inputs, &Self::from_node(gradient.clone()));
            std::iter::once(None).chain(gradients.into_iter().map(|g| g.map(|g| g.node))).collect()
        };
        Self { node: Node::custom(nodes, std::sync::Arc::new(rule)) }
    }

    /// `axis` counted from the front.
    #[track_caller]
    pub(crate) fn axis(&self, name: &str, axis: isize) -> usize {
        crate::ops::ok(crate::ops::resolve_axis(name, self.shape(), axis))
    }
}

/// Runs `f`; no gradient passes through tensors made in it, and they keep nothing of what they were computed from, once
/// they are computed.
///
/// Outside of it and of captured steps every tensor keeps the values it was computed from, as a gradient may be asked
/// for: a loop that carries a tensor on from round to round belongs in here, in a [`Step`](crate::runtime::Step), or
/// carries it on [detached](Tensor::detach) or in a [`Var`](crate::runtime::Var).
pub fn no_grad<T>(f: impl FnOnce() -> T) -> T {
    without_gradient(f)
}
