//! What nodes read and in which order they are computed.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::error::Result;

use super::super::proto::{GraphProto, NodeProto};
use super::call::fail;
use super::graph::{domain, title};
use super::table::operator;

/// The names that a node reads, those that graphs within it read from outside included.
fn reads(node: &NodeProto) -> Vec<&str> {
    let mut names: Vec<&str> = node.input.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
    for graph in node.attribute.iter().filter_map(|attribute| attribute.g.as_ref()) {
        let own: HashSet<&str> = graph
            .node
            .iter()
            .flat_map(|node| node.output.iter().map(String::as_str))
            .chain(graph.initializer.iter().map(|tensor| tensor.name.as_str()))
            .chain(graph.input.iter().map(|input| input.name.as_str()))
            .collect();
        let within = graph.node.iter().flat_map(reads);
        let outputs = graph.output.iter().map(|output| output.name.as_str());
        names.extend(within.chain(outputs).filter(|name| !own.contains(name)));
    }
    names
}

/// Numbers of nodes in an order in which inputs are computed before their users: that of the file, where it is one.
pub(super) fn order(nodes: &[NodeProto]) -> Result<Vec<usize>> {
    let mut computes = HashMap::new();
    for (number, node) in nodes.iter().enumerate() {
        for output in node.output.iter().filter(|output| !output.is_empty()) {
            computes.insert(output.as_str(), number);
        }
    }
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    let mut missing = vec![0; nodes.len()];
    for (number, node) in nodes.iter().enumerate() {
        let before: BTreeSet<usize> = reads(node).into_iter().filter_map(|name| computes.get(name).copied()).collect();
        missing[number] = before.len();
        before.into_iter().for_each(|before| users[before].push(number));
    }
    let mut ready: BTreeSet<usize> = (0..nodes.len()).filter(|&number| missing[number] == 0).collect();
    let mut order = Vec::with_capacity(nodes.len());
    while let Some(number) = ready.pop_first() {
        order.push(number);
        for &user in &users[number] {
            missing[user] -= 1;
            if missing[user] == 0 {
                ready.insert(user);
            }
        }
    }
    match (0..nodes.len()).find(|&number| missing[number] > 0) {
        None => Ok(order),
        Some(number) => fail(format!("{} waits for its own output: there is a cycle", title(&nodes[number], number))),
    }
}

/// Operators of a graph, and of those within it, that are not known here: each with its domain, if it is another one.
pub(super) fn unsupported(graph: &GraphProto, names: &mut BTreeSet<String>) {
    for node in &graph.node {
        let domain = domain(&node.domain);
        if operator(domain, &node.op_type).is_none() {
            let of = if domain.is_empty() { String::new() } else { format!("{domain}.") };
            names.insert(format!("{of}{}", node.op_type));
        }
        node.attribute.iter().filter_map(|attribute| attribute.g.as_ref()).for_each(|graph| unsupported(graph, names));
    }
}
