//! A call of an own kernel as the graph and plans hold it.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use crate::dtype::DType;
use crate::shape::Shape;

use super::host;
use super::op::Definition;
use super::{Call, Interface, Signature};

/// Where a binding may start, in bytes.
pub(crate) const ALIGNMENT: usize = 256;

/// A kernel with the sizes it is called with. Equal ones compute the same from the same inputs.
#[derive(Clone)]
pub struct Invocation {
    pub(super) kernel: Arc<dyn Definition>,
    /// What it binds.
    pub(crate) interface: Arc<Interface>,
    /// Types and shapes.
    pub(crate) call: Call,
    /// Workgroups.
    pub(crate) groups: [u32; 3],
    /// The uniform's words.
    pub(crate) params: Vec<u32>,
}

impl Invocation {
    /// The kernel's name.
    pub fn name(&self) -> &str {
        self.kernel.name()
    }

    /// Sums and products, about.
    pub(crate) fn flops(&self) -> u64 {
        self.kernel.flops(&self.call)
    }

    /// Whether its outputs are zero when it starts.
    pub(crate) fn zeroed(&self) -> bool {
        self.kernel.zeroed()
    }

    /// The outputs' type.
    pub(crate) fn dtype(&self) -> DType {
        self.call.outputs[0].dtype
    }

    /// The node's shape: that of the only output, or a vector that several outputs lie in.
    pub(crate) fn shape(&self) -> Shape {
        match &self.call.outputs[..] {
            [output] => output.shape.clone(),
            _ => [self.parts().last().map_or(0, |part| part.end.max(part.start + self.least()))].into(),
        }
    }

    /// Where each output lies in the node's value; each starts where a binding may.
    pub(crate) fn parts(&self) -> Vec<Range<usize>> {
        let per_line = ALIGNMENT / self.dtype().size_bytes();
        let mut end: usize = 0;
        let part = |elements: usize| {
            let start = end.next_multiple_of(per_line);
            end = start + elements.max(self.least());
            start..start + elements
        };
        self.call.outputs.iter().map(|output| output.shape.numel()).map(part).collect()
    }

    /// Elements that an output has room for: an empty one is bound as one, if the kernel runs.
    fn least(&self) -> usize {
        usize::from(self.call.outputs.iter().any(|output| output.shape.numel() > 0))
    }

    /// Computes the node's value on the host; what lies between outputs is left as it is.
    pub(crate) fn evaluate(&self, inputs: &[&[f64]], value: &mut [f64]) {
        let mut outputs = self.outputs(value);
        outputs.iter_mut().for_each(|output| output.fill(0.0));
        host::run(|| self.kernel.host(&self.call, inputs, &mut outputs));
    }

    /// The same in f32, if the kernel has such a form; else false.
    pub(crate) fn evaluate_f32(&self, inputs: &[&[f32]], value: &mut [f32]) -> bool {
        let mut outputs = self.outputs(value);
        if self.zeroed() {
            outputs.iter_mut().for_each(|output| output.fill(0.0));
        }
        host::run(|| self.kernel.host_f32(&self.call, inputs, &mut outputs))
    }

    /// True if nothing but f32 goes in and comes out.
    pub(crate) fn is_f32(&self) -> bool {
        self.call.inputs.iter().chain(&self.call.outputs).all(|signature| signature.dtype == DType::F32)
    }

    /// The outputs in the node's value.
    fn outputs<'a, T>(&self, mut value: &'a mut [T]) -> Vec<&'a mut [T]> {
        let (mut outputs, mut start) = (Vec::new(), 0);
        for part in self.parts() {
            let (output, rest) = value[part.start - start..].split_at_mut(part.len());
            outputs.push(output);
            (value, start) = (rest, part.end);
        }
        outputs
    }
}

/// Types and shapes as text.
pub(super) fn list(signatures: &[Signature]) -> String {
    signatures.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl PartialEq for Invocation {
    fn eq(&self, other: &Self) -> bool {
        self.call == other.call
            && self.groups == other.groups
            && self.params == other.params
            && self.kernel.is(&*other.kernel)
    }
}

impl Eq for Invocation {}

impl Hash for Invocation {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.kernel.identify(state);
        (&self.call, self.groups, &self.params).hash(state);
    }
}

impl fmt::Debug for Invocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (inputs, outputs) = (list(&self.call.inputs), list(&self.call.outputs));
        write!(f, "{}({inputs}) -> {outputs} by {:?}", self.name(), self.groups)?;
        if self.params.is_empty() { Ok(()) } else { write!(f, " with {:?}", self.params) }
    }
}
