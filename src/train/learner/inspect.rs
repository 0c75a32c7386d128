//! What a model says about single samples, its gradients, and its graph: outside of captured steps, now and then.

use crate::data::{Batch, Received};
use crate::error::Result;
use crate::formats::tensorboard::GraphNode;
use crate::graph::{Program, ProgramNode, op_name};
use crate::nn::{Mode, freeze_statistics};
use crate::runtime::{preview, realize};
use crate::tensor::{Tensor, no_grad};

use super::Learner;

/// What a model says about one sample: a class, or one for each pixel.
pub(in crate::train) struct Prediction(Vec<u8>, Option<u32>);

impl Prediction {
    /// The class of each pixel.
    pub(in crate::train) fn classes(&self) -> Vec<u8> {
        self.0.clone()
    }

    /// The sample's class.
    pub(in crate::train) fn class(&self) -> Option<u32> {
        self.1
    }
}

impl Learner {
    /// What the model says about the samples of `batch`.
    pub(in crate::train) fn predict(&self, batch: &Batch) -> Result<Vec<Prediction>> {
        let said = no_grad(|| {
            Mode::Evaluate.scope(|| {
                let Received { inputs, .. } = self.formats[1].receive(&self.upload(batch)?);
                Ok::<_, crate::Error>(self.numbers.forward(self.model(), &inputs).argmax(1))
            })
        })?;
        let classes = said.to_vec::<i32>()?;
        let each = classes.len() / batch.rows().max(1);
        let prediction = |said: &[i32]| match said {
            &[class] if !self.segments() => Prediction(Vec::new(), u32::try_from(class).ok()),
            pixels => Prediction(pixels.iter().map(|&class| class as u8).collect(), None),
        };
        Ok(classes.chunks_exact(each.max(1)).take(batch.samples).map(prediction).collect())
    }

    /// The gradient of the loss of `batch` by each parameter, with the running statistics of batch norms.
    pub(in crate::train) fn gradients(&self, batch: &Batch) -> Result<Vec<(String, Vec<f32>)>> {
        let Received { inputs, labels, .. } = self.formats[1].receive(&self.upload(batch)?);
        let logits = Mode::Evaluate.scope(|| freeze_statistics(|| self.numbers.forward(self.model.as_ref(), &inputs)));
        let gradients = self.question.loss(&logits, &labels).backward();
        let parameters = self.model.parameters();
        let named = parameters.iter().filter_map(|own| Some((own.name().to_owned(), gradients.get(&own.tensor())?)));
        let named: Vec<(String, Tensor)> = named.collect();
        // all at once: each of them shares most of its work with the others
        realize(&named.iter().map(|(_, gradient)| gradient.node().clone()).collect::<Vec<_>>())?;
        named.into_iter().map(|(name, gradient)| Ok((name, gradient.to_vec::<f32>()?))).collect()
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
        op: op_name(&node.op),
        inputs: node.inputs.iter().map(|&input| name(input)).collect(),
        shape: node.shape.to_vec(),
    };
    program.nodes.iter().enumerate().map(node).collect()
}
