//! The values that a graph has so far, with what they are in f64.

use std::collections::{HashMap, HashSet};

use brasa::graph::reference;
use brasa::{DType, Tensor};

use super::build::{Graph, LARGEST_GRADIENT};
use super::case::Choice;
use super::draw::Draw;
use super::rows::ROWS;
use super::state::State;

/// No value is of a larger size.
const LARGEST: f64 = 8.0;
/// No integer is larger.
const LARGEST_INTEGER: f64 = 300.0;
/// Elements of the largest value: the reference and the interpreter go point by point.
const ELEMENTS: usize = 400;
/// Values that nothing was made of, which a graph has as outputs.
const SINKS: usize = 6;

pub(crate) struct Pool<'a> {
    pub(crate) values: Vec<Tensor>,
    known: HashMap<u64, Vec<f64>>,
    used: HashSet<u64>,
    drawn: Vec<&'static str>,
    half: bool,
    inputs: usize,
    pub(crate) state: Option<&'a State>,
}

impl<'a> Pool<'a> {
    pub(crate) fn new(inputs: &[(Tensor, Vec<f64>)], state: Option<&'a State>) -> Self {
        let known = inputs.iter().map(|(tensor, values)| (tensor.node().id, values.clone())).collect();
        // floats last, where they are found first
        let mut values: Vec<Tensor> = inputs.iter().map(|(tensor, _)| tensor.clone()).rev().collect();
        let half = values.iter().any(|value| value.dtype() == DType::F16);
        if let Some(state) = state {
            values.extend(state.variables().into_iter().map(|variable| variable.tensor()));
        }
        let inputs = values.len();
        Self { values, known, used: HashSet::new(), drawn: Vec::new(), half, inputs, state }
    }

    /// What `tensor` is, in f64.
    pub(crate) fn known(&mut self, tensor: &Tensor) -> &[f64] {
        let id = tensor.node().id;
        if !self.known.contains_key(&id) {
            let value = reference::evaluate(std::slice::from_ref(tensor.node()), &self.known).remove(0);
            self.known.insert(id, value);
        }
        &self.known[&id]
    }

    /// The largest size of an element; infinite if one is not finite.
    fn largest(&mut self, tensor: &Tensor) -> f64 {
        let size = |value: &f64| if value.is_finite() { value.abs() } else { f64::INFINITY };
        self.known(tensor).iter().map(size).fold(0.0, f64::max)
    }

    /// Whether a gradient can be compared.
    pub(crate) fn is_tame(&mut self, gradient: &Tensor) -> bool {
        self.largest(gradient) < LARGEST_GRADIENT
    }

    /// Whether all elements lie within `low..=high`.
    pub(crate) fn is_within(&mut self, tensor: &Tensor, low: f64, high: f64) -> bool {
        self.known(tensor).iter().all(|value| (low..=high).contains(value))
    }

    pub(crate) fn use_up(&mut self, tensor: &Tensor) {
        self.used.insert(tensor.node().id);
    }

    pub(crate) fn has_half(&self) -> bool {
        self.half
    }

    /// Draws one row and keeps its results as far as they are of a size to go on with.
    pub(crate) fn apply(&mut self, choice: &Choice) {
        let row = &ROWS[usize::from(choice.row) % ROWS.len()];
        let results = row.results(&mut Draw::new(self, &choice.bytes));
        let mut kept = false;
        for result in results {
            kept |= self.keep(result);
        }
        if kept {
            self.drawn.push(row.name);
        }
    }

    fn keep(&mut self, value: Tensor) -> bool {
        if value.numel() > ELEMENTS || value.rank() > 8 || value.dtype() == DType::F16 && !self.half {
            return false;
        }
        let largest = self.largest(&value);
        let tamed = match value.dtype() {
            DType::F32 | DType::F16 if !largest.is_finite() => return false,
            DType::F32 | DType::F16 if largest > LARGEST => &value * (LARGEST / 2.0 / largest),
            DType::I32 | DType::U32 if largest > LARGEST_INTEGER => value.remainder(97),
            _ => value,
        };
        self.known(&tamed);
        self.values.push(tamed);
        true
    }

    /// The last values that no other is made of.
    pub(crate) fn sinks(&self) -> Vec<Tensor> {
        let made = &self.values[self.inputs..];
        let sinks = made.iter().rev().filter(|value| !self.used.contains(&value.node().id));
        sinks.take(SINKS).cloned().collect()
    }

    pub(crate) fn into_graph(self, outputs: Vec<Tensor>) -> Graph {
        Graph { outputs, drawn: self.drawn, half: self.half }
    }
}
