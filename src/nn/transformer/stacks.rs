//! Stacks of transformer layers.

use crate::error::Result;
use crate::tensor::Tensor;
use crate::variables;

use super::super::{Attention, AttentionMasks, Init, Initial, KeyValueCache, LayerNorm, Module, Variables, fans};
use super::{DecoderCache, TransformerDecoderLayer, TransformerEncoderLayer, TransformerOptions};

/// Layer number `index`.
fn place(init: &Init, index: usize) -> Init {
    init.at(format_args!("layers.{index}"))
}

/// What is behind the layers.
fn last_norm(options: &TransformerOptions, norm: bool, init: &Init) -> Result<Option<LayerNorm>> {
    norm.then(|| options.norm(&init.at("norm"))).transpose()
}

#[track_caller]
fn normed(norm: Option<&LayerNorm>, value: Tensor) -> Tensor {
    match norm {
        Some(norm) => norm.forward(&value),
        None => value,
    }
}

#[track_caller]
fn check_caches(layers: usize, caches: usize) {
    assert!(layers == caches, "transformer: {caches} caches for {layers} layers");
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
    #[track_caller]
    pub fn new(options: TransformerOptions, layers: usize, norm: bool, init: &Init) -> Result<Self> {
        let mut made = Vec::with_capacity(layers);
        for index in 0..layers {
            made.push(TransformerEncoderLayer::new(options, &place(init, index))?);
        }
        Ok(Self { layers: made, norm: last_norm(&options, norm, init)? })
    }

    /// The output with some positions hidden in every layer.
    #[track_caller]
    pub fn forward_masked(&self, input: &Tensor, masks: AttentionMasks<'_>) -> Tensor {
        let mut value = input.clone();
        for layer in &self.layers {
            value = layer.forward_masked(&value, masks);
        }
        normed(self.norm.as_ref(), value)
    }

    /// Room for the keys and values of `sequence` positions in each layer.
    ///
    /// # Errors
    /// If there is no memory for them, they have more elements than 32-bit indices reach, or the device fails.
    pub fn caches(&self, batch: usize, sequence: usize, init: &Init) -> Result<Vec<KeyValueCache>> {
        TransformerEncoderLayer::caches(&self.layers, batch, sequence, init)
    }

    /// The output for new positions alone, of layers whose attention is [`Attention::Causal`]: see
    /// [`attend_next`](super::super::MultiheadAttention::attend_next).
    ///
    /// # Panics
    /// As that, or if there is not one cache for each layer.
    #[track_caller]
    pub fn forward_next(
        &self,
        input: &Tensor,
        position: &Tensor,
        caches: &[KeyValueCache],
        masks: AttentionMasks<'_>,
    ) -> Tensor {
        check_caches(self.layers.len(), caches.len());
        let mut value = input.clone();
        for (layer, cache) in self.layers.iter().zip(caches) {
            value = layer.forward_next(&value, position, cache, masks);
        }
        normed(self.norm.as_ref(), value)
    }
}

variables!(TransformerEncoder: layers, norm);

impl Module for TransformerEncoder {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        self.forward_masked(input, AttentionMasks::default())
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
    #[track_caller]
    pub fn new(options: TransformerOptions, layers: usize, norm: bool, init: &Init) -> Result<Self> {
        let mut made = Vec::with_capacity(layers);
        for index in 0..layers {
            made.push(TransformerDecoderLayer::new(options, &place(init, index))?);
        }
        Ok(Self { layers: made, norm: last_norm(&options, norm, init)? })
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
        normed(self.norm.as_ref(), value)
    }

    /// Room for what each layer keeps of `sequence` positions of its own, and of `memory` positions of an encoder's
    /// output.
    ///
    /// # Errors
    /// If there is no memory for them, they have more elements than 32-bit indices reach, or the device fails.
    pub fn caches(&self, batch: usize, sequence: usize, memory: usize, init: &Init) -> Result<Vec<DecoderCache>> {
        let cache =
            |(number, layer): (usize, &TransformerDecoderLayer)| layer.cache(batch, sequence, memory, &init.at(number));
        self.layers.iter().enumerate().map(cache).collect()
    }

    /// Begins with an encoder's output, of which all that is needed is kept in `caches`.
    ///
    /// # Panics
    /// If there is not one cache for each layer, or they were made for another shape.
    #[track_caller]
    pub fn remember(&self, memory: &Tensor, caches: &[DecoderCache]) {
        check_caches(self.layers.len(), caches.len());
        for (layer, cache) in self.layers.iter().zip(caches) {
            layer.remember(memory, cache);
        }
    }

    /// The output for new positions alone, of layers whose attention is [`Attention::Causal`], given what `caches`
    /// [remember](TransformerDecoder::remember): one captured step writes a text, and its cost does not grow with it. See
    /// [`attend_next`](super::super::MultiheadAttention::attend_next).
    ///
    /// # Panics
    /// As that, or if there is not one cache for each layer.
    ///
    /// ```
    /// use brasa::nn::{Attention, AttentionMasks, Init, Mode, TransformerDecoder, TransformerOptions};
    /// use brasa::{Device, Tensor, no_grad};
    ///
    /// let device = Device::cpu();
    /// let init = Init::new(&device, 0);
    /// let options = TransformerOptions { attention: Attention::Causal, ..TransformerOptions::new(16, 2) };
    /// let decoder = TransformerDecoder::new(options, 2, true, &init.at("decoder"))?;
    /// let (memory, target) = (Tensor::randn([1, 9, 16], &device), Tensor::randn([1, 3, 16], &device));
    /// let none = AttentionMasks::default();
    /// let caches = decoder.caches(1, 8, 9, &init.at("caches"))?;
    /// let (all, last) = no_grad(|| Mode::Evaluate.scope(|| {
    ///     decoder.remember(&memory, &caches);
    ///     let mut last = None;
    ///     for position in 0..3 {
    ///         let word = target.narrow(1, position, 1);
    ///         let position = Tensor::scalar(position as i32, &device);
    ///         last = Some(decoder.forward_next(&word, &position, &caches, none, none));
    ///     }
    ///     (decoder.forward(&target, &memory, none, none), last.unwrap())
    /// }));
    /// assert!(all.narrow(1, 2, 1).allclose(&last, 1e-4, 1e-5)?);
    /// # Ok::<(), brasa::Error>(())
    /// ```
    #[track_caller]
    pub fn forward_next(
        &self,
        input: &Tensor,
        position: &Tensor,
        caches: &[DecoderCache],
        own: AttentionMasks<'_>,
        encoded: AttentionMasks<'_>,
    ) -> Tensor {
        check_caches(self.layers.len(), caches.len());
        let mut value = input.clone();
        for (layer, cache) in self.layers.iter().zip(caches) {
            value = layer.forward_next(&value, position, cache, own, encoded);
        }
        normed(self.norm.as_ref(), value)
    }
}

variables!(TransformerDecoder: layers, norm);

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
    #[track_caller]
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
}

variables!(Transformer: encoder, decoder);
