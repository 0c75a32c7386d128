//! What a graph's values should be: the f64 reference, as it is and with noise.

use std::collections::{HashMap, HashSet};

use brasa::Tensor;
use brasa::dtype::Scalar;
use brasa::graph::{Binary, NodeRef, Op, ReduceOp, Segments, Unary, reference};

use super::case::SplitMix;

/// Values of inputs, and everything that what is wanted depends on.
pub(crate) struct Expected {
    wanted: Vec<NodeRef>,
    inputs: Vec<(NodeRef, Vec<f64>)>,
    /// Inputs first.
    nodes: Vec<NodeRef>,
}

impl Expected {
    pub(crate) fn new(wanted: Vec<NodeRef>, inputs: &[(Tensor, Vec<f64>)]) -> Self {
        let inputs = inputs.iter().map(|(input, values)| (input.node().clone(), values.clone())).collect();
        let nodes = inputs_first(&wanted);
        Self { wanted, inputs, nodes }
    }

    /// The values of what is wanted.
    pub(crate) fn values(&self) -> Vec<Vec<f64>> {
        self.with_noise(0.0, 0)
    }

    /// The same, but what is computed from data has noise of relative size `noisy`: a function of a value and its node,
    /// so that equal elements of a value stay equal. Trial 0 makes zeros, which noise does not: it rounds to f32 if the
    /// noise is as large as that, else to multiples of 2⁻⁴⁰. What the planner computes ahead from constants alone is
    /// rounded to f32, as devices round it.
    fn with_noise(&self, noisy: f64, trial: u64) -> Vec<Vec<f64>> {
        let mut values: HashMap<u64, Vec<f64>> =
            self.inputs.iter().map(|(node, value)| (node.id, value.clone())).collect();
        let mut constants: HashSet<u64> = HashSet::new();
        for node in &self.nodes {
            let is_constant = is_folded(&node.op) && node.inputs.iter().all(|input| constants.contains(&input.id));
            if !values.contains_key(&node.id) {
                let finite = trial == INSERTED_ZEROS && matches!(node.op, Op::Contract(_));
                let finite = finite.then(|| finite_inputs(node, &values));
                let inputs = finite.as_ref().unwrap_or(&values);
                let mut value = reference::evaluate(std::slice::from_ref(node), inputs).remove(0);
                if is_constant {
                    value.iter_mut().for_each(|element| *element = Scalar::new(node.dtype, *element).to_f64());
                } else if noisy > 0.0 && node.dtype.is_float() && rounds(&node.op) {
                    for element in &mut value {
                        *element = match trial {
                            0 if noisy > f64::from(f32::EPSILON) => f64::from(*element as f32),
                            0 => (*element * GRID).round_ties_even() / GRID,
                            _ => *element * (1.0 + noisy * noise(element.to_bits() ^ (node.id << 20) ^ trial)),
                        };
                    }
                }
                values.insert(node.id, value);
            }
            if is_constant && stays_constant(node, &values) {
                constants.insert(node.id);
            }
        }
        self.wanted.iter().map(|root| values[&root.id].clone()).collect()
    }

    /// Whether the values stay about where they are (within `allowed`) if every rounded operation rounds differently by
    /// `noisy`. Where they do not, a comparison or a maximum is decided by rounding, and there is no one right result;
    /// nor is there where NaN or infinity meets inserted zeros.
    pub(crate) fn is_steady(&self, noisy: f64, allowed: f64) -> bool {
        let expected = self.values();
        // a value that lies on a step crosses it in about every other trial
        (0..=INSERTED_ZEROS).all(|trial| {
            let moved = self.with_noise(noisy, trial);
            moved.iter().zip(&expected).all(|(moved, expected)| first_difference(moved, expected, allowed).is_none())
        })
    }
}

/// Multiples in 1 of what trial 0 rounds to.
const GRID: f64 = (1u64 << 40) as f64;

/// The trial in which products of matrices and convolutions see 0 for what is not finite: whether NaN meets the zeros
/// that a view inserted between or around elements is the planner's choice ([`brasa::semantics`]).
const INSERTED_ZEROS: u64 = 16;

/// The values of a node's inputs with 0 for what is not finite.
fn finite_inputs(node: &NodeRef, values: &HashMap<u64, Vec<f64>>) -> HashMap<u64, Vec<f64>> {
    let finite = |value: &f64| if value.is_finite() { *value } else { 0.0 };
    node.inputs.iter().map(|input| (input.id, values[&input.id].iter().map(finite).collect())).collect()
}

/// All nodes that `roots` depend on, each after its inputs.
fn inputs_first(roots: &[NodeRef]) -> Vec<NodeRef> {
    let mut found: HashMap<u64, NodeRef> = HashMap::new();
    let mut stack = roots.to_vec();
    while let Some(node) = stack.pop() {
        if found.insert(node.id, node.clone()).is_none() {
            stack.extend(node.inputs.iter().cloned());
        }
    }
    let mut nodes: Vec<NodeRef> = found.into_values().collect();
    // numbers grow with creation, and inputs are made first
    nodes.sort_unstable_by_key(|node| node.id);
    nodes
}

/// Whether the planner computes it ahead, in f32, if its inputs are constants.
fn is_folded(op: &Op) -> bool {
    match op {
        Op::Const(_) | Op::Cast | Op::Reshape | Op::View(_) | Op::Custom | Op::Detach | Op::Select => true,
        Op::Unary(op) => matches!(op, Unary::Neg | Unary::Abs | Unary::Not),
        Op::Binary(op) => matches!(op, Binary::Add | Binary::Sub | Binary::Mul | Binary::Div),
        Op::Reduce { op, .. } => *op != ReduceOp::Prod,
        _ => false,
    }
}

/// Whether a node of constants is one to the planner, too, which looks at a view's map and not at what it finds.
fn stays_constant(node: &NodeRef, values: &HashMap<u64, Vec<f64>>) -> bool {
    let value = &values[&node.id];
    let is_uniform = value.windows(2).all(|pair| pair[0] == pair[1]);
    let Op::View(view) = &node.op else { return is_uniform };
    let before = values[&node.inputs[0].id].first();
    let is_whole = view.dims.iter().all(|dim| dim.divisor == 1);
    is_uniform && (before == Some(&view.fill.to_f64()) || is_whole && value.first() == before)
}

/// Whether an op's result is rounded: whether it may come out differently if it is computed in another way.
fn rounds(op: &Op) -> bool {
    match op {
        Op::Unary(op) => {
            !matches!(op, Unary::Neg | Unary::Abs | Unary::Sign | Unary::Floor | Unary::Ceil | Unary::Round)
        }
        Op::Binary(op) => !matches!(op, Binary::Max | Binary::Min),
        Op::Reduce { op, .. } | Op::Segments(Segments { op, .. }) | Op::Scan { op, .. } => {
            matches!(op, ReduceOp::Sum | ReduceOp::Prod)
        }
        Op::Contract(_) => true,
        _ => false,
    }
}

/// A number in -1..1 from bits.
fn noise(bits: u64) -> f64 {
    SplitMix(bits).next() as f64 / (1u64 << 63) as f64 - 1.0
}

/// Where two values differ by more than `allowed` of the largest of them (at least of 1).
pub(crate) fn first_difference(got: &[f64], expected: &[f64], allowed: f64) -> Option<usize> {
    let finite = expected.iter().filter(|value| value.is_finite());
    let scale = finite.fold(1.0_f64, |scale, value| scale.max(value.abs()));
    (0..expected.len()).find(|&index| {
        let (got, expected) = (got[index], expected[index]);
        let same = got == expected || got.is_nan() && expected.is_nan() || (got - expected).abs() <= allowed * scale;
        !same
    })
}
