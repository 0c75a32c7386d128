//! The op that a kernel becomes.

use std::any::Any;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use crate::autodiff::check_gradients;
use crate::device::Device;
use crate::dtype::Scalar;
use crate::error::Result;
use crate::graph::Op;
use crate::shape::Shape;
use crate::tensor::Tensor;

use super::interface::Uniform;
use super::invocation::list;
use super::{Call, Interface, Invocation, Kernel, Signature, interface};

/// A [`Kernel`] without its type and its numbers of inputs and outputs.
pub(super) trait Definition: Send + Sync {
    fn name(&self) -> &str;
    fn zeroed(&self) -> bool;
    fn outputs(&self, inputs: &[Signature]) -> Vec<Signature>;
    fn groups(&self, call: &Call) -> [u32; 3];
    fn params(&self, call: &Call) -> Vec<Scalar>;
    fn flops(&self, call: &Call) -> u64;
    fn is_batched(&self) -> bool;
    fn host(&self, call: &Call, inputs: &[&[f64]], outputs: &mut Vec<&mut [f64]>);
    fn host_f32(&self, call: &Call, inputs: &[&[f32]], outputs: &mut Vec<&mut [f32]>) -> bool;
    fn gradient(&self, inputs: &[Tensor], outputs: Vec<Tensor>, gradients: Vec<Tensor>) -> Vec<Option<Tensor>>;
    fn as_any(&self) -> &dyn Any;
    fn is(&self, other: &dyn Definition) -> bool;
    fn identify(&self, state: &mut dyn Hasher);
}

struct Erased<K, const INPUTS: usize, const OUTPUTS: usize>(K);

/// The array that a list of known length is.
fn array<T, const N: usize>(list: impl IntoIterator<Item = T>) -> [T; N] {
    let mut list = list.into_iter();
    std::array::from_fn(|_| list.next().expect("as many as the kernel has"))
}

impl<K: Kernel<I, O>, const I: usize, const O: usize> Definition for Erased<K, I, O> {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn zeroed(&self) -> bool {
        self.0.zeroed()
    }
    fn outputs(&self, inputs: &[Signature]) -> Vec<Signature> {
        self.0.outputs(&array(inputs.iter().cloned())).into()
    }
    fn groups(&self, call: &Call) -> [u32; 3] {
        self.0.groups(call)
    }
    fn params(&self, call: &Call) -> Vec<Scalar> {
        self.0.params(call)
    }
    fn flops(&self, call: &Call) -> u64 {
        self.0.flops(call)
    }
    fn is_batched(&self) -> bool {
        self.0.is_batched()
    }
    fn host(&self, call: &Call, inputs: &[&[f64]], outputs: &mut Vec<&mut [f64]>) {
        self.0.host(call, array(inputs.iter().copied()), array(outputs.drain(..)));
    }
    fn host_f32(&self, call: &Call, inputs: &[&[f32]], outputs: &mut Vec<&mut [f32]>) -> bool {
        self.0.host_f32(call, array(inputs.iter().copied()), array(outputs.drain(..)))
    }
    fn gradient(&self, inputs: &[Tensor], outputs: Vec<Tensor>, gradients: Vec<Tensor>) -> Vec<Option<Tensor>> {
        self.0.gradient(&array(inputs.iter().cloned()), &array(outputs), &array(gradients)).into()
    }
    fn as_any(&self) -> &dyn Any {
        &self.0
    }
    fn is(&self, other: &dyn Definition) -> bool {
        other.as_any().downcast_ref::<K>().is_some_and(|other| *other == self.0)
    }
    fn identify(&self, mut state: &mut dyn Hasher) {
        self.0.type_id().hash(&mut state);
        self.0.hash(&mut state);
    }
}

/// A checked [`Kernel`]: an op of `INPUTS` tensors with `OUTPUTS` results. Clones are the same op.
///
/// Checking takes as long as compiling a small shader does, so keep it: in a layer's struct, or in a `LazyLock`.
#[derive(Clone)]
pub struct CustomOp<const INPUTS: usize, const OUTPUTS: usize = 1> {
    kernel: Arc<dyn Definition>,
    interface: Arc<Interface>,
}

impl<const INPUTS: usize, const OUTPUTS: usize> fmt::Debug for CustomOp<INPUTS, OUTPUTS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CustomOp({} of {INPUTS} inputs and {OUTPUTS} outputs)", self.kernel.name())
    }
}

impl<const INPUTS: usize, const OUTPUTS: usize> CustomOp<INPUTS, OUTPUTS> {
    /// The op that computes `kernel`. No device is needed for that: it is compiled where it is first used.
    ///
    /// # Errors
    ///
    /// [`CustomKernel`](crate::Error::CustomKernel) with the line, if the WGSL is not valid, has no such entry point,
    /// or binds something else than the kernel's inputs, outputs and parameters.
    pub fn new(kernel: impl Kernel<INPUTS, OUTPUTS>) -> Result<Self> {
        const { assert!(INPUTS > 0 && OUTPUTS > 0, "a kernel has at least one input and one output") };
        let text = (kernel.name(), kernel.wgsl(), kernel.entry());
        let interface = Arc::new(interface::check(text, INPUTS, OUTPUTS)?);
        Ok(Self { kernel: Arc::new(Erased(kernel)), interface })
    }

    /// The results for these inputs, which lie on one device.
    ///
    /// Where they are computed, a device that cannot run the kernel is an error:
    /// [`CustomKernel`](crate::Error::CustomKernel) if it lacks a feature that the WGSL uses or has too low limits, and
    /// [`BindingTooLarge`](crate::Error::BindingTooLarge) if a tensor is larger than it can bind at once.
    ///
    /// # Panics
    ///
    /// If a binding does not take its tensor's type, or has another fixed size; if outputs differ in type; if
    /// parameters are not the uniform's members; or if there are outputs and no workgroups to write them.
    #[track_caller]
    pub fn call(&self, inputs: [&Tensor; INPUTS]) -> [Tensor; OUTPUTS] {
        let invocation = self.invocation(inputs);
        match self.launches(&invocation.call, inputs[0].device()) {
            1 => self.call_whole(inputs, invocation),
            launches => self.call_in_parts(inputs, launches),
        }
    }

    /// Into how many this call is cut on `device`, so that none of them is long.
    #[track_caller]
    fn launches(&self, call: &Call, device: &Device) -> usize {
        if !self.kernel.is_batched() {
            return 1;
        }
        let all = call.inputs.iter().chain(&call.outputs);
        let count = call.inputs[0].shape.first();
        assert!(
            count.is_some() && all.clone().all(|signature| signature.shape.first() == count),
            "{}: {} and {} do not have one first axis, as those of a batched kernel do",
            self.kernel.name(),
            list(&call.inputs),
            list(&call.outputs)
        );
        if device.is_cpu() || count == Some(&0) {
            return 1;
        }
        let bytes = all.map(|signature| signature.shape.bytes(signature.dtype)).sum();
        device.launches(self.kernel.flops(call), bytes).min(call.inputs[0].shape[0])
    }

    #[track_caller]
    fn call_in_parts(&self, inputs: [&Tensor; INPUTS], launches: usize) -> [Tensor; OUTPUTS] {
        let count = inputs[0].size(0);
        let mut parts: [Vec<Tensor>; OUTPUTS] = std::array::from_fn(|_| Vec::with_capacity(launches));
        // closures would not know who called
        for launch in 0..launches {
            let range = count * launch / launches..count * (launch + 1) / launches;
            let mut pieces = inputs.map(Tensor::clone);
            for piece in &mut pieces {
                *piece = piece.slice(0, range.clone());
            }
            let pieces = pieces.each_ref();
            let outputs = self.call_whole(pieces, self.invocation(pieces));
            parts.iter_mut().zip(outputs).for_each(|(parts, output)| parts.push(output));
        }
        let mut outputs = Vec::with_capacity(OUTPUTS);
        for parts in &parts {
            outputs.push(Tensor::cat(&parts.iter().collect::<Vec<_>>(), 0));
        }
        array(outputs)
    }

    #[track_caller]
    fn call_whole(&self, inputs: [&Tensor; INPUTS], invocation: Invocation) -> [Tensor; OUTPUTS] {
        let kernel = Arc::clone(&self.kernel);
        let (mut value, parts) = apply(inputs, invocation);
        if value.dtype().is_float() {
            let parts = parts.clone();
            value = value.with_gradient(&inputs, move |value, inputs, gradient| {
                let gradients = kernel.gradient(inputs, parts.take(value), parts.take(gradient));
                check_gradients(kernel.name(), inputs, &gradients);
                gradients
            });
        }
        array(parts.take(&value))
    }

    /// The results with a gradient in respect of other tensors than the inputs, from which those were computed: `rule`
    /// has it from the gradients of the results.
    #[track_caller]
    pub(crate) fn call_with_gradient(
        &self,
        inputs: [&Tensor; INPUTS],
        of: &[&Tensor],
        rule: impl Fn(&[Tensor]) -> Vec<Option<Tensor>> + Send + Sync + 'static,
    ) -> [Tensor; OUTPUTS] {
        let (value, parts) = apply(inputs, self.invocation(inputs));
        let outputs = parts.clone();
        array(parts.take(&value.with_gradient(of, move |_, _, gradient| rule(&outputs.take(gradient)))))
    }

    /// The same text with other constants: `kernel` has it, too, and it is not checked again.
    pub(crate) fn with(&self, kernel: impl Kernel<INPUTS, OUTPUTS>) -> Self {
        Self { kernel: Arc::new(Erased(kernel)), interface: Arc::clone(&self.interface) }
    }

    #[track_caller]
    fn invocation(&self, inputs: [&Tensor; INPUTS]) -> Invocation {
        let signature = |input: &Tensor| Signature { dtype: input.dtype(), shape: input.shape().clone() };
        let inputs = inputs.map(signature).to_vec();
        let (kernel, bindings) = (&self.kernel, &self.interface.bindings);
        let name = kernel.name();
        let outputs = kernel.outputs(&inputs);
        for (number, (binding, signature)) in bindings.iter().zip(inputs.iter().chain(&outputs)).enumerate() {
            let what = format!("{name}: binding {number}, `{}`, of {}", binding.name, binding.scalar);
            assert!(binding.takes(signature.dtype), "{what} does not take {signature}");
            let bytes = binding.bound_bytes(signature.shape.numel() * signature.dtype.size_bytes());
            if let Some(fixed) = binding.fixed {
                assert!(
                    bytes == fixed * binding.unit,
                    "{what}, takes {} bytes and not {signature}",
                    fixed * binding.unit
                );
            }
        }
        let dtype = outputs[0].dtype;
        assert!(outputs.iter().all(|o| o.dtype == dtype), "{name}: outputs have one type, not {}", list(&outputs));
        let call = Call { inputs, outputs };
        let (groups, params) = (kernel.groups(&call), self.params(&kernel.params(&call)));
        let idle = groups.contains(&0);
        let empty = call.outputs.iter().all(|output| output.shape.numel() == 0);
        assert!(
            !idle || empty || kernel.zeroed(),
            "{name}: groups {groups:?} write nothing of {}",
            list(&call.outputs)
        );
        Invocation { kernel: Arc::clone(kernel), interface: Arc::clone(&self.interface), call, groups, params }
    }

    /// The words of the uniform.
    #[track_caller]
    fn params(&self, values: &[Scalar]) -> Vec<u32> {
        let Uniform { members, words } = &self.interface.uniform;
        let same = members.iter().zip(values).all(|(member, value)| member.dtype == value.dtype);
        let fits = same && members.len() == values.len();
        let wanted: Vec<String> = members.iter().map(|member| format!("{}: {}", member.name, member.dtype)).collect();
        assert!(fits, "{}: parameters {values:?} for the uniform's {wanted:?}", self.kernel.name());
        let mut words = vec![0; *words];
        for (member, value) in members.iter().zip(values) {
            words[member.word] = value.bits;
        }
        words
    }
}

/// The node, and where results lie in it.
#[track_caller]
fn apply<const N: usize>(inputs: [&Tensor; N], invocation: Invocation) -> (Tensor, Parts) {
    let (shape, dtype, parts) = (invocation.shape(), invocation.dtype(), Parts::of(&invocation));
    (Tensor::apply(Op::Kernel(Arc::new(invocation)), &inputs, shape, dtype), parts)
}

/// How outputs lie in the node's value.
#[derive(Clone)]
struct Parts(Vec<(Range<usize>, Shape)>);

impl Parts {
    fn of(invocation: &Invocation) -> Self {
        let shapes = invocation.call.outputs.iter().map(|output| output.shape.clone());
        Self(invocation.parts().into_iter().zip(shapes).collect())
    }

    #[track_caller]
    fn take(&self, value: &Tensor) -> Vec<Tensor> {
        if let [_] = self.0[..] {
            return vec![value.clone()];
        }
        // a closure would not know who called
        let mut parts = Vec::with_capacity(self.0.len());
        for (range, shape) in &self.0 {
            parts.push(value.slice(0, range.clone()).reshape(shape.clone()));
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::autodiff::grad;
    use crate::dtype::DType;

    /// Sums of rows, and rows twice as large.
    #[derive(PartialEq, Eq, Hash)]
    struct Rows;

    impl Kernel<1, 2> for Rows {
        fn name(&self) -> &str {
            "rows"
        }
        fn wgsl(&self) -> &str {
            "@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> sums: array<f32>;
@group(0) @binding(2) var<storage, read_write> twice: array<f32>;
@compute @workgroup_size(1) fn main(@builtin(workgroup_id) id: vec3u) {
    sums[id.x] = 0.0;
    for (var n = 0u; n < 3u; n++) {
        sums[id.x] += x[id.x * 3u + n];
        twice[id.x * 3u + n] = 2.0 * x[id.x * 3u + n];
    }
}"
        }
        fn outputs(&self, [x]: &[Signature; 1]) -> [Signature; 2] {
            [Signature::new(DType::F32, [x.shape[0]]), x.clone()]
        }
        fn groups(&self, call: &Call) -> [u32; 3] {
            [call.inputs[0].shape[0] as u32, 1, 1]
        }
        fn is_batched(&self) -> bool {
            true
        }
        fn host(&self, _: &Call, [x]: [&[f64]; 1], [sums, twice]: [&mut [f64]; 2]) {
            sums.iter_mut().zip(x.chunks(3)).for_each(|(sum, row)| *sum = row.iter().sum());
            twice.iter_mut().zip(x).for_each(|(twice, x)| *twice = 2.0 * x);
        }
        fn gradient(&self, _: &[Tensor; 1], _: &[Tensor; 2], [sums, twice]: &[Tensor; 2]) -> [Option<Tensor>; 1] {
            [Some(sums.unsqueeze(1) + twice * 2.0)]
        }
    }

    #[test]
    fn parts_of_a_call_are_the_call() {
        let op = CustomOp::new(Rows).expect("valid WGSL");
        for info in Device::list() {
            let device = Device::named(&info.selector).expect("it is listed");
            let x = Tensor::arange_step(0.0, 21.0, 1.0, &device).reshape([7, 3]);
            let by_parts = |launches| {
                let [sums, twice] = op.call_in_parts([&x], launches);
                let gradient = grad(&(sums.square().sum() + twice.sum()), &[&x]).remove(0);
                [sums, twice, gradient].map(|tensor| tensor.to_vec::<f32>().expect("values"))
            };
            let whole = by_parts(1);
            assert_eq!(whole[0], [3.0, 12.0, 21.0, 30.0, 39.0, 48.0, 57.0]);
            assert_eq!(whole[2][..3], [8.0; 3]);
            for launches in [2, 3, 7] {
                assert_eq!(by_parts(launches), whole, "{launches} on {}", device.name());
            }
        }
    }
}
