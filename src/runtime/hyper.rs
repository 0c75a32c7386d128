//! Host values that captured steps read when they run.

use std::sync::Arc;

use crate::device::Device;
use crate::dtype::{DType, Scalar};
use crate::graph::{HostValue, Node, NodeRef, Source};
use crate::shape::Shape;
use crate::tensor::Tensor;

use super::trace;

/// A host value that captured steps read when they run, such as a learning rate: changing it compiles nothing.
#[derive(Clone, Debug)]
pub struct Hyper(Arc<HostValue>);

impl Hyper {
    /// A value to start with.
    pub fn new(value: f32) -> Self {
        Self(Arc::new(HostValue::new(value.to_bits())))
    }

    /// The value for runs from now on.
    pub fn set(&self, value: f32) {
        self.0.set(value.to_bits());
    }

    /// The value now.
    pub fn get(&self) -> f32 {
        f32::from_bits(self.0.get())
    }

    /// A tensor of shape `[]`: within a step, with the value of the moment when it runs; outside, with that of now.
    #[track_caller]
    pub fn tensor(&self, device: &Device) -> Tensor {
        if !trace::is_tracing() {
            return Tensor::from_node(host_leaf(Scalar { dtype: DType::F32, bits: self.0.get() }, device));
        }
        let node = Node::leaf(Source::Host(self.0.clone()), Shape::default(), DType::F32, device);
        Tensor::from_node(node)
    }
}

/// A leaf holding `value` as a host value: programs that differ only in it are the same program.
#[track_caller]
pub(super) fn host_leaf(value: Scalar, device: &Device) -> NodeRef {
    let host = Arc::new(HostValue::new(value.bits));
    Node::leaf(Source::Host(host), Shape::default(), value.dtype, device)
}
