//! What a model says about single samples, its gradients, and its graph: outside of captured steps, now and then.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use crate::data::{Batch, Goal, Received};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::formats::tensorboard::GraphNode;
use crate::graph::{Binary, NodeRef, Op, Program, ProgramNode, op_name};
use crate::nn::{Mode, freeze_statistics};
use crate::runtime::{Var, preview, realize};
use crate::shape::Shape;
use crate::tensor::{Tensor, no_grad};

use super::Learner;

/// Likeliest classes that are told, unless somebody asks for more.
pub(in crate::train) const LIKELIEST: usize = 5;
/// Most values of a module that are read.
const MAX_VALUES: usize = 1 << 20;

/// What a model says about one sample.
#[derive(Clone, Default)]
pub(in crate::train) struct Prediction {
    /// The class of each pixel, in segmentation.
    pub(in crate::train) mask: Vec<u8>,
    /// The likeliest classes of the sample with their probabilities, likeliest first; none but in classification.
    pub(in crate::train) likeliest: Vec<(u32, f32)>,
    /// The numbers in their own units, in regression.
    pub(in crate::train) numbers: Vec<f32>,
    /// The mean over its targets of minus the logarithm of the probability of the right class, or of what numbers are
    /// missed by as the run's loss has it.
    pub(in crate::train) loss: f32,
    /// Part of its targets that are right; 0 in regression.
    pub(in crate::train) accuracy: f32,
}

/// What goes on in a model for some samples, by name.
pub(in crate::train) struct Inside {
    /// The gradient of the loss by each parameter.
    pub(in crate::train) gradients: Vec<(String, Vec<f32>)>,
    /// What each layer gives.
    pub(in crate::train) activations: Vec<(String, Vec<f32>)>,
    /// For each layer that a ReLU follows, the part of its units (channels, features) that are 0 behind it everywhere.
    pub(in crate::train) dead: Vec<(String, f32)>,
}

impl Learner {
    /// What the model that is evaluated says about the samples of `batch`.
    pub(in crate::train) fn predict(&self, batch: &Batch) -> Result<Vec<Prediction>> {
        let (logits, labels) = no_grad(|| {
            Mode::Evaluate.scope(|| {
                let Received { inputs, labels, .. } = self.formats[1].receive(&self.upload(batch)?);
                Ok::<_, Error>((self.numbers.forward(self.model(), &inputs).to_dtype(DType::F32), labels.classes))
            })
        })?;
        match self.formats[0].description.goal {
            Goal::Segment => self.masks(&logits, &labels),
            Goal::Classify => classes(&logits, &labels),
            Goal::Regress => self.numbers_of(&logits, &labels),
        }
    }

    fn numbers_of(&self, said: &Tensor, numbers: &Tensor) -> Result<Vec<Prediction>> {
        let losses = no_grad(|| self.question.loss_of_numbers(said, numbers).mean_dim(1));
        realize(&[said, &losses].map(|tensor| tensor.node().clone()))?;
        let (mut said, losses, width) = (said.to_vec::<f32>()?, losses.to_vec::<f32>()?, self.question.classes);
        if let Some(scales) = &self.question.scales {
            scales.restore(&mut said);
        }
        let prediction =
            |(said, loss): (&[f32], f32)| Prediction { numbers: said.to_vec(), loss, ..Prediction::default() };
        Ok(said.chunks_exact(width.max(1)).zip(losses).map(prediction).collect())
    }

    fn masks(&self, logits: &Tensor, labels: &Tensor) -> Result<Vec<Prediction>> {
        let (said, [losses, right, counts]) = no_grad(|| self.question.by_sample(logits, labels));
        let wanted = [&said, &losses, &right, &counts].map(|tensor| tensor.node().clone());
        realize(&wanted)?;
        let said = said.to_vec::<i32>()?;
        let [losses, right, counts] = [losses.to_vec::<f32>()?, right.to_vec()?, counts.to_vec()?];
        let pixels = said.len() / losses.len().max(1);
        let prediction = |(row, said): (usize, &[i32])| Prediction {
            mask: said.iter().map(|&class| class as u8).collect(),
            loss: losses[row] / counts[row].max(1.0),
            accuracy: right[row] / counts[row].max(1.0),
            ..Prediction::default()
        };
        Ok(said.chunks_exact(pixels.max(1)).enumerate().map(prediction).collect())
    }

    /// What goes on in the model that learns, with the running statistics of batch norms, for `batch`.
    pub(in crate::train) fn inside(&self, batch: &Batch) -> Result<Inside> {
        let Received { inputs, labels, .. } = self.formats[1].receive(&self.upload(batch)?);
        let logits = Mode::Evaluate.scope(|| freeze_statistics(|| self.numbers.forward(self.model.as_ref(), &inputs)));
        let layers = layers(logits.node());
        let first = |node: &NodeRef| {
            let rows = node.shape[0];
            let fitting = (MAX_VALUES * rows / node.shape.numel().max(1)).clamp(1, rows.max(1));
            Tensor::from_node(node.clone()).detach().narrow(0, 0, fitting.min(rows)).to_dtype(DType::F32)
        };
        let named = |nodes: &BTreeMap<Arc<str>, NodeRef>| -> Vec<(String, Tensor)> {
            let of_samples =
                nodes.iter().filter(|(_, node)| node.shape.first() == Some(&batch.rows()) && node.dtype.is_float());
            of_samples.map(|(name, node)| (name.to_string(), first(node))).collect()
        };
        let (activations, rectified) = (named(&layers.last), named(&layers.rectified));
        let gradients = self.question.loss(&logits, &labels).mean.backward();
        let parameters = self.model.parameters();
        let gradient = |own: &Var| Some((own.name().to_owned(), gradients.get(&own.tensor())?));
        let gradients: Vec<(String, Tensor)> = parameters.iter().filter_map(gradient).collect();
        // all at once: each of them shares most of its work with the others
        let all = gradients.iter().chain(&activations).chain(&rectified);
        realize(&all.map(|(_, tensor)| tensor.node().clone()).collect::<Vec<_>>())?;
        let read = |named: Vec<(String, Tensor)>| -> Result<Vec<(String, Vec<f32>)>> {
            named.into_iter().map(|(name, tensor)| Ok((name, tensor.to_vec::<f32>()?))).collect()
        };
        let dead = |(name, tensor): (String, Tensor)| Ok((name, dead_part(tensor.shape(), &tensor.to_vec::<f32>()?)));
        Ok(Inside {
            gradients: read(gradients)?,
            activations: read(activations)?,
            dead: rectified.into_iter().map(dead).collect::<Result<_>>()?,
        })
    }

    /// The model's graph for one sample, in evaluation.
    pub(in crate::train) fn graph(&self) -> Result<Vec<GraphNode>> {
        let signature = self.formats[1].signature(1);
        let (info, _) = preview(&self.device, &signature, |inputs| {
            let Received { inputs, .. } = self.formats[1].receive(inputs);
            vec![Mode::Evaluate.scope(|| self.numbers.forward(self.model(), &inputs))]
        })?;
        Ok(nodes(&info.program))
    }

    /// An error if one of these batches has a single sample and a batch norm finds one value for each channel in it.
    pub(in crate::train) fn check_rows(&self, rows: &[usize]) -> Result<()> {
        let is_single = |&rows: &usize| self.parts(rows).contains(&1);
        if self.numbers.statistics_frozen || !rows.iter().any(is_single) {
            return Ok(());
        }
        let (info, _) = preview(&self.device, &self.formats[1].signature(1), |inputs| {
            let Received { inputs, .. } = self.formats[1].receive(inputs);
            vec![Mode::Evaluate.scope(|| self.numbers.forward(self.learning_model(), &inputs))]
        })?;
        for variable in self.learning_model().variables() {
            let Some(layer) = variable.name().strip_suffix(".running_mean") else { continue };
            let of_layer = |node: &&ProgramNode| node.module.as_deref() == Some(layer);
            let last = info.program.nodes.iter().rfind(of_layer);
            if last.is_some_and(|node| node.shape.numel() == variable.shape().numel()) {
                return Err(Error::Config(format!(
                    "batch-size: in a batch of one sample `{layer}`, a batch norm, finds one value for each channel, which has no \
                     variance: train with 2 samples or more in a batch (on each device), on larger pictures, or with \
                     freeze-statistics"
                )));
            }
        }
        Ok(())
    }

    pub(super) fn upload(&self, batch: &Batch) -> Result<Vec<Tensor>> {
        let upload = |(shape, dtype, bytes)| Tensor::from_bytes(bytes, shape, dtype, &self.device);
        batch.uploads().into_iter().map(upload).collect()
    }
}

/// The nodes of a program, named by module.
fn nodes(program: &Program) -> Vec<GraphNode> {
    let name = |number: usize| {
        let node: &ProgramNode = &program.nodes[number];
        let module = node.module.as_deref().unwrap_or_default().replace('.', "/");
        let separator = if module.is_empty() { "" } else { "/" };
        // names are made of letters, digits and a few signs
        let kind: String = op_name(&node.op).chars().take_while(|sign| sign.is_ascii_alphanumeric()).collect();
        format!("{module}{separator}{kind}_{number}")
    };
    let node = |(number, node): (usize, &ProgramNode)| GraphNode {
        name: name(number),
        op: op_name(&node.op).into_owned(),
        inputs: node.inputs.iter().map(|&input| name(input)).collect(),
        shape: node.shape.to_vec(),
    };
    program.nodes.iter().enumerate().map(node).collect()
}

/// What logits `[rows, classes]` say about samples of these classes.
fn classes(logits: &Tensor, labels: &Tensor) -> Result<Vec<Prediction>> {
    let logarithms = no_grad(|| logits.log_softmax(1));
    let (count, values, labels) = (logits.shape()[1], logarithms.to_vec::<f32>()?, labels.to_vec::<i32>()?);
    let prediction = |(logarithms, label): (&[f32], i32)| {
        let likeliest = likeliest(logarithms, LIKELIEST);
        Prediction {
            loss: -logarithms[label as usize],
            accuracy: likeliest.first().is_some_and(|&(class, _)| class as i32 == label).into(),
            likeliest,
            ..Prediction::default()
        }
    };
    Ok(values.chunks_exact(count.max(1)).zip(labels).map(prediction).collect())
}

/// So many of the likeliest classes with their probabilities, from the logarithms of all.
pub(in crate::train) fn likeliest(logarithms: &[f32], most: usize) -> Vec<(u32, f32)> {
    let mut order: Vec<u32> = (0..logarithms.len() as u32).collect();
    // of equal ones the first, as `argmax` has it
    order.sort_by(|&a, &b| logarithms[b as usize].total_cmp(&logarithms[a as usize]));
    order.truncate(most);
    order.into_iter().map(|class| (class, logarithms[class as usize].exp())).collect()
}

/// The layers of a graph.
#[derive(Default)]
struct Layers {
    /// The last node of each.
    last: BTreeMap<Arc<str>, NodeRef>,
    /// The ReLU behind it.
    rectified: BTreeMap<Arc<str>, NodeRef>,
}

/// The layers behind `result`: nodes that were traced in a module.
fn layers(result: &NodeRef) -> Layers {
    let mut nodes = Vec::new();
    let (mut seen, mut stack) = (HashSet::new(), vec![result.clone()]);
    while let Some(node) = stack.pop() {
        if node.source.is_none() && seen.insert(node.id) {
            stack.extend(node.inputs.iter().cloned());
            nodes.push(node);
        }
    }
    // numbers grow from what is computed first
    nodes.sort_by_key(|node| node.id);
    let mut layers = Layers::default();
    for node in nodes {
        if let Some(module) = &node.module {
            layers.last.insert(module.clone(), node.clone());
        }
        if let Some(of) = is_relu(&node).then(|| layer_of(&node)).flatten() {
            layers.rectified.entry(of).or_insert(node);
        }
    }
    layers
}

/// Whether a node is `max(x, 0)` with a rule for its gradient: what [`Tensor::relu`] makes.
fn is_relu(node: &NodeRef) -> bool {
    matches!(node.op, Op::Custom) && matches!(node.inputs[0].op, Op::Binary(Binary::Max))
}

/// The module of the node, or of the nearest one on the way back.
fn layer_of(node: &NodeRef) -> Option<Arc<str>> {
    let mut node = node;
    loop {
        if let Some(module) = &node.module {
            return Some(module.clone());
        }
        node = node.inputs.first()?;
    }
}

/// The part of the units, along the second axis, that are 0 everywhere.
fn dead_part(shape: &Shape, values: &[f32]) -> f32 {
    let [_, units, inner @ ..] = &shape[..] else { return 0.0 };
    let inner: usize = inner.iter().product();
    let mut alive = vec![false; *units];
    for (at, &value) in values.iter().enumerate() {
        alive[at / inner.max(1) % units] |= value != 0.0;
    }
    alive.iter().filter(|&&alive| !alive).count() as f32 / (*units).max(1) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likeliest_come_first_and_of_equal_ones_the_first() {
        let logarithms = [0.1_f32, 0.2, 0.2, 0.05, 0.15, 0.3].map(f32::ln);
        let classes: Vec<u32> = likeliest(&logarithms, LIKELIEST).into_iter().map(|(class, _)| class).collect();
        assert_eq!(classes, [5, 1, 2, 4, 0]);
    }

    #[test]
    fn a_unit_is_dead_if_it_is_0_in_all_samples() {
        let values = [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 2.0];
        assert_eq!(dead_part(&Shape::from([2, 3, 2]), &values), 1.0 / 3.0);
    }
}
