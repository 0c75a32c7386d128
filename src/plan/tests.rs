//! Plans run by the interpreter agree with graphs run by the reference.

use std::collections::HashMap;

use crate::autodiff;
use crate::device::Device;
use crate::dtype::DType;
use crate::graph::{Node, NodeRef, Source, Tracer, reference};
use crate::plan::{Body, Place, Plan, PlanOptions, interpret, plan};
use crate::shape::Shape;
use crate::tensor::Tensor;

/// Inputs of a traced function, without any device memory behind them.
pub(crate) struct Trial {
    device: Device,
    leaves: HashMap<u64, Vec<f64>>,
    inputs: Vec<NodeRef>,
}

impl Trial {
    pub(crate) fn new() -> Self {
        Self { device: Device::cpu(), leaves: HashMap::new(), inputs: Vec::new() }
    }

    /// An input with values that are neither integers nor symmetric.
    pub(crate) fn input(&mut self, shape: impl Into<Shape>) -> Tensor {
        let shape = shape.into();
        let salt = self.inputs.len();
        let values = (0..shape.numel()).map(|i| f64::from(((i * 37 + salt * 11 + 5) % 101) as u32) / 50.5 - 0.97);
        let values = values.collect();
        self.values(shape, DType::F32, values)
    }

    pub(crate) fn values(&mut self, shape: impl Into<Shape>, dtype: DType, values: Vec<f64>) -> Tensor {
        let node = Node::leaf(Source::Input(self.inputs.len()), shape.into(), dtype, &self.device);
        self.leaves.insert(node.id, values);
        self.inputs.push(node.clone());
        Tensor::from_node(node)
    }

    /// Plans the outputs, interprets the plan, compares with the reference.
    pub(crate) fn check(&self, outputs: &[Tensor], options: &PlanOptions) -> Plan {
        let mut tracer = Tracer::default();
        let mut storages = Vec::new();
        for (slot, node) in self.inputs.iter().enumerate() {
            let storage = self.device.alloc((node.shape.numel() * node.dtype.size_bytes()) as u64, "input").expect("memory");
            tracer.bind_input(slot, &storage, node.dtype);
            storages.push(storage);
        }
        let mut externals = Vec::new();
        for output in outputs {
            let node = output.node();
            let number = tracer.add(node);
            let storage = self.device.alloc((node.shape.numel() * node.dtype.size_bytes()) as u64, "output").expect("memory");
            let external = tracer.external(&storage, node.dtype);
            tracer.output(number, external, 0);
            externals.push(external);
            storages.push(storage);
        }
        let plan = plan(&tracer.program, options);
        // one memory per place, as on a device
        let mut places: HashMap<Place, Vec<f64>> = HashMap::new();
        for buffer in &plan.buffers {
            let memory = places.entry(buffer.place).or_default();
            memory.resize(memory.len().max(buffer.elements), f64::NAN);
        }
        for buffer in &plan.zeroed {
            places.get_mut(&plan.buffers[*buffer].place).expect("a place").fill(0.0);
        }
        for (slot, node) in self.inputs.iter().enumerate() {
            places.insert(Place::External(slot), self.leaves[&node.id].clone());
        }
        for kernel in &plan.kernels {
            let mut buffers: Vec<Vec<f64>> = vec![Vec::new(); plan.buffers.len()];
            for &buffer in kernel.reads.iter().chain(&kernel.writes) {
                buffers[buffer] = places[&plan.buffers[buffer].place].clone();
            }
            interpret::interpret(&plan, kernel, &mut buffers, &[]);
            for &buffer in &kernel.writes {
                places.insert(plan.buffers[buffer].place, std::mem::take(&mut buffers[buffer]));
            }
        }
        let nodes: Vec<NodeRef> = outputs.iter().map(|output| output.node().clone()).collect();
        let expected = reference::evaluate(&nodes, &self.leaves);
        for (number, (external, expected)) in externals.iter().zip(&expected).enumerate() {
            let got = &places[&Place::External(*external)];
            for (index, want) in expected.iter().enumerate() {
                let same = (got[index] - want).abs() <= 1e-5 * (1.0 + want.abs()) || got[index].is_nan() && want.is_nan();
                assert!(same, "output {number} at {index}: {} instead of {want}\n{plan}\n{}", got[index], tracer.program);
            }
        }
        plan
    }

    pub(crate) fn check_all(&self, outputs: &[Tensor]) -> Plan {
        self.check(outputs, &PlanOptions { fuse: false, ..PlanOptions::CPU });
        self.check(outputs, &PlanOptions::CPU);
        // small limits: everything is split
        let tight = PlanOptions { max_row: 16, max_contract_steps: 7, max_buffers: 5, ..PlanOptions::gpu(5) };
        self.check(outputs, &tight);
        self.check(outputs, &PlanOptions::gpu(8))
    }
}

#[test]
fn softmax_is_one_kernel() {
    let mut trial = Trial::new();
    let x = trial.input([6, 5]);
    let plan = trial.check_all(&[x.softmax(1)]);
    assert_eq!(plan.kernels.len(), 1, "{plan}");
}

#[test]
fn bias_and_relu_ride_on_the_product() {
    let mut trial = Trial::new();
    let (x, w, b) = (trial.input([7, 5]), trial.input([3, 5]), trial.input([3]));
    let y = (x.matmul(&w.t()) + &b).relu();
    let plan = trial.check_all(&[y]);
    assert_eq!(plan.kernels.len(), 1, "{plan}");
    assert!(matches!(plan.kernels[0].body, Body::Contract(_)));
}

#[test]
fn a_small_network_and_its_gradients() {
    let mut trial = Trial::new();
    let x = trial.input([4, 6]);
    let (w1, b1) = (trial.input([8, 6]), trial.input([8]));
    let (w2, b2) = (trial.input([3, 8]), trial.input([3]));
    let h = (x.matmul(&w1.t()) + &b1).relu();
    let y = h.matmul(&w2.t()) + &b2;
    let loss = y.log_softmax(1).slice_mean();
    let grads = autodiff::grad(&loss, &[&w1, &b1, &w2, &b2]);
    let mut outputs = vec![loss];
    outputs.extend(grads);
    trial.check_all(&outputs);
}

#[test]
fn convolution_gradients_are_contractions() {
    let mut trial = Trial::new();
    let x = trial.input([2, 3, 7, 6]);
    let w = trial.input([4, 3, 3, 3]);
    let y = x.conv2d(&w, None, [1, 1].into(), 1, 1, 1);
    let loss = (&y * &y).sum();
    let grads = autodiff::grad(&loss, &[&x, &w]);
    let plan = trial.check_all(&grads);
    assert!(plan.kernels.len() <= 4, "{plan}");
}

trait MeanOfFirst {
    fn slice_mean(&self) -> Tensor;
}

impl MeanOfFirst for Tensor {
    /// A loss that treats columns differently.
    fn slice_mean(&self) -> Tensor {
        (self.narrow(1, 0, 1) * -1.0).mean()
    }
}
