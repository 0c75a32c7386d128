//! What a step would run, before anything plans it.

use std::collections::HashSet;
use std::sync::Arc;

use crate::device::{Device, Storage};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::{HostValue, Memory, Node, NodeRef, Output, Program, Source, Tracer, reference};
use crate::shape::{MAX_ELEMENTS, Shape};
use crate::tensor::Tensor;

use super::cell::VarCell;
use super::signature::Signature;
use super::var::{Var, VarKind};
use super::{gate, trace};

/// A function that was traced for inputs of a signature. Public for tests of the planner, which run its program in
/// their own way.
#[derive(Debug)]
pub struct Traced {
    /// The program; its first externals are the inputs.
    pub program: Program,
    /// Where the program's externals lie; inputs and results do not lie anywhere yet.
    pub(super) storages: Vec<Storage>,
    /// Its host values.
    pub hosts: Vec<Arc<HostValue>>,
    /// The leaves that stand for the inputs.
    pub inputs: Vec<Tensor>,
    /// How many results the function had.
    pub results: usize,
    /// What it has to write, the function's results first: assigned variables follow.
    pub wanted: Vec<(NodeRef, Output)>,
    /// The variables that it assigns.
    pub(super) written: Vec<Arc<VarCell>>,
    /// The variables that it reads or assigns.
    pub(super) vars: Vec<Arc<VarCell>>,
    /// The tensors from outside that it reads.
    pub(super) memories: Vec<Memory>,
}

impl Traced {
    /// Traces `function` as a [`Step`](super::Step) does.
    ///
    /// # Errors
    /// If the device fails, or `function` uses a tensor of another trace.
    pub fn new(
        device: &Device,
        signature: &Signature,
        function: impl FnOnce(&[Tensor]) -> Vec<Tensor>,
    ) -> Result<Self> {
        let halted = Var::zeros("halted", VarKind::State, Shape::default(), DType::U32, device)?;
        Self::gated(device, signature, function, &halted)
    }

    /// The same; nothing is assigned where `halted` says so.
    pub(super) fn gated(
        device: &Device,
        signature: &Signature,
        function: impl FnOnce(&[Tensor]) -> Vec<Tensor>,
        halted: &Var,
    ) -> Result<Self> {
        let mut tracer = Tracer::default();
        let mut inputs = Vec::new();
        for (slot, (shape, dtype)) in signature.iter().enumerate() {
            let elements = shape.numel();
            if elements > MAX_ELEMENTS {
                return Err(Error::TooManyElements { what: format!("input {slot} of a step"), elements });
            }
            let leaf = Node::leaf(Source::Input(slot), shape.clone(), *dtype, device);
            tracer.bind_input(&leaf, &Storage::planned(shape.bytes(*dtype)));
            inputs.push(Tensor::from_node(leaf));
        }
        let (results, trace) = trace::collect(|| {
            let results = function(&inputs);
            gate::close(halted);
            results
        });
        let roots = results.iter().map(|result| result.node()).chain(trace.pending.iter().map(|(_, node)| node));
        let (mut vars, mut memories) = (Vec::new(), Vec::new());
        for leaf in leaves(roots) {
            match &leaf.source {
                Some(Source::Var(var)) => vars.push(var.clone()),
                _ => memories.extend(leaf.value()),
            }
        }
        vars.extend(trace.pending.iter().map(|(var, _)| var.clone()));
        vars.sort_by_key(|var| var.id);
        vars.dedup_by_key(|var| var.id);
        // before looking where values lie: an assignment that waits moves those who hold the old one
        vars.iter().try_for_each(|var| var.flush())?;
        let mut wanted = Vec::new();
        for result in &results {
            let node = result.node();
            node.check_size()?;
            let number = tracer.add(node)?;
            let external = tracer.external(&Storage::planned(node.shape.bytes(node.dtype)), node.dtype);
            tracer.output(number, external, 0);
            wanted.push(node.clone());
        }
        let mut written = Vec::new();
        for (var, node) in trace.pending {
            let number = tracer.add(&node)?;
            let (storage, offset) = var.memory().get();
            let external = tracer.external(&storage, var.dtype);
            tracer.output(number, external, offset);
            wanted.push(node);
            written.push(var);
        }
        let wanted = wanted.into_iter().zip(tracer.program.outputs.iter().copied()).collect();
        let Tracer { program, storages, hosts, .. } = tracer;
        program.check_sizes()?;
        Ok(Self { program, storages, hosts, inputs, results: results.len(), wanted, written, vars, memories })
    }

    /// The function's results: node, and number of the external that it is written to.
    pub(super) fn outputs(&self) -> impl Iterator<Item = (&NodeRef, usize)> {
        self.wanted[..self.results].iter().map(|(node, output)| (node, output.external))
    }

    /// What lies in external storage `number` of `device`, if that is there already: neither an input nor a result.
    ///
    /// # Errors
    /// If the device fails.
    pub fn contents(&self, device: &Device, number: usize) -> Result<Option<Vec<f64>>> {
        if number < self.inputs.len() || self.outputs().any(|(_, external)| external == number) {
            return Ok(None);
        }
        let storage = &self.storages[number];
        let _exclusive = device.exclusive();
        let bytes = device.begin_read::<u8>(storage, 0, storage.bytes()).now()?;
        Ok(Some(reference::decode(self.program.externals[number].dtype, &bytes)))
    }
}

/// What `roots` are computed from: nodes with a source or a value.
pub(super) fn leaves<'a>(roots: impl Iterator<Item = &'a NodeRef>) -> Vec<&'a NodeRef> {
    let mut seen = HashSet::new();
    let (mut stack, mut leaves): (Vec<&NodeRef>, _) = (roots.collect(), Vec::new());
    while let Some(node) = stack.pop() {
        if !seen.insert(node.id) {
            continue;
        }
        if node.source.is_some() || node.value().is_some() {
            leaves.push(node);
        } else {
            stack.extend(&node.inputs);
        }
    }
    leaves
}
