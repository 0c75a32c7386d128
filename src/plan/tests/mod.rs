//! Plans run by the interpreter agree with graphs run by the reference.

mod compared;
mod limits;
mod phases;
mod reasons;
mod split;
mod vectors;

use std::collections::HashMap;

use crate::autodiff;
use crate::device::Device;
use crate::dtype::DType;
use crate::fft;
use crate::graph::{Node, NodeRef, ReduceOp, Source, Tracer, reference};
use crate::ops::conv::ConvOptions;
use crate::plan::{Body, InstrOp, Plan, PlanOptions, interpret, plan};
use crate::runtime::{checkpoint, trace::collect};
use crate::shape::Shape;
use crate::tensor::{Groups, Mask, Tensor};

/// What a GPU plans with that binds as many buffers as WebGPU promises: 8, one of which is the status word.
const GPU: PlanOptions = PlanOptions::gpu(7);

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
        for node in &self.inputs {
            let storage =
                self.device.alloc((node.shape.numel() * node.dtype.size_bytes()) as u64, "input").expect("memory");
            tracer.bind_input(node, &storage);
            storages.push(storage);
        }
        let mut externals = Vec::new();
        for output in outputs {
            let node = output.node();
            let number = tracer.add(node).expect("its inputs are bound");
            let storage =
                self.device.alloc((node.shape.numel() * node.dtype.size_bytes()) as u64, "output").expect("memory");
            let external = tracer.external(&storage, node.dtype);
            tracer.output(number, external, 0);
            externals.push(external);
            storages.push(storage);
        }
        let plan = plan(&tracer.program, options);
        let inputs: Vec<Vec<f64>> = self.inputs.iter().map(|node| self.leaves[&node.id].clone()).collect();
        let (values, _) = interpret::interpret_plan(&plan, &inputs, &[]);
        let nodes: Vec<NodeRef> = outputs.iter().map(|output| output.node().clone()).collect();
        let expected = reference::evaluate(&nodes, &self.leaves);
        for (number, (external, expected)) in externals.iter().zip(&expected).enumerate() {
            let got = &values[*external];
            for (index, want) in expected.iter().enumerate() {
                let same =
                    (got[index] - want).abs() <= 1e-5 * (1.0 + want.abs()) || got[index].is_nan() && want.is_nan();
                assert!(
                    same,
                    "output {number} at {index}: {} instead of {want}\n{plan}\n{}",
                    got[index], tracer.program
                );
            }
        }
        plan
    }

    pub(crate) fn check_all(&self, outputs: &[Tensor]) -> Plan {
        self.check(outputs, &PlanOptions { fuse: false, ..PlanOptions::CPU });
        self.check(outputs, &PlanOptions::CPU);
        // small limits: everything is split
        let tight =
            PlanOptions { max_row: 16, max_contract_steps: 7, max_buffers: 5, sort_run: 4, ..PlanOptions::gpu(5) };
        self.check(outputs, &tight);
        self.check(outputs, &GPU)
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
fn a_mean_is_divided_where_it_is_summed() {
    let mut trial = Trial::new();
    let (x, w) = (trial.input([3, 4, 5, 5]), trial.input([6, 4]));
    let plan = trial.check_all(&[x.flatten(2, 3).mean_dim(2).matmul(&w.t())]);
    let Body::Contract(product) = &plan.kernels[1].body else { panic!("a product behind a mean\n{plan}") };
    assert_eq!(product.lhs.0.instrs.len(), 1, "the product reads the mean as it is\n{plan}");
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
    let y = x.conv2d(&w, None, &ConvOptions { padding: vec![1, 1], ..ConvOptions::default() });
    let loss = (&y * &y).sum();
    let plan = trial.check_all(&autodiff::grad(&loss, &[&x, &w]));
    assert!(plan.kernels.len() <= 4, "{plan}");
    let strided = ConvOptions { stride: vec![2, 2], padding: vec![1, 0], ..ConvOptions::default() };
    let y = x.conv2d(&w, None, &strided);
    let loss = (&y * &y).sum();
    trial.check_all(&autodiff::grad(&loss, &[&x, &w]));
}

#[test]
fn pooling_and_its_gradient() {
    let mut trial = Trial::new();
    let x = trial.input([2, 3, 6, 5]);
    let y = x.max_pool2d(2, 2, 0);
    let loss = (&y * &y).sum();
    let mut outputs = autodiff::grad(&loss, &[&x]);
    outputs.push(y);
    trial.check_all(&outputs);
}

#[test]
fn batch_norm_and_its_gradient() {
    let mut trial = Trial::new();
    let (x, w, b) = (trial.input([3, 4, 5, 2]), trial.input([4]), trial.input([4]));
    let norm = x.batch_norm(Some(&w), Some(&b), 1e-5);
    let loss = (norm.output.relu() * &x).sum();
    let mut outputs = autodiff::grad(&loss, &[&x, &w, &b]);
    outputs.extend([norm.mean.clone(), norm.output.relu()]);
    let plan = trial.check_all(&outputs);
    // one sweep of three phases forward, one of two backward; that one binds eight buffers, so a GPU sums by b apart
    assert_eq!(plan.kernels.len(), 3, "{plan}");
    let plan = trial.check(&outputs, &PlanOptions::CPU);
    assert_eq!(plan.kernels.len(), 2, "{plan}");
}

#[test]
fn a_transformer_block_and_its_gradients() {
    let mut trial = Trial::new();
    let x = trial.input([2, 5, 8]);
    let (g, b) = (trial.input([8]), trial.input([8]));
    let (qkv, out) = (trial.input([24, 8]), trial.input([8, 8]));
    let h = x.layer_norm(1, Some(&g), Some(&b), 1e-5);
    let h = h.matmul(&qkv.t()).reshape([2, 5, 3, 2, 4]).permute([2, 0, 3, 1, 4]);
    let part = |n: usize| h.narrow(0, n, 1).squeeze(0);
    let y = part(0).scaled_dot_product_attention(&part(1), &part(2), Mask::Causal);
    let y = y.transpose(1, 2).reshape([2, 5, 8]).matmul(&out.t());
    let y = (&x + &y).gelu();
    let loss = (&y * &y).mean();
    let mut outputs = autodiff::grad(&loss, &[&x, &g, &b, &qkv, &out]);
    outputs.push(y);
    trial.check_all(&outputs);
}

#[test]
fn indices_labels_and_random_numbers() {
    let mut trial = Trial::new();
    let table = trial.input([7, 4]);
    let index = trial.values([5], DType::I32, vec![3.0, 0.0, 6.0, 3.0, 1.0]);
    let rows = table.embedding(&index);
    let labels = trial.values([5], DType::I32, vec![1.0, 0.0, 3.0, 2.0, 2.0]);
    let loss = rows.cross_entropy(&labels);
    let mut outputs = autodiff::grad(&loss, &[&table]);
    outputs.extend([loss, rows.argmax(1)]);
    trial.check_all(&outputs);
}

#[test]
fn a_gather_reads_what_another_kernel_computed() {
    let mut trial = Trial::new();
    let x = trial.input([1, 2, 3, 4, 5]);
    let y = x.adaptive_max_pool3d(2);
    let mut outputs = autodiff::grad(&(&y * &y).sum(), &[&x]);
    outputs.push(y);
    trial.check_all(&outputs);
    // as many values gathered as there are
    let index = trial.values([3], DType::I32, vec![2.0, 0.0, 1.0]);
    let x = trial.input([3, 4]);
    trial.check_all(&[x.max_dim(1).index_select(0, &index)]);
}

#[test]
fn sites_of_checks_are_registered() {
    let mut trial = Trial::new();
    let (table, index) = (trial.input([7, 4]), trial.values([2], DType::I32, vec![3.0, 0.0]));
    let plan = trial.check_all(&[table.index_select(0, &index).exp()]);
    let instrs = plan.kernels.iter().flat_map(|kernel| kernel.body.tapes()).flat_map(|tape| &tape.instrs);
    let sites: Vec<u32> = instrs
        .filter_map(|instr| match instr.op {
            InstrOp::CheckIndex { site, .. } => Some(site),
            _ => None,
        })
        .collect();
    let site = crate::status::lookup(sites[0]).expect("a registered place");
    assert_eq!((site.bound, site.location.file()), (7, file!()));
}

#[test]
fn sorts_searches_and_segments() {
    let mut trial = Trial::new();
    let x = trial.input([3, 37]);
    let index = trial.values([70], DType::I32, (0..70).map(|n| f64::from(n * n % 11)).collect());
    let rows = trial.input([70, 2]);
    let (sorted, places) = x.sort(1, true);
    let groups = Groups::new(&index, 11);
    let sums = groups.reduce(ReduceOp::Sum, &rows, 2, [11, 2]);
    let plan = trial.check_all(&[sorted, places, sums, groups.last().1, x.sort(0, false).0.searchsorted(&x, true)]);
    let routines = plan.kernels.iter().filter(|kernel| matches!(kernel.body, Body::Routine(_))).count();
    assert!(plan.to_string().contains("Segments") && routines >= 5, "{plan}");
}

#[test]
fn long_sorts_are_merged_from_short_ones() {
    let mut trial = Trial::new();
    let x = trial.input([2, 21]);
    let plan = trial.check(&[x.argsort(1, false)], &PlanOptions { sort_run: 4, ..GPU });
    // 4, 8, 16, 32
    assert_eq!(plan.kernels.iter().filter(|kernel| matches!(kernel.body, Body::Routine(_))).count(), 4, "{plan}");
}

#[test]
fn routines_read_consecutive_elements_where_they_lie() {
    // the transform, and its real parts as an output
    let transformed = |x: &Tensor| fft::rfft(x, None, 0).re().clone();
    let copied = |make: fn(&Tensor) -> Tensor| {
        let mut trial = Trial::new();
        let x = trial.input([4, 64]);
        trial.check(&[transformed(&make(&x))], &GPU).kernels.len() > 2
    };
    // reshaped, and cut out where a binding may start
    assert!(!copied(|x| x.reshape([2, 128])));
    assert!(!copied(|x| x.slice(0, 1..3).reshape([64, 2])));
    assert!(!copied(|x| x.reshape([256]).slice(0, 64..).unsqueeze(1).reshape([3, 64])));
    // elsewhere, in another order, or made of others
    assert!(copied(|x| x.reshape([256]).slice(0, 1..65)));
    assert!(copied(|x| x.slice(1, 0..32)));
    assert!(copied(Tensor::t));
    assert!(copied(|x| x.flip(0)));
    assert!(copied(|x| x.pad(&[(0, 0), (0, 64)], 0.0)));
    assert!(copied(|x| x.exp().reshape([2, 128])));
    // of what is computed, no more than is read
    assert!(copied(|x| x.exp().slice(0, 1..3)));
    // what is in between is stored for others, at other places
    let mut trial = Trial::new();
    let x = trial.input([1024]);
    let index = trial.values([2], DType::I32, vec![3.0, 0.0]);
    let between = x.slice(0, 32..);
    let outputs = [transformed(&between.slice(0, 32..)), between.index_select(0, &index)];
    let plan = trial.check(&outputs, &GPU);
    let routines = plan.kernels.iter().filter_map(|kernel| match &kernel.body {
        Body::Routine(routine) => Some(routine),
        _ => None,
    });
    assert!(routines.flat_map(|routine| &routine.inputs).all(|input| input.offset.is_multiple_of(64)), "{plan}");
}

/// The table was computed in the kernel that gathered from it, and never stored.
#[test]
fn what_is_gathered_from_is_stored() {
    let mut trial = Trial::new();
    let x = trial.input([7]);
    let index = trial.values([7], DType::I32, vec![3.0, 0.0, 6.0, 3.0, 1.0, 5.0, 5.0]);
    trial.check_all(&[x.exp().index_select(0, &index) + 1.0]);
}

#[test]
fn joins_slices_and_empty_tensors() {
    let mut trial = Trial::new();
    let (a, b) = (trial.input([3, 4]), trial.input([3, 2]));
    let empty = trial.input([3, 0]);
    let joined = Tensor::cat(&[&a, &empty, &b], 1);
    let flipped = joined.flip([1]).t().reshape([2, 9]);
    trial.check_all(&[joined.clone(), flipped.clone(), flipped.sum_dim(0), empty.sum_dim(1), a.sum_dim(0).exp()]);
}

#[test]
fn long_chains_are_cut() {
    let mut trial = Trial::new();
    let x = trial.input([3, 3]);
    // as within a step: otherwise long graphs evaluate themselves
    let (y, _) = collect(|| (0..1500).fold(x.clone(), |y, step| (&y * 0.999).sin() + &x * (f64::from(step) * 1e-4)));
    let plan = trial.check_all(&[y]);
    assert!(plan.kernels.len() > 5 && plan.kernels.len() < 500, "{}", plan.summary());
}

#[test]
fn checkpointed_layers_need_less_memory_for_the_same_gradients() {
    let mut trial = Trial::new();
    let x = trial.input([64, 16]);
    let weights: Vec<Tensor> = (0..6).map(|_| trial.input([16, 16])).collect();
    let deep = |x: &Tensor, weights: &[Tensor]| {
        weights.iter().fold(x.clone(), |h, w| (h.matmul(w) * 0.1).tanh() + h.matmul(&w.t()).sigmoid())
    };
    let loss = |checkpointed: bool| {
        let mut h = x.clone();
        for part in weights.chunks(3) {
            h = if checkpointed { checkpoint(|| deep(&h, part)) } else { deep(&h, part) };
        }
        autodiff::grad(&(&h * &h).mean(), &weights.iter().collect::<Vec<_>>())
    };
    let (plain, checkpointed) = (loss(false), loss(true));
    let (plain, less) = (trial.check_all(&plain), trial.check_all(&checkpointed));
    assert!(less.live_peak_bytes < plain.live_peak_bytes * 3 / 4, "{}\n{}", less.summary(), plain.summary());
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
