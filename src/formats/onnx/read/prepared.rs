//! What is made of a file's integers alone, made once: weights that are stored as integers would be turned into floats
//! in each run.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Error, Result};
use crate::runtime::realize;
use crate::tensor::Tensor;

use super::call::{Call, Later, Pass, wanted_by};
use super::graph::{Constant, Graph, Node, Place};
use super::quantized::{Centred, as_f32, dequantized, weights_of};
use super::value::Value;

/// A node that has less to do from now on.
struct Change {
    node: usize,
    made: Tensor,
    /// The input that the tensor takes the place of; else it is the node's output.
    input: Option<usize>,
}

/// Computes what nodes make of constants, and what is left of them; returns how many places there are then.
///
/// # Errors
/// If the device fails.
pub(super) fn prepare(graph: &mut Graph, mut places: usize, pass: &Pass<'_>) -> Result<usize> {
    let known = graph.constants.iter().filter_map(|(place, constant)| match constant {
        Constant::Value(value) => Some((*place, value)),
        Constant::Var(_) => None,
    });
    let known: BTreeMap<Place, &Value> = known.collect();
    let changes: Vec<Change> =
        graph.nodes.iter().enumerate().filter_map(|(number, node)| change(number, node, &known, pass)).collect();
    let nodes: Vec<_> = changes.iter().map(|change| change.made.node().clone()).collect();
    match realize(&nodes) {
        // whoever loads a model in a step has it computed in each of them
        Err(Error::Traced { .. }) => return Ok(places),
        other => other?,
    }
    let mut done = BTreeSet::new();
    for Change { node: number, made, input } in changes {
        let node = &mut graph.nodes[number];
        let place = match input {
            Some(input) => {
                node.inputs[input] = Some(places);
                node.centred = Some(input);
                places += 1;
                places - 1
            }
            None => {
                done.insert(number);
                node.outputs[0].expect("it has an output")
            }
        };
        graph.constants.push((place, Constant::Value(made.into())));
    }
    let mut number = 0..;
    graph.nodes.retain(|_| number.next().is_none_or(|number| !done.contains(&number)));
    let mut wanted: BTreeSet<Place> = graph.outputs.iter().copied().collect();
    wanted_by(&graph.nodes, &mut wanted);
    graph.constants.retain(|(place, constant)| matches!(constant, Constant::Var(_)) || wanted.contains(place));
    Ok(places)
}

/// What can be computed of a node now, if it is anything. What is wrong with it shows when the model runs.
fn change(number: usize, node: &Node, known: &BTreeMap<Place, &Value>, pass: &Pass<'_>) -> Option<Change> {
    let inputs: Vec<Option<Value>> =
        node.inputs.iter().map(|place| place.and_then(|place| known.get(&place).copied().cloned())).collect();
    let is_known = |input: usize| match node.inputs.get(input) {
        Some(Some(_)) => inputs[input].is_some(),
        _ => true,
    };
    let later = Later { nodes: &[], outputs: &[], values: &[] };
    let call = Call { node, inputs: &inputs, pass, later };
    match node.operator.name {
        "DequantizeLinear" if (0..3).all(is_known) && node.outputs.first().is_some_and(Option::is_some) => {
            Some(Change { node: number, made: dequantized(&call).ok()?, input: None })
        }
        name => {
            let (input, zero) = weights_of(name)?;
            let is_there = inputs.get(input).is_some_and(Option::is_some);
            if !is_there || !is_known(zero) {
                return None;
            }
            let made = as_f32(&Centred::weights(&call).ok()?.values);
            Some(Change { node: number, made, input: Some(input) })
        }
    }
}
