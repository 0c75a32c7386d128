//! What a step would run, before anything plans it.

use std::sync::Arc;

use crate::device::{Device, Storage};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::{HostValue, Node, NodeRef, Output, Program, Source, Tracer, reference};
use crate::shape::Shape;
use crate::tensor::Tensor;

use super::var::Var;
use super::{gate, trace};

/// A traced function, for tests of the planner: they run its program in their own way.
#[derive(Debug)]
pub struct Traced {
    device: Device,
    /// The program; its first externals are the inputs.
    pub program: Program,
    storages: Vec<Storage>,
    /// Its host values.
    pub hosts: Vec<Arc<HostValue>>,
    /// The leaves that stand for the inputs.
    pub inputs: Vec<Tensor>,
    /// How many results the function had.
    pub results: usize,
    /// What it has to write, the function's results first: assigned variables follow.
    pub wanted: Vec<(NodeRef, Output)>,
}

impl Traced {
    /// Traces `function` as a [`Step`](super::Step) does for inputs of these types and shapes.
    ///
    /// # Errors
    /// If the device fails.
    pub fn new(
        device: &Device,
        inputs: &[(DType, Shape)],
        function: impl FnOnce(&[Tensor]) -> Vec<Tensor>,
    ) -> Result<Self> {
        let halted = Var::state("halted", &Tensor::scalar(0u32, device))?;
        let mut tracer = Tracer::default();
        let planned = |shape: &Shape, dtype: DType| Storage::planned((shape.numel() * dtype.size_bytes()) as u64);
        let mut leaves = Vec::new();
        for (slot, (dtype, shape)) in inputs.iter().enumerate() {
            tracer.bind_input(slot, &planned(shape, *dtype), *dtype);
            leaves.push(Tensor::from_node(Node::leaf(Source::Input(slot), shape.clone(), *dtype, device)));
        }
        let (results, trace) = trace::collect(|| {
            let results = function(&leaves);
            gate::close(&halted);
            results
        });
        let count = results.len();
        let mut nodes = Vec::new();
        for result in results {
            let node = result.node().clone();
            let number = tracer.add(&node);
            let external = tracer.external(&planned(&node.shape, node.dtype), node.dtype);
            tracer.output(number, external, 0);
            nodes.push(node);
        }
        for (var, node) in trace.pending {
            let number = tracer.add(&node);
            let (storage, offset) = var.memory().get();
            let external = tracer.external(&storage, var.dtype);
            tracer.output(number, external, offset);
            nodes.push(node);
        }
        let wanted = nodes.into_iter().zip(tracer.program.outputs.iter().copied()).collect();
        let Tracer { program, storages, hosts, .. } = tracer;
        Ok(Self { device: device.clone(), program, storages, hosts, inputs: leaves, results: count, wanted })
    }

    /// What lies in external storage `number`, if that is there already: neither an input nor a result.
    ///
    /// # Errors
    /// If the device fails.
    pub fn contents(&self, number: usize) -> Result<Option<Vec<f64>>> {
        let is_result = self.wanted[..self.results].iter().any(|(_, output)| output.external == number);
        if number < self.inputs.len() || is_result {
            return Ok(None);
        }
        let storage = &self.storages[number];
        let bytes = pollster::block_on(self.device.read(storage, 0, storage.bytes()))?;
        Ok(Some(reference::decode(self.program.externals[number].dtype, &bytes)))
    }
}
