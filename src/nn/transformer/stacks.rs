//! Stacks of transformer layers.

use crate::error::Result;
use crate::runtime::Var;
use crate::tensor::Tensor;

use super::super::{Attention, AttentionMasks, Init, Initial, LayerNorm, Module, fans};
use super::{TransformerDecoderLayer, TransformerEncoderLayer, TransformerOptions};

/// `layers.0` and so on, and `norm` behind them.
fn stack<L>(
    options: TransformerOptions,
    layers: usize,
    norm: bool,
    init: &Init,
    layer: impl Fn(TransformerOptions, &Init) -> Result<L>,
) -> Result<(Vec<L>, Option<LayerNorm>)> {
    let layers =
        (0..layers).map(|index| layer(options, &init.at(format_args!("layers.{index}")))).collect::<Result<_>>()?;
    Ok((layers, norm.then(|| options.norm(&init.at("norm"))).transpose()?))
}

/// Encoder layers one after the other, `layers.0` and so on, and `norm` at the end if there is one: PyTorch's
/// `TransformerEncoder`.
#[derive(Debug)]
pub struct TransformerEncoder {
    /// The layers.
    pub layers: Vec<TransformerEncoderLayer>,
    /// Behind them.
    pub norm: Option<LayerNorm>,
}

impl TransformerEncoder {
    /// `layers` layers, all with these options, followed by a norm if `norm`.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    pub fn new(options: TransformerOptions, layers: usize, norm: bool, init: &Init) -> Result<Self> {
        let (layers, norm) = stack(options, layers, norm, init, TransformerEncoderLayer::new)?;
        Ok(Self { layers, norm })
    }

    /// The output with some positions hidden in every layer.
    #[track_caller]
    pub fn forward_masked(&self, input: &Tensor, masks: AttentionMasks<'_>) -> Tensor {
        let mut value = input.clone();
        for layer in &self.layers {
            value = layer.forward_masked(&value, masks);
        }
        match &self.norm {
            Some(norm) => norm.forward(&value),
            None => value,
        }
    }
}

impl Module for TransformerEncoder {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        self.forward_masked(input, AttentionMasks::default())
    }

    fn visit(&self, visitor: &mut dyn FnMut(&Var)) {
        self.layers.iter().for_each(|layer| layer.visit(visitor));
        self.norm.iter().for_each(|norm| norm.visit(visitor));
    }
}

/// Decoder layers one after the other, `layers.0` and so on, and `norm` at the end: PyTorch's `TransformerDecoder`.
#[derive(Debug)]
pub struct TransformerDecoder {
    /// The layers.
    pub layers: Vec<TransformerDecoderLayer>,
    /// Behind them.
    pub norm: Option<LayerNorm>,
}

impl TransformerDecoder {
    /// `layers` layers, all with these options, followed by a norm if `norm`.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    pub fn new(options: TransformerOptions, layers: usize, norm: bool, init: &Init) -> Result<Self> {
        let (layers, norm) = stack(options, layers, norm, init, TransformerDecoderLayer::new)?;
        Ok(Self { layers, norm })
    }

    /// The output for `input` and an encoder's output `memory`; masks for each attention of every layer.
    #[track_caller]
    pub fn forward(
        &self,
        input: &Tensor,
        memory: &Tensor,
        own: AttentionMasks<'_>,
        encoded: AttentionMasks<'_>,
    ) -> Tensor {
        let mut value = input.clone();
        for layer in &self.layers {
            value = layer.forward(&value, memory, own, encoded);
        }
        match &self.norm {
            Some(norm) => norm.forward(&value),
            None => value,
        }
    }

    /// Calls `visitor` with each variable.
    pub fn visit(&self, visitor: &mut dyn FnMut(&Var)) {
        self.layers.iter().for_each(|layer| layer.visit(visitor));
        self.norm.iter().for_each(|norm| norm.visit(visitor));
    }
}

/// An encoder and a decoder, both with a norm at the end: PyTorch's `Transformer` (Vaswani et al., arXiv 1706.03762).
#[derive(Debug)]
pub struct Transformer {
    /// Of the source.
    pub encoder: TransformerEncoder,
    /// Of the target, which looks at the encoder's output.
    pub decoder: TransformerDecoder,
}

impl Transformer {
    /// Both stacks with these options, whose `attention` is that of the target to itself; matrices are drawn
    /// by Glorot's uniform rule, as in PyTorch.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    pub fn new(options: TransformerOptions, encoders: usize, decoders: usize, init: &Init) -> Result<Self> {
        let full = TransformerOptions { attention: Attention::Full, ..options };
        let made = Self {
            encoder: TransformerEncoder::new(full, encoders, true, &init.at("encoder"))?,
            decoder: TransformerDecoder::new(options, decoders, true, &init.at("decoder"))?,
        };
        let mut drawn = Ok(());
        made.visit(&mut |variable| {
            if variable.shape().rank() > 1 && drawn.is_ok() {
                let (inputs, outputs) = fans(variable.shape());
                drawn = init.redraw(variable, Initial::xavier_uniform(inputs, outputs));
            }
        });
        drawn.map(|()| made)
    }

    /// The output for a target, `[batch, sequence, width]`, given a source, `[batch, sequence', width]`; masks for what
    /// either sees of itself, and for what the target sees of the source.
    #[track_caller]
    pub fn forward(
        &self,
        source: &Tensor,
        target: &Tensor,
        [of_source, of_target, of_memory]: [AttentionMasks<'_>; 3],
    ) -> Tensor {
        let memory = self.encoder.forward_masked(source, of_source);
        self.decoder.forward(target, &memory, of_target, of_memory)
    }

    /// Calls `visitor` with each variable.
    pub fn visit(&self, visitor: &mut dyn FnMut(&Var)) {
        self.encoder.visit(visitor);
        self.decoder.visit(visitor);
    }
}
