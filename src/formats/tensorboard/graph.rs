//! A graph as TensorBoard draws it.

use std::collections::BTreeMap;

use super::proto::{Attr, AttrValue, Dim, GraphDef, ListValue, NodeDef, TensorShape, VersionDef};

/// One node of a graph. Names are paths: what is before a `/` is drawn as one box that opens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GraphNode {
    /// Its name, which no other node has.
    pub name: String,
    /// What it does.
    pub op: String,
    /// Names of the nodes it takes.
    pub inputs: Vec<String>,
    /// Shape of its value.
    pub shape: Vec<usize>,
}

pub(super) fn message(nodes: &[GraphNode]) -> GraphDef {
    let node = |node: &GraphNode| {
        let dim = node.shape.iter().map(|&size| Dim { size: size as i64 }).collect();
        let shape = Attr::List(ListValue { shape: vec![TensorShape { dim }] });
        NodeDef {
            name: node.name.clone(),
            op: node.op.clone(),
            input: node.inputs.clone(),
            device: String::new(),
            attr: BTreeMap::from([("_output_shapes".to_owned(), AttrValue { value: Some(shape) })]),
        }
    };
    GraphDef { node: nodes.iter().map(node).collect(), versions: Some(VersionDef { producer: 22 }) }
}
